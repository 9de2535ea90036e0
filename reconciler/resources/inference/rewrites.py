"""InferenceModelRewrite: requests for one model are sent to others, and in which shares."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.inference import ModelRewrite
from reconciler.resources.inference.references import PoolRefFields, Weight, as_pool_ref, group_of
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import NonEmpty, Shape


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
