"""Patterns as Flux reads them: what it leaves out of a source."""

from collections.abc import Iterator

from reconciler.domain.globs import path_matches


def is_ignored(rules: str, path: str) -> bool:
    """Whether lines in the syntax of .gitignore leave a file out; the last one that fits decides.

    Character classes are not read: such a line fits nothing.
    """
    ignored = False
    for line in rules.splitlines():
        rule = line.strip()
        pattern = rule.removeprefix("!")
        if pattern and not pattern.startswith("#") and any(_fits(pattern, each) for each in _with_parents(path)):
            ignored = not rule.startswith("!")
    return ignored


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
