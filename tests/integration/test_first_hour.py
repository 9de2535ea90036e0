"""From nothing to merged pull requests: by the page, literally, then by the files that it makes, unattended."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.servers.container import build_image, why_absent
from tests.servers.fleet import FULL_NAME, Fleet
from tests.servers.gitlab_runner import Job, run_pipeline
from tests.servers.manifests import build, pod_spec_of
from tests.servers.newcomer import PATIENCE_S, Newcomer, blocks_of, newcomer_on
from tests.servers.runner import run_step

PAGE = Path(__file__).parents[2] / ".github" / "docs" / "running.md"
pytestmark = pytest.mark.integration


def commands_of(heading: str) -> str:
    """The first block of shell commands below a heading of the page."""
    section = re.split(rf"^##+ {re.escape(heading)}$", PAGE.read_text(), flags=re.MULTILINE)[1]
    return blocks_of(re.split(r"^##+ ", section, flags=re.MULTILINE)[0])[0]


def follow(person: Newcomer, heading: str) -> str:
    """Type the first block below a heading of the page."""
    return person.type(person.with_addresses(commands_of(heading)))


def until_merged(person: Newcomer, run: Callable[[int], str]) -> str:
    """The later run that merges the first pull request: the next one, as long as it decides the same.

    The queue of this day grows with the hour, and once in it asks for a replica more: then the next run pushes again.
    """
    for number in range(2):
        said = run(number)
        if person.fleet.pull_requests()[0].state == "merged":
            break
    assert person.fleet.pull_requests()[0].state == "merged", said
    written = re.findall(rb"replicas: +(\d)", person.fleet.read("clusters/prod/chat/deployment.yaml"))
    assert written in ([b"3"], [b"4"]), "two before"
    return said


@pytest.fixture
def newcomer(make_fleet: Callable[..., Fleet], tmp_path: Path) -> Newcomer:
    return newcomer_on(make_fleet("github"), tmp_path / "newcomer")


def test_the_page_leads_to_a_pull_request_within_ten_minutes(newcomer: Newcomer) -> None:
    started_s = time.monotonic()
    shown = follow(newcomer, "1. Set it up")
    assert "cluster     prod: the only directory in clusters/" in shown
    assert "created: reconciler.yaml" in shown
    newcomer.put_right()
    follow(newcomer, "2. The first pull request")
    assert "llama" in newcomer.fleet.pull_requests()[0].title
    assert time.monotonic() - started_s < PATIENCE_S


def test_the_action_opens_the_same_pull_request_and_merges_it(newcomer: Newcomer) -> None:
    follow(newcomer, "1. Set it up")
    newcomer.put_right()
    follow(newcomer, "GitHub Actions")
    follow(newcomer, "Let it merge")
    operator = newcomer.environment["RECONCILER_CONFIG"]
    job = run_step(newcomer.clone, mode="run", token=newcomer.fleet.token, config=operator)
    assert job.code == 0, job.log
    assert job.outputs["changed"] == "true"
    proposed = json.loads(job.outputs["pull-requests"])
    assert [each["pull_request_number"] for each in proposed] == [
        each.number for each in newcomer.fleet.pull_requests()
    ]
    assert "Llama-3.1-8B-Instruct" in job.page

    def run_again(_number: int) -> str:
        again = run_step(newcomer.clone, mode="run", token=newcomer.fleet.token, config=operator)
        assert again.code == 0, again.log
        return again.log

    assert "merged: prod/chat auto #1" in until_merged(newcomer, run_again)


def test_the_cron_job_opens_the_same_pull_request_and_merges_it(newcomer: Newcomer, tmp_path: Path) -> None:
    """As the kubelet starts it: what is rendered and what the Dockerfile says, and nothing of the newcomer's shell.

    Only where the forge is comes on top: it is not on the internet.
    """
    if why_absent():
        pytest.skip(why_absent())
    image = build_image(tmp_path)
    follow(newcomer, "1. Set it up")
    newcomer.put_right()
    follow(newcomer, "A CronJob")
    follow(newcomer, "Let it merge")
    (pod,) = filter(None, map(pod_spec_of, build(newcomer.clone / "reconciler")))
    (container,) = pod["containers"]
    assert "command" not in container
    assert str(pod["securityContext"]["runAsUser"]) == image.user
    assert {each["mountPath"] for each in container["volumeMounts"]} == {"/tmp", "/var/run/secrets/reconciler"}
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    assert all(each["valueFrom"]["secretKeyRef"]["optional"] for each in container["env"] if "value" not in each)
    given["RECONCILER_TRUSTED_ORIGINS"] += f",{newcomer.fleet.environment['RECONCILER_TRUSTED_ORIGINS']}"
    given["RECONCILER_CONFIG"] = "/var/run/secrets/reconciler/operator.yaml"
    operator = Path(newcomer.environment["RECONCILER_CONFIG"]).read_text()
    secrets = {"forge-token": f"{newcomer.fleet.token}\n", "operator.yaml": operator}
    command = [*image.entry_point, *container["args"]]
    done = image.run(command, given, secrets, tmp_path / "first")
    assert done.returncode == 0, done.stdout + done.stderr
    assert newcomer.fleet.token not in done.stdout + done.stderr
    assert all(json.loads(line) for line in done.stderr.splitlines())
    proposed = newcomer.fleet.pull_requests()
    assert "llama" in proposed[0].title

    def run_again(number: int) -> str:
        again = image.run(command, given, secrets, tmp_path / f"again-{number}")
        assert again.returncode == 0, again.stdout + again.stderr
        return again.stdout

    assert "merged: prod/chat auto #1" in until_merged(newcomer, run_again)


def test_the_page_applies_what_init_has_written(newcomer: Newcomer) -> None:
    follow(newcomer, "1. Set it up")
    newcomer.put_right()
    newcomer.type("reconciler init --cronjob --argocd && reconciler init --cronjob --flux")
    named = set(re.findall(r"reconciler/(?:argocd|flux)/\w+\.yaml", PAGE.read_text()))
    assert len(named) == 2
    for path in named:
        spec = yaml.safe_load((newcomer.clone / path).read_text())["spec"]
        assert (spec["source"] if "argocd" in path else spec)["path"] == "reconciler"


@pytest.mark.parametrize(("heading", "folder"), [("GitHub Actions", ".github"), ("A CronJob", "reconciler")])
def test_what_shall_run_unattended_is_pushed(newcomer: Newcomer, heading: str, folder: str) -> None:
    follow(newcomer, "1. Set it up")
    newcomer.put_right()
    follow(newcomer, heading)
    assert newcomer.type("git status --porcelain") == ""
    assert newcomer.type(f"git ls-tree -r --name-only origin/main {folder}/")


def test_the_pipeline_of_gitlab_leads_to_the_same_pull_request(
    make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    person = newcomer_on(make_fleet("gitlab"), tmp_path / "newcomer")
    fleet = person.fleet
    follow(person, "1. Set it up")
    person.put_right()
    assert "created: .gitlab/reconciler.yml" in follow(person, "GitLab")

    scheduled = pipeline(person, tmp_path / "first", "schedule", GITLAB_TOKEN=fleet.token)
    assert [(job.name, job.code) for job in scheduled] == [("reconciler-run", 0), ("reconciler-review", 0)], scheduled
    assert "llama" in fleet.pull_requests()[0].title
    assert fleet.forge is not None
    assert f"{fleet.forge.host}/{FULL_NAME}/-/merge_requests/1" in scheduled[0].log
    for name in ("second", "third"):  # one may push more, as in `until_merged`
        with fleet.writes() as writes:
            again = pipeline(person, tmp_path / name, "schedule", GITLAB_TOKEN=fleet.token)
        assert [job.code for job in again] == [0, 0]
        if not writes:
            break
    assert writes == []


def test_a_job_of_gitlab_without_a_token_of_its_own_says_what_to_make(
    make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    person = newcomer_on(make_fleet("gitlab"), tmp_path / "newcomer")
    follow(person, "1. Set it up")
    person.put_right()
    follow(person, "GitLab")
    assert person.fleet.git is not None
    person.fleet.git.token = ""  # as of a public project: its clone needs no token
    without, _ = pipeline(person, tmp_path / "first", "schedule")
    assert (without.code, "set RECONCILER_FORGE_TOKEN or GITLAB_TOKEN" in without.log) == (5, True), without
    of_the_job, _ = pipeline(person, tmp_path / "second", "schedule", GITLAB_TOKEN="glcbt-64_abcdefghijklm")
    assert of_the_job.code == 5
    assert "GITLAB_TOKEN holds a CI_JOB_TOKEN, which GitLab does not let open merge requests" in of_the_job.log
    assert "abcdefghijklm" not in of_the_job.log
    assert person.fleet.forge is not None
    assert person.fleet.forge.requests == []


def test_merge_requests_of_people_are_validated_without_any_token(
    make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    fleet = make_fleet("gitlab")
    person = newcomer_on(fleet, tmp_path / "newcomer")
    follow(person, "1. Set it up")
    person.put_right()
    follow(person, "GitLab")
    (validate,) = pipeline(person, tmp_path / "first", "merge_request_event")
    assert (validate.name, validate.code) == ("reconciler-validate", 3), "a warning fails, and there is one"
    assert "0 errors, 1 warning" in validate.log
    with (person.clone / "reconciler.yaml").open("a") as file:
        file.write("polices: []\n")
    person.type("git commit -qam Broken && git push -q")
    (validate,) = pipeline(person, tmp_path / "second", "merge_request_event")
    assert validate.code == 3
    assert "polices: unknown field" in validate.log
    assert fleet.pull_requests() == []


def pipeline(person: Newcomer, scratch: Path, source: str, **variables: str) -> list[Job]:
    """A pipeline of the project, with what GitLab predefines in it."""
    fleet = person.fleet
    assert fleet.git is not None
    assert fleet.forge is not None
    predefined = {
        "CI": "true",
        "GITLAB_CI": "true",
        "CI_PIPELINE_SOURCE": source,
        "CI_SERVER_HOST": "127.0.0.1",
        "CI_API_V4_URL": fleet.forge.url,
        "CI_PROJECT_URL": fleet.repo.removesuffix(".git"),
        "CI_PROJECT_PATH": FULL_NAME,
        "CI_JOB_TOKEN": "glcbt-64_canary",
        "NO_COLOR": "1",
    }
    credentials = f"{fleet.git.username}:{fleet.git.token}@" if fleet.git.token else ""
    clone_url = fleet.repo.replace("://", f"://{credentials}", 1)
    return run_pipeline(person.clone / ".gitlab/reconciler.yml", clone_url, scratch, {**predefined, **variables})
