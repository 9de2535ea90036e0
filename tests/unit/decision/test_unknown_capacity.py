"""What one variant carries decides what the others must: while it is unknown they are held."""

from typing import Any

import pytest

from reconciler.domain.plan import Outcome
from reconciler.domain.snapshot import Form

SHARES = "shares its model's load with llm/other, whose capacity is unknown: "


def assert_sibling_held(fleet: Any, because: str) -> None:
    decision = fleet.decision("llama")
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == SHARES + because
    assert decision.desired == decision.current


@pytest.fixture
def shared(fleet: Any) -> Any:
    """A variant that could be sized by a queue, if only it were alone."""
    fleet.default(engine="queueing")
    fleet.add("llama", replicas=9)
    fleet.offer(25.0)
    return fleet


def test_an_unknown_accelerator_holds_the_siblings(shared: Any, make: Any) -> None:
    shared.add("other", runs_on="", profiles=(make.profile("H100"), make.profile("L4")))
    assert_sibling_held(
        shared,
        "accelerator unknown: no node selector, affinity or label inference.optimization/acceleratorName "
        "says what it runs on",
    )


def test_a_sibling_without_profile_holds_the_others(shared: Any) -> None:
    shared.add("other", form=Form.TARGET, runs_on="A100")
    assert_sibling_held(shared, "queueing needs a profile: give one under models[].profiles, or learn it by fit")


def test_nothing_that_runs_carries_nothing(shared: Any) -> None:
    shared.add("other", replicas=0, form=Form.TARGET, runs_on="A100")
    assert shared.desired() == {"llama": "3 x H100", "other": "[0 x A100]"}


def test_replicas_that_git_does_not_tell_hold_the_siblings(shared: Any) -> None:
    shared.add("other", replicas=None)
    assert shared.decision("llama").hold.words.startswith(SHARES + "Deployment llm/other has no spec.replicas")


def test_a_scale_target_that_is_not_in_git_holds_the_siblings(shared: Any) -> None:
    shared.add("other", has_workload=False)
    assert_sibling_held(shared, "scale target Deployment llm/other is not in Git")


def test_a_held_variant_on_an_accelerator_without_profile_holds_the_siblings(shared: Any, make: Any) -> None:
    shared.add("other", runs_on="A100", profiles=(make.profile("H100"),), annotations={"ignore": True})
    assert_sibling_held(shared, "A100 has no profile")


def test_a_stuck_variant_on_an_accelerator_without_profile_holds_the_siblings(shared: Any, make: Any) -> None:
    shared.set(accelerators=(*shared.settings.accelerators, make.accelerator("B200", 1.0, node_selector={})))
    shared.add("other", runs_on="A100", profiles=(make.profile("B200"),))
    assert_sibling_held(shared, "A100 has no profile")
    assert shared.decision("other").hold.words.startswith("no accelerator can be chosen: B200: the nodes of B200")


def test_a_variant_that_leaves_an_accelerator_without_profile_holds_nobody(shared: Any, make: Any) -> None:
    shared.add("other", runs_on="A100", profiles=(make.profile("L4"),), min_replicas=0, replicas=1)
    assert shared.aim() == {"llama": "1 x H100", "other": "2 x L4"}


def test_a_held_variant_whose_setting_names_another_accelerator_is_sized_where_it_runs(shared: Any, make: Any) -> None:
    profiles = (make.profile("H100"), make.profile("A100"))
    shared.add("other", runs_on="A100", replicas=2, profiles=profiles, annotations={"accelerator": "H100"})
    plan = shared.plan({make.key("other"): "cannot be written"})
    assert [each.desired.replicas for each in plan.decisions] == [1, 2]


def test_a_variant_whose_only_allowed_accelerator_has_no_profile_is_sized_where_it_runs(shared: Any) -> None:
    shared.add("other", replicas=2, annotations={"accelerator": "B200"})
    assert shared.desired() == {"llama": "1 x H100", "other": "[2 x H100]"}


def test_an_unattainable_sibling_carries_nothing_inside_the_slo(shared: Any, make: Any) -> None:
    shared.add("other", form=Form.TARGET, profiles=(make.profile("H100", alpha_s=0.05),))
    assert shared.desired() == {"llama": "3 x H100", "other": "[3 x H100]"}


def test_another_model_is_not_held(shared: Any, make: Any) -> None:
    shared.add("other", model_id="qwen", profiles=(make.profile("H100", gamma_s=0.01),))
    shared.offer(25.0, "qwen")
    assert shared.desired()["llama"] == "3 x H100"
