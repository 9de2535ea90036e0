"""What our merges came to: ratios of what came by what was forecast, and money by Git's numbers at today's prices."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.aftermerge import forecast_ratios, savings
from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.observed import Observation, Performance
from reconciler.domain.proposals import Promise, PromisedLatency, ProposalState
from reconciler.domain.reports import Savings

HOUR_S = 3600.0
RESOURCE = "us-east/llm/VariantAutoscaling/llama"
PROMISE = Promise(
    resource=RESOURCE,
    unit="req/s",
    demand=20.0,
    capacity=40.0,
    latencies=(PromisedLatency(name="itl", statistic="mean", target_s=0.02, mean_s=0.01),),
)


def merged(fleet: Any, change: Any, number: int, hours_ago: float, *promises: Promise) -> None:
    closed_at_s = fleet.now_s - hours_ago * HOUR_S
    fleet.propose(change, state=ProposalState.MERGED, number=number, closed_at_s=closed_at_s, promises=promises)


def ratios(fleet: Any) -> dict[str, float]:
    return {each.quantity: each.ratio for each in forecast_ratios(fleet.snapshot(), fleet.plan())}


@pytest.fixture
def shrunk(fleet: Any, make: Any) -> Any:
    fleet.add(replicas=2)
    fleet.offer(15.0)
    seen = Observation(performance=Performance(itl_s=0.012), replicas_reporting=2, arrival_rate_per_s=15.0)
    fleet.observations[make.key("llama")] = seen
    merged(fleet, make.change("llama", "4 x H100", "2 x H100"), 3, 2.0, PROMISE)
    return fleet


def test_what_came_is_told_by_what_was_forecast(shrunk: Any) -> None:
    assert ratios(shrunk) == {
        "capacity": pytest.approx(19.98 / 40.0),
        "demand": pytest.approx(0.75),
        "itl": pytest.approx(1.2),
    }


def test_without_metrics_only_what_is_expected_is_told(shrunk: Any, make: Any) -> None:
    key = make.key("llama")
    stale = NoAnswer(absence=Absence.STALE, reason="old")
    shrunk.observations[key] = replace(shrunk.observations[key], absence=stale)
    assert set(ratios(shrunk)) <= {"capacity"}


@pytest.mark.parametrize("forged", [{"demand": 0.0, "capacity": 5e-324}, {"unit": "tokens", "demand": None}])
def test_nothing_is_divided_by_nothing(shrunk: Any, forged: Any) -> None:
    shrunk.proposals[0] = replace(shrunk.proposals[0], promises=(replace(PROMISE, **forged),))
    assert ratios(shrunk) == {"itl": pytest.approx(1.2)}


def test_what_somebody_changed_since_is_not_compared(shrunk: Any) -> None:
    shrunk.set_replicas("llama", 3)
    assert ratios(shrunk) == {}


def test_fewer_replicas_save_their_price_since_the_merge(shrunk: Any) -> None:
    assert savings(shrunk.snapshot()) == Savings(per_hour=12.0, so_far=24.0)


def test_merges_add_up_and_growth_costs(shrunk: Any, make: Any) -> None:
    merged(shrunk, make.change("llama", "2 x H100", "5 x H100"), 4, 1.0)
    shrunk.set_replicas("llama", 5)
    assert savings(shrunk.snapshot()) == Savings(per_hour=-6.0, so_far=12.0 - 6.0)


def test_a_move_counts_at_the_price_of_each_accelerator(fleet: Any, make: Any) -> None:
    fleet.add(replicas=2, runs_on="A100", profiles=(make.profile("H100"), make.profile("A100")))
    merged(fleet, make.change("llama", "2 x H100", "2 x A100"), 3, 5.0)
    assert savings(fleet.snapshot()) == Savings(per_hour=4.0, so_far=20.0)


def test_what_somebody_changed_in_between_ends_what_was_saved(shrunk: Any, make: Any) -> None:
    shrunk.set_replicas("llama", 3)
    assert savings(shrunk.snapshot()) == Savings(per_hour=0.0, so_far=0.0)
    merged(shrunk, make.change("llama", "3 x H100", "1 x H100"), 4, 1.0)
    shrunk.set_replicas("llama", 1)
    assert savings(shrunk.snapshot()) == Savings(per_hour=12.0, so_far=12.0)


def test_without_a_price_or_a_merge_nothing_is_told(shrunk: Any) -> None:
    shrunk.price(H100=None)
    assert savings(shrunk.snapshot()) is None
    shrunk.price(H100=6.0)
    shrunk.proposals.clear()
    assert savings(shrunk.snapshot()) is None
