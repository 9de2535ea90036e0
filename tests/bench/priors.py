"""How far off priors are on measured points: `python -m tests.bench.priors [--fit] [--curves] [--verdict]`.

`--fit` prints what `reconciler/sizing/prior/estimate.py` keeps, from two thirds of the points. `--verdict` judges the
last third, which is chosen by a hash of its rows and which nothing was fitted to.
"""

import argparse
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from reconciler.domain.priors import BAND_COVERAGE, Band, Weights
from reconciler.sizing.prior.datasheets import DATASHEETS
from reconciler.sizing.prior.estimate import CALIBRATIONS, Hardware, find_gap, kind_of
from reconciler.sizing.prior.roofline import Efficiency, Replica, Terms, gap_s, largest_batch, prompt_s, terms
from reconciler.sizing.prior.shapes import find_shape
from tests.bench.table import table

MEASURED = Path(__file__).parents[1] / "testdata" / "prior" / "measured.csv"
FEWEST = 4
"""Points of another accelerator that a ratio is taken from."""
GUESS = np.log([0.75, 0.6, 0.5, 2e-5, 1e-3, 8e-6])
"""Of an efficiency, with a standard deviation of 1 in the logarithm: a few points alone do not decide."""
PRICES = (0.5, 0.7, 1.0, 1.4, 2.0)
"""Price of a device as a multiple of another's."""
Floats = NDArray[np.float64]
Group = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measured point; `engine` with its source: another day's engine is another engine."""

    replica: Replica
    hardware: Hardware
    engine: str
    batch: int
    input_tokens: int
    output_tokens: int
    itl_s: float
    request_s: float
    parts: Terms
    is_kept: bool

    @property
    def kind(self) -> str:
        return kind_of(self.replica.shape)

    @property
    def model(self) -> Group:
        shape = self.replica.shape
        return shape.layers, shape.hidden_size, shape.vocabulary, shape.weights

    @property
    def load(self) -> Group:
        return self.batch, self.input_tokens, self.output_tokens

    @property
    def served(self) -> Group:
        """What a ratio may be carried between."""
        return self.engine, *self.model


def read_points(path: Path = MEASURED) -> list[Point]:
    """Points that are covered, fit into memory and are slower than the data sheet: others are no measurements of it."""
    lines = path.read_text().splitlines()
    points = [_point(row, line) for row, line in zip(DictReader(lines), lines[1:], strict=True)]
    return [each for each in points if not find_flaw(each)]


def find_flaw(point: Point) -> str:
    """Why a point is left out; empty for one that is used."""
    if point.itl_s < max(float(point.parts.memory_s), float(point.parts.compute_s)):
        return "faster than the data sheet"
    tokens = point.input_tokens + point.output_tokens
    if largest_batch(point.replica, tokens, utilization=0.95, most=10**6) < point.batch:
        return "more requests than fit into memory"
    return find_gap(point.replica.shape, point.hardware)


def _point(row: Mapping[str, str], line: str) -> Point:
    shape = find_shape(row["model"])
    if shape is None:
        raise ValueError(f"no shape of {row['model']}")
    weights, devices = Weights(row["weights"]), int(row["tp"])
    sheet = DATASHEETS[row["accelerator"]]
    # TensorRT-LLM keeps keys and values in eight bits where the weights have eight or fewer.
    narrow = row["engine"] == "trtllm" and weights in (Weights.FP8, Weights.FP4)
    replica = Replica(
        shape=replace(shape, weights=weights), datasheet=sheet, devices=devices, kv_bytes=1.0 if narrow else 2.0
    )
    batch, prompt, output = (int(row[name]) for name in ("batch", "input", "output"))
    if row["itl_ms"]:
        itl_s = float(row["itl_ms"]) / 1000.0
        request_s = float(row["ttft_ms"]) / 1000.0 + itl_s * output
    else:  # a static batch: the whole time for each token of output, prompts included
        request_s = float(row["latency_s"])
        itl_s = request_s / output
    return Point(
        replica=replica,
        hardware=Hardware(name=sheet.device, datasheet=sheet, devices=devices),
        engine=f"{row['source']} {row['engine']}",
        batch=batch,
        input_tokens=prompt,
        output_tokens=output,
        itl_s=itl_s,
        request_s=request_s,
        parts=terms(replica, batch, prompt, output),
        is_kept=is_kept(line),
    )


def is_kept(line: str) -> bool:
    """Whether a row is of the third that nothing is fitted to."""
    return int(hashlib.sha256(line.encode()).hexdigest(), 16) % 3 == 0


def errors(points: Sequence[Point], efficiency: Efficiency) -> Floats:
    """Logarithms of expected over measured gaps between tokens."""
    stacked = _stack(points)
    return np.asarray(np.log(gap_s(stacked[0], efficiency, *stacked[1:4]) / stacked[4]))


def request_errors(points: Sequence[Point], efficiency: Efficiency) -> Floats:
    """Logarithms of expected over measured times of a request: of throughputs at a concurrency, with the other sign."""
    parts, batch, prompt, output, _ = _stack(points)
    expected = gap_s(parts, efficiency, batch, prompt, output) * output + prompt_s(parts, efficiency) * prompt
    return np.asarray(np.log(expected / np.array([each.request_s for each in points])))


def _stack(points: Sequence[Point]) -> tuple[Terms, Floats, Floats, Floats, Floats]:
    parts = Terms(*(np.array([float(each.parts[index]) for each in points]) for index in range(len(Terms._fields))))
    columns = ((each.batch, each.input_tokens, each.output_tokens, each.itl_s) for each in points)
    batch, prompt, output, itl_s = np.array(list(columns), dtype=np.float64).T
    return parts, batch, prompt, output, itl_s


def fit(points: Sequence[Point]) -> Efficiency:
    """The efficiency that fits best: points of one curve together count as the square root of their number."""
    parts, batch, prompt, output, itl_s = _stack(points)
    curves = [(each.served, each.hardware.name, each.hardware.devices) for each in points]
    numbers = {curve: curves.count(curve) for curve in set(curves)}
    weight = np.array([numbers[curve] ** -0.5 for curve in curves])
    weight /= weight.mean()

    def residuals(logarithms: Floats) -> Floats:
        efficiency = Efficiency(*np.exp(logarithms))
        wrong = np.log(gap_s(parts, efficiency, batch, prompt, output) / itl_s)
        return np.concatenate([weight * wrong, logarithms - GUESS])

    return Efficiency(*map(float, np.exp(least_squares(residuals, GUESS, loss="soft_l1", f_scale=0.2).x)))


def calibrate(points: Sequence[Point]) -> tuple[float, float]:
    """Standard deviations `alone` and `carried`: of normal bands that hold 90 % of what was left out."""
    alone, carried = [], []
    for name in sorted({each.hardware.name for each in points}):
        others = [each for each in points if each.hardware.name != name]
        left_out = [each for each in points if each.hardware.name == name]
        efficiency = fit(others)
        alone += list(errors(left_out, efficiency))
        carried += list(carry(left_out, others, efficiency).values())
    for model in sorted({each.model for each in points}):
        efficiency = fit([each for each in points if each.model != model])
        alone += list(errors([each for each in points if each.model == model], efficiency))
    return _deviation(alone), _deviation(carried)


def _deviation(wrong: Iterable[float]) -> float:
    within = float(np.quantile(np.abs(list(wrong)), BAND_COVERAGE))
    return within / math.log(Band(median=1.0, deviation=1.0).high)


def carry(
    points: Sequence[Point], known: Sequence[Point], efficiency: Efficiency, *, of_requests: bool = False
) -> dict[int, float]:
    """By index of a point, the error that is left with the ratio of its model on the nearest other accelerator."""
    ratios: dict[tuple[Group, Hardware], list[float]] = defaultdict(list)
    for each, wrong in zip(known, errors(known, efficiency), strict=True):
        ratios[each.served, each.hardware].append(float(wrong))
    measure = request_errors if of_requests else errors
    left = {}
    for index, (point, wrong) in enumerate(zip(points, measure(points, efficiency), strict=True)):
        sources = [
            hardware
            for (served, hardware), found in ratios.items()
            if served == point.served and hardware.name != point.hardware.name and len(found) >= FEWEST
        ]
        if sources:
            nearest = min(sources, key=lambda other: _distance(other, point.hardware))
            left[index] = float(wrong) - float(np.median(ratios[point.served, nearest]))
    return left


def _distance(one: Hardware, other: Hardware) -> tuple[float, bool, str]:
    assert one.datasheet is not None
    assert other.datasheet is not None
    is_other = one.datasheet.generation != other.datasheet.generation
    return abs(math.log(one.devices / other.devices)), is_other, one.name


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Errors of one kind of model on points that nothing was fitted to."""

    kind: str
    is_carried: bool
    points: int
    coverage: float
    itl: float
    throughput: float


def verdicts(points: Sequence[Point]) -> Iterator[Verdict]:
    """For each kind of model without and with the ratio of another accelerator, what the kept third says."""
    for kind, calibration in CALIBRATIONS.items():
        kept = [each for each in points if each.is_kept and each.kind == kind]
        known = [each for each in points if not each.is_kept and each.kind == kind]
        efficiency = calibration.efficiency
        alone, requests = errors(kept, efficiency), request_errors(kept, efficiency)
        yield _verdict(kind, alone, requests, calibration.alone, is_carried=False)
        carried = carry(kept, known, efficiency)
        served = carry(kept, known, efficiency, of_requests=True)
        gaps, requests = (np.array(list(each.values())) for each in (carried, served))
        yield _verdict(kind, gaps, requests, calibration.carried, is_carried=True)


def _verdict(kind: str, gaps: Floats, requests: Floats, deviation: float, *, is_carried: bool) -> Verdict:
    edge = math.log(Band(median=1.0, deviation=deviation).high)
    return Verdict(
        kind=kind,
        is_carried=is_carried,
        points=len(gaps),
        coverage=float(np.mean(np.abs(gaps) <= edge)),
        itl=float(np.median(np.abs(np.expm1(gaps)))),
        throughput=float(np.median(np.abs(np.expm1(-requests)))),
    )


def named_right(points: Sequence[Point], kind: str) -> tuple[int, int]:
    """Of how many comparisons the cheaper accelerator was named, and how many there were.

    A model runs on one accelerator, where its cost was measured; what it costs on another, a point of the kept third,
    is carried over. Compared are the same batch and lengths at several ratios of prices, where costs differ by more
    than 25 %.
    """
    mine = [each for each in points if each.kind == kind]
    kept, known = [each for each in mine if each.is_kept], [each for each in mine if not each.is_kept]
    left = carry(kept, known, CALIBRATIONS[kind].efficiency, of_requests=True)
    right = compared = 0
    for (index, wrong), other, price in product(left.items(), known, PRICES):
        point = kept[index]
        if other.served != point.served or other.hardware.name == point.hardware.name:
            continue
        if other.load != point.load:
            continue
        devices = point.hardware.devices / other.hardware.devices
        ratio = math.log(price * devices * point.request_s / other.request_s)
        if abs(ratio) > math.log(1.25):
            compared += 1
            right += (ratio + wrong > 0) == (ratio > 0)
    return right, compared


def batch_error(points: Sequence[Point], kind: str) -> float:
    """The median error of the batch that the measured gap allows, carried over, of batches of 16 and more."""
    kept = [each for each in points if each.is_kept and each.kind == kind]
    known = [each for each in points if not each.is_kept and each.kind == kind]
    efficiency = CALIBRATIONS[kind].efficiency
    alone, found = errors(kept, efficiency), []
    for index, left in carry(kept, known, efficiency).items():
        point = kept[index]
        if point.batch < 16:
            continue
        batches = np.unique(np.geomspace(1, 4 * point.batch + 8, 200))
        parts = terms(point.replica, batches, point.input_tokens, point.output_tokens)
        gaps = gap_s(parts, efficiency, batches, point.input_tokens, point.output_tokens)
        gaps *= math.exp(left - float(alone[index]))
        allowed = float(np.interp(point.itl_s, gaps, batches)) if point.itl_s > gaps[0] else 0.0
        found.append(abs(allowed / point.batch - 1.0))
    return float(np.median(found))


TARGETS = 7
"""Of each curve, spaced evenly in the logarithm between its ends."""
FEWEST_ON_CURVE = 4


def curve_errors(points: Sequence[Point], kind: str, *, edge: float) -> tuple[int, float, float, float]:
    """How far off the batch is that a gap allows, by curves of the points fitted, each left out in turn.

    Targets lie on the measured curve, between its ends; the batch there is interpolated in logarithms. `edge` is in
    standard deviations above the median. How many targets there are, the median error, that of targets beyond twice the
    gap of the smallest batch, and the share of batches that keep the target.
    """
    mine = [each for each in points if not each.is_kept and each.kind == kind]
    curves: dict[Group, list[Point]] = defaultdict(list)
    for each in mine:
        curves[each.served, each.hardware.name, each.hardware.devices, *each.load[1:]].append(each)
    efficiency = CALIBRATIONS[kind].efficiency
    found, far, kept = [], [], []
    for curve in curves.values():
        curve.sort(key=lambda each: each.batch)
        left = carry(curve, [each for each in mine if each not in curve], efficiency)
        gaps = np.maximum.accumulate([each.itl_s for each in curve])
        is_long = len({each.batch for each in curve}) >= FEWEST_ON_CURVE and gaps[-1] >= 1.1 * gaps[0]
        if len(left) < len(curve) or not is_long:
            continue
        shift = float(np.mean(list(left.values())) - np.mean(errors(curve, efficiency)))
        batches = np.unique(np.geomspace(1, 4 * curve[-1].batch + 8, 300))
        first = curve[0]
        parts = terms(first.replica, batches, first.input_tokens, first.output_tokens)
        expected = gap_s(parts, efficiency, batches, first.input_tokens, first.output_tokens)
        expected *= math.exp(shift + edge * CALIBRATIONS[kind].carried)
        measured = np.log(gaps) + 1e-9 * np.arange(len(gaps)), np.log([each.batch for each in curve])
        for target in np.geomspace(gaps[0], gaps[-1], TARGETS + 2)[1:-1]:
            truth = math.exp(np.interp(math.log(target), *measured))
            said = float(np.interp(target, expected, batches)) if target > expected[0] else 0.0
            found.append(abs(said / truth - 1.0))
            kept.append(said <= truth * (1 + 1e-4))
            if target > 2 * gaps[0]:
                far.append(found[-1])
    return len(found), float(np.median(found)), float(np.median(far)), float(np.mean(kept))


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.priors", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit again, and print what to keep")
    parser.add_argument("--curves", action="store_true", help="judge the batch that a gap allows by curves left out")
    parser.add_argument("--verdict", action="store_true", help="judge the kept third")
    arguments = parser.parse_args()
    points = read_points()
    if arguments.fit:
        for kind in CALIBRATIONS:
            mine = [each for each in points if not each.is_kept and each.kind == kind]
            alone, carried = calibrate(mine)
            efficiency = tuple(float(f"{each:.4g}") for each in fit(mine))
            print(f"{kind}: {efficiency}, alone={alone:.3f}, carried={carried:.3f}, points={len(mine)}")
    if arguments.curves:
        edges = {"median": 0.0, "slow edge": math.log(Band(median=1.0, deviation=1.0).high)}
        cells = (
            (kind, name, *curve_errors(points, kind, edge=edge))
            for kind in CALIBRATIONS
            for name, edge in edges.items()
        )
        print(table(("", "at", "targets", "batch", "beyond twice the lone gap", "keep it"), list(cells)))
    if arguments.verdict:
        rows = [
            (each.kind, "yes" if each.is_carried else "no", each.points, each.coverage, each.itl, each.throughput)
            for each in verdicts(points)
        ]
        print(table(("", "carried", "points", "in the band", "ITL", "throughput"), rows))
        for kind in CALIBRATIONS:
            right, compared = named_right(points, kind)
            print(f"{kind}: the cheaper is named in {right} of {compared}")
            print(f"{kind}: the batch that a gap allows is off by {batch_error(points, kind):.2f}")


if __name__ == "__main__":
    main()
