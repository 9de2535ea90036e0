"""What is said of each change: whether it may be published, and whether a person must agree."""

from dataclasses import replace

from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Outcome, Verdict, VerdictKind


def give_verdicts(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Give every resource its verdict; after all passes that change what one gets."""
    verdicts = {key: _verdict(situation, staged, key) for key in situation.group_of}
    return replace(staged, verdicts=verdicts)


def verdict_of(hold: Hold) -> Verdict:
    """What is said of a resource that is held."""
    return Verdict(kind=VerdictKind.HOLD, reason=hold.words)


def _verdict(situation: Situation, staged: StagedPlan, key: ResourceKey) -> Verdict:
    if key in staged.holds:
        return verdict_of(staged.holds[key])
    if staged.outcome(situation, key) is Outcome.UNCHANGED:
        return Verdict(kind=VerdictKind.ALLOW)
    return Verdict(kind=VerdictKind.NEEDS_APPROVAL, reason="no policy allows a change without a person")
