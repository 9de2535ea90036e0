"""The limited modes of inferno as they were, the optimum that they approach, and both as solvers."""

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import groupby

import numpy as np

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Candidate, Problem, Requirement, Shortfall, Solution, SolveStatus
from reconciler.optimizer.highs import Answer, Floats, Programme, solve
from reconciler.optimizer.separable import INTEGER_TOLERANCE, replicas_needed, transition_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One way to serve a server in full: so many replicas of an accelerator.

    `units` is what one replica takes of each type of device; `cost` and `value` are of all replicas together. The value
    is the objective: less is better, and it may be negative.
    """

    accelerator: str
    replicas: int
    units: Mapping[str, int]
    cost: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What asks for devices; of two priorities the smaller number goes first. Names are unique."""

    name: str
    priority: int
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGrant:
    """What a server gets: an offer in full, or by best effort some replicas of it at their share of cost and value."""

    offer: Offer
    replicas: int

    @property
    def is_full(self) -> bool:
        """Whether the server gets all that it needs."""
        return self.replicas == self.offer.replicas

    @property
    def cost(self) -> float:
        """The share of the offer's cost."""
        return self.offer.cost * self._share

    @property
    def value(self) -> float:
        """The share of the offer's value."""
        return self.offer.value * self._share

    @property
    def _share(self) -> float:
        return 1.0 if self.is_full else self.replicas / self.offer.replicas


Grants = Mapping[str, ServerGrant]
"""What each server gets, by its name; who gets nothing is not in it."""


class Stock:
    """What is left of each type; a type that is not listed has none. Lives for one call."""

    def __init__(self, capacities: Mapping[str, int]) -> None:
        self._left = dict(capacities)

    def fitting(self, offer: Offer) -> int:
        """How many of the offer's replicas still fit."""
        most = (self._left.get(name, 0) // units for name, units in offer.units.items() if units > 0)
        return max(min((*most, offer.replicas)), 0)

    def take(self, offer: Offer, replicas: int) -> None:
        """Hand out what that many replicas take."""
        for name, units in offer.units.items():
            self._left[name] = self._left.get(name, 0) - units * replicas


def by_value(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """The offers, that of least value first; of equal values the cheaper one, then the smaller, then by name."""
    return tuple(
        sorted(
            offers,
            key=lambda offer: (offer.value, offer.cost, offer.replicas * sum(offer.units.values()), offer.accelerator),
        )
    )


class SaturationPolicy(StrEnum):
    """Who is served in part, by inferno's names."""

    NONE = "None"
    PRIORITY_EXHAUSTIVE = "PriorityExhaustive"
    PRIORITY_ROUND_ROBIN = "PriorityRoundRobin"
    ROUND_ROBIN = "RoundRobin"


def share_out(servers: Sequence[Server], stock: Stock, policy: SaturationPolicy) -> dict[str, ServerGrant]:
    """What the policy gives to these servers of the stock; they take it in the order given, priority first."""
    match policy:
        case SaturationPolicy.NONE:
            return {}
        case SaturationPolicy.PRIORITY_EXHAUSTIVE:
            # Each server takes as many replicas as fit of the first offer of which one fits.
            grants: dict[str, ServerGrant] = {}
            for server in servers:
                offer = _first_fitting(server, stock)
                if offer is not None:
                    grants[server.name] = ServerGrant(offer=offer, replicas=stock.fitting(offer))
                    stock.take(offer, grants[server.name].replicas)
            return grants
        case SaturationPolicy.PRIORITY_ROUND_ROBIN:
            return {name: grant for group in by_priority(servers) for name, grant in _take_turns(group, stock).items()}
        case SaturationPolicy.ROUND_ROBIN:
            return _take_turns(servers, stock)


def by_priority(servers: Iterable[Server]) -> Iterator[tuple[Server, ...]]:
    """The servers in groups of equal priority, the smallest number first."""
    for _, group in groupby(sorted(servers, key=lambda server: server.priority), key=lambda server: server.priority):
        yield tuple(group)


def _take_turns(servers: Iterable[Server], stock: Stock) -> dict[str, ServerGrant]:
    """One replica a turn; a server stays with the offer of its first turn and leaves when none of it fits."""
    grants: dict[str, ServerGrant] = {}
    turns = deque(servers)
    while turns:
        server = turns.popleft()
        held = grants.get(server.name)
        offer = held.offer if held is not None else _first_fitting(server, stock)
        replicas = 1 + (held.replicas if held is not None else 0)
        if offer is not None and replicas <= offer.replicas and stock.fitting(offer) > 0:
            stock.take(offer, 1)
            grants[server.name] = ServerGrant(offer=offer, replicas=replicas)
            turns.append(server)
    return grants


def _first_fitting(server: Server, stock: Stock) -> Offer | None:
    return next((offer for offer in by_value(server.offers) if stock.fitting(offer) > 0), None)


# The three modes of inferno's own solver: unlimited, weighted greedy and strict priority greedy. Own formulation of
# the published behaviour; where the original leaves a tie to chance, it is broken by name. Both greedy modes share
# one pass: servers in turn take the first of their offers that fits. Who would lose most by its next offer goes
# first; whose offer no longer fits steps to the next one and queues again. Numbers are rounded to float32 where the
# original does: there the order depends on it.

MAX_FLOAT32 = float(np.finfo(np.float32).max)
"""What a server loses that has no further offer; times any weight above 1 it is infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server at one of its offers, which are in the order of their values."""

    server: Server
    offers: tuple[Offer, ...]
    rank: int = 0

    @property
    def offer(self) -> Offer:
        """The offer that it asks for now."""
        return self.offers[self.rank]

    @property
    def is_last(self) -> bool:
        """Whether it has no further offer."""
        return self.rank + 1 == len(self.offers)

    @property
    def value(self) -> float:
        """The value of the present offer, in float32."""
        return float32(self.offer.value)

    @property
    def regret(self) -> float:
        """How much more the next offer is worth, in float32."""
        return MAX_FLOAT32 if self.is_last else float32(float32(self.offers[self.rank + 1].value) - self.value)

    def next(self) -> "Contender":
        """The same server at its next offer."""
        return Contender(server=self.server, offers=self.offers, rank=self.rank + 1)


Urgency = Callable[[Contender], tuple[float, float]]
"""The larger goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestOutcome:
    """Who got an offer in full, and who ran out of offers, in that order."""

    grants: dict[str, ServerGrant]
    losers: tuple[Server, ...]


def contest(servers: Iterable[Server], stock: Stock, urgency: Urgency) -> ContestOutcome:
    """Serve the servers that have offers from the stock, the most urgent first.

    Of equally urgent ones who queues again goes before the others, and those go by name.
    """
    contenders = [Contender(server=each, offers=by_value(each.offers)) for each in servers if each.offers]
    contenders.sort(key=lambda each: each.server.name)
    queue = [_place(urgency(each), turn, each) for turn, each in enumerate(contenders)]
    heapq.heapify(queue)
    turn, grants, losers = 0, dict[str, ServerGrant](), list[Server]()
    while queue:
        *_, contender = heapq.heappop(queue)
        if stock.fitting(contender.offer) == contender.offer.replicas:
            stock.take(contender.offer, contender.offer.replicas)
            grants[contender.server.name] = ServerGrant(offer=contender.offer, replicas=contender.offer.replicas)
        elif contender.is_last:
            losers.append(contender.server)
        else:
            turn -= 1
            heapq.heappush(queue, _place(urgency(contender.next()), turn, contender.next()))
    return ContestOutcome(grants=grants, losers=tuple(losers))


def float32(number: float) -> float:
    """The nearest float32; infinite beyond the largest."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _place(urgency: tuple[float, float], turn: int, contender: Contender) -> tuple[float, float, int, Contender]:
    first, second = urgency
    return -first, -second, turn, contender


def unlimited(servers: Iterable[Server]) -> Grants:
    """What each server gets where nothing is scarce: its offer of least value."""
    first = ((server.name, by_value(server.offers)[0]) for server in servers if server.offers)
    return {name: ServerGrant(offer=offer, replicas=offer.replicas) for name, offer in sorted(first)}


def weighted_greedy(servers: Iterable[Server], capacities: Mapping[str, int]) -> Grants:
    """What each server gets of the capacities by type, all or nothing (inferno of July 2025).

    Priority is but a weight of 1 + 1 / (1 + priority), so it must not be negative. Servers at their last offer lose
    the largest float32; any weight above 1 makes that infinite, so among them only the weighted value counts.
    """
    return dict(sorted(contest(servers, Stock(capacities), _weighted).grants.items()))


def priority_greedy(
    servers: Iterable[Server],
    capacities: Mapping[str, int],
    *,
    policy: SaturationPolicy = SaturationPolicy.NONE,
    is_best_effort_delayed: bool = False,
) -> Grants:
    """What each server gets of the capacities by type, priority by priority (inferno since August 2025).

    `policy` says what is given to those that cannot be served in full: after each priority, before any lower one sees
    what is left, or with `is_best_effort_delayed` after all of them.
    """
    stock, grants, losers = Stock(capacities), dict[str, ServerGrant](), list[Server]()
    for group in by_priority(servers):
        outcome = contest(group, stock, _by_regret)
        grants |= outcome.grants
        if is_best_effort_delayed:
            losers += outcome.losers
        else:
            grants |= share_out(outcome.losers, stock, policy)
    grants |= share_out(losers, stock, policy)
    return dict(sorted(grants.items()))


def _weighted(contender: Contender) -> tuple[float, float]:
    weight = float32(1 + 1 / (1 + contender.server.priority))
    return float32(contender.regret * weight), float32(contender.value * weight)


def _by_regret(contender: Contender) -> tuple[float, float]:
    return contender.regret, contender.value


NODE_LIMIT = 2_000
"""Of every integer programme; systems of the published size need a handful of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferColumn:
    """An offer of a server that fits on its own."""

    server: Server
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferProgramme:
    """The columns of all servers, in the order of priority, name and value."""

    servers: tuple[Server, ...]
    columns: tuple[OfferColumn, ...]
    capacities: Mapping[str, int]

    @classmethod
    def of(cls, servers: Iterable[Server], capacities: Mapping[str, int]) -> "OfferProgramme":
        """The programme of the servers that have offers."""
        entered = sorted((each for each in servers if each.offers), key=lambda each: (each.priority, each.name))
        stock = Stock(capacities)
        columns = (OfferColumn(server=server, offer=offer) for server in entered for offer in by_value(server.offers))
        return cls(
            servers=tuple(entered),
            columns=tuple(each for each in columns if stock.fitting(each.offer) == each.offer.replicas),
            capacities=capacities,
        )

    @property
    def levels(self) -> tuple[int, ...]:
        """The priorities, the highest first: the smallest number."""
        return tuple(sorted({server.priority for server in self.servers}))

    @property
    def values(self) -> Floats:
        """The value of each column, shape (columns,)."""
        return np.array([column.offer.value for column in self.columns], dtype=np.float64)

    def membership(self, level: int) -> Floats:
        """1 for each column of a server of that priority, shape (columns,)."""
        return np.array([float(column.server.priority == level) for column in self.columns])

    def least_values(self, level: int) -> list[float]:
        """The value of the best column of each server of that priority that has any, the least first."""
        best: dict[str, float] = {}
        for column in self.columns:
            if column.server.priority == level:
                best.setdefault(column.server.name, column.offer.value)
        return sorted(best.values())

    def served(self, grants: Grants) -> dict[int, int]:
        """How many servers of each priority get anything."""
        counts = Counter(server.priority for server in self.servers if server.name in grants)
        return {level: counts[level] for level in self.levels}

    def grants(self, chosen: Floats) -> Grants | None:
        """What the chosen columns give; None where rounding broke a limit."""
        stock, grants = Stock(self.capacities), dict[str, ServerGrant]()
        for index in np.flatnonzero(chosen > 0.5):
            name, offer = self.columns[index].server.name, self.columns[index].offer
            if name in grants or stock.fitting(offer) < offer.replicas:
                return None
            stock.take(offer, offer.replicas)
            grants[name] = ServerGrant(offer=offer, replicas=offer.replicas)
        return dict(sorted(grants.items()))


def minimise(programme: OfferProgramme, objective: Floats, held: Mapping[int, int]) -> Answer:
    """The columns of least objective, with as many servers served as `held` says of some priorities."""
    from scipy.sparse import csr_array

    rows = _rows(programme, held)
    factors = np.array([factor for row in rows for factor in row.factors], dtype=np.float64)
    columns = np.array([column for row in rows for column in row.columns], dtype=np.int64)
    starts = np.cumsum([0, *(len(row.columns) for row in rows)], dtype=np.int64)
    matrix = csr_array((factors, columns, starts), shape=(len(rows), len(objective)), dtype=np.float64)
    lower, upper = np.array([row.least for row in rows]), np.array([row.most for row in rows])
    return solve(Programme.of_switches(objective, matrix, lower, upper), gap=0.0, nodes=NODE_LIMIT)


@dataclass(slots=True, kw_only=True)
class _Row:
    """least <= sum of factor * column <= most."""

    least: float
    most: float
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, column: int, factor: float) -> None:
        self.columns.append(column)
        self.factors.append(factor)


def _rows(programme: OfferProgramme, held: Mapping[int, int]) -> list[_Row]:
    """One offer a server, no more than there is of each type, and the counts that are held."""
    of_level = {level: _Row(least=float(count), most=float(count)) for level, count in held.items()}
    of_server: dict[str, _Row] = {}
    of_type: dict[str, _Row] = {}
    for index, column in enumerate(programme.columns):
        of_server.setdefault(column.server.name, _Row(least=0.0, most=1.0)).add(index, 1.0)
        if column.server.priority in of_level:
            of_level[column.server.priority].add(index, 1.0)
        for name, units in column.offer.units.items():
            most = float(max(programme.capacities.get(name, 0), 0))
            row = of_type.setdefault(name, _Row(least=0.0, most=most))
            row.add(index, float(units * column.offer.replicas))
    return [*of_server.values(), *of_type.values(), *of_level.values()]


# The optimum that inferno's greedy modes approach: as many servers as can be, then the least value. With x(s, o) = 1
# where a server s gets its offer o, for one priority after the other: maximise sum over the servers s of that
# priority of x(s, o) this count is then held subject to sum over o of x(s, o) <= 1 for every server s sum over s, o
# of units * replicas * x(s, o) <= capacity for every type and at last the sum of value * x(s, o) is minimised. Every
# step is an integer programme (HiGHS) with a node limit; where it is reached the best answer so far stands, and the
# result says what is proven about it.

TOLERANCE = 1e-6
"""What HiGHS leaves open of a proven optimum: of a count absolute, of a value relative to it as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """Who gets which offer, and what is proven of it; `served` counts the servers served of each priority.

    No answer serves more than `served_bound` (compared from the smallest priority number on), and none that serves as
    many as this one at every priority is worth less than `value_bound`.
    """

    grants: Grants
    served: Mapping[int, int]
    served_bound: Mapping[int, int]
    value: float
    value_bound: float
    status: SolveStatus


def exact_optimum(servers: Iterable[Server], capacities: Mapping[str, int]) -> Optimum:
    """Serve the most servers of the highest priority, then of the next, and so on; of such answers that of least value.

    No server is served in part. Never worse than `priority_greedy` under the policy None, where the search starts.
    """
    programme = OfferProgramme.of(servers, capacities)
    search = _ServerSearch(programme, priority_greedy(programme.servers, capacities))
    search.run()
    return search.optimum()


class _ServerSearch:
    """The state of one run, level by level; lives for one call."""

    def __init__(self, programme: OfferProgramme, start: Grants) -> None:
        self._programme = programme
        self._best = start
        self._held: dict[int, int] = {}
        self._served_bound = {level: len(programme.least_values(level)) for level in programme.levels}
        self._value_bound = -math.inf
        self._is_proven = True

    def run(self) -> None:
        for level in self._programme.levels:
            self._settle(level)
            if not self._is_proven:
                return
        self._settle_value()

    def optimum(self) -> Optimum:
        value = self._value(self._best)
        return Optimum(
            grants=self._best,
            served=self._programme.served(self._best),
            served_bound=self._served_bound,
            value=value,
            value_bound=min(max(self._value_bound, self._least_value()), value),
            status=SolveStatus.OPTIMAL if self._is_proven else SolveStatus.FEASIBLE,
        )

    def _settle(self, level: int) -> None:
        """Serve as many of this priority as can be while the counts above it are held."""
        if self._programme.served(self._best)[level] < self._served_bound[level]:
            answer = minimise(self._programme, -self._programme.membership(level), self._held)
            self._consider(answer.values)
            if math.isfinite(answer.bound):
                # Servers are whole: a bound of 3.2 is one of 3.
                most = math.floor(-answer.bound + TOLERANCE)
                self._served_bound[level] = min(self._served_bound[level], most)
        self._held[level] = self._programme.served(self._best)[level]
        self._is_proven = self._held[level] >= self._served_bound[level]

    def _settle_value(self) -> None:
        """Among the answers with the held counts, find that of least value."""
        self._value_bound = self._least_value()
        if not self._is_least():
            answer = minimise(self._programme, self._programme.values, self._held)
            self._consider(answer.values)
            # The best answer has these counts: that there be none is float noise, and proves nothing.
            if math.isfinite(answer.bound):
                self._value_bound = max(self._value_bound, answer.bound)
        self._is_proven = self._is_least()

    def _is_least(self) -> bool:
        value = self._value(self._best)
        return self._value_bound >= value - TOLERANCE * max(abs(value), 1.0)

    def _consider(self, chosen: Floats | None) -> None:
        """Keep an answer if it is better: by who is served, then by value."""
        grants = None if chosen is None else self._programme.grants(chosen)
        if grants is not None and self._rank(grants) < self._rank(self._best):
            self._best = grants

    def _rank(self, grants: Grants) -> tuple[list[int], float]:
        return [-count for count in self._programme.served(grants).values()], self._value(grants)

    def _value(self, grants: Grants) -> float:
        return math.fsum(grant.value for grant in grants.values())

    def _least_value(self) -> float:
        """What as many servers would be worth if each got its best offer, and at each priority the best were served."""
        served = self._programme.served(self._best)
        return math.fsum(value for level in served for value in self._programme.least_values(level)[: served[level]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A free variant as a server, named by its key."""

    variant: ResourceKey
    requirement: Requirement
    server: Server


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedServers:
    """Who asks for what: free variants that have an offer, and what each pool has for them."""

    asks: tuple[Ask, ...]
    capacities: Mapping[str, int]

    @property
    def servers(self) -> tuple[Server, ...]:
        """Who asks, as the greedy modes know them."""
        return tuple(ask.server for ask in self.asks)


def read_problem(problem: Problem) -> AskedServers:
    """The servers of a problem and the capacities they compete for.

    A variant asks for the whole demand of its model, whatever others serve it: so does the original. The highest of
    the problem's priorities becomes 1, the original's first; lower ones keep their distance to it. Pinned variants
    keep what they take.
    """
    reading = _Reading.of(problem)
    highest = max((requirement.priority for requirement in problem.requirements), default=0)
    return AskedServers(
        asks=tuple(
            Ask(
                variant=variant,
                requirement=requirement,
                server=Server(name=str(variant), priority=1 + highest - requirement.priority, offers=offers),
            )
            for requirement in sorted(problem.requirements, key=lambda each: each.model)
            for variant, offers in reading.offers(requirement).items()
            if variant not in problem.pinned and offers
        ),
        capacities=reading.capacities(),
    )


def variants_of(requirement: Requirement) -> tuple[ResourceKey, ...]:
    """The variants that serve a requirement, in the order of their keys."""
    if requirement.fixed is not None:
        return tuple(sorted(requirement.fixed))
    return tuple(sorted({key.variant for key in requirement.per_replica}))


def carried(requirement: Requirement, variant: ResourceKey, allocation: Allocation) -> float:
    """How much of the requirement an allocation carries, in its unit; of a finished answer each replica its share."""
    if requirement.fixed is not None:
        return requirement.amount * allocation.replicas / max(sum(requirement.fixed.values()), 1)
    key = variant.on(allocation.accelerator)
    return requirement.per_replica.get(key, 0.0) * allocation.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A problem with its candidates by variant."""

    problem: Problem
    candidates: Mapping[ResourceKey, Sequence[Candidate]]

    @classmethod
    def of(cls, problem: Problem) -> "_Reading":
        candidates: defaultdict[ResourceKey, list[Candidate]] = defaultdict(list)
        for each in sorted(problem.candidates, key=lambda candidate: (candidate.order, candidate.key)):
            candidates[each.key.variant].append(each)
        return cls(problem=problem, candidates=dict(candidates))

    def capacities(self) -> dict[str, int]:
        capacities = {pool.name: pool.devices for pool in self.problem.pools}
        for variant, allocation in self.problem.pinned.items():
            for name, units in self._units_now(variant, allocation.accelerator).items():
                capacities[name] -= units * allocation.replicas
        return capacities

    def offers(self, requirement: Requirement) -> dict[ResourceKey, tuple[Offer, ...]]:
        if requirement.fixed is not None:
            return {
                variant: (self._finished(variant, requirement.fixed[variant]),) for variant in variants_of(requirement)
            }
        return {
            variant: tuple(self._sized(requirement, each) for each in self._admitted(requirement, variant))
            for variant in variants_of(requirement)
        }

    def _admitted(self, requirement: Requirement, variant: ResourceKey) -> Sequence[Candidate]:
        """The variant's candidates that carry something; of an in-order variant only the first one."""
        carrying = [each for each in self.candidates.get(variant, ()) if requirement.per_replica.get(each.key, 0.0) > 0]
        return carrying[:1] if variant in self.problem.in_order else carrying

    def _sized(self, requirement: Requirement, candidate: Candidate) -> Offer:
        """As many replicas as carry the demand, within the bounds."""
        bounds = self.problem.bounds[candidate.key.variant]
        needed = max(replicas_needed(requirement.amount, requirement.per_replica[candidate.key]), bounds.minimum)
        replicas = needed if bounds.maximum is None else min(needed, bounds.maximum)
        allocation = Allocation(accelerator=candidate.key.accelerator, replicas=replicas)
        return self._offer(candidate.key.variant, allocation, candidate.weight, self._counted(candidate.devices))

    def _finished(self, variant: ResourceKey, replicas: int) -> Offer:
        """An engine's answer, where the variant runs."""
        allocation = Allocation(accelerator=self.problem.current[variant].accelerator, replicas=replicas)
        weight = self.problem.current_weights.get(variant, 0.0)
        return self._offer(variant, allocation, weight, self._units_now(variant, allocation.accelerator))

    def _offer(self, variant: ResourceKey, allocation: Allocation, weight: float, units: Mapping[str, int]) -> Offer:
        current = self.problem.current[variant]
        cost = weight * allocation.replicas
        value = transition_value(
            current_accelerator=current.accelerator,
            current_replicas=current.replicas,
            current_cost_per_hour=current.replicas * self.problem.current_weights.get(variant, 0.0),
            accelerator=allocation.accelerator,
            replicas=allocation.replicas,
            cost_per_hour=cost,
        )
        return Offer(
            accelerator=allocation.accelerator, replicas=allocation.replicas, units=units, cost=cost, value=value
        )

    def _units_now(self, variant: ResourceKey, accelerator: str) -> dict[str, int]:
        """What a replica takes where the variant stands: as the candidate there says, else as observed."""
        there = (each.devices for each in self.candidates.get(variant, ()) if each.key.accelerator == accelerator)
        return self._counted(next(there, self.problem.current_devices.get(variant, {})))

    def _counted(self, devices: Mapping[str, int]) -> dict[str, int]:
        """Only the problem's pools: what is taken elsewhere is not limited."""
        listed = {pool.name for pool in self.problem.pools}
        return {name: units for name, units in sorted(devices.items()) if name in listed}


# The reproductions as solvers, found by name: what inferno would have answered to a problem. They know pools and
# priorities; budgets, change limits, ratios and what a change takes for a while are unknown to the original. Its
# objective is always the transition value. Who gets nothing: the original leaves such a server out of its answer, and
# its controller leaves the Deployment as it is, on devices that others were just given. A solution must fit into the
# pools, so here the variant has 0 replicas, below its lower bound, and its model a shortfall with the reason. That is
# an answer to compare with, not one to carry out: a plan never shuts down what serves because devices are missing. A
# variant without any candidate is left out.


class WeightedGreedySolver:
    """Inferno's limited mode of July 2025: priority is a weight, all or nothing."""

    name = "inferno-weighted"

    def solve(self, problem: Problem) -> Solution:
        """What `weighted_greedy` gives every variant that has a candidate or a finished answer, or is pinned."""
        asking = read_problem(problem)
        return _solution(problem, asking.asks, weighted_greedy(asking.servers, asking.capacities))


class PriorityGreedySolver:
    """Inferno's limited mode since August 2025: priority by priority, then best effort by the policy.

    The policy None is the original's own default; its controller asked for PriorityRoundRobin.
    """

    name = "inferno-priority"

    def __init__(
        self, *, policy: SaturationPolicy = SaturationPolicy.NONE, is_best_effort_delayed: bool = False
    ) -> None:
        self._policy = policy
        self._is_best_effort_delayed = is_best_effort_delayed

    def solve(self, problem: Problem) -> Solution:
        """What `priority_greedy` gives every variant that has a candidate or a finished answer, or is pinned."""
        asking = read_problem(problem)
        grants = priority_greedy(
            asking.servers,
            asking.capacities,
            policy=self._policy,
            is_best_effort_delayed=self._is_best_effort_delayed,
        )
        return _solution(problem, asking.asks, grants)


class OptimalSolver:
    """What both modes approach: as many variants served as can be, priority by priority, then the least value."""

    name = "inferno-optimal"

    def solve(self, problem: Problem) -> Solution:
        """What `exact_optimum` gives every variant that has a candidate or a finished answer, or is pinned.

        The bound is that of all answers that serve as many at every priority; the status says whether more was proven
        to be impossible.
        """
        asking = read_problem(problem)
        optimum = exact_optimum(asking.servers, asking.capacities)
        solution = _solution(problem, asking.asks, optimum.grants)
        return replace(solution, solver=self.name, status=optimum.status, lower_bound=optimum.value_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """What a variant asked for and what it got; None is nothing."""

    ask: Ask
    grant: ServerGrant | None

    @property
    def is_full(self) -> bool:
        return self.grant is not None and self.grant.is_full

    @property
    def replicas(self) -> int:
        return 0 if self.grant is None else self.grant.replicas

    @property
    def value_bound(self) -> float:
        """What its replicas are worth at least, whichever offer they are of."""
        return 0.0 if self.grant is None else min(self.grant.value, *(each.value for each in self.ask.server.offers))


def _solution(problem: Problem, asks: Sequence[Ask], grants: Grants) -> Solution:
    """The answer in our terms; its bound is what the same variants would be worth if each had its best offer."""
    answers = [_Answered(ask=ask, grant=grants.get(ask.server.name)) for ask in asks]
    allocations = {each.ask.variant: _allocation(problem, each) for each in answers}
    value = math.fsum(grant.value for grant in grants.values())
    lower_bound = math.fsum(each.value_bound for each in answers)
    is_best = lower_bound == value and all(each.is_full for each in answers)
    return Solution(
        allocations={**problem.pinned, **allocations},
        status=SolveStatus.OPTIMAL if is_best else SolveStatus.FEASIBLE,
        value=value,
        lower_bound=lower_bound,
        shortfalls=tuple(_shortfalls(problem, answers)),
        reasons={each.ask.variant: _words(each) for each in answers},
    )


def _allocation(problem: Problem, answered: _Answered) -> Allocation:
    grant, current = answered.grant, problem.current[answered.ask.variant]
    accelerator = current.accelerator if grant is None else grant.offer.accelerator
    return Allocation(accelerator=accelerator, replicas=answered.replicas)


def _shortfalls(problem: Problem, answers: Sequence[_Answered]) -> Iterator[Shortfall]:
    """One for each requirement of which a variant got less than it asked for, or was not let ask for enough."""
    for _, group in groupby(answers, key=lambda each: each.ask.requirement.model):
        members = tuple(group)
        requirement = members[0].ask.requirement
        got = {each.ask.variant: _allocation(problem, each) for each in members}
        pinned = {each: problem.pinned[each] for each in variants_of(requirement) if each in problem.pinned}
        covered = math.fsum(carried(requirement, *each) for each in (pinned | got).items())
        cut = [f"{each.ask.variant.label} {_words(each)}" for each in members if not each.is_full]
        if not cut and requirement.fixed is None and covered < requirement.amount * (1 - INTEGER_TOLERANCE):
            most = (
                problem.bounds[each.ask.variant].most_words(each.replicas, each.ask.variant.label) for each in members
            )
            cut = [f"{words} carries less than the demand" for words in most]
        if cut:
            yield Shortfall(model=requirement.model, covered=covered, wanted=requirement.amount, reason="; ".join(cut))


def _words(answered: _Answered) -> str:
    """What a variant got, and why."""
    grant, offers = answered.grant, by_value(answered.ask.server.offers)
    pools = ", ".join(sorted({name for offer in offers for name in offer.units}))
    if grant is None:
        return f"gets nothing: no candidate fits into what is left of {pools}"
    if not grant.is_full:
        wanted = f"{grant.replicas} of {grant.offer.replicas} replicas"
        return f"gets {wanted} by best effort: no more fit into what is left of {pools}"
    rank = 1 + offers.index(grant.offer)
    return f"candidate {rank} of {len(offers)} by value" + (": what is before it does not fit" if rank > 1 else "")
