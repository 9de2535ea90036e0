"""When autoscalers are looked at: once a day, and only where a change is possible; known from Git alone."""

import math
from collections.abc import Iterable, Mapping, Sequence

from reconciler.aftermerge import SCORED_S, Merge, merges_among
from reconciler.domain.identity import ResourceKey
from reconciler.domain.proposals import Proposal
from reconciler.domain.records import dataclass
from reconciler.domain.scalers import ScalerSetting, TunedScaler
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant, tuned_of
from reconciler.domain.units import DAY_S
from reconciler.domain.variant_settings import GROUP
from reconciler.tuning.groups import WARM_UP_S

SPAN_S = 14 * DAY_S
"""What a setting is chosen on."""
MOST_ASKED = 50
"""Autoscalers of a cluster that a run looks at."""
PAUSE_S, PAUSE_OF_GROUP_S = SCORED_S, DAY_S
"""One change of an autoscaler a week where nothing is broken, and one of a group a day."""
BY_HAND_S = 30 * DAY_S
"""For so long after a merge a bound that somebody moved back since stays where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """That nothing is chosen for an autoscaler: since which merge, for how long, and why in words."""

    merge: Merge
    pause_s: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHand:
    """After which merged pull request somebody raised a minimum, and lowered a maximum; 0 where nobody did.

    Both stay for so many `days` after that merge.
    """

    raised_after: int
    lowered_after: int
    days: int


class TuningMerges:
    """The merged changes of autoscalers' settings, until `now_s` (Unix seconds)."""

    def __init__(self, proposals: Iterable[Proposal], variants: Iterable[Variant], settings: Settings, now_s: float):
        merges = merges_among(proposals, now_s)
        self._now_s, self._remembered_s = now_s, settings.pull_requests.reopen_after_s
        self._current = {each.key: each.current for each in variants}
        self._group_of = {each.key: each.settings[GROUP].value for each in variants if each.tuned is not None}
        self._of = {
            key: tuple(each for each in merges.get(str(key), ()) if each.change.is_tuning) for key in self._group_of
        }
        self._newest: dict[str, Merge] = {}
        for key, own in self._of.items():
            group = self._group_of[key]
            for each in own:
                if group not in self._newest or each.at_s > self._newest[group].at_s:
                    self._newest[group] = each

    def last(self, key: ResourceKey) -> Merge | None:
        """The newest one of an autoscaler."""
        own = self._of.get(key, ())
        return own[-1] if own else None

    def by_hand(self, key: ResourceKey, now: ScalerSetting) -> "ByHand":
        """The bounds that somebody moved against what was merged."""
        memory_s = max(BY_HAND_S, self._remembered_s)
        merges = [each for each in self._of.get(key, ()) if self._now_s - each.at_s < memory_s]
        after = [ScalerSetting.parse(each.change.scaling_after) for each in merges]
        then = [*(ScalerSetting.parse(each.change.scaling_before) for each in merges[1:]), now]
        raised, lowered = 0, 0
        for merge, had, has in zip(merges, after, then, strict=False):
            if had is None or has is None or had.least is None or has.least is None:
                continue
            if has.least != had.least:
                raised = merge.number if has.least > had.least else 0
            if has.most != had.most:
                lowered = merge.number if has.highest < had.highest else 0
        return ByHand(raised_after=raised, lowered_after=lowered, days=round(memory_s / DAY_S))

    def pause(self, key: ResourceKey) -> Pause | None:
        """Why nothing is chosen for an autoscaler now; None where something may be."""
        last = self.last(key)
        of_group = self._newest.get(self._group_of[key])
        is_back = last is not None and last.promise is not None and last.promise.reverts is not None
        is_changed = last is not None and last.change.merged(self._current[key]) != self._current[key]
        own_s = max(PAUSE_S, self._remembered_s) if is_back or is_changed else PAUSE_S
        own = "one change a week where nothing is broken"
        if is_back or is_changed:
            own = f"a setting that was {'taken back' if is_back else 'changed by hand since'} is remembered"
        for merge, pause_s, words in (
            (last, own_s, own),
            (of_group, PAUSE_OF_GROUP_S, "one change of a group a day"),
        ):
            if merge is not None and self._now_s - merge.at_s < pause_s:
                return Pause(merge=merge, pause_s=pause_s, words=words)
        return None

    def scored_from(self, key: ResourceKey) -> float | None:
        """Since when its last change is scored (Unix seconds): whole days of a week after it; None without one yet."""
        last = self.last(key)
        if last is None or self._now_s - last.at_s >= PAUSE_S:
            return None
        first_s = math.ceil(last.at_s / DAY_S) * DAY_S
        return first_s - WARM_UP_S if self._now_s - first_s >= DAY_S else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The autoscalers of one cluster that a run looks at, by variant, and since when (Unix seconds)."""

    since_s: float
    scalers: Mapping[ResourceKey, TunedScaler]


def looks(
    settings: Settings, variants: Sequence[Variant], proposals: Iterable[Proposal], now_s: float, *, is_asked: bool
) -> dict[str, Look]:
    """By cluster, the autoscalers that are looked at now: `MOST_ASKED` at a time, each in one run a day.

    Which run that is follows from the time alone, so nothing is kept between runs, and those that were not looked at
    for longest come first. Autoscalers of one service class are looked at together, as far as they fit. Not asked about
    are those whose change is not old enough, unless it is scored. `is_asked` is of a person, who waits for no turn.
    """
    merges = TuningMerges(proposals, variants, settings, now_s)
    tuned, classes = tuned_of(variants), {each.key: _class(each) for each in variants}
    turn = int(now_s // settings.run_interval_s)
    turns = max(int(DAY_S // settings.run_interval_s), 1)
    found: dict[str, Look] = {}
    for cluster in settings.clusters:
        known = [key for key, each in tuned.items() if key.cluster == cluster.name and each.metric is not None]
        known.sort(key=lambda key: (classes[key], key))
        parts = [known[first : first + MOST_ASKED] for first in range(0, len(known), MOST_ASKED)]
        number = turn % max(len(parts) if is_asked else max(turns, len(parts)), 1)
        part = parts[number] if number < len(parts) else []
        since = {key: _since_s(merges, key, now_s) for key in part}
        looked = {key: each for key, each in since.items() if each is not None}
        if looked:
            found[cluster.name] = Look(since_s=min(looked.values()), scalers={key: tuned[key] for key in looked})
    return found


def _since_s(merges: TuningMerges, key: ResourceKey, now_s: float) -> float | None:
    return merges.scored_from(key) if merges.pause(key) is not None else now_s - SPAN_S


def _class(variant: Variant) -> str:
    return "" if variant.service_class is None else variant.service_class.value.name
