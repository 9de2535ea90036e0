"""A change of one variant as edits of its files: existing scalars in place, missing ones rendered and inserted."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.decision.products import PRODUCT_KEYS
from reconciler.domain.accelerators import ACCELERATOR_LABEL, Accelerator
from reconciler.domain.declarations import DocumentRef, ReplicaField, Workload
from reconciler.domain.plan import Decision
from reconciler.domain.variants import Variant
from reconciler.errors import InputError
from reconciler.manifests import (
    Document,
    Edit,
    EditRefused,
    Field,
    InsertBlock,
    ReplaceBlock,
    SetEmbedded,
    SetScalar,
)
from reconciler.rendering import Renderer
from reconciler.report.entries import FlavorsView, ReplicaEntryView, entries_view
from reconciler.report.status import StatusOmission, status_view

POD_SPEC = ("spec", "template", "spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """An edit with the file it belongs to."""

    path: str
    edit: Edit


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """Writes the edits of one variant's change; raises EditRefused with what is in the way."""

    renderer: Renderer

    def edits_for(
        self,
        decision: Decision,
        variant: Variant,
        accelerator: Accelerator | None,
        open_sheet: OpenSheet,
    ) -> Iterator[FileEdit]:
        """The edits of the scale target and, for another accelerator, of its placement and the resource's label."""
        workload = variant.workload
        if workload is None:
            return
        if decision.desired.replicas != decision.current.replicas:
            for written in workload.written_at:
                yield from self._count(written, decision.desired.replicas, open_sheet)
        if decision.is_accelerator_change and variant.flavors_field:
            yield from self._flavors(variant, decision, open_sheet(variant.document))
        elif decision.is_accelerator_change and accelerator is not None:
            target = open_sheet(workload.document)
            yield from self._placement(workload, accelerator, target)
            yield from self._devices(variant, decision, target)
            label = {ACCELERATOR_LABEL: accelerator.label_value or accelerator.name}
            resource = open_sheet(variant.document)
            yield from self._mapping("manifests/labels.yaml.j2", resource, ("metadata", "labels"), label)

    def status_edit(self, decision: Decision, variant: Variant, resource: Sheet, now_s: float) -> FileEdit | str:
        """The edit of the resource's status block, or why there is none."""
        view = status_view(decision, now_s=now_s, previous=variant.conditions)
        if isinstance(view, StatusOmission):
            return view.reason
        text = self.renderer.render(view.template, view)
        if resource.find("status") is None:
            return resource.insert(text, "status")
        return resource.replace(text, "status")

    def _count(self, written: ReplicaField, replicas: int, open_sheet: OpenSheet) -> Iterator[FileEdit]:
        """The number where it is written; a ceiling above it stays, one that stands nowhere is written to be raised."""
        if not written.takes(replicas):
            return
        if written.embedding is not None:
            inner = SetScalar(document=written.inner_document, field=written.field, value=replicas)
            edit = SetEmbedded(document=written.document.document, field=written.embedding, inner=inner)
            yield FileEdit(path=written.document.path, edit=edit)
            return
        sheet = open_sheet(written.document)
        if written.entry:
            view = ReplicaEntryView(name=written.entry, count=replicas)
            yield sheet.insert(self.renderer.render("manifests/kustomize-replicas.yaml.j2", view), *written.field)
        elif sheet.find(*written.field) is None:
            yield sheet.insert(str(replicas), *written.field)
        else:
            yield sheet.set_scalar(replicas, *written.field)

    def _flavors(self, variant: Variant, decision: Decision, target: Sheet) -> Iterator[FileEdit]:
        """The order of flavors by which llmaz injects the limits and nodes of the chosen accelerator."""
        option = next(each for each in variant.options if each.accelerator == decision.desired.accelerator)
        field, flavors = variant.flavors_field, option.flavors
        written = target.find(*field)
        if isinstance(written, list) and len(written) == len(flavors):
            for index, flavor in enumerate(flavors):
                if written[index] != flavor:
                    yield target.set_scalar(flavor, *field, index)
            return
        text = self.renderer.render("manifests/flavors.yaml.j2", FlavorsView(flavors=flavors))
        yield target.insert(text, *field) if written is None else target.replace(text, *field)

    def _placement(self, workload: Workload, accelerator: Accelerator, target: Sheet) -> Iterator[FileEdit]:
        """The node selector of the new accelerator, in place of the old one's."""
        selector = accelerator.node_selector
        contradicting = [key for key in PRODUCT_KEYS if key in workload.node_selector and key not in selector]
        if contradicting:
            reason = f"nodeSelector {contradicting[0]} places it on the old accelerator: remove it by hand"
            raise target.refuse(reason, *POD_SPEC, "nodeSelector")
        if any(key in workload.affinity for key in PRODUCT_KEYS):
            raise target.refuse("node affinity places it on the old accelerator: use a nodeSelector", *POD_SPEC)
        yield from self._mapping("manifests/node-selector.yaml.j2", target, (*POD_SPEC, "nodeSelector"), selector)

    def _devices(self, variant: Variant, decision: Decision, target: Sheet) -> Iterator[FileEdit]:
        """The device count of the one container that asks for devices."""
        workload = variant.workload
        option = next(each for each in variant.options if each.accelerator == decision.desired.accelerator)
        if workload is None or workload.devices.get(option.resource) == option.devices_per_replica:
            return
        if workload.device_container is None:
            reason = f"expected one container that asks for {option.resource}: which one should take the devices?"
            raise target.refuse(reason, *POD_SPEC, "containers")
        container = (*POD_SPEC, "containers", workload.device_container, "resources")
        found = [kind for kind in ("limits", "requests") if target.find(*container, kind, option.resource) is not None]
        for kind in found:
            yield target.set_scalar(option.devices_per_replica, *container, kind, option.resource)
        if "limits" not in found:
            count = {option.resource: str(option.devices_per_replica)}
            yield from self._mapping("manifests/device-limits.yaml.j2", target, (*container, "limits"), count)

    def _mapping(self, template: str, sheet: Sheet, field: Field, entries: Mapping[str, str]) -> Iterator[FileEdit]:
        """Entries of a mapping: those that exist in place, the others inserted, with the mapping if need be."""
        if sheet.find(*field) is None:
            yield sheet.insert(self.renderer.render(template, entries_view(entries)), *field)
            return
        for key, value in sorted(entries.items()):
            found = sheet.find(*field, key)
            if found is None:
                yield sheet.insert(_scalar(value), *field, key)
            elif found != value:
                yield sheet.set_scalar(value, *field, key)


def _scalar(value: str) -> str:
    """A label value as a YAML scalar: always quoted, so that `true` and `1` stay text."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
