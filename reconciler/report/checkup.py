"""A checkup as people and their scripts read it: a line each, and JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence

from reconciler.domain.reported.checkup import Check, Level
from reconciler.report.findings import MESSAGE_LENGTH
from reconciler.report.numbers import count
from reconciler.report.plain import GAP, hung, one_line, pad

JSON_VERSION = 1


def checkup_text(checks: Sequence[Check], *, width: int = 0) -> str:
    """`warn  us-east  what was found: what to do (file:line)`, then a line that counts; `width` 0 does not wrap."""
    levels = max(len(level) for level in Level)
    subjects = max((len(one_line(check.subject)) for check in checks), default=0)
    lines: list[str] = []
    for check in checks:
        head = GAP.join((pad(str(check.level), levels), pad(one_line(check.subject), subjects), ""))
        lines += hung(head, _words(check), width=width)
    return "\n".join([*lines, summary(checks)]) + "\n"


def summary(checks: Sequence[Check]) -> str:
    """`12 ok, 2 warnings, 1 failure`."""
    levels = Counter(check.level for check in checks)
    return f"{levels[Level.OK]} ok, {count(levels[Level.WARN], 'warning')}, {count(levels[Level.FAIL], 'failure')}"


def checkup_json(checks: Sequence[Check]) -> Mapping[str, object]:
    """What `--output json` prints; what a check does not have is null."""
    levels = Counter(check.level for check in checks)
    return {
        "version": JSON_VERSION,
        "counts": {level.lower(): levels[level] for level in Level},
        "checks": [_check_json(check) for check in checks],
    }


def _words(check: Check) -> str:
    parts = (one_line(part, limit=MESSAGE_LENGTH) for part in (check.words, check.cure) if part)
    text = ": ".join(parts)
    return f"{text} ({one_line(str(check.place))})" if check.place is not None and check.place.path else text


def _check_json(check: Check) -> Mapping[str, object]:
    place = check.place
    return {
        "level": check.level.lower(),
        "subject": check.subject,
        "rule": check.rule,
        "words": check.words,
        "cure": check.cure or None,
        "path": place.path if place else None,
        "line": (place.line or None) if place else None,
        "cause": str(check.cause) if check.level is Level.FAIL else None,
    }
