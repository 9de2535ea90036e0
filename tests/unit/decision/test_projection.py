"""What is expected before and after a change, and what replicas that do not report mean."""

import math
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.holds import HoldKind
from reconciler.domain.observed import ArrivalSource
from reconciler.domain.plan import Outcome
from reconciler.domain.profiles import SloTarget
from reconciler.domain.proposals import Part


def test_targets_stand_beside_what_is_expected_in_their_own_statistic(fleet: Any, make: Any) -> None:
    wait = SloTarget(limit_s=2.0, percentile=95)
    fleet.set(service_classes=(make.service_class(wait=wait),))
    fleet.add(replicas=3)
    fleet.offer(25.0)
    decision = fleet.decision()
    waits, itl = decision.slos
    assert (waits.name, waits.statistic, waits.target_s) == ("wait", "p95", 2.0)
    assert decision.expected is not None
    assert waits.after_s == pytest.approx(decision.expected.wait_s * -math.log(0.05))
    assert (itl.name, itl.statistic, itl.after_s) == ("itl", "mean", pytest.approx(0.01))
    assert waits.is_met_after


def test_a_law_without_prefill_limits_only_the_waiting_in_ttft(fleet: Any, make: Any) -> None:
    fleet.set(service_classes=(make.service_class(itl=None, ttft=SloTarget(limit_s=0.5)),))
    fleet.add(replicas=1)
    fleet.offer(25.0)
    (wait,) = fleet.decision().slos
    assert wait.name == "wait"
    assert not wait.is_met_before
    assert wait.is_met_after


def test_demand_is_shared_by_what_replicas_carry(fleet: Any, make: Any) -> None:
    for name, batch in (("a", 10), ("b", 5)):
        fleet.add(name, replicas=2, profiles=(make.profile("H100", batch),), annotations={"ignore": True})
    fleet.offer(24.0)
    assert [fleet.decision(name).demand for name in "ab"] == [pytest.approx(16.0), pytest.approx(8.0)]
    assert [fleet.decision(name).capacity_before for name in "ab"] == [
        pytest.approx(19.98),
        pytest.approx(9.99),
    ]


def test_numbers_are_rounded_before_they_enter_the_plan(fleet: Any) -> None:
    fleet.default(headroom=0.1)
    fleet.add()
    fleet.offer(1 / 3)
    assert fleet.decision().demand == 0.3666666667


@pytest.fixture
def starting(fleet: Any, make: Any) -> Any:
    """Two of nine replicas report, and arrivals are counted by replicas."""
    key = fleet.add(replicas=9, profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    fleet.loads = {model: replace(load, arrivals_from=ArrivalSource.REPLICAS) for model, load in fleet.loads.items()}
    fleet.observations[key] = replace(fleet.observations[key], replicas_reporting=2)
    return fleet


def test_nothing_shrinks_or_moves_while_replicas_do_not_report(starting: Any) -> None:
    assert starting.desired() == {"llama": "9 x H100"}
    notes = [step.reason for step in starting.decision().steps if step.stage == "options"]
    assert notes == [
        "2 of 9 replicas of llm/llama report: nothing is scaled down until all do",
        "not A100: 2 of 9 replicas of llm/llama report: the accelerator is kept until all do",
    ]


def test_replicas_that_do_not_report_do_not_stop_growth(starting: Any) -> None:
    starting.loads = {model: replace(load, arrival_rate_per_s=95.0) for model, load in starting.loads.items()}
    assert starting.desired() == {"llama": "10 x H100"}


def test_nothing_is_added_to_replicas_that_may_still_be_starting(starting: Any) -> None:
    starting.loads = {model: replace(load, arrival_rate_per_s=95.0) for model, load in starting.loads.items()}
    starting.committed_s = starting.now_s - 60.0
    decision = starting.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.HELD, 9)
    assert decision.hold.kind is HoldKind.GROWTH_UNPROVEN
    assert decision.hold.words == (
        "2 of 9 replicas of llm/llama report: nothing is added until those that Git asks for do"
    )


def test_an_idle_model_does_not_shrink_while_replicas_do_not_report(starting: Any, make: Any) -> None:
    starting.loads = {model: replace(make.load(0.0), arrivals_from=ArrivalSource.REPLICAS) for model in starting.loads}
    assert starting.desired() == {"llama": "9 x H100"}


def test_a_count_that_needs_no_replica_does_not_wait_for_them(starting: Any) -> None:
    starting.loads = {
        model: replace(load, arrivals_from=ArrivalSource.ENDPOINT_PICKER) for model, load in starting.loads.items()
    }
    assert starting.desired() == {"llama": "3 x A100"}


def test_a_written_maximum_holds_while_replicas_do_not_report(starting: Any) -> None:
    starting.default(maxReplicas=4)
    assert starting.desired() == {"llama": "4 x H100"}
    starting.loads = {model: replace(load, arrival_rate_per_s=0.0) for model, load in starting.loads.items()}
    assert starting.desired() == {"llama": "4 x H100"}


def test_an_open_pull_request_does_not_shrink_while_replicas_do_not_report(starting: Any, make: Any) -> None:
    starting.propose(make.change("llama", "9 x H100", "12 x H100"))
    (group,) = starting.plan().groups
    assert group.blocked.words == (
        "open pull request #7 stays as it is: metrics of us-east/llm/VariantAutoscaling/llama are missing"
    )


def test_an_open_pull_request_grows_while_replicas_do_not_report(starting: Any, make: Any) -> None:
    starting.loads = {model: replace(load, arrival_rate_per_s=135.0) for model, load in starting.loads.items()}
    starting.propose(make.change("llama", "9 x H100", "12 x H100"), part=Part.URGENT)
    (group,) = starting.plan().groups
    assert group.blocked is None
    assert starting.desired() == {"llama": "14 x H100"}


def test_an_open_pull_request_stays_while_replicas_may_still_be_starting(starting: Any, make: Any) -> None:
    starting.loads = {model: replace(load, arrival_rate_per_s=135.0) for model, load in starting.loads.items()}
    starting.propose(make.change("llama", "9 x H100", "12 x H100"))
    starting.committed_s = starting.now_s - 60.0
    (group,) = starting.plan().groups
    assert group.blocked.kind is HoldKind.GROWTH_UNPROVEN
    assert group.blocked.words.startswith("open pull request #7 stays as it is: 2 of 9 replicas of llm/llama report")
