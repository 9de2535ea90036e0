"""Histories as one call reads them that asked for nothing else."""

from collections.abc import Sequence

from reconciler.domain.answers import Answer
from reconciler.domain.history import grid_of
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant
from reconciler.metrics.history import read_histories, trace
from reconciler.metrics.quantities import OWNERSHIP
from reconciler.metrics.queries import names_in
from reconciler.metrics.readings import attribution_of, grouped, read


def read_traces(
    variants: Sequence[Variant],
    answers: Sequence[Answer],
    settings: Settings,
    start_s: float,
    end_s: float,
    step_s: float,
) -> dict[ResourceKey, tuple[Trace, ...]]:
    """The replicas' histories by variant, sorted by pod, from answers to `history_queries` of the same arguments.

    The grid has the multiples of `step_s` from `start_s` to `end_s`. Every quantity that was asked has a series, NaN
    where nothing was told, where two values contradict each other, and where points stand beside the grid. Answers
    that failed or cannot be read leave their time unknown.
    """
    grid = grid_of(start_s, end_s, step_s)
    answers_of = grouped((answer.query.cluster, answer) for answer in answers)
    traces: dict[ResourceKey, tuple[Trace, ...]] = {}
    for cluster, members in grouped((variant.key.cluster, variant) for variant in variants).items():
        mine = answers_of.get(cluster, [])
        names = names_in(settings, cluster)
        owners = read([answer for answer in mine if answer.query.quantity in OWNERSHIP], names)
        traces.update(trace(read_histories(mine, names, grid), attribution_of(members, owners)))
    return traces
