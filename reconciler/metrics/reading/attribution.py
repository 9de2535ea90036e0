"""Attributes series to variants, by the first of five rules that finds one.

1. the label `llm_d_ai_variant` on the series; 2. the same label on the pod; 3. the Deployment that owns the pod's
ReplicaSet; 4. the pod's name, by the pattern of the scale target's kind; 5. the served model, when one variant has it.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.domain.identity import ResourceKey
from reconciler.domain.snapshot import Variant
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.reading.readings import (
    MetricReadings,
    ObjectName,
    ReplicaSeries,
    Served,
    Target,
    gather_by_model,
)
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS

LONGEST_NAME = 253

ANY_ROLE = "[0-9a-z]([-0-9a-z]*[0-9a-z])?"

_POD_NAMES = {
    name: re.compile(f"(.+?){kind.pod_names.replace(ROLE, ANY_ROLE)}") for name, kind in KINDS.items() if kind.pod_names
}

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Indexes of one cluster's variants; a name that two variants claim is in none of them."""

    by_name: Mapping[ObjectName, ResourceKey]
    by_target: Mapping[Target, ResourceKey]
    by_model: Mapping[Served, ResourceKey]
    readings: MetricReadings

    def variant_of(self, series: ReplicaSeries) -> ResourceKey | None:
        """The variant whose replica reports `series`, None when no rule leads to one."""
        return (
            self.by_name.get(ObjectName(series.namespace, series.variant))
            or self._by_pod_label(series)
            or self._by_owner(series)
            or self._by_pod_name(series)
            or self.by_model.get(Served(series.namespace, series.model))
        )

    def is_elsewhere(self, series: ReplicaSeries) -> bool:
        """Whether the pod behind `series` is known to be of a Deployment that no variant scales."""
        deployment = self._deployment_of(series)
        return bool(deployment) and (series.namespace, "Deployment", deployment) not in self.by_target

    def _by_pod_label(self, series: ReplicaSeries) -> ResourceKey | None:
        name = self.readings.owner_of(Name.POD_LABELS, ObjectName(series.namespace, series.pod))
        return self.by_name.get(ObjectName(series.namespace, name))

    def _by_owner(self, series: ReplicaSeries) -> ResourceKey | None:
        return self.by_target.get((series.namespace, "Deployment", self._deployment_of(series)))

    def _deployment_of(self, series: ReplicaSeries) -> str:
        replicaset = self.readings.owner_of(Name.POD_OWNER, ObjectName(series.namespace, series.pod))
        return self.readings.owner_of(Name.REPLICASET_OWNER, ObjectName(series.namespace, replicaset))

    def _by_pod_name(self, series: ReplicaSeries) -> ResourceKey | None:
        if len(series.pod) > LONGEST_NAME:
            return None
        matches = [(kind, pattern.fullmatch(series.pod)) for kind, pattern in _POD_NAMES.items()]
        targets = [(series.namespace, kind, match[1]) for kind, match in matches if match]
        known = [target for target in targets if target in self.by_target]
        return self.by_target[max(known, key=lambda target: len(target[2]))] if known else None


def attribution_of(variants: Sequence[Variant], readings: MetricReadings) -> Attribution:
    """The indexes of `variants`, all of one cluster."""
    return Attribution(
        by_name=_unambiguous(
            (ObjectName(variant.key.namespace, variant.key.name), variant.key) for variant in variants
        ),
        by_target=_unambiguous((target_of(variant), variant.key) for variant in variants),
        by_model=_unambiguous((served, variant.key) for variant in variants for served in served_by(variant)),
        readings=readings,
    )


def target_of(variant: Variant) -> Target:
    """The object that pods are named after; without a scale target in Git, the Deployment named like the resource."""
    if variant.workload is None:
        return variant.key.namespace, "Deployment", variant.key.name
    key = variant.workload.becomes or variant.workload.key
    return key.namespace, key.kind, key.name


def served_by(variant: Variant) -> tuple[Served, ...]:
    """The names under which metrics may know the variant's model."""
    names = variant.served_names or (variant.model.model_id,)
    return tuple(Served(variant.model.namespace, name) for name in dict.fromkeys(names))


def name_models(readings: MetricReadings, attribution: Attribution, first_names: Mapping[ResourceKey, Served]) -> None:
    """Count each series without a model for the first served name of the variant whose pod it is."""
    unnamed = {series for values in readings.per_pod.values() for series in values if not series.model}
    names: dict[ReplicaSeries, ReplicaSeries] = {}
    for series in unnamed:
        variant = attribution.variant_of(series)
        if variant is not None:
            names[series] = series._replace(model=first_names[variant].model)
    if not names:
        return
    for name, values in readings.per_pod.items():
        known = {series: value for series, value in values.items() if series not in names}
        # a pod that names its model beside a series that does not has said it already
        readings.per_pod[name] = {names.get(series, series): value for series, value in values.items()} | known
    readings.renamed.update(names.values())
    gather_by_model(readings)


def _unambiguous(pairs: Iterable[tuple[Key, ResourceKey]]) -> dict[Key, ResourceKey]:
    found: dict[Key, ResourceKey] = {}
    contested: set[Key] = set()
    for key, variant in pairs:
        if found.setdefault(key, variant) != variant:
            contested.add(key)
    return {key: variant for key, variant in found.items() if key not in contested}
