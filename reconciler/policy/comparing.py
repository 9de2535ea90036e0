"""What becomes of a rule that is changed, added or removed: whether it is relaxed or tightened, in which numbers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from enum import Enum, auto

from reconciler.domain.records import dataclass
from reconciler.domain.rules import Amount, ApprovalRule, Repairs, Rule, Scope
from reconciler.manifests.wording import join_words
from reconciler.policy.judging import KINDS
from reconciler.policy.port import Effect, Term


class Shift(Enum):
    """How strict a rule is compared with before; UNCLEAR: neither, or partly both."""

    SAME = auto()
    RELAXED = auto()
    TIGHTENED = auto()
    UNCLEAR = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """What becomes of a rule, in words; `rule` is the new one, else the one that is gone."""

    rule: Rule
    shift: Shift
    words: str
    is_gone: bool = False


def compare_rules(before: Iterable[Rule], after: Iterable[Rule]) -> Iterator[RuleChange]:
    """Every rule that differs, by its name: those of `before` in their order, then the new ones."""
    old, new = ({rule.name: rule for rule in rules} for rules in (before, after))
    for name, rule in old.items():
        if name not in new:
            yield RuleChange(rule=rule, shift=_of_presence(rule, came=False), words="is gone", is_gone=True)
        elif (new[name].asks, new[name].scope) != (rule.asks, rule.scope):
            yield _compared(rule, new[name])
    for name, rule in new.items():
        if name not in old:
            merges = _effect(rule) is Effect.PERMITS
            words = "is new: it lets changes merge by themselves" if merges else "is new"
            yield RuleChange(rule=rule, shift=_of_presence(rule, came=True), words=words)


def _effect(rule: Rule) -> Effect:
    kind = KINDS.get(rule.asks.kind)
    return Effect.GUARDS if kind is None else kind.effect


def _of_presence(rule: Rule, *, came: bool) -> Shift:
    """A guard that comes, or a permission that goes, is stricter."""
    effect = _effect(rule)
    if effect is Effect.MARKS:
        return Shift.SAME
    return Shift.TIGHTENED if came is (effect is Effect.GUARDS) else Shift.RELAXED


def _compared(old: Rule, new: Rule) -> RuleChange:
    kind = KINDS.get(new.asks.kind)
    if kind is None or old.asks.kind != new.asks.kind:
        words = f"is of kind {new.asks.kind} instead of {old.asks.kind}"
        return RuleChange(rule=new, shift=Shift.UNCLEAR, words=words)
    if kind.effect is Effect.MARKS:
        return RuleChange(rule=new, shift=Shift.SAME, words=f"changes: {'; '.join(_changes(old, new, kind.terms))}")
    scope = _of_scope(old.scope, new.scope)
    if kind.effect is Effect.PERMITS:
        scope = {Shift.RELAXED: Shift.TIGHTENED, Shift.TIGHTENED: Shift.RELAXED}.get(scope, scope)
    shifts = {*_of_terms(old, new, kind.terms), scope} - {Shift.SAME}
    shift = shifts.pop() if len(shifts) == 1 else Shift.UNCLEAR
    named = {Shift.RELAXED: "is relaxed", Shift.TIGHTENED: "is tightened"}.get(shift, "changes")
    changes = [*_changes(old, new, kind.terms), *(["its scope changes"] if old.scope != new.scope else [])]
    return RuleChange(rule=new, shift=shift, words=f"{named}: {'; '.join(changes)}")


def _of_terms(old: Rule, new: Rule, terms: Mapping[str, Term]) -> Iterator[Shift]:
    was_all, is_all = (isinstance(each.asks, ApprovalRule) and not each.asks.is_conditional for each in (old, new))
    if was_all != is_all:  # without any condition it asks for all changes
        yield Shift.TIGHTENED if is_all else Shift.RELAXED
        return
    for field, term in terms.items():
        was, now = getattr(old.asks, field), getattr(new.asks, field)
        if was != now:
            yield _of_values(was, now, term.stricter)


def _of_values(was: object, now: object, stricter: int) -> Shift:
    """`stricter` is 1 where more is stricter, -1 where less is, 0 where that cannot be said; None asks for nothing."""
    one, other = _number(was), _number(now)
    if not stricter:
        return Shift.UNCLEAR
    if one is None or other is None:
        return Shift.RELAXED if other is None else Shift.TIGHTENED
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        if not (one < other or other < one):
            return Shift.UNCLEAR
        is_more = one < other
    elif isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        is_more = one < other
    else:
        return Shift.UNCLEAR
    return Shift.TIGHTENED if is_more is (stricter > 0) else Shift.RELAXED


def _number(value: object) -> tuple[str, float] | frozenset[object] | None:
    """A value with its unit, as it compares with others of that unit; None for one that asks for nothing."""
    if value is None or value == ():
        return None
    if isinstance(value, tuple):
        return frozenset(value)
    if isinstance(value, Amount):
        return ("replicas", value.replicas) if value.replicas is not None else ("share", value.fraction or 0.0)
    if isinstance(value, Repairs):
        return "", [Repairs.ALLOW, Repairs.ASK, Repairs.HOLD].index(value)
    return ("", float(value)) if isinstance(value, int | float) else (str(value), 0.0)


def _of_scope(old: Scope, new: Scope) -> Shift:
    """A guard for more changes is stricter; which globs are wider than others is not looked at."""
    was, now = _given(old), _given(new)
    if was == now:
        return Shift.SAME
    if was.items() < now.items():
        return Shift.RELAXED
    return Shift.TIGHTENED if now.items() < was.items() else Shift.UNCLEAR


def _given(scope: Scope) -> Mapping[str, object]:
    nothing = Scope()
    found = {each.name: getattr(scope, each.name) for each in fields(Scope)}
    given = {name: value for name, value in found.items() if value != getattr(nothing, name)}
    return {name: tuple(sorted(value.items())) if isinstance(value, dict) else value for name, value in given.items()}


def _changes(old: Rule, new: Rule, terms: Mapping[str, Term]) -> Iterator[str]:
    """`up 9 instead of 2`."""
    for field, term in terms.items():
        was, now = getattr(old.asks, field), getattr(new.asks, field)
        if was != now:
            yield f"{term.name} {_shown(term, now)} instead of {_shown(term, was)}"


def _shown(term: Term, value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return join_words(tuple(map(str, value)), "and")
    if isinstance(value, bool):
        return str(value).lower()
    return term.show(value)
