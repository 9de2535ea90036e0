"""Conditions that flip although nothing changes: a pull request of their own, at most once a day a group."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.decision.staging.branches import head_branch
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Plan, flips_fingerprint
from reconciler.domain.proposals import ChangeSet, ConditionFlip, Part
from reconciler.domain.settings import DELIVER_CONDITIONS
from reconciler.pipeline.drafting.desk import Desk, VariantEdits, is_left_alone
from reconciler.report.formatting import one_line
from reconciler.report.status import StatusOmission, flips, status_view

DAY_S = 86_400.0


def draft_conditions(plan: Plan, desk: Desk) -> Iterator[ChangeSet]:
    """What every group without a change tells the cluster of, where that is asked for and due.

    Conditions that flip ride along with a change, so a group with one has none to tell by themselves.
    """
    if desk.snapshot.settings.status != DELIVER_CONDITIONS:
        return
    for name, parts in groupby(plan.groups, key=lambda group: group.name):
        members = list(parts)
        decisions = [each for part in members for each in part.decisions if not is_left_alone(each)]
        if not any(part.changes for part in members) and _is_due(name, decisions, desk):
            yield from _draft(name, decisions, desk)


def _is_due(group: str, decisions: Sequence[Decision], desk: Desk) -> bool:
    """Whether a day has passed since any carrier of the group was made."""
    variants = (desk.variants[each.variant] for each in decisions if each.variant in desk.variants)
    last_s = max((desk.deliverer.delivered_s(group, each) for each in variants), default=0.0)
    return desk.snapshot.now_s - last_s >= DAY_S


def _draft(group: str, decisions: Sequence[Decision], desk: Desk) -> Iterator[ChangeSet]:
    """One part, where there is a flip that can be written and delivered."""
    found = {each.variant: told for each in decisions if (told := tuple(_flips(each, desk)))}
    statuses = {each.variant: desk.status_of(each) for each in decisions if each.variant in found}
    edits = {key: VariantEdits(needed=(), status=status) for key, status in statuses.items() if status}
    files = _files(group, decisions, edits, desk)
    if not files:
        return
    told = tuple(sorted(flip for key in edits for flip in found[key]))
    yield ChangeSet(
        group=group,
        part=Part.STATUS,
        head_branch=head_branch(desk.snapshot.settings.git.branch_prefix, group, Part.STATUS),
        decision=flips_fingerprint(told),
        files=files,
        changes=(),
        flips=told,
    )


def _flips(decision: Decision, desk: Desk) -> Iterator[ConditionFlip]:
    variant = desk.variants.get(decision.variant)
    if variant is None or variant.delivery is None or variant.delivery.reason:
        return
    view = status_view(decision, now_s=desk.snapshot.now_s, previous=variant.conditions)
    for before, after in () if isinstance(view, StatusOmission) else flips(view, variant.conditions):
        yield ConditionFlip(
            variant=variant.key,
            type=after.type,
            before=one_line(before.status),
            after=after.status,
            reason=f"{after.reason}: {after.message}",
        )


def _files(
    group: str, decisions: Sequence[Decision], edits: dict[ResourceKey, VariantEdits], desk: Desk
) -> Mapping[str, bytes]:
    """The statuses in Git and the carriers of those that flipped; none where no carrier can be written."""
    carriers = desk.deliver(group, decisions, edits, news=list(edits)) if edits else {}
    return {**desk.apply(edits), **carriers} if carriers else {}
