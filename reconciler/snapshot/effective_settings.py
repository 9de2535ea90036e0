"""The effective settings and the service class of a variant: the first layer that has one wins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, TypeVar

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Displaced, Place, ResourceKey, Source, Sourced, SourceKind, path_matches
from reconciler.domain.places import Annotation
from reconciler.domain.profiles import ServiceClass
from reconciler.domain.settings import ModelSettings, Override, Setting, Settings, SettingScalar
from reconciler.domain.variant_forms import Form
from reconciler.domain.variant_settings import (
    ACCELERATOR,
    BOUNDS,
    GROUP,
    IN_ORDER,
    MAX_REPLICAS,
    MIN_REPLICAS,
    SERVICE_CLASS,
    SETTING_DEFINITIONS,
    WHEN_AUTOSCALED,
    SettingDefinition,
    VariantSettings,
)
from reconciler.domain.workloads import Workload
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import ListedClass, SloClassRef, VariantResource

# --- was reconciler/snapshot/variants/settings.py:
# Effective variant settings: the first layer that says something wins, and what it displaced is kept.

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


# --- was reconciler/snapshot/variants/listed_classes.py:
# The service classes that ConfigMaps list, by what a resource may know them by.

UPSTREAM_CONFIG_MAP = "service-classes-config"
_CONTROLLER_NAMESPACES = ("inferno-autoscaler-system", "workload-variant-autoscaler-system")
"""Where upstream's installers put its controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClasses:
    """All that is listed: by cluster and model, and where each key of a ConfigMap stands, by cluster and its names.

    `controllers` are the namespaces of each cluster in which upstream's controller keeps its configuration.
    """

    by_model: Mapping[tuple[str, str], Sequence[ListedClass]]
    places: Mapping[tuple[str, str, str, str], Place | None]
    controllers: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, declaration: Declaration) -> "ListedClasses":
        """The index: a fleet's ConfigMap names hundreds, for thousands of variants."""
        by_model: dict[tuple[str, str], list[ListedClass]] = {}
        places: dict[tuple[str, str, str, str], Place | None] = {}
        for cluster, listed in declaration.classes.items():
            for each in listed:
                by_model.setdefault((cluster, each.model_id), []).append(each)
                places.setdefault((cluster, each.namespace, each.config_map, each.key), each.service_class.place)
        clusters = {*declaration.classes, *declaration.costs, *declaration.saturation, *declaration.zero}
        return cls(
            by_model=by_model,
            places=places,
            controllers={cluster: _controllers_in(cluster, declaration) for cluster in clusters},
        )

    def of_model(self, resource: ResourceKey, model_id: str) -> Sequence[ListedClass]:
        """Whatever lists a model in a resource's cluster."""
        return self.by_model.get((resource.cluster, model_id), ())

    def namespaces_for(self, resource: ResourceKey) -> tuple[str, ...]:
        """Where a ConfigMap that a resource names is looked for: in its own namespace, then in the controller's."""
        return tuple(dict.fromkeys((resource.namespace, *self.controllers.get(resource.cluster, ()))))

    def place_of(self, resource: ResourceKey, reference: SloClassRef) -> tuple[bool, Place | None]:
        """Whether Git has the key that a resource names, and where."""
        for namespace in self.namespaces_for(resource):
            key = resource.cluster, namespace, reference.name, reference.key
            if key in self.places:
                return True, self.places[key]
        return False, None


def _controllers_in(cluster: str, declaration: Declaration) -> tuple[str, ...]:
    named = (each.namespace for each in declaration.classes.get(cluster, ()) if each.config_map == UPSTREAM_CONFIG_MAP)
    configured = chain(
        (each.namespace for each in declaration.saturation.get(cluster, ())),
        (each.namespace for each in declaration.zero.get(cluster, ())),
    )
    own = (namespace for namespace in configured if (cluster, namespace) not in declaration.opted_in_namespaces)
    priced = (each.namespace for each in declaration.costs.get(cluster, ()))
    found = sorted({*named, *own, *priced} - {""})
    return (*found, *(each for each in _CONTROLLER_NAMESPACES if each not in found))


# --- was reconciler/snapshot/variants/service_classes.py:
# Which service class a variant has: what its resource names, what is configured, what upstream's ConfigMaps list.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLookup:
    """The class, or why there is none although one was asked for; both None: none was asked for."""

    service_class: Sourced[ServiceClass] | None = None
    missing: Hold | None = None


def find_class(layers: Layers, classes: ListedClasses) -> ClassLookup:
    """The service class by the order of precedence; `classes` are those that ConfigMaps list.

    The resource's `sloClassRef`, annotations, overrides, models, defaults, and last the only class that upstream's
    ConfigMap lists for the model.
    """
    resource = layers.resource
    listed = classes.of_model(resource.key, resource.model_id)
    upstream = _distinct(each for each in listed if each.config_map == UPSTREAM_CONFIG_MAP)
    hits: list[tuple[ServiceClass, Source]] = []
    if resource.slo_class_ref is not None:
        referenced = _referenced(layers, resource.slo_class_ref, classes, upstream)
        hits += [(referenced, _source(SourceKind.RESOURCE, referenced, layers))] if referenced else []
    for name, source in layers.hits(SERVICE_CLASS):
        named = _named(layers, upstream, name)
        if named is not None:
            hits.append((named, source))
        elif not hits:
            # the highest word decides: a typo in it must not quietly leave the decision to a lower one
            words = f'service class "{name}" ({source}) is not defined: add it under serviceClasses'
            return ClassLookup(missing=_lacking(words, source.place))
    if len(upstream) == 1:
        hits.append((upstream[0].service_class, _source(SourceKind.CONFIG_MAP, upstream[0].service_class, layers)))
    if not hits:
        return ClassLookup(missing=_missing(layers, classes, upstream))
    (value, source), *rest = hits
    displaced = tuple(Displaced(value=lower, source=origin) for lower, origin in rest if lower.name != value.name)
    return ClassLookup(service_class=Sourced(value=value, source=source, displaced=displaced))


def _distinct(listed: Iterable[ListedClass]) -> list[ListedClass]:
    """Each class once: copies of the ConfigMap in other namespaces say nothing new."""
    distinct: dict[ServiceClass, ListedClass] = {}
    for each in listed:
        distinct.setdefault(replace(each.service_class, place=None), each)
    return list(distinct.values())


def _referenced(
    layers: Layers, reference: SloClassRef, classes: ListedClasses, upstream: Iterable[ListedClass]
) -> ServiceClass | None:
    """What the named key of the named ConfigMap says of the model, else the class of that name."""
    resource = layers.resource
    listed = classes.of_model(resource.key, resource.model_id)
    for namespace in classes.namespaces_for(resource.key):
        named = [
            each
            for each in listed
            if (each.namespace, each.config_map, each.key) == (namespace, reference.name, reference.key)
        ]
        if named:
            return named[0].service_class
    return _named(layers, upstream, reference.name)


def _named(layers: Layers, upstream: Iterable[ListedClass], name: str) -> ServiceClass | None:
    """A class that lists the model in upstream's ConfigMap comes after a configured one of the same name."""
    for configured in layers.settings.service_classes:
        if configured.name == name:
            return configured
    for each in upstream:
        if each.service_class.name.lower() == name.lower():
            return each.service_class
    return None


def _source(kind: SourceKind, service_class: ServiceClass, layers: Layers) -> Source:
    if kind is SourceKind.RESOURCE:
        return Source(kind=kind, place=layers.resource.places.get("spec.sloClassRef"), detail="sloClassRef")
    return Source(kind=kind, place=service_class.place, detail=f"ConfigMap {UPSTREAM_CONFIG_MAP}")


def _missing(layers: Layers, classes: ListedClasses, upstream: Sequence[ListedClass]) -> Hold | None:
    if len(upstream) > 1:
        names = ", ".join(sorted(each.service_class.name for each in upstream))
        return _lacking(f"missing class: {UPSTREAM_CONFIG_MAP} lists the model in {names}; name one with sloClassRef")
    resource = layers.resource
    reference = resource.slo_class_ref
    if reference is None:
        return None
    is_there, place = classes.place_of(resource.key, reference)
    where = f" ({place})" if place is not None else ""
    why = (
        f"{where}, which does not list {resource.model_id}, and no class does"
        if is_there
        else f", which is not in Git, and no class lists {resource.model_id}"
    )
    words = f"missing class: sloClassRef names ConfigMap {reference.name}, key {reference.key}{why}"
    return _lacking(words, resource.places.get("spec.sloClassRef"))


def _lacking(words: str, place: Place | None = None) -> Hold:
    return Hold(kind=HoldKind.SERVICE_CLASS_MISSING, words=words, place=place)
