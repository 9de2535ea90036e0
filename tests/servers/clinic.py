"""Clusters that are well, and clusters that each lack something, in one Prometheus: `matchLabels` tells them apart."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.servers.fleet import HOUR_S, Day, write_cache, write_gauge, write_replica
from tests.servers.prometheus import History
from tests.servers.speeds import GRANITE_A100, LLAMA_H100, QWEN_L4, Speed

HEALTHY = "healthy"
AHEAD_H = 2
"""Hours of history after now: whoever asks late, or with a clock that is ahead, is still answered."""
WEEK_AGO_S = 7 * 86_400.0
SLOW = Speed(alpha_s=0.03, beta_s=0.0004, max_batch=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod of the fleet with what it serves."""

    namespace: str
    target: str
    pod: str
    model: str
    per_s: float
    speed: Speed


FLEET = (
    Replica(
        namespace="chat",
        target="llama",
        pod="llama-5d4c8b7f9-bcdfg",
        model="llama",
        per_s=25.0,
        speed=LLAMA_H100,
    ),
    Replica(
        namespace="chat",
        target="llama",
        pod="llama-5d4c8b7f9-hjklm",
        model="llama",
        per_s=25.0,
        speed=LLAMA_H100,
    ),
    Replica(
        namespace="code",
        target="granite",
        pod="granite-6c9d8b7f54-x2v4k",
        model="ibm/granite-13b",
        per_s=4.0,
        speed=GRANITE_A100,
    ),
    Replica(
        namespace="batch",
        target="qwen",
        pod="qwen-6c9d8b7f54-x2v4k",
        model="Qwen/Qwen2.5-7B-Instruct",
        per_s=2.0,
        speed=QWEN_L4,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ward:
    """How a cluster differs from a healthy one."""

    replicas: tuple[Replica, ...] = FLEET
    past_h: int = 2
    is_kept_a_week: bool = True
    silent_for_s: float = 0.0
    without: tuple[str, ...] = ()
    """Metrics that are not scraped, by the beginnings of their names."""
    exports_labels: bool = False
    live: Mapping[str, int] | None = None
    """Replicas in the cluster by target, where they differ from Git."""


def write_wards(history: History, now_s: float, wards: Mapping[str, Ward]) -> None:
    """All clusters around `now_s` (Unix seconds)."""
    for name, ward in wards.items():
        _write_ward(history, now_s, name, ward)


def _write_ward(history: History, now_s: float, cluster: str, ward: Ward) -> None:
    told = History(end_s=history.end_s)
    hours = ward.past_h + AHEAD_H
    end_s = now_s - ward.silent_for_s if ward.silent_for_s else now_s + AHEAD_H * HOUR_S
    day = Day(start_s=end_s - hours * HOUR_S, hours=hours)
    for replica in ward.replicas:
        _write_pod(
            told, day, replica, {"namespace": replica.namespace, "pod": replica.pod, "model_name": replica.model}
        )
    kept = (day, _week_ago(now_s)) if ward.is_kept_a_week else (day,)
    for span in kept:
        _write_kubernetes(told, span, ward)
    for metric, kind, labels, points in told.families():
        if not metric.startswith(ward.without):
            suffix = labels.pop("")
            scraped = _scraped(labels) if ward.exports_labels and not metric.startswith("kube_") else labels
            history.series(kind, metric, {**scraped, "cluster": cluster}, points, suffix)


def _scraped(labels: Mapping[str, str]) -> dict[str, str]:
    """As a scrape leaves them whose target has a namespace and a pod of its own."""
    renamed = {_exported(name): value for name, value in labels.items()}
    return {**renamed, "namespace": "monitoring", "pod": "prometheus-0"}


def _exported(label: str) -> str:
    return f"exported_{label}" if label in ("namespace", "pod") else label


def _week_ago(now_s: float) -> Day:
    return Day(start_s=now_s - WEEK_AGO_S - 3 * HOUR_S, hours=5)


def _write_pod(history: History, day: Day, replica: Replica, labels: Mapping[str, str]) -> None:
    write_replica(history, day, labels, lambda _at_s: replica.per_s, replica.speed)
    write_cache(history, day, labels, lambda _at_s: 0.3)
    pod = {"namespace": replica.namespace, "pod": replica.pod}
    owner = replica.pod.rpartition("-")[0]
    write_gauge(history, day, "kube_pod_labels", {**pod, "label_llm_d_ai_variant": replica.target})
    write_gauge(history, day, "kube_pod_owner", {**pod, "owner_kind": "ReplicaSet", "owner_name": owner})
    asked = {"container": "vllm", "node": f"node-{replica.pod}", "resource": "nvidia_com_gpu", "unit": "integer"}
    write_gauge(history, day, "kube_pod_container_resource_requests", {**pod, **asked})


def _write_kubernetes(history: History, day: Day, ward: Ward) -> None:
    targets: dict[tuple[str, str], list[Replica]] = {}
    for replica in ward.replicas:
        targets.setdefault((replica.namespace, replica.target), []).append(replica)
    for (namespace, target), replicas in targets.items():
        owner = {"owner_kind": "Deployment", "owner_name": target}
        for name in _unique(each.pod.rpartition("-")[0] for each in replicas):
            write_gauge(history, day, "kube_replicaset_owner", {"namespace": namespace, "replicaset": name, **owner})
        live = (ward.live or {}).get(target, len(replicas))
        named = {"namespace": namespace, "deployment": target}
        write_gauge(history, day, "kube_deployment_spec_replicas", named, float(live))
    for product, node in (("NVIDIA-H100-80GB-HBM3", "h"), ("NVIDIA-A100-SXM4-80GB", "a"), ("NVIDIA-L4", "l")):
        write_gauge(history, day, "kube_node_info", {"node": node})
        write_gauge(history, day, "kube_node_labels", {"node": node, "label_nvidia_com_gpu_product": product})
        for resource, count in (("nvidia_com_gpu", 8.0), ("cpu", 96.0)):
            write_gauge(history, day, "kube_node_status_allocatable", {"node": node, "resource": resource}, count)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
