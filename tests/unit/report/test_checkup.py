"""Checks as lines and as JSON."""

from reconciler.domain.identity import Place
from reconciler.domain.reports import Cause, Check, Level, warning, well
from reconciler.report.findings import checkup_json, checkup_text

CHECKS = (
    well("git", "push", "main at 3f9c2ab, may push reconciler/*"),
    warning("us-east", "drifted", "llm/tools: Git says 2", "find who writes them", Place(path="a.yaml", line=3)),
    Check(level=Level.FAIL, subject="eu", rule="prometheus", words="401\nFAIL  x", cause=Cause.CONFIGURATION),
)


def test_each_check_is_a_line_with_its_cure_and_place() -> None:
    assert checkup_text(CHECKS).splitlines() == [
        "ok    git      main at 3f9c2ab, may push reconciler/*",
        "warn  us-east  llm/tools: Git says 2: find who writes them (a.yaml:3)",
        "FAIL  eu       401 FAIL x",
        "1 ok, 1 warning, 1 failure",
    ]


def test_a_terminal_gets_lines_of_its_width() -> None:
    lines = checkup_text(CHECKS, width=50).splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[2:4] == ["warn  us-east  llm/tools: Git says 2: find who", "               writes them (a.yaml:3)"]


def test_json_has_null_for_what_a_check_does_not_have() -> None:
    told = checkup_json(CHECKS)
    assert told["counts"] == {"ok": 1, "warn": 1, "fail": 1}
    assert told["checks"][2] == {  # type: ignore[index]  # a document is a mapping of objects
        "level": "fail",
        "subject": "eu",
        "rule": "prometheus",
        "words": "401\nFAIL  x",
        "cure": None,
        "path": None,
        "line": None,
        "cause": "configuration",
        "manifest": None,
    }
