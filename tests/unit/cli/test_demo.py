import gzip
import re
import shutil
import socket
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.sample import AUTHOR, LOADS, Demo, demo_text, read_demo_recording, replayed, run_demo, sample_files
from reconciler.domain.answers import AnswerStatus
from reconciler.domain.holds import HoldKind
from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.proposals import Part
from reconciler.domain.settings import ClusterSettings
from reconciler.domain.snapshot import Form
from reconciler.errors import ConfigurationError
from reconciler.git.repository import create_bare
from reconciler.pipeline.backtest import read_loads
from reconciler.pipeline.publish import Operation
from tests.servers.git_workshop import run_git
from tests.tools import make_demo_loads


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """One run on a new directory, shared by all who only look."""
    return run_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture
def again(finished: Demo, tmp_path: Path) -> Path:
    """A copy of the directory after the first run, to be run on again."""
    shutil.copytree(finished.directory, tmp_path / "copy")
    return tmp_path / "copy"


def decisions_of(finished: Demo) -> dict[str, Decision]:
    return {each.variant.label: each for each in finished.result.prepared.plan.decisions}


def state_of(directory: Path) -> tuple[str, dict[str, tuple[int, bytes]]]:
    """Every ref, and every pull request's file with its time of change."""
    files = (directory / "fleet.git" / "reconciler" / "pulls").iterdir()
    refs = run_git(directory / "fleet.git", "for-each-ref")
    return refs, {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def test_the_sample_shows_eleven_variants_of_six_models_in_all_three_forms(finished: Demo) -> None:
    variants = finished.result.prepared.snapshot.variants
    assert len(variants) == 11
    assert len({variant.model.model_id for variant in variants}) == 6
    assert {variant.form for variant in variants} == {Form.PROFILE, Form.TARGET, Form.NAME}


def test_nothing_in_the_sample_must_be_fixed_and_nothing_failed(finished: Demo) -> None:
    plan = finished.result.prepared.plan
    assert (plan.findings, plan.failures, plan.warnings) == ((), (), ())
    assert {each.error for each in finished.result.published} == {None}


@pytest.mark.parametrize(
    ("label", "before", "after"),
    [
        ("chat/llama-8b", (3, "H100"), (5, "H100")),
        ("chat/granite-13b", (7, "A100"), (4, "H100")),
        ("chat/nemo-12b", (2, "A100"), (3, "A100")),
        ("code/qwen-7b", (4, "L4"), (2, "L4")),
        ("code/starcoder2-15b", (2, "L40S"), (3, "L40S")),
    ],
)
def test_what_should_change_changes(
    finished: Demo, label: str, before: tuple[int, str], after: tuple[int, str]
) -> None:
    decision = decisions_of(finished)[label]
    assert decision.outcome is Outcome.CHANGE
    assert (decision.current.replicas, decision.current.accelerator) == before
    assert (decision.desired.replicas, decision.desired.accelerator) == after
    assert all(slo.is_met_after for slo in decision.slos)


@pytest.mark.parametrize(
    ("label", "engine", "reason"),
    [
        ("chat/llama-8b", "queueing", "profile given"),
        ("chat/nemo-12b", "queueing", "profile learned"),
        ("code/starcoder2-15b", "saturation", "has no profile, given or learned"),
    ],
)
def test_each_model_is_sized_by_the_best_that_is_known_of_it(
    finished: Demo, label: str, engine: str, reason: str
) -> None:
    decision = decisions_of(finished)[label]
    assert decision.engine == engine
    assert reason in decision.engine_reason


def test_what_fits_stays(finished: Demo) -> None:
    unchanged = finished.result.prepared.plan.with_outcome(Outcome.UNCHANGED)
    assert [each.variant.label for each in unchanged] == [
        "batch/mixtral-8x7b",
        "chat/llama-8b-a100",
        "code/llama-8b",
    ]


def test_what_would_be_drained_too_early_waits(finished: Demo) -> None:
    decision = decisions_of(finished)["chat/llama-8b-a100"]
    assert str(decision.waiting).startswith("waits until the new replicas of chat/llama-8b serve: the load is ")


@pytest.mark.parametrize(
    ("label", "kind", "reason"),
    [
        ("batch/qwen-7b", HoldKind.METRICS_STALE, "last sample 11 min ago"),
        ("code/granite-13b", HoldKind.SLO_UNATTAINABLE, "SLO unattainable"),
        ("batch/llama-8b-nightly", HoldKind.IGNORED, "ignored: the comment behind it says so"),
    ],
)
def test_what_cannot_be_decided_is_held_with_its_reason(
    finished: Demo, label: str, kind: HoldKind, reason: str
) -> None:
    decision = decisions_of(finished)[label]
    assert decision.outcome is Outcome.HELD
    assert decision.hold is not None
    assert decision.hold.kind is kind
    assert reason in str(decision.hold)


def test_waits_and_costs_are_those_of_a_fleet_that_could_exist(finished: Demo) -> None:
    totals = finished.result.prepared.plan.totals
    assert totals.cost_before_per_hour is not None
    assert totals.cost_after_per_hour is not None
    assert 50 < totals.cost_before_per_hour < totals.cost_after_per_hour < 200
    for decision in decisions_of(finished).values():
        for slo in decision.slos:
            assert all(value is None or value < 2 * slo.target_s for value in (slo.before_s, slo.after_s))


def test_each_group_with_changes_gets_a_branch_and_a_pull_request(finished: Demo) -> None:
    created = [each for each in finished.result.published if each.operation is Operation.CREATED]
    assert [(each.group, each.part) for each in created] == [
        ("prod/chat", Part.URGENT),
        ("prod/chat", Part.APPROVAL),
        ("prod/code", Part.URGENT),
        ("prod/code", Part.APPROVAL),
    ]
    for each, draft in zip(created, finished.result.drafts, strict=True):
        assert each.number is not None
        assert draft.title in finished.read_pull_request(each.number)
        changed = run_git(finished.repository, "diff", "--name-only", f"main..{each.head_branch}")
        assert changed.split() == sorted(draft.change_set.files)


def test_a_second_run_writes_nothing(again: Path) -> None:
    before = state_of(again)
    result = run_demo(again).result
    assert {each.operation for each in result.published} == {Operation.NONE}
    assert state_of(again) == before


def test_what_was_merged_is_not_proposed_again(again: Path, finished: Demo) -> None:
    branch = finished.result.published[1].head_branch
    run_git(again / "fleet.git", "fetch", "-q", ".", f"{branch}:main")
    result = run_demo(again).result
    changes = result.prepared.plan.with_outcome(Outcome.CHANGE)
    assert [each.variant.label for each in changes] == ["chat/granite-13b", "code/starcoder2-15b", "code/qwen-7b"]
    assert {each.operation for each in result.published} == {Operation.NONE}
    assert "state: merged" in (again / "fleet.git" / "reconciler" / "pulls" / "1.md").read_text()


def test_what_a_person_closed_stays_closed(again: Path) -> None:
    file = again / "fleet.git" / "reconciler" / "pulls" / "2.md"
    file.write_text(file.read_text().replace("state: open", "state: closed", 1))
    before = state_of(again)
    published = {(each.group, each.part): each for each in run_demo(again).result.published}
    assert published["prod/chat", Part.APPROVAL].operation is Operation.LEFT
    assert state_of(again) == before


def test_the_same_demo_gives_the_same_commits_everywhere(finished: Demo, tmp_path: Path) -> None:
    other = run_demo(tmp_path / "elsewhere")
    assert run_git(other.repository, "for-each-ref") == run_git(finished.repository, "for-each-ref")


def test_no_network_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the demo opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert run_demo(tmp_path).result.published


def test_without_a_directory_a_temporary_one_is_made_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    finished = run_demo()
    assert finished.directory.parent == tmp_path
    assert finished.recording.is_file()
    assert list(tmp_path.iterdir()) == [finished.directory]


@pytest.mark.parametrize("name", ["recording.zip", "fleet.git"])
def test_what_else_stands_in_the_directory_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigurationError, match=r"earlier demo|not this version's demo"):
        run_demo(tmp_path)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [(name, "mine")]


def test_a_repository_that_is_not_the_demos_is_never_written_to(tmp_path: Path) -> None:
    mine = create_bare(
        tmp_path / "fleet.git", branch="main", files={"a.yaml": b"a: 1\n"}, message="Mine", author=AUTHOR, date_s=1
    )
    with pytest.raises(ConfigurationError, match="not this version's demo"):
        run_demo(tmp_path)
    assert run_git(tmp_path / "fleet.git", "for-each-ref", "--format=%(objectname)") == mine


def test_the_text_shows_the_plan_the_pull_requests_and_commands(finished: Demo) -> None:
    text = demo_text(finished)
    assert "5 changes" in text
    assert f"In {finished.repository}" in text
    assert "pull request #1 created: Scale up llama-8b" in text
    assert "cat fleet.git/reconciler/pulls/1.md" in text
    assert "reconciler explain chat/llama-8b --replay recording.zip" in text
    assert "How each number came about" not in text
    assert text.endswith(f"This leaves {finished.directory} behind; to be rid of it: rm -r {finished.directory}\n")


def test_what_to_try_runs_as_it_is_printed(again: Path) -> None:
    text = demo_text(run_demo(again))
    (tried,) = re.findall(r"\n\nTry\n(.*?)\n\n", text, flags=re.DOTALL)
    lines = [line.strip() for line in tried.splitlines()]
    assert [line.split()[0] for line in lines[:4]] == ["cd", "cat", "git", "git"]
    assert len(lines) == 7
    script = "\n".join(("set -e", *lines))
    printed = subprocess.run(["/bin/sh", "-c", script], cwd="/", capture_output=True, text=True, check=True).stdout
    order = ("number: 1", "Reconciler-Decision:", "chat/llama-8b: ", "Pull request #2, in Markdown, begins:")
    assert [printed.index(each) for each in order] == sorted(printed.index(each) for each in order)
    assert "On your last day: " in (again / "backtest.html").read_text(encoding="utf-8")
    assert "state: merged" in (again / "fleet.git" / "reconciler" / "pulls" / "1.md").read_text()


def test_after_a_merge_no_command_is_shown_that_would_undo_it(again: Path, finished: Demo) -> None:
    assert "merge it" in demo_text(finished)
    run_git(again / "fleet.git", "fetch", "-q", ".", f"{finished.result.published[1].head_branch}:main")
    assert "merge it" not in demo_text(run_demo(again))
    assert "merge it" not in demo_text(run_demo(again))


def test_the_recording_is_of_the_sample_as_it_is(finished: Demo) -> None:
    recorded = {manifest.path: manifest.body for manifest in read_demo_recording().manifests}
    files = sample_files()
    assert {path: files.get(path) for path in recorded} == recorded, "make demo-recording"
    assert read_demo_recording().commit == finished.result.prepared.plan.commit, "make demo-recording"


def test_a_quantity_is_answered_in_recorded_words_whenever_and_in_whatever_words_it_is_asked() -> None:
    recording = read_demo_recording()
    known = recording.answers[0]
    later = replace(known.query, start_s=known.query.start_s + 60, end_s=known.query.end_s + 60)
    asked = (later, replace(known.query, text="up or another engine's"))
    answers = replayed(recording)(ClusterSettings(name="prod"), asked)
    assert [(answer.query, answer.status, answer.body) for answer in answers] == [
        (query, AnswerStatus.OK, known.body) for query in (later, known.query)
    ]


def test_every_quantity_of_the_recording_is_answered_once() -> None:
    recording = read_demo_recording()
    answers = replayed(recording)(ClusterSettings(name="prod"), [answer.query for answer in recording.answers])
    assert answers == recording.answers


def test_a_query_that_was_not_recorded_has_failed_with_that_reason() -> None:
    recording = read_demo_recording()
    known = recording.answers[0].query
    unknown = [
        replace(known, cluster="dev"),
        replace(known, quantity="another"),
        replace(known, step_s=15.0),
        replace(known, start_s=known.start_s - 60),
    ]
    answers = replayed(recording)(ClusterSettings(name="prod"), unknown)
    assert {answer.status for answer in answers} == {AnswerStatus.FAILED}
    assert all("holds no answer" in answer.reason for answer in answers)


def test_the_demo_has_two_weeks_of_loads_and_the_command_that_replays_them(finished: Demo) -> None:
    file = finished.directory / LOADS
    assert gzip.decompress(file.read_bytes()).decode() == make_demo_loads.made()
    models = {variant.model for variant in finished.result.prepared.snapshot.variants}
    loads = read_loads(file, tuple(sorted(models)), finished.result.prepared.recording.now_s)
    assert loads.per_s.shape == (len(make_demo_loads.MEANS), 14 * 144)
    assert f"backtest --replay recording.zip --loads {LOADS} --days 1 -o html > backtest.html" in demo_text(finished)
