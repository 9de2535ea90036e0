"""What a profile is learned from, and the robust lines and prefill laws that are fitted to it."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.observed import Trace
from reconciler.domain.records import dataclass, field_names, replace
from reconciler.sizing.arrays import Bools, Floats

# Beyond these a number is no measurement, and squares of it would overflow: a nanosecond, eleven days, a billion.
SHORTEST_S, LONGEST_S = 1e-9, 1e6
MOST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """What replicas of one model on one accelerator reported, arrays of shape (samples,), NaN where unknown.

    A sample is a window of one replica: mean latencies of its requests (`ttft_s` includes `wait_s`), mean counts over
    time, mean tokens of a request, the mean share of the KV cache that is in use (0-1), requests completed a second,
    and the share of prompts that the prefix cache held (0-1).
    """

    itl_s: Floats
    ttft_s: Floats
    wait_s: Floats
    num_running: Floats
    num_waiting: Floats
    input_tokens: Floats
    output_tokens: Floats
    kv_cache_usage: Floats
    completions: Floats
    prefix_hit_rate: Floats

    def chosen(self, which: Bools | NDArray[np.intp]) -> "Samples":
        """Return the samples that `which` says, a mask or an order."""
        return Samples(**{name: getattr(self, name)[which] for name in field_names(Samples)})


def samples_of(traces: Sequence[Trace]) -> Samples:
    """Return the moments of all traces, one after the other; a series that is absent or ends early is unknown."""
    return Samples(
        itl_s=_joined(traces, "itl"),
        ttft_s=_joined(traces, "ttft"),
        wait_s=_joined(traces, "wait"),
        num_running=_joined(traces, "running"),
        num_waiting=_joined(traces, "waiting"),
        input_tokens=_joined(traces, "input_tokens"),
        output_tokens=_joined(traces, "output_tokens"),
        kv_cache_usage=_joined(traces, "kv_cache_usage"),
        completions=_joined(traces, "completions"),
        prefix_hit_rate=_joined(traces, "prefix_hit_rate"),
    )


def series_of(trace: Trace, name: str) -> Floats:
    """Return one series of a trace, as long as its longest one, NaN where unknown; shape (moments,)."""
    known = np.asarray(trace.series.get(name, ()), dtype=np.float64)
    moments = max(map(len, trace.series.values()), default=0)
    return np.concatenate([known, np.full(moments - known.size, np.nan)])


def plausible(values: Floats, least: float, most: float) -> Floats:
    """Return the values with NaN for all that cannot have been measured; shape kept."""
    return np.where((values >= least) & (values <= most), values, np.nan)


def measured(samples: Samples) -> Samples:
    """Return only what can have been measured, in an order that depends on nothing but the values.

    Sums of floats depend on their order: the same samples shuffled would give another last digit.
    """
    columns = (
        plausible(samples.itl_s, SHORTEST_S, LONGEST_S),
        plausible(samples.ttft_s, SHORTEST_S, LONGEST_S),
        plausible(samples.wait_s, 0.0, LONGEST_S),
        plausible(samples.num_running, 0.0, MOST),
        plausible(samples.num_waiting, 0.0, MOST),
        plausible(samples.input_tokens, 1.0, MOST),
        plausible(samples.output_tokens, 1.0, MOST),
        plausible(samples.kv_cache_usage, 0.0, 1.0),
        plausible(samples.completions, 0.0, MOST),
        plausible(samples.prefix_hit_rate, 0.0, 1.0),
    )
    return Samples(**dict(zip(field_names(Samples), columns, strict=True))).chosen(np.lexsort(columns))


# What is learned is wrong by so much, at the best; bursts are told beyond this many standard errors.
_LEAST_MARGIN, _MOST_MARGIN, _CERTAIN_BURST = 1.05, 3.0, 3.0
# Of so many standard deviations of the load a percentile still keeps its target. Bursts last so long at least: in the
# one public trace that has some, Azure's code requests of 2023, counts of 15 s vary as much as those of 4 s (CV 1.1 to
# 1.3), and those of a minute less (0.9).
_CARRIED_DEVIATIONS, _SHORTEST_BURST_S = 1.4, 15.0


def margin_of(traces: Sequence[Trace], window_s: float) -> float:
    """Return how much more than its mean a load must be sized for, more where it comes in bursts.

    Completions of neighbouring windows differ by chance, by as much as Poisson's law says; by what is beyond that the
    rate itself varies. What varies within a window is averaged by requests that run for longer than a burst, and by no
    others. Of few requests little is certain, so the variance counts with its standard error. `window_s` is what a rate
    is the mean of.
    """
    columns = [(plausible(series_of(each, "completions"), 0.0, MOST), series_of(each, "running")) for each in traces]
    # Second differences: a load that only rises, as every morning, is no burst.
    bends = np.concatenate([np.empty(0), *(np.diff(rates, 2) for rates, _ in columns)])
    means = np.concatenate([np.empty(0), *((rates[2:] + rates[1:-1] + rates[:-2]) / 3 for rates, _ in columns)])
    running = np.concatenate([np.empty(0), *(each[1:-1] for _, each in columns)])
    told = (means > 0) & np.isfinite(bends * running)
    if np.count_nonzero(told) < FEWEST_SAMPLES:
        return _LEAST_MARGIN
    weights = means[told] / means[told].sum()
    beyond = np.square(bends[told] / means[told]) / 6 - 1 / (means[told] * window_s)
    variance = float(weights @ beyond)
    error = float(np.sqrt(np.square(weights) @ np.square(beyond - variance)))
    if variance <= _CERTAIN_BURST * error:
        return _LEAST_MARGIN
    service_s = float(running[told].sum() / means[told].sum())
    deviation = float(np.sqrt((variance + error) * window_s / (service_s + _SHORTEST_BURST_S)))
    return min(_LEAST_MARGIN * (1 + _CARRIED_DEVIATIONS * deviation), _MOST_MARGIN)


# Of a rounding or a request that was stopped; below, each step makes one token.
_LEAST_TOKENS = 1.25


def tokens_per_step_of(samples: Samples) -> float:
    """Return how many tokens of a request a step makes, 1 unless speculation makes several.

    Engines count the gaps between tokens once a step. How long requests run (Little's law) tells how many steps that
    were.
    """
    steps_s = samples.completions * (samples.output_tokens - 1) * samples.itl_s
    first_s = samples.ttft_s - np.nan_to_num(samples.wait_s)
    run_s = samples.num_running - samples.completions * first_s
    told = np.isfinite(steps_s * run_s)
    if np.count_nonzero(told) < FEWEST_SAMPLES or not (decode_s := float(run_s[told].sum())) > 0:
        return 1.0
    tokens = float(steps_s[told].sum()) / decode_s
    return tokens if tokens >= _LEAST_TOKENS else 1.0


_MOST_CACHED = 0.95


def cached_of(samples: Samples) -> float:
    """Return the share of prompts that the prefix cache held."""
    tokens = samples.input_tokens * samples.completions
    told = np.isfinite(samples.prefix_hit_rate * tokens)
    if np.count_nonzero(told) < FEWEST_SAMPLES or not (total := float(tokens[told].sum())) > 0:
        return 0.0
    return min(float(samples.prefix_hit_rate[told] @ tokens[told]) / total, _MOST_CACHED)


def _joined(traces: Sequence[Trace], name: str) -> Floats:
    return np.concatenate([np.empty(0), *(series_of(trace, name) for trace in traces)])


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Requests that run at once at most, and tokens that an iteration computes at most; None is not known.

    `step_tokens` are those that a step computes of a request: with speculative decoding its drafts, too.
    """

    max_batch_size: int | None = None
    token_budget: int | None = None
    step_tokens: int | None = None


UNKNOWN_LIMITS = EngineLimits()


# A straight line through noisy points of which some are nonsense: every law learned here is one. Why not a general
# optimizer: with one slope and one base, neither negative, a weighted step is a closed form, so a fit is a few passes
# over the samples and exact where they are. Three enemies, three means: nonsense: one point in ten may be anything.
# The start is the median of slopes between medians of bins (Theil-Sen); then points are weighed by their distance in
# relative terms, and far ones weigh nothing (Tukey's bisquare). noise that grows with the value: distances are
# relative, and so is the weight of a point, 1 / fitted^2. noise in x: it flattens the slope, because it adds to the
# spread of x. How noisy x is cannot be told from the points, so a share of what is seen in y is taken for granted in
# x and its spread reduced by that (errors in variables, corrected moments). Between "x is exact" and "x is as noisy
# as y" the share of one half is wrong by the least.

_Step: TypeAlias = tuple[float, float]

_BINS, _FEWEST_IN_BIN = 32, 5
_MOST_ROUNDS, _SETTLED = 40, 1e-11
# The standard deviation of a normal distribution by its median distance; the bisquare's reach at 95 % efficiency.
_DEVIATION_OF_MEDIAN, _REACH = 1.4826, 4.685
# Distances that no clock can tell are not suspicious.
_LEAST_SCALE = 1e-3
# Squared: noise of x in terms of that of y; the most noise that x is held to have; the spread that always remains.
_NOISE_SHARE, _MOST_NOISE, _LEAST_SPREAD = 0.5, 0.1**2, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLine:
    """y = base + slope * x, neither negative.

    `error` is the median of |y / fitted - 1|, over all points. `scale` is the standard deviation of that among the
    points believed, whose weights add up to `weight`, with their middle and spread in x.
    """

    base: float
    slope: float
    error: float
    scale: float
    weight: float
    middle: float
    spread: float

    def uncertainty_at(self, x: float) -> float:
        """Return the standard error of the fitted value at x, as a share of it; infinite when nothing says."""
        fitted = self.base + self.slope * x
        if not (fitted > 0 and self.weight > 0 and self.spread > 0):
            return float("inf")
        return float(self.scale / fitted * np.sqrt(1 / self.weight + (x - self.middle) ** 2 / self.spread))


def fit_line(x: Floats, y: Floats) -> FittedLine:
    """Return the robust line through the points, shape (points,), all above 0; x must not be one value.

    The order of the points must be theirs alone (`measured`).
    """
    base, slope = _start(x, y)
    for _ in range(_MOST_ROUNDS):
        before = base, slope
        weights, scale = _weigh(x, y, base, slope)
        steepness = slope * x / (base + slope * x)
        noise = _NOISE_SHARE * scale**2 / (1 + _NOISE_SHARE * np.mean(steepness**2))
        base, slope = _solve(x, y, weights / weights.sum(), min(float(noise), _MOST_NOISE))
        if np.allclose((base, slope), before, rtol=_SETTLED, atol=0.0):
            break
    return _describe(x, y, base, slope)


def _start(x: Floats, y: Floats) -> _Step:
    """Return a rough line that a quarter of nonsense does not move."""
    bins = min(_BINS, x.size // _FEWEST_IN_BIN)
    even = np.rint(np.linspace(0, x.size - 1, bins * (x.size // bins))).astype(np.intp)
    order = np.lexsort((y, x))[even]
    middles, heights = (np.median(each[order].reshape(bins, -1), axis=1) for each in (x, y))
    left, right = np.triu_indices(bins, 1)
    runs, rises = middles[right] - middles[left], heights[right] - heights[left]
    apart = runs > 0
    slope = max(float(np.median(rises[apart] / runs[apart])), 0.0) if apart.any() else 0.0
    base = float(np.median(heights - slope * middles))
    return (base, slope) if base > 0 else (0.0, float(np.median(heights / middles)))


def _weigh(x: Floats, y: Floats, base: float, slope: float) -> tuple[Floats, float]:
    """Return the weight of every point, and the standard deviation of relative distances."""
    fitted = base + slope * x
    distance = np.abs(y / fitted - 1)
    scale = _DEVIATION_OF_MEDIAN * float(np.median(distance))
    reach = _REACH * max(scale, _LEAST_SCALE)
    return np.square(np.clip(1 - np.square(distance / reach), 0.0, None)) / np.square(fitted), scale


def _solve(x: Floats, y: Floats, weights: Floats, noise: float) -> _Step:
    """Return the line of least squares, `noise` being the variance of x relative to x^2; the weights add up to 1."""
    middle, height, square = weights @ x, weights @ y, weights @ x**2
    true_square = square / (1 + noise)
    spread = weights @ (x - middle) ** 2
    slope = weights @ ((x - middle) * (y - height)) / max(spread - (square - true_square), _LEAST_SPREAD * spread)
    if not slope > 0:
        return float(height), 0.0
    base = height - slope * middle
    return (float(base), float(slope)) if base > 0 else (0.0, float(weights @ (x * y) / true_square))


def _describe(x: Floats, y: Floats, base: float, slope: float) -> FittedLine:
    weights, scale = _weigh(x, y, base, slope)
    weight = float(weights.sum())
    middle = float(weights @ x) / weight
    return FittedLine(
        base=base,
        slope=slope,
        error=float(np.median(np.abs(y / (base + slope * x) - 1))),
        scale=scale,
        weight=weight,
        middle=middle,
        spread=float(weights @ (x - middle) ** 2),
    )


# How prompts are computed, learned from times to first token: side by side, or one after the other. Two laws are held
# against the same windows. Side by side (`prefill_decode`) a prefill takes gamma + delta * input tokens * batch. One
# after the other (`serial_prefill`) each prompt token adds `prompt_s` to the iteration it is computed in: a prompt of
# p tokens takes as many iterations as the token budget cuts it into, and prompt_s * p. Then the inter-token latency
# holds the prompts of the others too, n * input / output tokens of them with every iteration of n who decode; what is
# left of it is the line of those. An engine with a token budget works so. In light load a token seems to take too
# little, as it is computed while weights are read anyway; what longer prompts take longer tells it. Windows count in
# which waiting was known, or absent, and at most half of the time to first token: the rest of a long wait says more
# about the wait.

FEWEST_SAMPLES = 30
# Below, a replica idles: what it measured were a few requests somewhere in the window.
BUSY = 0.5
# Fewer requests waiting, on average over a window, are nobody.
_NOBODY = 0.05
_LARGEST_ERROR = 0.25
# Of a prompt token's time and the line of those who decode in turn: each hangs a little on the other.
_ROUNDS = 5
# Of those who queue: a window of a minute or two shows as many by the chance of its own arrivals, who meet no more than
# the mean. Over ten minutes all would count; with this part engines sized by either window lie evenly about the truth.
_SHOWN = 0.4
# Lengths that vary by less say nothing of what a token takes, nor does a time that is less certain.
_LEAST_VARIATION, _UNSURE = 0.01, 0.2
# Prompts are hidden where they are less than this share of their first token, and where longer ones add so much more to
# it than they do in the mean though nearly all of an iteration without prompts is left of it.
_LEAST_SHARE, _ALONE, _STEEPER = 0.1, 0.75, 1.5
# Some of an iteration never hides compute: launching it, and what is sampled in the end.
_MOST_OVERLAP = 0.95
# Of the most that ran in any window.
_TOP_QUANTILE, _BUSIEST = 0.99, 1 / 3
# The third of the windows in which least ran: there prompts share the fewest iterations with those of others.
_QUIET = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialPrefill:
    """Prompts one after the other: the line of those who decode, and what a prompt token adds to an iteration.

    Of the time that an iteration reads memory, the share `overlap` is free for computing tokens. `error` is the median
    of |observed / fitted - 1| of the time to first token without waiting. Unless it `is_sure` nothing says how much
    slower larger batches than those seen are.
    """

    decode: FittedLine
    prompt_s: float
    token_budget: int
    step_tokens: float
    overlap: float
    error: float
    is_sure: bool


def fit_serial(kept: Samples, token_budget: int, step_tokens: int | None = None) -> SerialPrefill | str:
    """Return the law of prompts one after the other, or why the samples do not tell it.

    Whoever decodes has `step_tokens` computed a step, those that are thrown away included. Where steps make several
    tokens and that number is not known, how much slower larger batches are is not sure.
    """
    seen = _Windows.of(kept, token_budget)
    if (enough := int(np.count_nonzero(seen.calm))) < FEWEST_SAMPLES or np.count_nonzero(seen.busy) < FEWEST_SAMPLES:
        return f"{enough} samples show prefill beside inter-token latency, at least {FEWEST_SAMPLES} are needed"
    decode, prompt_s = None, 0.0
    for _ in range(_ROUNDS):
        each_s = seen.prompt_token_s(decode)
        prompt_s = max(float(np.median(each_s)), 0.0)
        decode = seen.decode(prompt_s)
        if decode is None:
            break
    if decode is None:
        return "prompts explain more than the whole inter-token latency"
    error = seen.error(decode, prompt_s)
    prompt_s, fixed_s, is_sure = seen.marginal_s(decode, prompt_s)
    made = tokens_per_step_of(kept)
    is_sure = is_sure and (made <= 1 or step_tokens is not None)
    computed = max(made, step_tokens or 1)
    decode = seen.decode(prompt_s)
    overlap = 0.0
    if decode is not None and is_sure and decode.base > 0:
        # What a prompt takes apart from its tokens is what does not hide behind the memory of its iteration.
        overlap = float(np.clip(1 - fixed_s / decode.base, 0.0, _MOST_OVERLAP))
        decode = seen.decode(prompt_s, overlap * decode.base)
    if decode is None:
        return "prompts explain more than the whole inter-token latency"
    # Who decodes has tokens computed too, even where that hid behind the weights that were read.
    computed_s = prompt_s * computed
    decode = replace(decode, slope=_read_s(decode, computed_s, overlap) + computed_s)
    return SerialPrefill(
        decode=decode,
        prompt_s=prompt_s,
        token_budget=token_budget,
        step_tokens=computed,
        overlap=overlap,
        error=error,
        is_sure=is_sure and error <= _LARGEST_ERROR,
    )


def _read_s(decode: FittedLine, computed_s: float, overlap: float) -> float:
    """Return what reading memory takes for each request more: with what shows of its compute, that is what was seen."""
    at = max(decode.middle, 1.0)
    if computed_s * at <= overlap * (decode.base + decode.slope * at):
        return decode.slope
    return max((decode.slope - computed_s + overlap * decode.base / at) / (1 - overlap), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """What is held against the law, shape (samples,): who prefills shares the batch with those who decode by time.

    A prompt takes `first_s` from its first iteration on. `calm` windows tell that, `quiet` are those of them in which
    least ran, and `busy` ones tell the time between tokens.
    """

    kept: Samples
    token_budget: int
    first_s: Floats
    calm: Bools
    quiet: Bools
    busy: Bools
    steps: Floats
    computed: Floats

    @classmethod
    def of(cls, kept: Samples, token_budget: int) -> "_Windows":
        """Sort the windows out."""
        tokens = tokens_per_step_of(kept)
        first_s, calm = calm_prefill(kept)
        calm &= np.isfinite(kept.itl_s)
        least = np.quantile(kept.num_running[calm], _QUIET) if calm.any() else 0.0
        return cls(
            kept=kept,
            token_budget=token_budget,
            first_s=first_s,
            calm=calm,
            quiet=calm & (kept.num_running <= least),
            busy=(kept.num_running >= BUSY) & np.isfinite(kept.itl_s * kept.input_tokens * kept.output_tokens),
            steps=np.maximum((kept.output_tokens - 1) / tokens, 1.0),
            computed=np.maximum(kept.input_tokens * (1 - np.nan_to_num(kept.prefix_hit_rate)), 1.0),
        )

    def decoding(self, first_s: Floats) -> Floats:
        """Return how many decode of those who run, where a prompt takes so long."""
        decode_s = self.steps * self.kept.itl_s
        return self.kept.num_running * decode_s / (decode_s + first_s)

    def prompt_token_s(self, decode: FittedLine | None) -> Floats:
        """Return what is left of the time to first token for each token of the quiet windows' prompts.

        Iterations of those who decode come off, and half of what the next prompt fills of the last one. Before their
        line is known, the time between tokens stands for an iteration.
        """
        if decode is None:
            each_s = (self.first_s - self._chunks() * self.kept.itl_s) / self.computed
        else:
            each_s = (self.first_s - self._iterations_s(decode)) / self._beside()
        return each_s[self.quiet]

    def marginal_s(self, decode: FittedLine, prompt_s: float) -> tuple[float, float, bool]:
        """Return what a longer prompt takes longer for each token, what it takes apart, and whether both are sure.

        In light load a prompt hides behind the weights that are read in its iteration anyway, so that what it adds
        (`prompt_s`) says too little of it. A longer prompt adds all that its tokens take.
        """
        tokens, first_s = self._beside()[self.quiet], self.first_s[self.quiet]
        most_s = float(np.median(first_s / tokens))
        if tokens.std() < _LEAST_VARIATION * tokens.mean():
            return max(most_s, prompt_s), decode.base, False
        terms = np.stack([np.ones_like(tokens), tokens, self.kept.num_running[self.quiet]], axis=1) / first_s[:, None]
        weights = np.ones(tokens.size)
        for _ in range(_ROUNDS):
            weighted = terms * weights[:, None]
            inverse = np.linalg.pinv(weighted.T @ terms)
            values = inverse @ weighted.sum(axis=0)
            rest = 1 - terms @ values
            reach = _REACH * max(_DEVIATION_OF_MEDIAN * float(np.median(np.abs(rest))), _LEAST_SCALE)
            weights = np.square(np.clip(1 - np.square(rest / reach), 0.0, None))
        fixed_error, error, _ = np.sqrt(np.diag(inverse) * (weights @ rest**2) / weights.sum()).tolist()
        # of a long prompt, each further iteration takes time without its tokens too
        chunks = min(float(np.median(tokens)) / self.token_budget, 1.0)
        least_s = float(np.clip(values[0] / (1 - chunks / 2), 0.0, decode.base))
        fixed_s = least_s + 2 * fixed_error
        # Only prompts that differ in length themselves tell what one takes apart from its tokens.
        own = self.computed[self.quiet]
        if fixed_s >= decode.base or own.std() < _LEAST_VARIATION * own.mean():
            least_s = fixed_s = decode.base
        each_s = float(values[1]) - least_s / self.token_budget * chunks
        is_hidden = values[0] > _ALONE * decode.base and each_s > _STEEPER * prompt_s
        if error >= _UNSURE * each_s or prompt_s < _LEAST_SHARE * most_s or is_hidden:
            return float(np.clip(each_s + 2 * error, prompt_s, max(most_s, prompt_s))), decode.base, False
        return min(each_s + error, most_s), fixed_s, True

    def decode(self, prompt_s: float, hidden_s: float = 0.0) -> FittedLine | None:
        """Return the line of those who decode beside prompts; None where these explain more than all.

        Of the prompts of an iteration `hidden_s` do not count.

        Who decodes sees the prompts of the others who do, and of those who queued behind him, of whom a part counts.
        What a prompt adds comes off the slope of the whole, not off each window: noise of the batch is in both.
        """
        first_s = np.where(self.calm, self.first_s, self._chunks() * self.kept.itl_s + prompt_s * self.computed)
        inside = self.kept.num_running + np.nan_to_num(self.kept.num_waiting)
        decoding = self.decoding(first_s)
        seen = decoding + _SHOWN * (inside - decoding)
        each_s = prompt_s * self.computed / self.steps
        if hidden_s:
            hidden_each_s = hidden_s * -np.expm1(-seen / self.steps) / np.maximum(seen, BUSY)
            each_s = np.maximum(each_s - hidden_each_s, 0.0)
        usual_s = float(np.median(each_s[self.busy]))
        rest_s = self.kept.itl_s - (each_s - usual_s) * seen
        told = self.busy & (rest_s > 0)
        if np.count_nonzero(told) < FEWEST_SAMPLES:
            return None
        # Iteration times are no line from one request to hundreds: what counts is the part nearest to a full batch.
        busiest = told & (seen >= np.quantile(seen[told], _TOP_QUANTILE) * _BUSIEST)
        told = busiest if np.count_nonzero(busiest) >= FEWEST_SAMPLES else told
        whole = fit_line(seen[told], rest_s[told])
        return replace(whole, slope=max(whole.slope - usual_s, 0.0))

    def error(self, decode: FittedLine, prompt_s: float) -> float:
        """Return the median of |observed / fitted - 1| of the time to first token without waiting."""
        fitted_s = self._iterations_s(decode) + prompt_s * self._beside()
        return float(np.nanmedian(np.abs(self.first_s / fitted_s - 1)[self.calm]))

    def _iterations_s(self, decode: FittedLine) -> Floats:
        return self._chunks() * (decode.base + decode.slope * self.decoding(self.first_s))

    def _beside(self) -> Floats:
        """Return the tokens of prompts that are computed before a first token: his own, and some of the next."""
        load = np.clip(self.kept.num_running - self.decoding(self.first_s), 0.0, 1.0)
        return self.computed + load * np.minimum(self.computed, self.token_budget) / 2

    def _chunks(self) -> Floats:
        return np.ceil(self.computed / self.token_budget)


def calm_prefill(kept: Samples) -> tuple[Floats, Bools]:
    """Return the time to first token without waiting, and in which samples that says something of prefill."""
    wait_s = np.where(np.isnan(kept.wait_s) & (kept.num_waiting <= _NOBODY), 0.0, kept.wait_s)
    calm = (kept.num_running >= BUSY) & np.isfinite(kept.input_tokens) & (wait_s <= kept.ttft_s / 2)
    return kept.ttft_s - wait_s, calm
