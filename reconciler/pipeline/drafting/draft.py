"""Draft: the plan becomes proven edits and texts; what cannot be written goes back to decide."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decision.after_merge.promising import promise_of
from reconciler.decision.decide import solve
from reconciler.domain.declared.declarations import StatusShape
from reconciler.domain.declared.places import DocumentRef
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey
from reconciler.domain.plan import Decision, GroupPlan, Outcome, Plan
from reconciler.domain.proposals import ChangeSet, Draft, Edited, MovedFile
from reconciler.domain.recording import Recording
from reconciler.domain.reported.pages import Pages
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.errors import InputError
from reconciler.forge.marker import Marker, write_marker
from reconciler.manifests.documents import OpenFile
from reconciler.pipeline.drafting.checking import Checker, has_rules
from reconciler.pipeline.drafting.delivery import Deliverer, Delivery
from reconciler.pipeline.drafting.edits import Editor
from reconciler.pipeline.drafting.open_documents import FileEdit, Sheet, sheet_of, write_edits
from reconciler.pipeline.drafting.touching import find_touching
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import PLAIN, commit_view, pull_request_view, reductions
from reconciler.report.summary import labels_for


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
            return _tell_files(plan, edited), edited
        if edited.refused:  # who is only bound to others gets what was decided
            refused.update(edited.refused)
            solved = solve(snapshot, refused)
        bonds |= edited.bonds


def _tell_files(plan: Plan, edited: Edited) -> Plan:
    """The plan, whose moves say in which files they are written, and whose changes which status is not."""
    if not edited.moved_in and not edited.omissions:
        return plan
    return replace(plan, groups=tuple(_tell_group(group, edited) for group in plan.groups))


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
    desk = _Desk(snapshot=snapshot, files=files, editor=Editor(renderer=renderer))
    change_sets = tuple(_change_set(group, plan, desk) for group in plan.groups if group.changes)
    if not desk.refused:
        _refuse_invalid(change_sets, desk, checker)
    return Edited(
        change_sets=change_sets,
        refused=desk.refused,
        bonds=frozenset((*find_touching(change_sets, desk.written_alone, files), *desk.find_carried_together(plan))),
        omissions=desk.omissions,
        moved_in=desk.moved_in,
    )


def _change_set(group: GroupPlan, plan: Plan, desk: "_Desk") -> ChangeSet:
    edits = {decision.variant: desk.edits_of(decision) for decision in group.changes}
    riding = ((each.variant, desk.status_of(each)) for each in group.decisions if each.outcome is not Outcome.CHANGE)
    edits |= {variant: _VariantEdits(needed=(), status=status) for variant, status in riding if status}
    files = desk.deliver(group, plan, edits)
    desk.drawn[group.head_branch] = edits
    return ChangeSet(
        group=group.name,
        part=group.part,
        head_branch=group.head_branch,
        decision=group.fingerprint,
        files={**desk.apply(edits), **files},
        changes=tuple(sorted(decision.change.proposed for decision in group.changes)),
    )


def _refuse_invalid(change_sets: Sequence[ChangeSet], desk: "_Desk", checker: Checker) -> None:
    """Refuse the changes that our own validation refuses; each change set is valid by itself."""
    ruled = [each for each in change_sets if any(has_rules(desk.variants[key]) for key in desk.drawn[each.head_branch])]
    writers = Counter(path for each in ruled for path in each.files)
    together = {path: body for each in ruled for path, body in each.files.items()}
    is_wrong = bool(together and checker.find_errors(together))
    for change_set in ruled:
        if is_wrong or any(writers[path] > 1 for path in change_set.files):
            _refuse_of(change_set, desk, checker)


def _refuse_of(change_set: ChangeSet, desk: "_Desk", checker: Checker) -> None:
    """One variant after the other: refused is what makes an error with those before it."""
    drawn = desk.drawn[change_set.head_branch]
    found = checker.find_errors(change_set.files)
    paths = {error.place.path for error in found}
    kept: dict[ResourceKey, _VariantEdits] = {}
    for key, edits in sorted(drawn.items()) if found else ():
        if not edits.needed or paths.isdisjoint(edit.path for edit in edits.all):
            continue
        errors = checker.find_errors(desk.apply({**kept, key: edits}))
        if errors:
            desk.refused[key] = _hold(errors[0])
        else:
            kept[key] = edits
    if found and desk.refused.keys().isdisjoint(drawn):  # the rule that is broken stands in another file
        changing = (key for key, edits in drawn.items() if edits.needed)
        desk.refused.update(dict.fromkeys(changing, _hold(found[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _VariantEdits:
    """What a variant's change writes: the edits without which it is refused, and the status that rides along."""

    needed: tuple[FileEdit, ...]
    status: tuple[FileEdit, ...] = ()

    @property
    def all(self) -> tuple[FileEdit, ...]:
        return (*self.needed, *self.status)


@dataclass(slots=True, kw_only=True)
class _Desk:
    """Where the edits of one plan are made: parses each touched file once, collects what was refused."""

    snapshot: Snapshot
    files: Mapping[str, bytes]
    editor: Editor
    refused: dict[ResourceKey, Hold] = field(default_factory=dict)
    omissions: dict[ResourceKey, str] = field(default_factory=dict)
    moved_in: dict[ResourceKey, tuple[MovedFile, ...]] = field(default_factory=dict)
    variants: dict[ResourceKey, Variant] = field(default_factory=dict)
    opened: dict[str, OpenFile] = field(default_factory=dict)
    drawn: dict[str, Mapping[ResourceKey, _VariantEdits]] = field(default_factory=dict)
    """The edits of each pull request, by its head branch."""
    carriers: dict[str, list[str]] = field(default_factory=dict)
    """The head branches that write each carrier of statuses."""

    def __post_init__(self) -> None:
        self.variants = {variant.key: variant for variant in self.snapshot.variants}

    def edits_of(self, decision: Decision) -> _VariantEdits:
        """The edits of one change; none, and a refusal, when something is in the way."""
        variant = self.variants[decision.variant]
        accelerator = self.snapshot.catalogs[variant.key.cluster].find(decision.desired.accelerator)
        try:
            counted = tuple(self.editor.count_edits(decision, variant, self._sheet))
            moved = tuple(self.editor.move_edits(decision, variant, accelerator, self._sheet))
        except InputError as error:
            self.refused[variant.key] = _hold(error)
            return _VariantEdits(needed=())
        if moved:
            self.moved_in[variant.key] = tuple(self._files_of(moved, variant))
        return _VariantEdits(needed=(*counted, *moved), status=self.status_of(decision))

    def _files_of(self, edits: Iterable[FileEdit], variant: Variant) -> Iterable[MovedFile]:
        places = [] if variant.workload is None else [*variant.workload.moves.values()]
        places += [] if variant.labels_at is None else [variant.labels_at]
        ours = {place.patch.path for place in places if place.patch is not None}
        for path in sorted({edit.path for edit in edits}):
            yield MovedFile(path=path, is_patch=path in ours, is_new=path not in self.files)

    def apply(self, edits: Mapping[ResourceKey, _VariantEdits]) -> dict[str, bytes]:
        """New bytes of every file; when a file refuses, variants are added one by one to tell who is to blame."""
        try:
            return self._write(edit for each in edits.values() for edit in each.all)
        except InputError:
            kept: list[FileEdit] = []
            for variant, each in edits.items():
                kept += self._tried(kept, variant, each)
            return self._write(kept)

    def written_alone(self, change_set: ChangeSet, path: str) -> Iterator[tuple[ResourceKey, bytes]]:
        """What each variant of a change set that can be written makes of a file."""
        for variant, each in self.drawn[change_set.head_branch].items():
            edits = [edit for edit in (each.needed if variant in self.omissions else each.all) if edit.path == path]
            if edits and variant not in self.refused:
                yield variant, self._write_file(path, edits)

    def _tried(self, kept: Sequence[FileEdit], variant: ResourceKey, edits: _VariantEdits) -> tuple[FileEdit, ...]:
        """What of one variant's edits can be written beside others: all, all but the status, or nothing."""
        try:
            self._write((*kept, *edits.needed))
        except InputError as error:
            self.refused[variant] = _hold(error)
            return ()
        try:
            self._write((*kept, *edits.all))
        except InputError as error:
            self.omissions[variant] = _words(error)
            return edits.needed
        return edits.all

    def _write(self, edits: Iterable[FileEdit]) -> dict[str, bytes]:
        by_path: dict[str, list[FileEdit]] = {}
        for edit in edits:
            by_path.setdefault(edit.path, []).append(edit)
        return {path: self._write_file(path, group) for path, group in sorted(by_path.items())}

    def _write_file(self, path: str, edits: Iterable[FileEdit]) -> bytes:
        if path not in self.files:
            return write_edits(path, b"", edits)
        return write_edits(path, self.files[path], edits, self._open(path))

    def status_of(self, decision: Decision) -> tuple[FileEdit, ...]:
        """The edit of a variant's status; none where there is nothing to say, or what is in the way is told instead."""
        variant = self.variants.get(decision.variant)
        is_off = self.snapshot.settings.status == "off"
        if variant is None or is_off or variant.status_shape is StatusShape.NONE or _is_left_alone(decision):
            return ()
        if variant.is_shared:
            return self._omit(variant, f"{variant.document.path} is built into several objects")
        try:
            edit = self.editor.status_edit(decision, variant, self._sheet(variant.document), self.snapshot.now_s)
        except InputError as error:
            return self._omit(variant, str(error))
        if isinstance(edit, str):
            return self._omit(variant, edit)
        return () if edit is None else (edit,)

    def deliver(self, group: GroupPlan, plan: Plan, edits: dict[ResourceKey, _VariantEdits]) -> dict[str, bytes]:
        """Files of ours that bring the group's statuses into the cluster; edits of others join its first change's."""
        deliverer = Deliverer(
            renderer=self.editor.renderer,
            files=self.files,
            variants=self.variants,
            open_sheet=self._sheet,
            now_s=self.snapshot.now_s,
            omit=self._omit,
        )
        beside = [each for part in plan.groups if part.name == group.name for each in part.decisions]
        told = (*group.changes, *(each for each in beside if each.outcome is not Outcome.CHANGE))
        drafted = deliverer.deliver(group.name, [each for each in told if not _is_left_alone(each)])
        delivered = [each for each in drafted if self._can_be_listed(group, each)]
        riding = tuple(edit for each in delivered for edit in each.edits)
        if riding:
            first = group.changes[0].variant
            edits[first] = replace(edits[first], status=(*edits[first].status, *riding))
        files = {path: body for each in delivered for path, body in each.files.items()}
        for path in files:
            self.carriers.setdefault(path, []).append(group.head_branch)
        return files

    def _can_be_listed(self, group: GroupPlan, delivery: Delivery) -> bool:
        """Whether what is there takes its edits; a file that nothing lists would deliver nothing."""
        try:
            self._write(delivery.edits)
        except InputError as error:
            for variant in (self.variants[each.variant] for each in group.changes):
                if variant.delivery == delivery.place:
                    self._omit(variant, f"it cannot be brought to the cluster: {error}")
            return False
        return True

    def find_carried_together(self, plan: Plan) -> Iterator[frozenset[ResourceKey]]:
        """The changes of one group whose pull requests would write the same carrier."""
        for branches in self.carriers.values():
            if len(branches) > 1:
                parts = (part for part in plan.groups if part.head_branch in branches)
                yield frozenset(each.variant for part in parts for each in part.changes)

    def _omit(self, variant: Variant, reason: str) -> tuple[FileEdit, ...]:
        self.omissions[variant.key] = reason
        return ()

    def _sheet(self, reference: DocumentRef) -> Sheet:
        return sheet_of(self._open(reference.path).documents_near(reference.document), reference)

    def _open(self, path: str) -> OpenFile:
        if path not in self.opened:
            self.opened[path] = OpenFile(path, self.files[path])
        return self.opened[path]


def _is_left_alone(decision: Decision) -> bool:
    return decision.hold is not None and decision.hold.kind is HoldKind.IGNORED


def _hold(error: InputError | Finding) -> Hold:
    if isinstance(error, Finding):
        return Hold(kind=HoldKind.NOT_WRITABLE, words=f"would be refused: {error}", place=error.place)
    place = Place(path=error.path, line=error.line, field=error.field)
    return Hold(kind=HoldKind.NOT_WRITABLE, words=_words(error), place=place)


def _words(error: InputError) -> str:
    return f"cannot be written: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How texts are written: for which forge, with which labels (None: ours), and signed off by whom."""

    body_limit: int
    pages: Pages = PLAIN
    labels: tuple[str, ...] | None = None
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
        )
    )
    view = pull_request_view(plan, group, pages=style.pages, marker=marker)
    body = renderer.render_within("pull_request/body.md.j2", reductions(view), limit=style.body_limit, marker=marker)
    labels = [change.labels for change in group.changes]
    return Draft(
        change_set=change_set,
        commit_message=renderer.render("commit/message.j2", commit_view(group, sign_off=style.sign_off)),
        title=renderer.render("pull_request/title.j2", view).strip(),
        body=body,
        labels=_joined(labels_for(group.changes) if style.labels is None else style.labels, *labels),
        reviewers=_joined(*(change.reviewers for change in group.changes)),
    )


def _joined(*texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))
