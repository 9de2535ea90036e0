"""One model request by request: continuous batching on each replica, to see how far the fluid is from it.

`python -m tests.bench.requests [--hours 8]` shows five models under an HPA on arrivals and one on running requests.

Replicas take requests into their batch up to the largest one, a router gives each to the replica with the fewest, the
rest waits in one queue. With n in a batch a token takes alpha + beta n. Requests and their lengths are drawn.
"""

import argparse
import math
import time
from collections import deque
from collections.abc import Iterator

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import MetricKind
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.draws import Arrivals, random_generator
from reconciler.simulation.fleet import Fleet, simulate
from reconciler.simulation.fluid import LEAVES_S, LONGEST_WAIT_S
from tests.bench.figures import Figure
from tests.bench.table import table

TICK_S = 0.125
TARGETS = (("load", 0.8), ("load", 0.9), ("load", 1.0), ("running", 0.6), ("running", 0.8))
"""What the HPA reads, and its target of it in units of what a replica has at capacity."""
WARM_STEPS, STEP_S, START_STEPS = 30, 60.0, 4
PROFILES: tuple[tuple[float, float, int, float, float], ...] = (
    (0.010, 0.0002, 128, 200.0, 0.020),
    (0.008, 0.0005, 64, 150.0, 0.025),
    (0.020, 0.0004, 96, 300.0, 0.050),
    (0.006, 0.0001, 128, 100.0, 0.014),
    (0.015, 0.0010, 64, 250.0, 0.050),
)
"""alpha and beta (s), largest batch, output tokens and the target between tokens (s) of five models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneModel:
    """A model on one variant: what arrives in each step of `step_s` (steps,), and what replicas do with it.

    `tokens` is the mean of outputs, exponential. `itl_s` is the target of the mean time between tokens.
    """

    start_s: float
    step_s: float
    offered_per_s: Floats
    start_steps: Integers
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of the requests: the share inside targets, and what replicas cost in replica-hours.

    A request is inside where it waits no longer than `LONGEST_WAIT_S` and in the step in which it ends tokens come, in
    the mean of the model, as the target asks: targets are of means.
    """

    attainment: float
    cost: float
    requests: int
    arrived_per_s: Floats
    """What was drawn (steps,): the fluid gets the same."""


def answer_requests(model: OneModel, scaler: Autoscaler, replicas: int, seed: int, warm_steps: int = 0) -> Answered:
    """Run a model from so many replicas that hold what the first load makes them; the first steps do not count."""
    generator, steps = random_generator(seed, "requests"), len(model.offered_per_s)
    most = 2 * replicas + 64
    left, begun = (np.zeros((most, model.max_batch)) for _ in range(2))
    served, open_ = np.zeros(most, dtype=bool), np.zeros(most, dtype=bool)
    served[:replicas] = open_[:replicas] = True
    load = float(model.offered_per_s[0]) / (replicas * model.capacity_per_s)
    held = load * (1.0 - model.batch_share) / max(1.0 - load * model.batch_share, 1e-9) * model.batch
    held = min(round(held), model.max_batch)
    left[:replicas, :held] = generator.exponential(model.tokens, (replicas, held))
    starting: list[int] = []
    queue: deque[tuple[float, float]] = deque()
    asked, ticks = replicas, round(model.step_s / TICK_S)
    arrived, in_batches = float(model.offered_per_s[0]) * model.step_s, float(replicas * held)
    kept = total = cost = 0.0
    drawn = np.zeros(steps)
    for step in range(steps):
        wanted = int(np.max(scaler.decide(_seen(model, step, asked, open_, arrived, in_batches, len(queue)))))
        if wanted > asked:
            starting += [step + int(model.start_steps[step])] * (wanted - asked)
        else:
            for _ in range(asked - wanted):  # those first that would serve last
                if starting:
                    starting.remove(max(starting))
                else:
                    open_[np.flatnonzero(open_)[-1]] = False
        asked = wanted
        for _ in range(sum(each <= step for each in starting)):
            place = int(np.flatnonzero(~served & ~open_)[0])
            served[place] = open_[place] = True
        starting = [each for each in starting if each > step]
        arrived = busy = time_s = made = on_time = ended = 0.0
        for tick in range(ticks):
            now_s = (step * ticks + tick) * TICK_S
            active = left > 0
            counts = active.sum(axis=1)
            busy += counts[open_].sum()
            pace_s = model.alpha_s + model.beta_s * counts
            speed = TICK_S / pace_s
            time_s += TICK_S * counts.sum()
            made += float((speed * counts).sum())
            left[active] -= np.broadcast_to(speed[:, None], left.shape)[active]
            done = active & (left <= 0)
            if done.any():
                on_time += float((begun[done] <= LONGEST_WAIT_S).sum())
                ended += float(done.sum())
                left[done] = 0.0
            served &= open_ | (left > 0).any(axis=1)
            many = int(generator.poisson(model.offered_per_s[step] * TICK_S))
            arrived += many
            times_s = np.sort(now_s + TICK_S * generator.random(many)).tolist()
            queue.extend(zip(times_s, generator.exponential(model.tokens, many).tolist(), strict=True))
            while queue and now_s - queue[0][0] > LEAVES_S:
                queue.popleft()
                ended += 1
            counts = np.where(open_, (left > 0).sum(axis=1), model.max_batch)
            while queue:
                place = int(counts.argmin())
                if counts[place] >= model.max_batch:
                    break
                since_s, length = queue.popleft()
                slot = int((left[place] <= 0).argmax())
                # who found a place at once has run for the rest of the tick
                made_already = max(since_s - now_s, 0.0) and float(speed[place]) * (now_s + TICK_S - since_s) / TICK_S
                left[place, slot], begun[place, slot] = max(length - made_already, 1e-9), max(now_s - since_s, 0.0)
                counts[place] += 1
        in_batches, drawn[step] = busy / ticks, arrived / model.step_s
        if step >= warm_steps:
            is_slow = made > 0 and time_s / made > model.itl_s
            kept, total = kept + (0.0 if is_slow else on_time), total + ended
            cost += asked * model.step_s / 3600.0
    return Answered(attainment=kept / total if total else 1.0, cost=cost, requests=int(total), arrived_per_s=drawn)


def _seen(
    model: OneModel, step: int, asked: int, open_: Bools, arrived: float, in_batches: float, waiting: int
) -> Seen:
    def one(value: float) -> Floats:
        return np.array([[float(value)]])

    batch = model.batch
    return Seen(
        at_s=model.start_s + step * model.step_s,
        replicas=one(asked),
        ready=one(float(open_.sum())),
        load=one(arrived / model.step_s / model.capacity_per_s),
        running=one(in_batches / batch),
        waiting=one(waiting),
        in_flight=one((in_batches + waiting) / batch),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One model under an HPA by requests and as a fluid: `cost` is the fluid's over the other, less 1."""

    model: int
    signal: str
    target: float
    requests: int
    cost: float
    kept: float
    kept_as_fluid: float
    processor_s: float


def compare(number: int, signal: str, target: float, hours: float) -> Compared:
    """Serve a load that doubles and halves, and wanders more from model to model."""
    begun_s, steps = time.process_time(), round(hours * 3600.0 / STEP_S)
    alpha_s, beta_s, max_batch, tokens, itl_s = PROFILES[number]
    model = OneModel(
        start_s=0.0,
        step_s=STEP_S,
        offered_per_s=np.zeros(steps),
        start_steps=np.full(steps, START_STEPS),
        alpha_s=alpha_s,
        beta_s=beta_s,
        max_batch=max_batch,
        tokens=tokens,
        itl_s=itl_s,
    )
    noise = random_generator(1, "walk", number).normal(0.0, 0.02 + 0.01 * number, steps)
    walk = np.exp(np.cumsum(noise) * 0.6)
    wave = 1.0 + 0.5 * np.sin(np.arange(steps) * 2 * math.pi / 240.0)
    offered = 6.0 * model.capacity_per_s * wave * np.clip(walk / walk.mean(), 0.3, 3.0)
    answered = answer_requests(replace(model, offered_per_s=offered), _hpa(signal, target), 8, 1, WARM_STEPS)
    fluid = Fleet(
        start_s=0.0,
        step_s=STEP_S,
        offered_per_s=answered.arrived_per_s[None],
        model_of=np.zeros(1, dtype=np.int64),
        capacity_per_s=np.array([model.capacity_per_s]),
        weight=np.ones(1),
        start_steps=model.start_steps[None],
        in_batches=model.batch,
        batch_share=model.batch_share,
        full=model.max_batch / model.batch,
        arrivals=Arrivals(
            per_s=answered.arrived_per_s[None],
            work_per_s=random_generator(1, "lengths").standard_gamma(np.rint(answered.arrived_per_s[None] * STEP_S))
            / STEP_S,
        ),
    )
    ledger = simulate(
        fluid, _hpa(signal, target), np.full((1, 1), 8.0), np.where(np.arange(steps) >= WARM_STEPS, 0, -1)
    )
    return Compared(
        model=number,
        signal=signal,
        target=target,
        requests=answered.requests,
        cost=float(ledger.cost.sum()) / answered.cost - 1.0,
        kept=answered.attainment,
        kept_as_fluid=float(ledger.attainment()[0, 0]),
        processor_s=time.process_time() - begun_s,
    )


def _hpa(signal: str, target: float) -> HorizontalPodAutoscaler:
    kind = MetricKind.EXTERNAL_AVERAGE if signal == "load" else MetricKind.PODS
    metric = Metric(signal=signal, kind=kind, target=target)
    return HorizontalPodAutoscaler(metrics=[metric], sync_s=STEP_S)


def measure(hours: float = 4.0) -> Iterator[Figure]:
    """The largest differences of the five models, by target."""
    for signal, target in TARGETS:
        rows = [compare(number, signal, target, hours) for number in range(len(PROFILES))]
        yield Figure(
            part="backtest",
            name=f"five models by requests, HPA on {signal} at {target:g}",
            processor_s=sum(each.processor_s for each in rows),
            more={
                "cost, %": 100 * max(abs(each.cost) for each in rows),
                "kept, points": 100 * max(abs(each.kept_as_fluid - each.kept) for each in rows),
            },
        )


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.requests", description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    given = parser.parse_args()
    names = ("model", "HPA on", "target", "requests", "cost, %", "kept", "as fluid", "seconds")
    rows = [compare(number, *each, given.hours) for each in TARGETS for number in range(len(PROFILES))]
    shown = [
        (r.model, r.signal, r.target, r.requests, 100 * r.cost, r.kept, r.kept_as_fluid, r.processor_s) for r in rows
    ]
    print(table(names, shown))


if __name__ == "__main__":
    main()
