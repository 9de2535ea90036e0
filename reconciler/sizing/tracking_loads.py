"""Observed series of metric targets as clean arrays, and the replica count that they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum

import numpy as np

from reconciler.domain.metric_targets import Backend, Policy
from reconciler.domain.records import dataclass, replace
from reconciler.sizing.arrays import Bools, Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHistory:
    """One metric read from pods, arrays of shape (ticks, backends), NaN where unknown.

    `total` is the sum over the `reporting` ready pods; `missing` ready pods did not report it.
    """

    total: Floats
    reporting: Floats
    missing: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHistory:
    """Arrays of shape (ticks, backends), NaN where unknown: a tick without an answer stays in its place.

    `replicas` are those set at the time, `unready` those not ready. `pods` and `external` hold metrics by the name of
    their target; an external value is a total over the backend, and of a metric in both the external one counts.
    `arrivals_per_s`, shape (ticks,), tells an idle target; without it one is idle while every metric is zero.
    """

    replicas: Floats
    unready: Floats
    pods: Mapping[str, PodHistory] = field(default_factory=dict)
    external: Mapping[str, Floats] = field(default_factory=dict)
    arrivals_per_s: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one policy scales: a single backend, or a group of them that serve one load."""

    name: str
    policy: Policy
    backends: tuple[Backend, ...]
    history: TargetHistory
    cost_expansion_percent: int = 200

    @property
    def minimum(self) -> int:
        """The fewest replicas of all backends together."""
        return sum(backend.min_replicas for backend in self.backends)

    @property
    def maximum(self) -> int:
        """The most replicas of all backends together."""
        return sum(backend.max_replicas for backend in self.backends)

    @property
    def is_group(self) -> bool:
        """Whether replicas are split among several backends."""
        return len(self.backends) > 1

    @property
    def is_fixed(self) -> bool:
        """Whether its bounds leave one count, which needs no metric."""
        return self.minimum == self.maximum > 0

    @property
    def grace_s(self) -> float:
        """How long nothing may have arrived before the last replica goes: the longest wish of any backend."""
        return max((backend.scale_to_zero_grace_s or 0.0 for backend in self.backends), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingRule:
    """In which ways one generation's rule differs from another's.

    The first six are what upstream did, the last five what we mend:

    - `records_corrected`, `groups_record_corrected`: the recommendation windows get the corrected count, of every
      target or of groups only, and refill themselves with what they hold;
    - `down_rate_from_minimum`: the down rate counts from the lowest count of its period, not the highest;
    - `panics_from_zero`: a panic may leave zero, where a rate of anything is nothing;
    - `needs_all_pods_ready`, `first_label_set_only`: one pod that is not ready blinds the whole target, and of a
      metric with labels only the first set is read;
    - `tolerance_per_replica`: the band is around the target of one replica, not around that of one reporting unit;
    - `holds_on_missing`: a metric that cannot be read keeps a count from shrinking;
    - `waits_until_idle`: zero only after the backend's grace period without arrivals;
    - `counters_as_rates`: of a metric that only grows, its increase a second is the load;
    - `keeps_ratio`: roles keep their ratio after rounding, and the windows see what the roles were given.
    """

    name: str
    records_corrected: bool = False
    groups_record_corrected: bool = False
    down_rate_from_minimum: bool = False
    panics_from_zero: bool = True
    needs_all_pods_ready: bool = False
    first_label_set_only: bool = False
    tolerance_per_replica: bool = False
    holds_on_missing: bool = False
    waits_until_idle: bool = False
    counters_as_rates: bool = False
    keeps_ratio: bool = False

    def remembers_start(self, *, is_group: bool) -> bool:
        """Whether the windows refill themselves, so that a replay never forgets the count it started from."""
        return self.records_corrected or (is_group and self.groups_record_corrected)


# `registry.volcano.sh` and v0.1: the first two generations of the resource.
KTHENA_V0_CORRECTED = TrackingRule(
    name="kthena-v0",
    records_corrected=True,
    groups_record_corrected=True,
    down_rate_from_minimum=True,
    panics_from_zero=False,
    needs_all_pods_ready=True,
    first_label_set_only=True,
)
# v0.2 to v0.4: the third.
KTHENA_V0 = replace(KTHENA_V0_CORRECTED, records_corrected=False)
# v1.0: the fourth, as of August 2026.
KTHENA_V1 = TrackingRule(name="kthena-v1", groups_record_corrected=True)
TRACKING = TrackingRule(
    name="tracking",
    tolerance_per_replica=True,
    holds_on_missing=True,
    waits_until_idle=True,
    counters_as_rates=True,
    keeps_ratio=True,
)


# Sliding windows over counts, one per target: what was recommended, and what was set. Windows live inside one replay.
# Times are milliseconds and must not fall; an entry is alive while its time plus the window's length is not before
# now. A window of length 0 has no answer.

# Upstream's largest count: what an infinite need is cut to before bounds apply.
MOST_REPLICAS = 1_000_000_000
# Before every tick, without ever overflowing when a window length is added.
NEVER_MS = -(2**62)


def milliseconds(seconds: Floats | float) -> Integers:
    """Return finite times as whole milliseconds: windows end on equality, which binary fractions of a second miss."""
    return np.asarray(np.rint(np.asarray(seconds, dtype=np.float64) * 1000.0), dtype=np.int64)


def whole_replicas(need: Floats) -> Floats:
    """Return the need rounded up: NaN and less are 0, more than a billion is a billion; shape kept."""
    return np.clip(np.ceil(np.where(np.isnan(need), 0.0, need)), 0.0, float(MOST_REPLICAS))


class Extreme(Enum):
    """Which of the alive values a window answers with; the value is what stands for none of them."""

    LARGEST = -(2**62)
    SMALLEST = 2**62

    def of(self, left: Integers, right: Integers) -> Integers:
        """Return the better of each pair."""
        return np.maximum(left, right) if self is Extreme.LARGEST else np.minimum(left, right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A window's answers, shape (targets,); `value` means something where `known`."""

    value: Integers
    known: Bools


class RecordWindow:
    """The largest or smallest of the values recorded within each target's length.

    Keeps, for every moment of recording, the best value since: an answer is one look-up, whatever the lengths.
    """

    def __init__(self, extreme: Extreme, length_ms: Integers, capacity: int) -> None:
        self._extreme = extreme
        self._length_ms = length_ms
        self._longest_ms = int(length_ms.max(initial=0))
        self._targets = np.arange(length_ms.size)
        self._times_ms = np.zeros(capacity + 1, dtype=np.int64)
        # One row more than there is room for: where nothing is alive, the look-up lands on an empty row.
        self._best_since = np.full((capacity + 1, length_ms.size), extreme.value, dtype=np.int64)
        self._count = 0

    def append(self, now_ms: int, values: Integers, recorded: Bools) -> None:
        """Record the values of those targets that have one now."""
        end = self._count + 1
        self._times_ms[self._count] = now_ms
        alive = int(np.searchsorted(self._times_ms[: self._count], now_ms - self._longest_ms))
        rows = self._best_since[alive:end]
        rows[...] = self._extreme.of(rows, np.where(recorded, values, self._extreme.value))
        self._count = end

    def best(self, now_ms: int) -> Best:
        """Return the best of what is alive now."""
        first = np.searchsorted(self._times_ms[: self._count], now_ms - self._length_ms)
        value = self._best_since[first, self._targets]
        return Best(value=value, known=(self._length_ms > 0) & (value != self._extreme.value))


class LineWindow:
    """The largest or smallest height of a step function within each target's length.

    A value is recorded with the time at which the next one replaces it, the end of its reign; the last one counts
    for twice the length and is then forgotten.
    """

    def __init__(self, extreme: Extreme, length_ms: Integers, capacity: int) -> None:
        self._extreme = extreme
        self._length_ms = length_ms
        self._ended = RecordWindow(extreme, length_ms, capacity)
        self._last = np.full(length_ms.size, extreme.value, dtype=np.int64)
        self._last_ms = np.full(length_ms.size, NEVER_MS, dtype=np.int64)

    def append(self, now_ms: int, values: Integers, recorded: Bools) -> None:
        """Record the heights of those targets that have one now."""
        self._ended.append(now_ms, self._last, recorded & self._lasts(now_ms))
        self._last = np.where(recorded, values, self._last)
        self._last_ms = np.where(recorded, now_ms, self._last_ms)

    def best(self, now_ms: int, current: Integers) -> Best:
        """Return the best of what is alive now, the current height included."""
        value = np.where(self._lasts(now_ms), self._extreme.of(current, self._last), current)
        ended = self._ended.best(now_ms)
        value = np.where(ended.known, self._extreme.of(value, ended.value), value)
        return Best(value=value, known=self._length_ms > 0)

    def _lasts(self, now_ms: int) -> Bools:
        return self._last_ms + 2 * self._length_ms >= now_ms


# Names of metrics that are shares, not amounts: a group takes their mean.
_SHARES = ("_utilization", "_usage", "_ratio", "_percent", "_saturation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A batch of `replicas` that is handed to the backend at `index` at once; `cost` ranks it."""

    index: int
    replicas: int
    cost: int


def scaling_order(backends: Sequence[Backend], expansion_percent: int) -> tuple[Block, ...]:
    """Return the blocks in which a group grows beyond its minimum, cheapest first, ties in the order of the list.

    Each backend's batches grow by `expansion_percent` from one to the next; at 100 it is one batch, ranked by the cost
    of one replica, and below 100 single replicas.
    """
    blocks = [block for index, backend in enumerate(backends) for block in _blocks(index, backend, expansion_percent)]
    return tuple(sorted(blocks, key=lambda block: (block.cost, block.index)))


def _blocks(index: int, backend: Backend, expansion_percent: int) -> list[Block]:
    rest = backend.max_replicas - backend.min_replicas
    if rest <= 0:
        return []
    if expansion_percent == 100:
        return [Block(index=index, replicas=rest, cost=backend.cost)]
    blocks, size = [], 1.0
    while rest > 0:
        replicas = min(rest, max(int(min(size, rest)), 1))
        blocks.append(Block(index=index, replicas=replicas, cost=backend.cost * replicas))
        rest -= replicas
        size = size * expansion_percent / 100
    return blocks


def distribute(backends: Sequence[Backend], order: Sequence[Block], total: int) -> tuple[int, ...]:
    """Return the replicas of each backend that add up to `total`, or to the nearest sum that the bounds allow.

    Depends on the total only: what a smaller total gives is always part of what a larger one gives.
    """
    replicas = [backend.min_replicas for backend in backends]
    left = max(total - sum(replicas), 0)
    for block in order:
        given = min(left, block.replicas)
        replicas[block.index] += given
        left -= given
    return tuple(replicas)


def keep_at_least(split: Sequence[int], floor: Sequence[int]) -> tuple[int, ...]:
    """Return replicas of which none is below `floor`, adding what `split` adds until its total is reached."""
    left = max(sum(split) - sum(floor), 0)
    kept = []
    for wanted, least in zip(split, floor, strict=True):
        added = min(left, max(wanted - least, 0))
        kept.append(least + added)
        left -= added
    return tuple(kept)


def is_share(metric: str) -> bool:
    """Return whether a metric's name says that it is a share of something, which nothing adds up."""
    return metric.lower().endswith(_SHARES)


def aggregate_external(metric: str, values: Floats, replicas: Floats) -> Floats:
    """Return one external metric of all backends: the sum, or for a share its mean weighted by replicas.

    Shapes (ticks, backends) to (ticks,); NaN values are left out. Without any replica the mean is plain.
    """
    known = ~np.isnan(values)
    usable = np.where(known, values, 0.0)
    if not is_share(metric):
        return in_order_sum(usable)
    weights = np.where(known & (replicas > 0), replicas, 0.0)
    weights = np.where(weights.any(axis=1, keepdims=True), weights, known)
    weight = in_order_sum(weights)
    return in_order_sum(usable * weights) / np.where(weight > 0, weight, 1.0)


def in_order_sum(values: Floats) -> Floats:
    """Return the sum over backends, one added after the other: the last bit decides at the edge of the tolerance."""
    total = np.zeros(values.shape[0])
    for backend in range(values.shape[1]):
        total = total + values[:, backend]
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReadings:
    """One tick's metrics, arrays of shape (metrics, targets); `unready` replicas have shape (targets,).

    `total` is the sum over `reporting` units; `missing` units should report and do not. A unit is what upstream keeps
    a map for (a backend), or a pod where the tolerance is per replica. An `external` metric is a total that somebody
    else measured. A reading is `partial` where something that should report did not. Without an external total and
    with nothing reporting there is no reading.
    """

    total: Floats
    reporting: Floats
    missing: Floats
    external: Bools
    partial: Bools
    unready: Floats

    @property
    def present(self) -> Bools:
        """Where there is a reading at all."""
        return self.external | (self.reporting > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What a policy wants, arrays of shape (targets,).

    `per_replica` has shape (metrics, targets) and is NaN where a target has fewer metrics.
    """

    per_replica: Floats
    tolerance: Floats
    minimum: Integers
    maximum: Integers

    @property
    def asked(self) -> Bools:
        """Which metrics each target has, shape (metrics, targets)."""
        return ~np.isnan(self.per_replica)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The count the metrics ask for, arrays of shape (targets,).

    `votes`, shape (metrics, targets), is NaN where a metric had none; one that was read in part, or not at all, may
    vote to hold. Where `skipped` no metric voted, nothing is known and `replicas` is meaningless. `complete` says
    that every metric of the policy was read in full.
    """

    votes: Floats
    replicas: Integers
    skipped: Bools
    complete: Bools


def recommend(readings: TickReadings, aims: Aims, current: Integers, rule: TrackingRule) -> Recommendation:
    """Return what the metrics ask for with `current` replicas, shape (targets,), cut to the bounds.

    A count outside its bounds goes to the nearest one and needs no metric; nor does a count whose bounds are equal.
    """
    read = readings.present & aims.asked
    full = read & ~readings.partial
    complete = (full | ~aims.asked).all(axis=0)
    with np.errstate(all="ignore"):  # zero targets and zero counts divide: infinite needs and NaN are part of the rule
        votes = np.where(read, _votes(readings, aims, current, rule), np.nan)
    counted = votes
    if rule.holds_on_missing:
        counted = np.where(aims.asked & ~full, np.fmax(votes, current), votes)
    highest = np.where(np.isnan(counted), -1.0, counted)
    voted = read.any(axis=0)
    wanted = np.clip(highest.max(axis=0, initial=0.0), aims.minimum, aims.maximum).astype(np.int64)
    outside = (current < aims.minimum) | (current > aims.maximum)
    fixed = (aims.minimum == aims.maximum) & (aims.maximum > 0)
    return Recommendation(
        votes=counted,
        replicas=np.where(outside | fixed, np.clip(current, aims.minimum, aims.maximum), wanted),
        skipped=~(voted | outside | fixed),
        complete=complete | fixed,
    )


def _votes(readings: TickReadings, aims: Aims, current: Integers, rule: TrackingRule) -> Floats:
    need = readings.total / aims.per_replica
    of_total = np.where(np.abs(need / current - 1.0) <= aims.tolerance, current, whole_replicas(need))
    if rule.tolerance_per_replica or readings.external.all():
        return of_total
    return np.where(readings.external, of_total, _vote_of_units(readings, aims, current))


def _vote_of_units(readings: TickReadings, aims: Aims, current: Integers) -> Floats:
    """Return upstream's vote from the mean of reporting units.

    Missing units count as on target when shrinking and as idle when growing, unready ones as idle when growing; a
    vote that these assumptions turn round is a vote for the current count.
    """
    per_replica = aims.per_replica
    ratio = readings.total / readings.reporting / per_replica
    grows = ratio >= 1.0
    with_unready = (readings.unready > 0) & grows
    plain = np.where(np.abs(ratio - 1.0) <= aims.tolerance, current, whole_replicas(ratio * readings.reporting))
    units = readings.reporting + readings.missing + np.where(with_unready, readings.unready, 0.0)
    assumed = readings.total + np.where(grows, 0.0, readings.missing * per_replica)
    careful_ratio = assumed / units / per_replica
    still_grows = careful_ratio >= 1.0
    careful = whole_replicas(careful_ratio * units)
    turned = (grows != still_grows) | np.where(still_grows, careful < current, careful > current)
    careful = np.where((np.abs(careful_ratio - 1.0) <= aims.tolerance) | turned, current, careful)
    return np.where(with_unready | (readings.missing > 0), careful, plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Metrics of shape (ticks, metrics, targets); `unready` and `busy` of shape (ticks, targets).

    `busy` where something arrived, or that is not known. `unusable` counts the readings of each target that were
    negative or infinite, shape (targets,). See `Readings` for the rest.
    """

    total: Floats
    reporting: Floats
    missing: Floats
    external: Bools
    partial: Bools
    unready: Floats
    busy: Bools
    unusable: Floats

    def over(self, ticks: Integers) -> "Loads":
        """Return the loads at some of the ticks."""
        return replace(
            self,
            total=self.total[ticks],
            reporting=self.reporting[ticks],
            missing=self.missing[ticks],
            external=self.external[ticks],
            partial=self.partial[ticks],
            unready=self.unready[ticks],
            busy=self.busy[ticks],
        )

    def repeat(self, times: int) -> "Loads":
        """Return the same targets several times over, side by side."""
        return Loads(
            total=np.tile(self.total, times),
            reporting=np.tile(self.reporting, times),
            missing=np.tile(self.missing, times),
            external=np.tile(self.external, times),
            partial=np.tile(self.partial, times),
            unready=np.tile(self.unready, times),
            busy=np.tile(self.busy, times),
            unusable=np.tile(self.unusable, times),
        )

    def at(self, tick: int) -> TickReadings:
        """Return what was read at one tick."""
        return TickReadings(
            total=self.total[tick],
            reporting=self.reporting[tick],
            missing=self.missing[tick],
            external=self.external[tick],
            partial=self.partial[tick],
            unready=self.unready[tick],
        )


def stack_loads(targets: Sequence[Target], ticks: int, rule: TrackingRule) -> Loads:
    """Return the series of all targets, each of `ticks` ticks, in the units that the rule counts."""
    metrics = max((len(target.policy.metrics) for target in targets), default=0)
    shape = (ticks, metrics, len(targets))
    loads = Loads(
        total=np.zeros(shape),
        reporting=np.zeros(shape),
        missing=np.zeros(shape),
        external=np.zeros(shape, dtype=np.bool_),
        partial=np.zeros(shape, dtype=np.bool_),
        unready=np.zeros((ticks, len(targets))),
        busy=np.zeros((ticks, len(targets)), dtype=np.bool_),
        unusable=np.zeros(len(targets)),
    )
    with np.errstate(over="ignore"):  # an infinite sum asks for the most replicas, as any huge one does
        for column, target in enumerate(targets):
            _fill(loads, column, target, rule)
    return loads


def _fill(loads: Loads, column: int, target: Target, rule: TrackingRule) -> None:
    history = target.history
    loads.unready[:, column] = _usable(history.unready).sum(axis=1)
    for row, metric in enumerate(target.policy.metrics):
        values = history.external.get(metric.name)
        pods = history.pods.get(metric.name)
        if values is not None:
            _fill_external(loads, (row, column), metric.name, values, history)
        if pods is not None:
            _fill_pods(loads, (row, column), pods, history, rule)
    loads.busy[:, column] = _busy(loads, column, target)


def _fill_external(loads: Loads, place: tuple[int, int], name: str, values: Floats, history: TargetHistory) -> None:
    row, column = place
    known = _known(values)
    loads.unusable[column] += np.count_nonzero(~known & ~np.isnan(values))
    answered = known.any(axis=1)
    loads.total[:, row, column] = aggregate_external(name, np.where(known, values, np.nan), _usable(history.replicas))
    loads.external[:, row, column] = answered
    loads.partial[:, row, column] = answered & (_silent(known, history) > 0)


def _fill_pods(
    loads: Loads, place: tuple[int, int], pods: PodHistory, history: TargetHistory, rule: TrackingRule
) -> None:
    row, column = place
    sound = _known(pods.total)
    known = sound & (_usable(pods.reporting) > 0)
    loads.unusable[column] += np.count_nonzero(~sound & ~np.isnan(pods.total))
    silent = _usable(pods.missing).sum(axis=1) + _silent(known, history)
    if rule.tolerance_per_replica:
        reporting, missing = np.where(known, pods.reporting, 0.0).sum(axis=1), silent
    else:
        reporting, missing = known.sum(axis=1), (~known).sum(axis=1)
    instead = ~loads.external[:, row, column]
    loads.total[instead, row, column] = in_order_sum(np.where(known, pods.total, 0.0))[instead]
    loads.reporting[instead, row, column] = reporting[instead]
    loads.missing[instead, row, column] = missing[instead]
    loads.partial[instead, row, column] = (silent > 0)[instead]


def _busy(loads: Loads, column: int, target: Target) -> Bools:
    arrivals = target.history.arrivals_per_s
    if arrivals is not None:
        return np.asarray(arrivals != 0, dtype=np.bool_)  # NaN is not zero: unknown is busy
    rows = slice(0, len(target.policy.metrics))
    readable = (loads.reporting[:, rows, column] > 0) | loads.external[:, rows, column]
    quiet = readable & ~loads.partial[:, rows, column] & (loads.total[:, rows, column] == 0)
    return np.asarray(~quiet.all(axis=1), dtype=np.bool_)


def _silent(known: Bools, history: TargetHistory) -> Floats:
    """Return how many backends should have answered and did not; one without replicas has nothing to say."""
    return np.asarray((~known & (history.replicas != 0)).sum(axis=1), dtype=np.float64)


def _known(values: Floats) -> Bools:
    return np.asarray(np.isfinite(values) & (values >= 0), dtype=np.bool_)


def _usable(values: Floats) -> Floats:
    return np.where(_known(values), values, 0.0)
