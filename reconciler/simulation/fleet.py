"""A fleet in closed loop: autoscalers see what their replicas make of the load, for many settings at once.

Requests are a fluid, as in `fluid`. A column is a variant, those of a model side by side: its router gives each as much
as it carries. Everything is summed by blocks of time (days), so that intervals can be given of what differs by day.
"""

import math

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.fluid import FULL_BATCH, LEAVES_S, LONGEST_WAIT_S, NONE_KEPT


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
    """Requests that a replica has in its batches when it carries its capacity: what waiting ones are counted by."""
    batch_share: Floats | float = 0.0
    """Of the time between tokens at capacity, what grows with the batch: β·n / (α + β·n) of the profile.

    Requests stay as long as their tokens take, so batches grow faster than the load: n = ρ·(1 - b) / (1 - ρ·b) of what
    they hold at capacity, at a load of ρ of it (Little's law).
    """
    prompt_share: Floats | float = 1.0
    """Of a request's tokens, those of its prompt: while it runs it holds that and half of the rest in the mean."""


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
    waiting = np.zeros((settings, models))
    believed, true_capacity = fleet.capacity_per_s, fleet.capacity_per_s * fleet.true_share
    offered = fleet.offered_per_s

    def by_model(values: Floats) -> Floats:
        return values if is_single else np.add.reduceat(values, first, axis=1)

    for step in range(steps):
        before, block = max(step - 1, 0), int(block_of[step])
        carried = ready * true_capacity
        whole = carried if is_single else by_model(carried)[:, fleet.model_of]
        share = np.divide(carried, whole, out=np.zeros_like(whole), where=whole > 0)
        arriving = offered[fleet.model_of, before]
        queued = waiting[:, fleet.model_of] * share
        pressed = np.minimum(arriving * share + queued / fleet.step_s, FULL_BATCH * carried) / believed
        in_batches = requests_in_batches(pressed, ready, fleet.batch_share)
        wanted = scaler.decide(
            Seen(
                at_s=fleet.start_s + step * fleet.step_s,
                replicas=asked,
                ready=ready,
                load=arriving * np.where(whole > 0, share, 1.0) / believed,
                running=in_batches,
                waiting=queued,
                in_flight=in_batches + queued / fleet.in_batches,
                answers=fleet.silent is None or not fleet.silent[step],
            )
        )
        more, fewer = np.maximum(wanted - asked, 0.0), np.maximum(asked - wanted, 0.0)
        lost = np.zeros(()) if fleet.lost_share is None else np.ceil(ready * fleet.lost_share[:, step])
        ready = ready - lost
        asked = np.broadcast_to(wanted, asked.shape)
        if fewer.any():
            ready = _remove(starting, ready, fewer, step)
        starting[(step + fleet.start_steps[:, step]) % ring_size, :, columns] += (more + lost).T
        due = starting[step % ring_size]
        ready = ready + due
        due[:] = 0.0

        load = offered[:, step]
        held = by_model(ready * true_capacity)
        most = FULL_BATCH * held
        pressure = np.divide(load, held, out=np.full(held.shape, np.inf), where=held > 0)
        kept = np.clip((NONE_KEPT - pressure) / (NONE_KEPT - 1.0), 0.0, 1.0)
        after = waiting + (load - most) * fleet.step_s
        late = waiting > LONGEST_WAIT_S * most
        waiting = np.maximum(np.minimum(after, LEAVES_S * most), 0.0)
        kept = np.where(late | (waiting > LONGEST_WAIT_S * most), 0.0, kept)
        if block >= 0:
            ledger.offered[:, :, block] += load * fleet.step_s
            ledger.kept[:, :, block] += kept * load * fleet.step_s
            ledger.unserved[:, :, block] += np.maximum(after - waiting, 0.0)
            ledger.cost[:, :, block] += by_model(asked * fleet.weight) * (fleet.step_s / 3600.0)
            ledger.starts[:, :, block] += by_model(more)
            ledger.changes[:, :, block] += by_model(((more > 0) | (fewer > 0)).astype(np.float64))
    return ledger


def requests_in_batches(load: Floats, ready: Floats, batch_share: Floats | float) -> Floats:
    """Requests in all batches of each variant, in units of what a replica holds at capacity, as `load` is."""
    each = np.divide(load, ready, out=np.zeros(np.broadcast_shapes(load.shape, ready.shape)), where=ready > 0)
    return np.asarray(load * (1.0 - batch_share) / np.maximum(1.0 - each * batch_share, 0.05))


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
