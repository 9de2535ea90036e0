"""Checkup: what `doctor` looked at, whether it is well, and what to do where it is not."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.identity import Place


class Level(StrEnum):
    """How something is: FAIL keeps us from working, WARN makes us work worse."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


class Cause(StrEnum):
    """Whose it is to mend a failure."""

    INPUT = "input"
    """an author of the repository: a resource, an annotation"""
    OUTSIDE = "outside"
    """nobody perhaps: Prometheus, git or the forge failed, and the next run may succeed"""
    CONFIGURATION = "configuration"
    """the operator: command line, configuration, credentials, rights"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    `subject` is `git`, `forge`, `settings` or a cluster, `rule` names in kebab case what was looked at, `words` say
    what was found, `cure` the exact thing to do (empty: nothing), and `place` where to do it.
    """

    level: Level
    subject: str
    rule: str
    words: str
    cure: str = ""
    place: Place | None = None
    cause: Cause = Cause.INPUT


def well(subject: str, rule: str, words: str) -> Check:
    """What is as it should be."""
    return Check(level=Level.OK, subject=subject, rule=rule, words=words)


def warning(subject: str, rule: str, words: str, cure: str, place: Place | None = None) -> Check:
    """What works worse than it could."""
    return Check(level=Level.WARN, subject=subject, rule=rule, words=words, cure=cure, place=place)
