"""How long a change takes from its proposal to replicas that serve: given, else measured, else built in."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from reconciler.domain.history import Bools, Floats
from reconciler.domain.identity import Figure, ModelKey, ResourceKey, SourceKind
from reconciler.domain.proposals import Proposal, ProposalState, branches_of
from reconciler.domain.records import dataclass
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import DAY_S, last_midnight_s
from reconciler.domain.variant_settings import GROUP, MERGE_DELAY_S, START_DELAY_S, SYNC_DELAY_S, SettingDefinition
from reconciler.metrics.queries import DELAY_LOOK_S, duration

FEWEST_MERGES = 5
"""Of fewer the slowest says nothing."""
LOOK_BACK_S, HOUR_S = 30 * DAY_S, 3600.0
MERGED_BY_ITSELF_S = 60.0, 120.0, 300.0
MERGED_BY_PEOPLE_S = 300.0, 900.0, 3600.0
"""Until some merges are known."""
TO_THE_MINUTE_S = 120.0
QUANTILES = 0.1, 0.5, 0.9
RUNS_LOOK_S, SAME_RUN_S, FEWEST_RUNS = 7 * DAY_S, 120.0, 10
"""What a run writes within two minutes is one run's. Fewer than ten may lie on a grid by chance."""
INTERVALS_S = tuple(60.0 * each for each in (120, 60, 30, 20, 15, 12, 10, 5))
"""Longer ones look like office hours."""
ON_ITS_GRID = 0.75
"""Of moments that are on it exactly it is 1; of ten at random it is more once in 300 times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayPart:
    """One part of the way, in seconds: a tenth is faster than `low_s` and a tenth slower than `high_s`."""

    low_s: float
    median_s: float
    high_s: float
    source: str

    @classmethod
    def always(cls, delay_s: float, source: str) -> "DelayPart":
        """One that is always as long."""
        return cls(low_s=delay_s, median_s=delay_s, high_s=delay_s, source=source)

    @property
    def words(self) -> str:
        """`4m`, or `4m (1m to 20m)`."""
        if self.low_s == self.high_s:
            return told_span(self.median_s)
        return f"{told_span(self.median_s)} ({told_span(self.low_s)} to {told_span(self.high_s)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuationDelay:
    """The way of a change: until it is merged, until its cluster has the number, until a new replica serves."""

    merge: DelayPart
    sync: DelayPart
    start: DelayPart

    @property
    def named_parts(self) -> tuple[tuple[str, DelayPart], ...]:
        """In the order of the way."""
        return ("merge", self.merge), ("sync", self.sync), ("start", self.start)

    @property
    def low_s(self) -> float:
        """How soon a change may serve: all parts fast."""
        return sum(part.low_s for _, part in self.named_parts)

    @property
    def high_s(self) -> float:
        """How late it may serve: all parts slow."""
        return sum(part.high_s for _, part in self.named_parts)

    @property
    def median_s(self) -> float:
        """All of it, in the middle."""
        return sum(part.median_s for _, part in self.named_parts)


class ActuationDelays:
    """The delays of every variant of a snapshot; merges are counted once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._settings = snapshot.settings
        measured = snapshot.measured or snapshot
        self._merged = merge_times(measured)
        self._measured: dict[str, DelayPart] = {}
        arrived, started = after_merges(measured)
        self._arrived, self._started = _SeenDelays("arrivals", arrived), _SeenDelays("starts", started)

    @property
    def run_interval(self) -> DelayPart:
        """How often a run decides, and who says so."""
        settings = self._settings
        return DelayPart.always(settings.run_interval_s, settings.run_interval_source or "built-in")

    def of(self, variant: Variant) -> ActuationDelay:
        """What a change of the variant takes: its group's merges, or those of all groups where there are too few."""
        return ActuationDelay(
            merge=self._merge(variant),
            sync=_given(variant, SYNC_DELAY_S) or self._arrived.of(variant, SYNC_DELAY_S),
            start=_given(variant, START_DELAY_S) or self._started.of(variant, START_DELAY_S),
        )

    def _merge(self, variant: Variant) -> DelayPart:
        given = variant.settings[MERGE_DELAY_S]
        if given.value is not None:
            return DelayPart.always(given.value, str(given.source))
        group = variant.settings[GROUP].value
        if group not in self._measured:
            self._measured[group] = self._merges_of(group)
        return self._measured[group]

    def _merges_of(self, group: str) -> DelayPart:
        branches = branches_of(self._settings.git.branch_prefix, group)
        own = [time_s for branch in branches for time_s in self._merged.get(branch, ())]
        every = [time_s for times_s in self._merged.values() for time_s in times_s]
        for times_s, whose in ((own, "of its group"), (every, "of all groups")):
            if len(times_s) >= FEWEST_MERGES:
                return _measured(times_s, f"measured: {len(times_s)} merges {whose} in 30 days")
        return _assumed(self._settings, len(every))


def merge_times(snapshot: Snapshot) -> Mapping[str, Sequence[float]]:
    """By head branch how long (seconds) our pull requests of the last 30 days were open until they were merged.

    Those of today (UTC) count only while others are too few: with each of them the time that forecasts are for would
    be another, and replicas would go up and down with it.
    """
    midnight_s = last_midnight_s(snapshot.now_s)
    found: defaultdict[str, list[float]] = defaultdict(list)
    today: defaultdict[str, list[float]] = defaultdict(list)
    for each in snapshot.proposals:
        if each.state is ProposalState.MERGED and each.opened_at_s is not None and each.closed_at_s is not None:
            age_s, open_s = snapshot.now_s - each.closed_at_s, each.closed_at_s - each.opened_at_s
            if 0 <= age_s <= LOOK_BACK_S and open_s >= 0:
                (today if each.closed_at_s >= midnight_s else found)[each.head_branch].append(open_s)
    if sum(map(len, found.values())) < FEWEST_MERGES:
        for branch, times_s in today.items():
            found[branch] += times_s
    return found


SeenDelays = Sequence[tuple[ResourceKey, float]]


class _SeenDelays:
    """What was seen of one part of a delay, by variant and by cluster; `what` says in words of what it is."""

    def __init__(self, what: str, times: SeenDelays) -> None:
        self._what = what
        self._own: defaultdict[ResourceKey, list[float]] = defaultdict(list)
        self._every: defaultdict[str, list[float]] = defaultdict(list)
        for key, time_s in times:
            self._own[key].append(time_s)
            self._every[key.cluster].append(time_s)
        self._of_cluster: dict[str, DelayPart] = {}

    def of(self, variant: Variant, setting: "SettingDefinition[float]") -> DelayPart:
        """What was seen of the variant, or of all of its cluster where that is too little; else what is built in."""
        cluster = variant.key.cluster
        own, every = self._own.get(variant.key, ()), self._every.get(cluster, ())
        if len(own) >= FEWEST_MERGES:
            return self._part(own, "of this variant")
        if len(every) >= FEWEST_MERGES:
            if cluster not in self._of_cluster:
                self._of_cluster[cluster] = self._part(every, "in its cluster")
            return self._of_cluster[cluster]
        words = f"built-in: {len(every)} {self._what} seen in 7 days, {FEWEST_MERGES} are needed to measure it"
        return DelayPart.always(variant.settings[setting].value, words)

    def _part(self, times_s: Sequence[float], whose: str) -> DelayPart:
        return _measured(times_s, f"measured: {len(times_s)} {self._what} {whose} in 7 days")


def after_merges(snapshot: Snapshot) -> tuple[SeenDelays, SeenDelays]:
    """By variant how long (seconds) our merges took to reach the cluster, and added replicas from there to be ready.

    Both to the next sample, a minute apart; what never came, or what another number followed first, measures nothing.
    """
    observed, keys = snapshot.observed, {str(each.key): each.key for each in snapshot.variants}
    arrived: list[tuple[ResourceKey, float]] = []
    started: list[tuple[ResourceKey, float]] = []
    for proposal in snapshot.proposals:
        at_s = proposal.closed_at_s if proposal.state is ProposalState.MERGED else None
        for change in proposal.changes if at_s is not None else ():
            key = keys.get(change.resource)
            counts = None if key is None else observed.merged.get(key)
            if key is None or counts is None or at_s is None or counts.at(at_s) != change.replicas_before:
                continue
            after, until_s = change.replicas_after, at_s + DELAY_LOOK_S
            there_s = counts.first_at(at_s, until_s, after, after)
            if there_s is None:
                continue
            arrived.append((key, there_s - at_s))
            ready = observed.started.get(key)
            ready_s = None if ready is None else ready.first_at(there_s - ready.step_s, until_s, after)
            if after > change.replicas_before and ready_s is not None and counts.at(ready_s) == after:
                started.append((key, ready_s - there_s))
    return arrived, started


def measured_interval_s(proposals: Iterable[Proposal], now_s: float) -> tuple[float, int] | None:
    """How often runs are started (seconds), by when they wrote to Git, and how many did in the last 7 days.

    The longest of usual intervals on whose grid they lie: the length of the mean of moments on a circle (Mardia and
    Jupp, Directional Statistics, 2000) does not depend on how many runs had nothing to write. None where too few wrote.
    """
    told = {at_s for each in proposals for at_s in (each.opened_at_s, *each.pushes_s) if at_s is not None}
    times_s = np.array(sorted(each for each in told if 0 <= now_s - each <= RUNS_LOOK_S))
    if len(times_s):
        times_s = times_s[np.diff(times_s, prepend=-math.inf) > SAME_RUN_S]
    if len(times_s) < FEWEST_RUNS:
        return None
    for interval_s in INTERVALS_S:
        if abs(np.exp(2j * np.pi * times_s / interval_s).mean()) >= ON_ITS_GRID:
            return interval_s, len(times_s)
    return None


def delay_figures(delays: ActuationDelays, variant: Variant) -> Iterator[Figure]:
    """The three parts of a variant's delay, each with where it is from."""
    for name, part in delays.of(variant).named_parts:
        yield Figure(subject=variant.key.label, name=f"delay of {name}", value=part.words, unit="", reason=part.source)
    interval = delays.run_interval
    yield Figure(subject=variant.key.label, name="run interval", value=interval.words, unit="", reason=interval.source)


def _measured(times_s: Sequence[float], source: str) -> DelayPart:
    low_s, median_s, high_s = (float(each) for each in np.quantile(times_s, QUANTILES))
    return DelayPart(low_s=low_s, median_s=median_s, high_s=high_s, source=source)


def _assumed(settings: Settings, merges: int) -> DelayPart:
    is_automatic = settings.pull_requests.auto_merge is True
    low_s, median_s, high_s = MERGED_BY_ITSELF_S if is_automatic else MERGED_BY_PEOPLE_S
    source = f"built-in: {merges} merges in 30 days, {FEWEST_MERGES} are needed to measure it"
    return DelayPart(low_s=low_s, median_s=median_s, high_s=high_s, source=source)


def _given(variant: Variant, setting: SettingDefinition[float]) -> DelayPart | None:
    found = variant.settings[setting]
    is_built_in = found.source.kind is SourceKind.BUILT_IN
    return None if is_built_in else DelayPart.always(found.value, str(found.source))


def told_span(span_s: float) -> str:
    """A time in words, to the minute where it is longer than two: nothing here is known to the second."""
    return duration(round(span_s / 60) * 60 if span_s >= TO_THE_MINUTE_S else span_s)


FEWEST_OF_A_WEEK, LONGEST_PAUSE_H = 20, 8
"""Merges that tell office hours, and hours of a day without any of them that are a night."""
WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
"""As days since 1970 count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeHours:
    """When our pull requests are merged, and what it takes to keep at other times what those need.

    `words` say the days and hours, `merges` how many they are from; `more` is the fraction of all replicas, weighted by
    their cost, that is kept beyond what merges at any time would; `cost_per_hour` None where a price is missing.
    """

    words: str
    merges: int
    more: float
    cost_per_hour: float | None


def office_hours(snapshot: Snapshot) -> OfficeHours | None:
    """What it costs that people merge at their hours, on the load of two weeks; None where merges know no hours."""
    merged = (each for each in snapshot.proposals if each.state is ProposalState.MERGED)
    ages = (each.closed_at_s for each in merged if each.closed_at_s is not None)
    at_s = np.array([each for each in ages if 0 <= snapshot.now_s - each <= LOOK_BACK_S])
    if len(at_s) < FEWEST_OF_A_WEEK or np.ptp(at_s) < 7 * DAY_S:
        return None
    of_day = np.bincount((at_s // HOUR_S % 24).astype(int), minlength=24) > 0
    of_week = np.bincount((at_s // DAY_S % 7).astype(int), minlength=7) > 0
    pauses = np.diff(np.flatnonzero(np.tile(of_day, 2)))  # from one hour with merges to the next
    night = int(pauses.argmax())
    if pauses[night] - 1 < LONGEST_PAUSE_H:
        return None
    last = np.flatnonzero(np.tile(of_day, 2))[night] % 24
    first, hours = (last + pauses[night]) % 24, 24 - pauses[night] + 1
    is_open = of_week[:, np.newaxis] & ((np.arange(24) - first) % 24 < hours)
    days = ", ".join(name for name, seen in zip(WEEKDAYS, of_week, strict=True) if seen)
    cost, is_priced = 0.0, True
    by_model: defaultdict[ModelKey, list[Variant]] = defaultdict(list)
    for variant in snapshot.variants:
        if not variant.is_autoscaled:
            by_model[variant.model].append(variant)
    delays, whole = ActuationDelays(snapshot), 0.0
    for history in snapshot.observed.demand:
        moments_s = history.start_s + history.step_s * np.arange(history.per_s.shape[1])
        open_now = is_open[(moments_s // DAY_S % 7).astype(int), (moments_s // HOUR_S % 24).astype(int)]
        for model, per_s in zip(history.models, np.nan_to_num(history.per_s), strict=True):
            variants = by_model.get(model, [])
            if not variants or not per_s.any():
                continue
            ahead_s = max(delays.of(each).median_s for each in variants) + snapshot.settings.run_interval_s
            at_once, held = _kept(per_s, open_now, max(round(ahead_s / history.step_s), 1))
            priced = [each.current_cost_per_hour for each in variants]
            is_priced = is_priced and None not in priced
            weights = (each.current.replicas * (price or 1.0) for each, price in zip(variants, priced, strict=True))
            weight = sum(weights)
            whole += weight
            cost += weight * (held / at_once - 1)
    more = cost / whole if whole else 0.0
    words = f"{days} between {first:02d}:00 and {(last + 1) % 24:02d}:00 UTC"
    return OfficeHours(words=words, merges=len(at_s), more=more, cost_per_hour=cost if is_priced else None)


def _kept(per_s: Floats, is_open: Bools, ahead: int) -> tuple[float, float]:
    """The mean of what is carried where changes merge at any time, and where none does until it is open again."""
    padded = np.pad(per_s, (0, ahead), mode="edge")
    at_once = sliding_window_view(padded, ahead + 1).max(axis=1)
    held, closed = at_once.copy(), np.flatnonzero(~is_open)
    for stretch in np.split(closed, np.flatnonzero(np.diff(closed) > 1) + 1) if len(closed) else ():
        begins = max(stretch[0] - 1, 0)
        held[begins : stretch[-1] + 1] = at_once[begins : stretch[-1] + 1].max()
    return float(at_once.mean()), float(held.mean())
