"""What is asked of one cluster over time: one range query a quantity, split where an answer would be too large."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.domain.measured.answers import Query
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.grids import Grid, grid_of
from reconciler.metrics.quantities.history import HISTORY, OBJECTS, OWNERS, PAST, USUAL, in_own_words
from reconciler.metrics.quantities.quantity import CONFIGURABLE_QUANTITIES, Name, Quantity
from reconciler.metrics.queries.expressions import label_names, matchers, own_words, render, stated
from reconciler.metrics.queries.selectors import add_matchers

NAMED_NAMESPACES = 50
"""Up to so many namespaces are named in every selector; beyond, the matcher costs more than it keeps out."""
SAMPLE_BUDGET = 1_500_000
"""Points in one answer: about 55 MB of JSON, and far below the 50 M samples that a server reads for a query."""
MAX_POINTS = 11_000
"""Points of one series: Prometheus refuses more."""
SHORTEST_POINTS = 60
"""Below so many points an answer is split by namespace rather than by time."""

LIVE_STEP_S = 15.0
"""Nobody scrapes kube-state-metrics more often, so no sample falls between two moments."""
PAYBACK_S = 3600.0
"""As far back as it is asked where nobody says otherwise."""
FINE_STEP_S, COARSE_STEP_S = 60.0, 300.0
"""Rates are of 5 minutes: a step of a minute misses no peak, one of 5 minutes no request."""
FINE_UP_TO_S = 2 * 3600.0
"""Beyond, the coarse step keeps an answer about a day as small as one about hours."""
PAST_CONFIGURED = {Name.ARRIVALS_CONFIGURED: Name.PAST_CONFIGURED}
USUAL_STEP_S = 600.0
"""Of a window of 5 minutes: half of the day is looked at, at half of its price."""
USUAL_HOUR_S = 3600.0
"""The same hour of another day: half of it before the moment, half after."""
USUAL_SPAN_S = 86_400.0 + USUAL_HOUR_S / 2
LAST_WEEK_S = 7 * 86_400.0
_KNOWN = {**HISTORY, **PAST, **USUAL, **OBJECTS, **OWNERS}


def history_queries(
    cluster: ClusterSettings,
    namespaces: Mapping[str, int],
    start_s: float,
    end_s: float,
    step_s: float,
    quantities: Sequence[Name],
    *,
    sample_budget: int = SAMPLE_BUDGET,
    window_s: float | None = None,
) -> tuple[Query, ...]:
    """One range query for each quantity, at the multiples of `step_s` from `start_s` to `end_s`.

    Quantities are those of `HISTORY`, `OBJECTS`, `PAST` and `USUAL`; `namespaces` maps each namespace to the replicas
    (objects, models) expected there. Beyond `sample_budget` points a quantity is split by time, then by namespace. Each
    point speaks of the quantity's own window or the last `window_s`, at least of one step, so that nothing falls
    between two points; one of `USUAL` of its window alone. Names of `OWNERSHIP` are asked once, for the whole time.
    """
    grid = grid_of(start_s, end_s, step_s)
    if cluster.prometheus is None or not namespaces or grid.count == 0:
        return ()
    points = _points_per_query(grid, namespaces, sample_budget)
    wheres = [matchers(cluster.prometheus, batch) for batch in batches_of(namespaces, max(1, sample_budget // points))]
    names = label_names(cluster.prometheus)
    own = {where: own_words(cluster.prometheus, where) for where in wheres}
    queries: list[Query] = []
    for name in quantities:
        quantity = _KNOWN[name]
        for where in wheres:
            said = in_own_words(quantity, own[where])
            rendered = render(said, names, where, _span_s(quantity, grid, window_s))
            text = stated(quantity, own[where], names, rendered)
            queries += _asked(cluster.name, name, text, grid, points)
    return tuple(queries)


def live_queries(
    cluster: ClusterSettings, targets: Mapping[str, int], now_s: float, delay_s: float
) -> tuple[Query, ...]:
    """One query over the last `delay_s` and a step more; `targets` counts the scale targets of each namespace."""
    return history_queries(cluster, targets, now_s - delay_s - LIVE_STEP_S, now_s, LIVE_STEP_S, (Name.LIVE_REPLICAS,))


def past_queries(
    cluster: ClusterSettings,
    namespaces: Mapping[str, int],
    now_s: float,
    payback_s: float,
    *,
    sample_budget: int = SAMPLE_BUDGET,
) -> Iterator[Query]:
    """One range query for each source of arrivals over the last `payback_s`; `namespaces` counts the models of each."""
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return
    start_s, step_s = now_s - payback_s, FINE_STEP_S if payback_s <= FINE_UP_TO_S else COARSE_STEP_S
    for key, text in sorted(settings.queries.items()):
        name = PAST_CONFIGURED.get(CONFIGURABLE_QUANTITIES.get(key, Name.COMPLETIONS))
        for part in grid_of(start_s, now_s, step_s).parts(MAX_POINTS) if name is not None else ():
            asked = add_matchers(text, matchers(settings))
            yield Query(
                cluster=cluster.name,
                quantity=str(name),
                text=asked,
                start_s=part.start_s,
                end_s=part.end_s,
                step_s=step_s,
            )
    yield from history_queries(cluster, namespaces, start_s, now_s, step_s, tuple(PAST), sample_budget=sample_budget)


def usual_queries(
    cluster: ClusterSettings, namespaces: Mapping[str, int], now_s: float, *, sample_budget: int = SAMPLE_BUDGET
) -> Iterator[Query]:
    """What a day was like, and this hour a week ago; `namespaces` counts the replicas of each, for all are read."""
    start_s = now_s - USUAL_SPAN_S
    yield from history_queries(
        cluster, namespaces, start_s, now_s, USUAL_STEP_S, tuple(USUAL), sample_budget=sample_budget
    )
    start_s, end_s = now_s - LAST_WEEK_S - USUAL_HOUR_S / 2, now_s - LAST_WEEK_S + USUAL_HOUR_S / 2
    yield from history_queries(cluster, namespaces, start_s, end_s, USUAL_STEP_S, (Name.USUAL_COMPLETIONS,))


def batches_of(namespaces: Mapping[str, int], series_budget: int) -> list[list[str]]:
    """Namespaces to name together, by the replicas expected in them; one empty batch asks for all without a name."""
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


def _points_per_query(grid: Grid, namespaces: Mapping[str, int], sample_budget: int) -> int:
    replicas = sum(max(1, count) for count in namespaces.values())
    return min(grid.count, MAX_POINTS, max(SHORTEST_POINTS, sample_budget // replicas))


def _span_s(quantity: Quantity, grid: Grid, window_s: float | None) -> float:
    """Over how long a time each point of a quantity speaks."""
    if quantity.name in OWNERS:
        return max(quantity.window_s, grid.end_s - grid.start_s)
    return quantity.window_s if quantity.name in USUAL else max(grid.step_s, window_s or quantity.window_s)


def _asked(cluster: str, name: Name, text: str, grid: Grid, points: int) -> Iterator[Query]:
    if name in OWNERS:
        yield Query(cluster=cluster, quantity=name, text=text, start_s=grid.end_s, end_s=grid.end_s)
        return
    for part in grid.parts(points):
        yield Query(
            cluster=cluster, quantity=name, text=text, start_s=part.start_s, end_s=part.end_s, step_s=grid.step_s
        )
