"""What a file of this package says of its engine, and the PromQL that each kind of metric is asked with.

`$by`, `$unnamed`, `$place`, `$where` and `$window` are as in `Quantity`.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import cast

SELDOM = "150s"
"""The longest time between two scrapes, every two minutes, and their jitter: what is silent for longer has gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A gauge of an engine: `only` narrows its series, `by` are the labels to keep, `rank` tells its ranks apart.

    So does `apart` where it has more labels of its own. Series that differ in anything else are one that was scraped
    twice, or that each tensor-parallel rank exports, and count once.
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
        """The same of fewer series."""
        return replace(self, only=f"{self.only},{only}" if self.only else only)

    def now(self) -> str:
        """Its value, ranks added up."""
        return self._total(self.selector)

    def average(self) -> str:
        """Its mean over the window, ranks added up."""
        return self._total(f"avg_over_time({self.selector}[$window])")

    def most(self) -> str:
        """The most of it within the window, ranks added up."""
        return self._total(f"max_over_time({self.selector}[$window])")

    def changes(self) -> str:
        """How often it changed within the window, where it was there a window ago."""
        return self._total(f"changes({self.selector}[$window]) and {self.selector} offset $window")

    def growth(self) -> str:
        """By how much it grows in a second, if it was there a window ago: a new replica takes over what others had."""
        growth = f"deriv({self.selector}[$window])"
        return self._total(f"({growth} and {self.selector} offset $window) or {growth} * 0")

    def last_seen(self) -> tuple[str, str]:
        """The time of its newest sample, while it lives and then for an hour, so that stale is told from missing."""
        seen = f"timestamp({self.selector})"
        return f"max by ({self.by}) ({seen})", f"max by ({self.by}) (max_over_time({seen}[1h:1m]))"

    def peak(self) -> str:
        """Its largest value within the window, of what is scraped more seldom the newest, rank by rank."""
        seldom = f"last_over_time({self.selector}[{SELDOM}])"
        return f"max by ({self.by_rank}) (max_over_time({self.selector}[$window]) or {seldom})"

    def latest(self, function: str = "", *labels: str) -> str:
        """Its newest value, rank by rank, apart by `labels` whose values say something; `function` may look back."""
        selected = f"{function}({self.selector}[$window])" if function else self.selector
        return f"max by ({', '.join((self.by_rank, *labels))}) ({selected})"

    @property
    def by_rank(self) -> str:
        """The labels to keep, with that of the rank."""
        return f"{self.by}, {self.rank}" if self.rank else self.by

    def _total(self, expression: str) -> str:
        return _added_up(self.by, ", ".join(filter(None, (self.rank, self.apart))), expression)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A counter of an engine; only series that match one of `beside` by pod and model count, where that is given.

    `apart` are labels of its own: series that differ in others were scraped twice and count once. Without it all are
    added up, as in ratios, whose parts are repeated alike.
    """

    metric: str
    by: str = "$by"
    apart: str | None = None
    beside: str = ""

    @property
    def is_derived(self) -> bool:
        """Whether other series have their say in it."""
        return bool(self.beside)

    def gain(self, function: str = "rate") -> str:
        """What it gained within the window, by `rate` or `increase`."""
        gained = f"{function}({self.metric}{{$where}}[$window])"
        beside = f" and on ($place, model) last_over_time({self.beside}[$window])" if self.beside else ""
        if self.apart is None:
            return f"sum by ({self.by}) ({gained}{beside})"
        return _added_up(self.by, self.apart, f"{gained}{beside}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRatio:
    """The gain of one counter by that of another, divided by `divisor` where the first counts in another unit."""

    numerator: Counter
    denominator: Counter
    divisor: int = 1

    @property
    def is_derived(self) -> bool:
        """Whether other series have their say in it."""
        return self.numerator.is_derived

    def latest(self) -> str:
        """Its value over the window."""
        # 0/0 is NaN: idle for the whole window, which is neither zero nor missing
        ratio = f"{self.numerator.gain()} / {self.denominator.gain()}"
        return ratio if self.divisor == 1 else f"{ratio} / {self.divisor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How full something is of which an engine tells what is `used` and how much there is in `total`."""

    used: Gauge
    total: Gauge
    is_derived = True

    def peak(self) -> str:
        """The largest part within the window, rank by rank."""
        return f"{self.used.peak()} / {self.total.latest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Tokens that an engine tells as a number of blocks and the tokens of each."""

    num_blocks: Gauge
    block_tokens: Gauge
    is_derived = True

    def latest(self, function: str = "") -> str:
        """The newest product, rank by rank."""
        return f"{self.num_blocks.latest(function)} * {self.block_tokens.latest(function)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLabels:
    """The same of an engine that tells both numbers in the values of labels."""

    gauge: Gauge
    num_blocks: str
    block_tokens: str
    is_derived = False

    def latest(self, function: str = "") -> str:
        """The newest series, rank by rank, with those labels."""
        return self.gauge.latest(function, self.num_blocks, self.block_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEngine:
    """What replicas of one serving engine export of each quantity, the best first; nothing where they do not tell it.

    `rank` is the label that tells the data-parallel ranks of a pod apart. The first of `running` and `waiting`
    together are the requests that a replica has.
    """

    name: str
    rank: str = ""
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


def _added_up(by: str, apart: str, expression: str) -> str:
    """The sum over what `apart` tells apart, each counted once however often it was scraped."""
    if not apart:
        return f"max by ({by}) ({expression})"
    return f"sum by ({by}) (max by ({by}, {apart}) ({expression}))"


def underscored(engine: ServingEngine) -> ServingEngine:
    """The engine with `_` for `:` in the names of its metrics."""
    return cast(ServingEngine, _renamed(engine))


def _renamed(part: object) -> object:
    if isinstance(part, str):
        return part.replace(":", "_")
    if isinstance(part, tuple):
        return tuple(map(_renamed, part))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{each.name: _renamed(getattr(part, each.name)) for each in fields(part)})
    return part


def ratio(numerator: str, denominator: str, rank: str = "") -> CounterRatio:
    """The gain of one counter by that of another, rank by rank where one is given."""
    by = f"$by, {rank}" if rank else "$by"
    return CounterRatio(numerator=Counter(metric=numerator, by=by), denominator=Counter(metric=denominator, by=by))


def mean(histogram: str) -> CounterRatio:
    """What a histogram observed on average."""
    return ratio(f"{histogram}_sum", f"{histogram}_count")
