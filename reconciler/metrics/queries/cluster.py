"""What is asked of one cluster: one query a quantity, whatever the number of variants."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.domain.measured.answers import Query
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.quantities.history import LEARNING_WINDOW_S, SATURATION_HISTORY, TRACED_HISTORY
from reconciler.metrics.quantities.loads import CLUSTER_LABEL, QUANTITIES
from reconciler.metrics.quantities.quantity import CONFIGURABLE_QUANTITIES, Name, Quantity
from reconciler.metrics.quantities.saturation import RETENTION_S, SATURATION_QUANTITIES
from reconciler.metrics.queries.expressions import label_names, matchers, own_words, render, stated
from reconciler.metrics.queries.ranges import (
    COARSE_STEP_S,
    NAMED_NAMESPACES,
    PAYBACK_S,
    SAMPLE_BUDGET,
    batches_of,
    history_queries,
    past_queries,
    usual_queries,
)
from reconciler.metrics.queries.selectors import add_matchers

SERIES_BUDGET = 50_000
"""Replicas that one query may cover: an answer of about 10 MB, far below the servers' limits of 50 M samples."""
HISTORY_S = 3600.0
"""How far back a run asks for histories."""
SATURATION_STEP_S = 15.0
LEARNING_STEP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNeeds:
    """Namespaces about which more than loads is asked, with the replicas (or models) expected in each.

    `saturation`: how full replicas are, now and within the last hour. `traced`: the last hour of what profiles are
    learned from. `retention_s`: over how long requests are counted before a model may go to zero. `past`: the models of
    each namespace whose arrivals of the last `payback_s` are asked for. `usual`: whose whole day is asked for as well.
    """

    saturation: Mapping[str, int] = field(default_factory=dict)
    traced: Mapping[str, int] = field(default_factory=dict)
    retention_s: float = RETENTION_S
    past: Mapping[str, int] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)
    payback_s: float = PAYBACK_S


NO_NEEDS = QueryNeeds()


def queries_for(
    cluster: ClusterSettings,
    namespaces: Mapping[str, int],
    now_s: float,
    *,
    needs: QueryNeeds = NO_NEEDS,
    with_cluster_label: bool = False,
    series_budget: int = SERIES_BUDGET,
    sample_budget: int = SAMPLE_BUDGET,
) -> tuple[Query, ...]:
    """One query for each quantity, in the order of their importance: instant ones at `now_s`, then what `needs` adds.

    `namespaces` maps each namespace that holds a variant to the replicas expected there: only beyond
    `series_budget` of them is a quantity split, by namespace; a history is split beyond `sample_budget` points.
    `with_cluster_label` also asks whether the server holds several clusters. Empty without namespaces or without a
    Prometheus; ConfigurationError for wrong labels.
    """
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return ()
    asked = (*QUANTITIES, CLUSTER_LABEL) if with_cluster_label else QUANTITIES
    texts = [
        *_configured(settings),
        *_built_in(asked, settings, namespaces, series_budget),
        *_built_in(_kept_for(needs.retention_s), settings, needs.saturation, series_budget),
    ]
    return (
        *(Query(cluster=cluster.name, quantity=name, text=text, start_s=now_s, end_s=now_s) for name, text in texts),
        *_history(cluster, needs, now_s, sample_budget),
    )


def _configured(settings: PrometheusSettings) -> Iterator[tuple[Name, str]]:
    where = matchers(settings)
    for key, text in sorted(settings.queries.items()):
        if CONFIGURABLE_QUANTITIES.get(key) is Name.ARRIVALS_CONFIGURED:
            yield Name.ARRIVALS_CONFIGURED, add_matchers(text, where)


def _built_in(
    asked: Sequence[Quantity], settings: PrometheusSettings, namespaces: Mapping[str, int], series_budget: int
) -> Iterator[tuple[Name, str]]:
    if not namespaces:
        return
    names = label_names(settings)
    wheres = [matchers(settings, batch) for batch in batches_of(namespaces, series_budget)]
    # what two batches would both find must not be asked twice
    anywhere = [matchers(settings, ("", *namespaces) if len(namespaces) <= NAMED_NAMESPACES else ())]
    own = {where: own_words(settings, where) for where in (*anywhere, *wheres)}
    for quantity in asked:
        for where in anywhere if quantity.may_lack_namespace else wheres:
            yield quantity.name, stated(quantity, own[where], names, render(quantity, names, where))


def _kept_for(retention_s: float) -> tuple[Quantity, ...]:
    return tuple(
        replace(quantity, window_s=retention_s) if quantity.name is Name.REQUESTS_IN_RETENTION else quantity
        for quantity in SATURATION_QUANTITIES
    )


def _history(cluster: ClusterSettings, needs: QueryNeeds, now_s: float, sample_budget: int) -> Iterator[Query]:
    start_s = now_s - HISTORY_S
    yield from history_queries(
        cluster,
        needs.saturation,
        start_s,
        now_s,
        SATURATION_STEP_S,
        SATURATION_HISTORY,
        sample_budget=sample_budget,
    )
    yield from history_queries(
        cluster,
        needs.traced,
        start_s,
        now_s,
        LEARNING_STEP_S,
        TRACED_HISTORY,
        sample_budget=sample_budget,
        window_s=LEARNING_WINDOW_S,
    )
    if needs.payback_s > HISTORY_S:
        yield from history_queries(
            cluster,
            needs.saturation,
            now_s - needs.payback_s,
            now_s,
            COARSE_STEP_S,
            SATURATION_HISTORY,
            sample_budget=sample_budget,
        )
    yield from past_queries(cluster, needs.past, now_s, needs.payback_s, sample_budget=sample_budget)
    yield from usual_queries(cluster, needs.usual, now_s, sample_budget=sample_budget)
