"""What models need that a queue sizes: their demand, what can carry it, and what stands against an option."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.decision.engines.queueing.capacities import ReplicaCapacity
from reconciler.decision.problem.devices import Devices
from reconciler.decision.problem.formulation import ModelDemand, ModelProblem, demand_of
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.problem.terms import (
    bounds_of,
    current_weight,
    idle_replicas,
    relative_weight,
    start_share,
    unserved_price,
)
from reconciler.decision.variant_states import VariantState, beside_unknown, load_partial
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.measured.loads import Load
from reconciler.domain.plan import RATE
from reconciler.domain.requirements import Bounds, Candidate, Requirement, Segment
from reconciler.domain.snapshot import Option, Variant
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE


@dataclass(slots=True, kw_only=True)
class QueueProblem:
    """Collects the problem of one model, variant by variant.

    `capacities` are those of all candidates that were sized; `variation` is what the model's load did before.
    """

    model: ModelKey
    members: Sequence[VariantState]
    capacities: Mapping[CandidateKey, ReplicaCapacity]
    devices: Devices
    variation: LoadVariation | None
    holds: dict[ResourceKey, Hold] = field(default_factory=dict)
    notes: dict[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: str = field(init=False)
    kept: str = field(init=False)

    def __post_init__(self) -> None:
        self.partial = "; ".join(state.partial.words for state in self.members if state.partial is not None)
        self.kept = next((state.kept.words for state in self.members if state.kept is not None), "")

    def problem(self, load: Load) -> ModelProblem:
        """The model's problem under its load."""
        if self.partial:
            for state in self.members:
                self.notes[state.variant.key] = (f"{self.partial}: nothing is scaled down until all do",)
        demand = self._demand(load.arrival_rate_per_s)
        candidates: list[Candidate] = []
        weights: dict[ResourceKey, float] = {}
        if load.has_lengths:
            offered = self._offered()
            is_priced = all(option.cost_per_hour is not None for options in offered.values() for option in options)
            variants = {state.variant.key: state.variant for state in self.members}
            for key, options in offered.items():
                weights[key] = current_weight(variants[key], is_priced=is_priced)
                candidates += self._candidates(variants[key], options, is_priced=is_priced)
            requirement = self._loaded(demand, is_priced=is_priced)
        else:
            requirement = self._idle()
        return ModelProblem(
            requirements=[requirement],
            candidates=candidates,
            current_weights=weights,
            holds=self.holds,
            notes=self.notes,
            partial={each.variant.key: load_partial(self.partial) for each in self.members} if self.partial else {},
            demand=demand,
        )

    def _demand(self, load_per_s: float) -> ModelDemand:
        shrinking = [each for each in self._free() if each.current.replicas > self._bounds(each).minimum]
        members = [state.variant for state in self.members]
        return demand_of(members, load_per_s, self.variation, self._carried(), shrinking)

    def _free(self) -> list[Variant]:
        return [state.variant for state in self.members if state.is_free]

    def _bounds(self, variant: Variant) -> Bounds:
        return bounds_of(variant, keeps_current=bool(self.partial or self.kept))

    def _carried(self) -> dict[CandidateKey, float]:
        keys = (_key(state.variant, option) for state in self.members for option in state.variant.options)
        return {key: self.capacities[key].rate_per_s for key in keys if key in self.capacities}

    def _loaded(self, demand: ModelDemand, *, is_priced: bool) -> Requirement:
        price = unserved_price(self.members) if is_priced else None
        segments = (Segment(amount=demand.stabilized.amount_per_s, price=price),)
        return Requirement(model=self.model, unit=RATE, segments=segments, per_replica=self._carried())

    def _idle(self) -> Requirement:
        """Without lengths there is no capacity: the answer is the fewest replicas, where they are.

        While some arrived within `payback`, nobody can tell how many replicas that took, so none goes.
        """
        is_paused = self.variation is not None and self.variation.peak_per_s > 0
        fixed = {
            variant.key: self._paused(variant)
            if is_paused
            else max(idle_replicas(variant), self._bounds(variant).minimum)
            for variant in self._free()
        }
        return Requirement(model=self.model, unit="replicas", segments=(), per_replica={}, fixed=fixed)

    def _paused(self, variant: Variant) -> int:
        bounds = self._bounds(variant)
        replicas = max(idle_replicas(variant), variant.current.replicas, bounds.minimum)
        return replicas if bounds.maximum is None else min(replicas, bounds.maximum)

    def _offered(self) -> dict[ResourceKey, tuple[Option, ...]]:
        """The options that the optimizer may choose from, for the variants that one of them fits."""
        free = self._free()
        usable = [(variant, self._usable(variant)) for variant in free]
        unpriced = sorted({each.accelerator for _, group in usable for each in group if each.cost_per_hour is None})
        chosen = {variant.key: self._rankable(variant, options, unpriced) for variant, options in usable}
        self._stop_beside_unknown(free)
        return {key: options for key, options in chosen.items() if key not in self.holds}

    def _usable(self, variant: Variant) -> tuple[Option, ...]:
        """The options that meet the SLO and can be written; a variant without any stays, with the reasons."""
        obstacles = {option.accelerator: self._obstacle(variant, option) for option in variant.options}
        usable = tuple(option for option in variant.options if not obstacles[option.accelerator])
        if not usable:
            reasons = "; ".join(f"{accelerator}: {reason}" for accelerator, reason in obstacles.items())
            self.holds[variant.key] = self._hold(variant, reasons)
        else:
            words = tuple(f"not {accelerator}: {reason}" for accelerator, reason in obstacles.items() if reason)
            self.notes[variant.key] = (*self.notes.get(variant.key, ()), *words)
        return usable

    def _hold(self, variant: Variant, reasons: str) -> Hold:
        """Why none of a variant's options can be chosen."""
        if any(self.capacities[_key(variant, option)].rate_per_s > 0 for option in variant.options):
            return Hold(kind=HoldKind.ACCELERATOR_UNAVAILABLE, words=f"no accelerator can be chosen: {reasons}")
        return Hold(kind=HoldKind.SLO_UNATTAINABLE, words=f"SLO unattainable: {reasons}")

    def _obstacle(self, variant: Variant, option: Option) -> str:
        capacity = self.capacities[_key(variant, option)]
        if capacity.rate_per_s <= 0:
            return capacity.words
        if self.partial and option.accelerator != variant.current.accelerator:
            return f"{self.partial}: the accelerator is kept until all do"
        if self.kept and option.accelerator != variant.current.accelerator:
            return f"{self.kept}, and the accelerator is kept"
        return str(option.unwritable or "")

    def _stop_beside_unknown(self, variants: Iterable[Variant]) -> None:
        """What nothing can be chosen for stays: without a profile there, what the others must carry is unknown."""
        variants = list(variants)
        kept = [each for each in variants if each.key in self.holds and each.current.replicas > 0]
        unknown = [each for each in kept if each.key.on(each.current.accelerator) not in self.capacities]
        for variant in variants if unknown else ():
            words = f"{unknown[0].current.accelerator} has no profile"
            self.holds.setdefault(variant.key, beside_unknown(unknown[0], words))

    def _rankable(self, variant: Variant, options: tuple[Option, ...], unpriced: list[str]) -> tuple[Option, ...]:
        """Options among which a price or an order decides; while the model misses a price accelerators are kept."""
        kept = tuple(option for option in options if option.accelerator == variant.current.accelerator)
        is_ranked = len(options) > 1 or any(option.cost_per_hour is None for option in options)
        if variant.settings[ACCELERATOR].value != CHOOSE or not unpriced or options == kept or not is_ranked:
            return options
        words = f"cost of {', '.join(unpriced)} is unknown"
        if kept:
            self.notes[variant.key] += (f"{words}: the accelerator is kept",)
        else:
            others = "; ".join((words, *self.notes[variant.key]))
            words = f"no accelerator can be chosen: {others}: set accelerators[].costPerHour"
            self.holds[variant.key] = Hold(kind=HoldKind.PRICE_MISSING, words=words)
        return kept

    def _candidates(self, variant: Variant, options: Iterable[Option], *, is_priced: bool) -> Iterable[Candidate]:
        for order, option in enumerate(options):
            price = option.cost_per_hour if is_priced else None
            weight = relative_weight(variant) if price is None else price
            yield Candidate(
                key=_key(variant, option),
                weight=weight,
                cost_per_hour=option.cost_per_hour,
                start_weight=weight * start_share(variant),
                devices=self.devices.drawn(variant, option.accelerator, option.devices_per_replica),
                order=order,
            )


def _key(variant: Variant, option: Option) -> CandidateKey:
    return variant.key.on(option.accelerator)
