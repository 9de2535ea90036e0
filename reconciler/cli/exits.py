"""Exit codes: what a script learns. The largest that applies; 1, a bug, stands alone."""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.reports import Cause, Check, Level
from reconciler.errors import ConfigurationError, InputError, ReconcilerError

if TYPE_CHECKING:
    from reconciler.domain.plan import Plan


class Exit(IntEnum):
    """The exit codes, as documented."""

    FINISHED = 0
    BUG = 1
    CHANGES = 2
    INPUT = 3
    TRANSIENT = 4
    CONFIGURATION = 5
    INTERRUPTED = 130
    TERMINATED = 143


def exit_for(error: ReconcilerError) -> Exit:
    """The code of an expected failure."""
    if isinstance(error, ConfigurationError):
        return Exit.CONFIGURATION
    return Exit.INPUT if isinstance(error, InputError) else Exit.TRANSIENT


def exit_of_findings(findings: Iterable[Finding], *, strict: bool = False) -> Exit:
    """INPUT when an error is among them, or with `strict` a warning."""
    worst = {finding.severity for finding in findings}
    fails = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return Exit.INPUT if worst & fails else Exit.FINISHED


def exit_of_checks(checks: Iterable[Check]) -> Exit:
    """The code of the gravest failure; a warning fails nothing."""
    codes = {Cause.INPUT: Exit.INPUT, Cause.OUTSIDE: Exit.TRANSIENT, Cause.CONFIGURATION: Exit.CONFIGURATION}
    return max((codes[check.cause] for check in checks if check.level is Level.FAIL), default=Exit.FINISHED)


def exit_of_plan(plan: "Plan", *, detailed: bool = False, fails_when_held: bool = False) -> Exit:
    """The code of a finished plan; `detailed` tells changes apart, `fails_when_held` a plan that held everything."""
    codes = [exit_of_findings(plan.findings)]
    if plan.refusals:
        codes.append(Exit.CONFIGURATION)
    if plan.failures:
        codes.append(Exit.TRANSIENT)
    if fails_when_held and plan.is_all_held:
        codes.append(Exit.INPUT)
    if detailed and plan.proposes:
        codes.append(Exit.CHANGES)
    return max(codes)
