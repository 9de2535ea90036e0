"""What the queues say of their models, and how it is told: load, demand, what a replica carries, what is kept."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from reconciler.decision.engines.port import EngineAnswer
from reconciler.decision.engines.queueing.capacities import Capacities, ReplicaCapacity
from reconciler.decision.problem.formulation import FormulatedProblem, ModelDemand, ModelProblem
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.problem.needs import Allocations
from reconciler.decision.problem.terms import idle_replicas
from reconciler.decision.spans import ago, span
from reconciler.decision.variant_states import VariantState
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.measured.loads import Performance
from reconciler.domain.plan import Step
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.snapshot import Option, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.sizing.learning.correction import Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer(EngineAnswer):
    """The sized candidates, what learned profiles were corrected by, and what the models need."""

    capacities: Capacities
    corrections: Mapping[ResourceKey, Correction]
    problems: Mapping[ModelKey, ModelProblem]

    def expect(self, rates: Collection[tuple[CandidateKey, float]]) -> Mapping[CandidateKey, Performance]:
        return self.capacities.expect(rates)

    def max_batch_size(self, candidate: CandidateKey) -> int | None:
        capacity = self.capacities.of.get(candidate)
        return None if capacity is None else capacity.max_batch_size

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterator[Step]:
        yield from _load_steps(state, formulated.demands.get(state.variant.model))
        for option in state.variant.options:
            key = state.variant.key.on(option.accelerator)
            capacity = self.capacities.of.get(key)
            if capacity is not None:
                yield _capacity_step(option, capacity)
                yield from _learned_steps(option)
        correction = self.corrections.get(state.variant.key)
        if correction is not None and self.capacities.of:
            yield Step(stage="correction", before="", after=f"x {correction.factor:.2f}", reason=correction.reason)

    def why(self, variant: Variant, desired: Allocation) -> str:
        return "no arrivals: the fewest replicas allowed" if desired.replicas else "no arrivals, and none run"

    def why_kept(self, variant: Variant, desired: Allocation, formulated: FormulatedProblem, after: Allocations) -> str:
        demand, needs = formulated.demands.get(variant.model), formulated.needs
        if demand is None or demand.variation is None or desired != variant.current or not desired.replicas:
            return ""
        variation, requirement = demand.variation, needs.of_variant(variant.key)
        if requirement is None or requirement.fixed is not None:
            is_paused = (
                requirement is not None and variation.peak_per_s > 0 and desired.replicas > idle_replicas(variant)
            )
            return _was_asked(variation) if is_paused else ""
        each = (needs.carried(variant.key, desired) or 0.0) / desired.replicas
        rest = needs.total(variant.model, after) - each
        bounds = formulated.problem.bounds.get(variant.key)
        is_least = bounds is not None and desired.replicas <= bounds.minimum
        if each <= 0 or rest < demand.rate_per_s or rest >= demand.stabilized.amount_per_s or is_least:
            return ""
        if rest < demand.stabilized.kept_per_s:
            return _was_asked(variation)
        return _may_come_back(variation, rest / (1 + demand.headroom))


def _load_steps(state: VariantState, demand: ModelDemand | None) -> Iterator[Step]:
    load = state.load
    if load is None or demand is None:
        return
    observed, share = f"{load.arrival_rate_per_s:.4g} req/s", state.variant.share
    routed = "" if share is None else f"; {share * 100:.4g} % of its model's, by route weight"
    yield Step(
        stage="load",
        before="",
        after=observed,
        reason=f"arrivals from {load.arrivals_from}, {load.window_s / 60:g}m window; "
        f"{load.output_tokens:.4g} output tokens a request{routed}",
    )
    yield Step(
        stage="demand",
        before=observed,
        after=f"{demand.rate_per_s:.4g} req/s",
        reason=f"load and {demand.headroom * 100:g} % headroom",
    )
    if demand.variation is not None:
        yield _variation_step(demand, demand.variation)


def _variation_step(demand: ModelDemand, variation: LoadVariation) -> Step:
    """What must be carried beyond the demand of now, for what the load did before."""
    words = (
        f"peak {variation.peak_per_s:.4g} req/s {ago(variation.peak_age_s)} in the last {span(variation.payback_s)}; "
        f"mean {variation.mean_per_s:.4g}, standard deviation {variation.deviation_per_s:.2g}"
    )
    before, after = f"{demand.rate_per_s:.4g} req/s", f"{demand.stabilized.amount_per_s:.4g} req/s"
    return Step(stage="variation", before=before, after=after, reason=words)


def _capacity_step(option: Option, capacity: ReplicaCapacity) -> Step:
    words = f"one replica on {_taken(option)}: {capacity.words} ({_parameters(option.profile, capacity)})"
    return Step(stage="capacity", before="", after=f"{capacity.rate_per_s:.4g} req/s", reason=words)


def _taken(option: Option) -> str:
    """`H100`, or `2 x H100` where a replica takes several."""
    several = option.accelerators_per_replica > 1
    return f"{option.accelerators_per_replica} x {option.accelerator}" if several else option.accelerator


def _parameters(profile: PerformanceProfile, capacity: ReplicaCapacity) -> str:
    """The profile's times in words: what an iteration takes, and a prompt."""
    alpha, beta = ms_from_seconds(profile.alpha_s), ms_from_seconds(profile.beta_s)
    known = [f"an iteration takes {alpha:.4g} ms and {beta:.4g} ms a request"]
    if profile.gamma_s is not None:
        each = f" and {ms_from_seconds(profile.delta_s):.4g} ms a token" if profile.delta_s is not None else ""
        known.append(f"a prompt {ms_from_seconds(profile.gamma_s):.4g} ms{each}")
    if profile.prompt_s is not None:
        known.append(f"{ms_from_seconds(profile.prompt_s):.4g} ms a prompt token, {profile.token_budget} an iteration")
    return ", ".join((*known, f"at most {capacity.max_batch_size} requests"))


def _learned_steps(option: Option) -> list[Step]:
    """How good a learned profile is, and what it covers."""
    learning = option.profile.learning
    if learning is None:
        return []
    ranges = (
        f"batch {_range(learning.batch)}, {_range(learning.input_tokens)} input and "
        f"{_range(learning.output_tokens)} output tokens"
    )
    words = f"from {learning.samples} samples, median error {learning.error * 100:.3g} %, {ranges}"
    return [Step(stage="learned", before="", after=learning.on, reason=words)]


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} to {ends[1]:.4g}"


def _was_asked(variation: LoadVariation) -> str:
    asked = f"{variation.peak_per_s:.4g} req/s were asked for {ago(variation.peak_age_s)}"
    return f"kept: {asked}; payback {span(variation.payback_s)}"


def _may_come_back(variation: LoadVariation, rest_per_s: float) -> str:
    return (
        f"kept: without it {rest_per_s:.4g} req/s would be carried, too near to the mean of {variation.mean_per_s:.4g} "
        f"for a standard deviation of {variation.deviation_per_s:.2g}; payback {span(variation.payback_s)}"
    )
