"""The three modes of inferno's own solver: unlimited, weighted greedy and strict priority greedy.

Own formulation of the published behaviour; where the original leaves a tie to chance, it is broken by name.
"""

from collections.abc import Iterable, Mapping

from reconciler.optimizer.inferno.best_effort import SaturationPolicy, by_priority, share_out
from reconciler.optimizer.inferno.contest import Contender, contest, float32
from reconciler.optimizer.inferno.servers import Grant, Grants, Server, Stock, by_value


def unlimited(servers: Iterable[Server]) -> Grants:
    """What each server gets where nothing is scarce: its offer of least value."""
    first = ((server.name, by_value(server.offers)[0]) for server in servers if server.offers)
    return {name: Grant(offer=offer, replicas=offer.replicas) for name, offer in sorted(first)}


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
    stock, grants, losers = Stock(capacities), dict[str, Grant](), list[Server]()
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
