"""Requests as a fluid: how many are served inside their targets, and by how many replicas, at once for many settings.

What replicas make of them in a closed loop comes from their profile: `Batching`. Without a loop, in steps of several
minutes, `serve` has a rule for all: a replica carries its capacity inside the targets; beyond, the share of requests
that keep them falls to none at `NONE_KEPT` times that, and what exceeds `FULL_BATCH` times it waits. After waiting
longer than `LONGEST_WAIT_S` none keeps its target; what would wait longer than `LEAVES_S` leaves.
"""

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.records import dataclass
from reconciler.forecast.series import Bools, Floats

FULL_BATCH, NONE_KEPT = 1.25, 1.15
LONGEST_WAIT_S, LEAVES_S = 1.0, 30.0
USUAL_TIME_S, USUAL_SHARE, USUAL_FULL = 10.0, 0.5, 5 / 3
"""Of a replica whose profile is not known (see `Batching`): with a full batch it carries `FULL_BATCH` times as much."""
LEAST_SHARE, LARGEST_SHARE = 0.02, 0.95
ALLOWED_DEVIATIONS = 2.326
"""Of a normal distribution 99 % lie below so many."""
MANY_OF, FEWEST_MANY = 0.25, 2.0
"""So many that go at once cost more than what may have to come back: few changes do so, and each moves much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """After how many steps a decision is what the cluster asks for, and after how many more a new replica serves."""

    sync: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of the requests of each model under each setting (settings x models).

    `replicas` is the mean number that is paid for, those that start among them; `requests` a second in the mean.
    """

    kept: Floats
    requests: Floats
    replicas: Floats

    @property
    def attainment(self) -> Floats:
        """The share of each setting's requests that keep their targets, over all models (settings,)."""
        every = self.requests.sum(axis=-1)
        kept = (self.kept * self.requests).sum(axis=-1)
        return np.asarray(np.divide(kept, every, out=np.ones(every.shape), where=every > 0))

    @property
    def cost(self) -> Floats:
        """The replicas of all models (settings,)."""
        return np.asarray(self.replicas.sum(axis=-1))


def serve(offered_per_s: Floats, replicas: Floats, capacity_per_s: Floats, delay: Delay, step_s: float) -> Served:
    """Serve a load by replicas that were decided.

    `offered_per_s` (models x steps) arrives, of `replicas` (settings x models x steps) each is decided at the beginning
    of its step, a replica of each model carries `capacity_per_s` (models,).
    """
    asked = _later(replicas, delay.sync)
    ready = asked
    for ago in range(1, delay.start + 1):  # what started meanwhile does not serve yet
        ready = np.minimum(ready, _later(asked, ago))
    carried = ready * capacity_per_s[:, np.newaxis]
    most = FULL_BATCH * carried
    load = np.divide(offered_per_s, carried, out=np.full(carried.shape, np.inf), where=carried > 0)
    kept = np.clip((NONE_KEPT - load) / (NONE_KEPT - 1.0), 0.0, 1.0)
    kept[:, offered_per_s <= 0] = 1.0
    waiting = np.zeros(carried.shape[:2])
    for step in range(offered_per_s.shape[1]):
        rest = np.minimum(waiting + (offered_per_s[:, step] - most[..., step]) * step_s, LEAVES_S * most[..., step])
        waits = waiting > LONGEST_WAIT_S * most[..., step]
        waiting = np.maximum(rest, 0.0)
        waits |= waiting > LONGEST_WAIT_S * most[..., step]
        kept[..., step][waits] = 0.0
    requests = offered_per_s.mean(axis=1)
    share = np.divide((kept * offered_per_s).mean(axis=2), requests, out=np.ones(kept.shape[:2]), where=requests > 0)
    return Served(kept=share, requests=np.broadcast_to(requests, share.shape), replicas=asked.mean(axis=2))


def _later(replicas: Floats, steps: int) -> Floats:
    """The same so many steps later; before the first one it was that already."""
    if not steps:
        return replicas
    first = np.repeat(replicas[..., :1], min(steps, replicas.shape[-1]), axis=-1)
    return np.asarray(np.concatenate((first, replicas[..., :-steps]), axis=-1))


def are_many(going: Floats, replicas: Floats) -> NDArray[np.bool_]:
    """Whether so many of some replicas are enough to go although some were added lately."""
    return np.asarray(going >= np.maximum(MANY_OF * replicas, FEWEST_MANY))


def follow(
    grow_per_s: Floats,
    keep_per_s: Floats,
    capacity_per_s: Floats,
    least: NDArray[np.float64] | float = 1.0,
    *,
    hold: int = 0,
) -> Floats:
    """Replicas decided one after the other (settings x models x decisions): as many as `grow_per_s` needs.

    Of those that are there only what `keep_per_s` does not need goes, both of shape (settings x models x decisions).
    For so many decisions after some were added as `hold` says only many go, by `are_many`.
    """
    capacity = capacity_per_s[:, np.newaxis]
    grow = np.maximum(np.ceil(grow_per_s / capacity - 1e-9), least)
    keep = np.maximum(np.ceil(keep_per_s / capacity - 1e-9), grow)
    decided = np.empty(grow.shape)
    held, held_until = keep[..., 0], np.zeros(grow.shape[:-1])
    for step in range(grow.shape[-1]):
        rest = np.minimum(held, keep[..., step])
        rest = np.where((step < held_until) & ~are_many(held - rest, held), held, rest)
        asked = np.maximum(grow[..., step], rest)
        held_until = np.where(asked > held, step + hold, held_until)
        decided[..., step] = held = asked
    return decided


class Batching:
    """What replicas make of requests in steps of `step_s`, by variant; what runs is in units of what does at capacity.

    At capacity `requests` run, each for `requests / capacity_per_s` seconds, of which the part `share` grows with the
    batch: with x of them running a replica answers x / (1 - share + share x) of its capacity (Little's law), and tokens
    are as far apart as targets allow at x = 1. Above `full` requests wait. Numbers that are not finite are not known,
    and usual ones stand for them.

    Targets are of means: a step keeps them where the mean of what runs is at most 1 (where only the largest batch
    bounds a replica, where nobody waits too long). Where only the mean of a load is known, that of what runs differs at
    random, by arrivals and by lengths. It is nearly normal: what runs beside the mean dies away in the time that the
    law gives, and is averaged over the step.
    """

    def __init__(
        self,
        capacity_per_s: Floats,
        requests: Floats,
        share: Floats,
        full: Floats,
        step_s: float,
    ) -> None:
        is_known = np.isfinite(requests) & (requests > 0)
        self.requests = np.where(is_known, requests, np.maximum(USUAL_TIME_S * capacity_per_s, 1.0))
        self.share = np.clip(np.where(is_known & np.isfinite(share), share, USUAL_SHARE), LEAST_SHARE, LARGEST_SHARE)
        self.full = np.maximum(np.where(is_known & np.isfinite(full), full, USUAL_FULL), 1.0)
        self.capacity_per_s = capacity_per_s
        time_s = self.requests / capacity_per_s
        self._pace = step_s / time_s
        self._most = self._pace * self.answered(self.full)
        self._longest = self.full + LEAVES_S / step_s * self._most
        self._limit = np.where(self.full > 1.0, 1.0, 1.0 + LONGEST_WAIT_S / step_s * self._most)
        self._own, self._rise = 1.0 - self.share + self._pace, 4.0 * self.share * (1.0 - self.share)
        self._half = 0.5 / self.share
        fades = time_s / (1.0 - self.share) / step_s
        noise = 2.0 * (1.0 + fades * np.expm1(-1.0 / fades))  # as much by arrivals as by lengths
        self._deviation = fades * np.sqrt(noise * self._pace / self.requests)

    def answered(self, running: Floats) -> Floats:
        """What a replica answers with so many running, over its capacity."""
        most = np.minimum(running, self.full)
        return np.asarray(most / (1.0 - self.share + self.share * most))

    def settled(self, load: Floats) -> Floats:
        """What runs in a replica of a load (1 is its capacity) that does not change, as far as its batch goes."""
        held = load * (1.0 - self.share) / np.maximum(1.0 - load * self.share, 1e-9)
        return np.asarray(np.minimum(held, self.full))

    def after(self, come: Floats) -> tuple[Floats, Floats | None]:
        """What runs and waits in a replica after a step of which `come` was there or came, and what left unanswered.

        An implicit step of Euler: right where nothing changes, however long the step is, and what is answered in its
        mean is what is answered at its end, so what runs at its end stands for the mean. None has left, and none waits,
        where no batch is full.
        """
        slope = self._own - self.share * come
        held = (np.sqrt(slope * slope + self._rise * come) - slope) * self._half
        over = held > self.full
        if not over.any():
            return held, None
        left = np.zeros(held.shape)
        rows, columns = np.nonzero(over)
        behind = come[rows, columns] - self._most[columns]
        held[rows, columns] = np.minimum(behind, self._longest[columns])
        left[rows, columns] = np.maximum(behind - self._longest[columns], 0.0)
        return held, left

    def kept(self, held: Floats) -> Bools:
        """Whether a step keeps its targets in which so much runs and waits in each replica."""
        return np.asarray(held <= self._limit + 1e-9)

    def allowed(self, replicas: Floats) -> Floats:
        """The load of each of so many replicas at which 99 of 100 steps keep their targets."""
        held = np.maximum(self._limit - ALLOWED_DEVIATIONS * self._deviation / np.sqrt(np.maximum(replicas, 1.0)), 0.1)
        return self.answered(held)
