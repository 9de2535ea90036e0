"""One page of HTML as nouns: sections of words, tables and charts, drawn by `templates/html/page.html.j2`.

A chart is a picture of lines and areas that is stretched to its width, with its words outside of it as text: they keep
their size on any screen. Coordinates are percent of it, from the left and from the top.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from reconciler.domain.records import dataclass
from reconciler.report.formatting import one_line

Points = Iterable[tuple[float, float | None]]
"""From the left to the right; None is a gap."""
HEIGHT = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One of a table: `is_number` is aligned to the right, `is_head` names its row."""

    text: str
    is_number: bool = False
    is_head: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`caption` says what it holds; headings are cells too, of the alignment of their column."""

    caption: str
    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A line or area of a chart: `kind` is its class, `path` in percent, `words` what the legend calls it."""

    kind: str
    path: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point of a chart, in percent; `words` are its name in the legend."""

    kind: str
    left: str
    top: str
    title: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Words at a place of an axis, in percent."""

    at: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture and all that it says in words: `label` for those who do not see it."""

    label: str
    unit: str
    layers: tuple[Layer, ...]
    marks: tuple[Mark, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    axis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with what is below it, in this order; `is_folded` is closed until it is opened."""

    heading: str
    words: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    lines: tuple[str, ...] = ()
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    foot: tuple[str, ...]


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> Table:
    """A table whose first column names its rows; `numbers` are the columns that are aligned to the right."""
    right = set(numbers)
    return Table(
        caption=caption,
        headings=tuple(Cell(text=text, is_number=place in right) for place, text in enumerate(headings)),
        rows=tuple(
            tuple(Cell(text=text, is_number=place in right, is_head=place == 0) for place, text in enumerate(row))
            for row in rows
        ),
    )


def spelled(value: float) -> str:
    """A coordinate."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From values to percent; with `is_logarithmic` both ends are above zero."""

    least: float
    most: float
    is_logarithmic: bool = False

    def at(self, value: float) -> float:
        """The place of a value, 0 at the least."""
        if self.is_logarithmic:
            least, most, value = math.log(self.least), math.log(self.most), math.log(max(value, self.least))
        else:
            least, most = self.least, self.most
        share = (value - least) / (most - least) if most > least else 0.0
        return 100.0 * min(max(share, 0.0), 1.0)


def line(points: Points, across: Scale, up: Scale) -> str:
    """A path through the points."""
    parts: list[str] = []
    is_down = False
    for x, y in points:
        if y is None:
            is_down = False
            continue
        parts.append(f"{'L' if is_down else 'M'}{spelled(across.at(x))} {spelled(HEIGHT - up.at(y))}")
        is_down = True
    return "".join(parts)


def stairs(values: Sequence[float | None], across: Scale, up: Scale) -> str:
    """A path of steps, each as wide as one value; equal neighbours are one."""
    points: list[tuple[float, float | None]] = []
    for place, value in enumerate(values):
        if place and value == values[place - 1]:
            points[-1] = (place + 1.0, value)
        else:
            points += [(float(place), value), (place + 1.0, value)]
    return line(points, across, up)


def band(low: Sequence[float | None], high: Sequence[float | None], across: Scale, up: Scale) -> str:
    """The area between two rows of values, whole where both are known."""
    parts: list[str] = []
    run: list[int] = []
    for place in range(len(low) + 1):
        is_known = place < len(low) and low[place] is not None and high[place] is not None
        if is_known:
            run.append(place)
        elif run:
            there = [(float(each), high[each]) for each in run]
            back = [(float(each), low[each]) for each in reversed(run)]
            if len(run) > 1:
                parts.append(line([*there, *back], across, up) + "Z")
            run = []
    return "".join(parts)


def ticks(scale: Scale, count: int = 4) -> tuple[float, ...]:
    """Round values within a linear scale, about so many."""
    span = scale.most - scale.least
    if span <= 0:
        return (scale.least,)
    rough = span / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(each * size for each in (1.0, 2.0, 5.0, 10.0) if each * size >= rough)
    first = math.ceil(scale.least / step - 1e-9)
    return tuple(step * place for place in range(first, math.floor(scale.most / step + 1e-9) + 1))


LONGEST_TICK = 12
"""Characters below a column: on a narrow screen more would run into the next."""


def columns(
    unit: str, found: Sequence[tuple[str, tuple[float, float, float]]], spell: Callable[[float], str], words: str
) -> Chart:
    """A column by name, from the lower to the upper edge of a band, with a point at its median."""
    across = Scale(least=0.0, most=float(len(found)))
    lows, _, highs = zip(*(edges for _, edges in found), strict=True)
    up = Scale(least=min(0.0, *lows), most=1.1 * max(0.0, *highs) or 1.0)
    paths, marks = [], []
    for place, (name, (low, median, high)) in enumerate(found):
        corners = [(place + left, at) for left, at in ((0.3, low), (0.3, high), (0.7, high), (0.7, low))]
        paths.append(line(corners, across, up) + "Z")
        marks.append(
            Mark(
                kind="ours",
                left=spelled(across.at(place + 0.5)),
                top=spelled(HEIGHT - up.at(median)),
                title=f"{name}: {spell(median)} ({spell(low)} to {spell(high)})",
                words="" if place else "median",
            )
        )
    return Chart(
        label=f"{unit}, with the {words}: {'; '.join(each.title for each in marks)}",
        unit=unit,
        layers=(Layer(kind="fan", path="".join(paths), words=words),),
        marks=tuple(marks),
        across=tuple(
            Tick(at=spelled(across.at(place + 0.5)), words=one_line(name, limit=LONGEST_TICK))
            for place, (name, _) in enumerate(found)
        ),
        up=tuple(Tick(at=spelled(HEIGHT - up.at(each)), words=spell(each)) for each in ticks(up)),
    )
