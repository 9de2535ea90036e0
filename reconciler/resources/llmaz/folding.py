"""From the pieces of single files to all that llmaz declares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.domain.declared.llmaz import (
    BackendRuntime,
    GlobalConfig,
    InferenceService,
    Llmaz,
    OpenModel,
    Playground,
)
from reconciler.domain.declared.workloads import ReplicaOwner
from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, ResourceKey
from reconciler.resources.duplicates import report_duplicate, split_duplicates
from reconciler.resources.llmaz.served_models import find_owners
from reconciler.resources.llmaz.traps import find_traps

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedLlmaz:
    """What is declared, what cannot be used, and who owns replicas; `targets` are the keys of all that is scaled."""

    declared: Llmaz
    owners: tuple[ReplicaOwner, ...]
    broken: tuple[BrokenResource, ...]
    findings: tuple[Finding, ...]
    targets: frozenset[ResourceKey]


def fold_llmaz(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> FoldedLlmaz:
    """Fold the pieces of all files; `broken` are the resources and scale targets that cannot be used already."""
    models, broken_models = split_duplicates(_pick(pieces, OpenModel))
    runtimes, broken_runtimes = split_duplicates(_pick(pieces, BackendRuntime))
    playgrounds, services = _pick(pieces, Playground), _pick(pieces, InferenceService)
    doubled = [*broken_models, *broken_runtimes]
    unusable = {each.key for each in broken}
    declared = Llmaz(
        models=tuple(models),
        playgrounds=tuple(each for each in playgrounds if each.key not in unusable),
        services=tuple(each for each in services if each.key not in unusable),
        runtimes=tuple(runtimes),
        configs=tuple(_pick(pieces, GlobalConfig)),
    )
    return FoldedLlmaz(
        declared=declared,
        owners=tuple(find_owners(declared)),
        broken=tuple(doubled),
        findings=(*map(report_duplicate, doubled), *find_traps(declared, (*broken, *doubled))),
        targets=frozenset([*(each.key for each in playgrounds), *(each.key for each in services)]),
    )


def _pick(pieces: Sequence[object], kind: type[Kind]) -> list[Kind]:
    return [piece for piece in pieces if isinstance(piece, kind)]
