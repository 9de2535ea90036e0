"""Who gets less than it needs, in words: need, given, what stays unserved, and what decided that."""

from collections.abc import Iterable, Sequence

from reconciler.domain.plan import Decision, Outcome, Plan
from reconciler.domain.solutions import ModelCoverage
from reconciler.report.numbers import quantity
from reconciler.report.plain import model_name, one_line

WORTH_TELLING = 1e-3
"""Below a thousandth of its need a model lacks nothing that could be measured."""
_NAMED = 3


def losers(plan: Plan, decisions: Iterable[Decision]) -> tuple[str, ...]:
    """One sentence for each model of `decisions` that gets less than it needs, the most urgent and the worst first.

    A model all of whose variants are held is told with what is held.
    """
    decided = {each.model for each in decisions if each.outcome is not Outcome.HELD}
    short = [each for each in plan.coverages if each.model in decided and each.unserved > WORTH_TELLING * each.needed]
    short.sort(key=lambda each: (-each.priority, -each.unserved / each.needed, each.model))
    return tuple(_sentence(each) for each in short)


def _sentence(coverage: ModelCoverage) -> str:
    given, needed, unserved = (
        quantity(value, coverage.unit) for value in (coverage.given, coverage.needed, coverage.unserved)
    )
    return (
        f"{model_name(coverage.model)} gets {given} of the {needed} {coverage.unit} it needs, "
        f"{unserved} {coverage.unit} stay unserved{_why(coverage)}"
    )


def _why(coverage: ModelCoverage) -> str:
    if not coverage.competes_for:
        return ""
    full = f"{_listed(coverage.competes_for)} {'is' if len(coverage.competes_for) == 1 else 'are'} full"
    if coverage.decided_at is None:
        return f": {full}"
    first = f"priority {coverage.decided_at} goes first"
    if coverage.decided_at == coverage.priority:
        first = f"it shares priority {coverage.priority}"
    rivals = _listed([model_name(rival) for rival in coverage.rivals])
    return f": {full}, {first}" + (f" ({rivals})" if rivals else "")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, limit=60) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
