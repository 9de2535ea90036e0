"""A cheaper plan is proposed only if it earns back what it starts in the time that is set for it."""

from typing import Any

import pytest


@pytest.fixture
def tempted(fleet: Any, make: Any) -> Any:
    """Three replicas on H100; A100 would do as well, for 5 % less."""
    fleet.price(H100=6.0, A100=5.7)
    fleet.add(replicas=3, profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    return fleet


def test_a_move_that_does_not_earn_back_its_starts_is_not_proposed(tempted: Any) -> None:
    assert tempted.desired() == {"llama": "3 x H100"}


def test_it_is_proposed_when_there_is_time_enough(tempted: Any) -> None:
    tempted.default(payback=4 * 3600.0)
    assert tempted.desired() == {"llama": "3 x A100"}


def test_it_is_proposed_when_replicas_start_fast(tempted: Any) -> None:
    tempted.default(**{"actuationDelay.start": 60.0})
    assert tempted.desired() == {"llama": "3 x A100"}


def test_what_the_demand_needs_is_started_whatever_it_costs(tempted: Any) -> None:
    tempted.default(payback=60.0)
    tempted.offer(45.0)
    assert tempted.desired() == {"llama": "5 x H100"}


def test_a_replica_too_many_goes_as_long_as_its_start_is_earned_back(tempted: Any) -> None:
    tempted.offer(15.0)
    assert tempted.desired() == {"llama": "2 x H100"}
    tempted.default(payback=240.0)
    assert tempted.desired() == {"llama": "3 x H100"}


def test_capacity_that_costs_more_than_it_serves_is_not_planned(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0)
    fleet.set(service_classes=(make.service_class(unserved_cost_per_request=0.0002),))
    fleet.add(replicas=2)
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "2 x H100"}
    (step,) = [each for each in fleet.decision().steps if each.stage == "allocation"]
    assert step.reason == "covers 19.98 of 25 req/s: more would cost more than the demand is worth"
    fleet.set(service_classes=(make.service_class(unserved_cost_per_request=0.0004),))
    assert fleet.desired() == {"llama": "3 x H100"}


def test_without_a_price_of_the_accelerator_the_demand_is_covered(fleet: Any, make: Any) -> None:
    fleet.price(H100=None)
    fleet.set(service_classes=(make.service_class(unserved_cost_per_request=0.0002),))
    fleet.add(replicas=2)
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
