"""Documents that are open to be edited, edits with the file that they belong to, and patches of our own."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.domain.places import DocumentRef, FieldPath, OverlayPatch, PatchPath, WrittenField
from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document, OpenFile
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
from reconciler.manifests.wording import Field
from reconciler.rendering.renderer import Renderer
from reconciler.report.entries import FieldsView, OverlayPatchView, PatchListView, lines_of

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


def quote_scalar(value: str) -> str:
    """A text as a YAML scalar: always quoted, so that `true` and `1` stay text."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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
