"""The three modes of inferno's own solver: unlimited, weighted greedy and strict priority greedy.

Own formulation of the published behaviour; where the original leaves a tie to chance, it is broken by name. Both greedy
modes share one pass: servers in turn take the first of their offers that fits. Who would lose most by its next offer
goes first; whose offer no longer fits steps to the next one and queues again. Numbers are rounded to float32 where the
original does: there the order depends on it.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.inferno.best_effort import SaturationPolicy, by_priority, share_out
from reconciler.optimizer.inferno.servers import Grants, Offer, Server, ServerGrant, Stock, by_value

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
