"""The setting `accelerator`, what Git cannot say, and what a missing price does."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import Outcome
from reconciler.domain.snapshot import Form
from reconciler.domain.workloads import PodPlace
from reconciler.domain.written import EntryPlace
from reconciler.resources.variants import ListedCost

PRODUCT = "nvidia.com/gpu.product"


def options_notes(fleet: Any) -> list[str]:
    return [step.reason for step in fleet.decision().steps if step.stage == "options"]


@pytest.fixture
def three(fleet: Any, make: Any) -> Any:
    """A variant on A100, with profiles in the order H100, A100, L4, which is the dearest first."""
    fleet.add(runs_on="A100", profiles=(make.profile("H100"), make.profile("A100"), make.profile("L4")))
    fleet.offer(25.0)
    return fleet


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("choose", "3 x L4"), ("keep", "3 x A100"), ("in-order", "3 x H100"), ("H100", "3 x H100"), ("h100", "3 x H100")],
)
def test_the_setting_decides_what_may_be_chosen(three: Any, setting: str, expected: str) -> None:
    three.default(accelerator=setting)
    assert three.desired() == {"llama": expected}


def test_in_order_takes_the_first_that_meets_the_slo_and_can_be_written(fleet: Any, make: Any) -> None:
    slow = make.profile("A100", alpha_s=0.05)
    fleet.price(A100=4.0, H100=6.0)
    fleet.default(accelerator="in-order")
    fleet.add(runs_on="A100", profiles=(slow, make.profile("MI300X"), make.profile("H100"), make.profile("L4")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    assert fleet.decision().steps[-2].reason == "the first candidate in order: ceil(25 / 9.99)"


def test_in_order_needs_no_price(three: Any) -> None:
    three.default(accelerator="in-order")
    three.price(H100=None, A100=4.0, L4=None)
    assert three.desired() == {"llama": "3 x H100"}


def test_a_named_accelerator_needs_no_price(three: Any) -> None:
    three.default(accelerator="L4")
    three.price(H100=6.0, A100=4.0, L4=None)
    assert three.desired() == {"llama": "3 x L4"}


def test_a_named_accelerator_shows_what_leaving_the_current_one_changes(three: Any) -> None:
    three.default(accelerator="H100")
    decision = three.decision()
    assert decision.capacity_before == pytest.approx(29.97)
    assert (decision.cost_before_per_hour, decision.cost_after_per_hour) == (12.0, 18.0)
    assert options_notes(three) == ["not A100: only H100 is allowed (reconciler.yaml:70)"]


def test_a_named_accelerator_without_profile_is_held(three: Any) -> None:
    three.default(accelerator="B200")
    decision = three.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == "accelerator B200 (reconciler.yaml:70) has no profile"


def test_a_resource_that_names_a_target_keeps_its_accelerator(fleet: Any, make: Any) -> None:
    fleet.add(runs_on="A100", form=Form.TARGET, profiles=(make.profile("A100"), make.profile("L4")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x A100"}
    fleet.default(accelerator="L4")
    assert fleet.desired() == {"llama": "3 x L4"}


def test_another_vendors_accelerator_is_not_chosen(fleet: Any, make: Any) -> None:
    amd = make.accelerator("MI300X", 0.5, resource="amd.com/gpu", node_selector={"amd.com/gpu.product-name": "MI300X"})
    fleet.set(accelerators=(*fleet.settings.accelerators, amd))
    fleet.add(profiles=(make.profile("H100"), make.profile("MI300X")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    assert options_notes(fleet) == [
        (
            "not MI300X: MI300X is requested as amd.com/gpu, the containers request nvidia.com/gpu: "
            "another vendor needs another image"
        )
    ]


def test_an_accelerator_whose_nodes_are_not_known_is_not_chosen(fleet: Any, make: Any) -> None:
    fleet.set(accelerators=(make.accelerator("H100", 6.0), make.accelerator("L4", 1.0, node_selector={})))
    fleet.add(profiles=(make.profile("H100"), make.profile("L4")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    assert options_notes(fleet) == ["not L4: the nodes of L4 are not known: set accelerators[].nodeSelector"]


def test_where_nothing_that_meets_the_slo_can_be_written_the_variant_is_held(fleet: Any, make: Any) -> None:
    fleet.set(accelerators=(make.accelerator("H100", 6.0), make.accelerator("L4", 1.0, node_selector={})))
    fleet.add(profiles=(make.profile("H100", alpha_s=0.05), make.profile("L4")))
    fleet.offer(25.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == (
        "no accelerator can be chosen: H100: even a lone request takes ITL 50 ms, the target is 20 ms; "
        "L4: the nodes of L4 are not known: set accelerators[].nodeSelector"
    )


def test_a_missing_price_keeps_the_accelerator(three: Any) -> None:
    three.price(H100=6.0, A100=4.0, L4=None)
    assert three.desired() == {"llama": "3 x A100"}
    assert options_notes(three) == ["cost of L4 is unknown: the accelerator is kept"]


def test_a_missing_price_keeps_the_accelerator_of_a_sibling_too(three: Any, make: Any) -> None:
    three.add("other", runs_on="V100", profiles=(make.profile("V100"),), min_replicas=1, max_replicas=1)
    assert three.desired() == {"llama": "2 x A100", "other": "1 x V100"}


def test_a_missing_price_is_no_obstacle_when_the_option_is_out_of_the_question(fleet: Any, make: Any) -> None:
    fleet.price(A100=4.0, L4=None, H100=3.0)
    slow = make.profile("L4", alpha_s=0.05)
    fleet.add(runs_on="A100", profiles=(make.profile("A100"), slow, make.profile("H100")))
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}


def test_an_accelerator_of_unknown_price_is_not_moved_to_even_for_an_slo(fleet: Any, make: Any) -> None:
    fleet.price(A100=4.0, H100=None)
    fleet.add(runs_on="A100", profiles=(make.profile("A100", alpha_s=0.05), make.profile("H100")))
    fleet.offer(25.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == (
        "no accelerator can be chosen: cost of H100 is unknown; "
        "not A100: even a lone request takes ITL 50 ms, the target is 20 ms: set accelerators[].costPerHour"
    )


def test_relative_cost_ranks_variants_of_a_model_while_a_price_is_missing(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0)
    fields = {"form": Form.TARGET, "replicas": 1, "min_replicas": 0}
    fleet.add("a", runs_on="H100", profiles=(make.profile("H100"),), variant_cost=20.0, **fields)
    fleet.add("b", runs_on="L4", profiles=(make.profile("L4"),), variant_cost=5.0, **fields)
    fleet.offer(25.0)
    assert fleet.aim() == {"a": "0 x H100", "b": "3 x L4"}
    fleet.price(H100=0.5, L4=5.0)
    assert fleet.aim() == {"a": "3 x H100", "b": "0 x L4"}


def test_a_relative_cost_that_is_not_written_is_that_of_upstream(fleet: Any, make: Any) -> None:
    fleet.set(accelerators=())
    fleet.default(payback=86400.0)
    fields = {"form": Form.TARGET, "replicas": 1, "min_replicas": 0}
    fleet.add("a", runs_on="H100", profiles=(make.profile("H100"),), **fields)
    fleet.add("b", runs_on="L4", profiles=(make.profile("L4"),), variant_cost=11.0, **fields)
    fleet.offer(25.0)
    assert fleet.aim() == {"a": "3 x H100", "b": "0 x L4"}


def test_totals_are_unknown_while_a_price_is_missing(fleet: Any) -> None:
    fleet.price(H100=None)
    fleet.add()
    fleet.offer(25.0)
    plan = fleet.plan()
    assert (plan.totals.cost_before_per_hour, plan.totals.cost_after_per_hour) == (None, None)
    assert "cost of 1 of 1 variants unknown" in plan.assumptions


def test_a_price_in_a_config_map_fills_what_the_configuration_leaves_open(fleet: Any, make: Any) -> None:
    fleet.price(H100=None, A100=4.0)
    here = make.place("costs.yaml", 4)
    fleet.listed_costs = [
        ListedCost(accelerator="H100", cost_per_hour=1.0, device_label="", place=here),
        ListedCost(accelerator="A100", cost_per_hour=9.0, device_label="", place=here),
    ]
    fleet.add(profiles=(make.profile("H100"), make.profile("A100")))
    prices = {option.accelerator: (option.cost_per_hour, option.cost_place) for option in fleet.variant().options}
    assert prices == {"H100": (1.0, here), "A100": (4.0, None)}


def held_options(fleet: Any, **fields: Any) -> list[str]:
    fleet.workloads[0] = replace(fleet.workloads[0], **fields)
    return options_notes(fleet)


def test_whatever_kind_has_pod_templates_may_move(three: Any) -> None:
    key = replace(three.workloads[0].key, kind="StatefulSet")
    three.resources[0] = replace(three.resources[0], target_kind="StatefulSet")
    assert held_options(three, key=key) == []
    assert three.desired() == {"llama": "3 x L4"}


def test_pods_that_nobody_wrote_stay_where_they_are(three: Any) -> None:
    assert "the placement of a Deployment cannot be written" in held_options(three, pods=())[0]


def test_a_worker_that_takes_no_node_selector_stays_where_it_is(three: Any) -> None:
    pods = (PodPlace(path=("spec", "workers", 0), unplaceable="its worker has no nodeSelector"),)
    assert "its worker has no nodeSelector (" in held_options(three, pods=pods)[0]


def test_a_node_label_that_only_the_old_accelerator_has_would_stay(fleet: Any, make: Any) -> None:
    pool = make.accelerator("A100", 4.0, node_selector={PRODUCT: "A100", "pool": "slow"})
    fleet.set(accelerators=(*(each for each in fleet.settings.accelerators if each.name != "A100"), pool))
    fleet.add(runs_on="A100", profiles=(make.profile("A100"), make.profile("L4")))
    fleet.offer(25.0)
    labels = {PRODUCT: "A100", "pool": "slow"}
    pods = (PodPlace(path=("spec", "template", "spec"), node_selector=labels),)
    (note,) = held_options(fleet, node_selector=labels, pods=pods)
    assert "nodeSelector pool of A100 would stay: give L4 one in accelerators[]" in note


def test_a_label_that_has_no_place_keeps_the_accelerator(three: Any) -> None:
    nowhere = EntryPlace(reason="base/variant.yaml is built into 2 objects")
    three.resources[0] = replace(three.resources[0], labels_at=nowhere)
    assert (
        "its label inference.optimization/acceleratorName cannot be written: base/variant.yaml"
        in options_notes(three)[0]
    )
