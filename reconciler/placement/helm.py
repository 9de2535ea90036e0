"""Numbers that a chart makes into replicas: the values of HelmReleases and of Argo CD Applications."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.domain.identity import Place, ResourceKey
from reconciler.errors import InputError
from reconciler.manifests.documents import text_at
from reconciler.manifests.wording import Field, join_words, quote
from reconciler.placement.deployers import APPLICATION_SET, ARGO_GROUP, DEPLOYER_KINDS, override_sections
from reconciler.placement.fleet import Fleet, source_as_built
from reconciler.placement.kustomize_patches import parse_inline
from reconciler.placement.objects import (
    BuiltObject,
    Embedding,
    Obstacle,
    OriginKind,
    SourceField,
    origin_of_source,
    split_version,
)
from reconciler.placement.places import EffectivePlace, NoPlace, judge, marked_place
from reconciler.placement.repository import (
    CHART_NAME,
    GIT,
    ManifestRepository,
    SourceName,
    directory_of,
    join,
    name_of,
    resolve,
)

HELM_RELEASE: Final = "HelmRelease"
DEPLOYING_KINDS: Final = DEPLOYER_KINDS | {APPLICATION_SET, HELM_RELEASE}
"""Kinds that deploy objects, with numbers in fields of any name or inside texts."""
APPLICATION: Final = "Application"
_FLUX_HELM: Final = "helm.toolkit.fluxcd.io"
_DEFAULT_KEY: Final = "values.yaml"
_SWITCH: Final = "enabled"
_SETTING: Final = re.compile(r"((?:\\.|[^.\[\]\\])+)|\[([0-9]{1,6})\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of a chart: its name and namespace, and the object in Git that declares it.

    `prefix` is the field of its source in an Application; empty for a HelmRelease.
    """

    name: str
    namespace: str
    built: BuiltObject
    prefix: Field = ()

    @property
    def is_flux(self) -> bool:
        """Whether it is a HelmRelease."""
        return self.built.key.kind == HELM_RELEASE

    @property
    def values_prefix(self) -> Field:
        """The field of its inline values."""
        return ("spec", "values") if self.is_flux else (*self.prefix, "helm", "valuesObject")

    def __str__(self) -> str:
        return f"{self.built.key.kind} {self.built.key.label}"


def helm_place(fleet: Fleet, key: ResourceKey, setting: str, *, word: str = "replicas") -> EffectivePlace | NoPlace:
    """Where the values of the one release that makes a scale target hold its number.

    `setting` is the path in the values, as `helmValues` gives it: `decode.replicas`. A marker comment wins over it.
    """
    marked = marked_place(fleet, key, word)
    if marked is not None:
        return marked
    found = [release for release in releases_in(fleet, key.cluster) if _makes(release, key)]
    if len(found) != 1:
        hint = f"mark the number with `# reconciler.io/{word}: {key.kind}/{key.name}`"
        if not found:
            hidden = fleet.hidden_from(key, key)
            reason = f"no release in {key.namespace} is called {key.name} or as it begins"
            reason += "" if hidden is None else f", and {hidden.place} may make it ({hidden.message})"
            return NoPlace(obstacle=Obstacle(reason=f"{reason}: {hint}"))
        names = join_words([f"{release} ({release.built.place})" for release in found], "and")
        return NoPlace(obstacle=Obstacle(reason=f"{key.kind} {key.label} may be made by {names}: {hint}"))
    return _place_in_release(fleet, key, found[0], setting, word)


def is_switched_off(fleet: Fleet, key: ResourceKey, setting: str) -> bool:
    """Whether the values of the release that makes a target have `enabled: false` next to a setting.

    Charts have values for the bounds of an autoscaler even where they make none.
    """
    found = [release for release in releases_in(fleet, key.cluster) if _makes(release, key)]
    if len(found) != 1:
        return False
    try:
        first = next(layers_of(fleet, found[0], (*split_setting(setting)[:-1], _SWITCH)), None)
    except InputError:
        return False
    return isinstance(first, SourceField) and (first.value is False or first.value == "false")


def releases_in(fleet: Fleet, cluster: str) -> Iterator[Release]:
    """Every release that Git declares for a cluster."""
    for built in fleet.of_kinds(cluster, (HELM_RELEASE, APPLICATION)):
        yield from _releases_of(fleet.repository, built)


def _releases_of(repository: ManifestRepository, built: BuiltObject) -> Iterator[Release]:
    group, _ = split_version(built.api_version)
    if built.key.kind == HELM_RELEASE and group == _FLUX_HELM:
        namespace = text_at(built.fields, "spec", "targetNamespace")
        default = f"{namespace}-{built.key.name}" if namespace else built.key.name
        name = text_at(built.fields, "spec", "releaseName") or default
        yield Release(name=name, namespace=namespace or built.key.namespace, built=built)
    elif built.key.kind == APPLICATION and group == ARGO_GROUP:
        namespace = text_at(built.fields, "spec", "destination", "namespace")
        for prefix in [*_members(built, ("spec", "sources"))] or [("spec", "source")]:
            is_chart = built.value_at(*prefix, "chart") is not None or built.value_at(*prefix, "helm") is not None
            if is_chart or _chart_directory(repository, built, prefix) is not None:
                name = text_at(built.fields, *prefix, "helm", "releaseName") or built.key.name
                yield Release(name=name, namespace=namespace, built=built, prefix=prefix)


def _members(built: BuiltObject, path: Field) -> list[Field]:
    """The items of a list, none where there is no list."""
    value = built.value_at(*path)
    return [(*path, index) for index in range(len(value) if isinstance(value, list) else 0)]


def _chart_directory(repository: ManifestRepository, built: BuiltObject, source: Field) -> str | None:
    """The directory of a source of an Application that is a chart of this repository."""
    path = text_at(built.fields, *source, "path")
    directory = resolve("", path) if path and repository.is_ours(text_at(built.fields, *source, "repoURL")) else None
    return directory if directory is not None and repository.has_file(join(directory, CHART_NAME)) else None


def _makes(release: Release, key: ResourceKey) -> bool:
    """A release makes the targets that are called like it, alone or before a dash."""
    if release.namespace != key.namespace:
        return False
    return key.name == release.name or key.name.startswith(f"{release.name}-")


def _place_in_release(
    fleet: Fleet, key: ResourceKey, release: Release, setting: str, word: str
) -> EffectivePlace | NoPlace:
    path = split_setting(setting)
    try:
        layers = list(layers_of(fleet, release, path))
    except InputError as error:
        place = Place(path=error.path, line=error.line, field=error.field)
        return NoPlace(
            obstacle=Obstacle(reason=f"the values of {release} cannot be read: {error.message}", place=place)
        )
    written = [each for each in layers if isinstance(each, SourceField)]
    considered = tuple(origin_of_source(source.of_kind(OriginKind.HELM)) for source in written)
    if not layers:
        missing = "live count" if word == "replicas" else "bound that counts now"
        reason = f"the values of {release} have no {quote(setting)}: write the {missing} there"
        return NoPlace(obstacle=Obstacle(reason=reason, place=release.built.place))
    if isinstance(layers[0], Obstacle):
        return NoPlace(obstacle=layers[0], considered=considered)
    obstacle = release.built.obstacle_at(("spec",))
    renderers = ("spec", "postRenderers")
    if obstacle is None and release.is_flux and "replica" in str(release.built.value_at(*renderers)).lower():
        words = f"a post-renderer of {release} sets replicas"
        obstacle = Obstacle(reason=words, place=release.built.place_of(renderers))
    if obstacle is not None:
        return NoPlace(obstacle=obstacle, considered=considered)
    return judge(fleet, key, considered, _other_readers(fleet, release, written[0], path))


def _other_readers(fleet: Fleet, release: Release, source: SourceField, path: Field) -> Iterator[str]:
    """Other releases that the same place would change."""
    own = release.built
    inline = (*release.values_prefix, *path)
    for built in fleet.readers_of(origin_of_source(source), inline):
        if built is not own:
            yield str(built.key)
    if own.address_of(inline) == source.address:
        return
    file, number = source.address[:2]
    for build in fleet.clusters.values():
        for built in build.objects:
            others = () if built is own else _releases_of(fleet.repository, built)
            named = (place for other in others for place in _named(fleet, other))
            if any(path == file and document in {None, number} for path, document in named):
                yield str(built.key)


def split_setting(setting: str) -> Field:
    """A path in values as a field: keys divided by dots, `\\.` for a dot inside of a key, `[0]` for items of lists."""
    parts: list[str | int] = []
    for key, index in _SETTING.findall(setting):
        parts.append(int(index) if index else key.replace("\\.", "."))
    return tuple(parts)


def layers_of(fleet: Fleet, release: Release, path: Field) -> Iterator[SourceField | Obstacle]:
    """Where the values of a release set a path, the winning place first; an obstacle hides all that follow."""
    built = release.built
    if not release.is_flux:
        yield from _argo_layers(fleet, release, path)
    else:
        if built.value_at(*release.values_prefix, *path) is not None:
            yield from built.trace.chain((*release.values_prefix, *path))
        for entry in reversed(_members(built, ("spec", "valuesFrom"))):
            yield from _values_from(fleet, release, entry, path)
    for file in _chart_files(fleet.repository, release):
        yield from _in_file(fleet.repository, file, path)


def _values_from(fleet: Fleet, release: Release, entry: Field, path: Field) -> Iterator[SourceField | Obstacle]:
    built = release.built
    kind, name = text_at(built.fields, *entry, "kind"), text_at(built.fields, *entry, "name")
    key = text_at(built.fields, *entry, "valuesKey") or _DEFAULT_KEY
    target = text_at(built.fields, *entry, "targetPath")
    if target and split_setting(target) != path:
        return
    found = fleet.find(replace(built.key, kind="ConfigMap", name=name)) if kind == "ConfigMap" else None
    if found is None:
        reason = f"values of {release} come from {kind} {name}, which cannot be read in Git"
        yield Obstacle(reason=reason, place=built.place_of(entry))
        return
    file = _generating_file(found, key)
    if file is not None and not target:
        yield from _in_file(fleet.repository, file, path)
        return
    obstacle = found.obstacle_at(("data", key))
    if obstacle is not None:
        yield obstacle
        return
    sources = found.trace.chain(("data", key))
    if sources and target:
        yield from sources
    elif sources:
        yield from _in_text(sources[0], path)


def _generating_file(built: BuiltObject, key: str) -> str | None:
    """The file that a `configMapGenerator` puts under a key."""
    if not built.source.field:
        return None
    for entry in built.source.items("files"):
        name, equals, file = entry.as_text().rpartition("=")
        if (name if equals else name_of(file)) == key:
            return resolve(directory_of(built.path), file)
    return None


def _in_text(source: SourceField, path: Field) -> Iterator[SourceField]:
    """A path in values that are written as a text."""
    embedding = Embedding(document=source.document, field=source.field)
    for document in parse_inline(source)[:1]:
        yield from _existing(SourceField(document, path, OriginKind.HELM, embedding))


def _in_file(repository: ManifestRepository, file: str, path: Field) -> Iterator[SourceField]:
    """A path in a file of values, if the file exists."""
    if repository.has_file(file):
        for document in repository.read(file)[:1]:
            yield from _existing(SourceField(document, path, OriginKind.HELM))


def _existing(source: SourceField) -> Iterator[SourceField]:
    if source.value is not None:
        yield source


def _argo_layers(fleet: Fleet, release: Release, path: Field) -> Iterator[SourceField | Obstacle]:
    sections = list(_sections(fleet.repository, release))
    parameters = _first(sections, "parameters")
    for entry in reversed([] if parameters is None else parameters.members()):
        # The last parameter of a name wins, as with `helm --set`.
        if split_setting(entry.text("name")) == path:
            yield from _existing(entry.below("value"))
    values_object = _first(sections, "valuesObject")
    yield from () if values_object is None else _existing(values_object.below(*path))
    text = _first(sections, "values")
    if text is not None and values_object is None:
        yield from _in_text(text, path)
    for file in _value_files(fleet.repository, release, sections):
        yield from [file] if isinstance(file, Obstacle) else _in_file(fleet.repository, file, path)


def _sections(repository: ManifestRepository, release: Release) -> Iterator[SourceField]:
    """The Helm sections of an Application's source: of the override files in its directory, then its own."""
    source = source_as_built(release.built).below(*release.prefix)
    directory = resolve("", source.text("path")) if source.text("path") else None
    if directory is not None:
        yield from override_sections(repository, release.built.key.name, directory, "helm")
    own = source.get("helm")
    if own is not None:
        yield own


def _first(sections: Sequence[SourceField], key: str) -> SourceField | None:
    return next((member for section in sections if (member := section.get(key)) is not None), None)


def _value_files(
    repository: ManifestRepository, release: Release, sections: Sequence[SourceField]
) -> Iterator[str | Obstacle]:
    """The files of `valueFiles`, the last one first, as it wins."""
    listed = _first(sections, "valueFiles")
    for entry in reversed([] if listed is None else listed.members()):
        file = _resolve_value_file(repository, release, entry.as_text())
        if file is not None and repository.has_file(file):
            yield file
        elif _first(sections, "ignoreMissingValueFiles") is None:
            reason = f"values of {release} come from {quote(entry.as_text())}, which is not in this repository"
            yield Obstacle(reason=reason, place=entry.place)


def _resolve_value_file(repository: ManifestRepository, release: Release, name: str) -> str | None:
    if name.startswith("$"):
        reference, _, rest = name[1:].partition("/")
        sources = release.built.value_at("spec", "sources")
        named = [each for each in sources if isinstance(each, dict)] if isinstance(sources, list) else []
        urls = [each.get("repoURL") for each in named if each.get("ref") == reference]
        is_ours = any(isinstance(url, str) and repository.is_ours(url) for url in urls)
        return resolve("", rest) if is_ours else None
    if name.startswith("/"):
        return resolve("", name.lstrip("/"))
    directory = text_at(release.built.fields, *release.prefix, "path")
    return resolve(directory, name) if directory else None


def _chart_files(repository: ManifestRepository, release: Release) -> Iterator[str]:
    """The values of a chart in this repository, the winning file first."""
    built = release.built
    if not release.is_flux:
        directory = _chart_directory(repository, built, release.prefix)
        if directory is not None:
            yield join(directory, _DEFAULT_KEY)
        return
    chart = ("spec", "chart", "spec")
    kind, namespace, name = (text_at(built.fields, *chart, "sourceRef", key) for key in ("kind", "namespace", "name"))
    source = SourceName(kind=kind, namespace=namespace or built.key.namespace, name=name)
    if kind != GIT or repository.flux_sources.is_ours(source) is False:
        return
    listed = built.value_at(*chart, "valuesFiles")
    files = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    for file in reversed(files or [join(text_at(built.fields, *chart, "chart"), _DEFAULT_KEY)]):
        found = resolve("", file)
        if found is not None and repository.has_file(found):
            yield found


def _named(fleet: Fleet, release: Release) -> Iterator[tuple[str, int | None]]:
    """Every other file with values of a release, with the document where they are in one."""
    try:
        if release.is_flux:
            for entry in _members(release.built, ("spec", "valuesFrom")):
                name = text_at(release.built.fields, *entry, "name")
                found = fleet.find(replace(release.built.key, kind="ConfigMap", name=name))
                if found is not None:
                    key = text_at(release.built.fields, *entry, "valuesKey") or _DEFAULT_KEY
                    file = _generating_file(found, key)
                    yield from found.documents if file is None else [(file, None)]
        else:
            sections = list(_sections(fleet.repository, release))
            files = _value_files(fleet.repository, release, sections)
            yield from ((file, None) for file in files if isinstance(file, str))
        yield from ((file, None) for file in _chart_files(fleet.repository, release))
    except InputError:
        return
