"""Which families are read, and what is known of their kinds."""

from collections.abc import Iterator, Mapping

from reconciler.manifests.wording import describe
from reconciler.resources.aibrix import AIBRIX
from reconciler.resources.dynamo import DYNAMO
from reconciler.resources.inference import INFERENCE
from reconciler.resources.kaito import KAITO
from reconciler.resources.kinds import Family, Kind
from reconciler.resources.kserve import KSERVE
from reconciler.resources.kthena import KTHENA
from reconciler.resources.kuberay import KUBERAY
from reconciler.resources.kubernetes import KUBERNETES
from reconciler.resources.llmaz import LLMAZ
from reconciler.resources.llmd import llmd_family
from reconciler.resources.nim import NIM
from reconciler.resources.objects import (
    KubernetesObject,
    Piece,
)
from reconciler.resources.validation import is_templated

FAMILIES: tuple[Family, ...] = (
    KUBERNETES,
    LLMAZ,
    INFERENCE,
    KTHENA,
    KSERVE,
    DYNAMO,
    AIBRIX,
    KAITO,
    NIM,
    KUBERAY,
)
"""Every family but upstream's own, which needs to know the scale targets of all: a new one gets its place here."""
_TARGET_VERSIONS = {
    name: kind.versions[0] for family in FAMILIES for name, kind in family.kinds.items() if kind.is_scale_target
}
_ALL_FAMILIES = (*FAMILIES, llmd_family(_TARGET_VERSIONS))
_CONFIG_MAPS = {name: read for family in _ALL_FAMILIES for name, read in family.config_maps.items() if name}
_ANY_CONFIG_MAP = tuple(family.config_maps[""] for family in _ALL_FAMILIES if "" in family.config_maps)


def _read_config_map(source: KubernetesObject) -> Iterator[Piece]:
    """What a ConfigMap holds of ours, if anything; others are none of our business."""
    entries = source.fields.get("data")
    read = _CONFIG_MAPS.get(source.name)
    if isinstance(entries, dict):
        for each in _ANY_CONFIG_MAP if read is None else (read,):
            yield from each(source, entries)
    elif read is not None and entries is not None and not is_templated(entries):
        yield source.complain(("data",), f"expected a mapping, got {describe(entries)}")


KINDS: Mapping[str, Kind] = {name: kind for family in _ALL_FAMILIES for name, kind in family.kinds.items()} | {
    "ConfigMap": Kind(versions=("v1",), read=_read_config_map, holds_settings=True, holds_numbers=True)
}
"""Every kind that is read, by its name."""
AUTOSCALERS = tuple(name for name, kind in KINDS.items() if kind.is_autoscaler)
"""The kinds that set the replicas of other objects."""
# A `List` of these holds their names too, so it needs no word of its own.
KIND_WORDS: frozenset[bytes] = frozenset((kind.word or name).encode() for name, kind in KINDS.items())
"""The words of which one stands in every document worth parsing."""
