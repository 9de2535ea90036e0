"""InferenceObjective and the InferenceModel before it, how important requests are; and what sends some elsewhere."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.inference import (
    DEFAULT_PRIORITY,
    ROUTER_GROUP,
    Criticality,
    InferenceModel,
    InferenceObjective,
    ModelRewrite,
)
from reconciler.domain.identity import Finding, Severity
from reconciler.resources.inference.pools import (
    ExperimentalPoolRefFields,
    ObjectName,
    PoolRefFields,
    Weight,
    as_pool_ref,
    group_of,
)
from reconciler.resources.kubernetes.pod_templates import mapping_at
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import NonEmpty, Shape

_MAX_CONDITIONS = 8
_INT32, _INT64 = 2**31, 2**63
_PRIORITY, _CRITICALITY = ("spec", "priority"), ("spec", "criticality")


class ObjectiveFields(Shape):
    """InferenceObjectiveSpec."""

    priority: int | None = None
    pool_ref: PoolRefFields


class _WeightedTargetFields(Shape):
    name: ObjectName
    weight: Weight | None = None


class _InferenceModelSpec(Shape):
    model_name: Annotated[str, Field(min_length=1, max_length=256)]
    criticality: Literal["Critical", "Standard", "Sheddable"] | None = None
    target_models: Annotated[list[_WeightedTargetFields], Field(max_length=10)] | None = None
    pool_ref: ExperimentalPoolRefFields


def read_objective(source: KubernetesObject) -> Iterator[Piece]:
    """The objective, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        ObjectiveFields,
        named=("poolRef",),
        check=lambda spec: _check_objective(source, spec),
        build=lambda spec: _build_objective(source, spec),
    )


def read_inference_model(source: KubernetesObject) -> Iterator[Piece]:
    """The InferenceModel, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _InferenceModelSpec,
        named=("poolRef", "modelName"),
        check=lambda spec: _check_model(source, spec),
        build=lambda spec: _build_model(source, spec),
    )


def _check_objective(source: KubernetesObject, spec: ObjectiveFields) -> Iterator[Finding]:
    """The router's own group has 32 bits for a priority; the older one only what any integer has."""
    limit = _INT32 if group_of(source) == ROUTER_GROUP else _INT64
    if spec.priority is not None and not -limit <= spec.priority < limit:
        yield source.complain(_PRIORITY, f"expected an integer from {-limit} to {limit - 1}, got {spec.priority:.3e}")
    conditions = mapping_at(source.fields, ("status",)).get("conditions")
    if isinstance(conditions, list) and len(conditions) > _MAX_CONDITIONS:
        message = f"expected at most {_MAX_CONDITIONS} items, got {len(conditions)}"
        yield source.complain(("status", "conditions"), message, Severity.WARNING)


def _build_objective(source: KubernetesObject, spec: ObjectiveFields) -> Iterator[Piece]:
    yield InferenceObjective(
        key=source.key,
        group=group_of(source),
        place=source.place,
        pool=as_pool_ref(source, spec.pool_ref),
        priority=DEFAULT_PRIORITY if spec.priority is None else spec.priority,
        priority_place=None if spec.priority is None else source.locate(_PRIORITY),
    )


def _check_model(source: KubernetesObject, spec: _InferenceModelSpec) -> Iterator[Finding]:
    weighted = [target.weight is not None for target in spec.target_models or ()]
    if any(weighted) and not all(weighted):
        message = f"expected a weight for every model or for none, got {sum(weighted)} of {len(weighted)}"
        yield source.complain(("spec", "targetModels"), message)


def _build_model(source: KubernetesObject, spec: _InferenceModelSpec) -> Iterator[Piece]:
    yield InferenceModel(
        key=source.key,
        group=group_of(source),
        place=source.place,
        model_name=spec.model_name,
        pool=as_pool_ref(source, spec.pool_ref),
        criticality=Criticality(spec.criticality or Criticality.STANDARD),
        criticality_place=None if spec.criticality is None else source.locate(_CRITICALITY),
    )


class _ModelMatch(Shape):
    type: Literal["Exact"] = "Exact"
    value: NonEmpty


class _Match(Shape):
    model: _ModelMatch | None = None


class _RewriteTargetFields(Shape):
    model_rewrite: NonEmpty
    weight: Weight | None = None


class _Rule(Shape):
    matches: list[_Match] | None = None
    targets: Annotated[list[_RewriteTargetFields], Field(min_length=1)]


class _RewriteSpec(Shape):
    pool_ref: PoolRefFields
    rules: list[_Rule] | None = None


def read_rewrite(source: KubernetesObject) -> Iterator[Piece]:
    """The rewrite, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _RewriteSpec,
        named=("poolRef", "rules"),
        check=lambda _: (),
        build=lambda spec: _build(source, spec),
    )


def _build(source: KubernetesObject, spec: _RewriteSpec) -> Iterator[Piece]:
    yield ModelRewrite(
        key=source.key,
        group=group_of(source),
        place=source.place,
        pool=as_pool_ref(source, spec.pool_ref),
    )
