"""Measurements as plain text: columns aligned, numbers to the right."""

from collections.abc import Sequence

Cell = str | int | float


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The rows below their headings; the first column is text."""
    texts = [list(headings), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(_line(row, widths) for row in texts)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.3f}" if cell < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
