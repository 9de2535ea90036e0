"""Profiles that expect other than was measured: nothing is proposed on them, and growth is not lost."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Observed, Trace
from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.profiles import SloTarget
from reconciler.domain.variant_settings import Engine
from tests.histories import arrays

MOMENTS = 61
SIZED: Mapping[str, Any] = {"total_kv_tokens": 12500.0, "input_tokens": 100.0, "output_tokens": 100.0}


def did(fleet: Any, variant: ResourceKey, **series: float) -> None:
    """What each of three replicas did in the last hour, each number a little up and down."""
    noise = [1 + 0.02 * (-1) ** index for index in range(MOMENTS)]
    told = arrays({quantity: [value * each for each in noise] for quantity, value in series.items()})
    traces = tuple(
        Trace(
            pod=f"{variant.name}-{index}",
            variant=variant,
            start_s=fleet.now_s - 3600.0,
            step_s=60.0,
            series=arrays(told),
        )
        for index in range(3)
    )
    fleet.observed = Observed(traces={**fleet.observed.traces, variant: traces})


def carries_more(fleet: Any, **fields: Any) -> None:
    """Replicas that complete twice what the profile's full batch does, without any waiting."""
    variant = fleet.add(**fields)
    fleet.offer(60.0)
    fleet.fill(".30/0, .30/0, .30/0", **SIZED)
    did(fleet, variant, completions=20.0, itl=0.01, wait=0.001, ttft=0.05)


def told(decision: Decision) -> str:
    assert decision.hold is not None
    assert decision.hold.kind is HoldKind.PROFILE_CONTRADICTED
    return decision.hold.words


@pytest.mark.parametrize("name", ["profile", "learned"])
def test_replicas_that_carry_more_than_expected_get_no_more_beside(fleet: Any, make: Any, name: str) -> None:
    carries_more(fleet, profiles=(getattr(make, name)("H100"),))
    decision = fleet.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.HELD, 3)
    assert told(decision) == (
        "the profile of H100 contradicts what replicas did: at most 10 req/s expected of a replica, 20 measured"
    )


def test_without_what_replicas_did_a_profile_is_believed(fleet: Any) -> None:
    carries_more(fleet)
    fleet.observed = Observed()
    assert fleet.desired() == {"llama": "7 x H100"}


def test_a_configured_profile_is_held_against_measurement_too(fleet: Any, make: Any) -> None:
    carries_more(fleet)
    fleet.resources[-1] = replace(fleet.resources[-1], profiles=())
    fleet.model(profiles=(make.profile("H100"),))
    assert "10 req/s expected" in told(fleet.decision())


def test_growth_at_a_contradicted_profile_comes_by_saturation(fleet: Any) -> None:
    carries_more(fleet)
    fleet.fill(".95/20, .95/20, .95/20", **SIZED)
    decision = fleet.decision()
    assert (decision.outcome, decision.engine) == (Outcome.CHANGE, Engine.SATURATION)
    assert decision.desired.replicas > 3
    assert "contradicts what replicas did" in decision.engine_reason


def test_replicas_slower_than_expected_do_not_go(fleet: Any) -> None:
    variant = fleet.add()
    fleet.offer(6.0)
    fleet.fill(".10/0, .10/0, .10/0", **SIZED)
    assert fleet.desired() == {"llama": "1 x H100"}
    did(fleet, variant, completions=2.0, itl=0.03, wait=0.001)
    assert "ITL 10 ms expected, 30 ms measured" in told(fleet.decision())
    assert fleet.decision().desired.replicas == 3


def test_a_little_slower_is_not_contradicted(fleet: Any) -> None:
    variant = fleet.add()
    fleet.offer(6.0)
    did(fleet, variant, completions=2.0, itl=0.012, wait=0.001)
    assert fleet.desired() == {"llama": "1 x H100"}


def test_waiting_that_nobody_sees_is_told_with_both_numbers(fleet: Any, make: Any) -> None:
    fleet.set(service_classes=(make.service_class(ttft=SloTarget(limit_s=1.0)),))
    variant = fleet.add(profiles=(make.profile("H100", batch=5),))
    fleet.offer(20.0)
    fleet.fill(".30/0, .30/0, .30/0", **SIZED)
    did(fleet, variant, completions=6.7, itl=0.01, ttft=0.057)
    assert told(fleet.decision()).endswith("TTFT without end expected, 57 ms measured")


def test_nobody_shrinks_beside_a_contradicted_variant(fleet: Any) -> None:
    carries_more(fleet)
    fleet.add("other")
    fleet.fill(".05/0, .05/0, .05/0", "other", **SIZED)
    decisions = fleet.plan().decisions
    assert [each.hold.kind for each in decisions] == [HoldKind.PROFILE_CONTRADICTED] * 2


def test_what_was_proposed_on_it_does_not_stay_open(fleet: Any, make: Any) -> None:
    carries_more(fleet)
    fleet.propose(make.change("llama", "3 x H100", "8 x H100"))
    plan = fleet.plan()
    assert not plan.with_outcome(Outcome.CHANGE)
    assert [(group.kept_proposal, group.blocked) for group in plan.groups] == [(None, None)]


def test_after_a_move_what_agrees_with_the_old_accelerator_contradicts_nothing(fleet: Any, make: Any) -> None:
    carries_more(fleet, profiles=(make.profile("H100"), make.profile("A100", batch=40)))
    assert "H100 contradicts" in told(fleet.decision())
    fleet.committed_s = fleet.now_s - 600.0
    assert fleet.decision().hold is None
    # A commit that changed something else is no move.
    fleet.moved = frozenset()
    assert "H100 contradicts" in told(fleet.decision())
    fleet.moved = frozenset({fleet.decision().variant})
    assert fleet.decision().hold is None
