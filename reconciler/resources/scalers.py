"""What else sets replicas: `autoscaling` HorizontalPodAutoscaler and `keda.sh` ScaledObject."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.declarations import ReplicaOwner
from reconciler.resources.objects import KubernetesObject, Piece, break_on, is_templated
from reconciler.resources.validation import LooseShape, validate

_PAUSED = "autoscaling.keda.sh/paused"
_TARGET = ("spec", "scaleTargetRef")

_NonEmpty = Annotated[str, Field(min_length=1)]


class _HpaTarget(LooseShape):
    kind: _NonEmpty
    name: _NonEmpty


class _HpaSpec(LooseShape):
    target: _HpaTarget = Field(alias="scaleTargetRef")


class _Hpa(LooseShape):
    spec: _HpaSpec


class _KedaTarget(LooseShape):
    kind: _NonEmpty = "Deployment"
    name: _NonEmpty


class _KedaSpec(LooseShape):
    target: _KedaTarget = Field(alias="scaleTargetRef")


class _ScaledObject(LooseShape):
    spec: _KedaSpec


def read_autoscaler(source: KubernetesObject) -> Iterator[Piece]:
    """The owner of its target's replicas."""
    validated = validate(_Hpa, source.fields, locate=source.locate)
    yield from break_on(source, validated.findings)
    if validated.value is not None:
        yield from _own(source, validated.value.spec.target.kind, validated.value.spec.target.name)


def read_scaled_object(source: KubernetesObject) -> Iterator[Piece]:
    """The owner of its target's replicas, unless it is paused where they stand.

    `paused-replicas` pins a count of its own and stays an owner.
    """
    validated = validate(_ScaledObject, source.fields, locate=source.locate)
    yield from break_on(source, validated.findings)
    if validated.value is not None and source.annotations.get(_PAUSED) != "true":
        yield from _own(source, validated.value.spec.target.kind, validated.value.spec.target.name)


def _own(source: KubernetesObject, kind: str, name: str) -> Iterator[ReplicaOwner]:
    if is_templated(name) or is_templated(kind):
        return
    yield ReplicaOwner(
        cluster=source.cluster,
        # A namespace that is filled in later may be any.
        namespace="" if is_templated(source.namespace) else source.namespace,
        owner=f"{source.kind} {source.name}",
        target_kind=kind,
        target_name=name,
        place=source.locate(_TARGET),
    )
