"""Builds kustomizations without running Kustomize, and finds the roots of builds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Final

from reconciler.domain.identity import Finding
from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, value_at
from reconciler.manifests.wording import quote
from reconciler.placement.kustomization import Kustomization, PatchRule, read_kustomization
from reconciler.placement.kustomize_patches import MissingTargetError, apply_patch, obstruct_replaced, select
from reconciler.placement.kustomize_transformers import (
    Configuration,
    affix_names,
    fix_references,
    generate,
    index_names,
    read_configurations,
    set_annotations,
    set_images,
    set_labels,
    set_namespace,
    set_replicas,
)
from reconciler.placement.objects import ObjectDraft, ObjectIdentity, Obstacle, OriginKind, SourceField, texts_in
from reconciler.placement.repository import (
    CHART_NAME,
    KUSTOMIZATION_NAMES,
    ManifestRepository,
    directory_of,
    is_address,
    is_yaml,
    name_of,
    resolve,
)

MAX_DEPTH: Final = 50
MAX_OBJECTS: Final = 500_000
MAX_DIRECTORIES: Final = 50_000
_LOCAL_CONFIG: Final = "config.kubernetes.io/local-config"


@dataclass(slots=True, kw_only=True)
class BuildBudget:
    """Limits of all builds of one commit together: an object counts once for every kustomization it passes."""

    objects: int = MAX_OBJECTS
    directories: int = MAX_DIRECTORIES


@dataclass(slots=True, kw_only=True)
class Gathering:
    """The state of one build: objects, Kustomize's errors, and what is not read.

    `is_partial`: something was left out (a remote base, a chart) that may hold a missing object.
    """

    drafts: list[ObjectDraft] = field(default_factory=list)
    failures: list[InputError] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    is_partial: bool = False
    configuration: Configuration = field(default_factory=Configuration)
    variables: set[str] = field(default_factory=set)


class Builder:
    """Builds directories of one repository; kustomizations are read once."""

    def __init__(self, repository: ManifestRepository, budget: BuildBudget | None = None) -> None:
        self.repository = repository
        self._budget = budget or BuildBudget()
        self._read: dict[str, Kustomization | InputError] = {}

    def read(self, directory: str) -> Kustomization:
        """The kustomization of a directory; InputError when there is none that can be read."""
        if directory not in self._read:
            try:
                self._read[directory] = read_kustomization(self.repository, directory)
            except InputError as error:
                self._read[directory] = error
        found = self._read[directory]
        if isinstance(found, InputError):
            raise found
        return found

    def build(self, kustomization: Kustomization) -> Gathering:
        """Everything that a kustomization builds, its references fixed; nothing is raised."""
        gathering = Gathering(is_partial=not self.repository.is_whole)
        run = _Run(self, gathering, self._budget)
        run.gather(kustomization, (kustomization.directory,))
        finish(gathering)
        gathering.failures += find_twins(gathering.drafts)
        return gathering

    def build_files(self, paths: Iterable[str]) -> Gathering:
        """The objects of plain files, unchanged."""
        gathering = Gathering(is_partial=True)
        run = _Run(self, gathering, self._budget)
        for path in paths:
            run.attempt(partial(run.add_plain_file, path))
        return finish(gathering)


def finish(gathering: Gathering) -> Gathering:
    """Drop objects that only the build needs, and update references to renamed ones."""
    marks = ((draft, draft.value_at("metadata", "annotations", _LOCAL_CONFIG)) for draft in gathering.drafts)
    gathering.drafts = [draft for draft, mark in marks if mark is None or mark == "false"]
    fix_references(gathering.drafts, gathering.configuration)
    variables = {f"$({name})" for name in gathering.variables if name}
    for draft in gathering.drafts if variables else ():
        for path, text in texts_in(draft.fields):
            if any(each in text for each in variables):
                draft.obstacles.append(Obstacle(reason="a variable of the kustomization is filled in", field=path))
    return gathering


def find_twins(drafts: Iterable[ObjectDraft]) -> Iterator[InputError]:
    """One error for every duplicate object: Kustomize refuses to build both."""
    seen: dict[ObjectIdentity, ObjectDraft] = {}
    for draft in drafts:
        first = seen.setdefault(draft.identity.effective, draft)
        if first is not draft:
            yield draft.source.error(f"{draft.identity} exists already ({first.source.place}): keep one")


class _Run:
    """One build; a step at which Kustomize would fail is noted and left out."""

    def __init__(self, builder: Builder, gathering: Gathering, budget: BuildBudget) -> None:
        self._builder = builder
        self._repository = builder.repository
        self._gathering = gathering
        self._budget = budget

    def gather(self, kustomization: Kustomization, way: tuple[str, ...]) -> None:
        """Add everything of one kustomization, transformed.

        A component transforms all objects so far; any other kustomization only its own.
        """
        outer, outer_configuration = self._gathering.drafts, self._gathering.configuration
        if not kustomization.is_component:
            self._gathering.drafts, self._gathering.configuration = [], Configuration()
        outer_is_partial = self._gathering.is_partial
        self._gathering.directories.add(kustomization.directory)
        self._gathering.paths.add(kustomization.source.document.path)
        for entry in kustomization.resources:
            self.attempt(partial(self._gather_resource, kustomization, entry, way))
        for path in kustomization.implied:
            if self._repository.has_file(path):
                self.attempt(partial(self.add_plain_file, path))
            else:
                self.attempt(partial(self._enter, path, kustomization.source, way, wants_component=False))
        for entry in kustomization.components:
            self.attempt(partial(self._gather_component, kustomization, entry, way))
        for source, reason in kustomization.hidden:
            self._hide(source, reason)
        for kind, entry in kustomization.generators:
            self.attempt(partial(generate, kind, entry, self._gathering.drafts))
        self._gathering.variables.update(kustomization.variables)
        self.attempt(partial(self._configure, kustomization))
        self._transform(kustomization)
        if not kustomization.is_component:
            drafts, self._gathering.drafts = self._gathering.drafts, outer
            self.attempt(partial(self._add, drafts, kustomization.source))
            self._gathering.configuration |= outer_configuration
        self._gathering.is_partial = self._gathering.is_partial or outer_is_partial

    def _gather_resource(self, kustomization: Kustomization, entry: SourceField, way: tuple[str, ...]) -> None:
        text = entry.as_text()
        path = resolve(kustomization.directory, text)
        if path is not None and self._repository.has_file(path):
            kind = OriginKind.PLAIN if len(way) == 1 else OriginKind.BASE
            self.add_file(path, OriginKind.COMPONENT if kustomization.is_component else kind)
        elif path is not None and self._repository.has_directory(path):
            self._enter(path, entry, way, wants_component=False)
        elif (own := self._repository.find_own(text)) is not None and own.path not in way:
            # It is fetched from this repository: the same as here, unless it names another commit.
            start = len(self._gathering.drafts)
            if self._repository.has_file(own.path):
                self.add_file(own.path, OriginKind.BASE)
            else:
                self._enter(own.path, entry, way, wants_component=False)
            reason = f"it is built of {quote(own.revision)} of this repository, and not of this commit"
            for draft in self._gathering.drafts[start:] if own.revision else ():
                draft.obstacles.append(Obstacle(reason=reason, place=entry.place))
        elif is_address(text):
            self._hide(entry, f"{quote(text)} is not read: nothing is fetched")
        else:
            raise entry.error(f"there is no file or directory {quote(text)}")

    def _gather_component(self, kustomization: Kustomization, entry: SourceField, way: tuple[str, ...]) -> None:
        text = entry.as_text()
        path = resolve(kustomization.directory, text)
        if path is not None and self._repository.has_directory(path):
            self._enter(path, entry, way, wants_component=True)
        elif is_address(text):
            self._hide(entry, f"the component {quote(text)} is not read: nothing is fetched")
            self._obstruct(entry, f"the component {quote(text)} may change it: nothing is fetched")
        else:
            raise entry.error(f"there is no directory {quote(text)}")

    def _enter(self, directory: str, entry: SourceField, way: tuple[str, ...], *, wants_component: bool) -> None:
        if directory in way:
            raise entry.error(f"this leads back to {quote(directory or '.')}: a cycle is never built")
        if len(way) >= MAX_DEPTH:
            raise entry.error(f"expected at most {MAX_DEPTH} kustomizations inside of each other, got more")
        self._budget.directories -= 1
        if self._budget.directories < 0:
            raise entry.error("expected fewer directories to build: nothing more is read")
        if not self._repository.kustomizations_in(directory):
            raise entry.error(f"there is no kustomization in {quote(directory)}")
        kustomization = self._builder.read(directory)
        if kustomization.is_component is not wants_component:
            wanted, found = ("Component", "Kustomization") if wants_component else ("Kustomization", "Component")
            raise entry.error(f"expected a {wanted} in {quote(directory)}, got a {found}")
        self.gather(kustomization, (*way, directory))

    def add_file(self, path: str, kind: OriginKind) -> None:
        """The objects of one file; InputError for a document that is not an object."""
        self._gathering.paths.add(path)
        for document in self._repository.read(path):
            for source in objects_in(SourceField(document, (), kind)):
                draft = ObjectDraft.of(source)
                if not draft.identity.kind or not draft.identity.name:
                    raise source.error("expected kind and metadata.name of an object")
                self._add([draft], source)

    def add_plain_file(self, path: str) -> None:
        """The objects of a file outside of kustomizations; other documents are ignored."""
        self._gathering.paths.add(path)
        for document in self._repository.read(path):
            if isinstance(document.value, dict):
                for source in objects_in(SourceField(document, (), OriginKind.PLAIN)):
                    draft = ObjectDraft.of(source)
                    if draft.identity.kind and draft.identity.name:
                        self._add([draft], source)

    def _add(self, drafts: list[ObjectDraft], source: SourceField) -> None:
        self._budget.objects -= len(drafts)
        if self._budget.objects < 0:
            raise source.error("expected fewer objects to build: nothing more is read")
        self._gathering.drafts += drafts

    def _hide(self, source: SourceField, reason: str) -> None:
        self._gathering.is_partial = True
        self._gathering.findings.append(source.warning(reason))

    def _obstruct(self, source: SourceField, reason: str) -> None:
        for draft in self._gathering.drafts:
            draft.obstacles.append(Obstacle(reason=reason, place=source.place))

    def _configure(self, kustomization: Kustomization) -> None:
        configuration, unfollowed = read_configurations(self._repository, kustomization)
        self._gathering.configuration |= configuration
        for source, rule in unfollowed:
            words = f"a transformer configuration sets {quote(str(source.field[0]))}, which is not supported"
            for draft in self._gathering.drafts:
                if rule is None or rule.fits(draft.identity):
                    field = () if rule is None or rule.path[:1] == ("metadata",) else rule.path
                    draft.obstacles.append(Obstacle(reason=words, place=source.place, field=field))

    def _transform(self, kustomization: Kustomization) -> None:
        drafts = self._gathering.drafts
        for rule in (*kustomization.strategic_patches, *kustomization.patches, *kustomization.json_patches):
            path = resolve(rule.directory, rule.path) if rule.path else None
            self._gathering.paths |= {path} if path else set()
        for rule in (*kustomization.strategic_patches, *kustomization.patches):
            self.attempt(partial(self._patch, rule))
        namespace = kustomization.namespace
        if namespace is not None:
            self.attempt(lambda: set_namespace(drafts, namespace.as_label()))
        affix_names(drafts, kustomization.name_prefix, kustomization.name_suffix)
        for label_rule in kustomization.labels:
            set_labels(drafts, label_rule)
        set_annotations(drafts, kustomization.annotations or {})
        for rule in kustomization.json_patches:
            self.attempt(partial(self._patch, rule))
        named = index_names(drafts) if kustomization.replicas else {}
        for replica_rule in kustomization.replicas:
            self.attempt(partial(set_replicas, named, replica_rule, self._gathering.configuration.replicas))
        set_images(drafts, kustomization.images, self._gathering.configuration.images)
        self.attempt(partial(obstruct_replaced, self._repository, kustomization, drafts))
        for source, reason in kustomization.opaque:
            self._obstruct(source, reason)
        if kustomization.schema is not None:
            obstacle = Obstacle(reason="its own schema changes how patches merge", place=kustomization.schema.place)
            for draft in drafts if kustomization.strategic_patches or kustomization.patches else ():
                draft.obstacles += [obstacle] if draft.trace.members else []

    def _patch(self, rule: PatchRule) -> None:
        drafts = self._gathering.drafts
        if rule.inline is not None or not is_address(rule.path):
            apply_patch(self._repository, rule, drafts)
            return
        self._hide(rule.source, f"the patch at {quote(rule.path)} is not read: nothing is fetched")
        obstacle = Obstacle(reason="a patch that is not read may change it", place=rule.source.place)
        for draft in drafts if rule.target is None else select(rule.target, drafts, rule.source):
            draft.obstacles.append(obstacle)

    def attempt(self, step: Callable[[], None]) -> None:
        """Take one step, and note the error that Kustomize would report."""
        try:
            step()
        except InputError as error:
            if not (isinstance(error, MissingTargetError) and self._gathering.is_partial):
                self._gathering.failures.append(error)


def objects_in(source: SourceField) -> Iterator[SourceField]:
    """The objects of a document: itself, or the items of a list of any kind."""
    if source.value is None:
        return
    fields = source.mapping()
    kind, items = fields.get("kind"), fields.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index in range(len(items)):
            yield from objects_in(source.below("items", index))
    else:
        yield source


# Lists of a kustomization whose entries may be files, which are then not manifests of their own.
_OBJECT_LISTS: Final = ("resources", "bases", "components")
_FILE_LISTS: Final = ("patchesStrategicMerge", "configurations", "crds", "transformers", "generators", "validators")
_PATH_LISTS: Final = ("patches", "patchesJson6902", "replacements")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The directories and files that the kustomizations of a repository name.

    `rules` are the files that are not read for objects in them: patches and the like. `users` are the directories of
    the kustomizations that name a directory or a file of objects.
    """

    directories: frozenset[str]
    files: frozenset[str]
    rules: frozenset[str]
    users: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def tops(self, path: str) -> frozenset[str]:
        """The directories of the outermost kustomizations that use a directory or file."""
        return frozenset(each for each in self._above(path) if not self.users.get(each))

    def leads_to_itself(self, directory: str) -> bool:
        """Whether a directory is the first of a cycle that no other kustomization enters: only then it is reported."""
        above = self._above(directory)
        return directory in above and directory == min(above) and not self.tops(directory)

    def _above(self, path: str) -> frozenset[str]:
        found: set[str] = set()
        waiting = [path]
        while waiting:
            users = self.users.get(waiting.pop(), frozenset()) - found
            found |= users
            waiting += users
        return frozenset(found)


def find_used(repository: ManifestRepository) -> Used:
    """Everything that any kustomization names."""
    directories: set[str] = set()
    files: set[str] = set()
    rules: set[str] = set()
    users: dict[str, set[str]] = {}
    for path in repository.paths:
        if name_of(path) not in KUSTOMIZATION_NAMES:
            continue
        for name, is_rule in _names_in(repository, path):
            target = resolve(directory_of(path), name)
            if target is None or not (repository.has_file(target) or repository.has_directory(target)):
                own = repository.find_own(name)
                target = own.path if own is not None else target
            if target is None:
                continue
            if repository.has_file(target):
                files.add(target)
                rules.update((target,) if is_rule else ())
            elif repository.has_directory(target):
                directories.add(target)
            if not is_rule:
                users.setdefault(target, set()).add(directory_of(path))
    return Used(
        directories=frozenset(directories),
        files=frozenset(files),
        rules=frozenset(rules),
        users={target: frozenset(found) for target, found in users.items()},
    )


def _names_in(repository: ManifestRepository, path: str) -> Iterator[tuple[str, bool]]:
    try:
        documents = repository.read(path)
    except InputError:
        return
    for document in documents:
        value = document.value
        if isinstance(value, dict):
            named: list[tuple[Value, bool]] = [
                *((name, False) for key in _OBJECT_LISTS for name in _items(value, key)),
                *((name, True) for key in _FILE_LISTS for name in _items(value, key)),
                *((value_at(entry, ("path",)), True) for key in _PATH_LISTS for entry in _items(value, key)),
            ]
            yield from ((name, is_rule) for name, is_rule in named if isinstance(name, str))
            for entry in (*_items(value, "configMapGenerator"), *_items(value, "secretGenerator")):
                texts = (*_items(entry, "files"), *_items(entry, "envs"))
                yield from ((text.rpartition("=")[2], True) for text in texts if isinstance(text, str))
            for entry in (each for key in CHART_GENERATORS for each in _items(value, key)):
                yield from ((name, True) for name in values_files(entry))


CHART_GENERATORS: Final = {
    "helmCharts": ("name", "version"),
    "helmChartInflationGenerator": ("chartName", "chartVersion"),
}
"""Lists of charts that Kustomize renders; how an entry calls the chart and its version."""


def values_files(entry: Value) -> list[str]:
    """The files with values of a chart that Kustomize renders, in the order in which they count."""
    listed = (value_at(entry, ("valuesFile",)), value_at(entry, ("values",)), *_items(entry, "additionalValuesFiles"))
    return [each for each in listed if isinstance(each, str)]


def _items(value: Value, key: str) -> list[Value]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def find_charts(repository: ManifestRepository) -> frozenset[str]:
    """The directories of charts: Helm renders the files below."""
    return frozenset(directory_of(path) for path in repository.paths if name_of(path) == CHART_NAME)


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Whether a path lies in or below one of some directories."""
    wanted = directories if isinstance(directories, frozenset | set) else frozenset(directories)
    directory = path
    while directory:
        if directory in wanted:
            return True
        directory = directory_of(directory)
    return "" in wanted


def root_directories(builder: Builder, used: Used, holds: Callable[[str], bool]) -> Iterator[str]:
    """Directories with a kustomization in a cluster's paths that no other kustomization enters."""
    repository = builder.repository
    seen: set[str] = set()
    for path in repository.paths:
        directory = directory_of(path)
        if name_of(path) not in KUSTOMIZATION_NAMES or directory in seen:
            continue
        if directory in used.directories and not used.leads_to_itself(directory):
            continue
        if holds(path) and not is_component(builder, directory):
            seen.add(directory)
            yield directory


def is_component(builder: Builder, directory: str) -> bool:
    """Whether the kustomization of a directory is one; one that cannot be read is not."""
    try:
        return builder.read(directory).is_component
    except InputError:
        return False


def plain_files(
    repository: ManifestRepository, used: Used, charts: frozenset[str], holds: Callable[[str], bool]
) -> Iterator[str]:
    """Files in a cluster's paths that are applied unchanged: those whose directory has no kustomization."""
    for path in unused_files(repository, used, charts, holds):
        if not repository.kustomizations_in(directory_of(path)):
            yield path


def unused_files(
    repository: ManifestRepository, used: Used, charts: frozenset[str], holds: Callable[[str], bool]
) -> Iterator[str]:
    """Files in a cluster's paths that look like manifests, and that no kustomization or chart uses."""
    for path in repository.paths:
        is_manifest = is_yaml(path) and path not in used.files and name_of(path) not in KUSTOMIZATION_NAMES
        if is_manifest and holds(path) and not is_below(directory_of(path), charts):
            yield path


def outside_roots(
    builder: Builder, used: Used, holds: Callable[[str], bool], is_held: Callable[[str], bool]
) -> dict[str, Gathering]:
    """The builds of files in a cluster's paths that only kustomizations outside of them use, by directory or file.

    `is_held` says whether a path belongs to any cluster. An outside kustomization that builds the same objects is their
    environment, and so is each one that builds upon objects without a namespace. Otherwise the files are built by
    themselves, and kustomizations that build upon them are other environments.
    """
    chosen: dict[str, Gathering] = {}
    for target in sorted(used.users):
        if any(map(holds, _files_of(builder, target))):
            tops = used.tops(target)
            around = (path for each in tops | used.users[target] for path in _files_of(builder, each))
            if not any(map(is_held, around)):
                outermost = sorted(top for top in tops if not is_component(builder, top))
                chosen.update(_choose(builder, target, outermost))
    for gathering in chosen.values():
        others = {path for path in gathering.paths if is_held(path) and not holds(path)}
        gathering.drafts = [draft for draft in gathering.drafts if draft.source.document.path not in others]
        gathering.paths -= others
    return chosen


def _files_of(builder: Builder, target: str) -> tuple[str, ...]:
    return (target,) if builder.repository.has_file(target) else builder.repository.kustomizations_in(target)


def _choose(builder: Builder, target: str, tops: list[str]) -> Iterator[tuple[str, Gathering]]:
    built = {top: gathering for top in tops if (gathering := _build(builder, top)) is not None}
    own = _build(builder, target) if built else None
    if own is None:
        yield from built.items()
        return
    names = {draft.identity.effective for draft in own.drafts}
    same = [each for each in built.items() if names <= {draft.identity.effective for draft in each[1].drafts}]
    if same:
        yield from same if names else ()
    elif all(draft.identity.namespace or not draft.identity.is_namespaced for draft in own.drafts):
        yield target, own
    else:
        yield from built.items()


def _build(builder: Builder, target: str) -> Gathering | None:
    """The objects of a target by itself; None for a component, and for what cannot be read."""
    if builder.repository.has_file(target):
        return builder.build_files((target,))
    try:
        kustomization = builder.read(target)
    except InputError:
        return None
    return None if kustomization.is_component else builder.build(kustomization)
