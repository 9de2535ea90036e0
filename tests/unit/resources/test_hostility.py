"""Whatever a repository holds, reading it ends in findings."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import merge
from reconciler.resources.reading import read_file

SAMPLES = sorted((Path(__file__).parents[2] / "testdata" / "resources" / "findings").glob("*.yaml"))
TEXTS = [path.read_text() for path in SAMPLES]
WORDS = sorted({word for text in TEXTS for word in text.split()})
NOISE = st.sampled_from(
    ["null", "[]", "{}", "[{}]", "1", "-1", "1e400", ".nan", '"\\e[31m"', "&a", "*a", "true", "\n---\n"]
)


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A manifest with a few of its words replaced, swapped in from others, or cut."""
    documents = draw(st.sampled_from(TEXTS)).split("\n---\n")
    words = draw(st.sampled_from(documents)).split(" ")
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(words) - 1))
        words[index] = draw(NOISE | st.sampled_from(WORDS) | st.text(max_size=8) | st.just(""))
    return " ".join(words)


@given(mutations(), st.sampled_from(["a.yaml", "kustomization.yaml"]))
def test_mutated_manifests_end_in_findings(text: str, path: str) -> None:
    try:
        documents = parse_documents(path, text.encode(errors="replace"))
    except InputError:
        return
    declaration = merge([read_file("prod", path, documents)])
    assert all(str(finding).isprintable() for finding in declaration.findings)
    assert all(broken.reason.isprintable() for broken in declaration.broken)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([word.strip('":,{}[]') for word in WORDS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([word.strip('":,{}[]') for word in WORDS]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(["Deployment", "VariantAutoscaling", "ConfigMap", "Component", "Namespace"]), JSON, JSON)
def test_objects_of_any_content_end_in_findings(kind: str, spec: object, metadata: object) -> None:
    fields = {"kind": kind, "metadata": metadata, "spec": spec, "data": spec, "patches": spec, "replicas": spec}
    text = json.dumps({"apiVersion": "v1"} | fields)
    for version in ("v1", "apps/v1", "llmd.ai/v1alpha1", "kustomize.config.k8s.io/v1alpha1"):
        try:
            documents = parse_documents("a.yaml", text.replace('"v1"', f'"{version}"', 1).encode())
        except InputError:
            continue
        merge([read_file("prod", "a.yaml", documents)])


@pytest.mark.parametrize("name", ["x" * 100_000, "spec." * 20_000])
def test_long_names_are_told_in_short(name: str) -> None:
    head = "apiVersion: llmd.ai/v1alpha1\nkind: VariantAutoscaling\nmetadata: {name: a}\nspec:\n  modelID: m\n"
    (document,) = parse_documents("a.yaml", f"{head}  ? {name}\n  : 1\n".encode())
    told = [str(finding) for finding in merge([read_file("prod", "a.yaml", [document])]).findings]
    assert len(told) == 2
    assert all(len(line) < 200 for line in told)
