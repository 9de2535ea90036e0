"""A review of somebody's pull request: summary, findings, JSON, and the comment."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision
from reconciler.domain.records import dataclass, replace
from reconciler.domain.reports import AllocationRemark, Objection, Review, Reviewed, SettingRemark
from reconciler.manifests.wording import join_words, name_first
from reconciler.report.findings import finding_json, finding_words, shown_path
from reconciler.report.formatting import (
    count,
    duration,
    labels_of,
    money_change,
    one_line,
    quantity,
    round_money_change,
)
from reconciler.report.rows import slo_name
from reconciler.report.summary import HOURS_A_MONTH

JSON_VERSION = 1
RULE = "review"
_SEVERITIES = {
    Objection.REFUSE: Severity.ERROR,
    Objection.SLO: Severity.ERROR,
    Objection.HOLD: Severity.WARNING,
    Objection.APPROVAL: Severity.WARNING,
    Objection.NONE: Severity.NOTE,
}


def review_findings(review: Review) -> tuple[Finding, ...]:
    """Every remark as a finding at its line, in the rule `review-refuse` and so on, and what is wrong in the head."""
    labels = _labels(review)
    remarks = [
        *(
            (each.path, each.line, allocation_words(each, labels, review.currency), each.objection)
            for each in review.allocations
        ),
        *((each.path, each.line, f"{_subject(each, review)}: {each.words}", each.objection) for each in review.others),
    ]
    told = (
        Finding(
            place=Place(path=path, line=line),
            severity=_SEVERITIES[objection],
            message=words,
            rule=f"{RULE}-{'note' if objection is Objection.NONE else objection}",
        )
        for path, line, words, objection in remarks
    )
    return tuple(sorted({*told, *review.findings}))


def review_summary(review: Review) -> str:
    """`2 variants change: +$3.10/h; 1 breaks a rule, 1 misses a target`."""
    if review.unreviewed:
        return f"not reviewed: {one_line(review.unreviewed)}"
    changes = [each.objection for each in review.allocations]
    parts = (
        (Objection.REFUSE, "breaks a rule"),
        (Objection.SLO, "misses a target"),
        (Objection.HOLD, "cannot be judged"),
        (Objection.APPROVAL, "needs approval"),
    )
    objected = [f"{changes.count(each)} {words}" for each, words in parts if each in changes]
    errors = sum(finding.severity is Severity.ERROR for finding in review.findings)
    objections = ", ".join([*objected, *([count(errors, "error")] if errors else [])])
    before, after = review.totals.cost_before_per_hour, review.totals.cost_after_per_hour
    cost = "" if before is None or after is None else _money(after - before, review.currency)
    if review.unpriced:
        cost += f" and {count(review.unpriced, 'change')} of unknown cost"
    head = f"{count(len(changes), 'variant')} {'changes' if len(changes) == 1 else 'change'}: {cost}"
    return f"{head}; {objections}" if objections else head


def _labels(review: Review) -> Mapping[ResourceKey, str]:
    """What each variant is called: with its cluster where there are several."""
    keys = {key for each in review.allocations for key in (each.variant, each.renamed) if key is not None}
    labels = labels_of(keys)
    is_named = len({key.cluster for key in keys}) > 1 or review.clusters == 1
    return labels if is_named else {key: f"{key.cluster}/{label}" for key, label in labels.items()}


def _subject(remark: SettingRemark, review: Review) -> str:
    return f"{remark.cluster}/{remark.subject}" if remark.cluster and review.clusters > 1 else remark.subject


def allocation_words(remark: AllocationRemark, labels: Mapping[ResourceKey, str], currency: str) -> str:
    """`sets chat/llama to 2 replicas; its demand of 183 req/s needs 5 (TTFT p95 1.4 s, target 500 ms); −$20.64/h`."""
    label = labels[remark.variant]
    done = _done(remark, label)
    if remark.renamed is not None:
        done = f"renames {label} to {labels[remark.renamed]}" + (
            f" and {done}" if remark.before != remark.after else ""
        )
    return "; ".join([done, *_judged(remark, currency)])


def is_silent(review: Review) -> bool:
    """Whether there is nothing to say: no decision depends on what it changes."""
    return not (review.allocations or review.others or review.findings or review.notes or review.unreviewed)


def told_fingerprint(review: Review) -> str:
    """sha256 of what a review says, without a number that was measured: loads move without telling people anything."""
    said = [
        [
            [
                str(each.variant),
                _allocation_json(each.before),
                _allocation_json(each.after),
                str(each.objection),
                each.breaks,
                each.approvals,
                each.facts,
                each.needed is None,
            ]
            for each in review.allocations
        ],
        [[each.cluster, each.subject, each.words, str(each.objection)] for each in review.others],
        [[finding.place.path, finding.place.field, finding.message] for finding in sorted(review.findings)],
        [review.notes, bool(review.failures), bool(review.refusals), review.unreviewed],
    ]
    return hashlib.sha256(json.dumps(said).encode("utf-8", "surrogatepass")).hexdigest()


def review_json(review: Review) -> Mapping[str, object]:
    """What `--output json` prints; what is unknown is null."""
    labels = _labels(review)
    return {
        "version": JSON_VERSION,
        "base": review.base,
        "head": review.head,
        "summary": review_summary(review),
        "cost_before_per_hour": review.totals.cost_before_per_hour,
        "cost_after_per_hour": review.totals.cost_after_per_hour,
        "unpriced": review.unpriced,
        "changes": [
            {
                "variant": str(each.variant),
                "before": _allocation_json(each.before),
                "after": _allocation_json(each.after),
                "needed_replicas": each.needed,
                "added_cost_per_hour": each.added_cost_per_hour,
                "breaks": list(each.breaks),
                "approvals": list(each.approvals),
                "objection": str(each.objection),
                "words": allocation_words(each, labels, review.currency),
            }
            for each in review.allocations
        ],
        "others": [
            {"subject": _subject(each, review), "words": each.words, "objection": str(each.objection)}
            for each in review.others
        ],
        "findings": [finding_json(finding) for finding in review.findings],
        "notes": list(review.notes),
    }


def open_reviews_text(reviewed: Sequence[Reviewed]) -> str:
    """A line for each pull request that was reviewed now, then how many there were."""
    lines = [f"#{each.number}  {review_summary(each.review)}" for each in reviewed if each.review is not None]
    known = sum(not each.review and not each.reason for each in reviewed)
    return "\n".join([*lines, f"{count(len(lines), 'pull request')} reviewed, {known} already were"]) + "\n"


def open_reviews_json(reviewed: Iterable[Reviewed]) -> Mapping[str, object]:
    """The same for scripts; without a review and a reason there was nothing new."""
    return {
        "version": JSON_VERSION,
        "pull_requests": [
            {
                "number": each.number,
                "review": None if each.review is None else review_json(each.review),
                "reason": each.reason or None,
            }
            for each in reviewed
        ],
    }


def _done(remark: AllocationRemark, label: str) -> str:
    before, after = remark.before, remark.after
    if after is None:
        return f"removes {label}"
    if remark.scaled_by and before is not None:
        return f"has {label} scaled by {remark.scaled_by}"
    replicas = count(after.replicas, "replica")
    on = f" on {after.accelerator}" if after.accelerator else ""
    if before is None:
        return f"adds {label} with {replicas}{on}"
    if before.accelerator != after.accelerator:
        return f"moves {label} from {before.accelerator or 'an unknown accelerator'} to {replicas}{on}"
    if before != after:
        return f"sets {label} to {replicas}"
    if remark.judged is not None and remark.judged.hold is not None:
        return f"keeps plans from sizing {label}"
    return f"changes what {label} {'costs' if remark.needed_before is None else 'needs'}"


def _money(per_hour: float, currency: str) -> str:
    """`+$3.10/h (+$2,263 a month)`."""
    hourly = f"{money_change(per_hour, currency)}/h"
    return f"{hourly} ({round_money_change(per_hour * HOURS_A_MONTH, currency)} a month)" if per_hour else hourly


def _judged(remark: AllocationRemark, currency: str) -> Iterator[str]:
    decision, cost = remark.judged, remark.added_cost_per_hour
    yield from remark.facts
    if decision is not None and decision.hold is not None:
        is_told = remark.before == remark.after
        yield decision.hold.words if is_told else f"what that does is not known: {decision.hold.words}"
    elif decision is not None:
        yield from _against_demand(remark, decision)
    if cost is None:
        yield "its cost is not known"
    elif cost:
        yield _money(cost, currency)
    if remark.breaks:
        yield f"breaks {_rules(remark.breaks)}"
    if remark.approvals:
        yield f"needs approval by {_rules(remark.approvals)}"


def _rules(names: Sequence[str]) -> str:
    return join_words([f"`{name}`" for name in names], "and")


def _against_demand(remark: AllocationRemark, decision: Decision) -> Iterator[str]:
    """What is needed, the expected latency before and after, and the room that is left."""
    worst = max(
        (slo for slo in decision.slos if slo.after_s is not None),
        key=lambda slo: (slo.after_s or 0.0) / slo.target_s,
        default=None,
    )
    expected = ""
    if worst is not None:
        came = f"{duration(worst.before_s)} → " if worst.before_s is not None else ""
        expected = f"{slo_name(worst)} {came}{duration(worst.after_s)}, target {duration(worst.target_s)}"
    after = remark.after.replicas if remark.after is not None else 0
    is_other = remark.needed_before is not None or remark.needed != after
    if remark.demand is not None and remark.needed is not None and is_other:
        instead = "" if remark.needed_before is None else f" instead of {remark.needed_before}"
        demand = f"{quantity(remark.demand, decision.unit)} {decision.unit}"
        yield f"its demand of {demand} needs {remark.needed}{instead}" + (f" ({expected})" if expected else "")
    elif expected:
        yield f"expected {expected}"
    now, was = remark.carried, remark.carried_before
    if now is not None and now > 1:
        yield f"room for {now - 1:.0%} more"
    elif now is not None and after:
        instead = "" if was is None or f"{was:.0%}" == f"{now:.0%}" else f" instead of {was:.0%}"
        yield f"carries {now:.0%} of it{instead}"


def _allocation_json(allocation: Allocation | None) -> Mapping[str, object] | None:
    if allocation is None:
        return None
    return {"accelerator": allocation.accelerator or None, "replicas": allocation.replicas}


# The comment under a pull request.

ROWS = (200, 50, 10)
"""How many rows a comment has, the fewer the shorter it must be."""
SHORT = 10
_MARKS = {Severity.ERROR: "✗", Severity.WARNING: "?", Severity.NOTE: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRow:
    """One remark: a mark that colour does not carry, its words, and where it is caused."""

    mark: str
    words: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentView:
    """All of a comment; `left_out` counts rows that did not fit, `notes` tell what was not looked at."""

    summary: str
    rows: tuple[CommentRow, ...]
    notes: tuple[str, ...]
    left_out: str
    head: str
    marker: str


def comment_view(review: Review, marker: str) -> CommentView:
    """The gravest remarks first; what is said of several in the same words is one row."""
    ordered = sorted(review_findings(review), key=lambda each: (tuple(_MARKS).index(each.severity), each))
    return CommentView(
        summary=review_summary(review),
        rows=tuple(map(_row, _joined(ordered, review))),
        notes=(*review.notes, *review.failures, *review.refusals),
        left_out="",
        head=review.head[:SHORT],
        marker=marker,
    )


MOST_JOINED = 5
"""Subjects of one row that are named."""


def _joined(findings: Iterable[Finding], review: Review) -> Iterator[Finding]:
    said = {f"{_subject(each, review)}: {each.words}": each for each in review.others}
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        remark = said.get(finding.message)
        key = finding if remark is None else (finding.severity, finding.place.path, remark.words)
        groups.setdefault(key, []).append(finding)
    for group in groups.values():
        remarks = [said[each.message] for each in group if each.message in said]
        if len(group) > 1:
            subjects = name_first([_subject(each, review) for each in remarks[:MOST_JOINED]], len(remarks))
            yield replace(group[0], message=f"{subjects}: {remarks[0].words}")
        else:
            yield group[0]


def reductions(view: CommentView) -> Iterator[CommentView]:
    """The view with ever fewer rows."""
    for rows in ROWS:
        more = len(view.rows) - rows
        yield replace(view, rows=view.rows[:rows], left_out=count(more, "more remark") if more > 0 else "")


def _row(finding: Finding) -> CommentRow:
    line = f":{finding.place.line}" if finding.place.line else ""
    place = f"{shown_path(finding)}{line}" if finding.place.path else ""
    return CommentRow(mark=_MARKS[finding.severity], words=finding_words(finding), place=place)
