"""One model's part of the problem: its demand, what it needs of replicas, and what may be chosen for it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.decision.problem.load_variation import LoadVariation, StabilizedDemand, load_variation, steady
from reconciler.domain.holds import Hold
from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.measured.loads import PastArrivals
from reconciler.domain.requirements import Candidate, Requirement
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import HEADROOM, PAYBACK_S
from reconciler.domain.variants import Variant
from reconciler.sizing.saturation.answer import Filling

Carried = Mapping[CandidateKey, float]
"""What one replica of a candidate carries; one that nobody knows is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDemand:
    """A model's demand: its load with the headroom that its variants ask for.

    `stabilized` is what it must be able to carry, so that noise moves no replica; `variation` what its load did before.
    """

    rate_per_s: float
    headroom: float
    stabilized: StabilizedDemand
    variation: LoadVariation | None = None


def load_variations(variants: Iterable[Variant], snapshot: Snapshot) -> dict[ModelKey, LoadVariation]:
    """What the load of each model did, over the longest time in which one of its variants has to pay back."""
    paybacks_s: defaultdict[ModelKey, float] = defaultdict(float)
    for variant in variants:
        paybacks_s[variant.model] = max(paybacks_s[variant.model], variant.settings[PAYBACK_S].value)
    variations = {
        model: load_variation(past, snapshot.now_s, payback_s)
        for model, payback_s in paybacks_s.items()
        if isinstance(past := snapshot.observed.past.get(model), PastArrivals)
    }
    return {model: variation for model, variation in variations.items() if variation is not None}


def demand_of(
    members: Sequence[Variant],
    load_per_s: float,
    variation: LoadVariation | None,
    carried: Carried,
    shrinking: Iterable[Variant],
) -> ModelDemand:
    """The demand of a model on its `members`, of which those that are `shrinking` may lose a replica."""
    headroom = max(variant.settings[HEADROOM].value for variant in members)
    now_per_s, whole = load_per_s * (1 + headroom), sum(_carried(each, carried) for each in members)
    spare = (_carried(variant, carried) / variant.current.replicas for variant in shrinking)
    stabilized = steady(now_per_s, headroom, variation, whole, min(filter(None, spare), default=0.0))
    return ModelDemand(rate_per_s=now_per_s, headroom=headroom, stabilized=stabilized, variation=variation)


def _carried(variant: Variant, carried: Carried) -> float:
    """What a variant's replicas carry now."""
    key = variant.key.on(variant.current.accelerator)
    return carried.get(key, 0.0) * variant.current.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProblem:
    """What a model needs, one requirement a role, what may be chosen for it, and what is left out.

    `holds` say of variants without a candidate why; `notes` of options that were not considered. `partial` says of
    variants whose model was not wholly seen what is missing: none of them may shrink. `demand` is of a model that is
    sized by a queue, `fillings` of requirements that ask for more than their replicas work on.
    """

    requirements: Sequence[Requirement]
    candidates: Sequence[Candidate] = ()
    current_weights: Mapping[ResourceKey, float] = field(default_factory=dict)
    holds: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    notes: Mapping[ResourceKey, tuple[str, ...]] = field(default_factory=dict)
    partial: Mapping[ResourceKey, Hold] = field(default_factory=dict)
    demand: ModelDemand | None = None
    fillings: Mapping[ModelKey, Filling] = field(default_factory=dict)
