"""PURE. AIBrix: PodAutoscaler, which scales a Deployment or a StormService, and StormService itself.

Seen in vllm-project/aibrix at e3e10f9e. A StormService makes `spec.replicas` RoleSets of its template, each with the
pods of all its roles. Its revision is the whole template (`stormservice/revision.go`, getPatch): a change of a role's
`replicas` rolls every RoleSet, while one of `spec.replicas` only adds or removes some, and only that is written.
A PodAutoscaler sets the target's `spec.replicas`, or those of the role that `subTargetSelector` names; `schedules`
replace its bounds by time. Of strategy HPA an HPA is made (`hpa_resources.go`), its behavior by annotations.
Pods are named NAME-roleset-SUFFIX-ROLE-SUFFIX (`roleset/utils.go`).
"""

from collections.abc import Iterator

from reconciler.resources.kinds import GENERATED, Family, Kind, ServingKind
from reconciler.resources.objects import KubernetesObject, Piece

# The schemas are imported when an object of the family is first met.
_GROUP = "aibrix.ai"
_NAME = "[0-9a-z]([-0-9a-z]*[0-9a-z])?"


def _read_pod_autoscaler(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.aibrix.services import read_pod_autoscaler

    return read_pod_autoscaler(source)


def _read_storm_service(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.aibrix.services import read_storm_service

    return read_storm_service(source)


AIBRIX = Family(
    kinds={
        "PodAutoscaler": Kind(
            versions=(f"autoscaling.{_GROUP}/v1alpha1",),
            read=_read_pod_autoscaler,
            word=f"autoscaling.{_GROUP}",
            is_foreign=True,
            reads_templates=True,
            is_autoscaler=True,
        ),
        "StormService": Kind(
            versions=(f"orchestration.{_GROUP}/v1alpha1",),
            read=_read_storm_service,
            ours_alone=True,
            pod_names=f"-roleset-{GENERATED}{{5}}-{_NAME}",
            is_foreign=True,
            serving=ServingKind(
                replicas="`spec.replicas`; those of roles are held",
                instance="a RoleSet with one pod, or one group of `podGroupSize`",
                accelerator="node selector or required affinity of its role's template",
                bounds="of the PodAutoscaler, HPA or ScaledObject on it",
                metrics="pods NAME-roleset-...",
                tried_on=("vllm-project/aibrix",),
            ),
        ),
    }
)
