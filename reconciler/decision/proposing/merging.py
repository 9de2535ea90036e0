"""Which pull requests merge by themselves, by which rules, and what keeps one from it for now."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from reconciler.decision.after_merge.outcomes import why_unsettled
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.plan import Decision, GroupPlan, MergeTerms
from reconciler.domain.proposals import Part, ProposalState

HOUR_S = 3600.0


def with_merge_terms(
    situation: Situation, staged: StagedPlan, plans: Iterable[GroupPlan], decisions: Collection[Decision]
) -> tuple[GroupPlan, ...]:
    """The plans of all groups, with how those merge that need no person."""
    left = _merged_lately(situation)
    found = ((plan, _terms(situation, staged, plan, left)) for plan in plans)
    return tuple(
        plan if terms is None else replace(plan, merges=_with_waits(situation, plan, terms, decisions))
        for plan, terms in found
    )


def _merged_lately(situation: Situation) -> int:
    """Pull requests of ours that were merged in the last hour, whoever merged them."""
    now_s = situation.snapshot.now_s
    merged = (each for each in situation.snapshot.proposals if each.state is ProposalState.MERGED)
    return sum(each.closed_at_s is None or now_s - each.closed_at_s < HOUR_S for each in merged)


def _terms(situation: Situation, staged: StagedPlan, plan: GroupPlan, lately: int) -> MergeTerms | None:
    """How a part merges by itself: nothing in it needs a person, and the settings or a rule want each change to.

    Of a change with a caution a person should know, who is about to merge it; and of one that serves a model worse, for
    a rule or somebody more urgent has its replicas.
    """
    settings = situation.snapshot.settings.pull_requests
    changes = plan.changes
    needs_person = plan.part not in (Part.URGENT, Part.AUTO) or any(
        not each.verdict.may_merge_itself or each.caution or _takes_what_is_needed(each) for each in changes
    )
    if not changes or needs_person or settings.auto_merge is False:
        return None
    said = [[each for each in staged.said.get(change.variant, ()) if each.merges_per_hour] for change in changes]
    if not settings.auto_merge and not all(said):
        return None
    limits = {str(each.rule): each.merges_per_hour or 0.0 for spoken in said for each in spoken}
    per_hour = int(min([settings.merges_per_hour, *limits.values()]))
    return MergeTerms(rules=tuple(limits), per_hour=per_hour, left=max(per_hour - lately, 0))


def _takes_what_is_needed(change: Decision) -> bool:
    """Whether less is carried than now, and less than the demand or without keeping a target that is kept now."""
    before, after = change.capacity_before, change.capacity_after
    if after is None or (before is not None and after >= before):
        return False
    is_missed = any(slo.is_met_after is False and slo.is_met_before is not False for slo in change.slos)
    return is_missed or (change.demand is not None and change.demand > after)


def _with_waits(
    situation: Situation, plan: GroupPlan, terms: MergeTerms, decisions: Collection[Decision]
) -> MergeTerms:
    merged = (each for each in situation.proposals[plan.name] if each.state is ProposalState.MERGED)
    waits = why_unsettled(situation.snapshot, merged, decisions)
    if not waits and not terms.left:
        waits = f"at most {terms.per_hour} of our pull requests are merged in an hour"
    return replace(terms, waits=waits)
