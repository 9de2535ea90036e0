"""Who deploys a directory, and what they change on the way: Flux Kustomizations, Argo CD Applications and
ApplicationSets.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Final, TypeAlias

from reconciler.domain.identity import Finding, ResourceKey, Severity, finding_of, path_matches
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
    texts_in,
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

    Followed are list generators, and Git generators on directories and files of this repository, with the template that
    they override. An Application that still has a placeholder is left out.
    """
    spec = source.below("spec")
    # Applications live where their set lives.
    own = value_at(source.value, ("metadata", "namespace"))
    namespace: dict[str, Value] = {} if own is None else {"namespace": own}
    patch = spec.text("templatePatch")
    for number, (parameters, template) in enumerate(_parameters(repository, spec)):
        if number >= _MAX_APPLICATIONS:
            return
        made = _fill(template, parameters)
        text = _fill(patch, parameters)
        if isinstance(text, str) and "{{" in text:
            continue
        for document in (
            parse_documents(source.document.path, text.encode())[:1] if isinstance(text, str) and text else ()
        ):
            made = _overlay(made, document.value)
        if isinstance(made, dict) and not _has_placeholder(made):
            metadata = made.get("metadata")
            names = {**(metadata if isinstance(metadata, dict) else {}), **namespace}
            fields: dict[str, Value] = {**_HEAD, **made, "metadata": names}
            yield SourceField(replace(source.document, value=fields, index=AS_BUILT))


def _overlay(value: Value, over: Value) -> Value:
    """A value overridden by another one; empty members of that one override nothing."""
    if isinstance(value, dict) and isinstance(over, dict):
        members = {key: each for key, each in over.items() if each not in ("", {}, [], None)}
        return {**value, **{key: _overlay(value.get(key), each) for key, each in members.items()}}
    return over


def find_paths(repository: ManifestRepository, source: SourceField) -> Iterator[str]:
    """The paths that an ApplicationSet deploys in a way that cannot be followed, perhaps with placeholders left.

    Clusters are unknown here: their generators add no parameters.
    """
    for parameters, template in _parameters(repository, source.below("spec"), for_clusters=True):
        made = _fill(template, parameters)
        if _has_placeholder(value_at(made, ("spec",))):
            several = value_at(made, ("spec", "sources"))
            for each in (value_at(made, ("spec", "source")), *(several if isinstance(several, list) else ())):
                path = value_at(each, ("path",))
                url = value_at(each, ("repoURL",))
                if isinstance(path, str) and isinstance(url, str) and repository.is_ours(url):
                    yield path


def may_be(text: str, name: str) -> bool:
    """Whether a text with parameters may become a path or a name; an empty text may not."""
    first, *rest = _PARAMETER.split(text.strip("/").removeprefix("./"))
    if not rest or not name.startswith(first):
        return bool(text) and first == name
    *middle, last = rest
    # One after the other: a regular expression with many stars could take for ever.
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
    """What every generator makes, with the template as this generator overrides it."""
    template = spec.below("template").value
    for generator in spec.items("generators"):
        yield from _generated(repository, generator, template)
        if for_clusters:
            yield from _for_clusters(repository, generator, template)


def _generated(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    listed = generator.get("list")
    if listed is not None:
        own = _overlay(template, listed.below("template").value or {})
        for element in listed.items("elements"):
            yield dict(_flatten(element.value, "")), own
    git = generator.get("git")
    if git is not None and repository.is_ours(git.text("repoURL")):
        own = _overlay(template, git.below("template").value or {})
        for parameters in (*_in_directories(repository, git), *_in_files(repository, git)):
            yield parameters, own


def _for_clusters(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    """The templates for each cluster, or for each combination with one."""
    matrix, merge = generator.get("matrix"), generator.get("merge")
    if matrix is not None:
        parts = [list(_each(repository, inner, template)) for inner in matrix.items("generators")]
        for combination in islice(product(*parts), _MAX_APPLICATIONS):
            yield {key: value for each, _ in combination for key, value in each.items()}, template
    elif merge is not None:
        for inner in merge.items("generators"):
            yield from _each(repository, inner, template)
    elif generator.get("list") is None and generator.get("git") is None:
        yield {}, template


def _each(repository: ManifestRepository, generator: SourceField, template: Value) -> Iterator[_Made]:
    yield from _generated(repository, generator, template)
    yield from _for_clusters(repository, generator, template)


def _in_directories(repository: ManifestRepository, git: SourceField) -> Iterator[Mapping[str, str]]:
    entries = [(each.text("path"), each.flag("exclude")) for each in git.items("directories")]
    for directory in repository.directories if entries else ():
        wanted = any(path_matches(pattern, directory) for pattern, excludes in entries if not excludes)
        if directory and wanted and not any(path_matches(pattern, directory) for pattern, out in entries if out):
            yield _path_parameters(directory)


def _in_files(repository: ManifestRepository, git: SourceField) -> Iterator[Mapping[str, str]]:
    patterns = [each.text("path") for each in git.items("files")]
    for path in repository.paths if patterns else ():
        if any(path_matches(pattern, path) for pattern in patterns):
            for document in repository.read(path)[:1]:
                yield {**dict(_flatten(document.value, "")), **_path_parameters(directory_of(path), name_of(path))}


def _path_parameters(directory: str, file: str = "") -> dict[str, str]:
    """The parameters that a path becomes, under the names of both kinds of templates."""
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
"""Fields that choose another cluster, or make the deployer ignore some fields of its objects."""
_DEPLOYERS: Final = frozenset({(FLUX_GROUP, "Kustomization"), (ARGO_GROUP, "Application")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployer:
    """One deployment of one directory: `spec` is of the deployer's object, `source` is it, or one of its sources.

    `namespace` moves every object (Flux), `fallback_namespace` only those without one (Argo CD). `is_recursive` is for
    directories without kustomization. `substitutes`: `${}` is filled in after the build, from `values`; with
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
        """Whether Flux deploys it: it gives a directory without kustomization one."""
        return self.identity.group == FLUX_GROUP

    def is_twin_of(self, other: "Deployer") -> bool:
        """Whether both make the same objects of one directory for one cluster, with no rules of their own."""
        own = (self, other)
        if any(each.labels or each.annotations or each.replicas or each.patches or each.components for each in own):
            return False
        return self.is_flux == other.is_flux and self.result == other.result

    @property
    def result(self) -> tuple[object, ...]:
        """Everything that decides which objects it makes and where, except for rules such as patches."""
        namespace = None if self.namespace is None else self.namespace.value
        names = (self.directory, namespace, self.fallback_namespace, self.name_prefix, self.name_suffix)
        files = (self.is_recursive, self.include, self.exclude, self.substitutes, self.is_filled_elsewhere)
        fields = (value_at(self.spec.value, (key,)) for key in _TARGET_FIELDS)
        return (*names, *files, dict(self.values), *fields)

    def amend(self, kustomization: Kustomization) -> Kustomization:
        """The kustomization with the deployer's own rules written into it, as `kustomize edit set` does."""
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

    None for objects that deploy nothing. InputError for a field without meaning.
    """
    spec = source.get("spec") if (identity.group, identity.kind) in _DEPLOYERS and identity.name else None
    if spec is None:
        return
    if identity.group == FLUX_GROUP:
        yield from _read_flux(repository, identity, spec)
    else:
        yield from _read_argo(repository, identity, spec)


def _read_flux(
    repository: ManifestRepository, identity: ObjectIdentity, spec: SourceField
) -> Iterator[Deployer | Finding]:
    path = resolve("", spec.text("path") or ".")
    if path is None:
        return
    # What a Kustomization deploys from; without a kind it is a Git repository, in its own namespace by default.
    reference = spec.get("sourceRef")
    kind, name, namespace = (reference.text(key) if reference else "" for key in ("kind", "name", "namespace"))
    directory, reason = _locate(
        repository, SourceName(kind=kind or GIT, namespace=namespace or identity.namespace, name=name), path
    )
    if reason:
        is_lost = directory is None
        place = (spec.get("sourceRef") or spec).place
        yield Finding(place=place, severity=Severity.WARNING if is_lost else Severity.NOTE, message=reason)
    elif directory is not None and repository.has_directory(directory):
        yield _flux_deployer(identity, spec, directory)


def _locate(repository: ManifestRepository, source: SourceName, path: str) -> tuple[str | None, str]:
    """The directory of this repository that a path of a source is, or why it is not followed.

    None where it is unknown; with a directory and a reason the path exists here, but means another repository.
    """
    sources = repository.flux_sources
    if source.kind == ARTIFACT:
        found, is_foreign = sources.directories_in(source, path)
        if len(found) == 1:
            return _packed(repository, found.pop()), ""
        words = f"what {source} holds is not told here: what is deployed from it is not read"
        return None, "" if is_foreign else words
    is_ours = sources.is_ours(source)
    if is_ours or (is_ours is None and path):
        return path if source.kind == GIT else _packed(repository, path), ""
    if is_ours is None:
        return "", f"nothing says that {source} is this repository, all of which it would deploy: it is not followed"
    if path and repository.has_directory(path):
        return path, f"{source} is another repository: its {path} is not the one here"
    return None, ""


def _packed(repository: ManifestRepository, path: str) -> str:
    """A path in an image or a bucket: it may be packed from a directory of this repository that ends with it."""
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
        # Flux fills in texts, and numbers without quotes.
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
    sources = [single] if single is not None else list(spec.items("sources"))
    for source in sources:
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
    own: dict[str, SourceField] = {
        key: each for each in reversed(sections) for key in each.mapping() if each.get(key) is not None
    }

    def holding(key: str) -> SourceField:
        """The section that sets a key."""
        return own.get(key, section)

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
        labels=(
            LabelRule(
                labels=holding("commonLabels").leaves("commonLabels"),
                in_selectors=not holding("labelWithoutSelector").flag("labelWithoutSelector"),
                in_templates=holding("labelIncludeTemplates").flag("labelIncludeTemplates"),
            ),
        )
        if "commonLabels" in own
        else (),
        annotations=holding("commonAnnotations").leaves("commonAnnotations"),
        components=tuple(holding("components").items("components")),
    )


def override_sections(
    repository: ManifestRepository, application: str, directory: str, key: str
) -> Iterator[SourceField]:
    """A section of the `.argocd-source` files in an Application's directory, its own file first; they win."""
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
    """The deployers of an object, and what is wrong with it or not followed."""
    try:
        found = list(read_deployers(repository, identity, source))
    except InputError as error:
        return [], [finding_of(error)]
    return [each for each in found if isinstance(each, Deployer)], [each for each in found if isinstance(each, Finding)]


_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-=])([^${}]*))?\}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_COUNTS: Final = frozenset({"replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount"})
"""Fields that hold whole numbers: a number that is filled in without quotes is no text there."""


def find_substituted(value: Value) -> Iterator[Field]:
    """The fields whose text holds `${}`."""
    return (path for path, text in texts_in(value) if "${" in text)


def fill_in(draft: ObjectDraft, paths: Iterable[Field], deployer: Deployer) -> None:
    """Give fields of an object the values that a deployer fills in; unknown ones stay as written."""
    for path in tuple(paths):
        value = draft.value_at(*path)
        text = substitute(value, deployer) if isinstance(value, str) else None
        if text is not None:
            is_number = path[-1:] != () and path[-1] in _COUNTS and _NUMBER.fullmatch(text)
            draft.set(path, int(text) if is_number else text)
    draft.identity = identify(draft.fields)


def substitute(text: str, deployer: Deployer) -> str | None:
    """A text with every variable filled in; None where one is not known, or is more than a name and a default."""
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
