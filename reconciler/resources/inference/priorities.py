"""How important the pods of a scale target are: what objectives say of the pools that select them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Displaced, Finding, ResourceKey, Severity, Source, Sourced, SourceKind
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import Workload
from reconciler.manifests.wording import escape, join_words, quote, suggest
from reconciler.resources.inference.gateway import (
    DEFAULT_PRIORITY,
    EXPERIMENTAL_GROUP,
    ROUTER_GROUP,
    Inference,
    InferenceModel,
    InferenceObjective,
    InferencePool,
    ModelRewrite,
)
from reconciler.resources.objects import Folded, of_kind, report_duplicate, split_duplicates
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
                meant = _name_pool(objective)
                objectives[meant] = (*objectives.get(meant, ()), objective)
        for model in inference.models:
            meant = _name_pool(model)
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
        objectives, models = self.objectives.get(name, ()), self.models.get(name, ())
        for each in objectives:
            words = f"InferenceObjective {each.key.label} of pool {pool.key.name}"
            yield Displaced(value=each.priority, source=_written_in(each, each.spec.priority, "priority", words))
        for model in () if objectives else models:
            words = f"{model.criticality} InferenceModel {model.key.label} of pool {pool.key.name}"
            source = _written_in(model, model.spec.criticality, "criticality", words)
            yield Displaced(value=model.priority, source=source)


def _written_in(
    record: InferenceObjective | InferenceModel, written: int | str | None, field: str, words: str
) -> Source:
    place = record.place if written is None else record.place_of(field)
    return Source(kind=SourceKind.RESOURCE, place=place, detail=words)


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


def _name_pool(record: InferenceObjective | InferenceModel) -> tuple[_Scope, str, str]:
    """What its reference means; the endpoint picker compares name and group, and ignores the kind."""
    return _scope_of(record.key), record.spec.pool_ref.group, record.spec.pool_ref.name


_Referring = InferenceObjective | InferenceModel | ModelRewrite
Kind = TypeVar("Kind", InferencePool, InferenceObjective, InferenceModel, ModelRewrite)


def fold_inference(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> Folded[Inference]:
    """Fold the pieces of all files; `broken` are the resources that cannot be used already."""
    doubled: list[BrokenResource] = []
    declared = Inference(
        pools=_pick(pieces, InferencePool, doubled),
        objectives=_pick(pieces, InferenceObjective, doubled),
        models=_pick(pieces, InferenceModel, doubled),
        rewrites=_pick(pieces, ModelRewrite, doubled),
    )
    findings = (
        *map(report_duplicate, doubled),
        *_check_groups(declared),
        *_check_references(declared, {each.key for each in (*broken, *doubled)}),
        *_check_names(declared),
    )
    return Folded(declared, tuple(doubled), findings)


def _pick(pieces: Sequence[object], kind: type[Kind], doubled: list[BrokenResource]) -> tuple[Kind, ...]:
    """The objects of a kind that stand alone in their group; the others are added to `doubled`."""
    found = of_kind(pieces, kind)
    single: list[Kind] = []
    for group in sorted({each.group for each in found}):
        alone, broken = split_duplicates(each for each in found if each.group == group)
        single += alone
        doubled += broken
    return tuple(single)


def _check_groups(declared: Inference) -> Iterator[Finding]:
    """Where both groups are installed the router reads only its own."""
    routed = list_routed_clusters(declared)
    for each in (*declared.objectives, *declared.rewrites):
        if each.group == EXPERIMENTAL_GROUP and each.key.cluster in routed:
            message = f"the router ignores {EXPERIMENTAL_GROUP} where {ROUTER_GROUP} is in use: move it there"
            yield Finding(place=replace(each.place, field="apiVersion"), severity=Severity.WARNING, message=message)


def _check_references(declared: Inference, broken: set[ResourceKey]) -> Iterator[Finding]:
    groups: dict[ResourceKey, list[str]] = {}
    for pool in declared.pools:
        groups.setdefault(pool.key, []).append(pool.group)
    referring: tuple[_Referring, ...] = (*declared.objectives, *declared.models, *declared.rewrites)
    for each in referring:
        ref, place = each.spec.pool_ref, each.place_of("poolRef")
        key = replace(each.key, kind="InferencePool", name=ref.name)
        known, label, severity = groups.get(key, []), escape(key.label), Severity.WARNING
        if ref.group in known or key in broken:
            continue
        if known:
            message = (
                f"InferencePool {label} is of {join_words(sorted(known), 'and')}, not of {quote(ref.group)}: "
                "the group must be the same"
            )
        elif hint := suggest(key.name, (other.name for other in groups if replace(other, name=key.name) == key)):
            message, severity = f"InferencePool {label} is not in Git{hint}", Severity.ERROR
        else:
            message = f"InferencePool {label} is not in Git: this has no effect"
        yield Finding(place=place, severity=severity, message=message)


def _check_names(declared: Inference) -> Iterator[Finding]:
    """Findings for InferenceModels of one pool and model name: a cluster keeps the older one, and Git has no ages."""
    first: dict[tuple[_Scope, str, str, str], InferenceModel] = {}
    for model in declared.models:
        name = model.spec.model_name
        other = first.setdefault((*_name_pool(model), name), model)
        if other is not model:
            message = f"modelName {quote(name)} is already taken in this pool at {other.place}"
            place = replace(model.place, field="spec.modelName")
            yield Finding(place=place, severity=Severity.WARNING, message=message)
