"""Joins each resource with its scale target, settings, service class and options into a variant."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING

from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Finding, ModelKey, Place, ResourceKey, Severity
from reconciler.domain.inventory import ACCELERATOR_LABEL, Accelerator, Allocation, Catalog
from reconciler.domain.metric_targets import TrackedBackend, TrackedTarget
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ModelSettings, PrometheusSettings, Settings
from reconciler.domain.snapshot import Form, Option, StatusShape, Variant
from reconciler.domain.variant_settings import (
    ACCELERATOR,
    BOUNDS,
    CANARY,
    IGNORE,
    MAX_REPLICAS,
    MEASURED,
    MIN_REPLICAS,
    TUNE,
    WHEN_AUTOSCALED,
    VariantSettings,
)
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.manifests.wording import join_words
from reconciler.resources.declaration import Declaration, Owners
from reconciler.resources.inference.priorities import Priorities
from reconciler.resources.variants import FlavorChoice, VariantResource
from reconciler.snapshot.accelerators import (
    Running,
    build_catalog,
    devices_of,
    find_or_name,
    options_for,
    profiles_for,
    recognise,
)
from reconciler.snapshot.adoption import adopted_variants
from reconciler.snapshot.effective_settings import ClassLookup, Layers, ListedClasses, find_class, resolve_settings
from reconciler.snapshot.tuned import tuned_scaler

if TYPE_CHECKING:
    from reconciler.resources.kthena.models import ModelResource
    from reconciler.resources.llmaz.servings import ServedModel

RULE = "cost-order-contradicts-prices"


def build_catalogs(settings: Settings, declaration: Declaration) -> dict[str, Catalog]:
    """The catalog of every cluster."""
    return {
        cluster.name: build_catalog(settings.accelerators, declaration.costs.get(cluster.name, ()), cluster.pools)
        for cluster in settings.clusters
    }


def declared_variants(
    settings: Settings, declaration: Declaration, only: Container[ResourceKey] | None = None
) -> tuple[Variant, ...]:
    """Every variant from settings and manifests alone, or those that are asked for."""
    return join_variants(settings, declaration, build_catalogs(settings, declaration), only=only)


def join_variants(
    settings: Settings,
    declaration: Declaration,
    catalogs: Mapping[str, Catalog],
    proposals: Iterable[Proposal] = (),
    only: Container[ResourceKey] | None = None,
    measured: Mapping[ModelKey, tuple[PerformanceProfile, ...]] | None = None,
) -> tuple[Variant, ...]:
    """Every declared variant, sorted by key; `proposals` show which numbers in Git are our own.

    `measured` are the profiles that canaries measured, by model with all its roles.
    """
    index = replace(_Index.of(settings, declaration, proposals), measured=measured or {})
    chosen = (each for each in index.resources if only is None or each.key in only)
    ordered = sorted(chosen, key=lambda resource: resource.key)
    return tuple(_join(resource, index, catalogs[resource.key.cluster]) for resource in ordered)


def resources_of(settings: Settings, declaration: Declaration) -> tuple[VariantResource, ...]:
    """Every resource that declares a variant, before it is joined with anything."""
    return tuple(_Index.of(settings, declaration, ()).resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Everything that resources are joined with, by key: one pass over the declaration."""

    settings: Settings
    declaration: Declaration
    resources: Sequence[VariantResource]
    workloads: Mapping[ResourceKey, Workload]
    models: Mapping[str, ModelSettings]
    classes: ListedClasses
    owners: Owners
    claims: Counter[ResourceKey]
    ignored: Mapping[tuple[str, str], Place]
    broken: Mapping[ResourceKey, BrokenResource]
    priorities: Priorities
    policies: Mapping[ResourceKey, tuple[str, ...]]
    """The policies of Kthena that scale each workload."""
    measured: Mapping[ModelKey, tuple[PerformanceProfile, ...]] = field(default_factory=dict)
    """What canaries measured, by model with all its roles."""

    @classmethod
    def of(cls, settings: Settings, declaration: Declaration, proposals: Iterable[Proposal]) -> "_Index":
        chosen = {cluster.name for cluster in settings.clusters}
        served = _served_models(declaration)
        tracked = scaled_targets(declaration, proposals)
        others = (*_kthena_variants(declaration, tracked), *map(_llmaz_variant, served))
        resources = (*declaration.variants, *(each for each in others if each.key.cluster in chosen))
        claimed = {resource.scale_target for resource in resources}
        resources = (*resources, *adopted_variants(settings, declaration, claimed))
        workloads = {workload.key: workload for workload in declaration.workloads}
        return cls(
            settings=settings,
            declaration=declaration,
            resources=resources,
            workloads=workloads | {each.workload.key: each.workload for each in served},
            models={model.model_id: model for model in settings.models},
            classes=ListedClasses.of(declaration),
            owners=Owners.of(declaration.owners),
            claims=Counter(resource.scale_target for resource in resources),
            ignored={(each.cluster, each.name): each.place for each in declaration.ignored_namespaces},
            broken={each.key: each for each in reversed(declaration.broken)},
            priorities=Priorities.of(declaration.inference),
            policies=_policies(tracked),
        )

    def rivals_of(self, target: ResourceKey, workload: Workload | None) -> tuple[str, ...]:
        """The autoscalers that act on one target, where they are several."""
        names = dict.fromkeys((*self.owners.rivals_of(target, workload), *self.policies.get(target, ())))
        return tuple(sorted(names)) if len(names) > 1 else ()

    def prometheus_of(self, cluster: str) -> PrometheusSettings | None:
        """Where a cluster's metrics are."""
        return next((each.prometheus for each in self.settings.clusters if each.name == cluster), None)


def _join(resource: VariantResource, index: _Index, catalog: Catalog) -> Variant:
    target = resource.scale_target
    workload = index.workloads.get(target)
    model = index.models.get(resource.model_id)
    layers = Layers.of(resource, workload, index.settings, model)
    settings = resolve_settings(layers)
    owner, is_tuned = index.owners.owner_of(target, workload), settings[WHEN_AUTOSCALED].value == TUNE
    if owner is not None and owner.is_followed and not is_tuned:
        owner = None
    if resource.tracked_by is not None and is_tuned:
        if owner is None:
            owner = _policy_of(resource, resource.tracked_by)
        # its bounds are what is tuned, and the policy goes on by itself
        resource = replace(resource, tracked_by=None, min_replicas=None, max_replicas=None)
        settings = resolve_settings(replace(layers, resource=resource))
    is_autoscaled = owner is not None and bool(owner.fields) and settings[WHEN_AUTOSCALED].value in (BOUNDS, TUNE)
    scaler = owner.scaler if is_autoscaled and owner is not None and is_tuned else None
    rivals = index.rivals_of(target, workload) if is_autoscaled or is_tuned else ()
    if workload is not None and owner is not None and is_autoscaled:
        # the autoscaler stays, and we move its bounds
        place, fields = owner.fields[0].place, owner.fields
        workload = replace(
            workload, replicas=owner.least, replicas_place=place, replica_fields=fields, bounds_of=owner.owner
        )
        owner = None
    elif rivals:  # one of several owns nothing
        owner = None
    if workload is not None and resource.flavors is not None and workload.copies_at is not None:
        from reconciler.snapshot.canaries import place_in_flavors

        # the group of pods that llmaz makes of a copy has another name
        pools = index.priorities.pools_of(replace(workload, key=replace(workload.key, name="")))
        copies_at = place_in_flavors(workload.copies_at, resource.flavors, catalog, is_pooled=bool(pools))
        workload = replace(workload, copies_at=copies_at)
    whole = ModelKey(cluster=resource.key.cluster, namespace=resource.key.namespace, model_id=resource.model_id)
    profiles = profiles_for(resource, model, index.measured.get(whole, ()))
    first = resource.flavors.ranked[0].flavor if resource.flavors is not None and resource.flavors.ranked else None
    if first is not None:  # the flavor that llmaz prefers
        from reconciler.resources.llmaz.models import recognise_flavor

        accelerator, source = recognise_flavor(first, catalog)
        source = f"flavor {first.name}, {source}" if source else ""
    else:
        label, profiled = resource.labels.get(ACCELERATOR_LABEL, ""), (profile.accelerator for profile in profiles)
        accelerator, source = recognise(catalog, workload, label, profiled)
    if accelerator is None and len(resource.profiles) == 1:
        accelerator, source = find_or_name(catalog, resource.profiles[0].accelerator), "the only profile"
    lookup, rules = find_class(layers, index.classes), index.declaration.adapter_rules
    running = Running(accelerator=accelerator, resource=resource, workload=workload)
    options = options_for(catalog, running, profiles, settings[ACCELERATOR])
    # variants of one policy share its load, and a variant with a share has its own
    # what a canary serves counts for nobody, until a profile says how much that is
    has_profile = accelerator is not None and any(option.accelerator == accelerator.name for option in options)
    is_alone = resource.share is not None or (bool(settings[CANARY].value) and not has_profile)
    alone = resource.tracked_by or (resource.key if is_alone else None)
    wrong = _contested(target, rivals) if rivals else None
    if settings[CANARY].value or settings[MEASURED].value:
        from reconciler.snapshot.canaries import hold_of_annotations

        wrong = wrong or hold_of_annotations(settings, accelerator.name if accelerator else "", catalog)
    configured = model.served_names if model is not None else ()
    declared = resource.served_names or (workload.served_names if workload is not None else ())
    return Variant(
        key=resource.key,
        model=whole if alone is None else replace(whole, role=f"{alone.kind} {alone.label}"),
        form=resource.form,
        status_shape=resource.status_shape,
        document=resource.document,
        place=resource.place,
        workload=workload,
        current=Allocation(
            accelerator=accelerator.name if accelerator else "",
            replicas=(workload.replicas or 0) if workload is not None else 0,
            scaling=str(scaler.setting) if scaler is not None and not scaler.bounds_only else "",
        ),
        accelerator_source=source,
        settings=settings,
        service_class=lookup.service_class,
        options=options,
        served_names=configured or declared or (resource.model_id,),
        relative_cost=resource.variant_cost,
        share=resource.share,
        current_cost_per_hour=_current_cost(accelerator, options, workload),
        conditions=resource.conditions,
        is_shared=resource.is_shared,
        labels=resource.labels,
        labels_at=resource.labels_at,
        delivery=resource.delivery,
        priority=index.priorities.priority_of(workload) if workload is not None else None,
        is_pooled=workload is not None and bool(index.priorities.pools_of(workload)),
        flavors_field=resource.flavors.field if resource.flavors is not None else (),
        is_autoscaled=is_autoscaled,
        tuned=None if scaler is None else tuned_scaler(scaler, workload, index.prometheus_of(target.cluster), rules),
        tracked_by=resource.tracked_by,
        holds=tuple(_holds(resource, workload, settings, index, owner, lookup, wrong)),
    )


def _policies(targets: Iterable[TrackedTarget]) -> dict[ResourceKey, tuple[str, ...]]:
    found: dict[ResourceKey, list[str]] = {}
    for target in targets:
        for backend in target.backends:
            found.setdefault(backend.scale_target, []).append(f"{target.key.kind} {target.key.name}")
    return {key: tuple(dict.fromkeys(names)) for key, names in found.items()}


def _contested(target: ResourceKey, rivals: Sequence[str]) -> Hold:
    """Several autoscalers undo what each other does: a setting of one says nothing."""
    words = f"{target.kind} {target.label} is scaled by {join_words(rivals, 'and')}: leave one of them"
    return Hold(kind=HoldKind.REPLICAS_CONTESTED, words=words)


def _policy_of(resource: VariantResource, policy: ResourceKey) -> ReplicaOwner:
    """A policy of Kthena that is to be tuned and cannot be, as what sets replicas."""
    words = f"{policy.kind} {policy.name}, and of those only a homogeneousTarget of v1.0 is tuned"
    target = resource.scale_target
    return ReplicaOwner(
        cluster=target.cluster,
        namespace=target.namespace,
        owner=words,
        target_kind=target.kind,
        target_name=target.name,
        place=resource.place,
    )


def _current_cost(
    accelerator: Accelerator | None, options: Iterable[Option], workload: Workload | None
) -> float | None:
    """The present cost of one replica per hour, by the accelerators per replica of the profile if there is one."""
    if accelerator is None:
        return None
    costs = [option.cost_per_hour for option in options if option.accelerator == accelerator.name]
    price = accelerator.cost_per_hour
    return costs[0] if costs else None if price is None else price * devices_of(accelerator, workload)


def _holds(
    resource: VariantResource,
    workload: Workload | None,
    settings: VariantSettings,
    index: _Index,
    owner: ReplicaOwner | None,
    lookup: ClassLookup,
    wrong: Hold | None,
) -> Iterator[Hold]:
    namespace = index.ignored.get((resource.key.cluster, resource.key.namespace))
    if namespace is not None:
        words = f"ignored: its namespace is annotated reconciler.io/ignore ({namespace})"
        yield Hold(kind=HoldKind.IGNORED, words=words, place=namespace)
    if settings[IGNORE].value:
        source = settings[IGNORE].source
        yield Hold(kind=HoldKind.IGNORED, words=f"ignored: {source}", place=source.place)
    if workload is not None:
        yield from _holds_of_target(workload, index)
    else:
        target, broken = resource.scale_target, index.broken.get(resource.scale_target)
        words = f"scale target {target.kind} {target.label} is not in Git"
        if broken is None:
            yield Hold(kind=HoldKind.SCALE_TARGET_MISSING, words=words)
        else:
            words = f"{broken.reason} ({broken.place})"
            yield Hold(kind=HoldKind.SCALE_TARGET_UNREADABLE, words=words, place=broken.place)
    if owner is not None:
        words = f"replicas are owned by {owner.owner} ({owner.place})"
        yield Hold(kind=HoldKind.OWNED_BY_ANOTHER, words=words, place=owner.place)
    least, most = settings[MIN_REPLICAS], settings[MAX_REPLICAS]
    if most.value is not None and least.value > most.value:
        words = f"minReplicas {least.value} ({least.source}) is above maxReplicas {most.value} ({most.source})"
        yield Hold(kind=HoldKind.SETTINGS_CONFLICT, words=words, place=least.source.place)
    yield from filter(None, (wrong, resource.unsupported, lookup.missing))


def _holds_of_target(workload: Workload, index: _Index) -> Iterator[Hold]:
    target, place = workload.key, workload.place
    if index.claims[target] > 1:
        words = f"{index.claims[target]} resources claim {target.kind} {target.label}: one number needs one writer"
        yield Hold(kind=HoldKind.REPLICAS_CONTESTED, words=words)
    if workload.unwritable is not None:
        yield workload.unwritable
    if workload.templated:
        words = f"{workload.templated} is filled in by a template ({place})"
        yield Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=place)
    if workload.replicas is None:
        words = (
            f"{target.kind} {target.label} has no spec.replicas ({place}): "
            "write the live count there, and use no autoscaler with it"
        )
        yield Hold(kind=HoldKind.REPLICAS_UNWRITTEN, words=words, place=place)
    for written in workload.written_at:
        path = written.document.path
        if path in index.declaration.shared_paths:
            words = f"{path} is used by two clusters: a change would reach both"
            yield Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=written.place)


# ---- Kthena: workloads that policies scale, and backends of a Model that no policy scales


def _kthena_variants(declaration: Declaration, targets: Iterable[TrackedTarget]) -> Iterator[VariantResource]:
    workloads = {workload.key: workload for workload in declaration.workloads}
    models = {
        backend.workload.key: model for model in reversed(declaration.kthena.models) for backend in model.backends
    }
    tracked = {
        backend.scale_target: _tracked(target, backend, workloads[backend.scale_target], models)
        for target in targets
        for backend in target.backends
        if backend.scale_target in workloads
    }
    yield from tracked.values()
    for model in declaration.kthena.models:
        for backend in model.backends:
            workload = backend.workload
            if workload.key in tracked or model.has_policy or backend.has_policy:
                continue
            # its bounds in Git are where we write its count, so they are not bounds for us
            yield replace(
                _of_workload(workload, Form.BACKEND, model.model_id),
                document=model.source.ref,
                place=backend.place,
                target=workload.key,
                variant_cost=float(backend.cost) or None,
                served_names=tuple(dict.fromkeys((*workload.served_names, *model.served_names))),
                share=model.share_of(backend),
                labels=model.source.labels,
                settings=model.settings,
            )


def _tracked(
    target: TrackedTarget, scaled: TrackedBackend, workload: Workload, models: "Mapping[ResourceKey, ModelResource]"
) -> VariantResource:
    """Bounds and cost are the policy's; the model is that of its pods, else it has the name of the workload."""
    model = models.get(workload.key)
    # the engine's name of the model first, then every other name under which it is requested
    names = (*workload.served_names, *(model.served_names if model is not None else ()))
    served = workload.served_names[0] if workload.served_names else workload.key.name
    resource = _of_workload(workload, Form.TRACKED, model.model_id if model is not None else served)
    return replace(
        resource,
        target=workload.key,
        variant_cost=float(scaled.backend.cost) or None,
        served_names=tuple(dict.fromkeys(names)),
        min_replicas=scaled.backend.min_replicas,
        max_replicas=scaled.backend.max_replicas,
        tracked_by=target.key,
    )


def _of_workload(workload: Workload, form: Form, model_id: str) -> VariantResource:
    return VariantResource(
        key=workload.key,
        document=workload.document,
        place=workload.place,
        form=form,
        status_shape=StatusShape.NONE,
        model_id=model_id,
        target_kind=workload.key.kind,
        target_name=workload.key.name,
        labels=workload.labels,
        settings=workload.settings,
    )


def scaled_targets(declaration: Declaration, proposals: Iterable[Proposal]) -> tuple[TrackedTarget, ...]:
    """Every target that a policy of Kthena scales, with minimums that a person wrote."""
    kthena = declaration.kthena
    if not (kthena.policies or kthena.models):
        return ()
    from reconciler.resources.kthena.tracked_targets import tracked_targets

    return settle_minimums(tracked_targets(kthena), proposals)


def settle_minimums(targets: Iterable[TrackedTarget], proposals: Iterable[Proposal]) -> tuple[TrackedTarget, ...]:
    """The targets with minimums that a person wrote: for one that we wrote, the minimum before ours.

    The rest of a minimum for all backends together is added to the cheapest one.
    """
    merged = [each for each in proposals if each.state is ProposalState.MERGED]
    newest_first = sorted(merged, key=lambda each: (-(each.closed_at_s or 0.0), -each.number))
    merges = [{change.resource: change for change in each.changes} for each in newest_first]
    settled = []
    for target in targets:
        minimums = [
            min(_minimum_before(each, merges), each.backend.max_replicas)
            if each.counts_at_minimum
            else each.backend.min_replicas
            for each in target.backends
        ]
        lacking = target.least_replicas - sum(minimums)
        if lacking > 0:
            cheapest = min(range(len(minimums)), key=lambda index: (target.backends[index].backend.cost, index))
            minimums[cheapest] += lacking
        backends = tuple(
            replace(each, backend=replace(each.backend, min_replicas=least))
            for each, least in zip(target.backends, minimums, strict=True)
        )
        settled.append(replace(target, backends=backends))
    return tuple(settled)


def _minimum_before(scaled: TrackedBackend, merges: Iterable[Mapping[str, ProposedChange]]) -> int:
    """The minimum before our merges, back to the first whose number was changed by a person."""
    number = scaled.backend.min_replicas
    for changes in merges:
        change = changes.get(str(scaled.scale_target))
        if change is not None and change.replicas_after != number:
            break  # a person wrote another number after that
        if change is not None:
            number = change.replicas_before
    return number


# ---- llmaz: each Playground and Service serves an OpenModel, on its flavors


def _served_models(declaration: Declaration) -> "tuple[ServedModel, ...]":
    if not declaration.llmaz.servings:
        return ()
    from reconciler.resources.llmaz.servings import join_served_models

    return join_served_models(declaration.llmaz, declaration.workloads, declaration.broken)


def _llmaz_variant(served: "ServedModel") -> VariantResource:
    serving, elastic = served.serving, served.serving.elastic
    bounds = () if elastic is None else ("spec.minReplicas", "spec.maxReplicas")
    return replace(
        _of_workload(served.workload, Form.FLAVORS, served.model_name),
        min_replicas=elastic.min_replicas if elastic is not None else None,
        max_replicas=elastic.max_replicas if elastic is not None else None,
        places=dict.fromkeys(bounds, serving.place_of("elasticConfig")),
        unsupported=served.hold,
        flavors=FlavorChoice(
            ranked=served.flavors,
            field=("spec", serving.claim.field, "inferenceFlavors"),
            pods=serving.pods,
            is_placed=served.is_placed,
            offered=() if served.model is None else served.model.flavors,
        ),
    )


# ---- whether relative costs (`variantCost`, Kthena's `cost`) rank the variants of a model like their prices. They are
# used only if a price is missing: if the two orders differ, a missing price reverses the plan


def find_contradicted_costs(
    variants: Iterable[Variant], *, currency: str, places: Mapping[ResourceKey, Place]
) -> Iterator[Finding]:
    """A warning for each variant that is ranked above a more expensive one of its model, with the most expensive.

    `places` are those of relative costs, if known. O(n log n).
    """
    models: dict[ModelKey, list[tuple[float, ResourceKey, float, Variant]]] = {}
    for variant in variants:
        relative, per_hour = variant.relative_cost, variant.current_cost_per_hour
        if relative is not None and per_hour is not None:
            models.setdefault(variant.model, []).append((relative, variant.key, per_hour, variant))
    for _, known in sorted(models.items()):
        dearest: tuple[float, ResourceKey, float, Variant] | None = None
        # equal relative costs give no order, so each is compared only with lower ones
        for _, step in groupby(sorted(known, key=lambda each: each[:2]), key=lambda each: each[0]):
            members = list(step)
            for relative, key, per_hour, variant in members:
                if dearest is not None and per_hour < dearest[2]:
                    message = (
                        f"relative cost {relative:g} ranks it above {dearest[1].label} ({dearest[0]:g}), but a replica "
                        f"costs {per_hour:.2f} against {dearest[2]:.2f} {currency}/h"
                    )
                    place = places.get(key, variant.place)
                    yield Finding(place=place, severity=Severity.WARNING, message=message, rule=RULE)
            dearest = max((*members, *([dearest] if dearest else [])), key=lambda each: each[2])
