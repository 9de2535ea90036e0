"""The page on guard rails has every kind of rule with an example that can be read; presets are told as they are."""

import re
from pathlib import Path

import pytest
import yaml

from reconciler.domain.rules import Scope
from reconciler.policy.files import ScopeSection, read_policy
from reconciler.policy.judging import KINDS

FOLDER = Path(__file__).parents[3] / "policies"
PAGE = (FOLDER / "README.md").read_text()
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"


def section(name: str) -> str:
    return re.split(r"^##", PAGE.split(f"\n### `{name}`\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_kind_has_a_section_and_nothing_else_has() -> None:
    assert re.findall(r"^### `([a-zA-Z]+)`", PAGE, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_its_fields_an_example_and_what_it_says(name: str) -> None:
    text = section(name)
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    found = read_policy("README.md", (HEADER + example).encode())
    assert not found.findings
    assert {rule.asks.kind for rule in found.rules} == {name}
    fields = {info.alias for info in KINDS[name].section.model_fields.values()}
    assert fields <= set(re.findall(r"\b[a-zA-Z]+\b", text)), name
    assert found.rules[0].name in text.replace(example, ""), "expected an example of what it says"


def test_every_key_of_a_scope_is_told() -> None:
    told = set(re.findall(r"`([a-zA-Z]+)`", PAGE.split("## Scope")[1].split("## Rules")[0]))
    assert {info.alias for info in ScopeSection.model_fields.values()} <= told
    assert Scope() == ScopeSection().read()


PRESETS = ("conservative", "default", "balanced", "aggressive")


def preset_table() -> list[str]:
    """A row a rule, in the order in which presets first have it, with what each preset asks."""
    rules = {name: yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["rules"] for name in PRESETS}
    names = dict.fromkeys(rule["name"] for name in PRESETS for rule in rules[name])
    told = {(preset, rule["name"]): told_of(rule) for preset in PRESETS for rule in rules[preset]}
    heads = [f"| rule | {' | '.join(f'`{name}`' for name in PRESETS)} |", f"|---{'|---' * len(PRESETS)}|"]
    return heads + [f"| `{name}` | {' | '.join(told.get((each, name), '') for each in PRESETS)} |" for name in names]


def told_of(rule: dict[str, object]) -> str:
    asked = {key: value for key, value in rule.items() if key != "name"}
    return f"`{yaml.safe_dump(asked, default_flow_style=True, sort_keys=False, width=1000).strip()}`"


def test_presets_stand_side_by_side() -> None:
    assert sorted(PRESETS) == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    table = preset_table()
    assert "\n".join(table) in PAGE, "in policies/README.md, show:\n" + "\n".join(table)
