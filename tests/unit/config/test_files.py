from collections.abc import Callable

import pytest

from reconciler.config.loading import LoadedSettings

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
