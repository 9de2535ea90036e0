"""Reading manifests given as text, one file or several."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reconciler.manifests.documents import parse_documents, parse_readable
from reconciler.resources.declaration import Declaration, FileDeclaration, merge
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KIND_WORDS

TESTDATA = Path(__file__).parents[2] / "testdata" / "resources"

Declare = Callable[..., Declaration]


def _read(cluster: str, path: str, text: str) -> FileDeclaration:
    return read_file(cluster, path, parse_documents(path, text.encode(), kinds=KIND_WORDS))


@pytest.fixture(scope="session")
def declare() -> Declare:
    """Declare from one text (`a.yaml`) or from several files, in one cluster."""

    def _declare(texts: str | Mapping[str, str], cluster: str = "prod") -> Declaration:
        files = {"a.yaml": texts} if isinstance(texts, str) else texts
        return merge([_read(cluster, path, text) for path, text in files.items()])

    return _declare


@pytest.fixture(scope="session")
def load() -> Callable[[str], Declaration]:
    """Declare from one text, documents that cannot be parsed left out."""

    def _load(text: str) -> Declaration:
        documents, _ = parse_readable("a.yaml", text.encode(), kinds=KIND_WORDS)
        return merge([read_file("prod", "a.yaml", documents)])

    return _load


@pytest.fixture(scope="session")
def told(load: Callable[[str], Declaration]) -> Callable[[str], list[str]]:
    """The findings of a text, without its file."""
    return lambda text: [str(finding).removeprefix("a.yaml:") for finding in load(text).findings]


@pytest.fixture(scope="session")
def testdata() -> Path:
    """The folder of manifests and their findings."""
    return TESTDATA
