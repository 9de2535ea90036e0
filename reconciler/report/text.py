"""The plan as plain text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Outcome, Plan
from reconciler.domain.units import utc_minute
from reconciler.report.formatting import (
    GAP,
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
from reconciler.report.pull_request import flip_lines
from reconciler.report.rows import ChangeRow, HoldRow, by_urgency, change_row, hold_rows
from reconciler.report.summary import (
    cost_unit,
    experiment_lines,
    losers,
    prices,
    proof,
    put_back_lines,
    totals_text,
    trial_lines,
    unmanaged_text,
)
from reconciler.report.tuning import tuning_lines, tuning_total

NO_SLO = "no SLO"
CLUSTERS_NAMED = 3
SIZED = (
    "VariantAutoscaling, HorizontalPodAutoscaler or ScaledObject annotated for one, Kthena AutoscalingPolicy or Model, "
    "llmaz Playground or Service, or serving workload that is managed"
)


def plan_text(plan: Plan, *, width: int = 0, is_last: bool = True) -> str:
    """The whole plan; where its table is wider than `width` cells each change takes lines of its own.

    `width` 0 is unlimited, as for a pipe. What is not `is_last` leaves to others that it came to nothing.
    """
    labels = labels_of(decision.variant for decision in plan.decisions)
    changes = by_urgency(plan.with_outcome(Outcome.CHANGE))
    rows = [change_row(change, labels[change.variant]) for change in changes if not change.is_tuning]
    held = hold_rows((labels[each.variant], each.hold) for each in plan.decisions)
    waiting = hold_rows((labels[each.variant], each.waiting) for each in plan.decisions)
    name_width = max((display_width(_whose(row)) for row in (*held, *waiting)), default=0)
    table, name_width = _table(rows, cost_unit(plan, changes), name_width, width)
    sections = (
        _head(plan, width),
        _section("Gets less than it needs", losers(plan, plan.decisions), width),
        table,
        _section("Autoscalers", tuple(tuning_lines(changes, labels)), width),
        _section("Experiments", tuple(experiment_lines(changes, labels)), width),
        _section("Failed", (*plan.refusals, *plan.failures), width),
        _section("To fix", (*map(str, plan.findings), *plan.warnings), width),
        _named("Held", held, name_width, width),
        _named("Waiting", waiting, name_width, width),
        _section("Conditions to deliver", _flips(plan, labels), width),
        _section("Put back", tuple(put_back_lines(plan)), width),
        _section("Merges by itself", tuple(_merging(plan)), width),
        _section("Worth a trial", trial_lines(plan), width),
    )
    blocks = ["\n".join(section) for section in sections if section]
    # The last word stands close to what is held, but apart from a table.
    foot = "\n".join(_foot(plan, width, nothing_decided(plan) if is_last else ""))
    if foot:
        blocks[-1] += ("\n" if held or waiting else "\n\n") + foot
    return "\n\n".join(blocks) + "\n"


def counts_text(plan: Plan) -> str:
    """`3 changes (1 needs approval), 2 held, 4 unchanged.`; what stays and has to wait is not unchanged of itself."""
    changes = plan.with_outcome(Outcome.CHANGE)
    waiting = sum(change.verdict.awaits_approval for change in changes)
    verb = "needs" if waiting == 1 else "need"
    approval = f" ({waiting} {verb} approval)" if waiting else ""
    tally = plan.tally
    later = f", {tally['waiting']} waiting" if tally["waiting"] else ""
    return f"{count(len(changes), 'change')}{approval}, {tally['held']} held{later}, {tally['unchanged']} unchanged."


def nothing_decided(plan: Plan) -> str:
    """That a run came to nothing, as its last line: a list of reasons every five minutes is not read."""
    if not plan.decisions and plan.is_part:
        return "Nothing to decide for this shard."
    if not plan.decisions and plan.unmanaged:
        return "Nothing is managed yet."
    if not plan.decisions:
        return (
            f"Nothing to size: {one_line(plan.repository)} at {plan.commit[:7]} holds, in the *.yaml, *.yml and *.json "
            f"under the clusters' paths, no {SIZED}."
        )
    if plan.is_all_held:
        return f"Nothing was decided: all {len(plan.decisions)} variants are held."
    return ""


def _flips(plan: Plan, labels: Mapping[ResourceKey, str]) -> tuple[str, ...]:
    return tuple(flip_lines((flip for group in plan.groups for flip in group.flips), labels))


def _head(plan: Plan, width: int) -> tuple[str, ...]:
    moment = utc_minute(plan.now_s)
    where = f"{_where(plan.decisions, plan.repository)} at {plan.commit[:7]} ({one_line(plan.branch, limit=80)})"
    lines = list(wrapped(f"{where}, {moment}, recording {plan.recording[:6]}", indent=3, width=width))
    both = f"{counts_text(plan)}  {totals_text(plan)}"
    is_narrow = 0 < width < display_width(both)
    lines += [counts_text(plan), totals_text(plan)] if is_narrow else [both]
    if plan.assumptions:
        lines.extend(hung("assumed: ", one_line("; ".join(plan.assumptions), limit=2000), width=width))
    return tuple(lines)


def _where(decisions: Iterable[Decision], repository: str) -> str:
    clusters = sorted({decision.variant.cluster for decision in decisions})
    if not clusters:
        return one_line(repository)
    if len(clusters) > CLUSTERS_NAMED:
        return count(len(clusters), "cluster")
    return one_line(", ".join(clusters))


def _table(rows: Sequence[ChangeRow], unit: str, least: int, width: int) -> tuple[tuple[str, ...], int]:
    """The table and the width of its first column, which the held section shares."""
    if not rows:
        return (), least
    for is_narrow in (False, True):
        columns = _columns(rows, unit.upper(), least, is_narrow=is_narrow)
        marks = (" ", *(row.symbol for row in rows))
        lines = tuple(f" {mark} {line}".rstrip() for mark, line in zip(marks, lines_of(columns), strict=True))
        if width == 0 or max(map(display_width, lines)) <= width:
            return (tuple(_with_verdicts(lines, rows)) if is_narrow else lines), columns[0].width
    return tuple(line for row in rows for line in _stacked(row, unit)), min(least, width // 3)


def _columns(rows: Sequence[ChangeRow], unit: str, least: int, *, is_narrow: bool) -> tuple[Column, ...]:
    """The columns; narrow ones join replicas and accelerator, and leave out the verdict."""
    demands = Column(heading="", cells=tuple(row.demand for row in rows), right=True).padded()[1:]
    loads = tuple(f"{demand} → {row.capacity} {row.unit}" for demand, row in zip(demands, rows, strict=True))
    joined = (Column(heading="REPLICAS", cells=tuple(row.allocation for row in rows)),)
    apart = (
        Column(heading="REPLICAS", cells=tuple(row.count for row in rows)),
        Column(heading="ACCELERATOR", cells=tuple(str(row.accelerator) for row in rows)),
    )
    verdicts = (Column(heading="VERDICT", cells=tuple(row.verdict for row in rows)),)
    return (
        Column(heading=pad("VARIANT", least), cells=tuple(row.variant for row in rows)),
        *(joined if is_narrow else apart),
        Column(heading="DEMAND → CAPACITY", cells=loads, right=True),
        Column(heading="WORST SLO (TARGET)", cells=tuple(str(row.slo or NO_SLO) for row in rows)),
        Column(heading=unit, cells=tuple(row.cost for row in rows), right=True),
        *(() if is_narrow else verdicts),
    )


def _with_verdicts(lines: Sequence[str], rows: Sequence[ChangeRow]) -> Iterator[str]:
    """The table with each verdict below its row, where not all are the same."""
    says_nothing = len({row.verdict for row in rows}) == 1
    yield lines[0]
    for line, row in zip(lines[1:], rows, strict=True):
        yield line
        if not says_nothing:
            yield f"     {row.verdict}"


def _stacked(row: ChangeRow, unit: str) -> tuple[str, ...]:
    return (
        f" {row.symbol} {row.variant}",
        f"     {row.count} replicas, {row.accelerator}, {row.cost} {unit}",
        f"     demand → capacity {row.coverage}",
        f"     {row.slo or NO_SLO}",
        f"     {row.verdict}",
    )


def _named(heading: str, rows: Sequence[HoldRow], name_width: int, width: int) -> tuple[str, ...]:
    if not rows:
        return ()
    return (heading, *(line for row in rows for line in _hold_lines(row, name_width, width)))


def _hold_lines(row: HoldRow, name_width: int, width: int) -> Iterator[str]:
    """A variant with its reason, or a reason that several share with their names below."""
    head = "   " + GAP.join((pad(_whose(row), name_width), ""))
    yield from hung(head, row.reason, width=width)
    if len(row.variants) > 1:
        yield from hung(" " * len(head), ", ".join(row.variants), width=width)


def _whose(row: HoldRow) -> str:
    return row.variants[0] if len(row.variants) == 1 else count(len(row.variants), "variant")


def _section(heading: str, texts: Sequence[str], width: int) -> tuple[str, ...]:
    if not texts:
        return ()
    return (heading, *(line for text in texts for line in hung("   ", one_line(text), width=width)))


def _merging(plan: Plan) -> Iterator[str]:
    """Each pull request that merges by itself, by which rules, and what keeps it from it for now."""
    for group in plan.groups:
        if group.merges is not None:
            rules = ", ".join(f"rule {rule}" for rule in group.merges.rules) or "pullRequests.autoMerge"
            waits = f"; not yet: {group.merges.waits}" if group.merges.waits else ""
            yield f"{group.name} {group.part}: {rules}{waits}"


def _foot(plan: Plan, width: int, last: str) -> tuple[str, ...]:
    sentences = (
        tuning_total(plan.decisions, plan.currency),
        proof(plan),
        prices(plan),
        *(one_line(note) for note in plan.notes),
        unmanaged_text(plan),
        last,
    )
    return wrapped(" ".join(filter(None, sentences)), indent=0, width=width)
