"""From the pieces of single files to all that Kthena declares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.domain.declared.declarations import BrokenResource
from reconciler.domain.declared.kthena import (
    BindingResource,
    KthenaResources,
    ModelResource,
    PolicyResource,
    ServingResource,
)
from reconciler.domain.findings import Finding
from reconciler.resources.duplicates import report_duplicate, split_duplicates
from reconciler.resources.kthena.joining import find_contradictions

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedKthena:
    """What is declared, what cannot be used, and what is wrong between resources."""

    declared: KthenaResources
    broken: tuple[BrokenResource, ...]
    findings: tuple[Finding, ...]


def fold_kthena(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> FoldedKthena:
    """Fold the pieces of all files; `broken` are the resources that cannot be used already."""
    policies, broken_policies = split_duplicates(_pick(pieces, PolicyResource))
    bindings, broken_bindings = split_duplicates(_pick(pieces, BindingResource))
    models, broken_models = split_duplicates(_pick(pieces, ModelResource))
    servings, broken_servings = split_duplicates(_pick(pieces, ServingResource))
    doubled = (*broken_policies, *broken_bindings, *broken_models, *broken_servings)
    declared = KthenaResources(
        policies=tuple(policies), bindings=tuple(bindings), models=tuple(models), servings=tuple(servings)
    )
    found = find_contradictions(declared, (each.key for each in (*broken, *doubled)))
    return FoldedKthena(
        declared=declared,
        broken=(*doubled, *found.broken),
        findings=(*map(report_duplicate, doubled), *found.findings),
    )


def _pick(pieces: Sequence[object], kind: type[Kind]) -> list[Kind]:
    return [piece for piece in pieces if isinstance(piece, kind)]
