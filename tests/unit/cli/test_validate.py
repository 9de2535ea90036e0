"""What can be said of files without asking anybody."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.desk import Desk
from tests.servers.fleet import CHAT_VARIANT, Outcome

Command = Callable[..., Outcome]
BAD = f'{CHAT_VARIANT}  variantCost: "ten"\n'


def test_a_sound_commit_has_nothing_to_fix(command: Command, desk: Desk) -> None:
    outcome = command("validate", "--repo", desk.workshop.clone)
    assert outcome == Outcome(code=0, out="4 files, 3 resources: 0 errors, 0 warnings\n", err="")


def test_a_commit_is_read_and_not_the_files_beside_it(command: Command, desk: Desk) -> None:
    desk.workshop.write("clusters/prod/chat/variant.yaml", BAD.encode())
    assert command("validate", "--repo", desk.workshop.clone).code == 0
    desk.workshop.commit()
    outcome = command("validate", "--repo", desk.workshop.clone)
    assert outcome.code == 3
    assert (
        'clusters/prod/chat/variant.yaml:7: error: spec.variantCost: expected a decimal number, got "ten"'
        in outcome.out
    )


def test_paths_are_read_from_disk(command: Command, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(CHAT_VARIANT.replace("llama", "other"), encoding="utf-8")
    (tmp_path / "bad.yml").write_text(BAD, encoding="utf-8")
    (tmp_path / "notes.txt").write_text(BAD, encoding="utf-8")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "bad.yml")
    outcome = command("validate", tmp_path)
    assert outcome.code == 3
    assert f"{tmp_path}/bad.yml:7: error: spec.variantCost" in outcome.out
    assert outcome.out.endswith("2 files, 2 resources: 1 error, 0 warnings\n")
    assert command("validate", tmp_path / "good.yaml").code == 0


def test_json_has_every_part_of_a_finding(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD, encoding="utf-8")
    content = json.loads(command("validate", tmp_path, "-o", "json").out)
    (finding,) = content["findings"]
    assert (content["version"], content["files"], content["resources"]) == (1, 1, 1)
    assert (finding["line"], finding["severity"], finding["field"]) == (7, "error", "spec.variantCost")


@pytest.mark.parametrize("where", ["commit", "path"])
def test_configuration_is_checked_too_and_is_3(command: Command, desk: Desk, where: str) -> None:
    desk.configure("accelerators:\n", "acelerators:\n")
    arguments = ("--repo", desk.workshop.clone) if where == "commit" else (desk.workshop.clone / "reconciler.yaml",)
    outcome = command("validate", *arguments)
    assert outcome.code == 3
    assert 'did you mean "accelerators"?' in outcome.out


def test_strict_fails_on_a_warning(command: Command, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(f"{CHAT_VARIANT}  someField: 1\n", encoding="utf-8")
    assert command("validate", tmp_path).code == 0
    assert command("validate", "--strict", tmp_path).code == 3


def test_nothing_is_asked_and_no_token_is_needed(command: Command, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert command("validate", "--repo", desk.workshop.clone, "--prometheus", "http://prometheus:9090").code == 0
