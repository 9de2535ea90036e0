"""What a kustomization does to all objects that it gathered, in Kustomize's own order of steps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field, join_words, quote
from reconciler.placement.kustomize.configurations import FieldRule
from reconciler.placement.kustomize.kustomization import ImageRule, LabelRule, ReplicaRule
from reconciler.placement.kustomize.patches import missing
from reconciler.placement.objects import ObjectDraft, ObjectIdentity
from reconciler.placement.origins import SourceField, SourceTrace

# Kinds whose names stay as they are: others call them by it.
_UNAFFIXED: Final = frozenset({"CustomResourceDefinition", "APIService", "Namespace"})
SCALED_KINDS: Final = ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet")
_REPLICA_FIELDS: Final = tuple(FieldRule(path=("spec", "replicas"), kind=kind, creates=True) for kind in SCALED_KINDS)
_WORKLOADS: Final = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
_TEMPLATED: Final = (*_WORKLOADS, "ReplicationController", "Job")
_CRON_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template", "metadata")
_TERMS: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
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
        if identity.kind in _SUBJECT_KINDS:
            _move_subjects(draft, namespace)


def _move_subjects(draft: ObjectDraft, namespace: str) -> None:
    subjects = draft.value_at("subjects")
    if not isinstance(subjects, list):
        return
    for index, subject in enumerate(subjects):
        if isinstance(subject, dict) and subject.get("kind") == "ServiceAccount" and subject.get("name") == "default":
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
        for path in _label_paths(draft, rule):
            _set_texts(draft, path, labels, {})


def _set_texts(draft: ObjectDraft, path: Field, texts: Mapping[str, str], sources: Mapping[str, SourceField]) -> None:
    """Set members of a mapping of texts; only those of the object itself are asked for their places."""
    old = draft.value_at(*path)
    draft.set(path, {**(old if isinstance(old, dict) else {}), **texts})
    for key, source in sources.items():
        draft.trace.place((*path, key), SourceTrace((source,)))


def _label_paths(draft: ObjectDraft, rule: LabelRule) -> Iterator[Field]:
    if rule.in_selectors or rule.in_templates:
        yield from _template_paths(draft.identity, "labels")
    if rule.in_selectors:
        yield from _selector_paths(draft)


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
        yield from _affinity_paths(draft)
        if kind == "StatefulSet":
            yield from _claim_paths(draft)
    elif kind in {"Job", "PodDisruptionBudget"} and draft.value_at("spec", "selector", "matchLabels") is not None:
        yield ("spec", "selector", "matchLabels")
    elif kind == "NetworkPolicy" and draft.value_at("spec", "podSelector", "matchLabels") is not None:
        yield ("spec", "podSelector", "matchLabels")


def _affinity_paths(draft: ObjectDraft) -> Iterator[Field]:
    """Selectors that stand in affinities and spreads already: none is made there."""
    pod: Field = ("spec", "template", "spec")
    spec = draft.value_at(*pod)
    if not isinstance(spec, dict):
        return
    for affinity in _AFFINITIES if "affinity" in spec else ():
        for term in _TERMS:
            terms = (*pod, "affinity", affinity, term)
            inner: Field = () if term.startswith("required") else ("podAffinityTerm",)
            yield from _existing(draft, terms, (*inner, "labelSelector", "matchLabels"))
    if "topologySpreadConstraints" in spec:
        yield from _existing(draft, (*pod, "topologySpreadConstraints"), ("labelSelector", "matchLabels"))


def _existing(draft: ObjectDraft, list_path: Field, inner: Field) -> Iterator[Field]:
    items = draft.value_at(*list_path)
    for index in range(len(items) if isinstance(items, list) else 0):
        if isinstance(draft.value_at(*list_path, index, *inner), dict):
            yield (*list_path, index, *inner)


def _claim_paths(draft: ObjectDraft) -> Iterator[Field]:
    claims = draft.value_at("spec", "volumeClaimTemplates")
    for index in range(len(claims) if isinstance(claims, list) else 0):
        yield ("spec", "volumeClaimTemplates", index, "metadata", "labels")


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
