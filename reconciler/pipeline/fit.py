"""Fit: asks every Prometheus for the history of replicas, and learns a performance profile of each model from it."""

import logging
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from reconciler.domain.answers import no_prometheus
from reconciler.domain.history import Grid, grid_of
from reconciler.domain.profiles import Fitting
from reconciler.domain.records import dataclass
from reconciler.domain.settings import Assumption, ClusterSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.errors import ConfigurationError
from reconciler.metrics.quantities import FIT_HISTORY, LEARNING_WINDOW_S, OWNERSHIP, Name
from reconciler.metrics.queries import history_queries, queries_for
from reconciler.pipeline.files import read_files
from reconciler.pipeline.observe import refuse_several_clusters
from reconciler.pipeline.session import Doors
from reconciler.placement.fleet import Fleet
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.fitting import FitHistory, choose_variants, learn_profiles, read_history
from reconciler.snapshot.variants import build_catalogs, join_variants

logger = logging.getLogger(__name__)

MINUTE_S = 60.0
MOST_POINTS = 2_000
"""Of one series: more make no better profile, and Prometheus refuses 11,000."""
ALL_POINTS = 1_500_000
"""Of one quantity in one cluster: with all quantities about half a gigabyte while they are looked at."""
ANSWER_POINTS = 200_000
"""Of one answer: a slice that a server has ready in seconds, long before patience ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """What to learn: `models` by id or glob (all without any), from the last `since_s`."""

    since_s: float
    models: tuple[str, ...] = ()


def fit(doors: Doors, settings: Settings, now_s: float, request: FitRequest, repository_name: str) -> Fitting:
    """Learn a profile of every model and accelerator that the base commit declares variants of.

    A Prometheus that fails costs its own models only. Raises ConfigurationError for a model that nothing serves, and
    when no cluster has a Prometheus.
    """
    files = read_files(doors.repository, settings, repository_name, doors.progress)
    declaration = fold(files.commit, settings)
    catalogs = build_catalogs(settings, declaration)
    declared = join_variants(settings, declaration, catalogs)
    chosen = choose_variants(declared, request.models)
    expected = _replicas_by_namespace(declared, chosen)
    step_s = step_for(request.since_s, max((each.total() for each in expected.values()), default=0))
    grid = grid_of(now_s - request.since_s, now_s, step_s)
    history = _ask_all(doors, settings, declared, expected, grid, files.commit.fleet)
    models, unused = learn_profiles(chosen, catalogs, history, datetime.fromtimestamp(now_s, tz=UTC).date().isoformat())
    return Fitting(
        now_s=now_s,
        since_s=request.since_s,
        step_s=step_s,
        repository=repository_name,
        branch=doors.repository.branch,
        commit=doors.repository.commit,
        models=models,
        unused=unused,
        findings=tuple(sorted({*declaration.findings, *files.unread})),
        failures=tuple(f"{cluster}: {reason}" for cluster, reason in sorted(history.failed.items())),
        warnings=history.warnings,
    )


def step_for(since_s: float, replicas: int) -> float:
    """Seconds between two samples, whole minutes: one at least, and as many as keep answers within their bounds."""
    step_s = max(since_s / MOST_POINTS, since_s * replicas / ALL_POINTS)
    return max(math.ceil(step_s / MINUTE_S), 1) * MINUTE_S


def _replicas_by_namespace(declared: Sequence[Variant], chosen: Sequence[Variant]) -> dict[str, Counter[str]]:
    """By cluster, the namespaces to ask about with the replicas expected there: an answer holds all of a namespace."""
    expected: dict[str, Counter[str]] = {}
    wanted = {(each.key.cluster, each.key.namespace) for each in chosen if each.current.accelerator}
    for variant in declared:
        cluster, namespace = variant.key.cluster, variant.key.namespace
        if (cluster, namespace) in wanted:
            expected.setdefault(cluster, Counter())[namespace] += max(variant.current.replicas, 1)
    return expected


def _ask_all(
    doors: Doors,
    settings: Settings,
    declared: Sequence[Variant],
    expected: dict[str, Counter[str]],
    grid: Grid,
    fleet: Fleet,
) -> FitHistory:
    clusters = [cluster for cluster in settings.clusters if cluster.name in expected]
    unasked = {each.name: no_prometheus(each.name) for each in clusters if each.prometheus is None}
    if clusters and len(unasked) == len(clusters):
        raise ConfigurationError("; ".join(unasked.values()))
    if Assumption.ONE_CLUSTER in settings.assumed:
        for cluster in clusters:
            queries = queries_for(cluster, expected[cluster.name], grid.end_s, with_cluster_label=True)
            answers = doors.ask(cluster, [each for each in queries if each.quantity == Name.CLUSTER_LABEL])
            refuse_several_clusters(answers, fleet)
    histories = (
        _ask(doors, cluster, [each for each in declared if each.key.cluster == cluster.name], expected, grid)
        for cluster in clusters
    )
    return reduce(or_, histories, FitHistory(unasked=unasked))


def _ask(
    doors: Doors, cluster: ClusterSettings, variants: Sequence[Variant], expected: dict[str, Counter[str]], grid: Grid
) -> FitHistory:
    """What one cluster answered; it is in memory for as long as this takes, and no longer."""
    if cluster.prometheus is None:
        return FitHistory()
    queries = history_queries(
        cluster,
        expected[cluster.name],
        grid.start_s,
        grid.end_s,
        grid.step_s,
        (*OWNERSHIP, *FIT_HISTORY),
        sample_budget=ANSWER_POINTS,
        window_s=LEARNING_WINDOW_S,
    )
    logger.info("asking Prometheus of %s %d questions, a sample every %.0f s", cluster.name, len(queries), grid.step_s)
    return read_history(cluster.name, cluster.prometheus, variants, doors.ask(cluster, queries), grid)
