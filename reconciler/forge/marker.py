"""Hidden markers in texts on the forge: which decision a pull request proposes, what a review reported."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from reconciler.domain.proposals import Part, Promise, PromisedLatency, Proposal, ProposalState, ProposedChange
from reconciler.domain.settings import Identity
from reconciler.forge.pull_requests import PullRequest, PullRequestState

# Promises: one row a change; a row that is not as we write it is no promise at all.

NUMBERS = ("demand", "capacity", "cost_per_hour", "arrival_rate_per_s", "input_tokens", "output_tokens")
"""Fields of a promise that are a number or not known, and their keys in a row."""
LATENCIES = ("itl", "ttft", "wait")
MOST_LATENCIES = 5
LARGEST = 1e15
"""No number of ours is larger."""
MAX_TEXT_LENGTH = 500
MAX_UNIT_LENGTH = 40
MAX_NUMBER = 10**9
"""Of a pull request."""


def promise_rows(promises: Sequence[Promise], resources: Sequence[str]) -> list[object]:
    """The promises in the order of these resources, as JSON; one that nothing was promised of has an empty row."""
    promised = {each.resource: each for each in promises}
    return [_promise_row(promised[each]) if each in promised else {} for each in resources]


def parse_promises(rows: object, resources: Sequence[str]) -> tuple[Promise, ...]:
    """The promises of these resources; none where one row is not as we write it, or their number is another."""
    if not isinstance(rows, list) or len(rows) != len(resources):
        return ()
    found: list[Promise] = []
    for row, resource in zip(rows, resources, strict=True):
        promise = _parse_promise(row, resource)
        if promise is None:
            return ()
        found.append(promise)
    return tuple(found)


def _promise_row(promise: Promise) -> dict[str, object]:
    row: dict[str, object] = {"unit": promise.unit}
    row |= {name: value for name in NUMBERS if (value := getattr(promise, name)) is not None}
    if promise.latencies:
        row["latencies"] = [
            [each.name, each.statistic, each.target_s, each.expected_s, each.mean_s, each.measured_s]
            for each in promise.latencies
        ]
    if promise.reverts is not None:
        row["reverts"] = promise.reverts
    return row


def _parse_promise(row: object, resource: str) -> Promise | None:
    if not isinstance(row, dict):
        return None
    numbers = {name: row.get(name) for name in NUMBERS}
    unit, reverts, latencies = row.get("unit", ""), row.get("reverts"), _parse_latencies(row.get("latencies", []))
    if not _is_text(unit, MAX_UNIT_LENGTH) or latencies is None or not all(map(_is_known_or_none, numbers.values())):
        return None
    if reverts is not None and not (type(reverts) is int and 0 < reverts <= MAX_NUMBER):
        return None
    return Promise(resource=resource, unit=str(unit), latencies=latencies, reverts=reverts, **_floats(numbers))


def _parse_latencies(rows: object) -> tuple[PromisedLatency, ...] | None:
    if not isinstance(rows, list) or len(rows) > MOST_LATENCIES:
        return None
    found = [_parse_latency(row) for row in rows]
    valid = tuple(each for each in found if each is not None)
    return valid if len(valid) == len(found) else None


def _parse_latency(row: object) -> PromisedLatency | None:
    if not isinstance(row, list) or len(row) != 6:
        return None
    name, statistic, target_s, *times_s = row
    if (
        name not in LATENCIES
        or not _is_text(statistic, MAX_UNIT_LENGTH)
        or not _is_number(target_s)
        or not target_s > 0
    ):
        return None
    if not all(map(_is_known_or_none, times_s)):
        return None
    times = _floats(dict(zip(("expected_s", "mean_s", "measured_s"), times_s, strict=True)))
    return PromisedLatency(name=name, statistic=statistic, target_s=float(target_s), **times)


def _is_known_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_number(value: object) -> bool:
    """Whether it is a number that we would write: JSON as Python reads it knows NaN, infinity and huge integers."""
    if type(value) is int:
        return 0 <= value <= LARGEST
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= LARGEST


def _floats(numbers: Mapping[str, object]) -> dict[str, float | None]:
    return {name: float(value) if isinstance(value, int | float) else None for name, value in numbers.items()}


# The marker of a pull request. Anybody who may edit the body may edit it, so it can only make us do less.

VERSION = 1
OPENING = "<!-- reconciler: "
CLOSING = " -->"

MAX_JSON_LENGTH = 16_000
"""Longer ones are not written with their changes, and not read at all."""
MAX_MARKERS = 20
MAX_REPLICAS = 1_000_000
DECISION = re.compile(r"[0-9a-f]{64}")

# `>` ends an HTML comment and `--` an XML one. Both occur only inside JSON strings, where escapes mean the same.
ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("--", "-\\u002d"))


class MarkerState(StrEnum):
    """OPEN as proposed; WITHDRAWN is written by us, before we close a pull request that became needless.

    TOLD: it was merged, and its text says what became of it.
    """

    OPEN = "open"
    WITHDRAWN = "withdrawn"
    TOLD = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What the marker says.

    `decision` is the decision fingerprint. Without `changes` (they were too many to write down) the memory of a closed
    decision falls back to the fingerprint alone; `promises` are one a change, or none at all. `part` is None in a
    marker from before groups had parts. `merges`: its text says that it merges by itself, without which it does not.
    """

    group: str
    decision: str
    part: Part | None = None
    state: MarkerState = MarkerState.OPEN
    changes: tuple[ProposedChange, ...] = ()
    promises: tuple[Promise, ...] = ()
    merges: bool = False


def write_marker(marker: Marker) -> str:
    """The comment for `marker`, on one line; what would make it too long is left out: promises first, then changes."""
    shorter = (marker, replace(marker, promises=()))
    texts = (text for each in shorter if len(text := _json(each)) <= MAX_JSON_LENGTH)
    return f"{OPENING}{next(texts, '') or _json(replace(marker, changes=(), promises=()))}{CLOSING}"


def read_marker(body: str) -> Marker | None:
    """The marker of a body, or None when there is no valid one."""
    found = _find(body)
    return found[0] if found else None


def withdrawn(body: str) -> str:
    """`body` with its marker's state set to withdrawn, and nothing else changed; without a marker as it was."""
    found = _find(body)
    if found is None:
        return body
    marker, start, end = found
    return body[:start] + write_marker(replace(marker, state=MarkerState.WITHDRAWN)) + body[end:]


def with_outcome(body: str, text: str) -> str:
    """`body` with `text` before its marker, whose state says that it was reported; without a marker as it was."""
    found = _find(body)
    if found is None:
        return body
    marker, start, end = found
    written = write_marker(replace(marker, state=MarkerState.TOLD))
    return f"{body[:start].rstrip()}\n{text}\n{written}{body[end:]}"


def body_digest(body: str) -> str:
    """sha256 of a body without what may differ for no reason: white space and the marker."""
    found = _find(body)
    text = body[: found[1]] + body[found[2] :] if found else body
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def _find(body: str) -> tuple[Marker, int, int] | None:
    """The last valid marker with its place: we write ours behind everything that quotes somebody else's words."""
    end_of_search = len(body)
    for _ in range(MAX_MARKERS):
        start = body.rfind(OPENING, 0, end_of_search)
        if start < 0:
            return None
        end = body.find(CLOSING, start, start + len(OPENING) + MAX_JSON_LENGTH + len(CLOSING))
        marker = _parse_marker(body[start + len(OPENING) : end]) if end >= 0 else None
        if marker is not None:
            return marker, start, end + len(CLOSING)
        end_of_search = start
    return None


def _json(marker: Marker) -> str:
    content: dict[str, object] = {
        "version": VERSION,
        "group": marker.group,
        **({"part": marker.part.value} if marker.part is not None else {}),
        "decision": marker.decision,
        "state": marker.state.value,
        **({"merges": True} if marker.merges else {}),
    }
    if marker.changes:
        content["changes"] = [
            [
                change.resource,
                change.replicas_before,
                change.replicas_after,
                change.accelerator_before,
                change.accelerator_after,
            ]
            for change in sorted(marker.changes)
        ]
    if marker.changes and marker.promises:
        content["promises"] = promise_rows(marker.promises, [each.resource for each in sorted(marker.changes)])
    return _escaped(content)


def _escaped(content: Mapping[str, object]) -> str:
    """JSON in which nothing ends a comment."""
    text = json.dumps(content, separators=(",", ":"))
    for plain, escaped in ESCAPES:
        text = text.replace(plain, escaped)
    return text


def _parse_marker(text: str) -> Marker | None:
    content = _load(text)
    if content is None or type(content.get("version")) is not int or content["version"] != VERSION:
        return None
    group, decision, state = content.get("group"), content.get("decision"), content.get("state")
    if not _is_text(group) or not isinstance(decision, str) or not DECISION.fullmatch(decision):
        return None
    if not isinstance(state, str) or state not in set(MarkerState):
        return None
    changes = _parse_changes(content.get("changes", []))
    # Promises are in the order of the changes; where that order is not ours, they cannot be assigned.
    resources, rows = [each.resource for each in changes], content.get("changes")
    is_ordered = isinstance(rows, list) and [row[0] for row in rows] == resources if changes else False
    return Marker(
        group=str(group),
        decision=decision,
        part=next((part for part in Part if part == content.get("part")), None),
        state=MarkerState(state),
        changes=changes,
        promises=parse_promises(content.get("promises"), resources) if is_ordered else (),
        merges=content.get("merges") is True,
    )


def _load(text: str) -> dict[str, object] | None:
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _parse_changes(rows: object) -> tuple[ProposedChange, ...]:
    """All rows, or none when one of them is not as we write it: half a memory would be a wrong one."""
    if not isinstance(rows, list):
        return ()
    changes = [_parse_change(row) for row in rows]
    valid = [change for change in changes if change is not None]
    return tuple(sorted(valid)) if len(valid) == len(changes) else ()


def _parse_change(row: object) -> ProposedChange | None:
    if not isinstance(row, list) or len(row) != 5:
        return None
    resource, before, after, accelerator_before, accelerator_after = row
    if not all(map(_is_text, (resource, accelerator_before, accelerator_after))):
        return None
    if not all(type(count) is int and 0 <= count <= MAX_REPLICAS for count in (before, after)):
        return None
    return ProposedChange(
        resource=resource,
        replicas_before=before,
        replicas_after=after,
        accelerator_before=accelerator_before,
        accelerator_after=accelerator_after,
    )


def _is_text(value: object, most: int = MAX_TEXT_LENGTH) -> bool:
    return isinstance(value, str) and len(value) <= most and value.isprintable()


# The marker of a review's comment, read from comments of our own alone; it too can only make us do less.

REVIEW_OPENING = "<!-- reconciler-review: "
MAX_NAMES = 8000
"""Characters of the names of variants; of more none is written down, and what is needed of them is not compared."""
DIGEST = re.compile(r"[0-9a-f]{40,64}")
TOLERANCE = 0.1
"""By how much of itself a number of replicas may move, or by one, before that is news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMarker:
    """What a comment was written for.

    `head` and `base` are commits, `told` is the fingerprint of what it says, without anything that was measured.
    `needed` are the replicas that a plan would have given each variant it speaks of, by the variant's name; below 0
    where it would have held one.
    """

    head: str
    base: str
    told: str
    needed: Mapping[str, int]

    def says(self, other: "ReviewMarker") -> bool:
        """Whether a comment for `other` would say nothing new."""
        return (self.head, self.told) == (other.head, other.told) and self.needs(other.needed)

    def needs(self, needed: Mapping[str, int]) -> bool:
        """Whether as many replicas are needed as then: noise moves them by one, or a tenth."""
        if self.needed.keys() != needed.keys():
            return False
        return all(_is_noise(self.needed[name], now) for name, now in needed.items())


def write_review_marker(marker: ReviewMarker) -> str:
    """The comment for `marker`, on one line."""
    content = {
        "version": VERSION,
        "head": marker.head,
        "base": marker.base,
        "told": marker.told,
        "needed": dict(sorted(marker.needed.items())),
    }
    return f"{REVIEW_OPENING}{_escaped(content)}{CLOSING}"


def is_marked(body: str) -> bool:
    """Whether a comment is a review's, its marker readable or not: a person who quotes one does not end with it."""
    return body.rstrip().rpartition("\n")[2].startswith(REVIEW_OPENING.rstrip())


def read_review_marker(body: str) -> ReviewMarker | None:
    """The last marker of a body; None when it is not valid."""
    start = body.rfind(REVIEW_OPENING)
    end = body.find(CLOSING, start, start + len(REVIEW_OPENING) + MAX_JSON_LENGTH)
    if start < 0 or end < 0:
        return None
    content = _load(body[start + len(REVIEW_OPENING) : end])
    if content is None or content.get("version") != VERSION:
        return None
    digests = [content.get(name) for name in ("head", "base", "told")]
    needed = content.get("needed")
    if not all(isinstance(each, str) and DIGEST.fullmatch(each) for each in digests) or not isinstance(needed, dict):
        return None
    if not all(type(count) is int and -1 <= count <= MAX_REPLICAS for count in needed.values()):
        return None
    head, base, told = map(str, digests)
    return ReviewMarker(head=head, base=base, told=told, needed=needed)


def _is_noise(then: int, now: int) -> bool:
    return then == now or (min(then, now) >= 0 and abs(now - then) <= max(1.0, TOLERANCE * then))


# From a pull request and the tip of its head branch to the proposal that decide sees.

TRAILER = "Reconciler-Decision"
TRAILER_LINE = re.compile(rf"{TRAILER}: ([0-9a-f]{{64}})")
PUSHES = "Reconciler-Earlier-Pushes"
"""A branch has one commit of ours, so its message lists earlier pushes of the last hour, in Unix seconds."""
MAX_PUSHES = 100
PUSHES_LINE = re.compile(rf"{PUSHES}: ([0-9]{{1,12}}(?: [0-9]{{1,12}}){{0,{MAX_PUSHES - 1}}})")
MAX_MESSAGE_LENGTH = 100_000


class BranchTip(Protocol):
    """The newest commit of a head branch, as git knows it."""

    @property
    def oid(self) -> str: ...

    @property
    def author(self) -> Identity: ...

    @property
    def committer(self) -> Identity: ...

    @property
    def message(self) -> str: ...

    @property
    def committed_s(self) -> float: ...


def proposal_of(pull_request: PullRequest, tip: BranchTip | None, ours: Identity) -> Proposal:
    """The proposal behind a pull request; `tip` is None when its head branch is gone.

    A person's commit on the branch is recognised by its author or committer, or by a missing trailer: the merge
    commit of the forge's own "update branch" button has none.
    """
    marker = read_marker(pull_request.body)
    decision = decision_of_commit(tip.message) if tip else ""
    return Proposal(
        group=marker.group if marker else "",
        number=pull_request.number,
        state=_state(pull_request, marker),
        head_branch=pull_request.head_branch,
        decision=marker.decision if marker else "",
        changes=marker.changes if marker else (),
        promises=marker.promises if marker else (),
        head_commit=tip.oid if tip else pull_request.head_commit,
        branch_decision=decision,
        touched_by=stranger_of(tip, ours) if tip else "",
        labels=pull_request.labels,
        in_merge_queue=pull_request.in_merge_queue,
        closed_at_s=pull_request.closed_at_s,
        opened_at_s=pull_request.opened_at_s,
        pushes_s=pushes_of(tip) if tip else (),
        title=pull_request.title,
        body_digest=body_digest(pull_request.body),
        url=pull_request.url,
    )


def decision_of_commit(message: str) -> str:
    """The decision fingerprint in a commit message's trailers; empty when there is none or more than one.

    Only the last paragraph holds trailers: a revert quotes the message that it reverts further up.
    """
    decisions = {match[1] for line in _trailers(message) if (match := TRAILER_LINE.fullmatch(line))}
    return decisions.pop() if len(decisions) == 1 else ""


def pushes_of(tip: BranchTip) -> tuple[float, ...]:
    """When a branch was pushed, as far as its newest commit says: its own time, and the earlier ones it names.

    Anybody may write such a commit: it can only make us push later.
    """
    if not decision_of_commit(tip.message) or tip.committed_s <= 0:
        return ()
    found = (match[1] for line in _trailers(tip.message) if (match := PUSHES_LINE.fullmatch(line)))
    return tuple(sorted((tip.committed_s, *(float(each) for line in found for each in line.split()))))


def with_pushes(message: str, pushes_s: Sequence[float]) -> str:
    """A commit message of ours with the earlier pushes of its branch; unchanged without any."""
    if not pushes_s:
        return message
    times = " ".join(str(int(each)) for each in sorted(pushes_s)[-MAX_PUSHES:])
    return f"{message.rstrip()}\n{PUSHES}: {times}\n"


def stranger_of(tip: BranchTip, ours: Identity) -> str:
    """Who else the tip is by, as its author or committer or for want of our trailer; empty when it is ours."""
    for email in (tip.author.email, tip.committer.email):
        if email.lower() != ours.email.lower():
            return email or "an unknown author"
    return "" if decision_of_commit(tip.message) else f"{tip.author.email} (without the trailer {TRAILER})"


def _state(pull_request: PullRequest, marker: Marker | None) -> ProposalState:
    if pull_request.state is PullRequestState.OPEN:
        return ProposalState.OPEN
    if pull_request.state is PullRequestState.MERGED:
        return ProposalState.MERGED
    was_ours = marker is not None and marker.state is MarkerState.WITHDRAWN
    return ProposalState.WITHDRAWN if was_ours else ProposalState.CLOSED


def _trailers(message: str) -> list[str]:
    """The lines of a message's last paragraph; none where it is the only one."""
    paragraphs = message[-MAX_MESSAGE_LENGTH:].replace("\r\n", "\n").strip().split("\n\n")
    return [line.rstrip() for line in paragraphs[-1].split("\n")] if len(paragraphs) > 1 else []
