"""Where the edits of one plan are made: each touched file is parsed once, and problems are collected."""

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

import yaml

from reconciler.domain.canaries import Copy
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey
from reconciler.domain.plan import Decision, Outcome, Plan
from reconciler.domain.proposals import ChangeSet, MovedFile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Snapshot, StatusShape, Variant
from reconciler.domain.variant_settings import CANARY, MEASURED
from reconciler.domain.written import DeliveryPlace, DocumentRef
from reconciler.errors import InputError
from reconciler.manifests.documents import OpenFile
from reconciler.manifests.edits import AppendDocument, EditRefused
from reconciler.pipeline.edits import (
    Editor,
    FileEdit,
    OpenSheet,
    Sheet,
    is_untouched,
    sheet_of,
    stamp,
    write_edits,
)
from reconciler.rendering.renderer import Renderer, double_quoted
from reconciler.report.status import (
    DeliveredStatus,
    FluxDeliveryView,
    StatusDeliveryView,
    StatusOmission,
    carrier_name,
    delivered_status,
    delivery_view,
    rfc3339,
    status_view,
    unix_s,
)
from reconciler.resources.annotations import PREFIX
from reconciler.snapshot.canaries import write_measured

Omit = Callable[[Variant, str], object]
"""Called with the reason why the status of a variant is not delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one carrier takes: edits of files that are there, and files that are ours alone."""

    place: DeliveryPlace
    edits: tuple[FileEdit, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Deliverer:
    """Drafts the carriers of a plan's groups; `files` are those of the base commit that were read, of all `taken`."""

    renderer: Renderer
    files: Mapping[str, bytes]
    taken: Container[str]
    variants: Mapping[ResourceKey, Variant]
    open_sheet: OpenSheet
    now_s: float
    omit: Omit

    def deliver(self, group: str, decisions: Iterable[Decision], news: Container[ResourceKey]) -> Iterator[Delivery]:
        """One carrier for each directory and namespace of a group, so that a stuck rollout blocks no other.

        None for one that tells nothing of the variants in `news`.
        """
        carried: dict[tuple[str, str], list[DeliveredStatus]] = defaultdict(list)
        places: dict[tuple[str, str], DeliveryPlace] = {}
        changed: set[tuple[str, str]] = set()
        for decision in decisions:
            variant = self.variants.get(decision.variant)
            if variant is None or variant.delivery is None:
                continue
            if variant.delivery.reason:
                self.omit(variant, f"it cannot be brought to the cluster: {variant.delivery.reason}")
                continue
            status = self._status(decision, variant)
            if status is not None:
                key = variant.delivery.directory, variant.key.namespace
                carried[key].append(status)
                places[key] = variant.delivery
                if decision.variant in news:
                    changed.add(key)
        for key, statuses in sorted(each for each in carried.items() if each[0] in changed):
            view = delivery_view(group, *key, tuple(sorted(statuses, key=_name)), is_flux=places[key].is_flux)
            yield self._draft(view, places[key])

    def _status(self, decision: Decision, variant: Variant) -> DeliveredStatus | None:
        """The status as in Git, but applied, unless metrics say otherwise: the Job runs once a change is."""
        sheet = self.open_sheet(variant.document)
        written = sheet.find("status")
        view = status_view(decision, now_s=self.now_s, previous=variant.conditions, written=written)
        if isinstance(view, StatusOmission):
            return None
        status = yaml.safe_load(self.renderer.render(view.template, view))
        moment = rfc3339(self.now_s)
        if decision.outcome is Outcome.CHANGE or decision.is_applied is not False:
            times = ("lastAttemptTime", "lastSuccessTime") if variant.status_shape is StatusShape.FULL else ()
            status["actuation"] = {"applied": True, **dict.fromkeys(times, moment)}
        return delivered_status(
            api_version=str(sheet.find("apiVersion")),
            kind=str(sheet.find("kind")),
            name=variant.key.name,
            namespace=variant.key.namespace,
            status=status,
        )

    def delivered_s(self, group: str, variant: Variant) -> float:
        """When the carrier of a variant was last made, by what it carries in the base commit; 0 where there is none."""
        if variant.delivery is None or variant.delivery.reason:
            return 0.0
        place = variant.delivery
        path = _path(carrier_name(group, place.directory, variant.key.namespace), place)
        if path not in self.files:
            return 0.0
        try:
            # The newest time of a run in what a carrier holds; whatever is not as we write it says
            # nothing.
            carried = self.open_sheet(DocumentRef(path=path, document=0)).find("data")
            texts = carried.values() if isinstance(carried, Mapping) else ()
            return max(map(_run_s, texts), default=0.0)
        except InputError:
            return 0.0

    def _draft(self, view: StatusDeliveryView, place: DeliveryPlace) -> Delivery:
        body = self.renderer.render("delivery/status.yaml.j2", view).encode()
        path = _path(view.name, place)
        present = self.files.get(path)
        if path in self.taken and (present is None or not is_untouched(present)):
            return Delivery(place=place)  # somebody's own now
        edits = self._flux(view, place) if place.is_flux else self._listing(view, place)
        return Delivery(place=place, edits=tuple(edits), files={path: stamp(body) + body})

    def _listing(self, view: StatusDeliveryView, place: DeliveryPlace) -> Iterator[FileEdit]:
        reference = DocumentRef(path=place.kustomization, document=place.kustomization_document)
        editor = Editor(renderer=self.renderer)
        yield from editor.listing_edits(f"{view.name}.yaml", reference, place.resources, self.open_sheet)

    def _flux(self, view: StatusDeliveryView, place: DeliveryPlace) -> Iterator[FileEdit]:
        """The Kustomization that waits for the one which deploys the objects, in the file of that one."""
        if place.deployer is None or f'name: "{view.name}"'.encode() in self.files.get(place.deployer.path, b""):
            return
        flux = FluxDeliveryView(
            name=view.name,
            home_namespace=place.deployer_namespace,
            path=f"./{_prefix(place)}{view.name}",
            awaited=place.deployer_name,
            source=place.source_name,
        )
        text = self.renderer.render("delivery/flux.yaml.j2", flux)
        yield FileEdit(path=place.deployer.path, edit=AppendDocument(text=text))


def _prefix(place: DeliveryPlace) -> str:
    return f"{place.directory}/" if place.directory else ""


def _path(name: str, place: DeliveryPlace) -> str:
    return f"{_prefix(place)}{name}/status.yaml" if place.is_flux else f"{_prefix(place)}{name}.yaml"


def _run_s(text: object) -> float:
    try:
        return unix_s(json.loads(str(text))["status"]["desiredOptimizedAlloc"]["lastRunTime"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0.0


def _name(status: DeliveredStatus) -> str:
    return status.resource


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantEdits:
    """What a variant's change writes: the edits without which it is refused, and the status that rides along."""

    needed: tuple[FileEdit, ...]
    status: tuple[FileEdit, ...] = ()

    @property
    def all(self) -> tuple[FileEdit, ...]:
        """Both, in this order."""
        return (*self.needed, *self.status)


@dataclass(slots=True, kw_only=True)
class Desk:
    """Where the edits of one plan are made: parses each touched file once, collects what was refused.

    `files` are those of the base commit that were read; at no path that is `taken` there can be a new one.
    """

    snapshot: Snapshot
    files: Mapping[str, bytes]
    taken: Container[str]
    editor: Editor
    refused: dict[ResourceKey, Hold] = field(default_factory=dict)
    omissions: dict[ResourceKey, str] = field(default_factory=dict)
    moved_in: dict[ResourceKey, tuple[MovedFile, ...]] = field(default_factory=dict)
    variants: dict[ResourceKey, Variant] = field(default_factory=dict)
    opened: dict[str, OpenFile] = field(default_factory=dict)
    drawn: dict[str, Mapping[ResourceKey, VariantEdits]] = field(default_factory=dict)
    """The edits of each pull request, by its head branch."""
    carriers: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The head branches that write each carrier of a group's statuses, by group and path."""

    def __post_init__(self) -> None:
        self.variants = {variant.key: variant for variant in self.snapshot.variants}

    def edits_of(self, decision: Decision) -> VariantEdits:
        """The edits of one change; none, and a refusal, when something is in the way."""
        variant = self.variants[decision.variant]
        accelerator = self.snapshot.catalogs[variant.key.cluster].find(decision.desired.accelerator)
        if variant.copied is not None:
            return self._copied(variant, variant.copied, decision.desired.replicas)
        try:
            counted = tuple(self.editor.count_edits(decision, variant, self._sheet))
            moved = tuple(self.editor.move_edits(decision, variant, accelerator, self._sheet))
            tuned = tuple(self.editor.tuning_edits(decision, variant, self._sheet))
        except InputError as error:
            self.refused[variant.key] = refusal_of(error)
            return VariantEdits(needed=())
        if moved:
            self.moved_in[variant.key] = tuple(self._files_of(moved, variant))
        return VariantEdits(needed=(*counted, *moved, *tuned), status=self.riding_with(decision))

    def riding_with(self, decision: Decision) -> tuple[FileEdit, ...]:
        """What a pull request of its group writes of a variant besides its change: its status, what it measured."""
        return (*self._measured(decision.variant), *self.status_of(decision))

    def _measured(self, key: ResourceKey) -> Iterator[FileEdit]:
        """What a canary measured, once its model's replicas are moved by it: Prometheus forgets, Git does not."""
        measured, variant = self.snapshot.tried.get(key), self.variants.get(key)
        if measured is None or variant is None or not measured.is_enough or variant.settings[MEASURED].value:
            return
        sheet, annotations = self._sheet(variant.document), ("metadata", "annotations")
        if isinstance(sheet.find(*annotations), Mapping):
            yield sheet.insert(double_quoted(write_measured(measured)), *annotations, PREFIX + MEASURED.annotation)

    def _copied(self, variant: Variant, copied: Copy, replicas: int) -> VariantEdits:
        """The edits that write an object which is not in Git yet; a refusal where its file is there already."""
        path, key, place = variant.document.path, variant.key, copied.place
        if path in self.taken:
            words = f"cannot be written: {path} is there already"
            self.refused[key] = Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=Place(path=path))
            return VariantEdits(needed=())
        try:
            tries = variant.settings[CANARY].value
            edits = [self.editor.copy_edit(variant, copied, tries, replicas, self._sheet)]
            if place.kustomization:
                listing = DocumentRef(path=place.kustomization, document=place.kustomization_document)
                edits += self.editor.listing_edits(f"{key.name}.yaml", listing, place.listed, self._sheet)
        except InputError as error:
            self.refused[key] = refusal_of(error)
            return VariantEdits(needed=())
        return VariantEdits(needed=tuple(edits))

    def _files_of(self, edits: Iterable[FileEdit], variant: Variant) -> Iterable[MovedFile]:
        places = [] if variant.workload is None else [*variant.workload.moves.values()]
        places += [] if variant.labels_at is None else [variant.labels_at]
        ours = {place.patch.path for place in places if place.patch is not None}
        for path in sorted({edit.path for edit in edits}):
            yield MovedFile(path=path, is_patch=path in ours, is_new=path not in self.files)

    def apply(self, edits: Mapping[ResourceKey, VariantEdits]) -> dict[str, bytes]:
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

    def _tried(self, kept: Sequence[FileEdit], variant: ResourceKey, edits: VariantEdits) -> tuple[FileEdit, ...]:
        """What of one variant's edits can be written together with others: all, all but the status, or nothing."""
        try:
            self._write((*kept, *edits.needed))
        except InputError as error:
            self.refused[variant] = refusal_of(error)
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
            if path in self.taken:
                raise EditRefused(path, 0, "", "expected no such file yet: it is there already, and is left as it is")
            return write_edits(path, b"", edits)
        return write_edits(path, self.files[path], edits, self._open(path))

    def status_of(self, decision: Decision) -> tuple[FileEdit, ...]:
        """The edit of a variant's status; none without something to say, or where an obstacle is reported instead."""
        variant = self.variants.get(decision.variant)
        is_off = self.snapshot.settings.status == "off"
        if variant is None or is_off or variant.status_shape is StatusShape.NONE or is_left_alone(decision):
            return ()
        if variant.is_shared:
            return self._omit(variant, f"{variant.document.path} is built into several objects")
        open_resource = partial(self._sheet, variant.document)
        try:
            is_written = self._open(variant.document.path).may_name(variant.document.document, "status")
            written = open_resource().find("status") if is_written else None
            edit = self.editor.status_edit(decision, variant, written, open_resource, self.snapshot.now_s)
        except InputError as error:
            return self._omit(variant, str(error))
        if isinstance(edit, str):
            return self._omit(variant, edit)
        return () if edit is None else (edit,)

    @property
    def deliverer(self) -> Deliverer:
        """Who drafts the carriers of statuses."""
        return Deliverer(
            renderer=self.editor.renderer,
            files=self.files,
            taken=self.taken,
            variants=self.variants,
            open_sheet=self._sheet,
            now_s=self.snapshot.now_s,
            omit=self._omit,
        )

    def deliver(
        self,
        groups: Mapping[str, Sequence[Decision]],
        edits: dict[ResourceKey, VariantEdits],
        news: Container[ResourceKey],
    ) -> dict[str, dict[str, bytes]]:
        """By group, files of ours that bring its statuses into the cluster, where they tell anything of what is `news`.

        All are for one pull request. Edits of other files join those of the group's first variant with news.
        """
        deliverer, files = self.deliverer, dict[str, dict[str, bytes]]()
        for group, decisions in groups.items():
            drafted = deliverer.deliver(group, [each for each in decisions if not is_left_alone(each)], news)
            own = [each.variant for each in decisions if each.variant in news]
            delivered = [each for each in drafted if self._can_be_listed(own, each)]
            riding = tuple(edit for each in delivered for edit in each.edits)
            if riding:
                edits[own[0]] = replace(edits[own[0]], status=(*edits[own[0]].status, *riding))
            files[group] = {path: body for each in delivered for path, body in each.files.items()}
        return files

    def _can_be_listed(self, news: Iterable[ResourceKey], delivery: Delivery) -> bool:
        """Whether what is there takes its edits; a file that nothing lists would deliver nothing."""
        try:
            self._write(delivery.edits)
        except InputError as error:
            for variant in (self.variants[key] for key in news):
                if variant.delivery == delivery.place:
                    self._omit(variant, f"it cannot be brought to the cluster: {error}")
            return False
        return True

    def find_carried_together(self, plan: Plan) -> Iterator[frozenset[ResourceKey]]:
        """The changes of one group whose pull requests would write the same carrier."""
        for (group, _), branches in self.carriers.items():
            if len(branches) > 1:
                parts = (part for part in plan.groups if part.head_branch in branches)
                yield frozenset(each.variant for part in parts for each in part.changes if each.group == group)

    def _omit(self, variant: Variant, reason: str) -> tuple[FileEdit, ...]:
        self.omissions[variant.key] = reason
        return ()

    def _sheet(self, reference: DocumentRef) -> Sheet:
        return sheet_of(self._open(reference.path).documents_near(reference.document), reference)

    def _open(self, path: str) -> OpenFile:
        if path not in self.opened:
            self.opened[path] = OpenFile(path, self.files[path])
        return self.opened[path]


def is_left_alone(decision: Decision) -> bool:
    """Whether a person said that nothing may be written of a variant."""
    return decision.hold is not None and decision.hold.kind is HoldKind.IGNORED


def refusal_of(error: InputError | Finding) -> Hold:
    """What keeps a change from being written, as the hold of its variant."""
    if isinstance(error, Finding):
        return Hold(kind=HoldKind.NOT_WRITABLE, words=f"would be refused: {error}", place=error.place)
    place = Place(path=error.path, line=error.line, field=error.field)
    return Hold(kind=HoldKind.NOT_WRITABLE, words=_words(error), place=place)


def _words(error: InputError) -> str:
    return f"cannot be written: {error}"
