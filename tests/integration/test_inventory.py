"""Devices as a real Prometheus tells them, over series shaped like those of kube-state-metrics."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer
from reconciler.domain.inventory import DevicePool, Inventory
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.answers import decode_with_warnings
from reconciler.metrics.observed import device_queries, read_observed
from reconciler.prometheus.client import PrometheusClient
from reconciler.snapshot.accelerators import build_catalog
from reconciler.snapshot.inventory import device_names, take_inventory
from tests.servers.prometheus import ABSENT, History, prometheus_over
from tests.servers.variants import make_variant

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
PRODUCT = "label_nvidia_com_gpu_product"
H100, A100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
OLD_S, HOUR_S = 1500.0, 3300.0
RECENT_S = 240.0
"""Less than the ten minutes that a node must be silent or closed."""


def write_node(
    history: History,
    cluster: str,
    name: str,
    product: str = "",
    devices: float = 8.0,
    *,
    cordoned: Sequence[tuple[float, float]] = (),
    ready: Sequence[tuple[float, float]] = (),
    until_s: float = 0.0,
    exporters: Sequence[str] = ("ksm-0",),
    resource: str = "nvidia_com_gpu",
) -> None:
    """What kube-state-metrics exports of a node; `cordoned` and `ready` are (seconds before the end, value)."""
    for exporter in exporters:
        labels = {"cluster": cluster, "instance": exporter, "node": name}
        offers = {"cpu": 64.0, "memory": 1e12, "pods": 110.0, **({resource: devices} if devices or product else {})}

        def gauge(metric: str, extra: Mapping[str, str], value: float, labels: Mapping[str, str] = labels) -> None:
            history.gauge(metric, {**labels, **extra}, value, since_s=HOUR_S, until_s=until_s)

        gauge("kube_node_info", {"kubelet_version": "v1.31.0"}, 1.0)
        gauge("kube_node_labels", {PRODUCT: product, "label_zone": "z"} if product else {"label_zone": "z"}, 1.0)
        for resource_name, value in offers.items():
            gauge("kube_node_status_allocatable", {"resource": resource_name, "unit": "integer"}, value)
        for metric, extra, points, otherwise in (
            ("kube_node_spec_unschedulable", {}, cordoned, 0.0),
            ("kube_node_status_condition", {"condition": "Ready", "status": "true"}, ready, 1.0),
        ):
            if points:
                history.series("gauge", metric, {**labels, **extra}, spread(points), "")
            else:
                gauge(metric, extra, otherwise)


def spread(steps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Samples every 15 s; each step is the value from so many seconds before the end on."""
    points = []
    for index, (since_s, value) in enumerate(steps):
        until_s = steps[index + 1][0] if index + 1 < len(steps) else -15.0
        points += [(END_S - since_s + 15.0 * tick, value) for tick in range(int((since_s - until_s) / 15.0))]
    return points


def write_pod(
    history: History,
    cluster: str,
    namespace: str,
    pod: str,
    node: str,
    devices: Mapping[str, float],
    *,
    phase: str = "Running",
    exporters: Sequence[str] = ("ksm-0",),
    resource: str = "nvidia_com_gpu",
) -> None:
    """What kube-state-metrics exports of a pod; `devices` by container."""
    for exporter in exporters:
        labels = {"cluster": cluster, "instance": exporter, "namespace": namespace, "pod": pod}
        for each in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            history.gauge("kube_pod_status_phase", {**labels, "phase": each}, float(each == phase))
        for container, count in devices.items():
            placed = {**labels, "container": container, **({"node": node} if node else {})}
            for name, value in ((resource, count), ("cpu", 8.0)):
                history.gauge("kube_pod_container_resource_requests", {**placed, "resource": name}, value)


def written() -> History:
    """Cluster us is told of twice, as by two exporters; eu has nodes that say too little, old has fallen silent."""
    history = History(end_s=END_S)
    both = ("ksm-0", "ksm-1")
    for name in ("a", "b"):
        write_node(history, "us", name, H100, exporters=both)
    write_node(history, "us", "cpu-0", devices=0.0, exporters=both)
    write_node(history, "us", "cordoned", A100, cordoned=[(HOUR_S, 0.0), (900.0, 1.0)])
    write_node(history, "us", "cordoned-now", A100, cordoned=[(HOUR_S, 0.0), (RECENT_S, 1.0)])
    write_node(history, "us", "lost", A100, ready=[(HOUR_S, 1.0), (900.0, 0.0)])
    write_node(history, "us", "flapping", A100, ready=[(HOUR_S, 1.0), (900.0, 0.0), (300.0, 1.0), (RECENT_S, 0.0)])
    write_node(history, "us", "removed", L4, until_s=1200.0)
    write_node(history, "us", "mig", f"{A100}-MIG-1g.10gb", 56.0)
    llama = "llama-7f9c6b5d84-bcdfg"
    write_pod(history, "us", "llm", llama, "a", {"vllm": 4.0, "sidecar": 1.0}, exporters=both)
    write_pod(history, "us", "llm", "llama-7f9c6b5d84-hjklm", "cordoned", {"vllm": 2.0})
    write_pod(history, "us", "lab", "train-0", "b", {"main": 2.0, "helper": 1.0}, exporters=both)
    write_pod(history, "us", "lab", "finished", "b", {"main": 4.0}, phase="Succeeded")
    write_pod(history, "us", "lab", "evicted", "b", {"main": 4.0}, phase="Failed")
    write_pod(history, "us", "lab", "waits", "", {"main": 4.0}, phase="Pending")
    write_pod(history, "us", "lab", "starts", "b", {"main": 1.0}, phase="Pending")
    write_pod(history, "us", "lab", "on-cordoned", "cordoned", {"main": 4.0})
    write_node(history, "eu", "a", H100)
    write_node(history, "eu", "b")
    history.gauge("kube_node_status_allocatable", {"cluster": "eu", "node": "b", "resource": "nvidia_com_gpu"}, 8.0)
    write_node(history, "old", "a", H100, until_s=1200.0)
    # a scrape that keeps the target's labels: every node would be the one that the exporter runs on
    renamed = {"cluster": "renamed", "node": "ksm"}
    for name in ("a", "b"):
        for metric in ("kube_node_info", "kube_node_status_allocatable"):
            history.gauge(metric, {**renamed, "exported_node": name, "resource": "nvidia_com_gpu"}, 8.0)
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the written history is served."""
    with prometheus_over(written(), tmp_path_factory.mktemp("prometheus")) as base:
        yield base


def ask(url: str, name: str) -> tuple[Settings, tuple[Answer, ...]]:
    prometheus = PrometheusSettings(url=url, match_labels={"cluster": name})
    settings = Settings(clusters=(ClusterSettings(name=name, prometheus=prometheus),))
    client = PrometheusClient(prometheus, str)
    answers = client.ask_all(device_queries(settings.clusters[0], device_names(settings), END_S))
    assert client.requests_sent == 2
    for answer in answers:
        assert answer.status is AnswerStatus.OK, answer.reason
        assert decode_with_warnings(answer)[1] == ()
    return settings, tuple(answers)


def inventory_at(url: str, name: str) -> Inventory:
    settings, answers = ask(url, name)
    variant = make_variant("llama", cluster=name)
    seen = read_observed([variant], answers, END_S, settings).devices
    return take_inventory(settings, {name: build_catalog((), ())}, [variant], seen, END_S)


@pytest.fixture(scope="module")
def us(url: str) -> Inventory:
    """All of cluster us."""
    return inventory_at(url, "us")


def found(inventory: Inventory, cluster: str, device: str) -> DevicePool:
    pool = inventory.find(cluster, device)
    assert pool is not None
    return pool


def test_two_exporters_that_say_the_same_count_once(us: Inventory) -> None:
    pool = found(us, "us", "H100")
    assert (pool.exists, pool.measured.reason) == (16, "2 nodes")


def test_others_hold_what_their_pods_on_nodes_ask_for(us: Inventory) -> None:
    pool = found(us, "us", "H100")
    assert (pool.taken, pool.devices) == (4, 12)
    assert [(each.namespace, each.pods, each.devices) for each in pool.measured.holders] == [("lab", 2, 4)]


def test_only_what_has_been_closed_for_ten_minutes_is_closed(us: Inventory) -> None:
    pool = found(us, "us", "A100")
    # cordoned: what ours hold, 2; cordoned just now: 8; lost: none; ready for a moment: 8
    assert (pool.exists, pool.taken, pool.measured.allocatable) == (18, 0, 32)
    assert pool.measured.reason == "4 nodes, 2 of them cordoned or not ready"


def test_a_node_that_left_counts_for_an_hour(us: Inventory) -> None:
    pool = found(us, "us", "L4")
    assert (pool.exists, pool.measured.reason) == (8, "1 node, 1 of them silent for ten minutes")


def test_slices_are_no_whole_devices(us: Inventory) -> None:
    assert found(us, "us", f"{A100}-MIG-1g.10gb").exists == 56


def test_a_node_whose_label_is_not_exported_makes_types_unknown(url: str) -> None:
    pool = found(inventory_at(url, "eu"), "eu", "H100")
    assert pool.devices is None
    assert pool.measured.reason.startswith("devices of 1 node have no product label")


@pytest.mark.parametrize(
    ("cluster", "absence"), [("old", Absence.STALE), ("nowhere", Absence.MISSING), ("renamed", Absence.MISSING)]
)
def test_a_cluster_that_says_nothing_now_has_no_zero(url: str, cluster: str, absence: Absence) -> None:
    settings, answers = ask(url, cluster)
    nodes = read_observed([], answers, END_S, settings).devices[cluster].nodes
    assert isinstance(nodes, NoAnswer)
    assert nodes.absence is absence
    assert found(inventory_at(url, cluster), cluster, "H100").devices is None


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_down_has_no_zero() -> None:
    prometheus = PrometheusSettings(url="http://127.0.0.1:9")
    settings = Settings(clusters=(ClusterSettings(name="us", prometheus=prometheus),))
    queries = device_queries(settings.clusters[0], device_names(settings), END_S)
    answers = PrometheusClient(prometheus, str).ask_all(queries)
    nodes = read_observed([], answers, END_S, settings).devices["us"].nodes
    assert isinstance(nodes, NoAnswer)
    assert nodes.absence is Absence.FAILED
