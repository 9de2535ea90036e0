"""Whatever a repository holds, reading it ends in records and findings, never in an exception."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Severity
from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.inference.priorities import Priorities
from reconciler.resources.kthena.tracked_targets import tracked_targets
from reconciler.resources.llmaz.servings import join_served_models
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KINDS

FOLDER = Path(__file__).parents[2] / "testdata" / "resources"
TEXTS = {
    name: [text for path in sorted((FOLDER / name).rglob("*.yaml")) for text in path.read_text().split("\n---\n")]
    for name in ("findings", "inference", "kthena", "llmaz")
}
WORDS = {name: sorted({word for text in texts for word in text.split()}) for name, texts in TEXTS.items()}
KEYS = sorted({word.strip('-"{}[],:') for words in WORDS.values() for word in words if word.endswith(":")})
SCALARS = ["null", "[]", "{}", "[{}]", "0", "1", "-1", "1e400", ".nan", "0.75", "99999999999", "-5m", "true", "${X}"]
NOISE = st.sampled_from([*SCALARS, "&a", "*a", '"\\e[31m"', '"1e-100"', "\n", "\n---\n"])
MAY_BE_SILENT = {"ConfigMap", "Namespace", "HorizontalPodAutoscaler", "ScaledObject"}
"""Kinds of which most objects concern nothing that is read here."""
WITHOUT_MODELS = {
    *("DynamoGraphDeployment", "InferenceService", "InferenceSet", "RayService", "StormService", "Workspace"),
    *("ClusterServingRuntime", "ServingRuntime"),
}
"""Kinds whose objects need not serve a model."""


def declare_safely(text: str, path: str = "a.yaml") -> Declaration:
    try:
        documents = parse_documents(path, text.encode(errors="replace"))
    except InputError:
        return merge([])
    declaration = merge([read_file("prod", path, documents)])
    assert all(str(finding).isprintable() for finding in declaration.findings)
    assert all(broken.reason.isprintable() for broken in declaration.broken)
    return declaration


@st.composite
def mutations(draw: st.DrawFn, name: str) -> str:
    """A few objects with some of their words replaced, swapped in from others, or cut."""
    texts = draw(st.lists(st.sampled_from(TEXTS[name]), min_size=1, max_size=3))
    words = "\n---\n".join(texts).split(" ")
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(words) - 1))
        words[index] = draw(NOISE | st.sampled_from(WORDS[name]) | st.text(max_size=8) | st.just(""))
    return " ".join(words)


@settings(deadline=None)
@given(mutations("findings"), st.sampled_from(["a.yaml", "kustomization.yaml"]))
def test_mutated_manifests_end_in_findings(text: str, path: str) -> None:
    declare_safely(text, path)


@settings(deadline=None)
@given(mutations("inference"))
def test_mutated_objects_of_the_inference_gateway_end_in_findings(text: str) -> None:
    Priorities.of(declare_safely(text).inference)


@settings(deadline=None)
@given(mutations("llmaz"))
def test_mutated_objects_of_llmaz_end_in_findings(text: str) -> None:
    declaration = declare_safely(text)
    served = join_served_models(declaration.llmaz, declaration.workloads, declaration.broken)
    assert all(str(each.hold or "").isprintable() for each in served)


def follow_safely(text: str) -> None:
    for target in tracked_targets(declare_safely(text).kthena):
        assert all(metric.per_replica > 0 for metric in target.policy.metrics)
        assert all(0 <= each.backend.min_replicas <= each.backend.max_replicas for each in target.backends)
        assert all(each.pods_per_replica >= 1 for each in target.backends)


@settings(deadline=None)
@given(mutations("kthena"))
def test_mutated_objects_of_kthena_end_in_findings(text: str) -> None:
    follow_safely(text)


LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    LEAVES | st.sampled_from([*KEYS, "5m", "10", "vLLM", "And", "Pod"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), JSON, st.data())
def test_no_object_with_a_name_is_lost_whatever_it_holds(
    kind: str, spec: Mapping[str, object], status: object, data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(KINDS[kind].versions))
    item = {"metadata": {"name": "a"}, "spec": spec, "data": spec, "status": status}
    is_list = data.draw(st.booleans())
    head = {"apiVersion": version, "kind": kind + "List" if is_list else kind}
    text = json.dumps(head | ({"items": [item]} if is_list else item))
    follow_safely(text)
    (document,) = parse_documents("a.yaml", text.encode())
    pieces = read_file("prod", "a.yaml", [document]).pieces
    assert pieces or kind in MAY_BE_SILENT | WITHOUT_MODELS
    errors = [each for each in pieces if isinstance(each, Finding) and each.severity is Severity.ERROR]
    broken = [each for each in pieces if isinstance(each, BrokenResource)]
    assert {each.key.name for each in broken} <= {"a"}
    assert not errors or broken or kind in MAY_BE_SILENT


@settings(deadline=None)
@given(JSON)
def test_metadata_of_any_content_ends_in_findings(metadata: object) -> None:
    for name, kind in KINDS.items():
        head = {"apiVersion": kind.versions[0], "kind": name, "metadata": metadata}
        (document,) = parse_documents("a.yaml", json.dumps(head).encode())
        pieces = read_file("prod", "a.yaml", [document]).pieces
        if not isinstance(metadata, dict) or not metadata.get("name"):
            assert [each.place.field.partition(".")[0] for each in pieces if isinstance(each, Finding)][:1] == [
                "metadata"
            ]


@pytest.mark.parametrize("name", ["x" * 100_000, "spec." * 20_000])
def test_long_names_are_shortened_in_findings(name: str) -> None:
    head = "apiVersion: llmd.ai/v1alpha1\nkind: VariantAutoscaling\nmetadata: {name: a}\nspec:\n  modelID: m\n"
    (document,) = parse_documents("a.yaml", f"{head}  ? {name}\n  : 1\n".encode())
    told = [str(finding) for finding in merge([read_file("prod", "a.yaml", [document])]).findings]
    assert len(told) == 2
    assert all(len(line) < 200 for line in told)
