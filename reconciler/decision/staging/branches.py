"""The head branches of a group's pull requests: found by its name and the part, never by what a body says."""

import hashlib
import re

from reconciler.domain.proposals import Part

_SLUG_LIMIT = 60


def head_branch(prefix: str, group: str, part: Part) -> str:
    """`prefix` + the group's name made safe and cut at 60 + the part + 8 hex digits of sha256 over both."""
    identity = "\0".join((group, part))
    return f"{prefix}{_slug(group)}-{part}-{_digest(identity)}"


def undivided_branch(prefix: str, group: str) -> str:
    """The branch of a group from before it had parts; what is open there is the part that needs approval."""
    return f"{prefix}{_slug(group)}-{_digest(group)}"


def branches_of(prefix: str, group: str) -> tuple[str, ...]:
    """Every branch that may be this group's."""
    return (*(head_branch(prefix, group, part) for part in Part), undivided_branch(prefix, group))


def _slug(group: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", group.lower())[:_SLUG_LIMIT]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
