"""Hidden markers in texts on the forge: the decision of a pull request, the report of a review."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from reconciler.domain.proposals import Part, Promise, PromisedLatency, Proposal, ProposalState, ProposedChange
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Identity
from reconciler.forge.pull_requests import COMMITTERS, PullRequest, PullRequestState

# Promises: one row for each change; if one row is malformed, there are no promises.

NUMBERS = (
    *("demand", "capacity", "cost_per_hour", "arrival_rate_per_s", "input_tokens", "output_tokens"),
    *("days", "cost_ratio", "attainment_before", "attainment"),
    *("expected_per_s", "expected_since_s", "expected_until_s"),
)
"""Fields of a promise that are a number or unknown, and their keys in a row."""
LATENCY = ("name", "statistic", "target_s", "expected_s", "mean_s", "measured_s")
CHANGE = ("resource", "replicas_before", "replicas_after", "accelerator_before", "accelerator_after")
"""The fields of a row, in this order."""
SCALING = ("scaling_before", "scaling_after")
"""Two more of a row that changes the setting of an autoscaler."""
Row = TypeVar("Row")
LATENCIES = ("itl", "ttft", "wait")
MOST_LATENCIES = 5
LARGEST = 1e15
"""No number of ours is larger."""
MAX_TEXT_LENGTH = 500
MAX_UNIT_LENGTH = 40
MAX_SCALING_LENGTH = 2000
MAX_NUMBER = 10**9
"""Of a pull request."""


def promise_rows(promises: Sequence[Promise], resources: Sequence[str]) -> list[object]:
    """The promises in the order of these resources, as JSON; a resource without one has an empty row."""
    promised = {each.resource: each for each in promises}
    return [_promise_row(promised[each]) if each in promised else {} for each in resources]


def parse_promises(rows: object, resources: Sequence[str]) -> tuple[Promise, ...]:
    """The promises of these resources; none if a row is malformed, or their numbers differ."""
    if not isinstance(rows, list) or len(rows) != len(resources):
        return ()
    return _all_of([*zip(rows, resources, strict=True)], lambda each: _parse_promise(*each)) or ()


def _all_of(rows: object, parse: Callable[[Any], Row | None]) -> tuple[Row, ...] | None:
    """All rows; None if one of them is malformed, as an incomplete memory would mislead."""
    found = [parse(row) for row in rows] if isinstance(rows, list) else [None]
    valid = tuple(each for each in found if each is not None)
    return valid if len(valid) == len(found) else None


def _promise_row(promise: Promise) -> dict[str, object]:
    row: dict[str, object] = {"unit": promise.unit}
    row |= {name: value for name in NUMBERS if (value := getattr(promise, name)) is not None}
    if promise.latencies:
        row["latencies"] = [[getattr(each, field) for field in LATENCY] for each in promise.latencies]
    if promise.reverts is not None:
        row["reverts"] = promise.reverts
    return row


def _parse_promise(row: object, resource: str) -> Promise | None:
    if not isinstance(row, dict):
        return None
    numbers = {name: row.get(name) for name in NUMBERS}
    unit, reverts, rows = row.get("unit", ""), row.get("reverts"), row.get("latencies", [])
    latencies = _all_of(rows, _parse_latency)
    if latencies is None or len(latencies) > MOST_LATENCIES:
        return None
    if not _is_text(unit, MAX_UNIT_LENGTH) or not all(map(_is_known_or_none, numbers.values())):
        return None
    if reverts is not None and not (type(reverts) is int and 0 < reverts <= MAX_NUMBER):
        return None
    return Promise(resource=resource, unit=str(unit), latencies=latencies, reverts=reverts, **_floats(numbers))


def _parse_latency(row: object) -> PromisedLatency | None:
    if not isinstance(row, list) or len(row) != len(LATENCY):
        return None
    name, statistic, target_s, *times_s = row
    if name not in LATENCIES or not _is_text(statistic, MAX_UNIT_LENGTH) or not all(map(_is_known_or_none, times_s)):
        return None
    if not _is_number(target_s) or not target_s > 0:
        return None
    return PromisedLatency(
        name=name,
        statistic=statistic,
        target_s=float(target_s),
        **_floats(dict(zip(LATENCY[3:], times_s, strict=True))),
    )


def _is_known_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_number(value: object) -> bool:
    """Whether it is a number that we would write: Python's JSON also has NaN, infinity and huge integers."""
    if type(value) is int:
        return 0 <= value <= LARGEST
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= LARGEST


def _floats(numbers: Mapping[str, object]) -> dict[str, float | None]:
    return {name: float(value) if isinstance(value, int | float) else None for name, value in numbers.items()}


# The marker of a pull request. Anybody who may edit the body may edit it, so it may only restrict us.

VERSION = 1
OPENING = "<!-- reconciler: "
CLOSING = " -->"

MAX_JSON_LENGTH = 16_000
"""Longer ones are written without their changes, and never read."""
MAX_MARKERS = 20
MAX_REPLICAS = 1_000_000
DECISION = re.compile(r"[0-9a-f]{64}")

# `>` ends an HTML comment and `--` an XML one. Both occur only in JSON strings, where escapes are equivalent.
ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("--", "-\\u002d"))


class MarkerState(StrEnum):
    """OPEN as proposed; WITHDRAWN by us, before we close a pull request; REPORTED: merged, with its outcome."""

    OPEN = "open"
    WITHDRAWN = "withdrawn"
    REPORTED = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The content of the marker.

    `decision` is the decision fingerprint. Without `changes` (if there were too many) a closed decision is remembered
    by its fingerprint alone; `promises` are one for each change, or none. `part` is None in a marker from before groups
    had parts. `merges`: its text says that it merges by itself, without which it does not. `asks`: reviews are still to
    be asked for, where no label says that.
    """

    group: str
    decision: str
    part: Part | None = None
    state: MarkerState = MarkerState.OPEN
    changes: tuple[ProposedChange, ...] = ()
    promises: tuple[Promise, ...] = ()
    merges: bool = False
    asks: bool = False


def write_marker(marker: Marker) -> str:
    """The comment for `marker`, on one line; if it is too long, promises are left out, then changes."""
    shorter = (marker, replace(marker, promises=()))
    texts = (text for each in shorter if len(text := _json(each)) <= MAX_JSON_LENGTH)
    return f"{OPENING}{next(texts, '') or _json(replace(marker, changes=(), promises=()))}{CLOSING}"


def read_marker(body: str) -> Marker | None:
    """The marker of a body, or None when there is no valid one."""
    found = _find(body)
    return found[0] if found else None


def is_of_newer_version(body: str) -> bool:
    """Whether the last marker of a body is of a version that is not known yet: a newer run has written it."""
    start = body.rfind(OPENING)
    end = body.find(CLOSING, start, start + len(OPENING) + MAX_JSON_LENGTH + len(CLOSING)) if start >= 0 else -1
    content = _load(body[start + len(OPENING) : end]) if end >= 0 else None
    version = None if content is None else content.get("version")
    return type(version) is int and version > VERSION


def withdrawn(body: str) -> str:
    """`body` with its marker's state set to withdrawn; unchanged without a marker."""
    found = _find(body)
    if found is None:
        return body
    marker, start, end = found
    return body[:start] + write_marker(replace(marker, state=MarkerState.WITHDRAWN)) + body[end:]


def asking(body: str) -> str:
    """`body` with a marker that says that reviews are still to be asked for; unchanged without a marker."""
    found = _find(body)
    if found is None:
        return body
    marker, start, end = found
    return body[:start] + write_marker(replace(marker, asks=True)) + body[end:]


def with_outcome(body: str, text: str) -> str:
    """`body` with `text` before its marker, whose state becomes reported; unchanged without a marker."""
    found = _find(body)
    if found is None:
        return body
    marker, start, end = found
    written = write_marker(replace(marker, state=MarkerState.REPORTED))
    return f"{body[:start].rstrip()}\n{text}\n{written}{body[end:]}"


NUMBER = re.compile(r"(?<![0-9a-f])(?:[0-9]|[a-f]+(?=[0-9]))[0-9a-f.,]*")
"""With the letters of a commit before the first digit; each run of letters is read once, however long a text has it."""


def has_same_words(body: str, other: str) -> bool:
    """Whether two bodies have the same words: numbers are measured anew in each run, and white space is the forge's."""
    return _words(body) == _words(other)


def _words(body: str) -> list[str]:
    found = _find(body)
    return NUMBER.sub("0", body[: found[1]] + body[found[2] :] if found else body).split()


def _find(body: str) -> tuple[Marker, int, int] | None:
    """The last valid marker with its place: we write ours after all quoted texts."""
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
        **({"asks": True} if marker.asks else {}),
    }
    if marker.changes:
        content["changes"] = [_change_row(change) for change in sorted(marker.changes)]
    if marker.changes and marker.promises:
        content["promises"] = promise_rows(marker.promises, [each.resource for each in sorted(marker.changes)])
    return _escaped(content)


def _escaped(content: Mapping[str, object]) -> str:
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
    changes = tuple(sorted(_all_of(content.get("changes", []), _parse_change) or ()))
    # Promises are in the order of the changes; with another order they cannot be assigned.
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
        asks=content.get("asks") is True,
    )


def _load(text: str) -> dict[str, object] | None:
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _change_row(change: ProposedChange) -> list[object]:
    return [getattr(change, field) for field in (*CHANGE, *(SCALING if change.is_tuning else ()))]


def _parse_change(row: object) -> ProposedChange | None:
    if not isinstance(row, list) or len(row) not in (len(CHANGE), len(CHANGE) + len(SCALING)):
        return None
    resource, before, after, accelerator_before, accelerator_after, *scaling = row
    if not all(_is_text(each, MAX_SCALING_LENGTH) for each in scaling):
        return None
    if not all(map(_is_text, (resource, accelerator_before, accelerator_after))):
        return None
    if not all(type(count) is int and 0 <= count <= MAX_REPLICAS for count in (before, after)):
        return None
    return ProposedChange(**dict(zip((*CHANGE, *SCALING), row, strict=False)))


def _is_text(value: object, most: int = MAX_TEXT_LENGTH) -> bool:
    return isinstance(value, str) and len(value) <= most and value.isprintable()


# The marker of a review's comment, read only from our own comments; it too may only restrict us.

REVIEW_OPENING = "<!-- reconciler-review: "
MAX_NAMES = 8000
"""Characters of the names of variants; beyond that names are left out, and needed replicas are not compared."""
DIGEST = re.compile(r"[0-9a-f]{40,64}")
TOLERANCE = 0.1
"""The share by which a number of replicas may change, or one replica, without a new comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMarker:
    """The subject of a comment.

    `head` and `base` are commits, `told` is the fingerprint of the comment without measured values. `needed` are the
    replicas that a plan would have given each variant, by name; below 0 for a held one.
    """

    head: str
    base: str
    told: str
    needed: Mapping[str, int]

    def says(self, other: "ReviewMarker") -> bool:
        """Whether a comment for `other` would add nothing."""
        return (self.head, self.told) == (other.head, other.told) and self.needs(other.needed)

    def needs(self, needed: Mapping[str, int]) -> bool:
        """Whether as many replicas are needed as then, apart from noise: one replica, or a tenth."""
        if self.needed.keys() != needed.keys():
            return False
        pairs = ((self.needed[name], now) for name, now in needed.items())
        return all(
            then == now or (min(then, now) >= 0 and abs(now - then) <= max(1.0, TOLERANCE * then))
            for then, now in pairs
        )


def write_review_marker(marker: ReviewMarker) -> str:
    """The comment for `marker`, on one line."""
    content = {"version": VERSION, "head": marker.head, "base": marker.base, "told": marker.told}
    return f"{REVIEW_OPENING}{_escaped({**content, 'needed': dict(sorted(marker.needed.items()))})}{CLOSING}"


def is_marked(body: str) -> bool:
    """Whether a comment is a review's, with a readable marker or not; a quoted one is not at the end."""
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


# The marker of the dashboard issue, at the end of its text.

DASHBOARD_OPENING = "<!-- reconciler-dashboard: "


def write_dashboard_marker(exact: object, measured: object) -> str:
    """The comment for what the issue shows, with the numbers in `measured` left out: they differ in each run."""
    text = repr(exact) + NUMBER.sub("0", repr(measured))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{DASHBOARD_OPENING}{_escaped({'version': VERSION, 'digest': digest})}{CLOSING}"


def is_current_dashboard(body: str, marker: str) -> bool:
    """Whether a text ends with this marker, or with one of a newer version, which is left to that one."""
    last = body.rstrip().rpartition("\n")[2]
    if not last.startswith(DASHBOARD_OPENING) or last == marker:
        return last == marker
    content = _load(last[len(DASHBOARD_OPENING) :].removesuffix(CLOSING))
    version = None if content is None else content.get("version")
    return type(version) is int and version > VERSION


# The proposal from a pull request and the tip of its head branch.

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

    @property
    def is_signed(self) -> bool: ...


def proposal_of(pull_request: PullRequest, tip: BranchTip | None, ours: Identity) -> Proposal:
    """The proposal of a pull request; `tip` is None when its head branch does not exist.

    A person's commit on the branch is recognized by its author or committer, or by a missing trailer: the merge commit
    of the forge's "update branch" button has none.
    """
    marker = read_marker(pull_request.body)
    states = {PullRequestState.OPEN: ProposalState.OPEN, PullRequestState.MERGED: ProposalState.MERGED}
    was_ours = marker is not None and marker.state is MarkerState.WITHDRAWN
    closed = ProposalState.WITHDRAWN if was_ours else ProposalState.CLOSED
    return Proposal(
        group=marker.group if marker else "",
        number=pull_request.number,
        state=states.get(pull_request.state, closed),
        head_branch=pull_request.head_branch,
        decision=marker.decision if marker else "",
        changes=marker.changes if marker else (),
        promises=marker.promises if marker else (),
        merges=marker is not None and marker.merges,
        head_commit=tip.oid if tip else pull_request.head_commit,
        branch_decision=decision_of_commit(tip.message) if tip else "",
        touched_by=pull_request.opened_by or (stranger_of(tip, ours) if tip else ""),
        labels=pull_request.labels,
        in_merge_queue=pull_request.in_merge_queue,
        closed_at_s=pull_request.closed_at_s,
        opened_at_s=pull_request.opened_at_s,
        pushes_s=pushes_of(tip) if tip else (),
        title=pull_request.title,
        url=pull_request.url,
    )


def decision_of_commit(message: str) -> str:
    """The decision fingerprint in a commit message's trailers; empty when there is none or more than one.

    Only the last paragraph has trailers: a revert quotes the reverted message above.
    """
    decisions = {match[1] for line in _trailers(message) if (match := TRAILER_LINE.fullmatch(line))}
    return decisions.pop() if len(decisions) == 1 else ""


def pushes_of(tip: BranchTip) -> tuple[float, ...]:
    """The pushes of a branch, from its newest commit: its own time, and earlier ones that it lists.

    Anybody may write such a commit: it may only delay our pushes.
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


MARKER = "Reconciler-Marker"
MARKER_LINE = re.compile(rf"{MARKER}: (\S{{1,{70}}})")
MARKER_WIDTH = 70
"""Characters of a marker on one line: commit messages are checked for long ones."""


def with_marker(message: str, body: str) -> str:
    """A commit message of ours with the marker of a body, in pieces: where only git remembers what was decided."""
    marker = read_marker(body)
    if marker is None:
        return message
    shorter = (marker, replace(marker, promises=()), replace(marker, promises=(), changes=()))
    texts = (_json(each).replace(" ", "\\u0020") for each in shorter)
    text = next(each for each in texts if len(each) <= MAX_JSON_LENGTH)
    pieces = (text[start : start + MARKER_WIDTH] for start in range(0, len(text), MARKER_WIDTH))
    return "\n".join((message.rstrip(), *(f"{MARKER}: {piece}" for piece in pieces))) + "\n"


def marker_of_commit(message: str) -> Marker | None:
    """The marker in a commit message's trailers, if it is about the decision that the message names."""
    pieces = [match[1] for line in _trailers(message) if (match := MARKER_LINE.fullmatch(line))]
    marker = _parse_marker("".join(pieces)) if sum(map(len, pieces)) <= MAX_JSON_LENGTH else None
    return marker if marker is not None and marker.decision == decision_of_commit(message) else None


def pull_request_of_branch(branch: str, tip: BranchTip, *, number: int, base: str, url: str) -> PullRequest | None:
    """The pull request that a branch of ours stands for where only git remembers; None if its commit is not ours.

    `number` only tells it from the others of this run.
    """
    marker = marker_of_commit(tip.message)
    if marker is None:
        return None
    return PullRequest(
        number=number,
        state=PullRequestState.OPEN,
        head_branch=branch,
        base_branch=base,
        title=tip.message.partition("\n")[0],
        body=write_marker(marker),
        head_commit=tip.oid,
        opened_at_s=min(pushes_of(tip), default=None),
        url=url,
    )


def stranger_of(tip: BranchTip, ours: Identity) -> str:
    """The other author or committer of the tip, or its author if our trailer is missing; empty when it is ours.

    What a forge wrote for us by its API has the forge as its committer, and is signed.
    """
    for email in (tip.author.email, tip.committer.email):
        is_forges = tip.is_signed and email == tip.committer.email and email.lower() in COMMITTERS
        if email.lower() != ours.email.lower() and not is_forges:
            return email or "an unknown author"
    return "" if decision_of_commit(tip.message) else f"{tip.author.email} (without the trailer {TRAILER})"


def _trailers(message: str) -> list[str]:
    """The lines of a message's last paragraph; none if it is the only one."""
    paragraphs = message[-MAX_MESSAGE_LENGTH:].replace("\r\n", "\n").strip().split("\n\n")
    return [line.rstrip() for line in paragraphs[-1].split("\n")] if len(paragraphs) > 1 else []
