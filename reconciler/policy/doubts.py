"""What `validate` says of rules that can be read, and yet cannot be meant: nothing in scope, never tight, opposed."""

from collections.abc import Iterable, Iterator, Sequence

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.rules import BoundsRule, BrokenRule, Rule
from reconciler.policy.judging import RuleBook
from reconciler.policy.scopes import covers
from reconciler.policy.subjects import Subject


def find_doubts(rules: Sequence[Rule], subjects: Sequence[Subject], presets: Iterable[str]) -> Iterator[Finding]:
    """Warnings about rules, those of `presets` (files) left out: nobody here wrote them."""
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
            words = f"leaves {subject.variant.key.label} no number of replicas beside rule {conflict[1]}"
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
