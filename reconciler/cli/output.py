"""Plans and what became of them in the formats that `--output` names, and for CI jobs."""

import difflib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.console import json_pieces, painted, width, write, write_json
from reconciler.cli.findings import RUNS_THERE, STEP_SUMMARY, append_to
from reconciler.cli.options import Common
from reconciler.config.environment import read_environment
from reconciler.domain.plan import Plan
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json, plan_members
from reconciler.report.findings import workflow_command
from reconciler.report.pull_request import outcome_lines, plan_view, reductions
from reconciler.report.text import nothing_decided, plan_text

if TYPE_CHECKING:
    from reconciler.pipeline.prepare import Prepared
    from reconciler.pipeline.publish import Published
    from reconciler.pipeline.run import RunResult

logger = logging.getLogger(__name__)

OUTPUT = "GITHUB_OUTPUT"
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


def _keep(plan: Plan, directory: str) -> str:
    """The file with the whole plan; no path where there is no place for it."""
    if not directory:
        return ""
    path = Path(directory) / PLAN_FILE
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json_pieces(plan_members(plan), is_ascii=True))
    except OSError as error:
        logger.warning("%s: cannot be written: %s", path, error.strerror)
        return ""
    return str(path)


def present_plan(common: Common, prepared: "Prepared") -> None:
    """Write a plan to stdout as `--output` asks."""
    plan = prepared.plan
    if common.output == "json":
        write_json(plan_members(plan))
    elif common.output == "yaml":
        import yaml

        write(yaml.safe_dump(plan_json(plan), sort_keys=False, allow_unicode=True, width=120))
    elif common.output == "markdown":
        write(Renderer().render("pull_request/body.md.j2", plan_view(plan)))
    elif common.output == "html":
        from reconciler.report.plan_page import plan_page

        write(Renderer().render("html/page.html.j2", plan_page(plan)))
    elif common.output == "diff":
        write("".join(diff_lines(prepared)))
    elif not common.quiet:
        write(painted(common.color, plan_text(plan, width=width())))


def present_run(common: Common, result: "RunResult") -> None:
    """Write a run's plan and what became of each group."""
    from reconciler.pipeline.publish import Operation  # brings the forge, which a plan does without

    acted = (Operation.CREATED, Operation.UPDATED, Operation.CLOSED, Operation.MERGED, Operation.PUSHED)
    is_changed = any(each.operation in acted for each in result.published)
    told = [_published_json(each) for each in result.published if each.number is not None]
    _print_run(common, result)
    tell_workflow(result.prepared.plan, is_changed=is_changed, pull_requests=told)


def _print_run(common: Common, result: "RunResult") -> None:
    if common.output == "json":
        content = plan_members(result.prepared.plan)
        published = [_published_json(each) for each in result.published]
        told = [{"number": each.number, "group": each.group, "kept": not each.is_broken} for each in result.told]
        write_json({**content, "paused": result.paused or None, "published": published, "told": told})
        return
    if common.quiet:
        return
    plan = result.prepared.plan
    write(painted(common.color, plan_text(plan, width=width(), is_last=False)))
    lines = [line for each in result.published for line in published_lines(each)]
    last = nothing_decided(plan)
    if result.paused:
        write(f"\nPaused by {result.paused}: nothing was written.")
    elif lines or not last:
        write("\n".join(["", *lines]) if lines else "\nNothing to propose.")
    for outcome in result.told:
        write("\n".join(outcome_lines(outcome)))
    if last:
        write(last)


def diff_lines(prepared: "Prepared") -> Iterator[str]:
    """A unified diff of every file that the plan would change, group by group."""
    before = {manifest.path: manifest.body for manifest in prepared.recording.manifests}
    for change_set in prepared.edited.change_sets:
        for path, body in sorted(change_set.files.items()):
            yield from _file_diff(path, before.get(path), body)


def _file_diff(path: str, before: bytes | None, after: bytes) -> Iterator[str]:
    """The differences of one file, which may be new."""
    old, new = (body.decode("utf-8", "replace").splitlines(keepends=True) for body in (before or b"", after))
    for line in difflib.unified_diff(old, new, "/dev/null" if before is None else f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def published_lines(published: "Published") -> Iterator[str]:
    """One line for a group with a pull request, or that was left alone for a reason."""
    from reconciler.pipeline.publish import Operation  # brings the forge, which a plan does without

    is_quiet = published.operation is Operation.NONE and not published.reason
    if is_quiet and published.number is None and not published.url:
        return
    number = f"#{published.number} " if published.number is not None else ""
    operation = "open as it was" if is_quiet else str(published.operation)
    part = "" if published.part is None else f" {published.part}"
    what = f"{operation}: {published.group}{part} {number}({published.head_branch})"
    yield " ".join(part for part in (what, published.url) if part) + (
        f": {published.reason}" if published.reason else ""
    )


def _published_json(published: "Published") -> Mapping[str, object]:
    return {
        "group": published.group,
        "part": None if published.part is None else str(published.part),
        "operation": str(published.operation),
        "head_branch": published.head_branch,
        "pull_request_number": published.number,
        "pull_request_url": published.url or None,
        "head_commit": published.head_commit or None,
        "reason": published.reason or None,
    }
