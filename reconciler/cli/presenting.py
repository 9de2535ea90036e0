"""Plans and findings in the formats that `--output` names."""

import difflib
from collections.abc import Iterable, Iterator, Mapping

from reconciler.cli.console import is_colored, width, write, write_json
from reconciler.cli.options import Common
from reconciler.cli.painting import paint
from reconciler.config.environment import read_environment
from reconciler.domain.findings import Finding
from reconciler.pipeline.prepare import Prepared
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
        write(painted(common, plan_text(plan, width=width())))


def diff_lines(prepared: Prepared) -> Iterator[str]:
    """A unified diff of every file that the plan would change, group by group."""
    before = {manifest.path: manifest.body for manifest in prepared.recording.manifests}
    for change_set in prepared.edited.change_sets:
        for path, body in sorted(change_set.files.items()):
            yield from _file_diff(path, before[path], body)


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
    write(painted(common, "\n".join([*map(str, ordered), summary])))


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


def _file_diff(path: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (body.decode("utf-8", "replace").splitlines(keepends=True) for body in (before, after))
    for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def painted(common: Common, text: str) -> str:
    """The text with colour where it is welcome."""
    return paint(text) if is_colored(common, read_environment()) else text
