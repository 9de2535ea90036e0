"""What is asked of one cluster over time: one range query a quantity, split where an answer would be too large."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.domain.answers import Query
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.batches import batches_of
from reconciler.metrics.expressions import label_names, matchers, render
from reconciler.metrics.grids import Grid, grid_of
from reconciler.metrics.history_quantities import HISTORY, OBJECTS, OWNERS, PAST
from reconciler.metrics.quantities import Name

SAMPLE_BUDGET = 1_500_000
"""Points in one answer: about 55 MB of JSON, and far below the 50 M samples that a server reads for a query."""
MAX_POINTS = 11_000
"""Points of one series: Prometheus refuses more."""
SHORTEST_POINTS = 60
"""Below so many points an answer is split by namespace rather than by time."""


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

    Quantities are those of `HISTORY`, `OBJECTS` and `PAST`; `namespaces` maps each namespace to the replicas (objects,
    models) expected there. Beyond `sample_budget` points a quantity is split by time, then by namespace. Each point
    speaks of the quantity's own window or the last `window_s`, at least of one step, so that nothing falls between two
    points. Names of `OWNERSHIP` are asked once, for the whole time.
    """
    grid = grid_of(start_s, end_s, step_s)
    if cluster.prometheus is None or not namespaces or grid.count == 0:
        return ()
    points = _points_per_query(grid, namespaces, sample_budget)
    wheres = [matchers(cluster.prometheus, batch) for batch in batches_of(namespaces, max(1, sample_budget // points))]
    names = label_names(cluster.prometheus)
    queries: list[Query] = []
    for name in quantities:
        quantity = OWNERS.get(name) or OBJECTS.get(name) or PAST.get(name) or HISTORY[name]
        owned_s = max(quantity.window_s, grid.end_s - grid.start_s)
        span_s = owned_s if name in OWNERS else max(step_s, window_s or quantity.window_s)
        for where in wheres:
            text = render(quantity, names, where, span_s)
            queries += _asked(cluster.name, name, text, grid, points)
    return tuple(queries)


def _points_per_query(grid: Grid, namespaces: Mapping[str, int], sample_budget: int) -> int:
    replicas = sum(max(1, count) for count in namespaces.values())
    return min(grid.count, MAX_POINTS, max(SHORTEST_POINTS, sample_budget // replicas))


def _asked(cluster: str, name: Name, text: str, grid: Grid, points: int) -> Iterator[Query]:
    if name in OWNERS:
        yield Query(cluster=cluster, quantity=name, text=text, start_s=grid.end_s, end_s=grid.end_s)
        return
    for part in grid.parts(points):
        yield Query(
            cluster=cluster, quantity=name, text=text, start_s=part.start_s, end_s=part.end_s, step_s=grid.step_s
        )
