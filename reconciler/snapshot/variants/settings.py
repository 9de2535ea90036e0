"""Effective variant settings: the first layer that says something wins, and what it displaced is kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from reconciler.domain.declared.declarations import Form, VariantResource
from reconciler.domain.declared.objects import Annotation
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.globs import path_matches
from reconciler.domain.provenance import Displaced, Source, Sourced, SourceKind
from reconciler.domain.settings import ModelSettings, Override, Settings, SettingScalar
from reconciler.domain.variants import VariantSettings

BUILT_IN_HEADROOM = 0.2
BUILT_IN_SYNC_DELAY_S = 180.0
BUILT_IN_START_DELAY_S = 300.0
BUILT_IN_PAYBACK_S = 3600.0
HOLD, BOUNDS = "hold", "bounds"
KEEP, CHOOSE, IN_ORDER = "keep", "choose", "in-order"
Value = TypeVar("Value")

Hit = tuple[SettingScalar, Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Where the settings of one variant are looked up, highest precedence first."""

    resource: VariantResource
    workload: Workload | None
    settings: Settings
    model: ModelSettings | None

    def hits(self, name: str) -> Iterator[Hit]:
        """Every layer's value of a setting below the resource's own fields: annotations, overrides, model, defaults."""
        annotated: list[Mapping[str, Annotation]] = [self.resource.settings]
        if self.workload is not None:
            annotated.append(self.workload.settings)
        for annotations in annotated:
            if name in annotations:
                note = annotations[name]
                yield note.value, Source(kind=SourceKind.ANNOTATION, place=note.place)
        for override in reversed(self.settings.overrides):
            if name in override.settings and override_fits(override, self.resource):
                setting = override.settings[name]
                yield setting.value, Source(kind=SourceKind.OVERRIDE, place=setting.place)
        if self.model is not None and name in self.model.settings:
            setting = self.model.settings[name]
            yield setting.value, Source(kind=SourceKind.MODEL, place=setting.place)
        if name in self.settings.defaults:
            setting = self.settings.defaults[name]
            yield setting.value, Source(kind=SourceKind.DEFAULT, place=setting.place)


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
    return VariantSettings(
        accelerator=_resolve(_texts(layers, "accelerator"), IN_ORDER if layers.resource.flavors else CHOOSE),
        min_replicas=_resolve([*_own(layers, "minReplicas"), *_counts(layers, "minReplicas")], 1),
        max_replicas=_resolve_optional([*_own(layers, "maxReplicas"), *_counts(layers, "maxReplicas")]),
        group=_resolve(_texts(layers, "group"), _group_name(layers), detail="pullRequests.groupBy"),
        ignore=_resolve([(bool(value), source) for value, source in layers.hits("ignore")], default=False),
        engine=_resolve(_texts(layers, "sizing.engine"), "auto"),
        headroom=_resolve(_numbers(layers, "sizing.headroom"), BUILT_IN_HEADROOM),
        when_autoscaled=_resolve([*_annotated_bounds(layers), *_texts(layers, "whenAutoscaled")], HOLD),
        sync_delay_s=_resolve(_numbers(layers, "actuationDelay.sync"), BUILT_IN_SYNC_DELAY_S),
        start_delay_s=_resolve(_numbers(layers, "actuationDelay.start"), BUILT_IN_START_DELAY_S),
        payback_s=_resolve(_numbers(layers, "payback"), BUILT_IN_PAYBACK_S),
    )


def _annotated_bounds(layers: Layers) -> list[tuple[str, Source]]:
    """An annotated autoscaler asks for its bounds to be moved: they are all that it has."""
    resource = layers.resource
    is_asked = resource.form is Form.ANNOTATED
    return [(BOUNDS, Source(kind=SourceKind.RESOURCE, place=resource.place))] if is_asked else []


def _texts(layers: Layers, name: str) -> list[tuple[str, Source]]:
    return [(str(value), source) for value, source in layers.hits(name)]


def _numbers(layers: Layers, name: str) -> list[tuple[float, Source]]:
    return [(float(value), source) for value, source in layers.hits(name)]


def _counts(layers: Layers, name: str) -> list[tuple[int, Source]]:
    return [(int(value), source) for value, source in layers.hits(name)]


def _own(layers: Layers, name: str) -> list[tuple[int, Source]]:
    """The resource's own field, if it is written: a default of its CRD is not."""
    resource = layers.resource
    value = resource.min_replicas if name == "minReplicas" else resource.max_replicas
    place = resource.places.get(f"spec.{name}")
    return [] if value is None else [(value, Source(kind=SourceKind.RESOURCE, place=place))]


def _resolve(hits: list[tuple[Value, Source]], default: Value, detail: str = "") -> Sourced[Value]:
    ranked = [*hits, (default, Source(kind=SourceKind.BUILT_IN, detail=detail))]
    (value, source), *rest = ranked
    displaced = tuple(Displaced(value=lower, source=origin) for lower, origin in rest if lower != value)
    return Sourced(value=value, source=source, displaced=displaced)


def _resolve_optional(hits: list[tuple[int, Source]]) -> Sourced[int | None]:
    return _resolve([(value, source) for value, source in hits], None)


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
