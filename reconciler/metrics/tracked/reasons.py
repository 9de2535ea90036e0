"""In words for a person: what of a target's history is missing, why, and what to do about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from reconciler.domain.declared.tracking import (
    DEFAULT_PORT,
    DEFAULT_URI,
    LabelSelector,
    PodMetric,
    PrometheusMetric,
    Series,
    TrackedBackend,
    TrackedTarget,
)
from reconciler.domain.measured.answers import no_prometheus
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.reading.decoding import printable
from reconciler.metrics.reading.readings import ObjectName
from reconciler.metrics.tracked.grid import Integers
from reconciler.metrics.tracked.pods import unexported
from reconciler.metrics.tracked.reading import ClusterReading, Elements
from reconciler.metrics.tracked.series import ClusterSeries, only_elements
from reconciler.metrics.tracked.sources import exported_at, external_metrics, foreign_origin, pod_metrics

SHOWN_PODS = 3
ALLOWED = "kube-state-metrics must be started with --metric-labels-allowlist=pods=[{labels}]"


def unasked(name: str, cluster: ClusterSettings | None) -> str:
    """Why there is no answer at all from a cluster."""
    if cluster is None or cluster.prometheus is None:
        return no_prometheus(name)
    return f"the Prometheus of cluster {name} was not asked about metric targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReading:
    """A target with what was read of its `cluster`, where its first backend has the index `first`."""

    target: TrackedTarget
    first: int
    cluster: ClusterReading
    series: ClusterSeries
    settings: PrometheusSettings | None

    def reasons(self) -> tuple[str, ...]:
        """What is missing, each sentence once."""
        return tuple(dict.fromkeys(self._reasons()))

    def notes(self) -> tuple[str, ...]:
        """What a reader should know although nothing is missing."""
        return tuple(dict.fromkeys(self._notes()))

    def _reasons(self) -> Iterator[str]:
        for position, backend in enumerate(self.target.backends):
            yield from self._about_replicas(backend, self.first + position)
        for metric, position, source in pod_metrics(self.target):
            yield from self._about_pods(metric, self.first + position, source)
        for metric, position, external in external_metrics(self.target):
            yield from self._about_query(metric, self.first + position, external)

    def _notes(self) -> Iterator[str]:
        for metric, position, source in pod_metrics(self.target):
            absent = unexported(source.selector.requirements, self.cluster.labels)
            if absent and self.series.followers[self.first + position, metric].rows.size:
                yield f"no pod is said to have the label {', '.join(absent)}, and so every pod counts as without it"

    def _about_replicas(self, backend: TrackedBackend, index: int) -> Iterator[str]:
        """Why the replicas of now are not known."""
        if not np.isnan(self.cluster.replicas[index, -1]):
            return
        target, named = backend.scale_target, _named(backend)
        table = self.cluster.told.get(target.kind, self.cluster.ready)
        if table.failed:
            yield table.failed.reason
        elif target.kind in self.cluster.told or self.cluster.backend_pods.members[index].size:
            yield f"no series tells how many replicas {named} has now: is kube-state-metrics scraped?"
        else:
            yield self._unfound(backend)

    def _unfound(self, backend: TrackedBackend) -> str:
        """Why a workload that should have pods has none that we know of."""
        asked = LabelSelector(match_labels=backend.pod_labels).requirements
        absent = unexported(asked, self.cluster.labels)
        if self.cluster.labels.failed:
            return self.cluster.labels.failed.reason
        if absent:
            return f"no pod of {_named(backend)} is known: {ALLOWED.format(labels=','.join(absent))}"
        labels = ",".join(f"{key}={value}" for key, value in sorted(backend.pod_labels.items()))
        return f"no pod of {_named(backend)} is known: none has the labels {printable(labels)}, or its name"

    def _about_pods(self, metric: str, index: int, source: PodMetric) -> Iterator[str]:
        """Why a metric of pods is not read, or not of all of them."""
        name, backend = printable(source.name), self.cluster.backends[index]
        rows, totals = self.series.followers[index, metric].rows, self.series.pods.get((index, metric))
        found = self.cluster.metrics.get(exported_at(source))
        if found is None or totals is None:
            yield f"metric {name}: no series can have that name"
        elif found.values.failed or not found.values.asked:
            yield found.values.failed.reason if found.values.failed else f"Prometheus was not asked for {name}"
        elif not rows.size:
            yield self._nobody_to_ask(backend, index, source)
        else:
            odd = tuple(self._oddities(name, rows, found.values.oddities))
            if not any(totals.reporting) and not odd:
                where = f"is {printable(source.uri or DEFAULT_URI)} at port {source.port or DEFAULT_PORT} scraped"
                yield f"no pod of {_named(backend)} reports {name}: is that its name, and {where}?"
            elif totals.missing[-1] > 0:
                yield f"{totals.missing[-1]:g} ready pods of {_named(backend)} do not report {name} now"
            yield from odd

    def _nobody_to_ask(self, backend: TrackedBackend, index: int, source: PodMetric) -> str:
        if self.cluster.backend_pods.members[index].size:
            absent = unexported(source.selector.requirements, self.cluster.labels)
            why = ALLOWED.format(labels=",".join(absent)) if absent else "is the selector right?"
            return f"no pod of {_named(backend)} is selected for {printable(source.name)}: {why}"
        if self.cluster.replicas[index, -1] == 0:
            return f"{_named(backend)} has no pods: at zero replicas nothing reports {printable(source.name)}"
        return self._unfound(backend)

    def _oddities(self, name: str, rows: Integers, oddities: Mapping[ObjectName, str]) -> Iterator[str]:
        if not oddities:
            return
        pods = list(self.cluster.backend_pods.pods)
        odd = [pods[row] for row in rows.tolist() if pods[row] in oddities]
        for pod in odd[:SHOWN_PODS]:
            yield f"{name} of pod {printable(pod.name)}: {oddities[pod]}"
        if len(odd) > SHOWN_PODS:
            yield f"{name}: likewise {len(odd) - SHOWN_PODS} more pods"

    def _about_query(self, metric: str, index: int, source: PrometheusMetric) -> Iterator[str]:
        """Why a policy's own query has no number now, or had none for a while."""
        name = printable(metric)
        origin = foreign_origin(source, self.settings) if self.settings else ""
        answered = self.cluster.external.get(source.query)
        if origin:
            yield f"metric {name} is meant for {printable(origin)}, another server than this cluster's: not asked"
        elif answered is None:
            yield f"Prometheus was not asked the query of metric {name}"
        elif answered.failed:
            yield f"metric {name}: {answered.failed.reason}"
        else:
            yield from self._elements(name, self.series.external[index, metric], answered)

    def _elements(self, name: str, values: Series, answered: Elements) -> Iterator[str]:
        _, count = only_elements(answered, len(values))
        if count[-1] != 1:
            yield f"the query of metric {name} returned {count[-1]} elements now, expected one"
        elif not 0 <= values[-1] < np.inf:
            yield f"the query of metric {name} returned {values[-1]} now, expected a finite number of 0 or more"
        before = int(np.count_nonzero(count[:-1] != 1))
        if before:
            yield f"the query of metric {name} did not return one element at {before} earlier ticks"


def _named(backend: TrackedBackend) -> str:
    return f"{printable(backend.scale_target.kind)} {printable(backend.scale_target.label)}"
