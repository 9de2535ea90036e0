"""A head as data: its manifests, facts and variant settings, as merging it would leave them.

Its connections, secrets, templates and branches are not used, and its guard rails judge nothing: those of the base
stand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.config.environment import SECRETS_DIRECTORY, TRUSTED_ORIGINS, Environment, Flags
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import LoadedSettings, Sources, load
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.reported.review import HeadView
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.git.merging import Merged, merge_into
from reconciler.git.repository import EntryKind, Repository, TreeEntry
from reconciler.pipeline.observe import is_manifest, read_files
from reconciler.pipeline.unread import MAX_READ_BYTES
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.variants import build_catalogs, join_variants

MOST_FILES = 20_000
MOST_BYTES = 32 * 1024 * 1024
"""A change of more manifests than these is nobody's work on a fleet."""
NAMES_ALONE = (SECRETS_DIRECTORY, TRUSTED_ORIGINS)
"""The variables that say which references are allowed; of no other is a value there to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadReader:
    """Reads heads beside one base, whose settings are `settings`; `name` is the repository's, without credentials."""

    base: Repository
    settings: Settings
    flags: Flags
    environment: Environment
    name: str

    def read(self, head: Repository) -> HeadView:
        """What `head` declares once it is merged.

        Raises ConfigurationError for a head that is too large, or that has no ancestor with the base.
        """
        merged = merge_into(self.base, head)
        _check_size(merged)
        repository = merged.repository
        stated = self._settings_of(repository)
        files = read_files(repository, stated.settings, self.name)
        declaration = fold(files.commit, stated.settings)
        variants = join_variants(stated.settings, declaration, build_catalogs(stated.settings, declaration), ())
        return HeadView(
            variants={variant.key: variant for variant in variants},
            settings=stated.settings,
            findings=(*declaration.findings, *files.unread, *stated.findings),
            broken={each.key: each for each in declaration.broken},
            workloads=frozenset(workload.key for workload in declaration.workloads),
            paths=frozenset(entry.path for entry in repository.list_files()),
            unread=frozenset(entry.path for entry in repository.list_files() if _is_unread(entry)),
            untried=stated.untried,
            notes=_notes(merged),
        )

    def _settings_of(self, head: Repository) -> "_Stated":
        """The base's settings with what the head says of the fleet; all of the base's where the head's are wrong."""
        entry = next((each for each in head.list_files() if each.path == REPOSITORY_FILE), None)
        if entry is not None and entry.kind is not EntryKind.FILE:
            message = f"expected a file, found a {entry.kind}: this configuration is not used"
            finding = Finding(place=Place(path=REPOSITORY_FILE), severity=Severity.ERROR, message=message)
            return _Stated(settings=self.settings, findings=(finding,))
        before, after = self._load(self.base), self._load(head)
        if isinstance(after, tuple):
            return _Stated(settings=self.settings, findings=after)
        known = before.findings if isinstance(before, LoadedSettings) else before
        return _Stated(
            settings=_with_facts(self.settings, after.settings),
            findings=tuple(each for each in after.findings if each not in known),
            untried=tuple(_untried(before, after)) if isinstance(before, LoadedSettings) else (),
        )

    def _load(self, repository: Repository) -> LoadedSettings | tuple[Finding, ...]:
        """What a commit and the operator's files state; else what is wrong with it."""
        variables = {name: self.environment.get(name) for name in NAMES_ALONE}
        sources = Sources(
            repository_file=repository.read_file_at(repository.commit, REPOSITORY_FILE),
            read=lambda path: repository.read_file_at(repository.commit, path),
            list_folder=repository.files_below,
            operator_files=self.flags.config_files,
        )
        loaded, findings = load(sources, Flags(repo=self.name), Environment(variables=variables))
        return findings if loaded is None else loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """Settings to read a head by; `untried` names what it changes that is never taken from a head."""

    settings: Settings
    findings: tuple[Finding, ...] = ()
    untried: tuple[str, ...] = ()


def _is_unread(entry: TreeEntry) -> bool:
    return is_manifest(entry.path) and (entry.kind is not EntryKind.FILE or entry.size_bytes > MAX_READ_BYTES)


def _check_size(merged: Merged) -> None:
    sizes_bytes = [entry.size_bytes for entry in merged.touched if is_manifest(entry.path)]
    if len(sizes_bytes) > MOST_FILES or sum(sizes_bytes) > MOST_BYTES:
        raise ConfigurationError(
            f"{merged.repository.commit[:7]} changes {len(sizes_bytes)} manifests with {sum(sizes_bytes)} bytes: "
            f"at most {MOST_FILES} with {MOST_BYTES} are reviewed"
        )


def _notes(merged: Merged) -> tuple[str, ...]:
    if not merged.conflicts:
        return ()
    more = f" and {len(merged.conflicts) - 1} more" if len(merged.conflicts) > 1 else ""
    return (f"{merged.conflicts[0]}{more}: conflicts with the base, and is judged as the head has it",)


def _with_facts(base: Settings, head: Settings) -> Settings:
    clusters = {cluster.name: cluster for cluster in head.clusters}
    return replace(
        base,
        clusters=tuple(_facts_of(cluster, clusters.get(cluster.name)) for cluster in base.clusters),
        accelerators=head.accelerators,
        service_classes=head.service_classes,
        models=head.models,
        defaults=head.defaults,
        overrides=head.overrides,
        rules=head.rules,
        pull_requests=replace(base.pull_requests, auto_merge=head.pull_requests.auto_merge),
    )


def _facts_of(base: ClusterSettings, head: ClusterSettings | None) -> ClusterSettings:
    """The cluster with the head's paths and pools, and the base's Prometheus."""
    if head is None:
        return base
    return replace(base, include=head.include, exclude=head.exclude, pools=head.pools)


def _untried(base: LoadedSettings, head: LoadedSettings) -> Iterator[str]:
    """What of the configuration another change would put in force only once it is merged."""
    before, after = ({each.name: each for each in loaded.settings.clusters} for loaded in (base, head))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield f"the list of clusters ({name})"
        elif was.prometheus != now.prometheus:
            yield f"the Prometheus of cluster {name}"
    old, new = base.settings, head.settings
    parts = (
        ("forge", (old.forge.kind, old.forge.url, old.forge.token), (new.forge.kind, new.forge.url, new.forge.token)),
        ("git", old.git, new.git),
        ("pullRequests", old.pull_requests, new.pull_requests),
        ("gauges", base.gauges, head.gauges),
        ("status", old.status, new.status),
        ("paused", bool(base.paused), bool(head.paused)),
    )
    yield from (name for name, was, now in parts if was != now)
