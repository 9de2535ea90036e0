"""BackendRuntimes, and the settings of llmaz itself."""

from collections.abc import Callable

import pytest

from reconciler.resources.declaration import Declaration

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

WHOLE = """
image: vllm/vllm-openai
version: v0.7.3
command: [python3, -m, vllm.entrypoints.openai.api_server]
envs: [{name: A, value: b}]
lifecycle: {preStop: {exec: {command: [sleep]}}}
startupProbe: {httpGet: {path: /health, port: 8080}}
recommendedConfigs:
  - name: default
    args: [--model, "{{ .ModelPath }}", --served-model-name, "{{.ModelName}}"]
    resources: {requests: {cpu: 4}, limits: {cpu: 4, nvidia.com/gpu: 1}}
    sharedMemorySize: 2Gi
  - name: speculative-decoding
    args: ["{{ .DraftModelPath }}"]
    scaleTrigger: {hpa: {metrics: []}}
"""
SMALL = "{image: i, version: v}"


def _configs(configs: str) -> str:
    return f"{{image: i, version: v, recommendedConfigs: {configs}}}"


def test_a_runtime_is_carried_over_field_by_field(load: Load, write: Write) -> None:
    declaration = load(write("BackendRuntime", WHOLE, name="vllm"))
    assert [str(finding) for finding in declaration.findings] == []
    (runtime,) = declaration.llmaz.runtimes
    spec = runtime.spec
    assert (runtime.key.namespace, spec.image, spec.version) == ("", "vllm/vllm-openai", "v0.7.3")
    assert (spec.command or [])[-1] == "vllm.entrypoints.openai.api_server"
    assert next(each.value for each in spec.envs or ()) == "b"
    default = runtime.find_config("default")
    assert default is not None
    assert default.resources is not None
    assert (default.args or [])[1] == "{{ .ModelPath }}"
    assert default.resources.devices == {"nvidia.com/gpu": 1}
    assert runtime.place_of_trigger("default") is None
    trigger = runtime.place_of_trigger("speculative-decoding")
    assert trigger is not None
    assert trigger.field == "spec.recommendedConfigs[1].scaleTrigger"


def test_a_runtime_may_recommend_nothing(load: Load, write: Write) -> None:
    (runtime,) = load(write("BackendRuntime", SMALL)).llmaz.runtimes
    assert runtime.find_config("default") is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}", "spec.image: expected a string, found nothing"),
        ("{image: i}", "spec.version: expected a string, found nothing"),
        ("{image: i, version: 1}", "spec.version: expected a string, got 1 without quotes: put it in quotes"),
        (
            _configs("[{name: a, resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}]"),
            'limits.memory: expected at least the request (2Gi), got "1Gi"',
        ),
        (
            _configs("[{name: a}, {name: a}]"),
            'recommendedConfigs[1].name: "a" is already listed above',
        ),
        (
            _configs("[{name: a, scaleTrigger: {}}]"),
            "scaleTrigger.hpa: expected an HPA's metrics, found nothing",
        ),
        (
            "{image: i, recommendedConfigs: [{name: a, args: ['{{ .ModelPath }}']}]}",
            "spec.version: expected a string, found nothing",
        ),
    ],
)
def test_a_runtime_that_llmaz_refuses(load: Load, write: Write, told: Told, spec: str, message: str) -> None:
    text = write("BackendRuntime", spec)
    assert any(" error: " in line and message in line for line in told(text))
    assert not load(text).llmaz.runtimes


def test_a_placeholder_that_llmaz_does_not_know_is_told(load: Load, write: Write, told: Told) -> None:
    text = write("BackendRuntime", WHOLE.replace("{{.ModelName}}", "{{ .Model }}"))
    (line,) = told(text)
    assert line.startswith("13: warning: spec.recommendedConfigs[0].args[3]: expected .ModelPath, .ModelName or .Draft")
    assert line.endswith(' in braces, got ".Model": no pod could be built')
    assert load(text).llmaz.runtimes


@pytest.mark.parametrize("field", ["commands: [a]", "args: []", "resources: {}"])
def test_fields_of_older_releases_are_told(write: Write, told: Told, field: str) -> None:
    (line,) = told(write("BackendRuntime", f"{{image: i, version: v, {field}}}"))
    assert "unknown field: llmaz has " in line


def _global(text: str) -> str:
    body = "".join(f"    {line}\n" for line in text.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: llmaz-global-config, namespace: llmaz-system}\n"
    return f"{head}data:\n  config.data: |\n{body}"


def test_the_scheduler_stands_in_the_global_settings(load: Load) -> None:
    (config,) = load(_global("scheduler-name: inftyai-scheduler\ninit-container-image: loader:v1")).llmaz.configs
    assert config.scheduler_name == "inftyai-scheduler"
    assert config.place.line == 5
    (config,) = load(_global("init-container-image: loader:v1")).llmaz.configs
    assert config.scheduler_name == ""


def test_without_an_image_for_the_loader_the_global_settings_are_invalid(load: Load, told: Told) -> None:
    text = _global("scheduler-name: s")
    assert told(text) == ['6: error: data["config.data"].init-container-image: expected a string, found nothing']
    assert not load(text).llmaz.configs


def test_global_settings_that_cannot_be_read_are_told(told: Told) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: llmaz-global-config}\ndata: "
    assert told(text + "{other: a}\n") == ["4: warning: data: expected the key config.data, found nothing"]
    assert told(text + '{config.data: "{"}\n')[0].startswith('4: error: data["config.data"]: ')
