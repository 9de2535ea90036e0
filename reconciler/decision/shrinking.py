"""Why nothing of a model may shrink now: its past is not known, or what is measured contradicts itself.

One rule for all engines that follow `payback`: a replica goes only if nothing of the last `payback` needed it. Where
that time was not seen, or what is seen looks like no other hour, all stay; more may always come.
"""

import math
from collections.abc import Iterator, Sequence

from reconciler.decision.engines.port import SizingEngine
from reconciler.decision.problem.terms import payback_of
from reconciler.decision.spans import ago, span
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.loads import Load, UsualLoad
from reconciler.domain.measured.replicas import ReplicaMetrics
from reconciler.domain.snapshot import Snapshot, Variant

SHORTER = 0.5
"""Of the shortest requests of the day before: below, requests fail, or are of a kind that nobody knows yet."""
FEWEST_TOKENS = 2.0
"""A request that is answered with less is classified or failed; which of both, only a longer past tells."""
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
    contradicting = next(_contradicting(snapshot, members), "")
    if contradicting:
        return Hold(kind=HoldKind.GAUGES_CONTRADICT, words=f"{contradicting}: nothing is scaled down")
    return None


def why_outage(snapshot: Snapshot, model: ModelKey) -> str:
    """Why a model without requests may be one that none can reach; empty where this hour is always quiet."""
    load, usual = snapshot.observed.loads.get(model), snapshot.observed.usual.get(model)
    if not isinstance(load, Load) or load.arrival_rate_per_s > 0 or usual is None:
        return ""
    others = {
        _day(age_s): rate
        for age_s, rate in _moments(usual, usual.rates_per_s, snapshot.now_s)
        if age_s > DAY_S / 2 and _is_this_hour(age_s) and rate > 0
    }
    if not others:
        return ""
    days = sorted(others)
    when = " and ".join("yesterday" if day == 1 else f"{day} days ago" for day in days)
    most = max(others.values())
    return f"no requests arrive, but {most:.3g} req/s did at this hour {when}: this looks like an outage"


def _changed(load: object, usual: UsualLoad | None, now_s: float, payback_s: float) -> str:
    """In which way requests of now are shorter than any of the day before `payback`; empty where they are not."""
    if not isinstance(load, Load) or load.arrival_rate_per_s <= 0:
        return ""
    told = (
        ("outputs", load.output_tokens, () if usual is None else usual.output_tokens),
        ("prompts", load.input_tokens, () if usual is None else usual.input_tokens),
    )
    for what, tokens, lengths in told:
        before = (
            []
            if usual is None
            else [
                (length, age_s) for age_s, length in _moments(usual, lengths, now_s) if age_s > payback_s and length > 0
            ]
        )
        if tokens is None or (not before and (what == "prompts" or tokens >= FEWEST_TOKENS or usual is None)):
            continue
        if not before:
            return f"requests are answered with {tokens:.3g} tokens, and nobody knows whether they always were"
        shortest, age_s = min(before)
        if tokens < SHORTER * shortest:
            return f"{what} of {tokens:.3g} tokens are shorter than any of the last day, {shortest:.4g} {ago(age_s)}"
    return ""


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
            yield now_s - usual.start_s - index * usual.step_s, value


def _day(age_s: float) -> int:
    return round(age_s / DAY_S)


def _is_this_hour(age_s: float) -> bool:
    return abs(age_s - _day(age_s) * DAY_S) <= HOUR_S / 2
