"""A change of one variant as edits of its files."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from reconciler.domain.canaries import Copy
from reconciler.domain.inventory import ACCELERATOR_LABEL, PRODUCT_KEYS, Accelerator
from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import ScalerSetting
from reconciler.domain.snapshot import Option, Variant
from reconciler.domain.workloads import PodPlace, Workload
from reconciler.domain.written import DocumentRef, EntryPlace, FieldPath, OverlayPatch, PatchPath, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, OpenFile, Value, mapping_of
from reconciler.manifests.editing import append_documents, edit_file
from reconciler.manifests.edits import (
    AppendDocument,
    Edit,
    EditRefused,
    InsertBlock,
    InsertItem,
    ReplaceBlock,
    SetEmbedded,
    SetScalar,
)
from reconciler.manifests.wording import Field, format_field
from reconciler.pipeline.copies import copy_of, write_copy
from reconciler.rendering.renderer import Renderer, double_quoted
from reconciler.report.status import (
    CopyView,
    FieldsView,
    FlavorsView,
    OverlayPatchView,
    PatchListView,
    ReplicaEntryView,
    ResourceEntryView,
    StatusOmission,
    entries_view,
    is_news,
    lines_of,
    status_view,
    why_no_status,
)

_ITEM = "- "
"""What the text of a list begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """An edit with the file it belongs to."""

    path: str
    edit: Edit | AppendDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One document to be edited: what it holds, and where in it the object lies."""

    document: Document
    prefix: Field

    def find(self, *field: str | int) -> object:
        """The value at a field of the object; None when it is not there."""
        value: object = self.document.value
        for part in (*self.prefix, *field):
            if isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                return None
        return value

    def set_scalar(self, value: str | int, *field: str | int) -> FileEdit:
        """Replace an existing scalar."""
        return self._edit(SetScalar(document=self.document.index, field=(*self.prefix, *field), value=value))

    def insert(self, text: str, *field: str | int) -> FileEdit:
        """Add the last part of `field` to the mapping before it."""
        *parent, key = field
        edit = InsertBlock(document=self.document.index, parent=(*self.prefix, *parent), key=str(key), text=text)
        return self._edit(edit)

    def append(self, text: str, index: int, *field: str | int, in_line: bool = False) -> FileEdit:
        """Add an item, which becomes number `index`, to an existing list; `in_line` also to one on a single line."""
        parent = (*self.prefix, *field)
        item = InsertItem(document=self.document.index, parent=parent, index=index, text=text, in_line=in_line)
        return self._edit(item)

    def replace(self, text: str, *field: str | int) -> FileEdit:
        """Replace the whole value of an existing key."""
        return self._edit(ReplaceBlock(document=self.document.index, field=(*self.prefix, *field), text=text))

    def refuse(self, reason: str, *field: str | int) -> EditRefused:
        """A refusal at a field of this document."""
        path, line = self.document.path, self.document.line_of((*self.prefix, *field))
        return EditRefused(path, line, ".".join(map(str, field)), reason)

    def _edit(self, edit: Edit) -> FileEdit:
        return FileEdit(path=self.document.path, edit=edit)


OpenSheet = Callable[[DocumentRef], Sheet]
"""Opens the document that a reference names."""


def sheet_of(documents: Iterable[Document], reference: DocumentRef) -> Sheet:
    """The sheet of a document among those of its file."""
    for document in documents:
        if document.index == reference.document:
            return Sheet(document=document, prefix=reference.prefix)
    raise InputError(reference.path, 0, "", f"expected a document number {reference.document}, found fewer")


def set_field(written: WrittenField, value: str | int, open_sheet: OpenSheet) -> FileEdit:
    """Replace a scalar where it is written, in a document or inside of a text that one holds."""
    if written.embedding is None:
        return open_sheet(written.document).set_scalar(value, *written.field)
    inner = SetScalar(document=written.inner_document, field=written.field, value=value)
    edit = SetEmbedded(document=written.document.document, field=written.embedding, inner=inner)
    return FileEdit(path=written.document.path, edit=edit)


def write_edits(path: str, data: bytes, edits: Iterable[FileEdit], file: OpenFile | None = None) -> bytes:
    """The new bytes of one file, which may be open already; what two changes both want is written once."""
    wanted = _join_lists(dict.fromkeys(each.edit for each in edits))
    inside = [each for each in wanted if not isinstance(each, AppendDocument)]
    behind = [each for each in wanted if isinstance(each, AppendDocument)]
    edited = edit_file(file or OpenFile(path, data), inside) if inside else data
    return append_documents(path, edited, behind) if behind else edited


def _join_lists(edits: Iterable[Edit | AppendDocument]) -> list[Edit | AppendDocument]:
    """The edits, where the items that several insert into one list, be it new, stand in it one behind the other."""
    joined: dict[object, Edit | AppendDocument] = {}
    items: Counter[object] = Counter()
    for edit in edits:
        if isinstance(edit, InsertItem):
            behind = edit.document, edit.parent
            joined[edit] = replace(edit, index=edit.index + items[behind])
            items[behind] += 1
            continue
        if not isinstance(edit, InsertBlock) or not edit.text.startswith(_ITEM):
            joined[edit] = edit
            continue
        place = edit.document, edit.parent, edit.key
        first = joined.get(place)
        text = first.text + edit.text if isinstance(first, InsertBlock) else edit.text
        joined[place] = replace(edit, text=text)
    return list(joined.values())


def plant(fields: Value, way: PatchPath, entries: Mapping[str, Value]) -> dict[str, Value]:
    """A patch's fields with entries in the mapping that `way` leads to; what is missing on the way is made."""
    members = dict(fields) if isinstance(fields, dict) else {}
    if not way:
        return {**members, **entries}
    step, *rest = way
    key, found = str(step), members.get(str(step))
    if rest and isinstance(rest[0], tuple):
        named: list[Value] = [{"name": name} for name in rest[0]]
        items = found if isinstance(found, list) else named
        return {**members, key: [*items[:-1], plant(items[-1], tuple(rest[1:]), entries)]}
    return {**members, key: plant(found, tuple(rest), entries)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patching:
    """Writes the fields of patches of ours."""

    renderer: Renderer
    open_sheet: OpenSheet

    def edits(self, patch: OverlayPatch, fields: Mapping[str, Value]) -> Iterator[FileEdit]:
        """The edits after which our file has a patch for the object, with these fields, and is listed."""
        if patch.document is None:
            yield FileEdit(path=patch.path, edit=AppendDocument(text=self._document(patch, fields)))
        else:
            sheet = self.open_sheet(DocumentRef(path=patch.path, document=patch.document))
            yield from self._bring(sheet, (), fields)
        if patch.listed_at is not None:
            yield self._listing(patch, patch.listed_at)

    def _document(self, patch: OverlayPatch, fields: Mapping[str, Value]) -> str:
        names: dict[str, Value] = {"name": patch.name}
        if patch.namespace:
            names["namespace"] = patch.namespace
        whole = plant({"apiVersion": patch.api_version, "kind": patch.kind, "metadata": names}, (), {})
        for key, value in fields.items():
            whole = plant(whole, (key,), value) if isinstance(value, dict) else {**whole, key: value}
        lines = lines_of(whole)
        verb = "scales between" if any(line.is_number for line in lines) else "runs on"
        view = OverlayPatchView(kind=patch.kind, name=patch.name, verb=verb, lines=lines)
        return self.renderer.render("manifests/overlay-patch.yaml.j2", view)

    def _listing(self, patch: OverlayPatch, number: int) -> FileEdit:
        sheet = self.open_sheet(DocumentRef(path=patch.kustomization, document=patch.kustomization_document))
        view = PatchListView(path=patch.path.rpartition("/")[2])
        text = self.renderer.render("manifests/kustomize-patches.yaml.j2", view)
        return sheet.append(text, number, "patches") if number else sheet.insert(text, "patches")

    def _bring(self, sheet: Sheet, path: FieldPath, fields: Mapping[str, Value]) -> Iterator[FileEdit]:
        """What is missing inserted, what differs replaced, what is there besides left alone."""
        for key, value in fields.items():
            found = sheet.find(*path, key)
            if isinstance(value, dict) and isinstance(found, dict):
                yield from self._bring(sheet, (*path, key), value)
            elif isinstance(value, list) and isinstance(found, list) and isinstance(value[-1], dict):
                yield from self._bring_item(sheet, (*path, key), value[-1], found)
            elif found is None:
                yield sheet.insert(self._text(value), *path, key)
            elif isinstance(value, str | int):
                yield sheet.set_scalar(value, *path, key)
            elif found != value:
                yield sheet.replace(self._text(value), *path, key)

    def _bring_item(
        self, sheet: Sheet, path: FieldPath, wanted: dict[str, Value], found: list[Value]
    ) -> Iterator[FileEdit]:
        names = [item.get("name") if isinstance(item, dict) else None for item in found]
        if wanted.get("name") not in names:
            raise sheet.refuse(f"expected an item named {wanted.get('name')}: add it by hand", *path)
        yield from self._bring(sheet, (*path, names.index(wanted.get("name"))), wanted)

    def _text(self, value: Value) -> str:
        if isinstance(value, dict | list):
            return self.renderer.render("manifests/fields.yaml.j2", FieldsView(lines=lines_of(value)))
        return str(value) if isinstance(value, int) else double_quoted(str(value))


_LABELS: FieldPath = ("metadata", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEntries:
    """Entries that the mapping at `path` of an object is to have; `place` is None where its manifest holds them."""

    manifest: DocumentRef
    path: FieldPath
    entries: Mapping[str, str | int]
    template: str
    place: EntryPlace | None

    def refuse(self, key: str) -> EditRefused:
        """A refusal of one entry that no place takes."""
        found = self.place.reason if self.place is not None else ""
        reason = found or "it stands where it cannot be changed"
        return EditRefused(self.manifest.path, 0, format_field((*self.path, key)), reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorChange:
    """One variant's change of accelerator."""

    renderer: Renderer
    open_sheet: OpenSheet
    variant: Variant
    workload: Workload

    def edits(self, decision: Decision, accelerator: Accelerator | None) -> Iterator[FileEdit]:
        """The edits of placement, devices and label, or of the flavors; EditRefused with what is in the way."""
        option = next(each for each in self.variant.options if each.accelerator == decision.desired.accelerator)
        patched: dict[OverlayPatch, dict[str, Value]] = {}
        if self.variant.flavors_field:
            yield from self._flavors(option, patched)
        elif accelerator is not None:
            for wanted in self._wanted(option, accelerator):
                yield from self._write(wanted, patched)
        patching = Patching(renderer=self.renderer, open_sheet=self.open_sheet)
        for patch, fields in patched.items():
            yield from patching.edits(patch, fields)

    def _wanted(self, option: Option, accelerator: Accelerator) -> Iterator[WantedEntries]:
        for pod in self.workload.pods:
            yield self._placement(pod, accelerator)
        yield from self._devices(option)
        # A label speaks for a whole object, not for one role or backend of it.
        if not self.variant.key.part:
            yield self._label(accelerator)

    def _placement(self, pod: PodPlace, accelerator: Accelerator) -> WantedEntries:
        """The node selector of the new accelerator, in place of the old one's."""
        selector, document = accelerator.node_selector, self.workload.document
        contradicting = [key for key in PRODUCT_KEYS if key in pod.node_selector and key not in selector]
        if contradicting:
            reason = f"nodeSelector {contradicting[0]} places it on the old accelerator: remove it by hand"
            raise self.open_sheet(document).refuse(reason, *pod.path, "nodeSelector")
        if any(selector.get(key) not in pod.affinity[key] for key in PRODUCT_KEYS if key in pod.affinity):
            reason = "node affinity places it on the old accelerator: use a nodeSelector"
            raise self.open_sheet(document).refuse(reason, *pod.path)
        return self._entries((*pod.path, "nodeSelector"), selector, "manifests/node-selector.yaml.j2")

    def _devices(self, option: Option) -> Iterator[WantedEntries]:
        """The device count of the one container that asks for devices: limits always, requests where they are."""
        if self.workload.devices.get(option.resource) == option.devices_per_replica:
            return
        resources = self.workload.device_resources
        if resources is None:
            reason = f"expected one container that asks for {option.resource}: which one should take the devices?"
            path = self.workload.pods[0].path if self.workload.pods else ()
            raise self.open_sheet(self.workload.document).refuse(reason, *path, "containers")
        count = {option.resource: option.devices_per_replica}
        for kind in ("limits", "requests"):
            wanted = self._entries((*resources, kind), count, "manifests/device-limits.yaml.j2")
            if kind == "limits" or self._is_there(wanted, option.resource):
                yield wanted

    def _label(self, accelerator: Accelerator) -> WantedEntries:
        variant = self.variant
        is_same = variant.document == self.workload.document
        return WantedEntries(
            manifest=variant.document,
            path=_LABELS,
            entries={ACCELERATOR_LABEL: accelerator.label_value or accelerator.name},
            template="manifests/labels.yaml.j2",
            place=variant.labels_at or (self.workload.moves.get(_LABELS) if is_same else None),
        )

    def _entries(self, path: FieldPath, entries: Mapping[str, str | int], template: str) -> WantedEntries:
        place = self.workload.moves.get(path)
        return WantedEntries(
            manifest=self.workload.document, path=path, entries=entries, template=template, place=place
        )

    def _is_there(self, wanted: WantedEntries, key: str) -> bool:
        if wanted.place is not None:
            return key in wanted.place.entries
        return self.open_sheet(wanted.manifest).find(*wanted.path, key) is not None

    def _write(self, wanted: WantedEntries, patched: dict[OverlayPatch, dict[str, Value]]) -> Iterator[FileEdit]:
        """Every entry where it can be changed, else where new ones go, else in our patch."""
        if wanted.place is None:
            yield from self._mapping(wanted.template, self.open_sheet(wanted.manifest), wanted.path, wanted.entries)
            return
        place, added = wanted.place, dict[str, str | int]()
        for key, value in sorted(wanted.entries.items()):
            written = place.entries.get(key)
            if written is not None:
                yield from self._set(written, value)
            elif key not in place.entries and place.home is not None:
                added[key] = value
            elif place.patch is not None:
                patched[place.patch] = plant(patched.get(place.patch), place.way, {key: str(value)})
            else:
                raise wanted.refuse(key)
        if added and place.home is not None:
            yield from self._mapping(wanted.template, self.open_sheet(place.home.document), place.home.field, added)

    def _mapping(
        self, template: str, sheet: Sheet, field: FieldPath, entries: Mapping[str, str | int]
    ) -> Iterator[FileEdit]:
        """Entries of a mapping: those that exist in place, the others inserted, with the mapping if need be."""
        if sheet.find(*field) is None:
            texts = {key: str(value) for key, value in entries.items()}
            yield sheet.insert(self.renderer.render(template, entries_view(texts)), *field)
            return
        for key, value in sorted(entries.items()):
            found = sheet.find(*field, key)
            if found is None:
                yield sheet.insert(double_quoted(str(value)), *field, key)
            elif found != value:
                yield sheet.set_scalar(value, *field, key)

    def _set(self, written: WrittenField, value: str | int) -> Iterator[FileEdit]:
        if written.embedding is not None or self.open_sheet(written.document).find(*written.field) != value:
            yield set_field(written, value, self.open_sheet)

    def _flavors(self, option: Option, patched: dict[OverlayPatch, dict[str, Value]]) -> Iterator[FileEdit]:
        """The order of flavors by which llmaz injects the limits and nodes of the chosen accelerator."""
        field, flavors = self.variant.flavors_field, option.flavors
        place = self.workload.moves.get(field)
        if place is None:
            yield from self._order(self.open_sheet(self.variant.document), field, flavors)
            return
        spots = [place.entries.get(index) for index in range(len(flavors))]
        written = [spot for spot in spots if spot is not None]
        if len(written) == len(flavors) == len(place.entries):
            for spot, flavor in zip(written, flavors, strict=True):
                yield from self._set(spot, flavor)
        elif place.patch is not None:
            patched[place.patch] = plant(patched.get(place.patch), place.way[:-1], {str(field[-1]): [*flavors]})
        else:
            raise self.open_sheet(self.variant.document).refuse(place.reason, *field)

    def _order(self, target: Sheet, field: FieldPath, flavors: Sequence[str]) -> Iterator[FileEdit]:
        written = target.find(*field)
        if isinstance(written, list) and len(written) == len(flavors):
            for index, flavor in enumerate(flavors):
                if written[index] != flavor:
                    yield target.set_scalar(flavor, *field, index)
            return
        text = self.renderer.render("manifests/flavors.yaml.j2", FlavorsView(flavors=tuple(flavors)))
        yield target.insert(text, *field) if written is None else target.replace(text, *field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """Writes the edits of one variant's change; raises EditRefused with what is in the way."""

    renderer: Renderer

    def count_edits(self, decision: Decision, variant: Variant, open_sheet: OpenSheet) -> Iterator[FileEdit]:
        """The edits of another number of replicas, or of other bounds of what moves them."""
        patched: dict[OverlayPatch, dict[str, Value]] = {}
        for written in variant.workload.written_at if variant.workload is not None else ():
            number, patch = decision.written_in(written), written.patch
            if number is None:
                continue
            if patch is None:
                yield self._count(written, number, open_sheet)
            else:
                entry: dict[str, Value] = {str(written.field[-1]): number}
                patched[patch] = plant(patched.get(patch, {}), written.way, entry)
        for patch, fields in patched.items():
            yield from Patching(renderer=self.renderer, open_sheet=open_sheet).edits(patch, fields)

    def tuning_edits(self, decision: Decision, variant: Variant, open_sheet: OpenSheet) -> Iterator[FileEdit]:
        """The edits of another setting of the autoscaler: its target where that stands, its behavior in its manifest.

        What is written and stays is not touched; a behavior that is missing is inserted, with what holds it. One that
        goes leaves an empty mapping, of which a controller makes what it makes of none.
        """
        tuned, wanted = variant.tuned, ScalerSetting.parse(decision.desired.scaling)
        if tuned is None or wanted is None or decision.desired.scaling == decision.current.scaling:
            return
        scaler = tuned.scaler
        metric = scaler.metrics[0]
        if wanted.target != metric.text and metric.written is not None:
            yield set_field(metric.written, _as_written(wanted.target), open_sheet)
        behavior = wanted.behavior or {}
        if behavior == (scaler.behavior or {}):
            return
        sheet = open_sheet(scaler.document)
        if scaler.annotations is None:
            yield from self._make(sheet, scaler.behavior_path, cast(Value, behavior))
        else:
            texts = dict(scaler.annotations.texts(scaler.setting.changes(wanted), behavior))
            yield from self._bring(sheet, scaler.behavior_path[:-1], cast(Value, texts))

    def _make(self, sheet: Sheet, path: FieldPath, wanted: Value) -> Iterator[FileEdit]:
        """Write a value at a path of a manifest; a mapping from which a key is to go is replaced as a whole."""
        found = sheet.find(*path)
        if not isinstance(found, Mapping) or not isinstance(wanted, dict):
            yield from self._bring(sheet, path, wanted)
        elif not found or found.keys() - wanted.keys():
            yield sheet.replace(self._block(wanted) if wanted else "{}", *path)
        else:
            for key, value in wanted.items():
                yield from self._make(sheet, (*path, key), value)

    def _bring(self, sheet: Sheet, path: FieldPath, wanted: Value) -> Iterator[FileEdit]:
        """A value at a path of a manifest: where nothing is, it is inserted below the last mapping that is there."""
        depth = next((depth for depth in range(len(path), 0, -1) if sheet.find(*path[:depth]) is not None), 0)
        if depth < len(path):
            for key in reversed(path[depth + 1 :]):
                wanted = {str(key): wanted}
            holder = sheet.find(*path[:depth])
            is_null = isinstance(holder, Mapping) and path[depth] in holder
            write = sheet.replace if is_null else sheet.insert
            yield write(self._block(wanted), *path[: depth + 1])
        elif isinstance(wanted, dict) and isinstance(sheet.find(*path), Mapping):
            for key, value in wanted.items():
                yield from self._bring(sheet, (*path, key), value)
        elif sheet.find(*path) != wanted:
            if isinstance(wanted, str | int):
                yield sheet.set_scalar(wanted, *path)
            else:
                yield sheet.replace(self._block(wanted), *path)

    def _block(self, value: Value) -> str:
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return double_quoted(value)
        return self.renderer.render("manifests/fields.yaml.j2", FieldsView(lines=lines_of(value)))

    def move_edits(
        self, decision: Decision, variant: Variant, accelerator: Accelerator | None, open_sheet: OpenSheet
    ) -> Iterator[FileEdit]:
        """The edits of another accelerator."""
        workload = variant.workload
        if workload is not None and decision.is_accelerator_change:
            change = AcceleratorChange(
                renderer=self.renderer, open_sheet=open_sheet, variant=variant, workload=workload
            )
            yield from change.edits(decision, accelerator)

    def listing_edits(
        self, name: str, kustomization: DocumentRef, listed: Sequence[str], open_sheet: OpenSheet
    ) -> Iterator[FileEdit]:
        """The edit after which a kustomization lists one more file among its resources."""
        if name in listed or f"./{name}" in listed:
            return
        sheet = open_sheet(kustomization)
        text = self.renderer.render("delivery/kustomize-resources.yaml.j2", ResourceEntryView(path=name))
        if listed:
            yield sheet.append(text, len(listed), "resources", in_line=True)
        elif "resources" in mapping_of(sheet.find()):
            yield sheet.replace(text, "resources")
        else:
            yield sheet.insert(text, "resources")

    def copy_edit(self, variant: Variant, copied: Copy, tries: str, replicas: int, open_sheet: OpenSheet) -> FileEdit:
        """The file of a copy: the original's manifest with a name, a place and labels of its own."""
        sheet = open_sheet(copied.source)
        value = sheet.find()
        if not isinstance(value, Mapping):
            raise sheet.refuse("expected a mapping: nothing can be copied")
        view = CopyView(original=copied.original.name, accelerator=tries)
        wanted = copy_of(cast(Mapping[str, Value], value), variant, copied, tries, replicas)
        path = variant.document.path
        return FileEdit(path=path, edit=AppendDocument(text=write_copy(self.renderer, view, path, wanted)))

    def status_edit(
        self, decision: Decision, variant: Variant, written: object, open_resource: Callable[[], Sheet], now_s: float
    ) -> FileEdit | str | None:
        """The edit of the resource's status block, or why there is none; None where there is nothing new to say.

        `written` is the block as it is; most resources have none and nothing new, so they are not opened.
        """
        if written is None and not variant.conditions and decision.outcome is Outcome.UNCHANGED:
            return why_no_status(decision, (), written) or None  # nothing could be news
        view = status_view(decision, now_s=now_s, previous=variant.conditions, written=written)
        if isinstance(view, StatusOmission):
            return view.reason
        is_change = decision.outcome is Outcome.CHANGE
        if not is_change and not is_news(view, decision, previous=variant.conditions, written=written):
            return None
        text, resource = self.renderer.render(view.template, view), open_resource()
        if written is None:
            return resource.insert(text, "status")
        return resource.replace(text, "status")

    def _count(self, written: WrittenField, replicas: int, open_sheet: OpenSheet) -> FileEdit:
        """The number where it is written, or where it is to stand."""
        sheet = open_sheet(written.document) if written.embedding is None else None
        if written.entry and sheet is not None:
            view = ReplicaEntryView(name=written.entry, count=replicas)
            text = self.renderer.render("manifests/kustomize-replicas.yaml.j2", view)
            listed = sheet.find(*written.field)
            number = len(listed) if isinstance(listed, list) else 0
            add = sheet.append(text, number, *written.field, in_line=True) if number else None
            return add or sheet.insert(text, *written.field)
        if sheet is not None and sheet.find(*written.field) is None:
            return sheet.insert(str(replicas), *written.field)
        return set_field(written, replicas, open_sheet)


def _as_written(target: str) -> str | int:
    """A target as YAML writes it: a whole number needs no quotes, and keeps those that it has."""
    return int(target) if target.isdecimal() else target


_STAMP = re.compile(rb"# Made by reconciler(?: init)? \(([0-9a-f]{16})\)[^\n]*\n")


def stamp(body: bytes, maker: str = "reconciler") -> bytes:
    """The first line for a text, by which a later run knows that it is unchanged."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    words = "Change anything below and the file is yours: it is kept then."
    return f"# Made by {maker} ({digest}). {words}\n".encode()


def is_untouched(content: bytes) -> bool:
    """Whether a file is one of ours, as we wrote it."""
    match = _STAMP.match(content)
    return match is not None and hashlib.sha256(content[match.end() :]).hexdigest()[:16].encode() == match[1]
