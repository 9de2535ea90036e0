"""Every value and step behind one variant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.plan import Decision
from reconciler.domain.provenance import Figure
from reconciler.report.chain import figure_json, figure_lines, query_lines
from reconciler.report.document import decision_json
from reconciler.report.numbers import count
from reconciler.report.plain import display_width, labels_of, one_line, pad
from reconciler.report.tables import GAP, Column, hung, lines_of, wrapped

CELL_LENGTH = 120
BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """An effective value as text, where it is from, and what it displaced (empty: nothing)."""

    name: str
    value: str
    source: str
    displaced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The figures behind a decision, and the PromQL of the quantities that they name."""

    figures: tuple[Figure, ...] = ()
    queries: Mapping[str, str] = field(default_factory=dict)


NO_CHAIN = Chain()


def explain_text(
    decision: Decision,
    settings: Sequence[SettingRow],
    chain: Chain = NO_CHAIN,
    *,
    label: str = "",
    fleet: Sequence[str] = (),
    width: int = 0,
    is_full: bool = False,
) -> str:
    """The steps to the decision, the figures behind them, and the settings with their places.

    `is_full` adds what is known or asked everywhere: settings that nobody made, every query, what the whole plan shows
    of itself (`fleet`). `label` is the name as the plan prints it. Reasons wrap at `width` cells; 0 is unlimited.
    """
    name = label or labels_of([decision.variant])[decision.variant]
    accelerator = one_line(decision.current.accelerator or "an unknown accelerator")
    place = f" ({one_line(decision.place)})" if decision.place else ""
    lines = [f"{name}: {one_line(decision.model.model_id)} on {accelerator}{place}"]
    lines.extend(_step_lines(decision, width))
    if decision.hold is not None:
        lines.extend(wrapped(f"{decision.outcome}: {one_line(decision.hold.words)}", indent=0, width=width))
    if decision.waiting is not None:
        lines.extend(wrapped(f"waiting: {one_line(decision.waiting.words)}", indent=0, width=width))
    lines.extend(figure_lines([each for each in chain.figures if is_full or each.value is not None or decision.hold]))
    lines.extend(_setting_lines([row for row in settings if is_full or row.displaced or row.source != BUILT_IN]))
    if not is_full:
        lines.extend(wrapped(_left_out(settings, chain), indent=0, width=width))
        return "\n".join(lines) + "\n"
    lines.extend(query_lines(chain.queries, width=width))
    if fleet:
        lines += ["PLAN", *(line for text in fleet for line in hung("  ", one_line(text), width=width))]
    return "\n".join(lines) + "\n"


def _left_out(settings: Sequence[SettingRow], chain: Chain) -> str:
    built_in = sum(row.source == BUILT_IN and not row.displaced for row in settings)
    queries = count(len(chain.queries), "query", "queries")
    return f"-v shows {count(built_in, 'built-in value')}, {queries} and the plan."


def explain_json(
    decision: Decision, settings: Sequence[SettingRow], chain: Chain = NO_CHAIN, *, solver: Mapping[str, object]
) -> Mapping[str, object]:
    """The same as a document: settings, figures and queries beside decision and solver as `plan -o json` has them."""
    rows = [
        {"name": row.name, "value": row.value, "source": row.source, "displaced": row.displaced or None}
        for row in settings
    ]
    return {
        "version": 1,
        "settings": rows,
        "figures": [figure_json(figure) for figure in chain.figures],
        "queries": dict(chain.queries),
        "decision": decision_json(decision),
        "solver": solver,
    }


def _setting_lines(settings: Sequence[SettingRow]) -> tuple[str, ...]:
    if not settings:
        return ()
    names = max(display_width(one_line(row.name)) for row in settings)
    values = tuple(f"{pad(one_line(row.name), names)}  {_cell(row.value)}" for row in settings)
    return lines_of(
        (
            Column(heading="VALUE", cells=values),
            Column(heading="FROM", cells=tuple(_cell(row.source) for row in settings)),
            Column(heading="DISPLACED", cells=tuple(_cell(row.displaced) for row in settings)),
        )
    )


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
