"""Where there are fewer devices than the models ask for: who gets them, who waits, and who is held."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import Outcome


def allocation_reason(fleet: Any, name: str) -> Any:
    """Why a variant got what it got."""
    return next(step.reason for step in fleet.decision(name).steps if step.stage == "allocation")


@pytest.fixture
def rivals(fleet: Any) -> Any:
    """Two models in a group each, which want three H100 each."""
    for name in ("first", "second"):
        fleet.add(name, replicas=1, model_id=name, annotations={"group": name})
        fleet.offer(25.0, name)
    return fleet


def test_where_there_is_room_the_pool_changes_nothing(rivals: Any) -> None:
    rivals.stock(H100=6)
    assert rivals.desired() == {"first": "3 x H100", "second": "3 x H100"}
    assert rivals.plan().solver == "separable"


def test_a_type_that_nobody_counted_is_unlimited(rivals: Any) -> None:
    rivals.stock(H100=None)
    assert rivals.desired() == {"first": "3 x H100", "second": "3 x H100"}


def test_equals_share_what_there_is(rivals: Any) -> None:
    rivals.stock(H100=4)
    assert rivals.desired() == {"first": "2 x H100", "second": "2 x H100"}
    words = "covers 19.98 of 25 req/s: us-east/H100 has no room for one more replica"
    assert allocation_reason(rivals, "first") == words


def test_what_others_hold_is_not_there(rivals: Any) -> None:
    rivals.stock(H100=10, others=6)
    assert rivals.desired() == {"first": "2 x H100", "second": "2 x H100"}


def test_the_more_urgent_is_served_first(rivals: Any) -> None:
    rivals.prioritise("second", 10)
    rivals.stock(H100=4)
    assert rivals.desired() == {"first": "1 x H100", "second": "3 x H100"}
    assert rivals.plan().solver == "columns"


def test_who_is_less_urgent_than_nothing_goes_without(rivals: Any) -> None:
    rivals.prioritise("first", -1)
    rivals.stock(H100=3)
    assert rivals.aim() == {"first": "0 x H100", "second": "3 x H100"}


def test_a_floor_that_is_written_stays(fleet: Any) -> None:
    fleet.add("first", replicas=1, model_id="first", min_replicas=1)
    fleet.add("second", replicas=1, model_id="second")
    for name in ("first", "second"):
        fleet.offer(25.0, name)
    fleet.prioritise("first", -1)
    fleet.stock(H100=3)
    assert fleet.desired() == {"first": "1 x H100", "second": "2 x H100"}


def test_what_another_group_must_free_first_is_waited_for(rivals: Any) -> None:
    rivals.prioritise("second", 10)
    rivals.set_replicas("first", 3)
    rivals.stock(H100=4)
    assert rivals.desired() == {"first": "1 x H100", "second": "1 x H100"}
    words = "waits until other pull requests free devices of us-east/H100: 3 x H100 is planned"
    assert allocation_reason(rivals, "second") == words
    assert rivals.aim() == {"first": "1 x H100", "second": "3 x H100"}


def test_inside_one_pull_request_what_goes_makes_room(fleet: Any) -> None:
    fleet.add("first", replicas=3, model_id="first")
    fleet.add("second", replicas=1, model_id="second")
    for name in ("first", "second"):
        fleet.offer(25.0, name)
    fleet.prioritise("second", 10)
    fleet.stock(H100=4)
    assert fleet.desired() == {"first": "1 x H100", "second": "3 x H100"}


def test_a_move_makes_no_room_before_it_is_over(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, A100=1.0)
    fleet.add("mover", replicas=3, model_id="mover", profiles=(make.profile("H100"), make.profile("A100")))
    fleet.add("grower", replicas=1, model_id="grower")
    fleet.offer(25.0, "mover")
    fleet.offer(25.0, "grower")
    fleet.stock(H100=4, A100=3)
    assert fleet.desired() == {"mover": "3 x A100", "grower": "1 x H100"}
    words = "waits until what moves away frees devices of us-east/H100: 3 x H100 is planned"
    assert allocation_reason(fleet, "grower") == words
    assert fleet.aim() == {"mover": "3 x A100", "grower": "3 x H100"}


def test_nobody_moves_into_what_the_other_leaves(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, A100=5.0)
    either = (make.profile("H100"), make.profile("A100"))
    fleet.add("first", replicas=3, model_id="first", profiles=either, annotations={"accelerator": "A100"})
    fleet.add(
        "second", replicas=3, runs_on="A100", model_id="second", profiles=either, annotations={"accelerator": "H100"}
    )
    fleet.offer(25.0, "first")
    fleet.offer(25.0, "second")
    fleet.stock(H100=3, A100=3)
    assert fleet.desired() == {"first": "3 x H100", "second": "3 x A100"}
    assert fleet.plan().with_outcome(Outcome.CHANGE) == ()


def test_what_an_open_pull_request_takes_is_taken(rivals: Any, make: Any) -> None:
    rivals.set_replicas("first", 3)
    rivals.offer(15.0, "first")
    rivals.propose(make.change("second", "1 x H100", "3 x H100"), group="second")
    rivals.stock(H100=5)
    assert rivals.desired() == {"first": "2 x H100", "second": "2 x H100"}


def test_a_model_moves_to_what_is_left(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, A100=7.0)
    fleet.add(replicas=1, profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    fleet.stock(H100=2, A100=8)
    assert fleet.desired() == {"llama": "3 x A100"}


def test_lower_bounds_that_do_not_fit_hold_only_their_models(fleet: Any) -> None:
    fleet.add("first", replicas=1, model_id="first", min_replicas=4)
    fleet.add("second", replicas=1, model_id="second", min_replicas=4)
    fleet.add("third", replicas=1, model_id="third")
    for name in ("first", "second", "third"):
        fleet.offer(15.0, name)
    fleet.stock(H100=6)
    plan = fleet.plan()
    held = {each.variant.name for each in plan.with_outcome(Outcome.HELD)}
    assert held == {"first", "second"}
    assert fleet.decision("first").hold.words == (
        "minReplicas 4 of llm/first and minReplicas 4 of llm/second and "
        "us-east/H100 with 6 left for the 8 that they take cannot all hold"
    )
    assert fleet.decision("third").desired.replicas == 2


def test_nothing_at_all_leaves_what_runs_to_the_urgent(rivals: Any) -> None:
    rivals.prioritise("second", 10)
    for each in rivals.resources:
        each.settings.pop("min-replicas", None)
    rivals.stock(H100=0)
    assert {each.outcome for each in rivals.plan().decisions} == {Outcome.HELD}


def test_the_priority_of_the_service_class_counts_where_no_objective_says_any(rivals: Any, make: Any) -> None:
    urgent, usual = (make.service_class(name, priority=level) for name, level in (("urgent", 5), ("usual", 0)))
    rivals.set(service_classes=(*rivals.settings.service_classes, urgent, usual))
    rivals.override({"name": "first"}, serviceClass="usual")
    rivals.override({"name": "second"}, serviceClass="urgent")
    rivals.stock(H100=4)
    assert rivals.desired() == {"first": "1 x H100", "second": "3 x H100"}


def test_a_third_variant_is_not_mixed_in_where_requests_are_spread_evenly(fleet: Any, make: Any) -> None:
    for name, accelerator in (("a", "H100"), ("b", "A100"), ("c", "L4")):
        profiles = (make.profile(accelerator),)
        fleet.add(name, replicas=0, runs_on=accelerator, profiles=profiles, min_replicas=0, max_replicas=1)
    fleet.offer(25.0)
    assert sorted(fleet.desired().values()) == ["0 x H100", "1 x A100", "1 x L4"]


def test_what_devices_do_not_admit_is_not_waited_for(fleet: Any, make: Any) -> None:
    fields = {"min_replicas": 0, "model_id": "meta/llama-8b"}
    fleet.add("one", replicas=3, annotations={"group": "one"}, **fields)
    fleet.add("two", replicas=0, runs_on="L4", profiles=(make.profile("L4"),), annotations={"group": "two"}, **fields)
    fleet.offer(25.0)
    fleet.stock(H100=2, L4=0)
    assert fleet.desired() == {"one": "2 x H100", "two": "0 x L4"}


@pytest.fixture
def owned(fleet: Any) -> Any:
    """A model that wants three H100, beside one that a stranger set to four, with two in Git."""
    fleet.add("theirs", replicas=2, model_id="theirs")
    fleet.add("ours", replicas=1, model_id="ours")
    fleet.offer(15.0, "theirs")
    fleet.offer(25.0, "ours")
    fleet.stock(H100=6)
    return fleet


def test_what_runs_beyond_git_is_nobody_elses(owned: Any) -> None:
    assert owned.desired()["ours"] == "3 x H100"
    owned.watch([4.0] * 13, "theirs")
    assert owned.desired() == {"theirs": "[2 x H100]", "ours": "2 x H100"}
    words = "more of its replicas run than Git says: the 2 of us-east/H100 that they take are not free for others"
    assert words in [step.reason for step in owned.decision("theirs").steps]


def test_nobody_is_shrunk_for_what_runs_beyond_git(owned: Any) -> None:
    owned.set_replicas("ours", 3)
    owned.watch([9.0] * 13, "theirs")
    assert owned.desired()["ours"] == "3 x H100"


@pytest.mark.parametrize(("others", "ours"), [(0, "3 x H100"), (None, "2 x H100")])
def test_what_pods_tell_already_is_not_counted_twice(fleet: Any, make: Any, others: int | None, ours: str) -> None:
    fleet.add("theirs", replicas=2, model_id="theirs", annotations={"ignore": True})
    fleet.add("ours", replicas=1, model_id="ours")
    fleet.offer(15.0, "theirs")
    fleet.offer(25.0, "ours")
    fleet.stock(H100=6, others=others)
    fleet.observations[make.key("theirs")] = replace(fleet.observations[make.key("theirs")], replicas_reporting=4)
    assert fleet.desired()["ours"] == ours


def test_the_most_urgent_takes_what_is_free_before_others_have_merged(fleet: Any, make: Any) -> None:
    fleet.price(A100=4.0)
    for name, replicas in (("a", 1), ("b", 1), ("c", 3)):
        fleet.add(
            name,
            replicas=replicas,
            runs_on="A100",
            model_id=name,
            profiles=(make.profile("A100", 10),),
            annotations={"group": name},
            min_replicas=0,
        )
    for model, rate in (("a", 15.0), ("b", 15.0), ("c", 15.0)):
        fleet.offer(rate, model)
    fleet.prioritise("b", 10)
    fleet.stock(A100=6)

    plan = fleet.plan()

    assert {each.variant.name: each.desired.replicas for each in plan.decisions} == {"a": 1, "b": 2, "c": 2}


def test_what_was_cut_is_given_back_where_it_fits_all_the_same(fleet: Any, make: Any) -> None:
    fleet.price(A100=4.0)
    for name, replicas, devices, group in (("a", 1, 1, "ours"), ("b", 0, 2, "ours"), ("c", 5, 1, "theirs")):
        fleet.add(
            name,
            replicas=replicas,
            runs_on="A100",
            model_id=name,
            profiles=(make.profile("A100", 10),),
            annotations={"group": group},
            workload={"devices": {"nvidia.com/gpu": devices}},
            min_replicas=0,
        )
    for model, rate in (("a", 15.0), ("b", 5.0), ("c", 15.0)):
        fleet.offer(rate, model)
    fleet.stock(A100=7)

    plan = fleet.plan()

    assert {each.variant.name: each.desired.replicas for each in plan.decisions} == {"a": 2, "b": 0, "c": 2}
