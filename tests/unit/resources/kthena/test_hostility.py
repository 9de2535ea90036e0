"""Whatever stands in a manifest of Kthena, reading it ends in findings and never in an exception."""

import json
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import merge
from reconciler.resources.kthena.tracked_targets import tracked_targets
from reconciler.resources.reading import read_file

FOLDER = Path(__file__).parents[3] / "testdata" / "resources" / "kthena"
TEXTS = [path.read_text() for path in sorted(FOLDER.glob("*/*.yaml"))]
WORDS = sorted({word for text in TEXTS for word in text.split()})
NOISE = st.sampled_from(
    ["null", "[]", "{}", "[{}]", "0", "-1", "1e400", ".nan", "0.75", '"1e-100"', "99999999999", "-5m", "true", "${X}"]
)
KINDS = {
    "AutoscalingPolicy": "workload.serving.volcano.sh",
    "AutoscalingPolicyBinding": "registry.volcano.sh",
    "Model": "registry.matrixinfer.ai",
    "ModelBooster": "workload.serving.volcano.sh",
    "ModelServing": "workload.serving.volcano.sh",
    "ModelInfer": "workload.volcano.sh",
}
KEYS = sorted({word.strip('-"{}[],:') for word in WORDS if word.endswith(":")})


def end_in_findings(text: str) -> None:
    try:
        documents = parse_documents("a.yaml", text.encode(errors="replace"))
    except InputError:
        return
    declaration = merge([read_file("prod", "a.yaml", documents)])
    assert all(str(finding).isprintable() for finding in declaration.findings)
    assert all(broken.reason.isprintable() for broken in declaration.broken)
    for target in tracked_targets(declaration.kthena):
        assert all(metric.per_replica > 0 for metric in target.policy.metrics)
        assert all(0 <= each.backend.min_replicas <= each.backend.max_replicas for each in target.backends)
        assert all(each.pods_per_replica >= 1 for each in target.backends)


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A manifest with a few of its words replaced, swapped in from others, or cut."""
    documents = draw(st.sampled_from(TEXTS)).split("\n---\n")
    words = draw(st.sampled_from(documents)).split(" ")
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(words) - 1))
        words[index] = draw(NOISE | st.sampled_from(WORDS) | st.text(max_size=8) | st.just(""))
    return " ".join(words)


@given(mutations())
def test_mutated_manifests_end_in_findings(text: str) -> None:
    end_in_findings(text)


LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    LEAVES | st.sampled_from([*KEYS, "5m", "10", "vLLM", "And", "Pod"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(KINDS)),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6),
    st.sampled_from(["", "List"]),
    JSON,
)
def test_objects_of_any_content_end_in_findings(
    kind: str, spec: Mapping[str, object], suffix: str, status: object
) -> None:
    item = {"metadata": {"name": "a"}, "spec": spec, "status": status}
    head = {"apiVersion": f"{KINDS[kind]}/v1alpha1", "kind": kind + suffix}
    end_in_findings(json.dumps(head | (item if not suffix else {"items": [item]})))
