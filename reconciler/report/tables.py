"""Columns aligned by what a terminal shows, as plain strings; whoever prints them may colour them."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.report.plain import display_width, pad

GAP = "  "
LEAST_ROOM = 24
"""Cells below which a text beside something is not readable any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and a cell a row; `right` aligns to the right."""

    heading: str
    cells: tuple[str, ...]
    right: bool = False

    @property
    def width(self) -> int:
        """Terminal cells of the widest entry."""
        return max(map(display_width, (self.heading, *self.cells)))

    def padded(self) -> tuple[str, ...]:
        """Heading and cells, all of one width; a heading stays on the left where the cells do."""
        width = self.width
        return tuple(pad(text, width, right=self.right) for text in (self.heading, *self.cells))


def lines_of(columns: Sequence[Column], *, indent: str = "") -> tuple[str, ...]:
    """The rows of the columns, heading first, without trailing space."""
    return tuple(
        (indent + GAP.join(cells)).rstrip() for cells in zip(*(each.padded() for each in columns), strict=True)
    )


def hung(head: str, text: str, *, width: int) -> tuple[str, ...]:
    """`head`, then `text` beside it in lines of at most `width` cells; in a narrow terminal the text goes below."""
    indent = display_width(head)
    if 0 < width < indent + LEAST_ROOM:
        return (head.rstrip(), *(f"     {line}" for line in _broken(text, width - 5)))
    first, *rest = wrapped(text, indent=indent, width=width)
    return ((head + first).rstrip(), *rest)


def wrapped(text: str, *, indent: int, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, all but the first indented; `width` 0 does not wrap."""
    lines = _broken(text, width - indent) if width > 0 else (text,)
    return (lines[0], *(" " * indent + line for line in lines[1:]))


def _broken(text: str, room: int) -> tuple[str, ...]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if display_width(longer) > room and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return tuple(lines)
