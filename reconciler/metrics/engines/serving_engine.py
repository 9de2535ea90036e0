"""The record that each engine's file fills in, and the PromQL for each kind of metric.

`$by`, `$unnamed`, `$place`, `$where` and `$window` are explained in `Quantity`.
"""

from dataclasses import fields, is_dataclass
from typing import TypeVar, cast

from reconciler.domain.records import dataclass, replace

SELDOM = "150s"
"""The longest expected scrape interval (two minutes) and its jitter; a series silent for longer is gone."""
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A gauge: `only` selects its series, `by` are labels to keep; series add up over the labels `rank` and `apart`.

    Series that differ in other labels are duplicates (scraped twice, or exported by each tensor-parallel rank) and
    count once.
    """

    metric: str
    only: str = ""
    by: str = "$by"
    rank: str = ""
    apart: str = ""
    is_derived = False

    @property
    def selector(self) -> str:
        """The series of the cluster."""
        return f"{self.metric}{{{self.only},$where}}" if self.only else f"{self.metric}{{$where}}"

    def narrowed(self, only: str) -> "Gauge":
        """The same with one more matcher."""
        return replace(self, only=f"{self.only},{only}" if self.only else only)

    def now(self) -> str:
        """Its value, summed over ranks."""
        return self._total(self.selector)

    def average(self) -> str:
        """Its mean over the window, summed over ranks."""
        return self._total(f"avg_over_time({self.selector}[$window])")

    def most(self) -> str:
        """Its maximum over the window, summed over ranks."""
        return self._total(f"max_over_time({self.selector}[$window])")

    def changes(self) -> str:
        """How often it changed within the window, if it is older than that."""
        return self._total(f"changes({self.selector}[$window]) and {self.selector} offset $window")

    def growth(self) -> str:
        """Its growth per second; 0 if it is younger than the window, as a new replica takes over others' requests."""
        growth = f"deriv({self.selector}[$window])"
        return self._total(f"({growth} and {self.selector} offset $window) or {growth} * 0")

    def last_seen(self) -> tuple[str, str]:
        """The time of its newest sample in the last hour, which distinguishes stale from missing."""
        seen = f"timestamp({self.selector})"
        return f"max by ({self.by}) ({seen})", f"max by ({self.by}) (max_over_time({seen}[1h:1m]))"

    def peak(self) -> str:
        """Its maximum over the window by rank; the newest sample where scrapes are rarer than that."""
        seldom = f"last_over_time({self.selector}[{SELDOM}])"
        return f"max by ({self._by_rank}) (max_over_time({self.selector}[$window]) or {seldom})"

    def latest(self, function: str = "", *labels: str) -> str:
        """Its newest value by rank and `labels`; a `function` such as `last_over_time` looks back over the window."""
        selected = f"{function}({self.selector}[$window])" if function else self.selector
        return f"max by ({', '.join((self._by_rank, *labels))}) ({selected})"

    @property
    def _by_rank(self) -> str:
        return f"{self.by}, {self.rank}" if self.rank else self.by

    def _total(self, expression: str) -> str:
        return _added_up(self.by, ", ".join(filter(None, (self.rank, self.apart))), expression)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A counter; with `only_with`, a series counts only if its pod and model also have a series of that selector.

    Series add up over the labels `apart`; those that differ in other labels are duplicates and count once. Without it
    all series add up, as in ratios, where duplicates cancel out.
    """

    metric: str
    by: str = "$by"
    apart: str | None = None
    only_with: str = ""

    @property
    def is_derived(self) -> bool:
        """Whether it depends on other series."""
        return bool(self.only_with)

    def gain(self, function: str = "rate") -> str:
        """Its `rate` or `increase` over the window."""
        gained = f"{function}({self.metric}{{$where}}[$window])"
        if self.only_with:
            gained += f" and on ($place, model) last_over_time({self.only_with}[$window])"
        return f"sum by ({self.by}) ({gained})" if self.apart is None else _added_up(self.by, self.apart, gained)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRatio:
    """The gain of one counter by that of another, divided by `divisor` to convert units."""

    numerator: Counter
    denominator: Counter
    divisor: int = 1

    @property
    def is_derived(self) -> bool:
        """Whether it depends on other series."""
        return self.numerator.is_derived

    def latest(self) -> str:
        """Its value over the window."""
        # 0/0 is NaN: idle for the whole window, neither zero nor missing
        ratio = f"{self.numerator.gain()} / {self.denominator.gain()}"
        return ratio if self.divisor == 1 else f"{ratio} / {self.divisor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The fraction of `total` that is `used`, for an engine that exports both."""

    used: Gauge
    total: Gauge
    is_derived = True

    def peak(self) -> str:
        """The largest fraction within the window, by rank."""
        return f"{self.used.peak()} / {self.total.latest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Tokens as a number of blocks times the tokens of a block."""

    num_blocks: Gauge
    block_tokens: Gauge
    is_derived = True

    def latest(self, function: str = "") -> str:
        """The newest product, by rank."""
        return f"{self.num_blocks.latest(function)} * {self.block_tokens.latest(function)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLabels:
    """The same for an engine that exports both numbers as label values."""

    gauge: Gauge
    num_blocks: str
    block_tokens: str
    is_derived = False

    def latest(self, function: str = "") -> str:
        """The newest series with those labels, by rank."""
        return self.gauge.latest(function, self.num_blocks, self.block_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEngine:
    """The metrics of one serving engine for each quantity, the best first.

    `rank` is the label of the data-parallel ranks of a pod. The first of `running` and of `waiting` add up to the
    requests in a replica. `names_model`: its series have the model's name. They are exported at `port` (where nothing
    else is written) and `path`, if the engine is started with `enabled_by`.
    """

    name: str
    rank: str = ""
    names_model: bool = False
    port: int = 8000
    path: str = "/metrics"
    enabled_by: str = ""
    running: tuple[Gauge, ...] = ()
    waiting: tuple[Gauge, ...] = ()
    finished: tuple[Counter, ...] = ()
    input_tokens: tuple[CounterRatio, ...] = ()
    input_buckets: tuple[Counter, ...] = ()
    output_tokens: tuple[CounterRatio, ...] = ()
    itl: tuple[CounterRatio, ...] = ()
    ttft: tuple[CounterRatio, ...] = ()
    wait: tuple[CounterRatio, ...] = ()
    kv_cache_usage: tuple[Gauge | Usage, ...] = ()
    kv_tokens: tuple[Gauge | Blocks | BlockLabels, ...] = ()
    prefix_hit_rate: tuple[Gauge | CounterRatio, ...] = ()


def underscored(part: Part) -> Part:
    """An engine, or a part of it, with `_` for `:` in the names of its metrics."""
    renamed: object = part
    if isinstance(part, str):
        renamed = part.replace(":", "_")
    elif isinstance(part, tuple):
        renamed = tuple(map(underscored, part))
    elif is_dataclass(part) and not isinstance(part, type):
        renamed = replace(part, **{each.name: underscored(getattr(part, each.name)) for each in fields(part)})
    return cast(Part, renamed)


def ratio(numerator: str, denominator: str, rank: str = "") -> CounterRatio:
    """The gain of one counter by that of another, by rank if one is given."""
    by = f"$by, {rank}" if rank else "$by"
    return CounterRatio(numerator=Counter(metric=numerator, by=by), denominator=Counter(metric=denominator, by=by))


def mean(histogram: str) -> CounterRatio:
    """The mean of what a histogram observed."""
    return ratio(f"{histogram}_sum", f"{histogram}_count")


def _added_up(by: str, apart: str, expression: str) -> str:
    if not apart:
        return f"max by ({by}) ({expression})"
    return f"sum by ({by}) (max by ({by}, {apart}) ({expression}))"
