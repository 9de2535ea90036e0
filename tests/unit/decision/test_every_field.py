"""Every field of the API documents decides something, or `validate` says that it has no effect.

A file of `tests/testdata/api-fields` is a small world: manifests, what a metrics server saw, and of each field what it
becomes. From manifests to the plan nothing is replaced but the answers of Prometheus. The parsers' own schemas say
which fields there are, so one that is new and in no world fails. Statuses are not inputs: that of a VariantAutoscaling
is ours to write, the others belong to controllers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, get_args

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.decision.decide import decide
from reconciler.decision.questions import Asking, ask_by_cluster
from reconciler.domain.answers import Query
from reconciler.domain.identity import Severity
from reconciler.domain.plan import Decision
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.settings import Settings
from reconciler.manifests.wording import name_field
from reconciler.metrics.queries import queries_for
from reconciler.metrics.tracked_queries import tracking_queries
from reconciler.resources.declaration import Declaration
from reconciler.resources.inference.gateway import ObjectiveSpec
from reconciler.resources.kthena.models import BoosterFieldsG3, BoosterFieldsG4, ModelFieldsBeforeG3
from reconciler.resources.kthena.policy_specs import BindingFields, PolicyFieldsBeforeV1, TargetPolicyFields
from reconciler.resources.llmaz.models import OpenModelSpec
from reconciler.resources.llmd.variant_autoscaling import FlatProfileSpec, NameSpec, ParmsProfileSpec, TargetSpec
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.variants import declared_variants
from tests.servers.seen import Pod, Seen

WORLDS = Path(__file__).parents[2] / "testdata" / "api-fields"
NOW_S = 1_800_000_000.0
HEADER = {"apiVersion": "reconciler.io/v1alpha1", "kind": "Configuration"}
SCHEMAS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "VariantAutoscaling": (FlatProfileSpec, ParmsProfileSpec, TargetSpec, NameSpec),
    "AutoscalingPolicy": (PolicyFieldsBeforeV1, TargetPolicyFields),
    "AutoscalingPolicyBinding": (BindingFields,),
    "Model": (ModelFieldsBeforeG3,),
    "ModelBooster": (BoosterFieldsG3, BoosterFieldsG4),
    "OpenModel": (OpenModelSpec,),
    "InferenceObjective": (ObjectiveSpec,),
}
FieldPath: TypeAlias = tuple[str | int, ...]
Declared: TypeAlias = tuple[type[BaseModel], str]
"""A schema, and a field that it declares itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One field of one object of a world, and what becomes of it."""

    world: str
    of: str
    field: str
    change: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.world}: {self.of} {self.field}"

    @property
    def path(self) -> FieldPath:
        return path_of(self.field)


def path_of(field: str) -> FieldPath:
    return tuple(int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", field))


@cache
def world(name: str) -> Mapping[str, Any]:
    read: Mapping[str, Any] = yaml.safe_load((WORLDS / f"{name}.yaml").read_text())
    return read


def rows() -> list[Row]:
    return [
        Row(world=path.stem, of=row["of"], field=row["field"], change=row)
        for path in sorted(WORLDS.glob("*.yaml"))
        for row in world(path.stem)["fields"]
    ]


@dataclass(frozen=True, slots=True)
class Seeing:
    """What became of a world: what is decided and why something is held, what was asked, who goes first."""

    decisions: tuple[object, ...]
    asked: frozenset[tuple[str, str, float]]
    priorities: tuple[int | None, ...]


def settings_of(described: Mapping[str, Any]) -> Settings:
    # No guard rail comes between a field and what is made of it.
    written = {
        **HEADER,
        "policies": [],
        "clusters": [{"name": "prod", "prometheus": {"url": "http://prometheus:9090"}}],
    }
    loaded = load_settings(
        repository_file=yaml.safe_dump({**written, **described.get("settings", {})}).encode(),
        read_repository_file=lambda _: None,
        operator_files=(),
        flags=Flags(),
        environment=Environment(),
    )
    return loaded.settings


def declare(manifests: Sequence[object], settings: Settings) -> tuple[ManifestFile, Declaration]:
    file = ManifestFile(path="fleet.yaml", body=yaml.safe_dump_all(manifests).encode())
    return file, read_declaration([file], (), settings)


def look(described: Mapping[str, Any], manifests: Sequence[object], metrics: Mapping[str, Any] | None = None) -> Seeing:
    settings = settings_of(described)
    file, declaration = declare(manifests, settings)
    queries = ask(settings, declaration)
    recording = Recording(
        now_s=NOW_S,
        repository="fleet",
        branch="main",
        commit="c0ffee",
        settings=settings,
        manifests=(file,),
        withheld=(),
        unread=(),
        answers=seen_in(described, metrics).answers_to(queries),
        proposals=(),
    )
    snapshot = read_snapshot(recording, declaration, "")
    return Seeing(
        decisions=tuple(map(summarise, decide(snapshot).decisions)),
        asked=frozenset((each.quantity, each.text, each.start_s) for each in queries),
        priorities=tuple(each.priority.value if each.priority else None for each in snapshot.variants),
    )


def ask(settings: Settings, declaration: Declaration) -> list[Query]:
    (cluster,) = settings.clusters
    asking = ask_by_cluster(declared_variants(settings, declaration), declaration).get(cluster.name, Asking())
    return [
        *queries_for(cluster, asking.loads, NOW_S, needs=asking.needs),
        *tracking_queries(cluster, asking.targets, NOW_S),
    ]


def seen_in(described: Mapping[str, Any], metrics: Mapping[str, Any] | None) -> Seen:
    """What the world says that was seen; `metrics` of all pods are others where a field matters only then."""
    seen = described["seen"]
    others = {} if metrics is None else {"metrics": metrics}
    pods = tuple(Pod(name=name, **(pod | others)) for name, pod in seen.get("pods", {}).items())
    return Seen(pods=pods, picked=seen.get("picked", {}), queries=seen.get("queries", {}))


def summarise(decision: Decision) -> object:
    costs = decision.cost_before_per_hour, decision.cost_after_per_hour
    allocations = decision.current, decision.desired
    return str(decision.variant), decision.group, decision.outcome, allocations, decision.hold, costs


def object_of(manifests: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (each for each in manifests if f"{each['kind']}/{each['metadata']['name']}" == name)
    return found


def write(resource: dict[str, Any], path: FieldPath, value: object) -> None:
    *parents, last = path
    holder: Any = resource
    for part in parents:
        holder = holder[part]
    holder[last] = deepcopy(value)


def errors_in(manifests: Sequence[object], settings: Settings) -> list[str]:
    _, declaration = declare(manifests, settings)
    return [str(each) for each in declaration.findings if each.severity is Severity.ERROR]


def change(row: Row) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The manifests of a row before and after; what is `given` stands in both."""
    before = deepcopy(world(row.world)["manifests"])
    for field, value in row.change.get("given", {}).items():
        write(object_of(before, row.of), path_of(field), value)
    after = deepcopy(before)
    write(object_of(after, row.of), row.path, row.change["becomes"])
    return before, after


DECIDING = [row for row in rows() if not row.change.get("told")]
TOLD = [row for row in rows() if row.change.get("told")]


@pytest.mark.parametrize("row", TOLD, ids=str)
def test_a_field_that_decides_nothing_is_told_as_such(row: Row) -> None:
    described = world(row.world)
    before, after = change(row)
    settings = settings_of(described)
    assert look(described, after) == look(described, before)
    _, declaration = declare(after, settings)
    words = "it has no effect: "
    told = {each.place.field for each in (*declaration.notes, *declaration.findings) if each.message.startswith(words)}
    assert told & {name_field(row.path[:depth]) for depth in range(2, len(row.path) + 1)}


@pytest.mark.parametrize("row", DECIDING, ids=str)
def test_a_field_that_changes_changes_what_is_decided(row: Row) -> None:
    described = world(row.world)
    before, after = change(row)
    settings = settings_of(described)
    assert errors_in(before, settings) == []
    assert bool(errors_in(after, settings)) is bool(row.change.get("refused")), errors_in(after, settings)
    metrics = row.change.get("metrics")
    assert look(described, after, metrics) != look(described, before, metrics)


# -- no field is forgotten -------------------------------------------------------------------------------------------


def schemas_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from schemas_in(argument)


def spelling(name: str, field: FieldInfo) -> str:
    return field.alias or name


def declaring(schema: type[BaseModel], name: str) -> Declared:
    """The schema that declares a field first: those made of it say nothing new by it."""
    holders = [each for each in schema.__mro__ if issubclass(each, BaseModel) and name in each.model_fields]
    return holders[-1], name


def declared_by(schema: type[BaseModel], known: set[type[BaseModel]]) -> Iterator[Declared]:
    """Every field that a schema or those inside it declare."""
    if schema in known:
        return
    known.add(schema)
    for name, field in schema.model_fields.items():
        yield declaring(schema, name)
        for each in schemas_in(field.annotation):
            yield from declared_by(each, known)


def resolve(schemas: Sequence[type[BaseModel]], path: Sequence[str]) -> set[Declared]:
    """What a path names in each schema that has it, the fields on its way among them."""
    found: set[Declared] = set()
    for schema in schemas:
        for name, field in schema.model_fields.items():
            if path and spelling(name, field) == path[0]:
                inner = list(schemas_in(field.annotation))
                is_mapping = bool(inner) and "dict[" in str(field.annotation)
                rest = resolve(inner, path[2 if is_mapping else 1 :])
                if rest or len(path) == 1 or not inner:
                    found |= {declaring(schema, name), *rest}
    return found


def fields_of(row: Row) -> set[Declared]:
    root, *path = (part for part in row.path if isinstance(part, str))
    return resolve(SCHEMAS[row.of.partition("/")[0]], path) if root == "spec" else set()


def test_every_field_of_every_schema_is_in_a_world() -> None:
    declared = {each for schemas in SCHEMAS.values() for schema in schemas for each in declared_by(schema, set())}
    covered = {each for row in rows() for each in fields_of(row)}
    assert {f"{schema.__name__}.{name}" for schema, name in declared - covered} == set()


@pytest.mark.parametrize("row", rows(), ids=str)
def test_a_row_names_a_field_that_there_is(row: Row) -> None:
    assert fields_of(row)
