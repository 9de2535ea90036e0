"""The typed snapshot of a recording, from which everything is decided: a pure function."""

from collections.abc import Iterable

from reconciler.domain.identity import ModelKey
from reconciler.domain.metric_targets import TrackedTarget
from reconciler.domain.proposals import Proposal
from reconciler.domain.recording import Recording
from reconciler.domain.settings import SaturationRules, ZeroRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.metrics.observed import read_observed
from reconciler.metrics.tracked_histories import read_tracked
from reconciler.resources.declaration import Declaration
from reconciler.resources.kthena.tracked_targets import tracked_targets
from reconciler.resources.llmd.saturation import saturation_for, zero_for
from reconciler.resources.registry import KINDS
from reconciler.snapshot.inventory import take_inventory
from reconciler.snapshot.variants import build_catalogs, join_variants, settle_minimums


def read_snapshot(recording: Recording, declaration: Declaration, fingerprint: str) -> Snapshot:
    """Join the `declaration` (read from the recording's manifests) with Prometheus' answers."""
    settings = recording.settings
    catalogs = build_catalogs(settings, declaration)
    variants = join_variants(settings, declaration, catalogs, recording.proposals)
    observed = read_observed(variants, recording.answers, recording.now_s, settings)
    models = sorted({variant.model for variant in variants})
    tracked = followed_targets(variants, declaration, recording.proposals)
    return Snapshot(
        now_s=recording.now_s,
        repository=recording.repository,
        branch=recording.branch,
        commit=recording.commit,
        fingerprint=fingerprint,
        settings=settings,
        variants=variants,
        broken=tuple(
            each for each in declaration.broken if each.key.kind in KINDS and KINDS[each.key.kind].declares_variants
        ),
        observed=observed,
        saturation=saturation_rules(declaration, models),
        zero=zero_rules(declaration, models),
        tracked=tracked,
        histories=read_tracked(tracked, recording.answers, recording.now_s, settings),
        committed_s=recording.committed_s,
        catalogs=catalogs,
        inventory=take_inventory(settings, catalogs, variants, observed.devices, recording.now_s),
        proposals=recording.proposals,
        written={each.variant: each for each in recording.written},
        moved=None if recording.moved is None else frozenset(recording.moved),
        findings=tuple(sorted({*declaration.findings, *recording.unread})),
    )


def followed_targets(
    variants: Iterable[Variant], declaration: Declaration, proposals: Iterable[Proposal] = ()
) -> tuple[TrackedTarget, ...]:
    """The targets of policies that scale one of the variants."""
    followed = {variant.tracked_by for variant in variants}
    targets = settle_minimums(tracked_targets(declaration.kthena), proposals)
    return tuple(target for target in targets if target.key in followed)


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
