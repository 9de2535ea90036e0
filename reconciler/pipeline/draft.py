"""Draft: the plan becomes proven edits and texts; a change that cannot be written goes back to decide."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

from reconciler.aftermerge import promise_of
from reconciler.decision.decide import ordered, solve
from reconciler.decision.limits import collected, within_limits
from reconciler.decision.worth import worth_opening
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.plan import Decision, GroupPlan, Outcome, Pages, Plan, flips_fingerprint
from reconciler.domain.proposals import ChangeSet, ConditionFlip, Draft, Edited, Part, head_branch
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import AS_IS, DELIVER_CONDITIONS
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import MEASURED
from reconciler.forge.marker import Marker, write_marker
from reconciler.manifests.documents import mapping_of, parse_readable
from reconciler.pipeline.desk import Desk, VariantEdits, is_left_alone, refusal_of
from reconciler.pipeline.edits import Editor, is_untouched
from reconciler.rendering.renderer import Renderer
from reconciler.report.formatting import one_line
from reconciler.report.pull_request import (
    PLAIN,
    CommitView,
    ConditionsView,
    PullRequestView,
    commit_view,
    conditions_commit_view,
    conditions_view,
    fewer_rows,
    pull_request_view,
    reductions,
)
from reconciler.report.status import CARRIER, StatusOmission, flips, status_view, without_measured
from reconciler.report.summary import LABELS_OF_KINDS, labels_for, shaped
from reconciler.resources.annotations import PREFIX
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.canaries import find_difference
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.variants import declared_variants


def says_the_same(path: str, one: bytes, other: bytes) -> bool:
    """Whether both are the same bytes but for measured numbers in statuses; never where one cannot be read."""
    if one == other:
        return True
    bodies = [each.partition(b"\n")[2] if is_untouched(each) else each for each in (one, other)]
    if len({without_measured(each) for each in bodies}) > 1:
        return False
    (mine, my_errors), (theirs, their_errors) = (parse_readable(path, each) for each in (one, other))
    if my_errors or their_errors:
        return False
    return repr([_kept(each.value) for each in mine]) == repr([_kept(each.value) for each in theirs])


def _kept(value: object) -> object:
    """A document without its status and what a canary measured; of the carrier of statuses without what it carries.

    Of its Job it is without a name.
    """
    if not isinstance(value, Mapping):
        return value
    kept = {key: each for key, each in value.items() if key != "status"}
    metadata, kind = kept.get("metadata"), kept.get("kind")
    annotations = mapping_of(mapping_of(metadata).get("annotations"))
    if PREFIX + MEASURED.annotation in annotations:
        own = {key: each for key, each in annotations.items() if key != PREFIX + MEASURED.annotation}
        kept["metadata"] = metadata = {**mapping_of(metadata), "annotations": own}
    if not isinstance(metadata, Mapping) or not str(metadata.get("name", "")).startswith(CARRIER):
        return kept
    if kind == "ConfigMap":
        kept.pop("data", None)
    if kind == "Job":
        kept["metadata"] = {key: each for key, each in metadata.items() if key != "name"}
    return kept


_COUNTED_FREELY = frozenset({"Deployment", "StatefulSet", "LeaderWorkerSet"})
"""Kinds that take any number of replicas: reading their files again would cost a tenth of a large plan for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """Finds the errors that new files would bring to the commit of a recording."""

    recording: Recording

    def find_errors(self, files: Mapping[str, bytes]) -> tuple[Finding, ...]:
        """The errors that `validate` would find after these files are written, and not before."""
        errors = self._errors(files)
        known = {_complaint(error) for error in self._errors({})} if errors else set()
        return tuple(error for error in errors if _complaint(error) not in known)

    def declared(self, files: Mapping[str, bytes], keys: Container[ResourceKey]) -> dict[ResourceKey, Variant]:
        """Those of the variants that are declared once these files are written, by key."""
        variants = declared_variants(self.recording.settings, self._declaration(files), keys)
        return {each.key: each for each in variants}

    def find_differences(
        self, files: Mapping[str, bytes], planned: Iterable[Variant]
    ) -> Iterator[tuple[ResourceKey, str]]:
        """What new objects would not be as planned once these files are merged, by key."""
        wanted = {each.key: each for each in planned}
        declared = self.declared(files, wanted)
        for key, variant in wanted.items():
            written = declared.get(key)
            difference = find_difference(variant, written)
            place = None if written is None or written.workload is None else written.workload.copies_at
            if not difference and place is not None and place.reason:
                # It has a place as its original has, where nothing but its own file says what the cluster gets.
                difference = f"would not be what is written: {place.reason}"
            if difference:
                yield key, difference

    def _errors(self, files: Mapping[str, bytes]) -> list[Finding]:
        return [each for each in self._declaration(files).findings if each.severity is Severity.ERROR]

    def _declaration(self, files: Mapping[str, bytes]) -> Declaration:
        recording = self.recording
        bodies = {manifest.path: manifest.body for manifest in recording.manifests} | dict(files)
        manifests = tuple(ManifestFile(path=path, body=body) for path, body in sorted(bodies.items()))
        paths = {*recording.paths, *files}
        return read_declaration(manifests, recording.withheld, recording.settings, paths, recording.repository)


def has_rules(variant: Variant) -> bool:
    """Whether what holds a variant's count may refuse a number."""
    workload = variant.workload
    return workload is not None and (bool(workload.bounds_of) or workload.key.kind not in _COUNTED_FREELY)


def _complaint(finding: Finding) -> tuple[str, str, str]:
    """What is wrong and where; what is inserted above moves its line."""
    return finding.place.path, finding.place.field, finding.message


DAY_S = 86_400.0


def draft_conditions(plan: Plan, desk: Desk) -> Iterator[ChangeSet]:
    """What every group without a change tells the cluster of, where that is asked for and due.

    Conditions that flip ride along with a change, so a group with one has none to tell by themselves.
    """
    if desk.snapshot.settings.status != DELIVER_CONDITIONS:
        return
    for name, members in sorted(_members(plan).items()):
        decisions = [each for each in members if not is_left_alone(each)]
        is_changing = any(each.outcome is Outcome.CHANGE for each in members)
        if not is_changing and _is_due(name, decisions, desk):
            yield from _draft(name, decisions, desk)


def _members(plan: Plan) -> dict[str, list[Decision]]:
    """The decisions of every group, also where its changes are proposed with those of others."""
    members: dict[str, list[Decision]] = {}
    for each in plan.decisions:
        members.setdefault(each.group, []).append(each)
    return members


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
    carriers = desk.deliver({group: decisions}, edits, news=list(edits))[group] if edits else {}
    if not carriers:
        return
    told = tuple(sorted(flip for key in edits for flip in found[key]))
    yield ChangeSet(
        group=group,
        part=Part.STATUS,
        head_branch=head_branch(desk.snapshot.settings.git.branch_prefix, group, Part.STATUS),
        decision=flips_fingerprint(told),
        files={**desk.apply(edits), **carriers},
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


Bodies = Callable[[ChangeSet, str], Iterable[tuple[ResourceKey, bytes]]]
"""What each variant of a change set makes of a file by itself."""


class _Hunk(NamedTuple):
    """Lines of a file before the change, `end` excluded, with whose change it is."""

    start: int
    end: int
    variant: ResourceKey
    head_branch: str


def find_touching(
    change_sets: Iterable[ChangeSet], bodies: Bodies, files: Mapping[str, bytes], group_of: Mapping[str, str]
) -> Iterator[frozenset[ResourceKey]]:
    """The variants of one group whose edits touch across its pull requests; `group_of` is by resource."""
    groups: dict[tuple[str, str], list[ChangeSet]] = {}
    for each in change_sets:
        for group in {group_of.get(change.resource, each.group) for change in each.changes} or {each.group}:
            for path in each.files:
                groups.setdefault((group, path), []).append(each)
    for (group, path), sharing in groups.items():
        if len(sharing) > 1:
            found = (hunk for each in sharing for hunk in _hunks(each, path, bodies, files.get(path, b"")))
            hunks = (each for each in found if group_of.get(str(each.variant), group) == group)
            yield from _meeting(sorted(hunks))


def _hunks(change_set: ChangeSet, path: str, bodies: Bodies, before: bytes) -> Iterator[_Hunk]:
    old = before.splitlines()
    for variant, body in bodies(change_set, path):
        for start, end in _changed(old, body.splitlines()):
            yield _Hunk(start, end, variant, change_set.head_branch)


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """The lines of `old` that differ; what both begin and end with is not looked at twice, for files are long."""
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    rest = min(len(old), len(new)) - head
    ends = zip(reversed(old), reversed(new), strict=False)
    tail = min(rest, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends)))
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    yield from ((head + a, head + b) for kind, a, b, _, _ in matcher.get_opcodes() if kind != "equal")


def _meeting(hunks: Iterable[_Hunk]) -> Iterator[frozenset[ResourceKey]]:
    """The variants of hunks without a line between them, where these are of several pull requests."""
    cluster: list[_Hunk] = []
    for hunk in (*hunks, None):
        if hunk is not None and cluster and hunk.start <= max(each.end for each in cluster):
            cluster.append(hunk)
            continue
        if len({each.head_branch for each in cluster}) > 1:
            yield frozenset(each.variant for each in cluster)
        cluster = [] if hunk is None else [hunk]


def draft_plan(snapshot: Snapshot, recording: Recording, renderer: Renderer) -> tuple[Snapshot, Plan, Edited]:
    """The plan and its edits, decided again until every change that is shown can be written, and is valid then.

    The snapshot is the one that was decided from in the end: with canaries, where some are started or taken back.

    Each round pins or binds at least one more variant, so it ends; nearly always the first round is the last.
    """
    files = {manifest.path: manifest.body for manifest in recording.manifests}
    taken = frozenset((*files, *recording.paths, *recording.obstructed))
    checker = Checker(recording=recording)
    refused: dict[ResourceKey, Hold] = {}
    bonds: set[frozenset[ResourceKey]] = set()
    solved = solve(snapshot, refused)
    while True:
        plan = solved.plan_of(solved.staged, bonds)
        if not snapshot.canaries:
            with_canaries = ordered(snapshot, plan)
            if with_canaries is not snapshot:
                snapshot = with_canaries
                solved = solve(snapshot, refused)
                plan = solved.plan_of(solved.staged, bonds)
        plan = collected(solved.situation, solved.staged, plan)
        edited = _edit(plan, snapshot, files, taken, renderer, checker)
        if not edited.refused and edited.bonds <= bonds:
            groups = within_limits(solved.situation, worth_opening(solved.situation, _groups_as_edited(plan, edited)))
            return snapshot, replace(plan, groups=groups), edited
        if edited.refused:  # who is only bound to others gets what was decided
            refused.update(edited.refused)
            solved = solve(snapshot, refused)
        bonds |= edited.bonds


def _groups_as_edited(plan: Plan, edited: Edited) -> tuple[GroupPlan, ...]:
    """The plan's groups; each move names the files it is written in, each change the status that is left out.

    The part that only writes conditions, if there is any, comes last in its group.
    """
    groups = plan.groups
    if edited.moved_in or edited.omissions:
        groups = tuple(
            replace(
                group,
                decisions=tuple(
                    replace(
                        each,
                        moved_in=edited.moved_in.get(each.variant, ()),
                        status_omitted=edited.omissions.get(each.variant, ""),
                    )
                    for each in group.decisions
                ),
            )
            for group in groups
        )
    flipped = [
        GroupPlan(name=each.group, part=each.part, head_branch=each.head_branch, decisions=(), flips=each.flips)
        for each in edited.change_sets
        if each.flips
    ]
    return tuple(sorted((*groups, *flipped), key=lambda group: group.name))


def _edit(
    plan: Plan,
    snapshot: Snapshot,
    files: Mapping[str, bytes],
    taken: Container[str],
    renderer: Renderer,
    checker: Checker,
) -> Edited:
    desk = Desk(snapshot=snapshot, files=files, taken=taken, editor=Editor(renderer=renderer))
    members = _members(plan)
    group_of = {str(each.variant): name for name, decisions in members.items() for each in decisions}
    change_sets = tuple(_change_set(group, members, desk) for group in plan.groups if group.changes)
    if not desk.refused:
        # Refuse the changes that our own validation refuses; each change set is valid by itself.
        ruled = [
            each for each in change_sets if any(has_rules(desk.variants[key]) for key in desk.drawn[each.head_branch])
        ]
        writers = Counter(path for each in ruled for path in each.files)
        together = {path: body for each in ruled for path, body in each.files.items()}
        is_wrong = bool(together and checker.find_errors(together))
        for change_set in ruled:
            if is_wrong or any(writers[path] > 1 for path in change_set.files):
                _refuse_of(change_set, desk, checker)
    if not desk.refused:
        _refuse_copies(change_sets, desk, checker)
    return Edited(
        change_sets=(*change_sets, *draft_conditions(plan, desk)),
        refused=desk.refused,
        bonds=frozenset(
            (*find_touching(change_sets, desk.written_alone, files, group_of), *desk.find_carried_together(plan))
        ),
        omissions=desk.omissions,
        moved_in=desk.moved_in,
    )


def _refuse_copies(change_sets: Iterable[ChangeSet], desk: Desk, checker: Checker) -> None:
    """Refuse each new object that would not be what was decided once its file is merged.

    What writes files of its own is read together: once, nearly always.
    """
    batches: list[tuple[dict[str, bytes], list[ResourceKey]]] = []
    for each in change_sets:
        copies = [key for key in desk.drawn[each.head_branch] if desk.variants[key].copied is not None]
        if copies:
            batch = next((batch for batch in batches if batch[0].keys().isdisjoint(each.files)), None)
            if batch is None:
                batch = {}, []
                batches.append(batch)
            batch[0].update(each.files)
            batch[1].extend(copies)
    for files, copies in batches:
        for key, difference in checker.find_differences(files, [desk.variants[each] for each in copies]):
            words = f"{key.kind} {key.label} {difference} ({desk.variants[key].document.path})"
            desk.refused[key] = Hold(kind=HoldKind.NOT_WRITABLE, words=words)


def _change_set(group: GroupPlan, members: Mapping[str, Sequence[Decision]], desk: Desk) -> ChangeSet:
    edits = {decision.variant: desk.edits_of(decision) for decision in group.changes}
    riding = ((each.variant, desk.riding_with(each)) for each in group.decisions if each.outcome is not Outcome.CHANGE)
    edits |= {variant: VariantEdits(needed=(), status=status) for variant, status in riding if status}
    changed = [each.variant for each in group.changes]
    groups = {
        name: [
            *(each for each in group.changes if each.group == name),
            *(each for each in members[name] if each.outcome is not Outcome.CHANGE),
        ]
        for name in sorted({each.group for each in group.changes})
    }
    delivered = desk.deliver(groups, edits, changed)
    for name, carriers in delivered.items():
        for path in carriers:
            desk.carriers.setdefault((name, path), []).append(group.head_branch)
    desk.drawn[group.head_branch] = edits
    files = {**desk.apply(edits), **{path: body for each in delivered.values() for path, body in each.items()}}
    desk.opened.clear()  # few files are of two pull requests, and what was read of all would be a tenth of the memory
    return ChangeSet(
        group=group.name,
        part=group.part,
        head_branch=group.head_branch,
        decision=group.fingerprint,
        files=files,
        changes=tuple(sorted(decision.change.proposed for decision in group.changes)),
    )


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
    title: str = AS_IS
    commit_message: str = AS_IS


def write_texts(plan: Plan, edited: Edited, renderer: Renderer, style: Style) -> tuple[Draft, ...]:
    """The drafts: each change set with its commit message, title, labels and a body that keeps to the limit."""
    groups = {group.head_branch: group for group in plan.groups}
    return tuple(
        _drafted(plan, groups[change_set.head_branch], change_set, renderer, style) for change_set in edited.change_sets
    )


def _drafted(plan: Plan, group: GroupPlan, change_set: ChangeSet, renderer: Renderer, style: Style) -> Draft:
    marker = write_marker(
        Marker(
            group=group.name,
            part=group.part,
            decision=change_set.decision,
            changes=change_set.changes,
            promises=tuple(promise_of(each, plan.expected.get(each.model)) for each in group.changes),
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
        commit_message=_message(commit_view(group, sign_off=style.sign_off), group, renderer, style),
        title=_title(view, group, renderer, style),
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
        commit_message=_message(conditions_commit_view(group, sign_off=style.sign_off), group, renderer, style),
        title=_title(view, group, renderer, style),
        body=renderer.render_within(template, fewer_rows(view), limit=limit, marker=marker),
        labels=labels_for(()) if style.labels is None else style.labels,
    )


def _title(view: PullRequestView | ConditionsView, group: GroupPlan, renderer: Renderer, style: Style) -> str:
    shown = replace(view, title=shaped(style.title, view.title, group.name, group.part))
    return renderer.render("pull_request/title.j2", shown).strip()


def _message(view: CommitView, group: GroupPlan, renderer: Renderer, style: Style) -> str:
    subject = shaped(style.commit_message, view.subject, group.name, group.part)
    return renderer.render("commit/message.j2", replace(view, subject=subject))


def _joined(*texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))
