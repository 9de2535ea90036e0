"""From the pieces of single files to all that the inference gateway declares, and what does not fit together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.domain.declared.inference import (
    EXPERIMENTAL_GROUP,
    ROUTER_GROUP,
    Inference,
    InferenceModel,
    InferenceObjective,
    InferencePool,
    ModelRewrite,
    PoolRef,
)
from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.manifests.wording import escape, join_words, quote, suggest
from reconciler.resources.duplicates import report_duplicate, split_duplicates
from reconciler.resources.inference.priorities import list_routed_clusters

_Referring = InferenceObjective | InferenceModel | ModelRewrite
Kind = TypeVar("Kind", InferencePool, InferenceObjective, InferenceModel, ModelRewrite)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedInference:
    """What is declared and what cannot be used."""

    declared: Inference
    broken: tuple[BrokenResource, ...]
    findings: tuple[Finding, ...]


def fold_inference(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> FoldedInference:
    """Fold the pieces of all files; `broken` are the resources that cannot be used already."""
    doubled: list[BrokenResource] = []
    declared = Inference(
        pools=_pick(pieces, InferencePool, doubled),
        objectives=_pick(pieces, InferenceObjective, doubled),
        models=_pick(pieces, InferenceModel, doubled),
        rewrites=_pick(pieces, ModelRewrite, doubled),
    )
    findings = (
        *map(report_duplicate, doubled),
        *_check_groups(declared),
        *_check_references(declared, {each.key for each in (*broken, *doubled)}),
        *_check_names(declared),
    )
    return FoldedInference(declared=declared, broken=tuple(doubled), findings=findings)


def _pick(pieces: Sequence[object], kind: type[Kind], doubled: list[BrokenResource]) -> tuple[Kind, ...]:
    """The objects of a kind that stand alone in their group; the others are added to `doubled`."""
    found = [piece for piece in pieces if isinstance(piece, kind)]
    single: list[Kind] = []
    for group in sorted({each.group for each in found}):
        alone, broken = split_duplicates(each for each in found if each.group == group)
        single += alone
        doubled += broken
    return tuple(single)


def _check_groups(declared: Inference) -> Iterator[Finding]:
    """Where both groups are installed the router reads its own alone."""
    routed = list_routed_clusters(declared)
    written: tuple[InferenceObjective | ModelRewrite, ...] = (*declared.objectives, *declared.rewrites)
    for each in written:
        if each.group == EXPERIMENTAL_GROUP and each.key.cluster in routed:
            message = f"the router ignores {EXPERIMENTAL_GROUP} where {ROUTER_GROUP} is in use: move it there"
            yield _warn(each.place, message, "apiVersion")


def _check_references(declared: Inference, broken: set[ResourceKey]) -> Iterator[Finding]:
    groups: dict[ResourceKey, list[str]] = {}
    for pool in declared.pools:
        groups.setdefault(pool.key, []).append(pool.group)
    referring: tuple[_Referring, ...] = (*declared.objectives, *declared.models, *declared.rewrites)
    for each in referring:
        key = ResourceKey(
            cluster=each.key.cluster, namespace=each.key.namespace, kind="InferencePool", name=each.pool.name
        )
        known = groups.get(key, [])
        if each.pool.group not in known and key not in broken:
            beside = (other.name for other in groups if replace(other, name=key.name) == key)
            yield _report_reference(each.pool, key, known, suggest(key.name, beside))


def _report_reference(ref: PoolRef, key: ResourceKey, groups: Sequence[str], hint: str) -> Finding:
    if groups:
        known = join_words(sorted(groups), "and")
        return _warn(
            ref.place,
            f"InferencePool {escape(key.label)} is of {known}, not of {quote(ref.group)}: it is not meant, "
            "as the group must be the same",
        )
    words = f"InferencePool {escape(key.label)} is not in Git"
    if hint:
        return Finding(place=ref.place, severity=Severity.ERROR, message=words + hint)
    return _warn(ref.place, f"{words}: nobody is known whom this is about")


def _check_names(declared: Inference) -> Iterator[Finding]:
    """Findings for InferenceModels of one pool and model name: a cluster keeps the older one, and Git knows no age."""
    first: dict[tuple[ResourceKey, str, str, str], InferenceModel] = {}
    for model in declared.models:
        scope = ResourceKey(cluster=model.key.cluster, namespace=model.key.namespace, kind="", name="")
        other = first.setdefault((scope, model.pool.group, model.pool.name, model.model_name), model)
        if other is not model:
            message = f"modelName {quote(model.model_name)} is already taken in this pool at {other.place}"
            yield _warn(model.place, message, "spec.modelName")


def _warn(place: Place, message: str, field: str = "") -> Finding:
    shown = Place(path=place.path, line=place.line, field=field or place.field)
    return Finding(place=shown, severity=Severity.WARNING, message=message)
