"""What can be said of files without asking anybody."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.desk import Desk
from tests.servers.fleet import CHAT_VARIANT, Outcome

Command = Callable[..., Outcome]
BAD = f'{CHAT_VARIANT}  variantCost: "ten"\n'
HOSTILE = f'{CHAT_VARIANT}  "a\\n::error file=x::forged\\e[31m,%0A|`<b>": 1\n'


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with an error and a warning, which is the current directory."""
    for path, text in {".git/HEAD": "", "prod/bad.yaml": BAD, "prod/odd,name.yaml": HOSTILE, "notes.txt": BAD}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text.replace("name: llama,", f"name: v{len(text)},"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


CLASSES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: service-classes-config, namespace: code}
data:
  standard: |
    name: standard
    priority: 1
    data: [{model: ibm/granite-13b, slo-tpot: 80, slo-ttft: 1000}]
"""


def test_a_sound_commit_has_nothing_to_fix(command: Command, desk: Desk) -> None:
    desk.write("clusters/prod/code/classes.yaml", CLASSES)
    outcome = command("validate", "--repo", desk.workshop.clone)
    assert outcome == Outcome(code=0, out="5 files, 7 resources: 0 errors, 0 warnings\n", err="")


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
    assert "good.yaml:5: warning: spec.scaleTargetRef: scale target Deployment chat/other is not in Git" in outcome.out
    assert outcome.out.endswith("2 files, 2 resources: 1 error, 1 warning\n")
    assert command("validate", tmp_path / "good.yaml").code == 0


def test_json_has_every_part_of_a_finding(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD, encoding="utf-8")
    content = json.loads(command("validate", tmp_path, "-o", "json").out)
    (finding,) = content["findings"]
    assert (content["version"], content["files"], content["resources"]) == (1, 1, 1)
    assert content["counts"] == {"errors": 1, "warnings": 0, "notes": 0}
    assert (finding["line"], finding["severity"], finding["field"]) == (7, "error", "spec.variantCost")
    assert (finding["path"], finding["rule"]) == (f"{tmp_path}/bad.yaml", None)


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


def test_annotations_stand_at_lines_of_the_work_tree_and_end_in_a_summary(command: Command, fleet: Path) -> None:
    for path in ("prod", fleet / "prod", "./prod"):
        outcome = command("validate", path, "-o", "github")
        assert outcome.code == 3
        error, warning, summary = outcome.out.splitlines()
        assert error == (
            '::error file=prod/bad.yaml,line=7,title=reconciler::spec.variantCost: expected a decimal number, got "ten"'
        )
        assert warning.startswith("::warning file=prod/odd%2Cname.yaml,line=7,title=reconciler::spec[")
        assert summary == "2 files, 2 resources: 1 error, 1 warning"


def test_the_page_of_a_job_gets_a_table_that_nothing_can_leave(
    command: Command, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = fleet / "summary.md"
    page.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    command("validate", "prod", "-o", "github")
    before, _, text = page.read_text(encoding="utf-8").partition("### ")
    assert before == "before\n"
    *_, head, rule, error, warning = text.rstrip().splitlines()
    assert rule == "|---|---|"
    cells = {len(re.findall(r"(?<!\\)\|", row)) for row in (head, rule, error, warning)}
    assert cells == {3}
    assert error.startswith("| error | expected a decimal number, got ")
    assert error.endswith("<br>`prod/bad.yaml:7` `spec.variantCost` |") or "`spec.variantCost` `" in error
    assert "::error" not in text.replace("a\\n::error", "")
    assert "\x1b" not in text


def test_a_page_holds_so_many_rows_and_says_how_many_more(
    command: Command, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.findings.ROWS", 1)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(fleet / "summary.md"))
    command("validate", "prod", "-o", "github")
    text = (fleet / "summary.md").read_text(encoding="utf-8")
    assert text.count("`prod/") == 1
    assert text.endswith("\n\n1 more is in the log.\n")


def test_only_the_output_of_a_job_writes_its_page(
    command: Command, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(fleet / "summary.md"))
    command("validate", "prod")
    assert not (fleet / "summary.md").exists()


def test_a_page_that_cannot_be_written_fails_nothing(
    command: Command, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(fleet))
    outcome = command("validate", "prod", "-o", "github")
    assert outcome.code == 3
    assert "GITHUB_STEP_SUMMARY: cannot be written: Is a directory" in outcome.err


@pytest.mark.parametrize("where", ["commit", "path"])
def test_sarif_names_files_as_the_work_tree_does(command: Command, desk: Desk, where: str) -> None:
    desk.write("clusters/prod/code/classes.yaml", CLASSES)
    desk.write("clusters/prod/chat/variant.yaml", BAD)
    arguments = ("--repo", desk.workshop.clone) if where == "commit" else (desk.workshop.clone / "clusters",)
    outcome = command("validate", *arguments, "-o", "sarif")
    assert outcome.code == 3
    content = json.loads(outcome.out)
    assert content["version"] == "2.1.0"
    ((result,),) = (run["results"] for run in content["runs"])
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "clusters/prod/chat/variant.yaml"
    assert physical["region"] == {"startLine": 7}


@pytest.mark.parametrize("output", ["text", "json", "github", "sarif"])
def test_every_output_is_the_same_twice_and_sends_no_escape_sequence(
    command: Command, fleet: Path, output: str
) -> None:
    first, again = (command("validate", fleet / "prod", "-o", output) for _ in range(2))
    assert first == again
    assert "\x1b" not in first.out
    if output in ("text", "github"):
        assert len(first.out.splitlines()) == 3


def test_a_terminal_shows_groups_in_colour(command: Command, fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.cli.findings.width", lambda: 100)
    assert fleet == Path.cwd()
    plain = command("validate", "prod").out
    assert plain.startswith('prod/bad.yaml\n  7  error:    spec.variantCost: expected a decimal number, got "ten"\n\n')
    painted = command("validate", "prod", "--color", "always").out
    assert painted.startswith("\x1b[1mprod/bad.yaml\x1b[0m\n  7  \x1b[31merror:\x1b[0m    spec")
    assert re.sub(r"\x1b\[\d+m", "", painted) == plain


def test_what_is_wrong_on_the_command_line_is_5_and_in_files_3(command: Command, fleet: Path) -> None:
    assert command("validate", "prod", "missing").code == 5
    assert command("validate", "prod", "--cluster", "mars").code == 5
    assert command("validate", "prod", "--config", "missing.yaml").code == 5
    (fleet / "wrong.yaml").write_text("kind: Configuration\n", encoding="utf-8")
    outcome = command("validate", "notes.txt", "--config", "wrong.yaml")
    assert outcome.code == 3
    assert "wrong.yaml:1: error: apiVersion: " in outcome.out
    assert "[configuration]" in outcome.out


def test_a_path_needs_no_repository_and_no_files(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = command("validate", ".", "--repo", "nowhere")
    assert outcome == Outcome(code=0, out="0 files, 0 resources: 0 errors, 0 warnings\n", err="")
