"""A team's own cases are judged as a plan is, and a wrong file of them is told at its line."""

import re
from pathlib import Path

import pytest

from reconciler.policy.cases import GivenSection, run_cases
from reconciler.policy.files import read_policy
from reconciler.policy.judging import RuleBook

FOLDER = Path(__file__).parents[3] / "policies"
PAGE = (FOLDER / "README.md").read_text().split("## Test them")[1].split("## Presets")[0]
HEAD = "apiVersion: reconciler.io/v1alpha1\nkind: PolicyTest\ncases:\n"


@pytest.fixture(scope="module")
def default() -> RuleBook:
    path = FOLDER / "default.yaml"
    return RuleBook(read_policy("policies/default.yaml", path.read_bytes()).rules)


def test_the_documented_cases_hold(default: RuleBook) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    outcomes, findings = run_cases("cases.yaml", example.encode(), default)
    assert not findings
    assert [each.fault for each in outcomes] == ["", ""]


def test_everything_that_may_be_given_is_documented() -> None:
    assert {info.alias for info in GivenSection.model_fields.values()} <= set(re.findall(r"`([a-zA-Z]+)`", PAGE))


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ("given: {replicas: 4, to: 3, mergedAgo: 1d}, expect: {verdict: allow, replicas: 3}", ""),
        ("given: {replicas: 4, to: 3}, expect: {verdict: needs approval, rule: first-change}", ""),
        (
            "given: {replicas: 1, to: 0, mergedAgo: 1d}, expect: {verdict: needs approval, rule: to-zero, replicas: 0}",
            "",
        ),
        (
            "given: {replicas: 4, to: 4, toAccelerator: L4, mergedAgo: 1d, price: 1}, expect: {verdict: allow}",
            "expected verdict allow, got needs approval",
        ),
        (
            "given: {replicas: 8, to: 1, mergedAgo: 1d}, expect: {verdict: clamp, replicas: 2}",
            "expected replicas 2, got 4",
        ),
    ],
)
def test_a_case_holds_or_says_what_is_not_so(default: RuleBook, case: str, fault: str) -> None:
    (outcome,), findings = run_cases("cases.yaml", (HEAD + f"  - {{name: a, {case}}}").encode(), default)
    assert not findings
    assert outcome.fault == fault


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("to: 6", "verdict: hold, rule: frozen, replicas: 4"),
        ("to: 6, repair: true", "verdict: needs approval, rule: frozen, replicas: 6"),
        ("to: 3, repair: true", "verdict: hold, rule: frozen, replicas: 4"),
        ("to: 6, mergedAgo: 5m, at: 2026-12-26T12:00:00", "verdict: hold, rule: settle, replicas: 4"),
    ],
)
def test_a_freeze_and_a_cooldown_hold(given: str, expected: str) -> None:
    rules = """\
apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {name: frozen, freeze: {from: "2026-12-24", until: "2026-12-26"}}
  - {name: settle, cooldown: {after: 1h}}
"""
    case = f"given: {{replicas: 4, at: 2026-12-24T12:00:00, {given}}}, expect: {{{expected}}}"
    if "at:" in given:
        case = case.replace("at: 2026-12-24T12:00:00, ", "")
    book = RuleBook(read_policy("rules.yaml", rules.encode()).rules)
    (outcome,), findings = run_cases("cases.yaml", (HEAD + f"  - {{name: a, {case}}}").encode(), book)
    assert (outcome.fault, findings) == ("", ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected cases, found none"),
        (HEAD + "  - {name: a, given: {replicas: 1}, expect: {verdict: allow}}", "cases[0].given.to"),
        (HEAD + "  - {name: a, given: {replicas: 1, to: 1}, expect: {verdict: maybe}}", "cases[0].expect.verdict"),
        (HEAD + "  - {name: a, given: {replcas: 1, to: 1}, expect: {verdict: allow}}", 'did you mean "replicas"'),
    ],
)
def test_a_wrong_file_is_told(default: RuleBook, text: str, words: str) -> None:
    outcomes, findings = run_cases("cases.yaml", text.encode(), default)
    assert not outcomes
    assert any(words in str(each) for each in findings)
