"""Findings as people and their scripts read them: a line each, groups of a terminal, JSON."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.domain.identity import Finding, Severity
from reconciler.report.numbers import count
from reconciler.report.plain import REPLACEMENT, hung, one_line

JSON_VERSION = 1
PATH_LENGTH = 4096
MESSAGE_LENGTH = 1000
COMMAND = "::"
"""How a line begins that a CI job obeys instead of showing it."""
TITLE = "reconciler"
TITLE_LENGTH = 80
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MESSAGE_CODES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY_CODES = (*_MESSAGE_CODES, (":", "%3A"), (",", "%2C"))


def summary_line(findings: Sequence[Finding], *, files: int, resources: int) -> str:
    """`217 files, 38 resources: 2 errors, 1 warning`."""
    errors, warnings, notes = _counts(findings)
    looked_at = f"{count(files, 'file')}, {count(resources, 'resource')}"
    beside = f", {count(notes, 'note')}" if notes else ""
    return f"{looked_at}: {count(errors, 'error')}, {count(warnings, 'warning')}{beside}"


def findings_text(findings: Iterable[Finding], summary: str, *, width: int = 0) -> str:
    """Every finding, then the summary: grouped by file where a person looks, else a line each for `grep` and editors.

    `width` is the terminal's in cells, 0 for a pipe.
    """
    ordered = sorted(findings)
    if width <= 0:
        return "\n".join([*map(finding_line, ordered), summary]) + "\n"
    gutter = max((len(_line(finding)) for finding in ordered), default=0)
    groups = groupby(ordered, key=lambda finding: finding.place.path)
    blocks = ["\n".join(_group(each, gutter, width)) for _, each in groups]
    return "\n\n".join([*blocks, summary]) + "\n"


def finding_line(finding: Finding) -> str:
    """`path:line: severity: field: message [rule]`, harmless wherever it is printed."""
    place = f"{shown_path(finding)}:{finding.place.line}" if finding.place.line else shown_path(finding)
    return f"{place}: {finding.severity}: {finding_words(finding)}{_bracketed(finding)}"


def finding_words(finding: Finding) -> str:
    """`field: message`, on one line."""
    parts = (finding.place.field, finding.message)
    return ": ".join(one_line(part, limit=MESSAGE_LENGTH) for part in parts if part)


def findings_json(findings: Iterable[Finding], *, files: int, resources: int) -> Mapping[str, object]:
    """What `--output json` prints; what a finding does not have is null."""
    ordered = sorted(findings)
    errors, warnings, notes = _counts(ordered)
    return {
        "version": JSON_VERSION,
        "files": files,
        "resources": resources,
        "counts": {"errors": errors, "warnings": warnings, "notes": notes},
        "findings": [finding_json(finding) for finding in ordered],
    }


def shown_path(finding: Finding) -> str:
    """The path on one line, and never at its start what a CI job would obey."""
    path = one_line(finding.place.path, limit=PATH_LENGTH)
    return f"./{path}" if path.startswith(COMMAND) else path


def _group(findings: Iterable[Finding], gutter: int, width: int) -> Iterator[str]:
    """A file's findings below its name, their lines, severities and words each in a column."""
    severities = max(len(severity) for severity in Severity) + 1
    for number, finding in enumerate(findings):
        if number == 0:
            yield shown_path(finding)
        head = f"  {_line(finding):>{gutter}}  {f'{finding.severity}:':<{severities}}  "
        yield from hung(head, finding_words(finding) + _bracketed(finding), width=width)


def _line(finding: Finding) -> str:
    return str(finding.place.line) if finding.place.line else ""


def _bracketed(finding: Finding) -> str:
    return f" [{one_line(finding.rule)}]" if finding.rule else ""


def _counts(findings: Sequence[Finding]) -> tuple[int, int, int]:
    severities = [finding.severity for finding in findings]
    return severities.count(Severity.ERROR), severities.count(Severity.WARNING), severities.count(Severity.NOTE)


def finding_json(finding: Finding) -> Mapping[str, object]:
    """One finding, as every JSON output shows it; what it does not have is null."""
    place = finding.place
    return {
        "path": place.path,
        "line": place.line or None,
        "field": place.field,
        "severity": str(finding.severity),
        "rule": finding.rule or None,
        "message": finding.message,
    }


def workflow_commands(findings: Iterable[Finding], summary: str) -> str:
    """An annotation for each finding, then the summary, which the log of the job shows last."""
    return "\n".join([*map(workflow_command, sorted(findings)), summary]) + "\n"


def workflow_command(finding: Finding) -> str:
    """One annotation; a finding about a whole file has no line."""
    properties = ",".join(f"{name}={_encode(text, _PROPERTY_CODES)}" for name, text in _properties(finding))
    return f"::{_COMMANDS[finding.severity]} {properties}::{_encode(_message(finding), _MESSAGE_CODES)}"


def _properties(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "file", "".join(REPLACEMENT if _is_control(char) else char for char in finding.place.path)
    if finding.place.line:
        yield "line", str(finding.place.line)
    yield "title", one_line(finding.rule, limit=TITLE_LENGTH) or TITLE


def _message(finding: Finding) -> str:
    """Field and message; the message keeps its line breaks, which an annotation shows."""
    lines = (one_line(line, limit=MESSAGE_LENGTH) for line in finding.message[:MESSAGE_LENGTH].splitlines())
    text = "\n".join(lines)
    return f"{one_line(finding.place.field)}: {text}" if finding.place.field else text


def _is_control(char: str) -> bool:
    """Whether a terminal acts on a character; line breaks are encoded."""
    return char not in "\r\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs")


def _encode(text: str, codes: Iterable[tuple[str, str]]) -> str:
    for char, code in codes:
        text = text.replace(char, code)
    return text
