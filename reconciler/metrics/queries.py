"""The queries to one cluster: one for each quantity, independent of the number of variants.

In this order: matchers added to PromQL, quantities rendered as PromQL, range queries split where an answer would be too
large, and `queries_for`: all queries of a run about replicas and models.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, partial
from string import Template

from reconciler.domain.answers import Query
from reconciler.domain.history import Grid, grid_of
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.domain.units import last_midnight_s
from reconciler.errors import ConfigurationError
from reconciler.metrics.quantities import (
    ALTERNATIVE,
    CLUSTER_LABEL,
    CONFIGURABLE_QUANTITIES,
    DEMAND,
    FINE,
    HISTORY,
    LEARNING_WINDOW_S,
    OBJECTS,
    OWNERS,
    PAST,
    QUANTITIES,
    RETENTION_S,
    SATURATION_HISTORY,
    SATURATION_QUANTITIES,
    TRACED_HISTORY,
    USUAL,
    Name,
    Quantity,
    with_configured,
)

SERIES_BUDGET = 50_000
"""Replicas that one query may cover: an answer of about 10 MB, far below the servers' limits of 50 M samples."""
SAMPLE_BUDGET = 1_500_000
"""Points in one answer: about 55 MB of JSON, and far below the 50 M samples that a server reads for a query."""
MAX_POINTS = 11_000
"""Points of one series: Prometheus refuses more."""
SHORTEST_POINTS = 60
"""Below so many points an answer is split by namespace rather than by time."""
NAMED_NAMESPACES = 50
"""Up to so many namespaces are named in every selector; with more, the matcher costs more than it saves."""

MOST_NAMED = 1000
"""Namespaces of a part of a cluster in one selector: Prometheus looks each up, and reads nothing of the others."""

HISTORY_S = 3600.0
"""How far back a run asks for histories."""
SATURATION_STEP_S = 15.0
LEARNING_STEP_S = 60.0
LIVE_STEP_S = 15.0
"""The shortest usual scrape interval of kube-state-metrics, so no sample falls between two moments."""
DELAY_STEP_S, DELAY_LOOK_S, DELAY_SPAN_S = 60.0, 7200.0, 7 * 86_400.0
"""How exactly it is measured when a merge arrives and its replicas start, for how long it may take, how far back."""
DELAY_POINTS = 200_000
"""About 7 MB of JSON: as many days as targets leave room for."""
PAYBACK_S = 3600.0
"""How far back arrivals are queried unless `payback` is set."""
FINE_STEP_S, COARSE_STEP_S = 60.0, 300.0
"""Rates are over 5 minutes: a step of a minute misses no peak, one of 5 minutes no request."""
FINE_UP_TO_S = 2 * 3600.0
"""For longer times the coarse step keeps the answers small."""
USUAL_STEP_S = 600.0
"""With a window of 5 minutes this samples half of the day at half the price."""
USUAL_HOUR_S = 3600.0
"""The same hour of another day: half of it before the moment, half after."""
USUAL_SPAN_S = 86_400.0 + USUAL_HOUR_S / 2
LAST_WEEK_S = 7 * 86_400.0
DEMAND_STEP_S = 600.0
RAN_STEP_S = 300.0
"""Of what ran in the past."""
DEMAND_SPAN_S = 14 * 86_400.0
"""Two weeks: enough to know a daily and a weekly cycle from chance."""
_KNOWN = {**HISTORY, **PAST, **USUAL, **DEMAND, **FINE, **OBJECTS, **OWNERS}

# ---- matchers in configured PromQL

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|\#[^\r\n]*)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
  | (?P<number>[0-9.][0-9a-zA-Z_.]*)
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_OPERATORS = frozenset({"and", "or", "unless", "atan2", "offset", "bool", "inf", "nan", "start", "end"})
_AGGREGATIONS = frozenset(
    {"sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"}
)
_WORDS = _LABEL_LISTS | _OPERATORS | _AGGREGATIONS | {"limitk", "limit_ratio"}


def tokens_of(promql: str) -> list[tuple[str, str]]:
    return [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(promql)]


def add_matchers(promql: str, where: str) -> str:
    """`promql` with `where` (`cluster="a"`) in every selector; unchanged when `where` is empty.

    Only tokens are looked at: invalid PromQL stays invalid, and the server reports it.
    """
    if not where:
        return promql
    tokens = tokens_of(promql)
    depth = {"[": 0, "{": 0, "labels": 0}
    rewritten, previous = [], ""
    for index, (kind, text) in enumerate(tokens):
        following = next((after for each, after in tokens[index + 1 :] if each != "blank"), "")
        if kind == "other":
            if text in "[{":
                depth[text] += 1
            elif text in "]}":
                depth["[" if text == "]" else "{"] -= 1
            elif text == "(" and (depth["labels"] or previous in _LABEL_LISTS):
                depth["labels"] += 1
            elif text == ")" and depth["labels"]:
                depth["labels"] -= 1
        previous = previous if kind == "blank" else text.lower()
        rewritten.append(text)
        if depth["["] or depth["labels"]:
            continue
        if text == "{" and kind == "other":
            rewritten.append(where + ("" if following == "}" else ","))
        elif kind == "name" and not depth["{"] and text.lower() not in _WORDS and following not in ("(", "{"):
            rewritten.append(f"{{{where}}}")
    return "".join(rewritten)


def cut_at_or(promql: str) -> Iterator[str]:
    """The operands of each `or` outside brackets, without the labels that it matches on."""
    part, depth, is_first, in_labels = "", 0, False, False
    for kind, text in tokens_of(promql):
        is_word = kind == "name" and depth == 0
        depth += (text in "([{") - (text in ")]}") if kind == "other" else 0
        if is_word and text.lower() == "or":
            yield part.strip()
            part, is_first = "", True
        elif is_word and is_first and text.lower() in _LABEL_LISTS:
            in_labels = True
        elif in_labels:
            in_labels = not (kind == "other" and text == ")" and depth == 0)
        else:
            part += text
            is_first = is_first and kind == "blank"
    yield part.strip()


# ---- quantities rendered as PromQL

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_NUMBERED = re.compile(rf'label_replace\((?P<text>.*), "{ALTERNATIVE}", "(?P<number>[0-9]+)", "", ""\)', re.DOTALL)
_SPECIAL_IN_RE2 = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNames:
    """The names of a server's labels for namespace, pod and model."""

    namespace: str = "namespace"
    pod: str = "pod"
    model: str = "model_name"

    def spell(self, label: str) -> str:
        """The server's name for one of our three labels; other labels unchanged."""
        return {"namespace": self.namespace, "pod": self.pod, "model": self.model}.get(label, label)


def label_names(settings: PrometheusSettings) -> LabelNames:
    """The spelling of `settings`; ConfigurationError for an unknown key or an invalid label."""
    unknown = sorted(set(settings.label_names) - {"namespace", "pod", "model"})
    if unknown:
        raise ConfigurationError(f'prometheus.labelNames: expected namespace, pod or model, found "{unknown[0]}"')
    for label in settings.label_names.values():
        _check_label(label, "prometheus.labelNames")
    return LabelNames(**settings.label_names)


def names_in(settings: Settings, cluster: str) -> LabelNames:
    """The spelling of one cluster's server."""
    found = next((each.prometheus for each in settings.clusters if each.name == cluster), None)
    return label_names(found) if found else LabelNames()


def matchers(settings: PrometheusSettings, namespaces: Iterable[str] = ()) -> str:
    """The matchers of every selector: `matchLabels`, then the namespaces if any."""
    parts = []
    for name, value in sorted(settings.match_labels.items()):
        _check_label(name, "prometheus.matchLabels")
        parts.append(f"{name}={quote(value)}")
    wanted = sorted(set(namespaces))
    if wanted:
        label = label_names(settings).namespace
        escaped = (_SPECIAL_IN_RE2.sub(lambda found: "\\" + found[0], value) for value in wanted)
        parts.append(f"{label}={quote(wanted[0])}" if len(wanted) == 1 else f"{label}=~{quote('|'.join(escaped))}")
    return ",".join(parts)


def is_label(name: str) -> bool:
    """Whether it is the name of a label, and nothing that ends one."""
    return _LABEL_NAME.fullmatch(name) is not None


def _check_label(label: str, field: str) -> None:
    if not is_label(label):
        raise ConfigurationError(f"{field}: expected a label name (letters, digits, underscores), found {label!r}")


def quote(text: str) -> str:
    """A PromQL string literal with everything escaped that could end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def render(quantity: Quantity, names: LabelNames, where: str, window_s: float | None = None) -> str:
    """One expression for all candidates of a quantity, over its own window unless `window_s` is another."""
    by = [names.spell(label) for label in quantity.by]
    substitutes: Mapping[str, str] = {
        "by": ", ".join(by),
        "unnamed": ", ".join(label for label in by if label != "model"),  # the label of Triton's own model
        "place": f"{names.namespace}, {names.pod}",
        "served": f"{names.namespace}, {names.model}",
        "namespace": names.namespace,
        "pod": names.pod,
        "model": names.model,
        "where": where,
        "window": duration(window_s or quantity.window_s),
    }
    texts = [Template(candidate).substitute(substitutes) for candidate in quantity.candidates]
    if quantity.is_numbered:
        texts = [f'label_replace({text}, "{ALTERNATIVE}", "{number}", "", "")' for number, text in enumerate(texts)]
    return _first_of(texts, quantity, names)


def _first_of(texts: list[str], quantity: Quantity, names: LabelNames) -> str:
    """The first text that has a series counts for it; the label with the number of the candidate is ignored."""
    on = f" on ({', '.join(map(names.spell, quantity.by))})" if quantity.is_numbered else ""
    return f" or{on} ".join(texts)


def _with_own(quantity: Quantity, own: Mapping[Name, str], names: LabelNames, rendered: str) -> str:
    configured = own.get(quantity.name, "")
    return _first_of([f"({configured})", rendered], quantity, names) if configured else rendered


def _configured(settings: PrometheusSettings, where: str) -> Mapping[Name, str]:
    found = ((CONFIGURABLE_QUANTITIES.get(key), text) for key, text in settings.queries.items())
    return {name: add_matchers(text, where) for name, text in found if name is not None}


def alternatives_in(text: str) -> Iterator[tuple[str, str]]:
    """The candidates of a query, each with the number that its series carry, empty if they carry none."""
    for part in cut_at_or(text):
        numbered = _NUMBERED.fullmatch(part)
        yield (numbered["number"], numbered["text"]) if numbered else ("", part)


@lru_cache(maxsize=256)  # thousands of nodes and pods are asked for the same few labels
def exported_label(key: str) -> str:
    """How kube-state-metrics spells a label of an object on its series."""
    return "label_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", exported_resource(key)).lower()


def exported_resource(name: str) -> str:
    """How kube-state-metrics spells a resource of nodes and containers (`nvidia.com/gpu`)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def duration(span_s: float) -> str:
    """A PromQL duration of whole seconds, in the largest unit that fits."""
    seconds = max(1, round(span_s))
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS if seconds % size == 0)


# ---- over time


def instant_query(cluster: str, quantity: str, text: str, at_s: float) -> Query:
    """A query about one moment (Unix seconds)."""
    return Query(cluster=cluster, quantity=quantity, text=text, start_s=at_s, end_s=at_s)


def range_query(cluster: str, quantity: str, text: str, grid: Grid) -> Query:
    """A query about every moment of a grid."""
    return Query(
        cluster=cluster, quantity=quantity, text=text, start_s=grid.start_s, end_s=grid.end_s, step_s=grid.step_s
    )


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

    Quantities are those of `HISTORY`, `OBJECTS`, `PAST`, `USUAL` and `DEMAND`; `namespaces` maps each namespace to the
    replicas (objects, models) expected there. Beyond `sample_budget` points a quantity is split by time, then by
    namespace. Each point covers the quantity's own window or `window_s`, at least one step, so that nothing falls
    between two points; one of `USUAL` covers its window alone. Names of `OWNERSHIP` are asked once, for the whole time.
    """
    grid = grid_of(start_s, end_s, step_s)
    if cluster.prometheus is None or not namespaces or grid.count == 0:
        return ()
    replicas = sum(max(1, count) for count in namespaces.values())
    points = min(grid.count, MAX_POINTS, max(SHORTEST_POINTS, sample_budget // replicas))
    batches = batches_of(namespaces, max(1, sample_budget // points), is_part=cluster.is_part)
    wheres = [matchers(cluster.prometheus, batch) for batch in batches]
    names = label_names(cluster.prometheus)
    own = {where: _configured(cluster.prometheus, where) for where in wheres}
    queries: list[Query] = []
    for name in quantities:
        quantity = _KNOWN[name]
        span_s = max(grid.step_s, window_s or quantity.window_s)
        if name in OWNERS:
            span_s = max(quantity.window_s, grid.end_s - grid.start_s)
        elif name in USUAL:
            span_s = quantity.window_s
        for where, configured in own.items():
            rendered = render(with_configured(quantity, configured), names, where, span_s)
            text = _with_own(quantity, configured, names, rendered)
            if name in OWNERS:
                queries.append(instant_query(cluster.name, name, text, grid.end_s))
            else:
                queries += (range_query(cluster.name, name, text, part) for part in grid.parts(points))
    return tuple(queries)


def live_queries(
    cluster: ClusterSettings, targets: Mapping[str, int], now_s: float, delay_s: float
) -> tuple[Query, ...]:
    """One query over the last `delay_s` and one more step; `targets` counts the scale targets of each namespace."""
    return history_queries(cluster, targets, now_s - delay_s - LIVE_STEP_S, now_s, LIVE_STEP_S, (Name.LIVE_REPLICAS,))


def ran_queries(
    cluster: ClusterSettings, targets: Mapping[str, int], since_s: float, now_s: float
) -> tuple[Query, ...]:
    """How many replicas were asked for since a moment (Unix seconds), whoever set the count."""
    return history_queries(cluster, targets, since_s, now_s, RAN_STEP_S, (Name.RAN_REPLICAS,))


def delay_queries(
    cluster: ClusterSettings, targets: Mapping[str, int], merges_s: Iterable[float], now_s: float
) -> tuple[Query, ...]:
    """How many replicas were asked for and ready after our merges (Unix seconds) of the days before today.

    As far back as the scale targets of the namespaces leave room for, at most `DELAY_SPAN_S`.
    """
    until_s, most = last_midnight_s(now_s), DELAY_POINTS / max(sum(targets.values()), 1) * DELAY_STEP_S
    merged = [each for each in merges_s if until_s - min(most, DELAY_SPAN_S) <= each < until_s]
    if not merged:
        return ()
    start_s, end_s = min(merged) - DELAY_STEP_S, min(max(merged) + DELAY_LOOK_S, until_s)
    names = Name.MERGED_REPLICAS, Name.STARTED_REPLICAS
    return history_queries(cluster, targets, start_s, end_s, DELAY_STEP_S, names)


def batches_of(namespaces: Mapping[str, int], series_budget: int, *, is_part: bool = False) -> list[list[str]]:
    """Namespaces to name together, by the replicas expected in them; one empty batch asks for all without a name.

    Where they are a part of a cluster's, all are named.
    """
    batches: list[list[str]] = [[]]
    room = series_budget
    for name, replicas in sorted(namespaces.items()):
        expected = max(1, replicas)
        if batches[-1] and (expected > room or (is_part and len(batches[-1]) == MOST_NAMED)):
            batches.append([])
            room = series_budget
        batches[-1].append(name)
        room -= expected
    return [[]] if len(batches) == 1 and len(namespaces) > NAMED_NAMESPACES and not is_part else batches


# ---- all queries of a run about replicas and models


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNeeds:
    """Namespaces where more than loads is queried, with the replicas (or models) expected in each.

    `saturation`: how full replicas are, now and within the last hour. `traced`: the last hour of the quantities that
    profiles are learned from. `retention_s`: how long requests are counted before a model may go to zero. `past`: with
    arrivals of the last `payback_s`. `usual`: with arrivals of a whole day.
    """

    saturation: Mapping[str, int] = field(default_factory=dict)
    traced: Mapping[str, int] = field(default_factory=dict)
    retention_s: float = RETENTION_S
    past: Mapping[str, int] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)
    payback_s: float = PAYBACK_S


NO_NEEDS = QueryNeeds()


def queries_for(
    cluster: ClusterSettings,
    namespaces: Mapping[str, int],
    now_s: float,
    *,
    needs: QueryNeeds = NO_NEEDS,
    with_cluster_label: bool = False,
    series_budget: int = SERIES_BUDGET,
    sample_budget: int = SAMPLE_BUDGET,
) -> tuple[Query, ...]:
    """One query for each quantity, in the order of their importance: instant ones at `now_s`, then what `needs` adds.

    `namespaces` maps each namespace that holds a variant to the replicas expected there: only beyond `series_budget` of
    them is a quantity split, by namespace; a history is split beyond `sample_budget` points. `with_cluster_label` also
    asks whether the server holds several clusters. Empty without namespaces or without a Prometheus;
    ConfigurationError for wrong labels.
    """
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return ()
    present = (*QUANTITIES, CLUSTER_LABEL) if with_cluster_label else QUANTITIES
    saturation = tuple(
        replace(quantity, window_s=needs.retention_s) if quantity.name is Name.REQUESTS_IN_RETENTION else quantity
        for quantity in SATURATION_QUANTITIES
    )
    texts = [
        *((Name.ARRIVALS_CONFIGURED, text) for text in configured_arrivals(settings)),
        *_built_in(present, cluster, namespaces, series_budget),
        *_built_in(saturation, cluster, needs.saturation, series_budget),
    ]
    return (
        *(instant_query(cluster.name, name, text, now_s) for name, text in texts),
        *_over_time(cluster, settings, needs, now_s, sample_budget),
    )


def configured_arrivals(settings: PrometheusSettings) -> list[str]:
    """The queries of the configuration that count arrivals."""
    queries, where = sorted(settings.queries.items()), matchers(settings)
    found = (text for key, text in queries if CONFIGURABLE_QUANTITIES.get(key) is Name.ARRIVALS_CONFIGURED)
    return [add_matchers(text, where) for text in found]


def _built_in(
    quantities: Sequence[Quantity], cluster: ClusterSettings, namespaces: Mapping[str, int], series_budget: int
) -> Iterator[tuple[Name, str]]:
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return
    names = label_names(settings)
    batches = batches_of(namespaces, series_budget, is_part=cluster.is_part)
    wheres = [matchers(settings, batch) for batch in batches]
    # series that two batches would both find must not be queried twice
    is_named = len(namespaces) <= (MOST_NAMED if cluster.is_part else NAMED_NAMESPACES)
    anywhere = [matchers(settings, ("", *namespaces) if is_named else ())]
    own = {where: _configured(settings, where) for where in (*anywhere, *wheres)}
    for quantity in quantities:
        for where in anywhere if quantity.may_lack_namespace else wheres:
            yield quantity.name, _with_own(quantity, own[where], names, render(quantity, names, where))


def _over_time(
    cluster: ClusterSettings, settings: PrometheusSettings, needs: QueryNeeds, now_s: float, sample_budget: int
) -> Iterator[Query]:
    ask = partial(history_queries, cluster, sample_budget=sample_budget)
    hour_ago_s, payback_ago_s = now_s - HISTORY_S, now_s - needs.payback_s
    yield from ask(needs.saturation, hour_ago_s, now_s, SATURATION_STEP_S, SATURATION_HISTORY)
    yield from ask(needs.traced, hour_ago_s, now_s, LEARNING_STEP_S, TRACED_HISTORY, window_s=LEARNING_WINDOW_S)
    if needs.payback_s > HISTORY_S:
        yield from ask(needs.saturation, payback_ago_s, now_s, COARSE_STEP_S, SATURATION_HISTORY)
    if needs.past:
        step_s = FINE_STEP_S if needs.payback_s <= FINE_UP_TO_S else COARSE_STEP_S
        for text in configured_arrivals(settings):
            for part in grid_of(payback_ago_s, now_s, step_s).parts(MAX_POINTS):
                yield range_query(cluster.name, Name.PAST_CONFIGURED, text, part)
        yield from ask(needs.past, payback_ago_s, now_s, step_s, tuple(PAST))
        for text in configured_arrivals(settings):
            for part in grid_of(now_s - DEMAND_SPAN_S, now_s, DEMAND_STEP_S).parts(MAX_POINTS):
                yield range_query(cluster.name, Name.DEMAND_CONFIGURED, text, part)
        yield from ask(needs.past, now_s - DEMAND_SPAN_S, now_s, DEMAND_STEP_S, tuple(DEMAND))
    yield from ask(needs.usual, now_s - USUAL_SPAN_S, now_s, USUAL_STEP_S, tuple(USUAL))
    start_s = now_s - LAST_WEEK_S - USUAL_HOUR_S / 2
    end_s = start_s + USUAL_HOUR_S
    yield from history_queries(cluster, needs.usual, start_s, end_s, USUAL_STEP_S, (Name.USUAL_COMPLETIONS,))
