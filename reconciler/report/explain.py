"""Every value and step behind one variant, and the figures that led to its replicas."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.domain.identity import Figure
from reconciler.domain.plan import Decision
from reconciler.domain.records import dataclass
from reconciler.report.document import decision_json
from reconciler.report.formatting import (
    GAP,
    UNKNOWN,
    Column,
    count,
    display_width,
    hung,
    labels_of,
    lines_of,
    one_line,
    pad,
    wrapped,
)

CELL_LENGTH = 120
BUILT_IN = "built-in"
QUERY_LENGTH = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """An effective value as text, where it is from, and what it displaced (empty: nothing)."""

    name: str
    value: str
    source: str
    displaced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The figures behind a decision, and the PromQL of the quantities that they name, its alternatives in order."""

    figures: tuple[Figure, ...] = ()
    queries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


NO_CHAIN = Chain()


def explain_text(
    decision: Decision,
    settings: Sequence[SettingRow],
    chain: Chain = NO_CHAIN,
    *,
    label: str = "",
    fleet: Sequence[str] = (),
    put_back: str = "",
    width: int = 0,
    is_full: bool = False,
) -> str:
    """The steps to the decision, the query behind its load, and the settings with their places.

    `is_full` adds what is known or asked everywhere: every figure, settings at their defaults, every query, what the
    whole plan shows of itself (`fleet`). `label` is the name as the plan prints it, `put_back` why its pull request is
    not opened or pushed now. All wraps between words at `width` cells; 0 is unlimited.
    """
    name = label or labels_of([decision.variant])[decision.variant]
    accelerator = one_line(decision.current.accelerator or "an unknown accelerator")
    place = f" ({one_line(decision.place)})" if decision.place else ""
    lines = [*wrapped(f"{name}: {one_line(decision.model.model_id)} on {accelerator}{place}", indent=5, width=width)]
    lines.extend(_step_lines(decision, width))
    if decision.hold is not None:
        lines.extend(wrapped(f"{decision.outcome}: {one_line(decision.hold.words)}", indent=0, width=width))
    if decision.waiting is not None:
        lines.extend(wrapped(f"waiting: {one_line(decision.waiting.words)}", indent=0, width=width))
    if put_back:
        lines.extend(wrapped(f"put back: {one_line(put_back)}", indent=0, width=width))
    if not is_full:
        lines.extend(query_lines(_first_query(chain), width=width, is_full=False))
    else:
        lines.extend(figure_lines(chain.figures, width=width))
    lines.extend(_setting_lines([row for row in settings if is_full or row.displaced or row.source != BUILT_IN], width))
    if not is_full:
        lines.extend(wrapped(_left_out(settings, chain), indent=0, width=width))
        return "\n".join(lines) + "\n"
    lines.extend(query_lines(chain.queries, width=width))
    if fleet:
        lines += ["PLAN", *(line for text in fleet for line in hung("  ", one_line(text), width=width))]
    return "\n".join(lines) + "\n"


def _left_out(settings: Sequence[SettingRow], chain: Chain) -> str:
    built_in = sum(row.source == BUILT_IN and not row.displaced for row in settings)
    queries, figures = count(len(chain.queries), "query", "queries"), count(len(chain.figures), "figure")
    return f"-v shows {figures}, {count(built_in, 'built-in value')}, {queries} and the plan."


def _first_query(chain: Chain) -> Mapping[str, tuple[str, ...]]:
    """What was asked for the first figure that was answered: the load, or how full replicas are."""
    answered = (name for each in chain.figures if each.value is not None for name in each.queries)
    name = next((name for name in answered if name in chain.queries), None)
    return {} if name is None else {name: chain.queries[name]}


def explain_json(
    decision: Decision,
    settings: Sequence[SettingRow],
    chain: Chain = NO_CHAIN,
    *,
    solver: Mapping[str, object],
    put_back: str = "",
) -> Mapping[str, object]:
    """The same as a document: settings, figures and queries, with decision and solver as `plan -o json` has them."""
    rows = [
        {"name": row.name, "value": row.value, "source": row.source, "displaced": row.displaced or None}
        for row in settings
    ]
    return {
        "version": 1,
        "settings": rows,
        "figures": [figure_json(figure) for figure in chain.figures],
        "queries": {name: " or ".join(texts) for name, texts in chain.queries.items()},
        "decision": decision_json(decision),
        **({"put_back": put_back} if put_back else {}),
        "solver": solver,
    }


def _setting_lines(settings: Sequence[SettingRow], width: int) -> tuple[str, ...]:
    if not settings:
        return ()
    names = max(display_width(one_line(row.name)) for row in settings)
    values = tuple(f"{pad(one_line(row.name), names)}  {_cell(row.value)}" for row in settings)
    table = lines_of(
        (
            Column(heading="VALUE", cells=values),
            Column(heading="FROM", cells=tuple(_cell(row.source) for row in settings)),
            Column(heading="DISPLACED", cells=tuple(_cell(row.displaced) for row in settings)),
        )
    )
    if not width or max(map(display_width, table)) <= width:
        return table
    heading = (pad("VALUE", names) + GAP + "FROM",)
    told = (f"{_cell(row.value)}, {_cell(row.source)}{_instead(row)}" for row in settings)
    heads = (pad(one_line(row.name), names) + GAP for row in settings)
    rows = (hung(head, text, width=width) for head, text in zip(heads, told, strict=True))
    return (*heading, *(line for lines in rows for line in lines))


def _instead(row: SettingRow) -> str:
    return f", instead of {_cell(row.displaced)}" if row.displaced else ""


def _step_lines(decision: Decision, width: int) -> tuple[str, ...]:
    steps = decision.steps
    if not steps:
        return ()
    columns = (
        Column(heading="STEP", cells=tuple(_cell(step.stage) for step in steps)),
        Column(heading="BEFORE", cells=tuple(_cell(step.before) for step in steps)),
        Column(heading="AFTER", cells=tuple(_cell(step.after) for step in steps)),
    )
    reasons = ("REASON", *(one_line(step.reason) for step in steps))
    cells = zip(*(column.padded() for column in columns), strict=True)
    heads = (GAP.join((*head, "")) for head in cells)
    return tuple(line for head, why in zip(heads, reasons, strict=True) for line in hung(head, why, width=width))


def _cell(text: str) -> str:
    return one_line(text, limit=CELL_LENGTH)


def figure_lines(figures: Sequence[Figure], *, width: int = 0) -> tuple[str, ...]:
    """One line a figure: what it is of, its value with its unit, and its source or why there is none.

    Where that is wider than `width` cells (0: any) what figures are of stands above them.
    """
    if not figures:
        return ()
    names = max(display_width(one_line(figure.subject)) for figure in figures)
    table = lines_of(
        (
            Column(
                heading="FIGURE",
                cells=tuple(f"{pad(one_line(each.subject), names)}  {one_line(each.name)}" for each in figures),
            ),
            Column(heading="VALUE", cells=tuple(value_text(each) for each in figures)),
            Column(heading="FROM", cells=tuple(one_line(_origin(each)) for each in figures)),
        )
    )
    if not width or max(map(display_width, table)) <= width:
        return table
    return ("FIGURE", *_narrow_figures(figures, width))


def _narrow_figures(figures: Sequence[Figure], width: int) -> Iterator[str]:
    names = max(display_width(one_line(figure.name)) for figure in figures)
    subject = None
    for figure in figures:
        if figure.subject != subject:
            subject = figure.subject
            yield f"  {one_line(subject, limit=max(width - 2, 1))}"
        head = f"    {pad(one_line(figure.name), names)}{GAP}"
        yield from hung(head, ", ".join(filter(None, (value_text(figure), one_line(_origin(figure))))), width=width)


def query_lines(queries: Mapping[str, tuple[str, ...]], *, width: int, is_full: bool = True) -> tuple[str, ...]:
    """The PromQL behind the figures, each alternative on a line of its own; lines of at most `width` cells (0: any).

    Without `is_full` of several alternatives the first stands for all.
    """
    if not queries:
        return ()
    names = max(display_width(name) for name in (*queries, "QUERY"))
    lines = [pad("QUERY", names) + GAP + "PROMQL"]
    for name, alternatives in queries.items():
        first, *others = (one_line(text, limit=QUERY_LENGTH) for text in alternatives)
        lines += hung(pad(name, names) + GAP, first, width=width)
        if others and not is_full:
            told = count(len(others), "alternative for other engines", "alternatives for other engines")
            lines += hung(pad("", names) + GAP, f"or {told}", width=width)
        for other in others if is_full else ():
            lines += hung(pad("", names) + GAP, f"or {other}", width=width)
    return tuple(lines)


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
