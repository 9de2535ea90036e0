"""The other samples of the demo: one for each way to serve and scale models."""

import json
from pathlib import Path

import pytest

from reconciler.cli.main import invoke
from reconciler.cli.sample import families, read_demo_recording, run_demo, sample_files
from reconciler.domain.plan import Outcome
from reconciler.pipeline.publish import Operation
from tests.servers.examples import FAMILIES, example_files
from tests.servers.git_workshop import run_git

EDITS = {
    "flux": ("apps/prod/kustomization.yaml", "-  - {name: chat, count: 2}", "+  - {name: chat, count: 3}"),
    "kserve": ("clusters/prod/chat.yaml", "-    minReplicas: 2", "+    minReplicas: 3"),
    "kthena": ("clusters/prod/chat.yaml", "-  replicas: 2", "+  replicas: 3"),
    "llm-d": ("clusters/prod/chat.yaml", "-  replicas: 2", "+  replicas: 3"),
    "llmaz": ("clusters/prod/chat.yaml", "-  replicas: 2", "+  replicas: 3"),
    "vllm": ("clusters/prod/chat.yaml", "-  minReplicas: 2    # at launch", "+  minReplicas: 3    # at launch"),
}  # fmt: skip


def test_every_example_is_a_family_of_the_demo() -> None:
    assert families() == FAMILIES == tuple(EDITS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_proposes_more_replicas_where_its_controller_reads_them(family: str, tmp_path: Path) -> None:
    finished = run_demo(tmp_path, family=family)
    plan = finished.result.prepared.plan
    assert (plan.findings, plan.failures, plan.warnings) == ((), (), ())
    assert not plan.with_outcome(Outcome.HELD)
    first = next(each for each in finished.result.published if each.number == 1)
    path, before, after = EDITS[family]
    changed = run_git(finished.repository, "diff", "-U0", f"main...{first.head_branch}", "--", path)
    assert before in changed.splitlines()
    assert after in changed.splitlines()
    again = run_demo(tmp_path, family=family)
    assert {each.operation for each in again.result.published} == {Operation.NONE}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_recording_of_a_family_is_of_its_example_as_it_is(family: str) -> None:
    recorded = {manifest.path: manifest.body for manifest in read_demo_recording(family).manifests}
    assert recorded
    assert {path: sample_files(family).get(path) for path in recorded} == recorded, "make demo-recording"
    assert sample_files(family) == example_files(family)


def test_an_unknown_family_is_refused_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["demo", "--family", "ray", "--directory", str(tmp_path / "new")]) == 5
    assert f"--family ray: expected one of {', '.join(FAMILIES)}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_what_to_try_names_the_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["demo", "--family", "kthena", "--directory", str(tmp_path)]) == 0
    assert "demo --family kthena --directory ." in capsys.readouterr().out
    assert invoke(["explain", "llm/chat", "--replay", str(tmp_path / "recording.zip"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"]["engine"] == "tracking"
