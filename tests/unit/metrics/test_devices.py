"""What nodes offer and pods hold: the queries, and what their answers mean."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from reconciler.domain.answers import Absence, Answer, NoAnswer
from reconciler.domain.observed import ClusterNode, Holding
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.observed import DeviceNames, device_queries, read_observed
from tests.unit.metrics.fleet import NOW_S, make_answer, make_variant

NAMES = DeviceNames(resources=("nvidia_com_gpu", "nvidia_com_mig_.*"), labels=("nvidia.com/gpu.product", "a.b/Tier"))
Rows = Sequence[tuple[Mapping[str, str], float | str]]


def cluster(**fields: Any) -> ClusterSettings:
    return ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://prometheus", **fields))


def test_two_queries_cover_a_cluster() -> None:
    nodes, requests = device_queries(cluster(), NAMES, 5.0)
    assert (nodes.quantity, requests.quantity, nodes.cluster) == ("nodes", "device_requests", "prod")
    assert {nodes.start_s, nodes.end_s, requests.end_s} == {5.0}
    assert 'resource=~"nvidia_com_gpu|nvidia_com_mig_.*|cpu",exported_node=""' in nodes.text
    assert "group by (node, label_nvidia_com_gpu_product, label_a_b_tier)" in nodes.text
    assert (
        'resource=~"nvidia_com_gpu|nvidia_com_mig_.*",node!="",exported_node="",exported_namespace=""' in requests.text
    )
    assert "namespace=" not in nodes.text.replace("exported_namespace", "")


def test_they_are_held_to_their_cluster_and_spelled_as_its_server_does() -> None:
    settings = cluster(
        match_labels={"cluster": "a"}, label_names={"namespace": "exported_namespace", "pod": "pod_name"}
    )
    nodes, requests = device_queries(settings, NAMES, 5.0)
    assert nodes.text.count('cluster="a",exported_node=""') == nodes.text.count("{")
    assert "sum by (exported_namespace, pod_name, node, resource)" in requests.text
    assert 'exported_namespace=""' not in requests.text


def test_nothing_is_queried_without_a_prometheus() -> None:
    assert device_queries(ClusterSettings(name="prod"), NAMES, 5.0) == ()


def seen(nodes: Rows | str | None, requests: Rows | str | None = (), others: Sequence[Answer] = ()) -> Any:
    """What the rows of the two answers come to; a text instead of rows is why there are none."""
    answers = list(others)
    for quantity, rows in (("nodes", nodes), ("device_requests", requests)):
        if isinstance(rows, str):
            answers.append(make_answer(quantity, failed=rows))
        elif rows is not None:
            answers.append(make_answer(quantity, rows))
    settings = Settings(clusters=(cluster(),))
    return read_observed([make_variant("llama")], answers, NOW_S, settings).devices["prod"]


def told(name: str, devices: float | str = 8.0, age_s: float = 30.0, **labels: str) -> list[Any]:
    """The rows about one node that works."""
    return [
        ({"fact": "offers", "node": name, "resource": "cpu"}, 64.0),
        ({"fact": "offers", "node": name, "resource": "nvidia_com_gpu"}, devices),
        ({"fact": "labels", "node": name, **labels}, 1.0),
        ({"fact": "seen", "node": name}, NOW_S - age_s),
    ]


def test_a_node_has_what_it_offers_and_its_labels() -> None:
    found = seen([*told("b", label_x="L4"), *told("a", label_x="")])
    assert found.nodes == (
        ClusterNode(name="a", offers={"cpu": 64, "nvidia_com_gpu": 8}),
        ClusterNode(name="b", offers={"cpu": 64, "nvidia_com_gpu": 8}, labels={"label_x": "L4"}),
    )
    assert found.holdings == ()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_an_invalid_number_is_not_zero(value: str) -> None:
    holding = {"namespace": "lab", "pod": "p", "node": "a", "resource": "nvidia_com_gpu"}
    found = seen(told("a", value), [(holding, value)])
    assert found.nodes[0].offers["nvidia_com_gpu"] is None
    assert found.holdings[0].devices is None


def test_a_node_is_closed_silent_or_changed() -> None:
    (fresh, silent) = seen(
        [
            *told("a", label_x="L4", label_y="1"),
            *told("b", age_s=1200.0),
            ({"fact": "cordoned", "node": "a"}, 1.0),
            ({"fact": "not ready", "node": "a"}, 0.0),
            ({"fact": "labels", "node": "a", "label_x": "H100", "label_y": "1"}, 1.0),
        ]
    ).nodes
    assert (fresh.closed, fresh.is_silent, fresh.is_changed) == ("cordoned and not ready", False, True)
    assert fresh.labels == {"label_y": "1"}
    assert (silent.closed, silent.is_silent, silent.is_changed) == ("", True, False)


def test_a_node_that_says_nothing_is_there_all_the_same() -> None:
    found = seen([*told("a"), ({"fact": "seen", "node": "b"}, NOW_S)])
    assert [(each.name, bool(each.offers)) for each in found.nodes] == [("a", True), ("b", False)]


@pytest.mark.parametrize(
    ("kept", "absence", "reason"),
    [
        (
            (),
            Absence.MISSING,
            "no series of kube_node_info: this Prometheus scrapes no kube-state-metrics that exports",
        ),
        (("offers", "labels"), Absence.MISSING, "no series of kube_node_info"),
        (("seen", "labels"), Absence.MISSING, "no series of kube_node_status_allocatable"),
    ],
)
def test_what_is_missing_is_no_zero(kept: Any, absence: Absence, reason: str) -> None:
    found = seen([row for row in told("a") if row[0]["fact"] in kept]).nodes
    assert isinstance(found, NoAnswer)
    assert found.absence is absence
    assert found.reason.startswith(reason)


def test_what_is_stale_is_no_zero() -> None:
    found = seen([*told("a", age_s=1500.0), *told("b", age_s=1800.0)]).nodes
    assert found == NoAnswer(absence=Absence.STALE, reason="kube-state-metrics reported no node for 25 min")


def test_an_invalid_time_is_unknown() -> None:
    rows = [*told("a"), ({"fact": "seen", "node": "b"}, "NaN")]
    assert seen(rows).nodes.absence is Absence.NAN


def test_what_failed_is_no_zero_and_is_a_failure_of_the_run() -> None:
    found = seen("503 from the server", "503 from the server")
    assert found.nodes == found.holdings == NoAnswer(absence=Absence.FAILED, reason="503 from the server")
    answers = [make_answer("nodes", failed="503 from the server")]
    observed = read_observed([make_variant("llama")], answers, NOW_S, Settings(clusters=(cluster(),)))
    assert observed.failures == ("prod: 503 from the server",)


def test_what_was_not_queried_is_not_zero() -> None:
    found = seen([], None).holdings
    assert found == NoAnswer(absence=Absence.FAILED, reason="Prometheus was not queried for device_requests")


def test_a_cluster_without_a_prometheus_knows_of_no_device() -> None:
    settings = Settings(clusters=(ClusterSettings(name="prod"),))
    found = read_observed([make_variant("llama")], [], NOW_S, settings).devices["prod"].nodes
    assert isinstance(found, NoAnswer)
    assert "has no Prometheus" in found.reason


@pytest.mark.parametrize(
    ("kind", "pod", "is_ours"),
    [
        ("Deployment", "llama-7f9c6b5d84-bcdfg", True),
        ("Deployment", "llama-big-7f9c6b5d84-bcdfg", False),
        ("Deployment", "notebook", False),
        ("StatefulSet", "llama-3", True),
        ("LeaderWorkerSet", "llama-0", True),
        ("LeaderWorkerSet", "llama-0-3", True),
        ("ModelServing", "llama-0-decode-1-0", True),
        ("ModelServing", "llama-0-decode-1-3", True),
        ("ModelServing", "other-0-decode-1-3", False),
    ],
)
def test_every_pod_of_a_scale_target_is_ours(kind: str, pod: str, is_ours: bool) -> None:
    labels = {"namespace": "llm", "pod": pod, "node": "a", "resource": "nvidia_com_gpu"}
    variants = [make_variant("llama", kind=kind), make_variant("contested", target="llama", kind=kind)]
    answers = [make_answer("device_requests", [(labels, 2.0)])]
    found = read_observed(variants, answers, NOW_S, Settings(clusters=(cluster(),))).devices["prod"]
    assert not isinstance(found.holdings, NoAnswer)
    (holding,) = found.holdings
    assert holding == Holding(namespace="llm", node="a", resource="nvidia_com_gpu", devices=2, variant=holding.variant)
    assert (holding.variant is not None) is is_ours


def test_the_owners_of_a_pod_say_whose_it_is() -> None:
    labels = {"namespace": "llm", "pod": "odd", "node": "a", "resource": "nvidia_com_gpu"}
    answers = [
        make_answer("device_requests", [(labels, 2.0)]),
        make_answer("pod_owner", [({"namespace": "llm", "pod": "odd", "owner_name": "rs"}, 1.0)]),
        make_answer("replicaset_owner", [({"namespace": "llm", "replicaset": "rs", "owner_name": "llama"}, 1.0)]),
    ]
    found = read_observed([make_variant("llama")], answers, NOW_S, Settings(clusters=(cluster(),))).devices["prod"]
    assert not isinstance(found.holdings, NoAnswer)
    assert [each.variant and each.variant.name for each in found.holdings] == ["llama"]


def test_the_pods_of_another_cluster_are_not_ours() -> None:
    labels = {"namespace": "llm", "pod": "llama-7f9c6b5d84-bcdfg", "node": "a", "resource": "nvidia_com_gpu"}
    answers = [make_answer("device_requests", [(labels, 2.0)], cluster="eu")]
    settings = Settings(clusters=(cluster(), ClusterSettings(name="eu")))
    found = read_observed([make_variant("llama")], answers, NOW_S, settings).devices["eu"]
    assert not isinstance(found.holdings, NoAnswer)
    assert [each.variant for each in found.holdings] == [None]
