"""Best effort: what servers get that cannot be served in full, one replica or all that fit at a time."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby

from reconciler.optimizer.inferno.servers import Offer, Server, ServerGrant, Stock, by_value


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
            return _exhaust(servers, stock)
        case SaturationPolicy.PRIORITY_ROUND_ROBIN:
            return {name: grant for group in by_priority(servers) for name, grant in _take_turns(group, stock).items()}
        case SaturationPolicy.ROUND_ROBIN:
            return _take_turns(servers, stock)


def by_priority(servers: Iterable[Server]) -> Iterator[tuple[Server, ...]]:
    """The servers in groups of equal priority, the smallest number first."""
    for _, group in groupby(sorted(servers, key=lambda server: server.priority), key=lambda server: server.priority):
        yield tuple(group)


def _exhaust(servers: Iterable[Server], stock: Stock) -> dict[str, ServerGrant]:
    """Each server takes as many replicas as fit of the first offer of which one fits."""
    grants: dict[str, ServerGrant] = {}
    for server in servers:
        offer = _first_fitting(server, stock)
        if offer is not None:
            grants[server.name] = ServerGrant(offer=offer, replicas=stock.fitting(offer))
            stock.take(offer, grants[server.name].replicas)
    return grants


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
