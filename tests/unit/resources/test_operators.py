"""AIBrix, Kaito and the NIM operator: what one replica is, where its number stands, and who else writes it."""

from collections.abc import Callable

import pytest

from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.resources.declaration import Declaration, Owners

Declare = Callable[..., Declaration]


def only(declared: Declaration) -> Workload:
    (workload,) = declared.workloads
    return workload


def fields(found: Workload | ReplicaOwner) -> list[tuple[str, int | None, int | None]]:
    """Each field with what stands there and what counts."""
    written = found.replica_fields if isinstance(found, Workload) else found.fields
    return [(".".join(map(str, each.field)), each.written, each.value) for each in written]


# ---- AIBrix

PA = """apiVersion: autoscaling.aibrix.ai/v1alpha1
kind: PodAutoscaler
metadata: {name: llama, namespace: llm}
spec:
  scalingStrategy: APA
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}
"""
STORM = """apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: qwen, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec:
  replicas: 3
  template:
    spec:
      roles:
"""
ROLE = """        - name: %s
          replicas: %d
          template:
            metadata: {labels: {model.aibrix.ai/name: qwen3-8b}}
            spec:
              containers:
                - {name: a, image: vllm/vllm-openai, args: [--model, q], resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_a_pod_autoscaler_owns_its_target_with_its_bounds(declare: Declare) -> None:
    (owner,) = declare(PA + "  minReplicas: 2\n  maxReplicas: 8\n").owners
    assert (owner.owner, owner.target_kind, owner.target_name) == ("PodAutoscaler llama", "Deployment", "llama")
    assert fields(owner) == [("spec.minReplicas", 2, 2), ("spec.maxReplicas", 8, 8)]
    assert [each.is_ceiling for each in owner.fields] == [False, True]


def test_bounds_that_change_by_time_are_not_ours(declare: Declare) -> None:
    schedule = "  schedules: [{name: day, startTime: '08:00', endTime: '20:00', minReplicas: 4}]\n"
    assert [each.fields for each in declare(PA + "  maxReplicas: 8\n" + schedule).owners] == [()]


def test_an_autoscaler_of_a_role_owns_that_part(declare: Declare) -> None:
    text = PA.replace("kind: Deployment, name: llama", "kind: StormService, name: qwen")
    (owner,) = declare(text + "  maxReplicas: 8\n  subTargetSelector: {roleName: decode}\n").owners
    assert (owner.target_kind, owner.target_name, owner.target_part) == ("StormService", "qwen", "decode")


def test_a_pod_autoscaler_of_knative_is_none_of_aibrix(declare: Declare) -> None:
    text = PA.replace("autoscaling.aibrix.ai/v1alpha1", "autoscaling.internal.knative.dev/v1alpha1")
    declared = declare(text)
    assert [(each.owner, each.fields) for each in declared.owners] == [("PodAutoscaler llama", ())]
    assert declared.findings == ()


def test_a_storm_service_of_one_role_is_scaled_by_its_role_sets(declare: Declare) -> None:
    workload = only(declare(STORM + ROLE % ("server", 1)))
    assert (workload.replicas, fields(workload)) == (3, [("spec.replicas", 3, 3)])
    assert (workload.devices, workload.model_id, workload.unsized) == ({"nvidia.com/gpu": 1}, "qwen3-8b", "")


def test_several_pods_of_one_role_would_all_be_rolled(declare: Declare) -> None:
    assert "rolls all of them" in only(declare(STORM + ROLE % ("server", 2))).unsized


def test_an_autoscaler_of_the_only_role_owns_the_replicas(declare: Declare) -> None:
    scaler = PA.replace("kind: Deployment, name: llama", "kind: StormService, name: qwen")
    scaler += "  maxReplicas: 8\n  subTargetSelector: {roleName: server}\n"
    declared = declare(STORM + ROLE % ("server", 1) + "---\n" + scaler)
    workload = only(declared)
    owner = Owners.of(declared.owners).owner_of(workload.key, workload)
    assert owner is not None
    assert (owner.owner, owner.fields) == ("PodAutoscaler llama", ())


def test_roles_for_prefill_and_decode_are_parts_that_are_not_sized(declare: Declare) -> None:
    prefill, decode = declare(STORM + ROLE % ("prefill", 2) + ROLE % ("decode", 3)).workloads
    assert [each.key.label for each in (prefill, decode)] == ["llm/qwen/prefill", "llm/qwen/decode"]
    assert [each.replicas for each in (prefill, decode)] == [2, 3]
    assert decode.unsized.startswith("it is the decode half of a disaggregated model")


def test_a_group_of_pods_takes_the_devices_of_all(declare: Declare) -> None:
    text = STORM + (ROLE % ("server", 1)).replace(
        "          template:", "          podGroupSize: 2\n          template:"
    )
    assert only(declare(text)).devices == {"nvidia.com/gpu": 2}


# ---- Kaito

SET = """apiVersion: kaito.sh/v1beta1
kind: InferenceSet
metadata: {name: phi, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec:
  replicas: 2
  template:
    resource: {instanceType: Standard_NC24ads_A100_v4}
    inference: {preset: {name: microsoft/phi-4-mini-instruct}}
"""
WORKSPACE = """apiVersion: kaito.sh/v1alpha1
kind: Workspace
metadata: {name: phi, namespace: llm}
resource: {instanceType: Standard_NC24ads_A100_v4}
inference: {preset: {name: phi-4-mini-instruct}}
"""


def test_an_inference_set_has_a_number_of_workspaces(declare: Declare) -> None:
    declared = declare(SET)
    workload = only(declared)
    assert (workload.replicas, fields(workload)) == (2, [("spec.replicas", 2, 2)])
    assert (workload.engine, workload.served_names) == ("vllm", ("phi", "phi-4-mini-instruct"))
    assert (workload.is_serving, workload.unsized, declared.owners, declared.findings) == (True, "", (), ())


def test_kaitos_own_scaler_owns_the_replicas(declare: Declare) -> None:
    text = SET.replace("annotations: {", 'annotations: {scaledobject.kaito.sh/auto-provision: "true", ')
    assert [(each.owner, each.fields) for each in declare(text).owners] == [
        ("the ScaledObject of Kaito's KEDA scaler", ())
    ]


def test_a_workspace_is_one_instance(declare: Declare) -> None:
    workload = only(declare(WORKSPACE))
    assert workload.unwritable is not None
    assert workload.unwritable.words.startswith("a Workspace is one instance")
    assert workload.is_serving
    assert declare(WORKSPACE.replace("inference:", "tuning:")).workloads == ()
    other = "kaito.sh/runtime: transformers"
    assert not only(declare(WORKSPACE.replace("namespace: llm", f"annotations: {{{other}}}"))).is_serving


# ---- NIM

NIM = """apiVersion: apps.nvidia.com/v1alpha1
kind: NIMService
metadata: {name: llama, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec:
  image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: 1.12.0}
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_a_nim_service_is_a_deployment_of_its_name(declare: Declare) -> None:
    declared = declare(NIM + "  replicas: 2\n")
    workload = only(declared)
    assert (workload.replicas, fields(workload)) == (2, [("spec.replicas", 2, 2)])
    assert (workload.engine, workload.model_id) == ("nim", "meta/llama-3.1-8b-instruct")
    assert (workload.devices, workload.node_selector) == (
        {"nvidia.com/gpu": 1},
        {"nvidia.com/gpu.product": "NVIDIA-L4"},
    )
    assert workload.becomes is not None
    assert (workload.becomes.kind, workload.becomes.name) == ("Deployment", "llama")
    assert declared.owners == ()


def test_a_nim_service_that_scales_itself_has_its_bounds_within(declare: Declare) -> None:
    (owner,) = declare(NIM + "  scale: {enabled: true, hpa: {maxReplicas: 4}}\n").owners
    assert fields(owner) == [("spec.scale.hpa.minReplicas", None, 1), ("spec.scale.hpa.maxReplicas", 4, 4)]
    assert declare(NIM + "  scale: {enabled: false, hpa: {maxReplicas: 4}}\n").owners == ()


def test_a_nim_service_over_several_nodes_is_a_group(declare: Declare) -> None:
    workload = only(declare(NIM + "  replicas: 1\n  multiNode: {parallelism: {pipeline: 2, tensor: 8}}\n"))
    assert workload.devices == {"nvidia.com/gpu": 2}
    assert workload.becomes is not None
    assert (workload.becomes.kind, workload.becomes.name) == ("LeaderWorkerSet", "llama-lws")


def test_gpus_that_the_operator_gives_a_nim_service_are_known_only_by_its_ranks(declare: Declare) -> None:
    text = NIM.replace("  resources: {limits: {nvidia.com/gpu: 1}}\n", "  replicas: 1\n")
    group = only(declare(text + "  multiNode: {parallelism: {pipeline: 2, tensor: 8}}\n"))
    assert (group.devices, group.unsized) == ({"nvidia.com/gpu": 16}, "")
    claimed = "  draResources: [{resourceClaimName: a}]\n"
    for more in (
        "",
        "  multiNode: {parallelism: {pipeline: 2}}\n",
        f"{claimed}  multiNode: {{parallelism: {{tensor: 8}}}}\n",
    ):
        workload = only(declare(text + more))
        assert "write them into resources.limits" in workload.unsized
        assert workload.devices == {}


def test_a_nim_service_that_kserve_runs_is_not_sized(declare: Declare) -> None:
    assert only(declare(NIM + "  replicas: 1\n  inferencePlatform: kserve\n")).unsized


@pytest.mark.parametrize("text", [STORM + ROLE % ("server", 1), SET, NIM + "  replicas: 2\n"])
def test_a_number_that_is_filled_in_later_is_held(declare: Declare, text: str) -> None:
    before = "replicas: 3" if "replicas: 3" in text else "replicas: 2"
    workload = only(declare(text.replace(f"  {before}\n", '  replicas: "${COUNT}"\n', 1)))
    assert (workload.replicas, workload.templated) == (None, "spec.replicas")


@pytest.mark.parametrize("number", ["-1", str(2**31), "true", "two"])
@pytest.mark.parametrize("text", [STORM + ROLE % ("server", 1), SET, NIM + "  replicas: 2\n"])
def test_what_is_no_number_of_replicas_is_held_where_no_annotation_makes_it_a_mistake(
    declare: Declare, text: str, number: str
) -> None:
    before = "replicas: 3" if "replicas: 3" in text else "replicas: 2"
    foreign = text.replace(', annotations: {reconciler.io/managed: "true"}', "")
    workload = only(declare(foreign.replace(f"  {before}\n", f"  replicas: {number}\n", 1)))
    assert (workload.replicas, workload.templated) == (None, "")
    assert workload.unwritable is not None
    assert workload.unwritable.words.startswith("spec.replicas: expected an integer of at least 0, got ")


# ---- KubeRay

RAY = """apiVersion: ray.io/v1
kind: RayService
metadata: {name: chat, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec:
  serveConfigV2: |
    applications:
    - name: llms
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config: {model_id: deepseek, model_source: deepseek-ai/DeepSeek-R1}
          engine_kwargs: {tensor_parallel_size: 8, pipeline_parallel_size: 2}
          deployment_config: DEPLOYMENT
        - model_loading_config: {model_id: qwen}
  rayClusterConfig:
    workerGroupSpecs:
    - replicas: 2
      template: {spec: {containers: [{name: ray-worker, resources: {limits: {nvidia.com/gpu: "8"}}}]}}
"""


def test_each_model_of_ray_serve_is_a_workload_that_is_held(declare: Declare) -> None:
    declared = declare(RAY.replace("DEPLOYMENT", "{num_replicas: 3}"))
    assert [(each.key.part, each.model_id, each.served_names) for each in declared.workloads] == [
        ("deepseek", "deepseek-ai/DeepSeek-R1", ("deepseek",)),
        ("qwen", "qwen", ("qwen",)),
    ]
    assert [(each.replicas, each.devices) for each in declared.workloads] == [
        (3, {"nvidia.com/gpu": 16}),
        (1, {"nvidia.com/gpu": 1}),
    ]
    words = [each.unwritable.words for each in declared.workloads if each.unwritable]
    assert [each.split(":")[0] for each in words] == ["a replica is an actor on workers of its Ray cluster"] * 2
    assert (declared.owners, declared.findings) == ((), ())


@pytest.mark.parametrize("deployment", ["{num_replicas: auto}", "{autoscaling_config: {min_replicas: 1}}"])
def test_ray_serve_may_scale_a_model_itself(declare: Declare, deployment: str) -> None:
    (owner,) = declare(RAY.replace("DEPLOYMENT", deployment)).owners
    assert (owner.owner, owner.target_name, owner.target_part) == ("Ray Serve's autoscaler", "chat", "deepseek")
    assert owner.fields == ()


def test_devices_of_ray_workers_may_be_others(declare: Declare) -> None:
    text = RAY.replace("DEPLOYMENT", "{num_replicas: 1}").replace("nvidia.com/gpu", "google.com/tpu")
    assert declare(text).workloads[0].devices == {"google.com/tpu": 16}


def test_a_text_of_ray_that_is_no_yaml_is_found_where_it_stands(declare: Declare) -> None:
    declared = declare(RAY.replace("DEPLOYMENT", "{num_replicas: [}"))
    assert declared.workloads == ()
    assert [each.place.line for each in declared.findings] == [5]


@pytest.mark.parametrize("change", [("llm_configs", "models"), ("llms", "{{ .Values.name }}")])
def test_other_applications_of_ray_are_left_alone(declare: Declare, change: tuple[str, str]) -> None:
    declared = declare(RAY.replace("DEPLOYMENT", "{}").replace(*change))
    assert (declared.workloads, declared.findings) == ((), ())
