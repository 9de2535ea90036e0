"""The steps of the action, as a runner runs them: in bash, on a checkout, with files for outputs and the page."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.config.files import REPOSITORY_FILE
from tests.servers.desk import Desk, open_desk
from tests.servers.git_workshop import Workshop

ROOT = Path(__file__).parents[2]
ACTION: Mapping[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a step left behind."""

    code: int
    log: str
    outputs: Mapping[str, str]
    page: str


def run_step(desk: Desk, **inputs: str) -> Job:
    """The last step with these inputs and every other's default, in a runner whose environment is this one's."""
    step = ACTION["runs"]["steps"][-1]
    given = {name: inputs.get(name.replace("-", "_"), each["default"]) for name, each in ACTION["inputs"].items()}
    scratch = desk.folder / "runner"
    binaries = scratch / "reconciler" / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    python = binaries / "python"
    if not python.exists():
        python.write_text(f'#!/bin/sh\nexec "{ROOT}/.venv/bin/python" "$@"\n')
        python.chmod(0o755)
    files = {name: scratch / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GITHUB_", "RECONCILER_"))}
    named = {name: text.removeprefix("${{ inputs.").removesuffix(" }}") for name, text in step["env"].items()}
    environment = {
        **kept,
        **{name: str(path) for name, path in files.items()},
        **{name: given[each] for name, each in named.items()},
        "RUNNER_TEMP": str(scratch),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
    }
    # as the runner starts `shell: bash`
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command, cwd=desk.workshop.clone, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return Job(
        code=done.returncode,
        log=done.stdout + done.stderr,
        outputs=outputs,
        page=files["GITHUB_STEP_SUMMARY"].read_text(),
    )


@pytest.fixture
def desk(template: Workshop, tmp_path: Path) -> Desk:
    return open_desk(template, tmp_path)


def test_no_input_is_part_of_a_shells_text_and_each_has_a_default() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    assert all("default" in each for each in ACTION["inputs"].values())


def test_what_is_installed_is_locked() -> None:
    (install,) = (step["run"] for step in ACTION["runs"]["steps"] if "pip install" in step.get("run", ""))
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install
    assert '--requirement "$GITHUB_ACTION_PATH/.github/requirements/run.txt"' in install


def test_a_plan_is_kept_for_later_steps_and_shown_on_the_page(desk: Desk) -> None:
    job = run_step(desk, mode="plan")
    assert job.code == 5, job.log
    assert (job.outputs["changed"], job.outputs["pull-requests"]) == ("false", "[]")
    assert len(json.loads(Path(job.outputs["plan"]).read_text())["groups"]) == 3
    assert job.page.startswith("### reconciler\n")
    assert "Prometheus" in job.page


def test_a_run_tells_its_pull_requests(desk: Desk) -> None:
    job = run_step(desk, mode="run")
    assert job.code == 5, job.log
    assert json.loads(job.outputs["pull-requests"]) == []


def test_validate_annotates_what_is_checked_out(desk: Desk) -> None:
    assert run_step(desk, mode="validate").code == 0
    with (desk.workshop.clone / REPOSITORY_FILE).open("a") as file:
        file.write("polices: []\n")
    job = run_step(desk, mode="validate")
    assert job.code == 3
    assert f"::error file={REPOSITORY_FILE},line=20,title=configuration::polices: unknown field" in job.log


@pytest.mark.parametrize("mode", ["", "review", "run; touch /tmp/pwned", "$(id)"])
def test_another_mode_is_refused_and_never_run(desk: Desk, mode: str) -> None:
    job = run_step(desk, mode=mode)
    assert (job.code, job.log) == (5, "::error title=reconciler::mode: expected run, plan or validate\n")


def test_an_input_is_text_whatever_stands_in_it(desk: Desk) -> None:
    job = run_step(desk, mode="plan", cluster='x"; echo hacked; #')
    assert job.code == 5
    assert "no cluster" in job.log
    assert "\nhacked" not in job.log
