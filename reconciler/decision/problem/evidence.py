"""What is behind the metrics of each variant, for rules that want much of it before anything changes."""

import math
from collections.abc import Iterable, Iterator, Mapping

from reconciler.decision.after_merge.comparing import compared, is_covered, load_of
from reconciler.decision.after_merge.merges import Merge, merges_of
from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.loads import Observation, PastArrivals
from reconciler.domain.rules import MetricsRule, Rule
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import PAYBACK_S
from reconciler.policy.subjects import Evidence, Forecast


def evidence_of(snapshot: Snapshot, rules: Iterable[Rule]) -> Mapping[ResourceKey, Evidence]:
    """By variant; nothing where no rule asks for it."""
    asked = [rule.asks for rule in rules if isinstance(rule.asks, MetricsRule)]
    if not any(asks != MetricsRule(reporting=asks.reporting) for asks in asked):
        return {}
    merges = merges_of(snapshot)
    return {each.key: _of_variant(snapshot, each, merges.get(str(each.key), ())[-1:]) for each in snapshot.variants}


def _of_variant(snapshot: Snapshot, variant: Variant, last: Iterable[Merge]) -> Evidence:
    observation, load = snapshot.observed.observations.get(variant.key), load_of(snapshot, variant)
    past, past_s = snapshot.observed.past.get(variant.model), variant.settings[PAYBACK_S].value
    return Evidence(
        age_s=None if observation is None else observation.age_s,
        requests=None if load is None else load.arrival_rate_per_s * load.window_s,
        window_s=0.0 if load is None else load.window_s,
        known=None if past is None else _known(past, snapshot.now_s, past_s) if isinstance(past, PastArrivals) else 0.0,
        past_s=past_s,
        forecasts=tuple(each for merge in last for each in _forecasts(snapshot, variant, merge, observation)),
    )


def _known(past: PastArrivals, now_s: float, past_s: float) -> float:
    """The share of the moments of this time that have a rate; what is beyond the answer has none."""
    begin_s = now_s - past_s
    times = (past.start_s + index * past.step_s for index in range(len(past.rates_per_s)))
    known = sum(
        math.isfinite(rate) for at_s, rate in zip(times, past.rates_per_s, strict=True) if begin_s < at_s <= now_s
    )
    return min(known / max(math.floor(past_s / past.step_s), 1), 1.0)


def _forecasts(
    snapshot: Snapshot, variant: Variant, merge: Merge, observation: Observation | None
) -> Iterator[Forecast]:
    """What the last merge was to bring, while it stands and the load is one that it was made for."""
    promise, load = merge.promise, load_of(snapshot, variant)
    if promise is None or observation is None or observation.absence is not None:
        return
    if merge.change.merged(variant.current) != variant.current or not is_covered(promise, observation, load):
        return
    for each in compared(promise, observation, load):
        forecast_s = each.promised.mean_s
        if forecast_s:
            yield Forecast(
                number=merge.number,
                name=each.promised.name,
                forecast_s=forecast_s,
                measured_s=each.measured_s,
                noise=each.noise,
            )
