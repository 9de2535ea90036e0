"""Which pull requests are worth opening: a forecast differs a little from run to run, and no pull request should."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from reconciler.decision.staged_plan import Situation
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.plan import Decision, GroupPlan
from reconciler.domain.proposals import ProposalState
from reconciler.domain.records import replace
from reconciler.domain.settings import Worth
from reconciler.simulation.through_git import SHORT_NOW, asked_by

LATE = 0.1
"""So far a latency may exceed its target before that cannot wait."""
BY_FORECAST = Worth()
"""What a group must be short or over by where forecasts decide all of its changes, and nothing is set."""


def worth_opening(situation: Situation, plans: Sequence[GroupPlan]) -> tuple[GroupPlan, ...]:
    """The plans, of which those wait that are not open yet and change too few of their group's replicas.

    All that differs in a part of a group goes once that is short or over by enough, or its pull request is open. What
    repairs a target, moves to another accelerator or takes a merge back never waits.
    """
    waiting = dict(_waiting(situation, plans))
    return tuple(
        replace(plan, blocked=Hold(kind=HoldKind.PUT_BACK, words=waiting[plan.head_branch]))
        if plan.head_branch in waiting and plan.blocked is None
        else plan
        for plan in plans
    )


def _waiting(situation: Situation, plans: Sequence[GroupPlan]) -> Iterator[tuple[str, str]]:
    """By head branch why its changes wait."""
    proposals = situation.snapshot.proposals
    standing = {each.head_branch for each in proposals if each.state is ProposalState.OPEN}
    replicas: Counter[str] = Counter()
    for plan in plans:
        replicas[plan.name] += sum(decision.current.replicas for decision in plan.decisions)
    for plan in plans:
        changes, whole = plan.changes, replicas[plan.name]
        worth = _asked(situation, changes) if changes else None
        if worth is None or plan.head_branch in standing:
            continue
        if any(_goes_at_once(situation, change) for change in changes):
            continue
        more = [change.desired.replicas - change.current.replicas for change in changes]
        short, over = sum(each for each in more if each > 0), -sum(each for each in more if each < 0)
        missing, spare = (float(each) for each in asked_by(worth, np.array(float(whole))))
        if short <= missing and over <= spare:
            asked = f"more than {math.floor(missing)} missing or {math.floor(spare)} too many"
            words = f"{short} of {whole} replicas are missing, {over} too many: pullRequests.worth asks for {asked}"
            yield plan.head_branch, words


def _asked(situation: Situation, changes: Sequence[Decision]) -> Worth | None:
    """What is set, else what holds where forecasts decide; None where a change goes however small."""
    given = situation.snapshot.settings.pull_requests.worth
    if given is not None:
        return given
    decided = (situation.formulated.demands.get(change.model) for change in changes)
    return BY_FORECAST if all(each is not None and each.forecast is not None for each in decided) else None


def _goes_at_once(situation: Situation, change: Decision) -> bool:
    """Whether it cannot wait: it moves, takes back, tries, or its model is short at the load of now."""
    formulated = situation.formulated
    is_move = change.desired.accelerator != change.current.accelerator
    if is_move or change.reverts is not None or change.canary is not None:
        return True
    model = formulated.needs.owner_of.get(change.variant)
    if model is None:
        return True
    carried = formulated.needs.total(model, situation.current)
    return formulated.load_of(model) > carried * (1 + SHORT_NOW) or _misses(change)


def _misses(change: Decision) -> bool:
    """Whether a target is missed now, as measured."""
    seen = change.observed
    means = ((slo, None if seen is None else seen.mean_s(slo.name)) for slo in change.slos)
    return any(mean is not None and mean > slo.target_s * (1 + LATE) for slo, mean in means)
