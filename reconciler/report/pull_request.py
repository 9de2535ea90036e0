"""What the templates of a pull request and a commit are given: frozen values, every number already in words."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, GroupPlan, Outcome, Plan, Step, VerdictKind
from reconciler.domain.reported.pages import Pages
from reconciler.report.fleet import fleet_lines, prices
from reconciler.report.links import Link, commit_link, file_link, hold_link, query_links, rule_link
from reconciler.report.numbers import UNKNOWN, count
from reconciler.report.picture import Picture, picture_of
from reconciler.report.plain import one_line, short_labels_of
from reconciler.report.rows import MARKS, ChangeRow, HoldRow, by_urgency, change_row, hold_rows
from reconciler.report.scarcity import losers
from reconciler.report.summary import (
    consequence,
    cost_amount,
    cost_unit,
    counts,
    currency_of,
    month_amount,
    of_outcome,
    proof,
    put_back_lines,
    shortcoming,
    subject,
    title,
)

ROWS_KEPT = 20
"""How many rows a table keeps when all of it does not fit a forge's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """Variants with one verdict for one reason."""

    mark: str
    variants: tuple[str, ...]
    verdict: str
    rule: Link
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRow:
    """That it merges by itself: which rules let it (none: the configuration), and how many an hour."""

    rules: tuple[Link, ...]
    per_hour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRow:
    """A file in which another accelerator is written, and what kind of file it is."""

    file: Link
    is_patch: bool
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailRow:
    """How one variant's number came about."""

    variant: str
    model: str
    place: Link
    written_at: tuple[Link, ...]
    written_as: str
    moved_to: str
    moved_in: tuple[MovedRow, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One change, its name a link to the line that it changes."""

    name: Link
    change: ChangeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """Variants that stay or wait for one reason, where that stands (empty text: nowhere), and the page about it."""

    variants: tuple[str, ...]
    reason: str
    place: Link
    page: Link


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestView:
    """Everything a pull request's body says; `cut` names what was left out to fit a limit.

    `restarted` are the variants whose replicas a merge starts anew, `cautions` what else it does.
    `is_proposal` False is the whole plan outside of a pull request: nothing to close, no marker.
    """

    title: str
    counts: str
    amount: str
    month: str
    consequence: str
    losers: tuple[str, ...]
    shortcoming: str
    proof: str
    rows: tuple[TableRow, ...]
    cost_unit: str
    shows_cost: bool
    picture: Picture | None
    draws_mermaid: bool
    verdicts: tuple[VerdictRow, ...]
    held: tuple[HeldRow, ...]
    waiting: tuple[HeldRow, ...]
    restarted: tuple[str, ...]
    cautions: tuple[str, ...]
    problems: tuple[str, ...]
    details: tuple[DetailRow, ...]
    unchanged: tuple[str, ...]
    assumptions: tuple[str, ...]
    fleet: tuple[str, ...]
    queries: tuple[Link, ...]
    commit: Link
    fingerprint: str
    recording: str
    is_proposal: bool
    put_back: tuple[str, ...] = ()
    merges: MergeRow | None = None
    marker: str = ""
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitView:
    """A commit message: subject, one line a change, trailers. `sign_off` is `Name <address>` or empty."""

    subject: str
    lines: tuple[str, ...]
    decision: str
    sign_off: str = ""


PLAIN = Pages()


def pull_request_view(plan: Plan, group: GroupPlan, *, pages: Pages = PLAIN, marker: str = "") -> PullRequestView:
    """One group's pull request; `marker` is the hidden comment that identifies it, placed last and never cut."""
    heading = title(group.changes, group.name, currency_of(plan, group.changes))
    view = _view(plan, group.decisions, heading, pages)
    return replace(view, is_proposal=True, marker=marker, merges=_merge_row(group, pages))


def plan_view(plan: Plan) -> PullRequestView:
    """The whole plan in the same words, with what went wrong beside it."""
    changes = plan.with_outcome(Outcome.CHANGE)
    heading = title(changes, plan.branch, currency_of(plan, changes))
    problems = (*plan.refusals, *plan.failures, *map(str, plan.findings), *plan.warnings)
    view = _view(plan, plan.decisions, heading, PLAIN)
    return replace(view, problems=tuple(map(one_line, problems)), put_back=tuple(put_back_lines(plan)))


def commit_view(group: GroupPlan, *, sign_off: str = "") -> CommitView:
    """One group's commit; its trailer carries the decision's fingerprint."""
    changes = by_urgency(group.changes)
    labels = short_labels_of(change.variant for change in changes)
    return CommitView(
        subject=subject(changes, group.name),
        lines=tuple(_commit_line(change, labels[change.variant]) for change in changes),
        decision=group.fingerprint,
        sign_off=sign_off,
    )


def reductions(view: PullRequestView) -> Iterator[PullRequestView]:
    """The view, then ever shorter ones: without the details, the held, the verdicts, then with fewer rows."""
    yield view
    for text, shorten in _SHORTENINGS:
        view = replace(shorten(view), cut=(*view.cut, text))
        yield view
    view = replace(view, problems=view.problems[:ROWS_KEPT])
    if len(view.rows) > ROWS_KEPT:
        left_out = count(len(view.rows) - ROWS_KEPT, "row")
        yield replace(view, rows=view.rows[:ROWS_KEPT], cut=(*view.cut, f"{left_out} of the table"))


_SHORTENINGS: tuple[tuple[str, Callable[[PullRequestView], PullRequestView]], ...] = (
    ("the details", lambda view: replace(view, details=(), unchanged=(), fleet=(), queries=())),
    ("the picture", lambda view: replace(view, picture=None)),
    ("what is held", lambda view: replace(view, held=(), waiting=(), put_back=())),
    ("the reasons of verdicts", lambda view: replace(view, verdicts=())),
    ("what a merge restarts", lambda view: replace(view, restarted=(), cautions=())),
)


def _view(plan: Plan, decisions: Sequence[Decision], heading: str, pages: Pages) -> PullRequestView:
    changes = by_urgency(of_outcome(decisions, Outcome.CHANGE))
    held = of_outcome(decisions, Outcome.HELD)
    labels = short_labels_of(decision.variant for decision in decisions)
    served = Counter(decision.model for decision in plan.decisions)
    rows = tuple(
        _table_row(change, labels[change.variant], pages, marked=_differ(changes), is_alone=served[change.model] == 1)
        for change in changes
    )
    lost = losers(plan, decisions)
    return PullRequestView(
        title=heading,
        counts=counts(changes, len(held)),
        amount=cost_amount(changes, currency_of(plan, changes)),
        month=month_amount(changes, currency_of(plan, changes)),
        consequence=consequence(changes, decisions),
        losers=lost,
        shortcoming="" if lost else shortcoming(changes, decisions),
        proof=" ".join(filter(None, (proof(plan), prices(plan)))),
        rows=rows,
        cost_unit=cost_unit(plan, changes),
        shows_cost=any(row.change.cost != UNKNOWN for row in rows),
        picture=picture_of(plan, changes),
        draws_mermaid=pages.draws_mermaid,
        verdicts=_verdict_rows(changes, labels),
        held=_held_rows(hold_rows((labels[each.variant], each.hold) for each in held), pages),
        waiting=_held_rows(hold_rows((labels[each.variant], each.waiting) for each in decisions), pages),
        restarted=tuple(labels[change.variant] for change in changes if _restarts(change)),
        cautions=tuple(dict.fromkeys(map(one_line, _cautions(changes, decisions, labels)))),
        problems=(),
        details=tuple(_detail_row(decision, labels, pages) for decision in (*changes, *held) if decision.steps),
        unchanged=tuple(
            labels[each.variant] for each in of_outcome(decisions, Outcome.UNCHANGED) if each.waiting is None
        ),
        assumptions=plan.assumptions,
        fleet=tuple(map(one_line, fleet_lines(plan))),
        queries=_queries(plan, changes),
        commit=commit_link(plan.commit, pages),
        fingerprint=plan.recording[:6],
        recording=pages.recording,
        is_proposal=False,
    )


def _cautions(
    changes: Iterable[Decision], decisions: Iterable[Decision], labels: Mapping[ResourceKey, str]
) -> Iterator[str]:
    """What a merge does besides, and which status does not come with it."""
    yield from (change.caution for change in changes if change.caution)
    for decision in decisions:
        if decision.status_omitted:
            yield f"{labels[decision.variant]}: no status is written: {decision.status_omitted}"


def _merge_row(group: GroupPlan, pages: Pages) -> MergeRow | None:
    terms = group.merges
    if terms is None:
        return None
    named = (rule.removesuffix(")").partition(" (") for rule in terms.rules)
    rules = tuple(file_link(place, pages, text=name) for name, _, place in named)
    return MergeRow(rules=rules, per_hour=str(terms.per_hour))


def _restarts(change: Decision) -> bool:
    """Whether replicas run that another accelerator takes the place of."""
    return change.is_accelerator_change and change.current.replicas > 0 and change.desired.replicas > 0


def _differ(changes: Sequence[Decision]) -> bool:
    # A sign on every row says no more than the headline does.
    return len({change.verdict.kind for change in changes}) > 1


def _verdict_rows(changes: Sequence[Decision], labels: Mapping[ResourceKey, str]) -> tuple[VerdictRow, ...]:
    if not _differ(changes) and not any(change.verdict.rule for change in changes):
        return ()  # the headline says it of all
    groups: dict[tuple[VerdictKind, str, str], list[str]] = {}
    for change in changes:
        verdict = change.verdict
        if verdict.kind is not VerdictKind.ALLOW and (verdict.rule or verdict.reason):
            groups.setdefault((verdict.kind, verdict.rule, verdict.reason), []).append(labels[change.variant])
    return tuple(
        VerdictRow(
            mark=MARKS.get(kind, ""),
            variants=tuple(names),
            verdict=_verb(kind, len(names)),
            rule=rule_link(rule),
            reason=why,
        )
        for (kind, rule, why), names in groups.items()
    )


def _verb(kind: VerdictKind, number: int) -> str:
    if kind is VerdictKind.NEEDS_APPROVAL:
        return "needs approval" if number == 1 else "need approval"
    return {VerdictKind.CLAMP: "clamped", VerdictKind.HOLD: "held", VerdictKind.REFUSE: "refused"}.get(kind, str(kind))


def _table_row(change: Decision, label: str, pages: Pages, *, marked: bool, is_alone: bool) -> TableRow:
    place = change.written_at[0] if change.written_at else change.place
    row = change_row(change, label, marked=marked, is_alone=is_alone)
    return TableRow(name=file_link(place, pages, text=label), change=row)


def _held_rows(rows: Iterable[HoldRow], pages: Pages) -> tuple[HeldRow, ...]:
    return tuple(
        HeldRow(
            variants=row.variants,
            reason=_without_place(row),
            place=file_link(row.place, pages),
            page=hold_link(row.kind),
        )
        for row in rows
    )


def _without_place(row: HoldRow) -> str:
    """The reason without its place, which stands behind it as a link."""
    if not row.place:
        return row.reason
    if row.reason.startswith("rule "):  # names itself with its place
        return row.reason.replace(f" ({row.place})", "", 1)
    return row.reason.removesuffix(f" ({row.place})").removesuffix(f", {row.place}").removesuffix(f" at {row.place}")


def _queries(plan: Plan, changes: Sequence[Decision]) -> tuple[Link, ...]:
    """What was asked for the numbers of these changes, each once, cluster by cluster."""
    names: dict[tuple[str, str], None] = {}
    for change in changes if plan.asked else ():
        figures = (figure for figure in plan.figures.get(change.variant, ()) if figure.value is not None)
        names.update(dict.fromkeys((change.variant.cluster, name) for figure in figures for name in figure.queries))
    links = (link for cluster, name in names for link in query_links(plan, cluster, [name]))
    return tuple(links)


def _detail_row(decision: Decision, labels: Mapping[ResourceKey, str], pages: Pages) -> DetailRow:
    return DetailRow(
        variant=labels[decision.variant],
        model=decision.model.model_id,
        place=file_link(decision.place, pages),
        written_at=tuple(file_link(place, pages) for place in decision.written_at),
        written_as=_written_as(decision),
        moved_to=decision.desired.accelerator,
        moved_in=tuple(
            MovedRow(
                file=file_link(f"{each.path}:1", PLAIN if each.is_new else pages, text=each.path),
                is_patch=each.is_patch,
                is_new=each.is_new,
            )
            for each in decision.moved_in
        ),
        steps=decision.steps,
    )


def _written_as(decision: Decision) -> str:
    if not decision.bounds_of:
        return ""
    return f"{'the lower bound' if len(decision.written_at) == 1 else 'the bounds'} of {decision.bounds_of}"


def _commit_line(change: Decision, label: str) -> str:
    row = change_row(change, label)
    parts = [f"{row.count} {'replica' if change.desired.replicas == 1 else 'replicas'}"]
    if row.accelerator.before:
        parts.append(str(row.accelerator))
    return f"{label}: {', '.join(parts)}"
