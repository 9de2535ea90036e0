"""Findings as lines, as groups of a terminal and as JSON, whatever stands in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.identity import Finding, Place, Severity, name_findings
from reconciler.report.findings import findings_json, findings_text, summary_line
from reconciler.report.formatting import display_width

HOSTILE = "\x1b]0;owned\x07 \x1b[31mred\n::error file=x::forged\r\n\u202eback\u2028next"
SUMMARY = "2 files, 1 resource: 1 error, 1 warning"


def finding(message: str = "expected a number", line: int = 7, path: str = "a.yaml", **fields: str) -> Finding:
    severity = Severity(fields.get("severity", "error"))
    place = Place(path=path, line=line, field=fields.get("field", "spec.cost"))
    return Finding(place=place, severity=severity, message=message, rule=fields.get("rule", ""))


def test_a_line_says_where_how_bad_what_and_by_which_rule() -> None:
    (line, last) = findings_text([finding(rule="min-above-max")], SUMMARY).splitlines()
    assert line == "a.yaml:7: error: spec.cost: expected a number [min-above-max]"
    assert last == SUMMARY
    assert line == str(finding(rule="min-above-max"))


def test_without_rule_line_and_field_nothing_stands_in_their_place() -> None:
    assert findings_text([finding(line=0, field="")], "").splitlines()[0] == "a.yaml: error: expected a number"


def test_findings_are_sorted_by_file_and_line() -> None:
    text = findings_text([finding(path="b.yaml"), finding(line=10), finding(line=9)], SUMMARY)
    assert [line.partition(": ")[0] for line in text.splitlines()[:3]] == ["a.yaml:9", "a.yaml:10", "b.yaml:7"]


def test_a_terminal_shows_a_file_once_and_its_findings_in_columns() -> None:
    found = [
        finding(rule="min-above-max"),
        finding(line=112, severity="warning"),
        finding(line=0, path="b.yaml", field="", message="cannot be read"),
    ]
    assert findings_text(found, SUMMARY, width=100) == (
        "a.yaml\n"
        "    7  error:    spec.cost: expected a number [min-above-max]\n"
        "  112  warning:  spec.cost: expected a number\n"
        "\n"
        "b.yaml\n"
        "       error:    cannot be read\n"
        "\n"
        f"{SUMMARY}\n"
    )


def test_no_line_of_a_group_leaves_the_terminal() -> None:
    text = findings_text([finding("a word or two " * 20, path="x.yaml")], "", width=60)
    lines = text.splitlines()
    assert len(lines) > 3
    assert max(map(display_width, lines)) <= 60


def test_nothing_found_is_the_summary_alone() -> None:
    assert findings_text([], "4 files") == findings_text([], "4 files", width=80) == "4 files\n"


def test_a_summary_counts_in_words() -> None:
    found = [finding(), finding(line=8), finding(line=9, severity="warning")]
    assert summary_line(found, files=217, resources=38) == "217 files, 38 resources: 2 errors, 1 warning"
    assert summary_line([finding(severity="note")], files=1, resources=1).endswith(": 0 errors, 0 warnings, 1 note")
    assert summary_line([], files=1, resources=1) == "1 file, 1 resource: 0 errors, 0 warnings"


@pytest.mark.parametrize("width", [0, 80])
def test_no_text_escapes_its_line_or_begins_with_a_command(width: int) -> None:
    hostile = finding(HOSTILE, path=f"::error::{HOSTILE}", field=HOSTILE, rule=HOSTILE)
    text = findings_text([hostile], SUMMARY, width=width)
    assert not text.startswith("::")
    assert all(char.isprintable() for line in text.split("\n") for char in line)


def test_a_giant_message_is_cut() -> None:
    assert len(findings_text([finding("x" * 100_000, field="f" * 100_000)], SUMMARY)) < 2500


def test_json_has_every_part_and_null_for_what_is_missing() -> None:
    content = findings_json([finding(rule="min-above-max"), finding(line=0, severity="warning")], files=2, resources=1)
    assert content["version"] == 1
    assert content["counts"] == {"errors": 1, "warnings": 1, "notes": 0}
    whole, named = json.loads(json.dumps(content))["findings"]
    assert named == {
        "path": "a.yaml",
        "line": 7,
        "field": "spec.cost",
        "severity": "error",
        "rule": "min-above-max",
        "message": "expected a number",
    }
    assert (whole["line"], whole["rule"]) == (None, None)


def test_findings_that_differ_by_their_rule_alone_are_two_and_have_an_order() -> None:
    found = {finding(), finding(), finding(rule="a"), finding(rule="b")}
    assert [each.rule for each in sorted(found)] == ["", "a", "b"]


def test_a_general_name_never_replaces_one_of_its_own() -> None:
    assert [each.rule for each in name_findings([finding(), finding(rule="own")], "general")] == ["general", "own"]


@given(st.text(), st.text(), st.integers(min_value=0, max_value=200))
def test_every_finding_is_one_line_of_a_pipe(message: str, path: str, line: int) -> None:
    text = findings_text([finding(message, line=line, path=path)], "end")
    assert text.count("\n") == 2
    assert text.endswith("\nend\n")
