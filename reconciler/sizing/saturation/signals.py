"""Demand against supply, per model and role: what is missing and what is spare (wva.md 4.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.replicas import Role, UpstreamQueue
from reconciler.sizing.saturation.capacities import MeanLengths, VariantTokens
from reconciler.sizing.saturation.replicas import number_fault

# What one token of a prompt takes in a queue that counts bytes.
_BYTES_PER_TOKEN = 4


def screen_queue(queue: UpstreamQueue) -> UpstreamQueue:
    """Return the same queue without the numbers that are none, with the reason."""
    numbers = {"queued requests": queue.num_waiting, "queued bytes": queue.waiting_bytes}
    said = ((name, number_fault(value)) for name, value in numbers.items() if value is not None)
    faults = tuple(f"{name}: {fault}" for name, fault in said if fault)
    if not faults:
        return queue
    sound = [
        value if value is not None and not number_fault(value) else None
        for value in (queue.num_waiting, queue.waiting_bytes)
    ]
    return UpstreamQueue(num_waiting=sound[0], waiting_bytes=sound[1], reason="; ".join(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTokens:
    """What an upstream queue will ask for: prompts that are not cached, and outputs."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0

    def for_role(self, role: Role) -> float:
        """The share that a role will hold: prefill no outputs, decode all of it."""
        return self.input_tokens if role is Role.PREFILL else self.input_tokens + self.output_tokens


def queued_tokens(queue: UpstreamQueue | None, lengths: MeanLengths | None) -> QueuedTokens:
    """Return the tokens of a queue: in = max(bytes / 4, size * I) * (1 - h), out = size * O."""
    if queue is None:
        return QueuedTokens()
    sound = screen_queue(queue)
    size = sound.num_waiting or 0.0
    known = lengths or MeanLengths(input_tokens=0.0, output_tokens=0.0, prefix_hit_rate=0.0)
    prompts = max((sound.waiting_bytes or 0.0) / _BYTES_PER_TOKEN, size * known.input_tokens)
    return QueuedTokens(input_tokens=prompts * (1 - known.prefix_hit_rate), output_tokens=size * known.output_tokens)


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
