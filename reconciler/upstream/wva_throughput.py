"""WVA's throughput analyzer: tokens that full replicas would make against tokens that are asked for."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from statistics import fmean

from reconciler.domain.identity import Figure, ResourceKey
from reconciler.domain.observed import Role, UpstreamQueue
from reconciler.domain.records import dataclass, field_names
from reconciler.sizing.saturation_readings import VariantFacts, number_fault, screen_queue
from reconciler.upstream.wva_analyzers import Ballot, Signal, is_live, signal_of

# Where a replica counts as full.
FULL_USAGE = 0.85
_LEAST_SAMPLES = 10
_LEAST_SPREAD = 0.30
_LEAST_SLOPE = 1e-12
# A step of a replica that does next to nothing, where no line was fitted yet.
_UNFITTED_BASE_S = 0.006

Point = tuple[float, float]
"""KV cache usage (0-1) and inter-token latency in seconds."""


class Tier(StrEnum):
    """Where a line comes from."""

    FITTED = "T1-ols"
    PINNED = "T2-pinned"
    ASSUMED = "T2-default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLine:
    """A step takes `base_s + slope_s * usage` seconds."""

    slope_s: float
    base_s: float
    tier: Tier

    def at(self, usage: float) -> float:
        """Inter-token latency in seconds."""
        return self.base_s + self.slope_s * usage

    @property
    def is_valid(self) -> bool:
        """Whether steps take longer in a fuller replica, and some time in a full one."""
        return _LEAST_SLOPE < self.slope_s < math.inf and 0 < self.at(FULL_USAGE) < math.inf


def fit_line(window: Sequence[Point], current: Sequence[Point], fitted_base_s: float | None) -> LatencyLine | None:
    """Return the line through the window if it is long and wide enough, else one through `current` with its base given.

    The base is that of the last line fitted, 6 ms before there was one. None: no line, or none that is valid.
    """
    lines = (_fitted(window), _pinned(current, fitted_base_s))
    return next((line for line in lines if line is not None and line.is_valid), None)


def _fitted(window: Sequence[Point]) -> LatencyLine | None:
    usages = [usage for usage, _ in window]
    # The spread of .50 and .80 is not .30 in float64.
    if len(window) < _LEAST_SAMPLES or max(usages) - min(usages) < _LEAST_SPREAD * (1 - 1e-9):
        return None
    mean_usage, mean_s = fmean(usages), fmean(latency_s for _, latency_s in window)
    spread = math.fsum((usage - mean_usage) ** 2 for usage in usages)
    slope_s = math.fsum((usage - mean_usage) * (latency_s - mean_s) for usage, latency_s in window) / spread
    return LatencyLine(slope_s=slope_s, base_s=mean_s - slope_s * mean_usage, tier=Tier.FITTED)


def _pinned(current: Sequence[Point], fitted_base_s: float | None) -> LatencyLine | None:
    busy = [(usage, latency_s) for usage, latency_s in current if usage > 0 and latency_s > 0]
    squares = math.fsum(usage * usage for usage, _ in busy)
    if squares <= 0:
        return None
    base_s = _UNFITTED_BASE_S if fitted_base_s is None else fitted_base_s
    slope_s = math.fsum((latency_s - base_s) * usage for usage, latency_s in busy) / squares
    return LatencyLine(slope_s=slope_s, base_s=base_s, tier=Tier.ASSUMED if fitted_base_s is None else Tier.PINNED)


# What one variant's samples tell by now: its latency line, and the tokens a full replica of it makes: see
# rules/upstream.md#throughput. A window of samples is kept until the requests change or what is seen contradicts it;
# here it is played back.

_MOST_SAMPLES = 20
_OLDEST_S = 1800.0
_LEAST_USAGE, _MOST_USAGE = 0.15, 0.85
_SHAPE_TOLERANCE = 0.20
_RATE_TOLERANCE = 0.15
# Below it a replica has too few requests for its rate to say anything of the line.
_LEAST_VERIFIED_USAGE = 0.30
_MOST_MISMATCHES = 3
# Shorter outputs are no sign of decoding: what fills the cache is prefill.
_LEAST_DECODED_TOKENS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSample:
    """What one instance reported at one time: usage as it was then (no maximum), rates and latencies of a minute.

    Lengths in tokens, `kv_tokens` what its KV cache holds (0 or None: it boots). None and NaN are not known.
    """

    pod: str
    variant: ResourceKey
    at_s: float
    instance: str = ""
    kv_cache_usage: float | None = None
    itl_s: float | None = None
    tokens_per_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prefix_hit_rate: float | None = None
    kv_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Mean lengths of requests in tokens, and the fraction of a prompt that is cached."""

    input_tokens: float
    output_tokens: float
    prefix_hit_rate: float = 0.0

    @property
    def held_tokens(self) -> float:
        """KV cache tokens that a request holds, averaged over its life."""
        return self.input_tokens * (1 - self.prefix_hit_rate) + self.output_tokens / 2

    def is_like(self, other: "RequestShape") -> bool:
        """Whether neither length moved by more than the tolerance."""
        pairs = (self.input_tokens, other.input_tokens), (self.output_tokens, other.output_tokens)
        # A fifth more is a fifth more, whichever way a mean was rounded.
        return all(abs(mine - theirs) <= _SHAPE_TOLERANCE * theirs * (1 + 1e-9) for mine, theirs in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantThroughput:
    """What is known of a variant after its last samples; rates in output tokens per second.

    `line` None: the last samples have none. `full_per_s` is the mean of its instances when full, `last_full_per_s` the
    last one known, at `informed_s`; `local_per_s` is what the last samples decoded, by the line. `points` are left in
    the window.
    """

    at_s: float
    num_serving: int = 0
    num_booting: int = 0
    line: LatencyLine | None = None
    shape: RequestShape | None = None
    full_per_s: float | None = None
    last_full_per_s: float | None = None
    informed_s: float | None = None
    local_per_s: float = 0.0
    points: tuple[Point, ...] = ()


@dataclass(slots=True)
class _Playback:
    """The window while samples pass."""

    points: list[tuple[float, Point]]
    shape: RequestShape | None = None
    fitted_base_s: float | None = None
    mismatches: int = 0

    def clear(self) -> None:
        self.points.clear()
        self.mismatches = 0

    def take(self, at_s: float, samples: Sequence[ThroughputSample]) -> tuple[RequestShape | None, LatencyLine | None]:
        """Pass the samples of one time; return their shape and the line that held then."""
        shape = _shape_of(samples)
        if shape is None:
            return None, None
        if self.shape is not None and not shape.is_like(self.shape):
            self.clear()
        self.shape = shape
        current = [point for sample in samples if (point := _point_of(sample)) is not None]
        self.points.extend((at_s, point) for point in current if _LEAST_USAGE <= point[0] <= _MOST_USAGE)
        self.points = [each for each in self.points if at_s - each[0] <= _OLDEST_S][-_MOST_SAMPLES:]
        line = fit_line([point for _, point in self.points], current, self.fitted_base_s)
        if line is not None and line.tier is Tier.FITTED:
            self.fitted_base_s = line.base_s
        self._verify(samples, shape, line)
        return shape, line

    def _verify(self, samples: Sequence[ThroughputSample], shape: RequestShape, line: LatencyLine | None) -> None:
        contradicted = line is not None and any(_is_contradicted(sample, shape, line) for sample in samples)
        self.mismatches = self.mismatches + 1 if contradicted else 0
        if self.mismatches >= _MOST_MISMATCHES:
            self.clear()


def play_back(samples: Iterable[ThroughputSample]) -> VariantThroughput | None:
    """Return what the samples of one variant tell by the time of the last; None without any."""
    playback = _Playback(points=[])
    state: VariantThroughput | None = None
    dated = (each for each in samples if math.isfinite(each.at_s))
    ordered = sorted((_cleaned(each) for each in dated), key=lambda each: (each.at_s, each.pod, each.instance))
    for at_s, group in groupby(ordered, key=lambda each: each.at_s):
        # An instance that is scraped twice counts once.
        cycle = tuple({(each.pod, each.instance): each for each in group}.values())
        shape, line = playback.take(at_s, cycle)
        state = _state(at_s, cycle, shape, line, state)
    if state is None:
        return None
    return VariantThroughput(
        **{name: getattr(state, name) for name in field_names(VariantThroughput) if name != "points"},
        points=tuple(point for _, point in playback.points),
    )


def decoded_per_s(usage: float, kv_tokens: float, shape: RequestShape, line: LatencyLine) -> float | None:
    """Return the output tokens per second of a replica at that usage: N(k) / ITL(k); None where that is no number."""
    step_s = line.at(usage)
    if step_s <= 0 or shape.held_tokens <= 0:
        return None
    rate = usage * kv_tokens / shape.held_tokens / step_s
    return None if number_fault(rate) else rate


def _state(
    at_s: float,
    samples: Sequence[ThroughputSample],
    shape: RequestShape | None,
    line: LatencyLine | None,
    before: VariantThroughput | None,
) -> VariantThroughput:
    serving = [sample.kv_tokens for sample in samples if sample.kv_tokens]
    full, local = None, 0.0
    if shape is not None and line is not None and serving:
        rates = [decoded_per_s(FULL_USAGE, kv_tokens, shape, line) for kv_tokens in serving]
        known = [rate for rate in rates if rate]
        full = math.fsum(known) / len(serving) if known else None
        local = _local_per_s(samples, shape, line)
    return VariantThroughput(
        at_s=at_s,
        num_serving=len(serving),
        num_booting=len(samples) - len(serving),
        line=line,
        shape=shape,
        full_per_s=full,
        last_full_per_s=full if full is not None or before is None else before.last_full_per_s,
        informed_s=at_s if full is not None else before.informed_s if before is not None else None,
        local_per_s=local,
    )


def _local_per_s(samples: Sequence[ThroughputSample], shape: RequestShape, line: LatencyLine) -> float:
    if shape.output_tokens <= _LEAST_DECODED_TOKENS:
        return 0.0
    rates = (
        decoded_per_s(sample.kv_cache_usage, sample.kv_tokens, shape, line)
        for sample in samples
        if sample.kv_cache_usage and sample.kv_tokens
    )
    return math.fsum(rate for rate in rates if rate is not None)


def _is_contradicted(sample: ThroughputSample, shape: RequestShape, line: LatencyLine) -> bool:
    usage, kv_tokens, observed = sample.kv_cache_usage, sample.kv_tokens, sample.tokens_per_s
    if usage is None or usage < _LEAST_VERIFIED_USAGE or not kv_tokens or not observed:
        return False
    expected = decoded_per_s(usage, kv_tokens, shape, line)
    return expected is not None and abs(expected - observed) > _RATE_TOLERANCE * observed


def _shape_of(samples: Sequence[ThroughputSample]) -> RequestShape | None:
    """The mean lengths of the samples that say both, by how many requests each of them finishes."""
    rows = [
        (
            each.input_tokens,
            each.output_tokens,
            each.prefix_hit_rate or 0.0,
            (each.tokens_per_s or 0.0) / each.output_tokens,
        )
        for each in samples
        if each.input_tokens and each.output_tokens
    ]
    if not rows:
        return None
    weights = [row[3] if math.isfinite(row[3]) else 0.0 for row in rows]
    if not math.fsum(weights):
        weights = [1.0] * len(rows)
    inputs, outputs, hits = (
        math.fsum(row[column] * weight for row, weight in zip(rows, weights, strict=True)) / math.fsum(weights)
        for column in range(3)
    )
    shape = RequestShape(input_tokens=inputs, output_tokens=outputs, prefix_hit_rate=hits)
    return shape if 0 < shape.held_tokens < math.inf else None


def _point_of(sample: ThroughputSample) -> Point | None:
    if sample.kv_cache_usage is None or not sample.itl_s:
        return None
    return sample.kv_cache_usage, sample.itl_s


def _cleaned(sample: ThroughputSample) -> ThroughputSample:
    """The same sample without the numbers that are none."""

    def sound(value: float | None, *, is_fraction: bool = False) -> float | None:
        return None if value is None or number_fault(value, is_fraction=is_fraction) else float(value)

    return ThroughputSample(
        pod=sample.pod,
        variant=sample.variant,
        at_s=sample.at_s,
        instance=sample.instance,
        kv_cache_usage=sound(sample.kv_cache_usage, is_fraction=True),
        itl_s=sound(sample.itl_s),
        tokens_per_s=sound(sample.tokens_per_s),
        input_tokens=sound(sample.input_tokens),
        output_tokens=sound(sample.output_tokens),
        prefix_hit_rate=sound(sample.prefix_hit_rate, is_fraction=True),
        kv_tokens=sound(sample.kv_tokens),
    )


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
        signals[role] = (
            signal
            if is_whole
            else (
                Signal(
                    demand=signal.demand,
                    supply=signal.supply,
                    anticipated=signal.anticipated,
                    required=signal.required,
                    spare=0.0,
                )
            )
        )
    return signals


def _demand(members: Sequence[_Member], arrival_per_s: float | None, queue: UpstreamQueue | None) -> tuple[float, bool]:
    """Tokens per second asked for, and whether that is all: only arrivals tell, what is decoded is less."""
    sized = [each for each in members if each.is_sized and each.told is not None]
    if not sized:
        return 0.0, False
    told = [each.told for each in sized if each.told is not None]
    waiting = screen_queue(queue).num_waiting if queue is not None else None
    steps_s = [each.line.at(FULL_USAGE) for each in told if each.line is not None]
    rate = (waiting or 0.0) / (_DRAIN_STEPS * fmean(steps_s)) if steps_s else 0.0
    queued = 0.0 if number_fault(rate) else rate
    # By how many instances of each variant serve.
    rows = [(each.shape.output_tokens, each.num_serving) for each in told if each.shape is not None]
    serving = sum(count for _, count in rows)
    outputs = math.fsum(tokens * count for tokens, count in rows) / serving if serving else 0.0
    if arrival_per_s is None or outputs <= 0:
        return math.fsum(each.local_per_s for each in told) + queued, False
    return arrival_per_s * outputs + queued, True


def _words(members: Sequence[_Member], readings: ThroughputReadings) -> Iterator[str]:
    if not any(each.told for each in members):
        yield "throughput: no sample of a replica that decodes"
        return
    if _arrival_rate(readings) is None:
        why = f": {readings.reason}" if readings.reason else ""
        yield f"throughput: nothing is spare while the arrival rate is unknown{why}"
    for each in members:
        if each.told is not None and each.is_current and each.told.num_serving and not each.is_sized:
            yield f"throughput: it is not known how fast {each.variant.key.label} decodes"


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
