"""Manifests of llmaz's resources, made from their specs."""

from collections.abc import Callable

import pytest

from reconciler.manifests.documents import parse_readable
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KIND_WORDS

LLMAZ, INFERENCE = "llmaz.io/v1alpha1", "inference.llmaz.io/v1alpha1"
VERSIONS = {"OpenModel": LLMAZ, "Playground": INFERENCE, "Service": INFERENCE, "BackendRuntime": INFERENCE}

Write = Callable[..., str]
Told = Callable[[str], list[str]]


def _write(kind: str, spec: str, name: str = "qwen2-0--5b", annotations: str = "{}") -> str:
    body = "".join(f"  {line}\n" for line in spec.strip("\n").splitlines())
    metadata = f"metadata: {{name: {name}, namespace: llm, annotations: {annotations}}}"
    return f"apiVersion: {VERSIONS[kind]}\nkind: {kind}\n{metadata}\nspec:\n{body}---\n"


@pytest.fixture(scope="session")
def write() -> Write:
    """One object of a kind with its spec, and the end of its document."""
    return _write


@pytest.fixture(scope="session")
def load() -> Callable[[str], Declaration]:
    """Declare from one text, documents that cannot be parsed left out."""

    def _load(text: str) -> Declaration:
        documents, _ = parse_readable("a.yaml", text.encode(), kinds=KIND_WORDS)
        return merge([read_file("prod", "a.yaml", documents)])

    return _load


@pytest.fixture(scope="session")
def told(load: Callable[[str], Declaration]) -> Told:
    """What is said of a text, without its file."""
    return lambda text: [str(finding).removeprefix("a.yaml:") for finding in load(text).findings]
