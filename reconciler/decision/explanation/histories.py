"""What was measured before now, and where people can ask for it themselves."""

import math
from collections.abc import Iterator, Mapping

from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.loads import Load, PastArrivals
from reconciler.domain.reported.pages import AskedPrometheus
from reconciler.domain.snapshot import Snapshot

LONGEST_S = 86_400.0

Points = tuple[tuple[float, float], ...]


class HistoriesOnDemand(Mapping[ModelKey, Points]):
    """The load of each model in the last day, as far as it was asked for, put together when it is read."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._models = {variant.model: None for variant in snapshot.variants}

    def __getitem__(self, model: ModelKey) -> Points:
        if model not in self._models:
            raise KeyError(model)
        return tuple(sorted(_points(self._snapshot, model), reverse=True))

    def __iter__(self) -> Iterator[ModelKey]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def asked_prometheus(snapshot: Snapshot) -> dict[str, AskedPrometheus]:
    """By cluster the queries of this run, where its Prometheus has an address for people."""
    return {
        cluster.name: AskedPrometheus(
            address=cluster.prometheus.external_url, queries=snapshot.observed.queries.get(cluster.name, {})
        )
        for cluster in snapshot.settings.clusters
        if cluster.prometheus is not None and cluster.prometheus.external_url
    }


def _points(snapshot: Snapshot, model: ModelKey) -> Iterator[tuple[float, float]]:
    """What arrived, and before that what was finished: how long ago, and how much."""
    observed, oldest_s = snapshot.observed, LONGEST_S
    load, past, usual = observed.loads.get(model), observed.past.get(model), observed.usual.get(model)
    first_s = snapshot.now_s
    if isinstance(load, Load):
        yield 0.0, load.arrival_rate_per_s
    if isinstance(past, PastArrivals):
        first_s = past.start_s
        yield from _known(snapshot.now_s, past.start_s, past.step_s, past.rates_per_s, until_s=snapshot.now_s)
    if usual is not None:
        every = _known(snapshot.now_s, usual.start_s, usual.step_s, usual.rates_per_s, until_s=first_s)
        yield from (point for point in every if point[0] <= oldest_s)


def _known(
    now_s: float, start_s: float, step_s: float, rates: tuple[float, ...], *, until_s: float
) -> Iterator[tuple[float, float]]:
    for number, rate in enumerate(rates):
        at_s = start_s + number * step_s
        if at_s < until_s and not math.isnan(rate):
            yield now_s - at_s, rate
