"""Scale targets beside Deployments: StatefulSets, and LeaderWorkerSets whose replicas are groups of pods."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.manifests.documents import parse_documents
from reconciler.pipeline.edits import sheet_of, write_edits
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.variants import declared_variants

Declare = Callable[..., Declaration]

STATEFUL_SET = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: llama, namespace: llm}
spec:
  replicas: 3   # by hand
  serviceName: llama
  podManagementPolicy: Parallel
  template:
    metadata: {labels: {app: llama}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers:
        - image: vllm/vllm-openai:v0.9.1
          args: [--served-model-name, llama-8b]
          resources: {limits: {nvidia.com/gpu: 2}}
  volumeClaimTemplates: []
"""
GROUP = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llama, namespace: llm}
spec:
  replicas: 3   # by hand
  startupPolicy: LeaderReady
  leaderWorkerTemplate:
    size: 4
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      metadata: {labels: {role: leader}}
      spec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, zone: a}
        containers:
          - image: vllm/vllm-openai:v0.9.1
            command: [sh, -c, "vllm serve m --served-model-name llama-8b --tensor-parallel-size 8"]
            resources: {limits: {nvidia.com/gpu: 2}}
    workerTemplate:
      spec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, zone: b}
        containers:
          - {image: sidecar, resources: {limits: {cpu: 1}}}
          - {image: ray, resources: {limits: {nvidia.com/gpu: 8}}}
"""
VARIANT = """apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama, namespace: llm}
spec: {modelID: meta/llama-8b, scaleTargetRef: {kind: KIND, name: llama}}
"""


def join(declaration: Declaration) -> Variant:
    settings = Settings(clusters=(ClusterSettings(name="prod"),))
    (variant,) = declared_variants(settings, declaration)
    return variant


def test_a_stateful_set_is_read_like_a_deployment(declare: Declare) -> None:
    declaration = declare(STATEFUL_SET)
    assert not declaration.findings
    (workload,) = declaration.workloads
    assert (workload.key.kind, workload.replicas) == ("StatefulSet", 3)
    assert workload.replicas_place == Place(path="a.yaml", line=5, field="spec.replicas")
    assert workload.devices == {"nvidia.com/gpu": 2}
    assert workload.device_resources == ("spec", "template", "spec", "containers", 0, "resources")
    assert (workload.engine, workload.served_names) == ("vllm", ("llama-8b",))
    assert workload.template_labels == {"app": "llama"}


def test_a_group_takes_the_devices_of_its_leader_and_of_every_other_worker(declare: Declare) -> None:
    declaration = declare(GROUP)
    assert not declaration.findings
    (workload,) = declaration.workloads
    assert workload.replicas == 3
    assert workload.devices == {"nvidia.com/gpu": 2 + 3 * 8}
    assert workload.device_resources is None
    assert [pod.path[-2] for pod in workload.pods] == ["leaderTemplate", "workerTemplate"]
    assert workload.node_selector == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert (workload.engine, workload.served_names) == ("vllm", ("llama-8b",))
    assert workload.launch is not None
    assert workload.launch.tensor_parallel == 8
    assert workload.template_labels == {"role": "leader"}


def test_without_a_leaders_template_every_pod_of_a_group_is_a_worker(declare: Declare) -> None:
    head, _, rest = GROUP.partition("    leaderTemplate:\n")
    workers = rest[rest.index("    workerTemplate:") :]
    assert declare(head + workers).workloads[0].devices == {"nvidia.com/gpu": 4 * 8}
    assert declare(head.replace("    size: 4\n", "") + workers).workloads[0].devices == {"nvidia.com/gpu": 8}


def test_a_group_of_one_has_no_worker_beside_its_leader(declare: Declare) -> None:
    (workload,) = declare(GROUP.replace("size: 4", "size: 1")).workloads
    assert workload.devices == {"nvidia.com/gpu": 2}
    leader = ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec")
    assert workload.device_resources == (*leader, "containers", 0, "resources")
    assert [pod.path for pod in workload.pods] == [leader]


def test_a_group_on_two_kinds_of_nodes_runs_on_no_known_accelerator(declare: Declare) -> None:
    mixed = GROUP.replace("HBM3, zone: b", "PCIE, zone: b")
    assert declare(mixed).workloads[0].node_selector == {}


@pytest.mark.parametrize("size", ["0", "-1", "two", "true", "20000"])
def test_a_group_of_an_impossible_size_is_broken(declare: Declare, size: str) -> None:
    declaration = declare(GROUP.replace("size: 4", f"size: {size}"))
    assert not declaration.workloads
    (finding,) = declaration.findings
    assert str(finding).startswith(
        "a.yaml:8: error: spec.leaderWorkerTemplate.size: expected an integer from 1 to 10000, got "
    )


def test_a_size_that_is_filled_in_later_is_no_mistake(declare: Declare) -> None:
    declaration = declare(GROUP.replace("size: 4", "size: ${SIZE}"))
    assert not declaration.findings
    assert declaration.workloads[0].templated == "spec.leaderWorkerTemplate.size"


def test_fields_that_these_kinds_do_not_have_are_told(declare: Declare) -> None:
    told = [str(each) for each in declare(GROUP.replace("size: 4", "groupSize: 4")).findings]
    assert told == ["a.yaml:8: warning: spec.leaderWorkerTemplate.groupSize: unknown field"]
    told = [str(each) for each in declare(STATEFUL_SET.replace("serviceName", "strategy")).findings]
    assert told == ['a.yaml:6: warning: spec.strategy: unknown field, did you mean "updateStrategy"?']


@pytest.mark.parametrize("text", [STATEFUL_SET, GROUP])
def test_a_variant_may_scale_it_and_only_its_number_is_edited(declare: Declare, text: str) -> None:
    kind = text.split()[3]
    variant = join(declare({"a.yaml": text, "b.yaml": VARIANT.replace("KIND", kind)}))
    assert variant.holds == ()
    assert variant.current.replicas == 3
    workload = variant.workload
    assert workload is not None
    body = text.encode()
    edit = sheet_of(parse_documents("a.yaml", body), workload.document).set_scalar(5, "spec", "replicas")
    assert write_edits("a.yaml", body, [edit]) == body.replace(b"replicas: 3 ", b"replicas: 5 ")


def test_an_autoscaler_of_a_group_owns_its_replicas(declare: Declare) -> None:
    target = "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: llama}"
    hpa = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: llama, namespace: llm}\n"
        f"spec: {{scaleTargetRef: {target}}}\n"
    )
    files = {"a.yaml": GROUP, "b.yaml": VARIANT.replace("KIND", "LeaderWorkerSet"), "c.yaml": hpa}
    assert str(join(declare(files)).hold) == "replicas are owned by HorizontalPodAutoscaler llama (c.yaml:4)"
