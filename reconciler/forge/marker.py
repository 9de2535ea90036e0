"""The hidden marker in a pull request's body: which decision it proposes, in a comment that only machines read.

Anybody who may edit the body may edit the marker, so it is read defensively and can only make us do less.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from reconciler.domain.promises import Promise
from reconciler.domain.proposals import Part, ProposedChange
from reconciler.forge.promises import parse_promises, promise_rows

VERSION = 1
OPENING = "<!-- reconciler: "
CLOSING = " -->"

MAX_JSON_LENGTH = 16_000
"""Longer ones are not written with their changes, and not read at all."""
MAX_MARKERS = 20
MAX_TEXT_LENGTH = 500
MAX_REPLICAS = 1_000_000
DECISION = re.compile(r"[0-9a-f]{64}")

# `>` ends an HTML comment and `--` ends an XML one. Both stand only inside JSON strings, where these mean the same.
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


class PlacedMarker(NamedTuple):
    """A marker with its place in the body."""

    marker: Marker
    start: int
    end: int


def write_marker(marker: Marker) -> str:
    """The comment for `marker`, on one line; what would make it too long is left out: promises first, then changes."""
    shorter = (marker, replace(marker, promises=()))
    texts = (text for each in shorter if len(text := _json(each)) <= MAX_JSON_LENGTH)
    return f"{OPENING}{next(texts, '') or _json(replace(marker, changes=(), promises=()))}{CLOSING}"


def read_marker(body: str) -> Marker | None:
    """The marker of a body, or None when there is no valid one."""
    found = _find(body)
    return found.marker if found else None


def withdrawn(body: str) -> str:
    """`body` with its marker's state set to withdrawn, and nothing else changed; without a marker as it was."""
    found = _find(body)
    if found is None:
        return body
    marker = write_marker(replace(found.marker, state=MarkerState.WITHDRAWN))
    return body[: found.start] + marker + body[found.end :]


def with_outcome(body: str, text: str) -> str:
    """`body` with `text` before its marker, whose state says that it was told; without a marker as it was."""
    found = _find(body)
    if found is None:
        return body
    marker = write_marker(replace(found.marker, state=MarkerState.TOLD))
    return f"{body[: found.start].rstrip()}\n{text}\n{marker}{body[found.end :]}"


def body_digest(body: str) -> str:
    """sha256 of a body without what may differ for no reason: white space and the marker."""
    found = _find(body)
    text = body[: found.start] + body[found.end :] if found else body
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def _find(body: str) -> PlacedMarker | None:
    """The last valid marker: we write ours behind everything that quotes somebody else's words."""
    for start, end in _spans(body):
        marker = _parse(body[start + len(OPENING) : end - len(CLOSING)])
        if marker is not None:
            return PlacedMarker(marker, start, end)
    return None


def _spans(body: str) -> Iterator[tuple[int, int]]:
    end_of_search = len(body)
    for _ in range(MAX_MARKERS):
        start = body.rfind(OPENING, 0, end_of_search)
        if start < 0:
            return
        end = body.find(CLOSING, start, start + len(OPENING) + MAX_JSON_LENGTH + len(CLOSING))
        if end >= 0:
            yield start, end + len(CLOSING)
        end_of_search = start


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
    text = json.dumps(content, separators=(",", ":"))
    for plain, escaped in ESCAPES:
        text = text.replace(plain, escaped)
    return text


def _parse(text: str) -> Marker | None:
    content = _load(text)
    if content is None or type(content.get("version")) is not int or content["version"] != VERSION:
        return None
    group, decision, state = content.get("group"), content.get("decision"), content.get("state")
    if not _is_text(group) or not isinstance(decision, str) or not DECISION.fullmatch(decision):
        return None
    if not isinstance(state, str) or state not in set(MarkerState):
        return None
    changes = _parse_changes(content.get("changes", []))
    return Marker(
        group=str(group),
        decision=decision,
        part=next((part for part in Part if part == content.get("part")), None),
        state=MarkerState(state),
        changes=changes,
        promises=_parse_promises(content, changes),
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


def _parse_promises(content: Mapping[str, object], changes: Sequence[ProposedChange]) -> tuple[Promise, ...]:
    """Those of the changes in the order in which they are written; where that is not ours, nobody knows whose."""
    resources, rows = [each.resource for each in changes], content.get("changes")
    is_ordered = isinstance(rows, list) and [row[0] for row in rows] == resources if changes else False
    return parse_promises(content.get("promises"), resources) if is_ordered else ()


def _parse_change(row: object) -> ProposedChange | None:
    if not isinstance(row, list) or len(row) != 5:
        return None
    resource, before, after, accelerator_before, accelerator_after = row
    if not _are_texts((resource, accelerator_before, accelerator_after)) or not _are_counts((before, after)):
        return None
    return ProposedChange(
        resource=resource,
        replicas_before=before,
        replicas_after=after,
        accelerator_before=accelerator_before,
        accelerator_after=accelerator_after,
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH and value.isprintable()


def _are_texts(values: Sequence[object]) -> bool:
    return all(_is_text(value) for value in values)


def _are_counts(values: Sequence[object]) -> bool:
    return all(type(value) is int and 0 <= value <= MAX_REPLICAS for value in values)
