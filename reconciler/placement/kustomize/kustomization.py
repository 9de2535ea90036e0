"""One kustomization file as rules: what it gathers, in which order it changes it, and what in it is not followed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.documents import Document
from reconciler.manifests.wording import describe, quote
from reconciler.placement.kustomize.selectors import Selector
from reconciler.placement.objects import split_version
from reconciler.placement.origins import OriginKind, SourceField
from reconciler.placement.paths import directory_of
from reconciler.placement.repository import ManifestRepository

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
# What touches every object that a kustomization gathers, in a way that only the tool itself knows.
_OPAQUE: Final[Mapping[str, str]] = {
    "transformers": "a transformer plugin changes objects in a way that is not followed",
}
_GENERATORS: Final = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}
# What makes objects that nobody can name without running it.
_HIDDEN: Final[Mapping[str, str]] = {
    "generators": "what a generator plugin makes is not read",
    "helmCharts": "what a chart makes is not read: no chart is rendered",
    "helmChartInflationGenerator": "what a chart makes is not read: no chart is rendered",
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
        """The count that is set: none written is zero, as in Kustomize."""
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
    """One patch: its text (`inline`) or its file, and what it is for.

    With `target` it changes all that the selector fits, else the object that a strategic merge patch itself names.
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
    """The rules of one kustomization; `source` is its document's root, `directory` what its paths start from.

    `implied` are paths from the repository's root that nobody listed: those of a directory without a kustomization.
    `generators` are entries with the kind that they make, `schema` is what decides how its patches merge lists.
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
    sourced = _sourced(source, is_component=is_component)
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
        annotations=_leaves(sourced, "commonAnnotations"),
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


def _sourced(source: SourceField, *, is_component: bool) -> SourceField:
    """The place as an origin: of a component, or else of a patch."""
    return source.of_kind(OriginKind.COMPONENT if is_component else OriginKind.PATCH)


def _entries(source: SourceField, key: str) -> Iterator[SourceField]:
    for entry in source.items(key):
        entry.as_text()
        yield entry


def _leaves(source: SourceField, key: str) -> Mapping[str, SourceField]:
    member = source.get(key)
    return {} if member is None else {name: member.below(name) for name in source.texts(key)}


def _read_labels(source: SourceField) -> Iterator[LabelRule]:
    for entry in source.items("labels"):
        yield LabelRule(
            labels=_leaves(entry, "pairs"),
            in_selectors=entry.flag("includeSelectors"),
            in_templates=entry.flag("includeTemplates"),
        )
    common = _leaves(source, "commonLabels")
    if common:
        yield LabelRule(labels=common, in_selectors=True)


def _read_images(source: SourceField) -> Iterator[ImageRule]:
    for entry in source.items("images"):
        yield ImageRule(
            name=entry.text("name"),
            new_name=entry.text("newName"),
            new_tag=_loose_text(entry, "newTag"),
            digest=entry.text("digest"),
            source=entry,
        )


def _loose_text(entry: SourceField, key: str) -> str:
    member = entry.get(key)
    return "" if member is None else member.as_label()


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
        target = entry.get("target")
        if target is None:
            raise entry.error("expected a target")
        yield PatchRule(
            source=entry,
            directory=directory,
            inline=entry.get("patch"),
            path=entry.text("path"),
            target=Selector.read(target),
        )


def _named(source: SourceField, words: Mapping[str, str]) -> Iterator[tuple[SourceField, str]]:
    for key, reason in words.items():
        member = source.get(key)
        if member is not None and member.value not in ([], {}):
            yield member, reason


def with_rules(
    kustomization: Kustomization,
    *,
    namespace: SourceField | None = None,
    name_prefix: str = "",
    name_suffix: str = "",
    labels: tuple[LabelRule, ...] = (),
    annotations: Mapping[str, SourceField] | None = None,
    replicas: tuple[ReplicaRule, ...] = (),
    patches: tuple[PatchRule, ...] = (),
    components: tuple[SourceField, ...] = (),
) -> Kustomization:
    """A kustomization into which a deployer wrote rules of its own, as `kustomize edit set` does."""
    renamed = {rule.name for rule in replicas}
    return replace(
        kustomization,
        namespace=namespace or kustomization.namespace,
        name_prefix=name_prefix or kustomization.name_prefix,
        name_suffix=name_suffix or kustomization.name_suffix,
        labels=(*kustomization.labels, *labels),
        annotations={**(kustomization.annotations or {}), **(annotations or {})},
        replicas=(*(rule for rule in kustomization.replicas if rule.name not in renamed), *replicas),
        patches=(*kustomization.patches, *patches),
        components=(*kustomization.components, *components),
    )
