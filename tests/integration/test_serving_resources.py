"""Resources of operators and values of charts, with what their routers count, against a real Prometheus."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.domain.settings import ClusterSettings, Identity, PrometheusSettings
from reconciler.git.repository import create_bare
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import LabelNames, queries_for
from reconciler.metrics.readings import MetricReadings, Served, read
from reconciler.prometheus.client import PrometheusClient
from tests.servers.fleet import run_here
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
ANN = Identity(name="Ann", email="ann@example.com")
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
policies: []
serviceClasses: [{name: standard, itl: 60ms}]
defaults: {serviceClass: standard}
models:
"""
PROFILE = "- {id: org/NAME, profiles: [{accelerator: H100, alpha: 7ms, beta: 0.04ms, maxBatchSize: 64}]}\n"
NODES = "{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}"
PLAIN = """\
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, namespace: llm}}
spec:
  replicas: 3
  template:
    spec:
      nodeSelector: {nodes}
      containers:
        - name: e
          image: vllm/vllm-openai
          args: [--model, org/{name}]
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
MANIFESTS = {
    "isvc": f"""\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: isvc
  namespace: llm
  annotations: {{serving.kserve.io/deploymentMode: Standard, serving.kserve.io/autoscalerClass: none}}
spec:
  predictor:
    minReplicas: 3
    maxReplicas: 3
    nodeSelector: {NODES}
    model:
      modelFormat: {{name: huggingface}}
      args: [--model_name=org/isvc, --model_id=org/isvc]
      resources: {{limits: {{nvidia.com/gpu: "1"}}}}
""",
    "llmisvc": f"""\
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {{name: llmisvc, namespace: llm}}
spec:
  replicas: 3
  model: {{uri: hf://org/llmisvc, name: org/llmisvc}}
  template:
    nodeSelector: {NODES}
    containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
""",
    "stack": """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: vllm, namespace: llm}
spec:
  chart: {spec: {chart: vllm-stack, sourceRef: {kind: HelmRepository, name: vllm}}}
  values:
    servingEngineSpec:
      modelSpec:
        - name: stack
          repository: vllm/vllm-openai
          tag: v0.10
          modelURL: org/stack
          replicaCount: 3
          requestGPU: 1
          annotations: {reconciler.io/managed: "true"}
          nodeSelectorTerms:
            - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-H100-80GB-HBM3]}]
""",
    "dynamo": f"""\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {{name: dynamo, namespace: llm}}
spec:
  services:
    Frontend: {{componentType: frontend, replicas: 1}}
    Worker:
      componentType: worker
      replicas: 3
      resources: {{limits: {{gpu: "1"}}}}
      extraPodSpec:
        nodeSelector: {NODES}
        mainContainer: {{image: vllm-runtime, command: [python3, -m, dynamo.vllm], args: [--model, org/dynamo]}}
""",
    "sts": PLAIN.format(kind="StatefulSet", name="sts", nodes=NODES),
    "deploy": PLAIN.format(kind="Deployment", name="deploy", nodes=NODES),
    "lws": f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: lws, namespace: llm}}
spec:
  replicas: 3
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        nodeSelector: {NODES}
        containers:
          - {{name: e, image: vllm/vllm-openai, args: [--model, org/lws], resources: {{limits: {{nvidia.com/gpu: 1}}}}}}
""",
    "storm": f"""\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {{name: storm, namespace: llm}}
spec:
  replicas: 3
  template:
    spec:
      roles:
        - name: server
          template:
            spec:
              nodeSelector: {NODES}
              containers: [{{name: e, image: vllm/vllm-openai, args: [--model, org/storm]}}]
""",
    "nim": f"""\
apiVersion: apps.nvidia.com/v1alpha1
kind: NIMService
metadata: {{name: nim, namespace: llm}}
spec:
  replicas: 3
  image: {{repository: nvcr.io/nim/org/nim, tag: 2.0.0}}
  nodeSelector: {NODES}
  resources: {{limits: {{nvidia.com/gpu: 1}}}}
""",
    "kaito": """\
apiVersion: kaito.sh/v1beta1
kind: InferenceSet
metadata:
  name: kaito
  namespace: llm
  labels: {inference.optimization/acceleratorName: H100}
  annotations: {reconciler.io/model: org/kaito}
spec:
  replicas: 3
  template: {inference: {preset: {name: phi-4}}}
""",
}
PODS = {
    "isvc": "isvc-predictor-5d4c8b7f9-bcdf",
    "llmisvc": "llmisvc-kserve-5d4c8b7f9-bcdf",
    "stack": "vllm-stack-deployment-vllm-5d4c8b7f9-bcdf",
    "dynamo": "dynamo-worker-5d4c8b7f9-bcdf",
    "sts": "sts-",
    "deploy": "deploy-5d4c8b7f9-bcdf",
    "lws": "lws-",
    "storm": "storm-roleset-bcdfg-server-bcdf",
    "nim": "nim-5d4c8b7f9-bcdf",
    "kaito": "kaito-x7k2p-",
}
IN_METRICS = {"kaito": "kaito"}
"""What an engine calls its model where that is not `org/NAME`: Kaito's vLLM gets the name of the set."""
MANAGED = 'annotations: {reconciler.io/managed: "true"}'


def written() -> History:
    """Three replicas of each model that finish 40 requests a second, and what stands before them counts them."""
    history = History(end_s=END_S, step_s=15.0)
    for name, pod in PODS.items():
        for index in range(3):
            labels = {"namespace": "llm", "pod": f"{pod}{index + 4}", "model_name": IN_METRICS.get(name, f"org/{name}")}
            vllm_replica(
                history, labels, per_s=40.0 / 3, running=19.0, itl_s=0.00774, wait_s=0.001, ttft_s=0.01, since_s=4200.0
            )

    def counted(metric: str, per_s: float, **labels: str) -> None:
        history.counter(metric, {"namespace": "llm", **labels}, per_s, since_s=4200.0)

    routed = {"pod": "vllm-deployment-router-6f5b9-abcde", "job": "router"}
    for job in ("router", "twice"):
        counted("vllm:num_incoming_requests_total", 40.0, model="org/stack", **{**routed, "job": job})
    for server in ("http://10.0.0.1:8000", "http://10.0.0.2:8000"):
        for gauge in ("running", "waiting"):
            history.gauge(f"vllm:num_requests_{gauge}", {"namespace": "llm", "server": server, **routed}, 2.0)
    counted("llm_d_epp_request_total", 40.0, model_name="org/llmisvc", target_model_name="", pod="epp")
    counted("vllm:num_incoming_requests_total", 39.0, model="org/llmisvc", pod="gateway")
    ended = ("chat", "success", 20.0), ("completions", "success", 15.0), ("chat", "error", 3.0)
    for endpoint, status, per_s in ended:
        counted("dynamo_frontend_requests_total", per_s, model="org/dynamo", endpoint=endpoint, status=status)
    under_way = {"namespace": "llm", "model": "org/dynamo"}
    history.gauge("dynamo_frontend_inflight_requests", under_way, 3000.0, per_s=2.0, since_s=4200.0)
    for endpoint in ("chat", "generate"):
        counted("smg_router_requests_total", 5.0, model="org/gateway", endpoint=endpoint, router_type="http")
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_over(written(), tmp_path_factory.mktemp("prometheus")) as base:
        yield base


@pytest.fixture(scope="module")
def readings(url: str) -> MetricReadings:
    """What is read in namespace `llm`."""
    cluster = ClusterSettings(name="prod", prometheus=PrometheusSettings(url=url))
    assert cluster.prometheus
    answers = PrometheusClient(cluster.prometheus, str).ask_all(queries_for(cluster, {"llm": 5}, END_S))
    return read(answers, LabelNames())


@pytest.mark.parametrize(
    ("model", "per_s"),
    [("stack", 40.0), ("llmisvc", 40.0), ("dynamo", 40.0), ("gateway", 10.0), ("isvc", None)],
)
def test_requests_are_counted_once_by_what_stands_before_replicas(
    readings: MetricReadings, model: str, per_s: float | None
) -> None:
    found = readings.of_model(Name.ARRIVALS_ENDPOINT_PICKER, Served("llm", f"org/{model}"))
    assert found == (pytest.approx(per_s) if per_s else None)


def plan(url: str, directory: Path, manifests: Mapping[str, str], settings: str = "") -> Any:
    files = {f"{name}.yaml": text.encode() for name, text in manifests.items()}
    configuration = SETTINGS + "".join(PROFILE.replace("NAME", name) for name in PODS) + settings
    repository = directory / "fleet.git"
    content = {"reconciler.yaml": configuration.encode(), **files}
    create_bare(repository, branch="main", files=content, message="Run models", author=ANN, date_s=int(END_S - 7200))
    outcome = run_here(["plan", "--repo", str(repository), "--prometheus", url, "-o", "json"])
    assert (outcome.code, outcome.err) == (0, "")
    return json.loads(outcome.out)


def test_all_of_them_get_the_replicas_that_their_load_needs(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.plan.time", SimpleNamespace(time=lambda: END_S))
    managed = {
        f"prod/{name}": text
        if name == "stack"
        else text.replace("annotations: {", f"{MANAGED[:-1]}, ")
        if "annotations" in text
        else text.replace(f"name: {name}, namespace: llm}}", f"name: {name}, namespace: llm, {MANAGED}}}")
        for name, text in MANIFESTS.items()
    }
    content = plan(url, tmp_path, managed)
    decisions = {each["variant"]["name"]: each for group in content["groups"] for each in group["decisions"]}
    assert {name: each["desired"]["replicas"] for name, each in decisions.items()} == {
        "isvc": 2,
        "llmisvc": 2,
        "vllm-stack-deployment-vllm": 2,
        "dynamo": 2,
        **dict.fromkeys(("sts", "deploy", "lws", "storm", "nim", "kaito"), 2),
    }
    assert {name: each["written_at"] for name, each in decisions.items()} == {
        "isvc": ["prod/isvc.yaml:9 spec.predictor.minReplicas"],
        "llmisvc": ["prod/llmisvc.yaml:5 spec.replicas"],
        "vllm-stack-deployment-vllm": ["prod/stack.yaml:13 spec.values.servingEngineSpec.modelSpec[0].replicaCount"],
        "dynamo": ["prod/dynamo.yaml:9 spec.services.Worker.replicas"],
        **{name: [f"prod/{name}.yaml:5 spec.replicas"] for name in ("sts", "deploy", "lws", "storm", "nim")},
        "kaito": ["prod/kaito.yaml:9 spec.replicas"],
    }
    assert {name: each["load"]["arrivals_from"] for name, each in decisions.items()} == {
        "isvc": "completions and queue growth",
        "llmisvc": "endpoint picker",
        "vllm-stack-deployment-vllm": "endpoint picker",
        "dynamo": "endpoint picker",
        **dict.fromkeys(("sts", "deploy", "lws", "storm", "nim", "kaito"), "completions and queue growth"),
    }


OVERLAY = """\
namespace: llm
resources: [../base]
patches:
- path: replicas.yaml
- target: {kind: LLMInferenceService}
  patch: |-
    - op: replace
      path: /spec/replicas
      value: 3
"""
PATCH = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: isvc}
spec:
  predictor:
    minReplicas: 3
    maxReplicas: 3
"""


def test_an_edit_goes_to_the_layer_of_kustomize_that_counts(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.plan.time", SimpleNamespace(time=lambda: END_S))
    base = {
        f"base/{name}": MANIFESTS[name].replace("eplicas: 3", "eplicas: 1").replace("namespace: llm", "labels: {a: b}")
        for name in ("isvc", "llmisvc")
    }
    kustomizations = {
        "base/kustomization": "resources: [isvc.yaml, llmisvc.yaml]\n",
        "prod/kustomization": OVERLAY,
        "prod/replicas": PATCH,
    }
    settings = '\nworkloads: [{match: {name: "*"}}]\n'
    content = plan(url, tmp_path, {**base, **kustomizations}, settings)
    decisions = {each["variant"]["name"]: each for group in content["groups"] for each in group["decisions"]}
    assert {name: (each["desired"]["replicas"], each["written_at"]) for name, each in decisions.items()} == {
        "isvc": (
            2,
            ["prod/replicas.yaml:6 spec.predictor.minReplicas"],
        ),
        "llmisvc": (2, ["prod/kustomization.yaml:9 patches[1].patch: [0].value"]),
    }
