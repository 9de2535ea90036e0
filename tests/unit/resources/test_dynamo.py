"""Dynamo's graphs: their workers, in both versions, and what else sets their replicas."""

from collections.abc import Callable, Mapping

import pytest

from reconciler.domain.workloads import Workload
from reconciler.resources.declaration import Declaration

Declare = Callable[..., Declaration]

HEAD = """apiVersion: nvidia.com/%s
kind: DynamoGraphDeployment
metadata: {name: qwen, namespace: llm, annotations: {reconciler.io/managed: "true"}}
spec:
"""
ALPHA = (
    HEAD % "v1alpha1"
    + """  services:
    Frontend: {componentType: frontend, replicas: 1, extraPodSpec: {mainContainer: {image: a/vllm-runtime:1}}}
    VllmWorker:
      componentType: worker
      replicas: 2
      resources: {limits: {gpu: "2"}}
      extraPodSpec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.0
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-0.6B, --max-num-seqs, "64"]
"""
)
BETA = (
    HEAD % "v1beta1"
    + """  components:
    - {name: Frontend, type: frontend, replicas: 1}
    - name: VllmWorker
      type: worker
      replicas: 2
      podTemplate:
        spec:
          nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
          containers:
            - {name: log, image: busybox}
            - name: main
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1
              command: [python3, -m, dynamo.vllm]
              args: [--model, Qwen/Qwen3-0.6B, --max-num-seqs, "64"]
              resources: {limits: {nvidia.com/gpu: "2"}}
"""
)
FIELDS: Mapping[str, tuple[str | int, ...]] = {
    ALPHA: ("spec", "services", "VllmWorker", "replicas"),
    BETA: ("spec", "components", 1, "replicas"),
}


def only(declared: Declaration) -> Workload:
    (workload,) = declared.workloads
    return workload


@pytest.mark.parametrize("text", FIELDS, ids=["v1alpha1", "v1beta1"])
def test_a_worker_is_a_part_of_its_graph(declare: Declare, text: str) -> None:
    declared = declare(text)
    workload = only(declared)
    assert (workload.key.label, workload.replicas) == ("llm/qwen/VllmWorker", 2)
    assert [each.field for each in workload.replica_fields] == [FIELDS[text]]
    assert (workload.engine, workload.model_id) == ("vllm", "Qwen/Qwen3-0.6B")
    assert (workload.devices, workload.is_serving) == ({"nvidia.com/gpu": 2}, True)
    assert workload.node_selector == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert workload.launch is not None
    assert workload.launch.max_num_seqs == 64
    assert (workload.unsized, declared.owners, declared.findings) == ("", (), ())


def test_replicas_that_are_not_written_are_one(declare: Declare) -> None:
    workload = only(declare(ALPHA.replace("      replicas: 2\n", "")))
    assert (workload.replicas, workload.replica_fields[0].written) == (1, None)


def test_a_replica_over_several_nodes_takes_the_devices_of_all(declare: Declare) -> None:
    text = ALPHA.replace(
        "      componentType: worker\n", "      componentType: worker\n      multinode: {nodeCount: 4}\n"
    )
    assert only(declare(text)).devices == {"nvidia.com/gpu": 8}


def test_a_script_says_which_model_it_runs(declare: Declare) -> None:
    text = ALPHA.replace("command: [python3, -m, dynamo.vllm]", "command: [/bin/sh, -c]").replace(
        'args: [--model, Qwen/Qwen3-0.6B, --max-num-seqs, "64"]',
        'args: ["python3 -m dynamo.sglang --model-path Qwen/Qwen3-8B --served-model-name qwen"]',
    )
    workload = only(declare(text))
    assert (workload.engine, workload.model_id, workload.served_names) == ("sglang", "qwen", ("qwen",))


@pytest.mark.parametrize(
    ("text", "adapter"),
    [(ALPHA, "scalingAdapter: {enabled: true}"), (BETA, "scalingAdapter: {}")],
    ids=["v1alpha1", "v1beta1"],
)
def test_an_adapter_owns_the_replicas(declare: Declare, text: str, adapter: str) -> None:
    (owner,) = declare(text.replace("      replicas: 2\n", f"      replicas: 2\n      {adapter}\n")).owners
    assert owner.owner == "DynamoGraphDeploymentScalingAdapter qwen-vllmworker"
    assert (owner.target_kind, owner.target_name, owner.target_part) == ("DynamoGraphDeployment", "qwen", "VllmWorker")
    assert owner.fields == ()


def test_an_autoscaler_of_the_adapter_is_one_of_what_is_made_of_the_worker(declare: Declare) -> None:
    workload = only(declare(ALPHA))
    assert workload.becomes is not None
    assert (workload.becomes.kind, workload.becomes.name) == ("DynamoGraphDeploymentScalingAdapter", "qwen-vllmworker")


def test_a_planner_owns_the_replicas_of_all_workers(declare: Declare) -> None:
    declared = declare(ALPHA + "    Planner: {componentType: planner, replicas: 1}\n")
    assert [(each.owner, each.target_part) for each in declared.owners] == [("Dynamo's planner", "VllmWorker")]
    assert [each.key.part for each in declared.workloads] == ["VllmWorker"]


@pytest.mark.parametrize(
    "prefill",
    [
        "{componentType: worker, subComponentType: prefill}",
        "{componentType: worker, extraPodSpec: {mainContainer: {args: [-m, dynamo.vllm, --is-prefill-worker]}}}",
        "{componentType: worker, extraPodSpec: {mainContainer: {args: [--disaggregation-mode, prefill]}}}",
    ],
)
def test_a_worker_for_prefill_makes_the_others_decode(declare: Declare, prefill: str) -> None:
    decode, other = declare(ALPHA + f"    Prefill: {prefill}\n").workloads
    assert decode.unsized.startswith("it is the decode half")
    assert other.unsized.startswith("it is the prefill half")


def test_workers_of_a_component_group_scale_together(declare: Declare) -> None:
    group = "  experimental: {componentGroups: [{name: g, replicas: 2, components: [{name: VllmWorker}]}]}\n"
    assert only(declare(ALPHA + group)).unsized == "it scales with others in a component group"


def test_a_component_without_a_name_is_a_mistake(declare: Declare) -> None:
    declared = declare(
        BETA.replace("    - {name: Frontend, type: frontend, replicas: 1}\n", "    - {type: frontend}\n")
    )
    assert [finding.message for finding in declared.findings] == ['expected a name, got ""']
