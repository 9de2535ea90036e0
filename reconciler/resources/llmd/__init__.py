"""PURE. The kinds and ConfigMaps of upstream's Workload Variant Autoscaler."""

from collections.abc import Mapping
from functools import partial

from reconciler.resources.kinds import Family, Kind
from reconciler.resources.llmd.saturation import SATURATION_CONFIG_MAPS, ZERO_CONFIG_MAP, read_saturation, read_zero
from reconciler.resources.llmd.service_classes import CLASSES_CONFIG_MAP, COSTS_CONFIG_MAP, read_classes, read_costs
from reconciler.resources.llmd.variant_autoscaling import read_variant


def llmd_family(target_versions: Mapping[str, str]) -> Family:
    """The family; `target_versions` are the kinds that its resource may scale, each with the version to name it in.

    `sloClassRef` names any ConfigMap, so every one is looked into for what has the shape of a class.
    """
    return Family(
        kinds={
            "VariantAutoscaling": Kind(
                versions=("llmd.ai/v1alpha1",),
                read=partial(read_variant, target_versions=target_versions),
                ours_alone=True,
                declares_variants=True,
            )
        },
        config_maps={
            COSTS_CONFIG_MAP: read_costs,
            CLASSES_CONFIG_MAP: read_classes,
            **dict.fromkeys(SATURATION_CONFIG_MAPS, read_saturation),
            ZERO_CONFIG_MAP: read_zero,
            "": read_classes,
        },
    )
