"""The engine `saturation`: sizes by how full replicas are, where there is no profile or service class."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean, median

import numpy as np

from reconciler.decision.devices import Devices
from reconciler.decision.engines.port import (
    Admission,
    Basis,
    EngineAnswer,
    EngineQuestion,
    Lacks,
    Models,
    Safeguards,
    SizingEngine,
    SizingInput,
    has_learned,
)
from reconciler.decision.formulation import FormulatedProblem, ModelProblem
from reconciler.decision.load_variation import (
    LoadVariation,
    StabilizedDemand,
    load_variation,
    reach_of,
    steady,
    why_not_whole,
)
from reconciler.decision.variant_states import (
    Allocations,
    VariantState,
    ago,
    current_weight,
    load_partial,
    payback_of,
    span,
)
from reconciler.domain.answers import NoAnswer
from reconciler.domain.history import NOTHING, LoadHistory
from reconciler.domain.holds import NOT_ASKED, Hold, HoldKind, hold_of
from reconciler.domain.identity import Figure, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, ReplicaMetrics, Role, Trace, UpstreamQueue, role_of
from reconciler.domain.plan import Step
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Candidate, Requirement, Segment
from reconciler.domain.settings import SaturationRules, ZeroRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import MAX_REPLICAS, MIN_REPLICAS, Engine
from reconciler.metrics.quantities import Name
from reconciler.metrics.replicas import is_beyond_noise
from reconciler.sizing.arrays import Bools, Floats
from reconciler.sizing.saturation import (
    Filling,
    Flow,
    MeanLengths,
    ModelReadings,
    SaturationAnswer,
    ZeroRule,
    size_saturation,
)
from reconciler.sizing.saturation_memory import replay_bounds, replay_capacities
from reconciler.sizing.saturation_readings import (
    DEFAULT_COST,
    StoredCapacity,
    Thresholds,
    VariantFacts,
    layer_thresholds,
)

COARSE_S = 300.0
"""Histories of longer than an hour have steps of this, the others finer ones."""
MOST_PER_QUEUE = 2.0
"""What one replica's queue asks for at most, as now."""
GROWTH_S = 120.0
"""Over how long the growth of queues is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFullness:
    """How full the replicas of some variants were: one history a pod and rank, all on one grid."""

    start_s: float
    step_s: float
    traces: tuple[Trace, ...]

    @property
    def is_known(self) -> Bools:
        """The moments for which any replica has a sample."""
        usages = [_series(trace, Name.KV_CACHE_USAGE) for trace in self.traces]
        return np.asarray(np.isfinite(np.array(usages)).any(axis=0))

    def in_replicas(self, thresholds: Thresholds) -> Floats:
        """Replicas that were needed, NaN where nothing is known: the KV caches or the queues ask for more."""
        kv_full = thresholds.kv_cache_usage.value - thresholds.kv_spare.value
        waiting_full = thresholds.num_waiting.value - thresholds.waiting_spare.value
        if kv_full <= 0 or waiting_full <= 0:
            return np.full(len(self.is_known), math.inf)
        usages, queues = self._by_pod(Name.KV_CACHE_USAGE), self._by_pod(Name.NUM_WAITING)
        shares = np.minimum(queues / waiting_full, MOST_PER_QUEUE)
        return self._known(np.maximum((usages / kv_full).sum(axis=0), shares.sum(axis=0)))

    def in_tokens(self, kv_tokens: Mapping[str, float], roles: Mapping[ResourceKey, Role]) -> Floats:
        """Tokens in KV caches and queues, NaN where nothing is known; a pod of unknown size is like the others."""
        if not kv_tokens:
            return self._known(np.full(len(self.is_known), math.inf))
        typical = median(kv_tokens.values())
        total = np.zeros(len(self.is_known))
        for trace in self.traces:
            waiting, usage = _series(trace, Name.NUM_WAITING), _series(trace, Name.KV_CACHE_USAGE)
            length = _filled(_series(trace, Name.INPUT_TOKENS))
            if roles.get(trace.variant) is not Role.PREFILL:
                length = length + _filled(_series(trace, Name.OUTPUT_TOKENS))
            held = kv_tokens.get(trace.pod, typical)
            total += np.nan_to_num(usage) * held + np.minimum(np.nan_to_num(waiting) * length, held)
        return self._known(total)

    def _by_pod(self, name: Name) -> Floats:
        """The mean over the ranks of each pod, 0 where nothing is known of it."""
        pods = [list(group) for _, group in groupby(self.traces, key=lambda trace: (trace.variant, trace.pod))]
        rows = [np.nan_to_num(np.array([_series(trace, name) for trace in own])).mean(axis=0) for own in pods]
        return np.array(rows)

    def _known(self, values: Floats) -> Floats:
        return np.where(self.is_known, values, math.nan)


def past_fullness(snapshot: Snapshot, members: Iterable[Variant], payback_s: float) -> PastFullness | None:
    """The histories that reach back over `payback_s`, the finest of them; None where there is none."""
    told = [
        trace
        for member in members
        for trace in snapshot.observed.traces.get(member.key, ())
        if Name.KV_CACHE_USAGE in trace.series
    ]
    grids: dict[tuple[float, float, int], list[Trace]] = {}
    for trace in told:
        grids.setdefault((trace.step_s, trace.start_s, len(trace.series[Name.KV_CACHE_USAGE])), []).append(trace)
    first_s = snapshot.now_s - payback_s
    reaching = [grid for grid in sorted(grids) if grid[1] - first_s <= max(grid[0], _window_s(grid[0]))]
    if not grids:
        return None
    step_s, start_s, _ = chosen = reaching[0] if reaching else min(grids, key=lambda grid: grid[1])
    traces = sorted(grids[chosen], key=lambda trace: (trace.variant, trace.pod, trace.instance))
    return PastFullness(start_s=start_s, step_s=step_s, traces=tuple(traces))


def as_arrivals(values: Floats, fullness: PastFullness) -> LoadHistory:
    """A past in any unit, of which the same is asked as of arrivals."""
    return LoadHistory(
        times_s=fullness.start_s + fullness.step_s * np.arange(len(values), dtype=np.float64),
        step_s=fullness.step_s,
        window_s=_window_s(fullness.step_s),
        rates_per_s=values,
    )


def _window_s(step_s: float) -> float:
    """Of what time a moment speaks: fullness is the largest of a minute, or of a step where that is longer."""
    return max(step_s, 60.0)


def _series(trace: Trace, name: Name) -> Floats:
    found = trace.series.get(name)
    return np.full(len(trace.series[Name.KV_CACHE_USAGE]), math.nan) if found is None else found


def _filled(lengths: Floats) -> Floats:
    """Gaps take the value before them, those at the start the first that is known; 0 where none is."""
    (known,) = np.nonzero(np.isfinite(lengths))
    if not known.size:
        return np.zeros(len(lengths))
    before = np.searchsorted(known, np.arange(len(lengths)), side="right") - 1
    return np.asarray(lengths[known[np.maximum(before, 0)]])


ROLE_LABEL = "llm-d.ai/role"
NO_RULES = SaturationRules()
COUNTABLE_ENGINES = frozenset({"vllm", ""})


def read_model(
    snapshot: Snapshot, model: ModelKey, members: Sequence[Variant], *, corrects_history: bool
) -> ModelReadings:
    """What is known of one model at the time of the snapshot; `corrects_history` as in `replay_bounds`."""
    rules = snapshot.saturation.get(model, NO_RULES)
    layered = layer_thresholds(rules.layers)
    is_priced = all(member.current_cost_per_hour is not None for member in members)
    variants = [_facts(snapshot, member, is_priced=is_priced) for member in members]
    replicas = tuple(each for member in members for each in snapshot.observed.replicas.get(member.key, ()))
    told = (trace for member in members for trace in snapshot.observed.traces.get(member.key, ()))
    traces = [trace for trace in told if trace.step_s < COARSE_S]
    kv_tokens = {replica.pod: replica.kv_tokens for replica in replicas if replica.kv_tokens is not None}
    history = replay_bounds(traces, kv_tokens, variants, layered.thresholds, corrects_history=corrects_history)
    seen = replay_capacities(traces, kv_tokens, variants, layered.thresholds, history)
    full = layered.thresholds.kv_cache_usage.value
    return ModelReadings(
        model=model,
        variants=tuple(
            replace(state, stored=seen.get(state.key) or _remembered(snapshot, state, full)) for state in variants
        ),
        replicas=replicas,
        queue=snapshot.observed.queues.get(
            model, UpstreamQueue(num_waiting=None) if (not any(member.current.replicas for member in members)) else None
        ),
        zero_rule=_zero_rule(snapshot, model, members),
        history=history,
        lengths_before=_lengths_in(traces) if corrects_history else MeanLengths(),
        layered=layered,
        arriving_per_s=_waking(snapshot.observed.loads.get(model), members) if corrects_history else 0.0,
        flow=_flow(snapshot, model, members, traces) if corrects_history else None,
    )


def _waking(load: Load | NoAnswer | None, members: Sequence[Variant]) -> float:
    """What arrives for a model of which no replica runs."""
    runs = any(member.current.replicas for member in members)
    return load.arrival_rate_per_s if isinstance(load, Load) and not runs else 0.0


def _flow(snapshot: Snapshot, model: ModelKey, members: Sequence[Variant], traces: Sequence[Trace]) -> Flow | None:
    """What arrives and what is finished; what queues grew by within minutes shows a surge before a rate does.

    Where long requests have only begun, less finishes than those that run will (Little's law).
    """
    load = snapshot.observed.loads.get(model)
    if not isinstance(load, Load) or not load.completions_per_s:
        return None
    arriving, finished, growth = load.arrival_rate_per_s, 0.0, 0.0
    for member in members:
        seen = snapshot.observed.observations.get(member.key)
        if seen is not None and seen.num_running and seen.performance.itl_s and load.output_tokens > 0:
            finished += seen.num_running / (load.output_tokens * seen.performance.itl_s)
    finished = max(finished, load.completions_per_s)
    for trace in traces:
        count = int(GROWTH_S / trace.step_s) + 1
        recent = trace.series.get(Name.NUM_WAITING, NOTHING)[-count:]
        if recent.size == count and np.isfinite(recent[[0, -1]]).all():
            growth += float(recent[-1] - recent[0]) / GROWTH_S
    if is_beyond_noise(load.completions_per_s + growth, arriving):
        arriving = max(arriving, load.completions_per_s + growth)
    if not is_beyond_noise(arriving, finished):
        arriving = finished
    return Flow(arriving=arriving, finished=finished, drain_s=payback_of(members))


def _lengths_in(traces: Sequence[Trace]) -> MeanLengths:
    """How long requests were in histories."""

    def mean(name: Name) -> float | None:
        told = np.concatenate([trace.series.get(name, NOTHING) for trace in traces] or [NOTHING])
        lengths = told[np.isfinite(told)]
        return fmean(lengths) if len(lengths) else None

    return MeanLengths(input_tokens=mean(Name.INPUT_TOKENS), output_tokens=mean(Name.OUTPUT_TOKENS))


def _facts(snapshot: Snapshot, variant: Variant, *, is_priced: bool) -> VariantFacts:
    workload, settings = variant.workload, variant.settings
    current, ready = variant.current.replicas, snapshot.observed.ready.get(variant.key)
    cost = variant.current_cost_per_hour if is_priced else variant.relative_cost
    return VariantFacts(
        key=variant.key,
        accelerator=variant.current.accelerator,
        role=role_of(workload.template_labels.get(ROLE_LABEL) if workload is not None else None),
        cost=DEFAULT_COST if cost is None else cost,
        current_replicas=current,
        pending_replicas=max(current - ready, 0) if ready is not None and variant.is_counted else 0,
        min_replicas=settings[MIN_REPLICAS].value,
        max_replicas=settings[MAX_REPLICAS].value,
        devices_per_replica=sum(workload.devices.values()) if workload is not None else 1,
        launch=workload.launch if workload is not None else None,
    )


def _zero_rule(snapshot: Snapshot, model: ModelKey, members: Iterable[Variant]) -> ZeroRule:
    """Upstream's precedence: what the model's saturation entry says, then its own map; else never to zero."""
    inline = snapshot.saturation.get(model, NO_RULES).scales_to_zero
    mapped = snapshot.zero.get(model, ZeroRules()).is_enabled
    requests = snapshot.observed.requests.get(model)
    engines = {member.workload.engine for member in members if member.workload is not None}
    return ZeroRule(
        is_enabled=bool(mapped if inline is None else inline),
        requests=requests if isinstance(requests, float) else None,
        reason=requests.reason if isinstance(requests, NoAnswer) else "",
        is_countable=engines <= COUNTABLE_ENGINES,
    )


def _remembered(snapshot: Snapshot, state: VariantFacts, full: float) -> StoredCapacity | None:
    """What a replica held when one was last seen, for variants that have been at zero for longer than a run looks."""
    stored = snapshot.observed.stored_kv_tokens.get(state.key)
    return None if stored is None else StoredCapacity(capacity_tokens=int(stored * full), total_kv_tokens=stored)


def stabilize(
    snapshot: Snapshot, members: Sequence[Variant], readings: ModelReadings, answer: SaturationAnswer, payback_s: float
) -> SaturationAnswer:
    """The answer with requirements that let a replica go only where nothing of `payback` needed it.

    What would grow, or stays, is as it was; so is a model that somebody lets go to zero.
    """
    requirements, fillings, reasons = [], dict(answer.fillings), dict(answer.reasons)
    for requirement in answer.requirements:
        filling, stabilized = fillings.get(requirement.model), requirement
        own = [member for member in members if member.key in {key.variant for key in requirement.per_replica}]
        carried = sum(_carried(requirement, member) * member.current.replicas for member in own)
        fullness = past_fullness(snapshot, own, payback_s)
        variation = None
        if filling is not None and fullness is not None and requirement.amount > 0:
            past = as_arrivals(_worked_on(requirement, readings, fullness), fullness)
            variation = load_variation(past, snapshot.now_s, payback_s, counts_requests=False)
        if filling is not None and variation is not None:
            filling = replace(filling, reach=reach_of(filling.demand, variation, math.inf) / filling.full)
            fillings[requirement.model] = filling
        if filling is not None and fullness is not None and 0 < requirement.amount < carried:
            least = min((_carried(requirement, each) for each in own if each.current.replicas), default=0.0)
            demand = _steady(filling, variation, carried, least)
            if demand.amount_per_s > requirement.amount:
                stabilized = replace(requirement, segments=(Segment(amount=demand.amount_per_s),))
                fillings[requirement.model] = replace(filling, least=max(requirement.amount, demand.kept_per_s))
                reasons[requirement.model] = _words(requirement, variation, payback_s)
        requirements.append(stabilized)
    return replace(answer, requirements=tuple(requirements), fillings=fillings, reasons=reasons)


def _carried(requirement: Requirement, variant: Variant) -> float:
    return requirement.per_replica.get(variant.key.on(variant.current.accelerator), 0.0)


def _worked_on(requirement: Requirement, readings: ModelReadings, fullness: PastFullness) -> Floats:
    if requirement.unit == "replicas":
        return fullness.in_replicas(readings.thresholds)
    kv_tokens = {each.pod: each.kv_tokens for each in readings.replicas if each.kv_tokens is not None}
    return fullness.in_tokens(kv_tokens, {each.key: each.role for each in readings.variants})


def _steady(filling: Filling, variation: LoadVariation | None, carried: float, least: float) -> StabilizedDemand:
    """Nothing goes where nothing could be counted."""
    if variation is None:
        return StabilizedDemand(amount_per_s=carried, kept_per_s=carried)
    return steady(filling.demand / filling.full, 1 / filling.full - 1, variation, carried, least)


def _words(requirement: Requirement, variation: LoadVariation | None, payback_s: float) -> str:
    if variation is None:
        return f"kept: it is not known how many {requirement.unit} were worked on within the last {span(payback_s)}"
    return (
        f"kept: {variation.peak_per_s:.4g} {requirement.unit} were worked on {ago(variation.peak_age_s)}, "
        f"{variation.mean_per_s:.4g} on average; payback {span(payback_s)}"
    )


_REPLICA_FIELDS = (
    ("KV cache usage", "kv_cache_usage", "fraction", (Name.KV_CACHE_USAGE,)),
    ("waiting", "num_waiting", "requests", (Name.NUM_WAITING,)),
    ("KV cache", "kv_tokens", "tokens", (Name.KV_TOKENS,)),
    ("prefix hits", "prefix_hit_rate", "fraction", (Name.PREFIX_HIT_RATE,)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullnessAnswer(EngineAnswer):
    """The answers of the saturation family by model, with what they were read from."""

    snapshot: Snapshot
    answers: Mapping[ModelKey, SaturationAnswer]
    problems: Mapping[ModelKey, ModelProblem]

    @classmethod
    def of(
        cls,
        given: SizingInput,
        models: Models,
        answers: Mapping[ModelKey, SaturationAnswer],
    ) -> "FullnessAnswer":
        """The answers with the models' problems that follow from them."""
        problems = {model: _problem(models[model], answer, given.devices) for model, answer in answers.items()}
        return cls(snapshot=given.snapshot, answers=answers, problems=problems)

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterator[Step]:
        """What saturation saw of the variant, and what it makes of that for all of its model."""
        variant, answer = state.variant, self.answers.get(state.variant.model)
        if answer is None:
            return
        for figure in answer.figures:
            if figure.subject == variant.key.label and figure.value is not None:
                reason = figure.reason or "over its replicas"
                value = f"{figure.value:.6g}" if isinstance(figure.value, float | int) else str(figure.value)
                yield Step(
                    stage=figure.name,
                    before="",
                    after=f"{value} {figure.unit}" if figure.unit not in ("", "fraction") else value,
                    reason=reason,
                )
        needs = formulated.needs
        role = needs.owner_of.get(variant.key, variant.model)
        if role in answer.reasons:
            requirement = needs.requirements.get(role)
            need = "" if requirement is None else f"{requirement.amount:.6g} {requirement.unit}"
            yield Step(stage="need", before="", after=need, reason=answer.reasons[role])

    def why_kept(self, variant: Variant, desired: Allocation, formulated: FormulatedProblem, after: Allocations) -> str:
        model = formulated.needs.owner_of.get(variant.key, variant.model)
        filling = formulated.needs.fillings.get(model)
        is_stabilized = filling is not None and filling.least is not None
        return self.answers[variant.model].reasons[model] if is_stabilized and desired == variant.current else ""

    def why(self, variant: Variant, desired: Allocation) -> str:
        return _reasons(self.answers[variant.model])

    def figures(self, variant: Variant) -> Iterator[Figure]:
        """Other variants' numbers stand in their own chain."""
        yield from _replica_figures(self.snapshot, variant)
        yield from _model_figures(self.snapshot, variant)
        others = {each.key.label for each in self.snapshot.variants} - {variant.key.label}
        yield from (each for each in self.answers[variant.model].figures if each.subject not in others)


def _problem(members: Sequence[VariantState], answer: SaturationAnswer, devices: Devices) -> ModelProblem:
    """What saturation asks for: a variant that it cannot judge stays as it is, one it doubts does not shrink.

    Nor does one whose profile is contradicted: what it would need to keep its targets is not known.
    It says nothing of accelerators but those that variants run on.
    """
    free = [state.variant for state in members if state.is_free]
    holds = {
        state.variant.key: state.contradiction
        or Hold(kind=HoldKind.CAPACITY_UNKNOWN, words=answer.held[state.variant.key])
        for state in members
        if state.is_free and state.variant.key in answer.held
    }
    for variant in free:
        if variant.key in answer.lacking:
            hold = Hold(kind=HoldKind.METRICS_MISSING, words=answer.lacking[variant.key])
            holds.setdefault(variant.key, hold)
    is_priced = all(state.variant.current_cost_per_hour is not None for state in members)
    offered = [variant for variant in free if variant.key not in holds]
    weights = {variant.key: current_weight(variant, is_priced=is_priced) for variant in offered}
    return ModelProblem(
        requirements=answer.requirements,
        candidates=[
            Candidate(
                key=variant.key.on(variant.current.accelerator),
                weight=weights[variant.key],
                cost_per_hour=variant.current_cost_per_hour,
                devices=devices.taken(variant),
            )
            for variant in offered
        ],
        current_weights=weights,
        holds=holds,
        partial={
            **dict.fromkeys(answer.floors, load_partial(_reasons(answer))),
            **{each.variant.key: each.contradiction for each in members if each.contradiction is not None},
        },
        fillings=answer.fillings,
    )


def _reasons(answer: SaturationAnswer) -> str:
    return "; ".join(dict.fromkeys(answer.reasons.values()))


def _replica_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    for replica in snapshot.observed.replicas.get(variant.key, ()):
        for name, attribute, unit, quantities in _REPLICA_FIELDS:
            value = getattr(replica, attribute)
            yield Figure(
                subject=replica.label,
                name=name,
                value=value,
                unit=unit,
                reason="" if value is not None else _why_unknown(replica, attribute),
                queries=tuple(map(str, quantities)),
            )


def _why_unknown(replica: ReplicaMetrics, attribute: str) -> str:
    fields = {"kv_tokens": ("total_kv_tokens", "num_blocks", "block_tokens")}.get(attribute, (attribute,))
    return next((replica.reasons[field] for field in fields if field in replica.reasons), "not measured")


def _model_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    observed = snapshot.observed
    queue = observed.queues.get(variant.model)
    if queue is not None:
        yield Figure(
            subject=variant.model.model_id,
            name="waiting upstream",
            value=queue.num_waiting,
            unit="requests",
            reason=queue.reason,
            queries=(str(Name.FLOW_CONTROL_QUEUE_SIZE),),
        )
    ready, stored = observed.ready.get(variant.key), observed.stored_kv_tokens.get(variant.key)
    for name, value, unit, quantity in (
        ("ready", ready, "replicas", Name.READY_REPLICAS),
        ("KV cache when last seen", stored, "tokens", Name.STORED_KV_TOKENS),
    ):
        if value is not None:
            yield Figure(subject=variant.key.label, name=name, value=value, unit=unit, queries=(str(quantity),))


SizeCluster = Callable[[Snapshot, Sequence[ModelReadings]], Sequence[SaturationAnswer]]
"""What decides all models of one cluster together, in their order."""


def _never(_rules: SaturationRules) -> bool:
    return False


class FullnessSafeguards(Safeguards):
    """What saturation knows of the past from how full replicas were."""

    def waits_for_replicas_s(self, variant: Variant) -> float:
        """As long as it takes: a replica that reports nothing counts as full, so that each would ask for the next."""
        return math.inf

    def forgets(self, snapshot: Snapshot, members: Sequence[Variant], payback_s: float) -> str:
        """A model without replicas has no past fullness, and a model whose history was not asked for needs none."""
        was_asked = any(member.key in snapshot.observed.traces for member in members)
        if not was_asked or not any(member.current.replicas for member in members):
            return ""
        what = "how full replicas were"
        lost = snapshot.observed.lost.get(members[0].model.cluster)
        if lost is not None:
            return f"{what} before is not known: {lost.reason}"
        fullness = past_fullness(snapshot, members, payback_s)
        if fullness is None:
            return f"{what} before is not known: no series has it"
        is_known = as_arrivals(np.where(fullness.is_known, 1.0, math.nan), fullness)
        return why_not_whole(is_known, snapshot.now_s, payback_s, what)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationEngine(SizingEngine):
    """One rule of the saturation family: ours, or one of upstream's, which has no safeguards and keeps its flaws.

    `wants_traces` says whether the rule looks at more of the past of replicas than every rule does.
    """

    name: Engine
    size_cluster: SizeCluster
    safeguards: FullnessSafeguards | None = None
    wants_traces: Callable[[SaturationRules], bool] = _never
    basis = Basis.FULLNESS

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        return Admission(is_admitted=True)

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        asked = {EngineQuestion.LOAD, EngineQuestion.REPLICAS}
        asked |= {EngineQuestion.USUAL} if self.safeguards else set()
        return asked | {EngineQuestion.TRACES} if has_learned(members) or self.wants_traces(rules) else asked

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        observation = snapshot.observed.observations.get(variant.key)
        if observation is None:
            return Lacks(metrics=NOT_ASKED)
        return Lacks(metrics=hold_of(observation.absence) if observation.absence is not None else None)

    def size(self, given: SizingInput, models: Models) -> FullnessAnswer:
        """Upstream's modes decide a whole cluster at once."""
        clusters: dict[str, list[ModelReadings]] = {}
        for model, members in sorted(models.items()):
            variants = [state.variant for state in members]
            readings = read_model(given.snapshot, model, variants, corrects_history=self.safeguards is not None)
            clusters.setdefault(model.cluster, []).append(readings)
        answers = {
            readings.model: self._stabilized(given, models, readings, answer)
            for asked in clusters.values()
            for readings, answer in zip(asked, self.size_cluster(given.snapshot, asked), strict=True)
        }
        return FullnessAnswer.of(given, models, answers)

    def _stabilized(
        self, given: SizingInput, models: Models, readings: ModelReadings, answer: SaturationAnswer
    ) -> SaturationAnswer:
        if self.safeguards is None:
            return answer
        members = [state.variant for state in models[readings.model]]
        return stabilize(given.snapshot, members, readings, answer, payback_of(members))


def _size_each(_snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    return [size_saturation(readings) for readings in models]


SATURATION = SaturationEngine(name=Engine.SATURATION, size_cluster=_size_each, safeguards=FullnessSafeguards())
