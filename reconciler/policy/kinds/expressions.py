"""`deny`, `hold`, `clamp`, `requireApproval`, `label`: what no other kind says, in CEL."""

from typing import Literal

from pydantic import Field, field_validator

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import ExpressionRule, Rule
from reconciler.policy.expressions import BOOL, INT, compiled
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import PullRequestLabels
from reconciler.policy.subjects import Change, Spoken

_VERDICTS = {
    "deny": VerdictKind.REFUSE,
    "hold": VerdictKind.HOLD,
    "clamp": VerdictKind.CLAMP,
    "requireApproval": VerdictKind.NEEDS_APPROVAL,
    "label": VerdictKind.ALLOW,
}


class _ExpressionSection(KindSection):
    when: str
    """CEL of type BOOL over the variables of policies/README.md"""
    reason: str = Field(default="", max_length=200)
    """words for whoever reads the pull request (= the expression)"""

    @field_validator("when")
    @classmethod
    def _is_bool(cls, value: str) -> str:
        compiled(value, BOOL)
        return value


class DenySection(_ExpressionSection):
    """Changes that never happen."""

    def asks(self) -> ExpressionRule:
        return _asks("deny", self)


class HoldSection(_ExpressionSection):
    """Changes that do not happen while this is so."""

    def asks(self) -> ExpressionRule:
        return _asks("hold", self)


class RequireApprovalSection(_ExpressionSection):
    """Changes that a person must merge."""

    def asks(self) -> ExpressionRule:
        return _asks("requireApproval", self)


class ClampSection(_ExpressionSection):
    """Changes that go only so far."""

    to: str
    """CEL of type INT: the number of replicas at which it ends"""

    @field_validator("to")
    @classmethod
    def _is_int(cls, value: str) -> str:
        compiled(value, INT)
        return value

    def asks(self) -> ExpressionRule:
        return _asks("clamp", self, self.to)


class LabelSection(_ExpressionSection):
    """Labels of the pull requests that hold a change."""

    add: PullRequestLabels
    """a list of labels"""

    def asks(self) -> ExpressionRule:
        return _asks("label", self, labels=tuple(self.add))


def _asks(
    kind: Literal["deny", "hold", "clamp", "requireApproval", "label"],
    section: _ExpressionSection,
    to: str = "",
    labels: tuple[str, ...] = (),
) -> ExpressionRule:
    return ExpressionRule(kind=kind, when=section.when, reason=section.reason, to=to, labels=labels)


def _judge(asks: ExpressionRule, rule: Rule, change: Change) -> Spoken | None:
    answer = compiled(asks.when, BOOL).ask(change)
    if isinstance(answer, str):
        return Spoken(rule=rule, kind=VerdictKind.HOLD, words=f"cannot be judged: {answer}")
    if not answer:
        return None
    words = asks.reason or asks.when
    if asks.kind != "clamp":
        return Spoken(rule=rule, kind=_VERDICTS[asks.kind], words=words, labels=asks.labels)
    end = compiled(asks.to, INT).ask(change)
    if isinstance(end, str):
        return Spoken(rule=rule, kind=VerdictKind.HOLD, words=f"cannot be judged: {end}")
    low, high = sorted((change.current.replicas, change.desired.replicas))
    admitted = min(max(int(end), low), high)
    if admitted == change.desired.replicas:
        return None
    return Spoken(rule=rule, kind=VerdictKind.CLAMP, words=f"{words}: {admitted}", replicas=admitted)


DENY = RuleKind(name="deny", asks=ExpressionRule, section=DenySection, judge=_judge)
HOLD = RuleKind(name="hold", asks=ExpressionRule, section=HoldSection, judge=_judge)
CLAMP = RuleKind(name="clamp", asks=ExpressionRule, section=ClampSection, judge=_judge)
REQUIRE_APPROVAL = RuleKind(name="requireApproval", asks=ExpressionRule, section=RequireApprovalSection, judge=_judge)
LABEL = RuleKind(name="label", asks=ExpressionRule, section=LabelSection, judge=_judge)
