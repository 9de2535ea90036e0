"""Demand against supply, per model and role: what is missing and what is spare (wva.md 4.3)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import Role
from reconciler.domain.provenance import Figure
from reconciler.sizing.saturation.capacities import QueuedTokens, VariantTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Demand, supply and anticipated supply of a scope, in the analyzer's unit, and what the thresholds make of them.

    `required` is what is missing until utilization falls to the threshold above; `spare` what could go until it
    rises to the one below.
    """

    demand: float
    supply: float
    anticipated: float
    required: float
    spare: float

    @property
    def utilization(self) -> float | None:
        """Demand over supply; None without supply."""
        return self.demand / self.supply if self.supply > 0 else None


def signal_of(*, demand: float, supply: float, anticipated: float, scale_up: float, scale_down: float) -> Signal:
    """Return the signal of a scope; a threshold that is not positive asks for nothing."""
    required = max(0.0, demand / scale_up - anticipated) if scale_up > 0 else 0.0
    spare = max(0.0, supply - demand / scale_down) if scale_down > 0 else 0.0
    return Signal(demand=demand, supply=supply, anticipated=anticipated, required=required, spare=spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """What one analyzer says of a model: a signal per role, and what one replica of a variant carries.

    All in the analyzer's own `unit`. One that is not live neither vetoes nor binds; `score` weighs it in a fair share.
    """

    analyzer: str
    signals: Mapping[Role, Signal]
    per_replica: Mapping[ResourceKey, float]
    score: float = 1.0
    is_live: bool = True
    unit: str = "tokens"


def token_ballot(
    variants: Sequence[VariantTokens],
    queued: QueuedTokens,
    *,
    scale_up: float,
    scale_down: float,
    score: float = 1.0,
) -> Ballot:
    """Return the vote of the analyzer `tokens`: one signal, or one per role where prefill and decode are apart."""
    roles = {each.variant.role for each in variants}
    is_split = roles != {Role.BOTH}
    signals = {}
    for role in sorted(roles):
        own = [each for each in variants if each.variant.role is role] if is_split else list(variants)
        signals[role] = signal_of(
            demand=sum(each.demand_tokens for each in own) + queued.for_role(role),
            supply=sum(each.supply_tokens for each in own),
            anticipated=sum(each.anticipated_tokens for each in own),
            scale_up=scale_up,
            scale_down=scale_down,
        )
    return Ballot(
        analyzer="tokens",
        signals=signals,
        per_replica={each.key: each.per_instance_tokens for each in variants if each.per_instance_tokens is not None},
        score=score,
    )


# An analyzer that was silent for so many periods no longer counts; upstream's period when none is known.
_LIVE_PERIODS = 3
_FALLBACK_PERIOD_S = 30.0


def is_live(age_s: float | None, period_s: float | None = None) -> bool:
    """Return whether an analyzer whose last informative result is `age_s` old still counts (wva.md 5.8)."""
    if age_s is None or not math.isfinite(age_s) or age_s < 0:
        return False
    has_period = period_s is not None and math.isfinite(period_s) and period_s > 0
    return age_s < _LIVE_PERIODS * (period_s if has_period and period_s is not None else _FALLBACK_PERIOD_S)


def ballot_figures(ballot: Ballot) -> Iterator[Figure]:
    """Yield what an analyzer says of each role; `tokens`, which always speaks, needs no name beside its numbers."""
    by = "" if ballot.analyzer == "tokens" else f" by {ballot.analyzer}"
    for role, signal in ballot.signals.items():
        for name in ("demand", "supply", "anticipated", "required", "spare"):
            yield Figure(subject=role, name=name + by, value=getattr(signal, name), unit=ballot.unit)
