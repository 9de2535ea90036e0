"""Histories of metric targets as the arrays that a replay reads, on one clock for all targets."""

from collections.abc import Mapping, Sequence

import numpy as np

from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    SYNC_PERIOD_S,
    BackendHistory,
    PodTotals,
    Series,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.sizing.arrays import Floats
from reconciler.sizing.tracking.history import History, PodHistory, Target, TrackingRule
from reconciler.sizing.tracking.outcome import TrackedOutcome
from reconciler.sizing.tracking.replay import RolePair
from reconciler.sizing.tracking.tracking import track


def replay_targets(
    targets: Sequence[TrackedTarget], histories: Mapping[ResourceKey, TrackedHistory], now_s: float, rule: TrackingRule
) -> tuple[TrackedOutcome, ...]:
    """What `rule` decides for each target at `now_s`, in their order; without a history it decides nothing."""
    known = [histories.get(target.key) for target in targets]
    ticks = max((len(each.replicas) for found in known if found for each in found.backends), default=0)
    ticks_s = now_s - SYNC_PERIOD_S * np.arange(ticks, dtype=np.float64)[::-1]
    seen = [_target(target, found, ticks, rule) for target, found in zip(targets, known, strict=True)]
    return track(seen, ticks_s, rule, _pairs(targets))


def _pairs(targets: Sequence[TrackedTarget]) -> list[RolePair]:
    """The pairings by position; a role that is not among the targets has none, which holds the other."""
    places = {target.key: place for place, target in enumerate(targets)}
    pairings = dict.fromkeys(target.pairing for target in targets if target.pairing)
    return [
        RolePair(
            numerator=places.get(pairing.numerator, len(targets)),
            denominator=places.get(pairing.denominator, len(targets)),
            ratio=pairing.ratio,
        )
        for pairing in pairings
    ]


def _target(target: TrackedTarget, history: TrackedHistory | None, ticks: int, rule: TrackingRule) -> Target:
    seen = history.backends if history and len(history.backends) == len(target.backends) else ()
    empty = BackendHistory(replicas=(), unready=())
    return Target(
        name=target.key.label,
        policy=target.policy,
        backends=tuple(each.backend for each in target.backends),
        cost_expansion_percent=target.cost_expansion_percent,
        history=_history(
            seen or [empty] * len(target.backends), history.activity if history else None, target, ticks, rule
        ),
    )


def _history(
    backends: Sequence[BackendHistory], activity: Series | None, target: TrackedTarget, ticks: int, rule: TrackingRule
) -> History:
    unready = _columns([each.unready for each in backends], ticks)
    pods: dict[str, PodHistory] = {}
    external: dict[str, Floats] = {}
    for metric in target.policy.metrics:
        totals = [_totals_of(each, metric.name, rule) for each in backends]
        if any(totals):
            pods[metric.name] = _pods(totals, unready, ticks, rule)
        if any(metric.name in each.external for each in backends):
            external[metric.name] = _columns([each.external.get(metric.name, ()) for each in backends], ticks)
    return History(
        replicas=_columns([each.replicas for each in backends], ticks),
        unready=np.fmin(unready, 1.0) if rule.needs_all_pods_ready else unready,
        pods=pods,
        external=external,
        # only held against zero: what is under way is as busy as what arrives
        arrivals_per_s=None if activity is None else _columns([activity], ticks)[:, 0],
    )


def _totals_of(backend: BackendHistory, metric: str, rule: TrackingRule) -> PodTotals | None:
    rate = backend.rates.get(metric) if rule.counters_as_rates else None
    return rate or backend.pods.get(metric)


def _pods(totals: Sequence[PodTotals | None], unready: Floats, ticks: int, rule: TrackingRule) -> PodHistory:
    nothing = PodTotals(total=(), reporting=(), missing=())
    found = [each or nothing for each in totals]
    series = PodHistory(
        total=_columns([each.total for each in found], ticks),
        reporting=_columns([each.reporting for each in found], ticks),
        missing=_columns([each.missing for each in found], ticks),
    )
    if not rule.needs_all_pods_ready:
        return series
    blind = unready > 0
    return PodHistory(
        total=np.where(blind, np.nan, series.total),
        reporting=np.where(blind, 0.0, series.reporting),
        missing=np.where(blind, 0.0, series.missing),
    )


def _columns(series: Sequence[Series], ticks: int) -> Floats:
    """Series as an array of shape (ticks, series): all end now, and what is shorter is unknown before."""
    columns = np.full((ticks, len(series)), np.nan)
    for index, values in enumerate(series):
        if values:
            columns[ticks - len(values) :, index] = values
    return columns
