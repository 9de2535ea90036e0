"""Which of a pod's series a metric means: those scraped at the port and path that its policy names, each once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.domain.declared.tracking import DEFAULT_PORT, DEFAULT_URI, PodMetric
from reconciler.metrics.reading.decoding import printable
from reconciler.metrics.reading.readings import ObjectName
from reconciler.metrics.tracked.grid import Floats, Table
from reconciler.metrics.tracked.histograms import Bucket

ENDPOINT_LABELS = ("instance", "metrics_path", "job")
"""What tells scrapes of one pod apart; a path is there only where somebody relabels it."""
_PORT = re.compile(r":([0-9]{1,5})$")
_AGREEING_SHARE, _AGREEING = 0.2, 0.5
"""How far the means of two scrapes of one endpoint may be apart: of the larger, and in the metric's own unit."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Endpoint:
    """Where a series was scraped: port and path are empty where its labels do not tell them."""

    port: str = ""
    path: str = ""
    job: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (f"port {self.port}" if self.port else "", self.path)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """A series of a pod: what it counts, and where it was scraped."""

    bucket: Bucket
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSeries:
    """The rows of one metric, and the endpoint of each pod that they are from."""

    table: Table[Bucket]
    endpoints: Mapping[ObjectName, Endpoint]


def endpoint_of(labels: Mapping[str, str]) -> Endpoint:
    """What the labels of a series tell of its endpoint; an address may change while the pod stays the same."""
    instance, path, job = (labels.get(name, "") for name in ENDPOINT_LABELS)
    port = _PORT.search(instance)
    return Endpoint(port=port[1] if port else "", path=path, job=job)


def choose_endpoint(table: Table[Scraped], source: PodMetric) -> ChosenSeries:
    """The series of every pod at the endpoint that `source` means; a pod where nobody can tell has none, and why."""
    pods: dict[ObjectName, dict[Endpoint, dict[Bucket, Floats]]] = {}
    for scraped, values in table.rows.items():
        pods.setdefault(scraped.bucket.pod, {}).setdefault(scraped.endpoint, {})[scraped.bucket] = values
    rows: dict[Bucket, Floats] = {}
    endpoints: dict[ObjectName, Endpoint] = {}
    oddities: dict[Bucket, str] = {}
    for pod, found in pods.items():
        meant = _meant(sorted(found), source)
        endpoint = meant if isinstance(meant, str) else _only_one(meant, found)
        if isinstance(endpoint, str):
            oddities[Bucket(pod=pod, bound="")] = endpoint
        else:
            rows |= found[endpoint]
            endpoints[pod] = endpoint
    for each, why in table.oddities.items():
        if each.endpoint == endpoints.get(each.bucket.pod):
            oddities[each.bucket] = why
    chosen = Table(rows=rows, oddities=oddities, failed=table.failed, asked=table.asked)
    return ChosenSeries(table=chosen, endpoints=endpoints)


def _meant(found: Sequence[Endpoint], source: PodMetric) -> Sequence[Endpoint] | str:
    """The endpoints at the port and path of a source; where it names none, the usual one, else the only one."""
    ports = _at(found, [each.port for each in found], source.port, DEFAULT_PORT)
    if not ports:
        return _beside(found, source)
    paths = _at(ports, [each.path for each in ports], source.uri, DEFAULT_URI)
    return paths or _beside(ports, source)


def _at(
    found: Sequence[Endpoint], told: Sequence[str], written: int | str | None, usual: int | str
) -> Sequence[Endpoint]:
    if not any(told):
        return found
    wanted = str(usual if written is None else written)
    exact = [each for each, text in zip(found, told, strict=True) if text == wanted]
    is_only_one = written is None and len(set(told)) == 1
    return found if is_only_one else exact


def _beside(found: Sequence[Endpoint], source: PodMetric) -> str:
    seen = list(dict.fromkeys(printable(str(each)) for each in found))
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    port, uri = source.port or DEFAULT_PORT, source.uri or DEFAULT_URI
    return f"it is scraped at {', '.join(seen[:_SHOWN])}{more}, and not at port {port} {printable(uri)}"


def _only_one(endpoints: Sequence[Endpoint], found: Mapping[Endpoint, Mapping[Bucket, Floats]]) -> Endpoint | str:
    """Of several jobs that scrape one endpoint the one that saw most; what they disagree about is nothing to read."""
    ranked = sorted(endpoints, key=lambda each: (-sum(map(_count, found[each].values())), each))
    if any(_disagree(found[ranked[0]], found[other]) for other in ranked[1:]):
        jobs = ", ".join(printable(each.job) or "one without a name" for each in sorted(endpoints)[:_SHOWN])
        return f"the jobs {jobs} scrape it and disagree: which of them is meant?"
    return ranked[0]


def _count(values: Floats) -> int:
    return int(np.count_nonzero(~np.isnan(values)))


def _disagree(one: Mapping[Bucket, Floats], other: Mapping[Bucket, Floats]) -> bool:
    return any(_apart(values, other[bucket]) for bucket, values in one.items() if bucket in other)


def _apart(one: Floats, other: Floats) -> bool:
    both = np.isfinite(one) & np.isfinite(other)
    if not both.any():
        return False
    means = sorted((float(one[both].mean()), float(other[both].mean())))
    return means[1] - means[0] > _AGREEING_SHARE * means[1] + _AGREEING


def by_pod(table: Table[Bucket]) -> Table[ObjectName]:
    """The rows of a metric without buckets, by their pods."""
    return Table(
        rows={bucket.pod: values for bucket, values in table.rows.items()},
        oddities={bucket.pod: why for bucket, why in table.oddities.items()},
        failed=table.failed,
        asked=table.asked,
    )
