"""The cheapest way for the variants of one model to cover its demand: a small exact search.

Variants share a demand D; each chooses one of its lines and an integer replica count within its bounds:

    minimise   sum over variants of  fixed + slope * n
    subject to sum over variants of  per_replica * n  >=  D

Depth first over the variants, best value per unit first, with the fractional cover of the remaining demand as
lower bound. The node limit makes the effort finite; what is proven when it is reached is said in the result.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.optimizer.lines import Line

NODE_LIMIT = 20_000
"""About 50 ms of search; models with up to four variants of four accelerators need a few hundred nodes."""

INTEGER_TOLERANCE = 1e-9
"""A need of 3.0000000001 replicas is 3: the difference is float noise, not a request."""

VALUE_TOLERANCE = 1e-9
"""Values closer than this, relatively, are a tie, which the tie-break decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A line with a replica count."""

    line: Line
    replicas: int

    @property
    def carried(self) -> float:
        """What these replicas carry, in the requirement's unit."""
        return self.line.per_replica * self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """The choices, one per variant in the order they were given, and the proven bound on their value."""

    choices: tuple[Choice, ...]
    value: float
    lower_bound: float
    is_covering: bool


Rank = Callable[[Choice], tuple[int, ...]]
"""Orders choices of equal value, the smallest first."""


def replicas_needed(demand: float, per_replica: float) -> int:
    """The fewest replicas that carry `demand`; 0 when there is none."""
    return max(math.ceil(demand / per_replica * (1 - INTEGER_TOLERANCE)), 0)


def cheapest_cover(variants: Sequence[Sequence[Line]], demand: float, rank: Rank) -> Cover:
    """The cheapest cover of `demand`; when bounds forbid one, the widest that they admit.

    `variants` holds each variant's lines (at least one); `rank` orders choices of equal value, smallest first.
    """
    if _widest(variants) < demand * (1 - INTEGER_TOLERANCE):
        return _widest_cover(variants)
    search = _Search(variants, demand, rank)
    search.run()
    chosen = sorted(zip(search.order, search.best, strict=True), key=lambda pair: pair[0])
    lower_bound = search.best_value if search.nodes < NODE_LIMIT else min(search.root_bound, search.best_value)
    return Cover(
        choices=tuple(choice for _, choice in chosen),
        value=search.best_value,
        lower_bound=lower_bound,
        is_covering=True,
    )


class _Search:
    """The state of one depth-first search; lives for one call."""

    def __init__(self, variants: Sequence[Sequence[Line]], demand: float, rank: Rank) -> None:
        self.order = sorted(range(len(variants)), key=lambda index: (_efficiency(variants[index]), index))
        self.lines = [variants[index] for index in self.order]
        self.demand = demand
        self.rank = rank
        self.nodes = 0
        self.best: list[Choice] = []
        self.best_value = math.inf
        self.best_rank: tuple[tuple[int, ...], ...] = ()
        self._tails = [_Tail.of(self.lines[depth:]) for depth in range(len(self.lines) + 1)]
        self.root_bound = self._tails[0].bound(demand)

    def run(self) -> None:
        self._descend(0, self.demand, 0.0, [])

    def _descend(self, depth: int, remaining: float, value: float, chosen: list[Choice]) -> None:
        if depth == len(self.lines):
            self._offer(value, chosen)
            return
        for choice in self._choices(depth, remaining):
            if self.nodes >= NODE_LIMIT and self.best:
                return
            self.nodes += 1
            rest = remaining - choice.carried
            total = value + choice.line.value_at(choice.replicas)
            tail = self._tails[depth + 1]
            if tail.capacity < rest - INTEGER_TOLERANCE * self.demand or self._is_worse(total + tail.bound(rest)):
                continue
            self._descend(depth + 1, rest, total, [*chosen, choice])

    def _choices(self, depth: int, remaining: float) -> Iterator[Choice]:
        """Replica counts worth trying, the fullest first; the last variant covers exactly what remains."""
        is_last = depth == len(self.lines) - 1
        for line in sorted(self.lines[depth], key=lambda line: (line.slope / line.per_replica, line.fixed)):
            fullest = max(replicas_needed(remaining, line.per_replica), line.lowest)
            if line.highest is not None:
                fullest = min(fullest, line.highest)
            for replicas in range(fullest, fullest - 1 if is_last else line.lowest - 1, -1):
                yield Choice(line=line, replicas=replicas)

    def _is_worse(self, bound: float) -> bool:
        return bool(self.best) and bound > self.best_value + VALUE_TOLERANCE * max(abs(self.best_value), 1.0)

    def _offer(self, value: float, chosen: list[Choice]) -> None:
        rank = tuple(self.rank(choice) for choice in chosen)
        tied = abs(value - self.best_value) <= VALUE_TOLERANCE * max(abs(value), 1.0) if self.best else False
        if not self.best or (rank < self.best_rank if tied else value < self.best_value):
            self.best, self.best_value, self.best_rank = chosen, value, rank


@dataclass(frozen=True, slots=True)
class _Tail:
    """What the variants from some depth on can do at best: a bound that needs no search."""

    floor: float
    least_fixed: float
    efficiency: float
    capacity: float

    @classmethod
    def of(cls, variants: Sequence[Sequence[Line]]) -> "_Tail":
        return cls(
            floor=sum(min(line.value_at(line.lowest) for line in lines) for lines in variants),
            least_fixed=sum(min(line.fixed for line in lines) for lines in variants),
            efficiency=min((_efficiency(lines) for lines in variants), default=math.inf),
            capacity=_widest(variants),
        )

    def bound(self, remaining: float) -> float:
        """No cover of `remaining` by these variants is worth less."""
        if remaining <= 0 or self.efficiency == math.inf:
            return self.floor
        return max(self.floor, self.least_fixed + self.efficiency * remaining)


def _efficiency(lines: Sequence[Line]) -> float:
    return min(line.slope / line.per_replica for line in lines)


def _widest(variants: Sequence[Sequence[Line]]) -> float:
    return sum(max(_most(line) for line in lines) for lines in variants)


def _most(line: Line) -> float:
    return math.inf if line.highest is None else line.per_replica * line.highest


def _widest_cover(variants: Sequence[Sequence[Line]]) -> Cover:
    widest = (max(lines, key=lambda line: (_most(line), -line.slope)) for lines in variants)
    choices = tuple(Choice(line=line, replicas=line.highest or 0) for line in widest)
    value = sum(choice.line.value_at(choice.replicas) for choice in choices)
    return Cover(choices=choices, value=value, lower_bound=value, is_covering=False)
