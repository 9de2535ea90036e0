"""Our own gauges on their way out: Prometheus' text, and a push to a Pushgateway."""

import base64
import functools
from collections.abc import Iterable, Mapping
from contextlib import closing

from reconciler.domain.reports import OwnGauge
from reconciler.domain.settings import Pushgateway
from reconciler.errors import TransientError
from reconciler.http.door import Door
from reconciler.http.messages import Advice, Clock, Failure, FailureKind, FailurePlace, Limits, Request, Response
from reconciler.http.redaction import checked_root
from reconciler.prometheus.client import ReadSecret, read_credentials

JOB = "reconciler"
LIMITS = Limits(read_s=10.0, total_s=30.0, attempts=3, parallel=1)
ADVICE: Advice = {FailureKind.UNTRUSTED: "set gauges.pushgateway.tls.ca"}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUOTED_CHARACTERS = 300


def render_gauges(gauges: Iterable[OwnGauge]) -> bytes:
    """The gauges in Prometheus' text format; a gauge without series is left out."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client import Gauge as Metric

    registry = CollectorRegistry()
    for gauge in gauges:
        if gauge.series:
            metric = Metric(gauge.name, gauge.words, tuple(gauge.series[0][0]), registry=registry)
            for labels, value in gauge.series:
                (metric.labels(**labels) if labels else metric).set(value)
    return generate_latest(registry)


def push_gauges(
    pushgateway: Pushgateway,
    gauges: Iterable[OwnGauge],
    grouping: Mapping[str, str],
    read_secret: ReadSecret,
    *,
    replaces: bool,
    clock: Clock | None = None,
) -> None:
    """Push under the job `reconciler` and `grouping`.

    `replaces` all that was pushed under them, else only metrics that have a new value. Raises ConfigurationError or
    TransientError, in a sentence without secrets.
    """
    root = checked_root(pushgateway.url, "gauges.pushgateway.url")
    segments = "".join(f"/{name}@base64/{_encoded(value)}" for name, value in grouping.items())
    request = Request(
        method="PUT" if replaces else "POST",
        url=f"{root}/metrics/job/{JOB}{segments}",
        action="push gauges",
        content=render_gauges(gauges),
        headers={"Content-Type": CONTENT_TYPE},
        is_write=True,
    )
    credentials = functools.partial(read_credentials, pushgateway, read_secret)
    with closing(Door(LIMITS, _judge, advice=ADVICE, clock=clock or Clock())) as door:
        answer = door.ask(request, credentials)
    if isinstance(answer, Failure):
        raise answer.error


def _encoded(value: str) -> str:
    """A label's value as a part of the path: it may hold slashes; `=` stands for none at all."""
    return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=") or "="


def _judge(response: Response, place: FailurePlace) -> Failure | None:
    if response.is_success:
        return None
    said = response.redactor.show(response.content.decode("utf-8", "replace"))
    words = f"{response.status}: {' '.join(said.split())[:QUOTED_CHARACTERS]}"
    if response.status in (401, 403, 404):
        return place.failure(FailureKind.REFUSED, f"{words}: are gauges.pushgateway's address and credential right?")
    wait_s = 0.0 if response.status >= 500 else None
    return Failure(kind=FailureKind.REJECTED, error=TransientError(f"{place.where}: {words}"), wait_s=wait_s)
