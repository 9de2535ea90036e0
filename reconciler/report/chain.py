"""The chain behind a decision as tables: figures with where they are from, and the queries that asked for them."""

from collections.abc import Mapping, Sequence

from reconciler.domain.provenance import Figure
from reconciler.report.numbers import UNKNOWN
from reconciler.report.plain import display_width, one_line, pad
from reconciler.report.tables import GAP, Column, hung, lines_of

QUERY_LENGTH = 4000


def figure_lines(figures: Sequence[Figure]) -> tuple[str, ...]:
    """One line a figure: what it is of, its value with its unit, and its source or why there is none."""
    if not figures:
        return ()
    names = max(display_width(one_line(figure.subject)) for figure in figures)
    return lines_of(
        (
            Column(
                heading="FIGURE",
                cells=tuple(f"{pad(one_line(each.subject), names)}  {one_line(each.name)}" for each in figures),
            ),
            Column(heading="VALUE", cells=tuple(value_text(each) for each in figures)),
            Column(heading="FROM", cells=tuple(one_line(_origin(each)) for each in figures)),
        )
    )


def query_lines(queries: Mapping[str, str], *, width: int) -> tuple[str, ...]:
    """The PromQL behind the figures, each alternative on a line of its own; lines of at most `width` cells (0: any)."""
    if not queries:
        return ()
    names = max(display_width(name) for name in (*queries, "QUERY"))
    lines = [pad("QUERY", names) + GAP + "PROMQL"]
    for name, text in queries.items():
        first, *others = _alternatives(one_line(text, limit=QUERY_LENGTH))
        lines += hung(pad(name, names) + GAP, first, width=width)
        for other in others:
            lines += hung(pad("", names) + GAP, other, width=width)
    return tuple(lines)


def _alternatives(text: str) -> list[str]:
    """The query cut before every `or` that stands in no parentheses."""
    words = text.split(" ")
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        if word == "or" and depth == 0:
            parts.append([])
        parts[-1].append(word)
        depth += word.count("(") - word.count(")")
    return [" ".join(part) for part in parts]


def figure_json(figure: Figure) -> Mapping[str, object]:
    """One figure as a document."""
    source = None if figure.source is None else str(figure.source)
    return {
        "subject": figure.subject,
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "source": source,
        "reason": figure.reason or None,
        "queries": list(figure.queries),
    }


def value_text(figure: Figure) -> str:
    """`0.8`, `39.1 req/s`, `?`: a fraction needs no unit."""
    if figure.value is None:
        return UNKNOWN
    text = one_line(figure.value) if isinstance(figure.value, str) else f"{figure.value:.6g}"
    return text if figure.unit in ("", "fraction") else f"{text} {figure.unit}"


def _origin(figure: Figure) -> str:
    said = (str(figure.source) if figure.source is not None else "", figure.reason, ", ".join(figure.queries))
    words = [each for each in said[:2] if each]
    return "; ".join(words) or said[2]
