"""What a policy scales, found among all that is in Git: where its number stands, and which pods are its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.domain.declared.kthena import (
    KthenaResources,
    ModelBackend,
    ModelResource,
    PolicyResource,
    ServingResource,
    TargetReference,
)
from reconciler.domain.declared.tracking import Generation
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.identity import ResourceKey
from reconciler.manifests.wording import suggest
from reconciler.resources.kthena.references import SERVED_BY

_LEADER = "leader"
_SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What is not in Git, in words: a mistake, or perhaps somewhere else."""

    words: str
    is_mistake: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTarget:
    """What a reference means: the key that is scaled, its workload where Git has it, and pods of one replica."""

    key: ResourceKey
    workload: Workload | None
    pods_per_replica: int = 1
    missing: Missing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The resources of a commit by what names them; `generated` are backends by the workload made from them."""

    policies: Mapping[ResourceKey, PolicyResource]
    servings: Mapping[ResourceKey, ServingResource]
    generated: Mapping[ResourceKey, tuple[ModelResource, ModelBackend]]
    broken: frozenset[ResourceKey]

    def find(self, reference: TargetReference, near: ResourceKey, role: str, generation: Generation) -> FoundTarget:
        """What `near`, a policy or binding, means by a reference, with a role of it."""
        namespace = reference.namespace or near.namespace
        key = ResourceKey(cluster=near.cluster, namespace=namespace, kind=reference.kind, name=reference.name)
        serving = self.servings.get(key)
        if serving is not None:
            return _find_in_serving(serving, role, generation)
        made = self.generated.get(key)
        if made is not None and not role:
            backend = made[1]
            return FoundTarget(
                key=backend.workload.key,
                workload=backend.workload,
                pods_per_replica=pods_of_backend(backend, generation),
            )
        missing = None if key in self.broken else self._missing(key)
        return FoundTarget(key=replace(key, part=role), workload=None, missing=missing)

    def _missing(self, key: ResourceKey) -> Missing:
        beside = (each.name for each in (*self.servings, *self.generated) if replace(each, name=key.name) == key)
        hint = suggest(key.name, beside)
        return Missing(words=f"{key.kind} {key.label} is not in Git{hint}", is_mistake=bool(hint))


def index_of(resources: KthenaResources, broken: frozenset[ResourceKey]) -> Index:
    """The index of all clusters; `broken` are objects that Git has but nobody can use."""
    return Index(
        policies={policy.key: policy for policy in resources.policies},
        servings={serving.key: serving for serving in resources.servings},
        generated={
            replace(model.key, kind=SERVED_BY[model.key.kind], name=backend.serving): (model, backend)
            for model in resources.models
            for backend in model.backends
        },
        broken=broken,
    )


def _find_in_serving(serving: ServingResource, role_name: str, generation: Generation) -> FoundTarget:
    if not role_name:
        return FoundTarget(
            key=serving.key, workload=serving.workload, pods_per_replica=_pods_of_group(serving, generation)
        )
    role = serving.role(role_name)
    if role is None:
        missing = Missing(words=f"{serving.key.kind} {serving.key.label} has no role {role_name}", is_mistake=True)
        return FoundTarget(key=replace(serving.key, part=role_name), workload=None, missing=missing)
    groups = serving.workload.replicas
    return FoundTarget(
        key=role.workload.key, workload=role.workload, pods_per_replica=max(1 if groups is None else groups, 1)
    )


def _pods_of_group(serving: ServingResource, generation: Generation) -> int:
    """How many pods of a group have its generation's labels: those of the leader, since G3 each role's entry pods."""
    if generation in (Generation.G1, Generation.G2):
        leader = serving.role(_LEADER)
        return max(leader.replicas * (1 + leader.worker_replicas), 1) if leader else 1
    return max(sum(role.replicas for role in serving.roles), 1)


def pods_of_backend(backend: ModelBackend, generation: Generation) -> int:
    """How many pods with the labels of its generation one replica of a backend has; its server becomes the leader."""
    if generation in (Generation.G1, Generation.G2):
        return max(sum(worker.num_pods for worker in backend.workers if worker.type == _SERVER), 1)
    return max(sum(1 if worker.replicas is None else worker.replicas for worker in backend.workers), 1)


def pod_labels(prefix: str, serving: str, role: str, generation: Generation) -> dict[str, str]:
    """The labels on every pod that counts (kthena.md 4)."""
    if generation in (Generation.G1, Generation.G2):
        return {f"{prefix}name": serving, f"{prefix}role": role or _LEADER}
    labels = {f"{prefix}name": serving, f"{prefix}entry": "true"}
    return labels | ({f"{prefix}role": role} if role else {})
