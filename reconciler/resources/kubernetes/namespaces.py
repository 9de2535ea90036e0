"""`v1` Namespace: whether everything in it is to be left alone, and what upstream's marks on it say."""

from collections.abc import Iterator

from reconciler.domain.declared.declarations import IgnoredNamespace
from reconciler.domain.declared.saturation_settings import UpstreamNamespace
from reconciler.domain.variant_settings import IGNORE
from reconciler.resources.annotations import NAMESPACE_NAMES, check_annotations
from reconciler.resources.objects import KubernetesObject, Piece, break_on

_OPTED_IN = "wva.llmd.ai/config-enabled"


def read_namespace(source: KubernetesObject) -> Iterator[Piece]:
    """The namespace, when it is annotated to be ignored or marked for upstream."""
    checked = check_annotations(source, NAMESPACE_NAMES)
    yield from break_on(source, checked.findings)
    ignore = checked.settings.get(IGNORE.name)
    if ignore is not None and ignore.value is True:
        yield IgnoredNamespace(cluster=source.cluster, name=source.name, place=ignore.place)
    if source.labels.get(_OPTED_IN) == "true":
        yield UpstreamNamespace(cluster=source.cluster, name=source.name, place=source.place)
