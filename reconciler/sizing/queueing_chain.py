"""One replica as a birth-death chain: steady state and percentiles at a given arrival rate.

Formulas and defaults: rules/queueing.md#steady-state.
"""

import numpy as np

from reconciler.domain.records import dataclass, field_names
from reconciler.sizing.arrays import Bools, CandidateRows, Floats, Integers
from reconciler.sizing.queueing_laws import ServiceCurves

# The chain below and at the full batch, states 0..N where every request in the system is served; and its queue.
# Without a queue the chain is a loss system whose service rate depends on the state. Two ways lead to the same
# numbers: a recursion over the states, which is exact for every input and costs N steps, and a closed form by the
# regularised incomplete beta function, whose cost does not depend on N. Above the full batch the chain is a geometric
# queue of ratio rate / mu(N), cut after a number of places: `solve_tail`.

# Up to this batch the recursion is the cheaper way (measured: the two cross near 28).
_SHORT_BATCH = 24
# The closed form needs rate * per_request_s < 1 and loses 1/(1 - that) digits; a full batch beyond its rate
# (ratio > 1) lets the incomplete beta function underflow. The recursion takes over.
_LARGEST_SPREAD = 0.9995
# A flat curve is a spread of zero, where the beta function becomes a gamma function. This much slope makes the
# service time wrong by less than a float64 can show, and keeps one formula.
_FLATTEST = 1e-16
# Candidates per block of the recursion: its six work arrays then stay in the first-level cache.
_BLOCK = 1024
# Where places * |ln ratio| is smaller, the closed sums cancel and doubling replaces them.
_NEAR_ONE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHead(CandidateRows):
    """Steady state of the chain cut at the full batch, arrays of shape (candidates,).

    `full` is the probability of N, `below` that of less than N (kept apart: each may be tiny), `empty` that of 0,
    `mean` the mean number in service. `scale` is what negative binomial probabilities are multiplied with to end at N;
    NaN where the recursion was run.
    """

    full: Floats
    below: Floats
    empty: Floats
    mean: Floats
    scale: Floats


def solve_head(curves: ServiceCurves, rate_per_s: Floats) -> QueueHead:
    """Return the steady state of states 0..N for positive arrival rates, each candidate by the way that fits it."""
    closed = _is_closed_form_safe(curves, rate_per_s)
    if closed.all():
        return _solve_by_beta_function(curves, rate_per_s)
    if not closed.any():
        return _solve_by_recursion(curves, rate_per_s)
    whole = QueueHead(**{name: np.empty_like(rate_per_s) for name in field_names(QueueHead)})
    for mask, solve in ((closed, _solve_by_beta_function), (~closed, _solve_by_recursion)):
        part = solve(curves.take(mask), rate_per_s[mask])
        for name in field_names(QueueHead):
            getattr(whole, name)[mask] = getattr(part, name)
    return whole


def mean_slope(curves: ServiceCurves, rate_per_s: Floats, head: QueueHead) -> Floats:
    """Return d mean / d ln rate, which is the variance of the number in service.

    It comes from the mean, by the recurrence that gives the closed form of the mean.
    """
    top, full, mean = curves.max_batch, head.full, head.mean
    x = rate_per_s * curves.per_request_s
    return (mean - (rate_per_s * curves.base_s + x * (1 + top)) * full * (top - mean)) / (1 - x)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadBelow:
    """The states below some number: their probability, and their part of the mean number in service."""

    share: Floats
    total: Floats


def head_below(curves: ServiceCurves, rate_per_s: Floats, head: QueueHead, count: Floats) -> HeadBelow:
    """Return what states 0..count-1 have of the chain cut at the full batch; `count` is 1 to the full batch."""
    closed = ~np.isnan(head.scale)
    if closed.all():
        share, total = _below_by_beta_function(curves, rate_per_s, head.scale, count)
        return HeadBelow(share=share, total=total)
    below = HeadBelow(share=np.empty_like(count), total=np.empty_like(count))
    if closed.any():
        part = _below_by_beta_function(curves.take(closed), rate_per_s[closed], head.scale[closed], count[closed])
        below.share[closed], below.total[closed] = part
    if not closed.all():
        rest = ~closed
        below.share[rest], below.total[rest] = _below_by_recursion(curves.take(rest), rate_per_s[rest], count[rest])
    return below


def _below_by_beta_function(
    curves: ServiceCurves, rate_per_s: Floats, scale: Floats, count: Floats
) -> tuple[Floats, Floats]:
    from reconciler.sizing.special import betainc

    shape, x = _negative_binomial(curves, rate_per_s)
    share = scale * np.subtract(1.0, betainc(count, shape, x), dtype=np.float64)
    at = scale * np.exp(_log_mass(count, shape, x))
    return share, (x * shape * share - count * at) / (1 - x)


def _below_by_recursion(curves: ServiceCurves, rate_per_s: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Add one state at a time; what was below `count` shrinks as all older states do."""
    full, below, mean = np.ones_like(rate_per_s), np.zeros_like(rate_per_s), np.zeros_like(rate_per_s)
    share, total = np.zeros_like(rate_per_s), np.zeros_like(rate_per_s)
    for n in range(1, int(curves.max_batch.max()) + 1):
        odds = np.where(n <= curves.max_batch, rate_per_s / curves.service_rate_per_s(float(n)) * full, 0.0)
        shrink = 1 / (1 + odds)
        reached = n == count
        share, total = np.where(reached, below + full, share) * shrink, np.where(reached, mean, total) * shrink
        below, mean = (below + full) * shrink, mean * shrink + n * odds * shrink
        full = np.where(n <= curves.max_batch, odds * shrink, full)
    return share, total


def _is_closed_form_safe(curves: ServiceCurves, rate_per_s: Floats) -> Bools:
    full_ratio = rate_per_s / curves.service_rate_per_s(curves.max_batch)
    spread = rate_per_s * curves.per_request_s
    return (curves.max_batch > _SHORT_BATCH) & (full_ratio <= 1) & (spread <= _LARGEST_SPREAD)


def _solve_by_recursion(curves: ServiceCurves, rate_per_s: Floats) -> QueueHead:
    """Add one state at a time, as the Erlang B recursion does: only positive terms, no overflow, any load.

    With t = rate / mu(n) * P(n-1 | <= n-1): P(n | <= n) = t / (1 + t) and all older states shrink by 1 / (1 + t).
    """
    order = np.argsort(-curves.max_batch, kind="stable")
    full, below, empty, mean = (np.empty(order.shape) for _ in range(4))
    for start in range(0, order.size, _BLOCK):
        block = order[start : start + _BLOCK]
        full[block], below[block], empty[block], mean[block] = _recur(curves.take(block), rate_per_s[block])
    return QueueHead(full=full, below=below, empty=empty, mean=mean, scale=np.full(order.shape, np.nan))


def _recur(curves: ServiceCurves, rate_per_s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Run the recursion over candidates sorted by falling N, so that the unfinished ones are a prefix."""
    base = rate_per_s * curves.base_s
    spread = rate_per_s * curves.per_request_s
    full, empty = np.ones_like(base), np.ones_like(base)
    below, mean = np.zeros_like(base), np.zeros_like(base)
    # For each n from 0 to the largest how many of the falling numbers are n or more.
    levels = np.arange(curves.max_batch[0] + 1)
    unfinished = curves.max_batch.size - np.searchsorted(curves.max_batch[::-1], levels, side="left")
    for n in range(1, int(curves.max_batch[0]) + 1):
        alive = slice(0, unfinished[n])
        odds = (base[alive] / n + spread[alive]) * full[alive]
        shrink = 1 / (1 + odds)
        below[alive] = shrink
        full[alive] = odds * shrink
        empty[alive] *= shrink
        mean[alive] = mean[alive] * shrink + n * full[alive]
    return full, below, empty, mean


def _solve_by_beta_function(curves: ServiceCurves, rate_per_s: Floats) -> QueueHead:
    """Read the states as a negative binomial distribution of shape a = base/slope + 1 and success 1 - x.

    The weights are (a)_n x^n / n! with x = rate * slope, so the sum over n < N is its distribution function,
    1 - I_x(N, a), and the mean follows from n w_n = x (a + n - 1) w_(n-1).
    """
    from reconciler.sizing.special import betainc

    top = curves.max_batch
    slope = _slope_s(curves)
    shape, x = _negative_binomial(curves, rate_per_s)
    # betaincc would say the same and takes twelve times as long; nothing cancels, for below the full rate the
    # complement is never small.
    below = np.subtract(1.0, betainc(top, shape, x), dtype=np.float64)
    full = np.exp(_log_mass(top, shape, x))
    total = below + full
    below, full = below / total, full / total
    empty = np.exp(shape * np.log1p(-x)) / total
    mean = rate_per_s * ((curves.base_s + slope) * below - slope * top * full) / (1 - x)
    return QueueHead(full=full, below=below, empty=empty, mean=mean, scale=1 / total)


def _negative_binomial(curves: ServiceCurves, rate_per_s: Floats) -> tuple[Floats, Floats]:
    """Return shape and success of the distribution that the states follow."""
    slope = _slope_s(curves)
    return curves.base_s / slope + 1, rate_per_s * slope


def _slope_s(curves: ServiceCurves) -> Floats:
    return np.maximum(curves.per_request_s, _FLATTEST * curves.base_s)


def _log_mass(top: Floats, shape: Floats, x: Floats) -> Floats:
    """Return the logarithm of the negative binomial probability of `top`.

    Stirling's formula is taken out of the gamma functions by hand: their difference would lose all digits of a
    flat curve (shape 1e8 and more), while what remains here are two deviances and three small corrections.
    """
    share = x * (shape + top) / top
    deviance = top * np.log(share) + shape * np.log1p(top * (1 - share) / shape)
    correction = _stirling_correction(shape + top) - _stirling_correction(shape) - _stirling_correction(top)
    return deviance + 0.5 * np.log(shape / ((shape + top) * top * 2 * np.pi)) + correction


def _stirling_correction(z: Floats) -> Floats:
    """Return gammaln(z) minus Stirling's formula; the series is exact to float64 from 16 on."""
    from reconciler.sizing.special import gammaln

    inverse = 1 / z
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    small = z < 16
    if small.any():
        near = z[small]
        series[small] = gammaln(near) - ((near - 0.5) * np.log(near) - near + 0.5 * np.log(2 * np.pi))
    return series


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTail(CandidateRows):
    """Sums over the waiting places j of weights ratio^j, all multiplied by `scale`, which keeps overload finite.

    `scale` is 1, or ratio^-places above ratio 1; `top` is ratio^places, `room` the sum over j < places, `queued` the
    sum of j * ratio^j over 1..places.
    """

    scale: Floats
    top: Floats
    room: Floats
    queued: Floats


def solve_tail(ratio: Floats, places: Floats) -> QueueTail:
    """Return the sums for positive ratios and whole numbers of places, 0 or more."""
    closeness = places * np.log(ratio)
    near = np.abs(closeness) < _NEAR_ONE
    over = ratio > 1
    # In overload the sums run from the last place backwards, by the inverse ratio. Its distance from 1 is taken
    # from the ratio itself: 1 - 1/ratio would lose the digits that tell it from 1.
    power = np.exp(-np.abs(closeness))
    distance = np.where(near, 1.0, np.abs(1 - ratio))
    room = -np.expm1(-np.abs(closeness)) / distance
    queued = ratio * np.where(over, places - room, room - places * power) / distance
    tail = QueueTail(scale=np.where(over, power, 1.0), top=np.where(over, 1.0, power), room=room, queued=queued)
    if near.any():
        index = np.flatnonzero(near)
        _sum_by_doubling(tail, index, ratio[index], places[index].astype(np.int64))
    return tail


def _sum_by_doubling(tail: QueueTail, index: Integers, ratio: Floats, places: Integers) -> None:
    """Write the sums of the indexed candidates: positive terms only, one binary digit of `places` at a time."""
    power, room, queued = np.ones_like(ratio), np.zeros_like(ratio), np.zeros_like(ratio)
    for bit in reversed(range(int(places.max()).bit_length())):
        count = (places >> (bit + 1)).astype(np.float64)
        queued = queued + power * (queued + count * ratio * room)
        room = room + power * room
        power = power * power
        odd = (places >> bit) & 1 == 1
        room = np.where(odd, room + power, room)
        power = np.where(odd, power * ratio, power)
        queued = np.where(odd, queued + (2 * count + 1) * power, queued)
    tail.scale[index], tail.top[index] = 1.0, power
    tail.room[index], tail.queued[index] = room, queued


# Every mean has its limit of no load long before; a smaller rate would only underflow.
_SMALLEST_RATE_PER_S = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """Steady state of one replica per candidate, arrays of shape (candidates,).

    `response_s` = `service_s` + `wait_s` is what an admitted request sees; `throughput_per_s` is the arrival rate less
    what finds the system full (`p_full`); `busy_probability` is that of at least one request in the system. Latencies
    are means: `ttft_s` = `wait_s` + what the law reads as the first token's share of the service.
    """

    throughput_per_s: Floats
    mean_in_system: Floats
    mean_in_service: Floats
    response_s: Floats
    service_s: Floats
    wait_s: Floats
    itl_s: Floats
    ttft_s: Floats
    p_empty: Floats
    p_full: Floats
    busy_probability: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBalance(CandidateRows):
    """The chain put together: head and tail with the three sums that every mean is a quotient of.

    `total` is the weight of all states, `open` that of those which admit a request, `in_service` the weighted number
    in service. All terms are positive: nothing cancels, from no load to deep overload.
    """

    rate_per_s: Floats
    ratio: Floats
    head: QueueHead
    tail: QueueTail
    total: Floats
    open: Floats
    in_service: Floats

    @property
    def service_s(self) -> Floats:
        """Mean service time, by Little's law over those in service."""
        return self.in_service / (self.rate_per_s * self.open)

    @property
    def wait_s(self) -> Floats:
        """Mean wait, by Little's law over the queue."""
        return self.head.full * self.tail.queued / (self.rate_per_s * self.open)


def balance(curves: ServiceCurves, rate_per_s: Floats) -> QueueBalance:
    """Return the solved chain for positive arrival rates."""
    ratio = rate_per_s / curves.service_rate_per_s(curves.max_batch)
    head = solve_head(curves, rate_per_s)
    tail = solve_tail(ratio, curves.occupancy_limit - curves.max_batch)
    admitting = tail.scale * head.below + head.full * tail.room
    return QueueBalance(
        rate_per_s=rate_per_s,
        ratio=ratio,
        head=head,
        tail=tail,
        total=admitting + head.full * tail.top,
        open=admitting,
        in_service=tail.scale * head.mean + curves.max_batch * head.full * ratio * tail.room,
    )


def analyze(curves: ServiceCurves, arrival_rate_per_s: Floats) -> QueueState:
    """Return the steady state at each candidate's arrival rate (0 or more, of any size; shape (candidates,)).

    Exact for the birth-death chain with departure rate min(n, N) / service_s(min(n, N)) and at most
    `occupancy_limit` requests, overload included.
    """
    with np.errstate(under="ignore"):
        chain = balance(curves, np.maximum(arrival_rate_per_s, _SMALLEST_RATE_PER_S))
        service_s, wait_s = chain.service_s, chain.wait_s
        throughput_per_s = arrival_rate_per_s * (chain.open / chain.total)
        latencies = curves.reading.read(service_s)
        itl_s, first_token_s = latencies.itl_s, latencies.first_token_s
        if curves.prompts is not None:
            prompts = curves.prompts.at(arrival_rate_per_s)
            itl_s = np.fmin(prompts.itl_s, curves.latencies_at(curves.max_batch).itl_s)
            first_token_s = prompts.ttft_s
        p_empty = chain.head.empty * chain.tail.scale / chain.total
        return QueueState(
            throughput_per_s=throughput_per_s,
            mean_in_system=throughput_per_s * (service_s + wait_s),
            mean_in_service=throughput_per_s * service_s,
            response_s=service_s + wait_s,
            service_s=service_s,
            wait_s=wait_s,
            itl_s=itl_s,
            ttft_s=wait_s + first_token_s,
            p_empty=p_empty,
            p_full=chain.head.full * chain.tail.top / chain.total,
            busy_probability=1 - p_empty,
        )


# Percentiles of what a request meets: who finds how many others, how long it waits, how its latencies spread.
# Requests arrive at random (Poisson), so one that is let in finds the chain as it is on average over the states that
# let somebody in. Finding fewer than the full batch N it is served at once; finding N + j it waits until j + 1
# requests have left, one every service_s(N) / N seconds on average: an Erlang distribution, first come, first served.
# Summed over the queue that is a difference of two Poisson sums, so a percentile costs no more than a mean. A token
# comes from a batch of n with the share of arrivals that find n - 1: in the balance of the chain the requests that
# leave a state are those that entered it. So the same shares give the spread of the inter-token latency.

# Where the ratio of the queue is nearer to 1, sums of it cancel; nothing that is searched comes so near.
_LEAST_DISTANCE = 1e-9
# A Poisson sum whose limit is so many standard deviations above its mean is 1 to float64.
_SURE_DEVIATIONS = 9.0
_MOST_STEPS = 60
_TINY = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the requests that are let in, and how fast it grows with ln rate; arrays of shape (candidates,)."""

    value: Floats
    slope: Floats


def share_finding(curves: ServiceCurves, chain: QueueBalance, count: Floats, open_slope: Floats) -> Share:
    """Return how many find `count` requests or more in the system (whole numbers, 1 to the full batch).

    `open_slope` is d ln / d ln rate of the weight of all states that let somebody in, beside that of states 0..N.
    """
    head = head_below(curves, chain.rate_per_s, chain.head, count)
    fewer = head.share / chain.open
    return Share(value=1 - fewer, slope=-(head.total - head.share * (chain.head.mean + open_slope)) / chain.open)


def share_waiting(curves: ServiceCurves, chain: QueueBalance, wait_s: Floats, open_slope: Floats) -> Share:
    """Return how many wait longer than `wait_s` (0 or more), at rates below that of the full batch."""
    top, full = curves.max_batch, chain.head.full
    places, ratio = curves.occupancy_limit - top, np.minimum(chain.ratio, 1 - _LEAST_DISTANCE)
    departures = wait_s * curves.service_rate_per_s(top)
    distance = 1 - ratio
    with np.errstate(under="ignore"):
        thinned = np.exp(-departures * distance)
        last = ratio**places
        early, later = _poisson_below(places, departures * ratio), _poisson_below(places, departures)
        queue = (thinned * early - last * later) / distance
        before = _poisson_below(np.maximum(places - 1, 0.0), departures * ratio)
        growth = (departures * thinned * before * ratio - places * last * later + ratio * queue) / distance
        value = full * np.maximum(queue, 0.0) / chain.open
    return Share(value=value, slope=full * growth / chain.open + value * (top - chain.head.mean - open_slope))


def wait_quantile_s(curves: ServiceCurves, chain: QueueBalance, outside: Floats) -> Floats:
    """Return the wait that a share of `outside` exceeds; 0 where fewer wait at all."""
    from reconciler.sizing.special import gammainccinv

    rate_full = curves.service_rate_per_s(curves.max_batch)
    distance = np.maximum(1 - chain.ratio, _LEAST_DISTANCE)
    none = np.zeros_like(rate_full)
    waiting = share_waiting(curves, chain, none, none).value
    some = waiting > outside
    # The tail of an endless queue, and the wait of whoever takes the last place: the true tail lies below both, and
    # Newton then comes from one side. Far above the second one nothing of the tail is left to come back by.
    places = curves.occupancy_limit - curves.max_batch
    longing = np.maximum(waiting, _TINY) / outside
    endless = np.log(longing) / (distance * rate_full)
    last = gammainccinv(np.maximum(places, 1.0), 1 / np.maximum(longing, 1.0)) / rate_full
    wait_s = np.where(some, np.minimum(endless, last), 0.0)
    for _ in range(_MOST_STEPS):
        value = share_waiting(curves, chain, wait_s, none).value
        departures = wait_s * rate_full
        early = _poisson_below(places, departures * np.minimum(chain.ratio, 1 - _LEAST_DISTANCE))
        with np.errstate(under="ignore"):
            fall = rate_full * chain.head.full / chain.open * np.exp(-departures * distance) * early
        step = np.log(np.maximum(value, _TINY) / outside) * value / np.maximum(fall, _TINY)
        wait_s = np.where(some, np.maximum(wait_s + step, 0.0), 0.0)
        if (np.abs(step[some]) <= 1e-12 * wait_s[some] + _TINY).all():
            break
    return wait_s


def batch_quantile(curves: ServiceCurves, chain: QueueBalance, outside: Floats) -> Floats:
    """Return the smallest batch that at most a share of `outside` exceeds when they join it; the full batch at most."""
    low, high = np.zeros_like(curves.max_batch), curves.max_batch.copy()
    none = np.zeros_like(low)
    while (high - low > 1).any():
        middle = np.maximum(np.floor((low + high) / 2), 1.0)
        inside = share_finding(curves, chain, middle, none).value <= outside
        high, low = np.where(inside, np.minimum(high, middle), high), np.where(inside, low, np.maximum(low, middle))
        low = np.where(high <= 1, 0.0, low)
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPercentiles:
    """Percentiles of the latencies at a rate, arrays of shape (candidates,); NaN where none was asked for."""

    itl_s: Floats
    ttft_s: Floats


def expect_percentiles(
    curves: ServiceCurves, arrival_rate_per_s: Floats, itl_percentile: Floats, ttft_percentile: Floats
) -> ExpectedPercentiles:
    """Return the latencies that so many percent (0-100, NaN for none) of tokens and of requests stay below.

    From the full batch's rate on the time to first token is infinite: the queue of a chain ends, a real one grows.
    """
    top = curves.max_batch
    rate_full = curves.service_rate_per_s(top)
    rate_per_s = np.clip(arrival_rate_per_s, _TINY, rate_full * (1 - _LEAST_DISTANCE))
    chain = balance(curves, rate_per_s)
    itl_outside, ttft_outside = 1 - itl_percentile / 100, 1 - ttft_percentile / 100
    joined = curves.latencies_at(batch_quantile(curves, chain, ttft_outside)).first_token_s
    wait_s = wait_quantile_s(curves, chain, ttft_outside)
    ttft_s = np.where(wait_s > 0, wait_s + curves.latencies_at(top).first_token_s, joined)
    if curves.prompts is not None:
        # Places and prompts rarely queue at once: the longer of both waits is what is seen.
        ttft_s = np.fmax(ttft_s, curves.prompts.at(rate_per_s).ttft_quantile_s(ttft_outside))
    ttft_s = np.where(arrival_rate_per_s >= rate_full, np.inf, ttft_s)
    return ExpectedPercentiles(
        itl_s=np.where(
            np.isnan(itl_percentile), np.nan, curves.latencies_at(batch_quantile(curves, chain, itl_outside)).itl_s
        ),
        ttft_s=np.where(np.isnan(ttft_percentile), np.nan, ttft_s),
    )


def _poisson_below(limit: Floats, mean: Floats) -> Floats:
    """Return the probability of fewer than `limit` events where `mean` are expected."""
    from reconciler.sizing.special import gammaincc

    unsure: Bools = mean + _SURE_DEVIATIONS * np.sqrt(mean) + _SURE_DEVIATIONS**2 >= limit
    below = np.ones_like(mean)
    index: Integers = np.flatnonzero(unsure)
    if index.size:
        some = limit[index]
        below[index] = np.where(some > 0, gammaincc(np.maximum(some, 1.0), mean[index]), 0.0)
    return below
