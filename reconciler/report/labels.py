"""Names as every output prints them: as short as they stay unambiguous."""

from collections import Counter
from collections.abc import Iterable, Mapping

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.report.plain import LABEL_LENGTH, one_line


def labels_of(keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, str]:
    """`[KIND:][CLUSTER/]NAMESPACE/NAME`: the cluster when there are several, the kind where two share a name."""
    unique = sorted(set(keys))
    several = len({key.cluster for key in unique}) > 1
    paths = {key: f"{key.cluster}/{key.label}" if several else key.label for key in unique}
    return _with_kinds(paths)


def short_labels_of(keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, str]:
    """The same without the namespace where all share one; for a text whose title already says it."""
    unique = sorted(set(keys))
    if len({(key.cluster, key.namespace) for key in unique}) > 1:
        return labels_of(unique)
    return _with_kinds({key: key.label.removeprefix(f"{key.namespace}/") for key in unique})


def model_name(model: ModelKey) -> str:
    """The last part of a model's id, which is how people call it: `Llama-3.1-8B-Instruct`."""
    return one_line(model.model_id.rstrip("/").rpartition("/")[2] or model.model_id, limit=LABEL_LENGTH)


def _with_kinds(paths: Mapping[ResourceKey, str]) -> Mapping[ResourceKey, str]:
    uses = Counter(paths.values())
    return {
        key: one_line(f"{key.kind.lower()}:{path}" if uses[path] > 1 else path, limit=LABEL_LENGTH)
        for key, path in paths.items()
    }
