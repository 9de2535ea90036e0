"""PURE. NVIDIA's NIM operator: NIMService.

Seen in NVIDIA/k8s-nim-operator at f63f74d7. A NIMService makes a Deployment of its own name, or with `multiNode` a
LeaderWorkerSet NAME-lws, with `spec.replicas`. With `scale.enabled` it makes an HPA with the bounds of `scale.hpa`,
which excludes `replicas`, and leaves the number alone (`nimservice.go`). With `inferencePlatform: kserve` it makes an
InferenceService instead.
"""

from collections.abc import Iterator

from reconciler.resources.kinds import Family, Kind, ServingKind
from reconciler.resources.objects import KubernetesObject, Piece

# The schemas are imported when an object of the family is first met.
_VERSIONS = ("apps.nvidia.com/v1alpha1",)


def _read_nim_service(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.nim.nim_services import read_nim_service

    return read_nim_service(source)


NIM = Family(
    kinds={
        "NIMService": Kind(
            versions=_VERSIONS,
            read=_read_nim_service,
            ours_alone=True,
            is_foreign=True,
            serving=ServingKind(
                replicas="`spec.replicas`",
                instance="a pod, or a group of pods with `multiNode`",
                accelerator="`nodeSelector` or required `affinity`",
                bounds="`scale.hpa.minReplicas` and `maxReplicas` with `scale.enabled`",
                metrics="pods of Deployment NAME or LeaderWorkerSet NAME-lws",
                tried_on=("NVIDIA/k8s-nim-operator", "NVIDIA/nim-deploy", "awslabs/ai-on-eks"),
            ),
        ),
    }
)
