"""Pull requests that may be merged in any order: where groups share a model, each must leave it served alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.decision.capacities import Capacities
from reconciler.decision.problems import Posed
from reconciler.decision.proposals import Settled
from reconciler.decision.standing import Standing
from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.requirements import CandidateKey

TOLERANCE = 1e-9
"""What a cover may lack, as in the optimizer."""


def make_independent(standings: Sequence[Standing], posed: Posed, capacities: Capacities, settled: Settled) -> Settled:
    """Let a variant shrink only when what its own group's pull request leaves carries the model's demand."""
    allocations, reasons = dict(settled.allocations), dict(settled.reasons)
    for model, groups in _shared_models(standings).items():
        demand = posed.demands[model].rate_per_s if model in posed.demands else 0.0
        everyone = [standing for members in groups.values() for standing in members]
        for name, members in groups.items():
            merged = {standing.variant.key for standing in members}
            alone = sum(
                _carried(standing, _after(standing, merged, settled.allocations), capacities) for standing in everyone
            )
            if alone >= demand * (1 - TOLERANCE):
                continue
            others = ", ".join(other for other in groups if other != name)
            for standing in _shrinking(members, settled.allocations, capacities):
                key = standing.variant.key
                allocations[key] = standing.variant.current
                reasons[key] = f"waits until {others} is merged: alone it leaves {alone:.4g} of {demand:.4g} req/s"
    return replace(settled, allocations=allocations, reasons=reasons)


def _shared_models(standings: Iterable[Standing]) -> dict[ModelKey, dict[str, list[Standing]]]:
    """The models whose variants are proposed in several pull requests: their variants by group."""
    models: dict[ModelKey, dict[str, list[Standing]]] = {}
    for standing in standings:
        groups = models.setdefault(standing.variant.model, {})
        groups.setdefault(standing.variant.settings.group.value, []).append(standing)
    return {model: dict(sorted(groups.items())) for model, groups in models.items() if len(groups) > 1}


def _after(
    standing: Standing, merged: Iterable[ResourceKey], allocations: Mapping[ResourceKey, Allocation]
) -> Allocation:
    return allocations[standing.variant.key] if standing.variant.key in merged else standing.variant.current


def _carried(standing: Standing, allocation: Allocation, capacities: Capacities) -> float:
    capacity = capacities.of.get(CandidateKey(variant=standing.variant.key, accelerator=allocation.accelerator))
    return capacity.rate_per_s * allocation.replicas if capacity is not None else 0.0


def _shrinking(
    members: Iterable[Standing], allocations: Mapping[ResourceKey, Allocation], capacities: Capacities
) -> list[Standing]:
    return [
        standing
        for standing in members
        if _carried(standing, allocations[standing.variant.key], capacities)
        < _carried(standing, standing.variant.current, capacities)
    ]
