"""Models request by request: continuous batching on each replica, to see how far the fluid is from it.

`python -m tests.bench.requests [--hours 8] [--seeds 40]` shows five models under an HPA on arrivals and one on running
requests, means of many seeds: where an HPA cycles, a request more or less moves the cycle, and two seeds of the same
requests differ by a tenth. `--only running:0.6 --model 4` serves some alone; `--output` keeps each as JSON, beside what
it holds of others, and `--write` puts what the JSON file holds into the documentation.

Replicas take requests into their batch up to the largest one, a router gives each to the replica with the fewest, the
rest waits in one queue. With n in a batch a token takes alpha + beta n. Requests are drawn, and as many of them end in
each tick as lengths that are exponential ask for: what is left of one does not depend on what it got, so the number in
each batch is all there is to know.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.domain.scalers import MetricKind
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.draws import Arrivals, random_generator
from reconciler.simulation.fleet import Fleet, simulate
from reconciler.simulation.fluid import LEAVES_S, LONGEST_WAIT_S
from tests.bench import pages
from tests.bench.figures import KEPT, Figure, keep, kept_before
from tests.bench.table import table

TICK_S = 0.125
TARGETS = (("load", 0.8), ("load", 0.9), ("load", 1.0), ("running", 0.6), ("running", 0.8))
"""What the HPA reads, and its target of it in units of what a replica has at capacity."""
WARM_STEPS, STEP_S, START_STEPS, REPLICAS = 30, 60.0, 4, 8
TICKS, LEAVES_TICKS, LATE_TICKS = (round(each / TICK_S) for each in (STEP_S, LEAVES_S, LONGEST_WAIT_S))
ROOM = 8
"""Places for replicas beside those that are used."""
NEVER = 10**6
"""More than any batch has: nobody joins it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model on one variant. `tokens` is the mean of outputs, `itl_s` the target of the mean time between tokens."""

    alpha_s: float
    beta_s: float
    max_batch: int
    tokens: float
    itl_s: float

    @property
    def batch(self) -> float:
        """The batch at which the target is just kept."""
        return min((self.itl_s - self.alpha_s) / self.beta_s, float(self.max_batch))

    @property
    def capacity_per_s(self) -> float:
        """What a replica carries then, by Little's law."""
        return self.batch / (self.tokens * (self.alpha_s + self.beta_s * self.batch))

    @property
    def batch_share(self) -> float:
        """What of the time between tokens grows with the batch then."""
        grown_s = self.beta_s * self.batch
        return grown_s / (self.alpha_s + grown_s)


MODELS = tuple(
    Model(alpha_s=alpha_s, beta_s=beta_s, max_batch=most, tokens=tokens, itl_s=itl_s)
    for alpha_s, beta_s, most, tokens, itl_s in (
        (0.010, 0.0002, 128, 200.0, 0.020),
        (0.008, 0.0005, 64, 150.0, 0.025),
        (0.020, 0.0004, 96, 300.0, 0.050),
        (0.006, 0.0001, 128, 100.0, 0.014),
        (0.015, 0.0010, 64, 250.0, 0.050),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of the requests of each lane: the share inside targets, and what replicas cost in replica-hours.

    A request is inside where it waits no longer than `LONGEST_WAIT_S` and where in the step in which it begins tokens
    come, in the mean of the model, as the target asks: targets are of means.
    """

    attainment: Floats
    cost: Floats
    arrived_per_s: Floats
    """What was drawn (lanes x steps): the fluid gets the same."""
    running: Floats
    """In batches in the mean of each step, of replicas that take requests (lanes x steps)."""


class _Batches:
    """The batches and the queue of each lane: `counts` by place, of which `takes` are replicas that take requests."""

    def __init__(self, models: Sequence[Model], replicas: int, load: Floats) -> None:
        def each(name: str) -> Floats:
            return np.array([[float(getattr(model, name))] for model in models])

        self._alpha_s, self._beta_s, self._tokens = each("alpha_s"), each("beta_s"), each("tokens")
        self._most = each("max_batch").astype(np.int64)
        batch, share = each("batch"), each("batch_share")
        held = load[:, None] * (1.0 - share) / np.maximum(1.0 - load[:, None] * share, 1e-9) * batch
        self.counts = np.zeros((len(models), replicas), dtype=np.int64)
        self.counts[:] = np.minimum(np.rint(held), self._most)
        self.takes = np.ones(self.counts.shape, dtype=np.bool_)
        self.came, self._begun = (np.zeros(len(models), dtype=np.int64) for _ in range(2))
        self._came_at, self._tick = np.zeros((LEAVES_TICKS + 1, len(models)), dtype=np.int64), 0

    @property
    def waiting(self) -> Integers:
        """How many wait."""
        return np.asarray(self.came - self._begun)

    def open(self, more: Integers) -> None:
        """So many replicas begin to take requests."""
        spare = np.zeros((len(more), int(more.max(initial=0)) + ROOM), dtype=np.int64)
        self.counts = np.concatenate((self.counts, spare), axis=1)
        self.takes = np.concatenate((self.takes, spare > 0), axis=1)
        free = ~self.takes & (self.counts == 0)
        self.takes |= free & (np.cumsum(free, axis=1) <= more[:, None])
        used = np.flatnonzero((self.takes | (self.counts > 0)).any(axis=0))[-1] + 1
        self.counts, self.takes = self.counts[:, :used], self.takes[:, :used]

    def close(self, fewer: Integers) -> None:
        """So many replicas, the last ones, take no more requests and finish what they have."""
        behind = np.cumsum(self.takes[:, ::-1], axis=1)[:, ::-1]
        self.takes &= behind > fewer[:, None]

    def tick(self, offered_per_s: Floats, generator: np.random.Generator) -> tuple[Floats, Floats, Integers]:  # noqa: TID251 - a type
        """Requests end, come, leave the queue and begin: the time of all, their tokens, and how many are late."""
        per_s = self.counts / (self._tokens * (self._alpha_s + self._beta_s * self.counts))
        time_s, tokens = TICK_S * self.counts.sum(axis=1), TICK_S * (per_s * self._tokens).sum(axis=1)
        self.counts = self.counts - np.minimum(generator.poisson(per_s * TICK_S), self.counts)
        self.came = self.came + generator.poisson(offered_per_s * TICK_S)
        place = self._tick % len(self._came_at)
        gone = np.maximum(self._came_at[place] - self._begun, 0)
        self._begun = self._begun + gone
        joins = self.takes & (self.counts < self._most)
        begin = np.minimum(self.waiting, np.where(joins, self._most - self.counts, 0).sum(axis=1))
        late = np.clip(self._came_at[place - LATE_TICKS] - self._begun, 0, begin)
        self._join(joins, begin)
        self._begun = self._begun + begin
        self._came_at[place] = self.came
        self._tick += 1
        return time_s, tokens, gone + late

    def _join(self, joins: Bools, begin: Integers) -> None:
        """Give each request to the batch with the fewest, as if one after the other."""
        counts = np.where(joins, self.counts, NEVER)
        order = np.argsort(counts, axis=1, kind="stable")
        ordered = np.take_along_axis(counts, order, axis=1)
        held = np.cumsum(ordered, axis=1)
        places = np.arange(1, counts.shape[1] + 1)
        sharing = np.maximum((places * ordered - held <= begin[:, None]).sum(axis=1), 1)
        level, rest = np.divmod(begin + np.take_along_axis(held, sharing[:, None] - 1, axis=1)[:, 0], sharing)
        raised = np.where(places <= sharing[:, None], level[:, None] + (places <= rest[:, None]), ordered)
        np.put_along_axis(counts, order, raised, axis=1)
        self.counts = np.where(joins & (begin > 0)[:, None], counts, self.counts)


def answer_requests(
    models: Sequence[Model], offered_per_s: Floats, scaler: Autoscaler, seed: int, warm_steps: int = WARM_STEPS
) -> Answered:
    """Run a model in each lane (lanes x steps) from replicas that hold what the first load makes them.

    The first steps do not count.
    """
    generator, (lanes, steps) = random_generator(seed, "requests"), offered_per_s.shape
    capacity_per_s, batch, itl_s = (
        np.array([getattr(model, name) for model in models]) for name in ("capacity_per_s", "batch", "itl_s")
    )
    batches = _Batches(models, REPLICAS, offered_per_s[:, 0] / (REPLICAS * capacity_per_s))
    asked, starting = np.full(lanes, REPLICAS), np.zeros((START_STEPS, lanes), dtype=np.int64)
    arrived, running = np.zeros((2, lanes, steps))
    kept, cost = np.zeros((2, lanes))
    came_per_s, ran = offered_per_s[:, 0], batches.counts.sum(axis=1).astype(np.float64)
    for step in range(steps):
        seen = _seen(step, asked, batches, came_per_s / capacity_per_s, ran / batch, batch)
        wanted = np.broadcast_to(scaler.decide(seen), (1, lanes))[0].astype(np.int64)
        fewer = np.maximum(asked - wanted, 0)
        for slot in reversed(range(START_STEPS)):  # those first that would serve last
            cancelled = np.minimum(fewer, starting[slot])
            starting[slot] -= cancelled
            fewer -= cancelled
        batches.close(fewer)
        batches.open(starting[0])
        starting = np.concatenate((starting[1:], [np.maximum(wanted - asked, 0)]))
        asked = wanted
        before, totals = batches.came, np.zeros((4, lanes))
        for _ in range(TICKS):
            totals[3] += np.where(batches.takes, batches.counts, 0).sum(axis=1)
            totals[:3] += batches.tick(offered_per_s[:, step], generator)
        time_s, tokens, late, ran = *totals[:3], totals[3] / TICKS
        came = batches.came - before
        came_per_s = came / STEP_S
        arrived[:, step], running[:, step] = came_per_s, ran
        if step >= warm_steps:
            kept += np.where(time_s > itl_s * tokens, 0.0, np.maximum(came - late, 0.0))
            cost += asked * STEP_S / 3600.0
    whole = arrived[:, warm_steps:].sum(axis=1) * STEP_S
    return Answered(attainment=kept / whole, cost=cost, arrived_per_s=arrived, running=running)


def _seen(step: int, asked: Integers, batches: _Batches, load: Floats, running: Floats, batch: Floats) -> Seen:
    def one(values: Floats | Integers) -> Floats:
        return np.asarray(values, dtype=np.float64)[None]

    return Seen(
        at_s=step * STEP_S,
        replicas=one(asked),
        ready=one(batches.takes.sum(axis=1)),
        load=one(load),
        running=one(running),
        waiting=one(batches.waiting),
        in_flight=one(running + batches.waiting / batch),
    )


def serve_as_fluid(
    models: Sequence[Model], arrived_per_s: Floats, scaler: Autoscaler, seed: int, warm_steps: int = WARM_STEPS
) -> tuple[Floats, Floats]:
    """The costs and attainments of the same arrivals as a fluid, whose lengths are drawn apart."""
    lanes, steps = arrived_per_s.shape
    capacity_per_s, batch, share, most = (
        np.array([float(getattr(model, name)) for model in models])
        for name in ("capacity_per_s", "batch", "batch_share", "max_batch")
    )
    lengths = random_generator(seed, "lengths").standard_gamma(np.rint(arrived_per_s * STEP_S))
    fleet = Fleet(
        start_s=0.0,
        step_s=STEP_S,
        offered_per_s=arrived_per_s,
        model_of=np.arange(lanes),
        capacity_per_s=capacity_per_s,
        weight=np.ones(lanes),
        start_steps=np.full((lanes, steps), START_STEPS),
        in_batches=batch,
        batch_share=share,
        full=most / batch,
        arrivals=Arrivals(per_s=arrived_per_s, work_per_s=lengths / STEP_S),
    )
    block_of = np.where(np.arange(steps) >= warm_steps, 0, -1)
    ledger = simulate(fleet, scaler, np.full((1, lanes), float(REPLICAS)), block_of)
    return ledger.cost[0, :, 0], ledger.kept[0, :, 0] / ledger.offered[0, :, 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One model under an HPA by requests and as a fluid, means of all seeds.

    `cost` is the fluid's over the other, less 1; `more_kept` the difference in attainment. Beside each stands its
    standard error. `cost_spread` is how far costs of two seeds lie apart (the standard deviation over the mean).
    """

    model: int
    signal: str
    target: float
    cost: float
    cost_error: float
    cost_spread: float
    hours: float
    seeds: int
    kept: float
    more_kept: float
    kept_error: float


def compare(signal: str, target: float, hours: float, seeds: int, numbers: Sequence[int] = range(5)) -> list[Compared]:
    """Serve loads that double and halve, and wander more from model to model; each seed has another one."""
    lanes = [(number, seed) for number in numbers for seed in range(1, seeds + 1)]
    models = [MODELS[number] for number, _ in lanes]
    offered = np.array([_load(number, seed, round(hours * 3600.0 / STEP_S)) for number, seed in lanes])
    answered = answer_requests(models, offered, _hpa(signal, target), 1)
    fluid_cost, fluid_kept = serve_as_fluid(models, answered.arrived_per_s, _hpa(signal, target), 1)
    found = []
    for place, number in enumerate(numbers):
        own = slice(place * seeds, (place + 1) * seeds)
        cost, mean = answered.cost[own], float(answered.cost[own].mean())
        more, more_kept = (fluid_cost[own] - cost) / mean, fluid_kept[own] - answered.attainment[own]
        found.append(
            Compared(
                model=number,
                signal=signal,
                target=target,
                cost=float(more.mean()),
                cost_error=float(more.std() / np.sqrt(seeds)),
                cost_spread=float(cost.std() / mean),
                hours=hours,
                seeds=seeds,
                kept=float(answered.attainment[own].mean()),
                more_kept=float(more_kept.mean()),
                kept_error=float(more_kept.std() / np.sqrt(seeds)),
            )
        )
    return found


def _load(number: int, seed: int, steps: int) -> Floats:
    noise = random_generator(seed, "walk", number).normal(0.0, 0.02 + 0.01 * number, steps)
    walk = np.exp(np.cumsum(noise) * 0.6)
    wave = 1.0 + 0.5 * np.sin(np.arange(steps) * 2 * np.pi / 240.0)
    return np.asarray(6.0 * MODELS[number].capacity_per_s * wave * np.clip(walk / walk.mean(), 0.3, 3.0))


def _hpa(signal: str, target: float) -> HorizontalPodAutoscaler:
    kind = MetricKind.EXTERNAL_AVERAGE if signal == "load" else MetricKind.PODS
    return HorizontalPodAutoscaler(metrics=[Metric(signal=signal, kind=kind, target=target)], sync_s=STEP_S)


def measure(hours: float = 4.0, seeds: int = 10) -> Iterator[Figure]:
    """The largest differences of the means of five models, by target."""
    for signal, target in TARGETS:
        begun_s = time.process_time()
        rows = compare(signal, target, hours, seeds)
        yield Figure(
            part="backtest",
            name=f"five models by requests, HPA on {signal} at {target:g}",
            processor_s=time.process_time() - begun_s,
            more={
                "cost, %": 100 * max(abs(each.cost) for each in rows),
                "kept, points": 100 * max(abs(each.more_kept) for each in rows),
            },
        )


def kept(row: Compared, processor_s: float) -> Figure:
    """As the JSON file holds it; times 100, standard errors apart."""
    more = {
        "model": row.model,
        "target": row.target,
        "hours": row.hours,
        "seeds": row.seeds,
        "cost, %": 100 * row.cost,
        "error of cost": 100 * row.cost_error,
        "kept, points": 100 * row.more_kept,
        "error of kept": 100 * row.kept_error,
    }
    return Figure(part="requests", name=row.signal, processor_s=processor_s, more=more)


def _place(figure: Figure) -> tuple[str, float, float]:
    return figure.name, figure.more["target"], figure.more["model"]


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.requests", description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--only", choices=[f"{signal}:{target}" for signal, target in TARGETS], action="append")
    parser.add_argument("--model", type=int, choices=range(len(MODELS)), action="append")
    parser.add_argument("--output", type=Path, default=KEPT, help=f"the JSON file (default: {KEPT})")
    parser.add_argument("--write", action="store_true", help="write the figures into the documentation")
    given = parser.parse_args()
    names = ("model", "HPA on", "target", "cost, %", "+-", "two seeds, %", "kept", "kept, points", "+-")
    for signal, target in TARGETS:
        if given.only and f"{signal}:{target}" not in given.only:
            continue
        shown = []
        for number in given.model or range(len(MODELS)):
            begun_s = time.process_time()
            (row,) = compare(signal, target, given.hours, given.seeds, [number])
            figure = kept(row, time.process_time() - begun_s)
            before = [Figure.of(each) for each in kept_before(given.output).get("requests", {}).get("figures", ())]
            others = [each for each in before if _place(each) != _place(figure)]
            keep(given.output, "requests", sorted((*others, figure), key=_place))
            costs = (100 * row.cost, 100 * row.cost_error, 100 * row.cost_spread)
            shown.append((number, signal, target, *costs, row.kept, 100 * row.more_kept, 100 * row.kept_error))
        print(table(names, shown), flush=True)
    if given.write:
        pages.write(kept_before(given.output))


if __name__ == "__main__":
    main()
