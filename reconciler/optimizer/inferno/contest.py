"""The pass that both greedy modes share: servers in turn take the first of their offers that fits.

Who would lose most by its next offer goes first; whose offer no longer fits steps to the next one and queues again.
Numbers are rounded to float32 where the original does: there the order depends on it.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.inferno.servers import Grant, Offer, Server, Stock, by_value

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
class Outcome:
    """Who got an offer in full, and who ran out of offers, in that order."""

    grants: dict[str, Grant]
    losers: tuple[Server, ...]


def contest(servers: Iterable[Server], stock: Stock, urgency: Urgency) -> Outcome:
    """Serve the servers that have offers from the stock, the most urgent first.

    Of equally urgent ones who queues again goes before the others, and those go by name.
    """
    contenders = [Contender(server=each, offers=by_value(each.offers)) for each in servers if each.offers]
    contenders.sort(key=lambda each: each.server.name)
    queue = [_place(urgency(each), turn, each) for turn, each in enumerate(contenders)]
    heapq.heapify(queue)
    turn, grants, losers = 0, dict[str, Grant](), list[Server]()
    while queue:
        *_, contender = heapq.heappop(queue)
        if stock.fitting(contender.offer) == contender.offer.replicas:
            stock.take(contender.offer, contender.offer.replicas)
            grants[contender.server.name] = Grant(offer=contender.offer, replicas=contender.offer.replicas)
        elif contender.is_last:
            losers.append(contender.server)
        else:
            turn -= 1
            heapq.heappush(queue, _place(urgency(contender.next()), turn, contender.next()))
    return Outcome(grants=grants, losers=tuple(losers))


def float32(number: float) -> float:
    """The nearest float32; infinite beyond the largest."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _place(urgency: tuple[float, float], turn: int, contender: Contender) -> tuple[float, float, int, Contender]:
    first, second = urgency
    return -first, -second, turn, contender
