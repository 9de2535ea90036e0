"""Files of a commit that nobody reads: templates of charts, vendored trees, and giants that hold nothing of ours."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from reconciler.domain.globs import fits_ignore_line
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.placement.paths import CHART_NAME, directory_of, is_within, join, name_of
from reconciler.resources.registry import KINDS

MAX_READ_BYTES: Final = 1024 * 1024
"""Larger files are never loaded: no parser here reads more, and no manifest of ours is as long."""
ATTRIBUTES: Final = ".gitattributes"
_VENDORED: Final = "linguist-vendored"
_TEMPLATES: Final = ("templates", "files", "crds", "ci", "tests")
"""Directories of a chart whose files are for Helm, which makes documents of them or tries the chart with them."""

_OURS: Final = "|".join(sorted(name for name, kind in KINDS.items() if kind.declares_variants and not kind.word))
OURS_PATTERN: Final = rf"""^( {{0,2}}(- )?kind|[ \t]*"kind") *: *["']?({_OURS})"""
"""An extended regular expression of a line that begins an object which declares a variant."""


def find_templates(paths: Iterable[str]) -> frozenset[str]:
    """The templates of charts, and what they are made with: Helm makes documents of them, they are none."""
    paths = list(paths)
    charts = {directory_of(path) for path in paths if name_of(path) == CHART_NAME}
    roots = {join(chart, name) for chart in charts for name in _TEMPLATES}
    return frozenset(path for path in paths if any(each in roots for each in _parents(path)))


def _parents(path: str) -> Iterator[str]:
    while path:
        path = directory_of(path)
        yield path


def find_vendored(attributes: Mapping[str, bytes], paths: Iterable[str]) -> frozenset[str]:
    """The files that `.gitattributes` files, by path, say are somebody else's; the nearest line counts."""
    lines = [
        (directory_of(path), pattern, _is_set(words))
        for path, body in sorted(attributes.items(), key=lambda each: (each[0].count("/"), each[0]))
        for pattern, *words in (line.split() for line in body.decode(errors="replace").splitlines() if line.strip())
        if _is_set(words) is not None and not pattern.startswith("#")
    ]
    return frozenset(path for path in paths if lines and _is_vendored(path, lines))


def _is_vendored(path: str, lines: list[tuple[str, str, bool | None]]) -> bool:
    found: bool | None = False
    for directory, pattern, is_set in lines:
        relative = path[len(directory) :].lstrip("/")
        if is_within(path, directory) and fits_ignore_line(pattern, relative):
            found = is_set
    return bool(found)


def _is_set(words: Iterable[str]) -> bool | None:
    """What the words behind a pattern say; None where they say nothing of it."""
    found: bool | None = None
    for word in words:
        name, equals, value = word.lstrip("-!").partition("=")
        if name == _VENDORED:
            found = not word.startswith(("-", "!")) and (not equals or value.lower() != "false")
    return found


def tell_giant(path: str, size_bytes: int) -> Finding:
    """What is wrong with a giant that holds something of ours."""
    message = f"expected at most {MAX_READ_BYTES} bytes, got {size_bytes}: split the file"
    return Finding(place=Place(path=path), severity=Severity.ERROR, message=message)
