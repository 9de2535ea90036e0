"""The Horizontal Pod Autoscaler, `autoscaling/v2` as of Kubernetes 1.34, for many settings and variants at once.

Not reproduced: conditions and events, a `scaleTargetRef` that is missing, containers apart from their pods. The memory
is that of one controller that never restarts. The rules were read in the controller's source at commit 000672689 and
follow 1.34 where that is newer: both stabilisation windows hold at once, rate policies undo both directions, a pod
without a sample counts as max(100 %, target) of its request when shrinking, and no proposal turns its direction.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.records import dataclass
from reconciler.domain.scalers import (
    STABILIZATION_S,
    SYNC_S,
    TOLERANCE,
    Behavior,
    MetricKind,
    RatePolicy,
    Select,
    Value,
)
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.port import Seen, known

CPU_INITIALIZATION_S, INITIAL_READINESS_S = 300.0, 30.0
FASTEST, FASTEST_FROM = 2.0, 4.0
"""Without a behavior replicas at most double, or grow to four."""
OF_PODS = (MetricKind.UTILIZATION, MetricKind.RESOURCE, MetricKind.PODS)
PER_REPLICA = (MetricKind.OBJECT_AVERAGE, MetricKind.EXTERNAL_AVERAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as the controller finds it; times are seconds ago.

    `sample_milli` None is no sample. `sample_began_s` is when the window of the sample began, `ready_changed_s` when
    readiness last changed; `is_ready` None is a pod without that condition.
    """

    sample_milli: int | None
    request_milli: int = 0
    is_dropped: bool = False
    is_pending: bool = False
    is_ready: bool | None = True
    started_s: float = math.inf
    ready_changed_s: float = math.inf
    sample_began_s: float = 0.0

    @property
    def is_unready_for_cpu(self) -> bool:
        """Whether its CPU says nothing yet: it starts, or has never been ready."""
        if self.is_ready is None:
            return True
        if self.started_s < CPU_INITIALIZATION_S:
            return not self.is_ready or self.sample_began_s > self.ready_changed_s
        return not self.is_ready and self.started_s - self.ready_changed_s < INITIAL_READINESS_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroups:
    """The pods of each scale target by what is known of them, arrays that broadcast to (settings x variants).

    `total_milli` is the sum over those `reporting`; requests are sums over each group. `ready` are running and ready,
    with a sample or without.
    """

    ready: Value
    reporting: Value
    missing: Value
    unready: Value
    total_milli: Value = 0.0
    reporting_request_milli: Value = 0.0
    missing_request_milli: Value = 0.0
    unready_request_milli: Value = 0.0


def group_pods(pods: Sequence[Pod], kind: MetricKind) -> PodGroups:
    """Sort pods as the controller does; resource metrics are of the CPU."""
    live = [pod for pod in pods if not pod.is_dropped]
    is_cpu = kind in (MetricKind.UTILIZATION, MetricKind.RESOURCE)
    running = [pod for pod in live if not pod.is_pending]
    missing = [pod for pod in running if pod.sample_milli is None]
    unready = [pod for pod in running if pod.sample_milli is not None and is_cpu and pod.is_unready_for_cpu]
    reporting = [pod for pod in running if pod.sample_milli is not None and pod not in unready]
    unready += [pod for pod in live if pod.is_pending]

    def requested(group: Sequence[Pod]) -> float:
        return float(sum(pod.request_milli for pod in group))

    return PodGroups(
        ready=float(sum(pod.is_ready is True and not pod.is_pending for pod in pods)),
        reporting=float(len(reporting)),
        missing=float(len(missing)),
        unready=float(len(unready)),
        total_milli=float(sum(pod.sample_milli or 0 for pod in reporting)),
        reporting_request_milli=requested(reporting),
        missing_request_milli=requested(missing),
        unready_request_milli=requested(unready),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a ratio may be above and below 1 before anything changes."""

    up: Value = TOLERANCE
    down: Value = TOLERANCE

    def holds(self, ratio: Floats) -> Bools:
        """Whether nothing changes, the bound included."""
        return np.asarray((1.0 - self.down <= ratio) & (ratio <= 1.0 + self.up))


def proposal_of_value(
    kind: MetricKind, value_milli: Floats, target_milli: Value, current: Floats, ready: Value, tolerance: Tolerance
) -> Floats:
    """The replicas that the value of an object, or the sum of an external metric, asks for; NaN is not known."""
    current = np.asarray(current, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind in PER_REPLICA:
            ratio = np.asarray(value_milli / (target_milli * current))
            is_held = tolerance.holds(ratio) | (np.isnan(ratio) & ~np.isnan(value_milli))
            return np.where(is_held, current, np.ceil(value_milli / np.asarray(target_milli)))
        ratio = np.asarray(value_milli / np.asarray(target_milli))
    grown = np.where(current > 0, np.ceil(ratio * ready), np.ceil(ratio))
    return np.where((current > 0) & tolerance.holds(ratio), current, grown)


def proposal_of_pods(kind: MetricKind, pods: PodGroups, target: Value, current: Floats, tolerance: Tolerance) -> Floats:
    """The replicas that a metric of pods asks for; NaN where no pod reports it.

    `target` is in milli-units of a pod, or in percent of the request.
    """
    ratio = _ratio(kind, pods.total_milli, pods.reporting_request_milli, pods.reporting, target)
    found = np.where(tolerance.holds(ratio), current, np.ceil(ratio * pods.reporting))
    is_cautious, unready = np.asarray(pods.missing) > 0, np.asarray(pods.unready)
    if unready.any():
        is_cautious = is_cautious | ((unready > 0) & (ratio > 1.0))
    if is_cautious.any():
        place = np.flatnonzero(_of_shape(is_cautious, found.shape))

        def there(values: Value) -> Floats:
            """The numbers there alone; one that is the same everywhere stays one."""
            each = np.asarray(values)
            return each if each.ndim == 0 else _of_shape(each, found.shape).take(place)

        wanted = _cautious(
            kind,
            PodGroups(**{name: there(getattr(pods, name)) for name in PodGroups.__annotations__}),
            there(ratio),
            there(target),
            there(current),
            Tolerance(up=there(tolerance.up), down=there(tolerance.down)),
        )
        np.put(found, place, wanted)
    return np.where(np.asarray(pods.reporting) > 0, found, np.nan)


def _of_shape(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The same; `np.broadcast_to` takes long even where there is nothing to do."""
    return values if values.shape == shape else np.broadcast_to(values, shape)


def _ratio(kind: MetricKind, total: Value, request: Value, count: Value, target: Value) -> Floats:
    """Whole percent of the request, or whole milli-units of a pod, over the target."""
    if kind is MetricKind.UTILIZATION:
        return np.asarray(whole_quotient(100.0 * total, request) / target)
    return np.asarray(whole_quotient(total, count) / target)


def whole_quotient(total: Value, count: Value) -> Floats:
    """`np.floor_divide` by whole counts, several times as fast.

    A quotient that is no whole number after it was rounded to a float lies between the same two as before; where it is
    one, it may have been less, but for that of zero.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = np.asarray(np.divide(total, count))
        whole = np.asarray(np.floor(quotient))
        is_rounded = (whole == quotient) & np.not_equal(total, 0.0)
        if is_rounded.any():
            exactly = np.floor_divide(*(np.broadcast_to(each, whole.shape)[is_rounded] for each in (total, count)))
            whole[is_rounded] = exactly
    return whole


def _cautious(
    kind: MetricKind, pods: PodGroups, ratio: Floats, target: Floats, current: Floats, tolerance: Tolerance
) -> Floats:
    """The same where pods have no sample, or are not ready and the others ask for more."""
    is_less, is_more = ratio < 1.0, ratio > 1.0
    count, request, missing, unready = pods.reporting, pods.reporting_request_milli, pods.missing, pods.unready
    if kind is MetricKind.UTILIZATION:
        fill = np.maximum(100.0, target) / 100.0 * pods.missing_request_milli
        request = request + np.where(ratio != 1.0, pods.missing_request_milli, 0.0)
        missing = np.where(ratio != 1.0, missing, 0.0)
    else:
        fill = target * missing
    count = count + missing
    if np.asarray(unready).any():
        counts_unready = (np.asarray(unready) > 0) & is_more
        count = count + np.where(counts_unready, unready, 0.0)
        request = request + np.where(counts_unready, pods.unready_request_milli, 0.0)
    refilled = _ratio(kind, pods.total_milli + np.where(is_less, fill, 0.0), request, count, target)
    shrinks, grows, wanted = refilled < 1.0, refilled > 1.0, np.ceil(refilled * count)
    turned = (is_less & grows) | (is_more & shrinks)
    overtaken = (shrinks & (wanted > current)) | (grows & (wanted < current))
    return np.where(tolerance.holds(refilled) | turned | overtaken, current, wanted)


class RecentExtremes:
    """The largest (or least) of what was pushed within a window, which may differ by cell; each push costs the same.

    In blocks as long as the window: the extreme is that of the rest of the last block and of this one so far.
    """

    def __init__(self, windows_s: Value, sync_s: float, extreme: np.ufunc, *, with_oldest: bool = False) -> None:
        syncs = np.asarray(windows_s, dtype=np.float64) / sync_s
        counts = np.floor(syncs + 1e-9) + 1 if with_oldest else np.ceil(syncs - 1e-9)
        self._lengths, self._extreme = np.maximum(counts, 1).astype(np.int64), extreme
        self._longest = int(self._lengths.max())
        self._neutral = -math.inf if extreme is np.maximum else math.inf
        self._regions: list[_Region] = []
        self._pushed: list[Floats] = []
        self._rest: Floats = np.empty(0)
        self._so_far: Floats = np.empty(0)
        self._step = 0

    def push(self, values: Floats, is_known: Bools | None) -> Floats:
        """Add the newest where it is known (None: everywhere) and return the extremes (settings x variants)."""
        if is_known is not None:
            values = np.where(is_known, values, self._neutral)
        if self._longest == 1:
            return values
        if not self._pushed:
            self._regions = list(_regions(np.broadcast_to(self._lengths, values.shape)))
            self._rest = np.full((self._longest, *values.shape), self._neutral)
            self._so_far = np.full(values.shape, self._neutral)
        self._extreme(self._so_far, values, out=self._so_far)
        for each in self._regions:
            if self._step and self._step % each.length == 0:
                self._close_block(each)
                self._so_far[each.place] = values[each.place]
        self._pushed.append(values)
        del self._pushed[: -self._longest]
        self._step += 1
        return np.asarray(self._extreme(self._so_far, self._rest[(self._step - 1) % self._longest]))

    def _close_block(self, region: "_Region") -> None:
        """Keep, for each step of the next block, the extreme of those of the last one that are still in the window."""
        later = self._rest[(self._step + region.length - 1) % self._longest][region.place]
        later[...] = self._neutral
        for ago in range(1, region.length):
            rest = self._rest[(self._step + region.length - 1 - ago) % self._longest][region.place]
            self._extreme(later, self._pushed[-ago][region.place], out=rest)
            later = rest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Region:
    """Cells next to each other whose windows have so many syncs."""

    length: int
    place: tuple[slice, ...]


def _regions(lengths: Integers) -> Iterator[_Region]:
    """Cells (settings x variants, or variants) in rectangles of one number."""
    table = np.atleast_2d(lengths)
    for columns in _runs(table.T):
        column = table[:, columns.start]
        for rows in _runs(column):
            yield _Region(length=int(column[rows.start]), place=(rows, columns)[-lengths.ndim :])


def _runs(values: Integers) -> Iterator[slice]:
    """Where the same value, or row of values, stands several times in a row."""
    flat = values.reshape(len(values), -1)
    bounds = [0, *(np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1)) + 1).tolist(), len(values)]
    yield from (slice(first, end) for first, end in pairwise(bounds))


class RecentChanges:
    """How many replicas came (or went) within the period of a policy, age strictly below it."""

    def __init__(self, longest_s: float, sync_s: float) -> None:
        self._sync_s = sync_s
        self._kept = max(math.ceil(longest_s / sync_s - 1e-9), 1)
        self._sums: list[Floats] = []
        self.is_asked = self._kept > 1
        """Whether any period reaches back to an earlier sync."""

    def push(self, change: Floats) -> None:
        """What came at this sync."""
        self._sums.append(change + self._sums[-1] if self._sums else change)
        del self._sums[: -self._kept - 1]

    def within(self, period_s: float) -> Floats | float:
        """The sum of the changes younger than `period_s` at the next sync."""
        count = math.ceil(period_s / self._sync_s - 1e-9) - 1  # the last one is a sync old by then
        if count < 1 or not self._sums:
            return 0.0
        return self._sums[-1] - (self._sums[-1 - count] if count < len(self._sums) else 0.0)


class Controller:
    """From a raw count to what the scale target asks for: stabilisation, rates, bounds; memory of many lanes."""

    def __init__(self, *, least: Value, most: Value, behavior: Behavior | None = None, sync_s: float = SYNC_S) -> None:
        self._least, self._most, self._behavior = np.asarray(least, float), np.asarray(most, float), behavior
        down_s = STABILIZATION_S if behavior is None else behavior.down.window_s
        self._highest = RecentExtremes(down_s, sync_s, np.maximum, with_oldest=behavior is None)
        self._lowest = RecentExtremes(0.0 if behavior is None else behavior.up.window_s, sync_s, np.minimum)
        policies = () if behavior is None else (*behavior.up.policies, *behavior.down.policies)
        longest_s = max((each.period_s for each in policies), default=sync_s)
        self._came, self._went = RecentChanges(longest_s, sync_s), RecentChanges(longest_s, sync_s)
        self._up = () if behavior is None else tuple(_moves(behavior.up.policies, 1.0))
        self._down = () if behavior is None else tuple(_moves(behavior.down.policies, -1.0))

    def settle(self, raw: Floats, current: Floats) -> Floats:
        """The replicas from now on of `raw` that the metrics ask for (NaN: they failed) and `current`."""
        counts: Bools | None = ~np.isnan(raw) & (current >= self._least) & (current <= self._most)
        if counts is not None and counts.all():
            counts = None
        highest, lowest = self._highest.push(raw, counts), self._lowest.push(raw, counts)
        if self._behavior is None:
            top = np.minimum(self._most, np.maximum(FASTEST * current, FASTEST_FROM))
            settled = np.maximum(np.minimum(highest, top), self._least)
        else:
            stable = np.minimum(np.maximum(current, lowest), highest)
            settled = self._limited(stable, current)
        wanted = settled
        if counts is not None:
            is_off = (current == 0) & (self._least != 0)
            bounded = np.where(is_off, current, np.clip(current, self._least, self._most))
            wanted = np.where(counts, settled, bounded)
        if self._came.is_asked:
            self._came.push(np.maximum(wanted - current, 0.0))
            self._went.push(np.maximum(current - wanted, 0.0))
        return np.asarray(wanted)

    def _limited(self, stable: Floats, current: Floats) -> Floats:
        behavior = self._behavior or Behavior()
        most = np.maximum(self._limit(behavior.up.select, self._up, current), current)
        least = np.minimum(self._limit(behavior.down.select, self._down, current), current)
        most, least = np.minimum(most, self._most), np.maximum(least, self._least)
        return np.asarray(np.minimum(np.maximum(stable, least), most))  # the present number is between both

    def _limit(self, select: Select, moves: Sequence["_Move"], current: Floats) -> Floats:
        """How far the policies of one direction let it go."""
        if select is Select.DISABLED or not moves:
            return current
        takes_larger = moves[0].is_up is (select is Select.MAX)
        choose: Callable[[Floats, Floats], Floats] = np.maximum if takes_larger else np.minimum
        found: Floats | None = None
        for move in moves:
            start = current
            if self._came.is_asked:
                start = start - self._came.within(move.period_s) + self._went.within(move.period_s)
            reached = move.reached(start)
            found = reached if found is None else choose(found, reached)
        return current if found is None else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Move:
    """A rate policy in one direction: what a number is multiplied by, or what is added to it."""

    period_s: float
    is_up: bool
    is_percent: bool
    amount: Floats

    def reached(self, start: Floats) -> Floats:
        """The number that it lets replicas come to from another one."""
        if not self.is_percent:
            return start + self.amount
        return np.ceil(start * self.amount) if self.is_up else np.trunc(start * self.amount)


def _moves(policies: Sequence[RatePolicy], sign: float) -> Iterator[_Move]:
    for policy in policies:
        value = sign * np.asarray(policy.value)
        yield _Move(
            period_s=policy.period_s,
            is_up=sign > 0,
            is_percent=policy.is_percent,
            amount=np.asarray(1.0 + value / 100.0 if policy.is_percent else value),
        )


def combined(proposals: Sequence[Floats], current: Floats) -> Floats:
    """The largest of several metrics' proposals; NaN where all failed, or some did and the rest would shrink."""
    if len(proposals) == 1:
        return proposals[0]
    every = np.stack(np.broadcast_arrays(*proposals))
    failed = np.isnan(every)
    highest = np.where(failed, -np.inf, every).max(axis=0)
    is_void = failed.all(axis=0) | (failed.any(axis=0) & (highest < current))
    return np.where(is_void, np.nan, highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of an autoscaler: which signal of `Seen` it reads, of which kind, and its target in that unit."""

    signal: str
    kind: MetricKind
    target: Value


class HorizontalPodAutoscaler:
    """An HPA on signals of a simulated fleet. Replicas that start run and are not ready; they report nothing yet."""

    reproduces = "Kubernetes 1.34, autoscaling/v2"

    def __init__(
        self,
        *,
        metrics: Sequence[Metric],
        least: Value = 1.0,
        most: Value = math.inf,
        behavior: Behavior | None = None,
        tolerance: Tolerance | None = None,
        sync_s: float = SYNC_S,
    ) -> None:
        self._metrics, self._tolerance = tuple(metrics), tolerance or Tolerance()
        self._controller = Controller(least=least, most=most, behavior=behavior, sync_s=sync_s)

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        return self._controller.settle(
            combined([self._proposal(each, seen) for each in self._metrics], seen.replicas), seen.replicas
        )

    def _proposal(self, metric: Metric, seen: Seen) -> Floats:
        total = 1000.0 * getattr(seen, metric.signal)
        target = 1000.0 * np.asarray(metric.target)
        if metric.kind not in OF_PODS:
            return proposal_of_value(metric.kind, total, target, seen.replicas, seen.ready, self._tolerance)
        if metric.kind is MetricKind.UTILIZATION:
            raise ValueError("a simulated replica requests nothing: give the target as a value")
        is_known = ~np.isnan(total)
        pods = PodGroups(
            ready=seen.ready,
            reporting=np.where(is_known, seen.ready, 0.0),
            missing=np.maximum(seen.replicas - seen.ready, 0.0),
            unready=0.0,
            total_milli=known(total),
        )
        return proposal_of_pods(metric.kind, pods, target, seen.replicas, self._tolerance)
