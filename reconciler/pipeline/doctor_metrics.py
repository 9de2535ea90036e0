"""What doctor checks of a cluster: its Prometheus and every variant."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from reconciler.domain.answers import Answer, NoAnswer
from reconciler.domain.holds import CURES, Hold, HoldKind
from reconciler.domain.identity import Place, Severity, SourceKind
from reconciler.domain.plan import Decision, Plan
from reconciler.domain.records import dataclass, replace
from reconciler.domain.reports import Check, Level, warning, well
from reconciler.domain.rules import BoundsRule, Direction
from reconciler.domain.settings import ClusterSettings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import MIN_REPLICAS
from reconciler.metrics.answers import UnexpectedError, decode, document_of, result_of
from reconciler.metrics.engines import ENGINES
from reconciler.metrics.quantities import DEMAND, LIVE_REPLICAS, POD_OWNERS, Name
from reconciler.metrics.queries import label_names
from reconciler.metrics.readings import served_by
from reconciler.metrics.replicas import STALE_AFTER_S
from reconciler.metrics.survey import ESSENTIAL, NODES, REQUESTS, Survey, metrics_in, metrics_of
from reconciler.policy.port import Subject, covers
from reconciler.report.formatting import count, duration, labels_of

AGE, LABEL, ENGINES_SEEN = "sample-age", "scrape-label", "engines"
FORECAST = frozenset({*DEMAND, Name.DEMAND_CONFIGURED})
"""What is asked only to forecast."""
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
    troubles = [*_clock_skew(asked), *old]
    if not old:  # what is not there now is only late then
        troubles += [*_labels(asked), *_engines(asked), *_kubernetes(asked), *_retention(asked)]
    name = asked.cluster.name
    url = asked.cluster.prometheus.url if asked.cluster.prometheus else ""
    seen = f"series for {asked.reporting} of {asked.variants} variants"
    yield well(name, "prometheus", f"{url}, {duration(asked.took_s)}; {seen}")
    yield from troubles
    engines = [
        f"{engine}: {', '.join(f'{quantity} ({metric})' for quantity, metric in metrics.items())}"
        for engine in ENGINES
        if (metrics := _reported(engine, asked.survey))
    ]
    if engines and not any(check.rule == "quantity" for check in troubles):
        yield well(name, "quantity", "; ".join(engines))


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


def _clock_skew(asked: Asked) -> Iterator[Check]:
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
            words = f"{asked.survey.exported[exported]} series of replicas have a label {exported} next to {label}"
            cure = f"set labelNames: {{{key}: {exported}}} under clusters[].prometheus, or honorLabels in the scrape"
            yield warning(asked.cluster.name, LABEL, words, cure, asked.cluster.place)
        elif asked.survey.lacking.get(label):
            words = f"{asked.survey.lacking[label]} series of replicas have no label {label}"
            named = f"set labelNames: {{{key}: ...}} under clusters[].prometheus"
            cure = f"add it in the scrape (a PodMonitor does), or {named}"
            yield warning(asked.cluster.name, LABEL, words, cure, asked.cluster.place)


def _engines(asked: Asked) -> Iterator[Check]:
    reported = {engine: _reported(engine, asked.survey) for engine in ENGINES}
    if not any(reported.values()):
        expected = ", ".join(engine.running[0].metric for engine in ENGINES.values() if engine.running)
        words = f"no replica reports: none of {expected}"
        labels = asked.cluster.prometheus.match_labels if asked.cluster.prometheus else {}
        spelled = ", ".join(f"{label}: {value}" for label, value in labels.items())
        beside = f", and correct matchLabels {{{spelled}}} in reconciler.yaml" if labels else ""
        yield warning(asked.cluster.name, ENGINES_SEEN, words, f"scrape the replicas by a PodMonitor{beside}")
        return
    for engine, names in reported.items():
        for quantity, candidates in metrics_of(ENGINES[engine]).items() if names else ():
            if quantity not in names:
                words = f"{engine} replicas report no {quantity}: expected {' or '.join(candidates)}"
                lost = (
                    "nothing is decided without it" if quantity in ESSENTIAL else "decisions are less sure without it"
                )
                cure = f"keep it in the scrape (metricRelabelings?), or update the engine: {lost}"
                yield warning(asked.cluster.name, "quantity", words, cure)


def _kubernetes(asked: Asked) -> Iterator[Check]:
    wanted: Mapping[str, Sequence[str]] = {
        "whose a pod is": metrics_in(*POD_OWNERS[1:]),
        "who else sets replicas": metrics_in(LIVE_REPLICAS)[:1],
        "how many devices there are, and who holds them": (NODES, REQUESTS),
    }
    present = asked.survey.metrics
    lost = {what: [name for name in names if name not in present] for what, names in wanted.items()}
    name = asked.cluster.name
    if not any(metric.startswith("kube_") for metric in present):
        words = f"kube-state-metrics is not scraped, so these are not known: {'; '.join(wanted)}"
        yield warning(name, "kube-state-metrics", words, "install it, or let this Prometheus scrape it")
        return
    for what, missing in lost.items():
        if missing:
            words = f"kube-state-metrics has no {' and '.join(missing)}, so this is not known: {what}"
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
    """Seconds of a retention as Prometheus writes it; 0 if it is not known or a size may end it before."""
    if not retention or not SPAN.fullmatch(retention):
        return 0.0
    return sum(float(count) * UNIT_S[unit] for count, unit in re.findall(r"([0-9]+)([a-z]+)", retention))


def oldest_s(answers: Iterable[Answer], now_s: float) -> float:
    """As far back as was asked for what a run needs, in Unix seconds: without a longer past nothing is forecast."""
    starts = (answer.query.start_s for answer in answers if answer.query.quantity not in FORECAST)
    return min((start for start in starts if math.isfinite(start)), default=now_s)


def _reported(engine: str, survey: Survey) -> Mapping[str, str]:
    """Quantity -> the first metric that this Prometheus has of it; empty for an engine without running replicas."""
    if not any(gauge.metric in survey.metrics for gauge in ENGINES[engine].running):
        return {}
    return {
        quantity: present[0]
        for quantity, candidates in metrics_of(ENGINES[engine]).items()
        if (present := [name for name in candidates if name in survey.metrics])
    }


REPOSITORY_FILE = Place(path="reconciler.yaml")
OLD_PROFILE_DAYS = 90
"""Engines, drivers and prompts are other ones by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedPlan:
    """A plan with what it was decided from.

    `broken` are clusters whose Prometheus is said to fail already, `blind` those that are said to see no replicas.
    """

    snapshot: Snapshot
    plan: Plan
    surveys: Mapping[str, Survey]
    today: date
    broken: frozenset[str] = frozenset()
    blind: frozenset[str] = frozenset()


def check_variants(examined: ExaminedPlan) -> Iterator[Check]:
    """Everything about every variant, in the plan's order; a check that several share is printed once."""
    found: dict[Check, list[str]] = {}
    for label, check in _check_each(examined):
        found.setdefault(check, []).append(label)
    for check, labels in found.items():
        others = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        yield replace(check, words=f"{labels[0]}{others}: {check.words}")
    yield from _prices(examined)


def _check_each(examined: ExaminedPlan) -> Iterator[tuple[str, Check]]:
    labels = labels_of(decision.variant for decision in examined.plan.decisions)
    variants = {variant.key: variant for variant in examined.snapshot.variants}
    faulty = {finding.place.path for finding in examined.plan.findings if finding.severity is Severity.ERROR}
    for decision in examined.plan.decisions:
        label = labels[decision.variant].removeprefix(f"{decision.variant.cluster}/")
        variant = variants.get(decision.variant)
        if decision.hold is not None and not _is_shown_already(decision.hold, examined, decision, faulty):
            yield from ((label, check) for check in _held(decision, decision.hold, examined, variant))
        if variant is not None and variant.workload is not None and not variant.is_held_by(HoldKind.IGNORED):
            yield from ((label, check) for check in _unknown(variant, decision, examined))


def _is_shown_already(hold: Hold, examined: ExaminedPlan, decision: Decision, faulty: set[str]) -> bool:
    """Whether another line says the same: of the file that is broken, or of a Prometheus that fails."""
    if hold.kind is HoldKind.RESOURCE_UNREADABLE or hold.kind is HoldKind.SCALE_TARGET_UNREADABLE:
        return (hold.place.path if hold.place else decision.place.partition(":")[0]) in faulty
    if hold.kind in (HoldKind.METRICS_MISSING, HoldKind.METRICS_STALE) and decision.variant.cluster in examined.blind:
        return True
    return decision.variant.cluster in examined.broken and hold.kind.is_missing_data


def _held(decision: Decision, hold: Hold, examined: ExaminedPlan, variant: Variant | None) -> Iterator[Check]:
    cure = CURES[hold.kind]
    if not cure.is_needed:
        return
    place = hold.place or (REPOSITORY_FILE if cure.is_in_settings else _written_at(decision))
    words, cured = hold.words, cure.words
    if hold.kind is HoldKind.METRICS_MISSING and variant is not None:
        # Names that replicas of its namespace report and no variant in Git is known by.
        survey = examined.surveys.get(variant.key.cluster, Survey())
        mine = [each for each in examined.snapshot.variants if each.key.cluster == variant.key.cluster]
        known = {served for each in mine for served in served_by(each)}
        names = sorted(
            served.model
            for served in survey.models - known
            if served.namespace == variant.model.namespace and served.model
        )
        others = " or ".join(f'"{name}"' for name in names)
        if others:
            words = f'no series for model "{served_by(variant)[0].model}", its namespace reports {others}'
            cured, place = f"set models[].servedNames of {variant.model.model_id} to it", REPOSITORY_FILE
    yield Check(
        level=Level.FAIL if cure.is_failure else Level.WARN,
        subject=decision.variant.cluster,
        rule=str(hold.kind),
        words=words,
        cure=cured,
        place=place,
    )


def _unknown(variant: Variant, decision: Decision, examined: ExaminedPlan) -> Iterator[Check]:
    """What a decision would be better with; what a hold says already is left out."""
    cluster = variant.key.cluster
    if not variant.current.accelerator and not variant.is_held_by(HoldKind.ACCELERATOR_UNKNOWN):
        cure = CURES[HoldKind.ACCELERATOR_UNKNOWN]
        words = "its accelerator is not known, so it is kept"
        yield warning(cluster, str(HoldKind.ACCELERATOR_UNKNOWN), words, cure.words, _written_at(decision))
    yield from _kept_from_zero(variant, examined)
    if variant.tracked_by is not None:
        return
    if variant.service_class is None and not variant.is_held_by(HoldKind.SERVICE_CLASS_MISSING):
        words = "no service class says how fast it must be, so it is sized by saturation"
        cure_words = "set serviceClass under defaults or models[] in reconciler.yaml"
        yield warning(cluster, "service-class-none", words, cure_words, REPOSITORY_FILE)
    elif variant.service_class is not None and variant.current.accelerator:
        yield from _profile(variant, examined)


def _kept_from_zero(variant: Variant, examined: ExaminedPlan) -> Iterator[Check]:
    """The rule that lets no last replica go, where somebody declared that it may."""
    declared = variant.settings[MIN_REPLICAS]
    if declared.value or declared.source.kind is SourceKind.BUILT_IN:
        return
    subject = Subject(now_s=examined.snapshot.now_s, variant=variant)
    for rule in examined.snapshot.settings.rules:
        directions = rule.scope.directions
        is_down = not directions or not {Direction.DOWN, Direction.TO_ZERO}.isdisjoint(directions)
        if isinstance(rule.asks, BoundsRule) and rule.asks.least and is_down and covers(rule.scope, subject):
            words = f"minReplicas 0 ({declared.source}) has no effect: rule {rule.name} keeps its last replica"
            cure = f"change or exclude rule {rule.name}, or declare a minimum of 1"
            yield warning(variant.key.cluster, "zero-kept", words, cure, rule.place)


def _profile(variant: Variant, examined: ExaminedPlan) -> Iterator[Check]:
    option = variant.current_option
    cluster = variant.key.cluster
    if option is None:
        words = f"no profile was given or learned for {variant.model.model_id} on {variant.current.accelerator}"
        cure = CURES[HoldKind.PROFILE_MISSING]
        if not variant.is_held_by(HoldKind.PROFILE_MISSING):
            yield warning(cluster, str(HoldKind.PROFILE_MISSING), words, cure.words, REPOSITORY_FILE)
        return
    learning = option.profile.learning
    age = (examined.today - date.fromisoformat(learning.on)).days if learning is not None else 0
    if age > OLD_PROFILE_DAYS:
        words = f"its profile on {option.accelerator} was learned {age} days ago"
        cure_words = f'learn it again: reconciler fit "{variant.model.model_id}" --write FILE'
        yield warning(cluster, "profile-old", words, cure_words, option.profile.place)


def _prices(examined: ExaminedPlan) -> Iterator[Check]:
    """One line for each accelerator without a price, however many run on it."""
    unpriced: dict[tuple[str, str], int] = {}
    for variant in examined.snapshot.variants:
        if variant.current_cost_per_hour is None and variant.current.accelerator:
            key = (variant.key.cluster, variant.current.accelerator)
            unpriced[key] = unpriced.get(key, 0) + 1
    for (cluster, accelerator), number in sorted(unpriced.items()):
        words = f"the price of {accelerator} is not known: the cost of {count(number, 'variant')} is shown as ?"
        cure = f"set accelerators[] {{name: {accelerator}, costPerHour: ...}} in reconciler.yaml"
        yield warning(cluster, "price-missing", words, cure, REPOSITORY_FILE)


def _written_at(decision: Decision) -> Place:
    path, _, line = decision.place.partition(":")
    return Place(path=path, line=int(line) if line.isdigit() else 0)


def reporting(snapshot: Snapshot, cluster: str) -> tuple[int, int]:
    """How many variants of a cluster have series that can be trusted, and how many there are."""
    keys = [variant.key for variant in snapshot.variants if variant.key.cluster == cluster]
    seen = (snapshot.observed.observations.get(key) for key in keys)
    return sum(each is not None and each.absence is None for each in seen), len(keys)
