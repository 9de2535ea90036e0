"""Checks of a cluster's Prometheus: reach, time, age, which quantities exist, labels, and how far back it goes."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.domain.reported.checkup import Check, Level, warning, well
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.answers import UnexpectedError, decode, document_of, result_of
from reconciler.metrics.engines import ENGINES
from reconciler.metrics.quantities import LIVE_REPLICAS, Name
from reconciler.metrics.queries import label_names
from reconciler.metrics.replicas import STALE_AFTER_S
from reconciler.metrics.survey import ESSENTIAL, NODES, REQUESTS, Survey, metrics_in, metrics_of, owner_metrics
from reconciler.report.formatting import duration

AGE, LABEL, ENGINES_SEEN = "sample-age", "scrape-label", "engines"
UNIT_S = {"y": 31_536_000.0, "w": 604_800.0, "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
SPAN = re.compile(r"(?:[0-9]{1,9}(?:ms|[ywdhms]))+")
SKEW_S = 30.0
"""More than two clocks that are kept right differ, and more than a question takes."""
SEEN_AGE_S = 120.0
"""Older than two scrapes a minute apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One cluster with all that its Prometheus was asked: the run's own questions, the survey, and what time it is.

    `time` was answered at `now_s` (Unix seconds) within `took_s`. `retention` is for how long it keeps samples, in its
    own words, where that matters; empty where it does not say.
    """

    cluster: ClusterSettings
    now_s: float
    took_s: float
    time: Answer
    answers: Sequence[Answer]
    survey: Survey
    variants: int
    reporting: int
    retention: str = ""


def check_prometheus(asked: Asked) -> Iterator[Check]:
    """Everything about one Prometheus that answers."""
    old = tuple(_age(asked))
    troubles = [*_clock(asked), *old]
    if not old:  # what is not there now is only late then
        troubles += [*_labels(asked), *_engines(asked), *_kubernetes(asked), *_retention(asked)]
    name = asked.cluster.name
    url = asked.cluster.prometheus.url if asked.cluster.prometheus else ""
    seen = f"series for {asked.reporting} of {asked.variants} variants"
    yield well(name, "prometheus", f"{url}, {duration(asked.took_s)}; {seen}")
    yield from troubles
    engines = [engine for engine in ENGINES if _told(engine, asked.survey)]
    if engines and not any(check.rule == "quantity" for check in troubles):
        yield well(name, "quantity", "; ".join(_spelled(engine, asked.survey) for engine in engines))


def blinds(check: Check) -> bool:
    """Whether a check says why no variant of its cluster has metrics."""
    return check.level is not Level.OK and check.rule in (AGE, LABEL, ENGINES_SEEN)


def server_time_s(answer: Answer) -> float | None:
    """What time it is at a Prometheus, in Unix seconds; None where it did not say."""
    try:
        found = result_of(document_of(answer.body.read()), "scalar")
        return float(str(found[1]))
    except (UnexpectedError, ValueError, IndexError):
        return None


def _clock(asked: Asked) -> Iterator[Check]:
    server_s = server_time_s(asked.time)
    skew_s = 0.0 if server_s is None else server_s - asked.now_s
    if not math.isfinite(skew_s) or abs(skew_s) <= SKEW_S + asked.took_s:
        return
    words = f"our clock is {duration(abs(skew_s))} {'behind' if skew_s > 0 else 'ahead of'} the server's"
    cure = "set both by NTP: samples look older or newer than they are, and fresh ones may count as stale"
    yield warning(asked.cluster.name, "clock-skew", words, cure)


def _age(asked: Asked) -> Iterator[Check]:
    newest = [
        sample.value
        for answer in asked.answers
        if answer.query.quantity == Name.LAST_SEEN and not isinstance(decoded := decode(answer), NoAnswer)
        for sample in decoded
        if math.isfinite(sample.value)
    ]
    if not newest or asked.now_s - max(newest) <= SEEN_AGE_S:
        return
    age_s = asked.now_s - max(newest)
    words = f"the newest sample of a replica is {duration(age_s)} old, stale is {duration(STALE_AFTER_S)}"
    cure = "look at the scrape of the replicas (up == 0?), or at remote write that lags"
    yield warning(asked.cluster.name, AGE, words, cure)


def _labels(asked: Asked) -> Iterator[Check]:
    settings = asked.cluster.prometheus
    if settings is None:
        return
    names = label_names(settings)
    for key, label in (("namespace", names.namespace), ("pod", names.pod), ("model", names.model)):
        exported = f"exported_{label}"
        if asked.survey.exported.get(exported):
            words = f"{asked.survey.exported[exported]} series of replicas have a label {exported} beside {label}"
            cure = f"set labelNames: {{{key}: {exported}}} under clusters[].prometheus, or honorLabels in the scrape"
            yield warning(asked.cluster.name, LABEL, words, cure, asked.cluster.place)
        elif asked.survey.lacking.get(label):
            words = f"{asked.survey.lacking[label]} series of replicas have no label {label}"
            named = f"set labelNames: {{{key}: ...}} under clusters[].prometheus"
            cure = f"add it in the scrape (a PodMonitor does), or {named}"
            yield warning(asked.cluster.name, LABEL, words, cure, asked.cluster.place)


def _engines(asked: Asked) -> Iterator[Check]:
    told = {engine: _told(engine, asked.survey) for engine in ENGINES}
    if not any(told.values()):
        expected = ", ".join(engine.running[0].metric for engine in ENGINES.values() if engine.running)
        words = f"no replica reports: none of {expected}"
        labels = asked.cluster.prometheus.match_labels if asked.cluster.prometheus else {}
        spelled = ", ".join(f"{label}: {value}" for label, value in labels.items())
        beside = f", and correct matchLabels {{{spelled}}} in reconciler.yaml" if labels else ""
        yield warning(asked.cluster.name, ENGINES_SEEN, words, f"scrape the replicas by a PodMonitor{beside}")
        return
    for engine, names in told.items():
        for quantity, candidates in metrics_of(ENGINES[engine]).items() if names else ():
            if quantity not in names:
                words = f"{engine} replicas tell no {quantity}: expected {' or '.join(candidates)}"
                lost = (
                    "nothing is decided without it" if quantity in ESSENTIAL else "decisions are less sure without it"
                )
                cure = f"keep it in the scrape (metricRelabelings?), or update the engine: {lost}"
                yield warning(asked.cluster.name, "quantity", words, cure)


def _kubernetes(asked: Asked) -> Iterator[Check]:
    wanted: Mapping[str, Sequence[str]] = {
        "whose a pod is": owner_metrics()[1:],
        "who else sets replicas": metrics_in(LIVE_REPLICAS)[:1],
        "how many devices there are, and who holds them": (NODES, REQUESTS),
    }
    present = asked.survey.metrics
    lost = {what: [name for name in names if name not in present] for what, names in wanted.items()}
    name = asked.cluster.name
    if not any(metric.startswith("kube_") for metric in present):
        words = f"kube-state-metrics is not scraped: nobody says {'; '.join(wanted)}"
        yield warning(name, "kube-state-metrics", words, "install it, or let this Prometheus scrape it")
        return
    for what, missing in lost.items():
        if missing:
            words = f"kube-state-metrics does not tell {' and '.join(missing)}: nobody says {what}"
            yield warning(name, "kube-state-metrics", words, "add them to its --metric-allowlist and --resources")


def _retention(asked: Asked) -> Iterator[Check]:
    if asked.survey.reaches_back or not asked.survey.metrics:
        return
    span_s = asked.now_s - oldest_s(asked.answers, asked.now_s)
    if kept_s(asked.retention) >= span_s:
        words = (
            f"it is young: a run asks for the last {duration(span_s)}, and it keeps {asked.retention} once it has them"
        )
        yield well(asked.cluster.name, "retention", words)
        return
    words = f"a run asks for the last {duration(span_s)}, and nothing is that old"
    days = math.ceil(span_s / 86_400)
    cure = (
        f"keep at least {days}d (--storage.tsdb.retention.time), or wait until it has that much: nothing shrinks before"
    )
    yield warning(asked.cluster.name, "retention", words, cure)


def kept_s(retention: str) -> float:
    """Seconds of a retention in Prometheus' own words; 0 where a size may end it before, or nothing is told."""
    if not retention or not SPAN.fullmatch(retention):
        return 0.0
    return sum(float(count) * UNIT_S[unit] for count, unit in re.findall(r"([0-9]+)([a-z]+)", retention))


def oldest_s(answers: Iterable[Answer], now_s: float) -> float:
    """As far back as was asked, in Unix seconds."""
    starts = (answer.query.start_s for answer in answers)
    return min((start for start in starts if math.isfinite(start)), default=now_s)


def _told(engine: str, survey: Survey) -> Mapping[str, str]:
    """Quantity -> the first metric that this Prometheus has of it; nothing of an engine whose replicas do not run."""
    found = {
        quantity: next((name for name in candidates if name in survey.metrics), "")
        for quantity, candidates in metrics_of(ENGINES[engine]).items()
    }
    told = {quantity: name for quantity, name in found.items() if name}
    return told if any(gauge.metric in survey.metrics for gauge in ENGINES[engine].running) else {}


def _spelled(engine: str, survey: Survey) -> str:
    told = _told(engine, survey)
    return f"{engine}: {', '.join(f'{quantity} ({name})' for quantity, name in told.items())}"
