"""Our patch for one object of an overlay: written when it is not there, brought up to date when it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.domain.declared.places import DocumentRef, FieldPath, OverlayPatch, PatchPath
from reconciler.manifests.composer import Value
from reconciler.manifests.edits import AppendDocument
from reconciler.pipeline.drafting.open_documents import FileEdit, OpenSheet, Sheet, quote_scalar
from reconciler.rendering.renderer import Renderer
from reconciler.report.entries import FieldsView, OverlayPatchView, PatchListView, lines_of


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
        view = OverlayPatchView(kind=patch.kind, name=patch.name, lines=lines_of(whole))
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
            elif isinstance(value, str):
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
        return quote_scalar(str(value))
