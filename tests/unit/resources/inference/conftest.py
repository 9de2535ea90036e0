"""Manifests of the inference gateway's resources, made from their specs."""

from collections.abc import Callable

import pytest

VERSIONS = {
    "InferencePool": "inference.networking.k8s.io/v1",
    "InferenceObjective": "inference.networking.x-k8s.io/v1alpha2",
    "InferenceModel": "inference.networking.x-k8s.io/v1alpha2",
    "InferenceModelRewrite": "inference.networking.x-k8s.io/v1alpha2",
}


def _write(kind: str, spec: str, name: str = "chat", version: str = "", annotations: str = "{}") -> str:
    head = f"apiVersion: {version or VERSIONS[kind]}\nkind: {kind}\n"
    return f"{head}metadata: {{name: {name}, namespace: llm, annotations: {annotations}}}\nspec: {spec}\n---\n"


@pytest.fixture(scope="session")
def write() -> Callable[..., str]:
    """One object of a kind with its spec, and the end of its document."""
    return _write
