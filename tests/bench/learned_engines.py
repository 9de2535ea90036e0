"""How much learned profiles ask of replicas: sixty simulated engines, what is sized over what they really carry.

`python -m tests.bench.learned_engines` prints a row an engine: the share of the capacity that its history reached, and
sized over true. Beyond what a profile is sure of, saturation answers: there the rate is the one that it is sure of.
"""

import argparse
import math
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconciler.decision.engines.queueing_capacities import Capacities, ReplicaCapacity, SizingRow
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ArrivalSource, Load, Trace
from reconciler.domain.profiles import PerformanceProfile, ServiceClass, SloTarget
from reconciler.sizing.learning import Unfit, fit_profile
from reconciler.sizing.learning_lines import EngineLimits, margin_of, samples_of
from tests.bench.table import table
from tests.histories import arrays
from tests.servers.roofline_engine import RooflineEngine, Series, Work

ENGINES = 60
HOURS, WINDOW_S, PERIOD_S = 10.0, 120.0, 18_000.0
REQUESTS = 12_000
BUSY = 0.4
VARIANT = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
# bytes a second, operations a second, bytes of memory
GPUS = {
    "L4": (0.3e12, 121e12, 24e9),
    "L40S": (0.864e12, 362e12, 48e9),
    "A100": (2.0e12, 312e12, 80e9),
    "H100": (3.35e12, 989e12, 80e9),
}
# bytes of weights, parameters of a token, bytes of a token in memory, share of experts, one in how many
MODELS = {
    "8B": (16e9, 8e9, 131072.0, 0.0, 1.0),
    "32B": (65e9, 32e9, 262144.0, 0.0, 1.0),
    "70B": (140e9, 70e9, 327680.0, 0.0, 1.0),
    "8x7B": (94e9, 12.9e9, 131072.0, 0.96, 4.0),
    "30B-A3B": (61e9, 3.3e9, 98304.0, 0.95, 16.0),
}
WORKS = {"short": (100, 60), "chat": (300, 200), "code": (1500, 150), "search": (4000, 300), "thought": (400, 1200)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An engine, its requests and targets, and by how much of its capacity its history swings."""

    name: str
    engine: RooflineEngine
    work: Work
    itl_s: float
    ttft_s: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A case with what it truly carries, and its history."""

    case: Case
    true_per_s: float
    series: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """What a profile says of a case: sized over true, and whether it says that it has not seen enough."""

    case: Case
    ratio: float
    words: str
    is_unsure: bool


def cases(count: int = ENGINES, seed: int = 0) -> list[Case]:
    """The same engines in every run: each third is in light load, each tenth is flat."""
    return [_case(number + 1000 * seed) for number in range(count)]


def _case(number: int) -> Case:
    draw = random.Random(number)  # noqa: S311 - the same engines in every run
    fits = [
        (model, gpu, tensor)
        for model, (weights, *_) in MODELS.items()
        for gpu, (*_, memory) in GPUS.items()
        for tensor in (1, 2, 4, 8)
        if weights < 0.75 * tensor * memory and (tensor == 1 or weights > 0.1 * tensor * memory)
    ]
    model, gpu, tensor = draw.choice(fits)
    weights, parameters, context, experts, each = MODELS[model]
    bandwidth, operations, memory = GPUS[gpu]
    drafted = 4 if number % 6 == 5 else 0
    engine = RooflineEngine(
        overhead_s=draw.uniform(0.002, 0.005) + 0.0005 * math.log2(tensor),
        weights_s=weights / (tensor * bandwidth * 0.8),
        context_s=context / (tensor * bandwidth * 0.8),
        token_s=2 * parameters / (tensor * operations * draw.uniform(0.4, 0.65)),
        is_sum=draw.random() < 0.5,
        token_budget=draw.choice([2048, 8192]),
        max_batch=draw.choice([64, 128, 256]),
        memory_tokens=(0.9 * memory * tensor - weights - 1e9) / context,
        experts=experts,
        experts_each=each,
        drafted=drafted,
        accepted=draw.uniform(1.8, 3.2) if drafted else 1.0,
    )
    kind = draw.choice(sorted(WORKS))
    inputs, outputs = WORKS[kind]
    hits = draw.choice([0.0, 0.0, 0.3, 0.5, 0.8])
    burst = 2.5 if number % 4 == 3 else 1.0
    work = Work(
        input_tokens=inputs, output_tokens=outputs, hits=hits, is_shared=number % 2 == 0, burst=burst, seed=number
    )
    busy_s, prompt_s = engine.step_s(32, 0, 32 * inputs), engine.step_s(1, inputs, inputs)
    most = draw.uniform(0.1, 0.35) if number % 3 == 1 else draw.uniform(0.4, 0.95)
    is_flat = number % 10 == 9
    words = (model, gpu, f"tp{tensor}", kind, "sum" if engine.is_sum else "hard", f"hit {hits:.0%}" if hits else "")
    more = (f"spec {engine.accepted:.1f}" if drafted else "", "bursty" if burst > 1 else "", "flat" if is_flat else "")
    return Case(
        name=" ".join(filter(None, (f"{number:02}", *words, *more))),
        engine=engine,
        work=work,
        itl_s=busy_s * draw.uniform(1.2, 3.0),
        ttft_s=draw.uniform(3, 6) * prompt_s + draw.uniform(0.1, 0.6),
        least=most * (0.9 if is_flat else 0.15),
        most=most,
    )


def played(case: Case) -> Played:
    """What the engine carries inside its targets, and hours of a load that swings below it."""
    engine, work = case.engine, case.work
    about_s = engine.step_s(1, 0, 0) + engine.token_s * (work.input_tokens + work.output_tokens)
    true_per_s = engine.largest_rate(
        work,
        itl_s=case.itl_s,
        ttft_s=case.ttft_s,
        about_per_s=8 / (about_s * (10 + work.output_tokens)),
        requests=REQUESTS,
    )

    def rate_per_s(time_s: float) -> float:
        swing = (1 - math.cos(2 * math.pi * time_s / PERIOD_S)) / 2
        return true_per_s * (case.least + (case.most - case.least) * swing)

    return Played(
        case=case, true_per_s=true_per_s, series=engine.play(work, rate_per_s, hours=HOURS, window_s=WINDOW_S)
    )


def sized(one: Played) -> Sized:
    """What a profile learned from the history says that the engine carries."""
    case = one.case
    trace = Trace(pod="llama-0", variant=VARIANT, start_s=0.0, step_s=WINDOW_S, series=arrays(one.series))
    engine = case.engine
    limits = EngineLimits(
        max_batch_size=engine.max_batch,
        token_budget=engine.token_budget,
        step_tokens=1 + engine.drafted if engine.drafted else None,
    )
    fit = fit_profile(samples_of([trace]), limits)
    if isinstance(fit, Unfit):
        return Sized(case=case, ratio=math.nan, words=fit.reason, is_unsure=True)
    capacity = capacity_of(fit.profile("H100", "2026-11-24", margin_of([trace], WINDOW_S)), case)
    return Sized(
        case=case,
        ratio=capacity.rate_per_s / one.true_per_s,
        words=capacity.words,
        is_unsure=capacity.is_bound_by_reach,
    )


def capacity_of(profile: PerformanceProfile, case: Case) -> ReplicaCapacity:
    """What a replica of the profile carries inside the case's targets."""
    key = VARIANT.on("H100")
    load = Load(
        arrival_rate_per_s=1.0,
        output_tokens=float(case.work.output_tokens),
        input_tokens=float(case.work.input_tokens),
        window_s=300.0,
        arrivals_from=ArrivalSource.REPLICAS,
        input_spread=case.work.spread,
    )
    limits = ServiceClass(
        name="chat", ttft=SloTarget(limit_s=case.ttft_s, percentile=95.0), itl=SloTarget(limit_s=case.itl_s)
    )
    return Capacities([SizingRow(key=key, profile=profile, load=load, service_class=limits)]).of[key]


def summary(rows: Sequence[Sized]) -> str:
    """How far sized is from true where a profile is sure, and how many are not."""
    kinds = {
        "sure": [row for row in rows if not row.is_unsure],
        "sure, 40 % of capacity seen": [row for row in rows if not row.is_unsure and row.case.most >= BUSY],
        "not sure: what it is sure of": [row for row in rows if row.is_unsure and not math.isnan(row.ratio)],
    }
    lines = [(name, len(found), *_statistics([row.ratio for row in found])) for name, found in kinds.items() if found]
    unlearned = sum(math.isnan(row.ratio) for row in rows)
    headings = ("", "engines", "median", "95 %", "largest", "above 1.05", "above 1.15")
    return f"{table(headings, lines)}\nnothing learned: {unlearned}"


def _statistics(ratios: Sequence[float]) -> tuple[float, float, float, int, int]:
    values = np.array(ratios)
    near, far = (int(np.count_nonzero(values > limit)) for limit in (1.05, 1.15))
    return float(np.median(values)), float(np.quantile(values, 0.95)), float(values.max()), near, far


def main() -> None:
    """Play and size all engines of a seed; it takes some minutes."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.learned_engines", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    with ProcessPoolExecutor(2) as pool:
        engines = list(pool.map(played, cases(seed=parser.parse_args().seed)))
    rows = [sized(one) for one in engines]
    lines = [
        (row.case.name, row.case.most, one.true_per_s, row.ratio, "not sure" if row.is_unsure else "sure")
        for row, one in zip(rows, engines, strict=True)
    ]
    print(table(("engine", "seen", "true req/s", "sized/true", ""), lines))
    print("\n" + summary(rows))


if __name__ == "__main__":
    main()
