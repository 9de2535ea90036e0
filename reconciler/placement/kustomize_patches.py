"""The effects of JSON patches, strategic merge patches and replacements of a kustomization on objects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from reconciler.domain.records import replace
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, parse_documents, value_at
from reconciler.manifests.editing import find_difference
from reconciler.manifests.wording import Field, quote
from reconciler.placement.kustomization import Kustomization, PatchRule, Selector, Unclear
from reconciler.placement.objects import (
    Embedding,
    ObjectDraft,
    Obstacle,
    OriginKind,
    SourceField,
    SourceTrace,
    identify,
    split_version,
)
from reconciler.placement.repository import ManifestRepository, resolve

MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 100
_APPEND: Final = "-"
_ANNOTATIONS: Final = ("metadata", "annotations")
"""Kustomize keeps annotations of its own during a build, so this mapping exists in every object."""


def apply_operations(draft: ObjectDraft, operations: SourceField) -> None:
    """Apply every operation of a list; InputError at the first on which Kustomize would fail."""
    if not isinstance(operations.value, list):
        raise operations.error("expected a list of operations")
    for operation in operations.members():
        try:
            name = operation.text("op")
            act = _OPERATIONS.get(name)
            if act is None:
                raise operation.error(f"expected add, remove, replace, move, copy or test, got {quote(name)}")
            act(draft, operation, _pointer(draft, operation, "path"))
        except InputError:
            path = tuple(unescape(part) for part in operation.text("path").split("/")[1:])
            if all(not each.covers(path) for each in draft.obstacles):
                raise
            reason = "a patch changes what is not read here"
            draft.obstacles.append(Obstacle(reason=reason, place=operation.place, field=path))


def _pointer(draft: ObjectDraft, operation: SourceField, key: str) -> Field:
    """A JSON pointer as a field path: parts that meet a list are indexes."""
    text = operation.text(key)
    if text and not text.startswith("/"):
        raise operation.error(f"expected a pointer that begins with /, got {quote(text)}")
    path: list[str | int] = []
    value: Value = draft.fields
    for raw in text.split("/")[1:]:
        part: str | int = unescape(raw)
        if isinstance(value, list) and part != _APPEND:
            digits = str(part).removeprefix("-")
            if not digits.isascii() or not digits.isdigit() or len(str(part)) > len("1000000"):
                raise operation.error(f"expected the index of a list item, got {quote(str(part))}")
            index = int(part) + (len(value) if int(part) < 0 else 0)
            if not 0 <= index <= len(value):
                raise operation.error(f"expected the index of one of {len(value)} list items, got {part}")
            part = index
        path.append(part)
        value = value_at(value, (part,))
    return tuple(path)


def unescape(part: str) -> str:
    """A part of a JSON pointer without escapes."""
    return part.replace("~1", "/").replace("~0", "~")


def _require(draft: ObjectDraft, operation: SourceField, path: Field) -> Value:
    if not SourceField(replace(draft.source.document, value=draft.fields), path).exists:
        raise operation.error(f"there is nothing at {quote(operation.text('path'))} of {draft.identity}")
    return value_at(draft.fields, path)


def _add(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    _insert(draft, operation, path, value_at(operation.value, ("value",)), SourceTrace((operation.below("value"),)))


def _insert(draft: ObjectDraft, operation: SourceField, path: Field, value: Value, trace: SourceTrace) -> None:
    parent = value_at(draft.fields, path[:-1])
    if isinstance(parent, list) and path:
        index = len(parent) if path[-1] == _APPEND else path[-1]
        if not isinstance(index, int):
            raise operation.error(f"expected the index of a list item, got {quote(str(index))}")
        _splice_list(draft, path[:-1], parent, slice(index, index), [value], [trace])
        return
    if path[:-1] == _ANNOTATIONS and parent is None:
        parent = {}
    if path and not isinstance(parent, dict):
        raise operation.error(f"there is nothing to add to at {quote(operation.text('path'))} of {draft.identity}")
    displaced = draft.trace.chain(path)
    draft.set(path, value)
    draft.trace.place(path, SourceTrace((*trace.sources, *displaced), trace.members))


def _splice_list(
    draft: ObjectDraft, path: Field, old: list[Value], where: slice, items: list[Value], traces: list[SourceTrace]
) -> None:
    all_items, all_traces = list(old), [draft.trace.subtree((*path, index)) for index in range(len(old))]
    all_items[where], all_traces[where] = items, traces
    sources = draft.trace.sources_at(path)
    draft.set(path, all_items)
    draft.trace.place(path, SourceTrace(sources, dict(enumerate(all_traces))))


def _replace(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    # Kustomize's library also replaces a missing member.
    if path[:-1] != _ANNOTATIONS and not isinstance(value_at(draft.fields, path[:-1]), dict):
        _require(draft, operation, path)
    draft.set(path, value_at(operation.value, ("value",)), operation.below("value"))


def _remove(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    _require(draft, operation, path)
    if not path:
        raise operation.error("the whole object cannot be removed by an operation")
    parent = value_at(draft.fields, path[:-1])
    if isinstance(parent, list) and isinstance(path[-1], int):
        _splice_list(draft, path[:-1], parent, slice(path[-1], path[-1] + 1), [], [])
    elif isinstance(parent, dict):
        kept = {key: value for key, value in parent.items() if key != path[-1]}
        draft.set(path[:-1], kept)
        draft.trace.record(path, operation)


def _copy(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    origin = _pointer(draft, operation, "from")
    copied = _require(draft, operation, origin)
    # A copy may include the object itself: its size doubles each time.
    waiting: list[tuple[Value, int]] = [(copied, len(path)), (draft.fields, 0)]
    num_values = 0
    while waiting:
        value, depth = waiting.pop()
        num_values += 1
        if depth > MAX_DEPTH or num_values >= MAX_VALUES:
            raise operation.error(f"{draft.identity} grows beyond {MAX_VALUES} values or {MAX_DEPTH} levels")
        if isinstance(value, dict | list):
            waiting += [(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value)]
    _insert(draft, operation, path, copied, draft.trace.subtree(origin))


def _move(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    origin = _pointer(draft, operation, "from")
    value, trace = _require(draft, operation, origin), draft.trace.subtree(origin)
    _remove(draft, operation, origin)
    _insert(draft, operation, path, value, trace)


def _test(draft: ObjectDraft, operation: SourceField, path: Field) -> None:
    wanted = value_at(operation.value, ("value",))
    if find_difference(wanted, value_at(draft.fields, path)) is not None:
        raise operation.error(f"the test at {quote(operation.text('path'))} fails on {draft.identity}")


_OPERATIONS: Final[Mapping[str, Callable[[ObjectDraft, SourceField, Field], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


_DIRECTIVE: Final = "$patch"
_POD_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env", "volumes"), ("name",)),
    **dict.fromkeys(("imagePullSecrets", "resourceClaims", "schedulingGates"), ("name",)),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
# Group and kind -> lists that merge, by field name at any depth.
_LISTS: Final[Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]] = {
    **{("apps", kind): _POD_LISTS for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    **{("batch", kind): _POD_LISTS for kind in ("Job", "CronJob")},
    **{("", kind): _POD_LISTS for kind in ("Pod", "ReplicationController", "PodTemplate")},
    ("", "Service"): {"ports": ("port", "protocol")},
    ("", "ServiceAccount"): {"secrets": ("name",)},
}
_BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_UNFOLLOWED: Final = ("$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys")


def merge_strategic(draft: ObjectDraft, patch: SourceField) -> bool:
    """Merge a patch into an object; False when the patch deletes the object."""
    if _directive(patch.value) == "delete":
        return False
    identity = draft.identity
    own = _LISTS.get((identity.group, identity.kind), {})
    lists = {**own, "ownerReferences": ("uid",)} if identity.group in _BUILT_IN_GROUPS else own
    draft.fields = _Merge(draft, draft.trace, lists).mapping(draft.fields, patch.mapping(), patch, ())
    return True


def merge_keys_of(api_version: str, kind: str, name: str) -> tuple[str, ...]:
    """The keys by which a patch merges the items of a list; empty where it replaces the list."""
    return _LISTS.get((split_version(api_version)[0], kind), {}).get(name, ())


def _directive(value: Value) -> str:
    directive = value.get(_DIRECTIVE) if isinstance(value, dict) else None
    return directive if isinstance(directive, str) else ""


def _without_nulls(value: Value) -> Value:
    """The value that a patch adds, without nulls and directives, which have nothing to act on."""
    if isinstance(value, dict):
        kept = ((key, member) for key, member in value.items() if member is not None and key != _DIRECTIVE)
        return {key: _without_nulls(member) for key, member in kept if _directive(member) != "delete"}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if _directive(item) != "delete"]
    return value


class _Merge:
    """One merge of one patch into one draft: returns new values and records their sources in the trace."""

    def __init__(self, draft: ObjectDraft, trace: SourceTrace, lists: Mapping[str, tuple[str, ...]]) -> None:
        self._draft = draft
        self._trace = trace
        self._lists = lists

    def mapping(
        self, old: dict[str, Value], patch: dict[str, Value], source: SourceField, path: Field
    ) -> dict[str, Value]:
        """The members of both, the patch's over the old ones."""
        if _directive(patch) == "replace":
            self._trace.record(path, source)
            return {key: member for key, member in patch.items() if key != _DIRECTIVE}
        merged = dict(old)
        for key, value in patch.items():
            if not key.startswith("$"):
                self._member(merged, key, value, source.below(key), (*path, key))
            elif key.startswith(_UNFOLLOWED):
                reason = f"the patch directive {key} is not supported"
                self._draft.obstacles.append(Obstacle(reason=reason, place=source.place, field=path))
        return merged

    def _member(self, merged: dict[str, Value], key: str, value: Value, source: SourceField, path: Field) -> None:
        if value is None or _directive(value) == "delete":
            if key in merged:
                del merged[key]
                self._trace.record(path, source)
            return
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = self.mapping(old, value, source, path)
        elif isinstance(value, list) and isinstance(old, list):
            merged[key] = self._list(old, value, source, path)
        else:
            merged[key] = _without_nulls(value)
            self._trace.record(path, source)

    def _list(self, old: list[Value], patch: list[Value], source: SourceField, path: Field) -> Value:
        """The patch's items first, each merged over the old one of its key, then the other old ones."""
        keys = self._lists.get(str(path[-1]), ()) if path else ()
        former = [item for item in old if isinstance(item, dict)]
        items = [item for item in patch if isinstance(item, dict)]
        is_merged = len(former) == len(old) and len(items) == len(patch) and "replace" not in map(_directive, items)
        if not keys or not is_merged:
            self._trace.record(path, source)
            return [item for item in patch if _directive(item) != "replace"]
        places = {tuple(str(item.get(key, "")) for key in keys): index for index, item in enumerate(former)}
        before = [self._trace.subtree((*path, index)) for index in range(len(old))]
        chosen: list[tuple[Value, SourceTrace]] = []
        replaced: set[int] = set()
        for number, item in enumerate(items):
            index = places.get(tuple(str(item.get(key, "")) for key in keys))
            replaced |= set() if index is None else {index}
            if _directive(item) == "delete":
                continue
            if index is not None:
                inner = _Merge(self._draft, before[index], self._lists)
                chosen.append((inner.mapping(former[index], item, source.below(number), ()), before[index]))
            else:
                kept: Value = {key: member for key, member in item.items() if key != _DIRECTIVE}
                chosen.append((kept, SourceTrace((source.below(number),))))
        chosen += [(old[index], before[index]) for index in range(len(old)) if index not in replaced]
        traces = dict[str | int, SourceTrace](enumerate(trace for _, trace in chosen))
        self._trace.place(path, SourceTrace(self._trace.sources_at(path), traces))
        return [value for value, _ in chosen]


class MissingTargetError(InputError):
    """Raised when a patch or a count names an object that does not exist."""


def apply_patch(repository: ManifestRepository, rule: PatchRule, drafts: list[ObjectDraft]) -> None:
    """Apply one patch to the objects it is for; deleted ones leave the list. InputError where Kustomize fails."""
    for content in _read(repository, rule):
        if isinstance(content.value, list):
            if rule.target is None:
                raise rule.source.error("a patch of operations needs a target")
            for draft in select(rule.target, drafts, rule.source):
                # Operations may change names, too.
                before = draft.identity
                apply_operations(draft, content)
                draft.become(identify(draft.fields), before)
        elif content.value is not None:
            identity = identify(content.mapping())
            if not identity.kind or not identity.name:
                raise content.error("expected kind and metadata.name in a strategic merge patch")
            found = (
                [] if rule.target is not None else [draft for draft in drafts if draft.is_or_was(identity.effective)]
            )
            if rule.target is None and not found:
                raise missing(content, f"there is no {identity.effective} to patch")
            if len(found) > 1:
                raise content.error(f"expected one {identity.effective} to patch, got {len(found)}")
            for draft in found if rule.target is None else select(rule.target, drafts, rule.source):
                # Merging keeps names and kinds unless the patch may change them.
                before, version = draft.identity, draft.value_at("apiVersion")
                stays = merge_strategic(draft, content)
                after = identify(draft.fields)
                kept = replace(before, name=before.name if rule.keeps_name else after.name)
                if not rule.keeps_kind:
                    kept = replace(kept, group=after.group, version=after.version, kind=after.kind)
                elif kept != after:
                    draft.fields = {**draft.fields, "apiVersion": version, "kind": kept.kind}
                draft.become(kept, before)
                if not stays:
                    drafts.remove(draft)


def _read(repository: ManifestRepository, rule: PatchRule) -> Iterator[SourceField]:
    """Every document of a patch, as the root that its rules are read from."""
    kind = rule.source.kind
    if rule.inline is not None:
        embedding = Embedding(document=rule.inline.document, field=rule.inline.field)
        for document in parse_inline(rule.inline):
            yield SourceField(document, (), kind, embedding)
        return
    yield from read_named(repository, rule.source, rule.directory, rule.path, kind)


def read_named(
    repository: ManifestRepository, entry: SourceField, directory: str, name: str, kind: OriginKind = OriginKind.PLAIN
) -> Iterator[SourceField]:
    """The documents of a file that an entry names; InputError if there is no such file."""
    path = resolve(directory, name) if name else None
    if path is None or not repository.has_file(path):
        raise entry.error(f"there is no file {quote(name)}")
    yield from (SourceField(document, (), kind) for document in repository.read(path))


def parse_inline(source: SourceField) -> tuple[Document, ...]:
    """The documents in a text field, their lines counted in the file that holds it."""
    text = source.as_text()
    place = source.place
    try:
        documents = parse_documents(place.path, text.encode(errors="replace"))
    except InputError as error:
        raise InputError(place.path, place.line, place.field, error.message) from error
    # A literal block begins on the line below its key; on its key's line the text is one line long.
    offset = place.line if "\n" in text.strip() or text.endswith("\n") else place.line - 1
    return tuple(
        replace(document, first_line=document.first_line + offset, line_offset=document.line_offset + offset)
        for document in documents
    )


def select(selector: Selector, drafts: Sequence[ObjectDraft], source: SourceField) -> list[ObjectDraft]:
    """The selected objects; one that may be selected gets an obstacle."""
    chosen: list[ObjectDraft] = []
    for draft in drafts:
        try:
            if selector.selects(draft):
                chosen.append(draft)
        except Unclear as unclear:
            draft.obstacles.append(Obstacle(reason=f"a patch may change it: {unclear}", place=source.place))
    return chosen


def missing(source: SourceField, message: str) -> MissingTargetError:
    """The error for an object that does not exist."""
    place = source.place
    return MissingTargetError(place.path, place.line, place.field, message)


def obstruct_replaced(
    repository: ManifestRepository, kustomization: Kustomization, drafts: Sequence[ObjectDraft]
) -> None:
    """Put an obstacle on every field that a replacement fills in; InputError for a file that is not there."""
    for replacement in _replacements(repository, kustomization):
        for target in replacement.items("targets"):
            chosen = target.get("select")
            selector = Selector() if chosen is None else Selector.read(chosen)
            paths = [_leading(each.as_text()) for each in target.items("fieldPaths")] or [("metadata", "name")]
            for draft in select(selector, drafts, target):
                reason = "a replacement fills it in from another object"
                draft.obstacles += [Obstacle(reason=reason, place=target.place, field=path) for path in paths]


def _replacements(repository: ManifestRepository, kustomization: Kustomization) -> Iterator[SourceField]:
    for entry in kustomization.replacements:
        if entry.get("path") is None:
            yield entry
            continue
        for root in read_named(repository, entry, kustomization.directory, entry.text("path")):
            if isinstance(root.value, list):
                yield from root.members()
            elif root.value is not None:
                yield root


def _leading(text: str) -> Field:
    """The keys of a field path before the first that selects items or needs quotes."""
    parts: list[str] = []
    for part in text.split("."):
        if not part or "[" in part or "]" in part or "*" in part or "\\" in part or part.isdigit():
            break
        parts.append(part)
    return tuple(parts)
