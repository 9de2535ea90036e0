"""What a kustomization does to all objects: names, labels, images, counts, references, generators."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from reconciler.manifests.documents import Value, value_at
from reconciler.manifests.wording import Field, join_words, quote
from reconciler.placement.kustomization import ImageRule, Kustomization, LabelRule, ReplicaRule
from reconciler.placement.kustomize_patches import missing
from reconciler.placement.objects import ObjectDraft, ObjectIdentity, Obstacle, OriginKind, SourceField, SourceTrace
from reconciler.placement.repository import ManifestRepository, resolve

_FOLLOWED: Final = frozenset({"nameReference", "replicas", "images"})
# Only for `$(NAME)`, which is told where it stands.
_HARMLESS: Final = frozenset({"varReference"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """A field of a kind; lists on the way are walked through. An empty group, version or kind fits all."""

    path: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""
    creates: bool = False

    def fits(self, identity: ObjectIdentity) -> bool:
        """Whether an object of that name is meant."""
        own = ((self.group, identity.group), (self.version, identity.version), (self.kind, identity.kind))
        return all(not wanted or wanted == found for wanted, found in own)

    def expand(self, value: Value) -> Iterator[Field]:
        """The places of the field in an object: one, or one for each item of a list on the way."""
        yield from _expand(value, self.path, creates=self.creates)


def _expand(value: Value, parts: tuple[str, ...], *, creates: bool) -> Iterator[Field]:
    if not parts:
        yield ()
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ((index, *rest) for rest in _expand(item, parts, creates=creates))
    elif isinstance(value, dict) and (parts[0] in value or creates):
        yield from ((parts[0], *rest) for rest in _expand(value.get(parts[0], {}), parts[1:], creates=creates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What configurations add to Kustomize's own: fields that name objects of a kind, hold counts, or hold images."""

    name_references: tuple[tuple[str, FieldRule], ...] = ()
    replicas: tuple[FieldRule, ...] = ()
    images: tuple[FieldRule, ...] = ()

    def __or__(self, other: "Configuration") -> "Configuration":
        """Both: what a base adds holds for those who gather it."""
        return Configuration(
            name_references=tuple(dict.fromkeys((*self.name_references, *other.name_references))),
            replicas=tuple(dict.fromkeys((*self.replicas, *other.replicas))),
            images=tuple(dict.fromkeys((*self.images, *other.images))),
        )


def read_configurations(
    repository: ManifestRepository, kustomization: Kustomization
) -> tuple[Configuration, list[tuple[SourceField, FieldRule | None]]]:
    """What a kustomization's configurations say, and the rules in them that are not followed, None for all objects.

    InputError for a file that is not there or makes no sense.
    """
    whole = Configuration()
    unfollowed: list[tuple[SourceField, FieldRule | None]] = []
    for entry in kustomization.configurations:
        path = resolve(kustomization.directory, entry.as_text())
        if path is None or not repository.has_file(path):
            raise entry.error(f"there is no file {quote(entry.as_text())}")
        for document in repository.read(path):
            source = SourceField(document, (), OriginKind.PLAIN)
            for key in source.mapping():
                unfollowed += () if key in _FOLLOWED | _HARMLESS else _unfollowed(source.below(key))
            whole |= Configuration(
                name_references=tuple(
                    (reference.text("kind"), _rule(rule))
                    for reference in source.items("nameReference")
                    for rule in reference.items("fieldSpecs")
                ),
                replicas=tuple(_rule(each) for each in source.items("replicas")),
                images=tuple(_rule(each) for each in source.items("images")),
            )
    return whole, unfollowed


def _unfollowed(source: SourceField) -> Iterator[tuple[SourceField, FieldRule | None]]:
    value = source.value
    if not isinstance(value, list):
        yield source, None
        return
    yield from ((each, _rule(each)) for each in source.members())


def _rule(source: SourceField) -> FieldRule:
    return FieldRule(
        path=tuple(part.removesuffix("[]") for part in source.text("path").split("/") if part),
        group=source.text("group"),
        version=source.text("version"),
        kind=source.text("kind"),
        creates=source.flag("create"),
    )


# ConfigMaps and Secrets that Kustomize makes itself, or adds to: known by name, their content is not read. The hash
# behind a generated name is left out: nothing here is called by it.

_UNREAD = "it is generated: its content is not read"
_MERGE, _REPLACE = "merge", "replace"


def generate(kind: str, entry: SourceField, drafts: list[ObjectDraft]) -> None:
    """Make what an entry says, or merge it into what is there; InputError where Kustomize fails."""
    identity = ObjectIdentity("", "v1", kind, entry.text("namespace"), entry.text("name"))
    behavior = entry.text("behavior")
    found = [draft for draft in drafts if draft.is_or_was(identity.effective)]
    if behavior not in {_MERGE, _REPLACE}:  # Kustomize takes any other word for `create`
        drafts.append(_made(identity, entry))
    elif len(found) == 1:
        _add(found[0], entry, replaces=behavior == _REPLACE)
    elif found:
        raise entry.error(f"expected one {identity} to {behavior}, got {len(found)}")
    else:
        drafts.append(_made(identity, entry))
        raise missing(entry, f"there is no {identity} to {behavior}")


def _made(identity: ObjectIdentity, entry: SourceField) -> ObjectDraft:
    metadata: dict[str, Value] = {"name": identity.name}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    fields: dict[str, Value] = {"apiVersion": "v1", "kind": identity.kind, "metadata": metadata}
    literals = _literals(entry)
    if literals:
        fields["data"] = literals
    obstacle = Obstacle(reason=_UNREAD, place=entry.place)
    return ObjectDraft(
        fields=fields, source=entry, trace=SourceTrace((entry,)), identity=identity, obstacles=[obstacle]
    )


def _add(draft: ObjectDraft, entry: SourceField, *, replaces: bool) -> None:
    """Literals are known by their keys; what comes from files may be any of the rest."""
    path: Field = ("data",)
    old = draft.value_at(*path)
    literals = _literals(entry)
    kept = old if isinstance(old, dict) and not replaces else {}
    if literals or replaces:
        draft.set(path, {**kept, **literals})
    is_all = replaces or any(entry.get(key) is not None for key in ("files", "envs", "env"))
    changed: list[Field] = [path] if is_all else [(*path, key) for key in literals]
    draft.obstacles += [Obstacle(reason=_UNREAD, place=entry.place, field=each) for each in changed]


def _literals(entry: SourceField) -> dict[str, Value]:
    pairs = (each.as_text().partition("=") for each in entry.items("literals"))
    return {key: value.strip("\"'") for key, _, value in pairs}


# Kinds whose names stay as they are: others call them by it.
_UNAFFIXED: Final = frozenset({"CustomResourceDefinition", "APIService", "Namespace"})
SCALED_KINDS: Final = ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet")
_REPLICA_FIELDS: Final = tuple(FieldRule(path=("spec", "replicas"), kind=kind, creates=True) for kind in SCALED_KINDS)
_WORKLOADS: Final = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
_TEMPLATED: Final = (*_WORKLOADS, "ReplicationController", "Job")
_CRON_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template", "metadata")
_POD: Final = ("spec", "template", "spec")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_AFFINITIES: Final = (
    *((*_POD, "affinity", each, _REQUIRED) for each in ("podAffinity", "podAntiAffinity")),
    *((*_POD, "affinity", each, _PREFERRED, "podAffinityTerm") for each in ("podAffinity", "podAntiAffinity")),
    (*_POD, "topologySpreadConstraints"),
)
_IMAGE: Final = re.compile(r"(?P<name>[^@]*?)(?P<tag>:[^:/@]*)?(?P<digest>@.*)?", re.DOTALL)
_SUBJECT_KINDS: Final = ("RoleBinding", "ClusterRoleBinding")


def set_namespace(drafts: Sequence[ObjectDraft], namespace: str) -> None:
    """Put every object that can be in a namespace into this one; a Namespace itself takes the name."""
    for draft in drafts:
        identity = draft.identity
        if identity.kind == "Namespace" and identity.group == "":
            draft.rename(name=namespace)
        elif identity.is_namespaced:
            draft.rename(namespace=namespace)
        subjects = draft.value_at("subjects") if identity.kind in _SUBJECT_KINDS else None
        for index, subject in enumerate(subjects if isinstance(subjects, list) else ()):
            is_account = isinstance(subject, dict) and subject.get("kind") == "ServiceAccount"
            if is_account and value_at(subject, ("name",)) == "default":
                draft.set(("subjects", index, "namespace"), namespace)


def affix_names(drafts: Sequence[ObjectDraft], prefix: str, suffix: str) -> None:
    """Put a text before and one behind every name; the name with the prefix alone is remembered, too."""
    for draft in drafts if prefix or suffix else ():
        if draft.identity.kind not in _UNAFFIXED:
            draft.rename(name=prefix + draft.identity.name)
            draft.rename(name=draft.identity.name + suffix)
            draft.affixes.append((prefix, suffix))


def set_labels(drafts: Sequence[ObjectDraft], rule: LabelRule) -> None:
    """Set labels on objects, and on their templates and selectors where the rule says so."""
    labels = {key: source.as_label() for key, source in rule.labels.items()}
    for draft in drafts:
        _set_texts(draft, ("metadata", "labels"), labels, rule.labels)
        if rule.in_selectors or rule.in_templates:
            for path in _template_paths(draft.identity, "labels"):
                _set_texts(draft, path, labels, {})
        for path in tuple(_selector_paths(draft)) if rule.in_selectors else ():
            _set_texts(draft, path, labels, {})


def _set_texts(draft: ObjectDraft, path: Field, texts: Mapping[str, str], sources: Mapping[str, SourceField]) -> None:
    """Set members of a mapping of texts; only those of the object itself keep their source."""
    old = draft.value_at(*path)
    draft.set(path, {**(old if isinstance(old, dict) else {}), **texts})
    for key, source in sources.items():
        draft.trace.place((*path, key), SourceTrace((source,)))


def _template_paths(identity: ObjectIdentity, name: str) -> Iterator[Field]:
    if identity.kind in _TEMPLATED:
        yield ("spec", "template", "metadata", name)
    elif identity.kind == "CronJob":
        yield ("spec", "jobTemplate", "metadata", name)
        yield (*_CRON_TEMPLATE, name)


def _selector_paths(draft: ObjectDraft) -> Iterator[Field]:
    kind = draft.identity.kind
    if kind in {"Service", "ReplicationController"} and draft.identity.group == "":
        yield ("spec", "selector")
    elif kind in _WORKLOADS:
        yield ("spec", "selector", "matchLabels")
        # Only existing selectors of affinities and topology spreads get the labels.
        for affinity in _AFFINITIES:
            for path in _expand(draft.fields, (*affinity, "labelSelector", "matchLabels"), creates=False):
                if isinstance(draft.value_at(*path), dict):
                    yield path
        claims = draft.value_at("spec", "volumeClaimTemplates") if kind == "StatefulSet" else None
        for index in range(len(claims) if isinstance(claims, list) else 0):
            yield ("spec", "volumeClaimTemplates", index, "metadata", "labels")
    elif kind in {"Job", "PodDisruptionBudget"} and draft.value_at("spec", "selector", "matchLabels") is not None:
        yield ("spec", "selector", "matchLabels")
    elif kind == "NetworkPolicy" and draft.value_at("spec", "podSelector", "matchLabels") is not None:
        yield ("spec", "podSelector", "matchLabels")


def set_annotations(drafts: Sequence[ObjectDraft], annotations: Mapping[str, SourceField]) -> None:
    """Set annotations on objects and on their templates."""
    texts = {key: source.as_label() for key, source in annotations.items()}
    for draft in drafts if texts else ():
        _set_texts(draft, ("metadata", "annotations"), texts, annotations)
        for path in _template_paths(draft.identity, "annotations"):
            _set_texts(draft, path, texts, {})


def index_names(drafts: Sequence[ObjectDraft]) -> dict[str, list[ObjectDraft]]:
    """The objects by every name that they have or had."""
    named: dict[str, list[ObjectDraft]] = {}
    for draft in drafts:
        for name in {each.name for each in draft.identities}:
            named.setdefault(name, []).append(draft)
    return named


def set_replicas(
    named: Mapping[str, Sequence[ObjectDraft]], rule: ReplicaRule, extra: Sequence[FieldRule] = ()
) -> None:
    """Set the count of every workload that is or was called so; InputError when there is none."""
    fields = (*_REPLICA_FIELDS, *extra)
    is_found = False
    for draft in named.get(rule.name, ()):
        names = [each for each in draft.identities if each.name == rule.name]
        for field in fields:
            if any(field.fits(each) for each in names):
                is_found = True
                for path in field.expand(draft.fields):
                    draft.set(path, rule.number, rule.count)
    if not is_found:
        kinds = join_words([field.kind for field in fields])
        raise missing(rule.count, f"there is no {kinds} named {quote(rule.name)}")


def set_images(drafts: Sequence[ObjectDraft], rules: Sequence[ImageRule], extra: Sequence[FieldRule] = ()) -> None:
    """Rename, retag or pin the images of containers, and of the fields that configurations name."""
    for draft in drafts if rules else ():
        for field in extra:
            for where in field.expand(draft.fields) if field.fits(draft.identity) else ():
                written = draft.value_at(*where)
                if isinstance(written, str):
                    _set_image(draft, where, written, rules)
        for path in _container_lists(draft.fields, ()):
            containers = draft.value_at(*path)
            for index, container in enumerate(containers if isinstance(containers, list) else ()):
                image = container.get("image") if isinstance(container, dict) else None
                if isinstance(image, str):
                    _set_image(draft, (*path, index, "image"), image, rules)


def _set_image(draft: ObjectDraft, path: Field, image: str, rules: Sequence[ImageRule]) -> None:
    for rule in rules:
        renamed = _rename(image, rule)
        if renamed != image:
            draft.set(path, renamed, rule.source)
            image = renamed


def _container_lists(value: Value, path: Field) -> Iterator[Field]:
    """Lists of containers anywhere in an object: custom kinds have theirs elsewhere."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _container_lists(item, (*path, index))
    for key, member in value.items() if isinstance(value, dict) else ():
        if key in {"containers", "initContainers"} and isinstance(member, list):
            yield (*path, key)
        else:
            yield from _container_lists(member, (*path, key))


def _rename(image: str, rule: ImageRule) -> str:
    match = _IMAGE.fullmatch(image)
    if match is None or not rule.name or match["name"] != rule.name:
        return image
    name = rule.new_name or match["name"]
    if rule.digest:
        return f"{name}{f':{rule.new_tag}' if rule.new_tag else ''}@{rule.digest}"
    if rule.new_tag:
        return f"{name}:{rule.new_tag}"
    return name + (match["tag"] or "") + (match["digest"] or "")


# Kind and field of the pod; lists on the way are walked through.
_IN_CONTAINERS: Final = (
    ("ConfigMap", ("env", "valueFrom", "configMapKeyRef", "name")),
    ("ConfigMap", ("envFrom", "configMapRef", "name")),
    ("Secret", ("env", "valueFrom", "secretKeyRef", "name")),
    ("Secret", ("envFrom", "secretRef", "name")),
)
_POD_REFERENCES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("ConfigMap", ("volumes", "configMap", "name")),
    ("ConfigMap", ("volumes", "projected", "sources", "configMap", "name")),
    ("Secret", ("volumes", "secret", "secretName")),
    ("Secret", ("volumes", "projected", "sources", "secret", "name")),
    ("Secret", ("imagePullSecrets", "name")),
    ("ServiceAccount", ("serviceAccountName",)),
    ("PersistentVolumeClaim", ("volumes", "persistentVolumeClaim", "claimName")),
    ("PriorityClass", ("priorityClassName",)),
    *((kind, ("containers", *path)) for kind, path in _IN_CONTAINERS),
    *((kind, ("initContainers", *path)) for kind, path in _IN_CONTAINERS),
)
_POD_SPECS: Final[Mapping[str, Field]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}


def fix_references(drafts: Sequence[ObjectDraft], configuration: Configuration) -> None:
    """Let every reference follow the object that it names, wherever that was renamed."""
    named: dict[tuple[str, str], list[ObjectDraft]] = {}
    for draft in drafts:
        identity = draft.identity
        named.setdefault((identity.kind, identity.name), []).append(draft)
        for name in {each.name for each in draft.earlier} - {identity.name}:
            named.setdefault((identity.kind, name), []).append(draft)
    renamed = {
        draft.identity.kind for draft in drafts if any(each.name != draft.identity.name for each in draft.earlier)
    }
    for draft in drafts if renamed else ():
        for kind, path in (*_references_in(draft, renamed), *_configured(draft, configuration)):
            # Of several objects of that name the one is meant that was renamed as its referrer was.
            written = draft.value_at(*path)
            near = [each for each in named.get((kind, str(written)), ()) if _is_in_reach(draft, each)]
            if len(near) > 1:
                near = [each for each in near if each.affixes == draft.affixes]
            if len(near) == 1 and near[0].identity.name != written:
                draft.set(path, near[0].identity.name)


def _references_in(draft: ObjectDraft, renamed: Set[str]) -> Iterator[tuple[str, Field]]:
    identity = draft.identity
    if identity.kind == "HorizontalPodAutoscaler":
        # Kustomize does not compare the kind that is named.
        for kind in SCALED_KINDS:
            yield kind, ("spec", "scaleTargetRef", "name")
    if identity.kind == "StatefulSet":
        yield "Service", ("spec", "serviceName")
    pod = _POD_SPECS.get(identity.kind)
    spec = None if pod is None else draft.value_at(*pod)
    if pod is None or not isinstance(spec, dict):
        return
    for target_kind, pattern in _POD_REFERENCES:
        for path in _expand(spec, pattern, creates=False) if target_kind in renamed else ():
            yield target_kind, (*pod, *path)


def _configured(draft: ObjectDraft, configuration: Configuration) -> Iterator[tuple[str, Field]]:
    for kind, rule in configuration.name_references:
        if rule.fits(draft.identity):
            yield from ((kind, path) for path in rule.expand(draft.fields))


def _is_in_reach(draft: ObjectDraft, target: ObjectDraft) -> bool:
    is_same = target.identity.effective.namespace == draft.identity.effective.namespace
    return is_same or not target.identity.is_namespaced
