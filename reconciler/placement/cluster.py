"""All that one cluster gets from a repository: roots built, deployers followed, objects by name."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.domain.globs import matches_any
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity, finding_of
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.placement.application_sets import KIND as APPLICATION_SET
from reconciler.placement.application_sets import make_applications
from reconciler.placement.deployers import DEPLOYER_KINDS, FLUX_GROUP, Deployer, try_read
from reconciler.placement.kustomize.build import Builder, Gathering
from reconciler.placement.kustomize.kustomization import Kustomization
from reconciler.placement.kustomize.transformers import set_namespace
from reconciler.placement.objects import BuiltObject, ObjectDraft, ObjectIdentity, Obstacle, Root, identify
from reconciler.placement.origins import AS_BUILT, SourceField
from reconciler.placement.outside import outside_roots
from reconciler.placement.paths import directory_of, is_yaml
from reconciler.placement.repository import ManifestRepository
from reconciler.placement.roots import Used, is_below, plain_files, root_directories, unbuilt_files
from reconciler.placement.substitution import fill_in, find_substituted

MAX_DEPLOYERS: Final = 20_000
_DECLARING: Final = DEPLOYER_KINDS | {APPLICATION_SET}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBuild:
    """What a cluster gets: objects in the order of their keys, findings, and who deploys which root.

    `paths` are all files that any of its builds read, and `roots_reading` counts these builds; `unbuilt` are files that
    look like manifests and that nobody builds, `plain` those that are applied as they stand. `hidden` says of roots
    what in them is not read, because it is somewhere else or a chart makes it.
    """

    cluster: str
    objects: tuple[BuiltObject, ...]
    findings: tuple[Finding, ...]
    deployers: Mapping[Root, Deployer]
    paths: frozenset[str]
    roots_reading: Counter[str]
    unbuilt: frozenset[str]
    plain: frozenset[str] = frozenset()
    hidden: Mapping[Root, tuple[Finding, ...]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Job:
    """One cluster while its roots are being built."""

    cluster: str
    builder: Builder
    holds: Callable[[str], bool]
    used: Used
    charts: frozenset[str]
    objects: list[BuiltObject] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    roots_reading: Counter[str] = field(default_factory=Counter)
    followed: dict[ObjectIdentity, frozenset[str]] = field(default_factory=dict)
    deployers: dict[Root, Deployer] = field(default_factory=dict)
    deployed: dict[str, list[Deployer]] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    pointed: frozenset[str] = frozenset()
    outside: dict[str, Gathering] = field(default_factory=dict)
    hidden: dict[Root, tuple[Finding, ...]] = field(default_factory=dict)
    paths_of: dict[Root, frozenset[str]] = field(default_factory=dict)


def build_cluster(
    builder: Builder,
    cluster: str,
    holds: Callable[[str], bool],
    is_held: Callable[[str], bool],
    used: Used,
    charts: frozenset[str],
) -> ClusterBuild:
    """Build everything in a cluster's paths, and everything that deployers found there point to; nothing is raised.

    `is_held` says whether a path belongs to any cluster.
    """
    job = Job(cluster=cluster, builder=builder, holds=holds, used=used, charts=charts)
    job.outside = outside_roots(builder, used, holds, is_held)
    declared = declared_deployers(job)
    directories = {deployer.directory for _, _, deployer in declared}
    job.pointed = frozenset(directories - {""})
    _build_free_roots(job, frozenset(directories))
    # What is left is deployed by what it deploys itself, or by nobody whom Git shows. What a build has read by now has
    # been followed as it was built, under whatever name that gave it.
    for identity, source, _ in declared:
        if source.document.path not in job.roots_reading:
            start = len(job.objects)
            _follow(job, identity, source)
            _follow_built(job, start)
    return ClusterBuild(
        cluster=cluster,
        objects=tuple(sorted(job.objects, key=lambda each: (each.key, each.root.path))),
        findings=tuple(sorted(set(job.findings))),
        deployers=job.deployers,
        paths=frozenset(job.roots_reading),
        roots_reading=job.roots_reading,
        plain=frozenset(job.plain),
        hidden=job.hidden,
        unbuilt=frozenset(unbuilt_files(builder.repository, used, charts, holds, job.roots_reading)),
    )


def declared_deployers(job: Job) -> list[tuple[ObjectIdentity, SourceField, Deployer]]:
    """Deployers as they are written in the cluster's paths; those that deploy themselves come first."""
    repository = job.builder.repository
    found: list[tuple[ObjectIdentity, SourceField, Deployer]] = []
    for path, documents in repository.files.items():
        for document in documents:
            value = document.value
            kind = value.get("kind") if isinstance(value, dict) else None
            is_declared = isinstance(kind, str) and kind in _DECLARING and path not in job.used.rules
            if is_declared and job.holds(path) and not is_below(path, job.charts):
                for source in _declared(repository, SourceField(document)):
                    identity = identify(source.mapping())
                    found += [(identity, source, each) for each in try_read(repository, identity, source)[0]]
    return sorted(found, key=_bootstrap_order)


def _declared(repository: ManifestRepository, source: SourceField) -> list[SourceField]:
    """The deployers that a document is, or makes."""
    if source.mapping().get("kind") != APPLICATION_SET:
        return [source]
    try:
        return list(make_applications(repository, source))
    except InputError:
        return []


def _bootstrap_order(found: tuple[ObjectIdentity, SourceField, Deployer]) -> tuple[bool, str, int]:
    _, source, deployer = found
    path = source.document.path
    return not is_below(path, {deployer.directory}), path, source.document.index


def _build_free_roots(job: Job, pointed: frozenset[str]) -> None:
    """What no deployer points to: it is applied by somebody whom Git does not show.

    A deployer's path may be patched or filled in: what holds deployers is followed before the rest is looked at.
    """
    waiting: list[tuple[Root, Gathering]] = []
    for root, gathering in _free_roots(job, pointed):
        if any(draft.identity.kind in _DECLARING for draft in gathering.drafts):
            _keep_free(job, root, gathering)
        else:
            waiting.append((root, gathering))
    _follow_built(job, 0)
    deployed = frozenset(deployer.directory for deployer in job.deployers.values())
    for root, gathering in waiting:
        if not is_below(root.path, deployed):
            _keep_free(job, root, gathering)


def _free_roots(job: Job, pointed: frozenset[str]) -> Iterator[tuple[Root, Gathering]]:
    for directory in root_directories(job.builder, job.used, job.holds):
        gathering = None if is_below(directory, pointed) else try_build(job, directory)
        if gathering is not None:
            yield Root(cluster=job.cluster, path=directory), gathering
    for path, gathering in job.outside.items():
        if not is_below(path, pointed):
            yield Root(cluster=job.cluster, path=path), gathering
    for path in plain_files(job.builder.repository, job.used, job.charts, job.holds):
        if not is_below(directory_of(path), pointed):
            yield Root(cluster=job.cluster, path=path), job.builder.build_files((path,))


def _keep_free(job: Job, root: Root, gathering: Gathering) -> None:
    if job.builder.repository.has_file(root.path):
        job.plain.add(root.path)
    keep(job, root, gathering)


def try_build(job: Job, directory: str) -> Gathering | None:
    try:
        return job.builder.build(job.builder.read(directory))
    except InputError as error:
        job.findings.append(finding_of(error))
        return None


def _follow_built(job: Job, start: int) -> None:
    """Follow every deployer among the objects from a position on, and those among what they build."""
    position = start
    while position < len(job.objects):
        built = job.objects[position]
        position += 1
        if built.key.kind in DEPLOYER_KINDS:
            _follow(job, identify(built.fields), source_as_built(built))
        elif built.key.kind == APPLICATION_SET:
            _follow_set(job, source_as_built(built))


def _follow_set(job: Job, source: SourceField) -> None:
    try:
        for made in make_applications(job.builder.repository, source):
            _follow(job, identify(made.mapping()), made)
    except InputError as error:
        job.findings.append(finding_of(error))


def source_as_built(built: BuiltObject) -> SourceField:
    """An object to read rules from: where it is written, or as it was patched or filled in, which has no place."""
    if "spec" not in built.trace.members and built.fields.get("spec") is built.source.mapping().get("spec"):
        return built.source
    document = replace(built.source.document, value=built.fields, index=AS_BUILT)
    return SourceField(document, (), built.source.kind)


def _follow(job: Job, identity: ObjectIdentity, source: SourceField) -> None:
    """Build what one deployer deploys, once."""
    if len(job.followed) >= MAX_DEPLOYERS:
        return
    deployers, findings = try_read(job.builder.repository, identity, source)
    directories = frozenset(each.directory for each in deployers)
    is_first = identity.effective not in job.followed
    if job.followed.setdefault(identity.effective, directories) >= directories and not is_first:
        return
    if not is_first:
        message = f"{identity} is there already with another path: what this one deploys is not read"
        job.findings.append(Finding(place=source.place, severity=Severity.WARNING, message=message))
        return
    job.findings += findings
    for deployer in deployers:
        deploy(job, deployer)


def deploy(job: Job, deployer: Deployer) -> None:
    repository = job.builder.repository
    root = Root(cluster=job.cluster, path=deployer.directory, deployer=str(deployer))
    others = job.deployed.setdefault(deployer.directory, [])
    twin = next((other for other in others if deployer.is_twin_of(other)), None)
    if twin is not None:
        message = f"{deployer} deploys {quote(deployer.directory or '.')} just as {twin} does: keep one"
        job.findings.append(Finding(place=deployer.spec.place, severity=Severity.WARNING, message=message))
        return
    others.append(deployer)
    job.deployers[root] = deployer
    if is_below(deployer.directory, job.charts):
        return
    try:
        if repository.kustomizations_in(deployer.directory):
            kustomization = job.builder.read(deployer.directory)
        elif deployer.is_flux:
            kustomization = _imply(job, deployer)
        else:
            keep(job, root, job.builder.build_files(_files_of(job, deployer)), deployer)
            return
    except InputError as error:
        job.findings.append(finding_of(error))
        return
    keep(job, root, job.builder.build(deployer.amend(kustomization)), deployer)


def _imply(job: Job, deployer: Deployer) -> Kustomization:
    """The kustomization that Flux makes up for a directory without one: everything in it, and below."""
    return Kustomization(
        source=deployer.source, directory=deployer.directory, implied=tuple(_implied_entries(job, deployer.directory))
    )


def _implied_entries(job: Job, directory: str) -> Iterator[str]:
    # Whoever leaves out a path means all of the repository, and not what others deploy of it by themselves.
    others = frozenset() if directory else job.pointed
    entered: list[str] = []
    for path in job.builder.repository.files_below(directory):
        below = directory_of(path)
        if is_below(below, frozenset(entered)) or is_below(below, others):
            continue
        if below != directory and job.builder.repository.kustomizations_in(below):
            entered.append(below)
            yield below
        elif is_yaml(path) and not path.endswith(".json") and not is_below(below, job.charts):
            yield path


def _files_of(job: Job, deployer: Deployer) -> Iterator[str]:
    """The files of a directory as Argo CD reads them: with `recurse` also those below."""
    repository, directory = job.builder.repository, deployer.directory
    paths = repository.files_below(directory) if deployer.is_recursive else repository.files_in(directory)
    for path in paths:
        relative = path[len(directory) + 1 :] if directory else path
        is_included = not deployer.include or matches_any(deployer.include, relative)
        is_excluded = bool(deployer.exclude) and matches_any(deployer.exclude, relative)
        if is_yaml(path) and is_included and not is_excluded and not is_below(directory_of(path), job.charts):
            yield path


def keep(job: Job, root: Root, gathering: Gathering, deployer: Deployer | None = None) -> None:
    """Take over what a build made; what it fails at holds every object of it."""
    job.roots_reading.update(gathering.paths)
    job.paths_of[root] = frozenset(gathering.paths)
    job.findings += gathering.findings
    if gathering.findings:
        job.hidden[root] = tuple(gathering.findings)
    job.findings += [finding_of(error) for error in gathering.failures]
    shared = tuple(_failed(error, root) for error in gathering.failures[:1])
    if deployer is not None and deployer.fallback_namespace:
        set_namespace(
            [draft for draft in gathering.drafts if not draft.identity.namespace], deployer.fallback_namespace
        )
    for draft in gathering.drafts:
        filled: tuple[Obstacle, ...] = ()
        if deployer is not None and deployer.substitutes:
            filled = tuple(_substituted(draft, deployer))
            fill_in(draft, (each.field for each in filled), deployer)
        job.objects.append(_finished(draft, root, (*draft.obstacles, *shared, *filled)))


def _failed(error: InputError, root: Root) -> Obstacle:
    place = Place(path=error.path, line=error.line, field=error.field)
    return Obstacle(reason=f"{root} does not build: {error.message}", place=place)


def _substituted(draft: ObjectDraft, deployer: Deployer) -> Iterator[Obstacle]:
    """What a substitution after the build will fill in."""
    for name in ("annotations", "labels"):
        if draft.value_at("metadata", name, f"{FLUX_GROUP}/substitute") == "disabled":
            return
    for path in find_substituted(draft.fields):
        yield Obstacle(reason=f"filled in by the substitution of {deployer}", place=deployer.source.place, field=path)


def _finished(draft: ObjectDraft, root: Root, obstacles: tuple[Obstacle, ...]) -> BuiltObject:
    identity = draft.identity.effective
    key = ResourceKey(cluster=root.cluster, namespace=identity.namespace, kind=identity.kind, name=identity.name)
    version = draft.fields.get("apiVersion")
    return BuiltObject(
        key=key,
        api_version=version if isinstance(version, str) else "",
        fields=draft.fields,
        root=root,
        source=draft.source,
        trace=draft.trace,
        obstacles=obstacles,
        names=tuple(dict.fromkeys(each.name for each in draft.identities)),
    )
