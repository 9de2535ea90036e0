"""More is decided by the demand of now, less by how it varied: each replica carries 9.99 requests a second."""

import math
from typing import Any

import pytest

from reconciler.domain.plan import Outcome

QUIET = [20.0] * 30


def steps(decision: Any) -> dict[str, Any]:
    return {step.stage: step for step in decision.steps}


@pytest.fixture
def spiked(fleet: Any) -> Any:
    """Twenty requests a second take three replicas; half an hour ago forty-four took the five that there are."""
    fleet.add(replicas=5)
    fleet.offer(20.0)
    fleet.remember(*QUIET, 44.1, *QUIET[:25])
    return fleet


def test_without_a_past_the_demand_of_now_decides(spiked: Any) -> None:
    spiked.past.clear()
    decision = spiked.decision()
    assert decision.desired.replicas == 3
    assert "variation" not in steps(decision)


def test_what_was_needed_within_payback_is_kept_with_the_reason(spiked: Any) -> None:
    decision = spiked.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.UNCHANGED, 5)
    assert steps(decision)["allocation"].reason == "kept: 44.1 req/s were asked for 25m ago; payback 1h"
    assert (steps(decision)["variation"].before, steps(decision)["variation"].after) == ("20 req/s", "44.1 req/s")
    assert steps(decision)["variation"].reason.startswith(
        "peak 44.1 req/s 25m ago in the last 1h; mean 20.43, standard"
    )


def test_the_demand_that_is_shown_is_that_of_now(spiked: Any) -> None:
    assert spiked.decision().demand == pytest.approx(20.0)
    assert spiked.decision().expected.utilization == pytest.approx(0.4, rel=0.01)


def test_after_a_shorter_payback_it_goes(spiked: Any) -> None:
    spiked.default(payback=20 * 60.0)
    assert spiked.desired() == {"llama": "3 x H100"}


def test_the_longest_payback_of_its_variants_counts_for_a_model(spiked: Any) -> None:
    spiked.add("other", replicas=0, annotations={"ignore": True})
    spiked.default(payback=20 * 60.0)
    spiked.override({"name": "other"}, payback=3600.0)
    assert spiked.desired()["llama"] == "5 x H100"


def test_what_was_never_allocated_is_not_asked_for_now(spiked: Any) -> None:
    spiked.set_replicas("llama", 3)
    assert spiked.desired() == {"llama": "3 x H100"}
    spiked.offer(31.0)
    assert spiked.desired() == {"llama": "4 x H100"}


def test_a_replica_goes_when_the_rest_is_far_from_the_mean(fleet: Any) -> None:
    fleet.add(replicas=5)
    fleet.offer(20.0)
    fleet.remember(*QUIET, *QUIET)
    assert fleet.desired() == {"llama": "3 x H100"}


def test_a_replica_stays_when_the_rest_is_near_the_mean(fleet: Any) -> None:
    fleet.add(replicas=4)
    fleet.offer(28.0)
    fleet.remember(*[28.0, 27.5, 28.5] * 20)
    decision = fleet.decision()
    assert decision.desired.replicas == 4
    assert steps(decision)["allocation"].reason == (
        "kept: without it 29.97 req/s would be carried, too near to the mean of 28 for a standard deviation of 0.41; "
        "payback 1h"
    )


def test_gaps_are_neither_load_nor_silence(spiked: Any) -> None:
    gap = math.nan
    spiked.remember(*[gap] * 30, 44.1, *[gap] * 5, *QUIET[:20])
    assert spiked.desired() == {"llama": "5 x H100"}
    spiked.remember(*[gap] * 61)
    assert spiked.desired() == {"llama": "5 x H100"}


def test_a_short_past_keeps_all(spiked: Any) -> None:
    spiked.remember(20.0, 20.0, 31.0, 20.0)
    assert spiked.desired() == {"llama": "5 x H100"}


def test_headroom_is_kept_on_the_past_too(spiked: Any) -> None:
    spiked.default(headroom=0.1)
    spiked.set_replicas("llama", 6)
    spiked.remember(*QUIET, 40.0, *QUIET[:25])
    assert spiked.desired() == {"llama": "5 x H100"}


def test_bounds_go_before_what_was_asked_for(spiked: Any) -> None:
    spiked.default(maxReplicas=4)
    assert spiked.desired() == {"llama": "4 x H100"}


def test_a_minimum_is_not_called_kept(spiked: Any) -> None:
    spiked.default(minReplicas=5)
    assert "kept" not in steps(spiked.decision())["allocation"].reason


def test_variants_of_one_model_keep_together_what_it_needed(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, L4=3.5)
    fleet.add("big", replicas=3)
    fleet.add("small", replicas=2, runs_on="L4", profiles=(make.profile("L4", batch=5),))
    fleet.offer(20.0)
    fleet.remember(*QUIET, 36.0, *QUIET[:25])
    assert fleet.desired() == {"big": "3 x H100", "small": "2 x L4"}
    fleet.remember(*QUIET, *QUIET)
    assert sum(int(words.split()[0]) for words in fleet.desired().values()) < 5


def test_a_held_variant_counts_with_what_it_carries(fleet: Any) -> None:
    fleet.add("held", replicas=2, annotations={"ignore": True})
    fleet.add("free", replicas=3)
    fleet.offer(20.0)
    fleet.remember(*QUIET, 44.1, *QUIET[:25])
    assert fleet.desired() == {"held": "[2 x H100]", "free": "3 x H100"}


def test_a_move_to_what_carries_less_waits_too(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, A100=1.0)
    fleet.add(replicas=3, profiles=(make.profile("H100"), make.profile("A100", batch=5)))
    fleet.offer(14.0)
    fleet.remember(*[14.0] * 30, 24.0, *[14.0] * 25)
    assert fleet.desired() == {"llama": "5 x A100"}
    fleet.past.clear()
    assert fleet.desired() == {"llama": "3 x A100"}


def test_while_requests_pause_nothing_goes_until_payback_is_over(spiked: Any) -> None:
    spiked.offer(0.0)
    decision = spiked.decision()
    assert decision.desired.replicas == 5
    assert steps(decision)["allocation"].reason == "kept: 44.1 req/s were asked for 25m ago; payback 1h"
    spiked.remember(*[0.0] * 61)
    assert spiked.desired() == {"llama": "1 x H100"}


def test_an_open_proposal_to_shrink_stays_while_it_carries_what_was_asked_for(fleet: Any, make: Any) -> None:
    fleet.add(replicas=4)
    fleet.offer(28.0)
    fleet.remember(*[28.0, 27.5, 28.5] * 20)
    fleet.propose(make.change("llama", "4 x H100", "3 x H100"))
    assert fleet.desired() == {"llama": "3 x H100"}
    fleet.remember(*[28.0] * 30, 31.0, *[28.0] * 29)
    assert fleet.desired() == {"llama": "4 x H100"}


def test_an_open_proposal_to_grow_goes_with_its_demand(fleet: Any, make: Any) -> None:
    fleet.add(replicas=3)
    fleet.offer(29.0)
    fleet.remember(*[29.0] * 50, 31.0, *[29.0] * 9)
    fleet.propose(make.change("llama", "3 x H100", "4 x H100"))
    assert fleet.desired() == {"llama": "3 x H100"}


def test_saturation_has_its_own_band(fleet: Any) -> None:
    fleet.default(engine="saturation")
    fleet.add(replicas=3)
    fleet.offer(20.0)
    fleet.fill(".30/0, .30/0, .30/0")
    alone = fleet.desired()
    fleet.remember(*QUIET, 44.1, *QUIET[:25])
    assert fleet.desired() == alone
