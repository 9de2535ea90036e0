"""Globs as GitOps users know them: `*` within a path segment, `**` across segments."""

import re
from collections.abc import Iterator
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


def fits_ignore_line(pattern: str, path: str) -> bool:
    """Whether a pattern in the syntax of .gitignore means a file, or a directory that it lies in.

    Character classes are not read: such a pattern fits nothing.
    """
    return any(_fits(pattern, each) for each in _with_parents(path))


def _with_parents(path: str) -> Iterator[str]:
    """The path, then each directory that it is in with a slash behind it."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield f"{path}/"


def _fits(pattern: str, candidate: str) -> bool:
    if pattern.endswith("/") and not candidate.endswith("/"):
        return False
    wanted, found = pattern.rstrip("/"), candidate.rstrip("/")
    if "/" not in wanted:
        found = found.rpartition("/")[2]
    return path_matches(wanted.removeprefix("/"), found)
