"""Review: somebody else's commit judged by the base's rules, with the answers that Prometheus gives for the base.

The head is data. Its manifests, facts and variant settings are read; its connections, secrets, templates, guard rails
and branches are not: those of the base stand.
"""

import logging
from dataclasses import replace

from reconciler.config.environment import Environment, Flags
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import load_settings
from reconciler.decision.reviewing import review
from reconciler.domain.reported.review import HeadView, Review
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.git.repository import Repository, open_directory
from reconciler.pipeline.observe import observe, read_files
from reconciler.pipeline.recording import fingerprint
from reconciler.pipeline.session import Session
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.variants.joining import build_catalogs, join_variants

logger = logging.getLogger(__name__)


def review_head(session: Session, flags: Flags, head: str, now_s: float) -> Review:
    """What merging `head` into the session's base would do; `now_s` is Unix seconds."""
    base = session.doors.repository
    merged = open_directory(flags.repo, base=head).merged_into(base)
    settings, notes = _settings_of(merged, session.settings, flags)
    observed = observe(session.doors, session.settings, now_s, session.repository)
    recording = observed.recording
    snapshot = read_snapshot(recording, observed.declaration, fingerprint(recording))
    files = read_files(merged, settings, session.repository)
    declaration = fold(files.commit, settings)
    variants = join_variants(settings, declaration, build_catalogs(settings, declaration), ())
    view = HeadView(
        variants={variant.key: variant for variant in variants},
        settings=settings,
        findings=(*declaration.findings, *files.unread),
    )
    return replace(review(snapshot, view, head_commit=merged.commit), notes=notes)


def _settings_of(head: Repository, base: Settings, flags: Flags) -> tuple[Settings, tuple[str, ...]]:
    """The base's settings with what the head says of the fleet; all of the base's where the head's cannot be read.

    No variable of the environment is there to be named, so none of its secrets can be.
    """
    try:
        found = load_settings(
            repository_file=head.read_file_at(head.commit, REPOSITORY_FILE),
            read_repository_file=lambda path: head.read_file_at(head.commit, path),
            list_repository_folder=head.files_below,
            operator_files=flags.config_files,
            flags=Flags(repo=flags.repo),
            environment=Environment(variables={}),
        ).settings
    except ConfigurationError as error:
        return base, (f"the head's configuration is not used: {error}",)
    clusters = {cluster.name: cluster for cluster in found.clusters}
    return (
        replace(
            base,
            clusters=tuple(_facts_of(cluster, clusters.get(cluster.name)) for cluster in base.clusters),
            accelerators=found.accelerators,
            service_classes=found.service_classes,
            models=found.models,
            defaults=found.defaults,
            overrides=found.overrides,
            rules=found.rules,
        ),
        (),
    )


def _facts_of(base: ClusterSettings, head: ClusterSettings | None) -> ClusterSettings:
    """The cluster with the head's paths and pools, and the base's Prometheus."""
    if head is None:
        return base
    return replace(base, include=head.include, exclude=head.exclude, pools=head.pools)
