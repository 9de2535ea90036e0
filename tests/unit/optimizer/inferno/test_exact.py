"""The exact optimum, sentence by sentence, and what is left of it at the node limit."""

import random
from collections.abc import Callable

import pytest

from reconciler.domain.requirements import SolveStatus
from reconciler.upstream import inferno as programme
from reconciler.upstream.inferno import Grants, Offer, Server, exact_optimum, priority_greedy

Make = Callable[..., Server]
Short = Callable[[Grants], dict[str, str]]

TYPES = ("A", "B", "C")


def crowd(seed: int) -> tuple[list[Server], dict[str, int]]:
    """Forty servers of two priorities that share too few devices."""
    draw = random.Random(seed)  # noqa: S311 - the same servers in every run
    servers = [
        Server(
            name=f"s{number:02}",
            priority=draw.choice((1, 2)),
            offers=tuple(
                Offer(
                    accelerator=name,
                    replicas=draw.randint(1, 12),
                    units={name: draw.choice((1, 2, 4))},
                    cost=1.0,
                    value=draw.uniform(-50, 500),
                )
                for name in TYPES
            ),
        )
        for number in range(40)
    ]
    return servers, dict.fromkeys(TYPES, 60)


def test_two_small_servers_are_served_rather_than_a_large_one(server: Make, granted: Short) -> None:
    servers = [server("large", ("A", 4, 9.0)), server("small", ("A", 2, 1.0)), server("tiny", ("A", 2, 1.0))]
    assert granted(priority_greedy(servers, {"A": 4})) == {"large": "4 x A"}
    assert granted(exact_optimum(servers, {"A": 4}).grants) == {"small": "2 x A", "tiny": "2 x A"}


def test_one_server_of_a_high_priority_goes_before_many_of_a_low_one(server: Make, granted: Short) -> None:
    servers = [server("high", ("A", 2, 9.0), priority=1)]
    servers += [server(name, ("A", 1, 1.0), priority=2) for name in ("low", "other")]
    assert granted(exact_optimum(servers, {"A": 2}).grants) == {"high": "2 x A"}


def test_of_as_many_served_the_least_total_value_wins(server: Make, granted: Short) -> None:
    servers = [server("a", ("A", 1, 1.0), ("B", 1, 4.0)), server("b", ("A", 1, 1.0), ("B", 1, 2.0))]
    optimum = exact_optimum(servers, {"A": 1, "B": 1})
    assert granted(optimum.grants) == {"a": "1 x A", "b": "1 x B"}
    assert (optimum.value, optimum.value_bound) == (3.0, 3.0)


def test_nobody_asks_so_nothing_is_given() -> None:
    optimum = exact_optimum([Server(name="a", priority=1, offers=())], {"A": 1})
    assert (optimum.grants, optimum.served, optimum.value, optimum.status) == ({}, {}, 0.0, SolveStatus.OPTIMAL)


def test_a_candidate_larger_than_the_whole_type_is_not_considered(server: Make) -> None:
    optimum = exact_optimum([server("a", ("A", 10**9, 1.0))], {"A": 3})
    assert (optimum.served, optimum.served_bound, optimum.status) == ({1: 0}, {1: 0}, SolveStatus.OPTIMAL)


@pytest.mark.parametrize("nodes", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_at_the_node_limit_the_best_answer_so_far_stands_and_the_bounds_hold(
    seed: int, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, capacities = crowd(seed)
    optimum = exact_optimum(servers, capacities)
    monkeypatch.setattr(programme, "NODE_LIMIT", nodes)
    limited = exact_optimum(servers, capacities)
    greedy = priority_greedy(servers, capacities)
    served = [sum(each.priority == level and each.name in greedy for each in servers) for level in (1, 2)]
    assert list(optimum.served.values()) >= list(limited.served.values()) >= served
    assert list(limited.served_bound.values()) >= list(optimum.served.values())
    if nodes == 0:
        assert limited.status is SolveStatus.FEASIBLE
    if limited.served == optimum.served:
        assert limited.value_bound <= optimum.value + 1e-6
        assert limited.value >= optimum.value - 1e-6
    assert limited.value_bound <= limited.value
