"""Policies joined with what they scale: one target for each workload, group of workloads or role."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from reconciler.domain.declared.kthena import (
    DEFAULT_COST_EXPANSION_PERCENT,
    BindingResource,
    DisaggregatedTarget,
    HeterogeneousTarget,
    HomogeneousTarget,
    KthenaResources,
    MetricEndpoint,
    ModelBackend,
    ModelResource,
    PolicyResource,
    PolicySpec,
    RoleTarget,
    ScaledTarget,
)
from reconciler.domain.declared.tracking import (
    Backend,
    Generation,
    MetricSource,
    PodMetric,
    Policy,
    RolePairing,
    TrackedBackend,
    TrackedTarget,
)
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.variant_settings import MIN_REPLICAS
from reconciler.manifests.wording import suggest
from reconciler.resources.kthena.scale_targets import FoundTarget, Index, Missing, index_of, pod_labels, pods_of_backend

_POLICY = "AutoscalingPolicy"
_SERVING_PREFIX = "modelserving.volcano.sh/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A target with the policy that it came from, and what of it is not in Git; `place` is where the target stands."""

    target: TrackedTarget
    spec: PolicySpec
    place: Place
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfollowed:
    """A resource whose policy cannot be followed; `reason` says why. No mistake of its own when `is_known`.

    `is_mistake` when something of nearly that name is there.
    """

    key: ResourceKey
    place: Place
    at: Place
    reason: str
    is_known: bool = False
    is_mistake: bool = False


Following: TypeAlias = Followed | Unfollowed


def tracked_targets(resources: KthenaResources) -> tuple[TrackedTarget, ...]:
    """Every target that a policy scales, in the order of their keys.

    A policy of a model makes its backends a group, one of a backend makes that a target of its own. The least that
    such a backend may have is `reconciler.io/min-replicas`, else its `minReplicas`, which is also where its count is
    written.
    """
    followed = follow(resources, frozenset())
    return tuple(sorted((each.target for each in followed if isinstance(each, Followed)), key=lambda each: each.key))


def follow(resources: KthenaResources, broken: frozenset[ResourceKey]) -> Iterator[Following]:
    """Every target with where it came from; `broken` are objects that Git has but nobody can use."""
    index = index_of(resources, broken)
    for policy in resources.policies:
        yield from _follow_policy(policy, index)
    for binding in resources.bindings:
        yield _follow_binding(binding, index)
    for model in resources.models:
        yield from _follow_model(model, index)


def _follow_policy(policy: PolicyResource, index: Index) -> Iterator[Following]:
    target = policy.target
    if isinstance(target, DisaggregatedTarget):
        yield from _follow_roles(policy, target, index)
    elif target is not None:
        yield _follow_target(policy.key, policy.place, policy.spec, target, (Generation.G4, _SERVING_PREFIX), index)


def _follow_binding(binding: BindingResource, index: Index) -> Following:
    found = _find_policy(binding.key, binding.policy, (binding.place, binding.policy_place), index)
    if isinstance(found, Unfollowed):
        return found
    if found.target is not None:
        reason = f"{_POLICY} {found.key.label} has a target of its own: it needs no binding"
        return Unfollowed(key=binding.key, place=binding.place, at=binding.policy_place, reason=reason)
    era = binding.generation, binding.label_prefix
    return _follow_target(binding.key, binding.place, found.spec, binding.target, era, index)


def _find_policy(
    near: ResourceKey, name: str, places: tuple[Place, Place], index: Index
) -> PolicyResource | Unfollowed:
    key = ResourceKey(cluster=near.cluster, namespace=near.namespace, kind=_POLICY, name=name)
    policy = index.policies.get(key)
    if policy is not None:
        return policy
    is_broken = key in index.broken
    if is_broken:
        reason = f"{_POLICY} {key.label} cannot be used"
        return Unfollowed(key=near, place=places[0], at=places[1], reason=reason, is_known=True)
    hint = suggest(name, (each.name for each in index.policies if replace(each, name=name) == key))
    reason = f"{_POLICY} {key.label} is not in Git{hint}"
    return Unfollowed(key=near, place=places[0], at=places[1], reason=reason, is_mistake=bool(hint))


def _follow_target(
    key: ResourceKey,
    place: Place,
    spec: PolicySpec,
    target: HomogeneousTarget | HeterogeneousTarget,
    era: tuple[Generation, str],
    index: Index,
) -> Followed:
    params = (target.target,) if isinstance(target, HomogeneousTarget) else target.params
    generation, _ = era
    found = [index.find(each.reference, key, each.role, generation) for each in params]
    rate = target.cost_expansion_percent if isinstance(target, HeterogeneousTarget) else DEFAULT_COST_EXPANSION_PERCENT
    return Followed(
        target=TrackedTarget(
            key=key,
            policy=spec.policy,
            backends=tuple(
                _as_backend(each, where, spec.policy, era) for each, where in zip(params, found, strict=True)
            ),
            generation=generation,
            cost_expansion_percent=rate,
        ),
        spec=spec,
        place=place,
        missing=tuple(each.missing for each in found if each.missing),
    )


def _as_backend(
    target: ScaledTarget, found: FoundTarget, policy: Policy, era: tuple[Generation, str]
) -> TrackedBackend:
    generation, prefix = era
    labels = pod_labels(prefix, target.reference.name, target.role, generation)
    return TrackedBackend(
        backend=Backend(
            name=target.reference.name,
            min_replicas=target.min_replicas,
            max_replicas=target.max_replicas,
            cost=target.cost,
        ),
        scale_target=found.key,
        pod_labels=labels | dict(target.match_labels),
        sources=_sources(policy, target.sources, target.endpoint),
        replicas=found.workload.replicas if found.workload else None,
        pods_per_replica=found.pods_per_replica,
    )


def _sources(policy: Policy, sources: Mapping[str, MetricSource], endpoint: MetricEndpoint) -> dict[str, MetricSource]:
    """Where each metric of the policy is read; what has no source of its own is exported at the endpoint."""
    names = [metric.name for metric in policy.metrics]
    return {name: sources.get(name) or _at_endpoint(name, endpoint) for name in names}


def _at_endpoint(metric: str, endpoint: MetricEndpoint) -> PodMetric:
    return PodMetric(name=metric, selector=endpoint.selector, port=endpoint.port, uri=endpoint.uri)


def _follow_roles(policy: PolicyResource, target: DisaggregatedTarget, index: Index) -> Iterator[Followed]:
    pairing = _pair(policy.key, target)
    for role in target.roles:
        found = index.find(target.reference, policy.key, role.name, Generation.G4)
        wanted = replace(policy.spec.policy, metrics=role.metrics or policy.spec.policy.metrics)
        tracked = TrackedTarget(
            key=replace(policy.key, part=role.name),
            policy=wanted,
            backends=(_as_role(role, target.reference.name, found, wanted),),
            generation=Generation.G4,
            pairing=pairing,
        )
        missing = (found.missing,) if found.missing else ()
        yield Followed(target=tracked, spec=policy.spec, place=role.place, missing=missing)


def _pair(key: ResourceKey, target: DisaggregatedTarget) -> RolePairing | None:
    """Two roles move together, even where nothing limits their ratio: they go to zero as one."""
    if len(target.roles) < 2:
        return None
    names = [role.name for role in target.roles]
    if target.ratio is not None:
        names = [target.ratio.numerator, target.ratio.denominator]
    return RolePairing(
        numerator=replace(key, part=names[0]),
        denominator=replace(key, part=names[1]),
        ratio=target.ratio.ratio if target.ratio else None,
    )


def _as_role(role: RoleTarget, serving: str, found: FoundTarget, policy: Policy) -> TrackedBackend:
    return TrackedBackend(
        backend=Backend(name=role.name, min_replicas=role.min_replicas, max_replicas=role.max_replicas),
        scale_target=found.key,
        pod_labels=pod_labels(_SERVING_PREFIX, serving, role.name, Generation.G4),
        sources=_sources(policy, role.sources, MetricEndpoint()),
        replicas=found.workload.replicas if found.workload else None,
        pods_per_replica=found.pods_per_replica,
    )


def _follow_model(model: ModelResource, index: Index) -> Iterator[Following]:
    if model.has_policy:
        places = model.place, model.policy_ref_place or model.place
        found = model.policy or _find_policy(model.key, model.policy_ref, places, index)
        yield found if isinstance(found, Unfollowed) else _follow_backends(model, model.key, model.backends, found)
        return
    for backend in model.backends:
        if backend.has_policy:
            places = backend.place, backend.policy_ref_place or backend.place
            key = backend.workload.key
            found = backend.policy or _find_policy(key, backend.policy_ref, places, index)
            yield found if isinstance(found, Unfollowed) else _follow_backends(model, key, (backend,), found)


def _follow_backends(
    model: ModelResource, key: ResourceKey, backends: tuple[ModelBackend, ...], policy: PolicySpec | PolicyResource
) -> Followed:
    spec = policy.spec if isinstance(policy, PolicyResource) else policy
    return Followed(
        target=TrackedTarget(
            key=key,
            policy=spec.policy,
            backends=tuple(_as_model_backend(model, each, spec.policy) for each in backends),
            generation=model.generation,
            cost_expansion_percent=model.cost_expansion_percent,
            least_replicas=0 if model.generation is Generation.G3 else 1,
        ),
        spec=spec,
        place=backends[0].place if len(backends) == 1 else model.place,
    )


def _as_model_backend(model: ModelResource, backend: ModelBackend, policy: Policy) -> TrackedBackend:
    annotation = model.settings.get(MIN_REPLICAS.name)
    least = int(annotation.value) if annotation else backend.min_replicas
    return TrackedBackend(
        backend=Backend(
            name=backend.name or backend.serving,
            min_replicas=min(least, backend.max_replicas),
            max_replicas=backend.max_replicas,
            cost=backend.cost,
            scale_to_zero_grace_s=backend.scale_to_zero_grace_s,
        ),
        scale_target=backend.workload.key,
        pod_labels=pod_labels(model.label_prefix, backend.serving, "", model.generation),
        sources=_sources(policy, {}, MetricEndpoint()),
        replicas=backend.workload.replicas,
        pods_per_replica=pods_of_backend(backend, model.generation),
        counts_at_minimum=annotation is None,
    )
