"""How important the pods of a scale target are: what objectives say of the pools that select them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.domain.declared.inference import (
    DEFAULT_PRIORITY,
    ROUTER_GROUP,
    Inference,
    InferenceModel,
    InferenceObjective,
    InferencePool,
    ModelRewrite,
    PoolRef,
)
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.identity import ResourceKey
from reconciler.domain.provenance import Displaced, Source, Sourced, SourceKind
from reconciler.resources.registry import KINDS

_GROUP_NAME, _WORKER_INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index"

_Scope = tuple[str, str]
"""Cluster and namespace."""


@dataclass(frozen=True, slots=True)
class Priorities:
    """The pools and what is said of them, by cluster and namespace."""

    pools: Mapping[_Scope, tuple[InferencePool, ...]]
    objectives: Mapping[tuple[_Scope, str, str], tuple[InferenceObjective, ...]]
    models: Mapping[tuple[_Scope, str, str], tuple[InferenceModel, ...]]

    @classmethod
    def of(cls, inference: Inference) -> "Priorities":
        """Everything that counts: of objectives in both groups only those of the router's own."""
        routed = list_routed_clusters(inference)
        pools: dict[_Scope, tuple[InferencePool, ...]] = {}
        objectives: dict[tuple[_Scope, str, str], tuple[InferenceObjective, ...]] = {}
        models: dict[tuple[_Scope, str, str], tuple[InferenceModel, ...]] = {}
        for pool in inference.pools:
            scope = _scope_of(pool.key)
            pools[scope] = (*pools.get(scope, ()), pool)
        for objective in inference.objectives:
            if objective.group == ROUTER_GROUP or objective.key.cluster not in routed:
                meant = _name_pool(objective.key, objective.pool)
                objectives[meant] = (*objectives.get(meant, ()), objective)
        for model in inference.models:
            meant = _name_pool(model.key, model.pool)
            models[meant] = (*models.get(meant, ()), model)
        return cls(pools, objectives, models)

    def pools_of(self, workload: Workload) -> tuple[InferencePool, ...]:
        """The pools of its namespace that select its pods."""
        labels = list_pod_labels(workload)
        return tuple(pool for pool in self.pools.get(_scope_of(workload.key), ()) if pool.selects(labels))

    def priority_of(self, workload: Workload) -> Sourced[int]:
        """The highest priority that is declared for a pool that selects its pods, with the others it displaced.

        A replica serves every level of its pool, so the highest is the one it is needed for. A pool has its
        objectives' priorities, without any those of its InferenceModels, without these none: 0.
        """
        levels = sorted(
            (level for pool in self.pools_of(workload) for level in self._levels_of(pool)),
            key=lambda level: (-level.value, str(level.source)),
        )
        if not levels:
            source = Source(kind=SourceKind.BUILT_IN, detail="no InferenceObjective")
            return Sourced(value=DEFAULT_PRIORITY, source=source)
        return Sourced(value=levels[0].value, source=levels[0].source, displaced=tuple(levels[1:]))

    def _levels_of(self, pool: InferencePool) -> Iterator[Displaced[int]]:
        name = (_scope_of(pool.key), pool.group, pool.key.name)
        for objective in self.objectives.get(name, ()):
            place = objective.priority_place or objective.place
            words = f"InferenceObjective {objective.key.label} of pool {pool.key.name}"
            yield Displaced(
                value=objective.priority, source=Source(kind=SourceKind.RESOURCE, place=place, detail=words)
            )
        if name in self.objectives:
            return
        for model in self.models.get(name, ()):
            place = model.criticality_place or model.place
            words = f"{model.criticality} InferenceModel {model.key.label} of pool {pool.key.name}"
            yield Displaced(
                value=model.criticality.priority, source=Source(kind=SourceKind.RESOURCE, place=place, detail=words)
            )


def list_routed_clusters(inference: Inference) -> frozenset[str]:
    """The clusters in which the router's own group is in use: there it reads the experimental one no more."""
    written: tuple[InferenceObjective | ModelRewrite, ...] = (*inference.objectives, *inference.rewrites)
    return frozenset(each.key.cluster for each in written if each.group == ROUTER_GROUP)


def list_pod_labels(workload: Workload) -> Mapping[str, str]:
    """The labels of a scale target's pods: those of its template, and those that a group of pods gets."""
    kind = KINDS.get(workload.key.kind)
    if kind is None or not kind.is_pod_group:
        return workload.template_labels
    return {**workload.template_labels, _GROUP_NAME: workload.key.name, _WORKER_INDEX: "0"}


def _scope_of(key: ResourceKey) -> _Scope:
    return key.cluster, key.namespace


def _name_pool(key: ResourceKey, ref: PoolRef) -> tuple[_Scope, str, str]:
    """What a reference means; the endpoint picker compares name and group, and looks at no kind."""
    return _scope_of(key), ref.group, ref.name
