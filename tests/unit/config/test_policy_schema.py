"""Editors accept what is shipped and documented, and refuse what the reader refuses."""

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # its stubs are not among our tools

from reconciler.config.schema import policy_schema

FOLDER = Path(__file__).parents[3] / "policies"
HEADER = {"apiVersion": "reconciler.io/v1alpha1", "kind": "Policy"}


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = policy_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_editors_accept_what_is_shipped(validator: Draft202012Validator, path: Path) -> None:
    assert list(validator.iter_errors(yaml.safe_load(path.read_text()))) == []


def test_editors_accept_every_documented_example(validator: Draft202012Validator) -> None:
    examples = re.findall(r"```yaml\n(- name.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert len(examples) > 10
    for example in examples:
        assert list(validator.iter_errors({**HEADER, "rules": yaml.safe_load(example)})) == [], example


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "a"},
        {"name": "A b", "approval": {}},
        {"name": "a", "approval": {}, "step": {"down": 1}},
        {"name": "a", "stepp": {"down": 1}},
        {"name": "a", "step": {"down": "50"}},
        {"name": "a", "scope": {"direction": ["sideways"]}, "approval": {}},
        {"name": "a", "cooldown": {"after": 30}},
    ],
)
def test_editors_refuse_what_is_wrong(validator: Draft202012Validator, rule: dict[str, object]) -> None:
    assert list(validator.iter_errors({**HEADER, "rules": [rule]}))
