"""Plans, runs and findings in the formats that `--output` names."""

import difflib
from collections.abc import Iterable, Iterator, Mapping

from reconciler.cli.console import is_colored, width, write, write_json
from reconciler.cli.options import Common
from reconciler.cli.painting import paint
from reconciler.config.environment import read_environment
from reconciler.domain.findings import Finding
from reconciler.pipeline.publish import Operation, Published
from reconciler.pipeline.run import Prepared, RunResult
from reconciler.rendering import Renderer
from reconciler.report.document import plan_json
from reconciler.report.pull_request import plan_view
from reconciler.report.text import plan_text


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
    else:
        write(_painted(common, plan_text(plan, width=width())))


def present_run(common: Common, result: RunResult) -> None:
    """Write a run's plan and what became of each group."""
    if common.output == "json":
        content = dict(plan_json(result.prepared.plan))
        write_json({**content, "published": [_published_json(each) for each in result.published]})
        return
    write(_painted(common, plan_text(result.prepared.plan, width=width())))
    lines = [line for each in result.published for line in published_lines(each)]
    write("\n".join(["", *lines]) if lines else "\nNothing to propose.")


def diff_lines(prepared: Prepared) -> Iterator[str]:
    """A unified diff of every file that the plan would change, group by group."""
    before = {manifest.path: manifest.body for manifest in prepared.recording.manifests}
    for change_set in prepared.edited.change_sets:
        for path, body in sorted(change_set.files.items()):
            yield from _file_diff(path, before[path], body)


def published_lines(published: Published) -> Iterator[str]:
    """One line for a group that something happened to, or that was left alone for a reason."""
    if published.operation is Operation.NONE and not published.reason:
        return
    number = f"#{published.number} " if published.number is not None else ""
    what = f"{published.operation}: {published.group} {number}({published.head_branch})"
    yield " ".join(part for part in (what, published.url) if part) + (
        f": {published.reason}" if published.reason else ""
    )


def present_findings(common: Common, findings: Iterable[Finding], *, files: int, resources: int) -> None:
    """Write findings one a line, with the count of what was looked at."""
    ordered = sorted(findings)
    if common.output == "json":
        write_json(
            {"version": 1, "files": files, "resources": resources, "findings": [_finding_json(f) for f in ordered]}
        )
        return
    errors = sum(finding.severity == "error" for finding in ordered)
    warnings = len(ordered) - errors
    looked_at = f"{_counted(files, 'file')}, {_counted(resources, 'resource')}"
    summary = f"{looked_at}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
    write(_painted(common, "\n".join([*map(str, ordered), summary])))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _finding_json(finding: Finding) -> Mapping[str, object]:
    place = finding.place
    return {
        "path": place.path,
        "line": place.line or None,
        "severity": str(finding.severity),
        "field": place.field,
        "message": finding.message,
    }


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


def _file_diff(path: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (body.decode("utf-8", "replace").splitlines(keepends=True) for body in (before, after))
    for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _painted(common: Common, text: str) -> str:
    return paint(text) if is_colored(common, read_environment()) else text
