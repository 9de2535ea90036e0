"""KServe's services: what one replica is, where its number stands, and who else writes it."""

from collections.abc import Callable
from hashlib import md5

import pytest

from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.resources.declaration import Declaration
from reconciler.resources.kserve.names import child_name
from reconciler.snapshot.variants import declared_variants

Declare = Callable[..., Declaration]

LLM = """apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: qwen, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: Qwen/Qwen2.5-7B-Instruct}
"""
POD = """  template:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    containers:
      - name: main
        env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-num-seqs 64 --gpu-memory-utilization=0.95"}]
        resources: {limits: {nvidia.com/gpu: "2"}}
"""
ISVC = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: llama
  namespace: llm
  annotations: {%s}
spec:
  predictor:
%s
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama, --served-model-name=llama-8b, --model_id=meta-llama/Llama-3.1-8B-Instruct]
      resources: {limits: {nvidia.com/gpu: "1"}}
"""
STANDARD = "serving.kserve.io/deploymentMode: RawDeployment"


def only(declared: Declaration) -> Workload:
    (workload,) = declared.workloads
    return workload


def fields(found: Workload | ReplicaOwner) -> list[tuple[str, int | None, int | None, bool]]:
    """Each field with what stands there, what counts and whether it is only raised."""
    written = found.replica_fields if isinstance(found, Workload) else found.fields
    return [(".".join(map(str, each.field)), each.written, each.value, each.is_ceiling) for each in written]


# ---- LLMInferenceService


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_an_llm_service_is_a_workload_of_its_own(declare: Declare, version: str) -> None:
    declared = declare(LLM.replace("v1alpha2", version) + "  replicas: 3\n" + POD)
    workload = only(declared)
    assert (workload.replicas, workload.devices) == (3, {"nvidia.com/gpu": 2})
    assert fields(workload) == [("spec.replicas", 3, 3, False)]
    assert workload.replicas_place is not None
    assert workload.replicas_place.line == 6
    assert (workload.engine, workload.model_id, workload.is_serving) == ("vllm", "Qwen/Qwen2.5-7B-Instruct", True)
    assert workload.served_names == ("Qwen/Qwen2.5-7B-Instruct",)
    assert workload.node_selector == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert workload.launch is not None
    assert (workload.launch.max_num_seqs, workload.launch.memory_fraction) == (64, 0.95)
    assert workload.becomes is not None
    assert (workload.becomes.kind, workload.becomes.label) == ("Deployment", "llm/qwen-kserve")
    assert workload.template_labels["llm-d.ai/role"] == "both"
    assert workload.settings["managed"].value is True
    assert (workload.unsized, workload.unwritable, declared.findings, declared.owners) == ("", None, (), ())


def test_a_service_without_a_name_of_its_model_serves_it_under_its_own(declare: Declare) -> None:
    text = LLM.replace(", name: Qwen/Qwen2.5-7B-Instruct", "") + "  replicas: 1\n"
    assert only(declare(text)).served_names == ("qwen",)


def test_replicas_that_are_not_written_stay_as_they_are_in_the_cluster(declare: Declare) -> None:
    workload = only(declare(LLM + POD))
    assert (workload.replicas, fields(workload)) == (None, [("spec.replicas", None, None, False)])


def test_a_worker_makes_a_group_of_pods(declare: Declare) -> None:
    text = LLM + "  replicas: 2\n  parallelism: {data: 16, dataLocal: 8, tensor: 1}\n" + POD
    text += "  worker: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}\n"
    workload = only(declare(text))
    assert (workload.replicas, workload.devices) == (2, {"nvidia.com/gpu": 2 + 8})
    assert workload.becomes is not None
    assert (workload.becomes.kind, workload.becomes.name) == ("LeaderWorkerSet", "qwen-kserve-mn")
    assert workload.device_resources is None
    without_leader = only(declare(text.replace(POD, "")))
    assert without_leader.devices == {"nvidia.com/gpu": 2 * 8}
    assert only(declare(text.replace("data: 16, dataLocal: 8", "pipeline: 3"))).devices == {"nvidia.com/gpu": 2 + 16}


def test_scaling_makes_an_autoscaler_whose_bounds_stand_in_the_service(declare: Declare) -> None:
    text = LLM + "  scaling: {maxReplicas: 6, wva: {variantCost: '2', hpa: {}}}\n" + POD
    declared = declare(text)
    (owner,) = declared.owners
    assert owner.owner == "HorizontalPodAutoscaler qwen-kserve-hpa, which KServe makes of scaling"
    assert (owner.target_kind, owner.target_name, owner.least) == ("LLMInferenceService", "qwen", 1)
    assert fields(owner) == [("spec.scaling.minReplicas", None, 1, False), ("spec.scaling.maxReplicas", 6, 6, True)]
    (owner,) = declare(text.replace("wva: {variantCost: '2', hpa: {}}", "keda: {triggers: [{}]}")).owners
    assert owner.owner.startswith("ScaledObject qwen-kserve-keda, ")


def test_prefill_and_decode_are_parts_that_are_not_sized(declare: Declare) -> None:
    text = (
        LLM
        + "  replicas: 1\n"
        + POD
        + "  prefill:\n    replicas: 2\n"
        + "\n".join(f"  {line}" for line in POD.split("\n"))
    )
    decode, prefill = declare(text).workloads
    assert [each.key.label for each in (decode, prefill)] == ["llm/qwen", "llm/qwen/prefill"]
    assert fields(prefill) == [("spec.prefill.replicas", 2, 2, False)]
    assert [each.becomes and each.becomes.name for each in (decode, prefill)] == ["qwen-kserve", "qwen-kserve-prefill"]
    assert decode.unsized.startswith("it is the decode half of a disaggregated model")
    assert prefill.unsized.startswith("it is the prefill half of a disaggregated model")


CONFIG = """---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceServiceConfig
metadata: {name: base, namespace: llm}
spec:
"""
BASED = LLM + "  baseRefs: [{name: base}]\n"


def test_a_config_below_a_service_gives_it_what_the_service_leaves_out(declare: Declare) -> None:
    workload = only(declare(BASED + CONFIG + "  replicas: 4\n" + POD))
    # the service's own number goes before that of the config, which others may be based on
    assert fields(workload) == [("spec.replicas", None, 4, False)]
    assert (workload.replicas, workload.devices) == (4, {"nvidia.com/gpu": 2})
    assert only(declare(BASED + "  replicas: 2\n" + CONFIG + "  replicas: 4\n")).replicas == 2


def test_containers_of_a_service_and_its_config_are_merged_by_name(declare: Declare) -> None:
    own = "  template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: '8'}}}]}\n"
    workload = only(declare(BASED + "  replicas: 1\n" + own + CONFIG + POD))
    assert workload.devices == {"nvidia.com/gpu": 8}
    assert workload.launch is not None
    assert workload.launch.max_num_seqs == 64


def test_bounds_of_a_config_are_not_ours(declare: Declare) -> None:
    declared = declare(BASED + CONFIG + "  scaling: {minReplicas: 2, maxReplicas: 6, keda: {triggers: [{}]}}\n")
    assert [(owner.target_name, owner.fields) for owner in declared.owners] == [("qwen", ())]


def test_a_number_and_an_autoscaler_together_are_refused_by_kserve(declare: Declare) -> None:
    declared = declare(BASED + "  replicas: 2\n" + CONFIG + "  scaling: {maxReplicas: 6, keda: {triggers: [{}]}}\n")
    hold = only(declared).unwritable
    assert hold is not None
    assert hold.words.startswith("both replicas and scaling are given")


def test_a_config_that_is_not_in_git_may_say_anything(declare: Declare) -> None:
    workload = only(declare(BASED + "  replicas: 2\n"))
    assert workload.unsized.startswith('LLMInferenceServiceConfig "base", which it is based on, is not in Git')


def test_a_config_of_kserve_itself_is_found_by_its_name(declare: Declare) -> None:
    elsewhere = CONFIG.replace("namespace: llm", "namespace: kserve")
    assert only(declare(BASED + elsewhere + "  replicas: 4\n")).replicas == 4
    other = elsewhere.replace("namespace: kserve", "namespace: other")
    assert only(declare(BASED + elsewhere + other)).unsized


def test_a_stopped_service_is_not_sized(declare: Declare) -> None:
    text = LLM.replace("annotations: {", 'annotations: {serving.kserve.io/stop: "true", ') + "  replicas: 2\n"
    assert only(declare(text)).unsized == "it is stopped by its annotation serving.kserve.io/stop"


def test_long_names_end_in_a_hash() -> None:
    assert child_name("a" * 56, "-kserve") == "a" * 56 + "-kserve"
    long = child_name("a" * 57, "-kserve")
    assert (len(long), long[:24], long[24:56]) == (63, "a" * 24, md5(b"a" * 57, usedforsecurity=False).hexdigest())
    assert long.endswith("-kserve")
    assert child_name("a" * 58, "-kserve") != long


def test_a_mistake_in_a_service_without_annotations_of_ours_is_a_warning(declare: Declare) -> None:
    wrong = LLM + "  replicas: many\n"
    assert [each.severity for each in declare(wrong).findings] == ["error"]
    foreign = wrong.replace(', annotations: {reconciler.io/managed: "true"}', "")
    assert [each.severity for each in declare(foreign).findings] == ["warning"]


# ---- InferenceService


def test_the_lower_bound_is_the_number_where_the_bounds_are_equal(declare: Declare) -> None:
    declared = declare(ISVC % (STANDARD, "    minReplicas: 2"))
    workload = only(declared)
    assert fields(workload) == [("spec.predictor.minReplicas", 2, 2, False)]
    assert (workload.engine, workload.model_id, workload.served_names) == ("vllm", "llama-8b", ("llama-8b",))
    assert workload.becomes is not None
    assert (workload.becomes.kind, workload.becomes.name) == ("Deployment", "llama-predictor")
    assert (workload.unsized, workload.unwritable, declared.owners) == ("", None, ())
    both = declare(ISVC % (STANDARD, "    minReplicas: 2\n    maxReplicas: 2"))
    # an upper bound that stayed would let KServe's autoscaler act between both
    assert [each[0] for each in fields(only(both))] == ["spec.predictor.minReplicas", "spec.predictor.maxReplicas"]
    assert both.owners == ()
    unwritten = only(declare(ISVC % (STANDARD, "    serviceAccountName: a")))
    assert fields(unwritten) == [("spec.predictor.minReplicas", None, 1, False)]


@pytest.mark.parametrize("scaler", ["hpa", "keda"])
def test_bounds_that_differ_leave_room_to_an_autoscaler(declare: Declare, scaler: str) -> None:
    annotations = f"{STANDARD}, serving.kserve.io/autoscalerClass: {scaler}"
    (owner,) = declare(ISVC % (annotations, "    minReplicas: 1\n    maxReplicas: 4")).owners
    assert fields(owner) == [("spec.predictor.minReplicas", 1, 1, False), ("spec.predictor.maxReplicas", 4, 4, True)]
    assert owner.owner.split()[0] == {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}[scaler]


def test_without_an_autoscaler_the_lower_bound_is_the_number_if_it_is_written(declare: Declare) -> None:
    annotations = f"{STANDARD}, serving.kserve.io/autoscalerClass: none"
    workload = only(declare(ISVC % (annotations, "    minReplicas: 3\n    maxReplicas: 9")))
    assert [each[0::3] for each in fields(workload)] == [
        ("spec.predictor.minReplicas", False),
        ("spec.predictor.maxReplicas", True),
    ]
    assert only(declare(ISVC % (annotations, "    maxReplicas: 9"))).replicas is None


def test_an_external_autoscaler_owns_the_replicas(declare: Declare) -> None:
    annotations = f"{STANDARD}, serving.kserve.io/autoscalerClass: external"
    hold = only(declare(ISVC % (annotations, "    minReplicas: 3"))).unwritable
    assert hold is not None
    assert hold.kind == "owned-by-another"


def test_knative_owns_the_replicas_of_what_it_runs(declare: Declare) -> None:
    (owner,) = declare(ISVC % ("serving.kserve.io/deploymentMode: Serverless", "    minReplicas: 3")).owners
    assert (owner.owner, owner.fields) == ("Knative's autoscaler", ())


MODE = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  deploy: |-
    {"defaultDeploymentMode": "%s"}
"""


def test_the_mode_is_that_of_the_annotation_or_of_kserves_settings(declare: Declare) -> None:
    text = ISVC % ("a: b", "    minReplicas: 2")
    hold = only(declare(text)).unwritable
    assert hold is not None
    assert "serving.kserve.io/deploymentMode: Standard or Knative" in hold.words
    assert only(declare(text + MODE % "Standard")).unwritable is None
    assert [each.owner for each in declare(text + MODE % "Knative").owners] == ["Knative's autoscaler"]
    assert only(declare(text + MODE % "Standard" + MODE % "Knative")).unwritable is not None


def test_a_runtime_in_git_gives_the_image_and_the_arguments(declare: Declare) -> None:
    text = (ISVC % (STANDARD, "    minReplicas: 1")).replace("modelFormat:", "runtime: our-vllm\n      modelFormat:")
    text = text.replace(", --served-model-name=llama-8b, --model_id=meta-llama/Llama-3.1-8B-Instruct", "")
    runtime = """---
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: our-vllm, namespace: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
    - name: kserve-container
      image: quay.io/acme/server:1
      command: [python, -m, vllm.entrypoints.openai.api_server]
      args: [--port=8080, "--served-model-name={{.Name}}", --max-num-seqs=32]
"""
    workload = only(declare(text + runtime))
    assert (workload.engine, workload.served_names) == ("vllm", ("llama",))
    assert workload.node_selector == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert workload.launch is not None
    assert workload.launch.max_num_seqs == 32


def test_resources_of_a_runtime_and_of_its_service_are_merged_by_key(declare: Declare) -> None:
    resources = "resources: {limits: {cpu: '4'}}"
    text = (ISVC % (STANDARD, "    minReplicas: 1")).replace("modelFormat:", "runtime: our-vllm\n      modelFormat:")
    text = text.replace('resources: {limits: {nvidia.com/gpu: "1"}}', resources)
    assert resources in text
    runtime = """---
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: our-vllm, namespace: llm}
spec:
  containers: [{name: kserve-container, image: vllm/vllm-openai, resources: {limits: {cpu: 2, nvidia.com/gpu: 4}}}]
"""
    assert only(declare(text + runtime)).devices == {"nvidia.com/gpu": 4}


def test_metrics_that_all_services_share_size_none(declare: Declare) -> None:
    text = (ISVC % (STANDARD, "    minReplicas: 1")).replace(
        ", --served-model-name=llama-8b, --model_id=meta-llama/Llama-3.1-8B-Instruct", ""
    )
    assert "add --served-model-name to its args" in only(declare(text)).unsized


@pytest.mark.parametrize(
    "model",
    [
        "{modelFormat: {name: triton}, storageUri: 's3://a'}",
        "{modelFormat: {name: huggingface}, args: [--task=fill_mask], resources: {limits: {nvidia.com/gpu: 1}}}",
        "{modelFormat: {name: huggingface}, args: [--backend=huggingface], resources: {limits: {nvidia.com/gpu: 1}}}",
        "{modelFormat: {name: huggingface}, args: [--model_id=bert]}",
    ],
)
def test_what_generates_no_text_is_not_recognised(declare: Declare, model: str) -> None:
    head = (ISVC % (STANDARD, "    minReplicas: 1")).partition("    model:")[0]
    assert not only(declare(f"{head}    model: {model}\n")).is_serving


@pytest.mark.parametrize("predictor", ["{model: {modelFormat: {name: xgboost}}}", "{sklearn: {storageUri: 's3://a'}}"])
def test_what_is_no_language_model_is_left_alone(declare: Declare, predictor: str) -> None:
    head = (ISVC % (STANDARD, "")).partition("  predictor:")[0]
    declared = declare(f"{head}  predictor: {predictor}\n")
    assert (declared.workloads, declared.findings) == ((), ())


def test_an_old_version_is_a_mistake_only_where_it_is_to_be_managed(declare: Declare) -> None:
    old = (ISVC % ('reconciler.io/managed: "true"', "    minReplicas: 1")).replace("v1beta1", "v1alpha2")
    assert [each.severity for each in declare(old).findings] == ["error"]
    foreign = declare(old.replace('reconciler.io/managed: "true"', "a: b"))
    assert ([each.severity for each in foreign.findings], foreign.broken) == (["warning"], ())


def test_workers_of_an_inference_service_are_one_group(declare: Declare) -> None:
    worker = "    workerSpec: {containers: [{name: worker-container, resources: {limits: {nvidia.com/gpu: 4}}}]}"
    workload = only(declare(ISVC % (STANDARD, worker)))
    assert workload.devices == {"nvidia.com/gpu": 1 + 4}
    assert "KServe runs only one" in workload.unsized


def test_an_inference_service_of_another_group_is_somebody_elses(declare: Declare) -> None:
    text = (ISVC % (STANDARD, "    minReplicas: 1")).replace("serving.kserve.io/v1beta1", "ome.io/v1beta1")
    declared = declare(text)
    assert (declared.workloads, declared.findings) == ((), ())


def test_what_scales_the_object_that_a_controller_makes_claims_its_source(declare: Declare) -> None:
    settings = Settings(clusters=(ClusterSettings(name="prod"),))
    served = """apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: llama, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec: {replicas: 2, model: {uri: "hf://meta/llama-8b", name: meta/llama-8b}}
"""
    target = """apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: va, namespace: llm}
spec: {modelID: meta/llama-8b, scaleTargetRef: {kind: Deployment, name: llama-kserve}}
"""
    (alone,) = declared_variants(settings, declare(served))
    assert alone.key.kind == "LLMInferenceService"
    (scaled,) = declared_variants(settings, declare(f"{served}---\n{target}"))
    assert scaled.key.kind == "VariantAutoscaling"
