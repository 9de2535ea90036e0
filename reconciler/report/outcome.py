"""What became of a merged pull request, as its own text and a run's output tell it."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.domain.reported.outcomes import ChangeOutcome, MergedOutcome
from reconciler.report.plain import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeView:
    """What the template prints."""

    changes: tuple[ChangeOutcome, ...]
    is_broken: bool


def outcome_view(outcome: MergedOutcome) -> OutcomeView:
    """The end of a merged pull request's text."""
    return OutcomeView(changes=outcome.changes, is_broken=outcome.is_broken)


def outcome_lines(outcome: MergedOutcome) -> Iterator[str]:
    """The same for a terminal."""
    words = "did not do what it was merged for" if outcome.is_broken else "does what it was merged for"
    yield f"pull request #{outcome.number} {words}"
    yield from (f"   {one_line(each.resource)}: {one_line(each.words)}" for each in outcome.changes)
