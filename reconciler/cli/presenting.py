"""Plans, and what became of a run's pull requests, in the formats that `--output` names."""

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from reconciler.cli.console import painted, width, write, write_json
from reconciler.cli.options import Common
from reconciler.pipeline.run import Prepared
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json
from reconciler.report.pull_request import outcome_lines, plan_view
from reconciler.report.text import nothing_decided, plan_text

if TYPE_CHECKING:
    from reconciler.pipeline.group_states import Published
    from reconciler.pipeline.run import RunResult


def present_plan(common: Common, prepared: Prepared) -> None:
    """Write a plan to stdout as `--output` asks."""
    plan = prepared.plan
    if common.output == "json":
        write_json(plan_json(plan))
    elif common.output == "yaml":
        import yaml

        write(yaml.safe_dump(plan_json(plan), sort_keys=False, allow_unicode=True, width=120))
    elif common.output == "markdown":
        write(Renderer().render("pull_request/body.md.j2", plan_view(plan)))
    elif common.output == "diff":
        write("".join(diff_lines(prepared)))
    elif not common.quiet:
        write(painted(common, plan_text(plan, width=width())))


def present_run(common: Common, result: "RunResult") -> None:
    """Write a run's plan and what became of each group."""
    from reconciler.cli.workflow import tell_workflow
    from reconciler.pipeline.group_states import Operation  # brings the forge, which a plan does without

    acted = (Operation.CREATED, Operation.UPDATED, Operation.CLOSED, Operation.MERGED)
    is_changed = any(each.operation in acted for each in result.published)
    told = [_published_json(each) for each in result.published if each.number is not None]
    _print_run(common, result)
    tell_workflow(result.prepared.plan, is_changed=is_changed, pull_requests=told)


def _print_run(common: Common, result: "RunResult") -> None:
    if common.output == "json":
        content = dict(plan_json(result.prepared.plan))
        published = [_published_json(each) for each in result.published]
        told = [{"number": each.number, "group": each.group, "kept": not each.is_broken} for each in result.told]
        write_json({**content, "paused": result.paused or None, "published": published, "told": told})
        return
    if common.quiet:
        return
    plan = result.prepared.plan
    write(painted(common, plan_text(plan, width=width(), is_last=False)))
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


def diff_lines(prepared: Prepared) -> Iterator[str]:
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
    from reconciler.pipeline.group_states import Operation  # brings the forge, which a plan does without

    is_quiet = published.operation is Operation.NONE and not published.reason
    if is_quiet and published.number is None:
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
