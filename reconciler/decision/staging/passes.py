"""The passes that a plan goes through between the optimizer and its pull requests, in their order."""

from reconciler.decision.staging.draining import keep_serving
from reconciler.decision.staging.growth import prove_growth
from reconciler.decision.staging.independence import make_independent
from reconciler.decision.staging.keeping import tell_what_is_kept
from reconciler.decision.staging.open_proposals import keep_open_proposals
from reconciler.decision.staging.plausible import hold_implausible
from reconciler.decision.staging.promises import keep_promises
from reconciler.decision.staging.staged_plan import Pass, Situation, StagedPlan
from reconciler.decision.staging.verdicts import give_verdicts, keep_to_limits, obey_rules
from reconciler.domain.solutions import Solution

PASSES: tuple[Pass, ...] = (
    hold_implausible,
    keep_open_proposals,
    keep_promises,
    keep_to_limits,
    prove_growth,
    keep_serving,
    make_independent,
    obey_rules,
    tell_what_is_kept,
    give_verdicts,
)


def stage(situation: Situation, solution: Solution) -> StagedPlan:
    """What may be proposed of a solution."""
    staged = StagedPlan.aimed_at(situation, solution)
    for each in PASSES:
        staged = each(situation, staged)
    return staged
