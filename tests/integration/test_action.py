"""The action's steps, as a runner runs them."""

import json
from pathlib import Path

import pytest

from reconciler.config.files import REPOSITORY_FILE
from tests.servers.desk import Desk, open_desk
from tests.servers.git_workshop import Workshop
from tests.servers.runner import ACTION, run_step

pytestmark = pytest.mark.integration


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
    job = run_step(desk.workshop.clone, mode="plan")
    assert job.code == 5, job.log
    assert (job.outputs["changed"], job.outputs["pull-requests"]) == ("false", "[]")
    assert len(json.loads(Path(job.outputs["plan"]).read_text())["groups"]) == 3
    assert job.page.startswith("### reconciler\n")
    assert "Prometheus" in job.page


def test_a_run_tells_its_pull_requests(desk: Desk) -> None:
    job = run_step(desk.workshop.clone, mode="run")
    assert job.code == 5, job.log
    assert json.loads(job.outputs["pull-requests"]) == []


def test_validate_annotates_what_is_checked_out(desk: Desk) -> None:
    assert run_step(desk.workshop.clone, mode="validate", strict="false").code == 0
    assert run_step(desk.workshop.clone, mode="validate").code == 3, "a warning fails, and there is one"
    with (desk.workshop.clone / REPOSITORY_FILE).open("a") as file:
        file.write("polices: []\n")
    job = run_step(desk.workshop.clone, mode="validate")
    assert job.code == 3
    assert f"::error file={REPOSITORY_FILE},line=21,title=configuration::polices: unknown field" in job.log


def test_review_judges_the_head_of_a_pull_request(desk: Desk) -> None:
    git = desk.workshop.git
    git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
    git("checkout", "-q", "-B", "change", "origin/main")
    path = desk.workshop.clone / "clusters" / "prod" / "chat" / "deployment.yaml"
    path.write_bytes(path.read_bytes().replace(b"replicas:   2 ", b"replicas:   9 "))
    git("commit", "-q", "-am", "A change")
    event = desk.folder / "event.json"
    base = {"ref": "main", "repo": {"full_name": "acme/fleet"}}
    head = {"sha": git("rev-parse", "HEAD"), "repo": {"full_name": "acme/fleet"}}
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": head, "base": base}}))
    job = run_step(desk.workshop.clone, mode="review", event=str(event))
    assert job.code == 5, "there is no Prometheus, and nothing was judged"
    assert "::warning file=clusters/prod/chat/deployment.yaml,line=6,title=review-hold::sets chat/llama to 9" in job.log
    assert job.page.startswith(
        "### reconciler review\n\n1 variant changes: +$48.16/h (+$35,000 a month); 1 cannot be judged"
    )


@pytest.mark.parametrize("mode", ["", "reviews", "run; touch /tmp/pwned", "$(id)"])
def test_another_mode_is_refused_and_never_run(desk: Desk, mode: str) -> None:
    job = run_step(desk.workshop.clone, mode=mode)
    assert (job.code, job.log) == (
        5,
        "::error title=reconciler::mode: expected run, plan, validate, review or review-open\n",
    )


def test_an_input_is_text_whatever_stands_in_it(desk: Desk) -> None:
    job = run_step(desk.workshop.clone, mode="plan", cluster='x"; echo hacked; #')
    assert job.code == 5
    assert "no cluster" in job.log
    assert "\nhacked" not in job.log
