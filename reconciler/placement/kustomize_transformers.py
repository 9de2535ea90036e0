"""The transformers of a kustomization: names, labels, images, counts, references, generators."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from reconciler.domain.records import dataclass
from reconciler.manifests.documents import Value, text_at, value_at
from reconciler.manifests.wording import Field, join_words, quote
from reconciler.placement.kustomization import ImageRule, Kustomization, LabelRule, ReplicaRule
from reconciler.placement.kustomize_patches import missing, read_named
from reconciler.placement.objects import ObjectDraft, ObjectIdentity, Obstacle, SourceField, SourceTrace
from reconciler.placement.repository import ManifestRepository

_FOLLOWED: Final = frozenset({"nameReference", "replicas", "images"})
# Only for `$(NAME)`, which is reported where it is used.
_HARMLESS: Final = frozenset({"varReference"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """A field of a kind, also in items of lists. An empty group, version or kind fits all."""

    path: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""
    creates: bool = False

    def fits(self, identity: ObjectIdentity) -> bool:
        """Whether the rule is for an object of that name."""
        own = ((self.group, identity.group), (self.version, identity.version), (self.kind, identity.kind))
        return all(not wanted or wanted == found for wanted, found in own)

    def expand(self, value: Value) -> Iterator[Field]:
        """The places of the field in an object, one for each item of a list on the way."""
        yield from _expand(value, self.path, creates=self.creates)


def _expand(value: Value, parts: tuple[str, ...], *, creates: bool = False) -> Iterator[Field]:
    if not parts:
        yield ()
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ((index, *rest) for rest in _expand(item, parts, creates=creates))
    elif isinstance(value, dict) and (parts[0] in value or creates):
        yield from ((parts[0], *rest) for rest in _expand(value.get(parts[0], {}), parts[1:], creates=creates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Fields that configurations add to Kustomize's own: names of objects of a kind, counts, and images."""

    name_references: tuple[tuple[str, FieldRule], ...] = ()
    replicas: tuple[FieldRule, ...] = ()
    images: tuple[FieldRule, ...] = ()

    def __or__(self, other: "Configuration") -> "Configuration":
        """Both: the configuration of a base applies to its users."""
        return Configuration(
            name_references=tuple(dict.fromkeys((*self.name_references, *other.name_references))),
            replicas=tuple(dict.fromkeys((*self.replicas, *other.replicas))),
            images=tuple(dict.fromkeys((*self.images, *other.images))),
        )


def read_configurations(
    repository: ManifestRepository, kustomization: Kustomization
) -> tuple[Configuration, list[tuple[SourceField, FieldRule | None]]]:
    """The configurations of a kustomization, and unsupported rules in them, None for all objects.

    InputError for a missing or invalid file.
    """
    whole = Configuration()
    unfollowed: list[tuple[SourceField, FieldRule | None]] = []
    for entry in kustomization.configurations:
        for source in read_named(repository, entry, kustomization.directory, entry.as_text()):
            for rules in (source.below(key) for key in source.mapping() if key not in _FOLLOWED | _HARMLESS):
                is_list = isinstance(rules.value, list)
                unfollowed += [(each, _rule(each)) for each in rules.members()] if is_list else [(rules, None)]
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


def _rule(source: SourceField) -> FieldRule:
    return FieldRule(
        path=tuple(part.removesuffix("[]") for part in source.text("path").split("/") if part),
        group=source.text("group"),
        version=source.text("version"),
        kind=source.text("kind"),
        creates=source.flag("create"),
    )


# ConfigMaps and Secrets that Kustomize generates: only their names are read, without the hash behind them.

_UNREAD = "it is generated: its content is not read"


def generate(kind: str, entry: SourceField, drafts: list[ObjectDraft]) -> None:
    """Generate the object of an entry, or merge it into an existing one; InputError where Kustomize fails."""
    identity = ObjectIdentity("", "v1", kind, entry.text("namespace"), entry.text("name"))
    behavior = entry.text("behavior")
    found = [draft for draft in drafts if draft.is_or_was(identity.effective)]
    is_created = behavior not in {"merge", "replace"}  # Kustomize takes any other word for `create`
    if len(found) > 1 and not is_created:
        raise entry.error(f"expected one {identity} to {behavior}, got {len(found)}")
    pairs = (each.as_text().partition("=") for each in entry.items("literals"))
    literals: dict[str, Value] = {key: value.strip("\"'") for key, _, value in pairs}
    if is_created or not found:
        namespace: dict[str, Value] = {"namespace": identity.namespace} if identity.namespace else {}
        metadata: Value = {"name": identity.name, **namespace}
        fields: dict[str, Value] = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        fields |= {"data": literals} if literals else {}
        made = ObjectDraft(fields=fields, source=entry, trace=SourceTrace((entry,)), identity=identity)
        made.obstacles.append(Obstacle(reason=_UNREAD, place=entry.place))
        drafts.append(made)
        if not is_created:
            raise missing(entry, f"there is no {identity} to {behavior}")
        return
    draft, replaces = found[0], behavior == "replace"
    old = draft.value_at("data")
    if literals or replaces:
        draft.set(("data",), {**(old if isinstance(old, dict) and not replaces else {}), **literals})
    # literals have known keys; files may set any other
    is_all = replaces or any(entry.get(key) is not None for key in ("files", "envs", "env"))
    changed: list[Field] = [("data",)] if is_all else [("data", key) for key in literals]
    draft.obstacles += [Obstacle(reason=_UNREAD, place=entry.place, field=each) for each in changed]


# Kinds whose names are not changed, as other objects depend on them.
_UNAFFIXED: Final = frozenset({"CustomResourceDefinition", "APIService", "Namespace"})
SCALED_KINDS: Final = ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet")
_REPLICA_FIELDS: Final = tuple(FieldRule(path=("spec", "replicas"), kind=kind, creates=True) for kind in SCALED_KINDS)
_WORKLOADS: Final = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
_TEMPLATED: Final = (*_WORKLOADS, "ReplicationController", "Job")
_CRON_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template", "metadata")
_POD: Final = ("spec", "template", "spec")
_AFFINITIES: Final = tuple(
    (*_POD, *path)
    for path in (
        ("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        ("affinity", "podAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ("affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ("topologySpreadConstraints",),
    )
)
_IMAGE: Final = re.compile(r"(?P<name>[^@]*?)(?P<tag>:[^:/@]*)?(?P<digest>@.*)?", re.DOTALL)
_SUBJECT_KINDS: Final = ("RoleBinding", "ClusterRoleBinding")


def set_namespace(drafts: Sequence[ObjectDraft], namespace: str) -> None:
    """Set the namespace of every namespaced object, and the name of a Namespace."""
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
    """Add a prefix and a suffix to every name; the name with only the prefix also counts as a former one."""
    for draft in drafts if prefix or suffix else ():
        if draft.identity.kind not in _UNAFFIXED:
            draft.rename(name=prefix + draft.identity.name)
            draft.rename(name=draft.identity.name + suffix)
            draft.affixes.append((prefix, suffix))


def set_labels(drafts: Sequence[ObjectDraft], rule: LabelRule) -> None:
    """Set labels on objects, and on their templates and selectors if the rule says so."""
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
            for path in _expand(draft.fields, (*affinity, "labelSelector", "matchLabels")):
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
    """The objects by each present and former name."""
    named: dict[str, list[ObjectDraft]] = {}
    for draft in drafts:
        for name in {each.name for each in draft.identities}:
            named.setdefault(name, []).append(draft)
    return named


def set_replicas(
    named: Mapping[str, Sequence[ObjectDraft]], rule: ReplicaRule, extra: Sequence[FieldRule] = ()
) -> None:
    """Set the count of every workload with this present or former name; InputError without any."""
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
        for path, image in tuple(_container_images(draft.fields, ())):
            _set_image(draft, path, image, rules)


def _set_image(draft: ObjectDraft, path: Field, image: str, rules: Sequence[ImageRule]) -> None:
    for rule in rules:
        match = _IMAGE.fullmatch(image)
        if match is None or not rule.name or match["name"] != rule.name:
            continue
        renamed = (rule.new_name or match["name"]) + (f":{rule.new_tag}" if rule.new_tag else "")
        if rule.digest:
            renamed += f"@{rule.digest}"
        elif not rule.new_tag:
            renamed += (match["tag"] or "") + (match["digest"] or "")
        if renamed != image:
            draft.set(path, renamed, rule.source)
            image = renamed


def _container_images(value: Value, path: Field) -> Iterator[tuple[Field, str]]:
    """The images of containers anywhere in an object: custom kinds have theirs elsewhere."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _container_images(item, (*path, index))
    for key, member in value.items() if isinstance(value, dict) else ():
        if key in {"containers", "initContainers"} and isinstance(member, list):
            images = enumerate(text_at(container, "image") for container in member)
            yield from (((*path, key, index, "image"), image) for index, image in images if image)
        else:
            yield from _container_images(member, (*path, key))


# Kinds and fields of the pod, also in items of lists.
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
    """Update every reference to a renamed object."""
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
            # Of several objects of that name it means the one with the same affixes.
            written, namespace = draft.value_at(*path), draft.identity.effective.namespace
            near = [
                each
                for each in named.get((kind, str(written)), ())
                if each.identity.effective.namespace == namespace or not each.identity.is_namespaced
            ]
            if len(near) > 1:
                near = [each for each in near if each.affixes == draft.affixes]
            if len(near) == 1 and near[0].identity.name != written:
                draft.set(path, near[0].identity.name)


def _references_in(draft: ObjectDraft, renamed: Set[str]) -> Iterator[tuple[str, Field]]:
    identity = draft.identity
    if identity.kind == "HorizontalPodAutoscaler":
        # Kustomize does not compare the kind in the reference.
        for kind in SCALED_KINDS:
            yield kind, ("spec", "scaleTargetRef", "name")
    if identity.kind == "StatefulSet":
        yield "Service", ("spec", "serviceName")
    pod = _POD_SPECS.get(identity.kind)
    spec = None if pod is None else draft.value_at(*pod)
    if pod is None or not isinstance(spec, dict):
        return
    for target_kind, pattern in _POD_REFERENCES:
        for path in _expand(spec, pattern) if target_kind in renamed else ():
            yield target_kind, (*pod, *path)


def _configured(draft: ObjectDraft, configuration: Configuration) -> Iterator[tuple[str, Field]]:
    for kind, rule in configuration.name_references:
        if rule.fits(draft.identity):
            yield from ((kind, path) for path in rule.expand(draft.fields))
