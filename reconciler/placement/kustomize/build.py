"""Builds what a kustomization means, as far as it can be told without running anything."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from reconciler.domain.identity import Finding, Severity
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.placement.kustomize.configurations import Configuration, read_configurations
from reconciler.placement.kustomize.generators import generate
from reconciler.placement.kustomize.kustomization import Kustomization, PatchRule, read_kustomization
from reconciler.placement.kustomize.patches import MissingTargetError, apply_patch, obstruct_replaced, select
from reconciler.placement.kustomize.references import fix_references
from reconciler.placement.kustomize.transformers import (
    affix_names,
    index_names,
    set_annotations,
    set_images,
    set_labels,
    set_namespace,
    set_replicas,
)
from reconciler.placement.objects import ObjectDraft, ObjectIdentity, Obstacle
from reconciler.placement.origins import OriginKind, SourceField, texts_in
from reconciler.placement.paths import OwnAddress, is_address, resolve
from reconciler.placement.repository import ManifestRepository

MAX_DEPTH: Final = 50
MAX_OBJECTS: Final = 500_000
MAX_DIRECTORIES: Final = 50_000
_LOCAL_CONFIG: Final = "config.kubernetes.io/local-config"


@dataclass(slots=True, kw_only=True)
class BuildBudget:
    """What all builds of one commit may cost together: objects count once for every kustomization they pass."""

    objects: int = MAX_OBJECTS
    directories: int = MAX_DIRECTORIES


@dataclass(slots=True, kw_only=True)
class Gathering:
    """What one build has gathered so far: objects, what Kustomize would fail at, and what cannot be seen.

    `is_partial`: something was left out (a remote base, a chart), so that a missing object may be in there.
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
    """Builds directories of one repository; what was read of one is kept for the next."""

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
        """The objects of plain files, as they stand."""
        gathering = Gathering(is_partial=True)
        run = _Run(self, gathering, self._budget)
        for path in paths:
            run.attempt(partial(run.add_plain_file, path))
        return finish(gathering)


def finish(gathering: Gathering) -> Gathering:
    """Drop what is only there for the build, let references follow, find what is there twice."""
    gathering.drafts = [draft for draft in gathering.drafts if not _is_local(draft)]
    fix_references(gathering.drafts, gathering.configuration)
    marks = {f"$({name})" for name in gathering.variables if name}
    for draft in gathering.drafts if marks else ():
        for path, text in texts_in(draft.fields):
            if any(mark in text for mark in marks):
                draft.obstacles.append(Obstacle(reason="a variable of the kustomization is filled in", field=path))
    return gathering


def _set_namespace(drafts: Sequence[ObjectDraft], namespace: SourceField) -> None:
    set_namespace(drafts, namespace.as_label())


def find_twins(drafts: Iterable[ObjectDraft]) -> Iterator[InputError]:
    """One error for every object that is there already: Kustomize refuses to build both."""
    seen: dict[ObjectIdentity, ObjectDraft] = {}
    for draft in drafts:
        first = seen.setdefault(draft.identity.effective, draft)
        if first is not draft:
            yield draft.source.error(f"{draft.identity} is there already ({first.source.place}): keep one")


def _is_local(draft: ObjectDraft) -> bool:
    marked = draft.value_at("metadata", "annotations", _LOCAL_CONFIG)
    return marked is not None and marked != "false"


class _Run:
    """One build; every step that Kustomize would fail at is noted, and the build goes on without it."""

    def __init__(self, builder: Builder, gathering: Gathering, budget: BuildBudget) -> None:
        self._builder = builder
        self._repository = builder.repository
        self._gathering = gathering
        self._budget = budget

    def gather(self, kustomization: Kustomization, way: tuple[str, ...]) -> None:
        """Everything of one kustomization, changed as it says, added to what is gathered already.

        A component changes what is there; any other kustomization only what it gathers itself.
        """
        outer, outer_configuration = self._gathering.drafts, self._gathering.configuration
        if not kustomization.is_component:
            self._gathering.drafts, self._gathering.configuration = [], Configuration()
        outer_is_partial = self._gathering.is_partial
        self._gathering.directories.add(kustomization.directory)
        self._gathering.paths.add(kustomization.source.document.path)
        self._gather_members(kustomization, way)
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

    def _gather_members(self, kustomization: Kustomization, way: tuple[str, ...]) -> None:
        for entry in kustomization.resources:
            self.attempt(partial(self._gather_resource, kustomization, entry, way))
        for path in kustomization.implied:
            self.attempt(partial(self._gather_implied, kustomization, path, way))
        for entry in kustomization.components:
            self.attempt(partial(self._gather_component, kustomization, entry, way))

    def _gather_resource(self, kustomization: Kustomization, entry: SourceField, way: tuple[str, ...]) -> None:
        text = entry.as_text()
        path = resolve(kustomization.directory, text)
        if path is not None and self._repository.has_file(path):
            self.add_file(path, _kind_of(kustomization, way))
        elif path is not None and self._repository.has_directory(path):
            self._enter(path, entry, way, wants_component=False)
        elif (own := self._repository.find_own(text)) is not None and own.path not in way:
            self._gather_own(own, entry, way)
        elif is_address(text):
            self._hide(entry, f"what stands at {quote(text)} is not read: nothing is fetched")
        else:
            raise entry.error(f"there is no file or directory {quote(text)}")

    def _gather_own(self, own: OwnAddress, entry: SourceField, way: tuple[str, ...]) -> None:
        """What is fetched from this very repository: as it is here, unless another commit of it is meant."""
        start = len(self._gathering.drafts)
        if self._repository.has_file(own.path):
            self.add_file(own.path, OriginKind.BASE)
        else:
            self._enter(own.path, entry, way, wants_component=False)
        if own.revision:
            reason = f"it is built of {quote(own.revision)} of this repository, and not of what is here"
            for draft in self._gathering.drafts[start:]:
                draft.obstacles.append(Obstacle(reason=reason, place=entry.place))

    def _gather_implied(self, kustomization: Kustomization, path: str, way: tuple[str, ...]) -> None:
        if self._repository.has_file(path):
            self.add_plain_file(path)
        else:
            self._enter(path, kustomization.source, way, wants_component=False)

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
        """The objects of one file; InputError for a document that is none."""
        self._gathering.paths.add(path)
        for document in self._repository.read(path):
            for source in objects_in(SourceField(document, (), kind)):
                draft = ObjectDraft.of(source)
                if not draft.identity.kind or not draft.identity.name:
                    raise source.error("expected kind and metadata.name of an object")
                self._add([draft], source)

    def add_plain_file(self, path: str) -> None:
        """The objects of a file that nobody builds; what is no object is none of ours."""
        self._gathering.paths.add(path)
        for document in self._repository.read(path):
            if isinstance(document.value, dict):
                for source in objects_in(SourceField(document, (), OriginKind.PLAIN)):
                    draft = ObjectDraft.of(source)
                    if draft.identity.kind and draft.identity.name:
                        self._add([draft], source)

    def _add(self, drafts: list[ObjectDraft], source: SourceField) -> None:
        """Add objects to those that are there; InputError for two of one name."""
        self._budget.objects -= len(drafts)
        if self._budget.objects < 0:
            raise source.error("expected fewer objects to build: nothing more is read")
        self._gathering.drafts += drafts

    def _hide(self, source: SourceField, reason: str) -> None:
        self._gathering.is_partial = True
        self._gathering.findings.append(Finding(place=source.place, severity=Severity.WARNING, message=reason))

    def _obstruct(self, source: SourceField, reason: str) -> None:
        for draft in self._gathering.drafts:
            draft.obstacles.append(Obstacle(reason=reason, place=source.place))

    def _configure(self, kustomization: Kustomization) -> None:
        configuration, unfollowed = read_configurations(self._repository, kustomization)
        self._gathering.configuration |= configuration
        for source, rule in unfollowed:
            words = f"a transformer configuration sets {quote(str(source.field[0]))}, which is not followed"
            for draft in self._gathering.drafts:
                if rule is None or rule.fits(draft.identity):
                    field = () if rule is None or rule.path[:1] == ("metadata",) else rule.path
                    draft.obstacles.append(Obstacle(reason=words, place=source.place, field=field))

    def _transform(self, kustomization: Kustomization) -> None:
        """Kustomize's transformers, in the order in which it runs them."""
        drafts = self._gathering.drafts
        for rule in (*kustomization.strategic_patches, *kustomization.patches, *kustomization.json_patches):
            self._gathering.paths.update(path for path in [resolve(rule.directory, rule.path)] if path and rule.path)
        for rule in (*kustomization.strategic_patches, *kustomization.patches):
            self.attempt(partial(self._patch, rule))
        if kustomization.namespace is not None:
            self.attempt(partial(_set_namespace, drafts, kustomization.namespace))
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
        """Take one step; what Kustomize would fail at is noted."""
        try:
            step()
        except MissingTargetError as error:
            if not self._gathering.is_partial:
                self._gathering.failures.append(error)
        except InputError as error:
            self._gathering.failures.append(error)


def _kind_of(kustomization: Kustomization, way: tuple[str, ...]) -> OriginKind:
    if kustomization.is_component:
        return OriginKind.COMPONENT
    return OriginKind.PLAIN if len(way) == 1 else OriginKind.BASE


def objects_in(source: SourceField) -> Iterator[SourceField]:
    """The objects of a document: itself, or the items of a list of whatever kind."""
    if source.value is None:
        return
    fields = source.mapping()
    kind, items = fields.get("kind"), fields.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index in range(len(items)):
            yield from objects_in(source.below("items", index))
        return
    yield source
