"""Globs as GitOps users know them: `*` within a path segment, `**` across segments."""

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    out = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            out.append("(?:[^/]+/)*")
            position += 3
        elif pattern.startswith("**", position):
            out.append(".*")
            position += 2
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[position], re.escape(pattern[position])))
            position += 1
    return re.compile("".join(out), re.DOTALL)


def path_matches(pattern: str, path: str) -> bool:
    """Whether the whole of `path` (with `/`, from the repository's root) fits `pattern`."""
    return _compiled(pattern).fullmatch(path) is not None


def matches_any(pattern: str, path: str) -> bool:
    """Whether a path fits a glob of Argo CD, or one of those in `{a,b}`; its `*` crosses directories."""
    inner = pattern[1:-1] if pattern.startswith("{") and pattern.endswith("}") else pattern
    return any(path_matches(each.strip().replace("**", "*").replace("*", "**"), path) for each in inner.split(","))
