"""Each group's pull request leaves its models served if it is merged alone."""

from dataclasses import replace
from typing import Any

import pytest


@pytest.fixture
def shared(fleet: Any, make: Any) -> Any:
    """One model on a dear and a cheap accelerator, each proposed in a pull request of its own."""
    fields = {"min_replicas": 0, "model_id": "meta/llama-8b"}
    fleet.add("dear", replicas=3, annotations={"group": "one"}, **fields)
    profiles = (make.profile("L4"),)
    fleet.add("cheap", replicas=0, runs_on="L4", profiles=profiles, annotations={"group": "two"}, **fields)
    fleet.offer(25.0)
    return fleet


def test_the_old_is_not_drained_before_the_new_can_serve(shared: Any) -> None:
    assert shared.desired() == {"cheap": "3 x L4", "dear": "3 x H100"}
    reason = "waits until the new replicas of llm/cheap serve: the load is 25 req/s now, 0 x H100 is planned"
    assert shared.decision("dear").steps[-1].reason == reason
    shared.merge()
    assert shared.desired() == {"cheap": "3 x L4", "dear": "0 x H100"}
    shared.merge()
    assert shared.desired() == {"cheap": "3 x L4", "dear": "0 x H100"}


def test_also_within_one_pull_request_the_new_serves_first(shared: Any) -> None:
    for resource in shared.resources:
        resource.settings.pop("group")
    assert shared.desired() == {"cheap": "3 x L4", "dear": "3 x H100"}
    assert shared.aim() == {"cheap": "3 x L4", "dear": "0 x H100"}


def test_what_serves_already_need_not_be_waited_for(shared: Any) -> None:
    shared.offer(15.0)
    assert shared.desired() == {"cheap": "2 x L4", "dear": "2 x H100"}
    assert shared.aim() == {"cheap": "2 x L4", "dear": "0 x H100"}


def test_who_reports_is_who_serves(shared: Any, make: Any) -> None:
    shared.merge()
    shared.observations[make.key("cheap")] = replace(shared.observations[make.key("cheap")], replicas_reporting=1)
    assert shared.desired() == {"cheap": "3 x L4", "dear": "2 x H100"}


def test_what_is_left_over_goes_at_once(shared: Any) -> None:
    shared.add("idle", replicas=9, annotations={"group": "three"}, min_replicas=0)
    assert shared.desired() == {"cheap": "3 x L4", "dear": "3 x H100", "idle": "0 x H100"}
    assert shared.aim() == {"cheap": "3 x L4", "dear": "0 x H100", "idle": "0 x H100"}


def test_without_load_everything_shrinks(shared: Any) -> None:
    shared.offer(0.0)
    assert shared.desired() == {"cheap": "0 x L4", "dear": "1 x H100"}


def test_the_old_goes_one_by_one_where_devices_are_few(shared: Any, make: Any) -> None:
    shared.add("newer", replicas=1, profiles=(make.profile("H100", 30),), annotations={"group": "two"}, min_replicas=0)
    shared.resources = [each for each in shared.resources if each.key.name != "cheap"]
    shared.stock(H100=4)
    shared.offer(45.0)
    assert shared.desired() == {"dear": "2 x H100", "newer": "1 x H100"}
    assert shared.decision("newer").waiting.words.startswith("waits until other pull requests free devices")
    shared.merge()
    assert shared.desired() == {"dear": "2 x H100", "newer": "2 x H100"}
    shared.merge()
    assert shared.desired() == {"dear": "0 x H100", "newer": "2 x H100"}


def test_who_waits_for_each_other_is_told_so(fleet: Any, make: Any) -> None:
    for name, replicas, batch in (("old", 3, 10), ("new", 0, 15)):
        profiles, group = (make.profile("H100", batch),), {"group": name}
        fleet.add(name, replicas=replicas, profiles=profiles, annotations=group, min_replicas=0)
    fleet.offer(28.0)
    fleet.stock(H100=3)
    assert fleet.desired() == {"new": "0 x H100", "old": "3 x H100"}
    words = "waits for devices of us-east/H100, which no pull request frees: 2 x H100 is planned"
    assert fleet.decision("new").waiting.words == words


def test_groups_that_give_way_leave_enough_together(fleet: Any, make: Any) -> None:
    fields = {"min_replicas": 0, "model_id": "meta/llama-8b"}
    for name in ("one", "two"):
        fleet.add(name, replicas=3, annotations={"group": name}, **fields)
    fleet.add("new", replicas=4, runs_on="L4", profiles=(make.profile("L4"),), annotations={"group": "new"}, **fields)
    fleet.default(headroom=0.3)
    fleet.offer(49.0)
    fleet.stock(H100=6, L4=6)
    assert fleet.desired() == {"new": "6 x L4", "one": "0 x H100", "two": "3 x H100"}
    words = "waits until new, one is merged: of all that give way 49.95 would be left of 63.7 req/s"
    assert fleet.decision("two").waiting.words == words
