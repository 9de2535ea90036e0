"""A picture of a model's load beside its capacity now and after a change: a chart in text, never an image."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.domain.plan import RATE, Decision, Plan
from reconciler.report.numbers import count, quantity
from reconciler.report.plain import model_name

MOST_POINTS = 24
LEAST_POINTS = 4
"""Fewer say less than the number does."""
HOUR_S, MINUTE_S = 3600.0, 60.0
STEPS_S = (MINUTE_S, 5 * MINUTE_S, 10 * MINUTE_S, 15 * MINUTE_S, 30 * MINUTE_S, HOUR_S)
"""What a point may stand for."""
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart's lines as numbers, in words what each is, and the first one in characters.

    `axis` says what the bottom counts: it runs from `span` of them ago to now. `lines` are the peaks of the measured
    load, then capacities, each with as many numbers.
    """

    title: str
    unit: str
    axis: str
    span: str
    highest: str
    lines: tuple[tuple[str, ...], ...]
    sparkline: str
    load_words: str
    capacity_words: str


def picture_of(plan: Plan, changes: Sequence[Decision]) -> Picture | None:
    """The picture of the first of `changes` whose load was measured long enough; None without one."""
    seen = set()
    for change in changes:
        if change.model in seen or change.unit != RATE:
            continue
        seen.add(change.model)
        points = plan.histories.get(change.model, ())
        before, after = _capacities(plan, change)
        if len(points) >= LEAST_POINTS and after is not None:
            return _drawn(change, points, before, after)
    return None


def _capacities(plan: Plan, change: Decision) -> tuple[float | None, float | None]:
    """What all variants of the model carry now, and what with every change of this plan."""
    serving = [each for each in plan.decisions if each.model == change.model]
    before = [each.capacity_before for each in serving if each.capacity_before is not None]
    after = [each.capacity_after for each in serving if each.capacity_after is not None]
    return (sum(before) if before else None), (sum(after) if after else None)


def _drawn(change: Decision, points: Sequence[tuple[float, float]], before: float | None, after: float) -> Picture:
    oldest_s = points[0][0]
    each_s = next((step_s for step_s in STEPS_S if oldest_s < step_s * MOST_POINTS), STEPS_S[-1])
    peaks = _peaks(points, each_s)
    levels = dict.fromkeys(level for level in (before, after) if level is not None)
    lines = (peaks, *([level] * len(peaks) for level in levels))
    is_long = oldest_s >= 2 * HOUR_S
    words = f"{quantity(after, RATE)} {RATE} expected after it"
    if before is not None and before != after:
        words = f"{quantity(before, RATE)} {RATE} expected now, {words}"
    return Picture(
        title=f"{model_name(change.model)}, {RATE}",
        unit=RATE,
        axis="hours" if is_long else "minutes",
        span=f"{(len(peaks) - 1) * each_s / (HOUR_S if is_long else MINUTE_S):g}",
        highest=_number(1.1 * max(map(max, lines))),
        lines=tuple(tuple(map(_number, line)) for line in lines),
        sparkline=_sparkline(peaks),
        load_words=(
            f"load measured in the last {_spelled(len(peaks) * each_s)}, the peak of each {_spelled(each_s, of=1)}: "
            f"{_range(quantity(min(peaks), RATE), quantity(max(peaks), RATE))} {RATE}"
        ),
        capacity_words=f"capacity, {words}",
    )


def _spelled(span_s: float, *, of: int = 0) -> str:
    """`24 hours`, `45 minutes`; a span of `of` units is the unit alone."""
    unit, unit_s = ("hour", HOUR_S) if span_s % HOUR_S == 0 else ("minute", MINUTE_S)
    number = round(span_s / unit_s)
    return unit if number == of else count(number, unit, f"{unit}s")


def _peaks(points: Sequence[tuple[float, float]], each_s: float) -> list[float]:
    """The largest in each stretch, the oldest first; where nothing is known, what was before."""
    largest: dict[int, float] = {}
    for ago_s, rate in points:
        number = int(ago_s / each_s)
        largest[number] = max(rate, largest.get(number, rate))
    known = largest[max(largest)]
    peaks = []
    for number in range(max(largest), -1, -1):
        known = largest.get(number, known)
        peaks.append(known)
    return peaks[-MOST_POINTS:]


def _sparkline(values: Sequence[float]) -> str:
    highest = max(values) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(value / highest * len(BARS)))] for value in values)


def _range(least: str, most: str) -> str:
    return most if least == most else f"{least} to {most}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
