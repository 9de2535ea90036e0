"""What a configuration and resources refer to and the repository does not have."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from fnmatch import fnmatchcase

from reconciler.config.files import REPOSITORY_FILE
from reconciler.domain.identity import (
    Finding,
    Place,
    ResourceKey,
    Severity,
    fits_ignore_line,
    matches_any,
    path_matches,
)
from reconciler.domain.inventory import PRODUCTS, Catalog
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, ModelSettings, Override, Setting, Settings
from reconciler.domain.snapshot import Form
from reconciler.domain.variant_settings import ACCELERATOR, SERVICE_CLASS
from reconciler.domain.workloads import Annotation, Workload
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, parse_readable
from reconciler.manifests.wording import join_words, quote, suggest
from reconciler.placement.deployers import ARGO_GROUP, FLUX_GROUP, Deployer, try_read
from reconciler.placement.fleet import Fleet, written_deployers
from reconciler.placement.kustomize_build import objects_in
from reconciler.placement.objects import BuiltObject, SourceField, identify
from reconciler.placement.ownership import compares
from reconciler.placement.repository import (
    CHART_NAME,
    KUSTOMIZATION_NAMES,
    ManifestRepository,
    directory_of,
    is_yaml,
    join,
    name_of,
    resolve,
)
from reconciler.resources.declaration import Declaration
from reconciler.resources.registry import KINDS
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.adoption import adopts, is_kind_of_serving
from reconciler.snapshot.effective_settings import ListedClasses, override_fits
from reconciler.snapshot.variants import resources_of

RULE = "unknown-reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """What there is in all clusters.

    `classes` are names of service classes as written, `accelerators` those that people write, `spellings` all by which
    an accelerator is known, in lower case. `claimed` are scale targets that some resource names.
    """

    resources: Sequence[VariantResource]
    workloads: Mapping[ResourceKey, Workload]
    broken: frozenset[ResourceKey]
    claimed: frozenset[ResourceKey]
    listed: ListedClasses
    classes: frozenset[str]
    accelerators: frozenset[str]
    spellings: frozenset[str]

    @classmethod
    def of(cls, settings: Settings, declaration: Declaration, catalogs: Mapping[str, Catalog]) -> "KnownNames":
        """All that settings and resources of all clusters define."""
        resources = resources_of(settings, declaration)
        named = {*PRODUCTS.values(), *_accelerators(resources, catalogs)}
        spellings = {*named, *PRODUCTS, *(name for catalog in catalogs.values() for name in catalog.names)}
        listed = (each.service_class.name for classes in declaration.classes.values() for each in classes)
        return cls(
            resources=resources,
            workloads={each.key: each for each in (*declaration.workloads, *declaration.kthena.workloads)},
            broken=frozenset(each.key for each in declaration.broken),
            claimed=frozenset(each.scale_target for each in resources),
            listed=ListedClasses.of(declaration),
            classes=frozenset({*(each.name for each in settings.service_classes), *listed}),
            accelerators=frozenset(named),
            spellings=frozenset(map(str.lower, spellings)),
        )

    @property
    def has_unreadable(self) -> bool:
        """Whether something cannot be read that may be just what is referred to."""
        return any(key.kind in KINDS and KINDS[key.kind].declares_variants for key in self.broken)

    def has_class(self, name: str) -> bool:
        """Whether a service class of that name is configured or listed; a ConfigMap's may be spelled in any case."""
        return name.lower() in {each.lower() for each in self.classes}

    def has_accelerator(self, name: str) -> bool:
        """Whether that is an accelerator, or so many of one: `2xH100`."""
        count, times, device = name.lower().partition("x")
        return name.lower() in self.spellings or (bool(times) and count.isdigit() and device in self.spellings)


def _accelerators(resources: Sequence[VariantResource], catalogs: Mapping[str, Catalog]) -> Iterator[str]:
    for catalog in catalogs.values():
        yield from catalog.accelerators
        yield from (each.device for each in catalog.accelerators.values())
    yield from (profile.accelerator for resource in resources for profile in resource.profiles)


def unknown(place: Place, message: str, *, field: str = "", severity: Severity = Severity.ERROR) -> Finding:
    """The finding of a name that names nothing; `field` is below that of the place."""
    path = ".".join(filter(None, (place.field, field)))
    return Finding(place=replace(place, field=path), severity=severity, message=message, rule=RULE)


# Whether what is synced to a cluster covers our own configuration, which no cluster knows. Argo CD and Flux take
# every YAML file of a directory without kustomization for manifests, and fail at one that is none. Argo CD skips
# files with a marker comment, Flux what `.sourceignore` or its source's `spec.ignore` lists.

SYNCED_CONFIGURATION = "synced-configuration"
MARKER = "+argocd:skip-file-rendering"
OWN_DIRECTORY = ".reconciler"
IGNORE_FILE = ".sourceignore"
"""Flux's, in the syntax of .gitignore; only the one at the root is read."""

_FLUX_SOURCES = "source.toolkit.fluxcd.io"
_WORDS = frozenset(word.encode() for word in (ARGO_GROUP, FLUX_GROUP, _FLUX_SOURCES))
# With one of these Argo CD renders something else than the plain files of a directory.
_OTHER_TOOLS = ("chart", "helm", "kustomize", "plugin")
_LISTS = ("resources", "bases")


@dataclass(slots=True, kw_only=True)
class _Scene:
    """Files of ours, who deploys directories, and what Flux leaves out of each source, by namespace and name."""

    repository: ManifestRepository
    own: frozenset[str]
    unmarked: frozenset[str]
    deployers: list[Deployer] = field(default_factory=list)
    ignored: dict[tuple[str, str], str] = field(default_factory=dict)


def is_own(path: str) -> bool:
    """Whether a path from the repository's root is configuration of ours that tools take for a manifest."""
    return path == REPOSITORY_FILE or (path.startswith(f"{OWN_DIRECTORY}/") and is_yaml(path))


def may_tell(path: str) -> bool:
    """Whether a file can say what is synced, or is what should not be."""
    return is_yaml(path) or name_of(path) in KUSTOMIZATION_NAMES or path == IGNORE_FILE


def find_synced_configuration(
    files: Mapping[str, bytes], clusters: Iterable[ClusterSettings], remote: str = ""
) -> Iterator[Finding]:
    """A warning for each deployer, kustomization and cluster that covers a file of ours, where it says so.

    `files` are all of the repository that `may_tell`; `remote` its address, as far as it is known.
    """
    own = frozenset(path for path in files if is_own(path))
    if not own:
        return
    scene = _Scene(
        repository=ManifestRepository(files={path: _parse(path, files[path]) for path in files}, remote=remote),
        own=own,
        unmarked=frozenset(path for path in own if MARKER.encode() not in files[path]),
    )
    _read_objects(scene)
    shared = files.get(IGNORE_FILE, b"").decode(errors="replace")
    for deployer in scene.deployers:
        yield from _check_flux(scene, deployer, shared) if deployer.is_flux else _check_argo(scene, deployer)
    yield from _check_kustomizations(scene)
    yield from _check_clusters(scene, clusters)


def _parse(path: str, body: bytes) -> tuple[Document, ...]:
    """The documents of deployers and sources, and kustomizations that may name a file of ours."""
    if name_of(path) in KUSTOMIZATION_NAMES and REPOSITORY_FILE.partition(".")[0].encode() in body:
        return parse_readable(path, body)[0]
    return parse_readable(path, body, kinds=_WORDS)[0] if is_yaml(path) else ()


def _read_objects(scene: _Scene) -> None:
    for path in scene.repository.paths:
        for document in scene.repository.read(path):
            try:
                objects = list(objects_in(SourceField(document)))
            except InputError:
                continue
            for each in objects:
                fields = each.value if isinstance(each.value, dict) else {}
                identity = identify(fields)
                spec = fields.get("spec")
                if identity.group != _FLUX_SOURCES:
                    scene.deployers += try_read(scene.repository, identity, each)[0]
                elif isinstance(spec, dict):
                    key, ignore = (identity.namespace, identity.name), spec.get("ignore")
                    scene.ignored[key] = ignore if isinstance(ignore, str) else ""


def _check_flux(scene: _Scene, deployer: Deployer, shared: str) -> Iterator[Finding]:
    """Flux makes a kustomization of all YAML files in and below a directory without one."""
    reference = deployer.source.get("sourceRef")
    name, namespace = ("", "") if reference is None else (_text(reference, "name"), _text(reference, "namespace"))
    key = (namespace or deployer.identity.namespace, name)
    if scene.repository.kustomizations_in(deployer.directory):
        return
    rules = f"{shared}\n{scene.ignored.get(key, '')}"
    files = (path for path in _below(deployer, scene.own) if not path.endswith(".json"))
    covered = [path for path in files if not is_ignored(rules, path) and not _is_entered(scene, deployer, path)]
    if covered:
        lines = " and ".join(sorted({quote(f"/{path.partition('/')[0]}") for path in covered}))
        yield _warn(deployer.source.below("path").place, covered, f"put {lines} into {IGNORE_FILE}")


def _check_argo(scene: _Scene, deployer: Deployer) -> Iterator[Finding]:
    """Argo CD reads the files of a directory, and with `recurse` those below, unless it knows a tool for it."""
    directory = deployer.directory
    is_built = scene.repository.kustomizations_in(directory) or scene.repository.has_file(join(directory, CHART_NAME))
    if is_built or any(deployer.source.get(tool) is not None for tool in _OTHER_TOOLS):
        return
    covered = [path for path in _below(deployer, scene.unmarked) if _is_rendered(deployer, path)]
    if covered:
        yield _warn(deployer.source.below("path").place, covered, _marking(covered))


def _is_rendered(deployer: Deployer, path: str) -> bool:
    relative = path[len(deployer.directory) :].lstrip("/")
    if "/" in relative and not deployer.is_recursive:
        return False
    is_included = not deployer.include or matches_any(deployer.include, relative)
    return is_included and not (deployer.exclude and matches_any(deployer.exclude, relative))


def _below(deployer: Deployer, paths: Iterable[str]) -> Iterator[str]:
    prefix = f"{deployer.directory}/" if deployer.directory else ""
    return (path for path in sorted(paths) if path.startswith(prefix))


def _is_entered(scene: _Scene, deployer: Deployer, path: str) -> bool:
    """Whether a directory between has a kustomization of its own, which says itself what is in it."""
    directory = directory_of(path)
    while directory != deployer.directory and directory:
        if scene.repository.kustomizations_in(directory):
            return True
        directory = directory_of(directory)
    return False


def _check_kustomizations(scene: _Scene) -> Iterator[Finding]:
    """A file of ours among the resources of a kustomization stops its build, whatever stands in it."""
    for path in scene.repository.paths:
        for document in scene.repository.read(path) if name_of(path) in KUSTOMIZATION_NAMES else ():
            value = document.value if isinstance(document.value, dict) else {}
            for key in _LISTS:
                entries = value.get(key)
                for index, entry in enumerate(entries if isinstance(entries, list) else ()):
                    target = resolve(directory_of(path), entry) if isinstance(entry, str) else None
                    if target in scene.own:
                        yield _warn(SourceField(document, (key, index)).place, [target], "leave it out")


def _check_clusters(scene: _Scene, clusters: Iterable[ClusterSettings]) -> Iterator[Finding]:
    """Paths that were chosen; all files is the default, and says nothing of what is synced."""
    for cluster in clusters:
        is_chosen = bool(cluster.exclude) or cluster.include != ClusterSettings(name="").include
        covered = [path for path in sorted(scene.unmarked) if is_chosen and cluster.holds(path)]
        if covered and cluster.place is not None:
            yield _warn(cluster.place, covered, f"exclude that, or {_marking(covered)}")


def _warn(place: Place, covered: list[str], remedy: str) -> Finding:
    more = f" and {len(covered) - 1} more" if len(covered) > 1 else ""
    message = f"covers {quote(covered[0])}{more}, which no cluster knows: {remedy}"
    return Finding(place=place, severity=Severity.WARNING, message=message, rule=SYNCED_CONFIGURATION)


def _marking(covered: list[str]) -> str:
    return f"put the comment {quote(f'# {MARKER}')} in {'each' if len(covered) > 1 else 'it'}"


def _text(source: SourceField, key: str) -> str:
    try:
        return source.text(key)
    except InputError:
        return ""


def is_ignored(rules: str, path: str) -> bool:
    """Whether lines in the syntax of .gitignore leave a file out; the last one that fits decides.

    Character classes are not read: such a line fits nothing.
    """
    ignored = False
    for line in rules.splitlines():
        rule = line.strip()
        pattern = rule.removeprefix("!")
        if pattern and not pattern.startswith("#") and fits_ignore_line(pattern, path):
            ignored = not rule.startswith("!")
    return ignored


_GLOB = str.maketrans("", "", "*?[]")
_NAMES_A_TARGET = frozenset({Form.PROFILE, Form.TARGET, Form.NAME, Form.ANNOTATED})


def find_unknown_references(
    settings: Settings, declaration: Declaration, catalogs: Mapping[str, Catalog], paths: Sequence[str] | None
) -> Iterator[Finding]:
    """An error for each name in the configuration that names nothing, a warning for what resources lack.

    A lack is an error, too, where something of nearly that name is there. `settings` and `declaration` are of all
    clusters, `paths` all files there are; None where not everything was looked at: then what is absent is not known.
    """
    names = KnownNames.of(settings, declaration, catalogs)
    yield from _of_settings(settings.defaults, names)
    for model in settings.models:
        yield from _of_settings(model.settings, names)
    for override in (*settings.overrides, *settings.workloads):
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
        if names.workloads and not any(is_kind_of_serving(key) for key in names.broken):
            yield from _of_workloads(settings, names)


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
        yield from _of_match(override, override.place, subjects, "resource")


def _of_workloads(settings: Settings, names: KnownNames) -> Iterator[Finding]:
    workloads = [each for key, each in names.workloads.items() if is_kind_of_serving(key)]
    for entry in settings.workloads:
        if entry.place is None or any(adopts(entry, workload) for workload in workloads):
            continue
        subjects = {
            "cluster": {cluster.name for cluster in settings.clusters},
            "path": {each.document.path for each in workloads},
            "model": {each.model_id for each in workloads},
            **{key: {str(getattr(each.key, key)) for each in workloads} for key in ("namespace", "kind", "name")},
        }
        yield from _of_match(entry, entry.place, subjects, "serving workload")


def _of_match(entry: Override, place: Place, subjects: Mapping[str, set[str]], noun: str) -> Iterator[Finding]:
    """What fits nothing in an entry's `match`: each key that fits nothing by itself, else all of them together."""
    alone = {key: pattern for key, pattern in entry.match.items() if not _fits(key, pattern, subjects[key])}
    for key, pattern in alone.items():
        hint = suggest(pattern.translate(_GLOB), subjects[key])
        yield unknown(place, f"{quote(pattern)} fits nothing{hint}", field=f"match.{key}")
    if not alone:
        yield unknown(place, f"no {noun} fits all of it", field="match")


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


# Whether Argo CD compares statuses in Git, which clusters never take from there: before 3.0 it does, unless the
# Application or `argocd-cm` says otherwise, and the application stays OutOfSync. Which version runs, Git need not say.

COMPARED_STATUS = "compared-status"
_WITH_STATUS = "VariantAutoscaling"
IGNORED_STATUS: Mapping[str, Value] = {"group": "llmd.ai", "kind": _WITH_STATUS, "jsonPointers": ["/status"]}
"""The entry of `ignoreDifferences` that is the way out."""

_OVERRIDE = "resource.customizations.ignoreDifferences."
_ALL_STATUSES = re.compile(r"ignoreResourceStatusField:\s*[\"']?all\b")
_STATUS_POINTER = re.compile(r"""[\s"'\[,]/status["'\s\],]""")


def find_comparing(fleet: Fleet, settings: Settings) -> Iterator[tuple[Deployer, BuiltObject]]:
    """Each Application that compares the status which we write, or which stands in Git, with one of its objects."""
    if any(_ignores_status(each) for key, found in fleet.objects.items() if key.name == "argocd-cm" for each in found):
        return
    declared: dict[str, list[Deployer]] = {}
    for document in (each for found in fleet.repository.files.values() for each in found):
        for _, _, deployer in written_deployers(fleet.repository, document):
            declared.setdefault(deployer.directory, []).append(deployer)
    seen: set[Place] = set()
    for built in (each for cluster in settings.clusters for each in fleet.of_kinds(cluster.name, [_WITH_STATUS])):
        if settings.status == "off" and "status" not in built.fields:
            continue
        known = fleet.deployer_of(built)
        for deployer in _applications_in(declared, built) if known is None else [known]:
            with suppress(InputError):  # what cannot be read of a deployer is reported where it is followed
                if deployer.spec.place not in seen and compares(deployer, built, ("status",)):
                    seen.add(deployer.spec.place)
                    yield deployer, built


def _applications_in(declared: Mapping[str, list[Deployer]], built: BuiltObject) -> Iterator[Deployer]:
    """What deploys the directory of an object from a file in the paths of no cluster: no build follows that."""
    is_file = is_yaml(built.root.path)
    directory = own = directory_of(built.root.path) if is_file else built.root.path
    while True:
        yield from (each for each in declared.get(directory, ()) if directory == own or (is_file and each.is_recursive))
        if not directory:
            return
        directory = directory_of(directory)


def _ignores_status(config_map: BuiltObject) -> bool:
    data = config_map.value_at("data")
    texts = {
        key: f" {text} " for key, text in (data.items() if isinstance(data, dict) else ()) if isinstance(text, str)
    }
    overrides = (texts.get(f"{_OVERRIDE}{name}", "") for name in ("all", f"llmd.ai_{_WITH_STATUS}"))
    has_option = _ALL_STATUSES.search(texts.get("resource.compareoptions", "")) is not None
    return has_option or any(_STATUS_POINTER.search(text) for text in overrides)


def find_compared_statuses(fleet: Fleet, settings: Settings) -> Iterator[Finding]:
    """A warning for each Application of `find_comparing`."""
    for deployer, built in find_comparing(fleet, settings):
        message = (
            f"Argo CD before 3.0 compares the status of {built.key.kind} {built.key.label} in Git with the cluster's, "
            "and the application stays OutOfSync: let `reconciler init` add {group: llmd.ai, kind: VariantAutoscaling, "
            "jsonPointers: [/status]} to spec.ignoreDifferences, or set ignoreResourceStatusField: all in argocd-cm"
        )
        yield Finding(place=deployer.spec.place, severity=Severity.WARNING, message=message, rule=COMPARED_STATUS)
