"""A runner of GitLab CI: the jobs of a pipeline file whose rules match, their scripts in a shell.

As GitLab Runner does with the docker executor, each script runs with `set -eo pipefail`, in a clone whose remote holds
the job's own token, or in an empty directory where GIT_STRATEGY is none.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SET_BY_RUNNERS = ("RECONCILER_", "GITHUB_", "GITLAB_", "CI_")
COMPARISON = re.compile(r'\$(\w+) == "([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a job left behind."""

    name: str
    code: int
    log: str


def run_pipeline(file: Path, clone_url: str, scratch: Path, variables: Mapping[str, str]) -> list[Job]:
    """The jobs of a pipeline whose rules match these variables, predefined ones and the project's own, in order."""
    jobs = yaml.safe_load(file.read_text())
    found = {name: extended(jobs, name) for name in jobs if not name.startswith(".")}
    return [
        run_job(name, job, clone_url, scratch / name, variables)
        for name, job in found.items()
        if any(matches(rule["if"], variables) for rule in job["rules"])
    ]


def extended(jobs: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A job with what it extends."""
    job = dict(jobs[name])
    parent = job.pop("extends", None)
    return job if parent is None else {**extended(jobs, parent), **job}


def matches(rule: str, variables: Mapping[str, str]) -> bool:
    """Whether all comparisons of a rule hold; another form of rule is not known here."""
    found = [COMPARISON.fullmatch(each.strip()) for each in rule.split("&&")]
    assert all(found), rule
    return all(variables.get(each[1]) == each[2] for each in found if each is not None)


def run_job(name: str, job: Mapping[str, Any], clone_url: str, folder: Path, variables: Mapping[str, str]) -> Job:
    """A job's script, in a folder of its own."""
    given = {**variables, **{key: str(value) for key, value in job.get("variables", {}).items()}}
    checkout = folder / "builds"
    checkout.mkdir(parents=True)
    if given.get("GIT_STRATEGY") != "none":
        subprocess.run(["git", "clone", "-q", clone_url, str(checkout)], check=True)
    command = folder / "bin" / "reconciler"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
    command.chmod(0o755)
    inherited = {key: text for key, text in os.environ.items() if not key.startswith(SET_BY_RUNNERS)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -eo pipefail", *job["script"]])],
        cwd=checkout,
        env={**inherited, **given, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return Job(name=name, code=done.returncode, log=done.stdout + done.stderr)
