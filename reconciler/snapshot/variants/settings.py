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
    settings = VariantSettings(
        values={each.name: _resolve(each, layers, own, defaults) for each in SETTING_DEFINITIONS}
    )
    found = _of_budgets(layers.workload, settings[MIN_REPLICAS].value, settings[MAX_REPLICAS].value)
    if found is None:
        return settings
    kept, source = found
    least = settings.values[MIN_REPLICAS.name]
    displaced = (
        Displaced(value=least.value, source=least.source),
        *(each for each in least.displaced if each.value != kept),
    )
    return VariantSettings(
        values={**settings.values, MIN_REPLICAS.name: Sourced(value=kept, source=source, displaced=displaced)}
    )


def _resolve(
    setting: SettingDefinition[Any], layers: Layers, own: Mapping[str, Hit], defaults: Mapping[str, Hit]
) -> Sourced[SettingScalar | None]:
    ranked: list[tuple[SettingScalar | None, Source]] = [*([own[setting.name]] if setting.name in own else ())]
    ranked += layers.hits(setting)
    ranked.append(defaults.get(setting.name, (setting.default, Source(kind=SourceKind.BUILT_IN))))
    (value, source), *rest = ranked
    displaced = tuple(Displaced(value=lower, source=origin) for lower, origin in rest if lower != value)
    return Sourced(value=value, source=source, displaced=displaced)


def _of_budgets(workload: Workload | None, least: int, most: int | None) -> tuple[int, Source] | None:
    """What PodDisruptionBudgets want available of what runs, where that is more: one change takes no more away.

    Of pods that several select Kubernetes evicts none, so none is taken away here. A largest number that somebody wrote
    goes before all but a count of pods that must be available.
    """
    if workload is None or not workload.budgets:
        return None
    budgets, replicas = workload.budgets, workload.replicas or 0
    strictest = max(budgets, key=lambda each: (each.keeps(replicas), each.name))
    kept, detail = strictest.keeps(replicas), f"PodDisruptionBudget {strictest.name}"
    if len(budgets) > 1:
        names = ", ".join(each.name for each in budgets)
        kept = max(kept, replicas)
        detail = f"{len(budgets)} PodDisruptionBudgets over the same pods ({names}), of which Kubernetes evicts none"
    if most is not None and not (strictest.is_count and kept == strictest.amount):
        kept = min(kept, most)
    source = Source(kind=SourceKind.RESOURCE, place=strictest.place, detail=detail)
    return (kept, source) if kept > least else None


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
