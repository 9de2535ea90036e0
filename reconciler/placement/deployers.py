"""The deployers of directories and their changes: Flux Kustomizations, Argo CD Applications and ApplicationSets."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice, product
from typing import Final, TypeAlias

from reconciler.domain.identity import Finding, ResourceKey, Severity, finding_of, path_matches
from reconciler.domain.records import dataclass, replace
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, parse_documents, value_at
from reconciler.manifests.wording import Field
from reconciler.placement.kustomization import (
    Kustomization,
    LabelRule,
    PatchRule,
    ReplicaRule,
    read_patches,
    read_replicas,
)
from reconciler.placement.objects import (
    AS_BUILT,
    ObjectDraft,
    ObjectIdentity,
    OriginKind,
    SourceField,
    identify,
)
from reconciler.placement.repository import (
    ARTIFACT,
    GIT,
    ManifestRepository,
    SourceName,
    directory_of,
    join,
    name_of,
    resolve,
)

APPLICATION_SET: Final = "ApplicationSet"
_HEAD: Final[Mapping[str, Value]] = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
_PLACEHOLDER: Final = re.compile(r"\{\{-?\s*\.?([A-Za-z0-9_.\[\]-]+?)\s*-?\}\}")
_PARAMETER: Final = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")
_MAX_APPLICATIONS: Final = 5_000


def make_applications(repository: ManifestRepository, source: SourceField) -> Iterator[SourceField]:
    """The Applications of an ApplicationSet, each as the root of a document of its own.

    List generators, and Git generators on directories and files of this repository are supported, with the templates
    that they override. An Application with an unknown placeholder is left out.
    """
    spec = source.below("spec")
    own = value_at(source.value, ("metadata", "namespace"))
    namespace: dict[str, Value] = {} if own is None else {"namespace": own}  # that of the set
    patch = spec.text("templatePatch")
    for number, (parameters, template) in enumerate(_parameters(repository, spec)):
        if number >= _MAX_APPLICATIONS:
            return
        made = _fill(template, parameters)
        text = _fill(patch, parameters)
        if isinstance(text, str) and "{{" in text:
            continue
        if isinstance(text, str) and text:
            for document in parse_documents(source.document.path, text.encode())[:1]:
                made = _overlay(made, document.value)
        if isinstance(made, dict) and not _has_placeholder(made):
            metadata = made.get("metadata")
            names = {**(metadata if isinstance(metadata, dict) else {}), **namespace}
            fields: dict[str, Value] = {**_HEAD, **made, "metadata": names}
            yield SourceField(replace(source.document, value=fields, index=AS_BUILT))


def _overlay(value: Value, over: Value) -> Value:
    """A value overridden by another one; its empty members override nothing."""
    if isinstance(value, dict) and isinstance(over, dict):
        members = {key: each for key, each in over.items() if each not in ("", {}, [], None)}
        return {**value, **{key: _overlay(value.get(key), each) for key, each in members.items()}}
    return over


def find_paths(repository: ManifestRepository, source: SourceField) -> Iterator[str]:
    """The paths that an ApplicationSet deploys in a way that cannot be followed, perhaps with placeholders left.

    Clusters are unknown here: their generators add no parameters.
    """
    for parameters, template in _parameters(repository, source.below("spec"), for_clusters=True):
        made = value_at(_fill(template, parameters), ("spec",))
        if _has_placeholder(made):
            several = value_at(made, ("sources",))
            for each in (value_at(made, ("source",)), *(several if isinstance(several, list) else ())):
                path, url = value_at(each, ("path",)), value_at(each, ("repoURL",))
                if isinstance(path, str) and isinstance(url, str) and repository.is_ours(url):
                    yield path


def may_be(text: str, name: str) -> bool:
    """Whether a text with parameters may become a path or a name; an empty text may not."""
    first, *rest = _PARAMETER.split(text.strip("/").removeprefix("./"))
    if not rest or not name.startswith(first):
        return bool(text) and first == name
    *middle, last = rest
    # One after the other: a regular expression with many stars could take forever.
    position, end = len(first), len(name) - len(last)
    for part in middle:
        position = name.find(part, position, max(end, 0))
        if position < 0:
            return False
        position += len(part)
    return position <= end and name.endswith(last)


def has_own_text(text: str) -> bool:
    """Whether a text holds more than parameters and separators."""
    return bool(_PARAMETER.sub("", text).strip("/. "))


_Made: TypeAlias = tuple[Mapping[str, str], Value]


def _parameters(repository: ManifestRepository, spec: SourceField, *, for_clusters: bool = False) -> Iterator[_Made]:
    template = spec.below("template").value
    for generator in spec.items("generators"):
        yield from (_for_clusters if for_clusters else _generated)(repository, generator, template)


def _generated(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    listed = generator.get("list")
    if listed is not None:
        own = _overlay(template, listed.below("template").value or {})
        for element in listed.items("elements"):
            yield dict(_flatten(element.value, "")), own
    git = generator.get("git")
    if git is None or not repository.is_ours(git.text("repoURL")):
        return
    own = _overlay(template, git.below("template").value or {})
    entries = [(each.text("path"), each.flag("exclude")) for each in git.items("directories")]
    for directory in repository.directories if entries else ():
        matching = {is_excluded for pattern, is_excluded in entries if path_matches(pattern, directory)}
        if directory and matching == {False}:
            yield _path_parameters(directory), own
    patterns = [each.text("path") for each in git.items("files")]
    for path in repository.paths if patterns else ():
        if any(path_matches(pattern, path) for pattern in patterns):
            for document in repository.read(path)[:1]:
                parameters = dict(_flatten(document.value, ""))
                yield {**parameters, **_path_parameters(directory_of(path), name_of(path))}, own


def _for_clusters(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    """The same with the templates for each cluster, or for each combination with one."""
    yield from _generated(repository, generator, template)
    matrix, merge = generator.get("matrix"), generator.get("merge")
    if matrix is not None:
        parts = [list(_for_clusters(repository, inner, template)) for inner in matrix.items("generators")]
        for combination in islice(product(*parts), _MAX_APPLICATIONS):
            yield {key: value for each, _ in combination for key, value in each.items()}, template
    elif merge is not None:
        for inner in merge.items("generators"):
            yield from _for_clusters(repository, inner, template)
    elif generator.get("list") is None and generator.get("git") is None:
        yield {}, template


def _path_parameters(directory: str, file: str = "") -> dict[str, str]:
    """The parameters of a path, under the names of both kinds of templates."""
    base = name_of(directory)
    parameters = {"path": directory, "path.path": directory, "path.basename": base, "path.basenameNormalized": base}
    for index, segment in enumerate(directory.split("/")):
        parameters[f"path[{index}]"] = segment
    return {**parameters, "path.filename": file} if file else parameters


def _flatten(value: Value, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flatten(member, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, bool):
        yield prefix, "true" if value else "false"
    elif isinstance(value, str | int | float):
        yield prefix, str(value)


def _fill(value: Value, parameters: Mapping[str, str]) -> Value:
    if isinstance(value, dict):
        return {key: _fill(member, parameters) for key, member in value.items()}
    if isinstance(value, list):
        return [_fill(item, parameters) for item in value]
    if isinstance(value, str) and "{{" in value:
        return _PLACEHOLDER.sub(lambda match: parameters.get(match[1], match[0]), value)
    return value


def _has_placeholder(value: Value) -> bool:
    if isinstance(value, dict):
        return any(map(_has_placeholder, value.values()))
    if isinstance(value, list):
        return any(map(_has_placeholder, value))
    return isinstance(value, str) and "{{" in value


FLUX_GROUP: Final = "kustomize.toolkit.fluxcd.io"
ARGO_GROUP: Final = "argoproj.io"
DEPLOYER_KINDS: Final = frozenset({"Kustomization", "Application"})
_TARGET_FIELDS: Final = ("destination", "kubeConfig", "ignore", "ignoreDifferences")
"""Fields that select another cluster, or fields to ignore."""
_DEPLOYERS: Final = frozenset({(FLUX_GROUP, "Kustomization"), (ARGO_GROUP, "Application")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployer:
    """One deployment of one directory: `spec` is that of the deployer's object, `source` the same or a source in it.

    `namespace` is set on every object (Flux), `fallback_namespace` only on those without one (Argo CD). `is_recursive`
    is for directories without kustomization. `substitutes`: `${}` is replaced after the build, from `values`; with
    `is_filled_elsewhere` also from objects that are not read.
    """

    identity: ObjectIdentity
    spec: SourceField
    source: SourceField
    directory: str
    is_recursive: bool = True
    namespace: SourceField | None = None
    fallback_namespace: str = ""
    name_prefix: str = ""
    name_suffix: str = ""
    labels: tuple[LabelRule, ...] = ()
    annotations: Mapping[str, SourceField] | None = None
    replicas: tuple[ReplicaRule, ...] = ()
    patches: tuple[PatchRule, ...] = ()
    components: tuple[SourceField, ...] = ()
    substitutes: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    is_filled_elsewhere: bool = False
    include: str = ""
    exclude: str = ""

    def __str__(self) -> str:
        return str(self.identity)

    def key_in(self, cluster: str) -> ResourceKey:
        """The deployer's own object in a cluster."""
        own = self.identity.effective
        return ResourceKey(cluster=cluster, namespace=own.namespace, kind=own.kind, name=own.name)

    @property
    def is_flux(self) -> bool:
        """Whether Flux deploys it, and generates missing kustomizations."""
        return self.identity.group == FLUX_GROUP

    def is_twin_of(self, other: "Deployer") -> bool:
        """Whether both make the same objects of one directory for one cluster, with no rules of their own."""

        def result(each: Deployer) -> tuple[object, ...]:
            namespace = None if each.namespace is None else each.namespace.value
            names = (each.directory, namespace, each.fallback_namespace, each.name_prefix, each.name_suffix)
            files = (each.is_recursive, each.include, each.exclude, each.substitutes, each.is_filled_elsewhere)
            fields = (value_at(each.spec.value, (key,)) for key in _TARGET_FIELDS)
            return (each.is_flux, *names, *files, dict(each.values), *fields)

        rules = [
            (each.labels, each.annotations, each.replicas, each.patches, each.components) for each in (self, other)
        ]
        return not any(map(any, rules)) and result(self) == result(other)

    def amend(self, kustomization: Kustomization) -> Kustomization:
        """The kustomization with the deployer's own rules added, as by `kustomize edit set`."""
        counted = {rule.name for rule in self.replicas}
        return replace(
            kustomization,
            namespace=self.namespace or kustomization.namespace,
            name_prefix=self.name_prefix or kustomization.name_prefix,
            name_suffix=self.name_suffix or kustomization.name_suffix,
            labels=(*kustomization.labels, *self.labels),
            annotations={**(kustomization.annotations or {}), **(self.annotations or {})},
            replicas=(*(rule for rule in kustomization.replicas if rule.name not in counted), *self.replicas),
            patches=(*kustomization.patches, *self.patches),
            components=(*kustomization.components, *self.components),
        )


def read_deployers(
    repository: ManifestRepository, identity: ObjectIdentity, source: SourceField
) -> Iterator[Deployer | Finding]:
    """The directories of this repository that an object deploys, and findings for those that are not followed.

    Empty for objects that deploy nothing. InputError for an invalid field.
    """
    spec = source.get("spec") if (identity.group, identity.kind) in _DEPLOYERS and identity.name else None
    if spec is None:
        return
    if identity.group != FLUX_GROUP:
        yield from _read_argo(repository, identity, spec)
        return
    path = resolve("", spec.text("path") or ".")
    if path is None:
        return
    # Without a kind the source is a Git repository, in the Kustomization's own namespace by default.
    reference = spec.get("sourceRef")
    kind, name, namespace = (reference.text(key) if reference else "" for key in ("kind", "name", "namespace"))
    named = SourceName(kind=kind or GIT, namespace=namespace or identity.namespace, name=name)
    directory, reason = _locate(repository, named, path)
    if reason:
        severity = Severity.WARNING if directory is None else Severity.NOTE
        yield Finding(place=(spec.get("sourceRef") or spec).place, severity=severity, message=reason)
    elif directory is not None and repository.has_directory(directory):
        yield _flux_deployer(identity, spec, directory)


def _locate(repository: ManifestRepository, source: SourceName, path: str) -> tuple[str | None, str]:
    """The directory of this repository for a path of a source, or why it is not followed.

    None if unknown; with a directory and a reason the path exists here, but means another repository.
    """
    sources = repository.flux_sources
    if source.kind == ARTIFACT:
        found, is_foreign = sources.directories_in(source, path)
        if len(found) == 1:
            return _packed(repository, found.pop()), ""
        words = f"the content of {source} is not known here: deployments from it are not read"
        return None, "" if is_foreign else words
    is_ours = sources.is_ours(source)
    if is_ours or (is_ours is None and path):
        return path if source.kind == GIT else _packed(repository, path), ""
    if is_ours is None:
        return "", f"{source} would deploy all of this repository, if it is this one: it is not followed"
    if path and repository.has_directory(path):
        return path, f"{source} is another repository: its {path} is not the one here"
    return None, ""


def _packed(repository: ManifestRepository, path: str) -> str:
    """A path in an image or a bucket, which may be packed from a directory of this repository that ends with it."""
    if repository.has_directory(path):
        return path
    found = [directory for directory in repository.directories if directory.endswith(f"/{path}")]
    return found[0] if len(found) == 1 else path


def _flux_deployer(identity: ObjectIdentity, spec: SourceField, directory: str) -> Deployer:
    post_build, common, own = spec.below("postBuild"), spec.below("commonMetadata"), spec.of_kind(OriginKind.DEPLOYER)
    labels = common.leaves("labels")
    values = post_build.below("substitute").value
    return Deployer(
        identity=identity,
        spec=spec,
        source=spec,
        directory=directory,
        namespace=own.get("targetNamespace"),
        name_prefix=spec.text("namePrefix"),
        name_suffix=spec.text("nameSuffix"),
        labels=(LabelRule(labels=labels),) if labels else (),
        annotations=common.leaves("annotations"),
        patches=tuple(read_patches(spec.of_kind(OriginKind.PATCH), directory)),
        components=tuple(own.items("components")),
        substitutes=post_build.value not in ({}, None),
        # Flux substitutes texts, and numbers without quotes.
        values={
            name: str(each)
            for name, each in (values.items() if isinstance(values, dict) else ())
            if isinstance(each, str | int) and not isinstance(each, bool)
        },
        is_filled_elsewhere=any(True for _ in post_build.items("substituteFrom")),
    )


def _read_argo(
    repository: ManifestRepository, identity: ObjectIdentity, spec: SourceField
) -> Iterator[Deployer | Finding]:
    single = spec.get("source")
    for source in [single] if single is not None else spec.items("sources"):
        path = source.text("path")
        directory = resolve("", path) if path else None
        if directory is None or not repository.has_directory(directory):
            continue
        if repository.is_ours(source.text("repoURL")):
            yield _read_argo_source(repository, identity, spec, source, directory)
        elif directory:
            words = f"its repoURL is another repository: its {directory} is not the one here"
            yield Finding(place=source.below("repoURL").place, severity=Severity.NOTE, message=words)


def _read_argo_source(
    repository: ManifestRepository, identity: ObjectIdentity, spec: SourceField, source: SourceField, directory: str
) -> Deployer:
    plain = source.below("directory")
    section = source.below("kustomize").of_kind(OriginKind.DEPLOYER)
    overriding = override_sections(repository, identity.name, directory, "kustomize")
    sections = [*overriding, *(() if section.value is None else (section,))]
    setting: dict[str, SourceField] = {}
    for each in reversed(sections):
        setting.update((key, each) for key in each.mapping() if each.get(key) is not None)

    def holding(key: str) -> SourceField:
        return setting.get(key, section)

    labels: tuple[LabelRule, ...] = ()
    if "commonLabels" in setting:
        rule = LabelRule(
            labels=holding("commonLabels").leaves("commonLabels"),
            in_selectors=not holding("labelWithoutSelector").flag("labelWithoutSelector"),
            in_templates=holding("labelIncludeTemplates").flag("labelIncludeTemplates"),
        )
        labels = (rule,)

    return Deployer(
        identity=identity,
        spec=spec,
        source=source,
        directory=directory,
        is_recursive=plain.flag("recurse"),
        include=plain.text("include"),
        exclude=plain.text("exclude"),
        namespace=holding("namespace").get("namespace"),
        fallback_namespace=spec.below("destination").text("namespace"),
        name_prefix=holding("namePrefix").text("namePrefix"),
        name_suffix=holding("nameSuffix").text("nameSuffix"),
        replicas=tuple(read_replicas(holding("replicas"), OriginKind.DEPLOYER)),
        patches=tuple(read_patches(holding("patches").of_kind(OriginKind.PATCH), directory)),
        labels=labels,
        annotations=holding("commonAnnotations").leaves("commonAnnotations"),
        components=tuple(holding("components").items("components")),
    )


def override_sections(
    repository: ManifestRepository, application: str, directory: str, key: str
) -> Iterator[SourceField]:
    """A section of the `.argocd-source` files in an Application's directory, which win; its own file first."""
    for name in (f".argocd-source-{application}.yaml", ".argocd-source.yaml"):
        path = join(directory, name)
        if not repository.has_file(path):
            continue
        for document in repository.read(path):
            root = SourceField(document, (), OriginKind.DEPLOYER)
            member = root.get(key) if isinstance(document.value, dict) else None
            if member is not None:
                yield member


def try_read(
    repository: ManifestRepository, identity: ObjectIdentity, source: SourceField
) -> tuple[list[Deployer], list[Finding]]:
    """The deployers of an object, and findings about it."""
    try:
        found = list(read_deployers(repository, identity, source))
    except InputError as error:
        return [], [finding_of(error)]
    return [each for each in found if isinstance(each, Deployer)], [each for each in found if isinstance(each, Finding)]


_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-=])([^${}]*))?\}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_COUNTS: Final = frozenset({"replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount"})
"""Fields of whole numbers: a number that is substituted without quotes is not a text there."""


def fill_in(draft: ObjectDraft, paths: Iterable[Field], deployer: Deployer) -> None:
    """Set fields of an object to the values that a deployer substitutes; unknown ones stay as written."""
    for path in tuple(paths):
        value = draft.value_at(*path)
        text = substitute(value, deployer) if isinstance(value, str) else None
        if text is not None:
            is_number = path[-1:] != () and path[-1] in _COUNTS and _NUMBER.fullmatch(text)
            draft.set(path, int(text) if is_number else text)
    draft.identity = identify(draft.fields)


def substitute(text: str, deployer: Deployer) -> str | None:
    """A text with all variables replaced; None if one is unknown, or is more than a name and a default."""
    unknown = False

    def value_of(found: re.Match[str]) -> str:
        nonlocal unknown
        name, default = found[1], found[3]
        if name in deployer.values:
            return deployer.values[name]
        unknown = unknown or default is None or deployer.is_filled_elsewhere
        return default or ""

    filled = _VARIABLE.sub(value_of, text)
    return None if unknown or "${" in filled else filled
