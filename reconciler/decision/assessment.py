"""Whether a variant may change, or has drifted, and whether what it carries is known: each with its reason."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.decision.after_merge.reverting import broken_promises
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
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.answers import NoAnswer
from reconciler.domain.measured.loads import Load
from reconciler.domain.measured.replicas import LiveReplicas
from reconciler.domain.promises import BrokenPromise
from reconciler.domain.provenance import Figure
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import SYNC_DELAY_S
from reconciler.metrics.history import watched_target
from reconciler.metrics.quantities import LIVE_WINDOW_S, Name
from reconciler.metrics.queries import duration


def assess_variants(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold]) -> tuple[VariantState, ...]:
    """The state of every variant; `refused` are changes that could not be written."""
    choices = choose_engines(snapshot.variants, snapshot.observed.loads)
    promises = broken_promises(snapshot)
    contradicted = _contradicted(snapshot, choices, promises)
    choices |= {
        model: EngineChoice(engine=AUTOMATIC[-1].name, reason=hold.words) for model, hold in contradicted.items()
    }
    kept = _kept_models(snapshot, choices)
    alone = tuple(
        replace(
            _state_of(snapshot, variant, choices[variant.model], refused.get(variant.key)),
            contradiction=contradicted.get(variant.model),
            kept=kept[variant.model],
            promise=promises.get(variant.key),
        )
        for variant in snapshot.variants
    )
    alone = _share_gaps(alone)
    blind = {state.variant.model: (state.variant, words) for state in reversed(alone) if (words := _blind(state))}
    return tuple(
        _beside(state, *blind[state.variant.model]) if state.variant.model in blind else state for state in alone
    )


def _contradicted(
    snapshot: Snapshot, choices: Mapping[ModelKey, EngineChoice], promises: Mapping[ResourceKey, BrokenPromise]
) -> dict[ModelKey, Hold]:
    """Why the profiles of a model are not believed, for they expect other than was measured.

    What goes back to where it was does not go by the profile of what it leaves.
    """
    leaving = {key for key, broken in promises.items() if broken.is_move and not broken.reverted_by}
    found: dict[ModelKey, Hold] = {}
    for name, engine in ENGINES.items():
        sized = [each for each in snapshot.variants if choices[each.model].engine is name and each.key not in leaving]
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


def drift_of(snapshot: Snapshot, variant: Variant) -> Hold | None:
    """Why nothing may be proposed for a variant whose live replicas stay away from Git; None where they do not.

    Away is another number at every sample of the last sync delay; one that is not known is not away.
    """
    live, workload = snapshot.observed.live.get(variant.key), variant.workload
    if workload is None or not isinstance(live, LiveReplicas) or not _is_synced(snapshot, variant):
        return None
    delay = variant.settings[SYNC_DELAY_S]
    counts = live.since(snapshot.now_s - delay.value)
    if not counts or any(math.isnan(count) or count == workload.replicas for count in counts):
        return None
    place = workload.written_at[0].place
    words = (
        f"spec.replicas of {workload.key.kind} {workload.key.label} is {counts[-1]:g} in the cluster and "
        f"{workload.replicas} in Git ({place}), for longer than the sync delay of "
        f"{duration(delay.value)} ({delay.source}): something that Git does not show sets it, or nobody applies Git; "
        "stop that and write the live count into Git, or put its owner there (an HPA or ScaledObject, "
        "with whenAutoscaled: bounds), or set ignore"
    )
    return Hold(kind=HoldKind.DRIFTED, words=words, place=place)


def live_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    """The two numbers that are held against each other; none where that was not asked for."""
    live, workload = snapshot.observed.live.get(variant.key), variant.workload
    if live is None or workload is None or watched_target(variant) is None:
        return
    newest, reason = (None, live.reason) if isinstance(live, NoAnswer) else (live.newest, "")
    if newest is None:
        reason = reason or "not told lately, or by several and differently"
    queries = (str(Name.LIVE_REPLICAS),)
    age = "" if _is_synced(snapshot, variant) else ", in a commit too new to be sure that it was applied"
    place = f"{workload.written_at[0].place}{age}"
    for name, value, words, asked in (
        ("replicas in the cluster", newest, reason, queries),
        ("replicas in Git", workload.replicas, place, ()),
    ):
        yield Figure(subject=workload.key.label, name=name, value=value, unit="", reason=words, queries=asked)


def _is_synced(snapshot: Snapshot, variant: Variant) -> bool:
    """Whether the commit had its sync delay, and metrics the time to show what came of it."""
    if snapshot.committed_s is None:
        return False
    return snapshot.now_s - snapshot.committed_s > variant.settings[SYNC_DELAY_S].value + LIVE_WINDOW_S
