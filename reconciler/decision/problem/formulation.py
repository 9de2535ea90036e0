"""From variant states and capacities to the problem of the optimizer: requirements, candidates, bounds, pins."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decision.engines.answers import Answers
from reconciler.decision.engines.capacities import Capacities, Capacity, Row
from reconciler.decision.problem.demands import ModelDemand, demand_of, load_variations
from reconciler.decision.problem.devices import Devices
from reconciler.decision.problem.floors import idle_replicas, priority_of, written_minimum
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.problem.needs import Needs
from reconciler.decision.problem.surplus import pools_beside, surplus_devices, surplus_words
from reconciler.decision.problem.weights import current_weight, relative_weight, start_share, unserved_price
from reconciler.decision.variant_states import VariantState, beside_unknown
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.requirements import Bounds, Candidate, CandidateKey, Problem, Requirement, Segment
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, IN_ORDER, MAX_REPLICAS
from reconciler.domain.variants import Option, Variant
from reconciler.sizing.saturation import Filling, SaturationAnswer

MIXED = 2
"""Variants that may serve one model at once where requests are spread evenly: replicas that carry less get
as many as those that carry more (AIBrix issue 637), so a plan mixes no more than it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulatedProblem:
    """A problem with what was left out of it: variants that got no candidate, options that were not considered.

    `demands` are of models that are sized by a queue, `answers` of the other engines. `partial` says of
    variants whose model was not wholly seen what is missing: none of them may shrink.
    """

    problem: Problem
    needs: Needs
    demands: Mapping[ModelKey, ModelDemand]
    answers: Answers
    stuck: Mapping[ResourceKey, str] = field(default_factory=dict)
    notes: Mapping[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: Mapping[ResourceKey, str] = field(default_factory=dict)

    def load_of(self, model: ModelKey) -> float:
        """What is asked of a model now, without any headroom, in the unit of its requirement."""
        demand = self.demands.get(model)
        if demand is not None and self.needs.requirements[model].fixed is None:
            return demand.rate_per_s / (1 + demand.headroom)
        filling = self.needs.fillings.get(model)
        return 0.0 if filling is None else filling.demand

    def least(self, model: ModelKey) -> float:
        """What a proposal that is open must carry to stay, in the unit of its requirement."""
        requirement, demand = self.needs.requirements[model], self.demands.get(model)
        return requirement.amount if demand is None or requirement.fixed is not None else demand.stabilized.kept_per_s


def rows_of(states: Iterable[VariantState]) -> tuple[Row, ...]:
    """The candidates to size: all options of a free variant, the current accelerator's of a held one."""
    return tuple(row for state in states if state.is_sized for row in _rows(state))


def formulate(
    states: Sequence[VariantState], capacities: Capacities, answers: Answers, snapshot: Snapshot
) -> FormulatedProblem:
    """The problem of all models together, each in the unit of its engine, within the snapshot's inventory."""
    draft = _Draft(
        capacities=capacities,
        answers=answers,
        devices=Devices.of(snapshot),
        variations=load_variations((state.variant for state in states), snapshot),
    )
    for model, members in _by_model(states).items():
        if model in answers.saturation:
            draft.add_saturated(members, answers.saturation[model])
        elif members[0].engine.is_tracking:
            draft.add_tracked(model, members)
        else:
            draft.add_model(model, members)
    return draft.formulated(states, snapshot.settings.objective)


def _rows(state: VariantState) -> Iterable[Row]:
    variant = state.variant
    if variant.service_class is None or state.load is None:
        return
    for option in variant.options:
        if state.is_free or option.accelerator == variant.current.accelerator:
            yield Row(
                key=_key(variant, option),
                profile=option.profile,
                load=state.load,
                service_class=variant.service_class.value,
                correction=_factor(state, option),
            )


def _factor(state: VariantState, option: Option) -> float:
    """What is observed on the current accelerator says nothing of the others."""
    is_current = option.accelerator == state.variant.current.accelerator
    return state.correction.factor if state.correction is not None and is_current else 1.0


def _key(variant: Variant, option: Option) -> CandidateKey:
    return CandidateKey(variant=variant.key, accelerator=option.accelerator)


def _by_model(states: Iterable[VariantState]) -> dict[ModelKey, list[VariantState]]:
    models: defaultdict[ModelKey, list[VariantState]] = defaultdict(list)
    for state in states:
        models[state.variant.model].append(state)
    return dict(sorted(models.items()))


@dataclass(slots=True)
class _Draft:
    """Collects the problem model by model."""

    capacities: Capacities
    answers: Answers
    devices: Devices
    variations: Mapping[ModelKey, LoadVariation]
    requirements: list[Requirement] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    demands: dict[ModelKey, ModelDemand] = field(default_factory=dict)
    current_weights: dict[ResourceKey, float] = field(default_factory=dict)
    stuck: dict[ResourceKey, str] = field(default_factory=dict)
    notes: dict[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: dict[ResourceKey, str] = field(default_factory=dict)

    def add_model(self, model: ModelKey, members: Sequence[VariantState]) -> None:
        load = members[0].load
        if load is None:
            return
        partial = "; ".join(state.partial for state in members if state.partial)
        if partial:
            for state in members:
                self.partial[state.variant.key] = partial
                self.notes[state.variant.key] = (f"{partial}: nothing is scaled down until all do",)
        demand = self.demands[model] = self._demand(model, members, load.arrival_rate_per_s)
        if load.arrival_rate_per_s > 0:
            self._add_loaded(model, members, demand)
        else:
            self._add_idle(model, members)

    def add_saturated(self, members: Sequence[VariantState], answer: SaturationAnswer) -> None:
        """What saturation asks for: a variant that it cannot judge stays as it is, one it doubts does not shrink."""
        self.requirements += answer.requirements
        words = "; ".join(dict.fromkeys(answer.reasons.values()))
        self.partial |= dict.fromkeys(answer.floors, words)
        free = [state.variant for state in members if state.is_free]
        self.stuck |= {variant.key: answer.held[variant.key] for variant in free if variant.key in answer.held}
        offered = [variant for variant in free if variant.key not in self.stuck]
        is_priced = all(state.variant.current_cost_per_hour is not None for state in members)
        for variant in offered:
            self.current_weights[variant.key] = current_weight(variant, is_priced=is_priced)
            self.candidates.append(self._kept(variant, is_priced=is_priced))

    def add_tracked(self, model: ModelKey, members: Sequence[VariantState]) -> None:
        """What metric targets ask for is a finished answer; a workload that they cannot judge stays as it is."""
        fixed: dict[ResourceKey, int] = {}
        for variant in (state.variant for state in members if state.is_free):
            answer = self.answers.tracking.get(variant.key)
            if answer is None or answer.replicas is None:
                reasons = answer.reasons if answer is not None else ()
                self.stuck[variant.key] = "; ".join(reasons) or "its metric targets were not followed"
            else:
                fixed[variant.key] = answer.replicas
                self.notes[variant.key] = answer.notes
        keys = [CandidateKey(variant=key, accelerator=_running(members, key)) for key in fixed]
        segments = (Segment(amount=float(sum(fixed.values()))),)
        carried = dict.fromkeys(keys, 1.0)
        self.requirements.append(
            Requirement(model=model, unit="replicas", segments=segments, per_replica=carried, fixed=fixed)
        )

    def _add_idle(self, model: ModelKey, members: Sequence[VariantState]) -> None:
        """Without load there are no lengths, so no capacity: the answer is the fewest replicas, where they are.

        While some arrived within `payback`, nobody can tell how many replicas that took, so none goes.
        """
        free = [state.variant for state in members if state.is_free]
        variation = self.variations.get(model)
        fixed = {
            variant.key: self._paused(variant)
            if variation is not None and variation.peak_per_s > 0
            else max(idle_replicas(variant), self._bounds(variant).minimum)
            for variant in free
        }
        self.requirements.append(Requirement(model=model, unit="replicas", segments=(), per_replica={}, fixed=fixed))

    def _paused(self, variant: Variant) -> int:
        bounds = self._bounds(variant)
        replicas = max(idle_replicas(variant), variant.current.replicas, bounds.minimum)
        return replicas if bounds.maximum is None else min(replicas, bounds.maximum)

    def _demand(self, model: ModelKey, members: Sequence[VariantState], load_per_s: float) -> ModelDemand:
        free = (state.variant for state in members if state.is_free)
        shrinking = [variant for variant in free if variant.current.replicas > self._bounds(variant).minimum]
        return demand_of(
            [state.variant for state in members],
            load_per_s,
            self.variations.get(model),
            self._carried(members),
            shrinking,
        )

    def _add_loaded(self, model: ModelKey, members: Sequence[VariantState], demand: ModelDemand) -> None:
        usable = {state.variant.key: self._usable(state.variant) for state in members if state.is_free}
        variants = {state.variant.key: state.variant for state in members}
        unpriced = sorted(
            {each.accelerator for group in usable.values() for each in group if each.cost_per_hour is None}
        )
        chosen = {key: self._rankable(variants[key], options, unpriced) for key, options in usable.items()}
        self._stop_beside_unknown([variants[key] for key in chosen])
        offered = {key: options for key, options in chosen.items() if key not in self.stuck}
        is_priced = all(option.cost_per_hour is not None for options in offered.values() for option in options)
        for key, options in offered.items():
            self.current_weights[key] = current_weight(variants[key], is_priced=is_priced)
            self.candidates += [
                self._candidate(variants[key], option, order, is_priced=is_priced)
                for order, option in enumerate(options)
            ]
        price = unserved_price(members) if is_priced else None
        self.requirements.append(
            Requirement(
                model=model,
                unit="req/s",
                segments=(Segment(amount=demand.stabilized.amount_per_s, price=price),),
                per_replica=self._carried(members),
            )
        )

    def _usable(self, variant: Variant) -> tuple[Option, ...]:
        """The options that meet the SLO and can be written; a variant without any stays, with the reasons."""
        obstacles = {option.accelerator: self._obstacle(variant, option) for option in variant.options}
        usable = tuple(option for option in variant.options if not obstacles[option.accelerator])
        if not usable:
            reasons = "; ".join(f"{accelerator}: {reason}" for accelerator, reason in obstacles.items())
            self.stuck[variant.key] = f"{self._why_stuck(variant)}: {reasons}"
        else:
            words = tuple(f"not {accelerator}: {reason}" for accelerator, reason in obstacles.items() if reason)
            self.notes[variant.key] = (*self.notes.get(variant.key, ()), *words)
        return usable

    def _stop_beside_unknown(self, variants: Iterable[Variant]) -> None:
        """A stuck variant keeps its accelerator: without a profile for that, what the others must carry is unknown."""
        stuck = [each for each in variants if each.key in self.stuck and each.current.replicas > 0]
        unknown = [
            each
            for each in stuck
            if CandidateKey(variant=each.key, accelerator=each.current.accelerator) not in self.capacities.of
        ]
        for variant in variants if unknown else ():
            words = f"{unknown[0].current.accelerator} has no profile"
            self.stuck.setdefault(variant.key, beside_unknown(unknown[0], words))

    def _why_stuck(self, variant: Variant) -> str:
        attainable = any(self._capacity(_key(variant, option)).rate_per_s > 0 for option in variant.options)
        return "no accelerator can be chosen" if attainable else "SLO unattainable"

    def _obstacle(self, variant: Variant, option: Option) -> str:
        capacity = self._capacity(_key(variant, option))
        if capacity.rate_per_s <= 0:
            return capacity.words
        if variant.key in self.partial and option.accelerator != variant.current.accelerator:
            return f"{self.partial[variant.key]}: the accelerator is kept until all do"
        return option.unwritable

    def _floor(self, variant: Variant) -> int:
        """Replicas below which the variant must not go while a part of the load is not seen."""
        return variant.current.replicas if variant.key in self.partial else 0

    def _bounds(self, variant: Variant) -> Bounds:
        least, most = written_minimum(variant), variant.settings[MAX_REPLICAS].value
        least = max(least, self._floor(variant))
        return Bounds(minimum=least if most is None else min(least, most), maximum=most)

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
            self.stuck[variant.key] = f"no accelerator can be chosen: {others}: set accelerators[].costPerHour"
        return kept

    def _carried(self, members: Sequence[VariantState]) -> dict[CandidateKey, float]:
        keys = (_key(state.variant, option) for state in members for option in state.variant.options)
        return {key: self.capacities.of[key].rate_per_s for key in keys if key in self.capacities.of}

    def _capacity(self, key: CandidateKey) -> Capacity:
        return self.capacities.of[key]

    def formulated(self, states: Sequence[VariantState], objective: str) -> FormulatedProblem:
        free = [state.variant for state in states if state.is_free and state.variant.key not in self.stuck]
        held = {state.variant.key: state.variant.current for state in states}
        for variant in free:
            del held[variant.key]
        current = {state.variant.key: state.variant.current for state in states}
        drawn = {state.variant.key: self.devices.taken(state.variant) for state in states}
        surplus = surplus_devices((each for each in states if each.variant.key in held), drawn, self.devices.blind)
        for key, taken in surplus.items():
            self.notes[key] = (*self.notes.get(key, ()), surplus_words(taken))
        problem = Problem(
            requirements=tuple(self._ranked(states)),
            candidates=tuple(self.candidates),
            current=current,
            current_weights=self.current_weights,
            bounds={variant.key: self._bounds(variant) for variant in free},
            pinned=held,
            in_order=frozenset(variant.key for variant in free if _is_in_order(variant)),
            pools=pools_beside(self.devices.pools, surplus, current, drawn),
            current_devices=drawn,
            touch_weights={
                variant.key: self.current_weights[variant.key] * start_share(variant)
                for variant in free
                if variant.key in self.current_weights
            },
            ready=_ready(states),
            objective=objective,
        )
        return FormulatedProblem(
            problem=problem,
            needs=Needs.of(
                self.requirements,
                _fillings(self.answers.saturation.values()),
                {model: demand.rate_per_s for model, demand in self.demands.items()},
            ),
            demands=self.demands,
            answers=self.answers,
            stuck=self.stuck,
            notes=self.notes,
            partial=self.partial,
        )

    def _candidate(self, variant: Variant, option: Option, order: int, *, is_priced: bool) -> Candidate:
        weight = option.cost_per_hour if is_priced and option.cost_per_hour is not None else relative_weight(variant)
        return Candidate(
            key=_key(variant, option),
            weight=weight,
            cost_per_hour=option.cost_per_hour,
            start_weight=weight * start_share(variant),
            devices=self.devices.drawn(variant, option.accelerator, option.devices_per_replica),
            order=order,
        )

    def _kept(self, variant: Variant, *, is_priced: bool) -> Candidate:
        """The accelerator that a variant runs on: saturation says nothing of any other."""
        return Candidate(
            key=CandidateKey(variant=variant.key, accelerator=variant.current.accelerator),
            weight=current_weight(variant, is_priced=is_priced),
            cost_per_hour=variant.current_cost_per_hour,
            devices=self.devices.taken(variant),
        )

    def _ranked(self, states: Sequence[VariantState]) -> Iterator[Requirement]:
        """The requirements with what decides where not everything fits: how urgent each is."""
        members: defaultdict[ModelKey, list[VariantState]] = defaultdict(list)
        for state in states:
            members[state.variant.model].append(state)
        for requirement in self.requirements:
            own = members[replace(requirement.model, role="")] or members[requirement.model]
            is_routed = all(each.variant.is_pooled for each in own)
            yield replace(
                requirement,
                priority=max((priority_of(each.variant) for each in own), default=0),
                active_limit=None if is_routed else MIXED,
            )


def _ready(states: Iterable[VariantState]) -> dict[ResourceKey, int]:
    """Replicas that report, where fewer do than Git says."""
    return {state.variant.key: state.replicas_reporting for state in states if state.replicas_reporting is not None}


def _running(members: Iterable[VariantState], key: ResourceKey) -> str:
    return next(each.variant.current.accelerator for each in members if each.variant.key == key)


def _fillings(answers: Iterable[SaturationAnswer]) -> dict[ModelKey, Filling]:
    return {model: filling for answer in answers for model, filling in answer.fillings.items()}


def _is_in_order(variant: Variant) -> bool:
    return variant.settings[ACCELERATOR].value == IN_ORDER
