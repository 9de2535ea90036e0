"""Validate: everything that can be said of resources and configuration without asking anybody."""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.config.environment import Flags, read_environment
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import check_settings, load_settings
from reconciler.decision.declarations import fold, read_manifest
from reconciler.domain.findings import Finding
from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.git import Repository, open_directory
from reconciler.pipeline.observe import read_files
from reconciler.pipeline.session import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was looked at, and what was found."""

    findings: tuple[Finding, ...]
    files: int
    resources: int


def validate_commit(wanted: Wanted) -> Checked:
    """The base commit of a local repository: its configuration and every manifest its clusters hold."""
    repository = open_directory(wanted.repo, base=wanted.base or None)
    wrong = _check_configuration(wanted, repository)
    settings = _settings(wanted, repository)
    files = read_files(repository, settings)
    declaration = fold(files.readings, files.withheld, settings)
    return Checked(
        findings=tuple(sorted({*wrong, *declaration.findings, *files.unread})),
        files=declaration.files,
        resources=len(declaration.variants) + len(declaration.broken),
    )


def validate_files(wanted: Wanted, files: Iterable[ManifestFile]) -> Checked:
    """Files as they are on disk, all of them as one cluster; a file named reconciler.yaml as the configuration."""
    settings = Settings(clusters=(ClusterSettings(name="default"),))
    manifests = list(files)
    wrong: list[Finding] = []
    for file in manifests:
        if file.path.rpartition("/")[2] == REPOSITORY_FILE:
            wrong += _check_file(wanted, file)
    readings = [read_manifest(file.path, file.body, settings) for file in manifests]
    declaration = fold(readings, (), settings)
    return Checked(
        findings=tuple(sorted({*wrong, *declaration.findings})),
        files=len(manifests),
        resources=len(declaration.variants) + len(declaration.broken),
    )


def _check_configuration(wanted: Wanted, repository: Repository) -> tuple[Finding, ...]:
    return check_settings(
        repository_file=repository.read_file_at(repository.commit, REPOSITORY_FILE),
        read_repository_file=lambda path: repository.read_file_at(repository.commit, path),
        operator_files=wanted.config_files,
        flags=_flags(wanted),
        environment=read_environment(),
    )


def _check_file(wanted: Wanted, file: ManifestFile) -> tuple[Finding, ...]:
    return check_settings(
        repository_file=file.body,
        read_repository_file=lambda _path: None,
        operator_files=wanted.config_files,
        flags=_flags(wanted),
        environment=read_environment(),
    )


def _settings(wanted: Wanted, repository: Repository) -> Settings:
    """The settings; where they are wrong, all files as one cluster, so that resources are checked all the same."""
    try:
        return load_settings(
            repository_file=repository.read_file_at(repository.commit, REPOSITORY_FILE),
            read_repository_file=lambda path: repository.read_file_at(repository.commit, path),
            operator_files=wanted.config_files,
            flags=_flags(wanted),
            environment=read_environment(),
        ).settings
    except ConfigurationError:
        return Settings(clusters=(ClusterSettings(name="default"),))


def _flags(wanted: Wanted) -> Flags:
    return Flags(repo=wanted.repo, prometheus=wanted.prometheus, clusters=wanted.clusters)
