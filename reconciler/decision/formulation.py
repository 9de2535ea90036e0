"""From what engines require of each model to one problem of all models for the optimizer."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import TypeVar

import numpy as np

from reconciler.decision.devices import Devices, pools_beside, surplus_devices, surplus_words
from reconciler.decision.guarding import Guard
from reconciler.decision.load_variation import (
    KnownEvent,
    LoadForecast,
    LoadVariation,
    StabilizedDemand,
    load_variations,
    steady,
)
from reconciler.decision.variant_states import (
    TOLERANCE,
    Allocations,
    Needs,
    VariantState,
    bounds_of,
    start_share,
)
from reconciler.domain.history import LoadHistory
from reconciler.domain.holds import Hold
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Bounds, Budget, Candidate, ChangeLimit, Problem, Requirement, Segment
from reconciler.domain.snapshot import Snapshot, Variant, priority_of
from reconciler.domain.variant_settings import ACCELERATOR, HEADROOM, IN_ORDER, PAYBACK_S
from reconciler.policy.port import Counted, SharedLimit
from reconciler.simulation.fluid import are_many
from reconciler.simulation.rehearsal import LEVELS
from reconciler.sizing.saturation import Filling

Carried = Mapping[CandidateKey, float]
"""What one replica of a candidate carries; one whose capacity is not known is absent."""
SHORT = 0.02
"""So far an open proposal may fall short of what is forecast: no forecast is as exact."""
_UNTIL = LEVELS[:-1]
REACHED = (1.0, *((2 - low - high) / 2 for low, high in pairwise(_UNTIL)), 1 - _UNTIL[-1])
"""How often the load reaches the steps of a forecast that end at these quantiles, and what is kept beyond the last."""
MIXED = 2
"""Variants that may serve one model at once where requests are spread evenly: replicas that carry less get
as many as those that carry more (AIBrix issue 637), so a plan mixes no more than it must."""
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the load is spread over replicas: what the fullest has over what each has on average, and in words."""

    factor: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDemand:
    """A model's demand: its load with the headroom that its variants ask for.

    `stabilized` is what it must be able to carry, so that noise moves no replica; `variation` what its load did before.
    """

    rate_per_s: float
    headroom: float
    stabilized: StabilizedDemand
    variation: LoadVariation | None = None
    forecast: LoadForecast | None = None
    """What decides instead of `variation`, where it has proven better."""
    spread: str = ""
    """How unevenly replicas are loaded, where that takes more than the headroom of the settings."""
    event: str = ""
    """The event that is known to come, where it asks for more; its factor is within the headroom."""

    def segments(self, price: float | None) -> tuple[Segment, ...]:
        """The demand in steps, where a request a second that is not served costs `price` an hour.

        A promise (None) is kept whole. By price a step of a forecast counts as often as the load reaches it,
        and what waits already comes on top of each.
        """
        amount, forecast = self.stabilized.amount_per_s, self.forecast
        if price is None or forecast is None or forecast.grow_per_s <= 0:
            return (Segment(amount=amount, price=price),)
        times = self.rate_per_s / forecast.grow_per_s  # of an event, and of replicas that get more than others
        steps = (forecast.waiting_per_s + forecast.quantiles[level] for level in _UNTIL)
        ends = [*(min(times * each, amount) for each in steps), amount]
        return tuple(
            Segment(amount=end - begin, probability=often, price=price)
            for (begin, end), often in zip(pairwise((0.0, *ends)), REACHED, strict=True)
            if end > begin
        )


def past_variations(variants: Iterable[Variant], snapshot: Snapshot) -> dict[ModelKey, LoadVariation]:
    """What the load of each model did, over the longest time in which one of its variants has to pay back."""
    paybacks_s: defaultdict[ModelKey, float] = defaultdict(float)
    for variant in variants:
        paybacks_s[variant.model] = max(paybacks_s[variant.model], variant.settings[PAYBACK_S].value)
    pasts = {
        model: (past, payback_s)
        for model, payback_s in paybacks_s.items()
        if isinstance(past := snapshot.observed.past.get(model), LoadHistory)
    }
    return load_variations(pasts, snapshot.now_s)


def demand_of(
    members: Sequence[Variant],
    load_per_s: float,
    variation: LoadVariation | None,
    carried: Carried,
    shrinking: Iterable[Variant],
    spread: Spread | None = None,
    forecast: LoadForecast | None = None,
    event: KnownEvent | None = None,
) -> ModelDemand:
    """The demand of a model on its `members`, of which those that are `shrinking` may lose a replica."""
    if forecast is not None:
        return _forecast_demand(members, load_per_s, carried, spread, forecast, event)
    headroom = max(variant.settings[HEADROOM].value for variant in members)
    if spread is not None and spread.factor > 1 + headroom:
        headroom = spread.factor - 1
    else:
        spread = None
    if event is not None:
        headroom = (1 + headroom) * event.grow - 1
    now_per_s, whole = load_per_s * (1 + headroom), sum(_carried(each, carried) for each in members)
    spare = (_carried(variant, carried) / variant.current.replicas for variant in shrinking)
    stabilized = steady(now_per_s, headroom, variation, whole, min(filter(None, spare), default=0.0))
    return ModelDemand(
        rate_per_s=now_per_s,
        headroom=headroom,
        stabilized=stabilized,
        variation=variation,
        spread=spread.words if spread is not None else "",
        event=event.words if event is not None and event.grow > 1 else "",
    )


def _forecast_demand(
    members: Sequence[Variant],
    load_per_s: float,
    carried: Carried,
    spread: Spread | None,
    forecast: LoadForecast,
    event: KnownEvent | None,
) -> ModelDemand:
    """The demand that is forecast: no headroom and no noise come on top of it. An open proposal may be a little off."""
    uneven = 1.0 if spread is None else max(spread.factor, 1.0)
    grow, keep = forecast.grow_per_s * uneven, forecast.keep_per_s * uneven
    if event is not None:
        grow, keep = grow * event.grow, keep * event.keep
    whole, rate_per_s = sum(_carried(each, carried) for each in members), max(load_per_s, grow)
    if forecast.added_s is not None and not _are_many(members, whole, max(keep, rate_per_s)):
        keep = whole
    return ModelDemand(
        rate_per_s=rate_per_s,
        headroom=rate_per_s / load_per_s - 1 if load_per_s > 0 else 0.0,
        stabilized=StabilizedDemand(
            amount_per_s=max(rate_per_s, min(keep, whole)), kept_per_s=max(load_per_s, grow * (1 - SHORT))
        ),
        forecast=forecast,
        spread=spread.words if spread is not None and uneven > 1 else "",
        event="" if event is None else event.words,
    )


def _are_many(members: Sequence[Variant], whole_per_s: float, keep_per_s: float) -> bool:
    """Whether so many replicas may go that they do although some were added lately."""
    replicas = float(sum(each.current.replicas for each in members))
    if whole_per_s <= keep_per_s or not replicas:
        return False
    going = math.floor((1 - keep_per_s / whole_per_s) * replicas + 1e-9)
    return bool(are_many(np.array(going), np.array(replicas)))


def _carried(variant: Variant, carried: Carried) -> float:
    """What a variant's replicas carry now."""
    key = variant.key.on(variant.current.accelerator)
    return carried.get(key, 0.0) * variant.current.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProblem:
    """What a model needs, one requirement a role, what may be chosen for it, and what is left out.

    `holds` say of variants without a candidate why; `notes` of options that were not considered. `partial` says of
    variants whose model was not wholly seen what is missing: none of them may shrink. `demand` is of a model that is
    sized by a queue, `fillings` of requirements that ask for more than their replicas work on.
    """

    requirements: Sequence[Requirement]
    candidates: Sequence[Candidate] = ()
    current_weights: Mapping[ResourceKey, float] = field(default_factory=dict)
    holds: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    notes: Mapping[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    demand: ModelDemand | None = None
    fillings: Mapping[ModelKey, Filling] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulatedProblem:
    """A problem with what was left out of it: variants that got no candidate, options that were not considered.

    `holds` say why nothing can be chosen for a variant that may change. `demands` are of models that are sized by a
    queue. `partial` says of variants whose model was not wholly seen what is missing: none of them may shrink.
    `guard` is what rules left of the problem.
    """

    problem: Problem
    needs: Needs
    demands: Mapping[ModelKey, ModelDemand]
    holds: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    notes: Mapping[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    guard: Guard = field(default_factory=Guard)
    unguarded: Mapping[ResourceKey, int] = field(default_factory=dict)
    """Finished answers as engines gave them, before rules cut them."""
    own_bounds: Mapping[ResourceKey, Bounds] = field(default_factory=dict)
    """The bounds of variants that may change, without those of rules."""

    def load_of(self, model: ModelKey) -> float:
        """What is asked of a model now, without any headroom, in the unit of its requirement."""
        return _load_of(model, self.needs, self.demands)

    def least(self, model: ModelKey) -> float:
        """What a proposal that is open must carry to stay, in the unit of its requirement."""
        requirement, demand = self.needs.requirements[model], self.demands.get(model)
        filling = self.needs.fillings.get(model)
        if filling is not None and filling.least is not None:
            return filling.least
        return requirement.amount if demand is None or requirement.fixed is not None else demand.stabilized.kept_per_s


def formulate(
    states: Sequence[VariantState],
    models: Mapping[ModelKey, ModelProblem],
    devices: Devices,
    guard: Guard,
    objective: str,
) -> FormulatedProblem:
    """The problem of all models together, each in the unit of its engine, within devices and rules."""
    parts = [problem for _, problem in sorted(models.items())]
    asked = [requirement for part in parts for requirement in part.requirements]
    current = {state.variant.key: state.variant.current for state in states}
    demands = {model: part.demand for model, part in models.items() if part.demand is not None}
    rates = {model: demand.rate_per_s for model, demand in demands.items()}
    fillings = _joined(part.fillings for part in parts)
    needs = Needs.of(asked, fillings, rates)
    guard = guard.repairing(key for key in current if _is_short(key, needs, demands, current))
    requirements = tuple(_ranked(map(guard.requirement, asked), states))
    holds, kept = _joined(part.holds for part in parts), {each.variant.key: each.kept for each in states}
    partial = {key: hold for key, hold in kept.items() if hold is not None} | _joined(part.partial for part in parts)
    free = [state.variant for state in states if state.is_free and state.variant.key not in holds]
    decided = {variant.key for variant in free}
    drawn = {state.variant.key: devices.taken(state.variant) for state in states}
    surplus = surplus_devices((each for each in states if each.variant.key not in decided), drawn, devices.blind)
    current_weights = _joined(part.current_weights for part in parts)
    own_bounds = {each.key: bounds_of(each, keeps_current=each.key in partial) for each in free}
    offered = [candidate for part in parts for candidate in part.candidates]
    ruled_out = {each.key: words for each in offered if (words := guard.why_not(each.key))}
    candidates = tuple(each for each in offered if each.key not in ruled_out)
    problem = Problem(
        requirements=requirements,
        candidates=candidates,
        current=current,
        current_weights=current_weights,
        bounds=_guarded(guard, own_bounds, frozenset(partial), _moving(candidates, current)),
        pinned={key: allocation for key, allocation in current.items() if key not in decided},
        in_order=frozenset(each.key for each in free if each.settings[ACCELERATOR].value == IN_ORDER),
        pools=pools_beside(devices.pools, surplus, current, drawn),
        current_devices=drawn,
        touch_weights={
            each.key: current_weights[each.key] * start_share(each) for each in free if each.key in current_weights
        },
        ready=_ready(states),
        objective=objective,
    )
    return FormulatedProblem(
        problem=problem,
        needs=replace(needs, requirements={each.model: each for each in requirements}),
        demands=demands,
        holds=holds,
        notes=_with_ruled_out(_with_surplus(_joined(part.notes for part in parts), surplus), ruled_out),
        partial=partial,
        guard=guard,
        unguarded=_joined(each.fixed or {} for each in asked),
        own_bounds=own_bounds,
    )


def _moving(candidates: Iterable[Candidate], current: Allocations) -> frozenset[ResourceKey]:
    """Variants that may move to another accelerator."""
    keys = (each.key for each in candidates)
    return frozenset(key.variant for key in keys if key.accelerator != current[key.variant].accelerator)


def _guarded(
    guard: Guard,
    own_bounds: Mapping[ResourceKey, Bounds],
    partial: frozenset[ResourceKey],
    moving: frozenset[ResourceKey],
) -> dict[ResourceKey, Bounds]:
    """The bounds that rules leave of variants' own."""
    return {
        key: guard.bounds(key, own, may_shrink=key not in partial, may_move=key in moving)
        for key, own in own_bounds.items()
    }


def _joined(parts: Iterable[Mapping[Key, Value]]) -> dict[Key, Value]:
    joined: dict[Key, Value] = {}
    for part in parts:
        joined |= part
    return joined


def _with_surplus(
    notes: Mapping[ResourceKey, tuple[str, ...]], surplus: Mapping[ResourceKey, Mapping[str, int]]
) -> dict[ResourceKey, tuple[str, ...]]:
    return {**notes, **{key: (*notes.get(key, ()), surplus_words(taken)) for key, taken in surplus.items()}}


def _with_ruled_out(
    notes: Mapping[ResourceKey, tuple[str, ...]], ruled_out: Mapping[CandidateKey, str]
) -> dict[ResourceKey, tuple[str, ...]]:
    told = dict(notes)
    for key, words in ruled_out.items():
        told[key.variant] = (*told.get(key.variant, ()), f"not {key.accelerator}: {words}")
    return told


def _ranked(requirements: Iterable[Requirement], states: Iterable[VariantState]) -> Iterator[Requirement]:
    """The requirements with what decides where not everything fits: how urgent each is."""
    members: defaultdict[ModelKey, list[Variant]] = defaultdict(list)
    for state in states:
        members[state.variant.model].append(state.variant)
    for requirement in requirements:
        own = members[replace(requirement.model, role="")] or members[requirement.model]
        is_routed = all(variant.is_pooled for variant in own)
        yield replace(
            requirement,
            priority=max(map(priority_of, own), default=0),
            active_limit=None if is_routed else MIXED,
        )


def _ready(states: Iterable[VariantState]) -> dict[ResourceKey, int]:
    """Replicas that report, where fewer do than Git says."""
    return {state.variant.key: state.replicas_reporting for state in states if state.replicas_reporting is not None}


def with_shared_rules(formulated: FormulatedProblem) -> FormulatedProblem:
    """The problem with a row for each budget and limit on changes, as far as its words can say them.

    Of a budget that is what has a price, and no repair: these a person decides about. Finished answers are no choice.
    What is left out here is judged in the finished plan.
    """
    shared = formulated.guard.shared
    if not shared:
        return formulated
    problem = formulated.problem
    finished = {key for each in problem.requirements for key in each.fixed or ()}
    chosen = frozenset(problem.bounds) - finished
    budgets, limits = [], []
    for each in shared:
        if each.counts is Counted.CHANGES:
            members = each.members & chosen
            forced = sum(not problem.bounds[key].admits(problem.current[key].replicas) for key in members)
            limits.append(ChangeLimit(name=each.name, variants=members, changes=max(int(each.limit), forced)))
        else:
            priced = each.members & chosen & _priced(problem)
            repaired = frozenset(key for key in priced if is_short(formulated, key))
            budgets.append(_budget(formulated, each, priced - repaired))
    problem = replace(problem, budgets=tuple(budgets), change_limits=tuple(limits))
    return replace(formulated, problem=problem)


def is_short(formulated: FormulatedProblem, key: ResourceKey) -> bool:
    """Whether the load of a variant's model exceeds what runs now: what it gets more repairs that."""
    return _is_short(key, formulated.needs, formulated.demands, formulated.problem.current)


def _is_short(key: ResourceKey, needs: Needs, demands: Mapping[ModelKey, ModelDemand], current: Allocations) -> bool:
    model = needs.owner_of.get(key)
    return model is not None and _load_of(model, needs, demands) > needs.total(model, current) * (1 + TOLERANCE)


def _load_of(model: ModelKey, needs: Needs, demands: Mapping[ModelKey, ModelDemand]) -> float:
    demand = demands.get(model)
    if demand is not None and needs.requirements[model].fixed is None:
        return demand.rate_per_s / (1 + demand.headroom)
    filling = needs.fillings.get(model)
    return 0.0 if filling is None else filling.demand


def _priced(problem: Problem) -> frozenset[ResourceKey]:
    """Variants of which every choice has a price that the solver counts in."""
    unpriced = {each.key.variant for each in problem.candidates if each.weight != each.cost_per_hour}
    return frozenset(each.key.variant for each in problem.candidates) - unpriced


def _budget(formulated: FormulatedProblem, shared: SharedLimit, members: frozenset[ResourceKey]) -> Budget:
    """What the others leave for the members; never less than they have, or must have."""
    problem, subjects = formulated.problem, formulated.guard.subjects
    others = math.fsum(subjects[key].variant.cost_of(subjects[key].current) or 0.0 for key in shared.members - members)
    now = math.fsum(problem.current_weights.get(key, 0.0) * problem.current[key].replicas for key in members)
    least: defaultdict[ResourceKey, float] = defaultdict(float)
    for each in problem.candidates:
        if each.key.variant in members:
            cost = each.weight * problem.bounds[each.key.variant].minimum
            least[each.key.variant] = max(least[each.key.variant], cost)
    amount = max(shared.limit - others, now, math.fsum(least.values()))
    return Budget(name=f"budget {shared.name}", variants=members, amount=amount)
