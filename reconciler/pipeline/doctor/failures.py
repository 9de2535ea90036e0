"""Errors as checks that failed."""

from reconciler.domain.identity import Place
from reconciler.domain.reported.checkup import Cause, Check, Level
from reconciler.errors import ConfigurationError, InputError, ReconcilerError


def failed(subject: str, rule: str, words: str, cure: str = "", *, cause: Cause, place: Place | None = None) -> Check:
    """What keeps us from working."""
    return Check(level=Level.FAIL, subject=subject, rule=rule, words=words, cure=cure, place=place, cause=cause)


def failed_by(subject: str, rule: str, error: ReconcilerError, cure: str = "") -> Check:
    """An error, whose own words mostly say what to do."""
    return failed(subject, rule, str(error), cure, cause=_cause_of(error))


def _cause_of(error: ReconcilerError) -> Cause:
    if isinstance(error, ConfigurationError):
        return Cause.CONFIGURATION
    return Cause.INPUT if isinstance(error, InputError) else Cause.OUTSIDE
