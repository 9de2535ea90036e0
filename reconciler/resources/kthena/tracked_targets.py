"""Policies joined with what they scale, and what is wrong between them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import TypeAlias

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.metric_targets import (
    Backend,
    Generation,
    MetricSource,
    PodMetric,
    Policy,
    Rate,
    RatioRange,
    RolePairing,
    Select,
    TrackedBackend,
    TrackedTarget,
)
from reconciler.domain.records import dataclass, replace
from reconciler.domain.variant_settings import MIN_REPLICAS
from reconciler.domain.workloads import Workload
from reconciler.manifests.wording import join_words, suggest
from reconciler.resources.kthena import KthenaResources
from reconciler.resources.kthena.generations import SERVED_BY, TargetReference, find_era, read_reference
from reconciler.resources.kthena.models import ModelBackend, ModelResource
from reconciler.resources.kthena.policies import BindingResource, PolicyResource
from reconciler.resources.kthena.policy_specs import DisaggregatedFields, PolicySpec, describe_stuck, read_metrics
from reconciler.resources.kthena.servings import ServingResource
from reconciler.resources.kthena.targets import (
    DEFAULT_COST_EXPANSION_PERCENT,
    GroupTarget,
    MetricEndpoint,
    ScaledTarget,
    read_sources,
)
from reconciler.resources.kubernetes.fields import read_quantity
from reconciler.resources.objects import Folded, of_kind, report_duplicate, split_duplicates

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
        others = (each.name for each in (*self.servings, *self.generated) if replace(each, name=key.name) == key)
        hint = suggest(key.name, others)
        return Missing(words=f"{key.kind} {key.label} is not in Git{hint}", is_mistake=bool(hint))


def index_of(resources: KthenaResources, broken: frozenset[ResourceKey]) -> Index:
    """The index of all clusters; `broken` are objects in Git that cannot be used."""
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
        return max(sum(worker.num_pods for worker in backend.workers if worker.kind == _SERVER), 1)
    return max(sum(1 if worker.replicas is None else worker.replicas for worker in backend.workers), 1)


def pod_labels(prefix: str, serving: str, role: str, generation: Generation) -> dict[str, str]:
    """The labels on every pod that counts (rules/upstream.md#pods)."""
    if generation in (Generation.G1, Generation.G2):
        return {f"{prefix}name": serving, f"{prefix}role": role or _LEADER}
    labels = {f"{prefix}name": serving, f"{prefix}entry": "true"}
    return labels | ({f"{prefix}role": role} if role else {})


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
    """Every target with where it came from; `broken` are objects in Git that cannot be used."""
    index = index_of(resources, broken)
    for policy in resources.policies:
        yield from _follow_policy(policy, index)
    for binding in resources.bindings:
        yield _follow_binding(binding, index)
    for model in resources.models:
        yield from _follow_model(model, index)


def _follow_policy(policy: PolicyResource, index: Index) -> Iterator[Following]:
    target = policy.target
    if isinstance(target, DisaggregatedFields):
        yield from _follow_roles(policy, target, index)
    elif target is not None:
        yield _follow_target(policy.key, policy.place, policy.spec, target, (Generation.G4, _SERVING_PREFIX), index)


def _follow_binding(binding: BindingResource, index: Index) -> Following:
    found = _find_policy(binding.key, binding.policy, (binding.place, binding.place_of("policyRef")), index)
    if isinstance(found, Unfollowed):
        return found
    if found.target is not None:
        reason = f"{_POLICY} {found.key.label} has a target of its own: it needs no binding"
        return Unfollowed(key=binding.key, place=binding.place, at=binding.place_of("policyRef"), reason=reason)
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
    target: ScaledTarget | GroupTarget,
    era: tuple[Generation, str],
    index: Index,
) -> Followed:
    params = (target,) if isinstance(target, ScaledTarget) else target.params
    generation, _ = era
    found = [index.find(each.reference, key, each.role, generation) for each in params]
    rate = target.cost_expansion_percent if isinstance(target, GroupTarget) else DEFAULT_COST_EXPANSION_PERCENT
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
    return {
        name: sources.get(name)
        or PodMetric(name=name, selector=endpoint.selector, port=endpoint.port, uri=endpoint.uri)
        for name in names
    }


def _follow_roles(policy: PolicyResource, target: DisaggregatedFields, index: Index) -> Iterator[Followed]:
    """The roles in the order of their names; two move together even without a ratio: they go to zero as one."""
    pairing, names, ratio = None, sorted(target.roles), target.ratio_constraint
    reference = read_reference(target.target_ref, find_era(policy.source, Generation.G4))
    if len(names) == 2:
        over, under = names if ratio is None else (ratio.numerator_role, ratio.denominator_role)
        limits = None
        if ratio is not None:
            limits = RatioRange(minimum=read_quantity(ratio.min_ratio), maximum=read_quantity(ratio.max_ratio))
        pairing = RolePairing(
            numerator=replace(policy.key, part=over), denominator=replace(policy.key, part=under), ratio=limits
        )
    for name in names:
        role, found = target.roles[name], index.find(reference, policy.key, name, Generation.G4)
        metrics = read_metrics(role.metrics) or policy.spec.policy.metrics
        wanted = replace(policy.spec.policy, metrics=metrics)
        backend = TrackedBackend(
            backend=Backend(name=name, min_replicas=role.min_replicas, max_replicas=role.max_replicas),
            scale_target=found.key,
            pod_labels=pod_labels(_SERVING_PREFIX, reference.name, name, Generation.G4),
            sources=_sources(wanted, read_sources(role.metric_sources), MetricEndpoint()),
            replicas=found.workload.replicas if found.workload else None,
            pods_per_replica=found.pods_per_replica,
        )
        tracked = TrackedTarget(
            key=replace(policy.key, part=name),
            policy=wanted,
            backends=(backend,),
            generation=Generation.G4,
            pairing=pairing,
        )
        place = policy.place_of("disaggregatedTarget", "roles", name)
        yield Followed(target=tracked, spec=policy.spec, place=place, missing=(found.missing,) if found.missing else ())


def _follow_model(model: ModelResource, index: Index) -> Iterator[Following]:
    if model.has_policy:
        places = model.place, model.place_of("autoscalingPolicyRef")
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


def fold_kthena(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> Folded[KthenaResources]:
    """Fold the pieces of all files; `broken` are the resources that cannot be used already."""
    policies, broken_policies = split_duplicates(of_kind(pieces, PolicyResource))
    bindings, broken_bindings = split_duplicates(of_kind(pieces, BindingResource))
    models, broken_models = split_duplicates(of_kind(pieces, ModelResource))
    servings, broken_servings = split_duplicates(of_kind(pieces, ServingResource))
    doubled = (*broken_policies, *broken_bindings, *broken_models, *broken_servings)
    declared = KthenaResources(
        policies=tuple(policies), bindings=tuple(bindings), models=tuple(models), servings=tuple(servings)
    )
    every = tuple(follow(declared, frozenset(each.key for each in (*broken, *doubled))))
    followed, unfollowed = of_kind(every, Followed), of_kind(every, Unfollowed)
    contradicted = (BrokenResource(key=each.key, place=each.place, reason=each.reason) for each in unfollowed)
    return Folded(
        declared,
        (*doubled, *contradicted, *_without_targets(followed)),
        (
            *map(report_duplicate, doubled),
            *_report_unfollowed(unfollowed),
            *_report_missing(followed),
            *_report_rivals(followed),
            *_report_stalls(followed),
            *_report_least(followed),
        ),
    )


_POLICY_KINDS = ("AutoscalingPolicy", "AutoscalingPolicyBinding")


def _report_unfollowed(unfollowed: Iterable[Unfollowed]) -> Iterator[Finding]:
    for each in unfollowed:
        if not each.is_known:
            severity = Severity.ERROR if each.is_mistake else Severity.WARNING
            yield Finding(place=each.at, severity=severity, message=each.reason)


def _report_missing(followed: Iterable[Followed]) -> Iterator[Finding]:
    for each in followed:
        for missing in each.missing:
            severity = Severity.ERROR if missing.is_mistake else Severity.WARNING
            yield Finding(
                place=_named(each.place),
                severity=severity,
                message=missing.words if missing.words.endswith("?") else f"{missing.words}: nothing to write to",
            )


def _without_targets(followed: Iterable[Followed]) -> Iterator[BrokenResource]:
    """What has nothing to scale would be seen nowhere in a plan."""
    for each in followed:
        if each.missing and len(each.missing) == len(each.target.backends):
            yield BrokenResource(key=each.target.key, place=each.place, reason=each.missing[0].words)


def _report_rivals(followed: Iterable[Followed]) -> Iterator[Finding]:
    """Upstream lets two policies scale one workload, and both undo each other."""
    claims: dict[ResourceKey, list[Followed]] = {}
    for each in followed:
        for key in dict.fromkeys(backend.scale_target for backend in each.target.backends):
            claims.setdefault(key, []).append(each)
    for key, rivals in claims.items():
        for each in rivals if len(rivals) > 1 else ():
            others = join_words([_name(other) for other in rivals if other is not each], "and")
            message = f"{key.kind} {key.label} is scaled by {others} too: leave one of them"
            yield Finding(place=_named(each.place), severity=Severity.ERROR, message=message)


def _name(followed: Followed) -> str:
    key = followed.target.key
    owner = "" if key.kind in _POLICY_KINDS else "the policy of "
    return f"{owner}{key.kind} {key.label} ({followed.place})"


def _named(place: Place) -> Place:
    return place if place.field else replace(place, field="spec")


def _report_stalls(followed: Iterable[Followed]) -> Iterator[Finding]:
    """An `And` of a small percentage moves nothing while that percentage is less than one replica."""
    for each in followed:
        backends = [backend.backend for backend in each.target.backends]
        lowest, highest = sum(each.min_replicas for each in backends), sum(each.max_replicas for each in backends)
        behavior = each.spec.policy.behavior
        for rate, place in ((behavior.down, each.spec.down_place), (behavior.up, each.spec.up_place)):
            first = _first_moving(rate)
            if first > max(lowest, 1) and lowest < highest:
                whole = "so it never moves" if highest < first else "so it stops there"
                message = (
                    f"And takes the tighter limit, and {rate.percent} % of fewer than {first} replicas round to none: "
                    f"{each.target.key.kind} {each.target.key.label} has {lowest} to {highest}, {whole}"
                )
                yield Finding(place=place, severity=Severity.WARNING, message=message)


def _report_least(followed: Iterable[Followed]) -> Iterator[Finding]:
    """Upstream refuses a model whose minimums are all 0, whatever an annotation of ours asks for."""
    for each in followed:
        target = each.target
        if sum(scaled.backend.min_replicas for scaled in target.backends) < target.least_replicas:
            message = (
                "the annotation reconciler.io/min-replicas 0 is raised to 1 on the cheapest backend: "
                f"the webhook of Kthena refuses a {target.backends[0].scale_target.kind} whose minReplicas add up to 0"
            )
            yield Finding(place=_named(each.place), severity=Severity.WARNING, message=message)


def _first_moving(rate: Rate) -> int:
    """The smallest count of which the percentage is one replica; 0 where the percentage does not limit."""
    if rate.select is not Select.AND or rate.period_s <= 0 or describe_stuck(rate):
        return 0
    return ceil(100 / rate.percent)
