"""What clusters get of a commit: objects as they are built where Kustomize, Flux or Argo CD stand between."""

from collections.abc import Container, Iterable, Iterator

from reconciler.domain.declared.declarations import BrokenResource
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.placement.elsewhere import ELSEWHERE
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.resources.folding import FileDeclaration
from reconciler.resources.kubernetes.autoscalers import scales_another
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.reading import count_written, is_read, names_kind, read_file, read_object
from reconciler.resources.registry import KINDS

_OBJECT_DEPTH = 1
"""What is in the way of a whole object stands at most this deep: nowhere in particular, or at `spec`."""


def declare(fleet: Fleet, readings: Container[str]) -> Iterator[FileDeclaration]:
    """What every file declares in every cluster: as it stands where it is applied as it stands, else as it is built."""
    for cluster, build in fleet.clusters.items():
        if cluster == ELSEWHERE:
            continue
        for path in sorted(path for path in build.plain if path in readings):
            yield read_file(cluster, path, fleet.repository.files.get(path, ()))
        for path, objects in sorted(_by_path(build.objects).items()):
            if path not in build.plain:
                pieces = tuple(piece for built in objects for piece in _read(cluster, built))
                yield FileDeclaration(cluster=cluster, path=path, pieces=pieces)
        for path in sorted(build.unbuilt):
            documents = fleet.repository.files.get(path, ())
            if any(isinstance(each.value, dict) and names_kind(each.value.get("kind")) for each in documents):
                message = "no kustomization lists it, so nobody applies it: it is not read"
                finding = Finding(
                    place=Place(path=path), severity=Severity.WARNING, message=message, rule="unbuilt-file"
                )
                yield FileDeclaration(cluster=cluster, path=path, pieces=(finding,))


def count_objects(fleet: Fleet, readings: Container[str], clusters: Container[str]) -> int:
    """How many objects of kinds that are read some clusters get, sound or broken."""
    builds = [(cluster, build) for cluster, build in fleet.clusters.items() if cluster in clusters]
    plain = sum(
        count_written(fleet.repository.files.get(path, ()))
        for _, build in builds
        for path in build.plain
        if path in readings
    )
    built = ((cluster, each) for cluster, build in builds for each in build.objects if each.path not in build.plain)
    return plain + sum(is_read(_as_built(cluster, each)) for cluster, each in built)


def _by_path(objects: Iterable[BuiltObject]) -> dict[str, list[BuiltObject]]:
    found: dict[str, list[BuiltObject]] = {}
    for built in objects:
        found.setdefault(built.path, []).append(built)
    return found


def _read(cluster: str, built: BuiltObject) -> Iterator[Piece]:
    if not names_kind(built.key.kind) and not scales_another(built.fields):
        return
    obstacle = next((each for each in built.obstacles if len(each.field) <= _OBJECT_DEPTH), None)
    if obstacle is None:
        yield from read_object(_as_built(cluster, built))
    elif is_read(_as_built(cluster, built)) and not KINDS[built.key.kind].holds_settings:
        yield BrokenResource(key=built.key, place=obstacle.place or built.place, reason=obstacle.reason)


def _as_built(cluster: str, built: BuiltObject) -> KubernetesObject:
    return KubernetesObject(
        cluster=cluster,
        kind=built.key.kind,
        document=built.source.document,
        prefix=built.source.field,
        fields=built.fields,
        places=built.place_of,
    )
