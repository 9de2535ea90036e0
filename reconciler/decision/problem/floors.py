"""The fewest replicas a variant has, and how urgent it is: who is less urgent than nothing has no floor."""

from reconciler.domain.provenance import SourceKind
from reconciler.domain.variant_settings import MAX_REPLICAS, MIN_REPLICAS
from reconciler.domain.variants import Variant


def priority_of(variant: Variant) -> int:
    """What its pools' objectives say; where none does its service class."""
    if variant.priority is not None and variant.priority.source.kind is not SourceKind.BUILT_IN:
        return variant.priority.value
    return 0 if variant.service_class is None else variant.service_class.value.priority


def written_minimum(variant: Variant) -> int:
    """The lower bound; who is less urgent than nothing has none unless somebody wrote it."""
    least = variant.settings[MIN_REPLICAS]
    is_assumed = least.source.kind is SourceKind.BUILT_IN
    return 0 if is_assumed and priority_of(variant) < 0 else least.value


def idle_replicas(variant: Variant) -> int:
    """The fewest replicas of a variant without load.

    A written minimum of 0 does not stop the last replica: waking it again would take a merge and a sync. A written
    maximum of 0 does.
    """
    least, most = variant.settings[MIN_REPLICAS].value, variant.settings[MAX_REPLICAS].value
    fewest = least if least > 0 else min(variant.current.replicas, 1)
    return fewest if most is None else min(fewest, most)
