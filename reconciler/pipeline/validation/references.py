"""What a configuration and resources refer to and the repository does not have: mostly a name that was mistyped."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from reconciler.domain.globs import path_matches
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.inventory import Catalog
from reconciler.domain.places import Annotation
from reconciler.domain.settings import ModelSettings, Setting, Settings
from reconciler.domain.variant_forms import Form
from reconciler.domain.variant_settings import ACCELERATOR, SERVICE_CLASS
from reconciler.manifests.wording import join_words, quote, suggest
from reconciler.pipeline.validation.known_names import KnownNames, unknown
from reconciler.pipeline.validation.synced_configuration import is_own
from reconciler.resources.declaration import Declaration
from reconciler.resources.registry import KINDS
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.effective_settings import override_fits

_GLOB = str.maketrans("", "", "*?[]")
_NAMES_A_TARGET = frozenset({Form.PROFILE, Form.TARGET, Form.NAME, Form.ANNOTATED})


def find_unknown_references(
    settings: Settings, declaration: Declaration, catalogs: Mapping[str, Catalog], paths: Sequence[str] | None
) -> Iterator[Finding]:
    """An error for each name in the configuration that names nothing, a warning for what resources lack.

    A lack is an error, too, where something of nearly that name is there. `settings` and `declaration` are of all
    clusters, `paths` all files there are; None where not everything was looked at: then nobody knows what is absent.
    """
    names = KnownNames.of(settings, declaration, catalogs)
    yield from _of_settings(settings.defaults, names)
    for model in settings.models:
        yield from _of_settings(model.settings, names)
    for override in settings.overrides:
        yield from _of_settings(override.settings, names)
    yield from _of_profiles(settings, names)
    for resource in names.resources:
        workload = names.workloads.get(resource.scale_target)
        yield from _of_settings({**(workload.settings if workload is not None else {}), **resource.settings}, names)
        if paths is not None:
            yield from _of_target(resource, names)
            yield from _of_class(resource, names)
    if paths is not None:
        yield from _of_cluster_paths(settings, [path for path in paths if not is_own(path)])
        if names.resources and not names.has_unreadable:
            yield from _of_models(settings, names)
            yield from _of_overrides(settings, names)


def _of_settings(layer: Mapping[str, Setting] | Mapping[str, Annotation], names: KnownNames) -> Iterator[Finding]:
    named, chosen = layer.get(SERVICE_CLASS.name), layer.get(ACCELERATOR.name)
    if named is not None and named.place is not None and not names.has_class(str(named.value)):
        hint = suggest(str(named.value), names.classes) or ": add it under serviceClasses"
        yield unknown(named.place, f"no service class {quote(str(named.value))}{hint}")
    if chosen is None or chosen.place is None or chosen.value in ACCELERATOR.choices:
        return
    if not names.has_accelerator(str(chosen.value)):
        yield unknown(chosen.place, _no_accelerator(str(chosen.value), names))


def _of_profiles(settings: Settings, names: KnownNames) -> Iterator[Finding]:
    for profile in (profile for model in settings.models for profile in model.profiles):
        if profile.place is not None and not names.has_accelerator(profile.accelerator):
            yield unknown(profile.place, _no_accelerator(profile.accelerator, names), field="accelerator")


def _no_accelerator(name: str, names: KnownNames) -> str:
    return f"no accelerator {quote(name)}{suggest(name, names.accelerators) or ': list it under accelerators'}"


def _of_target(resource: VariantResource, names: KnownNames) -> Iterator[Finding]:
    target = resource.scale_target
    if target in names.workloads or target in names.broken or resource.form not in _NAMES_A_TARGET:
        return
    place = resource.places.get("spec.scaleTargetRef", resource.place)
    kinds = sorted(name for name, kind in KINDS.items() if kind.is_scale_target)
    if target.kind not in kinds:
        hint = suggest(target.kind, kinds)
        words = hint or f", which is none of {join_words(kinds)}: it is held"
        severity = Severity.ERROR if hint else Severity.WARNING
        yield unknown(place, f"scale target of kind {quote(target.kind)}{words}", severity=severity)
        return
    # one that is named already is what somebody else means
    hint = suggest(target.name, (key.name for key in names.workloads if _is_beside(key, target, names)))
    severity = Severity.ERROR if hint else Severity.WARNING
    words = f"scale target {target.kind} {target.label} is not in Git"
    yield unknown(place, words + (hint or ": it is held"), severity=severity)


def _is_beside(key: ResourceKey, target: ResourceKey, names: KnownNames) -> bool:
    same = (key.cluster, key.namespace, key.kind, key.part) == (target.cluster, target.namespace, target.kind, "")
    return same and key not in names.claimed


def _of_class(resource: VariantResource, names: KnownNames) -> Iterator[Finding]:
    reference = resource.slo_class_ref
    if reference is None or names.listed.place_of(resource.key, reference)[0] or names.has_class(reference.name):
        return
    listed = [key for key in names.listed.places if key[0] == resource.key.cluster]
    beside = [key for key in listed if key[1] in names.listed.namespaces_for(resource.key)]
    hint = suggest(reference.name, {key[2] for key in beside})
    if any(key[2] == reference.name for key in beside):
        hint = suggest(reference.key, {key[3] for key in beside if key[2] == reference.name})
    place = resource.places.get("spec.sloClassRef", resource.place)
    severity = Severity.ERROR if hint else Severity.WARNING
    words = f"ConfigMap {reference.name}, key {reference.key}, is not in Git"
    yield unknown(place, words + hint, severity=severity)


def _of_cluster_paths(settings: Settings, paths: Sequence[str]) -> Iterator[Finding]:
    for cluster in settings.clusters if paths else ():
        for key, patterns in (("include", cluster.include), ("exclude", cluster.exclude)):
            for pattern in patterns if cluster.place is not None else ():
                if cluster.place is not None and not any(path_matches(pattern, path) for path in paths):
                    severity = Severity.ERROR if key == "include" else Severity.WARNING
                    message = f"{quote(pattern)} fits no file"
                    yield unknown(cluster.place, message, field=f"paths.{key}", severity=severity)


def _of_models(settings: Settings, names: KnownNames) -> Iterator[Finding]:
    served = {resource.model_id for resource in names.resources}
    for model in settings.models:
        if model.model_id not in served and model.place is not None:
            severity = Severity.WARNING if _is_learned(model) else Severity.ERROR
            message = f"no resource serves {quote(model.model_id)}{suggest(model.model_id, served)}"
            yield unknown(model.place, message, field="id", severity=severity)


def _is_learned(model: ModelSettings) -> bool:
    """Whether `fit` wrote all that is said of it: it forgets no model that is gone."""
    stated = bool(model.settings or model.served_names)
    return bool(model.profiles) and not stated and all(each.learning is not None for each in model.profiles)


def _of_overrides(settings: Settings, names: KnownNames) -> Iterator[Finding]:
    for override in settings.overrides:
        if override.place is None or any(override_fits(override, resource) for resource in names.resources):
            continue
        subjects = {key: _subjects(key, settings, names) for key in override.match}
        alone = {key: pattern for key, pattern in override.match.items() if not _fits(key, pattern, subjects[key])}
        for key, pattern in alone.items():
            hint = suggest(pattern.translate(_GLOB), subjects[key])
            yield unknown(override.place, f"{quote(pattern)} fits nothing{hint}", field=f"match.{key}")
        if not alone:
            yield unknown(override.place, "no resource fits all of it", field="match")


def _subjects(key: str, settings: Settings, names: KnownNames) -> set[str]:
    """What a key of `match` is compared with."""
    if key == "cluster":
        return {cluster.name for cluster in settings.clusters}
    if key == "path":
        return {resource.document.path for resource in names.resources}
    if key == "model":
        return {resource.model_id for resource in names.resources}
    return {str(getattr(resource.key, key)) for resource in names.resources}


def _fits(key: str, pattern: str, subjects: set[str]) -> bool:
    fits = path_matches if key == "path" else _fits_name
    return any(fits(pattern, subject) for subject in subjects)


def _fits_name(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern)
