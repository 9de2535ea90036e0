"""WVA's first analyzer and the ballots of all: demand against supply per model and role."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from statistics import fmean

from reconciler.domain.identity import Figure, ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role
from reconciler.domain.records import dataclass
from reconciler.sizing.saturation import QueuedTokens, VariantTokens
from reconciler.sizing.saturation_readings import Thresholds, VariantFacts


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
    """Return whether an analyzer whose last informative result is `age_s` old still counts.

    The rule: rules/upstream.md#liveness.
    """
    if age_s is None or not math.isfinite(age_s) or age_s < 0:
        return False
    has_period = period_s is not None and math.isfinite(period_s) and period_s > 0
    return age_s < _LIVE_PERIODS * (period_s if has_period and period_s is not None else _FALLBACK_PERIOD_S)


def ballot_figures(ballot: Ballot) -> Iterator[Figure]:
    """Yield what an analyzer says of each role; `tokens`, which always speaks, needs no name with its numbers."""
    by = "" if ballot.analyzer == "tokens" else f" by {ballot.analyzer}"
    for role, signal in ballot.signals.items():
        for name in ("demand", "supply", "anticipated", "required", "spare"):
            yield Figure(subject=role, name=name + by, value=getattr(signal, name), unit=ballot.unit)


# Fewer replicas that are not saturated have no other to take over what one of them leaves.
FEWEST_FOR_REMOVAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KvUsage:
    """Mean and largest KV cache usage (0-1) of the replicas of a variant."""

    mean: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentAnalysis:
    """Signals of one model, or of one role of it, with what they were made of.

    Spares are means over the `num_open` replicas that are not saturated: `kv_spare` (0-1) and `waiting_spare`
    (requests), 0 when there are none; those after a removal are None where none was tried.
    """

    num_reporting: int
    num_open: int
    saturated: tuple[str, ...]
    kv_spare: float
    waiting_spare: float
    kv_spare_after_removal: float | None
    waiting_spare_after_removal: float | None
    scales_up: bool
    is_removal_safe: bool
    usage: Mapping[ResourceKey, KvUsage]
    reason: str


def analyze_percent(replicas: Iterable[ReplicaMetrics], thresholds: Thresholds) -> PercentAnalysis:
    """Return the signals of these replicas, all variants together, as WVA's first analyzer gives them.

    A missing KV cache usage or queue reads as 0, and a replica that reports neither as absent: that is upstream's
    reading, and the reason why the engine `saturation` does not use it.
    """
    reporting = [each for each in replicas if each.kv_cache_usage is not None or each.num_waiting is not None]
    kv_limit, waiting_limit = thresholds.kv_cache_usage.value, thresholds.num_waiting.value
    kv_spares, waiting_spares, saturated = [], [], []
    for replica in reporting:
        kv_used, waiting = replica.kv_cache_usage or 0.0, replica.num_waiting or 0.0
        if kv_used >= kv_limit or waiting >= waiting_limit:
            saturated.append(replica.label)
        else:
            kv_spares.append(kv_limit - kv_used)
            waiting_spares.append(waiting_limit - waiting)
    kv_spare = fmean(kv_spares) if kv_spares else 0.0
    waiting_spare = fmean(waiting_spares) if waiting_spares else 0.0
    num_open = len(kv_spares)
    kv_after = _after_removal(kv_limit, kv_spare, num_open)
    waiting_after = _after_removal(waiting_limit, waiting_spare, num_open)
    reason = _trigger(kv_spare, waiting_spare, thresholds) if reporting else "no replica reports"
    return PercentAnalysis(
        num_reporting=len(reporting),
        num_open=num_open,
        saturated=tuple(saturated),
        kv_spare=kv_spare,
        waiting_spare=waiting_spare,
        kv_spare_after_removal=kv_after,
        waiting_spare_after_removal=waiting_after,
        scales_up=bool(reporting and reason),
        is_removal_safe=kv_after is not None
        and waiting_after is not None
        and kv_after >= thresholds.kv_spare.value
        and waiting_after >= thresholds.waiting_spare.value,
        usage=_usage(reporting),
        reason=reason,
    )


def _after_removal(limit: float, spare: float, num_open: int) -> float | None:
    """The mean spare once one of the open replicas has left its load to the others."""
    if num_open < FEWEST_FOR_REMOVAL:
        return None
    return limit - (limit - spare) * num_open / (num_open - 1)


def _trigger(kv_spare: float, waiting_spare: float, thresholds: Thresholds) -> str:
    reasons = []
    if kv_spare < thresholds.kv_spare.value:
        reasons.append(f"spare KV cache {kv_spare:.3f} is below {thresholds.kv_spare.value:.3f}")
    if waiting_spare < thresholds.waiting_spare.value:
        reasons.append(f"spare queue {waiting_spare:.1f} is below {thresholds.waiting_spare.value:.1f}")
    return " and ".join(reasons)


def _usage(reporting: list[ReplicaMetrics]) -> dict[ResourceKey, KvUsage]:
    used: dict[ResourceKey, list[float]] = {}
    for replica in reporting:
        used.setdefault(replica.variant, []).append(replica.kv_cache_usage or 0.0)
    return {variant: KvUsage(mean=fmean(values), largest=max(values)) for variant, values in sorted(used.items())}


def percent_figures(analysis: PercentAnalysis, role: Role) -> Iterator[Figure]:
    """Yield what the analyzer `percent` saw of a role, and each variant's KV cache usage."""
    none_removed = "fewer than two replicas are not saturated"
    lines = (
        ("replicas reporting", analysis.num_reporting, "replicas"),
        ("replicas not saturated", analysis.num_open, "replicas"),
        ("spare KV cache", analysis.kv_spare, "fraction"),
        ("spare queue", analysis.waiting_spare, "requests"),
        ("spare KV cache after a removal", analysis.kv_spare_after_removal, "fraction"),
        ("spare queue after a removal", analysis.waiting_spare_after_removal, "requests"),
    )
    for name, value, unit in lines:
        yield Figure(subject=role, name=name, value=value, unit=unit, reason="" if value is not None else none_removed)
    for variant, usage in analysis.usage.items():
        yield Figure(subject=variant.label, name="mean KV cache usage", value=usage.mean, unit="fraction")
        yield Figure(subject=variant.label, name="largest KV cache usage", value=usage.largest, unit="fraction")


class TransitionTest(StrEnum):
    """What tells that a variant is still moving, by release of WVA."""

    PENDING = "v0.8"
    REPORTING = "v0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentTargets:
    """Replicas of every variant of a model or role, and in words why."""

    replicas: Mapping[ResourceKey, int]
    reason: str


def percent_targets(
    analysis: PercentAnalysis,
    variants: Sequence[VariantFacts],
    reporting: Mapping[ResourceKey, int],
    *,
    transition_test: TransitionTest = TransitionTest.PENDING,
) -> PercentTargets:
    """Return what WVA's first analyzer makes of its signals; `reporting` counts the pods that report per variant."""
    current = {variant.key: variant.current_replicas for variant in variants}
    if not variants or analysis.num_reporting == 0:
        return PercentTargets(replicas=_clamped(current, variants), reason="no replica reports: replicas stay")
    moving = sorted(each.name for each in variants if _is_moving(each, reporting, transition_test))
    if moving:
        return PercentTargets(
            replicas={each.key: each.desired_replicas or each.current_replicas for each in variants},
            reason=f"in transition: {', '.join(moving)}",
        )
    replicas, reason = _step(analysis, variants, reporting)
    return PercentTargets(replicas=_clamped(replicas, variants), reason=reason)


def _is_moving(variant: VariantFacts, reporting: Mapping[ResourceKey, int], test: TransitionTest) -> bool:
    if variant.desired_replicas not in (0, variant.current_replicas):
        return True
    if test is TransitionTest.PENDING:
        return variant.pending_replicas > 0
    return reporting.get(variant.key, 0) != variant.current_replicas


def _step(
    analysis: PercentAnalysis, variants: Sequence[VariantFacts], reporting: Mapping[ResourceKey, int]
) -> tuple[dict[ResourceKey, int], str]:
    replicas = {variant.key: variant.current_replicas for variant in variants}
    if analysis.scales_up:
        able = [each for each in variants if reporting.get(each.key, 0) > 0 and each.pending_replicas == 0]
        if able:
            cheapest = min(able, key=lambda each: (each.cost, each.name, each.key))
            replicas[cheapest.key] += 1
            return replicas, f"{analysis.reason}: one more of {cheapest.name}, the cheapest"
    elif analysis.is_removal_safe:
        able = [each for each in variants if each.current_replicas > 1]
        if able:
            dearest = max(able, key=lambda each: (each.cost, each.name, each.key))
            replicas[dearest.key] -= 1
            return replicas, f"the others can take over: one less of {dearest.name}, the dearest"
    return replicas, analysis.reason or "within thresholds"


def _clamped(replicas: Mapping[ResourceKey, int], variants: Sequence[VariantFacts]) -> dict[ResourceKey, int]:
    return {variant.key: variant.clamp(replicas[variant.key]) for variant in variants}
