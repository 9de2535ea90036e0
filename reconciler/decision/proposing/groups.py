"""The decisions of a plan as its pull requests: group by group, part by part."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from reconciler.decision.proposing.blocking import kept_resources, why_declined, why_kept
from reconciler.decision.proposing.merging import with_merge_terms
from reconciler.decision.proposing.parts import Bonds, split_into_parts
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, GroupPlan, Outcome
from reconciler.domain.proposals import Part


def group_plans(
    situation: Situation, staged: StagedPlan, decisions: Iterable[Decision], bonds: Bonds
) -> tuple[GroupPlan, ...]:
    """Every group with a plan for each part that changes something or is open; at least one.

    `bonds` are changes that only one pull request may hold, besides those that are found here.
    """
    decided = tuple(decisions)
    groups: dict[str, list[Decision]] = {}
    for decision in sorted(decided, key=lambda each: (each.group, each.variant)):
        groups.setdefault(decision.group, []).append(decision)
    changes = [each for members in groups.values() for each in members if each.outcome is Outcome.CHANGE]
    kept = kept_resources(situation, staged)
    parts = split_into_parts(situation, staged, changes, bonds, kept)
    plans = (
        plan for name, members in groups.items() for plan in _plans_of(situation, staged, name, members, parts, kept)
    )
    return with_merge_terms(situation, staged, plans, decided)


def _plans_of(
    situation: Situation,
    staged: StagedPlan,
    name: str,
    members: Sequence[Decision],
    parts: Mapping[ResourceKey, Part],
    kept: Mapping[str, Hold],
) -> Iterator[GroupPlan]:
    open_proposals = situation.open_proposals(name)
    changing = {parts[each.variant] for each in members if each.variant in parts}
    present = [part for part in Part if part in changing or part in open_proposals] or [Part.APPROVAL]
    first = next((part for part in present if part in changing), present[0])
    places = _places(members, parts, first)
    for part in present:
        decisions = tuple(each for each in members if places[each.variant] is part)
        changes = [each.change for each in decisions if each.outcome is Outcome.CHANGE]
        proposals = [open_proposals[part]] if part in open_proposals else []
        numbers = (staged.kept[each.variant] for each in decisions if each.variant in staged.kept)
        yield GroupPlan(
            name=name,
            part=part,
            head_branch=situation.head_branch(name, part),
            decisions=decisions,
            kept_proposal=next(numbers, None),
            blocked=why_kept(situation, proposals, kept) or why_declined(situation, name, changes),
        )


def _places(members: Collection[Decision], parts: Mapping[ResourceKey, Part], first: Part) -> dict[ResourceKey, Part]:
    """The part of every decision: what does not change stands beside what changes of its model, else in the first."""
    of_model = {each.model: parts[each.variant] for each in members if each.variant in parts}
    return {each.variant: of_model.get(each.model, first) for each in members}
