"""Which pull request of its group a change goes into, and which changes only one pull request may hold."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from reconciler.decision.proposing.blocking import why_kept
from reconciler.decision.staging.devices import DeviceRoom
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.plan import Decision
from reconciler.domain.proposals import Part, Proposal

Bonds = Collection[frozenset[ResourceKey]]
"""Sets of variants of one group whose changes one pull request holds."""

_LAX_TO_STRICT = (Part.AUTO, Part.URGENT, Part.APPROVAL)


def part_of(change: Decision) -> Part:
    """Where a change belongs by itself: what repairs a target before all else, then what a person must agree to."""
    if _repairs(change) or change.reverts is not None:
        return Part.URGENT
    return Part.AUTO if change.verdict.may_merge_itself else Part.APPROVAL


def split_into_parts(
    situation: Situation, staged: StagedPlan, changes: Collection[Decision], bonds: Bonds, kept: Mapping[str, Hold]
) -> dict[ResourceKey, Part]:
    """The part of every change: its own, or the strictest of those that it cannot be parted from.

    These are the same model's, the ones that `bonds` name, and the ones in a pool of devices that could not hold every
    part if it were merged alone. What an open pull request says already stays in it; `kept` is why some must stay.
    """
    parts = {change.variant: part_of(change) for change in changes}
    bonds = [*_models(changes), *(frozenset(bond & parts.keys()) for bond in bonds)]
    standing = dict(_standing(situation, changes, kept))
    while True:
        parts = _joined(parts, bonds, standing)
        shared = [bond for bond in _sharing_devices(situation, staged, parts) if len({parts[key] for key in bond}) > 1]
        if not shared:
            return parts
        bonds += shared


def _repairs(change: Decision) -> bool:
    """Whether it adds capacity to what lacks it: a target missed, replicas too full, or less than is asked for."""
    before, after = change.capacity_before, change.capacity_after
    is_known = before is not None and after is not None
    is_more = _exceeds(after, before) if is_known else change.desired.replicas > change.current.replicas
    is_late = any(slo.is_met_before is False for slo in change.slos)
    is_full = change.fullness is not None and (change.fullness.before or 0.0) > change.fullness.limit
    return is_more and (is_late or is_full or _exceeds(change.demand, before))


def _exceeds(amount: float | None, other: float | None) -> bool:
    return amount is not None and other is not None and amount > other


def _models(changes: Iterable[Decision]) -> list[frozenset[ResourceKey]]:
    members: dict[tuple[str, ModelKey], set[ResourceKey]] = {}
    for change in changes:
        members.setdefault((change.group, change.model), set()).add(change.variant)
    return [frozenset(each) for each in members.values()]


def _standing(
    situation: Situation, changes: Collection[Decision], kept: Mapping[str, Hold]
) -> Iterator[tuple[ResourceKey, tuple[Part, bool]]]:
    """Where changes are proposed already: the part, and whether nothing may be written to that pull request."""
    groups = {change.group for change in changes}
    told = {
        (group, each.resource): (part, _is_fixed(situation, proposal, kept), each)
        for group in groups
        for part, proposal in situation.open_proposals(group).items()
        for each in proposal.changes
    }
    for change in changes:
        if (change.group, str(change.variant)) in told:
            part, is_fixed, proposed = told[change.group, str(change.variant)]
            if is_fixed or proposed.merged(change.current) == change.desired:
                yield change.variant, (part, is_fixed)


def _is_fixed(situation: Situation, proposal: Proposal, kept: Mapping[str, Hold]) -> bool:
    return proposal.is_left_alone or why_kept(situation, [proposal], kept) is not None


def _joined(
    parts: Mapping[ResourceKey, Part], bonds: Bonds, standing: Mapping[ResourceKey, tuple[Part, bool]]
) -> dict[ResourceKey, Part]:
    """Bonds first, for nobody undoes them; a whole one stays where it stands, if all of it is proposed there."""
    joined = dict(parts)
    for members in _components(parts, bonds):
        part = max((parts[key] for key in members), key=_LAX_TO_STRICT.index)
        places = {standing.get(key) for key in members}
        fixed = sorted({place[0] for place in places if place is not None and place[1]})
        whole = next(iter(places)) if len(places) == 1 else None
        if fixed:
            part = fixed[0]
        elif whole is not None and (whole[0] is not Part.AUTO or part is Part.AUTO):
            part = whole[0]
        joined.update(dict.fromkeys(members, part))
    return joined


def _components(keys: Iterable[ResourceKey], bonds: Bonds) -> list[frozenset[ResourceKey]]:
    """The keys in the smallest sets that no bond crosses."""
    component = {key: frozenset({key}) for key in keys}
    for bond in bonds:
        union = frozenset().union(*(component[key] for key in bond))
        component.update(dict.fromkeys(union, union))
    return list(dict.fromkeys(component.values()))


def _sharing_devices(
    situation: Situation, staged: StagedPlan, parts: Mapping[ResourceKey, Part]
) -> Iterator[frozenset[ResourceKey]]:
    """The changes of each group in a pool that could not hold all parts, were each merged without the others."""
    by_group: dict[str, set[Part]] = {}
    for key, part in parts.items():
        by_group.setdefault(situation.group_of[key], set()).add(part)
    if not situation.formulated.problem.pools or all(len(each) == 1 for each in by_group.values()):
        return
    apart = {key: f"{group}\0{parts.get(key, '')}" for key, group in situation.group_of.items()}
    room = DeviceRoom(situation, staged, apart)
    for pool in room.overfull():
        for group, each in by_group.items():
            if len(each) > 1:
                yield frozenset(key for key in parts if situation.group_of[key] == group and room.holds(pool, key))
