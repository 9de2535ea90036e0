"""The rules of one kustomization file, and its selectors."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import describe, quote
from reconciler.placement.objects import ObjectDraft, OriginKind, SourceField, split_version
from reconciler.placement.repository import ManifestRepository, directory_of

_LONGEST_PATTERN: Final = 256
_MAX_QUANTIFIERS: Final = 3
# Patterns run against every name of a cluster. They are limited to literals, classes, alternatives and a few
# quantifiers on single characters, so that none makes a matcher backtrack for long.
_TAME: Final = re.compile(r"(?:(?:[A-Za-z0-9_/-]|\\[.-]|\.|\[[A-Za-z0-9._-]+\])[*+?]?|[|^$]|\((?:\?:)?|\)(?![*+?]))*")
_SET_TERM: Final = re.compile(r"\s*([^\s,!=()]+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUALITY_TERM: Final = re.compile(r"\s*([^\s,!=()]+)\s*(==?|!=)\s*([^\s,!=()]*)\s*")
_EXISTS_TERM: Final = re.compile(r"\s*(!?)\s*([^\s,!=()]+)\s*")


class Unclear(Exception):  # noqa: N818 - not an error: whether it matches is unknown
    """Raised when a pattern is invalid or cannot be matched safely."""


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    is_tame = len(pattern) <= _LONGEST_PATTERN and _TAME.fullmatch(pattern)
    if not is_tame or sum(map(pattern.count, "*+?")) - pattern.count("(?:") > _MAX_QUANTIFIERS:
        raise Unclear(f"the pattern {quote(pattern)} is not followed")
    try:
        return re.compile(f"^(?:{pattern})$", re.ASCII)
    except re.error as error:
        raise Unclear(f"the pattern {quote(pattern)} cannot be read: {error}") from error


def matches(pattern: str, text: str) -> bool:
    """Whether a whole text matches a pattern; an empty one matches all. Raises Unclear."""
    return not pattern or pattern == text or _compile(pattern).match(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A target, of which all parts must match. Group, version, kind, name and namespace are patterns."""

    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    labels: str = ""
    annotations: str = ""

    @classmethod
    def read(cls, source: SourceField) -> "Selector":
        """The selector at a `target`."""
        patterns = {key: source.text(key) for key in ("group", "version", "kind", "name", "namespace")}
        return cls(**patterns, labels=source.text("labelSelector"), annotations=source.text("annotationSelector"))

    def selects(self, draft: ObjectDraft) -> bool:
        """Whether it matches an object, by its first or its present name. Raises Unclear."""
        # Called for every object and patch: unset parts cost nothing.
        first, now = draft.original, draft.identity
        return (
            (not self.kind or matches(self.kind, now.kind))
            and (not self.name or matches(self.name, first.name) or (now is not first and matches(self.name, now.name)))
            and (not self.group or matches(self.group, now.group))
            and (not self.version or matches(self.version, now.version))
            and (not self.namespace or any(matches(self.namespace, each.effective.namespace) for each in (first, now)))
            and (not self.labels or match_labels(self.labels, _labels_of(draft, "labels")))
            and (not self.annotations or match_labels(self.annotations, _labels_of(draft, "annotations")))
        )


def _labels_of(draft: ObjectDraft, name: str) -> Mapping[str, str]:
    found = draft.value_at("metadata", name)
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def match_labels(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector such as `app=x,tier in (a, b),!old`. Raises Unclear when it is invalid."""
    position = 0
    while position < len(selector):
        if term := _SET_TERM.match(selector, position):
            key, operator, listed = term.groups()
            is_listed = key in labels and labels[key] in {each.strip() for each in listed.split(",")}
            fits = is_listed is (operator == "in")
        elif term := _EQUALITY_TERM.match(selector, position):
            key, operator, value = term.groups()
            fits = (labels.get(key) == value) is (operator != "!=")
        elif term := _EXISTS_TERM.match(selector, position):
            negation, key = term.groups()
            fits = (key in labels) is not bool(negation)
        if term is None or (fits and term.end() < len(selector) and selector[term.end()] != ","):
            raise Unclear(f"the selector {quote(selector)} cannot be read")
        if not fits:
            return False
        position = term.end() + 1
    return True


COMPONENT: Final = "Component"
_KINDS: Final = ("Kustomization", COMPONENT)
_FIELDS: Final = frozenset(
    {"apiVersion", "kind", "metadata", "resources", "bases", "components", "namespace", "namePrefix", "nameSuffix"}
    | {"commonLabels", "labels", "commonAnnotations", "images", "replicas", "patches", "patchesStrategicMerge"}
    | {"patchesJson6902", "configMapGenerator", "secretGenerator", "generatorOptions", "generators", "transformers"}
    | {"validators", "replacements", "configurations", "openapi", "vars", "crds", "helmCharts", "helmGlobals"}
    | {"helmChartInflationGenerator", "inventory", "buildMetadata", "sortOptions"}
)
_HEAD: Final = frozenset({"apiVersion", "kind", "metadata"})
_GROUP: Final = "kustomize.config.k8s.io"
# Fields that change all objects of a kustomization in an unknown way.
_OPAQUE: Final = {"transformers": "a transformer plugin changes objects in a way that is not followed"}
_GENERATORS: Final = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}
# Fields that generate objects of unknown names.
_HIDDEN: Final = {
    "generators": "the objects of a generator plugin are not read",
    **dict.fromkeys(
        ("helmCharts", "helmChartInflationGenerator"), "the objects of a chart are not read: no chart is rendered"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRule:
    """Labels to set, and how far they reach."""

    labels: Mapping[str, SourceField]
    in_selectors: bool = False
    in_templates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRule:
    """An entry of `replicas`: every workload that is or was called `name`."""

    name: str
    count: SourceField

    @property
    def number(self) -> int:
        """The count; zero if it is missing, as in Kustomize."""
        value = self.count.value
        return int(value) if isinstance(value, int | str) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRule:
    """An entry of `images`."""

    name: str
    new_name: str
    new_tag: str
    digest: str
    source: SourceField


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRule:
    """One patch: its text (`inline`) or its file, and its target.

    With `target` it changes all objects that the selector matches, else the one that a strategic merge patch names.
    """

    source: SourceField
    directory: str
    inline: SourceField | None = None
    path: str = ""
    target: Selector | None = None
    keeps_name: bool = True
    keeps_kind: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kustomization:
    """The rules of one kustomization; `source` is its document's root, its paths are relative to `directory`.

    `implied` are the paths, from the repository's root, of a directory without a kustomization. `generators` are
    entries with the kind that they generate, `schema` defines how patches merge lists.
    """

    source: SourceField
    directory: str
    is_component: bool = False
    resources: tuple[SourceField, ...] = ()
    implied: tuple[str, ...] = ()
    components: tuple[SourceField, ...] = ()
    configurations: tuple[SourceField, ...] = ()
    replacements: tuple[SourceField, ...] = ()
    namespace: SourceField | None = None
    name_prefix: str = ""
    name_suffix: str = ""
    labels: tuple[LabelRule, ...] = ()
    annotations: Mapping[str, SourceField] | None = None
    images: tuple[ImageRule, ...] = ()
    replicas: tuple[ReplicaRule, ...] = ()
    strategic_patches: tuple[PatchRule, ...] = ()
    patches: tuple[PatchRule, ...] = ()
    json_patches: tuple[PatchRule, ...] = ()
    generators: tuple[tuple[str, SourceField], ...] = ()
    variables: tuple[str, ...] = ()
    schema: SourceField | None = None
    opaque: tuple[tuple[SourceField, str], ...] = ()
    hidden: tuple[tuple[SourceField, str], ...] = ()


def read_kustomization(repository: ManifestRepository, directory: str) -> Kustomization:
    """The kustomization of a directory; InputError where Kustomize would fail to read it."""
    found = repository.kustomizations_in(directory)
    if len(found) != 1:
        message = "expected a kustomization.yaml" if not found else f"expected one kustomization, got {len(found)}"
        raise InputError(directory or ".", 0, "", message)
    documents = [document for document in repository.read(found[0]) if document.value is not None]
    if len(documents) != 1:
        raise InputError(found[0], 0, "", f"expected one document, got {len(documents)}")
    return read_document(documents[0])


def read_document(document: Document) -> Kustomization:
    """The rules in one document."""
    source = SourceField(document, (), OriginKind.PLAIN)
    unknown = next((key for key in source.mapping() if key not in _FIELDS), None)
    if unknown is not None:
        raise source.below(unknown).error(f"unknown field {quote(unknown)}: Kustomize refuses to build it")
    if not set(source.mapping()) - _HEAD:
        raise source.error("it is empty: Kustomize refuses to build it")
    kind = source.text("kind") or "Kustomization"
    group, _ = split_version(source.text("apiVersion") or f"{_GROUP}/v1beta1")
    if kind not in _KINDS or group != _GROUP:
        raise source.below("kind").error(f"expected a Kustomization of {_GROUP}, got {quote(f'{kind} of {group}')}")
    is_component = kind == COMPONENT
    directory = directory_of(document.path)
    sourced = source.of_kind(OriginKind.COMPONENT if is_component else OriginKind.PATCH)
    return Kustomization(
        source=sourced,
        directory=directory,
        is_component=is_component,
        resources=(*_entries(sourced, "resources"), *_entries(sourced, "bases")),
        components=tuple(_entries(sourced, "components")),
        configurations=tuple(_entries(sourced, "configurations")),
        replacements=tuple(sourced.items("replacements")),
        namespace=sourced.get("namespace"),
        name_prefix=sourced.text("namePrefix"),
        name_suffix=sourced.text("nameSuffix"),
        labels=tuple(_read_labels(sourced)),
        annotations=sourced.leaves("commonAnnotations"),
        images=tuple(_read_images(sourced)),
        replicas=tuple(read_replicas(sourced, OriginKind.COMPONENT if is_component else OriginKind.REPLICAS)),
        strategic_patches=tuple(_read_strategic(sourced, directory)),
        patches=tuple(read_patches(sourced, directory)),
        json_patches=tuple(_read_json(sourced, directory)),
        generators=tuple((kind, entry) for key, kind in _GENERATORS.items() for entry in sourced.items(key)),
        variables=tuple(each.text("name") for each in sourced.items("vars")),
        schema=sourced.get("openapi"),
        opaque=tuple(_named(sourced, _OPAQUE)),
        hidden=tuple(_named(sourced, _HIDDEN)),
    )


def _entries(source: SourceField, key: str) -> Iterator[SourceField]:
    for entry in source.items(key):
        entry.as_text()
        yield entry


def _read_labels(source: SourceField) -> Iterator[LabelRule]:
    for entry in source.items("labels"):
        yield LabelRule(
            labels=entry.leaves("pairs"),
            in_selectors=entry.flag("includeSelectors"),
            in_templates=entry.flag("includeTemplates"),
        )
    common = source.leaves("commonLabels")
    if common:
        yield LabelRule(labels=common, in_selectors=True)


def _read_images(source: SourceField) -> Iterator[ImageRule]:
    for entry in source.items("images"):
        member = entry.get("newTag")
        yield ImageRule(
            name=entry.text("name"),
            new_name=entry.text("newName"),
            new_tag="" if member is None else member.as_label(),
            digest=entry.text("digest"),
            source=entry,
        )


def read_replicas(source: SourceField, kind: OriginKind) -> Iterator[ReplicaRule]:
    """The entries of `replicas`."""
    for entry in source.items("replicas"):
        count = entry.below("count").of_kind(kind)
        value = count.value
        # Argo CD takes a number in quotes, Kustomize does not.
        is_quoted = kind is OriginKind.DEPLOYER and isinstance(value, str) and value.isascii() and value.isdigit()
        if value is not None and not is_quoted and (isinstance(value, bool) or not isinstance(value, int)):
            raise count.error(f"expected an integer, got {describe(value)}")
        yield ReplicaRule(name=entry.text("name"), count=count)


def _read_strategic(source: SourceField, directory: str) -> Iterator[PatchRule]:
    for entry in source.items("patchesStrategicMerge"):
        text = entry.as_text()
        if "\n" in text.strip() or ": " in text or text.lstrip().startswith("{"):
            yield PatchRule(source=entry, directory=directory, inline=entry)
        else:
            yield PatchRule(source=entry, directory=directory, path=text)


def read_patches(source: SourceField, directory: str) -> Iterator[PatchRule]:
    """The entries of `patches`."""
    for entry in source.items("patches"):
        if not isinstance(entry.value, dict):
            raise entry.error(f"expected a mapping with a path or a patch, got {describe(entry.value)}")
        target, options = entry.get("target"), entry.get("options")
        yield PatchRule(
            source=entry,
            directory=directory,
            inline=entry.get("patch"),
            path=entry.text("path"),
            target=None if target is None else Selector.read(target),
            keeps_name=options is None or not options.flag("allowNameChange"),
            keeps_kind=options is None or not options.flag("allowKindChange"),
        )


def _read_json(source: SourceField, directory: str) -> Iterator[PatchRule]:
    for entry in source.items("patchesJson6902"):
        target, inline = entry.get("target"), entry.get("patch")
        if target is None:
            raise entry.error("expected a target")
        selector, path = Selector.read(target), entry.text("path")
        yield PatchRule(source=entry, directory=directory, inline=inline, path=path, target=selector)


def _named(source: SourceField, words: Mapping[str, str]) -> Iterator[tuple[SourceField, str]]:
    for key, reason in words.items():
        member = source.get(key)
        if member is not None and member.value not in ([], {}):
            yield member, reason
