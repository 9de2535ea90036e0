"""PURE. NVIDIA Dynamo: DynamoGraphDeployment, whose workers serve a model behind a frontend.

Seen in ai-dynamo/dynamo: `deploy/operator/api/v1alpha1` at 00686d64 and 0fddc01b, `api/v1beta1` at 006b6e10,
`internal/dynamo/graph.go` at 003d1ee5, `docs/kubernetes/autoscaling.md` at 0d322d0f. v1alpha1 maps names to services,
v1beta1 lists components with a whole pod template. A worker's `replicas` are its own unless its `scalingAdapter` is
on: then a DynamoGraphDeploymentScalingAdapter NAME-WORKER owns them, for an HPA or a ScaledObject to scale. A planner
in the graph sets them too. A replica is one pod, or with `multinode` as many as `nodeCount`. The old field
`autoscaling` is ignored by the operator. Pods are named after a Deployment, a LeaderWorkerSet or a PodClique, by what
the cluster has installed, so that series are found by the model.
"""

from collections.abc import Iterator

from reconciler.resources.kinds import Family, Kind, ServingKind
from reconciler.resources.objects import KubernetesObject, Piece

# The schemas are imported when an object of the family is first met.
_GROUP = "nvidia.com"


def _read_graph(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.dynamo.graphs import read_graph

    return read_graph(source)


DYNAMO = Family(
    kinds={
        "DynamoGraphDeployment": Kind(
            versions=(f"{_GROUP}/v1alpha1", f"{_GROUP}/v1beta1"),
            read=_read_graph,
            ours_alone=True,
            is_foreign=True,
            serving=ServingKind(
                replicas="`services.NAME.replicas`, in v1beta1 `components[].replicas`",
                instance="a pod, or `multinode.nodeCount` pods",
                accelerator="node selector or required affinity of `extraPodSpec` or `podTemplate`",
                bounds="of the HPA or ScaledObject on its scaling adapter; with a planner it is held",
                metrics="by the model: pods are named by what the cluster has installed",
                tried_on=(
                    "ai-dynamo/dynamo",
                    "ai-dynamo/aiconfigurator",
                    "vllm-project/aibrix",
                    "vllm-project/semantic-router",
                ),
            ),
        ),
    }
)
