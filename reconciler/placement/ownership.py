"""Other owners of a number: autoscalers, and deployers that are configured to ignore it."""

from collections.abc import Iterator
from typing import Final

from reconciler.domain.identity import Place, ResourceKey, finding_of
from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.wording import Field
from reconciler.placement.deployers import APPLICATION_SET, Deployer, may_be
from reconciler.placement.fleet import Fleet, named_target, source_as_built
from reconciler.placement.kustomization import Selector, Unclear
from reconciler.placement.kustomize_patches import unescape
from reconciler.placement.objects import BuiltObject, ObjectDraft, ObjectIdentity, SourceField, identify, split_version
from reconciler.resources.registry import AUTOSCALERS
from reconciler.resources.validation import is_templated

_PAUSED: Final = "autoscaling.keda.sh/paused"
_RESPECT: Final = "RespectIgnoreDifferences=true"
_FLUX: Final = "kustomize.toolkit.fluxcd.io"
# Annotations of Flux about the whole object, by their values in lower case.
_UNAPPLIED: Final = {
    (f"{_FLUX}/ssa", "ignore"): "Flux ignores it",
    (f"{_FLUX}/ssa", "ifnotpresent"): "Flux applies it only if it does not exist",
    (f"{_FLUX}/reconcile", "disabled"): "Flux ignores it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Another owner of a number, in words, and its place.

    `is_autoscaler`: its own bounds can be proposed instead (`whenAutoscaled: bounds`); `key` is its name.
    """

    reason: str
    place: Place
    is_autoscaler: bool = False
    key: ResourceKey | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})"


def owners_of(fleet: Fleet, key: ResourceKey, path: Field) -> Iterator[Owner]:
    """Everything else that writes a field of a scale target, or prevents our value from being applied.

    The target need not be built here: a chart may generate it.
    """
    reference = ("spec", "scaleTargetRef")
    for built in fleet.of_kinds(key.cluster, AUTOSCALERS):
        kind = built.value_at(*reference, "kind")
        if built.key.kind == "ScaledObject":
            kind = kind or "Deployment"
            if built.value_at("metadata", "annotations", _PAUSED) == "true":
                continue
        is_ours = built.key.namespace == key.namespace and built.value_at(*reference, "name") == key.name
        if is_ours and kind == key.kind:
            words = f"replicas are owned by {built.key.kind} {built.key.name}"
            yield Owner(reason=words, place=built.place_of(reference), is_autoscaler=True, key=built.key)
    yield from possible_owners(fleet, key)
    for built in fleet.objects.get(key, ()):
        annotations = built.value_at("metadata", "annotations")
        for (name, value), words in _UNAPPLIED.items():
            found = annotations.get(name) if isinstance(annotations, dict) else None
            if isinstance(found, str) and found.lower() == value:
                place = built.place_of(("metadata", "annotations", name))
                yield Owner(reason=f"{words}: {name}: {found}", place=place)
        deployer = fleet.deployer_of(built)
        if deployer is not None:
            yield from _ignoring(deployer, identify(built.fields), built, path)
        else:
            yield from _ignoring_sets(fleet, built, path)
    for release in fleet.of_kinds(key.cluster, ("HelmRelease",)):
        is_near = release.key.namespace == key.namespace
        if is_near and release.value_at("spec", "driftDetection", "ignore") is not None:
            yield from _drift(release, key, path)


def possible_owners(fleet: Fleet, key: ResourceKey) -> Iterator[Owner]:
    """Objects with a templated target that may be this one."""
    for built in fleet.templated_scalers(key.cluster):
        reference = ("spec", "scaleTargetRef")
        namespace, kind = built.key.namespace, built.value_at(*reference, "kind") or "Deployment"
        is_near = namespace == key.namespace or is_templated(namespace)
        is_alike = kind == key.kind or is_templated(kind)
        name = named_target(built)
        if is_near and is_alike and isinstance(name, str) and may_be(name, key.name):
            words = f"replicas may be owned by {built.key.kind} {built.key.name}: its target is filled in by a template"
            yield Owner(reason=words, place=built.place_of(reference))


def _ignoring(deployer: Deployer, identity: ObjectIdentity, built: BuiltObject, path: Field) -> Iterator[Owner]:
    try:
        if deployer.is_flux:
            for entry in deployer.spec.items("ignore"):
                if _names_any(entry, "paths", path) and _targets(entry, built):
                    yield Owner(reason=f"{deployer} ignores it", place=entry.place)
        else:
            yield from _argo_ignoring(deployer.spec, str(deployer), identity, path)
    except InputError as error:
        yield _unreadable(str(deployer), error)


def _unreadable(name: str, error: InputError) -> Owner:
    return Owner(
        reason=f"the fields that {name} ignores cannot be read: {error.message}", place=finding_of(error).place
    )


def _targets(entry: SourceField, built: BuiltObject) -> bool:
    """Whether an entry's target selects an object, or may select it."""
    target = entry.get("target")
    draft = ObjectDraft(fields=built.fields, source=built.source, trace=built.trace, identity=identify(built.fields))
    try:
        return target is None or Selector.read(target).selects(draft)
    except Unclear:
        return True


def has_sets(fleet: Fleet, cluster: str) -> bool:
    """Whether an ApplicationSet may deploy objects without a known deployer."""
    return next(fleet.of_kinds(cluster, (APPLICATION_SET,)), None) is not None


def _ignoring_sets(fleet: Fleet, built: BuiltObject, path: Field) -> Iterator[Owner]:
    """Fields ignored by ApplicationSets whose Applications cannot be followed and may have the object's root."""
    for each in fleet.of_kinds(built.key.cluster, (APPLICATION_SET,)):
        source, name = source_as_built(each).below("spec"), f"ApplicationSet {each.key.label}"
        try:
            template = source.below("template", "spec")
            paths = [found.text("path") for found in (template.get("source"), *template.items("sources")) if found]
            if any(_may_be_in(text, built.root.path) for text in paths):
                for spec in (template, *_overriding(source.below("generators"))):
                    yield from _argo_ignoring(spec, name, identify(built.fields), path)
                # The patch of a set may be a template: only its words can be compared.
                patch = source.text("templatePatch")
                if "ignoreDifferences" in patch and str(path[-1]) in patch:
                    words = f"{name} may ignore differences of it: its templatePatch mentions them"
                    yield Owner(reason=words, place=source.below("templatePatch").place)
        except InputError as error:
            yield _unreadable(name, error)


def _overriding(source: SourceField) -> Iterator[SourceField]:
    """The templates of generators and of their inner ones, which override the set's own."""
    for entry in source.members():
        for key, member in entry.value.items() if isinstance(entry.value, dict) else ():
            if isinstance(member, dict):
                generator = entry.below(key)
                yield generator.below("template", "spec")
                yield from _overriding(generator.below("generators"))


def _may_be_in(text: str, root: str) -> bool:
    """Whether a path with parameters may mean a root or a directory that holds it."""
    parts = root.split("/")
    return any(may_be(text, "/".join(parts[: number + 1])) for number in range(len(parts)))


def compares(deployer: Deployer, built: BuiltObject, path: Field) -> bool:
    """Whether an Application of Argo CD compares a field of an object with the cluster's.

    Entries about managers do not count: no manager has what the cluster does not have.
    """
    if deployer.is_flux:
        return False
    entries = _ignoring_entries(deployer.spec, identify(built.fields))
    return not any(_names_any(entry, "jsonPointers", path) or _queries(entry, path) for entry in entries)


def _ignoring_entries(spec: SourceField, identity: ObjectIdentity) -> Iterator[SourceField]:
    """The entries of `ignoreDifferences` that are about an object."""
    own = identity.effective
    wanted = {"group": own.group, "kind": own.kind, "name": own.name, "namespace": own.namespace}
    for entry in spec.items("ignoreDifferences"):
        if all(entry.text(key) in {"", "*", value} for key, value in wanted.items()):
            yield entry


def _argo_ignoring(spec: SourceField, deployer: str, identity: ObjectIdentity, path: Field) -> Iterator[Owner]:
    for entry in _ignoring_entries(spec, identity):
        managers = any(True for _ in entry.items("managedFieldsManagers"))
        if managers or _names_any(entry, "jsonPointers", path) or _queries(entry, path):
            policy = spec.get("syncPolicy")
            options = () if policy is None else policy.items("syncOptions")
            is_kept = any(option.value == _RESPECT for option in options)
            words = "and keeps the cluster's value" if is_kept else "in its comparison"
            yield Owner(reason=f"{deployer} ignores differences of it {words}", place=entry.place)


def _names_any(entry: SourceField, key: str, path: Field) -> bool:
    """Whether a list of JSON pointers names a field, or something that holds it."""
    pointers = ([unescape(part) for part in each.as_text().split("/")[1:]] for each in entry.items(key))
    return any(parts == [str(part) for part in path[: len(parts)]] for parts in pointers)


def _queries(entry: SourceField, path: Field) -> bool:
    """Whether a jq path names a field; one that is more than names and dots may."""
    for query in entry.items("jqPathExpressions"):
        text = query.as_text().strip()
        names = text.removeprefix(".").split(".") if text != "." else []
        if not all(name.replace("_", "").replace("-", "").isalnum() for name in names):
            return str(path[-1]) in text
        if names == [str(part) for part in path[: len(names)]]:
            return True
    return False


def _drift(release: BuiltObject, key: ResourceKey, path: Field) -> Iterator[Owner]:
    """Fields of a chart's objects that a HelmRelease is configured not to correct."""
    group, _ = split_version(release.api_version)
    mode = release.value_at("spec", "driftDetection", "mode")
    if group != "helm.toolkit.fluxcd.io" or release.key.namespace != key.namespace or mode in {None, "disabled"}:
        return
    try:
        section = source_as_built(release).below("spec", "driftDetection")
        for entry in section.items("ignore"):
            target = entry.get("target")
            selector = Selector() if target is None else Selector.read(target)
            is_meant = selector.kind in {"", key.kind} and selector.name in {"", key.name}
            if is_meant and _names_any(entry, "paths", path):
                yield Owner(reason=f"HelmRelease {release.key.label} does not correct it", place=entry.place)
    except InputError:
        return
