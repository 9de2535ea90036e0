"""Rules in CEL in whole decisions: each says its word, and what fails while it is asked holds."""

from typing import Any

import pytest

from reconciler.domain.plan import Outcome, VerdictKind
from reconciler.policy.expression_rules import VARIABLES
from reconciler.policy.files import read_policy

HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
TEN = "[1,2,3,4,5,6,7,8,9,10]"
RUNAWAY = "".join(f"{TEN}.all({name}, " for name in "abcdef") + "a + b + c + d + e + f > 0" + ")" * 6


@pytest.fixture
def decided(fleet: Any) -> Any:
    """The decision about 2 -> 6 replicas under one rule."""

    def decide(rule: str, **prices: float | None) -> Any:
        fleet.price(**({"H100": 6.0} | prices))
        fleet.set(rules=read_policy("p.yaml", (HEADER + f"  - {{name: a, {rule}}}\n").encode()).rules)
        return fleet.decision()

    fleet.add(replicas=2)
    fleet.offer(55.0)
    return decide


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_has_a_value_of_its_type(decided: Any, name: str) -> None:
    tests = {"BOOL": f"{name} == {name}", "LABELS": f"{name}.size() >= 0"}
    decision = decided(f'requireApproval: {{when: "{tests.get(VARIABLES[name].type, f"{name} == {name}")}"}}')
    assert decision.verdict.kind is VerdictKind.NEEDS_APPROVAL, decision.verdict


@pytest.mark.parametrize(
    ("rule", "outcome", "kind"),
    [
        ("deny: {when: 'change.added == 4'}", Outcome.HELD, VerdictKind.REFUSE),
        ("deny: {when: 'change.added > 4'}", Outcome.CHANGE, VerdictKind.ALLOW),
        ("hold: {when: 'cost.added == 24.0', reason: too dear}", Outcome.HELD, VerdictKind.HOLD),
        ("requireApproval: {when: 'fleet.changes == 1'}", Outcome.CHANGE, VerdictKind.NEEDS_APPROVAL),
        ("clamp: {when: 'true', to: '4'}", Outcome.CHANGE, VerdictKind.CLAMP),
        ("clamp: {when: 'true', to: '9'}", Outcome.CHANGE, VerdictKind.ALLOW),
        ("clamp: {when: 'true', to: '0'}", Outcome.UNCHANGED, VerdictKind.HOLD),
    ],
)
def test_each_kind_says_its_word(decided: Any, rule: str, outcome: Outcome, kind: VerdictKind) -> None:
    decision = decided(rule)
    assert (decision.outcome, decision.verdict.kind) == (outcome, kind)


def test_a_clamp_ends_a_change_and_says_so(decided: Any) -> None:
    decision = decided("clamp: {when: 'true', to: 'change.replicas_before + 1', reason: slowly}")
    assert decision.desired.replicas == 3
    assert decision.verdict.reason == "slowly: 3 (p.yaml:4)"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("variant.labels['team'] == 'a'", "Key not found in map"),
        ("1 / (change.added - 4) > 0", "divide by zero"),
        (
            RUNAWAY,
            "teration",
        ),
    ],
)
def test_what_fails_while_it_is_asked_holds_and_names_the_rule(decided: Any, expression: str, words: str) -> None:
    decision = decided(f'requireApproval: {{when: "{expression}"}}')
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words.startswith("rule a (p.yaml:4): cannot be judged: ")
    assert words in decision.hold.words


def test_what_nobody_knows_holds(decided: Any) -> None:
    decision = decided("requireApproval: {when: 'cost.added > 1.0'}", H100=None)
    assert decision.hold.words == "rule a (p.yaml:4): cannot be judged: cost.added is not known"


@pytest.mark.parametrize(
    ("rule", "labels", "reviewers"),
    [
        ("labels: {add: [on-call, gpu]}", ("on-call", "gpu"), ()),
        ("reviewers: {request: [ann, 'team:search']}", (), ("ann", "team:search")),
        ("label: {when: 'change.added == 4', add: [large]}", ("large",), ()),
        ("label: {when: 'change.added > 4', add: [large]}", (), ()),
        ("approval: {reviewers: [ann]}", (), ("ann",)),
        ("approval: {downMoreThan: 1, reviewers: [ann]}", (), ()),
    ],
)
def test_rules_label_a_pull_request_and_ask_for_reviews(
    decided: Any, rule: str, labels: tuple[str, ...], reviewers: tuple[str, ...]
) -> None:
    decision = decided(rule)
    assert (decision.labels, decision.reviewers) == (labels, reviewers)
    expected = VerdictKind.NEEDS_APPROVAL if rule == "approval: {reviewers: [ann]}" else VerdictKind.ALLOW
    assert (decision.verdict.kind, decision.verdict.rule) == (
        expected,
        "a" if expected is VerdictKind.NEEDS_APPROVAL else "",
    )
