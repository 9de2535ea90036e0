"""The typed snapshot of a recording, from which everything is decided: a pure function."""

from collections.abc import Iterable, Iterator

from reconciler.domain.answers import NoAnswer
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.metric_targets import TrackedTarget
from reconciler.domain.proposals import Proposal
from reconciler.domain.recording import Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import ScalerHistory
from reconciler.domain.settings import SaturationRules, Settings, ZeroRules
from reconciler.domain.snapshot import Snapshot, UnmanagedWorkload, Variant, tuned_of
from reconciler.domain.workloads import Workload
from reconciler.metrics.observed import read_observed
from reconciler.metrics.queries import names_in
from reconciler.metrics.scaler_metrics import read_scalers
from reconciler.metrics.tracked_histories import read_tracked
from reconciler.resources.declaration import Declaration
from reconciler.resources.llmd.saturation import saturation_for, zero_for
from reconciler.snapshot.adoption import find_left, find_unmanaged
from reconciler.snapshot.canaries import is_canary, measured_profiles, read_tried
from reconciler.snapshot.inventory import take_inventory
from reconciler.snapshot.priors import with_hub_shapes
from reconciler.snapshot.shards import broken_variants, divided, share_of
from reconciler.snapshot.tuned import of_this_query
from reconciler.snapshot.variants import build_catalogs, declared_variants, join_variants, scaled_targets


@dataclass(frozen=True, slots=True)
class ChangeOf:
    """That a declaration, with these `variants`, is a change of a `base`."""

    base: Snapshot
    variants: tuple[Variant, ...]


def read_snapshot(
    recording: Recording,
    declaration: Declaration,
    fingerprint: str,
    change: ChangeOf | None = None,
    declared: tuple[Variant, ...] | None = None,
) -> Snapshot:
    """Join the `declaration` (read from the recording's manifests) with Prometheus' answers.

    What runs of a change is what its base declares, of new variants none. `declared` are the variants where they were
    joined before without pull requests, which matter only to Kthena's minimums. Of a shard it has its own variants.
    """
    share = None
    if recording.settings.shard is not None:
        known = declared_variants(recording.settings, declaration) if declared is None else declared
        share = share_of(recording.settings, declaration, known)
    settings = with_hub_shapes(recording.settings, declaration.llmaz.models)
    catalogs = build_catalogs(settings, declaration)
    kthena = declaration.kthena
    is_ours_in_them = bool(recording.proposals and (kthena.policies or kthena.bindings or kthena.models))
    if change is None and declared is not None and not is_ours_in_them:
        variants = declared
    elif change is None:
        variants = join_variants(settings, declaration, catalogs, recording.proposals)
    else:
        variants = tuple(_as_running(change.variants, change.base))
    base = None if change is None else change.base
    tried = {} if base is None else dict(base.tried)
    if base is None and any(map(is_canary, variants)):
        tried = read_tried(variants, recording.answers, settings, catalogs, recording.now_s)
    measured = measured_profiles(variants, tried, catalogs)
    if measured:
        variants = join_variants(settings, declaration, catalogs, recording.proposals, measured=measured)
        variants = variants if base is None else tuple(_as_running(variants, base))
    fleet, broken = variants, broken_variants(declaration)
    if share is not None:
        settings = divided(settings)
        variants = tuple(each for each in fleet if share.holds(each.key))
        broken = tuple(each for each in broken if share.holds(each.key))
    models = sorted({variant.model for variant in variants})
    tracked = followed_targets(variants, declaration, recording.proposals)
    if base is not None and _seen(variants, settings) == _seen(base.variants, base.settings):
        observed = base.observed
    else:
        beside = () if share is None else tuple(each for each in fleet if not share.holds(each.key))
        observed = read_observed(variants, recording.answers, recording.now_s, settings, beside)
    if base is not None and (tracked, settings) == (base.tracked, base.settings):
        histories = base.histories
    else:
        histories = read_tracked(tracked, recording.answers, recording.now_s, settings)
    left = find_left(settings, declaration, {each.workload.key for each in fleet if each.workload})
    return Snapshot(
        now_s=recording.now_s,
        repository=recording.repository,
        branch=recording.branch,
        commit=recording.commit,
        fingerprint=fingerprint,
        settings=settings,
        variants=variants,
        broken=broken,
        observed=observed,
        saturation=saturation_rules(declaration, models),
        zero=zero_rules(declaration, models),
        scaled=_scaled(variants, recording, variants if change is None else change.base.variants),
        tracked=tracked,
        histories=histories,
        committed_s=recording.committed_s,
        catalogs=catalogs,
        inventory=take_inventory(settings, catalogs, fleet, observed.devices, recording.now_s, left),
        proposals=recording.proposals,
        tried=tried,
        written={each.variant: each for each in recording.written},
        paid={each.variant: each for each in recording.paid},
        moved=None if recording.moved is None else frozenset(recording.moved),
        findings=tuple(sorted({*declaration.findings, *recording.unread})),
        unmanaged=tuple(each for each in find_unmanaged(settings, left) if share is None or share.holds(each.key)),
        share=share,
    )


def _scaled(
    variants: Iterable[Variant], recording: Recording, base: Iterable[Variant]
) -> dict[ResourceKey, ScalerHistory | NoAnswer]:
    tuned = tuned_of(variants)
    found: dict[ResourceKey, ScalerHistory | NoAnswer] = {}
    for cluster in sorted({key.cluster for key in tuned}):
        of_cluster = {key: each for key, each in tuned.items() if key.cluster == cluster}
        answers = (each for each in recording.answers if each.query.cluster == cluster)
        found |= read_scalers(answers, of_cluster, names_in(recording.settings, cluster))
    return of_this_query(found, tuned, tuned_of(base))


def _seen(variants: Iterable[Variant], settings: Settings) -> list[tuple[object, ...]]:
    """What decides which answers are whose."""
    clusters = [(each.name, each.prometheus is None, names_in(settings, each.name)) for each in settings.clusters]
    return clusters + [
        (
            *(each.key, each.model, each.share, each.current, each.served_names, each.is_autoscaled),
            each.workload
            and (each.workload.key, each.workload.becomes, each.workload.replicas, each.workload.template_labels),
        )
        for each in variants
    ]


def _as_running(variants: Iterable[Variant], base: Snapshot) -> Iterator[Variant]:
    known = {variant.key: variant for variant in base.variants}
    unmanaged = {each.key: each for each in base.unmanaged}
    for variant in variants:
        before, workload = known.get(variant.key), variant.workload
        if before is None and workload is not None and workload.key in unmanaged:
            yield _as_unmanaged(variant, workload, unmanaged[workload.key])
            continue
        now = replace(variant.current, replicas=0) if before is None else before.current
        ran = before.workload if before is not None else None
        if workload is not None and ran is not None and workload.replicas is not None:
            workload = replace(
                workload,
                replicas=ran.replicas,
                replicas_place=ran.replicas_place,
                replica_fields=ran.replica_fields,
                considered=ran.considered,
            )
        elif workload is not None and workload.replicas is not None:
            workload = replace(workload, replicas=now.replicas)
        is_moved = before is not None and variant.current.accelerator != now.accelerator
        price = before.current_cost_per_hour if before is not None and is_moved else variant.current_cost_per_hour
        yield replace(variant, current=now, workload=workload, current_cost_per_hour=price)


def _as_unmanaged(variant: Variant, workload: Workload, ran: UnmanagedWorkload) -> Variant:
    """A workload that the change has managed: it runs already."""
    least = ran.owner.least if ran.owner is not None else None
    count = least if variant.is_autoscaled else ran.workload.replicas
    now = replace(variant.current, replicas=count or 0)
    return replace(variant, current=now, workload=replace(workload, replicas=count))


def followed_targets(
    variants: Iterable[Variant], declaration: Declaration, proposals: Iterable[Proposal] = ()
) -> tuple[TrackedTarget, ...]:
    """The targets of policies that scale one of the variants."""
    followed = {variant.tracked_by for variant in variants}
    return tuple(target for target in scaled_targets(declaration, proposals) if target.key in followed)


def zero_rules(declaration: Declaration, models: Iterable[ModelKey]) -> dict[ModelKey, ZeroRules]:
    """The rules of upstream's ConfigMap for scaling each model to zero, in the clusters that have one."""
    return {
        model: zero_for(declaration.zero[model.cluster], declaration.opted_in_namespaces, model)
        for model in models
        if declaration.zero.get(model.cluster)
    }


def saturation_rules(declaration: Declaration, models: Iterable[ModelKey]) -> dict[ModelKey, SaturationRules]:
    """The rules of upstream's ConfigMaps for each model's saturation, in the clusters that have any."""
    return {
        model: saturation_for(declaration.saturation[model.cluster], declaration.opted_in_namespaces, model)
        for model in models
        if declaration.saturation.get(model.cluster)
    }
