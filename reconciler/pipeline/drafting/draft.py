"""Draft: the plan becomes proven edits and texts; what cannot be written goes back to decide."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.decision.after_merge.promising import promise_of
from reconciler.decision.decide import solve
from reconciler.decision.proposing.limits import within_limits
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import GroupPlan, Outcome, Plan
from reconciler.domain.proposals import ChangeSet, Draft, Edited
from reconciler.domain.recording import Recording
from reconciler.domain.reported.pages import Pages
from reconciler.domain.snapshot import Snapshot
from reconciler.forge.marker import Marker, write_marker
from reconciler.pipeline.drafting.checking import Checker, has_rules
from reconciler.pipeline.drafting.conditions import draft_conditions
from reconciler.pipeline.drafting.desk import Desk, VariantEdits, refusal_of
from reconciler.pipeline.drafting.edits import Editor
from reconciler.pipeline.drafting.touching import find_touching
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import (
    PLAIN,
    commit_view,
    conditions_commit_view,
    conditions_view,
    fewer_rows,
    pull_request_view,
    reductions,
)
from reconciler.report.summary import LABELS_OF_KINDS, labels_for


def draft_plan(snapshot: Snapshot, recording: Recording, renderer: Renderer) -> tuple[Plan, Edited]:
    """The plan and its edits, decided again until every change that is shown can be written, and is valid then.

    Each round pins or binds at least one more variant, so it ends; nearly always the first round is the last.
    """
    files = {manifest.path: manifest.body for manifest in recording.manifests}
    checker = Checker(recording=recording)
    refused: dict[ResourceKey, Hold] = {}
    bonds: set[frozenset[ResourceKey]] = set()
    solved = solve(snapshot, refused)
    while True:
        plan = solved.plan_of(solved.staged, bonds)
        edited = _edit(plan, snapshot, files, renderer, checker)
        if not edited.refused and edited.bonds <= bonds:
            told = _tell_files(plan, edited)
            return replace(told, groups=within_limits(solved.situation, told.groups)), edited
        if edited.refused:  # who is only bound to others gets what was decided
            refused.update(edited.refused)
            solved = solve(snapshot, refused)
        bonds |= edited.bonds


def _tell_files(plan: Plan, edited: Edited) -> Plan:
    """The plan, whose moves say in which files they are written, and whose changes which status is not.

    Behind the parts of a group stands the one that tells of conditions alone, if there is any.
    """
    groups: Iterable[GroupPlan] = plan.groups
    if edited.moved_in or edited.omissions:
        groups = (_tell_group(group, edited) for group in groups)
    flipped = [
        GroupPlan(name=each.group, part=each.part, head_branch=each.head_branch, decisions=(), flips=each.flips)
        for each in edited.change_sets
        if each.flips
    ]
    return replace(plan, groups=tuple(sorted((*groups, *flipped), key=lambda group: group.name)))


def _tell_group(group: GroupPlan, edited: Edited) -> GroupPlan:
    decisions = (
        replace(
            each,
            moved_in=edited.moved_in.get(each.variant, ()),
            status_omitted=edited.omissions.get(each.variant, ""),
        )
        for each in group.decisions
    )
    return replace(group, decisions=tuple(decisions))


def _edit(plan: Plan, snapshot: Snapshot, files: Mapping[str, bytes], renderer: Renderer, checker: Checker) -> Edited:
    desk = Desk(snapshot=snapshot, files=files, editor=Editor(renderer=renderer))
    change_sets = tuple(_change_set(group, plan, desk) for group in plan.groups if group.changes)
    if not desk.refused:
        _refuse_invalid(change_sets, desk, checker)
    return Edited(
        change_sets=(*change_sets, *draft_conditions(plan, desk)),
        refused=desk.refused,
        bonds=frozenset((*find_touching(change_sets, desk.written_alone, files), *desk.find_carried_together(plan))),
        omissions=desk.omissions,
        moved_in=desk.moved_in,
    )


def _change_set(group: GroupPlan, plan: Plan, desk: Desk) -> ChangeSet:
    edits = {decision.variant: desk.edits_of(decision) for decision in group.changes}
    riding = ((each.variant, desk.status_of(each)) for each in group.decisions if each.outcome is not Outcome.CHANGE)
    edits |= {variant: VariantEdits(needed=(), status=status) for variant, status in riding if status}
    beside = [each for part in plan.groups if part.name == group.name for each in part.decisions]
    told = (*group.changes, *(each for each in beside if each.outcome is not Outcome.CHANGE))
    files = desk.deliver(group.name, told, edits, [each.variant for each in group.changes])
    for path in files:
        desk.carriers.setdefault(path, []).append(group.head_branch)
    desk.drawn[group.head_branch] = edits
    return ChangeSet(
        group=group.name,
        part=group.part,
        head_branch=group.head_branch,
        decision=group.fingerprint,
        files={**desk.apply(edits), **files},
        changes=tuple(sorted(decision.change.proposed for decision in group.changes)),
    )


def _refuse_invalid(change_sets: Sequence[ChangeSet], desk: Desk, checker: Checker) -> None:
    """Refuse the changes that our own validation refuses; each change set is valid by itself."""
    ruled = [each for each in change_sets if any(has_rules(desk.variants[key]) for key in desk.drawn[each.head_branch])]
    writers = Counter(path for each in ruled for path in each.files)
    together = {path: body for each in ruled for path, body in each.files.items()}
    is_wrong = bool(together and checker.find_errors(together))
    for change_set in ruled:
        if is_wrong or any(writers[path] > 1 for path in change_set.files):
            _refuse_of(change_set, desk, checker)


def _refuse_of(change_set: ChangeSet, desk: Desk, checker: Checker) -> None:
    """One variant after the other: refused is what makes an error with those before it."""
    drawn = desk.drawn[change_set.head_branch]
    found = checker.find_errors(change_set.files)
    paths = {error.place.path for error in found}
    kept: dict[ResourceKey, VariantEdits] = {}
    for key, edits in sorted(drawn.items()) if found else ():
        if not edits.needed or paths.isdisjoint(edit.path for edit in edits.all):
            continue
        errors = checker.find_errors(desk.apply({**kept, key: edits}))
        if errors:
            desk.refused[key] = refusal_of(errors[0])
        else:
            kept[key] = edits
    if found and desk.refused.keys().isdisjoint(drawn):  # the rule that is broken stands in another file
        changing = (key for key, edits in drawn.items() if edits.needed)
        desk.refused.update(dict.fromkeys(changing, refusal_of(found[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How texts are written: for which forge, with which labels (None: ours), and signed off by whom.

    `labels_of_rules` are all that rules may give.
    """

    body_limit: int
    pages: Pages = PLAIN
    labels: tuple[str, ...] | None = None
    labels_of_rules: tuple[str, ...] = ()
    sign_off: str = ""


def write_texts(plan: Plan, edited: Edited, renderer: Renderer, style: Style) -> tuple[Draft, ...]:
    """The drafts: each change set with its commit message, title, labels and a body that keeps to the limit."""
    groups = {group.head_branch: group for group in plan.groups}
    return tuple(
        _draft(plan, groups[change_set.head_branch], change_set, renderer, style) for change_set in edited.change_sets
    )


def _draft(plan: Plan, group: GroupPlan, change_set: ChangeSet, renderer: Renderer, style: Style) -> Draft:
    marker = write_marker(
        Marker(
            group=group.name,
            part=group.part,
            decision=change_set.decision,
            changes=change_set.changes,
            promises=tuple(map(promise_of, group.changes)),
            merges=group.merges is not None,
        )
    )
    if group.flips:
        return _draft_of_flips(plan, group, change_set, renderer, style, marker)
    view = pull_request_view(plan, group, pages=style.pages, marker=marker)
    body = renderer.render_within("pull_request/body.md.j2", reductions(view), limit=style.body_limit, marker=marker)
    given = [change.labels for change in group.changes]
    labels = _joined(labels_for(group.changes) if style.labels is None else style.labels, *given)
    of_ours = (*(LABELS_OF_KINDS if style.labels is None else ()), *style.labels_of_rules)
    return Draft(
        change_set=change_set,
        commit_message=renderer.render("commit/message.j2", commit_view(group, sign_off=style.sign_off)),
        title=renderer.render("pull_request/title.j2", view).strip(),
        body=body,
        labels=labels,
        unfit_labels=tuple(label for label in of_ours if label not in labels),
        reviewers=_joined(*(change.reviewers for change in group.changes)),
        merges=group.merges is not None,
    )


def _draft_of_flips(
    plan: Plan, group: GroupPlan, change_set: ChangeSet, renderer: Renderer, style: Style, marker: str
) -> Draft:
    view = conditions_view(plan, group, pages=style.pages, marker=marker)
    template, limit = "pull_request/conditions.md.j2", style.body_limit
    return Draft(
        change_set=change_set,
        commit_message=renderer.render("commit/message.j2", conditions_commit_view(group, sign_off=style.sign_off)),
        title=renderer.render("pull_request/title.j2", view).strip(),
        body=renderer.render_within(template, fewer_rows(view), limit=limit, marker=marker),
        labels=labels_for(()) if style.labels is None else style.labels,
    )


def _joined(*texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))
