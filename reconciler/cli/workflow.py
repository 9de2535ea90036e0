"""What a workflow of GitHub reads of a run: outputs for its next steps, a page of the job, annotations."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.cli.console import write
from reconciler.config.environment import read_environment
from reconciler.domain.plan import Plan
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json
from reconciler.report.findings import workflow_command
from reconciler.report.pull_request import plan_view, reductions

logger = logging.getLogger(__name__)

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
OUTPUT = "GITHUB_OUTPUT"
RUNS_THERE = "GITHUB_ACTIONS"
SCRATCH = "RUNNER_TEMP"
PAGE_LIMIT = 250_000
"""Characters: a page holds 1 MiB, and one character is up to four bytes."""
PLAN_FILE = "reconciler-plan.json"


def tell_workflow(plan: Plan, *, is_changed: bool, pull_requests: Sequence[Mapping[str, object]] = ()) -> None:
    """Tell the job what came of it, where it asks: each of the three by its own variable, else nothing."""
    environment = read_environment()
    if environment.get(STEP_SUMMARY):
        views = reductions(plan_view(plan))
        page = Renderer().render_within("pull_request/body.md.j2", views, limit=PAGE_LIMIT)
        append_to(STEP_SUMMARY, f"### reconciler\n\n{page}\n")
    if environment.get(OUTPUT):
        outputs = {
            "changed": "true" if is_changed else "false",
            "pull-requests": json.dumps(list(pull_requests)),  # one line, in ASCII
            "plan": _keep(plan, environment.get(SCRATCH)),
        }
        append_to(OUTPUT, "".join(f"{name}={text}\n" for name, text in outputs.items()))
    if environment.get(RUNS_THERE) == "true":
        for finding in sorted(plan.findings):
            write(workflow_command(finding))


def append_to(variable: str, text: str) -> None:
    """Append to the file that a variable names, if it names one; what cannot be written fails nothing."""
    path = read_environment().get(variable)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        logger.warning("%s: cannot be written: %s", variable, error.strerror)


def _keep(plan: Plan, directory: str) -> str:
    """The file with the whole plan; no path where there is no place for it."""
    if not directory:
        return ""
    path = Path(directory) / PLAN_FILE
    try:
        path.write_text(json.dumps(plan_json(plan), indent=2), encoding="utf-8")
    except OSError as error:
        logger.warning("%s: cannot be written: %s", path, error.strerror)
        return ""
    return str(path)
