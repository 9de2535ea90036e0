"""A plan, and one decision of it, as pages: the same words as in a terminal, with the load of the last day drawn."""

from collections.abc import Iterator, Sequence

from reconciler.domain.identity import ModelKey
from reconciler.domain.plan import RATE, Decision, Outcome, Plan
from reconciler.domain.units import utc_minute
from reconciler.report.explain import Chain, SettingRow, value_text
from reconciler.report.formatting import count, four_digits, labels_of, model_name, one_line, quantity, rate
from reconciler.report.page import Chart, Layer, Page, Scale, Section, Tick, columns, line, spelled, table, ticks
from reconciler.report.rows import by_urgency, change_row, hold_rows
from reconciler.report.summary import (
    SHOWN_TRIALS,
    cost_unit,
    experiment_lines,
    losers,
    proof,
    put_back_lines,
    totals_text,
    trial_lines,
)
from reconciler.report.text import counts_text, nothing_decided
from reconciler.report.tuning import tuning_lines

MOST_CHARTS = 20
FEWEST_POINTS = 3
HOUR_S = 3600.0
VALUES = "name", "value", "from", "displaced"


def plan_page(plan: Plan) -> Page:
    """The page of a plan."""
    return Page(
        title=f"Plan of {one_line(plan.repository, limit=80)} at {plan.commit[:7]}",
        lead=" ".join(filter(None, (counts_text(plan), totals_text(plan), nothing_decided(plan)))),
        sections=tuple(each for each in _sections(plan) if each.words or each.charts or each.tables or each.lines),
        foot=_foot(plan),
    )


def _foot(plan: Plan) -> tuple[str, ...]:
    assumed = (f"Assumed: {'; '.join(plan.assumptions)}.",) if plan.assumptions else ()
    return (f"{utc_minute(plan.now_s)}, recording {plan.recording[:12]}. {proof(plan)}".strip(), *assumed)


def _sections(plan: Plan) -> Iterator[Section]:
    labels = labels_of(decision.variant for decision in plan.decisions)
    changes = by_urgency(plan.with_outcome(Outcome.CHANGE))
    rows = []
    for change in changes:
        if change.is_tuning:
            continue
        row = change_row(change, labels[change.variant])
        target = "" if row.slo is None else f"{row.slo.target} {row.slo.value}, target {row.slo.limit}"
        rows.append(
            (row.variant, row.allocation, row.coverage if row.shows_load else "", target, row.cost, row.verdict)
        )
    yield Section(heading="Gets less than it needs", lines=losers(plan, plan.decisions))
    headings = ("variant", "replicas", "demand and capacity", "worst target", cost_unit(plan, changes), "verdict")
    yield Section(
        heading=count(len(changes), "change"),
        tables=(table("What changes", headings, rows, (4,)),) if rows else (),
    )
    yield Section(heading="Autoscalers", lines=tuple(tuning_lines(changes, labels)))
    yield Section(heading="Experiments", lines=tuple(experiment_lines(changes, labels)))
    yield Section(heading="Load and capacity", charts=tuple(_charts(plan, changes)))
    yield Section(heading="Failed", lines=(*plan.refusals, *plan.failures))
    yield Section(heading="To fix", lines=(*map(str, plan.findings), *plan.warnings))
    for heading, found in (
        ("Held", hold_rows((labels[each.variant], each.hold) for each in plan.decisions)),
        ("Waiting", hold_rows((labels[each.variant], each.waiting) for each in plan.decisions)),
    ):
        held = [(", ".join(row.variants), row.reason) for row in found]
        yield Section(heading=heading, tables=(table(heading, ("variants", "because"), held),) if held else ())
    yield Section(heading="Put back", lines=tuple(put_back_lines(plan)))
    saves = [
        (f"{each.accelerator} {model_name(each.model)}", each.saves_per_hour) for each in plan.trials[:SHOWN_TRIALS]
    ]
    unit = f"saved, {cost_unit(plan, ())}"
    yield Section(
        heading="Worth a trial",
        charts=(columns(unit, saves, lambda value: f"{value:.2f}", "90 % band"),) if saves else (),
        lines=trial_lines(plan),
    )


def _charts(plan: Plan, changes: Sequence[Decision]) -> Iterator[Chart]:
    seen: set[ModelKey] = set()
    for change in changes:
        if change.model not in seen and change.unit == RATE and len(seen) < MOST_CHARTS:
            seen.add(change.model)
            chart = load_chart(plan, change)
            if chart is not None:
                yield chart


def load_chart(plan: Plan, change: Decision) -> Chart | None:
    """The load of a model as far back as it is known, and what its replicas carry before and after; None without."""
    points = sorted(plan.histories.get(change.model, ()), reverse=True)
    serving = [each for each in plan.decisions if each.model == change.model]
    before, after = (
        sum(getattr(each, part) or 0.0 for each in serving) for part in ("capacity_before", "capacity_after")
    )
    if len(points) < FEWEST_POINTS:
        return None
    oldest_s, most = points[0][0], max(per_s for _, per_s in points)
    across = Scale(least=-oldest_s, most=0.0)
    up = Scale(least=0.0, most=1.08 * max(most, before, after) or 1.0)
    levels = (("ran", before, "capacity now"), ("ours", after, "capacity after the changes"))
    unit_s, unit = (HOUR_S, "h") if oldest_s >= 2 * HOUR_S else (60.0, "min")
    return Chart(
        label=(
            f"Load of {one_line(change.model.model_id)}: at most {rate(most)} {RATE}; its replicas carry "
            f"{rate(before)} now and {rate(after)} after the changes."
        ),
        unit=f"{one_line(change.model.model_id, limit=90)}, {RATE}",
        layers=(
            *(
                Layer(kind=kind, path=line([(-oldest_s, level), (0.0, level)], across, up), words=words)
                for kind, level, words in levels
            ),
            Layer(kind="load", path=line([(-ago_s, per_s) for ago_s, per_s in points], across, up), words="load"),
        ),
        marks=(),
        across=(
            Tick(at="0", words=f"-{oldest_s / unit_s:.3g}"),
            Tick(at="50", words=f"-{oldest_s / unit_s / 2:.3g}"),
            Tick(at="100", words="now"),
        ),
        up=tuple(Tick(at=spelled(100 - up.at(each)), words=four_digits(each)) for each in ticks(up, 3)),
        axis=unit,
    )


def explain_page(plan: Plan, decision: Decision, settings: Sequence[SettingRow], chain: Chain, put_back: str) -> Page:
    """The page of one decision: every step, figure, setting and query."""
    label = labels_of([decision.variant])[decision.variant]
    stays = decision.hold or decision.waiting
    words = (f"put back: {put_back}",) if put_back else ()
    chart = load_chart(plan, decision) if decision.unit == RATE else None
    steps = [(each.stage, each.before, each.after, each.reason) for each in decision.steps]
    figures = [
        (f"{each.subject}: {each.name}", value_text(each), each.reason or str(each.source or ""))
        for each in chain.figures
    ]
    values = [(each.name, each.value, each.source, each.displaced) for each in settings]
    queries = [(name, " or ".join(texts)) for name, texts in chain.queries.items()]
    changed = f"{decision.current.replicas} → {decision.desired.replicas}"
    demand = "" if decision.demand is None else f"; {quantity(decision.demand, decision.unit)} {decision.unit} demanded"
    words_of = one_line(stays.words) if stays else f"{changed} replicas{demand}"
    return Page(
        title=f"{label}: {one_line(decision.model.model_id, limit=90)}",
        lead=f"{decision.outcome}: {words_of}",
        sections=(
            Section(
                heading="Steps",
                words=words,
                charts=() if chart is None else (chart,),
                tables=(table("Steps to the decision", ("step", "before", "after", "because"), steps),),
            ),
            Section(heading="Figures", tables=(table("What it rests on", ("figure", "value", "from"), figures, (1,)),)),
            Section(heading="Settings", tables=(table("Effective values", VALUES, values),)),
            Section(
                heading="Queries",
                tables=(table("What Prometheus was asked", ("quantity", "PromQL"), queries),),
                is_folded=True,
            ),
        ),
        foot=_foot(plan),
    )
