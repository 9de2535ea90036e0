"""Effective variant settings: the first layer that says something wins, and what it displaced is kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from reconciler.domain.declared.declarations import Form, VariantResource
from reconciler.domain.declared.places import Annotation
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.globs import path_matches
from reconciler.domain.provenance import Displaced, Source, Sourced, SourceKind
from reconciler.domain.settings import ModelSettings, Override, Setting, Settings, SettingScalar
from reconciler.domain.variant_settings import (
    ACCELERATOR,
    BOUNDS,
    GROUP,
    IN_ORDER,
    MAX_REPLICAS,
    MIN_REPLICAS,
    SETTING_DEFINITIONS,
    WHEN_AUTOSCALED,
    SettingDefinition,
    VariantSettings,
)

Value = TypeVar("Value", bound=SettingScalar | None)

Hit = tuple[SettingScalar, Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Where the settings of one variant are looked up, highest precedence first."""

    resource: VariantResource
    workload: Workload | None
    settings: Settings
    model: ModelSettings | None

    def hits(self, setting: SettingDefinition[Value]) -> Iterator[tuple[Value, Source]]:
        """Every layer's value of a setting below the resource's own fields: annotations, overrides, model, defaults."""
        for kind, stated in self._stated(setting.name):
            yield setting.convert(stated.value), Source(kind=kind, place=stated.place)

    def _stated(self, name: str) -> Iterator[tuple[SourceKind, Annotation | Setting]]:
        if name in self.resource.settings:
            yield SourceKind.ANNOTATION, self.resource.settings[name]
        if self.workload is not None and name in self.workload.settings:
            yield SourceKind.ANNOTATION, self.workload.settings[name]
        for override in reversed(self.settings.overrides):
            if name in override.settings and override_fits(override, self.resource):
                yield SourceKind.OVERRIDE, override.settings[name]
        if self.model is not None and name in self.model.settings:
            yield SourceKind.MODEL, self.model.settings[name]
        if name in self.settings.defaults:
            yield SourceKind.DEFAULT, self.settings.defaults[name]


def override_fits(override: Override, resource: VariantResource) -> bool:
    """Whether all keys of an override's match fit; `path` is a path glob, the others match as a whole."""
    subject = {
        "cluster": resource.key.cluster,
        "namespace": resource.key.namespace,
        "name": resource.key.name,
        "model": resource.model_id,
    }
    patterns = dict(override.match)
    path = patterns.pop("path", "**")
    return (
        path_matches(path, resource.document.path)
        and all(fnmatchcase(subject[key], pattern) for key, pattern in patterns.items())
        and all(fnmatchcase(resource.labels.get(key, ""), pattern) for key, pattern in override.labels.items())
    )


def resolve_settings(layers: Layers) -> VariantSettings:
    """All variant settings of one variant, each with its source and what it displaced."""
    own, defaults = dict(_own_values(layers.resource)), dict(_defaults_of(layers))
    return VariantSettings(values={each.name: _resolve(each, layers, own, defaults) for each in SETTING_DEFINITIONS})


def _resolve(
    setting: SettingDefinition[Any], layers: Layers, own: Mapping[str, Hit], defaults: Mapping[str, Hit]
) -> Sourced[SettingScalar | None]:
    ranked: list[tuple[SettingScalar | None, Source]] = [*([own[setting.name]] if setting.name in own else ())]
    ranked += layers.hits(setting)
    ranked.append(defaults.get(setting.name, (setting.default, Source(kind=SourceKind.BUILT_IN))))
    if setting.name == MIN_REPLICAS.name:
        ranked = [*_of_budget(layers, ranked[0][0]), *ranked]
    (value, source), *rest = ranked
    displaced = tuple(Displaced(value=lower, source=origin) for lower, origin in rest if lower != value)
    return Sourced(value=value, source=source, displaced=displaced)


def _of_budget(layers: Layers, least: SettingScalar | None) -> Iterator[Hit]:
    """What a PodDisruptionBudget wants available, where that is more: fewer could never leave their nodes."""
    budget = None if layers.workload is None else layers.workload.budget
    if budget is not None and isinstance(least, int) and budget[0] > least:
        yield budget[0], Source(kind=SourceKind.RESOURCE, place=budget[1])


def _own_values(resource: VariantResource) -> Iterator[tuple[str, Hit]]:
    """What the resource itself says by other means than annotations; a default of its CRD is not what it says."""
    for setting, value in ((MIN_REPLICAS.name, resource.min_replicas), (MAX_REPLICAS.name, resource.max_replicas)):
        if value is not None:
            yield setting, (value, Source(kind=SourceKind.RESOURCE, place=resource.places.get(f"spec.{setting}")))
    # An annotated autoscaler asks for its bounds to be moved: they are all that it has.
    if resource.form is Form.ANNOTATED:
        yield WHEN_AUTOSCALED.name, (BOUNDS, Source(kind=SourceKind.RESOURCE, place=resource.place))


def _defaults_of(layers: Layers) -> Iterator[tuple[str, Hit]]:
    """Defaults that depend on the variant."""
    yield GROUP.name, (_group_name(layers), Source(kind=SourceKind.BUILT_IN, detail="pullRequests.groupBy"))
    if layers.resource.flavors:
        yield ACCELERATOR.name, (IN_ORDER, Source(kind=SourceKind.BUILT_IN))


def _group_name(layers: Layers) -> str:
    """`groupBy` values joined by `/`; `all` when there are none."""
    resource = layers.resource
    subject = {
        "cluster": resource.key.cluster,
        "namespace": resource.key.namespace,
        "model": resource.model_id,
        "path": resource.document.path.rpartition("/")[0] or ".",
    }
    values = [
        resource.labels.get(key.removeprefix("label:"), "none") if key.startswith("label:") else subject[key]
        for key in layers.settings.pull_requests.group_by
    ]
    return "/".join(values) or "all"
