"""Where rules come from: presets, the base commit, and the operator, who has the last word."""

from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import LoadedSettings, load_settings
from reconciler.domain.identity import Severity
from reconciler.domain.rules import BrokenRule
from reconciler.errors import ConfigurationError

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
