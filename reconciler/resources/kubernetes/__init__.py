"""PURE. The kinds of Kubernetes itself: scale targets, autoscalers, namespaces."""

from collections.abc import Iterator

from reconciler.domain.records import replace
from reconciler.domain.variant_settings import IGNORE
from reconciler.resources.annotations import NAMESPACE_NAMES, check_annotations
from reconciler.resources.kinds import GENERATED, Family, Kind, ServingKind
from reconciler.resources.kubernetes.adapter_rules import read_adapter_config
from reconciler.resources.kubernetes.autoscalers import read_autoscaler, read_scaled_object
from reconciler.resources.kubernetes.scale_targets import read_deployment, read_leader_worker_set, read_stateful_set
from reconciler.resources.objects import KubernetesObject, Piece, break_on
from reconciler.resources.variants import IgnoredNamespace, UpstreamNamespace

_OPTED_IN = "wva.llmd.ai/config-enabled"


def read_namespace(source: KubernetesObject) -> Iterator[Piece]:
    """The namespace, when it is annotated to be ignored or marked for upstream."""
    checked = check_annotations(source, NAMESPACE_NAMES)
    yield from break_on(source, checked.findings)
    ignore = checked.settings.get(IGNORE.name)
    if ignore is not None and ignore.value is True:
        yield IgnoredNamespace(cluster=source.cluster, name=source.name, place=ignore.place)
    if source.labels.get(_OPTED_IN) == "true":
        yield UpstreamNamespace(cluster=source.cluster, name=source.name, place=source.place)


def _of_pods(metrics: str, *tried_on: str) -> ServingKind:
    return ServingKind(
        replicas="`spec.replicas`",
        instance="a pod",
        accelerator="node selector or required affinity of its pods",
        bounds="of the HPA or ScaledObject on it",
        metrics=metrics,
        tried_on=tried_on,
    )


KUBERNETES = Family(
    kinds={
        "Deployment": Kind(
            versions=("apps/v1",),
            read=read_deployment,
            retired=("extensions/v1beta1",),
            is_scale_target=True,
            pod_names=f"-{GENERATED}{{6,10}}-{GENERATED}{{5}}",
            serving=_of_pods(
                "pods NAME-HASH-ID, or by their ReplicaSet",
                "vllm-project/production-stack",
                "vllm-project/aibrix",
                "GoogleCloudPlatform/accelerated-platforms",
                "kubernetes-sigs/inference-perf",
            ),
        ),
        "StatefulSet": Kind(
            versions=("apps/v1",),
            read=read_stateful_set,
            retired=("apps/v1beta1", "apps/v1beta2"),
            is_scale_target=True,
            pod_names="-[0-9]+",
            serving=_of_pods("pods NAME-N"),
        ),
        "LeaderWorkerSet": Kind(
            versions=("leaderworkerset.x-k8s.io/v1",),
            read=read_leader_worker_set,
            is_scale_target=True,
            is_pod_group=True,
            pod_names="-[0-9]+(-[0-9]+)?",
            serving=replace(
                _of_pods("pods NAME-N of leaders", "kubernetes-sigs/lws", "awslabs/ai-on-eks", "Apocrathia/homelab"),
                instance="a group of `size` pods",
            ),
        ),
        "HorizontalPodAutoscaler": Kind(
            versions=("autoscaling/v2", "autoscaling/v1", "autoscaling/v2beta2", "autoscaling/v2beta1"),
            read=read_autoscaler,
            reads_templates=True,
            is_autoscaler=True,
        ),
        "ScaledObject": Kind(
            versions=("keda.sh/v1alpha1",), read=read_scaled_object, reads_templates=True, is_autoscaler=True
        ),
        "Namespace": Kind(versions=("v1",), read=read_namespace, is_namespaced=False, holds_settings=True),
    },
    config_maps={"": read_adapter_config},
)
