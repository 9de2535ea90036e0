"""What every autoscaler of a simulated fleet is asked, at one moment for many settings and variants at once."""

from dataclasses import field
from typing import Protocol

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.forecast.series import Bools, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an autoscaler can see when it syncs, arrays that broadcast to (settings x variants).

    `replicas` are those that its scale target asks for, of which `ready` serve. `load` arrived in the mean of the last
    step and `running` is in batches, both in units of what a replica carries inside its targets; `waiting` are requests
    in queues. `in_flight` are those running and waiting, in units of what runs when a replica carries that. NaN is a
    signal without series; without `answers` Prometheus does not answer at all (an array where that differs by row).
    """

    at_s: float
    replicas: Floats
    ready: Floats
    load: Floats
    running: Floats
    waiting: Floats
    in_flight: Floats = field(default_factory=lambda: np.asarray(np.nan))
    answers: Bools | bool = True


class Autoscaler(Protocol):
    """A controller with its memory; settings broadcast to (settings x variants), so a sweep is one call."""

    @property
    def reproduces(self) -> str:
        """Which program, in which version."""
        ...

    def decide(self, seen: Seen) -> Floats:
        """How many replicas the scale target asks for from now on (settings x variants); called once each sync."""
        ...


def per_replica(total: Floats, ready: Floats) -> Floats:
    """A total of each variant, for each replica that serves; 0 where none does."""
    shape = np.broadcast_shapes(np.shape(total), np.shape(ready))
    return known(np.divide(total, ready, out=np.zeros(shape), where=np.asarray(ready) > 0))


def known(values: Floats) -> Floats:
    """The same with 0 for what is not known."""
    unknown = np.isnan(values)
    return np.where(unknown, 0.0, values) if unknown.any() else values
