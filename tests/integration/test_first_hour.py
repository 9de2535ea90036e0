"""From nothing to pull requests: by the page, literally, then by the files that it makes, unattended."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from reconciler.git.remotes import GitToken
from tests.servers.fleet import SETTINGS, Fleet
from tests.servers.manifests import build, pod_spec_of
from tests.servers.runner import run_step

PAGE = Path(__file__).parents[2] / ".github" / "docs" / "running.md"
PATIENCE_S = 600.0
KNOWN = "accelerators:" + SETTINGS.partition("accelerators:")[2]
"""What nobody can infer: prices, targets, how fast a model is."""

pytestmark = pytest.mark.integration


def commands_of(heading: str) -> str:
    """The shell commands below a heading of the page."""
    section = re.split(rf"^##+ {re.escape(heading)}$", PAGE.read_text(), flags=re.MULTILINE)[1]
    return "".join(re.findall(r"```sh\n(.*?)```", re.split(r"^##+ ", section, flags=re.MULTILINE)[0], flags=re.DOTALL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Somebody with an empty directory, a repository on a forge, a Prometheus, and a shell."""

    fleet: Fleet
    directory: Path

    @property
    def clone(self) -> Path:
        """The clone that everything happens in."""
        return self.directory / "fleet"

    @property
    def environment(self) -> dict[str, str]:
        """The shell's: this forge is not on the internet, so the operator says what and where it is."""
        assert self.fleet.git is not None
        assert self.fleet.forge is not None
        operator = self.directory / "operator.yaml"
        head = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
        operator.write_text(f"{head}forge: {{kind: github, url: {json.dumps(self.fleet.forge.url)}}}\n")
        binaries = self.directory / "bin"
        binaries.mkdir(exist_ok=True)
        command = binaries / "reconciler"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
        command.chmod(0o755)
        credential = f"http.{self.fleet.git.url}.extraHeader"
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith(("RECONCILER_", "GITHUB_"))},
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "RECONCILER_CONFIG": str(operator),
            "GIT_CONFIG_COUNT": "3",
            "GIT_CONFIG_KEY_0": credential,
            "GIT_CONFIG_VALUE_0": GitToken(username=self.fleet.git.username, token=self.fleet.git.token).authorization,
            "GIT_CONFIG_KEY_1": "user.name",
            "GIT_CONFIG_VALUE_1": "Ann",
            "GIT_CONFIG_KEY_2": "user.email",
            "GIT_CONFIG_VALUE_2": "ann@example.com",
        }

    def type(self, commands: str) -> str:
        """What a shell prints; every command must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.clone if self.clone.exists() else self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def follow(self, heading: str) -> str:
        """Type what the page says, with this Prometheus and this token."""
        text = commands_of(heading).replace("http://127.0.0.1:9090", self.fleet.prometheus)
        return self.type(text.replace("TOKEN=...", f"TOKEN={self.fleet.token}"))

    def put_right(self) -> None:
        """Say what the configuration cannot know, commit and push."""
        with (self.clone / "reconciler.yaml").open("a") as file:
            file.write(KNOWN)
        self.type("git commit -qam 'Say what we know' && git push -q")


@pytest.fixture
def newcomer(make_fleet: Callable[..., Fleet], tmp_path: Path) -> Newcomer:
    fleet = make_fleet("github")
    fleet.rearrange({}, "reconciler.yaml")
    directory = tmp_path / "newcomer"
    directory.mkdir()
    person = Newcomer(fleet=fleet, directory=directory)
    person.type(f"git clone -q {fleet.repo} fleet")
    return person


def test_the_page_leads_to_a_pull_request_within_ten_minutes(newcomer: Newcomer) -> None:
    started_s = time.monotonic()
    shown = newcomer.follow("1. Set it up")
    assert "cluster     prod: the only directory in clusters/" in shown
    assert "created: reconciler.yaml" in shown
    newcomer.put_right()
    newcomer.follow("2. The first pull request")
    assert "llama" in newcomer.fleet.pull_requests()[0].title
    assert time.monotonic() - started_s < PATIENCE_S


def test_the_action_leads_to_the_same_pull_request(newcomer: Newcomer) -> None:
    newcomer.follow("1. Set it up")
    newcomer.put_right()
    newcomer.type("reconciler init --github-action && git add .github && git commit -qm Job && git push -q")
    operator = newcomer.environment["RECONCILER_CONFIG"]
    job = run_step(newcomer.clone, mode="run", token=newcomer.fleet.token, config=operator)
    assert job.code == 0, job.log
    assert job.outputs["changed"] == "true"
    proposed = json.loads(job.outputs["pull-requests"])
    assert [each["pull_request_number"] for each in proposed] == [
        each.number for each in newcomer.fleet.pull_requests()
    ]
    assert "Llama-3.1-8B-Instruct" in job.page
    again = run_step(newcomer.clone, mode="run", token=newcomer.fleet.token, config=operator)
    assert (again.code, again.outputs["changed"]) == (0, "false")


def test_the_cron_job_leads_to_the_same_pull_request(newcomer: Newcomer) -> None:
    newcomer.follow("1. Set it up")
    newcomer.put_right()
    newcomer.type("reconciler init --cronjob --flux && git add reconciler && git commit -qm Job && git push -q")
    (pod,) = filter(None, map(pod_spec_of, build(newcomer.clone / "reconciler")))
    (container,) = pod["containers"]
    token = newcomer.directory / "forge-token"
    token.write_text(newcomer.fleet.token)
    mounted = {"/var/run/secrets/reconciler/forge-token": str(token)}
    given = {each["name"]: mounted.get(each["value"], each["value"]) for each in container["env"] if "value" in each}
    given["RECONCILER_TRUSTED_ORIGINS"] += f",{newcomer.fleet.environment['RECONCILER_TRUSTED_ORIGINS']}"
    done = subprocess.run(
        [str(newcomer.directory / "bin" / "reconciler"), *container["args"]],
        cwd=newcomer.directory,
        env={**newcomer.environment, **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "llama" in newcomer.fleet.pull_requests()[0].title
    deployer = yaml.safe_load((newcomer.clone / "reconciler/flux/reconciler.yaml").read_text())
    assert deployer["spec"]["path"] == "reconciler"
