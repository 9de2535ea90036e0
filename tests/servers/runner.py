"""A runner of GitHub Actions: the action's last step, in bash, on a checkout, with files for outputs and the page."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION: Mapping[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a step left behind."""

    code: int
    log: str
    outputs: Mapping[str, str]
    page: str


def run_step(checkout: Path, **inputs: str) -> Job:
    """The last step with these inputs and every other's default, in a runner whose environment is this one's.

    `event` is the path of the event that started the job.
    """
    step = ACTION["runs"]["steps"][-1]
    given = {name: inputs.get(name.replace("-", "_"), each["default"]) for name, each in ACTION["inputs"].items()}
    scratch = checkout.parent / "runner"
    binaries = scratch / "reconciler" / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    python = binaries / "python"
    if not python.exists():
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
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
        "GITHUB_EVENT_PATH": inputs.get("event", ""),
    }
    # as the runner starts `shell: bash`
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return Job(
        code=done.returncode,
        log=done.stdout + done.stderr,
        outputs=outputs,
        page=files["GITHUB_STEP_SUMMARY"].read_text(),
    )
