"""Findings and checkups as text, JSON, workflow commands and SARIF 2.1.0."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.reports import Check, Level
from reconciler.report.formatting import GAP, REPLACEMENT, count, hung, one_line, pad

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
    if finding.place.path:
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


# Checkups: one line each, and JSON.


def checkup_text(checks: Sequence[Check], *, width: int = 0) -> str:
    """`warn  us-east  what was found: what to do (file:line)`, then a line that counts; `width` 0 does not wrap."""
    levels = max(len(level) for level in Level)
    subjects = max((len(one_line(check.subject)) for check in checks), default=0)
    lines: list[str] = []
    for check in checks:
        head = GAP.join((pad(str(check.level), levels), pad(one_line(check.subject), subjects), ""))
        lines += hung(head, _words(check), width=width)
        lines += [f"      {line}".rstrip() for line in check.manifest.splitlines()]
    return "\n".join([*lines, summary(checks)]) + "\n"


def summary(checks: Sequence[Check]) -> str:
    """`12 ok, 2 warnings, 1 failure`."""
    levels = Counter(check.level for check in checks)
    return f"{levels[Level.OK]} ok, {count(levels[Level.WARN], 'warning')}, {count(levels[Level.FAIL], 'failure')}"


def checkup_json(checks: Sequence[Check]) -> Mapping[str, object]:
    """What `--output json` prints; what a check does not have is null."""
    levels = Counter(check.level for check in checks)
    return {
        "version": JSON_VERSION,
        "counts": {level.lower(): levels[level] for level in Level},
        "checks": [_check_json(check) for check in checks],
    }


def _words(check: Check) -> str:
    parts = (one_line(part, limit=MESSAGE_LENGTH) for part in (check.words, check.cure) if part)
    text = ": ".join(parts)
    return f"{text} ({one_line(str(check.place))})" if check.place is not None and check.place.path else text


def _check_json(check: Check) -> Mapping[str, object]:
    place = check.place
    return {
        "level": check.level.lower(),
        "subject": check.subject,
        "rule": check.rule,
        "words": check.words,
        "cure": check.cure or None,
        "path": place.path if place else None,
        "line": (place.line or None) if place else None,
        "cause": str(check.cause) if check.level is Level.FAIL else None,
        "manifest": check.manifest or None,
    }


# SARIF 2.1.0, which code scanning reads (OASIS standard, sections 3.13 to 3.58).

SARIF_VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
UNNAMED = {Severity.ERROR: "input-error", Severity.WARNING: "input-warning", Severity.NOTE: "input-note"}
"""The rules of findings that have no name: code scanning shows nothing without one."""

Json = Mapping[str, object]
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def findings_sarif(findings: Iterable[Finding], *, version: str) -> Json:
    """One run with every finding; equal findings make equal bytes. `version` is the program's."""
    ordered = sorted(findings)
    rules = _severities(ordered)
    numbers = {rule: number for number, rule in enumerate(rules)}
    driver = {
        "name": "reconciler",
        "version": version,
        "rules": [_rule(rule, severity) for rule, severity in rules.items()],
    }
    results = [_result(finding, numbers) for finding in ordered]
    return {"$schema": SCHEMA, "version": SARIF_VERSION, "runs": [{"tool": {"driver": driver}, "results": results}]}


def _severities(findings: Iterable[Finding]) -> dict[str, Severity]:
    """Every rule that was broken with the worst severity it was given, by name."""
    worst: dict[str, Severity] = {}
    for finding in findings:
        rule, severity = rule_of(finding), finding.severity
        worst[rule] = min(worst.get(rule, severity), severity, key=list(Severity).index)
    return dict(sorted(worst.items()))


def rule_of(finding: Finding) -> str:
    """The rule's name; a general one for findings without."""
    return one_line(finding.rule) or UNNAMED[finding.severity]


def _rule(rule: str, severity: Severity) -> Json:
    words = rule.replace("-", " ")
    return {
        "id": rule,
        "shortDescription": {"text": words[:1].upper() + words[1:]},
        "defaultConfiguration": {"level": str(severity)},
    }


def _result(finding: Finding, numbers: Mapping[str, int]) -> Json:
    rule, field = rule_of(finding), one_line(finding.place.field, limit=MESSAGE_LENGTH)
    message = one_line(finding.message, limit=MESSAGE_LENGTH)
    return {
        "ruleId": rule,
        "ruleIndex": numbers[rule],
        "level": str(finding.severity),
        "message": {"text": f"{field}: {message}" if field else message},
        "locations": [_location(finding, field)],
    }


def _location(finding: Finding, field: str) -> Json:
    artifact = {"artifactLocation": {"uri": uri_of(finding.place.path)}}
    region = {"region": {"startLine": finding.place.line}} if finding.place.line >= 1 else {}
    logical = {"logicalLocations": [{"fullyQualifiedName": field}]} if field else {}
    return {"physicalLocation": {**artifact, **region}, **logical}


def uri_of(path: str) -> str:
    """A path as a URI reference, relative if it is (RFC 3986); an absolute one gets its scheme."""
    encoded = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in _bytes(path[:PATH_LENGTH]))
    return f"file://{encoded}" if encoded.startswith("/") else encoded


def _bytes(path: str) -> bytes:
    return path.removeprefix("./").encode(errors="replace")
