"""ModelServing and ModelInfer: groups of roles, each of entry pods with their workers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import Annotation, Workload
from reconciler.domain.written import FieldPath
from reconciler.manifests.wording import describe, quote
from reconciler.resources.annotations import check_annotations
from reconciler.resources.kthena.generations import field_of, find_era
from reconciler.resources.kubernetes.pods import (
    MAX_REPLICAS,
    PodTemplate,
    TemplateFields,
    compose,
    find_unknown,
    with_count,
)
from reconciler.resources.objects import KubernetesObject, Piece, break_on, repeated
from reconciler.resources.validation import MAX_FINDINGS, LooseShape, NonEmpty, describe_unknown, is_templated, validate

_SPEC_FIELDS = (
    "replicas",
    "template",
    "schedulerName",
    "plugins",
    "rolloutStrategy",
    "recoveryPolicy",
    "topologySpreadConstraints",
)
_GROUP_FIELDS = (
    "roles",
    "metadata",
    "restartGracePeriodSeconds",
    "gangPolicy",
    "gangSchedule",
    "networkTopology",
)
_ROLE_FIELDS = (
    "name",
    "replicas",
    "entryTemplate",
    "workerReplicas",
    "workerTemplate",
    "networkTopology",
    "maxUnavailable",
)
_REPLICAS = ("spec", "replicas")
_GROUP = ("spec", "template")
_ROLES = (*_GROUP, "roles")


class ServingRoleFields(LooseShape):
    """Counts stay unvalidated here: a template's text in their place is no mistake."""

    name: NonEmpty
    replicas: object = None
    entry_template: TemplateFields | None = None
    worker_replicas: object = None
    worker_template: TemplateFields | None = None


class GroupFields(LooseShape):
    """The template of a serving group: its roles."""

    roles: Annotated[list[ServingRoleFields], Field(min_length=1)]


class SpecFields(LooseShape):
    """The spec of a ModelServing: how many groups, and what each is made of."""

    replicas: object = None
    template: GroupFields


class ServingFields(LooseShape):
    """A ModelServing or ModelInfer, as far as it matters."""

    spec: SpecFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of replicas as written, and where."""

    path: FieldPath
    written: object

    @property
    def number(self) -> int | None:
        """None where nothing is written, or text that is filled in later."""
        is_count = isinstance(self.written, int) and not isinstance(self.written, bool)
        return self.written if is_count and isinstance(self.written, int) else None

    def check(self, source: KubernetesObject) -> Iterator[Finding]:
        """A count, nothing, or text that is filled in later: anything else is a mistake."""
        number = self.number
        is_valid = number is not None and 0 <= number <= MAX_REPLICAS
        if not (is_valid or self.written is None or is_templated(self.written)):
            yield source.complain(self.path, f"expected an integer of at least 0, got {describe(self.written)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    """A role with its counts and its pods; `templates` make one replica of it."""

    name: str
    replicas: Count
    workers: Count
    templates: tuple[PodTemplate, ...]

    @property
    def in_group(self) -> tuple[PodTemplate, ...]:
        """The templates with as many pods as a whole group has."""
        number = self.replicas.number
        times = 1 if number is None else number
        return tuple(replace(each, pods=each.pods * times) for each in self.templates if times)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRole:
    """A role of a serving group: one replica of `workload` is an entry pod with its workers.

    Each group has `workload.replicas` of it.
    """

    name: str
    workload: Workload
    worker_replicas: int = 0

    @property
    def replicas(self) -> int:
        """How many replicas of the role each group has; 1 where none are written."""
        return 1 if self.workload.replicas is None else self.workload.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingResource:
    """A ModelServing or ModelInfer: `workload.replicas` groups, each with all `roles`."""

    workload: Workload
    roles: tuple[ServingRole, ...]
    label_prefix: str

    @property
    def key(self) -> ResourceKey:
        """What names it in its cluster."""
        return self.workload.key

    @property
    def place(self) -> Place:
        """Its first line."""
        return self.workload.place

    def role(self, name: str) -> ServingRole | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)


def read_serving(source: KubernetesObject) -> Iterator[Piece]:
    """The workload with its roles, or the broken resource, and all findings."""
    validated = validate(ServingFields, source.fields, locate=source.locate)
    fields = validated.value.spec if validated.value else None
    roles = tuple(_split(index, role) for index, role in enumerate(fields.template.roles)) if fields else ()
    annotations = check_annotations(source)
    groups = Count(path=_REPLICAS, written=fields.replicas if fields else None)
    findings = (
        *find_unknown(source, ("spec",), _SPEC_FIELDS),
        *find_unknown(source, _GROUP, _GROUP_FIELDS),
        *_find_unknown_in_roles(source),
        *validated.findings,
        *groups.check(source),
        *_check_roles(source, roles),
        *annotations.findings,
    )
    broken = tuple(break_on(source, findings))
    yield from broken
    if len(broken) == len(findings):
        yield _build(source, groups, roles, annotations.settings)


def _split(index: int, fields: ServingRoleFields) -> _Role:
    path: FieldPath = (*_ROLES, index)
    workers = Count(path=(*path, "workerReplicas"), written=fields.worker_replicas)
    entry = PodTemplate(path=(*path, "entryTemplate"), fields=fields.entry_template or TemplateFields())
    worker = PodTemplate(
        path=(*path, "workerTemplate"), fields=fields.worker_template or TemplateFields(), pods=workers.number or 0
    )
    return _Role(
        name=fields.name,
        replicas=Count(path=(*path, "replicas"), written=fields.replicas),
        workers=workers,
        templates=(entry, worker) if worker.pods else (entry,),
    )


def _check_roles(source: KubernetesObject, roles: Sequence[_Role]) -> Iterator[Finding]:
    doubled = dict(repeated(role.name for role in roles))
    for index, role in enumerate(roles):
        if index in doubled:
            yield source.complain((*_ROLES, index, "name"), f"role {quote(role.name)} is already listed above")
        yield from role.replicas.check(source)
        yield from role.workers.check(source)
        _, faults = compose(source, role.templates)
        yield from faults


def _find_unknown_in_roles(source: KubernetesObject) -> list[Finding]:
    value: object = source.fields
    for part in _ROLES:
        value = value.get(part) if isinstance(value, dict) else None
    found = [
        source.complain((*_ROLES, index, name), describe_unknown(name, _ROLE_FIELDS), Severity.WARNING)
        for index, role in enumerate(value if isinstance(value, list) else ())
        if isinstance(role, dict)
        for name in role
        if name not in _ROLE_FIELDS
    ]
    return found[:MAX_FINDINGS]


def _build(
    source: KubernetesObject, groups: Count, roles: Sequence[_Role], settings: Mapping[str, Annotation]
) -> ServingResource:
    every = [template for role in roles for template in role.in_group]
    unread = next(
        (each for role in roles for each in (role.replicas, role.workers) if is_templated(each.written)), None
    )
    templated = source.locate(unread.path).field if unread else ""
    return ServingResource(
        workload=_as_workload(source, source.key, groups, every, settings, templated),
        roles=tuple(_as_role(source, role, settings) for role in roles),
        label_prefix=find_era(source).label_prefix,
    )


def _as_role(source: KubernetesObject, role: _Role, settings: Mapping[str, Annotation]) -> ServingRole:
    templated = source.locate(role.workers.path).field if is_templated(role.workers.written) else ""
    key = replace(source.key, part=role.name)
    return ServingRole(
        name=role.name,
        workload=_as_workload(source, key, role.replicas, role.templates, settings, templated),
        worker_replicas=role.workers.number or 0,
    )


def _as_workload(
    source: KubernetesObject,
    key: ResourceKey,
    count: Count,
    templates: Sequence[PodTemplate],
    settings: Mapping[str, Annotation],
    templated: str,
) -> Workload:
    place = None if count.written is None else source.locate(count.path)
    filled_in = source.locate(count.path).field if is_templated(count.written) else templated
    workload, _ = compose(source, templates)
    counted = with_count(workload, count.number, place, settings, filled_in)
    return replace(counted, key=key, replica_fields=(field_of(source, count.path),) if key.part else ())
