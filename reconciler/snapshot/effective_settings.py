"""The effective settings and the service class of a variant: the first layer that has one wins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Displaced, Place, ResourceKey, Source, Sourced, SourceKind, path_matches
from reconciler.domain.profiles import ServiceClass
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ModelSettings, Override, Setting, Settings, SettingScalar
from reconciler.domain.snapshot import Form
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
from reconciler.domain.workloads import Annotation, Workload
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import ListedClass, SloClassRef, VariantResource

Value = TypeVar("Value", bound=SettingScalar | None)

Hit = tuple[SettingScalar, Source]
Layer = tuple[SourceKind, Mapping[str, Annotation | Setting]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The sources of one variant's settings, highest precedence first."""

    resource: VariantResource
    workload: Workload | None
    settings: Settings
    below: Sequence[Layer]
    """All layers below the resource's own fields that give anything: annotations, overrides, workloads, ..."""

    @classmethod
    def of(
        cls, resource: VariantResource, workload: Workload | None, settings: Settings, model: ModelSettings | None
    ) -> "Layers":
        """Those of a resource; overrides are matched here, once for all that is asked of them."""
        entries = settings.workloads if resource.form is Form.ADOPTED else ()
        layers: tuple[Layer, ...] = (
            (SourceKind.ANNOTATION, resource.settings),
            (SourceKind.ANNOTATION, workload.settings if workload is not None else {}),
            *((SourceKind.OVERRIDE, each.settings) for each in _fitting(settings.overrides, resource)),
            *((SourceKind.WORKLOADS, each.settings) for each in _fitting(entries, resource)),
            (SourceKind.MODEL, model.settings if model is not None else {}),
            (SourceKind.DEFAULT, settings.defaults),
        )
        return cls(resource=resource, workload=workload, settings=settings, below=[each for each in layers if each[1]])


def stated_values(setting: SettingDefinition[Value], layers: Iterable[Layer]) -> Iterator[tuple[Value, Source]]:
    """Every layer's value of a setting."""
    name = setting.name
    for kind, values in layers:
        if name in values:
            yield setting.convert(values[name].value), Source(kind=kind, place=values[name].place)


def _fitting(overrides: Sequence[Override], resource: VariantResource) -> Iterator[Override]:
    """Those that fit a resource, the last one first."""
    return (each for each in reversed(overrides) if each.settings and override_fits(each, resource))


def override_fits(override: Override, resource: VariantResource) -> bool:
    """Whether all keys of an override's match fit; `path` is a path glob, the others match whole values."""
    for key, pattern in override.match.items():
        if key == "path":
            is_met = path_matches(pattern, resource.document.path)
        else:
            is_met = fnmatchcase(resource.model_id if key == "model" else getattr(resource.key, key), pattern)
        if not is_met:
            return False
    return all(fnmatchcase(resource.labels.get(key, ""), pattern) for key, pattern in override.labels.items())


_BUILT_IN_SOURCE = Source(kind=SourceKind.BUILT_IN)
_BUILT_IN: Mapping[str, Sourced[SettingScalar | None]] = {
    each.name: Sourced(value=each.default, source=_BUILT_IN_SOURCE) for each in SETTING_DEFINITIONS
}
"""What a setting is that nothing gives: most settings of most variants."""


def resolve_settings(layers: Layers) -> VariantSettings:
    """All variant settings of one variant, each with its source and displaced values."""
    own, defaults = dict(_own_values(layers.resource)), dict(_defaults_of(layers))
    below = layers.below
    given = {*own, *defaults, *(name for _, each in below for name in each)}
    values = dict(_BUILT_IN)
    for setting in SETTING_DEFINITIONS:
        if setting.name not in given:
            continue
        ranked: list[tuple[SettingScalar | None, Source]] = [*([own[setting.name]] if setting.name in own else ())]
        ranked += stated_values(setting, below)
        ranked.append(defaults.get(setting.name, (setting.default, _BUILT_IN_SOURCE)))
        (value, source), *rest = ranked
        displaced = tuple(Displaced(value=lower, source=origin) for lower, origin in rest if lower != value)
        values[setting.name] = Sourced(value=value, source=source, displaced=displaced)
    settings = VariantSettings(values=values)
    if layers.workload is None or not layers.workload.budgets:
        return settings
    found = _minimum_of_budgets(layers.workload, settings[MIN_REPLICAS].value, settings[MAX_REPLICAS].value)
    if found is not None:
        kept, source = found
        least = values[MIN_REPLICAS.name]
        first = Displaced(value=least.value, source=least.source)
        displaced = (first, *(each for each in least.displaced if each.value != kept))
        values[MIN_REPLICAS.name] = Sourced(value=kept, source=source, displaced=displaced)
    return VariantSettings(values=values)


def _minimum_of_budgets(workload: Workload, least: int, most: int | None) -> tuple[int, Source] | None:
    """The replicas that PodDisruptionBudgets keep available, if they are more than `least`.

    Kubernetes cannot evict pods of several budgets, so none is removed here. A configured maximum takes precedence over
    all but an absolute count of available pods.
    """
    budgets, replicas = workload.budgets, workload.replicas or 0
    strictest = max(budgets, key=lambda each: (each.keeps(replicas), each.name))
    kept, detail = strictest.keeps(replicas), f"PodDisruptionBudget {strictest.name}"
    if len(budgets) > 1:
        names = ", ".join(each.name for each in budgets)
        kept = max(kept, replicas)
        detail = f"{len(budgets)} PodDisruptionBudgets over the same pods ({names}), which Kubernetes cannot evict"
    if most is not None and not (strictest.is_count and kept == strictest.amount):
        kept = min(kept, most)
    source = Source(kind=SourceKind.RESOURCE, place=strictest.place, detail=detail)
    return (kept, source) if kept > least else None


def _own_values(resource: VariantResource) -> Iterator[tuple[str, Hit]]:
    for setting, value in ((MIN_REPLICAS.name, resource.min_replicas), (MAX_REPLICAS.name, resource.max_replicas)):
        if value is not None:
            yield setting, (value, Source(kind=SourceKind.RESOURCE, place=resource.places.get(f"spec.{setting}")))
    # an annotated autoscaler only has bounds to move
    if resource.form is Form.ANNOTATED:
        yield WHEN_AUTOSCALED.name, (BOUNDS, Source(kind=SourceKind.RESOURCE, place=resource.place))


def _defaults_of(layers: Layers) -> Iterator[tuple[str, Hit]]:
    """Defaults that depend on the variant: its group are the values of `groupBy`, joined by `/`."""
    resource, group_by = layers.resource, layers.settings.pull_requests.group_by
    group = default_group(group_by, resource.key, resource.model_id, resource.document.path, resource.labels)
    yield GROUP.name, (group, Source(kind=SourceKind.BUILT_IN, detail="pullRequests.groupBy"))
    if resource.flavors:
        yield ACCELERATOR.name, (IN_ORDER, Source(kind=SourceKind.BUILT_IN))


def default_group(
    group_by: Iterable[str], key: ResourceKey, model_id: str, path: str, labels: Mapping[str, str]
) -> str:
    """The group of what nothing else gives one."""
    subject = {
        "cluster": key.cluster,
        "namespace": key.namespace,
        "model": model_id,
        "path": path.rpartition("/")[0] or ".",
    }
    parts = (
        labels.get(each.removeprefix("label:"), "none") if each.startswith("label:") else subject[each]
        for each in group_by
    )
    return "/".join(parts) or "all"


def group_of_broken(key: ResourceKey, settings: Settings) -> str:
    """The group that its key suggests, of a resource that could not be read."""
    subject = {"cluster": key.cluster, "namespace": key.namespace}
    return "/".join(subject.get(name, "none") for name in settings.pull_requests.group_by) or "all"


# ---- service classes: of the resource, the configuration, and upstream's ConfigMaps

UPSTREAM_CONFIG_MAP = "service-classes-config"
_CONTROLLER_NAMESPACES = ("inferno-autoscaler-system", "workload-variant-autoscaler-system")
"""The namespaces of upstream's controller by its installers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClasses:
    """The classes in ConfigMaps by cluster and model, and the place of each key by cluster and its names.

    `upstream` are those of upstream's ConfigMap: copies of it in other namespaces add nothing. `controllers` are the
    namespaces of each cluster with the configuration of upstream's controller.
    """

    by_model: Mapping[tuple[str, str], Sequence[ListedClass]]
    upstream: Mapping[tuple[str, str], Sequence[ServiceClass]]
    places: Mapping[tuple[str, str, str, str], Place | None]
    controllers: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, declaration: Declaration) -> "ListedClasses":
        """The index, as a fleet has hundreds of classes for thousands of variants."""
        by_model: dict[tuple[str, str], list[ListedClass]] = {}
        places: dict[tuple[str, str, str, str], Place | None] = {}
        for cluster, listed in declaration.classes.items():
            for each in listed:
                by_model.setdefault((cluster, each.model_id), []).append(each)
                places.setdefault((cluster, each.namespace, each.config_map, each.key), each.service_class.place)
        clusters = {*declaration.classes, *declaration.costs, *declaration.saturation, *declaration.zero}
        return cls(
            by_model=by_model,
            upstream={key: _upstream_of(listed) for key, listed in by_model.items()},
            places=places,
            controllers={cluster: _controllers_in(cluster, declaration) for cluster in clusters},
        )

    def of_model(self, resource: ResourceKey, model_id: str) -> Sequence[ListedClass]:
        """The classes that list a model in a resource's cluster."""
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


def _upstream_of(listed: Iterable[ListedClass]) -> Sequence[ServiceClass]:
    distinct: dict[ServiceClass, ServiceClass] = {}
    for each in listed:
        if each.config_map == UPSTREAM_CONFIG_MAP:
            distinct.setdefault(replace(each.service_class, place=None), each.service_class)
    return tuple(distinct.values())


def _controllers_in(cluster: str, declaration: Declaration) -> tuple[str, ...]:
    listed = declaration.classes.get(cluster, ())
    configured = {each.namespace for each in declaration.saturation.get(cluster, ())}
    configured |= {each.namespace for each in declaration.zero.get(cluster, ())}
    found = {each.namespace for each in listed if each.config_map == UPSTREAM_CONFIG_MAP}
    found |= {each for each in configured if (cluster, each) not in declaration.opted_in_namespaces}
    found |= {each.namespace for each in declaration.costs.get(cluster, ())}
    return tuple(dict.fromkeys((*sorted(found - {""}), *_CONTROLLER_NAMESPACES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLookup:
    """The class, or why it is `missing`; both None if none is wanted."""

    service_class: Sourced[ServiceClass] | None = None
    missing: Hold | None = None


def find_class(layers: Layers, classes: ListedClasses) -> ClassLookup:
    """The service class by the order of precedence; `classes` are those in ConfigMaps.

    The resource's `sloClassRef`, annotations, overrides, models, defaults, and last the only class for the model in
    upstream's ConfigMap.
    """
    resource = layers.resource
    reference, referenced_at = resource.slo_class_ref, resource.places.get("spec.sloClassRef")
    upstream = classes.upstream.get((resource.key.cluster, resource.model_id), ())
    hits: list[tuple[ServiceClass, Source]] = []
    if reference is not None:
        referenced = _referenced(layers, reference, classes, upstream)
        if referenced is not None:
            hits.append((referenced, Source(kind=SourceKind.RESOURCE, place=referenced_at, detail="sloClassRef")))
    for name, source in stated_values(SERVICE_CLASS, layers.below):
        named = _named(layers, upstream, name)
        if named is not None:
            hits.append((named, source))
        elif not hits:
            # a typo in a layer must not silently leave the decision to a lower one
            words = f'service class "{name}" ({source}) is not defined: add it under serviceClasses'
            return ClassLookup(missing=Hold(kind=HoldKind.SERVICE_CLASS_MISSING, words=words, place=source.place))
    if len(upstream) == 1:
        detail = f"ConfigMap {UPSTREAM_CONFIG_MAP}"
        hits.append((upstream[0], Source(kind=SourceKind.CONFIG_MAP, place=upstream[0].place, detail=detail)))
    if hits:
        (value, source), *rest = hits
        displaced = tuple(Displaced(value=lower, source=origin) for lower, origin in rest if lower.name != value.name)
        return ClassLookup(service_class=Sourced(value=value, source=source, displaced=displaced))
    place = None
    if len(upstream) > 1:
        names = ", ".join(sorted(each.name for each in upstream))
        words = f"missing class: {UPSTREAM_CONFIG_MAP} lists the model in {names}; name one with sloClassRef"
    elif reference is not None:
        exists, key_at = classes.place_of(resource.key, reference)
        where = f" ({key_at})" if key_at is not None else ""
        why = f", which is not in Git, and no class lists {resource.model_id}"
        if exists:
            why = f"{where}, which does not list {resource.model_id}, and no class does"
        words = f"missing class: sloClassRef names ConfigMap {reference.name}, key {reference.key}{why}"
        place = referenced_at
    else:
        return ClassLookup()
    return ClassLookup(missing=Hold(kind=HoldKind.SERVICE_CLASS_MISSING, words=words, place=place))


def _referenced(
    layers: Layers, reference: SloClassRef, classes: ListedClasses, upstream: Iterable[ServiceClass]
) -> ServiceClass | None:
    """The class of the model at the named key of the named ConfigMap, else the class of that name."""
    key = layers.resource.key
    listed = classes.of_model(key, layers.resource.model_id)
    for namespace in classes.namespaces_for(key):
        for each in listed:
            if (each.namespace, each.config_map, each.key) == (namespace, reference.name, reference.key):
                return each.service_class
    return _named(layers, upstream, reference.name)


def _named(layers: Layers, upstream: Iterable[ServiceClass], name: str) -> ServiceClass | None:
    """The class of a name; a configured one before one for the model in upstream's ConfigMap."""
    configured = (each for each in layers.settings.service_classes if each.name == name)
    return next(configured, None) or next((each for each in upstream if each.name.lower() == name.lower()), None)
