from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # its stubs are not among our tools

from reconciler.config.schema import configuration_schema


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = configuration_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", ["smallest.yaml", "supported.yaml"])
def test_editors_accept_the_documented_examples(validator: Draft202012Validator, testdata: Path, name: str) -> None:
    assert list(validator.iter_errors(yaml.safe_load((testdata / name).read_text()))) == []


PROFILE = {"accelerator": "a", "alpha": "1ms", "beta": "0ms", "maxBatchSize": 1}
LEARNED = {"date": "2026-11-20", "samples": 9, "error": "4.1%", "batch": [1, 48.5], "inputTokens": [1, 2]}


def _learned(**changes: object) -> dict[str, object]:
    learned = {**LEARNED, "outputTokens": [3, 4], **changes}
    return {"models": [{"id": "m", "profiles": [{**PROFILE, "learned": learned}]}]}


def test_editors_accept_a_learned_profile(validator: Draft202012Validator) -> None:
    document = {"apiVersion": "reconciler.io/v1alpha1", "kind": "Configuration", **_learned()}
    assert list(validator.iter_errors(document)) == []


def test_editors_refuse_what_is_not_built(validator: Draft202012Validator, testdata: Path) -> None:
    assert list(validator.iter_errors(yaml.safe_load((testdata / "everything.yaml").read_text())))


@pytest.mark.parametrize(
    "part",
    [
        {"curency": "USD"},
        {"runInterval": "10"},
        {"defaults": {"sizing": {"headroom": 0.2}}},
        {"defaults": {"minReplicas": "1"}},
        {"defaults": {"minReplicas": None}},
        {"serviceClasses": [{"name": "a", "ttft": 500}]},
        {"serviceClasses": [{"name": "a", "ttft": "500"}]},
        {"serviceClasses": [{"name": "a", "ttft": "1s", "ttftPercentile": 100}]},
        {"clusters": [{"name": "a", "prometheus": {"url": "https://a", "bearerToken": "s3"}}]},
        {"clusters": [{"name": "a", "prometheus": {"url": "https://a", "matchLabels": {"a-b": "c"}}}]},
        {"forge": {"auth": {"token": {"file": "/a", "env": "B"}}}},
        {"forge": {"auth": {"token": {}}}},
        {"clusters": [{"name": "a", "pools": [{"name": "p", "device": "L4", "devices": "all"}]}]},
        {"clusters": [{"name": "a", "pools": [{"name": "p", "device": "L4", "devices": -1}]}]},
        {"clusters": [{"name": "a", "pools": [{"name": "p", "device": "L4"}]}]},
        {"pullRequests": {"autoMerge": "yes"}},
        {"pullRequests": {"mergeMethod": "fast-forward"}},
        {"pullRequests": {"limits": {"mergesPerHour": 0}}},
        {"pullRequests": {"limits": {"open": -1}}},
        {"pullRequests": {"limits": {"createdPerHour": 1.5}}},
        {"pullRequests": {"limits": {"pushesPerHour": "4"}}},
        {"status": "delivered"},
        {"status": {"deliver": {"condition": True}}},
        {"status": {}},
        _learned(date="today"),
        _learned(batch=[1]),
        _learned(batch=[-1, 1]),
        _learned(error=0.041),
        {"defaults": {"sizing": {"engine": "wva-v3"}}},
    ],
)
def test_editors_refuse_what_loading_refuses(validator: Draft202012Validator, part: dict[str, object]) -> None:
    document = {"apiVersion": "reconciler.io/v1alpha1", "kind": "Configuration", **part}
    assert list(validator.iter_errors(document))


def _properties(schema: object, path: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            yield f"{path}.{name}", field
        for key, child in schema.items():
            yield from _properties(child, f"{path}.{key}")


def test_every_key_is_described_and_titled_as_it_is_written() -> None:
    for path, field in _properties(configuration_schema()):
        assert field.get("description"), path
        assert field.get("title", path.rsplit(".", 1)[-1]) == path.rsplit(".", 1)[-1]


def test_every_section_refuses_unknown_keys() -> None:
    definitions = configuration_schema()["$defs"]
    assert isinstance(definitions, dict)
    assert [name for name, section in definitions.items() if section.get("additionalProperties") is not False] == []


def test_an_absent_default_is_not_shown_and_a_real_one_is() -> None:
    shown = dict(_properties(configuration_schema()))
    assert shown[".$defs.PullRequestsSection.reopenAfter"]["default"] == "7d"
    assert shown[".$defs.PullRequestsSection.draft"]["default"] is False
    assert shown[".currency"]["default"] == "USD"


def test_every_engine_is_documented_in_a_line_of_its_own() -> None:
    page = (Path(__file__).parents[3] / ".github" / "docs" / "configuration.md").read_text()
    section = page.partition("## Sizing engines")[2].partition("\n## ")[0]
    documented = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    engine = dict(_properties(configuration_schema()))[".$defs.Sizing.engine"]
    assert engine["enum"] == documented
