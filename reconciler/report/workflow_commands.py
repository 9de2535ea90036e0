"""Findings as GitHub's workflow commands: annotations at the lines of a pull request.

Format: `::error file=PATH,line=N,title=TITLE::MESSAGE`. A line break ends a command and `::` its properties, so that
text from a repository could begin a command of its own: the runner undoes exactly these percent codes.
"""

import unicodedata
from collections.abc import Iterable, Iterator

from reconciler.domain.findings import Finding, Severity
from reconciler.report.findings import MESSAGE_LENGTH
from reconciler.report.plain import REPLACEMENT, one_line

TITLE = "reconciler"
TITLE_LENGTH = 80
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MESSAGE_CODES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY_CODES = (*_MESSAGE_CODES, (":", "%3A"), (",", "%2C"))


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
