"""CEL over typed variables: compiled once, and whatever goes wrong is a reason to hold."""

import re
from pathlib import Path

import pytest

from reconciler.policy.expression_rules import BOOL, INT, VARIABLES, compiled
from reconciler.policy.files import read_policy

PAGE = (Path(__file__).parents[3] / "policies" / "README.md").read_text()
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
TYPES = {"BOOL": "bool", "INT": "int", "DOUBLE": "double", "STRING": "string", "LABELS": "map(string, string)"}


def test_every_variable_is_documented_and_nothing_else() -> None:
    rows = re.findall(r"^\| `([a-z._]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE.split("## Variables")[1], re.MULTILINE)
    assert rows == [(name, TYPES[each.type], each.words) for name, each in VARIABLES.items()]


@pytest.mark.parametrize(
    ("expression", "kind", "words"),
    [
        ("change.aded > 3", BOOL, "there is no change.aded, did you mean change.added?"),
        ("somebody > 3", BOOL, "there is no somebody: policies/README.md lists what there is"),
        ("cost.added > 10", BOOL, "cost.added has decimals, so write 10.0 instead of 10"),
        ("change.added >", BOOL, "Syntax error"),
        ("change.added + 1", BOOL, "expected CEL of type BOOL, got INT"),
        ("change.added > 1", INT, "expected CEL of type INT, got BOOL"),
        ("variant.name > 3", BOOL, "found no matching overload"),
        ("", BOOL, "Syntax error"),
        ("true" + " && true" * 400, BOOL, "expected at most 2000 characters"),
        ("(" * 900 + "true" + ")" * 900, BOOL, "expected CEL"),
    ],
)
def test_what_is_no_expression_over_the_variables_is_wrong(expression: str, kind: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        compiled(expression, kind)


def test_an_expression_is_compiled_once() -> None:
    assert compiled("change.added > 7", BOOL) is compiled("change.added > 7", BOOL)


def test_a_wrong_expression_is_told_at_its_line() -> None:
    text = HEADER + "  - {name: a, deny: {when: 'change.aded > 3'}}\n"
    (finding,) = read_policy("p.yaml", text.encode()).findings
    assert str(finding).startswith("p.yaml:4: error: rules[0].deny.when: expected CEL: ")
