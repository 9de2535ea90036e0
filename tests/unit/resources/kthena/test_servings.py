"""ModelServing and ModelInfer: groups of roles, each with replicas, devices and labels of its own."""

from collections.abc import Callable

from reconciler.resources.declaration import Declaration
from reconciler.resources.kthena.servings import ServingResource

Declare = Callable[..., Declaration]
Sample = Callable[[str], Declaration]

HEAD = """apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {name: a, namespace: llm, annotations: {reconciler.io/ignore: "true"}}
"""


def serving(sample: Sample, generation: str, name: str) -> ServingResource:
    return next(each for each in sample(generation).kthena.servings if each.key.name == name)


def test_a_group_is_made_of_all_its_roles(sample: Sample) -> None:
    read = serving(sample, "g3", "deepseek")
    assert read.workload.replicas == 3
    assert read.workload.devices == {"nvidia.com/gpu": 2 * 4 + 1 * (8 + 8)}
    assert read.workload.node_selector == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert (read.workload.engine, read.workload.served_names) == ("vllm", ("deepseek-r1",))
    assert [each.field for each in read.workload.written_at] == [("spec", "replicas")]
    assert read.label_prefix == "modelserving.volcano.sh/"


def test_a_role_has_replicas_and_devices_of_its_own(sample: Sample) -> None:
    read = serving(sample, "g3", "deepseek")
    prefill, decode = read.roles
    assert read.role("decode") == decode
    assert read.role("encode") is None
    assert (prefill.replicas, prefill.workload.key.label) == (2, "llm/deepseek/prefill")
    assert (decode.workload.devices, decode.worker_replicas) == ({"nvidia.com/gpu": 16}, 1)
    assert prefill.workload.template_labels == {"app": "vllm"}
    assert prefill.workload.launch is not None
    assert prefill.workload.launch.max_num_seqs == 64
    assert [each.field for each in prefill.workload.written_at] == [("spec", "template", "roles", 0, "replicas")]
    place = prefill.workload.replicas_place
    assert place is not None
    assert place.field == "spec.template.roles[0].replicas"


def test_replicas_that_are_not_written_are_none_and_count_as_one(declare: Declare) -> None:
    (read,) = declare(HEAD + "spec: {template: {roles: [{name: a}]}}\n").kthena.servings
    assert (read.workload.replicas, read.roles[0].workload.replicas, read.roles[0].replicas) == (None, None, 1)
    assert read.workload.settings["ignore"].value is True


def test_numbers_that_are_filled_in_later_are_named(declare: Declare) -> None:
    text = """spec:
  replicas: 1
  template:
    roles:
      - {name: a, replicas: "${N}"}
      - {name: b, workerReplicas: "${W}"}
      - {name: c, entryTemplate: {spec: {nodeSelector: {a: "${NODE}"}}}}
"""
    (read,) = declare(HEAD + text).kthena.servings
    assert read.workload.templated == "spec.template.roles[0].replicas"
    assert [role.workload.templated for role in read.roles] == [
        "spec.template.roles[0].replicas",
        "spec.template.roles[1].workerReplicas",
        "spec.template.roles[2].entryTemplate.spec.nodeSelector",
    ]


def test_groups_and_roles_are_scale_targets_of_the_declaration(sample: Sample) -> None:
    labels = {workload.key.label for workload in sample("g3").workloads}
    assert {"llm/deepseek", "llm/deepseek/prefill", "llm/deepseek/decode"} <= labels
