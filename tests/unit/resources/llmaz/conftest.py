"""Manifests of llmaz's resources, made from their specs."""

from collections.abc import Callable

import pytest

LLMAZ, INFERENCE = "llmaz.io/v1alpha1", "inference.llmaz.io/v1alpha1"
VERSIONS = {"OpenModel": LLMAZ, "Playground": INFERENCE, "Service": INFERENCE, "BackendRuntime": INFERENCE}

Write = Callable[..., str]


def _write(kind: str, spec: str, name: str = "qwen2-0--5b", annotations: str = "{}") -> str:
    body = "".join(f"  {line}\n" for line in spec.strip("\n").splitlines())
    metadata = f"metadata: {{name: {name}, namespace: llm, annotations: {annotations}}}"
    return f"apiVersion: {VERSIONS[kind]}\nkind: {kind}\n{metadata}\nspec:\n{body}---\n"


@pytest.fixture(scope="session")
def write() -> Write:
    """One object of a kind with its spec, and the end of its document."""
    return _write
