"""The kinds of native objects, LeaderWorkerSet and KEDA's ScaledObject."""

from reconciler.resources.kinds import GENERATED, Family, Kind
from reconciler.resources.kubernetes.autoscalers import read_autoscaler, read_scaled_object
from reconciler.resources.kubernetes.deployments import read_deployment, read_stateful_set
from reconciler.resources.kubernetes.leader_workers import read_leader_worker_set
from reconciler.resources.kubernetes.namespaces import read_namespace

KUBERNETES = Family(
    kinds={
        "Deployment": Kind(
            versions=("apps/v1",),
            read=read_deployment,
            retired=("extensions/v1beta1",),
            is_scale_target=True,
            pod_names=f"-{GENERATED}{{6,10}}-{GENERATED}{{5}}",
        ),
        "StatefulSet": Kind(
            versions=("apps/v1",),
            read=read_stateful_set,
            retired=("apps/v1beta1", "apps/v1beta2"),
            is_scale_target=True,
            pod_names="-[0-9]+",
        ),
        "LeaderWorkerSet": Kind(
            versions=("leaderworkerset.x-k8s.io/v1",),
            read=read_leader_worker_set,
            is_scale_target=True,
            is_pod_group=True,
            pod_names="-[0-9]+(-[0-9]+)?",
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
    }
)
