"""Services of inference.llmaz.io: models in pods of one's own."""

from collections.abc import Callable

import pytest

from reconciler.resources.declaration import Declaration
from reconciler.resources.llmaz.servings import Serving

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

WHOLE = """
replicas: 2
modelClaims:
  models:
    - {name: llama3-405b, role: main}
rolloutStrategy:
  type: RollingUpdate
  rollingUpdateConfiguration: {maxUnavailable: 2, maxSurge: "25%", partition: 1}
workloadTemplate:
  size: 2
  restartPolicy: None
  leaderTemplate:
    metadata: {labels: {app: llama}}
    spec:
      containers:
        - {name: model-runner, image: vllm/vllm-openai:v0.7.3, resources: {limits: {nvidia.com/gpu: 8}}}
  workerTemplate:
    spec:
      containers:
        - {name: model-runner, image: vllm/vllm-openai:v0.7.3, resources: {limits: {nvidia.com/gpu: 8}}}
"""
SMALL = """
modelClaims: {models: [{name: m}]}
workloadTemplate: {workerTemplate: {spec: {containers: [{name: model-runner}]}}}
"""


def service_of(declaration: Declaration) -> Serving:
    (service,) = declaration.llmaz.servings
    return service


def errors(lines: list[str]) -> list[str]:
    return [line for line in lines if " error: " in line]


def test_a_service_of_several_hosts_is_carried_over_field_by_field(load: Load, write: Write) -> None:
    declaration = load(write("Service", WHOLE))
    service = service_of(declaration)
    assert (service.replicas, service.pods) == (2, 2)
    assert service.claim.field == "modelClaims"
    (workload,) = declaration.workloads
    assert (workload.key.kind, workload.replicas) == ("Service", 2)
    assert workload.devices == {"nvidia.com/gpu": 16}
    assert workload.engine == "vllm"
    assert workload.template_labels == {"app": "llama", "llmaz.io/model-name": "llama3-405b"}


def test_what_is_not_written_is_as_llmaz_fills_it_in(load: Load, write: Write) -> None:
    service = service_of(load(write("Service", SMALL)))
    assert (service.replicas, service.pods) == (1, 1)


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("name: model-runner", "name: vllm", "containers: expected a container named model-runner, found none"),
        (
            "[{name: m}]",
            "[{name: a}, {name: b, role: draft}, {name: c, role: draft}]",
            "expected at most 2 models, got 3",
        ),
        ("[{name: m}]", "[{name: a, role: draft}]", "expected a draft with one main model, got 1 draft"),
        ("[{name: m}]", "[{name: a, role: draft}, {name: b, role: draft}]", "expected one main model, got 2 draft"),
        ("workerTemplate: {spec", "size: 0, workerTemplate: {spec", "size: expected at least 1, got 0"),
        ("workerTemplate: {spec", "leaderTemplate: {spec", "workerTemplate: expected a mapping, found nothing"),
        ("workloadTemplate:", "workload:", "spec.workloadTemplate: expected a mapping, found nothing"),
        ("modelClaims:", "modelClaim:", "spec.modelClaims: expected a mapping, found nothing"),
    ],
)
def test_a_service_that_llmaz_refuses(
    load: Load, write: Write, told: Told, was: str, becomes: str, message: str
) -> None:
    text = write("Service", SMALL.replace(was, becomes))
    (line,) = errors(told(text))
    assert message in line
    declaration = load(text)
    assert not declaration.llmaz.servings
    assert not declaration.workloads


def test_a_name_is_a_dns_label(write: Write, told: Told) -> None:
    (line,) = errors(told(write("Service", SMALL, name="service-0.5b")))
    assert "metadata.name" in line


def test_a_model_beside_its_draft_is_taken(load: Load, write: Write) -> None:
    text = write("Service", SMALL.replace("[{name: m}]", "[{name: a, role: draft}, {name: b}]"))
    assert service_of(load(text)).claim.main.name == "b"


def test_a_template_key_that_does_not_exist_is_told(write: Write, told: Told) -> None:
    text = write("Service", SMALL.replace("workerTemplate: {spec", "workerTemplate: {volumes: [], spec"))
    assert "6: warning: spec.workloadTemplate.workerTemplate.volumes: unknown field" in told(text)


@pytest.mark.parametrize("head", ["apiVersion: v1\n", ""])
def test_a_core_service_is_somebody_elses(load: Load, head: str) -> None:
    text = f"{head}kind: Service\nmetadata: {{name: a, labels: {{of: inference.llmaz.io}}}}\nspec: {{ports: []}}\n"
    assert load(text) == load("{}")
