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
