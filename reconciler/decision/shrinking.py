"""Why nothing of a model may shrink now: its past is not known, or what is measured contradicts itself.

One rule for all engines that follow `payback`: a replica goes only if nothing of the last `payback` needed it. Where
that time was not seen, or what is seen looks like no other hour, all stay; more may always come.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from reconciler.decision.engines.port import SizingEngine
from reconciler.decision.problem.terms import payback_of
from reconciler.decision.spans import ago, span
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.loads import Load, PastArrivals, UsualLoad
from reconciler.domain.measured.replicas import ReplicaMetrics
from reconciler.domain.snapshot import Snapshot, Variant

SHORTER = 0.5
"""Of the shortest requests of the day before: below, requests fail, or are of a kind that nobody knows yet."""
FEWEST_TOKENS = 2.0
"""A request that is answered with less is classified or failed; which of both, only a longer past tells."""
NOISE = 3.0
"""Standard deviations: so far a mean length may lie below the usual one by chance, when few requests make it."""
FEWEST_PAIRS = 5
"""Of neighbouring moments: fewer say nothing of how far requests differ."""
SELDOM = 7.0
"""Requests that would have come by now: of a thousand silences as long, one is chance (e^-7)."""
HELD_AT_LEAST = 0.1
"""Of half of the outputs that run: a KV cache that holds less does not say what it holds."""
DAY_S = 86_400.0
HOUR_S = 3600.0


def why_kept(snapshot: Snapshot, model: ModelKey, members: Sequence[Variant], engine: SizingEngine) -> Hold | None:
    """Why none of a model's replicas may go; None where its engine may judge that."""
    if not engine.remembers:
        return None
    payback_s = payback_of(members)
    lacking = snapshot.observed.incomplete.get(model.cluster, "")
    if lacking:
        words = f"Prometheus of {model.cluster} may not have answered with all that there is ({lacking})"
        return Hold(kind=HoldKind.LOAD_PARTIAL, words=f"{words}: nothing is scaled down")
    forgotten = engine.forgets(snapshot, members, payback_s)
    if forgotten:
        words = f"{forgotten}: nothing is scaled down until the whole of the last {span(payback_s)} is known"
        return Hold(kind=HoldKind.HISTORY_MISSING, words=words)
    load = snapshot.observed.loads.get(model)
    changed = _changed(load, snapshot.observed.usual.get(model), snapshot.now_s, payback_s)
    if isinstance(load, Load) and changed:
        return Hold(kind=HoldKind.LENGTHS_CHANGED, words=f"{changed}: nothing is scaled down for them")
    contradicting = next(_contradicting(snapshot, members), "") if engine.reads_fullness else ""
    if contradicting:
        return Hold(kind=HoldKind.GAUGES_CONTRADICT, words=f"{contradicting}: nothing is scaled down")
    return None


def why_outage(snapshot: Snapshot, model: ModelKey) -> str:
    """Why a model without requests may be one that none can reach; empty where this hour is always quiet."""
    load, usual = snapshot.observed.loads.get(model), snapshot.observed.usual.get(model)
    if not isinstance(load, Load) or load.arrival_rate_per_s > 0 or usual is None:
        return ""
    others: dict[int, list[float]] = {}
    for age_s, rate in _moments(usual, usual.rates_per_s, snapshot.now_s):
        if age_s > DAY_S / 2 and _is_this_hour(age_s):
            others.setdefault(_day(age_s), []).append(rate)
    silence_s = _silence_s(snapshot, model, load)
    days = sorted(day for day, rates in others.items() if fmean(rates) * silence_s > SELDOM)
    if not days:
        return ""
    when = " and ".join("yesterday" if day == 1 else f"{day} days ago" for day in days)
    most = max(rate for day in days for rate in others[day])
    return f"no requests arrive, but {most:.3g} req/s did at this hour {when}: this looks like an outage"


def _silence_s(snapshot: Snapshot, model: ModelKey, load: Load) -> float:
    """How long nothing has arrived, at least."""
    past = snapshot.observed.past.get(model)
    if not isinstance(past, PastArrivals):
        return load.window_s
    rates = past.rates_per_s
    last = max((index for index, rate in enumerate(rates) if not rate <= 0), default=-1)
    return max(load.window_s, snapshot.now_s - past.start_s - past.step_s * last)


def _changed(load: object, usual: UsualLoad | None, now_s: float, payback_s: float) -> str:
    """In which way requests of now are shorter than any of the day before `payback`; empty where they are not."""
    if not isinstance(load, Load) or load.arrival_rate_per_s <= 0 or usual is None:
        return ""
    told = (("outputs", load.output_tokens, usual.output_tokens), ("prompts", load.input_tokens, usual.input_tokens))
    for what, tokens, lengths in told:
        moments = _moments(usual, lengths, now_s)
        before = [(length, age_s) for age_s, length in moments if age_s > payback_s and length > 0]
        if tokens is None or (not before and (what == "prompts" or tokens >= FEWEST_TOKENS)):
            continue
        if not before:
            return f"requests are answered with {tokens:.3g} tokens, and nobody knows whether they always were"
        shortest, age_s = min(before)
        if tokens < SHORTER * shortest and not _is_by_chance(tokens, lengths, load, usual, now_s, payback_s):
            return f"{what} of {tokens:.3g} tokens are shorter than any of the last day, {shortest:.4g} {ago(age_s)}"
    return ""


def _is_by_chance(
    tokens: float, lengths: Sequence[float], load: Load, usual: UsualLoad, now_s: float, payback_s: float
) -> bool:
    """Whether the mean of as many requests as come now is as short every other day.

    How far requests differ is told by neighbouring moments, so that lengths which change with the time of day are not
    called chance; where hardly any are told, requests differ as those of the exponential law do.
    """
    before = [
        (length, rate * load.window_s)
        for index, (length, rate) in enumerate(zip(lengths, usual.rates_per_s, strict=False))
        if _age_s(usual, index, now_s) > payback_s and length > 0 and rate > 0
    ]
    if not before:
        return False
    usual_tokens = median(length for length, _ in before)
    squares = [(one - other) ** 2 / (1 / few + 1 / many) for (one, few), (other, many) in pairwise(before)]
    deviation = math.sqrt(fmean(squares)) if len(squares) >= FEWEST_PAIRS else usual_tokens
    requests = load.arrival_rate_per_s * load.window_s
    return usual_tokens - tokens < NOISE * deviation / math.sqrt(requests)


def _contradicting(snapshot: Snapshot, members: Sequence[Variant]) -> Iterator[str]:
    """What gauges of replicas cannot both say."""
    for member in members:
        pods: dict[str, list[ReplicaMetrics]] = {}
        for replica in snapshot.observed.replicas.get(member.key, ()):
            pods.setdefault(replica.pod, []).append(replica)
        for pod, instances in sorted(pods.items()):
            running = instances[0].num_running
            usages = [each.kv_cache_usage for each in instances if each.kv_cache_usage is not None]
            if running and running >= 1 and usages and _holds_too_little(running, instances):
                yield f"{pod} runs {running:g} requests and says that its KV cache is {max(usages) * 100:.2g} % full"


def _holds_too_little(running: float, instances: Sequence[ReplicaMetrics]) -> bool:
    if all(each.kv_cache_usage == 0 for each in instances):
        return True
    held = [
        each.kv_cache_usage * each.kv_tokens
        for each in instances
        if each.kv_cache_usage is not None and each.kv_tokens is not None
    ]
    outputs = instances[0].output_tokens
    if len(held) < len(instances) or outputs is None:
        return False
    return math.fsum(held) < HELD_AT_LEAST * running * outputs / 2


def _moments(usual: UsualLoad, values: Sequence[float], now_s: float) -> Iterator[tuple[float, float]]:
    """Ages in seconds with what is known of them."""
    for index, value in enumerate(values):
        if math.isfinite(value):
            yield _age_s(usual, index, now_s), value


def _age_s(usual: UsualLoad, index: int, now_s: float) -> float:
    return now_s - usual.start_s - index * usual.step_s


def _day(age_s: float) -> int:
    return round(age_s / DAY_S)


def _is_this_hour(age_s: float) -> bool:
    return abs(age_s - _day(age_s) * DAY_S) <= HOUR_S / 2
