"""Whether a variant may change, grow or shrink now, each with its reason."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from statistics import fmean

import numpy as np

from reconciler.aftermerge import broken_promises
from reconciler.decision.engines.port import Basis, SizingEngine
from reconciler.decision.engines.registry import AUTOMATIC, ENGINES, choose_engines
from reconciler.decision.variant_states import (
    EngineChoice,
    VariantState,
    ago,
    beside_unknown,
    lacks_profile,
    load_partial,
    payback_of,
    span,
)
from reconciler.domain.answers import NoAnswer
from reconciler.domain.canaries import ENOUGH_HOURS
from reconciler.domain.history import Bools, Floats, Integers, LoadHistory, known_lengths
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Figure, ModelKey, ResourceKey
from reconciler.domain.observed import LiveReplicas, Load, ReplicaMetrics, ResourceQuota, is_usual_churn
from reconciler.domain.proposals import BrokenPromise
from reconciler.domain.records import replace
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variant_settings import SYNC_DELAY_S
from reconciler.metrics.history import watched_target
from reconciler.metrics.quantities import LIVE_WINDOW_S, Name
from reconciler.metrics.queries import duration
from reconciler.snapshot.canaries import is_canary


def why_unproven(snapshot: Snapshot, variant: Variant, waits_s: float) -> Hold | None:
    """Why nothing may be added to a variant's model: replicas that Git asks for do not report; None where all do.

    Nor longer than `waits_s` after the newest commit, which may have asked for them, unless they find no node. What an
    autoscaler runs it adds by itself.
    """
    observation, asked = snapshot.observed.observations.get(variant.key), variant.current.replicas
    if observation is None or observation.absence is not None or variant.is_autoscaled:
        return None
    missing = asked - observation.replicas_reporting
    unschedulable = snapshot.observed.unschedulable.get(variant.key, 0)
    is_usual = is_usual_churn(missing, asked) or not _is_awaited(snapshot, waits_s)
    if missing <= 0 or waits_s == 0 or (is_usual and not unschedulable):
        return None
    pending = f", {unschedulable} find no node" if unschedulable else ""
    words = (
        f"{observation.replicas_reporting} of {asked} replicas of {variant.key.label} report{pending}: "
        "nothing is added until those that Git asks for do"
    )
    return Hold(kind=HoldKind.GROWTH_UNPROVEN, words=words)


def _is_awaited(snapshot: Snapshot, waits_s: float) -> bool:
    age_s = math.nan if snapshot.committed_s is None else snapshot.now_s - snapshot.committed_s
    return math.isinf(waits_s) or 0 <= age_s < waits_s


def room_in_quotas(
    snapshot: Snapshot, key: ResourceKey, devices_per_replica: Mapping[str, int]
) -> tuple[int, ResourceQuota] | None:
    """How many more replicas the quotas of a namespace admit, and the one that binds; None where none does."""
    quotas = snapshot.observed.quotas.get((key.cluster, key.namespace), ())
    rooms = [
        (max(int(quota.left // devices_per_replica[quota.resource]), 0), quota)
        for quota in quotas
        if devices_per_replica.get(quota.resource)
    ]
    return min(rooms, key=lambda each: (each[0], each[1].name), default=None)


# Why nothing of a model may shrink now: its past is not known, or what is measured contradicts itself. One rule for
# all engines that follow `payback`: a replica goes only if nothing of the last `payback` needed it. Where that time
# was not seen, or what is seen looks like no other hour, all stay; more may always come.

SHORTER = 0.5
"""Of the shortest requests of the day before: below, requests fail, or are of a kind not seen before."""
FEWEST_TOKENS = 2.0
"""A request that is answered with less is classified or failed; which of both, only a longer past tells."""
NOISE = 3.0
"""Standard deviations: so far a mean length may lie below the usual one by chance, when few requests make it."""
FEWEST_PAIRS = 5
"""Of neighbouring moments: fewer say nothing of how far requests differ."""
SELDOM = 7.0
"""Requests that would have come by now: of a thousand silences as long, one is chance (e^-7)."""
HELD_AT_LEAST = 0.1
"""Of half of the outputs that run: a KV cache that holds less does not say what it holds."""
BEYOND_TARGET = 1.1
"""Times its target: so far above it a mean of `FEWEST_REQUESTS` is no noise."""
FEWEST_REQUESTS = 30.0
DAY_S = 86_400.0
HOUR_S = 3600.0


def why_kept(
    snapshot: Snapshot, model: ModelKey, members: Sequence[Variant], engine: SizingEngine, changed: str
) -> Hold | None:
    """Why none of a model's replicas may go; None where its engine may judge that.

    `changed` says in which way its requests are shorter than ever, empty where they are not.
    """
    if engine.safeguards is None:
        return None
    payback_s = payback_of(members)
    lacking = snapshot.observed.incomplete.get(model.cluster, "")
    if lacking:
        words = f"Prometheus of {model.cluster} may not have answered with all that there is ({lacking})"
        return Hold(kind=HoldKind.LOAD_PARTIAL, words=f"{words}: nothing is scaled down")
    forgotten = engine.safeguards.forgets(snapshot, members, payback_s)
    if forgotten:
        words = f"{forgotten}: nothing is scaled down until the whole of the last {span(payback_s)} is known"
        return Hold(kind=HoldKind.HISTORY_MISSING, words=words)
    load = snapshot.observed.loads.get(model)
    if changed:
        return Hold(kind=HoldKind.LENGTHS_CHANGED, words=f"{changed}: nothing is scaled down for them")
    is_measured = isinstance(load, Load) and load.arrival_rate_per_s * load.window_s >= FEWEST_REQUESTS
    missed = next(_missed(snapshot, members), "") if is_measured else ""
    if missed:
        return Hold(kind=HoldKind.TARGET_MISSED, words=f"{missed}: nothing is scaled down while a target is missed")
    contradicting = next(_contradicting(snapshot, members), "") if engine.basis is Basis.FULLNESS else ""
    if contradicting:
        return Hold(kind=HoldKind.GAUGES_CONTRADICT, words=f"{contradicting}: nothing is scaled down")
    return None


def _missed(snapshot: Snapshot, members: Iterable[Variant]) -> Iterator[str]:
    """Targets that a mean is above: then a percentile is too, whatever a profile expects."""
    for member in members:
        observation, service = snapshot.observed.observations.get(member.key), member.service_class
        if observation is None or observation.absence is not None or service is None or not member.current.replicas:
            continue
        for name, target in (("ttft", service.value.ttft), ("wait", service.value.wait), ("itl", service.value.itl)):
            measured_s = observation.performance.mean_s(name)
            if target is not None and measured_s is not None and measured_s > target.limit_s * BEYOND_TARGET:
                measured, allowed = (f"{ms_from_seconds(each):.4g} ms" for each in (measured_s, target.limit_s))
                yield f"{member.key.label} has a mean {name.upper()} of {measured}, its target is {allowed}"


def why_outage(snapshot: Snapshot, model: ModelKey) -> str:
    """Why a model without requests may be one that none can reach; empty where this hour is always quiet."""
    load, usual = snapshot.observed.loads.get(model), snapshot.observed.usual.get(model)
    if not isinstance(load, Load) or load.arrival_rate_per_s > 0 or usual is None:
        return ""
    ages_s = snapshot.now_s - usual.times_s
    days_ago = np.rint(ages_s / DAY_S)
    is_this_hour = (ages_s > DAY_S / 2) & (np.abs(ages_s - days_ago * DAY_S) <= HOUR_S / 2)
    is_known = is_this_hour & np.isfinite(usual.rates_per_s)
    others = {int(day): usual.rates_per_s[is_known & (days_ago == day)] for day in np.unique(days_ago[is_known])}
    silence_s = _silence_s(snapshot, model, load)
    days = [day for day, rates in others.items() if fmean(rates) * silence_s > SELDOM]
    if not days:
        return ""
    when = " and ".join("yesterday" if day == 1 else f"{day} days ago" for day in days)
    most = max(others[day].max() for day in days)
    return f"no requests arrive, but {most:.3g} req/s did at this hour {when}: this looks like an outage"


def _silence_s(snapshot: Snapshot, model: ModelKey, load: Load) -> float:
    """How long nothing has arrived, at least."""
    past = snapshot.observed.past.get(model)
    if not isinstance(past, LoadHistory) or not len(past.times_s):
        return load.window_s
    others = past.times_s[~(past.rates_per_s <= 0)]
    last_s = others[-1] if len(others) else past.times_s[0] - past.step_s
    return max(load.window_s, float(snapshot.now_s - last_s))


def _shorter_now(snapshot: Snapshot, members: Mapping[ModelKey, Sequence[Variant]]) -> Iterator[tuple[ModelKey, str]]:
    """The models whose requests are shorter than any of the day before `payback`, and in which way.

    All are looked at together, and by themselves only those whose shortest request was longer.
    """
    usual, now_s = snapshot.observed.usual, snapshot.now_s
    loads = {
        model: load
        for model in members
        if isinstance(load := snapshot.observed.loads.get(model), Load)
        and load.arrival_rate_per_s > 0
        and model in usual
    }
    payback_s = {model: payback_of(members[model]) for model in loads}

    def is_before(times_s: Floats, asked: Sequence[ModelKey]) -> Bools:
        return np.asarray(times_s < np.array([[now_s - payback_s[model]] for model in asked]))

    suspects: set[ModelKey] = set()
    for tokens_of in (attrgetter("output_tokens"), attrgetter("input_tokens")):  # of a load as of its history
        known = known_lengths({model: usual[model] for model in loads}, tokens_of, is_before)
        for model, load in loads.items():
            tokens, (shortest, _) = tokens_of(load), known.get(model, (0.0, 0.0))
            if tokens is not None and tokens < max(FEWEST_TOKENS, SHORTER * shortest):
                suspects.add(model)
    for model in suspects:
        yield model, _changed(loads[model], usual[model], now_s, payback_s[model])


def _changed(load: Load, usual: LoadHistory, now_s: float, payback_s: float) -> str:
    told = (("outputs", load.output_tokens, usual.output_tokens), ("prompts", load.input_tokens, usual.input_tokens))
    for what, tokens, lengths in told:
        if tokens is None:
            continue
        before = _before(usual, lengths, now_s - payback_s)
        if tokens < FEWEST_TOKENS and (longer := np.flatnonzero(lengths[before] >= FEWEST_TOKENS)).size:
            # Failures that last longer than `payback` are no reference for themselves.
            before = before[: longer[-1] + 1]
        if not before.size and (what == "prompts" or tokens >= FEWEST_TOKENS):
            continue
        if not before.size:
            return f"requests are answered with {tokens:.3g} tokens, and it is not known whether they always were"
        shortest = float(lengths[before].min())
        if tokens < SHORTER * shortest and not _is_by_chance(tokens, lengths, load, usual, now_s - payback_s):
            age_s = float(now_s - usual.times_s[before[lengths[before] == shortest][-1]])
            return f"{what} of {tokens:.3g} tokens are shorter than any of the last day, {shortest:.4g} {ago(age_s)}"
    return ""


def _is_by_chance(tokens: float, lengths: Floats, load: Load, usual: LoadHistory, until_s: float) -> bool:
    """Whether the mean of as many requests as come now is as short every other day.

    How far requests differ is estimated from neighbouring moments, so that lengths which change with the time of day
    are not called chance; where there are hardly any, requests differ as those of the exponential law do.
    """
    before = _before(usual, lengths, until_s)
    before = before[usual.rates_per_s[before] > 0]
    if not before.size:
        return False
    told, counts = lengths[before], usual.rates_per_s[before] * load.window_s
    usual_tokens = float(np.median(told))
    squares = (told[:-1] - told[1:]) ** 2 / (1 / counts[:-1] + 1 / counts[1:])
    deviation = math.sqrt(fmean(squares)) if len(squares) >= FEWEST_PAIRS else usual_tokens
    requests = load.arrival_rate_per_s * load.window_s
    return usual_tokens - tokens < NOISE * deviation / math.sqrt(requests)


def _contradicting(snapshot: Snapshot, members: Sequence[Variant]) -> Iterator[str]:
    """What gauges of replicas cannot both say."""
    for member in members:
        pods: dict[str, list[ReplicaMetrics]] = {}
        for replica in snapshot.observed.replicas.get(member.key, ()):
            pods.setdefault(replica.pod, []).append(replica)
        for pod, instances in sorted(pods.items()):
            running = instances[0].num_running
            usages = [each.kv_cache_usage for each in instances if each.kv_cache_usage is not None]
            if running and running >= 1 and usages and _holds_too_little(running, instances):
                yield f"{pod} runs {running:g} requests and says that its KV cache is {max(usages) * 100:.2g} % full"


def _holds_too_little(running: float, instances: Sequence[ReplicaMetrics]) -> bool:
    if all(each.kv_cache_usage == 0 for each in instances):
        return True
    held = [
        each.kv_cache_usage * each.kv_tokens
        for each in instances
        if each.kv_cache_usage is not None and each.kv_tokens is not None
    ]
    outputs = instances[0].output_tokens
    if len(held) < len(instances) or outputs is None:
        return False
    return math.fsum(held) < HELD_AT_LEAST * running * outputs / 2


def _before(usual: LoadHistory, lengths: Floats, until_s: float) -> Integers:
    """The places of the moments before `until_s` with a known length."""
    if not len(lengths):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero((usual.times_s < until_s) & (lengths > 0) & np.isfinite(lengths))


def assess_variants(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold]) -> tuple[VariantState, ...]:
    """The state of every variant; `refused` are changes that could not be written."""
    choices = choose_engines(snapshot.variants, snapshot.observed.loads)
    promises = broken_promises(snapshot, [name for name, engine in ENGINES.items() if engine.safeguards])
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
    alone = tuple(
        _beside(state, *blind[state.variant.model]) if state.variant.model in blind else state for state in alone
    )
    # The load of a model is sized without its canary, so more replicas of a canary would be capacity bought twice.
    # While a target is missed that is better than too little: then none goes, and what is short is added.
    grown = {each.model.whole: each for each in snapshot.variants if is_canary(each) and each.current.replicas > 1}
    return tuple(
        _beside(state, grown[state.variant.model.whole], unmeasured(grown[state.variant.model.whole]))
        if state.variant.model.whole in grown and not (state.kept and state.kept.kind is HoldKind.TARGET_MISSED)
        else state
        for state in alone
    )


def unmeasured(canary: Variant) -> str:
    """Why it is not known what the replicas of a canary carry."""
    return (
        f"it has {canary.current.replicas} replicas, and what one carries is measured in {ENOUGH_HOURS} hours with "
        "load; until then give it one, or a profile in models[].profiles"
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
        if engine.safeguards is None:
            continue
        sized = [each for each in snapshot.variants if choices[each.model].engine is name and each.key not in leaving]
        holds = engine.safeguards.contradictions(snapshot, sized)
        for variant in sized:
            if variant.key in holds:
                found.setdefault(variant.model, holds[variant.key])
    return found


def _kept_models(snapshot: Snapshot, choices: Mapping[ModelKey, EngineChoice]) -> dict[ModelKey, Hold | None]:
    """Why none of a model's replicas may go, by model."""
    members: dict[ModelKey, list[Variant]] = {}
    for variant in snapshot.variants:
        members.setdefault(variant.model, []).append(variant)
    changed = dict(_shorter_now(snapshot, members))
    return {
        model: why_kept(snapshot, model, own, ENGINES[choices[model].engine], changed.get(model, ""))
        for model, own in members.items()
    }


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
    engine = ENGINES[choice.engine]
    lacks = engine.lacks(snapshot, variant)
    waits_s = engine.safeguards.waits_for_replicas_s(variant) if engine.safeguards else 0.0
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
        unproven=why_unproven(snapshot, variant, waits_s),
        replicas_reporting=None if observation is None or observation.absence else observation.replicas_reporting,
        replicas_live=None if newest is None else int(newest),
    )


def _blind(state: VariantState) -> str:
    """Why it is not known what a held variant's replicas carry; empty when it is known, or none run."""
    if not state.variant.is_counted:
        return str(state.hold or "")
    if state.is_free or state.variant.current.replicas == 0:
        return ""
    safeguards = ENGINES[state.engine].safeguards
    return safeguards.why_capacity_unknown(state) if safeguards else ""


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
    if not len(counts) or bool((np.isnan(counts) | (counts == workload.replicas)).any()):
        return None
    place = workload.written_at[0].place
    words = (
        f"spec.replicas of {workload.key.kind} {workload.key.label} is {counts[-1]:g} in the cluster and "
        f"{workload.replicas} in Git ({place}), for longer than the sync delay of "
        f"{duration(delay.value)} ({delay.source}): something that is not in Git sets it, or Git is not applied; "
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
        reason = reason or "not reported lately, or by several series with different values"
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
