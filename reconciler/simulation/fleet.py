"""A fleet in closed loop: autoscalers see what their replicas make of the load, for many settings at once.

Requests are a fluid, as in `fluid`. A column is a variant, those of a model side by side: its router gives each as much
as it carries. Everything is summed by blocks of time (days), so that intervals can be given of what differs by day.
"""

import math
from collections.abc import Callable

import numpy as np

from reconciler.domain.observed import Load
from reconciler.domain.records import dataclass
from reconciler.domain.snapshot import Option
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.draws import Arrivals
from reconciler.simulation.fluid import Batching

LEAST_LEFT = 0.02
"""Of a replica's time: a law that leaves less of it has no batch of its own, and the largest one counts."""


def batch_of(option: Option | None, load: Load | None, capacity_per_s: float) -> tuple[float, ...]:
    """`in_batches`, `batch_share`, `full` and `prompt_share` (see `Fleet`) of a replica that carries its capacity.

    By Little's law of its profile, at a rate r, n = r (alone + each n) requests run. What is not known is as `Fleet`
    has it.
    """
    if option is None or load is None or not load.has_lengths:
        return math.inf, math.nan, math.nan, 1.0
    profile, prompt = option.profile, load.input_tokens or 0.0
    steps = load.output_tokens / profile.tokens_per_step
    alone_s = (profile.gamma_s or 0.0) + steps * profile.alpha_s
    each_s = ((profile.delta_s or 0.0) + (profile.prompt_s or 0.0)) * prompt + steps * profile.beta_s
    most = float(profile.max_batch_size)
    batch = min(capacity_per_s * alone_s / max(1.0 - capacity_per_s * each_s, LEAST_LEFT), most)
    share = each_s * batch / (alone_s + each_s * batch)
    return batch, share, most / batch, prompt / (prompt + load.output_tokens)


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
    arrivals: Arrivals | None = None
    """What came in each step of what is offered in the mean; None: just that, of one length."""

    def batching(self, true_share: Floats | float = 1.0) -> Batching:
        """What replicas make of their load, by variant."""
        carried = np.asarray(self.capacity_per_s * true_share, dtype=np.float64)
        told = (self.in_batches, self.batch_share, self.full)
        requests, share, full = (np.broadcast_to(np.asarray(each, dtype=np.float64), carried.shape) for each in told)
        return Batching(carried, requests, share, full, self.step_s)


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
    """Run a fleet from `replicas` (settings x variants); `block_of` (steps,) is -1 where nothing counts yet.

    What happens to few variants in a step (replicas that come and go, queues) is computed for those alone.
    """
    settings, variants = replicas.shape
    models, steps = fleet.offered_per_s.shape
    model_of = fleet.model_of
    came = fleet.arrivals or Arrivals(per_s=fleet.offered_per_s, work_per_s=fleet.offered_per_s)
    offered, work = came.per_s, came.work_per_s
    ledger = _Counts(fleet, offered, settings, block_of)
    first = np.searchsorted(model_of, np.arange(models))
    is_single = variants == models
    believed, batching = fleet.capacity_per_s, fleet.batching(fleet.true_share)
    counts, everything = _Replicas(fleet, replicas), np.ones(())
    come_each = fleet.step_s / batching.requests

    def at(values: Floats, step: int) -> Floats:
        return values[:, step] if is_single else values[model_of, step]

    def by_model(values: Floats) -> Floats:
        return values if is_single else np.add.reduceat(values, first, axis=1)

    def by_variant(values: Floats) -> Floats:
        return values if is_single else values[:, model_of]

    def shares() -> Floats:
        """What of its model's requests goes to each variant: as much as its replicas carry of all."""
        if is_single:
            return everything if counts.all_serve else (counts.ready > 0).astype(np.float64)
        carried = counts.ready * batching.capacity_per_s
        whole = by_variant(by_model(carried))
        return np.divide(carried, whole, out=np.zeros_like(whole), where=whole > 0)

    share = shares()
    inside = (
        batching.settled(counts.each(fleet.offered_per_s[model_of, 0] * share / batching.capacity_per_s)) * counts.ready
    )
    running, nothing, none_queued = inside, np.zeros((settings, models)), np.zeros(replicas.shape)
    waiting = nothing
    for step in range(steps):
        arrived = at(offered, max(step - 1, 0)) / believed
        queued = none_queued if waiting is nothing else by_variant(waiting) * share
        wanted = scaler.decide(
            Seen(
                at_s=fleet.start_s + step * fleet.step_s,
                replicas=counts.asked,
                ready=counts.ready,
                load=arrived if is_single else arrived * np.where(by_variant(by_model(share)) > 0, share, 1.0),
                running=running,
                waiting=queued,
                in_flight=running if waiting is nothing else running + queued / batching.requests,
                answers=fleet.silent is None or not fleet.silent[step],
            )
        )
        # who goes finishes what it has, and that does not slow down the others
        begun, served = inside, counts.ready
        stay = counts.change(wanted, step)
        inside = begun * stay
        share = shares()
        held = inside if waiting is nothing else inside + by_variant(waiting) * share / batching.requests
        ready, unserved = counts.ready, None
        lived = batching.after(counts.each(held), counts.each(at(work, step) * come_each * share), ready)
        running = lived.running * ready
        if not counts.all_serve:
            unserved = np.where(by_model(share) > 0, 0.0, waiting + work[:, step] * fleet.step_s)
        if lived.left is None:
            inside, waiting = lived.held * ready, nothing
        else:
            batch = np.minimum(lived.held, batching.full)
            inside, waiting = batch * ready, by_model((lived.held - batch) * ready * batching.requests)
            leaving = by_model(lived.left * ready * batching.requests)
            unserved = leaving if unserved is None else unserved + leaving
        if block_of[step] >= 0:
            spared = 0.0 if isinstance(stay, float) else batching.spared(begun, served, stay, ready)
            kept = by_model(batching.kept(lived, spared) * share) * offered[:, step]
            ledger.add(int(block_of[step]), kept, unserved, counts.asked, by_model(counts.more), by_model(counts.moved))
    return ledger.total(by_model)


class _Replicas:
    """The replicas of each setting and variant (settings x variants): `asked` for, `ready`, and those that start.

    Of the last change, `more` are those that were added and `moved` is 1 where a number changed. `all_serve` where each
    variant has a replica that does.
    """

    def __init__(self, fleet: Fleet, replicas: Floats) -> None:
        self._start_steps, self._lost_share = fleet.start_steps, fleet.lost_share
        self._size = int(fleet.start_steps.max(initial=0)) + 1
        self._starting = np.zeros((self._size, replicas.size))
        self._is_due = np.zeros(self._size, dtype=np.bool_)
        self.asked = self.ready = np.array(replicas, dtype=np.float64, order="C")
        self.all_serve = bool((self.ready > 0).all())
        self._none = self.more = self.moved = np.zeros(replicas.shape)

    def each(self, whole: Floats) -> Floats:
        """What of it there is for each replica that serves; 0 where none does."""
        if self.all_serve:
            return np.asarray(whole / self.ready)
        return np.divide(whole, self.ready, out=np.zeros(self.ready.shape), where=self.ready > 0)

    def change(self, wanted: Floats, step: int) -> Floats | float:
        """Ask for other numbers; the part of the replicas that served and still do, before others begin to."""
        before, served, self.more, self.moved = self.ready, self.all_serve, self._none, self._none
        if self._lost_share is not None:
            lost = np.ceil(self.ready * self._lost_share[:, step])
            if lost.any():
                self.ready = self.ready - lost
                cells = np.flatnonzero(lost)
                self._start(lost.ravel()[cells], cells, step)
        change = wanted - self.asked
        moved = change != 0
        cells = np.flatnonzero(moved)
        if cells.size:
            self.moved, self.more = moved.astype(np.float64), np.maximum(change, 0.0)
            changes = change.ravel()[cells]
            shrinks, grows = changes < 0, changes > 0
            if shrinks.any():
                self._remove(-changes[shrinks], cells[shrinks], step)
            if grows.any():
                self._start(changes[grows], cells[grows], step)
            whole = wanted if wanted.shape == change.shape else np.broadcast_to(wanted, change.shape)
            self.asked = np.ascontiguousarray(whole, dtype=np.float64)
        if self.ready is before:
            stay: Floats | float = 1.0
        elif served:
            stay = self.ready / before
        else:
            stay = np.divide(self.ready, before, out=np.ones(before.shape), where=before > 0)
        if self._is_due[step % self._size]:
            due = self._starting[step % self._size]
            self.ready = self.ready + due.reshape(before.shape)
            due[:], self._is_due[step % self._size] = 0.0, False
        if self.ready is not before:
            self.all_serve = bool((self.ready > 0).all())
        return stay

    def _start(self, more: Floats, cells: Integers, step: int) -> None:
        """Add replicas in some cells (settings x variants, counted one row after the other)."""
        slots = (step + self._start_steps[cells % len(self._start_steps), step]) % self._size
        self._starting[slots, cells] += more
        self._is_due[slots] = True

    def _remove(self, fewer: Floats, cells: Integers, step: int) -> None:
        """Take replicas of some cells away, those first that would serve last."""
        ready = self.ready.copy()
        serve = ready.ravel()
        cancelled = np.minimum(fewer, self.asked.ravel()[cells] - serve[cells])
        serve[cells] -= fewer - cancelled
        self.ready = ready
        some = np.flatnonzero(cancelled)
        if some.size:
            latest_first = (step + np.arange(self._size - 1, -1, -1)) % self._size
            place = latest_first[:, None], cells[some]
            ordered = self._starting[place]
            before = np.cumsum(ordered, axis=0) - ordered
            self._starting[place] = ordered - np.clip(cancelled[some] - before, 0.0, ordered)


class _Counts:
    """A ledger while it is filled."""

    def __init__(self, fleet: Fleet, came_per_s: Floats, settings: int, block_of: Integers) -> None:
        self._fleet, self._hours = fleet, fleet.step_s / 3600.0
        blocks = int(block_of.max(initial=-1)) + 1
        models, variants = len(fleet.offered_per_s), len(fleet.model_of)
        self._offered = np.stack(
            [came_per_s[:, block_of == block].sum(axis=1) for block in range(blocks)] or [np.empty(models)],
            axis=-1,
        )[..., :blocks]
        self._asked = np.zeros((blocks, settings, variants))
        self._kept, self._unserved, self._starts, self._changes = (
            np.zeros((blocks, settings, models)) for _ in range(4)
        )

    def add(
        self, block: int, kept_per_s: Floats, unserved: Floats | None, asked: Floats, starts: Floats, changes: Floats
    ) -> None:
        """Count a step."""
        self._kept[block] += kept_per_s
        self._asked[block] += asked
        self._starts[block] += starts
        self._changes[block] += changes
        if unserved is not None:
            self._unserved[block] += unserved

    def total(self, by_model: Callable[[Floats], Floats]) -> Ledger:
        """All that was counted."""
        step_s = self._fleet.step_s

        def last(values: Floats) -> Floats:
            return np.ascontiguousarray(np.moveaxis(values, 0, -1))

        cost = [by_model(each * self._fleet.weight) * self._hours for each in self._asked]
        return Ledger(
            offered=np.repeat(self._offered[None] * step_s, self._kept.shape[1], axis=0),
            kept=last(self._kept) * step_s,
            unserved=last(self._unserved),
            cost=last(np.stack(cost)) if cost else np.zeros((self._kept.shape[1], len(self._offered), 0)),
            starts=last(self._starts),
            changes=last(self._changes),
        )
