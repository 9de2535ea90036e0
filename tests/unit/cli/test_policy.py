"""`policy`: cases fail by their exit code, a verdict is told in a line, recordings say what rules would have made."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import invoke
from reconciler.cli.sample import read_demo_recording
from reconciler.pipeline.recording import write_recording
from tests.servers.git_workshop import run_git

HEAD = "apiVersion: reconciler.io/v1alpha1\nkind: "
RULES = "rules:\n  - {name: slow, step: {up: 1, down: 1}}\n"
CASES = "cases:\n  - {name: a, given: {replicas: 1, to: 5}, expect: {verdict: clamp, replicas: EXPECTED}}\n"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one rule, a file of cases and a recording beside it."""
    run_git(tmp_path, "init", "-q", "--initial-branch=main")
    (tmp_path / "reconciler.yaml").write_text(f"{HEAD}Configuration\npolicies: [rules.yaml]\n")
    (tmp_path / "rules.yaml").write_text(f"{HEAD}Policy\n{RULES}")
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "-q", "-m", "Rules")
    write_recording(read_demo_recording(), tmp_path / "demo.zip")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = invoke(["policy", *arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)["rows"]


@pytest.mark.parametrize(("expected", "code", "outcome"), [("2", 0, "ok"), ("3", 3, "FAIL")])
def test_a_case_that_fails_fails(
    fleet: Path, capsys: pytest.CaptureFixture[str], expected: str, code: int, outcome: str
) -> None:
    (fleet / "cases.yaml").write_text(f"{HEAD}PolicyTest\n{CASES.replace('EXPECTED', expected)}")
    found, rows = printed(capsys, "test", "cases.yaml")
    assert (found, rows[0]["outcome"]) == (code, outcome)


def test_recordings_say_what_rules_would_have_made_of_them(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = printed(capsys, "simulate", str(fleet / "demo.zip"))
    assert code == 0
    (row,) = (each for each in rows if each["variant"] == "code/qwen-7b")
    assert (row["without"], row["change"], row["verdict"]) == ("4 → 2 L4", "4 → 3 L4", "clamp")
    assert (row["cluster"], row["rule"]) == ("prod", "slow")
    assert row["words"].startswith("clamp: rule slow (rules.yaml:4): at most 1 down at once")


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("arguments", [["explain"], ["simulate"], ["test", "missing.yaml"]])
def test_what_is_missing_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["policy", *arguments]) == 5
    assert capsys.readouterr().err


def test_one_verdict_of_a_recording_is_explained(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the rules that it was recorded with: the demo's are the default ones."""
    code, (row,) = printed(capsys, "explain", "code/qwen-7b", "--replay", str(fleet / "demo.zip"))
    assert code == 0
    assert (row["variant"], row["change"], row["merges"]) == ("code/qwen-7b", "4 → 2 L4", "")
    assert "rule first-change (policies/default.yaml:" in row["words"]


@pytest.mark.usefixtures("fleet")
def test_only_explain_replays(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["policy", "test", "--replay", "demo.zip"]) == 5
    assert "only explain replays a recording" in capsys.readouterr().err
