"""Findings in the formats that `--output` names, and for CI jobs: all that commands say that make no plan."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler import __version__
from reconciler.cli.console import note, painted, width, write, write_json
from reconciler.cli.options import Common
from reconciler.config.environment import read_environment
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.records import replace
from reconciler.report.findings import (
    findings_json,
    findings_sarif,
    findings_text,
    shown_path,
    summary_line,
    workflow_command,
    workflow_commands,
)

if TYPE_CHECKING:
    from reconciler.pipeline.validate import CheckedFiles

logger = logging.getLogger(__name__)

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
RUNS_THERE = "GITHUB_ACTIONS"
ROWS = 100
"""A page of a job holds 1 MiB; more rows than this are left out."""


def present_findings(common: Common, checked: "CheckedFiles") -> None:
    """Write what was found: paths as the person named them, but as the work tree has them for tools."""
    summary = summary_line(checked.findings, files=checked.files, resources=checked.resources)
    match common.output:
        case "json":
            write_json(findings_json(_as_typed(checked), files=checked.files, resources=checked.resources))
        case "sarif":
            write_json(findings_sarif(_in_work_tree(checked), version=__version__))
        case "github":
            write(workflow_commands(_in_work_tree(checked), summary))
            # Append a table to the page of the job, if it has one; a page that cannot be written fails
            # nothing.
            append_to(STEP_SUMMARY, "\n".join(markdown_lines(_in_work_tree(checked), summary)) + "\n")
        case _:
            write(painted(common.color, findings_text(_as_typed(checked), summary, width=width())))


def _as_typed(checked: "CheckedFiles") -> tuple[Finding, ...]:
    return tuple(_at(finding, checked.typed.get(finding.place.path)) for finding in checked.findings)


def _in_work_tree(checked: "CheckedFiles") -> tuple[Finding, ...]:
    return tuple(_at(finding, checked.in_work_tree.get(finding.place.path)) for finding in checked.findings)


def _at(finding: Finding, path: str | None) -> Finding:
    return finding if path is None else replace(finding, place=replace(finding.place, path=path))


def markdown_lines(findings: Iterable[Finding], summary: str, heading: str = "reconciler validate") -> Iterator[str]:
    """A heading, the summary and a table, the gravest first; nothing in a cell links or mentions."""
    from reconciler.rendering.renderer import code_span, sentence

    severities = list(Severity)
    ordered = sorted(findings, key=lambda each: (severities.index(each.severity), each))
    yield from (f"### {heading}", "", summary)
    if ordered:
        yield from ("", "| | what, and where |", "|---|---|")
    for finding in ordered[:ROWS]:
        place = f"{shown_path(finding)}:{finding.place.line}" if finding.place.line else shown_path(finding)
        named = " ".join(code_span(text) for text in (place, finding.place.field, finding.rule) if text)
        yield f"| {finding.severity} | {sentence(finding.message)}<br>{named} |"
    more = len(ordered) - ROWS
    if more > 0:
        yield from ("", f"{more} more {'is' if more == 1 else 'are'} in the log.")


def tell_failure(words: str) -> None:
    """An annotation and a line on the page of the job, where a command failed before it could present anything."""
    from reconciler.rendering.renderer import escape_markdown

    if read_environment().get(RUNS_THERE) == "true":
        note(workflow_command(Finding(place=Place(path=""), severity=Severity.ERROR, message=words)))
    append_to(STEP_SUMMARY, f"### reconciler\n\n**Failed**: {escape_markdown(words)}\n")


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
