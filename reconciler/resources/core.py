"""`v1` Namespace: whether everything in it is to be left alone."""

from collections.abc import Iterator

from reconciler.domain.declarations import IgnoredNamespace
from reconciler.resources.annotations import NAMESPACE_NAMES, check_annotations
from reconciler.resources.objects import KubernetesObject, Piece, break_on


def read_namespace(source: KubernetesObject) -> Iterator[Piece]:
    """The namespace, when it is annotated to be ignored."""
    checked = check_annotations(source, NAMESPACE_NAMES)
    yield from break_on(source, checked.findings)
    ignore = checked.settings.get("ignore")
    if ignore is not None and ignore.value is True:
        yield IgnoredNamespace(cluster=source.cluster, name=source.name, place=ignore.place)
