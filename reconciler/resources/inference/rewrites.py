"""InferenceModelRewrite: requests for one model are sent to others, and in which shares."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.inference import InferencePool, ModelRewrite, RewriteRule, WeightedModel
from reconciler.resources.conditions import read_conditions
from reconciler.resources.inference.references import Fields, PoolRefFields, Weight, as_pool_ref, group_of, share_out
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource

_NonEmpty = Annotated[str, Field(min_length=1)]


class _ModelMatch(Fields):
    type: Literal["Exact"] = "Exact"
    value: _NonEmpty


class _Match(Fields):
    model: _ModelMatch | None = None


class _Target(Fields):
    model_rewrite: _NonEmpty
    weight: Weight | None = None


class _Rule(Fields):
    matches: list[_Match] | None = None
    targets: Annotated[list[_Target], Field(min_length=1)]


class _Spec(Fields):
    pool_ref: PoolRefFields
    rules: list[_Rule] | None = None


def read_rewrite(source: KubernetesObject) -> Iterator[Piece]:
    """The rewrite, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _Spec,
        named=("poolRef", "rules"),
        check=lambda _: (),
        build=lambda spec: _build(source, spec),
    )


def _build(source: KubernetesObject, spec: _Spec) -> Iterator[Piece]:
    yield ModelRewrite(
        key=source.key,
        group=group_of(source),
        place=source.place,
        pool=as_pool_ref(source, spec.pool_ref),
        rules=tuple(_as_rule(source, index, rule) for index, rule in enumerate(spec.rules or ())),
        conditions=read_conditions(source.fields.get("status")),
    )


def _as_rule(source: KubernetesObject, index: int, rule: _Rule) -> RewriteRule:
    matches = rule.matches or []
    # A match without a model fits every request, and so does its rule.
    is_generic = not matches or any(match.model is None for match in matches)
    return RewriteRule(
        matches=() if is_generic else tuple(match.model.value for match in matches if match.model is not None),
        targets=tuple(WeightedModel(name=each.model_rewrite, weight=each.weight) for each in rule.targets),
        place=source.locate(("spec", "rules", index)),
    )


def route_model(rewrites: Iterable[ModelRewrite], pool: InferencePool, model_name: str) -> Mapping[str, float]:
    """The models that a pool's requests for one model reach, and the fraction that each gets.

    A rule that names the model beats one for all; then the first object, by its name since Git knows no age, and
    its first rule.
    """
    rules = [
        rule
        for rewrite in sorted(rewrites, key=lambda each: each.key)
        if (rewrite.key.cluster, rewrite.key.namespace) == (pool.key.cluster, pool.key.namespace)
        and (rewrite.pool.name, rewrite.pool.group) == (pool.key.name, pool.group)
        for rule in rewrite.rules
    ]
    exact = [rule for rule in rules if model_name in rule.matches]
    generic = [rule for rule in rules if not rule.matches]
    rule = next(iter((*exact, *generic)), None)
    return {model_name: 1.0} if rule is None else share_out(rule.targets)
