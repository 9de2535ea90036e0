"""What a model that a queue sizes is asked for now, and what it must be able to carry."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.decision.steadiness import Steadied, Swing, steady, swing_of
from reconciler.domain.identity import ModelKey
from reconciler.domain.requirements import CandidateKey
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variants import Variant

Carried = Mapping[CandidateKey, float]
"""What one replica of a candidate carries; one that nobody knows is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDemand:
    """A model's demand: its load with the headroom that its variants ask for.

    `steadied` is what it must be able to carry, so that noise moves no replica; `swing` what its load did before.
    """

    rate_per_s: float
    headroom: float
    steadied: Steadied
    swing: Swing | None = None


def swings_of(variants: Iterable[Variant], snapshot: Snapshot) -> dict[ModelKey, Swing]:
    """What the load of each model did, over the longest time in which one of its variants has to pay back."""
    paybacks_s: defaultdict[ModelKey, float] = defaultdict(float)
    for variant in variants:
        paybacks_s[variant.model] = max(paybacks_s[variant.model], variant.settings.payback_s.value)
    swings = {
        model: swing_of(snapshot.past.get(model), snapshot.now_s, payback_s) for model, payback_s in paybacks_s.items()
    }
    return {model: swing for model, swing in swings.items() if swing is not None}


def demand_of(
    members: Sequence[Variant],
    load_per_s: float,
    swing: Swing | None,
    carried: Carried,
    shrinking: Iterable[Variant],
) -> ModelDemand:
    """The demand of a model on its `members`, of which those that are `shrinking` may lose a replica."""
    headroom = max(variant.settings.headroom.value for variant in members)
    now_per_s, whole = load_per_s * (1 + headroom), sum(_carried(each, carried) for each in members)
    spare = (_carried(variant, carried) / variant.current.replicas for variant in shrinking)
    steadied = steady(now_per_s, headroom, swing, whole, min(filter(None, spare), default=0.0))
    return ModelDemand(rate_per_s=now_per_s, headroom=headroom, steadied=steadied, swing=swing)


def _carried(variant: Variant, carried: Carried) -> float:
    """What a variant's replicas carry now."""
    key = CandidateKey(variant=variant.key, accelerator=variant.current.accelerator)
    return carried.get(key, 0.0) * variant.current.replicas
