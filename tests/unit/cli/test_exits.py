"""What a script learns from the exit code, whatever happens."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler import __version__
from reconciler.cli.console import Exit, exit_for, exit_of_findings, exit_of_plan
from reconciler.cli.main import invoke
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.errors import ConfigurationError, InputError, RivalRunError, TransientError
from tests.servers.desk import Desk
from tests.servers.fleet import Outcome

Command = Callable[..., Outcome]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_is_full_is_4_with_a_sentence_and_no_traceback() -> None:
    with Path("/dev/full").open("wb") as full:
        asked = [sys.executable, "-m", "reconciler", "schema"]
        outcome = subprocess.run(asked, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (4, "error: output: No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("plan", "--frobnicate"),
        ("plan", "--output", "xml"),
        ("run", "--output", "markdown"),
        ("plan", "--color", "sometimes"),
        ("plan", "--log-format", "xml"),
        ("explain",),
        ("schema", "policies"),
        ("plan", "extra"),
        ("plan", "--record", "a.zip", "--replay", "b.zip"),
        ("plan", "--shard", "4/4"),
        ("run", "--shard", ""),  # of a script whose variable is not set: it is not all of the fleet
        ("plan", "--shard", "0/4", "--replay", "b.zip"),
    ],
)
def test_a_wrong_command_line_is_5_with_a_sentence_and_no_traceback(
    command: Command, arguments: tuple[str, ...]
) -> None:
    outcome = command(*arguments)
    assert outcome.code == Exit.CONFIGURATION
    assert "Usage:" in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("plan", "--replay", "missing.zip"), "--replay missing.zip: No such file"),
        (("plan", "--repo", "missing"), "missing"),
        (("plan", "--repo", "http://example.com/a/b.git"), "http"),
        (("plan", "--config", "missing.yaml"), "missing.yaml"),
        (("run", "--repo", "ftp://example.com/a/b"), "ftp"),
        (("validate", "missing.yaml"), "missing.yaml: no such file"),
        (("plan", "--cluster", "mars"), "mars"),
        (("plan", "--prometheus", "prometheus:9090"), "prometheus"),
        (("plan", "--base", "no-such-branch"), "no-such-branch"),
    ],
)
def test_a_wrong_configuration_is_5_and_says_what_to_change(
    command: Command, desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(desk.workshop.clone)
    outcome = command(*arguments)
    assert outcome.code == Exit.CONFIGURATION, outcome
    assert "error: " in outcome.err.splitlines()[0]
    assert complaint in outcome.err
    assert "Traceback" not in outcome.err


def test_a_run_without_a_remote_says_what_to_do(command: Command, desk: Desk) -> None:
    desk.workshop.git("remote", "remove", "origin")
    outcome = command("run", "--repo", desk.workshop.clone)
    assert outcome.code == Exit.CONFIGURATION
    assert "has no remote origin to push to" in outcome.err


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("name", ["", "run", "plan", "explain", "validate", "schema"])
def test_help_is_data_and_succeeds(command: Command, name: str, flag: str) -> None:
    outcome = command(*([name] if name else []), flag)
    assert (outcome.code, outcome.err) == (0, "")
    assert "Usage:" in outcome.out


def test_no_arguments_show_the_commands(command: Command) -> None:
    outcome = command()
    assert outcome.code in (0, Exit.CONFIGURATION)
    assert all(name in outcome.out + outcome.err for name in ("run", "plan", "explain", "validate", "schema"))


def test_the_version_is_one_line(command: Command) -> None:
    assert command("--version") == Outcome(code=0, out=f"reconciler {__version__}\n", err="")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 0), (("--detailed-exitcode",), Exit.CHANGES), (("--output", "json", "--detailed-exitcode"), Exit.CHANGES)],
)
def test_changes_count_only_where_they_are_asked_for(
    command: Command, recording: Path, arguments: tuple[str, ...], code: int
) -> None:
    assert command("plan", "--replay", recording, *arguments).code == code


def test_a_bug_is_1_and_asks_to_be_reported(command: Command, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("reconciler.cli.output.present_plan", fail)
    for log_format in ("text", "json"):
        outcome = command("plan", "--replay", recording, "--log-format", log_format)
        assert outcome.code == Exit.BUG
        assert "this is a bug in the reconciler, please report it with the lines below" in outcome.err
        assert "ZeroDivisionError: oops" in outcome.err
    assert json.loads(outcome.err)["level"] == "error"


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), Exit.INTERRUPTED), (BrokenPipeError(), 0)])
def test_a_person_who_stops_or_looks_away_is_no_bug(
    recording: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr("reconciler.cli.output.present_plan", fail)
    assert invoke(["plan", "--replay", str(recording)]) == code


def test_each_error_of_the_tree_has_its_code() -> None:
    assert exit_for(InputError("a", 1, "b", "c")) is Exit.INPUT
    assert exit_for(ConfigurationError("x")) is Exit.CONFIGURATION
    assert exit_for(TransientError("x")) is exit_for(RivalRunError("x")) is Exit.TRANSIENT


def test_warnings_fail_only_a_strict_check_and_notes_none() -> None:
    note = Finding(place=Place(path="a"), severity=Severity.NOTE, message="m")
    assert exit_of_findings([note], strict=True) is Exit.FINISHED
    warning = Finding(place=Place(path="a"), severity=Severity.WARNING, message="m")
    error = Finding(place=Place(path="a"), severity=Severity.ERROR, message="m")
    assert exit_of_findings([]) is exit_of_findings([warning]) is exit_of_findings([], strict=True) is Exit.FINISHED
    assert exit_of_findings([warning], strict=True) is exit_of_findings([warning, error]) is Exit.INPUT


@pytest.mark.usefixtures("impatient")
def test_a_run_that_held_everything_says_so_last_and_fails_where_that_is_asked_for(
    command: Command, desk: Desk
) -> None:
    arguments = ("run", "--repo", desk.workshop.remote, "--prometheus", "http://127.0.0.1:9")
    held, failing = command(*arguments), command(*arguments, "--fail-when-held")
    assert held.out.splitlines()[-1] == "Nothing was decided: all 3 variants are held."
    assert held.out.count("variants are held") == 1
    assert "Nothing to propose" not in held.out
    assert (held.code, failing.code) == (Exit.TRANSIENT, Exit.TRANSIENT)
    assert exit_of_plan(desk.plan(lambda _cluster, _queries: ()).plan, fails_when_held=True) == Exit.INPUT


def test_help_shows_examples_codes_and_only_flags_that_act(command: Command) -> None:
    plan, schema = command("plan", "--help"), command("schema", "--help")
    assert "reconciler plan --replay run.zip -o markdown" in plan.out
    assert "  5  the command line, configuration or credentials are wrong" in plan.out
    assert "<bool>" not in plan.out
    for each in ("validate", "fit", "policy", "schema"):
        assert not re.search(r"<list|\w\S* <\w+\|\w+>\n", command(each, "--help").out.partition("Options:")[0])
    assert "--prometheus" in plan.out
    assert "--prometheus" not in schema.out
    assert "--repo" not in command("demo", "--help").out


def test_no_command_is_cut_at_80_columns(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = command("--help").out.partition("Commands:")[2].splitlines()
    assert len(listed) > 10
    assert [line for line in listed if line.endswith("...")] == []


def test_quiet_says_nothing_where_nothing_failed(command: Command, recording: Path) -> None:
    assert command("plan", "--replay", recording, "-q").out == ""
    assert json.loads(command("plan", "--replay", recording, "-q", "-o", "json").out)["version"] == 1


def test_a_job_shows_why_it_failed(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    outcome = command("run", "--repo", str(tmp_path / "nowhere"))
    error, annotation = outcome.err.strip().split("\n")
    assert (outcome.code, annotation) == (5, f"::error title=reconciler::{error.removeprefix('error: ')}")
    assert page.read_text().startswith("### reconciler\n\n**Failed**: ")
