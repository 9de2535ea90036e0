"""Requests as a fluid: how many are served inside their targets, and by how many replicas, at once for many settings.

A replica carries its capacity inside the targets; beyond, the share of requests that keep them falls to none at
`NONE_KEPT` times that, and what exceeds `FULL_BATCH` times it waits. After waiting longer than `LONGEST_WAIT_S` none
keeps its target; what would wait longer than `LEAVES_S` leaves.
"""

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.records import dataclass
from reconciler.forecast.series import Floats

FULL_BATCH, NONE_KEPT = 1.25, 1.15
LONGEST_WAIT_S, LEAVES_S = 1.0, 30.0
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
