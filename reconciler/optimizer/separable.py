"""The solver for models that share nothing: the cheapest cover of each model's demand, exactly.

The variants of a model share a demand D. Each takes one candidate, whose value is linear in its replicas, and a whole
number n of replicas within its bounds:

    minimise   sum over variants of  fixed + slope * n
    subject to sum over variants of  per_replica * n  >=  D

The search is depth first, best value per unit first, starts from covers that move few of today's replicas, and bounds
the rest by its fractional cover. Of covers of equal value the one that changes least wins (`Rank`). The number of nodes
is limited; the result says what was proven by then.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Bounds, Candidate, Problem, Requirement, Shortfall, Solution, SolveStatus
from reconciler.optimizer.device_use import DeviceUse, carried_by_pinned

# What leaving an accelerator costs, as a share of the cost before and after (published inferno, version 1).
_ACCELERATOR_PENALTY = 0.1


def transition_value(
    *,
    current_accelerator: str,
    current_replicas: int,
    current_cost_per_hour: float,
    accelerator: str,
    replicas: int,
    cost_per_hour: float,
) -> float:
    """Return the objective `inferno` of going from the current allocation to a candidate: less is better.

    It is the difference in cost per hour, plus a tenth of both costs when the accelerator changes; a variant that was
    never allocated has the current accelerator `""`, no replicas and no cost. A difference ranks the candidates of one
    variant, it is not a total.
    """
    if accelerator == current_accelerator and replicas == current_replicas:
        return 0.0
    difference = cost_per_hour - current_cost_per_hour
    if accelerator == current_accelerator:
        return difference
    return _ACCELERATOR_PENALTY * (current_cost_per_hour + cost_per_hour) + difference


def transition_line(
    *, current_accelerator: str, current_cost_per_hour: float, accelerator: str, replica_cost_per_hour: float
) -> tuple[float, float]:
    """Return fixed value and slope of `transition_value` over the candidate's replicas.

    Exact wherever something changes; staying put is on the line as well as long as a replica costs what it did.
    """
    penalty = 0.0 if accelerator == current_accelerator else _ACCELERATOR_PENALTY
    return (penalty - 1) * current_cost_per_hour, (penalty + 1) * replica_cost_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLine:
    """A candidate as the search sees it: value = fixed + slope * replicas, for lowest <= replicas <= highest.

    What changes costs besides: `start` for each replica more than runs now, `touch` for any change at all.
    `per_replica` is what a replica carries, in the requirement's unit; `highest` None is unbounded.
    """

    candidate: Candidate
    fixed: float
    slope: float
    per_replica: float
    lowest: int
    highest: int | None
    standing: int | None = None
    """Replicas that run on this accelerator now; None where the variant runs on another."""
    unchanged: int | None = None
    """The count that changes nothing about the variant: what stands here, or none where nothing runs at all."""
    start: float = 0.0
    touch: float = 0.0

    def value_at(self, replicas: int) -> float:
        """The objective's value of that many replicas."""
        started = max(replicas - (self.standing or 0), 0)
        touch = 0.0 if replicas == self.unchanged else self.touch
        return self.running_at(replicas) + self.start * started + touch

    def running_at(self, replicas: int) -> float:
        """The part of the value that grows with every replica: what changes cost is above it."""
        return self.fixed + self.slope * replicas

    def clamp(self, replicas: int) -> int:
        """The count within the bounds that is nearest to `replicas`."""
        least = max(replicas, self.lowest)
        return least if self.highest is None else min(least, self.highest)

    def at(self, replicas: int) -> Allocation:
        """The allocation of that many replicas."""
        return Allocation(accelerator=self.candidate.key.accelerator, replicas=replicas)


def line_of(problem: Problem, candidate: Candidate, per_replica: float, bounds: Bounds) -> ValueLine:
    """The candidate's line under the problem's objective.

    `cost`: what the replicas cost to run. `inferno`: the transition value, linear in the replicas of one accelerator.
    """
    fixed, slope = 0.0, candidate.weight
    variant = candidate.key.variant
    current = problem.current[variant]
    if problem.objective == "inferno":
        fixed, slope = transition_line(
            current_accelerator=current.accelerator,
            current_cost_per_hour=current.replicas * problem.current_weights.get(variant, 0.0),
            accelerator=candidate.key.accelerator,
            replica_cost_per_hour=candidate.weight,
        )
    is_here = current.accelerator == candidate.key.accelerator
    return ValueLine(
        candidate=candidate,
        fixed=fixed,
        slope=slope,
        per_replica=per_replica,
        lowest=bounds.minimum,
        highest=bounds.maximum,
        standing=current.replicas if is_here else None,
        unchanged=current.replicas if is_here or not current.replicas else None,
        start=0.0 if problem.objective == "inferno" else candidate.start_weight,
        touch=0.0 if problem.objective == "inferno" else problem.touch_weights.get(variant, 0.0),
    )


NODE_LIMIT = 20_000
"""About 50 ms of search; models with up to four variants of four accelerators need a few hundred nodes."""

INTEGER_TOLERANCE = 1e-9
"""A need of 3.0000000001 replicas is 3: the difference is float noise, not a request."""

LEAST_DEMAND = 1e-300
"""Smaller demand is taken as zero: quotients of floats lose their digits there."""

VALUE_TOLERANCE = 1e-9
"""Values closer than this, relatively, are a tie, which the tie-break decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChoice:
    """A line with a replica count."""

    line: ValueLine
    replicas: int

    @property
    def carried(self) -> float:
        """What these replicas carry, in the requirement's unit."""
        return self.line.per_replica * self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """The choices, one per variant in the order they were given, and the proven bound on their value."""

    choices: tuple[ReplicaChoice, ...]
    value: float
    lower_bound: float
    is_covering: bool


Rank = Callable[[ReplicaChoice], tuple[int, ...]]
"""What a choice changes, the gravest first: covers of equal value compare by the sums over their choices."""


def replicas_needed(demand: float, per_replica: float) -> int:
    """The fewest replicas that carry `demand`; 0 when there is none."""
    return max(math.ceil(demand / per_replica * (1 - INTEGER_TOLERANCE)), 0)


def cheapest_cover(variants: Sequence[Sequence[ValueLine]], demand: float, rank: Rank) -> Cover:
    """The cheapest cover of `demand`; when bounds forbid one, the widest that they admit.

    `variants` holds each variant's lines (at least one), every one of which carries something; a cover holds no
    replica that it could lose. Of equal values the smallest `rank` wins, and then the earlier variant keeps more.
    """
    demand = demand if demand >= LEAST_DEMAND else 0.0
    if _widest(variants) < demand * (1 - INTEGER_TOLERANCE):
        return _widest_cover(variants, rank)
    search = _CoverSearch(variants, demand, rank)
    search.run()
    return Cover(
        choices=search.best,
        value=search.best_value,
        lower_bound=min(search.root_bound, search.best_value) if search.is_exhausted else search.best_value,
        is_covering=True,
    )


class _CoverSearch:
    """The state of one depth-first search; lives for one call."""

    def __init__(self, variants: Sequence[Sequence[ValueLine]], demand: float, rank: Rank) -> None:
        self.demand = demand
        self.rank = rank
        self.nodes = 0
        self.best: tuple[ReplicaChoice, ...] = ()
        self.best_value = math.inf
        self._order = sorted(range(len(variants)), key=lambda index: (_efficiency(variants[index]), index))
        self._lines = [
            sorted(variants[index], key=lambda line: (line.slope / line.per_replica, line.fixed))
            for index in self._order
        ]
        self._tails = [_Tail.of(self._lines[depth:]) for depth in range(len(self._lines) + 1)]
        # Twice what one choice may leave uncovered: rounding must not make the last one look short.
        self._slack = 2 * INTEGER_TOLERANCE * demand
        self._best_rank: CoverRank | None = None
        self.root_bound = self._tails[0].bound(demand)

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit was reached; never before a cover was found."""
        return self.nodes >= NODE_LIMIT and bool(self.best)

    def run(self) -> None:
        for first in range(len(self._lines)):
            self._offer_nearby(first)
        self._descend(0, self.demand, 0.0, [])

    def _offer_nearby(self, first: int) -> None:
        """A cover next to what runs today: `first` makes up for what is too much or too little, then the next."""
        chosen = [_as_today(lines) for lines in self._lines]
        for depth in (*range(first, len(chosen)), *range(first)):
            others = sum(choice.carried for index, choice in enumerate(chosen) if index != depth)
            line = chosen[depth].line
            needed = replicas_needed(self.demand - others, line.per_replica)
            chosen[depth] = ReplicaChoice(line=line, replicas=line.clamp(needed))
            if chosen[depth].replicas == needed and others <= self.demand:
                break
        if sum(choice.carried for choice in chosen) >= self.demand - self._slack:
            self._offer(sum(choice.line.value_at(choice.replicas) for choice in chosen), chosen)

    def _descend(self, depth: int, remaining: float, value: float, chosen: list[ReplicaChoice]) -> None:
        if depth == len(self._lines):
            self._offer(value, chosen)
            return
        tail = self._tails[depth + 1]
        for line in self._lines[depth]:
            for replicas in self._counts(line, depth, remaining):
                if self.is_exhausted:
                    return
                self.nodes += 1
                choice = ReplicaChoice(line=line, replicas=replicas)
                rest = remaining - choice.carried
                if tail.capacity < rest - self._slack:
                    break  # fewer replicas leave even more to the others
                total = value + line.value_at(replicas)
                if not self._is_worse(total + tail.bound(rest), [*chosen, choice]):
                    self._descend(depth + 1, rest, total, [*chosen, choice])

    def _counts(self, line: ValueLine, depth: int, remaining: float) -> Iterator[int]:
        """Replica counts worth trying, the fullest first; the last variant covers exactly what remains.

        More than that only as it stands, where leaving it so may cost less than touching it.
        """
        fullest = line.clamp(replicas_needed(remaining, line.per_replica))
        if line.touch > 0 and line.standing is not None and line.clamp(line.standing) == line.standing > fullest:
            yield line.standing
        is_last = depth == len(self._lines) - 1
        yield from range(fullest, fullest - 1 if is_last else line.lowest - 1, -1)

    def _is_worse(self, bound: float, chosen: Iterable[ReplicaChoice]) -> bool:
        """Whether nothing that begins with `chosen` beats the best: its value, or at equal value what it changes."""
        if self._best_rank is None:
            return False
        tolerance = VALUE_TOLERANCE * max(abs(self.best_value), 1.0)
        if bound > self.best_value + tolerance:
            return True
        is_wasteful, changes, *_ = self._best_rank
        return bound >= self.best_value - tolerance and not is_wasteful and self._changes(chosen) > changes

    def _offer(self, value: float, chosen: Iterable[ReplicaChoice]) -> None:
        by_variant = sorted(zip(self._order, chosen, strict=True), key=lambda pair: pair[0])
        choices = tuple(choice for _, choice in by_variant)
        rank = self._rank_of(choices)
        is_tied = bool(self.best) and abs(value - self.best_value) <= VALUE_TOLERANCE * max(abs(value), 1.0)
        is_better = value < self.best_value
        if self._best_rank is None or (rank < self._best_rank if is_tied else is_better):
            self.best, self._best_rank = choices, rank
            self.best_value = min(value, self.best_value) if is_tied else value

    def _rank_of(self, choices: tuple[ReplicaChoice, ...]) -> "CoverRank":
        carried = sum(choice.carried for choice in choices)
        is_wasteful = any(
            choice.replicas > choice.line.lowest and carried - choice.line.per_replica >= self.demand + self._slack
            for choice in choices
        )
        names = tuple(choice.line.candidate.key.accelerator for choice in choices)
        return is_wasteful, self._changes(choices), tuple(self.rank(choice) for choice in choices), names

    def _changes(self, choices: Iterable[ReplicaChoice]) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(self.rank(choice) for choice in choices), strict=True)))


CoverRank = tuple[bool, tuple[int, ...], tuple[tuple[int, ...], ...], tuple[str, ...]]
"""Whether it could lose a replica (a free one costs nothing to keep), its changes in all and by variant, its names."""


@dataclass(frozen=True, slots=True)
class _Tail:
    """What the variants from some depth on can do at best: a bound that needs no search."""

    floor: float
    least_fixed: float
    carried_at_floor: float
    efficiency: float
    capacity: float

    @classmethod
    def of(cls, variants: Sequence[Sequence[ValueLine]]) -> "_Tail":
        return cls(
            floor=sum(min(line.running_at(line.lowest) for line in lines) for lines in variants),
            least_fixed=sum(min(line.fixed for line in lines) for lines in variants),
            carried_at_floor=sum(max(line.per_replica * line.lowest for line in lines) for lines in variants),
            efficiency=min((_efficiency(lines) for lines in variants), default=0.0),
            capacity=_widest(variants),
        )

    def bound(self, remaining: float) -> float:
        """No cover of `remaining` by these variants is worth less: the lower bounds, and the rest in fractions."""
        above_floor = max(remaining - self.carried_at_floor, 0.0)
        return max(self.floor + self.efficiency * above_floor, self.least_fixed + self.efficiency * max(remaining, 0.0))


def _as_today(lines: Sequence[ValueLine]) -> ReplicaChoice:
    """What runs on one of the lines, else as little as the first of them may have."""
    for line in lines:
        if line.standing is not None:
            return ReplicaChoice(line=line, replicas=line.clamp(line.standing))
    return ReplicaChoice(line=lines[0], replicas=lines[0].lowest)


def _efficiency(lines: Sequence[ValueLine]) -> float:
    return min(line.slope / line.per_replica for line in lines)


def _widest(variants: Sequence[Sequence[ValueLine]]) -> float:
    return sum(
        max(math.inf if line.highest is None else line.per_replica * line.highest for line in lines)
        for lines in variants
    )


def _widest_cover(variants: Sequence[Sequence[ValueLine]], rank: Rank) -> Cover:
    choices = tuple(
        max((_at_most(line) for line in lines), key=lambda choice: _width(choice, rank)) for lines in variants
    )
    value = sum(choice.line.value_at(choice.replicas) for choice in choices)
    return Cover(choices=choices, value=value, lower_bound=value, is_covering=False)


def _at_most(line: ValueLine) -> ReplicaChoice:
    return ReplicaChoice(line=line, replicas=line.lowest if line.highest is None else line.highest)


def _width(choice: ReplicaChoice, rank: Rank) -> tuple[float, ...]:
    """What carries most, then what is worth least, then what changes least."""
    return choice.carried, -choice.line.value_at(choice.replicas), *(-step for step in rank(choice))


class SeparableSolver:
    """Exact per model: the cheapest replicas over its variants' candidates that cover its demand."""

    name = "separable"

    def solve(self, problem: Problem) -> Solution:
        """An allocation of every variant that has a candidate, is pinned, or has a finished answer.

        A model whose bounds forbid covering its demand gets as much as they admit, and a shortfall that says so.
        """
        offers = _offers_by_variant(problem.candidates)
        tally, device_use = _Tally(allocations=dict(problem.pinned)), DeviceUse.of(problem)
        for requirement in sorted(problem.requirements, key=lambda each: each.model):
            if requirement.fixed is not None:
                tally.take_fixed(problem, requirement.fixed, device_use)
            else:
                _solve_model(problem, requirement, offers, tally)
        return tally.solution()


@dataclass(slots=True)
class _Tally:
    """Collects the models' answers into one solution."""

    allocations: dict[ResourceKey, Allocation]
    reasons: dict[ResourceKey, str] = field(default_factory=dict)
    shortfalls: list[Shortfall] = field(default_factory=list)
    value: float = 0.0
    lower_bound: float = 0.0

    def take_fixed(self, problem: Problem, fixed: Mapping[ResourceKey, int], device_use: DeviceUse) -> None:
        for variant, replicas in sorted(fixed.items()):
            if variant not in problem.pinned:
                current = problem.current[variant]
                self.allocations[variant] = replace(current, replicas=replicas)
                value = line_of(problem, device_use.standing(variant), 1.0, Bounds(minimum=0)).value_at(replicas)
                self.value += value
                self.lower_bound += value

    def take_cover(self, asked: "_Ask", cover: Cover) -> None:
        self.value += cover.value
        self.lower_bound += cover.lower_bound
        for choice in cover.choices:
            variant = choice.line.candidate.key.variant
            self.allocations[variant] = choice.line.at(choice.replicas)
            self.reasons[variant] = _words(choice, asked, alone=len(cover.choices) == 1)
        if not cover.is_covering:
            self.shortfalls.append(_shortfall(asked, cover))

    def solution(self) -> Solution:
        is_optimal = self.value - self.lower_bound <= VALUE_TOLERANCE * max(abs(self.value), 1.0)
        return Solution(
            allocations=self.allocations,
            status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
            value=self.value,
            lower_bound=self.lower_bound,
            shortfalls=tuple(self.shortfalls),
            reasons=self.reasons,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """What the free variants of one model are asked for: the demand that its pinned variants leave."""

    requirement: Requirement
    demand: float
    considered: int
    in_order: frozenset[ResourceKey]
    bounds: Mapping[ResourceKey, Bounds]


def _solve_model(
    problem: Problem,
    requirement: Requirement,
    offers: Mapping[ResourceKey, tuple[Candidate, ...]],
    tally: _Tally,
) -> None:
    variants = sorted({key.variant for key in requirement.per_replica})
    offered = (
        _lines(problem, requirement, offers.get(variant, ())) for variant in variants if variant not in problem.pinned
    )
    lines = [each for each in offered if each]
    if not lines:
        return
    carried = carried_by_pinned(problem, requirement)
    asked = _Ask(
        requirement=requirement,
        demand=max(requirement.amount - carried, 0.0),
        considered=sum(len(each) for each in lines),
        in_order=problem.in_order,
        bounds=problem.bounds,
    )
    tally.take_cover(asked, cheapest_cover(lines, asked.demand, _rank_for(problem)))


def _lines(problem: Problem, requirement: Requirement, candidates: Iterable[Candidate]) -> tuple[ValueLine, ...]:
    """The lines of the candidates that carry something; of an in-order variant only the first one's."""
    carrying = (candidate for candidate in candidates if requirement.per_replica.get(candidate.key, 0.0) > 0)
    ranked = sorted(carrying, key=lambda candidate: (candidate.order, candidate.key))
    if ranked and ranked[0].key.variant in problem.in_order:
        ranked = ranked[:1]
    return tuple(
        line_of(
            problem,
            candidate,
            requirement.per_replica[candidate.key],
            problem.bounds[candidate.key.variant],
        )
        for candidate in ranked
    )


def _rank_for(problem: Problem) -> Rank:
    def rank(choice: ReplicaChoice) -> tuple[int, ...]:
        """What changes least, then the smallest, then the resource's own order."""
        current = problem.current[choice.line.candidate.key.variant]
        allocation = choice.line.at(choice.replicas)
        return (
            int(allocation.accelerator != current.accelerator),
            int(allocation != current),
            choice.replicas,
            choice.line.candidate.order,
        )

    return rank


def _offers_by_variant(candidates: Iterable[Candidate]) -> dict[ResourceKey, tuple[Candidate, ...]]:
    offers: defaultdict[ResourceKey, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        offers[candidate.key.variant].append(candidate)
    return {variant: tuple(group) for variant, group in offers.items()}


def _words(choice: ReplicaChoice, asked: _Ask, *, alone: bool) -> str:
    among, unit = _among(choice, asked), asked.requirement.unit
    if not alone:
        price = choice.line.slope / choice.line.per_replica
        return f"{among}, together with the model's other variants: {price:.3g} an hour per {unit}"
    if choice.replicas == choice.line.lowest:
        return f"{among}: the lower bound {choice.line.lowest} carries {asked.demand:.4g} {unit}"
    return f"{among}: ceil({asked.demand:.4g} / {choice.line.per_replica:.4g})"


def _among(choice: ReplicaChoice, asked: _Ask) -> str:
    if choice.line.candidate.key.variant in asked.in_order:
        return "the first candidate in order"
    return f"cheapest of {asked.considered} candidates" if asked.considered > 1 else "the only candidate"


def _shortfall(asked: _Ask, cover: Cover) -> Shortfall:
    limits = ", ".join(
        asked.bounds[key].most_words(choice.line.highest, key.label)
        for choice in cover.choices
        for key in [choice.line.candidate.key.variant]
    )
    wanted = asked.requirement.amount
    return Shortfall(
        model=asked.requirement.model,
        covered=wanted - asked.demand + sum(choice.carried for choice in cover.choices),
        wanted=wanted,
        reason=f"{limits} carries less than the demand",
    )
