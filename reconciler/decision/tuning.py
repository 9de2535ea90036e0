"""Autoscalers whose settings are tuned: which is proposed of each, or why none is."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from reconciler.aftermerge import Merge, compared, load_of
from reconciler.decision.actuation import ActuationDelays
from reconciler.decision.scaler_bounds import AllowedBounds, BoundsRoom, upper_bound
from reconciler.decision.scaler_settings import declared_setting, has_tolerance, is_sound, with_setting, written_setting
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.domain.answers import NoAnswer
from reconciler.domain.history import DemandHistory, Floats
from reconciler.domain.holds import Hold, HoldKind, hold_of
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load
from reconciler.domain.plan import RATE
from reconciler.domain.proposals import Promise, ProposedChange
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import (
    AutoscalerSetting,
    Scaler,
    ScalerHistory,
    ScalerSetting,
    Signal,
    TunedScaler,
    TuningEvidence,
    TuningScore,
)
from reconciler.domain.snapshot import Snapshot, Variant, priority_of
from reconciler.domain.units import DAY_S, significant
from reconciler.metrics.queries import duration
from reconciler.simulation.draws import Spread
from reconciler.simulation.fleet import batch_of
from reconciler.simulation.fluid import LARGEST_SHARE, USUAL_SHARE
from reconciler.tuning.choice import FLOOR, Choice, Goal, Outcome, Score, Unchanged, choose, score
from reconciler.tuning.groups import Group, TargetHistory, TunedTarget, alike
from reconciler.tuning.reproduction import Reproduction, reproduce
from reconciler.tuning.schedule import PAUSE_S, TuningMerges

REPRODUCED_S = 7 * DAY_S
"""What is replayed: the newest days, for older ones may have had another setting."""
ALMOST = 0.8
"""Of the time that is compared: an open pull request stays so far, that it is not closed and opened from run to run."""
BUSY = 0.75
"""Of the load that a replica ever had: from there on its metric shows what it is when it carries its capacity."""
BATCHED = (Signal.RUNNING, Signal.IN_FLIGHT)
HOURS, SHOWN = 24, 3
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What is known of one autoscaler; histories compare by identity, so that rounds of one run compute once."""

    key: ResourceKey
    service_class: str
    attainment: float
    setting: AutoscalerSetting
    history: ScalerHistory
    demand: DemandHistory
    row: int
    capacity_per_s: float
    batch: tuple[float, float]
    price_per_hour: float
    start: Spread
    allowed: AllowedBounds
    has_tolerance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is chosen for one autoscaler: a setting with its evidence, a hold, or in words why it stays."""

    setting: AutoscalerSetting | None = None
    evidence: TuningEvidence | None = None
    hold: Hold | None = None
    is_nearly_reproduced: bool = False
    words: str = ""


def tune_autoscalers(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Propose settings of autoscalers that are tuned with their bounds, or hold them."""
    snapshot = situation.snapshot
    tuned = {key: each for key, each in snapshot.tuned.items() if each.metric is not None or each.hold is not None}
    if not tuned:
        return staged
    variants = {state.variant.key: state.variant for state in situation.states}
    merges = TuningMerges(snapshot.proposals, snapshot.variants, snapshot.settings, snapshot.now_s)
    open_now = [key for key in sorted(tuned) if key not in staged.holds]
    waiting = {key: hold for key in open_now if (hold := _settling(merges, key, snapshot.now_s)) is not None}
    planned = {key: each for key, each in staged.allocations.items() if key not in staged.holds}
    room = BoundsRoom(situation, planned, open_now, merges)
    proposals: dict[ResourceKey, _Proposed] = {}
    opened = _opened(situation, open_now)
    for key in sorted(open_now, key=lambda key: (-priority_of(variants[key]), key)):
        stays = _proposed(variants[key], opened.get(key, ()), merges.last(key), room)
        if stays is not None:
            proposals[key] = stays
            room.keep(key, max(stays.most, upper_bound(variants[key])))
    sources = _TargetSources.of(situation, room)
    found = {key: _target(sources, variants[key], tuned[key]) for key in open_now}
    holds = {key: each for key, each in found.items() if isinstance(each, Hold) and key not in waiting}
    targets = tuple(each for key, each in found.items() if isinstance(each, _Target) and key not in waiting)
    results = _within_room(targets, [variants[each.key] for each in targets if each.key not in proposals], room)
    merged = tuple(_merged(snapshot, merges, tuned, (found[key] for key in waiting)))
    scores = {each.target.key: score for each, score in zip(merged, _scored(merged), strict=True) if score is not None}
    holds |= {
        key: each.hold
        for key, each in results.items()
        if each.hold is not None and not (each.is_nearly_reproduced and key in proposals)
    }
    allocations, reasons, tunings = dict(staged.allocations), dict(staged.reasons), dict(staged.tunings)
    reverts, kept = dict(staged.reverts), dict(staged.kept)
    for key in open_now:
        now = allocations[key] = situation.current[key]
        last, score, proposal = merges.last(key), scores.get(key), proposals.get(key)
        broken = _why_back(situation, variants[key], last, score, proposal)
        if last is not None and broken:
            allocations[key] = replace(now, scaling=last.change.scaling_before, replicas=last.change.replicas_before)
            reverts[key] = last.number
            reasons[key] = f"goes back to what it had before pull request #{last.number} tuned it: {broken}"
            waiting.pop(key, None)
        if key in holds or key in waiting or broken:
            continue
        result = results.get(key, _Found(words="its autoscaler is looked at once a day, in another run"))
        wanted = None if result.setting is None else written_setting(tuned[key].scaler, result.setting)
        if proposal is not None:
            allocations[key], kept[key] = proposal.allocation, proposal.number
            reasons[key] = f"as in open pull request #{proposal.number}"
        elif wanted is None:
            reasons[key] = "; ".join(filter(None, (result.words, _floor(found[key]))))
        else:
            least = now.replicas if wanted.least in (None, tuned[key].scaler.least) else wanted.least
            allocations[key] = replace(now, scaling=str(wanted), replicas=least)
            room.keep(key, wanted.highest)
            limit = "" if result.evidence is None else result.evidence.limit
            reasons[key] = "; ".join(filter(None, (_why(tuned[key].scaler, wanted), limit, _floor(found[key]))))
        # a setting that is kept may be another than today's choice, of which the evidence says nothing
        if result.evidence is not None and now.scaling != allocations[key].scaling == str(wanted):
            tunings[key] = result.evidence
        elif proposal is not None and proposal.evidence is not None:
            tunings[key] = proposal.evidence
    for key, words in _shortages(situation, allocations, open_now, room):
        reasons[key] = f"{reasons[key]}; {words}"
        if key in tunings:
            tunings[key] = replace(tunings[key], shortage=words)
    return replace(
        staged,
        allocations=allocations,
        holds={**staged.holds, **holds},
        reasons=reasons,
        waiting={**staged.waiting, **waiting},
        kept=kept,
        reverts=reverts,
        tunings=tunings,
        scores={**staged.scores, **scores},
    )


def _shortages(
    situation: Situation, allocations: Mapping[ResourceKey, Allocation], keys: Iterable[ResourceKey], room: BoundsRoom
) -> Iterator[tuple[ResourceKey, str]]:
    """Those whose maximum is raised, and that nodes do not offer now what all may take then."""
    for key in keys:
        now, then = (ScalerSetting.parse(each[key].scaling) for each in (situation.current, allocations))
        if now is not None and then is not None and then.highest > now.highest:
            words = room.shortage(key)
            if words:
                yield key, words


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposed:
    """What an open pull request makes of an autoscaler: the setting as text with its floor, and what it promises."""

    number: int
    allocation: Allocation
    reverts: int | None = None
    evidence: TuningEvidence | None = None

    @property
    def most(self) -> float:
        """The upper bound that it gives; 0 where it says nothing of that."""
        setting = ScalerSetting.parse(self.allocation.scaling)
        return 0.0 if setting is None or setting.least is None else setting.highest


_Opened = tuple[int, ProposedChange, Promise | None]
"""A pull request by its number, what it changes of one autoscaler, and what it promises of it."""


def _opened(situation: Situation, keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, Sequence[_Opened]]:
    """What open pull requests of the groups of autoscalers change of their settings."""
    groups: dict[str, dict[str, ResourceKey]] = {}
    for key in keys:
        groups.setdefault(situation.group_of[key], {})[str(key)] = key
    found: dict[ResourceKey, list[_Opened]] = {}
    for group, members in groups.items():
        for proposal in situation.open_proposals(group).values():
            promises = {each.resource: each for each in reversed(proposal.promises)}
            for change in proposal.changes:
                if change.is_tuning and change.resource in members:
                    own = proposal.number, change, promises.get(change.resource)
                    found.setdefault(members[change.resource], []).append(own)
    return found


def _proposed(variant: Variant, opened: Iterable[_Opened], last: Merge | None, room: BoundsRoom) -> _Proposed | None:
    """The open pull request that changes its setting from what Git has now, and to what: noise never pushes."""
    now = variant.current
    for number, change, promise in opened:
        if not change.begins_at(now):
            continue
        reverts = None if promise is None else promise.reverts
        is_back = reverts is not None and last is not None and _takes_back(change, last, variant)
        if is_back or _is_allowed(change, room.of(variant, is_standing=True), variant):
            return _Proposed(
                number=number,
                allocation=change.merged(now),
                reverts=reverts,
                evidence=None if promise is None else evidence_of(promise),
            )
    return None


def _is_allowed(change: ProposedChange, allowed: AllowedBounds, variant: Variant) -> bool:
    """Whether a setting that a text names may be proposed now, with its bounds: anybody may have edited it."""
    before, after = ScalerSetting.parse(change.scaling_before), ScalerSetting.parse(change.scaling_after)
    if before is None or after is None or not _is_other(before, after, variant):
        return False
    is_low_enough = change.replicas_after == change.replicas_before
    if after.least is not None and after.least != before.least:
        is_low_enough = max(allowed.least, FLOOR) <= after.least == change.replicas_after < change.replicas_before
    was, then = before.highest, after.highest
    return is_low_enough and (then == was or was < then <= allowed.most)


def _is_other(before: ScalerSetting, after: ScalerSetting, variant: Variant) -> bool:
    """Whether a setting is a sound one in place of another; of a policy only the way down is ever another."""
    of_policy = variant.tuned is not None and variant.tuned.scaler.policy is not None
    others = [
        {key: each for key, each in (one.behavior or {}).items() if key != "scaleDown"} for one in (before, after)
    ]
    return is_sound(after, of_policy=of_policy) and (not of_policy or others[0] == others[1])


def _may_go_back(change: ProposedChange, variant: Variant) -> bool:
    """Whether what was before a merged change may be proposed again: bounds only go back to within those of now."""
    before, after = ScalerSetting.parse(change.scaling_before), ScalerSetting.parse(change.scaling_after)
    if before is None or after is None or not _is_other(after, before, variant):
        return False
    is_floor = change.replicas_before in (change.replicas_after, before.least)
    return is_floor and (before.least or 0) >= (after.least or 0) and before.highest <= after.highest


def _takes_back(change: ProposedChange, last: Merge, variant: Variant) -> bool:
    """Whether a change makes of an autoscaler what it was before its last merge."""
    to, was = (change.scaling_after, change.replicas_after), (last.change.scaling_before, last.change.replicas_before)
    return to == was and _may_go_back(last.change, variant)


def _why(scaler: Scaler, after: ScalerSetting) -> str:
    changes = scaler.setting.changes(after, scaler.metric_name)
    return "tuned on its own history: " + ", ".join(
        f"{each.name} {each.displaced or 'unset'} -> {each.becomes or 'unset'}" for each in changes
    )


# ---- what is known of a target


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetSources:
    """What targets are made of, looked up once for all; `rows` has what arrived for each model minute by minute."""

    situation: Situation
    room: BoundsRoom
    delays: ActuationDelays
    rows: Mapping[ModelKey, tuple[DemandHistory, int]]

    @classmethod
    def of(cls, situation: Situation, room: BoundsRoom) -> "_TargetSources":
        """The same of one plan."""
        rows: dict[ModelKey, tuple[DemandHistory, int]] = {}
        for history in situation.snapshot.observed.fine:
            for row, model in enumerate(history.models):
                rows.setdefault(model, (history, row))
        return cls(situation=situation, room=room, delays=ActuationDelays(situation.snapshot), rows=rows)


def _target(sources: _TargetSources, variant: Variant, tuned: TunedScaler) -> _Target | Hold | None:
    """What its autoscaler is tuned from; why not; or None where this run does not look at it."""
    situation, key = sources.situation, variant.key
    snapshot = situation.snapshot
    if tuned.hold is not None or tuned.metric is None:
        return tuned.hold
    setting = declared_setting(tuned.scaler, tuned.metric)
    if setting is None:
        words = "its behavior is not as Kubernetes has it: nothing is tuned"
        return Hold(kind=HoldKind.AUTOSCALER_METRIC, words=words, place=tuned.scaler.place)
    needs = situation.formulated.needs
    need, carried = needs.of_variant(key), needs.carried(key, replace(variant.current, replicas=1))
    if variant.service_class is None or need is None or need.unit != RATE or not carried:
        words = "what a replica carries inside its targets is not known: give it a service class and a profile"
        return Hold(kind=HoldKind.CAPACITY_UNKNOWN, words=words)
    if len(needs.variants_of[need.model]) > 1:
        words = f"{len(needs.variants_of[need.model])} variants share its load: what each gets is not recorded"
        return Hold(kind=HoldKind.AUTOSCALER_NOT_REPRODUCED, words=words)
    history = snapshot.scaled.get(key)
    if history is None:
        return None
    if isinstance(history, NoAnswer):
        return replace(hold_of(history), is_daily=True)
    found = sources.rows.get(variant.model)
    if found is None:
        words = "what arrived in the last two weeks is not known minute by minute"
        return Hold(kind=HoldKind.HISTORY_MISSING, words=words, is_daily=True)
    start, price = sources.delays.of(variant).start, variant.current_cost_per_hour
    load = snapshot.observed.loads.get(variant.model)
    capacity = significant(carried)
    in_batches, batch_share, *_ = batch_of(variant.current_option, load if isinstance(load, Load) else None, capacity)
    return _Target(
        key=key,
        service_class=variant.service_class.value.name,
        attainment=variant.service_class.value.attainment,
        setting=setting,
        history=history,
        demand=found[0],
        row=found[1],
        capacity_per_s=capacity,
        batch=(in_batches, batch_share),
        price_per_hour=math.nan if price is None else price,
        start=Spread(low_s=start.low_s, median_s=start.median_s, high_s=start.high_s),
        allowed=sources.room.of(variant),
        has_tolerance=has_tolerance(tuned.scaler),
    )


# ---- which setting


def _within_room(
    targets: tuple[_Target, ...], variants: Sequence[Variant], room: BoundsRoom
) -> Mapping[ResourceKey, _Found]:
    """What is found for each; upper bounds that `variants` want raised share what is left for all of them."""
    results = dict(zip((each.key for each in targets), _chosen(targets), strict=True))
    chosen = {key: float(each.setting.most) for key, each in results.items() if each.setting is not None}
    growing = [each for each in variants if chosen.get(each.key, 0.0) > upper_bound(each)]
    given = room.shared(growing, {each.key: chosen[each.key] for each in growing})
    classes = {each.service_class for each in targets if given.get(each.key, math.inf) < chosen.get(each.key, 0.0)}
    allowed = {}
    for each in variants:  # who wanted no more leaves what is left to the others
        most, left = given.get(each.key, upper_bound(each)), room.of(each)
        allowed[each.key] = left if left.most <= most else replace(left, most=most, limit="")
    again = tuple(
        replace(each, allowed=allowed.get(each.key, each.allowed)) for each in targets if each.service_class in classes
    )
    return results | dict(zip((each.key for each in again), _chosen(again), strict=True))


@lru_cache(maxsize=4)
def _chosen(targets: tuple[_Target, ...]) -> tuple[_Found, ...]:
    """What is found for each, in their order: reproduced alone, chosen together with those that behave alike."""
    found: dict[ResourceKey, _Found] = {}
    reproduced: dict[ResourceKey, TunedTarget] = {}
    histories = [_history(each) for each in targets]
    replays = reproduce([(each.setting, _newest(past)) for each, past in zip(targets, histories, strict=True)])
    for each, history, replay in zip(targets, histories, replays, strict=True):
        if replay.holds:
            reproduced[each.key] = _tuned_target(each, history)
        else:
            words = f"its autoscaler is not reproduced: {replay.reason}{_drawn(replay)}"
            hold = Hold(kind=HoldKind.AUTOSCALER_NOT_REPRODUCED, words=words, is_daily=True)
            found[each.key] = _Found(hold=hold, is_nearly_reproduced=replay.share >= ALMOST)
    known = [each for each in targets if each.key in reproduced]
    goals = {each.key: each.attainment for each in known}
    tolerant = {each.key for each in known if each.has_tolerance}
    priced = {each.key: each.price_per_hour for each in known}
    groups = list(alike([reproduced[each.key] for each in known], [each.service_class for each in known]))
    keys_of = _keys_of(groups, [each.key for each in known])
    answers = choose(
        [
            (group, Goal(attainment=max(goals[key] for key in keys), has_tolerance=tolerant.issuperset(keys)))
            for group, keys in zip(groups, keys_of, strict=True)
        ]
    )
    by_key = {each.key: each for each in known}
    for keys, answer in zip(keys_of, answers, strict=True):
        members = [by_key[key] for key in keys]
        found |= dict(_answered(members, answer, is_priced=all(math.isfinite(priced[key]) for key in keys)))
    return tuple(found[each.key] for each in targets)


def _keys_of(groups: Sequence[Group], keys: Iterable[ResourceKey]) -> list[list[ResourceKey]]:
    """The autoscalers of each group, in the order of `keys`."""
    numbers = {target.name: number for number, group in enumerate(groups) for target in group.targets}
    found: list[list[ResourceKey]] = [[] for _ in groups]
    for key in keys:
        found[numbers[key]].append(key)
    return found


def _answered(
    targets: Sequence[_Target], answer: Choice | Unchanged, *, is_priced: bool
) -> Iterator[tuple[ResourceKey, _Found]]:
    if isinstance(answer, Unchanged):
        words = f"its setting stays: {answer.words}"
        yield from ((each.key, _Found(words="; ".join(filter(None, (words, _bound(each)))))) for each in targets)
        return
    evidence = _evidence(answer, len(targets), is_priced=is_priced)
    for target in targets:
        key = target.key
        setting, signal = answer.settings[key], target.setting.metrics[0].signal
        metric = setting.metrics[0]
        if metric.signal is signal:
            limit = _limit(target.allowed, float(setting.most), answer.most_wanted[key])
            yield key, _Found(setting=setting, evidence=replace(evidence, limit=limit))
        else:  # another metric needs a query of its own, which a person writes
            words = (
                f"it scales by {signal}, which say too little: by the {metric.signal} of the model with a target "
                f"of {float(metric.target):g} a replica it would have kept {100 * answer.after.attainment:.1f} % of "
                f"requests inside their targets instead of {100 * answer.before.attainment:.1f} %, at "
                f"{100 * _change(answer.before, answer.after):+.0f} % cost"
            )
            yield key, _Found(hold=Hold(kind=HoldKind.AUTOSCALER_METRIC, words=words, is_daily=True))


def _floor(target: _Target | Hold | None) -> str:
    """Why its minimum is not lowered where somebody raised it; empty where nobody did."""
    return target.allowed.floor if isinstance(target, _Target) else ""


def _limit(allowed: AllowedBounds, most: float, wanted: float) -> str:
    """That more replicas at most would be needed than are allowed; empty where that is not so."""
    if wanted <= most or not allowed.limit:
        return ""
    return f"the largest load with a quarter of room takes a maximum of {wanted:.0f}, but {allowed.limit}"


def _bound(target: _Target) -> str:
    """For how long its maximum bound it, and what leaves no more; empty where it did not."""
    most, desired = float(target.setting.most), target.history.desired
    known = np.isfinite(desired)
    share = float((desired[known] >= most).mean()) if known.any() else 0.0
    limit = f", {target.allowed.limit}" if target.allowed.limit else ""
    return f"it was at its maximum of {most:.0f} for {share:.1%} of that time{limit}" if share > 0 else ""


def _history(target: _Target) -> TargetHistory:
    """Both histories on the grid of the autoscaler's; what arrived is known where it was asked at the same moments."""
    scaled, demand = target.history, target.demand
    times_s = scaled.start_s + scaled.step_s * np.arange(scaled.total.size)
    places = np.rint((times_s - demand.start_s) / demand.step_s).astype(np.int64)
    rates = demand.per_s[target.row]
    inside = (places >= 0) & (places < rates.size)
    offered = np.where(inside, rates[np.where(inside, places, 0)], np.nan)
    return TargetHistory(
        start_s=scaled.start_s,
        step_s=scaled.step_s,
        offered_per_s=offered,
        totals=scaled.total[np.newaxis],
        desired=scaled.desired,
        ready=scaled.current,
    )


def _newest(history: TargetHistory) -> TargetHistory:
    return _from(history, max(history.desired.size - round(REPRODUCED_S / history.step_s), 0))


def _from(history: TargetHistory, first: int) -> TargetHistory:
    return replace(
        history,
        start_s=history.start_s + first * history.step_s,
        offered_per_s=history.offered_per_s[first:],
        totals=history.totals[:, first:],
        desired=history.desired[first:],
        ready=history.ready[first:],
    )


def _tuned_target(target: _Target, history: TargetHistory) -> TunedTarget:
    signal, capacity = target.setting.metrics[0].signal, target.capacity_per_s
    in_batches, share = target.batch
    grows = min(share if math.isfinite(share) else USUAL_SHARE, LARGEST_SHARE) if signal in BATCHED else 0.0
    each = capacity if signal is Signal.ARRIVALS else capacity * _per_request(history, capacity, grows)
    return TunedTarget(
        name=target.key,
        setting=target.setting,
        history=history,
        capacity_per_s=capacity,
        at_capacity=(math.nan if signal is Signal.WAITING else each,),
        in_batches=each if signal in BATCHED and math.isfinite(each) else in_batches,
        batch_share=share,
        price_per_hour=target.price_per_hour if math.isfinite(target.price_per_hour) else 1.0,
        start=target.start,
        least_allowed=target.allowed.least,
        most_allowed=target.allowed.most,
    )


def _per_request(history: TargetHistory, capacity_per_s: float, grows: float) -> float:
    """What the metric shows for each request a second when a replica carries its capacity; NaN if it was never busy.

    Seen is what it shows at less: at a load of r capacities r (1 - grows) / (1 - grows r) of what it shows at capacity.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        load: Floats = history.offered_per_s / history.ready
        ratio: Floats = history.totals[0] / history.offered_per_s
    ratio = ratio * (1 - grows * np.minimum(load / capacity_per_s, 1.0)) / (1 - grows)
    known = np.isfinite(load) & np.isfinite(ratio) & (load > 0)
    if not known.any():
        return math.nan
    busy = known & (load >= np.quantile(load[known], BUSY))
    return float(np.median(ratio[busy]))


def evidence_of(promise: Promise) -> TuningEvidence | None:
    """What a pull request's marker kept of its evidence: shown until the autoscaler is looked at again."""
    if promise.cost_ratio is None or promise.attainment is None or promise.attainment_before is None:
        return None
    return TuningEvidence(
        days=promise.days or 0.0,
        cost_change=promise.cost_ratio - 1,
        attainment=(promise.attainment_before, promise.attainment),
    )


def _evidence(choice: Choice, targets: int, *, is_priced: bool) -> TuningEvidence:
    before, after, left_before, left_after = (
        choice.before,
        choice.after,
        choice.left_out_before,
        choice.left_out_after,
    )
    course = choice.course
    return TuningEvidence(
        days=choice.days,
        cost_change=_change(before, after),
        attainment=(significant(before.attainment), significant(after.attainment)),
        starts_per_day=(significant(before.starts_per_day), significant(after.starts_per_day)),
        left_out=choice.left_out,
        left_out_cost_change=_change(left_before, left_after),
        left_out_attainment=(significant(left_before.attainment), significant(left_after.attainment)),
        saves_per_hour=significant((before.cost_per_hour - after.cost_per_hour) / targets) if is_priced else None,
        members=targets,
        steps=tuple(_told(each, before) for each in choice.steps[1:]),
        tried=tuple(_told(each, choice.fitted_before) for each in _nearest(choice)),
        day=(_hourly(course.before), _hourly(course.after)),
        is_repair=choice.repairs,
    )


def _nearest(choice: Choice) -> list[Outcome]:
    """The settings that come nearest to the chosen one, by cost on the days that it was chosen on."""
    cost = choice.fitted_after.cost_per_hour
    nearest = sorted(choice.frontier, key=lambda each: abs(each.cost_per_hour - cost))[:SHOWN]
    return sorted(nearest, key=lambda each: each.cost_per_hour)


def _change(before: Outcome, after: Outcome) -> float:
    return significant(after.cost_per_hour / before.cost_per_hour - 1) if before.cost_per_hour > 0 else 0.0


def _told(outcome: Outcome, before: Outcome) -> str:
    cost = f"{100 * _change(before, outcome):+.0f}".replace("-", "−")
    return f"{outcome.words} ({cost} % cost, attainment {100 * outcome.attainment:.1f} %)"


def _hourly(values: Sequence[float]) -> tuple[float, ...]:
    each = max(len(values) // HOURS, 1)
    return tuple(significant(float(np.mean(values[at : at + each]))) for at in range(0, len(values), each))


def _drawn(replay: Reproduction) -> str:
    """The last day of both series, hour by hour, where they are compared."""
    rows = [_last_day(each) for each in (replay.recorded, replay.simulated)]
    most = max((max(row, default=0.0) for row in rows), default=0.0)
    if most <= 0:
        return ""
    drawn = ["".join(BARS[min(int(each / most * len(BARS)), len(BARS) - 1)] for each in row) for row in rows]
    return f" (last day: {drawn[0]} asked for, {drawn[1]} simulated)"


def _last_day(values: Floats) -> list[float]:
    count = values.size // HOURS
    each = min(60, max(count, 1))
    newest = values[-each * HOURS :]
    hours = (part for part in np.array_split(newest, HOURS) if part.size)
    return [float(np.nanmean(part)) if np.isfinite(part).any() else 0.0 for part in hours]


# ---- after a merge


def _settling(merges: TuningMerges, key: ResourceKey, now_s: float) -> Hold | None:
    """That its setting, or another of its group, was changed lately: what ran before says nothing of it."""
    pause = merges.pause(key)
    if pause is None:
        return None
    ago = duration(max(now_s - pause.merge.at_s, 60.0) // 60 * 60)
    reason = f"a setting was changed by #{pause.merge.number} {ago} ago: {pause.words}"
    return Hold(kind=HoldKind.AUTOSCALER_CHANGED, words=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """An autoscaler whose last change stands, with the setting before it; its history begins with the first day."""

    target: _Target
    before: AutoscalerSetting
    number: int
    since_s: float


def _merged(
    snapshot: Snapshot,
    merges: TuningMerges,
    tuned: Mapping[ResourceKey, TunedScaler],
    targets: Iterable[_Target | Hold | None],
) -> Iterator[_Merged]:
    """Those that can be scored now."""
    current = {each.key: each.current for each in snapshot.variants}
    for target in targets:
        if not isinstance(target, _Target):
            continue
        scaler, metric = tuned[target.key].scaler, tuned[target.key].metric
        last, since_s = merges.last(target.key), merges.scored_from(target.key)
        if last is None or since_s is None or metric is None or not _stands(last, current[target.key]):
            continue
        written = ScalerSetting.parse(last.change.scaling_before)
        is_known = written is not None and is_sound(written, of_policy=scaler.policy is not None)
        before = declared_setting(with_setting(scaler, written), metric) if written and is_known else None
        if before is not None:
            yield _Merged(target=target, before=before, number=last.number, since_s=since_s)


@lru_cache(maxsize=2)
def _scored(merged: tuple[_Merged, ...]) -> tuple[TuningScore | None, ...]:
    """What each change came to since, those of one pull request that behave alike together; None is not known."""
    found: dict[ResourceKey, TuningScore] = {}
    by_number: dict[int, list[_Merged]] = {}
    for each in merged:
        by_number.setdefault(each.number, []).append(each)
    cases, keys_of = [], []
    for members in by_number.values():
        before: dict[Hashable, AutoscalerSetting] = {each.target.key: each.before for each in members}
        goals = {each.target.key: each.target.attainment for each in members}
        targets = [_tuned_target(each.target, _since(_history(each.target), each.since_s)) for each in members]
        groups = list(alike(targets, [each.target.service_class for each in members]))
        for group, keys in zip(groups, _keys_of(groups, goals), strict=True):
            was = Group(targets=tuple(_with_setting(each, before) for each in group.targets))
            cases.append((was, group, Goal(attainment=max(goals[key] for key in keys))))
            keys_of.append(keys)
    numbers = {each.target.key: each.number for each in merged}
    for keys, answer in zip(keys_of, score(cases), strict=True):
        if isinstance(answer, Score):
            found |= {key: _told_score(numbers[key], answer) for key in keys}
    return tuple(found.get(each.target.key) for each in merged)


def _with_setting(target: TunedTarget, before: Mapping[Hashable, AutoscalerSetting]) -> TunedTarget:
    return replace(target, setting=before[target.name])


def _since(history: TargetHistory, since_s: float) -> TargetHistory:
    first = round((since_s - history.start_s) / history.step_s)
    return _from(history, max(first, 0))


def _told_score(number: int, answer: Score) -> TuningScore:
    return TuningScore(
        number=number,
        days=answer.days,
        cost_change=_change(answer.before, answer.after),
        attainment=(significant(answer.before.attainment), significant(answer.after.attainment)),
        broken=answer.broken,
    )


def _why_back(
    situation: Situation, variant: Variant, last: Merge | None, score: TuningScore | None, proposal: _Proposed | None
) -> str:
    """Why the last change of a setting is taken back; empty where it is not.

    What takes it back stays open until a score says that the change does what it promised.
    """
    if last is None or not _stands(last, variant.current):
        return ""
    if not _may_go_back(last.change, variant):
        return ""
    if situation.snapshot.now_s - last.at_s >= PAUSE_S:
        return ""
    if _is_missed(situation.snapshot, variant, last):
        return "since then a target is missed"
    if score is not None:
        return score.broken
    is_proposed = proposal is not None and proposal.reverts == last.number
    return f"pull request #{proposal.number} says so, and nothing newer is known" if is_proposed and proposal else ""


def _stands(last: Merge, current: Allocation) -> bool:
    """Whether Git still has what a merge made of an autoscaler."""
    return last.change.merged(current) == current


def _is_missed(snapshot: Snapshot, variant: Variant, last: Merge) -> bool:
    """Whether a target that was kept before a merge is missed now."""
    observation = snapshot.observed.observations.get(variant.key)
    if last.promise is None or observation is None or observation.absence is not None:
        return False
    was_kept = {
        each.name for each in last.promise.latencies if each.measured_s is not None and each.measured_s <= each.target_s
    }
    found = compared(last.promise, observation, load_of(snapshot, variant))
    return any(each.is_missed and each.promised.name in was_kept for each in found)
