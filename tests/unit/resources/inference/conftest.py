"""Manifests of the inference gateway's resources, made from their specs."""

from collections.abc import Callable

import pytest

from reconciler.manifests.documents import parse_readable
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KIND_WORDS

VERSIONS = {
    "InferencePool": "inference.networking.k8s.io/v1",
    "InferenceObjective": "inference.networking.x-k8s.io/v1alpha2",
    "InferenceModel": "inference.networking.x-k8s.io/v1alpha2",
    "InferenceModelRewrite": "inference.networking.x-k8s.io/v1alpha2",
}

Load = Callable[[str], Declaration]


def _write(kind: str, spec: str, name: str = "chat", version: str = "", annotations: str = "{}") -> str:
    head = f"apiVersion: {version or VERSIONS[kind]}\nkind: {kind}\n"
    return f"{head}metadata: {{name: {name}, namespace: llm, annotations: {annotations}}}\nspec: {spec}\n---\n"


@pytest.fixture(scope="session")
def write() -> Callable[..., str]:
    """One object of a kind with its spec, and the end of its document."""
    return _write


@pytest.fixture(scope="session")
def load() -> Load:
    """Declare from one text, documents that cannot be parsed left out."""

    def _load(text: str) -> Declaration:
        documents, _ = parse_readable("a.yaml", text.encode(), kinds=KIND_WORDS)
        return merge([read_file("prod", "a.yaml", documents)])

    return _load


@pytest.fixture(scope="session")
def told(load: Load) -> Callable[[str], list[str]]:
    """What is said of a text, without its file."""
    return lambda text: [str(finding).removeprefix("a.yaml:") for finding in load(text).findings]
