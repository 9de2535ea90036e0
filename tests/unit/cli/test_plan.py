"""The plan of a recording, in every format, the same each time."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from reconciler.pipeline.recording import read_recording
from tests.servers.desk import BUSY, Desk
from tests.servers.fleet import Outcome
from tests.servers.git_workshop import run_git

Command = Callable[..., Outcome]
ESCAPE = "\x1b["


@pytest.fixture
def replay(command: Command, recording: Path) -> Command:
    """Replays the recording."""
    return lambda *arguments: command("plan", "--replay", recording, *arguments)


def test_text_is_for_people(replay: Command) -> None:
    text = replay().out
    assert "1 change (1 needs approval), 1 held, 2 unchanged." in text
    assert "chat/llama" in text
    assert "2 → 4" in text
    assert "chat/lost" in text
    assert ESCAPE not in text


def test_json_and_yaml_say_the_same(replay: Command) -> None:
    as_json, as_yaml = json.loads(replay("-o", "json").out), yaml.safe_load(replay("-o", "yaml").out)
    assert as_json == as_yaml
    assert as_json["version"] == 1


def test_markdown_is_a_pull_requests_body_without_a_marker(replay: Command) -> None:
    text = replay("-o", "markdown").out
    assert "2 → **4**" in text
    assert "<!-- reconciler:" not in text


def test_the_diff_holds_exactly_the_changed_lines(replay: Command) -> None:
    text = replay("-o", "diff").out
    lines = text.splitlines()
    assert "--- a/clusters/prod/chat/deployment.yaml" in lines
    assert [line.rstrip() for line in lines if line[:1] in "-+" and "replicas:" in line] == [
        "-  replicas:   2     # since June",
        "+  replicas:   4     # since June",
    ]


def test_git_applies_the_diff(replay: Command, recording: Path, tmp_path: Path) -> None:
    manifests = {each.path: each.body for each in read_recording(recording).manifests}
    for path, body in manifests.items():
        (tmp_path / "fleet" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fleet" / path).write_bytes(body)
    patch = tmp_path / "changes.patch"
    patch.write_bytes(replay("-o", "diff").out.encode())
    run_git(tmp_path / "fleet", "apply", str(patch))
    path = "clusters/prod/chat/deployment.yaml"
    wanted = manifests[path].replace(b"replicas:   2 ", b"replicas:   4 ")
    assert (tmp_path / "fleet" / path).read_bytes() == wanted != manifests[path]


@pytest.mark.parametrize("output", ["text", "json", "yaml", "markdown", "diff"])
def test_the_same_recording_gives_the_same_bytes(replay: Command, output: str) -> None:
    assert replay("-o", output) == replay("-o", output)
    assert replay("-o", output).err == ""


def test_recording_and_replaying_give_the_identical_plan_and_fingerprint(
    command: Command, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.pipeline.session._asker", lambda *_arguments: BUSY)
    kept = tmp_path / "kept.zip"
    observed = command("plan", "--repo", desk.workshop.remote, "--record", kept, "--output", "json")
    replayed = command("plan", "--replay", kept, "--output", "json")
    assert observed.code == replayed.code == 5  # nobody says where its Prometheus is
    assert json.loads(observed.out) == json.loads(replayed.out)
    again = tmp_path / "again.zip"
    kept.rename(again)
    assert command("plan", "--replay", again, "--output", "json").out == replayed.out


def test_a_replay_prices_a_month_as_the_run_did(
    command: Command, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.pipeline.session._asker", lambda *_arguments: BUSY)
    budget = (
        b"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules: [{name: money, budget: {amount: 9, per: month}}]\n"
    )
    configuration = (desk.workshop.clone / "reconciler.yaml").read_bytes()
    desk.workshop.write("budget.yaml", budget)
    desk.workshop.write("reconciler.yaml", configuration + b"policies: [default, budget.yaml]\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{time.time() - 60:.0f} +0000")
    desk.workshop.commit()
    kept = tmp_path / "kept.zip"
    observed = command("plan", "--repo", desk.workshop.remote, "--record", kept, "-o", "json")
    assert read_recording(kept).paid
    assert json.loads(observed.out) == json.loads(command("plan", "--replay", kept, "-o", "json").out)


@pytest.mark.parametrize(
    ("variables", "arguments", "is_colored"),
    [
        ({}, (), False),
        ({"FORCE_COLOR": "1"}, (), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
        ({"NO_COLOR": "1"}, ("--color", "always"), True),
        ({"FORCE_COLOR": "1"}, ("--color", "never"), False),
        ({"RECONCILER_COLOR": "always"}, (), True),
    ],
)
def test_colour_is_as_asked_for(
    replay: Command,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    arguments: tuple[str, ...],
    is_colored: bool,
) -> None:
    plain = replay().out
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    outcome = replay(*arguments)
    assert (ESCAPE in outcome.out) == is_colored
    assert re.sub(r"\x1b\[\d+m", "", outcome.out) == plain


@pytest.mark.parametrize("output", ["json", "yaml", "markdown", "diff"])
def test_data_is_never_coloured(replay: Command, output: str) -> None:
    assert ESCAPE not in replay("--color", "always", "-o", output).out


def test_a_flag_may_stand_in_the_environment(replay: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_OUTPUT", "json")
    assert json.loads(replay().out)["version"] == 1


def test_logs_go_to_stderr_in_the_format_asked_for(
    command: Command, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.pipeline.session._asker", lambda *_arguments: BUSY)
    arguments = ("plan", "--repo", desk.workshop.remote, "--output", "json")
    quiet, loud = command(*arguments, "-q"), command(*arguments, "-vv", "--log-format", "json")
    assert quiet.err == ""
    entries = [json.loads(line) for line in loud.err.splitlines()]
    assert {entry["level"] for entry in entries} == {"debug", "info"}
    json.loads(loud.out)
