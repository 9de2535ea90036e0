"""What another commit changes of objects as built and of the releases of charts, and where.

What a chart makes of its values is not known here: it is in another repository, or needs Helm.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Final

from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.records import dataclass, replace
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, text_at, value_at
from reconciler.manifests.wording import Field, name_field
from reconciler.placement.fleet import Fleet, source_as_built
from reconciler.placement.helm import Release, layers_of, makes, releases_in, split_setting
from reconciler.placement.kustomize_build import CHART_GENERATORS, values_files
from reconciler.placement.objects import SourceField
from reconciler.placement.repository import CHART_NAME, directory_of, is_kustomization, join, resolve

_CHART: Final = ("spec", "chart", "spec")
_FLUX_VERSIONS: Final = ("tag", "semver", "digest")
CHART, VERSION = "chart", "chart version"
_SELECTING: Final = ("selector", "matchLabels", "matchExpressions")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedValue:
    """A value of a release, or the name or version of its chart (`field` is empty then), that another commit changes.

    `targets` are the scale targets that the release makes; None stands for a value that is not set. `variable` is the
    `name` next to a `value`, as in a list of environment variables; else empty.
    """

    release: str
    namespace: str
    targets: tuple[ResourceKey, ...]
    name: str
    field: Field
    before: Value
    after: Value
    place: Place
    variable: str = ""

    @property
    def selects(self) -> bool:
        """Whether it says which pods are selected."""
        return any(str(part) in _SELECTING for part in self.field)


def changed_place(before: Fleet, after: Fleet, key: ResourceKey) -> Place | None:
    """Where an object gets the first field that is another one than before; None where nothing of its spec is."""
    old, new = before.find(key), after.find(key)
    if old is None or new is None:
        return None
    fields = _changed(value_at(old.fields, ("spec",)), value_at(new.fields, ("spec",)), ("spec",))
    return next((new.place_of(each) for each in fields if each[1:] != ("replicas",)), None)


def changed_values(
    before: Fleet, after: Fleet, cluster: str, targets: Collection[ResourceKey]
) -> Iterator[ChangedValue]:
    """What becomes of the releases of a cluster that both commits declare; those that cannot be read are left out."""
    known = {_identity(release): release for release in releases_in(before, cluster)}
    for release in releases_in(after, cluster):
        old = known.get(_identity(release))
        if old is None:
            continue
        try:
            found = list(_differences(_Said.of(before, old), _Said.of(after, release)))
        except InputError:
            continue
        made = tuple(sorted(key for key in targets if makes(release, key)))
        for name, field, was, now, place, variable in found:
            yield ChangedValue(
                release=str(release),
                namespace=release.namespace,
                targets=made,
                name=name,
                field=field,
                before=was,
                after=now,
                place=place,
                variable=variable,
            )


def changed_charts(before: Fleet, after: Fleet, cluster: str) -> Iterator[ChangedValue]:
    """What becomes of the charts that kustomizations of a cluster render: nothing here knows what they make."""
    paths = {path for fleet in (before, after) for path in fleet.clusters[cluster].paths if is_kustomization(path)}
    for path in sorted(paths):
        old, new = (_generated(fleet, path) for fleet in (before, after))
        nothing = _Generated(said=_Said(chart={}, values={}, place_of=partial(_anywhere_in, path)))
        for name, nth in dict.fromkeys((*old, *new)):
            was, now = old.get((name, nth), nothing), new.get((name, nth), nothing)
            for each, field, one, other, place, variable in _differences(was.said, now.said):
                yield ChangedValue(
                    release=f"chart {name} of {path}" if not nth else f"chart {name} ({nth + 1}) of {path}",
                    namespace=now.namespace or was.namespace,
                    targets=(),
                    name=each,
                    field=field,
                    before=one,
                    after=other,
                    place=place,
                    variable=variable,
                )


def _anywhere_in(path: str, _field: Field) -> Place:
    return Place(path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generated:
    """A chart that a kustomization renders."""

    said: "_Said"
    namespace: str = ""


def _generated(fleet: Fleet, path: str) -> dict[tuple[str, int], _Generated]:
    """The charts that a kustomization renders, by name and, where several have one name, their order."""
    found: dict[tuple[str, int], _Generated] = {}
    try:
        for document in fleet.repository.read(path) if fleet.repository.has_file(path) else ():
            source = SourceField(document)
            for key, (chart, version) in CHART_GENERATORS.items():
                for entry in source.items(key):
                    name = entry.text("releaseName") or entry.text(chart)
                    nth = sum(known == name for known, _ in found)
                    found[name, nth] = _Generated(
                        said=_said_by(fleet, path, entry, chart, version),
                        namespace=entry.text("namespace") or source.text("namespace"),
                    )
    except InputError:
        return {}
    return found


def _said_by(fleet: Fleet, path: str, entry: SourceField, chart: str, version: str) -> "_Said":
    inline, mode = entry.below("valuesInline").value or {}, entry.text("valuesMerge")
    files = [_values_in(fleet, path, name) or {} for name in values_files(entry.value)]
    more = sum(isinstance(each.value, str) for each in entry.items("additionalValuesFiles"))
    values: Value = {}
    for each in files[: len(files) - more]:
        values = _merged(values, each)
    if inline and mode == "replace":
        values = inline
    else:
        values = _merged(inline, values) if mode == "merge" else _merged(values, inline)
    for each in files[len(files) - more :]:  # Helm gets these after the file that Kustomize makes of the others
        values = _merged(values, each)
    told = ((CHART, chart), (VERSION, version), ("repository of the chart", "repo"))
    said = {name: (text, entry.below(key).place) for name, key in told if (text := entry.text(key))}

    def place_of(field: Field) -> Place:
        inline = entry.below("valuesInline", *field)
        return inline.place if inline.exists else entry.place

    return _Said(chart=said, values=values, place_of=place_of)


def _values_in(fleet: Fleet, path: str, name: str) -> Value:
    found = resolve(directory_of(path), name)
    try:
        documents = fleet.repository.read(found) if found and fleet.repository.has_file(found) else ()
    except InputError:
        return {}
    return documents[0].value if documents else {}


def _identity(release: Release) -> tuple[ResourceKey, Field]:
    return release.built.key, release.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """All that a release says: its chart, and its values as they are merged."""

    chart: Mapping[str, tuple[str, Place]]
    values: Value
    place_of: Callable[[Field], Place]

    @classmethod
    def of(cls, fleet: Fleet, release: Release) -> "_Said":
        layers = [each for each in layers_of(fleet, release, ()) if isinstance(each, SourceField)]
        parameters = {} if release.is_flux else dict(_parameters(release))
        values: Value = {}
        for layer in reversed(layers):
            values = _merged(values, layer.value)
        for path, source in parameters.items():
            values = _merged(values, _nested(path, source.value))

        def place_of(path: Field) -> Place:
            if path in parameters:
                return parameters[path].place
            inline = (*release.values_prefix, *path)
            if release.built.value_at(*inline) is not None:
                return release.built.place_of(inline)
            found = next((each.below(*path) for each in layers if each.below(*path).exists), None)
            return release.built.place if found is None else found.place

        return cls(chart=dict(_chart_of(fleet, release)), values=values, place_of=place_of)


def _parameters(release: Release) -> Iterator[tuple[Field, SourceField]]:
    helm = source_as_built(release.built).below(*release.prefix).get("helm")
    for entry in helm.items("parameters") if helm is not None else ():
        yield split_setting(entry.text("name")), entry.below("value")


def _chart_of(fleet: Fleet, release: Release) -> Iterator[tuple[str, tuple[str, Place]]]:
    """Its name and version, as far as Git says them."""
    built = release.built

    def said(*path: str | int) -> tuple[str, Place]:
        return text_at(built.fields, *path), built.place_of(path)

    if not release.is_flux:
        yield CHART, said(*release.prefix, "chart")
        yield VERSION, said(*release.prefix, "targetRevision")
        directory = resolve("", text_at(built.fields, *release.prefix, "path") or ".")
    elif text_at(built.fields, "spec", "chartRef", "name"):
        reference = {key: text_at(built.fields, "spec", "chartRef", key) for key in ("kind", "namespace", "name")}
        yield CHART, said("spec", "chartRef", "name")
        key = replace(built.key, **{**reference, "namespace": reference["namespace"] or built.key.namespace})
        source = fleet.find(key)
        for field in _FLUX_VERSIONS if source is not None else ():
            if source is not None and (version := text_at(source.fields, "spec", "ref", field)):
                yield VERSION, (version, source.place_of(("spec", "ref", field)))
                return
        return
    else:
        yield CHART, said(*_CHART, "chart")
        yield VERSION, said(*_CHART, "version")
        directory = resolve("", text_at(built.fields, *_CHART, "chart"))
    path = None if directory is None else join(directory, CHART_NAME)
    if path is not None and fleet.repository.has_file(path):
        for document in fleet.repository.read(path)[:1]:
            source_file = SourceField(document)
            if version := text_at(document.value, "version"):
                yield "version of the chart in this repository", (version, source_file.below("version").place)


def _merged(value: Value, over: Value) -> Value:
    """As Helm merges values: mappings by key, anything else is replaced."""
    if isinstance(value, dict) and isinstance(over, dict):
        return {**value, **{key: _merged(value.get(key), each) for key, each in over.items()}}
    return over


def _nested(path: Field, value: Value) -> Value:
    for part in reversed(path):
        value = {str(part): value}
    return value


Difference = tuple[str, Field, Value, Value, Place, str]


def _differences(old: _Said, new: _Said) -> Iterator[Difference]:
    for name in dict.fromkeys((*old.chart, *new.chart)):
        was, now = old.chart.get(name), new.chart.get(name)
        if (was and was[0]) != (now and now[0]):
            place = (now or was or ("", Place(path="")))[1]
            yield name, (), was[0] if was else None, now[0] if now else None, place, ""
    if old.values != new.values:
        for path in _changed(old.values, new.values, ()):
            was_said, said = value_at(old.values, path), value_at(new.values, path)
            variable = text_at(new.values, *path[:-1], "name") if path[-1:] == ("value",) else ""
            yield name_field(path), path, was_said, said, new.place_of(path), variable


def _changed(was: Value, now: Value, path: Field) -> Iterator[Field]:
    """The deepest fields that differ; lists of another length as a whole."""
    if was == now:
        return
    if isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*was, *now)):
            yield from _changed(was.get(key), now.get(key), (*path, key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _changed(one, other, (*path, index))
    else:
        yield path
