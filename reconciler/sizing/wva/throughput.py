"""The analyzer `throughput`: tokens that full replicas would make against tokens that are asked for (wva.md 6)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import Role, UpstreamQueue
from reconciler.domain.provenance import Figure
from reconciler.sizing.saturation.replicas import number_fault, screen_queue
from reconciler.sizing.saturation.variants import VariantFacts
from reconciler.sizing.wva.ballot import Ballot, Signal, is_live, signal_of
from reconciler.sizing.wva.latency_line import FULL_USAGE
from reconciler.sizing.wva.latency_windows import ThroughputSample, VariantThroughput, play_back

_UNIT = "tokens/s"
# What waits is to be through within so many steps of a full replica per token.
_DRAIN_STEPS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputReadings:
    """What the analyzer needs: samples of half an hour, and the model's arrival rate (None: not known, for `reason`).

    `period_s` is how often upstream looks, None its default.
    """

    now_s: float
    samples: tuple[ThroughputSample, ...] = ()
    arrival_rate_per_s: float | None = None
    reason: str = ""
    period_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputAnalysis:
    """The vote (None: nothing to vote on), the numbers behind it, and in words what they rest on."""

    ballot: Ballot | None
    reasons: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A variant that decodes, and what its samples tell; `is_current`: it reported when the model did last."""

    variant: VariantFacts
    told: VariantThroughput | None
    is_current: bool

    @property
    def full_per_s(self) -> float | None:
        """What a replica makes when full: as it is now, or as it was while the variant has no replica to ask."""
        if self.told is None:
            return None
        if self.is_current and self.told.num_serving:
            return self.told.full_per_s
        return self.told.last_full_per_s

    @property
    def is_sized(self) -> bool:
        return self.is_current and self.told is not None and self.told.full_per_s is not None

    @property
    def num_serving(self) -> int:
        return self.told.num_serving if self.is_current and self.told is not None else 0

    @property
    def num_pending(self) -> int:
        """Replicas that will serve: not ready, booting, or silent so far."""
        booting = self.told.num_booting if self.is_current and self.told is not None else 0
        return max(self.variant.pending_replicas, booting, self.variant.current_replicas - self.num_serving)

    @property
    def supply_per_s(self) -> float:
        return self.num_serving * (self.full_per_s or 0.0)

    @property
    def anticipated_per_s(self) -> float:
        return (self.num_serving + self.num_pending) * (self.full_per_s or 0.0)


def analyze_throughput(
    variants: Sequence[VariantFacts],
    readings: ThroughputReadings,
    queue: UpstreamQueue | None = None,
    *,
    scale_up: float,
    scale_down: float,
    score: float = 1.0,
) -> ThroughputAnalysis:
    """Return the vote in output tokens per second.

    Prefill makes none, so it is neither asked nor vetoed. Replicas that boot are no supply yet and anticipated.
    Without an arrival rate the demand is what replicas decode now, and nothing is spare.
    """
    members = _members(variants, readings)
    informed_s = max(
        (each.told.informed_s for each in members if each.told and each.told.informed_s is not None), default=None
    )
    reasons, figures = tuple(_words(members, readings)), tuple(_figures(members))
    if informed_s is None:
        return ThroughputAnalysis(ballot=None, reasons=reasons, figures=figures)
    carried = ((each.variant.key, each.full_per_s) for each in members)
    ballot = Ballot(
        analyzer="throughput",
        unit=_UNIT,
        signals=_signals(members, _arrival_rate(readings), queue, scale_up=scale_up, scale_down=scale_down),
        per_replica={key: rate for key, rate in carried if rate},
        score=score,
        is_live=is_live(readings.now_s - informed_s, readings.period_s),
    )
    return ThroughputAnalysis(ballot=ballot, reasons=reasons, figures=figures)


def _members(variants: Sequence[VariantFacts], readings: ThroughputReadings) -> tuple[_Member, ...]:
    samples: dict[ResourceKey, list[ThroughputSample]] = {}
    for sample in readings.samples:
        if math.isfinite(sample.at_s) and sample.at_s <= readings.now_s:
            samples.setdefault(sample.variant, []).append(sample)
    decoding = sorted((each for each in variants if each.role is not Role.PREFILL), key=lambda each: each.key)
    told = {each.key: play_back(samples.get(each.key, ())) for each in decoding}
    last_s = max((each.at_s for each in told.values() if each is not None), default=-math.inf)
    return tuple(
        _Member(variant=variant, told=own, is_current=own is not None and own.at_s == last_s)
        for variant in decoding
        for own in (told[variant.key],)
    )


def _arrival_rate(readings: ThroughputReadings) -> float | None:
    rate = readings.arrival_rate_per_s
    return None if rate is None or number_fault(rate) else rate


def _signals(
    members: Sequence[_Member],
    arrival_per_s: float | None,
    queue: UpstreamQueue | None,
    *,
    scale_up: float,
    scale_down: float,
) -> dict[Role, Signal]:
    """One signal for each role that decodes; they share the model's demand evenly, as upstream has it."""
    roles = sorted({each.variant.role for each in members})
    demand, is_whole = _demand(members, arrival_per_s, queue)
    signals = {}
    for role in roles:
        own = [each for each in members if each.variant.role is role]
        signal = signal_of(
            demand=demand / len(roles),
            supply=math.fsum(each.supply_per_s for each in own),
            anticipated=math.fsum(each.anticipated_per_s for each in own),
            scale_up=scale_up,
            scale_down=scale_down,
        )
        signals[role] = signal if is_whole else _without_spare(signal)
    return signals


def _demand(members: Sequence[_Member], arrival_per_s: float | None, queue: UpstreamQueue | None) -> tuple[float, bool]:
    """Tokens per second asked for, and whether that is all: only arrivals tell, what is decoded is less."""
    sized = [each for each in members if each.is_sized and each.told is not None]
    if not sized:
        return 0.0, False
    told = [each.told for each in sized if each.told is not None]
    queued = _queued_per_s(told, queue)
    outputs = _mean_output_tokens(told)
    if arrival_per_s is None or outputs <= 0:
        return math.fsum(each.local_per_s for each in told) + queued, False
    return arrival_per_s * outputs + queued, True


def _queued_per_s(told: Iterable[VariantThroughput], queue: UpstreamQueue | None) -> float:
    waiting = screen_queue(queue).num_waiting if queue is not None else None
    steps_s = [each.line.at(FULL_USAGE) for each in told if each.line is not None]
    rate = (waiting or 0.0) / (_DRAIN_STEPS * fmean(steps_s)) if steps_s else 0.0
    return 0.0 if number_fault(rate) else rate


def _mean_output_tokens(told: Sequence[VariantThroughput]) -> float:
    """By how many instances of each variant serve."""
    rows = [(each.shape.output_tokens, each.num_serving) for each in told if each.shape is not None]
    serving = sum(count for _, count in rows)
    return math.fsum(tokens * count for tokens, count in rows) / serving if serving else 0.0


def _without_spare(signal: Signal) -> Signal:
    return Signal(
        demand=signal.demand,
        supply=signal.supply,
        anticipated=signal.anticipated,
        required=signal.required,
        spare=0.0,
    )


def _words(members: Sequence[_Member], readings: ThroughputReadings) -> Iterator[str]:
    if not any(each.told for each in members):
        yield "throughput: no sample of a replica that decodes"
        return
    if _arrival_rate(readings) is None:
        why = f": {readings.reason}" if readings.reason else ""
        yield f"throughput: nothing is spare while the arrival rate is unknown{why}"
    for each in members:
        if each.told is not None and each.is_current and each.told.num_serving and not each.is_sized:
            yield f"throughput: nobody knows how fast {each.variant.key.label} decodes"


def _figures(members: Sequence[_Member]) -> Iterator[Figure]:
    for each in members:
        line = each.told.line if each.told is not None else None
        subject = each.variant.key.label
        unknown = "" if line is not None else "no line through its samples"
        numbers: Mapping[str, tuple[float | None, str]] = {
            "step of an idle replica": (line.base_s if line is not None else None, "s"),
            "longer step when full": (line.slope_s if line is not None else None, "s"),
        }
        for name, (value, unit) in numbers.items():
            yield Figure(
                subject=subject, name=name, value=value, unit=unit, reason=line.tier if line is not None else unknown
            )
        rate = each.full_per_s
        yield Figure(
            subject=subject,
            name="throughput of a full replica",
            value=rate,
            unit=_UNIT,
            reason=unknown if rate is None else "",
        )
