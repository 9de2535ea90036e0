"""The rule of `payback` for saturation: what was needed within it, or will be again by its noise, is kept."""

import math
from collections.abc import Sequence
from dataclasses import replace

from reconciler.decision.engines.saturation.past import PastFullness, as_arrivals, past_fullness
from reconciler.decision.problem.load_variation import (
    LoadVariation,
    StabilizedDemand,
    load_variation,
    reach_of,
    steady,
)
from reconciler.decision.spans import ago, span
from reconciler.domain.requirements import Requirement, Segment
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.sizing.arrays import Floats
from reconciler.sizing.saturation.answer import Filling, ModelReadings, SaturationAnswer


def stabilize(
    snapshot: Snapshot, members: Sequence[Variant], readings: ModelReadings, answer: SaturationAnswer, payback_s: float
) -> SaturationAnswer:
    """The answer with requirements that let a replica go only where nothing of `payback` needed it.

    What would grow, or stays, is as it was; so is a model that somebody lets go to zero.
    """
    requirements, fillings, reasons = [], dict(answer.fillings), dict(answer.reasons)
    for requirement in answer.requirements:
        filling, stabilized = fillings.get(requirement.model), requirement
        own = [member for member in members if member.key in {key.variant for key in requirement.per_replica}]
        carried = sum(_carried(requirement, member) * member.current.replicas for member in own)
        fullness = past_fullness(snapshot, own, payback_s)
        variation = None
        if filling is not None and fullness is not None and requirement.amount > 0:
            past = as_arrivals(_worked_on(requirement, readings, fullness), fullness)
            variation = load_variation(past, snapshot.now_s, payback_s, counts_requests=False)
        if filling is not None and variation is not None:
            filling = replace(filling, reach=reach_of(filling.demand, variation, math.inf) / filling.full)
            fillings[requirement.model] = filling
        if filling is not None and fullness is not None and 0 < requirement.amount < carried:
            least = min((_carried(requirement, each) for each in own if each.current.replicas), default=0.0)
            demand = _steady(filling, variation, carried, least)
            if demand.amount_per_s > requirement.amount:
                stabilized = replace(requirement, segments=(Segment(amount=demand.amount_per_s),))
                fillings[requirement.model] = replace(filling, least=max(requirement.amount, demand.kept_per_s))
                reasons[requirement.model] = _words(requirement, variation, payback_s)
        requirements.append(stabilized)
    return replace(answer, requirements=tuple(requirements), fillings=fillings, reasons=reasons)


def _carried(requirement: Requirement, variant: Variant) -> float:
    return requirement.per_replica.get(variant.key.on(variant.current.accelerator), 0.0)


def _worked_on(requirement: Requirement, readings: ModelReadings, fullness: PastFullness) -> Floats:
    if requirement.unit == "replicas":
        return fullness.in_replicas(readings.thresholds)
    kv_tokens = {each.pod: each.kv_tokens for each in readings.replicas if each.kv_tokens is not None}
    return fullness.in_tokens(kv_tokens, {each.key: each.role for each in readings.variants})


def _steady(filling: Filling, variation: LoadVariation | None, carried: float, least: float) -> StabilizedDemand:
    """Nothing goes where nothing could be counted."""
    if variation is None:
        return StabilizedDemand(amount_per_s=carried, kept_per_s=carried)
    return steady(filling.demand / filling.full, 1 / filling.full - 1, variation, carried, least)


def _words(requirement: Requirement, variation: LoadVariation | None, payback_s: float) -> str:
    if variation is None:
        return f"kept: nobody knows how many {requirement.unit} were worked on within the last {span(payback_s)}"
    return (
        f"kept: {variation.peak_per_s:.4g} {requirement.unit} were worked on {ago(variation.peak_age_s)}, "
        f"{variation.mean_per_s:.4g} on average; payback {span(payback_s)}"
    )
