"""Which priority a scale target has: that of the objectives of the pools that select its pods."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.identity import Place, ResourceKey, Sourced, SourceKind
from reconciler.domain.workloads import Workload
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import Document
from reconciler.resources.declaration import Declaration
from reconciler.resources.inference.gateway import (
    ExperimentalPoolSpec,
    Inference,
    InferenceObjective,
    InferencePool,
    ObjectiveSpec,
)
from reconciler.resources.inference.priorities import Priorities, list_pod_labels
from reconciler.resources.objects import KubernetesObject

Load = Callable[[str], Declaration]
Write = Callable[..., str]

EXPERIMENTAL, ROUTER = "inference.networking.x-k8s.io/v1alpha2", "llm-d.ai/v1alpha2"
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: llm}
spec: {replicas: 1, template: {metadata: {labels: {app: vllm, model: llama}}}}
---
"""


def pool(labels: str) -> str:
    return f"{{selector: {{matchLabels: {labels}}}, targetPorts: [{{number: 8000}}]}}"


def objective(priority: int | None, name: str = "chat", group: str = "inference.networking.k8s.io") -> str:
    written = "" if priority is None else f"priority: {priority}, "
    return f"{{{written}poolRef: {{name: {name}, group: {group}}}}}"


@pytest.fixture
def priority_of(load: Load) -> Callable[[str], Sourced[int]]:
    """Of the Deployment beside some other objects."""

    def _priority_of(text: str) -> Sourced[int]:
        declaration = load(DEPLOYMENT + text)
        return Priorities.of(declaration.inference).priority_of(declaration.workloads[0])

    return _priority_of


Priority = Callable[[str], Sourced[int]]


def test_without_an_objective_the_priority_is_zero(priority_of: Priority, write: Write) -> None:
    for text in ("", write("InferencePool", pool("{app: vllm}")), write("InferenceObjective", objective(5))):
        found = priority_of(text)
        assert (found.value, found.source.kind, str(found.source)) == (0, SourceKind.BUILT_IN, "no InferenceObjective")


@pytest.mark.parametrize("priority", [7, -10, 0])
def test_the_priority_is_that_of_the_objective_of_its_pool(priority_of: Priority, write: Write, priority: int) -> None:
    text = write("InferencePool", pool("{app: vllm}")) + write("InferenceObjective", objective(priority), "high")
    found = priority_of(text)
    assert found.value == priority
    assert found.source.place == Place(path="a.yaml", line=14, field="spec.priority")
    assert found.source.detail == "InferenceObjective llm/high of pool chat"


def test_of_several_objectives_the_highest_counts_and_the_others_are_kept(priority_of: Priority, write: Write) -> None:
    text = write("InferencePool", pool("{app: vllm}"))
    text += "".join(
        write("InferenceObjective", objective(priority), f"o{index}") for index, priority in enumerate([-10, 3, None])
    )
    found = priority_of(text)
    assert found.value == 3
    assert [each.value for each in found.displaced] == [0, -10]


def test_only_negative_objectives_leave_a_negative_priority(priority_of: Priority, write: Write) -> None:
    text = write("InferencePool", pool("{app: vllm}"))
    text += write("InferenceObjective", objective(-1), "a") + write("InferenceObjective", objective(-5), "b")
    assert priority_of(text).value == -1


@pytest.mark.parametrize(
    ("labels", "is_selected"),
    [
        ("{app: vllm}", True),
        ("{app: vllm, model: llama}", True),
        ("{app: vllm, model: qwen}", False),
        ("{app: vllm, more: x}", False),
    ],
)
def test_a_pool_selects_pods_that_have_all_of_its_labels(
    priority_of: Priority, write: Write, labels: str, is_selected: bool
) -> None:
    text = write("InferencePool", pool(labels)) + write("InferenceObjective", objective(7))
    assert priority_of(text).value == (7 if is_selected else 0)


def test_pools_and_objectives_of_other_namespaces_do_not_count(priority_of: Priority, write: Write) -> None:
    text = write("InferencePool", pool("{app: vllm}")) + write("InferenceObjective", objective(7))
    assert priority_of(text.replace("namespace: llm", "namespace: other")).value == 0
    here, _, there = text.partition("---\n")
    assert priority_of(f"{here}---\n{there.replace('namespace: llm', 'namespace: other')}").value == 0


def test_an_objective_means_the_pool_of_its_group(priority_of: Priority, write: Write) -> None:
    flat = "{selector: {app: vllm}, targetPortNumber: 8000}"
    older = write("InferencePool", flat, version=EXPERIMENTAL)
    group = "inference.networking.x-k8s.io"
    assert priority_of(older + write("InferenceObjective", objective(7))).value == 0
    assert priority_of(older + write("InferenceObjective", objective(7, group=group))).value == 7


def test_of_two_pools_the_more_important_one_counts(priority_of: Priority, write: Write) -> None:
    text = write("InferencePool", pool("{app: vllm}"), "a") + write("InferencePool", pool("{model: llama}"), "b")
    text += write("InferenceObjective", objective(1, "a"), "a") + write("InferenceObjective", objective(4, "b"), "b")
    assert priority_of(text).value == 4


def test_where_both_groups_are_in_use_only_the_routers_own_counts(priority_of: Priority, write: Write) -> None:
    text = write("InferencePool", pool("{app: vllm}")) + write("InferenceObjective", objective(9), "high")
    assert priority_of(text + write("InferenceObjective", objective(2), "high", ROUTER)).value == 2


@pytest.mark.parametrize(
    ("criticality", "priority"),
    [(", criticality: Critical", 1), ("", 0), (", criticality: Sheddable", -1)],
)
def test_criticality_counts_where_no_objective_speaks(
    priority_of: Priority, write: Write, criticality: str, priority: int
) -> None:
    flat = "{selector: {app: vllm}, targetPortNumber: 8000}"
    text = write("InferencePool", flat, version=EXPERIMENTAL)
    text += write("InferenceModel", f"{{modelName: m, poolRef: {{name: chat}}{criticality}}}", "m")
    found = priority_of(text)
    assert (found.value, found.source.kind) == (priority, SourceKind.RESOURCE)
    group = "inference.networking.x-k8s.io"
    assert priority_of(text + write("InferenceObjective", objective(-4, group=group))).value == -4


def test_twenty_objectives_of_one_priority_are_one_level(priority_of: Priority, write: Write) -> None:
    text = write("InferencePool", pool("{app: vllm}"))
    text += "".join(write("InferenceObjective", objective(5), f"o{number}") for number in range(20))
    found = priority_of(text)
    assert (found.value, len(found.displaced)) == (5, 19)


def workload(kind: str, labels: dict[str, str]) -> Workload:
    key = ResourceKey(cluster="prod", namespace="llm", kind=kind, name="llama")
    place = Place(path="a.yaml")
    document = DocumentRef(path="a.yaml", document=0)
    return Workload(key=key, document=document, place=place, replicas=1, template_labels=labels)


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "Playground", "Service"])
def test_pods_of_a_group_carry_the_names_of_their_group(kind: str) -> None:
    labels = list_pod_labels(workload(kind, {"app": "vllm"}))
    assert labels == {
        "app": "vllm",
        "leaderworkerset.sigs.k8s.io/name": "llama",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    assert list_pod_labels(workload("Deployment", {"app": "vllm"})) == {"app": "vllm"}


def test_a_pool_may_select_what_serves_an_llmaz_model(load: Load, write: Write) -> None:
    playground = (
        "apiVersion: inference.llmaz.io/v1alpha1\nkind: Playground\nmetadata: {name: chat, namespace: llm}\n"
        "spec: {modelClaim: {modelName: qwen}}\n---\n"
    )
    text = write("InferencePool", pool("{llmaz.io/model-name: qwen}")) + write("InferenceObjective", objective(6))
    declaration = load(playground + text)
    assert Priorities.of(declaration.inference).priority_of(declaration.workloads[0]).value == 6


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


def written(kind: str, name: str) -> KubernetesObject:
    document = Document(path="a.yaml", index=0, value={}, first_line=1, lines=1)
    fields = {"apiVersion": "inference.networking.k8s.io/v1"}
    return KubernetesObject(
        cluster="prod", namespace="llm", kind=kind, name=name, document=document, prefix=(), fields=fields
    )


@given(LABELS, st.lists(st.tuples(LABELS, st.lists(st.integers(-3, 3), max_size=3)), max_size=4))
def test_the_priority_is_the_highest_of_all_pools_that_select(
    labels: dict[str, str], pools: list[tuple[dict[str, str], list[int]]]
) -> None:
    found: list[InferencePool] = []
    objectives: list[InferenceObjective] = []
    for number, (selector, priorities) in enumerate(pools):
        spec = ExperimentalPoolSpec.model_validate({"selector": selector, "targetPortNumber": 8000})
        found.append(InferencePool(written("InferencePool", f"p{number}"), spec))
        for index, priority in enumerate(priorities):
            objective = ObjectiveSpec.model_validate({"priority": priority, "poolRef": {"name": f"p{number}"}})
            objectives.append(InferenceObjective(written("InferenceObjective", f"o{number}-{index}"), objective))
    levels = [
        priority
        for selector, priorities in pools
        if selector and selector.items() <= labels.items()
        for priority in priorities
    ]
    inference = Inference(pools=tuple(found), objectives=tuple(objectives))
    assert Priorities.of(inference).priority_of(workload("Deployment", labels)).value == max(levels, default=0)
