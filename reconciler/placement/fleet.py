"""All that each cluster gets from a commit, and which objects a file reaches."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity, finding_of, matches_any
from reconciler.errors import InputError
from reconciler.manifests.documents import Value
from reconciler.manifests.wording import Field, quote
from reconciler.placement.deployers import (
    APPLICATION_SET,
    DEPLOYER_KINDS,
    FLUX_GROUP,
    Deployer,
    fill_in,
    find_paths,
    find_substituted,
    has_own_text,
    make_applications,
    may_be,
    try_read,
)
from reconciler.placement.kustomization import Kustomization
from reconciler.placement.kustomize_build import (
    Builder,
    Gathering,
    Used,
    find_charts,
    find_used,
    is_below,
    outside_roots,
    plain_files,
    root_directories,
    unbuilt_files,
)
from reconciler.placement.kustomize_transformers import set_namespace
from reconciler.placement.markers import IGNORE, MarkerComment
from reconciler.placement.objects import (
    AS_BUILT,
    Address,
    BuiltObject,
    ObjectDraft,
    ObjectIdentity,
    Obstacle,
    Root,
    SourceField,
    ValueOrigin,
    identify,
)
from reconciler.placement.repository import ManifestRepository, directory_of, is_yaml
from reconciler.resources.validation import is_templated

MAX_DEPLOYERS: Final = 20_000
_DECLARING: Final = DEPLOYER_KINDS | {APPLICATION_SET}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBuild:
    """What a cluster gets: objects in the order of their keys, findings, and who deploys which root.

    `paths` are all files that its builds read, and `roots_reading` counts the builds of each; `unbuilt` are files that
    look like manifests and that nothing builds, `plain` those that are applied as they are. `hidden` holds the parts of
    roots that are not read, because they are in another repository or a chart makes them.
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
    # The deployers that are left deploy themselves, or nothing in Git deploys them. Those in files that a build has
    # read were followed as that build made them.
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

    def bootstrap_order(found: tuple[ObjectIdentity, SourceField, Deployer]) -> tuple[bool, str, int]:
        document = found[1].document
        return not is_below(document.path, {found[2].directory}), document.path, document.index

    return sorted(found, key=bootstrap_order)


def _declared(repository: ManifestRepository, source: SourceField) -> list[SourceField]:
    """The deployers that a document is, or makes."""
    if source.mapping().get("kind") != APPLICATION_SET:
        return [source]
    try:
        return list(make_applications(repository, source))
    except InputError:
        return []


def _build_free_roots(job: Job, pointed: frozenset[str]) -> None:
    """Build the roots that no deployer in Git points to.

    A build may patch or fill in the path of a deployer, so roots with deployers are followed first.
    """
    waiting: list[tuple[Root, Gathering]] = []
    for root, gathering in _free_roots(job, pointed):
        if any(draft.identity.kind in _DECLARING for draft in gathering.drafts):
            keep(job, root, gathering)
        else:
            waiting.append((root, gathering))
    _follow_built(job, 0)
    deployed = frozenset(deployer.directory for deployer in job.deployers.values())
    for root, gathering in waiting:
        if not is_below(root.path, deployed):
            keep(job, root, gathering)
    repository = job.builder.repository
    job.plain |= {root.path for root in job.paths_of if repository.has_file(root.path)}


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


def try_build(job: Job, directory: str) -> Gathering | None:
    """What the kustomization of a directory builds; None and a finding where it cannot be read."""
    try:
        return job.builder.build(job.builder.read(directory))
    except InputError as error:
        job.findings.append(finding_of(error))
        return None


def _follow_built(job: Job, start: int) -> None:
    """Follow every deployer among the objects from a position on, and the deployers that these build."""
    position = start
    while position < len(job.objects):
        built = job.objects[position]
        position += 1
        if built.key.kind in DEPLOYER_KINDS:
            _follow(job, identify(built.fields), source_as_built(built))
        elif built.key.kind == APPLICATION_SET:
            try:
                for made in make_applications(job.builder.repository, source_as_built(built)):
                    _follow(job, identify(made.mapping()), made)
            except InputError as error:
                job.findings.append(finding_of(error))


def source_as_built(built: BuiltObject) -> SourceField:
    """An object to read rules from: as it is written, or as it was built where a patch changed its `spec`."""
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
    """Build the directory of a deployer, unless another one deploys it in the same way."""
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
            # The kustomization that Flux makes up for a directory without one: everything in it, and
            # below.
            kustomization = Kustomization(
                source=deployer.source,
                directory=deployer.directory,
                implied=tuple(_implied_entries(job, deployer.directory)),
            )
        else:
            keep(job, root, job.builder.build_files(_files_of(job, deployer)), deployer)
            return
    except InputError as error:
        job.findings.append(finding_of(error))
        return
    keep(job, root, job.builder.build(deployer.amend(kustomization)), deployer)


def _implied_entries(job: Job, directory: str) -> Iterator[str]:
    # A deployer without a path means the whole repository, but for what other deployers point to.
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
    """Keep what a build made; its first failure becomes an obstacle of every object."""
    job.roots_reading.update(gathering.paths)
    job.paths_of[root] = frozenset(gathering.paths)
    job.findings += gathering.findings
    if gathering.findings:
        job.hidden[root] = tuple(gathering.findings)
    job.findings += [finding_of(error) for error in gathering.failures]
    shared = tuple(
        Obstacle(
            reason=f"{root} does not build: {error.message}",
            place=Place(path=error.path, line=error.line, field=error.field),
        )
        for error in gathering.failures[:1]
    )
    if deployer is not None and deployer.fallback_namespace:
        set_namespace(
            [draft for draft in gathering.drafts if not draft.identity.namespace], deployer.fallback_namespace
        )
    for draft in gathering.drafts:
        filled: tuple[Obstacle, ...] = ()
        if deployer is not None and deployer.substitutes:
            filled = tuple(_substituted(draft, deployer))
            fill_in(draft, (each.field for each in filled), deployer)
        identity, version = draft.identity.effective, draft.fields.get("apiVersion")
        built = BuiltObject(
            key=ResourceKey(cluster=root.cluster, namespace=identity.namespace, kind=identity.kind, name=identity.name),
            api_version=version if isinstance(version, str) else "",
            fields=draft.fields,
            root=root,
            source=draft.source,
            trace=draft.trace,
            obstacles=(*draft.obstacles, *shared, *filled),
            names=tuple(dict.fromkeys(each.name for each in draft.identities)),
        )
        job.objects.append(built)


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


ELSEWHERE: Final = "(elsewhere)"
"""The cluster of objects that are built in the paths of no cluster; no name of a real one has brackets."""
_RELEASING: Final = frozenset({"Application", "HelmRelease"})
"""Kinds whose charts may share a file of values with those of a cluster."""


def build_elsewhere(
    builder: Builder,
    is_held: Callable[[str], bool],
    builds: Sequence[ClusterBuild],
    used: Used,
    charts: frozenset[str],
) -> ClusterBuild:
    """What the repository builds, outside of every cluster's paths, of files that clusters read.

    A root that makes the same objects of such a file, or deploys one, is the cluster itself and is left out.
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
    """Whether an ApplicationSet deploys something that cannot be followed."""
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
                yield from ((each, f"{identify(value)}, {path}") for each in dict.fromkeys(found) if has_own_text(each))


def _build_sets(job: Job, builds: Sequence[ClusterBuild]) -> Iterator[Root]:
    """Build what such sets deploy besides what clusters are known to get: other environments."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What every cluster gets from one commit.

    `objects` holds each object under its key, more than one where two roots build the same name. `shared_paths` are
    files that the builds of two clusters read: never edited. `repository`, `holds` (does a path belong to a cluster)
    and `markers` are what it was built from. One of the `clusters` may be what is built elsewhere of their files.
    """

    repository: ManifestRepository
    clusters: Mapping[str, ClusterBuild]
    objects: Mapping[ResourceKey, tuple[BuiltObject, ...]]
    holds: Mapping[str, Callable[[str], bool]] = field(repr=False)
    shared_paths: frozenset[str] = frozenset()
    markers: tuple[MarkerComment, ...] = ()
    _markers: Mapping[tuple[str, str, str], tuple[MarkerComment, ...]] = field(default_factory=dict, repr=False)
    """By word, kind and name; those without a name by word and path."""
    _by_document: Mapping[tuple[str, int], tuple[BuiltObject, ...]] = field(default_factory=dict, repr=False)
    _by_kind: Mapping[tuple[str, str], tuple[BuiltObject, ...]] = field(default_factory=dict, repr=False)
    _readers: dict[tuple[tuple[str, int], Field], dict[Address, list[BuiltObject]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _scalers: Mapping[str, tuple[BuiltObject, ...]] = field(default_factory=dict, repr=False)
    _documents_in: Mapping[str, int] = field(default_factory=dict, repr=False)
    _by_name: Mapping[tuple[str, str, str], tuple[ResourceKey, ...]] = field(default_factory=dict, repr=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all builds, sorted."""
        return tuple(sorted({finding for cluster in self.clusters.values() for finding in cluster.findings}))

    def roots_elsewhere(self, path: str) -> tuple[str, ...]:
        """The roots in the paths of no cluster that build objects of a file, sorted."""
        return tuple(sorted({str(each.root) for each in self.reaches(path) if each.key.cluster == ELSEWHERE}))

    def find(self, key: ResourceKey) -> BuiltObject | None:
        """The object of that name, when one root builds it and no other."""
        found = self.objects.get(key, ())
        return found[0] if len(found) == 1 else None

    def markers_for(self, key: ResourceKey, word: str) -> tuple[MarkerComment, ...]:
        """The marker comments that name an object, and those without a name in its own manifest."""
        named = self._markers.get((word, key.kind, key.name), ())
        own = (
            marker
            for built in self.objects.get(key, ())
            for marker in self._markers.get((word, "", built.path), ())
            if marker.document == built.source.document.index
            and marker.field[: len(built.source.field)] == built.source.field
        )
        return (*(marker for marker in named if key.cluster in self.holders_of(marker.path)), *own)

    def is_ignored(self, origin: ValueOrigin) -> bool:
        """Whether a comment behind a number says to leave it alone."""
        marked = self._markers.get((IGNORE, "", origin.place.path), ())
        return origin.embedding is None and any(
            (marker.document, marker.field) == (origin.document, origin.field) for marker in marked
        )

    def of_kinds(self, cluster: str, kinds: Iterable[str]) -> Iterator[BuiltObject]:
        """The objects of some kinds in a cluster."""
        for kind in kinds:
            yield from self._by_kind.get((cluster, kind), ())

    def templated_scalers(self, cluster: str) -> tuple[BuiltObject, ...]:
        """The objects that scale another one whose name is a template."""
        return self._scalers.get(cluster, ())

    def named(self, cluster: str, kind: str, name: str) -> tuple[ResourceKey, ...]:
        """The objects of a kind and name in any namespace of a cluster."""
        return self._by_name.get((cluster, kind, name), ())

    def reaches(self, path: str) -> tuple[BuiltObject, ...]:
        """Every object, in every root and cluster, that something of this file ends up in."""
        numbers = range(self._documents_in.get(path, 0))
        found = (built for number in numbers for built in self._by_document.get((path, number), ()))
        return tuple({id(built): built for built in found}.values())

    def made_of(self, document: tuple[str, int]) -> tuple[BuiltObject, ...]:
        """Every object, in every root and cluster, that something of one document ends up in."""
        return self._by_document.get(document, ())

    def readers_of(self, origin: ValueOrigin, path: Field) -> tuple[BuiltObject, ...]:
        """Every object whose field `path` is decided at this very place: an edit there changes them all."""
        document = origin.address[:2]
        known = self._readers.get((document, path))
        if known is None:  # found once for a document: one kustomization may patch thousands of objects
            known = self._readers[document, path] = {}
            for built in self._by_document.get(document, ()):
                address = built.address_of(path)
                if address is not None:
                    known.setdefault(address, []).append(built)
        return tuple(known.get(origin.address, ()))

    def deployer_of(self, built: BuiltObject) -> Deployer | None:
        """Who deploys an object, if Git shows it."""
        return self.clusters[built.key.cluster].deployers.get(built.root)

    def hidden_from(self, key: ResourceKey, beside: ResourceKey) -> Finding | None:
        """A part of a root that is not read and may hold an object.

        Either the root builds `beside`, or it puts all its objects in the namespace of `key`.
        """
        hidden = self.clusters[key.cluster].hidden
        roots = [built.root for built in self.objects.get(beside, ()) if built.root in hidden]
        roots += [root for root in hidden if self._namespace_of(root) == key.namespace]
        return hidden[roots[0]][0] if roots else None

    def _namespace_of(self, root: Root) -> str:
        """The namespace that a root gives all its objects; empty where it gives none."""
        deployer = self.clusters[root.cluster].deployers.get(root)
        if deployer is not None and (deployer.namespace is not None or deployer.fallback_namespace):
            return str(deployer.namespace.value) if deployer.namespace is not None else deployer.fallback_namespace
        files = self.repository.kustomizations_in(root.path)
        values = [document.value for document in (self.repository.files.get(files[0], ()) if files else ())]
        found = values[0].get("namespace") if values and isinstance(values[0], dict) else None
        return found if isinstance(found, str) else ""

    def holders_of(self, path: str) -> frozenset[str]:
        """The clusters that a file belongs to or is built into; all of them when it is in the paths of none."""
        found = {name for name, holds in self.holds.items() if holds(path) or path in self.clusters[name].paths}
        return frozenset(found or self.holds)


def named_target(built: BuiltObject) -> Value:
    """The name of what an object scales, or the template that its whole target is."""
    reference = built.value_at("spec", "scaleTargetRef")
    return reference.get("name") if isinstance(reference, dict) else reference


def build_fleet(
    repository: ManifestRepository, clusters: Mapping[str, Callable[[str], bool]], markers: Iterable[MarkerComment] = ()
) -> Fleet:
    """Build every cluster; `clusters` says by name whether a path belongs to it. Nothing is raised."""
    builder = Builder(repository)
    used, charts = find_used(repository), find_charts(repository)

    def is_held(path: str) -> bool:
        return any(holds(path) for holds in clusters.values())

    builds = {
        name: build_cluster(builder, name, holds, is_held, used, charts) for name, holds in sorted(clusters.items())
    }
    if not all(map(is_held, repository.paths)) or has_unfollowed_sets(repository):
        builds[ELSEWHERE] = build_elsewhere(builder, is_held, tuple(builds.values()), used, charts)
    sorted_markers = sorted(markers, key=lambda marker: (marker.path, marker.line))
    grouped: dict[tuple[str, str, str], list[MarkerComment]] = {}
    for marker in sorted_markers:
        grouped.setdefault((marker.word, marker.kind, marker.name or marker.path), []).append(marker)
    reading = Counter(path for build in builds.values() for path in build.paths)
    objects: dict[ResourceKey, list[BuiltObject]] = {}
    by_document: dict[tuple[str, int], list[BuiltObject]] = {}
    documents_in: dict[str, int] = {}
    for build in builds.values():
        for built in build.objects:
            if build.cluster != ELSEWHERE:
                objects.setdefault(built.key, []).append(built)
            for path, number in built.documents:
                by_document.setdefault((path, number), []).append(built)
                documents_in[path] = max(documents_in.get(path, 0), number + 1)
    by_kind: dict[tuple[str, str], list[BuiltObject]] = {}
    for found in objects.values():
        for built in found:
            by_kind.setdefault((built.key.cluster, built.key.kind), []).append(built)
    names: dict[tuple[str, str, str], list[ResourceKey]] = {}
    for key in objects:
        names.setdefault((key.cluster, key.kind, key.name), []).append(key)
    return Fleet(
        repository=repository,
        clusters=builds,
        objects={key: tuple(found) for key, found in objects.items()},
        holds=dict(clusters),
        shared_paths=frozenset(path for path, number in reading.items() if number > 1),
        markers=tuple(sorted_markers),
        _markers={name: tuple(found) for name, found in grouped.items()},
        _by_document={where: tuple(found) for where, found in by_document.items()},
        _by_kind={kind: tuple(found) for kind, found in by_kind.items()},
        _scalers={
            name: tuple(each for each in build.objects if is_templated(named_target(each)))
            for name, build in builds.items()
        },
        _documents_in=documents_in,
        _by_name={name: tuple(keys) for name, keys in names.items()},
    )
