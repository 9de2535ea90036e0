"""What is asked of one cluster: one query for each quantity, whatever the number of variants."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template

from reconciler.domain.answers import Query
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.metrics.answers import Grid, grid_of
from reconciler.metrics.quantities import (
    ALTERNATIVE,
    CLUSTER_LABEL,
    CONFIGURABLE_QUANTITIES,
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
    in_own_words,
)

# --- was reconciler/metrics/queries/selectors.py:
# `matchLabels` added to PromQL that a person wrote, so that a server with several clusters answers for one.

TOKEN = re.compile(
    r"""
    (?P<blank>\s+|\#[^\n]*)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
  | (?P<number>[0-9.][0-9a-zA-Z_.]*)
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
OPERATORS = frozenset({"and", "or", "unless", "atan2", "offset", "bool", "inf", "nan", "start", "end"})
AGGREGATIONS = frozenset(
    {"sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"}
)
WORDS = LABEL_LISTS | OPERATORS | AGGREGATIONS | {"limitk", "limit_ratio"}
Token = tuple[str, str]


def add_matchers(promql: str, where: str) -> str:
    """`promql` with `where` (`cluster="a"`) in every selector; unchanged when `where` is empty.

    Works on words alone: what is no valid PromQL comes out as no valid PromQL, and the server says so.
    """
    if not where:
        return promql
    tokens = [(str(found.lastgroup), found[0]) for found in TOKEN.finditer(promql)]
    return "".join(_rewrite(tokens, where))


def cut_at_or(promql: str) -> Iterator[str]:
    """The operands of each `or` that stands in no brackets, without the labels that it matches on."""
    part, depth, is_first, in_labels = "", 0, False, False
    for kind, text in ((str(found.lastgroup), found[0]) for found in TOKEN.finditer(promql)):
        is_word = kind == "name" and depth == 0
        depth += (text in "([{") - (text in ")]}") if kind == "other" else 0
        if is_word and text.lower() == "or":
            yield part.strip()
            part, is_first = "", True
        elif is_word and is_first and text.lower() in LABEL_LISTS:
            in_labels = True
        elif in_labels:
            in_labels = not (kind == "other" and text == ")" and depth == 0)
        else:
            part += text
            is_first = is_first and kind == "blank"
    yield part.strip()


def _rewrite(tokens: list[Token], where: str) -> Iterator[str]:
    depth = {"[": 0, "{": 0, "labels": 0}
    for index, (kind, text) in enumerate(tokens):
        following = _next_text(tokens, index)
        _track(depth, tokens, index)
        yield text
        if depth["["] or depth["labels"]:
            continue
        if text == "{" and kind == "other":
            yield where + ("" if following == "}" else ",")
        elif kind == "name" and not depth["{"] and text.lower() not in WORDS and following not in ("(", "{"):
            yield f"{{{where}}}"


def _track(depth: dict[str, int], tokens: list[Token], index: int) -> None:
    kind, text = tokens[index]
    if kind != "other":
        return
    if text in "[{":
        depth[text] += 1
    elif text in "]}":
        depth["[" if text == "]" else "{"] -= 1
    elif text == "(" and (depth["labels"] or _previous_text(tokens, index) in LABEL_LISTS):
        depth["labels"] += 1
    elif text == ")" and depth["labels"]:
        depth["labels"] -= 1


def _next_text(tokens: list[Token], index: int) -> str:
    return next((text for kind, text in tokens[index + 1 :] if kind != "blank"), "")


def _previous_text(tokens: list[Token], index: int) -> str:
    return next((text.lower() for kind, text in reversed(tokens[:index]) if kind != "blank"), "")


# --- was reconciler/metrics/queries/expressions.py:
# PromQL text from quantities: labels validated, values escaped, candidates coalesced.

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
TRITON_MODEL = "model"
"""The label in which Triton names its own model, which nobody asks for."""
NUMBERED = re.compile(rf'label_replace\((?P<text>.*), "{ALTERNATIVE}", "(?P<number>[0-9]+)", "", ""\)', re.DOTALL)
SPECIAL_IN_RE2 = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNames:
    """How a server spells namespace, pod and model."""

    namespace: str = "namespace"
    pod: str = "pod"
    model: str = "model_name"

    def spell(self, label: str) -> str:
        """The server's word for one of our three, any other label as it is."""
        return {"namespace": self.namespace, "pod": self.pod, "model": self.model}.get(label, label)


def label_names(settings: PrometheusSettings) -> LabelNames:
    """The spelling of `settings`; ConfigurationError for a name of ours that is unknown or a label that is none."""
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
    parts = [equals(name, value) for name, value in sorted(settings.match_labels.items())]
    wanted = sorted(set(namespaces))
    if wanted:
        parts.append(_one_of(label_names(settings).namespace, wanted))
    return ",".join(parts)


def equals(label: str, value: str) -> str:
    """One matcher; ConfigurationError for a label that is none."""
    _check_label(label, "prometheus.matchLabels")
    return f"{label}={quote(value)}"


def quote(text: str) -> str:
    """A PromQL string literal: nothing in `text` can end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def render(quantity: Quantity, names: LabelNames, where: str, window_s: float | None = None) -> str:
    """One expression for all candidates of a quantity, over its own window unless `window_s` is another."""
    by = [names.spell(label) for label in quantity.by]
    substitutes: Mapping[str, str] = {
        "by": ", ".join(by),
        "unnamed": ", ".join(label for label in by if label != TRITON_MODEL),
        "place": f"{names.namespace}, {names.pod}",
        "served": f"{names.namespace}, {names.model}",
        "namespace": names.namespace,
        "pod": names.pod,
        "model": names.model,
        "where": where,
        "window": duration(window_s or quantity.window_s),
    }
    told = [Template(candidate).substitute(substitutes) for candidate in quantity.candidates]
    if quantity.tells_alternative:
        told = [_numbered(text, number) for number, text in enumerate(told)]
    return _first_of(told, quantity, names)


def stated(quantity: Quantity, own: Mapping[Name, str], names: LabelNames, rendered: str) -> str:
    """What `own` words say of a quantity, then its candidates as `rendered`: a series counts once, by the first."""
    said = own.get(quantity.name, "")
    return _first_of([f"({said})", rendered], quantity, names) if said else rendered


def own_words(settings: PrometheusSettings, where: str) -> Mapping[Name, str]:
    """What `queries` say, by the quantity that they are asked as."""
    asked = ((CONFIGURABLE_QUANTITIES.get(key), text) for key, text in settings.queries.items())
    return {name: add_matchers(text, where) for name, text in asked if name is not None}


def alternatives_in(text: str) -> Iterator[tuple[str, str]]:
    """The candidates of a query after the number that their series carry, empty where they carry none."""
    for part in cut_at_or(text):
        numbered = NUMBERED.fullmatch(part)
        yield (numbered["number"], numbered["text"]) if numbered else ("", part)


def _first_of(texts: list[str], quantity: Quantity, names: LabelNames) -> str:
    """Each series by the first text that has it, however many more labels it carries where it tells which that was."""
    on = f" on ({', '.join(map(names.spell, quantity.by))})" if quantity.tells_alternative else ""
    return f" or{on} ".join(texts)


def _numbered(text: str, number: int) -> str:
    return f'label_replace({text}, "{ALTERNATIVE}", "{number}", "", "")'


def exported_label(key: str) -> str:
    """How kube-state-metrics spells a label of an object on its series."""
    return "label_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", exported_resource(key)).lower()


def exported_resource(name: str) -> str:
    """How kube-state-metrics spells a resource of nodes and containers (`nvidia.com/gpu`)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def duration(span_s: float) -> str:
    """A PromQL duration of whole seconds, in the largest unit that fits."""
    seconds = max(1, round(span_s))
    return next(f"{seconds // size}{unit}" for unit, size in UNITS if seconds % size == 0)


def _one_of(label: str, values: list[str]) -> str:
    if len(values) == 1:
        return equals(label, values[0])
    escaped = (SPECIAL_IN_RE2.sub(lambda found: "\\" + found[0], value) for value in values)
    return f"{label}=~{quote('|'.join(escaped))}"


def _check_label(label: str, field: str) -> None:
    if not LABEL_NAME.fullmatch(label):
        raise ConfigurationError(f"{field}: expected a label name (letters, digits, underscores), found {label!r}")


# --- was reconciler/metrics/queries/ranges.py:
# What is asked of one cluster over time: one range query a quantity, split where an answer would be too large.

NAMED_NAMESPACES = 50
"""Up to so many namespaces are named in every selector; beyond, the matcher costs more than it keeps out."""
SAMPLE_BUDGET = 1_500_000
"""Points in one answer: about 55 MB of JSON, and far below the 50 M samples that a server reads for a query."""
MAX_POINTS = 11_000
"""Points of one series: Prometheus refuses more."""
SHORTEST_POINTS = 60
"""Below so many points an answer is split by namespace rather than by time."""

LIVE_STEP_S = 15.0
"""Nobody scrapes kube-state-metrics more often, so no sample falls between two moments."""
PAYBACK_S = 3600.0
"""As far back as it is asked where nobody says otherwise."""
FINE_STEP_S, COARSE_STEP_S = 60.0, 300.0
"""Rates are of 5 minutes: a step of a minute misses no peak, one of 5 minutes no request."""
FINE_UP_TO_S = 2 * 3600.0
"""Beyond, the coarse step keeps an answer about a day as small as one about hours."""
PAST_CONFIGURED = {Name.ARRIVALS_CONFIGURED: Name.PAST_CONFIGURED}
USUAL_STEP_S = 600.0
"""Of a window of 5 minutes: half of the day is looked at, at half of its price."""
USUAL_HOUR_S = 3600.0
"""The same hour of another day: half of it before the moment, half after."""
USUAL_SPAN_S = 86_400.0 + USUAL_HOUR_S / 2
LAST_WEEK_S = 7 * 86_400.0
_KNOWN = {**HISTORY, **PAST, **USUAL, **OBJECTS, **OWNERS}


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

    Quantities are those of `HISTORY`, `OBJECTS`, `PAST` and `USUAL`; `namespaces` maps each namespace to the replicas
    (objects, models) expected there. Beyond `sample_budget` points a quantity is split by time, then by namespace. Each
    point speaks of the quantity's own window or the last `window_s`, at least of one step, so that nothing falls
    between two points; one of `USUAL` of its window alone. Names of `OWNERSHIP` are asked once, for the whole time.
    """
    grid = grid_of(start_s, end_s, step_s)
    if cluster.prometheus is None or not namespaces or grid.count == 0:
        return ()
    points = _points_per_query(grid, namespaces, sample_budget)
    wheres = [matchers(cluster.prometheus, batch) for batch in batches_of(namespaces, max(1, sample_budget // points))]
    names = label_names(cluster.prometheus)
    own = {where: own_words(cluster.prometheus, where) for where in wheres}
    queries: list[Query] = []
    for name in quantities:
        quantity = _KNOWN[name]
        for where in wheres:
            said = in_own_words(quantity, own[where])
            rendered = render(said, names, where, _span_s(quantity, grid, window_s))
            text = stated(quantity, own[where], names, rendered)
            queries += _asked(cluster.name, name, text, grid, points)
    return tuple(queries)


def live_queries(
    cluster: ClusterSettings, targets: Mapping[str, int], now_s: float, delay_s: float
) -> tuple[Query, ...]:
    """One query over the last `delay_s` and a step more; `targets` counts the scale targets of each namespace."""
    return history_queries(cluster, targets, now_s - delay_s - LIVE_STEP_S, now_s, LIVE_STEP_S, (Name.LIVE_REPLICAS,))


def past_queries(
    cluster: ClusterSettings,
    namespaces: Mapping[str, int],
    now_s: float,
    payback_s: float,
    *,
    sample_budget: int = SAMPLE_BUDGET,
) -> Iterator[Query]:
    """One range query for each source of arrivals over the last `payback_s`; `namespaces` counts the models of each."""
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return
    start_s, step_s = now_s - payback_s, FINE_STEP_S if payback_s <= FINE_UP_TO_S else COARSE_STEP_S
    for key, text in sorted(settings.queries.items()):
        name = PAST_CONFIGURED.get(CONFIGURABLE_QUANTITIES.get(key, Name.COMPLETIONS))
        for part in grid_of(start_s, now_s, step_s).parts(MAX_POINTS) if name is not None else ():
            asked = add_matchers(text, matchers(settings))
            yield Query(
                cluster=cluster.name,
                quantity=str(name),
                text=asked,
                start_s=part.start_s,
                end_s=part.end_s,
                step_s=step_s,
            )
    yield from history_queries(cluster, namespaces, start_s, now_s, step_s, tuple(PAST), sample_budget=sample_budget)


def usual_queries(
    cluster: ClusterSettings, namespaces: Mapping[str, int], now_s: float, *, sample_budget: int = SAMPLE_BUDGET
) -> Iterator[Query]:
    """What a day was like, and this hour a week ago; `namespaces` counts the replicas of each, for all are read."""
    start_s = now_s - USUAL_SPAN_S
    yield from history_queries(
        cluster, namespaces, start_s, now_s, USUAL_STEP_S, tuple(USUAL), sample_budget=sample_budget
    )
    start_s, end_s = now_s - LAST_WEEK_S - USUAL_HOUR_S / 2, now_s - LAST_WEEK_S + USUAL_HOUR_S / 2
    yield from history_queries(cluster, namespaces, start_s, end_s, USUAL_STEP_S, (Name.USUAL_COMPLETIONS,))


def batches_of(namespaces: Mapping[str, int], series_budget: int) -> list[list[str]]:
    """Namespaces to name together, by the replicas expected in them; one empty batch asks for all without a name."""
    batches: list[list[str]] = [[]]
    room = series_budget
    for name, replicas in sorted(namespaces.items()):
        expected = max(1, replicas)
        if expected > room and batches[-1]:
            batches.append([])
            room = series_budget
        batches[-1].append(name)
        room -= expected
    return [[]] if len(batches) == 1 and len(namespaces) > NAMED_NAMESPACES else batches


def _points_per_query(grid: Grid, namespaces: Mapping[str, int], sample_budget: int) -> int:
    replicas = sum(max(1, count) for count in namespaces.values())
    return min(grid.count, MAX_POINTS, max(SHORTEST_POINTS, sample_budget // replicas))


def _span_s(quantity: Quantity, grid: Grid, window_s: float | None) -> float:
    """Over how long a time each point of a quantity speaks."""
    if quantity.name in OWNERS:
        return max(quantity.window_s, grid.end_s - grid.start_s)
    return quantity.window_s if quantity.name in USUAL else max(grid.step_s, window_s or quantity.window_s)


def _asked(cluster: str, name: Name, text: str, grid: Grid, points: int) -> Iterator[Query]:
    if name in OWNERS:
        yield Query(cluster=cluster, quantity=name, text=text, start_s=grid.end_s, end_s=grid.end_s)
        return
    for part in grid.parts(points):
        yield Query(
            cluster=cluster, quantity=name, text=text, start_s=part.start_s, end_s=part.end_s, step_s=grid.step_s
        )


# --- was reconciler/metrics/queries/cluster.py:
# What is asked of one cluster: one query a quantity, whatever the number of variants.

SERIES_BUDGET = 50_000
"""Replicas that one query may cover: an answer of about 10 MB, far below the servers' limits of 50 M samples."""
HISTORY_S = 3600.0
"""How far back a run asks for histories."""
SATURATION_STEP_S = 15.0
LEARNING_STEP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNeeds:
    """Namespaces about which more than loads is asked, with the replicas (or models) expected in each.

    `saturation`: how full replicas are, now and within the last hour. `traced`: the last hour of what profiles are
    learned from. `retention_s`: over how long requests are counted before a model may go to zero. `past`: the models of
    each namespace whose arrivals of the last `payback_s` are asked for. `usual`: whose whole day is asked for as well.
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

    `namespaces` maps each namespace that holds a variant to the replicas expected there: only beyond
    `series_budget` of them is a quantity split, by namespace; a history is split beyond `sample_budget` points.
    `with_cluster_label` also asks whether the server holds several clusters. Empty without namespaces or without a
    Prometheus; ConfigurationError for wrong labels.
    """
    settings = cluster.prometheus
    if settings is None or not namespaces:
        return ()
    asked = (*QUANTITIES, CLUSTER_LABEL) if with_cluster_label else QUANTITIES
    texts = [
        *_configured(settings),
        *_built_in(asked, settings, namespaces, series_budget),
        *_built_in(_kept_for(needs.retention_s), settings, needs.saturation, series_budget),
    ]
    return (
        *(Query(cluster=cluster.name, quantity=name, text=text, start_s=now_s, end_s=now_s) for name, text in texts),
        *_history(cluster, needs, now_s, sample_budget),
    )


def _configured(settings: PrometheusSettings) -> Iterator[tuple[Name, str]]:
    where = matchers(settings)
    for key, text in sorted(settings.queries.items()):
        if CONFIGURABLE_QUANTITIES.get(key) is Name.ARRIVALS_CONFIGURED:
            yield Name.ARRIVALS_CONFIGURED, add_matchers(text, where)


def _built_in(
    asked: Sequence[Quantity], settings: PrometheusSettings, namespaces: Mapping[str, int], series_budget: int
) -> Iterator[tuple[Name, str]]:
    if not namespaces:
        return
    names = label_names(settings)
    wheres = [matchers(settings, batch) for batch in batches_of(namespaces, series_budget)]
    # what two batches would both find must not be asked twice
    anywhere = [matchers(settings, ("", *namespaces) if len(namespaces) <= NAMED_NAMESPACES else ())]
    own = {where: own_words(settings, where) for where in (*anywhere, *wheres)}
    for quantity in asked:
        for where in anywhere if quantity.may_lack_namespace else wheres:
            yield quantity.name, stated(quantity, own[where], names, render(quantity, names, where))


def _kept_for(retention_s: float) -> tuple[Quantity, ...]:
    return tuple(
        replace(quantity, window_s=retention_s) if quantity.name is Name.REQUESTS_IN_RETENTION else quantity
        for quantity in SATURATION_QUANTITIES
    )


def _history(cluster: ClusterSettings, needs: QueryNeeds, now_s: float, sample_budget: int) -> Iterator[Query]:
    start_s = now_s - HISTORY_S
    yield from history_queries(
        cluster,
        needs.saturation,
        start_s,
        now_s,
        SATURATION_STEP_S,
        SATURATION_HISTORY,
        sample_budget=sample_budget,
    )
    yield from history_queries(
        cluster,
        needs.traced,
        start_s,
        now_s,
        LEARNING_STEP_S,
        TRACED_HISTORY,
        sample_budget=sample_budget,
        window_s=LEARNING_WINDOW_S,
    )
    if needs.payback_s > HISTORY_S:
        yield from history_queries(
            cluster,
            needs.saturation,
            now_s - needs.payback_s,
            now_s,
            COARSE_STEP_S,
            SATURATION_HISTORY,
            sample_budget=sample_budget,
        )
    yield from past_queries(cluster, needs.past, now_s, needs.payback_s, sample_budget=sample_budget)
    yield from usual_queries(cluster, needs.usual, now_s, sample_budget=sample_budget)
