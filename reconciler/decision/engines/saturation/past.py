"""What the replicas of a model worked on within `payback`, in the unit that saturation counts in."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.loads import PastArrivals
from reconciler.domain.measured.replicas import Role, Trace
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.metrics.quantities import Name
from reconciler.sizing.arrays import Bools, Floats
from reconciler.sizing.saturation.thresholds import Thresholds

COARSE_S = 300.0
"""Histories of longer than an hour have steps of this, the others finer ones."""
MOST_PER_QUEUE = 2.0
"""What one replica's queue asks for at most, as now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFullness:
    """How full the replicas of some variants were: one history a pod and rank, all on one grid."""

    start_s: float
    step_s: float
    traces: tuple[Trace, ...]

    @property
    def is_known(self) -> Bools:
        """The moments of which any replica told anything."""
        usages = [_series(trace, Name.KV_CACHE_USAGE) for trace in self.traces]
        return np.asarray(np.isfinite(np.array(usages)).any(axis=0))

    def in_replicas(self, thresholds: Thresholds) -> Floats:
        """Replicas that were needed, NaN where nothing is known: the KV caches or the queues ask for more."""
        kv_full = thresholds.kv_cache_usage.value - thresholds.kv_spare.value
        waiting_full = thresholds.num_waiting.value - thresholds.waiting_spare.value
        if kv_full <= 0 or waiting_full <= 0:
            return np.full(len(self.is_known), math.inf)
        usages, queues = self._by_pod(Name.KV_CACHE_USAGE), self._by_pod(Name.NUM_WAITING)
        shares = np.minimum(queues / waiting_full, MOST_PER_QUEUE)
        return self._known(np.maximum((usages / kv_full).sum(axis=0), shares.sum(axis=0)))

    def in_tokens(self, kv_tokens: Mapping[str, float], roles: Mapping[ResourceKey, Role]) -> Floats:
        """Tokens in KV caches and queues, NaN where nothing is known; a pod of unknown size is like the others."""
        if not kv_tokens:
            return self._known(np.full(len(self.is_known), math.inf))
        typical = median(kv_tokens.values())
        total = np.zeros(len(self.is_known))
        for trace in self.traces:
            waiting, usage = _series(trace, Name.NUM_WAITING), _series(trace, Name.KV_CACHE_USAGE)
            length = _filled(_series(trace, Name.INPUT_TOKENS))
            if roles.get(trace.variant) is not Role.PREFILL:
                length = length + _filled(_series(trace, Name.OUTPUT_TOKENS))
            total += np.nan_to_num(usage) * kv_tokens.get(trace.pod, typical) + np.nan_to_num(waiting) * length
        return self._known(total)

    def _by_pod(self, name: Name) -> Floats:
        """The mean over the ranks of each pod, 0 where nothing is known of it."""
        pods = [list(group) for _, group in groupby(self.traces, key=lambda trace: (trace.variant, trace.pod))]
        rows = [np.nan_to_num(np.array([_series(trace, name) for trace in own])).mean(axis=0) for own in pods]
        return np.array(rows)

    def _known(self, values: Floats) -> Floats:
        return np.where(self.is_known, values, math.nan)


def past_fullness(snapshot: Snapshot, members: Iterable[Variant], payback_s: float) -> PastFullness | None:
    """The histories that reach back over `payback_s`, the finest of them; None where nobody told any."""
    told = [
        trace
        for member in members
        for trace in snapshot.observed.traces.get(member.key, ())
        if Name.KV_CACHE_USAGE in trace.series
    ]
    grids: dict[tuple[float, float, int], list[Trace]] = {}
    for trace in told:
        grids.setdefault((trace.step_s, trace.start_s, len(trace.series[Name.KV_CACHE_USAGE])), []).append(trace)
    first_s = snapshot.now_s - payback_s
    reaching = [grid for grid in sorted(grids) if grid[1] - first_s <= max(grid[0], _window_s(grid[0]))]
    if not grids:
        return None
    step_s, start_s, _ = chosen = reaching[0] if reaching else min(grids, key=lambda grid: grid[1])
    traces = sorted(grids[chosen], key=lambda trace: (trace.variant, trace.pod, trace.instance))
    return PastFullness(start_s=start_s, step_s=step_s, traces=tuple(traces))


def as_arrivals(values: Sequence[float] | Floats, fullness: PastFullness) -> PastArrivals:
    """A past in any unit, of which the same is asked as of arrivals."""
    return PastArrivals(
        start_s=fullness.start_s,
        step_s=fullness.step_s,
        window_s=_window_s(fullness.step_s),
        rates_per_s=tuple(float(value) for value in values),
    )


def _window_s(step_s: float) -> float:
    """Of what time a moment speaks: fullness is the largest of a minute, or of a step where that is longer."""
    return max(step_s, 60.0)


def _series(trace: Trace, name: Name) -> Floats:
    count = len(trace.series[Name.KV_CACHE_USAGE])
    return np.array(trace.series.get(name, (math.nan,) * count), dtype=np.float64)


def _filled(lengths: Floats) -> Floats:
    """Gaps take the value before them, those at the start the first that is known; 0 where none is."""
    (known,) = np.nonzero(np.isfinite(lengths))
    if not known.size:
        return np.zeros(len(lengths))
    before = np.searchsorted(known, np.arange(len(lengths)), side="right") - 1
    return np.asarray(lengths[known[np.maximum(before, 0)]])
