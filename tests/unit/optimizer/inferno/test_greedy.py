"""The greedy modes, sentence by sentence."""

from collections.abc import Callable

import pytest

from reconciler.upstream.inferno import (
    Grants,
    Offer,
    SaturationPolicy,
    Server,
    priority_greedy,
    unlimited,
    weighted_greedy,
)

Make = Callable[..., Server]
Short = Callable[[Grants], dict[str, str]]


def test_without_scarcity_the_least_value_is_chosen_and_of_equal_ones_the_cheaper(server: Make, granted: Short) -> None:
    tied = Server(
        name="b",
        priority=1,
        offers=(
            Offer(accelerator="A100", replicas=1, units={}, cost=9.0, value=5.0),
            Offer(accelerator="H100", replicas=1, units={}, cost=8.0, value=5.0),
        ),
    )
    assert granted(unlimited([server("a", ("A100", 1, 3.0), ("H100", 2, -1.0)), tied, server("c")])) == {
        "a": "2 x H100",
        "b": "1 x H100",
    }


def test_who_would_lose_most_by_its_next_candidate_goes_first(server: Make, granted: Short) -> None:
    servers = [server("a", ("A", 1, 1.0), ("B", 1, 2.0)), server("b", ("A", 1, 1.0), ("B", 1, 9.0))]
    expected = {"a": "1 x B", "b": "1 x A"}
    assert granted(weighted_greedy(servers, {"A": 1, "B": 1})) == expected
    assert granted(priority_greedy(servers, {"A": 1, "B": 1})) == expected


def test_weighted_a_lower_priority_that_loses_more_goes_first(server: Make, granted: Short) -> None:
    servers = [
        server("high", ("A", 1, 1.0), ("B", 1, 2.0), priority=1),
        server("low", ("A", 1, 1.0), ("B", 1, 9.0), priority=10),
    ]
    assert granted(weighted_greedy(servers, {"A": 1})) == {"low": "1 x A"}
    assert granted(priority_greedy(servers, {"A": 1})) == {"high": "1 x A"}


def test_weighted_the_last_candidates_tie_on_loss_so_the_weighted_value_orders_them(
    server: Make, granted: Short
) -> None:
    """In float64 the larger weight would go first; in float32 both losses are infinite."""
    servers = [server("high", ("A", 1, 1.0), priority=1), server("low", ("A", 1, 9.0), priority=10)]
    assert granted(weighted_greedy(servers, {"A": 1})) == {"low": "1 x A"}


def test_who_queues_again_goes_before_those_equally_urgent(server: Make, granted: Short) -> None:
    servers = [
        server("again", ("A", 1, 1.0), ("B", 1, 11.0), ("C", 1, 16.0)),
        server("a name before it", ("B", 1, 11.0), ("C", 1, 16.0)),
    ]
    expected = {"a name before it": "1 x C", "again": "1 x B"}
    assert granted(priority_greedy(servers, {"B": 1, "C": 1})) == expected
    assert granted(weighted_greedy(servers, {"B": 1, "C": 1})) == expected


def test_all_or_nothing_without_a_policy(server: Make) -> None:
    servers = [server("a", ("A", 10, 1.0))]
    assert priority_greedy(servers, {"A": 9}) == {}
    assert weighted_greedy(servers, {"A": 9}) == {}


def test_a_type_that_is_not_listed_has_nothing_but_room_for_no_replicas(server: Make, granted: Short) -> None:
    servers = [server("a", ("A", 0, 1.0)), server("b", ("A", 1, 1.0))]
    assert granted(weighted_greedy(servers, {})) == {"a": "0 x A"}
    assert granted(priority_greedy(servers, {"A": -1}, policy=SaturationPolicy.ROUND_ROBIN)) == {"a": "0 x A"}


def test_best_effort_of_a_high_priority_takes_what_a_low_one_could_have_unless_delayed(
    server: Make, granted: Short
) -> None:
    servers = [server("high", ("A", 5, 1.0), priority=1), server("low", ("A", 2, 1.0), priority=2)]
    policy = SaturationPolicy.PRIORITY_EXHAUSTIVE
    assert granted(priority_greedy(servers, {"A": 4}, policy=policy)) == {"high": "4 x A"}
    assert granted(priority_greedy(servers, {"A": 4}, policy=policy, is_best_effort_delayed=True)) == {
        "high": "2 x A",
        "low": "2 x A",
    }


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (SaturationPolicy.NONE, {}),
        (SaturationPolicy.PRIORITY_EXHAUSTIVE, {"a": "4 x A"}),
        (SaturationPolicy.PRIORITY_ROUND_ROBIN, {"a": "2 x A", "b": "2 x A"}),
        (SaturationPolicy.ROUND_ROBIN, {"a": "2 x A", "b": "1 x A", "c": "1 x A"}),
    ],
)
def test_what_is_too_little_for_anyone_is_shared_by_the_policy(
    policy: SaturationPolicy, expected: dict[str, str], server: Make, granted: Short
) -> None:
    servers = [
        server("a", ("A", 9, 9.0)),
        server("b", ("A", 9, 8.0)),
        server("c", ("A", 9, 7.0), priority=2),
    ]
    assert granted(priority_greedy(servers, {"A": 4}, policy=policy, is_best_effort_delayed=True)) == expected


def test_taking_turns_a_server_stays_with_the_candidate_of_its_first_turn(server: Make, granted: Short) -> None:
    servers = [server("a", ("A", 3, 1.0), ("B", 9, 2.0))]
    shared = priority_greedy(servers, {"A": 2, "B": 8}, policy=SaturationPolicy.ROUND_ROBIN)
    assert granted(shared) == {"a": "2 x A"}


def test_a_part_of_a_candidate_has_its_part_of_cost_and_value(server: Make) -> None:
    (grant,) = priority_greedy(
        [server("a", ("A", 4, -10.0))], {"A": 3}, policy=SaturationPolicy.PRIORITY_EXHAUSTIVE
    ).values()
    assert (grant.replicas, grant.cost, grant.value, grant.is_full) == (3, 7.5, -7.5, False)


def test_a_replica_may_take_several_devices_of_several_types() -> None:
    offer = Offer(accelerator="A", replicas=2, units={"A": 4, "slots": 1}, cost=1.0, value=1.0)
    servers = [Server(name="a", priority=1, offers=(offer,))]
    assert weighted_greedy(servers, {"A": 8, "slots": 1}) == {}
    assert set(weighted_greedy(servers, {"A": 8, "slots": 2})) == {"a"}
