"""PURE. Kaito: Workspace, one instance of a model, and InferenceSet, a number of equal Workspaces.

Seen in kaito-project/kaito at 056b8280. An InferenceSet makes Workspaces up to `spec.replicas`, which defaults to 1
(`inferenceset_controller.go`); a Workspace makes a StatefulSet of its own name with one pod a node (`manifests.go`).
How many nodes that is Kaito estimates from the model and the machine, and writes only into a status.
`resource.count` of a Workspace is deprecated: it counts the nodes of one instance, not replicas. An InferenceSet is
scaled by its `scale` subresource; annotated `scaledobject.kaito.sh/auto-provision: "true"` it gets a ScaledObject of
Kaito's KEDA scaler (`website/docs/keda-autoscaler-inference.md`). A preset runs vLLM, unless an annotation chooses
`transformers`, and is served under the name of its InferenceSet, in older releases and in a lone Workspace under its
own (`interface.go`).
"""

from collections.abc import Iterator

from reconciler.resources.kinds import Family, Kind, ServingKind
from reconciler.resources.objects import KubernetesObject, Piece

# The schemas are imported when an object of the family is first met.
GROUP = "kaito.sh"
_VERSIONS = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1")


def _read_workspace(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kaito.workspaces import read_workspace

    return read_workspace(source)


def _read_inference_set(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kaito.workspaces import read_inference_set

    return read_inference_set(source)


KAITO = Family(
    kinds={
        "Workspace": Kind(
            versions=_VERSIONS,
            read=_read_workspace,
            word=GROUP,
            is_foreign=True,
            serving=ServingKind(
                replicas="none: it is one instance",
                instance="a Workspace, on as many nodes as Kaito estimates",
                accelerator="kept",
                bounds="none",
                metrics="pods of StatefulSet NAME",
                tried_on=("kaito-project/kaito",),
            ),
        ),
        "InferenceSet": Kind(
            versions=_VERSIONS,
            read=_read_inference_set,
            ours_alone=True,
            is_foreign=True,
            serving=ServingKind(
                replicas="`spec.replicas`",
                instance="a Workspace, on as many nodes as Kaito estimates",
                accelerator="kept",
                bounds="of the HPA or ScaledObject on it",
                metrics="by the model: names of Workspaces have a random end",
                tried_on=("kaito-project/kaito",),
            ),
        ),
    }
)
