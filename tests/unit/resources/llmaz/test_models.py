"""OpenModels as llmaz's webhook takes and refuses them."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import Place
from reconciler.resources.declaration import Declaration
from reconciler.resources.llmaz.models import OpenModel, rank_flavors

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

WHOLE = """
familyName: qwen2
ownedBy: research
createdAt: "2024-05-21T10:00:00Z"
source:
  modelHub:
    name: Huggingface
    modelID: Qwen/Qwen2-0.5B-Instruct
    revision: v1
    allowPatterns: ["*.safetensors"]
    ignorePatterns: ["*.bin"]
inferenceConfig:
  flavors:
    - name: a100
      limits: {nvidia.com/gpu: 8, rdma/ib: "1"}
      nodeSelector: {karpenter.k8s.aws/instance-gpu-name: a100}
      params: {INSTANCE-TYPE: p4d.24xlarge, TP: "8", PP: "1"}
    - name: t4
      limits: {nvidia.com/gpu: "1"}
"""


def model_of(declaration: Declaration) -> OpenModel:
    assert [str(finding) for finding in declaration.findings] == []
    (model,) = declaration.llmaz.models
    return model


def test_a_model_is_carried_over_field_by_field(load: Load, write: Write) -> None:
    model = model_of(load(write("OpenModel", WHOLE)))
    assert (model.key.namespace, model.key.name, model.key.label) == ("", "qwen2-0--5b", "qwen2-0--5b")
    assert (model.spec.family_name, model.protocol) == ("qwen2", "")
    first, second = model.flavors
    assert first.name == "a100"
    assert (first.devices, second.devices) == ({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 1})
    assert first.node_selector == {"karpenter.k8s.aws/instance-gpu-name": "a100"}
    assert (first.instance_type, first.params["TP"], first.params["PP"]) == ("p4d.24xlarge", "8", "1")
    assert first.place == Place(path="a.yaml", line=17, field="spec.inferenceConfig.flavors[0]")


def test_what_is_not_written_is_as_llmaz_fills_it_in(load: Load, write: Write) -> None:
    model = model_of(load(write("OpenModel", "{familyName: q, source: {modelHub: {modelID: Qwen/Qwen2-0.5B}}}")))
    assert (model.protocol, model.flavors) == ("", ())


def test_the_instance_type_is_found_however_its_key_is_spelled(load: Load, write: Write) -> None:
    spec = WHOLE.replace("INSTANCE-TYPE", "instance-type")
    assert model_of(load(write("OpenModel", spec))).flavors[0].instance_type == "p4d.24xlarge"


def _source(source: str) -> str:
    return f"{{familyName: q, source: {source}}}"


@pytest.mark.parametrize(
    "source",
    [
        "{modelHub: {modelID: Qwen/Qwen2-0.5B}}",
        "{modelHub: {name: ModelScope, modelID: qwen/qwen2}}",
        "{modelHub: {modelID: m, filename: m.gguf}}",
        "{modelHub: {modelID: m, allowPatterns: ['*'], ignorePatterns: ['*.bin']}}",
        "{uri: 'oss://bucket.endpoint/models/qwen'}",
        "{uri: 'oss://llmaz.oss-ap-southeast-1.aliyuncs.com/models/Qwen2-7B'}",
        "{uri: 'host:///models/qwen'}",
        "{uri: 'ollama://qwen2:0.5b'}",
        "{uri: 'OLLAMA://llama3.3'}",
        "{uri: 's3://<YOUR_S3_BUCKET>/models/qwen'}",
        "{uri: 'gcs://bucket/models/qwen'}",
    ],
)
def test_a_source_that_llmaz_takes(load: Load, write: Write, source: str) -> None:
    model_of(load(write("OpenModel", _source(source))))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}", "source: expected modelHub or uri, found neither"),
        ("{modelHub: {name: unknown, modelID: m}}", 'name: expected "Huggingface" or "ModelScope", got "unknown"'),
        ("{modelHub: {modelID: m, filename: f, allowPatterns: ['*']}}", "expected no allowPatterns with filename"),
        ("{modelHub: {modelID: m, filename: f, ignorePatterns: ['*']}}", "expected no ignorePatterns with filename"),
        ("{modelHub: {name: ModelScope, modelID: m, filename: f}}", "no filename with ModelScope: only Huggingface"),
        ("{uri: 'unknown://bucket.endpoint/m'}", "expected an address with oss://, s3://, gcs://, ollama:// or host"),
        ("{uri: 'hf://org/m'}", 'host://, got "hf://org/m"'),
        ("{uri: 'gs://bucket/m'}", 'host://, got "gs://bucket/m"'),
        ("{uri: invalid_uri}", 'got "invalid_uri"'),
        ("{uri: missing-protocol}", 'got "missing-protocol"'),
        ("{uri: 'oss://a.b/c://d'}", 'got "oss://a.b/c://d"'),
        ("{uri: 'oss://endpoint/models/qwen'}", "expected an address like oss://BUCKET.ENDPOINT/PATH, got"),
        ("{uri: 'oss://bucket.endpoint'}", "expected an address like oss://BUCKET.ENDPOINT/PATH, got"),
        ("{uri: 'oss://.endpoint/models'}", "expected an address like oss://BUCKET.ENDPOINT/PATH, got"),
        ("{uri: 's3://bucket'}", "expected an address like s3://BUCKET/PATH, got"),
    ],
)
def test_a_source_that_llmaz_refuses(load: Load, write: Write, source: str, message: str) -> None:
    declaration = load(write("OpenModel", _source(source)))
    assert not declaration.llmaz.models
    (finding,) = declaration.findings
    assert str(finding).startswith("a.yaml:5: error: spec.source")
    assert message in str(finding)
    assert [broken.key.name for broken in declaration.broken] == ["qwen2-0--5b"]


def test_of_a_hub_and_an_address_the_hub_is_used_and_that_is_told(load: Load, write: Write, told: Told) -> None:
    text = write("OpenModel", _source("{modelHub: {modelID: m}, uri: 's3://bucket/m'}"))
    assert told(text) == ["5: warning: spec.source.uri: it has no effect: where both are written llmaz takes modelHub"]
    assert load(text).llmaz.models[0].protocol == ""


def test_a_hub_without_a_model_is_taken_and_told(write: Write, told: Told) -> None:
    (line,) = told(write("OpenModel", _source("{modelHub: {revision: main}}")))
    assert line.startswith("5: warning: spec.source.modelHub.modelID: expected the model's name on the hub")


@pytest.mark.parametrize("name", ["qwen-2-0.5b", "q" * 64])
def test_a_name_is_a_dns_label(write: Write, told: Told, name: str) -> None:
    (line,) = told(write("OpenModel", _source("{uri: 'host:///m'}"), name=name))
    assert line.startswith("3: error: metadata.name: expected at most 63 lower-case letters, digits and -, got")


@pytest.mark.parametrize("family", ["-llama", "llama 3", "l" * 64])
def test_a_family_becomes_a_label(write: Write, told: Told, family: str) -> None:
    (line,) = told(write("OpenModel", f"{{familyName: '{family}', source: {{uri: 'host:///m'}}}}"))
    assert line.startswith("5: error: spec.familyName: expected at most 63 letters")


@pytest.mark.parametrize(
    ("flavors", "message"),
    [
        ("[{name: a, limits: {nvidia.com/gpu: 0.5}}]", 'expected a quantity like 8, "500m" or "16Gi", got 0.5'),
        ("[{name: a, limits: {nvidia.com/gpu: '0.5'}}]", 'expected a whole number of devices, got "0.5"'),
        ("[{name: a, limits: {memory: 16Gig}}]", 'got "16Gig"'),
        ("[{name: a, limits: {nvidia.com/gpu: -1}}]", "expected a whole number of devices, got -1"),
        ("[{limits: {nvidia.com/gpu: 1}}]", "flavors[0].name: expected a string, found nothing"),
        (f"[{', '.join(f'{{name: f{n}}}' for n in range(9))}]", "flavors: expected at most 8 items"),
        ("[{name: a, nodeSelector: {gpu: true}}]", 'nodeSelector["gpu"]'),
    ],
)
def test_flavors_that_cannot_be_used(write: Write, told: Told, flavors: str, message: str) -> None:
    spec = f"{{familyName: q, source: {{uri: 'host:///m'}}, inferenceConfig: {{flavors: {flavors}}}}}"
    (line,) = told(write("OpenModel", spec))
    assert line.startswith("5: error: spec.inferenceConfig.flavors")
    assert message.replace('["gpu"]', ".gpu") in line


def test_of_two_flavors_of_one_name_the_first_counts(load: Load, write: Write, told: Told) -> None:
    text = write("OpenModel", WHOLE.replace("name: t4", "name: a100"))
    assert told(text) == [
        '21: warning: spec.inferenceConfig.flavors[1].name: "a100" is already listed above: llmaz takes the first'
    ]
    model = load(text).llmaz.models[0]
    assert [each.flavor for each in rank_flavors(("a100",), model)] == [model.flavors[0]]


def test_flavors_of_older_releases_are_dropped_and_that_is_told(write: Write, told: Told, load: Load) -> None:
    text = write("OpenModel", _source("{uri: 'host:///m'}")[:-1] + ", inferenceFlavors: [{name: a}]}")
    (line,) = told(text)
    assert line.startswith("5: warning: spec.inferenceFlavors: unknown field: llmaz up to v0.0.9 had its flavors here")
    assert load(text).llmaz.models[0].flavors == ()
    (line,) = told(write("OpenModel", WHOLE.replace('limits: {nvidia.com/gpu: "1"}', "requests: {nvidia.com/gpu: 1}")))
    assert line.startswith("22: warning: spec.inferenceConfig.flavors[1].requests: unknown field: llmaz up to v0.1.0")


def test_flavors_that_are_filled_in_later_hold_the_model(load: Load, write: Write) -> None:
    declaration = load(write("OpenModel", WHOLE.replace("name: t4", "name: ${FLAVOR}")))
    assert not declaration.llmaz.models
    assert [str(finding.severity) for finding in declaration.findings] == ["warning"]
    assert declaration.broken[0].reason.endswith("cannot be read from Git")


def test_two_models_of_one_name_are_broken_in_both_places(load: Load, write: Write) -> None:
    text = write("OpenModel", _source("{uri: 'host:///m'}"))
    declaration = load(text + text.replace("namespace: llm", "namespace: other"))
    assert not declaration.llmaz.models
    assert [str(finding) for finding in declaration.findings] == [
        "a.yaml:1: error: metadata.name: OpenModel qwen2-0--5b is declared again at a.yaml:7: keep one",
        "a.yaml:7: error: metadata.name: OpenModel qwen2-0--5b is declared again at a.yaml:1: keep one",
    ]
