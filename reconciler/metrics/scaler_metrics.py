"""What autoscalers go by as PromQL for our own Prometheus, and which signal that is.

A metric of the custom or external metrics API is resolved as prometheus-adapter does by its rules in Git
(docs/config.md at 01919d0e), else by `prometheus.autoscalerMetrics`; a query of KEDA or KServe is its own. No other
server is asked than the cluster's: `serverAddress` is not read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from reconciler.domain.answers import Absence, Answer, AnswerStatus, NoAnswer, Query
from reconciler.domain.history import Floats, Grid, grid_of
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import (
    AdapterRule,
    MetricSource,
    ResolvedMetric,
    Scaler,
    ScalerHistory,
    ScalerMetric,
    Signal,
    TunedScaler,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.answers import decode_matrix, grid_over
from reconciler.metrics.engines import offered
from reconciler.metrics.quantities import FINE, HPA, Name
from reconciler.metrics.queries import (
    MAX_POINTS,
    LabelNames,
    add_matchers,
    configured_arrivals,
    cut_at_or,
    history_queries,
    is_label,
    label_names,
    matchers,
    quote,
    range_query,
    tokens_of,
)
from reconciler.metrics.routers import ROUTERS

SCALER = "scaler"
"""The label that names the variant in an answer about the metrics of many autoscalers."""
_LONGEST, _LONGEST_WINDOW_S, _MOST_POINTS = 4000, 3600.0, 60
"""Of a query: characters, seconds of a window, points of its subquery; it is asked of every minute of two weeks."""
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile("([0-9]+)(ms|[smh])")
_WINDOW = re.compile("(?P<span>(?:[0-9]+(?:ms|[smh]))+)(?::(?P<step>(?:[0-9]+(?:ms|[smh]))+)?)?")
_MARK = 'reconciler="1"'
_SELECTED = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{reconciler=\"1\"")
_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LITERAL_SERIES = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{[^{}]*\})?\s*")
_NAMING = re.compile(r"\^?(?P<before>[\w:]*)(?P<any>\(?\.[*+]\)?)?(?P<after>[\w:]*)\$?")
_FORM = re.compile(r"(?P<before>[\w:]*)(?P<any>\$(?:[01]|\{[01]\}))?(?P<after>[\w:]*)")
_SPECIAL_IN_RE2 = re.compile(r"[\\.+*?()|\[\]{}^$]")

# ---- which signal a query is

_SUMMING = frozenset(
    {"sum", "max", "by", "without", "rate", "irate", "avg_over_time", "max_over_time", "last_over_time", "clamp_min"}
    | {"label_replace", "vector", "or", "on"}
)
"""Words of a query that leave its unit what that of its series is, if every replica has one series."""
_RATES = frozenset({"rate", "irate"})
_GAUGES: Mapping[Signal, frozenset[str]] = {
    Signal.RUNNING: frozenset(each.metric for each in offered(lambda engine: engine.running)),
    Signal.WAITING: frozenset(each.metric for each in offered(lambda engine: engine.waiting)),
    Signal.KV_CACHE: frozenset(
        each.metric for each in offered(lambda engine: engine.kv_cache_usage) if hasattr(each, "metric")
    ),
}
_COUNTERS = frozenset(
    (
        *(each.metric for each in offered(lambda engine: engine.finished)),
        *(name for router in ROUTERS for name in router.requests),
    )
)


def signal_of(promql: str) -> Signal:
    """What a query counts, in requests (a second) or a fraction; OTHER where it also reckons in another unit."""
    names = set(_SELECTED.findall(add_matchers(promql, _MARK)))
    tokens = [(kind, text) for kind, text in tokens_of(promql) if kind != "blank"]
    called = {text for (kind, text), (_, after) in pairwise(tokens) if kind == "name" and after == "("}
    if not names or not called <= _SUMMING or any(kind == "other" and text in "*/-%^><" for kind, text in tokens):
        return Signal.OTHER
    if names <= _COUNTERS:
        return Signal.ARRIVALS if called & _RATES else Signal.OTHER
    if called & _RATES:
        return Signal.OTHER
    found = {signal for signal, metrics in _GAUGES.items() if names & metrics}
    if not names <= frozenset().union(*_GAUGES.values()):
        return Signal.OTHER
    if found == {Signal.RUNNING, Signal.WAITING}:
        return Signal.IN_FLIGHT if any(text == "+" for _, text in tokens) else Signal.OTHER
    return found.pop() if len(found) == 1 else Signal.OTHER


# ---- the query of a metric


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPods:
    """The pods that an autoscaler scales: their namespace, and the pattern (RE2) of their names."""

    namespace: str
    names: str


def pods_named(namespace: str, name: str, ending: str) -> ScaledPods:
    """The pods whose names are `name` and what the pattern `ending` allows."""
    return ScaledPods(namespace=namespace, names=_escape(name) + ending)


def resolve(
    scaler: Scaler, pods: ScaledPods, rules: Iterable[AdapterRule], prometheus: PrometheusSettings
) -> ResolvedMetric | Hold:
    """The only metric of an autoscaler as a query whose one series is its total, or why it has none."""
    metric = scaler.metrics[0]
    if metric.target is None:
        words = f"the target of {metric.label} cannot be read from Git: nothing is tuned"
        return Hold(kind=HoldKind.AUTOSCALER_METRIC, words=words, place=scaler.place)
    place = metric.written.place if metric.written is not None else scaler.place
    if not metric.is_per_replica:
        words = (
            f"{metric.label} has a target of type Value, which is a total: how many replicas it means depends on how "
            "many run"
        )
        return Hold(kind=HoldKind.AUTOSCALER_METRIC, words=words, place=place)
    where = matchers(prometheus)
    if metric.source is MetricSource.QUERY:
        return _resolved(metric.query, where, "its own query", place, is_total=True)
    if scaler.policy is not None:
        text = f"{metric.name}{{{_of_pods(pods, prometheus)}}}"
        if _SERIES.fullmatch(metric.name) is None:
            words = f"no series can be named {metric.name}: nothing is tuned"
            return Hold(kind=HoldKind.AUTOSCALER_METRIC, words=words, place=place)
        return _resolved(text, where, "what Kthena scrapes of its pods", place, is_total=False)
    tried = _by_rules(metric, pods, rules)
    found = tried if isinstance(tried, tuple) else _configured(metric, pods, prometheus)
    if found is None:
        why = tried or "no rule of prometheus-adapter in Git has it"
        words = f"the query behind metric {metric.name} is not known: {why}"
        return Hold(kind=HoldKind.AUTOSCALER_METRIC, words=words, place=place)
    return _resolved(found[0], where, found[1], place, is_total=False)


def _resolved(promql: str, where: str, source: str, place: Place, *, is_total: bool) -> ResolvedMetric | Hold:
    why = _why_not_asked(promql)
    if why:
        return Hold(kind=HoldKind.AUTOSCALER_METRIC, words=f"{source} is not asked: {why}", place=place)
    plain = "".join(text for _, text in tokens_of(promql) if not text.startswith("#")).strip()
    text = add_matchers(plain, where)
    return ResolvedMetric(promql=text if is_total else f"sum({text})", signal=signal_of(promql), source=source)


def _why_not_asked(promql: str) -> str:
    """Why a text of the repository is not put among the queries of others: it would end them, or costs too much."""
    if len(promql) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    opened, window, subqueries = list[str](), "", 0
    for kind, text in tokens_of(promql):
        if kind == "other" and (text in "'\"`" or (text == "," and not opened)):
            return f"{text} has no place outside of brackets and strings"
        if kind == "name" and text.lower() == "or" and opened[-1:] == ["{"]:
            return "a selector with `or` would pass the labels that are added to it"
        if kind == "other" and text in _CLOSED_BY:
            opened.append(text)
            window = ""
        elif kind == "other" and text in _CLOSED_BY.values():
            if not opened or _CLOSED_BY[opened.pop()] != text:
                return f"{text} closes no bracket"
            if text == "]":
                subqueries += ":" in window
                if not _is_short(window) or subqueries > 1:
                    return f"[{window}] is longer than an hour, of more than {_MOST_POINTS} points or a second subquery"
        elif opened[-1:] == ["["] and kind != "blank":
            window += text
    return f"{opened[-1]} is not closed" if opened else ""


def _is_short(window: str) -> bool:
    found = _WINDOW.fullmatch(window)
    if found is None:
        return False
    span_s, step_s = (
        sum(int(count) * _UNITS_S[unit] for count, unit in _PART.findall(each or "1m"))
        for each in (found["span"], found["step"])
    )
    return 0 < span_s <= min(_LONGEST_WINDOW_S, _MOST_POINTS * step_s)


def _configured(metric: ScalerMetric, pods: ScaledPods, prometheus: PrometheusSettings) -> tuple[str, str] | None:
    text = prometheus.autoscaler_metrics.get(metric.name)
    if text is None:
        return None
    own = _of_pods(pods, prometheus) if metric.source is MetricSource.PODS else _of_selector(metric.selector)
    return add_matchers(text, own), f"prometheus.autoscalerMetrics[{metric.name}]"


def _by_rules(metric: ScalerMetric, pods: ScaledPods, rules: Iterable[AdapterRule]) -> tuple[str, str] | str:
    """The query by the first rule that has the metric and where that stands; else why the rules do not help."""
    is_external = metric.source is MetricSource.EXTERNAL
    reason = ""
    for rule in rules:
        series = _series_of(rule, metric.name) if rule.is_external is is_external else ""
        if not series:
            continue
        found = _matchers_of(rule, metric, pods)
        if found is None:
            reason = f"the rule at {rule.place} names no label of what it describes"
            continue
        own, by = found
        text = rule.query
        for part, value in (("Series", series), ("LabelMatchers", own), ("GroupBy", by)):
            text = text.replace(f"<<.{part}>>", value).replace(f"<< .{part} >>", value)
        if "<<" not in text:
            return text, f"the rule of prometheus-adapter at {rule.place}"
        reason = f"the query of the rule at {rule.place} has more in it than Series, LabelMatchers and GroupBy"
    return reason


def _series_of(rule: AdapterRule, name: str) -> str:
    """The series that a rule serves as a metric of this name; empty where it is none, or a name of no simple form.

    Patterns of the repository are never run as such: only texts around one `.*` are compared.
    """
    naming, literal = _NAMING.fullmatch(rule.matches or ".*"), _LITERAL_SERIES.fullmatch(rule.series)
    is_grouped = naming is not None and (naming["any"] or "").startswith("(")
    form = _FORM.fullmatch(rule.name_as or ("$1" if is_grouped else "$0"))
    if naming is None or form is None:
        return ""
    before, after = form["before"], form["after"]
    if form["any"] is None:
        series = literal[1] if literal is not None and name == before + after else ""
    elif not (name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)):
        return ""
    else:
        stem = name[len(before) : len(name) - len(after)]
        series = stem if "0" in form["any"] else f"{naming['before']}{stem}{naming['after']}"
    if _SERIES.fullmatch(series) is None:
        return ""
    fits = series.startswith(naming["before"]) and series.endswith(naming["after"])
    is_exact = naming["any"] is not None or series == naming["before"] + naming["after"]
    if literal is not None:
        return series if series == literal[1] and fits and is_exact else ""
    named = re.search(r"__name__\s*=~?\s*\"\^?([\w:]*)(?:\(?\.[*+]\)?)?\$?\"", rule.series)
    return series if fits and is_exact and named is not None and series.startswith(named[1]) else ""


def _matchers_of(rule: AdapterRule, metric: ScalerMetric, pods: ScaledPods) -> tuple[str, str] | None:
    """`LabelMatchers` and `GroupBy` of a metric; None where the rule has no label for what it describes."""

    def label(resource: str) -> str:
        names = (resource, f"{resource}s")
        named = next((rule.labels[each] for each in names if each in rule.labels), "")
        named = named or re.sub(r"<<\s*\.Resource\s*>>", lambda _: resource, rule.template)
        return named if is_label(named) else ""

    namespace = label("namespace")
    scope = [f"{namespace}={quote(pods.namespace)}"] if namespace and rule.is_namespaced else []
    if metric.source is MetricSource.EXTERNAL:
        own = _of_selector(metric.selector)
        return ",".join(filter(None, (own, *scope))), ""
    own_label = label(metric.object_kind.lower() if metric.source is MetricSource.OBJECT else "pod")
    if not own_label:
        return None
    if metric.source is MetricSource.PODS:
        return ",".join(
            (*scope, f"{own_label}=~{quote(pods.names)}", *filter(None, (_of_selector(metric.selector),)))
        ), (own_label)
    scope = [] if metric.object_kind == "Namespace" else scope
    return ",".join((*scope, f"{own_label}={quote(metric.object_name)}")), own_label


def _of_pods(pods: ScaledPods, prometheus: PrometheusSettings) -> str:
    names = label_names(prometheus)
    return f"{names.namespace}={quote(pods.namespace)},{names.pod}=~{quote(pods.names)}"


def _of_selector(selector: Mapping[str, str]) -> str:
    return ",".join(f"{name}={quote(selector[name])}" for name in sorted(selector) if is_label(name))


def _escape(text: str) -> str:
    return _SPECIAL_IN_RE2.sub(lambda found: "\\" + found[0], text)


# ---- what autoscalers did: a few questions to each cluster

STEP_S, RATE_WINDOW_S = 60.0, 120.0
GROUP_PODS = "-[0-9]+-[a-z].*"
"""What the names of a ModelServing's pods end with: group, then role; NAME-2 has pods that begin as group 2 of NAME."""
_NAMED = re.compile(rf'"{SCALER}", "(?P<key>[^"]+)", "", ""\)$')


def scaler_queries(
    cluster: ClusterSettings, scalers: Mapping[ResourceKey, TunedScaler], since_s: float, now_s: float
) -> tuple[Query, ...]:
    """What autoscalers of a cluster went by since a moment, all together, what they asked for, and what arrived."""
    metrics = {key: each.metric for key, each in sorted(scalers.items()) if each.metric is not None}
    if not metrics or cluster.prometheus is None:
        return ()
    grid = grid_of(since_s, now_s, STEP_S)
    texts = (_labelled(metric.promql, key) for key, metric in metrics.items())
    namespaces = Counter(scalers[key].scaler.key.namespace for key in metrics)
    together, parts = " or ".join(texts), tuple(grid.parts(MAX_POINTS))
    ask = partial(history_queries, cluster, namespaces, grid.start_s, grid.end_s, STEP_S)
    arrivals = configured_arrivals(cluster.prometheus)
    groups = {key: scalers[key].scaler for key in metrics if scalers[key].scaler.policy is not None}
    named = "|".join(sorted({_escape(scalers[key].scaler.hpa_name) for key in metrics if key not in groups}))
    counts = ask((Name.SCALER_DESIRED, Name.SCALER_CURRENT)) if named else ()
    return (
        *(range_query(cluster.name, Name.SCALER_METRIC, together, part) for part in parts),
        *(replace(each, text=add_matchers(each.text, f"{HPA}=~{quote(named)}")) for each in counts),
        *(range_query(cluster.name, *each, part) for each in _of_groups(groups, cluster.prometheus) for part in parts),
        *(range_query(cluster.name, Name.FINE_CONFIGURED, text, part) for text in arrivals for part in parts),
        *ask(tuple(FINE), window_s=RATE_WINDOW_S),
    )


def _labelled(promql: str, key: ResourceKey) -> str:
    """A query whose series has the name of a variant."""
    return f'label_replace({promql}, "{SCALER}", {quote(str(key).replace("$", "$$"))}, "", "")'


def _of_groups(keys: Iterable[ResourceKey], prometheus: PrometheusSettings) -> Iterator[tuple[str, str]]:
    """What is asked about workloads that a policy of Kthena scales: groups that exist, and those whose pods are ready.

    Kthena publishes no number of its own; it writes one into the workload, whose groups of pods are there at once. Each
    pod has the number of its group in its name. A group that goes is none, and neither is one that has failed.
    """
    names = label_names(prometheus)
    asked = {Name.SCALER_DESIRED: list[str](), Name.SCALER_CURRENT: list[str]()}
    for key in sorted(keys):
        own = f"{names.namespace}={quote(key.namespace)},{names.pod}=~{quote(_escape(key.name) + GROUP_PODS)}"
        gone = f'kube_pod_deletion_timestamp{{{own}}} or kube_pod_status_phase{{phase=~"Failed|Succeeded",{own}}} == 1'
        number = quote(f"{_escape(key.name)}-([0-9]+)-.*")
        for name, text in (
            (Name.SCALER_DESIRED, f"kube_pod_info{{{own}}}"),
            (Name.SCALER_CURRENT, f'kube_pod_status_ready{{condition="true",{own}}}'),
        ):
            left = f"{text} unless on ({names.namespace}, {names.pod}) ({gone})"
            of_group = f'min by (group) (label_replace({left}, "group", "$1", "{names.pod}", {number}))'
            asked[name].append(_labelled(f"count({of_group} == 1)", key))
    for name, texts in asked.items():
        if texts:
            yield name, add_matchers(" or ".join(texts), matchers(prometheus))


def one_by_one(answer: Answer) -> tuple[Query, ...]:
    """The question about many autoscalers as one for each: a query that is wrong fails alone."""
    query = answer.query
    parts = tuple(cut_at_or(query.text))
    if query.quantity != Name.SCALER_METRIC or answer.status is AnswerStatus.OK or len(parts) < 2:
        return ()
    return tuple(replace(query, text=part) for part in parts)


def read_scalers(
    answers: Iterable[Answer], scalers: Mapping[ResourceKey, TunedScaler], names: LabelNames
) -> dict[ResourceKey, ScalerHistory | NoAnswer]:
    """What the autoscalers of one cluster did, of those that were asked about; why it is not known of others."""
    listed = list(answers)
    asked = [answer for answer in listed if answer.query.quantity == Name.SCALER_METRIC]
    grid = grid_over([answer.query for answer in asked])
    if grid is None:
        return {}
    totals, failed = dict[str, Floats](), dict[str, NoAnswer]()
    for answer in asked:
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            for name in _keys_in(answer.query.text):
                failed.setdefault(name, matrix)  # asked again alone, it may have answered
            continue
        block = matrix.on(grid, matrix.values)
        several = {key for key, number in Counter(each.get(SCALER, "") for each in matrix.labels).items() if number > 1}
        for labels, row in zip(matrix.labels, block, strict=True):
            name = labels.get(SCALER, "")
            if name in several:
                words = "its query has several series, which KEDA refuses: sum them"
                failed[name] = NoAnswer(Absence.CONTRADICTORY, words)
            before = totals.get(name)
            totals[name] = row if before is None else np.where(np.isnan(before), row, before)
    counts = {each: _counts(listed, each, grid, names) for each in (Name.SCALER_DESIRED, Name.SCALER_CURRENT)}
    named = {key for answer in asked for key in _keys_in(answer.query.text)}
    found: dict[ResourceKey, ScalerHistory | NoAnswer] = {}
    for key, each in scalers.items():
        if str(key) not in named:
            continue
        if str(key) in failed and (str(key) not in totals or failed[str(key)].absence is Absence.CONTRADICTORY):
            found[key] = failed[str(key)]
        elif str(key) not in totals:
            found[key] = NoAnswer(Absence.MISSING, "its query has no series: was the metric renamed?")
        else:
            found[key] = _history(grid, totals[str(key)], counts, key, each.scaler)
    return found


def _keys_in(text: str) -> Iterator[str]:
    """The autoscalers that a question is about, by the label that each operand ends with."""
    return (found["key"] for part in cut_at_or(text) if (found := _NAMED.search(part)) is not None)


def _history(
    grid: Grid, total: Floats, counts: Mapping[Name, Mapping[str, Floats] | NoAnswer], key: ResourceKey, scaler: Scaler
) -> ScalerHistory | NoAnswer:
    rows: list[Floats] = []
    for of_name in counts.values():
        if isinstance(of_name, NoAnswer):
            return of_name
        row = of_name.get(str(key) if scaler.policy is not None else f"{scaler.key.namespace}/{scaler.hpa_name}")
        if row is None and scaler.policy is not None:
            return NoAnswer(Absence.MISSING, f"no kube-state-metrics reports pods of {key.kind} {key.label}")
        if row is None:
            name = f"{scaler.key.namespace}/{scaler.hpa_name}"
            words = f"no kube-state-metrics reports the replicas that HorizontalPodAutoscaler {name} asks for"
            return NoAnswer(Absence.MISSING, words)
        rows.append(row)
    return ScalerHistory(start_s=grid.start_s, step_s=grid.step_s, total=total, desired=rows[0], current=rows[1])


def _counts(answers: Sequence[Answer], name: Name, grid: Grid, names: LabelNames) -> dict[str, Floats] | NoAnswer:
    """The replicas by NAMESPACE/NAME of each HorizontalPodAutoscaler, or by variant, on the grid of the metrics."""
    found: dict[str, Floats] = {}
    for answer in answers:
        if answer.query.quantity != name:
            continue
        matrix = decode_matrix(answer)
        if isinstance(matrix, NoAnswer):
            return matrix
        for labels, row in zip(matrix.labels, matrix.on(grid, matrix.values), strict=True):
            key = labels.get(SCALER) or f"{labels.get(names.namespace, '')}/{labels.get(HPA, '')}"
            before = found.get(key)
            found[key] = row if before is None else np.where(np.isnan(before), row, before)
    return found
