"""Findings in the formats that `--output` names, and on the page of a CI job."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler import __version__
from reconciler.cli.console import painted, width, write, write_json
from reconciler.cli.options import Common
from reconciler.cli.workflow import STEP_SUMMARY, append_to
from reconciler.domain.identity import Finding
from reconciler.pipeline.validation.validate import CheckedFiles
from reconciler.rendering.filters import code_span, escape_markdown
from reconciler.report.findings import (
    findings_json,
    findings_sarif,
    findings_text,
    shown_path,
    summary_line,
    workflow_commands,
)

ROWS = 100
"""A page of a job holds 1 MiB; nobody reads more rows than this."""


def present_findings(common: Common, checked: CheckedFiles) -> None:
    """Write what was found: paths as the person named them, but as the work tree has them for tools."""
    summary = summary_line(checked.findings, files=checked.files, resources=checked.resources)
    match common.output:
        case "json":
            write_json(findings_json(_as_typed(checked), files=checked.files, resources=checked.resources))
        case "sarif":
            write_json(findings_sarif(_in_work_tree(checked), version=__version__))
        case "github":
            write(workflow_commands(_in_work_tree(checked), summary))
            _write_step_summary(_in_work_tree(checked), summary)
        case _:
            write(painted(common, findings_text(_as_typed(checked), summary, width=width())))


def _as_typed(checked: CheckedFiles) -> tuple[Finding, ...]:
    return tuple(_at(finding, checked.typed.get(finding.place.path)) for finding in checked.findings)


def _in_work_tree(checked: CheckedFiles) -> tuple[Finding, ...]:
    return tuple(_at(finding, checked.in_work_tree.get(finding.place.path)) for finding in checked.findings)


def _at(finding: Finding, path: str | None) -> Finding:
    return finding if path is None else replace(finding, place=replace(finding.place, path=path))


def _write_step_summary(findings: Iterable[Finding], summary: str) -> None:
    """Append a table to the page of the job, if it has one; a page that cannot be written fails nothing."""
    append_to(STEP_SUMMARY, "\n".join(markdown_lines(findings, summary)) + "\n")


def markdown_lines(findings: Iterable[Finding], summary: str, heading: str = "reconciler validate") -> Iterator[str]:
    """A heading, the summary and a table; nothing in a cell formats, links or mentions."""
    ordered = sorted(findings)
    yield from (f"### {heading}", "", summary)
    if ordered:
        yield from ("", "| | place | field | message | rule |", "|---|---|---|---|---|")
    for finding in ordered[:ROWS]:
        place = f"{shown_path(finding)}:{finding.place.line}" if finding.place.line else shown_path(finding)
        field, rule = (code_span(text) if text else "" for text in (finding.place.field, finding.rule))
        yield f"| {finding.severity} | {code_span(place)} | {field} | {escape_markdown(finding.message)} | {rule} |"
    more = len(ordered) - ROWS
    if more > 0:
        yield from ("", f"{more} more {'is' if more == 1 else 'are'} in the log.")
