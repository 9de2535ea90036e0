"""What doctor says of serving workloads of which no series is there."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import yaml

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.observed import Observation, Observed, Performance
from reconciler.domain.reports import Level
from reconciler.domain.settings import ClusterSettings, Override, PrometheusSettings, Settings
from reconciler.domain.snapshot import Snapshot
from reconciler.manifests.documents import parse_documents
from reconciler.pipeline.doctor_workloads import check_workloads
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import merge
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KIND_WORDS
from reconciler.snapshot.adoption import find_left, find_unmanaged
from reconciler.snapshot.variants import declared_variants

SETTINGS = Settings(clusters=(ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p")),))
EVERYTHING = (Override(match={"namespace": "*"}),)
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  replicas: 1
  template:
    metadata: {labels: LABELS}
    spec: {containers: [{name: e, image: IMAGE, args: [--model-path, m, --model, m], PORTS: 0}]}
"""


def deployment(name: str, image: str = "vllm/vllm-openai", labels: str = "{app: NAME}", ports: str = "x: 0") -> str:
    text = DEPLOYMENT.replace("IMAGE", image).replace("LABELS", labels).replace("PORTS: 0", ports)
    return text.replace("NAME", name)


def snapshot_of(texts: Mapping[str, str], settings: Settings) -> Snapshot:
    files = [
        read_file("prod", path, parse_documents(path, text.encode(), kinds=KIND_WORDS)) for path, text in texts.items()
    ]
    declaration = merge(files)
    variants = declared_variants(settings, declaration)
    missing = Observation(performance=Performance(), absence=NoAnswer(Absence.MISSING, "no series"))
    return Snapshot(
        now_s=0.0,
        repository="r",
        branch="main",
        commit="c",
        fingerprint="f",
        settings=settings,
        variants=variants,
        observed=Observed(observations={each.key: missing for each in variants}),
        unmanaged=find_unmanaged(settings, find_left(settings, declaration, {each.key for each in variants})),
    )


def endpoints(texts: Mapping[str, str]) -> list[tuple[str, Mapping[str, object]]]:
    """The name and endpoint of each PodMonitor."""
    checks = check_workloads(snapshot_of(texts, replace(SETTINGS, workloads=EVERYTHING)), (), Renderer())
    documents = [each for check in checks for each in yaml.safe_load_all(check.manifest)]
    return [(each["metadata"]["name"], each["spec"]["podMetricsEndpoints"][0]) for each in documents]


@pytest.mark.parametrize(
    ("image", "ports", "endpoint"),
    [
        ("vllm/vllm-openai", "ports: [{name: http, containerPort: 8000}]", {"path": "/metrics", "port": "http"}),
        ("vllm/vllm-openai", "ports: [{containerPort: 8080}]", {"path": "/metrics", "targetPort": 8080}),
        ("vllm/vllm-openai", "x: 0", {"path": "/metrics", "targetPort": 8000}),
        ("lmsysorg/sglang", "x: 0", {"path": "/metrics", "targetPort": 30000}),
        (
            "vllm/vllm-openai",
            "ports: [{name: http, containerPort: 8000}, {name: metrics, containerPort: 9100}]",
            {"path": "/metrics", "port": "metrics"},
        ),
        ("nvcr.io/nvidia/tensorrt-llm/release", "x: 0", {"path": "/prometheus/metrics", "targetPort": 8000}),
    ],
)
def test_the_monitor_scrapes_the_port_that_the_container_declares(
    image: str, ports: str, endpoint: Mapping[str, object]
) -> None:
    assert endpoints({"a.yaml": deployment("a", image, ports=ports)}) == [("a", endpoint)]


def test_one_monitor_is_enough_where_pods_have_a_label_in_common() -> None:
    files = {"a.yaml": deployment("a"), "b.yaml": deployment("b"), "c.yaml": deployment("c", "lmsysorg/sglang")}
    assert [name for name, _ in endpoints(files)] == ["vllm-metrics", "c"]
    files["b.yaml"] = deployment("b", labels="{model: b}")
    assert [name for name, _ in endpoints(files)] == ["a", "b", "c"]


KINDS_OF_OTHERS = {
    "InferenceService": """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: a, namespace: llm, annotations: {serving.kserve.io/deploymentMode: Standard}}
spec:
  predictor:
    containers: [{name: kserve-container, image: vllm/vllm-openai, args: [--model, m], ports: [{containerPort: 8080}]}]
""",
    "LLMInferenceService": """apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: a, namespace: llm}
spec: {replicas: 1, model: {uri: "hf://m", name: m}, template: {containers: [{name: main}]}}
""",
    "DynamoGraphDeployment": """apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: a, namespace: llm}
spec:
  services:
    Worker:
      componentType: worker
      replicas: 1
      extraPodSpec: {mainContainer: {image: vllm, args: [python3 -m dynamo.vllm --model m]}}
""",
    "StormService": """apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: a, namespace: llm}
spec:
  replicas: 1
  template:
    spec:
      roles:
        - name: server
          template: {spec: {containers: [{name: e, image: vllm/vllm-openai, args: [--model, m]}]}}
""",
    "Workspace": """apiVersion: kaito.sh/v1beta1
kind: Workspace
metadata: {name: a, namespace: llm}
inference: {preset: {name: phi-4}}
""",
}


@pytest.mark.parametrize(
    ("kind", "key", "value", "port"),
    [
        ("InferenceService", "app", "isvc.a-predictor", 8080),
        ("LLMInferenceService", "app.kubernetes.io/name", "a", 8000),
        ("DynamoGraphDeployment", "nvidia.com/dynamo-component", "Worker", "system"),
        ("StormService", "storm-service-name", "a", 8000),
        ("Workspace", "kaito.sh/workspace", "a", 5000),
    ],
)
def test_pods_that_a_controller_makes_are_selected_by_its_labels(
    kind: str, key: str, value: str, port: int | str
) -> None:
    settings = replace(SETTINGS, workloads=EVERYTHING)
    (check,) = check_workloads(snapshot_of({"a.yaml": KINDS_OF_OTHERS[kind]}, settings), (), Renderer())
    spec = yaml.safe_load(check.manifest)["spec"]
    assert spec["selector"]["matchExpressions"] == [{"key": key, "operator": "In", "values": [value]}]
    named = "port" if isinstance(port, str) else "targetPort"
    assert spec["podMetricsEndpoints"] == [{"path": "/metrics", named: port}]


def test_what_an_engine_needs_to_export_metrics_is_said() -> None:
    settings = replace(SETTINGS, workloads=EVERYTHING)
    (check,) = check_workloads(snapshot_of({"a.yaml": deployment("a", "lmsysorg/sglang")}, settings), (), Renderer())
    assert check.words == "llm/a: no series of sglang at all"
    assert "only with --enable-metrics" in check.cure
    assert not [*check_workloads(snapshot_of({"a.yaml": deployment("a")}, settings), ("prod",), Renderer())], "it fails"


def test_workloads_that_are_not_managed_are_counted() -> None:
    (check,) = check_workloads(
        snapshot_of({"a.yaml": deployment("a"), "b.yaml": deployment("b")}, SETTINGS), (), Renderer()
    )
    assert check.level is Level.OK, "it is no fault"
    assert check.words == "2 serving workloads not managed: llm/a, llm/b: `reconciler init --adopt`"
