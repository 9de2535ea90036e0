"""Rules in CEL: what no other kind of rule says."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from reconciler.domain.plan import VerdictKind
from reconciler.domain.records import dataclass
from reconciler.domain.rules import Direction, ExpressionRule, Rule
from reconciler.policy.port import Change, Effect, KindSection, RuleKind, Spoken, Term
from reconciler.policy.values import PullRequestLabels

if TYPE_CHECKING:
    from cel_expr_python import cel

# CEL: what an expression may ask of a change, compiled once; what fails is a reason to hold, never an answer.

BOOL, INT, DOUBLE, STRING, LABELS = "BOOL", "INT", "DOUBLE", "STRING", "LABELS"
MAX_LENGTH = 2000
SEE_VARIABLES = "policies/README.md lists what there is"
_NAME = re.compile(r"\b[a-z]+\.[a-z_]+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Something that expressions may name: its type, what it is, and its value; None is not known."""

    type: str
    words: str
    value: Callable[[Change], object]


def _clock(change: Change) -> datetime:
    return datetime.fromtimestamp(change.subject.now_s, tz=UTC)


def _cost_added(change: Change) -> float | None:
    before, after = change.cost_before, change.cost_after
    return None if before is None or after is None else after - before


VARIABLES: Mapping[str, Variable] = {
    name: Variable(type=kind, words=words, value=value)
    for name, kind, words, value in (
        ("change.added", INT, "replicas that come, below 0 that go", lambda c: c.added),
        ("change.replicas_before", INT, "replicas now", lambda c: c.current.replicas),
        ("change.replicas_after", INT, "replicas then", lambda c: c.desired.replicas),
        ("change.accelerator_before", STRING, "its accelerator now", lambda c: c.current.accelerator),
        ("change.accelerator_after", STRING, "its accelerator then", lambda c: c.desired.accelerator),
        ("change.move", BOOL, "whether it takes another accelerator", lambda c: c.is_move),
        ("change.first", BOOL, "whether none of ours was merged in 30 days", lambda c: Direction.FIRST in c.directions),
        ("change.repair", BOOL, "whether the load exceeds what runs now", lambda c: c.is_repair),
        ("variant.cluster", STRING, "its cluster", lambda c: c.subject.variant.key.cluster),
        ("variant.namespace", STRING, "its namespace", lambda c: c.subject.variant.key.namespace),
        ("variant.name", STRING, "the name of its resource", lambda c: c.subject.variant.key.name),
        ("variant.path", STRING, "the file of its resource", lambda c: c.subject.variant.place.path),
        ("variant.labels", LABELS, "the labels of its resource", lambda c: dict(c.subject.variant.labels)),
        ("variant.priority", INT, "its priority", lambda c: c.subject.priority),
        ("variant.service_class", STRING, "its service class, empty without", lambda c: c.subject.class_name),
        ("model.id", STRING, "its model", lambda c: c.subject.variant.model.model_id),
        ("model.variants", INT, "variants that serve its model", lambda c: c.of_model),
        ("load.requests_per_s", DOUBLE, "requests that arrive for its model each second", lambda c: c.load_per_s),
        ("demand.needed", DOUBLE, "what its model needs, in the unit of its engine", lambda c: c.needed),
        ("demand.carried_before", DOUBLE, "what all replicas of its model carry now", lambda c: c.carried_before),
        ("demand.carried_after", DOUBLE, "what they carry then", lambda c: c.carried_after),
        ("cost.before", DOUBLE, "what it costs an hour now", lambda c: c.cost_before),
        ("cost.after", DOUBLE, "what it costs then", lambda c: c.cost_after),
        ("cost.added", DOUBLE, "what it adds an hour", _cost_added),
        ("cost.group_before", DOUBLE, "what its group costs an hour now", lambda c: c.group_cost_before),
        ("cost.group_added", DOUBLE, "what changes of its group add that cost more", lambda c: c.group_cost_added),
        ("fleet.variants", INT, "variants of the run", lambda c: c.fleet.variants),
        ("fleet.changes", INT, "variants that change", lambda c: c.fleet.changes),
        ("fleet.cost_before", DOUBLE, "what all cost an hour now", lambda c: c.fleet.cost_before),
        ("fleet.cost_added", DOUBLE, "what changes add that cost more", lambda c: c.fleet.cost_added),
        ("time.hour", INT, "the hour, by UTC", lambda c: _clock(c).hour),
        ("time.weekday", INT, "0 is Monday, by UTC", lambda c: _clock(c).weekday()),
        ("time.day", INT, "the day of the month, by UTC", lambda c: _clock(c).day),
        ("time.month", INT, "the month, by UTC", lambda c: _clock(c).month),
    )
}
"""All that expressions know; the documentation is compared with it."""


MOST_ANSWERS = 10_000
"""Of an expression that are kept: many changes are alike in what it names."""


class Compiled:
    """An expression that is ready to be asked, with the variables that it names."""

    def __init__(self, expression: "cel.Expression", names: tuple[str, ...]) -> None:
        self._expression = expression
        self._named = [(name, VARIABLES[name].value, VARIABLES[name].type) for name in names]
        self._answers: dict[tuple[object, ...], bool | int | str] = {}
        self._is_simple = all(kind != LABELS for _, _, kind in self._named)

    def ask(self, change: Change) -> bool | int | str:
        """What it says of a change; a text is why it says nothing."""
        known: dict[str, Any] = {}
        for name, value_of, kind in self._named:
            value = value_of(change)
            if value is None:
                return f"{name} is not known"
            known[name] = float(value) if kind == DOUBLE else value  # type: ignore[arg-type]  # of a number
        if not self._is_simple:
            return self._eval(known)
        values = tuple(known.values())
        answer = self._answers.get(values)
        if answer is None:
            answer = self._eval(known)
            if len(self._answers) < MOST_ANSWERS:
                self._answers[values] = answer
        return answer

    def _eval(self, known: Mapping[str, Any]) -> bool | int | str:
        try:
            answer = self._expression.eval(data=known)
            kind, value = answer.type().name(), answer.value()
        except RuntimeError as error:  # what runs away
            return _in_short(error)
        if kind == BOOL:
            return bool(value)
        return int(value) if kind == INT else _in_short(value)


@lru_cache(maxsize=4096)
def compiled(expression: str, kind: str) -> Compiled:
    """An expression of a type, BOOL or INT; ValueError says what is wrong with it."""
    if len(expression) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters")
    try:
        found = _environment().compile(expression)
    except RuntimeError as error:
        raise ValueError(f"expected CEL: {_explained(_in_short(error), expression)}") from None
    if found.return_type().name() != kind:
        raise ValueError(f"expected CEL of type {kind}, got {found.return_type().name()}")
    names = (name for name in dict.fromkeys(_NAME.findall(expression)) if name in VARIABLES)
    return Compiled(found, tuple(names))


@lru_cache(maxsize=1)
def _environment() -> "cel.Env":
    try:
        from cel_expr_python import cel  # heavy, and not for every platform: only who writes CEL needs it
    except ImportError:
        raise ValueError("expected another kind of rule: there is no CEL on this platform") from None
    kinds = cel.Type
    types = {
        BOOL: kinds.BOOL,
        INT: kinds.INT,
        DOUBLE: kinds.DOUBLE,
        STRING: kinds.STRING,
        LABELS: kinds.Map(kinds.STRING, kinds.STRING),
    }
    return cel.NewEnv(variables={name: types[each.type] for name, each in VARIABLES.items()})


def _explained(words: str, expression: str) -> str:
    """What CEL finds wrong, with what to write instead where that is plain."""
    unknown = re.search(r"undeclared reference to '([^']*)'", words)
    if unknown is not None:
        near = get_close_matches(unknown[1], VARIABLES, n=1)
        return f"there is no {unknown[1]}" + (f", did you mean {near[0]}?" if near else f": {SEE_VARIABLES}")
    if re.search(r"applied to '\((?:double, int|int, double)\)'", words):
        decimals = [name for name in _NAME.findall(expression) if name in VARIABLES and VARIABLES[name].type == DOUBLE]
        whose = f"{decimals[0]} has" if decimals else "one side has"
        return f"{words}: {whose} decimals, so write 10.0 instead of 10"
    return words


def _in_short(error: object) -> str:
    """The first line of what went wrong, without the place in the library."""
    first = str(error).splitlines()[0] if str(error) else "no answer"
    return re.sub(r"^(INVALID_ARGUMENT: )?(ERROR: <input>:\d+:)?", "", first)[:200]


# `deny`, `hold`, `clamp`, `requireApproval`, `label`: what no other kind says, in CEL.

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


TERMS = {
    "when": Term(name="when"),
    "reason": Term(name="reason"),
    "to": Term(name="to"),
    "labels": Term(name="add"),
}
DENY = RuleKind(name="deny", asks=ExpressionRule, section=DenySection, judge=_judge, terms=TERMS)
HOLD = RuleKind(name="hold", asks=ExpressionRule, section=HoldSection, judge=_judge, terms=TERMS)
CLAMP = RuleKind(name="clamp", asks=ExpressionRule, section=ClampSection, judge=_judge, terms=TERMS)
REQUIRE_APPROVAL = RuleKind(
    name="requireApproval", asks=ExpressionRule, section=RequireApprovalSection, judge=_judge, terms=TERMS
)
LABEL = RuleKind(
    name="label", asks=ExpressionRule, section=LabelSection, judge=_judge, terms=TERMS, effect=Effect.MARKS
)
