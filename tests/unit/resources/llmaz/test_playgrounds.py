"""Playgrounds as llmaz's webhook takes and refuses them."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.manifests.documents import parse_documents
from reconciler.pipeline.edits import sheet_of, write_edits
from reconciler.resources.declaration import Declaration
from reconciler.resources.llmaz.servings import Serving

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

WHOLE = """
replicas: 2
modelClaim:
  modelName: qwen2-0--5b
  inferenceFlavors: [t4, a100]
backendRuntimeConfig:
  backendName: sglang
  version: v0.4.5
  configName: fast
  args: [--enable-metrics, --tp, "2"]
  envs:
    - {name: HF_HOME, value: /cache}
    - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  resources:
    requests: {cpu: 4, memory: 8Gi}
    limits: {cpu: "8", nvidia.com/gpu: "1"}
  sharedMemorySize: 2Gi
elasticConfig:
  minReplicas: 1
  maxReplicas: 3
  scaleTrigger:
    hpa:
      metrics:
        - type: Resource
          resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
        - type: Pods
          pods:
            metric: {name: waiting, selector: {matchLabels: {app: q}}}
            target: {type: AverageValue, averageValue: 500m}
        - type: ContainerResource
          containerResource: {name: memory, container: c, target: {type: Value, value: 1Gi}}
        - type: Object
          object: {describedObject: {kind: Service, name: s}, metric: {name: m}, target: {type: Value, value: 3}}
      behavior:
        scaleDown:
          stabilizationWindowSeconds: 300
          selectPolicy: Min
          tolerance: "0.1"
          policies: [{type: Pods, value: 1, periodSeconds: 60}]
"""
MODEL = "{familyName: q, source: {uri: 'host:///m'}, inferenceConfig: {flavors: [{name: t4}, {name: a100}]}}"


def playground_of(declaration: Declaration) -> Serving:
    (playground,) = declaration.llmaz.servings
    return playground


def test_a_playground_is_carried_over_field_by_field(load: Load, write: Write) -> None:
    text = write("OpenModel", MODEL) + write("Playground", WHOLE, name="chat")
    declaration = load(text)
    assert [str(finding) for finding in declaration.findings] == []
    playground = playground_of(declaration)
    claim, backend, elastic = playground.claim, playground.backend, playground.elastic
    assert (claim.main.name, claim.flavor_names, claim.field) == (
        "qwen2-0--5b",
        ["t4", "a100"],
        "modelClaim",
    )
    assert playground.flavors_place == Place(path="a.yaml", line=14, field="spec.modelClaim.inferenceFlavors")
    assert (playground.replicas, playground.skips_loader) == (2, False)
    assert backend is not None
    assert (backend.name, backend.version, backend.config_name) == ("sglang", "v0.4.5", "fast")
    assert backend.args == ["--enable-metrics", "--tp", "2"]
    variables = [(each.name, each.value) for each in backend.envs or ()]
    assert variables == [("HF_HOME", "/cache"), ("HF_TOKEN", None), ("POD", None)]
    assert backend.resources is not None
    assert backend.resources.devices == {"nvidia.com/gpu": 1}
    assert elastic is not None
    assert (elastic.min_replicas, elastic.max_replicas) == (1, 3)
    assert [each.place.field for each in declaration.owners] == ["spec.elasticConfig.scaleTrigger"]


def test_the_scale_target_of_a_playground_runs_its_backend(load: Load, write: Write) -> None:
    (workload,) = load(write("Playground", WHOLE, name="chat")).workloads
    assert (workload.key.kind, workload.replicas) == ("Playground", 2)
    assert workload.replicas_place == Place(path="a.yaml", line=5, field="spec.replicas")
    assert (workload.engine, workload.served_names) == ("sglang", ("qwen2-0--5b",))
    assert workload.launch is not None
    assert workload.launch.tensor_parallel == 2
    assert workload.devices == {"nvidia.com/gpu": 1}
    assert workload.template_labels == {"llmaz.io/model-name": "qwen2-0--5b"}


def test_what_is_not_written_is_as_llmaz_fills_it_in(load: Load, write: Write) -> None:
    declaration = load(write("Playground", "modelClaim: {modelName: m}"))
    playground = playground_of(declaration)
    assert playground.backend is not None
    assert (playground.replicas, playground.backend.name, playground.elastic) == (1, "vllm", None)
    (workload,) = declaration.workloads
    assert (workload.replicas, workload.engine) == (None, "vllm")
    empty = playground_of(load(write("Playground", "{modelClaim: {modelName: m}, backendRuntimeConfig: {}}")))
    assert empty.backend is not None
    assert empty.backend.name == "vllm"


def _claims(*models: str) -> str:
    return f"modelClaims: {{models: [{', '.join(models)}]}}"


MAIN, DRAFT = "{name: big, role: main}", "{name: small, role: draft}"


def errors(lines: list[str]) -> list[str]:
    return [line for line in lines if " error: " in line]


@pytest.mark.parametrize(
    "spec",
    [
        "modelClaim: {modelName: m}",
        _claims(MAIN, DRAFT),
        _claims("{name: big}", DRAFT),
        _claims("{name: big}"),
        "{modelClaim: {modelName: m}, backendRuntimeConfig: {backendName: mine}}",
        "{modelClaim: {modelName: m}, backendRuntimeConfig: {resources: {limits: {cpu: 1}}}}",
        "{replicas: 0, modelClaim: {modelName: m}}",
        "{modelClaim: {modelName: m}, elasticConfig: {minReplicas: 1, maxReplicas: 2}}",
    ],
)
def test_a_playground_that_llmaz_takes(load: Load, write: Write, told: Told, spec: str) -> None:
    text = write("Playground", spec)
    assert errors(told(text)) == []
    assert playground_of(load(text)).key.name == "qwen2-0--5b"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{replicas: 1}", "spec: expected either modelClaim or modelClaims, found neither"),
        (
            "{modelClaim: {modelName: m}, modelClaims: {models: [{name: m}]}}",
            "spec: expected either modelClaim or modelClaims, found both",
        ),
        ("{modelClaim: {}}", "spec.modelClaim.modelName: expected a string, found nothing"),
        ("{modelClaims: {models: []}}", "spec.modelClaims.models: expected at least one item, got an empty list"),
        (_claims("{name: m, role: lora}"), 'role: expected "main" or "draft", got "lora"'),
        (_claims(MAIN, DRAFT, DRAFT), "expected a draft with one main model, got 1 main and 2 draft"),
        (_claims(DRAFT), "expected a draft with one main model, got 1 draft"),
        (
            "{modelClaim: {modelName: m}, backendRuntimeConfig: {resources: {requests: {cpu: 10}, limits: {cpu: 5}}}}",
            "resources.limits.cpu: expected at least the request (10), got 5",
        ),
        (
            "{modelClaim: {modelName: m}, elasticConfig: {maxReplicas: 2, scaleTrigger: {}}}",
            "spec.elasticConfig.scaleTrigger.hpa: expected an HPA's metrics, found nothing",
        ),
        (
            "{modelClaim: {modelName: m}, elasticConfig: {scaleTrigger: {hpa: {}}}}",
            "spec.elasticConfig.maxReplicas: expected an integer, found nothing",
        ),
        (
            "{modelClaim: {modelName: m}, elasticConfig: {minReplicas: 0, maxReplicas: 2}}",
            "spec.elasticConfig.minReplicas: expected at least 1, got 0",
        ),
        (
            "{modelClaim: {modelName: m}, elasticConfig: {minReplicas: 10, maxReplicas: 1}}",
            "spec.elasticConfig.minReplicas: expected less than maxReplicas (1), got 10",
        ),
        (
            "{modelClaim: {modelName: m}, elasticConfig: {minReplicas: 2, maxReplicas: 2}}",
            "spec.elasticConfig.minReplicas: expected less than maxReplicas (2), got 2",
        ),
        (
            "{modelClaim: {modelName: m}, elasticConfig: {maxReplicas: 1}}",
            "spec.elasticConfig.minReplicas: expected less than maxReplicas (1), got 1, the default",
        ),
        ("{modelClaim: {modelName: m}, replicas: -1}", "spec.replicas: expected an integer of at least 0, got -1"),
        ("{modelClaim: {modelName: m}, replicas: two}", 'spec.replicas: expected an integer of at least 0, got "two"'),
        ("[]", "spec: expected a mapping, got an empty list"),
    ],
)
def test_a_playground_that_llmaz_refuses(load: Load, write: Write, told: Told, spec: str, message: str) -> None:
    text = write("Playground", spec)
    (line,) = errors(told(text))
    assert message in line
    declaration = load(text)
    assert not declaration.llmaz.servings
    assert not declaration.workloads
    assert [broken.key.kind for broken in declaration.broken] == ["Playground"]


def test_a_name_is_a_dns_label(write: Write, told: Told) -> None:
    (line,) = errors(told(write("Playground", "modelClaim: {modelName: m}", name="playground-0.5b")))
    assert "metadata.name: expected at most 63 lower-case letters, digits and -" in line


def test_a_role_that_is_not_written_is_main(load: Load, write: Write) -> None:
    claim = playground_of(load(write("Playground", _claims("{name: big}", DRAFT)))).claim
    assert [model.role for model in claim.models] == ["main", "draft"]
    assert (claim.main.name, claim.is_speculative) == ("big", True)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ((MAIN, "{name: other}"), 'expected one main model, got 2: "big", the first, is served'),
        ((DRAFT, DRAFT), "expected one main model, got 2 draft"),
    ],
)
def test_roles_that_llmaz_lets_pass_and_nobody_can_run_are_told(
    write: Write, told: Told, models: tuple[str, ...], message: str
) -> None:
    lines = [line for line in told(write("Playground", _claims(*models))) if "one main model" in line]
    assert lines == [f"5: warning: spec.modelClaims.models: {message}"]


def test_a_flavor_is_named_once(write: Write, told: Told) -> None:
    lines = told(write("Playground", "modelClaim: {modelName: m, inferenceFlavors: [a, b, a]}"))
    assert '5: warning: spec.modelClaim.inferenceFlavors[2]: "a" is already listed above' in lines


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("multiModelsClaims: {}", "llmaz has renamed it and drops it now: write modelClaims"),
        ("backendConfig: {}", "llmaz has renamed it and drops it now: write backendRuntimeConfig"),
        ("elasticConfig: {maxReplicas: 2, scaleTriggerRef: {name: t}}", "llmaz v0.1.0 had it and drops it now"),
        ("modelClaims2: {}", 'did you mean "modelClaims"?'),
    ],
)
def test_fields_that_are_dropped_silently_are_told(write: Write, told: Told, field: str, words: str) -> None:
    (line,) = [
        each for each in told(write("Playground", f"{{modelClaim: {{modelName: m}}, {field}}}")) if words in each
    ]
    assert line.startswith("5: warning: spec.")


def test_a_trigger_owns_the_replicas(load: Load, write: Write) -> None:
    assert load(write("Playground", WHOLE, name="chat")).owners == (
        ReplicaOwner(
            cluster="prod",
            namespace="llm",
            owner="the HorizontalPodAutoscaler that llmaz makes of scaleTrigger for chat",
            target_kind="Playground",
            target_name="chat",
            place=Place(path="a.yaml", line=25, field="spec.elasticConfig.scaleTrigger"),
        ),
    )


def test_bounds_without_a_trigger_own_nothing(load: Load, write: Write) -> None:
    spec = "{modelClaim: {modelName: m}, elasticConfig: {maxReplicas: 4}}"
    assert load(write("Playground", spec)).owners == ()


def test_replicas_that_are_filled_in_later_are_no_mistake(load: Load, write: Write, told: Told) -> None:
    text = write("Playground", '{replicas: "${N}", modelClaim: {modelName: m}}')
    assert errors(told(text)) == []
    (workload,) = load(text).workloads
    assert workload.templated == "spec.replicas"


@pytest.mark.parametrize(
    "spec",
    [
        "modelClaim: {modelName: '${MODEL}'}",
        "{modelClaim: {modelName: m}, elasticConfig: {maxReplicas: '{{ .Values.max }}'}}",
    ],
)
def test_a_claim_or_bound_that_is_filled_in_later_is_held(load: Load, write: Write, spec: str) -> None:
    declaration = load(write("Playground", spec))
    assert [finding.severity.value for finding in declaration.findings] == ["warning"]
    assert not declaration.llmaz.servings
    assert declaration.broken[0].reason.endswith("cannot be read from Git")


def test_our_annotations_hold_for_the_scale_target(load: Load, write: Write) -> None:
    annotations = '{reconciler.io/accelerator: choose, llmaz.io/skip-model-loader: "true"}'
    declaration = load(write("Playground", "modelClaim: {modelName: m}", annotations=annotations))
    assert declaration.workloads[0].settings["accelerator"].value == "choose"
    assert playground_of(declaration).skips_loader


def test_two_playgrounds_of_one_name_are_a_mistake(load: Load, write: Write) -> None:
    text = write("Playground", "modelClaim: {modelName: m}")
    declaration = load(text + text)
    assert not declaration.llmaz.servings
    assert not declaration.workloads
    assert [str(each)[:17] for each in declaration.findings] == ["a.yaml:1: error: ", "a.yaml:7: error: "]


def test_only_the_number_of_a_playground_in_a_list_is_edited(load: Load) -> None:
    item = "  - metadata: {name: chat}\n    spec:\n      modelClaim: {modelName: m}\n      replicas: 1 # mine\n"
    text = f"apiVersion: inference.llmaz.io/v1alpha1\nkind: PlaygroundList\nitems:\n{item}"
    workload: Workload
    (workload,) = load(text).workloads
    body = text.encode()
    edit = sheet_of(parse_documents("a.yaml", body), workload.document).set_scalar(4, "spec", "replicas")
    assert write_edits("a.yaml", body, [edit]) == body.replace(b"replicas: 1 #", b"replicas: 4 #")
