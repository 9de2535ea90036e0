"""Whose a pod is: labels first, then names, and neither where both are silent."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import Backend, LabelOperator, LabelRequirement, TrackedBackend
from reconciler.metrics.readings import ObjectName
from reconciler.metrics.tracked_pods import PodLabels, find_pods, is_selected

NAME, ENTRY, ROLE = (f"modelserving.volcano.sh/{each}" for each in ("name", "entry", "role"))
NO_LABELS = PodLabels(of_pod={}, exports=frozenset(), changed=frozenset())


def backend(
    name: str, kind: str = "ModelServing", *, role: str = "", labels: Mapping[str, str] | None = None
) -> TrackedBackend:
    return TrackedBackend(
        backend=Backend(name=name, min_replicas=1, max_replicas=9),
        scale_target=ResourceKey(cluster="prod", namespace="llm", kind=kind, name=name, part=role),
        pod_labels={NAME: name, ENTRY: "true"} if labels is None else labels,
    )


def exported(pods: Mapping[str, Mapping[str, str]]) -> PodLabels:
    return PodLabels(
        of_pod={ObjectName("llm", pod): labels for pod, labels in pods.items()},
        exports=frozenset(name for labels in pods.values() for name in labels),
        changed=frozenset(),
    )


def found(backends: list[TrackedBackend], pods: list[str], known: PodLabels = NO_LABELS) -> list[list[str]]:
    return [[pod.name for pod in each] for each in find_pods(backends, [ObjectName("llm", pod) for pod in pods], known)]


def labels(name: str, *, entry: bool = True) -> dict[str, str]:
    shown = {"label_modelserving_volcano_sh_name": name}
    return {**shown, "label_modelserving_volcano_sh_entry": "true"} if entry else shown


def test_labels_decide_whatever_a_pod_is_called() -> None:
    known = exported({"x": labels("chat"), "chat-0-server-0-0": labels("code"), "y": labels("chat", entry=False)})
    pods = ["x", "y", "chat-0-server-0-0"]
    assert found([backend("chat"), backend("code")], pods, known) == [["x"], ["chat-0-server-0-0"]]


@pytest.mark.parametrize(
    ("kind", "pod", "is_ours"),
    [
        ("Deployment", "chat-6d4b75cb6d-x7k2p", True),
        ("Deployment", "chat-eu-6d4b75cb6d-x7k2p", False),
        ("StatefulSet", "chat-12", True),
        ("LeaderWorkerSet", "chat-0-1", True),
        ("ModelServing", "chat-0-server-1-0", True),
        ("ModelServing", "chat-0-prefill-xl-1-0", True),
        ("ModelServing", "chat-0-server-1-2", False),  # a worker
        ("ModelInfer", "chat-3-leader-0-0", True),
        ("ModelServing", "chat", False),
        ("ModelServing", "chatter-0-server-0-0", False),
        ("Service", "chat-0", False),
    ],
)
def test_names_decide_where_no_pod_shows_the_labels(kind: str, pod: str, is_ours: bool) -> None:
    assert found([backend("chat", kind)], [pod]) == [[pod] if is_ours else []]


def test_the_longest_name_that_fits_wins() -> None:
    pods = ["chat-0-server-0-0", "chat-0-x-0-server-0-0"]
    assert found([backend("chat"), backend("chat-0-x")], pods) == [[pods[0]], [pods[1]]]


def test_roles_of_one_workload_have_their_own_pods() -> None:
    roles = [backend("chat", role=role) for role in ("prefill", "decode")]
    pods = ["chat-0-decode-0-0", "chat-0-prefill-0-0", "chat-0-prefill-1-0", "chat-0-prefiller-0-0"]
    assert found(roles, pods) == [pods[1:3], pods[:1]]


def test_another_namespace_is_another_workload() -> None:
    other = replace(backend("chat"), scale_target=replace(backend("chat").scale_target, namespace="other"))
    assert found([other], ["chat-0-server-0-0"]) == [[]]
    assert found([other], ["x"], exported({"x": labels("chat")})) == [[]]


def test_a_pod_whose_labels_changed_goes_by_its_name() -> None:
    known = replace(
        exported({"chat-0-server-0-0": labels("code")}), changed=frozenset({ObjectName("llm", "chat-0-server-0-0")})
    )
    assert found([backend("chat"), backend("code")], ["chat-0-server-0-0"], known) == [["chat-0-server-0-0"], []]


def test_two_policies_may_follow_the_same_pods() -> None:
    twice = [backend("chat"), backend("chat")]
    assert found(twice, ["chat-0-server-0-0"]) == [["chat-0-server-0-0"]] * 2


IN, NOT_IN, EXISTS, ABSENT = LabelOperator


@pytest.mark.parametrize(
    ("operator", "values", "verdicts"),
    [
        (IN, ("a", "b"), (True, False, False, None)),
        (NOT_IN, ("a", "b"), (False, True, True, True)),
        (EXISTS, (), (True, True, False, None)),
        (ABSENT, (), (False, False, True, True)),
    ],
)
def test_a_selector_means_what_it_means_in_kubernetes(
    operator: LabelOperator, values: tuple[str, ...], verdicts: tuple[bool | None, ...]
) -> None:
    """Of pods with the value a, the value z, without the label; and where no pod shows it."""
    known = exported({"with-a": {"label_tier": "a"}, "with-z": {"label_tier": "z"}, "without": {}})
    requirement = [LabelRequirement(key="tier", operator=operator, values=values)]
    got = [is_selected(requirement, ObjectName("llm", pod), known) for pod in ("with-a", "with-z", "without")]
    assert (*got, is_selected(requirement, ObjectName("llm", "any"), NO_LABELS)) == verdicts


def test_all_requirements_must_hold() -> None:
    known = exported({"x": {"label_tier": "a"}})
    tier = LabelRequirement(key="tier", operator=IN, values=("a",))
    unknown = LabelRequirement(key="zone", operator=EXISTS)
    other = LabelRequirement(key="tier", operator=IN, values=("b",))
    pod = ObjectName("llm", "x")
    assert is_selected([], pod, known) is True
    assert is_selected([tier, unknown], pod, known) is None
    assert is_selected([unknown, other], pod, known) is False


def test_a_name_longer_than_kubernetes_allows_is_nobodys() -> None:
    pod = "chat-0-server-0" + "-0" * 50_000
    assert found([backend("chat")], [pod]) == [[]]
