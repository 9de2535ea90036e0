"""Edits for another accelerator: node selector, device count and label, each where the built object gets it from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.inventory import ACCELERATOR_LABEL, Accelerator
from reconciler.domain.places import DocumentRef, EntryPlace, FieldPath, OverlayPatch, WrittenField
from reconciler.domain.plan import Decision
from reconciler.domain.products import PRODUCT_KEYS
from reconciler.domain.snapshot import Option, Variant
from reconciler.domain.workloads import PodPlace, Workload
from reconciler.manifests.composer import Value
from reconciler.manifests.edits import EditRefused
from reconciler.manifests.wording import format_field
from reconciler.pipeline.drafting.open_documents import (
    FileEdit,
    OpenSheet,
    Patching,
    Sheet,
    plant,
    quote_scalar,
    set_field,
)
from reconciler.rendering.renderer import Renderer
from reconciler.report.entries import FlavorsView, entries_view

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
                yield sheet.insert(quote_scalar(str(value)), *field, key)
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
