"""A review of somebody's pull request: summary, findings, JSON, and the comment."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision
from reconciler.domain.reports import AllocationRemark, Objection, Review, Reviewed
from reconciler.report.findings import finding_json, finding_words, shown_path
from reconciler.report.formatting import count, duration, labels_of, money_change, one_line, quantity
from reconciler.report.rows import slo_name

JSON_VERSION = 1
RULE = "review"
_SEVERITIES = {
    Objection.REFUSE: Severity.ERROR,
    Objection.SLO: Severity.ERROR,
    Objection.HOLD: Severity.WARNING,
    Objection.NONE: Severity.NOTE,
}


def review_findings(review: Review) -> tuple[Finding, ...]:
    """Every remark as a finding at its line, in the rule `review-refuse` and so on, and what is wrong in the head."""
    labels = labels_of(each.variant for each in review.allocations)
    remarks = [
        *(
            (each.path, each.line, allocation_words(each, labels, review.currency), each.objection)
            for each in review.allocations
        ),
        *((each.path, each.line, f"{each.subject}: {each.words}", each.objection) for each in review.others),
    ]
    told = (
        Finding(
            place=Place(path=path, line=line),
            severity=_SEVERITIES[objection],
            message=words,
            rule=f"{RULE}-{objection}",
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
    )
    objected = [f"{changes.count(each)} {words}" for each, words in parts if each in changes]
    errors = sum(finding.severity is Severity.ERROR for finding in review.findings)
    objections = ", ".join([*objected, *([count(errors, "error")] if errors else [])])
    before, after = review.totals.cost_before_per_hour, review.totals.cost_after_per_hour
    cost = (
        money_change(after - before, review.currency) + "/h"
        if before is not None and after is not None
        else "cost unknown"
    )
    head = f"{count(len(changes), 'variant')} {'changes' if len(changes) == 1 else 'change'}: {cost}"
    return f"{head}; {objections}" if objections else head


def allocation_words(remark: AllocationRemark, labels: Mapping[ResourceKey, str], currency: str) -> str:
    """`sets chat/llama to 2 replicas; its demand of 183 req/s needs 5 (TTFT p95 1.4 s, target 500 ms); −$20.64/h`."""
    label = labels[remark.variant]
    return "; ".join([_done(remark, label), *_judged(remark, currency)])


def is_silent(review: Review) -> bool:
    """Whether there is nothing to say to anybody: what it changes, nobody decides by."""
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
                each.facts,
                each.needed is None,
            ]
            for each in review.allocations
        ],
        [[each.subject, each.words, str(each.objection)] for each in review.others],
        [[finding.place.path, finding.place.field, finding.message] for finding in sorted(review.findings)],
        [review.notes, bool(review.failures), bool(review.refusals), review.unreviewed],
    ]
    return hashlib.sha256(json.dumps(said).encode("utf-8", "surrogatepass")).hexdigest()


def review_json(review: Review) -> Mapping[str, object]:
    """What `--output json` prints; what is unknown is null."""
    labels = labels_of(each.variant for each in review.allocations)
    return {
        "version": JSON_VERSION,
        "base": review.base,
        "head": review.head,
        "summary": review_summary(review),
        "cost_before_per_hour": review.totals.cost_before_per_hour,
        "cost_after_per_hour": review.totals.cost_after_per_hour,
        "changes": [
            {
                "variant": str(each.variant),
                "before": _allocation_json(each.before),
                "after": _allocation_json(each.after),
                "needed_replicas": each.needed,
                "objection": str(each.objection),
                "words": allocation_words(each, labels, review.currency),
            }
            for each in review.allocations
        ],
        "others": [
            {"subject": each.subject, "words": each.words, "objection": str(each.objection)} for each in review.others
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
    replicas = count(after.replicas, "replica")
    on = f" on {after.accelerator}" if after.accelerator else ""
    if before is None:
        return f"adds {label} with {replicas}{on}"
    if before.accelerator != after.accelerator:
        return f"moves {label} from {before.accelerator or 'an unknown accelerator'} to {replicas}{on}"
    return f"sets {label} to {replicas}"


def _judged(remark: AllocationRemark, currency: str) -> Iterator[str]:
    decision = remark.judged
    if decision is None:
        yield from remark.facts
        if remark.added_cost_per_hour:
            yield f"{money_change(remark.added_cost_per_hour, currency)}/h"
        return
    yield from remark.facts
    if remark.added_cost_per_hour:
        yield f"{money_change(remark.added_cost_per_hour, currency)}/h"
    if decision.hold is not None:
        yield f"what that does cannot be told: {decision.hold.words}"
    else:
        yield from _against_demand(remark, decision)
    before, after = decision.cost_before_per_hour, decision.cost_after_per_hour
    if before is not None and after is not None and before != after:
        yield f"{money_change(after - before, currency)}/h"
    if remark.breaks:
        yield f"breaks {' and '.join(f'`{rule}`' for rule in remark.breaks)}"


def _against_demand(remark: AllocationRemark, decision: Decision) -> Iterator[str]:
    missed = [slo for slo in decision.slos if slo.is_met_after is False]
    worst = max(missed, key=lambda slo: (slo.after_s or 0.0) / slo.target_s, default=None)
    target = ""
    if worst is not None:
        target = f" ({slo_name(worst)} {duration(worst.after_s)}, target {duration(worst.target_s)})"
    after = remark.after.replicas if remark.after is not None else 0
    if remark.demand is not None and remark.needed is not None and remark.needed != after:
        yield f"its demand of {quantity(remark.demand, decision.unit)} {decision.unit} needs {remark.needed}{target}"
    elif target:
        yield f"misses its target{target}"


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
    """The gravest remarks first."""
    ordered = sorted(review_findings(review), key=lambda each: (tuple(_MARKS).index(each.severity), each))
    return CommentView(
        summary=review_summary(review),
        rows=tuple(map(_row, ordered)),
        notes=(*review.notes, *review.failures, *review.refusals),
        left_out="",
        head=review.head[:SHORT],
        marker=marker,
    )


def reductions(view: CommentView) -> Iterator[CommentView]:
    """The view with ever fewer rows."""
    for rows in ROWS:
        more = len(view.rows) - rows
        yield replace(view, rows=view.rows[:rows], left_out=count(more, "more remark") if more > 0 else "")


def _row(finding: Finding) -> CommentRow:
    line = f":{finding.place.line}" if finding.place.line else ""
    place = f"{shown_path(finding)}{line}" if finding.place.path else ""
    return CommentRow(mark=_MARKS[finding.severity], words=finding_words(finding), place=place)
