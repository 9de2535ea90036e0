"""A fleet in closed loop: autoscalers see what their replicas make of the load, for many settings at once.

Requests are a fluid, as in `fluid`. A column is a variant, those of a model side by side: its router gives each as much
as it carries. Everything is summed by blocks of time (days), so that intervals can be given of what differs by day.
"""

import math

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.fluid import Batching


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is simulated, from `start_s` (Unix seconds) in steps of `step_s`.

    `offered_per_s` (models x steps) arrives. Variants are columns: `model_of` (ascending) is the row of each one's
    load, a replica is believed to carry `capacity_per_s` and costs `weight` an hour. `start_steps` (variants x steps)
    is how long a replica that starts then takes to serve.

    Faults: a replica carries `true_share` of what is believed; in steps of `silent` Prometheus does not answer;
    `lost_share` (variants x steps) of the replicas that serve end at that step and start again.
    """

    start_s: float
    step_s: float
    offered_per_s: Floats
    model_of: Integers
    capacity_per_s: Floats
    weight: Floats
    start_steps: Integers
    true_share: Floats | float = 1.0
    silent: Bools | None = None
    lost_share: Floats | None = None
    in_batches: Floats | float = math.inf
    """Requests that a replica has in its batch when it carries its capacity; infinite is not known."""
    batch_share: Floats | float = math.nan
    """Of the time that a request stays there then, what grows with the batch; NaN is not known."""
    full: Floats | float = math.nan
    """The largest batch, in units of that one; NaN is not known."""
    prompt_share: Floats | float = 1.0
    """Of a request's tokens, those of its prompt: while it runs it holds that and half of the rest in the mean."""
    is_counted: bool = False
    """Whether so much arrived in each step; else it is the mean of a longer time, in which arrivals are random."""

    def batching(self, true_share: Floats | float = 1.0) -> Batching:
        """What replicas make of their load, by variant."""
        carried = np.asarray(self.capacity_per_s * true_share, dtype=np.float64)
        told = (self.in_batches, self.batch_share, self.full)
        requests, share, full = (np.broadcast_to(np.asarray(each, dtype=np.float64), carried.shape) for each in told)
        return Batching(carried, requests, share, full, self.step_s, is_counted=self.is_counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What became of a fleet, by setting, model and block of time.

    `offered` and `kept` are requests, kept those inside their targets; `unserved` left
    without an answer. `cost` is what replicas cost, starting ones included; `starts` and `changes` count replicas that
    started and decisions that changed a number. All have the shape (settings x models x blocks).
    """

    offered: Floats
    kept: Floats
    unserved: Floats
    cost: Floats
    starts: Floats
    changes: Floats

    def attainment(self, models: Integers | slice = slice(None)) -> Floats:
        """The share of requests inside their targets, by setting and block, of all models or some."""
        offered, kept = self.offered[:, models].sum(axis=1), self.kept[:, models].sum(axis=1)
        return np.asarray(np.divide(kept, offered, out=np.ones(offered.shape), where=offered > 0))


class Planned:
    """Numbers that were known before: `replicas` (variants x steps, or settings x variants x steps)."""

    reproduces = "numbers that are written down"

    def __init__(self, replicas: Floats, start_s: float, step_s: float) -> None:
        self._replicas, self._start_s, self._step_s = replicas, start_s, step_s

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        return self.at(round((seen.at_s - self._start_s) / self._step_s))

    def at(self, step: int) -> Floats:
        """The numbers of a step."""
        return np.asarray(self._replicas[..., step])


def simulate(fleet: Fleet, scaler: Autoscaler, replicas: Floats, block_of: Integers) -> Ledger:
    """Run a fleet from `replicas` (settings x variants); `block_of` (steps,) is -1 where nothing counts yet."""
    settings, variants = replicas.shape
    models, steps = fleet.offered_per_s.shape
    blocks = int(block_of.max(initial=-1)) + 1
    ledger = _empty(settings, models, blocks)
    first = np.searchsorted(fleet.model_of, np.arange(models))
    is_single = variants == models
    columns, ring_size = np.arange(variants), int(fleet.start_steps.max(initial=0)) + 1
    starting = np.zeros((ring_size, settings, variants))
    asked, ready = replicas.astype(np.float64), replicas.astype(np.float64)
    believed, batching = fleet.capacity_per_s, fleet.batching(fleet.true_share)
    offered = fleet.offered_per_s

    def by_model(values: Floats) -> Floats:
        return values if is_single else np.add.reduceat(values, first, axis=1)

    def by_variant(values: Floats) -> Floats:
        return values if is_single else values[..., fleet.model_of]

    def shares(ready: Floats) -> tuple[Floats, Floats]:
        """What of its model's requests goes to each variant, and what its replicas carry."""
        carried = ready * batching.capacity_per_s
        if is_single:
            return (carried > 0).astype(np.float64), carried
        whole = by_variant(by_model(carried))
        return np.divide(carried, whole, out=np.zeros_like(whole), where=whole > 0), carried

    share, carried = shares(ready)
    load = np.divide(by_variant(offered[:, 0]) * share, carried, out=np.zeros(carried.shape), where=carried > 0)
    inside, waiting = batching.settled(load) * ready, np.zeros((settings, models))
    for step in range(steps):
        before, block = max(step - 1, 0), int(block_of[step])
        arriving = by_variant(offered[:, before])
        queued = by_variant(waiting) * share
        wanted = scaler.decide(
            Seen(
                at_s=fleet.start_s + step * fleet.step_s,
                replicas=asked,
                ready=ready,
                load=arriving * np.where(by_variant(by_model(carried)) > 0, share, 1.0) / believed,
                running=inside,
                waiting=queued,
                in_flight=inside + queued / batching.requests,
                answers=fleet.silent is None or not fleet.silent[step],
            )
        )
        more, fewer = np.maximum(wanted - asked, 0.0), np.maximum(asked - wanted, 0.0)
        served, lost = ready, np.zeros(())
        if fleet.lost_share is not None:
            lost = np.ceil(ready * fleet.lost_share[:, step])
            ready = ready - lost
        asked = np.broadcast_to(wanted, asked.shape)
        if fewer.any():
            ready = _remove(starting, ready, fewer, step)
        if ready is not served:  # who goes finishes what it has, and that does not slow down the others
            inside = inside * np.divide(ready, served, out=np.zeros_like(ready), where=served > 0)
        starting[(step + fleet.start_steps[:, step]) % ring_size, :, columns] += (more + lost).T
        due = starting[step % ring_size]
        ready = ready + due
        due[:] = 0.0

        load = offered[:, step]
        share, carried = shares(ready)
        is_served = ready > 0
        each = np.divide(
            inside + by_variant(waiting) * share / batching.requests, ready, out=np.zeros(ready.shape), where=is_served
        )
        pressure = np.divide(by_variant(load) * share, carried, out=np.zeros(ready.shape), where=is_served)
        held, left = batching.after(each, pressure)
        running = np.minimum(held, batching.full)
        inside = running * ready
        unserved = np.where(by_model(carried) > 0, 0.0, waiting + load * fleet.step_s)
        waiting = by_model((held - running) * ready * batching.requests)
        if block >= 0:
            ledger.offered[:, :, block] += load * fleet.step_s
            kept = by_model(batching.kept(held, ready) * share)
            ledger.kept[:, :, block] += kept * load * fleet.step_s
            ledger.unserved[:, :, block] += unserved + by_model(left * ready * batching.requests)
            ledger.cost[:, :, block] += by_model(asked * fleet.weight) * (fleet.step_s / 3600.0)
            ledger.starts[:, :, block] += by_model(more)
            ledger.changes[:, :, block] += by_model(((more > 0) | (fewer > 0)).astype(np.float64))
    return ledger


def _empty(settings: int, models: int, blocks: int) -> Ledger:
    """Nothing counted yet."""
    offered, kept, unserved, cost, starts, changes = (np.zeros((settings, models, blocks)) for _ in range(6))
    return Ledger(offered=offered, kept=kept, unserved=unserved, cost=cost, starts=starts, changes=changes)


def _remove(starting: Floats, ready: Floats, fewer: Floats, step: int) -> Floats:
    """Take replicas away, those first that would serve last; what of them served is returned as what is left."""
    under_way = starting.sum(axis=0)
    cancelled = np.minimum(fewer, under_way)
    if cancelled.any():
        size = len(starting)
        latest_first = (step + np.arange(size - 1, -1, -1)) % size
        ordered = starting[latest_first]
        before = np.cumsum(ordered, axis=0) - ordered
        starting[latest_first] = ordered - np.clip(cancelled - before, 0.0, ordered)
    return np.asarray(ready - (fewer - cancelled))
