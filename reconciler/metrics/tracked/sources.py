"""Where the metrics of policies come from, and how their pods are told apart by labels."""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

from reconciler.domain.declared.tracking import (
    LabelRequirement,
    LabelSelector,
    PodMetric,
    PrometheusMetric,
    TrackedTarget,
)
from reconciler.domain.settings import PrometheusSettings
from reconciler.metrics.queries.expressions import exported_label

Source = TypeVar("Source", PodMetric, PrometheusMetric)
Exported: TypeAlias = tuple[str, int | None, str | None]
"""A metric's name with the port and path that a policy names, if any."""
METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
COUNTER = "_total"
ORIGIN = re.compile(r"(https?)://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^:/?#@]*)(?::([0-9]*))?(?=[/?#]|$)", re.IGNORECASE)
PORTS = {"http": "80", "https": "443"}


def is_counter(metric: str) -> bool:
    """Whether a metric's name says that it only ever grows."""
    return metric.endswith(COUNTER)


def is_askable(metric: str) -> bool:
    """Whether any series could have that name."""
    return METRIC_NAME.fullmatch(metric) is not None


def exported_at(source: PodMetric) -> Exported:
    """What tells the series of one source from those of another, whichever pods it is about."""
    return source.name, source.port, source.uri


def pod_metrics(target: TrackedTarget) -> Iterator[tuple[str, int, PodMetric]]:
    """Each metric of a target's policy that pods export, with the position of their backend."""
    return _metrics(target, PodMetric)


def external_metrics(target: TrackedTarget) -> Iterator[tuple[str, int, PrometheusMetric]]:
    """Each metric of a target's policy that a query of its own answers, with the position of its backend."""
    return _metrics(target, PrometheusMetric)


def _metrics(target: TrackedTarget, kind: type[Source]) -> Iterator[tuple[str, int, Source]]:
    for metric in target.policy.metrics:
        for position, backend in enumerate(target.backends):
            source = backend.source_of(metric.name)
            if isinstance(source, kind):
                yield metric.name, position, source


def foreign_origin(source: PrometheusMetric, settings: PrometheusSettings) -> str:
    """The origin that a policy's query is meant for, when it is not this Prometheus; else empty."""
    theirs, ours = _origin(source.server_url), _origin(settings.url)
    return theirs if source.server_url and theirs != ours else ""


def selected_labels(targets: Iterable[TrackedTarget]) -> tuple[str, ...]:
    """The labels, as kube-state-metrics spells them, that tell the targets' pods apart."""
    return tuple(sorted({exported_label(each.key) for target in targets for each in _requirements(target)}))


def _requirements(target: TrackedTarget) -> Iterator[LabelRequirement]:
    for backend in target.backends:
        yield from LabelSelector(match_labels=backend.pod_labels).requirements
    for _, _, source in pod_metrics(target):
        yield from source.selector.requirements


def _origin(url: str) -> str:
    found = ORIGIN.match(url)
    if not found:
        return url
    scheme = found[1].lower()
    return f"{scheme}://{found[2].lower()}:{found[3] or PORTS[scheme]}"
