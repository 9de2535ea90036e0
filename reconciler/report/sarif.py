"""Findings as SARIF 2.1.0, which code scanning reads (OASIS standard, sections 3.13 to 3.58)."""

from collections.abc import Iterable, Mapping

from reconciler.domain.identity import Finding, Severity
from reconciler.report.findings import MESSAGE_LENGTH, PATH_LENGTH
from reconciler.report.plain import one_line

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
