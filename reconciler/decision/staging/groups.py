"""Names that identify a pull request: its group's head branch depends on nothing but the group's name."""

import hashlib
import re

_SLUG_LIMIT = 60


def head_branch(prefix: str, group: str) -> str:
    """`prefix` + the group's name made safe and cut at 60 + `-` + the first 8 hex digits of its sha256."""
    slug = re.sub(r"[^a-z0-9-]+", "-", group.lower())[:_SLUG_LIMIT]
    return f"{prefix}{slug}-{hashlib.sha256(group.encode()).hexdigest()[:8]}"
