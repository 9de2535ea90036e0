"""The kinds of rules by name, and what all rules together say about a change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.plan import Verdict, VerdictKind
from reconciler.domain.records import dataclass
from reconciler.domain.rules import BoundsRule, BrokenRule, Direction, Rule, Scope
from reconciler.policy.expression_rules import CLAMP, DENY, HOLD, LABEL, REQUIRE_APPROVAL
from reconciler.policy.fleet_rules import ACCELERATORS, BUDGET, CHANGE_LIMIT, SPOT
from reconciler.policy.port import (
    Change,
    Range,
    RuleKind,
    SharedLimit,
    Spoken,
    Subject,
    Subjects,
    covers,
    fits,
    leaves_all,
    needs_no_past,
    says_nothing,
    shares_nothing,
    takes_any,
    towards,
)
from reconciler.policy.replica_rules import AVAILABILITY, BOUNDS, COOLDOWN, DEADBAND, FREEZE, SCHEDULE, STEP
from reconciler.policy.review_rules import APPROVAL, AUTO_MERGE, LABELS, METRICS, REVIEWERS

KINDS: Mapping[str, RuleKind[Any]] = {
    each.name: each
    for each in (
        BOUNDS,
        STEP,
        DEADBAND,
        COOLDOWN,
        FREEZE,
        SCHEDULE,
        BUDGET,
        CHANGE_LIMIT,
        ACCELERATORS,
        SPOT,
        AVAILABILITY,
        METRICS,
        APPROVAL,
        AUTO_MERGE,
        LABELS,
        REVIEWERS,
        DENY,
        HOLD,
        CLAMP,
        REQUIRE_APPROVAL,
        LABEL,
    )
}


# What all rules together say: before the optimizer which numbers a variant may have, after it what of a change. One
# order: refuse, hold, clamp, needs approval, allow. The strictest verdict counts, and every rule with one is named.

STRICTNESS = (
    VerdictKind.REFUSE,
    VerdictKind.HOLD,
    VerdictKind.CLAMP,
    VerdictKind.NEEDS_APPROVAL,
    VerdictKind.ALLOW,
)
"""The strictest first: what a change comes to when several rules speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledRange:
    """A range of replicas with the rule that leaves it."""

    rule: Rule
    range: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLimits:
    """Which replicas all rules leave a variant: `most` None is any number, with the rule that says so at each end.

    `moved` is what they leave it on another accelerator, whose steps are not counted; None: the same. `anchor` keeps
    it on the accelerator that it has. `conflict` are rules that no number keeps together; then nothing changes.
    """

    least: int = 0
    most: int | None = None
    floor: RuledRange | None = None
    cap: RuledRange | None = None
    moved: "ReplicaLimits | None" = None
    anchor: RuledRange | None = None
    conflict: tuple[Rule, ...] = ()

    def admitted(self, replicas: int) -> int:
        """The nearest number that is left."""
        return max(replicas if self.most is None else min(replicas, self.most), self.least)

    def on(self, *, is_move: bool) -> "ReplicaLimits":
        """Those of a variant that stays on its accelerator, or moves to another."""
        return self.moved if is_move and self.moved is not None else self

    def stopped(self, wanted: int) -> Spoken | None:
        """The rule that keeps a variant from a number, and what it says of that; None where none does."""
        is_above = self.most is not None and wanted > self.most
        found = self.cap if is_above else self.floor if wanted < self.least else None
        if found is None:
            return None
        found_words = found.range.words if is_above else found.range.floor_words or found.range.words
        words = f"{found_words}, {wanted} would be needed" if is_above else found_words
        return Spoken(rule=found.rule, kind=VerdictKind.HOLD if found.range.holds else VerdictKind.CLAMP, words=words)


NO_LIMITS = ReplicaLimits()


def unreadable(rules: Iterable[Rule]) -> Iterator[Finding]:
    """What is to be mended in policy files."""
    for rule in rules:
        if isinstance(rule.asks, BrokenRule):
            words = rule.asks.words.removeprefix(f"{rule.place.field}: ")  # the place says it
            yield Finding(place=rule.place, severity=Severity.ERROR, message=words)


class RuleBook:
    """Rules by when they are asked, so that a rule without a say is not asked."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        known = [(rule, KINDS[rule.asks.kind], _scope_of(rule)) for rule in self.rules if rule.asks.kind in KINDS]
        self._broken = [(rule, _scope_of(rule)) for rule in self.rules if isinstance(rule.asks, BrokenRule)]
        self._limiting = [(rule, kind.limit, scope) for rule, kind, scope in known if kind.limit is not leaves_all]
        self._judging = [(rule, kind.judge, scope) for rule, kind, scope in known if kind.judge is not says_nothing]
        back = [(rule, kind.since, scope) for rule, kind, scope in known if kind.since is not needs_no_past]
        self._looking_back = back
        self._sharing = [(rule, kind.shares) for rule, kind, _ in known if kind.shares is not shares_nothing]
        self._refusing = [
            (rule, kind.refuses, scope)
            for rule, kind, scope in known
            if kind.refuses is not takes_any and (not rule.scope.directions or Direction.MOVE in rule.scope.directions)
        ]

    def shared(self, subjects: Subjects) -> tuple[SharedLimit, ...]:
        """The limits that variants share, by the order of their rules."""
        return tuple(each for rule, shares in self._sharing for each in shares(rule.asks, rule, subjects))

    def broken(self, subject: Subject) -> Spoken | None:
        """The first rule that covers a variant and could not be read; None where all could."""
        for rule, scope in self._broken:
            if scope is None or covers(scope, subject):
                words = rule.asks.words if isinstance(rule.asks, BrokenRule) else ""
                return Spoken(rule=rule, kind=VerdictKind.REFUSE, words=f"cannot be read: {words}")
        return None

    def limits(self, subject: Subject) -> ReplicaLimits:
        """The numbers that rules leave a variant: as far towards their bounds as their pace admits."""
        ranges: list[RuledRange] = []
        paces: list[RuledRange] = []
        for rule, limit, scope in self._limiting:
            if scope is None or covers(scope, subject):
                found = limit(rule.asks, subject)
                found = found if found is None or scope is None else towards(scope, found, subject)
                if found is not None:
                    (paces if found.is_pace else ranges).append(RuledRange(rule=rule, range=found))
        if not ranges and not paces:
            return NO_LIMITS
        far, pace = _joined(ranges), _joined(paces)
        if far.conflict:
            return far
        firm = [each for each in paces if each.range.is_firm]
        anchor = next((each for each in (*ranges, *paces) if each.range.stays), None)
        within = _within(far, pace)
        return ReplicaLimits(
            least=within.least,
            most=within.most,
            floor=within.floor,
            cap=within.cap,
            moved=_within(far, _joined(firm)) if firm else far,
            anchor=anchor,
        )

    def refuse(self, subject: Subject, accelerator: str) -> Spoken | None:
        """The first rule that wants no replica of a variant moved to an accelerator; None where none minds."""
        for rule, refuses, scope in self._refusing:
            words = refuses(rule.asks, accelerator, subject)
            if words and (scope is None or covers(scope, subject)):
                return Spoken(rule=rule, kind=VerdictKind.REFUSE, words=words)
        return None

    @property
    def shares_limits(self) -> bool:
        """Whether any rule limits several variants together."""
        return bool(self._sharing)

    @property
    def looks_back(self) -> bool:
        """Whether any rule may want to know what Git said before."""
        return bool(self._looking_back)

    def past_since(self, subject: Subject) -> float | None:
        """How far back rules want to know what Git said of a variant; None where none does."""
        found = (
            since(rule.asks, subject.now_s)
            for rule, since, scope in self._looking_back
            if scope is None or covers(scope, subject)
        )
        return min((each for each in found if each is not None), default=None)

    def judge(self, change: Change) -> tuple[Spoken, ...]:
        """What rules say of a change of a finished plan, in their order."""
        said = []
        for rule, judge, scope in self._judging:
            if scope is None or (covers(scope, change.subject) and fits(scope, change)):
                found = judge(rule.asks, rule, change)
                if found is not None:
                    said.append(found)
        return tuple(said)


def _scope_of(rule: Rule) -> Scope | None:
    """Which changes a rule is for; None for all."""
    return None if rule.scope == Scope() else rule.scope


def _joined(found: Sequence[RuledRange]) -> ReplicaLimits:
    """What all of them leave."""
    if not found:
        return NO_LIMITS
    floors = [each for each in found if each.range.least > 0]
    caps = [(each.range.most, index, each) for index, each in enumerate(found) if each.range.most is not None]
    floor = max(floors, key=lambda each: each.range.least, default=None)
    most, _, cap = min(caps, default=(None, 0, None))
    least = 0 if floor is None else floor.range.least
    if floor is not None and cap is not None and most is not None and least > most:
        return ReplicaLimits(conflict=(floor.rule, cap.rule))
    return ReplicaLimits(least=least, most=most, floor=floor, cap=cap)


def _within(far: ReplicaLimits, pace: ReplicaLimits) -> ReplicaLimits:
    """Bounds, cut to what the pace admits; paces admit what runs now, so they never contradict each other."""
    least, most = pace.admitted(far.least), far.most
    floor, cap = pace.floor if least > far.least else far.floor, far.cap
    if pace.most is not None and (most is None or most > pace.most):
        most, cap = pace.most, pace.cap
    elif most is not None and most < pace.least:
        most = pace.least
    return ReplicaLimits(least=least, most=most, floor=floor, cap=cap)


def strictest(said: Iterable[Spoken]) -> Verdict:
    """The verdict that several rules come to; that of the first where two are equally strict."""
    said = tuple(said)
    found = min(said, key=lambda each: STRICTNESS.index(each.kind), default=None)
    if found is None or found.kind is VerdictKind.ALLOW:
        return Verdict(kind=VerdictKind.ALLOW)
    asked = next((each for each in said if each.kind is VerdictKind.NEEDS_APPROVAL), None)
    other = asked if asked is not found else None
    return Verdict(
        kind=found.kind,
        rule=found.rule.name,
        reason=f"{found.words} ({found.rule.place})",
        needs_person=asked is not None,
        approval="" if other is None else other.rule.name,
        approval_reason="" if other is None else f"{other.words} ({other.rule.place})",
    )


def find_doubts(rules: Sequence[Rule], subjects: Sequence[Subject], presets: Iterable[str]) -> Iterator[Finding]:
    """Warnings about rules, those of `presets` (files) left out: the user did not write them."""
    shipped = frozenset(presets)
    own = [rule for rule in rules if rule.place.path not in shipped and not isinstance(rule.asks, BrokenRule)]
    if not subjects or not own:
        return
    yield from _without_scope(own, subjects)
    yield from _repeated(own, rules)
    yield from _opposed(rules, subjects)
    yield from _never_tight(own, rules, subjects)


def _without_scope(own: Iterable[Rule], subjects: Iterable[Subject]) -> Iterator[Finding]:
    for rule in own:
        if not any(covers(rule.scope, subject) for subject in subjects):
            yield _warning(rule, "has a scope that matches no variant", "rule-without-scope")


def _repeated(own: Iterable[Rule], rules: Sequence[Rule]) -> Iterator[Finding]:
    for rule in own:
        others = (each for each in rules if each.place != rule.place)
        twin = next((each for each in others if (each.asks, each.scope) == (rule.asks, rule.scope)), None)
        if twin is not None:
            yield _warning(rule, f"says the same as rule {twin}", "rule-repeated")


def _opposed(rules: Iterable[Rule], subjects: Iterable[Subject]) -> Iterator[Finding]:
    """Rules that no number keeps together, once a pair, with the first variant that they hold."""
    book = RuleBook(rules)
    told: set[tuple[Place, ...]] = set()
    for subject in subjects:
        conflict = book.limits(subject).conflict
        pair = tuple(rule.place for rule in conflict)
        if conflict and pair not in told:
            told.add(pair)
            words = f"leaves {subject.variant.key.label} no number of replicas together with rule {conflict[1]}"
            yield _warning(conflict[0], words, "rules-opposed")


def _never_tight(own: Iterable[Rule], rules: Sequence[Rule], subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Bounds of which every variant in scope has tighter ones by other rules."""
    bounds = [rule for rule in rules if isinstance(rule.asks, BoundsRule)]
    books = [(rule, RuleBook([rule]), RuleBook([each for each in bounds if each is not rule])) for rule in bounds]
    mine = {id(rule) for rule in own}
    for rule, alone, others in books:
        covered = [subject for subject in subjects if covers(rule.scope, subject)]
        if id(rule) not in mine or not covered:
            continue
        if all(_is_looser(alone, others, subject) for subject in covered):
            other = others.limits(covered[0])
            tighter = other.cap or other.floor
            if tighter is not None:
                yield _warning(rule, f"is never tight: rule {tighter.rule} is tighter", "rule-shadowed")


def _is_looser(alone: RuleBook, others: RuleBook, subject: Subject) -> bool:
    mine, theirs = alone.limits(subject), others.limits(subject)
    if theirs.conflict:
        return False
    is_above = mine.most is None or (theirs.most is not None and theirs.most < mine.most)
    return is_above and (mine.least == 0 or theirs.least > mine.least)


def _warning(rule: Rule, words: str, name: str) -> Finding:
    return Finding(place=rule.place, severity=Severity.WARNING, message=f"rule {rule.name} {words}", rule=name)
