"""What is asked of one cluster: one query a quantity, whatever the number of variants."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.domain.answers import Answer, NoAnswer, Query
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.decoding import decode
from reconciler.metrics.expressions import LabelNames, label_names, matchers, render
from reconciler.metrics.quantities import CLUSTER_LABEL, CONFIGURABLE_QUANTITIES, QUANTITIES, Name, Quantity
from reconciler.metrics.selectors import add_matchers

SERIES_BUDGET = 50_000
"""Replicas that one query may cover: an answer of about 10 MB, far below the servers' limits of 50 M samples."""
NAMED_NAMESPACES = 50
"""Up to so many namespaces are named in every selector; beyond, the matcher costs more than it keeps out."""


def queries_for(
    cluster: ClusterSettings,
    namespaces: Mapping[str, int],
    now_s: float,
    *,
    with_cluster_label: bool = False,
    series_budget: int = SERIES_BUDGET,
) -> tuple[Query, ...]:
    """One instant query at `now_s` for each quantity, in the order of their importance.

    `namespaces` maps each namespace that holds a variant to the replicas expected there: only beyond
    `series_budget` of them is a quantity split, by namespace. `with_cluster_label` also asks whether the server
    holds several clusters. Empty without namespaces or without a Prometheus; ConfigurationError for wrong labels.
    """
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return ()
    batches = _batches(namespaces, series_budget)
    asked = (*QUANTITIES, CLUSTER_LABEL) if with_cluster_label else QUANTITIES
    names = label_names(settings)
    texts = [*_configured(settings), *_built_in(asked, settings, names, batches)]
    return tuple(
        Query(cluster=cluster.name, quantity=name, text=text, start_s=now_s, end_s=now_s) for name, text in texts
    )


def clusters_seen(answers: Sequence[Answer]) -> tuple[str, ...]:
    """The values of the label `cluster` on series of the namespaces asked for, sorted; empty where it is not used."""
    asked = [decode(answer) for answer in answers if answer.query.quantity == Name.CLUSTER_LABEL]
    answered = [samples for samples in asked if not isinstance(samples, NoAnswer)]
    return tuple(sorted({sample.labels.get("cluster", "") for samples in answered for sample in samples}))


def _configured(settings: PrometheusSettings) -> Iterator[tuple[Name, str]]:
    where = matchers(settings)
    for key, text in sorted(settings.queries.items()):
        if key in CONFIGURABLE_QUANTITIES:
            yield CONFIGURABLE_QUANTITIES[key], add_matchers(text, where)


def _built_in(
    asked: Sequence[Quantity], settings: PrometheusSettings, names: LabelNames, batches: Sequence[Sequence[str]]
) -> Iterator[tuple[Name, str]]:
    wheres = [matchers(settings, batch) for batch in batches]
    for quantity in asked:
        for where in wheres:
            yield quantity.name, render(quantity, names, where)


def _batches(namespaces: Mapping[str, int], series_budget: int) -> list[list[str]]:
    """Namespaces to name together; one empty batch asks for all of them without naming any."""
    batches: list[list[str]] = [[]]
    room = series_budget
    for name, replicas in sorted(namespaces.items()):
        expected = max(1, replicas)
        if expected > room and batches[-1]:
            batches.append([])
            room = series_budget
        batches[-1].append(name)
        room -= expected
    return [[]] if len(batches) == 1 and len(namespaces) > NAMED_NAMESPACES else batches
