"""PURE. KubeRay: RayService, whose applications are a text in YAML inside the resource. Recognised, and held.

Seen in ray-project/kuberay at feeaf72f, and in ray-project/ray (`python/ray/llm/_internal/serve`). An application of
`ray.serve.llm` lists `llm_configs`; a replica of one is an actor of Ray Serve on `tensor_parallel_size` times
`pipeline_parallel_size` devices, not a pod. `deployment_config` has its number: `num_replicas`, which defaults to 1, or
`autoscaling_config`, by which Ray Serve sets it itself. Ray places actors on workers that run: with
`enableInTreeAutoscaling` Ray adds workers up to `maxReplicas`, else `workerGroupSpecs[].replicas`, between its bounds
and times `numOfHosts`, says how many there are (`common/association.go`, `utils/util.go`). A change of these numbers
changes the running cluster, any other of `rayClusterConfig` makes a second one (`utils/util.go`). So a change of
replicas needs two numbers in different units, one inside a text. vLLM's metrics come from Ray's own agent in each pod,
as `ray_vllm_*`.
"""

from collections.abc import Iterator

from reconciler.resources.kinds import Family, Kind, ServingKind
from reconciler.resources.objects import KubernetesObject, Piece

# The schemas are imported when an object of the family is first met.


def _read_ray_service(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kuberay.ray_services import read_ray_service

    return read_ray_service(source)


KUBERAY = Family(
    kinds={
        "RayService": Kind(
            versions=("ray.io/v1", "ray.io/v1alpha1"),
            read=_read_ray_service,
            ours_alone=True,
            is_foreign=True,
            serving=ServingKind(
                replicas="held: `num_replicas` stands in the text of `serveConfigV2`",
                instance="an actor of Ray Serve for each of `llm_configs`",
                accelerator="kept",
                bounds="none",
                metrics="`ray_vllm_*`: not read, as nothing is written",
                tried_on=("ray-project/kuberay", "awslabs/data-on-eks"),
            ),
        ),
    }
)
