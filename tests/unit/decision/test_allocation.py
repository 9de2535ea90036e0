"""What is decided when everything is known: the cheapest candidate that meets the SLO, within its bounds."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import Outcome, VerdictKind
from reconciler.domain.snapshot import Form


def test_replicas_follow_the_demand(fleet: Any) -> None:
    fleet.add(replicas=3)
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    fleet.offer(31.0)
    assert fleet.desired() == {"llama": "4 x H100"}


def test_headroom_is_added_to_the_load(fleet: Any) -> None:
    fleet.add()
    fleet.default(headroom=0.5)
    fleet.offer(20.5)
    decision = fleet.decision()
    assert decision.desired.replicas == 4
    assert decision.demand == pytest.approx(30.75)


def test_the_built_in_headroom_is_a_fifth(fleet: Any) -> None:
    fleet.set(defaults={"serviceClass": fleet.settings.defaults["serviceClass"]})
    fleet.add()
    fleet.offer(9.0)
    assert fleet.decision().demand == pytest.approx(10.8)


def test_the_cheapest_accelerator_that_meets_the_slo_is_chosen(fleet: Any, make: Any) -> None:
    slow = make.profile("L4", 10, alpha_s=0.05)
    fleet.add(profiles=(make.profile("H100"), make.profile("A100"), slow))
    fleet.offer(25.0)
    decision = fleet.decision()
    assert fleet.desired() == {"llama": "3 x A100"}
    notes = [step.reason for step in decision.steps if step.stage == "options"]
    assert notes == ["not L4: even a lone request takes ITL 50 ms, the target is 20 ms"]


def test_accelerators_per_replica_multiply_the_price(fleet: Any, make: Any) -> None:
    fleet.add(profiles=(make.profile("H100"), make.profile("A100", accelerators_per_replica=2)))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    assert fleet.decision().cost_after_per_hour == 18.0


def test_a_batch_measured_at_a_length_shrinks_with_longer_requests(fleet: Any, make: Any) -> None:
    fleet.add(profiles=(make.profile("H100", 10, at_tokens=50),))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "6 x H100"}


@pytest.mark.parametrize(("least", "most", "expected"), [(5, None, 5), (None, 2, 2), (1, 8, 3)])
def test_bounds_hold(fleet: Any, least: int | None, most: int | None, expected: int) -> None:
    fleet.add(min_replicas=least, max_replicas=most)
    fleet.offer(25.0)
    assert fleet.decision().desired.replicas == expected


def test_a_bound_that_forbids_the_demand_is_named(fleet: Any) -> None:
    fleet.add(max_replicas=4, replicas=1)
    fleet.offer(100.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.CHANGE
    assert decision.steps[-2].reason == (
        "covers 39.96 of 100 req/s: maxReplicas 4 of llm/llama carries less than the demand"
    )


def test_a_minimum_of_zero_does_not_stop_a_loaded_variant(fleet: Any) -> None:
    fleet.add(min_replicas=0)
    fleet.offer(0.1)
    assert fleet.desired() == {"llama": "1 x H100"}


def test_every_change_needs_a_person(fleet: Any) -> None:
    fleet.add(replicas=1)
    fleet.offer(25.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.CHANGE
    assert decision.verdict.kind is VerdictKind.NEEDS_APPROVAL


def test_nothing_to_change_is_unchanged(fleet: Any) -> None:
    fleet.add(replicas=3)
    fleet.offer(25.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.UNCHANGED
    assert fleet.plan().groups[0].fingerprint == ""


def test_without_load_the_fewest_replicas_stay_where_they_are(fleet: Any, make: Any) -> None:
    fleet.add(replicas=5, min_replicas=2, profiles=(make.profile("H100"), make.profile("L4")))
    fleet.offer(0.0)
    decision = fleet.decision()
    assert fleet.desired() == {"llama": "2 x H100"}
    assert decision.steps[-2].reason == "no arrivals: the fewest replicas allowed"


@pytest.mark.parametrize(("running", "most", "expected"), [(5, None, 1), (1, None, 1), (0, None, 0), (5, 0, 0)])
def test_a_minimum_of_zero_does_not_stop_the_last_replica(
    fleet: Any, running: int, most: int | None, expected: int
) -> None:
    fleet.add(replicas=running, min_replicas=0, max_replicas=most)
    fleet.offer(0.0)
    assert fleet.decision().desired.replicas == expected


def test_variants_of_one_model_share_its_load(fleet: Any, make: Any) -> None:
    fleet.add("dear", form=Form.TARGET, profiles=(make.profile("H100"),), runs_on="H100", min_replicas=0)
    fleet.add("cheap", form=Form.TARGET, profiles=(make.profile("L4", 5),), runs_on="L4", max_replicas=4)
    fleet.offer(25.0)
    assert fleet.aim() == {"cheap": "4 x L4", "dear": "1 x H100"}


def test_a_held_variant_serves_its_model(fleet: Any, make: Any) -> None:
    fleet.add("held", replicas=2, annotations={"ignore": True})
    fleet.add("free", profiles=(make.profile("L4", 5),), runs_on="L4")
    fleet.offer(25.0)
    assert fleet.desired() == {"free": "2 x L4", "held": "[2 x H100]"}


def test_models_in_one_group_do_not_share_load(fleet: Any) -> None:
    fleet.add("a", replicas=1)
    fleet.add("b", replicas=1, model_id="qwen")
    fleet.offer(25.0)
    fleet.offer(5.0, "qwen")
    assert fleet.desired() == {"a": "3 x H100", "b": "1 x H100"}
    assert [group.name for group in fleet.plan().groups] == ["us-east/llm"]


def test_a_refused_change_pins_the_variant_and_the_others_make_up_for_it(fleet: Any, make: Any) -> None:
    fleet.add("a", replicas=1, max_replicas=9, runs_on="L4", profiles=(make.profile("L4"),))
    fleet.add("b", replicas=1)
    fleet.offer(25.0)
    assert fleet.desired() == {"a": "2 x L4", "b": "1 x H100"}
    refused = fleet.plan({make.key("a"): "cannot be written: an alias is in the way"})
    a, b = refused.decisions
    assert (a.outcome, a.desired.replicas, a.hold.words) == (
        Outcome.HELD,
        1,
        "cannot be written: an alias is in the way",
    )
    assert b.desired.replicas == 2


def test_totals_sum_all_variants(fleet: Any) -> None:
    fleet.add("a", replicas=1)
    fleet.add("b", replicas=2, model_id="qwen", annotations={"ignore": True})
    fleet.offer(25.0)
    fleet.offer(1.0, "qwen")
    totals = fleet.plan().totals
    assert (totals.cost_before_per_hour, totals.cost_after_per_hour) == (18.0, 30.0)


def test_the_objective_inferno_charges_for_leaving_an_accelerator(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, A100=5.5)
    fleet.default(payback=86400.0)
    fleet.add(profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x A100"}
    fleet.set(objective="inferno")
    assert fleet.desired() == {"llama": "3 x H100"}
    fleet.price(H100=6.0, A100=4.0)
    assert fleet.desired() == {"llama": "3 x A100"}


def test_the_objective_inferno_compares_equals_where_the_current_price_is_unknown(fleet: Any, make: Any) -> None:
    fleet.price(H100=None, A100=4.0, L4=1.0)
    fleet.set(objective="inferno")
    fleet.add(replicas=2, variant_cost=40.0, profiles=(make.profile("A100"), make.profile("L4", 2)))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x A100"}


def test_free_accelerators_are_free_and_not_of_unknown_price(fleet: Any, make: Any) -> None:
    fleet.price(H100=0.0, A100=4.0)
    fleet.set(objective="inferno")
    fleet.add(replicas=3, profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    assert fleet.plan().totals.cost_after_per_hour == 0.0


def test_the_plan_does_not_depend_on_the_order_of_declarations(fleet: Any, make: Any) -> None:
    for name in ("c", "a", "b"):
        fleet.add(name, replicas=2, profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(50.0)
    plan = fleet.plan()
    fleet.resources.reverse()
    fleet.workloads.reverse()
    fleet.observations = dict(reversed(fleet.observations.items()))
    assert repr(fleet.plan()) == repr(plan)


def test_no_capacity_is_claimed_for_a_model_that_shares_limits_with_nobody(fleet: Any) -> None:
    fleet.add()
    fleet.offer(25.0)
    plan = fleet.plan()
    assert (plan.solver, plan.gap) == ("separable", 0.0)
    assert "accelerators unlimited, so scarcity was not considered" in plan.assumptions


def test_a_plan_says_of_which_types_nobody_knows_the_number(fleet: Any, make: Any) -> None:
    fleet.add(profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    fleet.stock(H100=None, A100=None)
    assert fleet.plan().assumptions[-1] == "accelerators unlimited, so scarcity was not considered"
    fleet.stock(H100=8, A100=None, L4=None)
    assert "us-east/A100 unlimited, as it is not known how many there are" in fleet.plan().assumptions
    fleet.stock(H100=8, A100=8)
    assert [words for words in fleet.plan().assumptions if "unlimited" in words or "held" in words] == []


def test_a_plan_says_where_nobody_knows_what_others_hold(fleet: Any) -> None:
    fleet.add()
    fleet.offer(25.0)
    fleet.stock(others=None, H100=8)
    assert "nothing is held by others in us-east, where it is not known" in fleet.plan().assumptions


def test_a_resource_with_its_own_profiles_ignores_those_of_the_configuration(fleet: Any, make: Any) -> None:
    fleet.model(profiles=(make.profile("L4"),))
    fleet.add(profiles=(make.profile("H100"),))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    fleet.resources[0] = replace(fleet.resources[0], profiles=())
    assert fleet.desired() == {"llama": "3 x L4"}
