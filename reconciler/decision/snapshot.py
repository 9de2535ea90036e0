"""From a recording to the typed snapshot that everything is decided from: a pure function."""

from reconciler.decision.variants import build_catalogs, join_variants
from reconciler.domain.declarations import Declaration
from reconciler.domain.recording import Recording
from reconciler.domain.snapshot import Snapshot
from reconciler.metrics import read_observed

VARIANT_KINDS = frozenset({"VariantAutoscaling"})


def read_snapshot(recording: Recording, declaration: Declaration, fingerprint: str) -> Snapshot:
    """Join what Git declares (`declaration` is read from the recording's manifests) with what Prometheus answered."""
    settings = recording.settings
    catalogs = build_catalogs(settings, declaration)
    variants = join_variants(settings, declaration, catalogs)
    observed = read_observed(variants, recording.answers, recording.now_s, settings)
    return Snapshot(
        now_s=recording.now_s,
        repository=recording.repository,
        branch=recording.branch,
        commit=recording.commit,
        fingerprint=fingerprint,
        settings=settings,
        variants=variants,
        broken=tuple(broken for broken in declaration.broken if broken.key.kind in VARIANT_KINDS),
        loads=observed.loads,
        observations=observed.observations,
        catalogs=catalogs,
        proposals=recording.proposals,
        findings=tuple(sorted({*declaration.findings, *recording.unread})),
        failures=observed.failures,
        warnings=observed.warnings,
    )
