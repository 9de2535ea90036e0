"""Annotations that a runner reads back as what was meant, whatever stands in them."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.report.findings import workflow_command, workflow_commands

COMMAND = re.compile(r"::(?P<name>error|warning) (?P<properties>[^:\r\n]*)::(?P<message>[^\r\n]*)")


def finding(message: str, path: str = "a.yaml", line: int = 7, field: str = "", rule: str = "") -> Finding:
    place = Place(path=path, line=line, field=field)
    return Finding(place=place, severity=Severity.ERROR, message=message, rule=rule)


def decode(text: str, codes: str) -> str:
    """As the runner does it: the percent sign last."""
    for char in codes:
        text = text.replace(f"%{ord(char):02X}", char)
    return text.replace("%25", "%")


def read_back(command: str) -> tuple[dict[str, str], str]:
    match = COMMAND.fullmatch(command)
    assert match is not None, command
    properties = dict(each.split("=", 1) for each in match["properties"].split(","))
    return {name: decode(text, "\r\n:,") for name, text in properties.items()}, decode(match["message"], "\r\n")


def test_an_annotation_has_file_line_title_and_message() -> None:
    command = workflow_command(finding("expected a number", field="spec.cost", rule="min-above-max"))
    assert command == "::error file=a.yaml,line=7,title=min-above-max::spec.cost: expected a number"


def test_a_finding_about_a_whole_file_has_no_line_and_one_without_rule_a_title() -> None:
    assert workflow_command(finding("cannot be read", line=0)) == "::error file=a.yaml,title=reconciler::cannot be read"


def test_a_note_is_a_notice_to_a_runner() -> None:
    note = replace(finding("it has no effect"), severity=Severity.NOTE)
    assert workflow_command(note) == "::notice file=a.yaml,line=7,title=reconciler::it has no effect"


def test_what_ends_a_command_or_a_property_is_encoded() -> None:
    command = workflow_command(finding("100 % of a:b,c\nnext", path="odd:name,\n100%::.yaml"))
    assert command == (
        "::error file=odd%3Aname%2C%0A100%25%3A%3A.yaml,line=7,title=reconciler::100 %25 of a:b,c%0Anext"
    )


def test_the_last_line_is_the_summary() -> None:
    lines = workflow_commands([finding("b", line=9), finding("a")], "1 file").splitlines()
    assert [line[:5] for line in lines] == ["::err", "::err", "1 fil"]
    assert "line=7" in lines[0]


def test_lengths_are_sensible() -> None:
    command = workflow_command(finding("x" * 100_000, rule="r" * 1000))
    assert len(command) < 1200


def test_no_escape_sequence_reaches_the_log() -> None:
    hostile = "\x1b[31mred\x1b]8;;http://x\x07\u202e"
    assert workflow_command(finding(hostile, path=hostile, field=hostile, rule=hostile)).isprintable()


@given(st.text(), st.text(), st.text(), st.text())
def test_whatever_stands_in_it_a_command_is_one_line_and_reads_back(
    message: str, path: str, field: str, rule: str
) -> None:
    properties, text = read_back(workflow_command(finding(message, path=path, field=field, rule=rule)))
    assert set(properties) == {"line", "title"} | ({"file"} if path else set())
    assert len(properties.get("file", "")) == len(path)
    assert len(text) <= 1500
