"""What the repository builds of clusters' files for nobody whom their paths name: other environments."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from reconciler.errors import InputError
from reconciler.placement.application_sets import KIND as APPLICATION_SET
from reconciler.placement.application_sets import find_paths, is_told, may_be
from reconciler.placement.cluster import ClusterBuild, Job, declared_deployers, deploy, keep, try_build
from reconciler.placement.kustomize.build import Builder
from reconciler.placement.objects import BuiltObject, Root, identify
from reconciler.placement.origins import SourceField
from reconciler.placement.paths import directory_of, is_yaml
from reconciler.placement.repository import ManifestRepository
from reconciler.placement.roots import Used, is_below, plain_files, root_directories

ELSEWHERE: Final = "(elsewhere)"
"""What the repository builds in the paths of no cluster belongs to; no name of a cluster has brackets."""
_RELEASING: Final = frozenset({"Application", "HelmRelease"})
"""Kinds whose charts may take their values from a file that a cluster's charts take theirs from, too."""


def build_elsewhere(
    builder: Builder,
    is_held: Callable[[str], bool],
    builds: Sequence[ClusterBuild],
    used: Used,
    charts: frozenset[str],
) -> ClusterBuild:
    """What the repository builds, outside of every cluster's paths, of files that clusters read.

    What reads a file of a cluster's paths and makes the same objects of it, or deploys one, is that environment itself.
    """
    job = Job(cluster=ELSEWHERE, builder=builder, holds=lambda path: not is_held(path), used=used, charts=charts)
    repository = builder.repository
    read = frozenset(path for build in builds for path in build.paths)
    declared = [each for _, source, each in declared_deployers(job) if source.document.path not in read]
    others = [each for each in declared if not any(map(is_held, repository.files_below(each.directory)))]
    for deployer in others:
        deploy(job, deployer)
    pointed = frozenset(deployer.directory for deployer in others)
    for directory in root_directories(builder, used, job.holds):
        is_theirs = not read.isdisjoint(repository.kustomizations_in(directory))
        if not is_theirs and not is_below(directory, pointed):
            gathering = try_build(job, directory)
            if gathering is not None:
                keep(job, Root(cluster=ELSEWHERE, path=directory), gathering)
    for path in plain_files(repository, used, charts, job.holds):
        values = (document.value for document in repository.files.get(path, ()))
        if any(isinstance(each, dict) and each.get("kind") in _RELEASING for each in values):
            keep(job, Root(cluster=ELSEWHERE, path=path), builder.build_files((path,)))
    apart = set(_build_sets(job, builds))
    own = {_written_as(each) for build in builds for each in build.objects}
    documents = {document for document, *_ in own}
    other = {each.root for each in job.objects if _written_as(each)[0] in documents and _written_as(each) not in own}
    shared = {
        root
        for root, paths in job.paths_of.items()
        if not read.isdisjoint(paths) and (root in other | apart or not any(map(is_held, paths)))
    }
    reading = Counter(path for root in shared for path in job.paths_of[root])
    return ClusterBuild(
        cluster=ELSEWHERE,
        objects=tuple(each for each in job.objects if each.root in shared or each.key.kind in _RELEASING),
        findings=(),
        deployers={root: each for root, each in job.deployers.items() if root in shared},
        paths=frozenset(reading),
        roots_reading=reading,
        unbuilt=frozenset(),
    )


def has_unfollowed_sets(repository: ManifestRepository) -> bool:
    """Whether an ApplicationSet deploys something that nobody here can follow."""
    return any(True for _ in _set_paths(repository))


def _set_paths(repository: ManifestRepository) -> Iterator[tuple[str, str]]:
    """The paths of such sets, with what these are called."""
    for path, documents in repository.files.items():
        for document in documents:
            value = document.value
            if isinstance(value, dict) and value.get("kind") == APPLICATION_SET:
                source = SourceField(document)
                try:
                    found = list(find_paths(repository, source))
                except InputError:
                    continue
                yield from ((each, f"{identify(value)}, {path}") for each in dict.fromkeys(found) if is_told(each))


def _build_sets(job: Job, builds: Sequence[ClusterBuild]) -> Iterator[Root]:
    """What such sets deploy beside what clusters are known to get: another environment, whatever it makes of it."""
    repository = job.builder.repository
    known = {root.path for build in builds for root in (*build.deployers, *(each.root for each in build.objects))}
    known |= {directory_of(path) for build in builds for path in build.plain}
    for text, words in _set_paths(repository):
        for directory in repository.directories:
            if directory and directory not in known and _may_mean(text, directory):
                files = [path for path in repository.files_in(directory) if is_yaml(path)]
                is_kustomized = bool(repository.kustomizations_in(directory))
                gathering = try_build(job, directory) if is_kustomized else job.builder.build_files(files)
                if gathering is not None:
                    root = Root(cluster=ELSEWHERE, path=directory, deployer=words)
                    keep(job, root, gathering)
                    yield root


def _written_as(built: BuiltObject) -> tuple[tuple[str, int], str, str, str]:
    """The document of an object, and what it is called in the cluster."""
    return built.source.address[:2], built.key.kind, built.key.namespace, built.key.name


def _may_mean(text: str, directory: str) -> bool:
    """Whether a path may become a directory when every parameter in it is a part of one name."""
    wanted, found = text.removeprefix("./").strip("/").split("/"), directory.split("/")
    return len(wanted) == len(found) and all(map(may_be, wanted, found))
