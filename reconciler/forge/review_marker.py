"""The hidden marker in a review's comment: what was reviewed, and what was said, as only machines read it.

It is read from comments of our own alone, and defensively all the same: it can only make us do less.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1
OPENING = "<!-- reconciler-review: "
CLOSING = " -->"
MAX_JSON_LENGTH = 16_000
MAX_NAMES = 8000
"""Characters of the names of variants; of more none is written down, and what is needed of them is not compared."""
DIGEST = re.compile(r"[0-9a-f]{40,64}")
MAX_REPLICAS = 1_000_000
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
        """Whether a comment for `other` would tell people nothing new."""
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
    text = json.dumps(content, separators=(",", ":"))
    # `>` ends an HTML comment and `--` ends an XML one; both stand only inside strings, where these mean the same
    for plain, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("--", "-\\u002d")):
        text = text.replace(plain, escaped)
    return f"{OPENING}{text}{CLOSING}"


def is_marked(body: str) -> bool:
    """Whether a comment is a review's, its marker readable or not: a person who quotes one does not end with it."""
    return body.rstrip().rpartition("\n")[2].startswith(OPENING.rstrip())


def read_review_marker(body: str) -> ReviewMarker | None:
    """The last marker of a body; None when it is none of ours."""
    start = body.rfind(OPENING)
    end = body.find(CLOSING, start, start + len(OPENING) + MAX_JSON_LENGTH)
    if start < 0 or end < 0:
        return None
    try:
        content: object = json.loads(body[start + len(OPENING) : end])
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("version") != VERSION:
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
