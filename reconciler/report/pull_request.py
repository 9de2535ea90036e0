"""The views that pull-request templates print: body, commit, condition changes, and the outcome after a merge."""

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import (
    DOCUMENTATION,
    RATE,
    RULES,
    AskedPrometheus,
    Decision,
    ExpectedLoad,
    GroupPlan,
    Outcome,
    Pages,
    Plan,
    Step,
    VerdictKind,
)
from reconciler.domain.proposals import ChangeOutcome, ConditionFlip, MergedOutcome
from reconciler.domain.records import dataclass, replace
from reconciler.report.formatting import COST_UNITS, UNKNOWN, count, model_name, one_line, quantity, short_labels_of
from reconciler.report.rows import MARKS, ChangeRow, HoldRow, by_urgency, change_row, hold_rows
from reconciler.report.summary import (
    HEADER_LENGTH,
    NAME_LENGTH,
    SUBJECT_LENGTH,
    consequence,
    cost_amount,
    cost_unit,
    counts,
    currency_of,
    fleet_lines,
    losers,
    month_amount,
    of_outcome,
    prices,
    proof,
    put_back_lines,
    shortcoming,
    subject,
    title,
)
from reconciler.report.tuning import TuningRow, in_brief, tuning_rows, tuning_total

# Links to a line of a file, a query, a page of the documentation.

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>[1-9][0-9]{0,8})(?: .*)?")
_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
LONGEST_ADDRESS = 6000
"""Browsers and servers take more, and a body has better use for its room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A name, and where it leads; without an address it is just the name."""

    text: str
    address: str = ""


def file_link(place: str, pages: Pages, *, text: str = "") -> Link:
    """`path:12` or `path:12 spec.replicas` at the base commit; `text` shows something else for it."""
    found = _PLACE.fullmatch(place)
    if not pages.files_at or found is None:
        return Link(text=text or place)
    return Link(text=text or place, address=f"{pages.files_at}{_encoded(found['path'], also='/')}#L{found['line']}")


def commit_link(commit: str, pages: Pages) -> Link:
    """The base commit by its first seven digits."""
    return Link(text=commit[:7], address=pages.commit_at)


def hold_link(kind: str) -> Link:
    """The page that says what to do about a kind of hold."""
    return Link(text=kind, address=f"{DOCUMENTATION}/holds.md#{_encoded(kind)}") if kind else Link(text="")


def rule_link(rule: str) -> Link:
    """The page that says what each kind of rule does."""
    return Link(text=rule, address=RULES if rule else "")


def query_links(plan: Plan, cluster: str, names: Iterable[str]) -> Iterator[Link]:
    """What was asked of a cluster under these names, as people see it for the day before the decision."""
    asked: AskedPrometheus | None = plan.asked.get(cluster)
    for name in names if asked is not None else ():
        query = asked.queries.get(name, "") if asked is not None else ""
        address = _graph(asked.address, query, plan.now_s) if asked is not None and query else ""
        if address and len(address) <= LONGEST_ADDRESS:
            yield Link(text=one_line(name), address=address)


def _graph(address: str, query: str, now_s: float) -> str:
    moment = datetime.fromtimestamp(now_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    values: Mapping[str, str] = {
        "g0.expr": query,
        "g0.tab": "0",
        "g0.range_input": "1d",
        "g0.end_input": moment,
        "g0.moment_input": moment,
    }
    parameters = "&".join(f"{name}={_encoded(value)}" for name, value in values.items())
    return f"{address.rstrip('/')}/graph?{parameters}"


def _encoded(text: str, *, also: str = "") -> str:
    """`text` as a part of an address: all but letters, digits, `-._~` and `also` as bytes of UTF-8."""
    kept = (_PLAIN + also).encode()
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))


# The chart of a model's load and its capacity before and after a change: text, never an image.

MOST_POINTS = 24
LEAST_POINTS = 4
"""Fewer say less than the number does."""
HOUR_S, MINUTE_S = 3600.0, 60.0
STEPS_S = (MINUTE_S, 5 * MINUTE_S, 10 * MINUTE_S, 15 * MINUTE_S, 30 * MINUTE_S, HOUR_S)
"""What a point may stand for."""
BARS = "▁▂▃▄▅▆▇█"
BLUE, GREY, ORANGE = "#3b82f6", "#8a8a8a", "#d97706"
FAN = ("#93c5fd", "#93c5fd", BLUE, "#dbeafe")
"""Of the quantiles of what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart's lines as numbers, in words what each is, and the first one in characters.

    `axis` says what the bottom counts: it runs from `span` of them ago to now, or `ahead` of it where a load is
    expected. `lines` are the peaks of the measured load, once for each quantile of what is expected that they end in,
    then capacities, each with as many numbers, and `colors` theirs.
    """

    title: str
    unit: str
    axis: str
    span: str
    ahead: str
    highest: str
    colors: str
    lines: tuple[tuple[str, ...], ...]
    sparkline: str
    load_words: str
    capacity_words: str


def picture_of(plan: Plan, changes: Sequence[Decision]) -> Picture | None:
    """The picture of the first of `changes` whose load was measured long enough; None without one."""
    seen = set()
    for change in changes:
        if change.model in seen or change.unit != RATE or change.is_tuning:
            continue
        seen.add(change.model)
        points = plan.histories.get(change.model, ())
        before, after = _capacities(plan, change)
        if len(points) >= LEAST_POINTS and after is not None:
            return _drawn(change, points, before, after, plan.expected.get(change.model))
    return None


def _capacities(plan: Plan, change: Decision) -> tuple[float | None, float | None]:
    """What all variants of the model carry now, and what with every change of this plan."""
    serving = [each for each in plan.decisions if each.model == change.model]
    before = [each.capacity_before for each in serving if each.capacity_before is not None]
    after = [each.capacity_after for each in serving if each.capacity_after is not None]
    return (sum(before) if before else None), (sum(after) if after else None)


def _drawn(
    change: Decision,
    points: Sequence[tuple[float, float]],
    before: float | None,
    after: float,
    expected: ExpectedLoad | None,
) -> Picture:
    oldest_s = points[0][0]
    each_s = next((step_s for step_s in STEPS_S if oldest_s < step_s * MOST_POINTS), STEPS_S[-1])
    peaks = _peaks(points, each_s)[(0 if expected is None else 1 - MOST_POINTS) :]
    ahead = 0 if expected is None else 1
    levels = dict.fromkeys(level for level in (before, after) if level is not None)
    loads = [peaks] if expected is None else [[*peaks, per_s] for per_s in expected.per_s.values()]
    lines = (*loads, *([level] * (len(peaks) + ahead) for level in levels))
    is_long = oldest_s >= 2 * HOUR_S
    words = f"{quantity(after, RATE)} {RATE} expected after this change"
    if before is not None and before != after:
        words = f"{quantity(before, RATE)} {RATE} expected now, {words}"
    return Picture(
        title=f"{model_name(change.model)}, {RATE}",
        unit=RATE,
        axis="hours" if is_long else "minutes",
        span=f"{(len(peaks) - 1) * each_s / (HOUR_S if is_long else MINUTE_S):g}",
        ahead=f"{ahead * each_s / (HOUR_S if is_long else MINUTE_S):g}",
        colors=", ".join([*([BLUE] if expected is None else FAN), GREY, ORANGE]),
        highest=_number(1.1 * max(map(max, lines))),
        lines=tuple(tuple(map(_number, line)) for line in lines),
        sparkline=_sparkline(peaks),
        load_words=(
            f"load measured in the last {_spelled(len(peaks) * each_s)}, the peak of each {_spelled(each_s, of=1)}: "
            f"{_range(quantity(min(peaks), RATE), quantity(max(peaks), RATE))} {RATE}{_fan_words(expected)}"
        ),
        capacity_words=f"model capacity, {words}",
    )


def _fan_words(expected: ExpectedLoad | None) -> str:
    if expected is None:
        return ""
    low, high, most, rare = (quantity(each, RATE) for each in expected.per_s.values())
    return (
        f"; the load expected {expected.told_window} is half of the time {low} to {high}, nine times in ten at most "
        f"{most}, and once in a hundred above {rare} {RATE}"
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


# The outcome of a merged pull request.


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeView:
    """What the template prints."""

    changes: tuple[ChangeOutcome, ...]
    is_broken: bool


def outcome_view(outcome: MergedOutcome) -> OutcomeView:
    """The end of a merged pull request's text."""
    return OutcomeView(changes=outcome.changes, is_broken=outcome.is_broken)


def outcome_lines(outcome: MergedOutcome) -> Iterator[str]:
    """The same for a terminal."""
    words = "did not do what it was merged for" if outcome.is_broken else "does what it was merged for"
    yield f"pull request #{outcome.number} {words}"
    yield from (f"   {one_line(each.resource)}: {one_line(each.words)}" for each in outcome.changes)


# Views of the body and the commit: frozen values, with every number formatted.

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
    groups: tuple[str, ...] = ()
    """The groups whose changes limits put into one pull request; empty for one group."""
    merges: MergeRow | None = None
    canary: tuple[str, ...] = ()
    """Of an experiment, a sentence each; the plan outside of pull requests tells those of all."""
    tuning: tuple[TuningRow, ...] = ()
    tuning_total: str = ""
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
    groups = tuple(map(one_line, sorted({each.group for each in group.changes} - {group.name})))
    return replace(view, is_proposal=True, marker=marker, merges=_merge_row(group, pages), groups=groups)


def plan_view(plan: Plan, pages: Pages = PLAIN, *, without_daily: bool = False) -> PullRequestView:
    """The whole plan in the same words, with what went wrong; with or without holds of which one run a day knows."""
    changes = plan.with_outcome(Outcome.CHANGE)
    heading = title(changes, plan.branch, currency_of(plan, changes))
    problems = (*plan.refusals, *plan.failures, *map(str, plan.findings), *plan.warnings)
    told = [each for each in plan.decisions if not (without_daily and each.hold is not None and each.hold.is_daily)]
    view = _view(plan, told, heading, pages)
    return replace(view, problems=tuple(map(one_line, problems)), put_back=tuple(put_back_lines(plan)))


def commit_view(group: GroupPlan, *, sign_off: str = "") -> CommitView:
    """One group's commit; its trailer carries the decision's fingerprint."""
    changes = by_urgency(group.changes)
    labels = short_labels_of(change.variant for change in changes)
    return CommitView(
        subject=subject(changes, group.name),
        lines=tuple(_wrapped(_commit_line(change, labels[change.variant]) for change in changes)),
        decision=group.fingerprint,
        sign_off=sign_off,
    )


def reductions(view: PullRequestView) -> Iterator[PullRequestView]:
    """The view, then ever shorter ones: without the details, the held, the verdicts, then with fewer rows.

    What it cuts is named only where there was any.
    """
    yield view
    for text, shorten in _SHORTENINGS:
        shorter = shorten(view)
        if shorter != view:
            view = replace(shorter, cut=(*view.cut, text))
            yield view
    view = replace(view, problems=view.problems[:ROWS_KEPT])
    if len(view.rows) > ROWS_KEPT:
        left_out = count(len(view.rows) - ROWS_KEPT, "row")
        view = replace(view, rows=view.rows[:ROWS_KEPT], cut=(*view.cut, f"{left_out} of the table"))
        yield view
    if len(view.tuning) > ROWS_KEPT:
        left_out = count(len(view.tuning) - ROWS_KEPT, "autoscaler")
        yield replace(view, tuning=view.tuning[:ROWS_KEPT], cut=(*view.cut, left_out))


_SHORTENINGS: tuple[tuple[str, Callable[[PullRequestView], PullRequestView]], ...] = (
    ("the details", lambda view: replace(view, details=(), unchanged=(), fleet=(), queries=())),
    ("the picture", lambda view: replace(view, picture=None)),
    ("what else was tried of autoscalers", lambda view: replace(view, tuning=tuple(map(in_brief, view.tuning)))),
    ("what is held", lambda view: replace(view, held=(), waiting=(), put_back=())),
    ("the reasons of verdicts", lambda view: replace(view, verdicts=())),
    ("what a merge restarts", lambda view: replace(view, restarted=(), cautions=())),
)


def _experiments(changes: Iterable[Decision]) -> Iterator[str]:
    for each in changes:
        yield from () if each.canary is None else each.canary.words
        if each.tried:
            yield f"{each.variant.label} was an experiment, and is sized by what it measured, at the slow edge."
            yield from each.tried


def _view(plan: Plan, decisions: Sequence[Decision], heading: str, pages: Pages) -> PullRequestView:
    changes = by_urgency(of_outcome(decisions, Outcome.CHANGE))
    held = of_outcome(decisions, Outcome.HELD)
    labels = short_labels_of(decision.variant for decision in decisions)
    served = Counter(decision.model for decision in plan.decisions)
    rows = tuple(
        _table_row(change, labels[change.variant], pages, marked=_differ(changes), is_alone=served[change.model] == 1)
        for change in changes
        if not change.is_tuning
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
        proof=_proof(plan, changes),
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
        canary=tuple(map(one_line, _experiments(changes))),
        tuning=tuple(tuning_rows(changes, labels)),
        tuning_total=tuning_total(changes, currency_of(plan, changes) or COST_UNITS),
    )


def _proof(plan: Plan, changes: Sequence[Decision]) -> str:
    """What the solver proved of these changes, and what more of something shared would save."""
    if changes and all(change.is_tuning for change in changes):
        return ""
    is_experiment = any(change.canary is not None for change in changes)  # of which nothing is proven
    return " ".join(filter(None, ("" if is_experiment else proof(plan, changes), prices(plan))))


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
        if verdict.approval and verdict.awaits_approval:
            asked = (VerdictKind.NEEDS_APPROVAL, verdict.approval, verdict.approval_reason)
            groups.setdefault(asked, []).append(labels[change.variant])
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
    one = "the upper bound" if decision.current.replicas == decision.desired.replicas else "the lower bound"
    return f"{one if len(decision.written_at) == 1 else 'the bounds'} of {decision.bounds_of}"


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Lines of a commit that are not too long for commitlint."""
    for line in lines:
        yield from textwrap.wrap(line, HEADER_LENGTH, subsequent_indent="  ", break_on_hyphens=False)


def _commit_line(change: Decision, label: str) -> str:
    if change.is_tuning:
        fields = (f"{each.name} {each.before or 'unset'} -> {each.after or 'unset'}" for each in change.setting_changes)
        return f"{label}: {', '.join(fields)}"
    row = change_row(change, label)
    parts = [f"{row.count} {'replica' if change.desired.replicas == 1 else 'replicas'}"]
    if row.accelerator.before:
        parts.append(str(row.accelerator))
    return f"{label}: {', '.join(parts)}"


# The pull request that changes nothing and delivers changed conditions.


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRow:
    """One condition: as the last status said it, and as it is."""

    variant: str
    condition: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionsView:
    """Everything that pull request says; `cut` is how many rows were left out to fit a limit, in words."""

    title: str
    count: str
    group: str
    rows: tuple[FlipRow, ...]
    commit: Link
    marker: str
    cut: str = ""


def conditions_view(plan: Plan, group: GroupPlan, *, pages: Pages = PLAIN, marker: str = "") -> ConditionsView:
    """One group's; `marker` is the hidden comment that identifies it, placed last and never cut."""
    labels = short_labels_of(flip.variant for flip in group.flips)
    place = one_line(group.name, limit=80)
    return ConditionsView(
        title=f"Deliver conditions of {_names(labels)} in {place}",
        count=count(len(group.flips), "condition"),
        group=place,
        rows=tuple(
            FlipRow(
                variant=labels[flip.variant],
                condition=flip.type,
                before=flip.before,
                after=flip.after,
                reason=one_line(flip.reason),
            )
            for flip in group.flips
        ),
        commit=commit_link(plan.commit, pages),
        marker=marker,
    )


def fewer_rows(view: ConditionsView) -> Iterator[ConditionsView]:
    """The view, then with as few rows as a table keeps."""
    yield view
    if len(view.rows) > ROWS_KEPT:
        left_out = count(len(view.rows) - ROWS_KEPT, "row")
        yield replace(view, rows=view.rows[:ROWS_KEPT], cut=left_out)


def conditions_commit_view(group: GroupPlan, *, sign_off: str = "") -> CommitView:
    """One group's commit; its trailer carries the fingerprint of what flipped."""
    labels = short_labels_of(flip.variant for flip in group.flips)
    subject = f"Deliver conditions in {one_line(group.name, limit=SUBJECT_LENGTH)}"
    return CommitView(
        subject=subject if len(subject) <= SUBJECT_LENGTH else f"Deliver {count(len(group.flips), 'condition')}",
        lines=tuple(_wrapped(flip_lines(group.flips, labels))),
        decision=group.fingerprint,
        sign_off=sign_off,
    )


def flip_lines(flips: Iterable[ConditionFlip], labels: Mapping[ResourceKey, str]) -> Iterator[str]:
    """`llama OptimizationReady True -> False`, one a condition."""
    for flip in flips:
        yield one_line(f"{labels[flip.variant]} {flip.type} {flip.before} -> {flip.after}")


def _names(labels: Mapping[ResourceKey, str]) -> str:
    first, *others = labels.values()
    return one_line(first, limit=NAME_LENGTH) + (f" and {len(others)} more" if others else "")
