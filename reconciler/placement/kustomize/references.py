"""Names that objects call each other by: where one was renamed, those who name it follow."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field
from reconciler.placement.kustomize.configurations import Configuration
from reconciler.placement.kustomize.transformers import SCALED_KINDS
from reconciler.placement.objects import ObjectDraft

_EACH: Final = "[]"
_IN_CONTAINERS: Final = (
    ("ConfigMap", ("env", _EACH, "valueFrom", "configMapKeyRef", "name")),
    ("ConfigMap", ("envFrom", _EACH, "configMapRef", "name")),
    ("Secret", ("env", _EACH, "valueFrom", "secretKeyRef", "name")),
    ("Secret", ("envFrom", _EACH, "secretRef", "name")),
)
_POD_REFERENCES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("ConfigMap", ("volumes", _EACH, "configMap", "name")),
    ("ConfigMap", ("volumes", _EACH, "projected", "sources", _EACH, "configMap", "name")),
    ("Secret", ("volumes", _EACH, "secret", "secretName")),
    ("Secret", ("volumes", _EACH, "projected", "sources", _EACH, "secret", "name")),
    ("Secret", ("imagePullSecrets", _EACH, "name")),
    ("ServiceAccount", ("serviceAccountName",)),
    ("PersistentVolumeClaim", ("volumes", _EACH, "persistentVolumeClaim", "claimName")),
    ("PriorityClass", ("priorityClassName",)),
    *((kind, ("containers", _EACH, *path)) for kind, path in _IN_CONTAINERS),
    *((kind, ("initContainers", _EACH, *path)) for kind, path in _IN_CONTAINERS),
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
        for kind, path in (*_references(draft, renamed), *_configured(draft, configuration)):
            _follow(draft, path, kind, named)


def _references(draft: ObjectDraft, renamed: Set[str]) -> Iterator[tuple[str, Field]]:
    identity = draft.identity
    if identity.kind == "HorizontalPodAutoscaler":
        # Whatever kind it names: Kustomize does not look at it.
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


def _expand(value: Value, pattern: Sequence[str]) -> Iterator[Field]:
    if not pattern:
        yield ()
    elif pattern[0] == _EACH:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            for rest in _expand(item, pattern[1:]):
                yield (index, *rest)
    elif isinstance(value, dict) and pattern[0] in value:
        for rest in _expand(value[pattern[0]], pattern[1:]):
            yield (pattern[0], *rest)


def _follow(draft: ObjectDraft, path: Field, kind: str, named: Mapping[tuple[str, str], Sequence[ObjectDraft]]) -> None:
    """Write the present name of what is meant; of several the one that was renamed as its referrer was."""
    name = draft.value_at(*path)
    candidates = [each for each in named.get((kind, str(name)), ()) if _is_near(draft, each)]
    if len(candidates) > 1:
        candidates = [each for each in candidates if each.affixes == draft.affixes]
    if len(candidates) == 1 and candidates[0].identity.name != name:
        draft.set(path, candidates[0].identity.name)


def _is_near(draft: ObjectDraft, target: ObjectDraft) -> bool:
    """Whether both are in one namespace: a name reaches no further."""
    return (
        not target.identity.is_namespaced or target.identity.effective.namespace == draft.identity.effective.namespace
    )
