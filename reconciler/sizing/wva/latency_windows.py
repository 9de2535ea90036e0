"""What one variant's samples tell by now: its latency line, and the tokens a full replica of it makes (wva.md 6).

A window of samples is kept until the requests change or what is seen contradicts it; here it is played back.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from reconciler.domain.identity import ResourceKey
from reconciler.sizing.saturation.replicas import number_fault
from reconciler.sizing.wva.latency_line import FULL_USAGE, LatencyLine, Point, Tier, fit_line

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
        **{name: getattr(state, name) for name in VariantThroughput.__slots__ if name != "points"},
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
