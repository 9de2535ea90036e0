"""Deployments, autoscalers and namespaces as they are written."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.snapshot import Form
from reconciler.domain.workloads import ReplicaOwner
from reconciler.resources.declaration import Declaration
from reconciler.resources.kubernetes.engines import find_served_names

Declare = Callable[..., Declaration]

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: llama
  namespace: llm
  labels: {app: llama, empty: }
  annotations: {reconciler.io/max-replicas: "4"}
spec:
  replicas: 3
  template:
    metadata:
      labels: {llm-d.ai/variant: llama}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - {key: gpu, operator: In, values: [a, b, c]}
                  - {key: gpu, operator: In, values: [b, c]}
                  - {key: zone, operator: In, values: [x]}
                  - {key: arm, operator: DoesNotExist}
              - matchExpressions:
                  - {key: gpu, operator: In, values: [d]}
      containers:
        - name: proxy
          resources: {limits: {cpu: 1}}
        - name: vllm
          command: [vllm, serve]
          args: ["--served-model-name", llama-8b, llama, "--port", "8000"]
          resources:
            limits: {nvidia.com/gpu: "2", memory: 10Gi}
            requests: {nvidia.com/gpu: 9, amd.com/gpu: 1}
"""


def test_a_deployment_is_carried_over_field_by_field(declare: Declare) -> None:
    declaration = declare(DEPLOYMENT)
    assert not declaration.findings
    (workload,) = declaration.workloads
    assert workload.replicas == 3
    assert workload.replicas_place == Place(path="a.yaml", line=9, field="spec.replicas")
    assert workload.node_selector == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert workload.affinity == {"gpu": ("b", "c", "d")}
    assert workload.devices == {"nvidia.com/gpu": 2, "amd.com/gpu": 1}
    assert workload.device_resources == ("spec", "template", "spec", "containers", 1, "resources")
    assert workload.served_names == ("llama-8b", "llama")
    assert workload.labels == {"app": "llama", "empty": ""}
    assert workload.template_labels == {"llm-d.ai/variant": "llama"}
    assert workload.settings["maxReplicas"].value == 4
    assert workload.templated == ""


def test_devices_add_up_and_belong_to_no_single_container_then(declare: Declare) -> None:
    containers = "".join(
        f"        - resources: {{limits: {{{resource}: {quantity}}}}}\n"
        for resource, quantity in [("gpu.intel.com/i915", 1), ("gpu.intel.com/i915", '"2"'), ("habana.ai/gaudi", 8)]
    )
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
    text = f"{head}spec:\n  template:\n    spec:\n      containers:\n{containers}"
    (workload,) = declare(text).workloads
    assert workload.devices == {"gpu.intel.com/i915": 3, "habana.ai/gaudi": 8}
    assert workload.device_resources is None
    assert (workload.replicas, workload.replicas_place) == (None, None)


@pytest.mark.parametrize("replicas", ["${REPLICAS}", "${REPLICAS:=3}", '"{{ .Values.replicas }}"'])
def test_text_that_is_filled_in_later_is_no_mistake(declare: Declare, replicas: str) -> None:
    declaration = declare(DEPLOYMENT.replace("replicas: 3", f"replicas: {replicas}"))
    assert not declaration.findings
    assert declaration.workloads[0].replicas is None
    assert declaration.workloads[0].templated == "spec.replicas"


def test_a_deployment_whose_name_is_filled_in_later_is_nobody(declare: Declare) -> None:
    declaration = declare(DEPLOYMENT.replace("name: llama\n", "name: ${APP}\n"))
    assert declaration == declare("{}")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--served-model-name", "a"], ("a",)),
        (["--served-model-name=a", "b"], ("a",)),
        (["--served_model_name", "a", "b", "--x"], ("a", "b")),
        (["sh", "-c", "exec vllm serve m --served-model-name 'a b' c --port 1"], ("a b", "c")),
        (["sh", "-c", "vllm \\\n  --served-model-name=a \\\n  --port 1"], ("a",)),
        (["sh", "-c", "vllm --served-model-name a; echo b"], ("a",)),
        (["sh", "-c", "vllm --served-model-name a && echo b"], ("a",)),
        (["sh", "-c", "vllm --served-model-name it's"], ("it's",)),
        (["--served-model-name", "$(MODEL)"], ()),
        (["--served-model-name"], ()),
        (["--model", "a"], ()),
    ],
)
def test_served_names_are_found_on_the_command_line(words: list[str], names: tuple[str, ...]) -> None:
    assert find_served_names(words) == names


def _scaler(
    api_version: str, kind: str, annotations: str = "{}", target: str = "{kind: Deployment, name: llama}"
) -> str:
    return (
        f"apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: phi\n  namespace: llm\n"
        f"  annotations: {annotations}\nspec:\n  scaleTargetRef: {target}\n"
    )


@pytest.mark.parametrize("version", ["v1", "v2", "v2beta1", "v2beta2"])
def test_an_autoscaler_owns_its_target(declare: Declare, version: str) -> None:
    (owner,) = declare(_scaler(f"autoscaling/{version}", "HorizontalPodAutoscaler")).owners
    assert replace(owner, fields=(), scaler=None) == ReplicaOwner(
        cluster="prod",
        namespace="llm",
        owner="HorizontalPodAutoscaler phi",
        target_kind="Deployment",
        target_name="llama",
        place=Place(path="a.yaml", line=8, field="spec.scaleTargetRef"),
        least=1,
    )


@pytest.mark.parametrize(
    ("version", "kind", "bounds", "values"),
    [
        ("autoscaling/v2", "HorizontalPodAutoscaler", "", [1, None]),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "  minReplicas: 2\n  maxReplicas: 6\n", [2, 6]),
        ("keda.sh/v1alpha1", "ScaledObject", "", [0, 100]),
        ("keda.sh/v1alpha1", "ScaledObject", "  minReplicaCount: 0\n  maxReplicaCount: 9\n", [0, 9]),
    ],
)
def test_an_autoscaler_moves_between_its_bounds(
    declare: Declare, version: str, kind: str, bounds: str, values: list[int | None]
) -> None:
    (owner,) = declare(_scaler(version, kind) + bounds).owners
    assert [each.value for each in owner.fields] == values
    assert [each.is_ceiling for each in owner.fields] == [False, True]
    assert owner.least == values[0]


ANNOTATED = '{llm-d.ai/managed: "true", llm-d.ai/model-id: meta/llama, llm-d.ai/variant-cost: "5.5"}'


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject"])
def test_an_annotated_autoscaler_is_a_variant(declare: Declare, kind: str) -> None:
    version = "keda.sh/v1alpha1" if kind == "ScaledObject" else "autoscaling/v2"
    (variant,) = declare(_scaler(version, kind, ANNOTATED)).variants
    assert (variant.form, variant.key.kind, variant.key.name) == (Form.ANNOTATED, kind, "phi")
    assert (variant.model_id, variant.variant_cost) == ("meta/llama", 5.5)
    assert (variant.target_kind, variant.target_name) == ("Deployment", "llama")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ('{llm-d.ai/managed: "true"}', "expected the id of the model with llm-d.ai/managed, found nothing"),
        (ANNOTATED.replace("5.5", "-1"), 'expected a decimal number of at least 0, got "-1"'),
        (ANNOTATED.replace("5.5", "nan"), 'expected a decimal number of at least 0, got "nan"'),
    ],
)
def test_annotations_that_say_nothing_are_an_error_and_the_owner_stays(
    declare: Declare, annotations: str, message: str
) -> None:
    declaration = declare(_scaler("autoscaling/v2", "HorizontalPodAutoscaler", annotations))
    assert [finding.message for finding in declaration.findings] == [message]
    assert (declaration.variants, len(declaration.owners)) == ((), 1)


def test_a_scaled_object_owns_its_target_unless_it_is_paused(declare: Declare) -> None:
    (owner,) = declare(_scaler("keda.sh/v1alpha1", "ScaledObject", target="{name: llama}")).owners
    assert (owner.owner, owner.target_kind, owner.makes_autoscaler) == ("ScaledObject phi", "Deployment", True)
    paused = '{autoscaling.keda.sh/paused: "true"}'
    assert declare(_scaler("keda.sh/v1alpha1", "ScaledObject", paused)).owners == ()
    pinned = '{autoscaling.keda.sh/paused-replicas: "2"}'
    assert len(declare(_scaler("keda.sh/v1alpha1", "ScaledObject", pinned)).owners) == 1


@pytest.mark.parametrize(
    ("version", "kind", "bounds"),
    [
        ("autoscaling/v2", "HorizontalPodAutoscaler", "minReplicas: '${MIN:=1}', maxReplicas: 3"),
        ("keda.sh/v1alpha1", "ScaledObject", "minReplicaCount: 0, maxReplicaCount: '${MAX}'"),
    ],
)
def test_bounds_that_are_filled_in_later_are_no_mistake_and_not_ours(
    declare: Declare, version: str, kind: str, bounds: str
) -> None:
    target = "scaleTargetRef: {kind: Deployment, name: llama}"
    declared = declare(
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a, namespace: llm}}\nspec: {{{bounds}, {target}}}\n"
    )
    assert (declared.findings, declared.broken) == ((), ())
    assert [(owner.target_name, owner.fields) for owner in declared.owners] == [("llama", ())]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_whatever_has_a_scale_target_owns_it(declare: Declare, kind: str) -> None:
    text = f"""apiVersion: autoscaling.example.com/v1
kind: LoadScaler
metadata: {{name: llama, namespace: llm}}
spec: {{minReplicas: 1, maxReplicas: 8, scaleTargetRef: {{kind: {kind}, name: llama}}}}
"""
    declared = declare(text)
    (owner,) = declared.owners
    assert (owner.owner, owner.namespace, owner.target_kind, owner.target_name) == (
        "LoadScaler llama",
        "llm",
        kind,
        "llama",
    )
    assert owner.fields == ()
    assert (declared.findings, declared.broken) == ((), ())


def test_a_rollout_owns_the_workload_whose_pods_it_runs(declare: Declare) -> None:
    text = """apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: llama-rollout, namespace: llm}
spec: {replicas: 3, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: llama, scaleDown: onsuccess}}
"""
    (owner,) = declare(text).owners
    assert (owner.owner, owner.target_kind, owner.target_name) == ("Rollout llama-rollout", "Deployment", "llama")
    assert owner.place.field == "spec.workloadRef"
    assert declare(text.replace("argoproj.io/v1alpha1", "core.oam.dev/v1")).owners == (), "traits name workloads too"


@pytest.mark.parametrize(
    "spec",
    ["scaleTargetRef: llama", "scaleTargetRef: {name: 3}", 'scaleTargetRef: {name: "${APP}"}', "x: scaleTargetRef"],
)
def test_what_names_no_target_owns_none(declare: Declare, spec: str) -> None:
    declared = declare(f"apiVersion: a/v1\nkind: Odd\nmetadata: {{name: a}}\nspec: {{{spec}}}\n")
    assert (declared.owners, declared.findings, declared.broken) == ((), (), ())


def test_an_autoscaler_whose_namespace_is_filled_in_later_owns_in_any(declare: Declare) -> None:
    text = _scaler("autoscaling/v2", "HorizontalPodAutoscaler").replace("namespace: llm", "namespace: ${NS}")
    assert [owner.namespace for owner in declare(text).owners] == [""]


def test_a_namespace_may_be_left_alone(declare: Declare) -> None:
    text = 'apiVersion: v1\nkind: Namespace\nmetadata: {name: llm, annotations: {reconciler.io/ignore: "true"}}\n'
    (ignored,) = declare(text).ignored_namespaces
    assert (ignored.cluster, ignored.name, ignored.place.line) == ("prod", "llm", 3)
    assert declare(text.replace('"true"', '"false"')).ignored_namespaces == ()


@pytest.mark.parametrize(
    "text",
    [
        "kind: Deployment\nreplicas: 3\n",
        "apiVersion: example.com/v1\nkind: Deployment\nmetadata: {name: a}\n",
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: ./apps}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: Deployment}\n",
        "- kind: Deployment\n",
        "kind: [Deployment]\n",
    ],
)
def test_what_is_none_of_our_business_is_ignored(declare: Declare, text: str) -> None:
    assert declare(text) == declare("{}")
