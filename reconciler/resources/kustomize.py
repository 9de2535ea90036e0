"""`kustomize.config.k8s.io` Kustomization and Component: whose fields they set, and which files are patches.

Builds are not followed here. Whatever a kustomization names is taken to be set by it.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.declarations import ReplicaOwner
from reconciler.domain.findings import Severity, finding_of
from reconciler.domain.identity import Place
from reconciler.errors import InputError
from reconciler.manifests import parse_documents
from reconciler.resources.objects import KubernetesObject, Patch, Piece, break_on, is_templated
from reconciler.resources.validation import LooseShape, validate
from reconciler.resources.wording import quote

OWNER = "kustomization"
FILE_NAMES = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})
# Kinds that we scale among those that a kustomization's `replicas` reach; its names say no kind.
_COUNTED_KINDS = ("Deployment", "StatefulSet")
# A patch without a name reaches many objects; only one that mentions these can set their replicas.
_REACHING = ("replicas", '"/spec"', "'/spec'", "/spec\n", "$patch")


class _ReplicaCount(LooseShape):
    name: Annotated[str, Field(min_length=1)]


class _Target(LooseShape):
    kind: str | None = None
    name: str | None = None


class _PatchEntry(LooseShape):
    path: str | None = None
    patch: str | None = None
    target: _Target | None = None


class _Kustomization(LooseShape):
    replicas: list[_ReplicaCount] | None = None
    patches: list[_PatchEntry] | None = None
    strategic: Annotated[list[str] | None, Field(alias="patchesStrategicMerge")] = None
    json6902: Annotated[list[_PatchEntry] | None, Field(alias="patchesJson6902")] = None


def is_kustomization(path: str) -> bool:
    """Whether a file is a kustomization by its name: it may leave out `kind`, so parse all of it."""
    return path.rpartition("/")[2] in FILE_NAMES


def read_kustomization(source: KubernetesObject) -> Iterator[Piece]:
    """An owner for each named workload, and the patches for `merge` to resolve."""
    validated = validate(_Kustomization, source.fields, locate=source.locate)
    yield from break_on(source, validated.findings)
    if validated.value is None:
        return
    for index, count in enumerate(validated.value.replicas or ()):
        for kind in _COUNTED_KINDS:
            yield own_workload(source.cluster, kind, count.name, source.locate(("replicas", index)))
    for index, entry in enumerate(validated.value.patches or ()):
        yield from _read_patch(source, ("patches", index), entry, is_pattern=True)
    for index, entry in enumerate(validated.value.json6902 or ()):
        yield from _read_patch(source, ("patchesJson6902", index), entry, is_pattern=False)
    for index, text in enumerate(validated.value.strategic or ()):
        is_inline = "\n" in text.strip()
        entry = _PatchEntry(patch=text) if is_inline else _PatchEntry(path=text.strip())
        yield from _read_patch(source, ("patchesStrategicMerge", index), entry, is_pattern=False)


def own_workload(cluster: str, kind: str, name: str, place: Place) -> ReplicaOwner:
    """The kustomization at `place` as the owner of a workload, in whatever namespace it builds it into."""
    return ReplicaOwner(cluster=cluster, namespace="", owner=OWNER, target_kind=kind, target_name=name, place=place)


def _read_patch(
    source: KubernetesObject, path: tuple[str | int, ...], entry: _PatchEntry, *, is_pattern: bool
) -> Iterator[Piece]:
    place = source.locate(path)
    file = "" if entry.path is None else join_path(source.document.path, entry.path)
    if entry.path is not None and not file and not is_templated(entry.path):
        message = f"expected a file inside the repository, got {quote(entry.path)}"
        yield source.complain((*path, "path") if is_pattern else path, message, Severity.WARNING)
    if entry.target is not None:
        kind, name = entry.target.kind or "", entry.target.name or ""
        if name or file or _may_set_replicas(entry.patch or ""):
            yield Patch(cluster=source.cluster, place=place, kind=kind, name=name, is_pattern=is_pattern, path=file)
    elif file:
        yield Patch(cluster=source.cluster, place=place, path=file)
    elif entry.patch is not None:
        yield from _read_inline(source, place, entry.patch)


def _read_inline(source: KubernetesObject, place: Place, text: str) -> Iterator[Piece]:
    """An inline strategic merge patch names its object as any manifest does."""
    try:
        documents = parse_documents(place.path, text.encode(errors="replace"))
    except InputError as error:
        found = finding_of(InputError(place.path, place.line, place.field, error.message))
        yield found
        return
    for document in documents:
        value = document.value
        metadata = value.get("metadata") if isinstance(value, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        kind = value.get("kind") if isinstance(value, dict) else None
        if isinstance(name, str) and isinstance(kind, str):
            yield Patch(cluster=source.cluster, place=place, kind=kind, name=name)


def _may_set_replicas(patch: str) -> bool:
    return any(word in patch for word in _REACHING) or patch.endswith("/spec")


def join_path(file: str, relative: str) -> str:
    """The path from the repository's root of what `file` names relative to its directory; empty when outside it."""
    if relative.startswith("/") or "://" in relative or "\0" in relative:
        return ""
    parts = file.split("/")[:-1]
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
