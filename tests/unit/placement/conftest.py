"""Building fleets from files given as texts or folders."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reconciler.domain.identity import path_matches
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, parse_readable
from reconciler.placement.fleet import Fleet, build_fleet
from reconciler.placement.markers import read_markers
from reconciler.placement.repository import ManifestRepository, is_kustomization

Build = Callable[..., Fleet]
CASES = Path(__file__).parents[2] / "testdata" / "clusters"
"""Repositories, and what must be found in them."""


def _read(files: Mapping[str, bytes], remote: str = "") -> ManifestRepository:
    documents: dict[str, tuple[Document, ...]] = {}
    unreadable: dict[str, InputError] = {}
    for path, body in files.items():
        found, errors = parse_readable(path, body, last_key_counts=is_kustomization(path))
        if errors:
            unreadable[path] = errors[0]
        else:
            documents[path] = found
    return ManifestRepository(files=documents, unreadable=unreadable, remote=remote)


def _holds(patterns: list[str]) -> Callable[[str], bool]:
    return lambda path: any(path_matches(pattern, path) for pattern in patterns)


@pytest.fixture(scope="session")
def build() -> Build:
    """Build the clusters of a repository given as texts by path; without `clusters` all of it is `prod`."""

    def _build(texts: Mapping[str, str], clusters: Mapping[str, list[str]] | None = None, *, remote: str = "") -> Fleet:
        files = {path: text.encode() for path, text in texts.items()}
        holds = {name: _holds(patterns) for name, patterns in (clusters or {"prod": ["**"]}).items()}
        markers = [marker for path, body in files.items() for marker in read_markers(path, body)[0]]
        return build_fleet(_read(files, remote), holds, markers)

    return _build


def texts_of(case: str) -> dict[str, str]:
    """The files of one of the repositories in `CASES`, by path."""
    folder = CASES / case / "before"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.yaml"))}
