"""What became of a run's pull requests, in the formats that `--output` names."""

from collections.abc import Iterator, Mapping

from reconciler.cli.console import width, write, write_json
from reconciler.cli.options import Common
from reconciler.cli.presenting import painted
from reconciler.pipeline.publish import Operation, Published
from reconciler.pipeline.run import RunResult
from reconciler.report.document import plan_json
from reconciler.report.text import plan_text


def present_run(common: Common, result: RunResult) -> None:
    """Write a run's plan and what became of each group."""
    if common.output == "json":
        content = dict(plan_json(result.prepared.plan))
        write_json({**content, "published": [_published_json(each) for each in result.published]})
        return
    write(painted(common, plan_text(result.prepared.plan, width=width())))
    lines = [line for each in result.published for line in published_lines(each)]
    write("\n".join(["", *lines]) if lines else "\nNothing to propose.")


def published_lines(published: Published) -> Iterator[str]:
    """One line for a group that something happened to, or that was left alone for a reason."""
    if published.operation is Operation.NONE and not published.reason:
        return
    number = f"#{published.number} " if published.number is not None else ""
    what = f"{published.operation}: {published.group} {number}({published.head_branch})"
    yield " ".join(part for part in (what, published.url) if part) + (
        f": {published.reason}" if published.reason else ""
    )


def _published_json(published: Published) -> Mapping[str, object]:
    return {
        "group": published.group,
        "operation": str(published.operation),
        "head_branch": published.head_branch,
        "pull_request_number": published.number,
        "pull_request_url": published.url or None,
        "head_commit": published.head_commit or None,
        "reason": published.reason or None,
    }
