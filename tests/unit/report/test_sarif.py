"""SARIF 2.1.0 by the rules of the standard and of code scanning."""

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator  # type: ignore[import-untyped]  # its stubs are not among our tools

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.report.findings import findings_sarif, uri_of

URI = re.compile(r"(?:file://)?(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+")
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = closed(["id"], id={"type": "string"}, shortDescription=TEXT, defaultConfiguration=closed(["level"], level=LEVEL))
DRIVER = closed(
    ["name", "version", "rules"],
    name={"const": "reconciler"},
    version={"type": "string"},
    rules={"type": "array", "items": RULE, "uniqueItems": True},
)
PHYSICAL = closed(
    ["artifactLocation"],
    artifactLocation=closed(["uri"], uri={"type": "string", "pattern": f"^{URI.pattern}$"}),
    region=closed(["startLine"], startLine={"type": "integer", "minimum": 1}),
)
LOGICAL = {"type": "array", "items": closed(["fullyQualifiedName"], fullyQualifiedName={"type": "string"})}
LOCATION = closed(["physicalLocation"], physicalLocation=PHYSICAL, logicalLocations=LOGICAL)
RESULT = closed(
    ["ruleId", "ruleIndex", "level", "message", "locations"],
    ruleId={"type": "string", "minLength": 1},
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=TEXT,
    locations={"type": "array", "minItems": 1, "items": LOCATION},
)
RUN = closed(["tool", "results"], tool=closed(["driver"], driver=DRIVER), results={"type": "array", "items": RESULT})
LOG = closed(
    ["$schema", "version", "runs"],
    **{"$schema": {"type": "string", "pattern": "sarif-schema-2.1.0.json$"}},
    version={"const": "2.1.0"},
    runs={"type": "array", "minItems": 1, "maxItems": 1, "items": RUN},
)
"""The part of the published schema that is used, with every object closed."""


def finding(
    path: str = "a.yaml", line: int = 7, rule: str = "", severity: str = "error", message: str = "x"
) -> Finding:
    place = Place(path=path, line=line, field="spec.cost")
    return Finding(place=place, severity=Severity(severity), message=message, rule=rule)


def read(*findings: Finding) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(findings_sarif(findings, version="1.2.3")))
    Draft7Validator(LOG).validate(content)
    return content


def results(*findings: Finding) -> list[dict[str, Any]]:
    (run,) = read(*findings)["runs"]
    found: list[dict[str, Any]] = run["results"]
    return found


def test_nothing_found_is_a_run_without_results() -> None:
    assert results() == []


def test_a_result_has_rule_level_message_and_place() -> None:
    (result,) = results(finding(rule="min-above-max", message="expected at most 4"))
    assert (result["ruleId"], result["level"]) == ("min-above-max", "error")
    assert result["message"]["text"] == "spec.cost: expected at most 4"
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "a.yaml"}, "region": {"startLine": 7}}


def test_a_result_about_a_whole_file_has_no_region() -> None:
    (result,) = results(finding(line=0))
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_every_rule_is_described_once_and_results_point_at_it() -> None:
    found = [finding(rule="b"), finding(line=8, rule="b", severity="warning"), finding(rule="a", severity="warning")]
    (run,) = read(*found)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [(rule["id"], rule["defaultConfiguration"]["level"]) for rule in rules] == [("a", "warning"), ("b", "error")]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_a_finding_without_a_name_has_a_general_rule() -> None:
    found = results(finding(), finding(line=8, severity="warning"), finding(line=9, severity="note"))
    assert [result["ruleId"] for result in found] == ["input-error", "input-warning", "input-note"]
    assert [result["level"] for result in found] == ["error", "warning", "note"]


def test_the_same_findings_in_any_order_are_the_same_bytes() -> None:
    found = [finding(line=line, rule=rule) for line in (3, 1, 2) for rule in ("b", "a")]
    assert json.dumps(read(*found)) == json.dumps(read(*reversed(found)))


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("clusters/prod/a.yaml", "clusters/prod/a.yaml"),
        ("./a.yaml", "a.yaml"),
        ("a b#c?d%e.yaml", "a%20b%23c%3Fd%25e.yaml"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("é.yaml", "%C3%A9.yaml"),
        ("/srv/operator.yaml", "file:///srv/operator.yaml"),
    ],
)
def test_a_path_is_a_uri_that_leads_to_the_file(path: str, uri: str) -> None:
    assert uri_of(path) == uri


@given(st.text(min_size=1), st.text(min_size=1), st.text())
def test_whatever_stands_in_a_finding_it_is_valid_and_harmless(path: str, message: str, rule: str) -> None:
    (result,) = results(finding(path=path if path != "./" else "x", message=f"m{message}", rule=rule))
    assert not {unicodedata.category(char) for char in result["message"]["text"]} & {"Cc", "Cf", "Cs"}
