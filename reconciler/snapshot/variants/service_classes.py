"""Which service class a variant has: what its resource names, what is configured, what upstream's ConfigMaps list."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.declared.declarations import ListedClass, SloClassRef
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Place
from reconciler.domain.provenance import Displaced, Source, Sourced, SourceKind
from reconciler.domain.service_classes import ServiceClass
from reconciler.domain.variant_settings import SERVICE_CLASS
from reconciler.snapshot.variants.listed_classes import UPSTREAM_CONFIG_MAP, ListedClasses
from reconciler.snapshot.variants.settings import Layers


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
