"""Files of the repository and of the operator, and where rules come from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import LoadedSettings, load_settings
from reconciler.domain.identity import Severity
from reconciler.domain.rules import BrokenRule
from reconciler.errors import ConfigurationError

Load = Callable[..., LoadedSettings]
Check = Callable[..., list[str]]


def test_an_extended_file_is_read_first_and_once(load: Load) -> None:
    settings = load(
        "extends: [a.yaml, b/c.yaml]\ncurrency: EUR\n",
        files={
            "a.yaml": "extends: [d.yaml]\ncurrency: GBP\n",
            "b/c.yaml": "extends: [d.yaml]\n",
            "d.yaml": "overrides: [{match: {name: x}, ignore: true}]",
        },
    ).settings
    assert settings.currency == "EUR"
    assert len(settings.overrides) == 1


def test_a_cycle_is_refused_with_its_way_round(check: Check) -> None:
    assert check("extends: [a.yaml]", files={"a.yaml": "extends: [b.yaml]", "b.yaml": "extends: [a.yaml]"}) == [
        'b.yaml:3: error: extends[0]: "a.yaml" extends itself: reconciler.yaml -> a.yaml -> b.yaml -> a.yaml'
    ]
    assert "extends itself" in check("extends: [reconciler.yaml]")[0]


@pytest.mark.parametrize(
    "path", ["../a.yaml", "/etc/a.yaml", "https://x/a.yaml", "a/../../b.yaml", "~/a", "a\\b", "C:/a"]
)
def test_extends_stays_inside_the_repository(check: Check, path: str) -> None:
    (finding,) = check(f"extends: ['{path}']")
    assert "reconciler.yaml:3: error: extends[0]: expected a path from the repository's root" in finding


def test_a_missing_extended_file_is_an_error_at_its_line(check: Check) -> None:
    assert check("extends:\n- a.yaml\n") == ['reconciler.yaml:4: error: extends[0]: no file "a.yaml" in the repository']


def test_an_operator_file_extends_nothing(check: Check) -> None:
    (finding,) = check(operator=["extends: [a.yaml]"], files={"a.yaml": ""})
    assert "operator-0.yaml:3: error: extends: expected only in files of the repository" in finding


@pytest.mark.parametrize("text", ["apiVersion: x\nkind: Configuration", "kind: Configuration\n#apiVersion"])
def test_each_file_says_what_it_is_itself(check: Check, text: str) -> None:
    (finding,) = check("extends: [a.yaml]", files={"a.yaml": text})
    assert "a.yaml:1: error: apiVersion: expected reconciler.io/v1alpha1" in finding


@pytest.mark.parametrize("text", ["#apiVersion", "[apiVersion]", "apiVersion: a\n---\nkind: b"])
def test_a_file_is_one_mapping(check: Check, text: str) -> None:
    assert check(text) == ["reconciler.yaml: error: expected one YAML document that is a mapping"]


def test_yaml_that_cannot_be_read_is_an_error_at_its_line(check: Check) -> None:
    (finding,) = check("clusters: [")
    assert finding.startswith("reconciler.yaml:")
    assert check("a: 1\na: 2")[0].startswith("reconciler.yaml:4: error: ")


def test_one_name_for_two_things_of_a_file_is_an_error(check: Check) -> None:
    assert check("clusters:\n- name: a\n- name: a\n") == [
        'reconciler.yaml:5: error: clusters[1]: "a" is already at line 4: names must be unique'
    ]


def test_a_key_without_a_value_is_an_error(check: Check) -> None:
    assert check("models:\ndefaults:\n  group:\n") == [
        "reconciler.yaml:3: error: models: no value: give one or leave the key out",
        "reconciler.yaml:5: error: defaults.group: no value: give one or leave the key out",
    ]


def test_more_files_than_the_cap_are_refused(check: Check) -> None:
    files = {f"{number}.yaml": f"extends: [{number + 1}.yaml]" for number in range(60)}
    assert check("extends: [0.yaml]", files=files) == ["48.yaml:3: error: extends[0]: expected at most 50 files"]


HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: {}\n"


def policy(*rules: str) -> str:
    return HEADER.format("Policy") + "rules:\n" + "".join(f"  - {each}\n" for each in rules)


def loaded(stated: str | None, files: dict[str, str] | None = None, operator: tuple[Path, ...] = ()) -> LoadedSettings:
    known = files or {}
    return load_settings(
        repository_file=None if stated is None else (HEADER.format("Configuration") + f"policies: {stated}\n").encode(),
        read_repository_file=lambda path: known[path].encode() if path in known else None,
        list_repository_folder=lambda folder: [path for path in known if path.startswith(folder)],
        operator_files=operator,
        flags=Flags(),
        environment=Environment(),
    )


def names(found: LoadedSettings) -> list[str]:
    return [rule.name for rule in found.settings.rules]


def test_nobody_who_chose_nothing_is_without_rules() -> None:
    assert "at-most-half-down" in names(loaded(None))
    assert names(loaded("[default]")) == names(loaded(None))
    assert names(loaded("[]")) == []


def test_files_and_folders_of_the_base_commit_are_read() -> None:
    files = {
        ".reconciler/policies/b.yaml": policy("{name: b, approval: {}}"),
        ".reconciler/policies/deep/c.yml": policy("{name: c, approval: {}}"),
        ".reconciler/policies/README.md": "no policy",
        "one.yaml": policy("{name: one, approval: {}}", "{name: b, step: {down: 1}}"),
    }
    assert names(loaded("[.reconciler/policies/, one.yaml]", files)) == ["b", "c", "one"]
    assert names(loaded("[.reconciler/policies]", files)) == ["b", "c"]


@pytest.mark.parametrize("stated", ["[defualt]", "[missing.yaml]", "[missing/]", "['../up.yaml']", "[/etc/rules.yaml]"])
def test_what_is_not_there_stops_the_run(stated: str) -> None:
    with pytest.raises(ConfigurationError, match=r"reconciler.yaml:3: error: policies\[0\]: expected"):
        loaded(stated)


def test_a_file_that_cannot_be_read_stops_nothing_but_holds() -> None:
    found = loaded("[a.yaml]", {"a.yaml": policy("{name: a, stepp: {}}")})
    (rule,) = found.settings.rules
    assert isinstance(rule.asks, BrokenRule)
    assert [(str(each.place), each.severity) for each in found.findings] == [("a.yaml:4", Severity.ERROR)]


def test_the_operator_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(policy("{name: a, step: {down: 1}}"))
    operator = tmp_path / "operator.yaml"
    operator.write_text(HEADER.format("Configuration") + "policies: [rules.yaml]\n")
    found = loaded("[a.yaml]", {"a.yaml": policy("{name: a, approval: {}}", "{name: b, approval: {}}")}, (operator,))
    assert [(rule.name, rule.asks.kind) for rule in found.settings.rules] == [("a", "step"), ("b", "approval")]
