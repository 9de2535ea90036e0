"""Models that llmaz runs: from an OpenModel's flavors and a real Prometheus to replicas and the flavor they run on."""

import json
from typing import Any

import pytest

from tests.servers.fleet import Fleet, Level

pytestmark = pytest.mark.integration

PATH = "clusters/prod/notes/mistral.yaml"


HEAD = """\
apiVersion: llmaz.io/v1alpha1
kind: OpenModel
metadata: {name: mistral}
spec:
  familyName: mistral
  source: {modelHub: {modelID: mistralai/Mistral-7B-Instruct-v0.3}}
  inferenceConfig:
    flavors:
"""
FLAVORS = {
    "l4": """\
      - name: l4
        limits: {nvidia.com/gpu: 1}
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
""",
    "h100": """\
      - name: h100
        limits: {nvidia.com/gpu: 1}
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
""",
}
MODEL = HEAD + FLAVORS["l4"] + FLAVORS["h100"] + "---\n"
REVERSED = HEAD + FLAVORS["h100"] + FLAVORS["l4"] + "---\n"
CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: llmaz-global-config, namespace: llmaz-system}
data:
  config.data: |
    scheduler-name: default-scheduler
    init-container-image: loader:v1
---
"""
PLAYGROUND = """\
apiVersion: inference.llmaz.io/v1alpha1
kind: Playground
metadata: {name: mistral, namespace: notes}
spec:
  replicas: 2    # on flavors in their order
  modelClaim:
    modelName: mistral
"""
SERVICE = """\
apiVersion: inference.llmaz.io/v1alpha1
kind: Service
metadata: {name: mistral, namespace: notes}
spec:
  modelClaims:
    models: [{name: mistral}]
    inferenceFlavors: [h100, l4]
  replicas: 2
  workloadTemplate:
    workerTemplate:
      spec:
        containers:
          - {name: model-runner, image: "vllm/vllm-openai:v0.11.0"}
"""
CHOOSE = "overrides:\n  - {match: {namespace: notes}, accelerator: choose}\n"
POOL = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: mistral, namespace: notes}
spec:
  selector: {matchLabels: {llmaz.io/model-name: mistral}}
  targetPorts: [{number: 8080}]
  endpointPickerRef: {name: picker, port: {number: 9002}}
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceObjective
metadata: {name: notes, namespace: notes}
spec:
  priority: -3
  poolRef: {name: mistral}
---
"""
PROFILES = """\
  - id: mistral
    profiles:
      - {accelerator: L4, alpha: 20ms, beta: 0.5ms, maxBatchSize: 32}
      - {accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}
"""


def profile(fleet: Fleet, more: str = "") -> None:
    settings = fleet.read("reconciler.yaml").decode()
    fleet.write("reconciler.yaml", settings.replace("models:\n", f"models:\n{PROFILES}") + more)


def proposed(fleet: Fleet) -> str:
    assert fleet.run().code == 0
    heads = [each.head for each in fleet.pull_requests() if each.head.startswith("reconciler/prod-notes-")]
    assert len(heads) == 1
    return fleet.read(PATH, heads[0]).decode()


def decided(fleet: Fleet) -> Any:
    outcome = fleet.invoke("explain", "notes/mistral", "-o", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["decision"]


def test_the_first_flavor_that_meets_the_slo_is_kept(fleet: Fleet) -> None:
    profile(fleet)
    fleet.write(PATH, MODEL + PLAYGROUND)
    fleet.go_to(Level.BUSY)
    decision = decided(fleet)
    assert decision["desired"]["accelerator"] == "L4"
    replicas = decision["desired"]["replicas"]
    assert replicas > 2
    assert proposed(fleet) == (MODEL + PLAYGROUND).replace("replicas: 2 ", f"replicas: {replicas} ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "    inferenceFlavors:\n      - h100    # since June\n      - l4\n",
            "    inferenceFlavors:\n      - l4    # since June\n      - h100\n",
        ),
        ("    inferenceFlavors: [h100, l4]\n", "    inferenceFlavors: [l4, h100]\n"),
    ],
    ids=["block", "flow"],
)
def test_the_cheapest_flavor_is_chosen_on_demand(fleet: Fleet, before: str, after: str) -> None:
    profile(fleet, CHOOSE)
    fleet.write(PATH, MODEL + PLAYGROUND + before)
    fleet.go_to(Level.BUSY)
    decision = decided(fleet)
    assert (decision["current"]["accelerator"], decision["desired"]["accelerator"]) == ("H100", "L4")
    count = f"replicas: {decision['desired']['replicas']} "
    assert proposed(fleet) == (MODEL + PLAYGROUND).replace("replicas: 2 ", count) + after


def test_an_order_is_written_where_there_was_none(fleet: Fleet) -> None:
    profile(fleet, CHOOSE)
    fleet.write(PATH, REVERSED + PLAYGROUND)
    fleet.go_to(Level.BUSY)
    count = f"replicas: {decided(fleet)['desired']['replicas']} "
    order = '    inferenceFlavors:\n      - "l4"\n      - "h100"\n'
    assert proposed(fleet) == (REVERSED + PLAYGROUND).replace("replicas: 2 ", count) + order


def test_a_service_is_scaled_like_a_playground(fleet: Fleet) -> None:
    profile(fleet, CHOOSE)
    fleet.write(PATH, MODEL + SERVICE)
    fleet.go_to(Level.BUSY)
    count = f"replicas: {decided(fleet)['desired']['replicas']}\n"
    expected = (MODEL + SERVICE).replace("[h100, l4]", "[l4, h100]").replace("replicas: 2\n", count)
    assert proposed(fleet) == expected


def test_without_its_scheduler_flavors_mean_nothing(fleet: Fleet) -> None:
    profile(fleet, CHOOSE)
    fleet.write(PATH, CONFIG + MODEL + SERVICE)
    fleet.go_to(Level.BUSY)
    desired = decided(fleet)["desired"]
    assert (desired["accelerator"], desired["replicas"]) == ("H100", 4)


def test_the_bounds_of_elastic_config_bind(fleet: Fleet) -> None:
    profile(fleet)
    fleet.write(PATH, MODEL + PLAYGROUND + "  elasticConfig: {minReplicas: 1, maxReplicas: 7}\n")
    fleet.go_to(Level.BUSY)
    assert decided(fleet)["desired"]["replicas"] == 7


def test_the_scaler_that_llmaz_makes_owns_the_replicas(fleet: Fleet) -> None:
    profile(fleet)
    trigger = "{hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}}"
    elastic = f"  elasticConfig: {{maxReplicas: 7, scaleTrigger: {trigger}}}\n"
    fleet.write(PATH, MODEL + PLAYGROUND + elastic)
    fleet.go_to(Level.BUSY)
    decision = decided(fleet)
    assert decision["outcome"] == "held"
    assert "the HorizontalPodAutoscaler that llmaz makes" in decision["reason"]


def test_a_model_that_is_not_in_git_is_said(fleet: Fleet) -> None:
    fleet.write(PATH, PLAYGROUND)
    fleet.go_to(Level.BUSY)
    assert decided(fleet)["reason"] == "OpenModel mistral is not in Git"


def test_the_priority_of_its_pool_reaches_it(fleet: Fleet) -> None:
    fleet.write(PATH, POOL + MODEL + PLAYGROUND)
    fleet.go_to(Level.BUSY)
    outcome = fleet.invoke("explain", "notes/mistral", "-o", "json")
    (row,) = (each for each in json.loads(outcome.out)["settings"] if each["name"] == "priority")
    assert (row["value"], row["source"]) == (
        "-3",
        "InferenceObjective notes/notes of pool mistral, clusters/prod/notes/mistral.yaml:13",
    )
