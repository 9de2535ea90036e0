"""Whether a variant may change, and whether what it carries is known: two questions, each with its reason."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.decision.drift import drift_of
from reconciler.decision.engines.registry import AUTOMATIC, ENGINES, choose_engines
from reconciler.decision.growth import why_unproven
from reconciler.decision.shrinking import why_kept
from reconciler.decision.variant_states import (
    EngineChoice,
    VariantState,
    beside_unknown,
    is_counted,
    lacks_profile,
    load_partial,
)
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.loads import Load
from reconciler.domain.measured.replicas import LiveReplicas
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variants import Variant


def assess_variants(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold]) -> tuple[VariantState, ...]:
    """The state of every variant; `refused` are changes that could not be written."""
    choices = choose_engines(snapshot.variants, snapshot.observed.loads)
    contradicted = _contradicted(snapshot, choices)
    choices |= {
        model: EngineChoice(engine=AUTOMATIC[-1].name, reason=hold.words) for model, hold in contradicted.items()
    }
    kept = _kept_models(snapshot, choices)
    alone = tuple(
        replace(
            _state_of(snapshot, variant, choices[variant.model], refused.get(variant.key)),
            contradiction=contradicted.get(variant.model),
            kept=kept[variant.model],
        )
        for variant in snapshot.variants
    )
    alone = _share_gaps(alone)
    blind = {state.variant.model: (state.variant, words) for state in reversed(alone) if (words := _blind(state))}
    return tuple(
        _beside(state, *blind[state.variant.model]) if state.variant.model in blind else state for state in alone
    )


def _contradicted(snapshot: Snapshot, choices: Mapping[ModelKey, EngineChoice]) -> dict[ModelKey, Hold]:
    """Why the profiles of a model are not believed, for they expect other than was measured."""
    found: dict[ModelKey, Hold] = {}
    for name, engine in ENGINES.items():
        sized = [each for each in snapshot.variants if choices[each.model].engine is name]
        holds = engine.contradictions(snapshot, sized)
        for variant in sized:
            if variant.key in holds:
                found.setdefault(variant.model, holds[variant.key])
    return found


def _kept_models(snapshot: Snapshot, choices: Mapping[ModelKey, EngineChoice]) -> dict[ModelKey, Hold | None]:
    """Why none of a model's replicas may go, by model."""
    members: dict[ModelKey, list[Variant]] = {}
    for variant in snapshot.variants:
        members.setdefault(variant.model, []).append(variant)
    return {model: why_kept(snapshot, model, own, ENGINES[choices[model].engine]) for model, own in members.items()}


def _share_gaps(states: tuple[VariantState, ...]) -> tuple[VariantState, ...]:
    """Where routes split what is counted as one, a replica that does not report is missing in every part."""
    gaps: dict[ModelKey, list[str]] = {}
    for state in states:
        if state.partial and state.variant.share is not None:
            gaps.setdefault(state.variant.model.whole, []).append(state.partial.words)
    return tuple(
        replace(each, partial=load_partial("; ".join(gaps[each.variant.model.whole])))
        if each.variant.share is not None and each.variant.model.whole in gaps
        else each
        for each in states
    )


def _state_of(snapshot: Snapshot, variant: Variant, choice: EngineChoice, refused: Hold | None) -> VariantState:
    load = snapshot.observed.loads.get(variant.model)
    observation = snapshot.observed.observations.get(variant.key)
    lacks = ENGINES[choice.engine].lacks(snapshot, variant)
    live = snapshot.observed.live.get(variant.key)
    newest = live.newest if isinstance(live, LiveReplicas) else None
    found = (refused, drift_of(snapshot, variant), choice.conflict, lacks.metrics, lacks_profile(variant))
    return VariantState(
        variant=variant,
        choice=choice,
        load=load if isinstance(load, Load) else None,
        holds=variant.holds or tuple(hold for hold in found if hold is not None),
        gap=lacks.means,
        partial=lacks.replicas,
        unproven=why_unproven(snapshot, variant, ENGINES[choice.engine].waits_for_replicas_s(variant)),
        replicas_reporting=None if observation is None or observation.absence else observation.replicas_reporting,
        replicas_live=None if newest is None else int(newest),
    )


def _blind(state: VariantState) -> str:
    """Why nobody knows what a held variant's replicas carry; empty when it is known, or none run."""
    if not is_counted(state.variant):
        return str(state.hold or "")
    if state.is_free or state.variant.current.replicas == 0:
        return ""
    return ENGINES[state.engine].why_capacity_unknown(state)


def _beside(state: VariantState, unknown: Variant, words: str) -> VariantState:
    """A variant whose model is also served by one of unknown capacity cannot be sized either."""
    if unknown.key == state.variant.key or state.hold is not None:
        return state
    return replace(state, holds=(beside_unknown(unknown, words),))
