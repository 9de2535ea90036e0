"""Strategic merge as Kustomize does it: mappings merge, known lists merge by key, other lists are replaced."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field
from reconciler.placement.objects import ObjectDraft, Obstacle, split_version
from reconciler.placement.origins import SourceField, SourceTrace

_DIRECTIVE: Final = "$patch"
_POD_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_OWNER_LISTS: Final[Mapping[str, tuple[str, ...]]] = {"ownerReferences": ("uid",)}
_SERVICE_LISTS: Final[Mapping[str, tuple[str, ...]]] = {"ports": ("port", "protocol")}
_ACCOUNT_LISTS: Final[Mapping[str, tuple[str, ...]]] = {"secrets": ("name",)}
# Group and kind -> lists that merge, by field name: the pod template is the same wherever it stands.
_LISTS: Final[Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]] = {
    **{("apps", kind): _POD_LISTS for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    **{("batch", kind): _POD_LISTS for kind in ("Job", "CronJob")},
    **{("", kind): _POD_LISTS for kind in ("Pod", "ReplicationController", "PodTemplate")},
    ("", "Service"): _SERVICE_LISTS,
    ("", "ServiceAccount"): _ACCOUNT_LISTS,
}
_BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_UNFOLLOWED: Final = ("$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys")


def merge_strategic(draft: ObjectDraft, patch: SourceField) -> bool:
    """Merge a patch into an object; False when the patch deletes the object."""
    if _directive(patch.value) == "delete":
        return False
    merge = _Merge(draft, _lists_of(draft))
    fields = merge.mapping(draft.fields, patch.mapping(), patch, ())
    if isinstance(fields, dict):
        draft.fields = fields
    return True


def merge_keys_of(api_version: str, kind: str, name: str) -> tuple[str, ...]:
    """What tells the items of a list of that name apart, where a patch merges it; nothing where it is replaced."""
    return _LISTS.get((split_version(api_version)[0], kind), {}).get(name, ())


def _lists_of(draft: ObjectDraft) -> Mapping[str, tuple[str, ...]]:
    identity = draft.identity
    own = _LISTS.get((identity.group, identity.kind), {})
    return {**own, **_OWNER_LISTS} if identity.group in _BUILT_IN_GROUPS else own


def _directive(value: Value) -> str:
    directive = value.get(_DIRECTIVE) if isinstance(value, dict) else None
    return directive if isinstance(directive, str) else ""


def _without_directive(value: Value) -> Value:
    if isinstance(value, dict) and _DIRECTIVE in value:
        return {key: member for key, member in value.items() if key != _DIRECTIVE}
    return value


def _without_nulls(value: Value) -> Value:
    """What a patch adds: there is nothing yet that its nulls and directives could act on."""
    if isinstance(value, dict):
        kept = ((key, member) for key, member in value.items() if member is not None and key != _DIRECTIVE)
        return {key: _without_nulls(member) for key, member in kept if _directive(member) != "delete"}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if _directive(item) != "delete"]
    return value


class _Merge:
    """One merge of one patch into one draft: new values come out, the draft's trace learns where from."""

    def __init__(self, draft: ObjectDraft, lists: Mapping[str, tuple[str, ...]]) -> None:
        self._draft = draft
        self._trace = draft.trace
        self._lists = lists

    def mapping(self, old: dict[str, Value], patch: dict[str, Value], source: SourceField, path: Field) -> Value:
        """The members of both, the patch's over the old ones."""
        if _directive(patch) == "replace":
            self._trace.record(path, source)
            return _without_directive(patch)
        merged = dict(old)
        for key, value in patch.items():
            if key.startswith("$"):
                self._refuse_unfollowed(key, source, path)
            else:
                self._member(merged, key, value, source.below(key), (*path, key))
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
        keys = self._merge_keys(old, patch, path)
        if any(_directive(item) == "replace" for item in patch):
            keys = ()
        if keys and _are_mappings(old) and _are_mappings(patch):
            return self._merged_list(old, patch, source, path, keys)
        self._trace.record(path, source)
        return [item for item in patch if _directive(item) != "replace"]

    def _merge_keys(self, old: Sequence[Value], patch: Sequence[Value], path: Field) -> tuple[str, ...]:
        """The list's keys that any of its items has: a port without protocol is told by its number alone."""
        keys = self._lists.get(str(path[-1]), ()) if path else ()
        used = tuple(key for key in keys if any(isinstance(item, dict) and key in item for item in (*old, *patch)))
        return used or keys

    def _merged_list(
        self, old: list[Value], patch: list[Value], source: SourceField, path: Field, keys: tuple[str, ...]
    ) -> Value:
        """The patch's items first, each over the old one of its key, then what is left of the old ones."""
        places = {_name(item, keys): index for index, item in enumerate(old)}
        before = [self._trace.subtree((*path, index)) for index in range(len(old))]
        chosen: list[tuple[Value, SourceTrace]] = []
        taken: set[int] = set()
        for number, item in enumerate(patch):
            index = places.get(_name(item, keys))
            if index is not None:
                taken.add(index)
            if _directive(item) != "delete":
                chosen.append(
                    self._item(item, source.below(number), None if index is None else old[index], before, index)
                )
        chosen += [(old[index], before[index]) for index in range(len(old)) if index not in taken]
        self._put(path, chosen)
        return [value for value, _ in chosen]

    def _item(
        self, item: Value, source: SourceField, old: Value, before: Sequence[SourceTrace], index: int | None
    ) -> tuple[Value, SourceTrace]:
        if index is None or not isinstance(old, dict) or not isinstance(item, dict):
            return _without_directive(item), SourceTrace((source,))
        inner = _Merge(self._draft, self._lists)
        inner._trace = before[index]
        return inner.mapping(old, item, source, ()), before[index]

    def _put(self, path: Field, chosen: Sequence[tuple[Value, SourceTrace]]) -> None:
        sources = self._trace.sources_at(path)
        members: dict[str | int, SourceTrace] = {index: trace for index, (_, trace) in enumerate(chosen)}
        self._trace.place(path, SourceTrace(sources, members))

    def _refuse_unfollowed(self, key: str, source: SourceField, path: Field) -> None:
        if key.startswith(_UNFOLLOWED):
            reason = f"the patch directive {key} is not followed"
            self._draft.obstacles.append(Obstacle(reason=reason, place=source.place, field=path))


def _are_mappings(items: Sequence[Value]) -> bool:
    return all(isinstance(item, dict) for item in items)


def _name(item: Value, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(_key_texts(item, keys))


def _key_texts(item: Value, keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        yield str(item.get(key, "")) if isinstance(item, dict) else ""
