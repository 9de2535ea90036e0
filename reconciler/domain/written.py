"""Where a change is written: documents, fields in them, patches of overlays, and the way of a status."""

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from reconciler.domain.identity import Place
from reconciler.domain.records import dataclass

FieldPath: TypeAlias = tuple[str | int, ...]
PatchPath: TypeAlias = tuple[str | tuple[str, ...], ...]
"""A way through a strategic merge patch; for a list the names of the items up to the wanted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRef:
    """One object inside a file: the document's position, and the field path to it inside a `List`."""

    path: str
    document: int
    prefix: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenField:
    """A field in a file: where edits find it, and its place for people.

    With `embedding`, the field of the document that holds a text, `field` leads on inside the text, in its document
    number `inner_document`. Of a number of replicas, `written` is what stands there, None when nothing does; `value` is
    what then counts, None for no limit; a ceiling is only ever raised. `entry` is the object's name in a kustomization
    that is to get an entry under `replicas`. With a `patch` the number is written there, in the mapping that `way`
    leads to, as the last part of `field`.
    """

    document: DocumentRef
    field: FieldPath
    place: Place
    embedding: FieldPath | None = None
    inner_document: int = 0
    is_ceiling: bool = False
    written: int | None = None
    value: int | None = None
    entry: str = ""
    patch: "OverlayPatch | None" = None
    way: PatchPath = ()

    def wanted(self, replicas: int | None, ceiling: int | None = None) -> int | None:
        """The number that is to be written here, None where it stays; so do replicas and a ceiling that are None.

        A ceiling that is not given itself takes only replicas that would pass it.
        """
        if not self.is_ceiling:
            return replicas
        if ceiling is not None:
            return ceiling if ceiling != self.value else None
        is_passed = replicas is not None and self.value is not None and replicas > self.value
        return replicas if is_passed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPatch:
    """The strategic merge patch of ours for one object, next to the kustomization of the overlay that builds it.

    `document` is its number in the file, None while there is none. `listed_at` is where the kustomization, in its
    document `kustomization_document`, gets to list the file: None once it does, else a number among its patches, 0
    where it has none. The object is named as it is written, before the overlay renames it.
    """

    path: str
    document: int | None
    kustomization: str
    kustomization_document: int
    listed_at: int | None
    api_version: str
    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPlace:
    """How a status can reach the cluster: `directory` is that of the kustomization which builds the object.

    `resources` names what the kustomization lists already. `deployer` is the object in Git that deploys the directory,
    a Flux Kustomization where `is_flux`, else an Argo CD Application, called `deployer_name` in `deployer_namespace`.
    `reason` says why there is no way, and then all else is empty.
    """

    directory: str = ""
    kustomization: str = ""
    kustomization_document: int = 0
    resources: tuple[str, ...] = ()
    deployer: DocumentRef | None = None
    deployer_name: str = ""
    deployer_namespace: str = ""
    source_name: str = ""
    is_flux: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPlace:
    """Where the entries of one mapping (or list) of a built object are written, when not just in its own manifest.

    `entries` has where each existing one can be changed; None where it cannot. `home` is where the mapping
    stands that takes new ones, or where it would: what holds it is there. All else goes to `patch`, in which `way`
    leads to the mapping. `reason` says why there is no patch.
    """

    entries: Mapping[str | int, WrittenField | None] = field(default_factory=dict)
    home: WrittenField | None = None
    patch: OverlayPatch | None = None
    way: PatchPath = ()
    reason: str = ""

    @property
    def is_writable(self) -> bool:
        """Whether any entry can be written."""
        return self.home is not None or self.patch is not None or any(self.entries.values())
