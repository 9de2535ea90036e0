"""Which pull requests are worth opening."""

import numpy as np
import pytest

from reconciler.decision.decide import solve
from reconciler.decision.worth import worth_opening
from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import Part
from reconciler.domain.settings import PullRequestSettings, Worth
from reconciler.simulation.through_git import asked_by
from tests.unit.decision.conftest import Fleet, Make


def opened(fleet: Fleet, worth: Worth | None = None) -> list[GroupPlan]:
    """The pull requests with changes."""
    fleet.set(pull_requests=PullRequestSettings(worth=worth))
    solved = solve(fleet.snapshot(), {})
    return [each for each in worth_opening(solved.situation, solved.plan_of(solved.staged).groups) if each.changes]


def with_replicas(fleet: Fleet, **needs: tuple[int, int]) -> Fleet:
    """Models that have so many replicas and need so many; a replica carries 9.99 req/s, and 20 % are asked beyond."""
    fleet.default(headroom=0.2)
    for name, (has, needs_now) in needs.items():
        fleet.add(name, model_id=name, replicas=has)
        rate = 9.99 * (needs_now - 0.5) / 1.2
        fleet.offer(rate, name)
        fleet.remember(*[rate] * 61, model_id=name)
    return fleet


def test_few_replicas_of_a_large_group_wait_and_more_go_together(fleet: Fleet) -> None:
    with_replicas(fleet, a=(100, 101), b=(100, 95))
    assert all(each.blocked is None for each in opened(fleet))
    asked = "pullRequests.worth asks for more than 4 missing or 8 too many"
    assert [each.put_back for each in opened(fleet, Worth())] == [
        f"2 of 200 replicas are missing, 0 too many: {asked}",
        f"0 of 200 replicas are missing, 4 too many: {asked}",
    ]
    assert [each.put_back == "" for each in opened(fleet, Worth(short=0.009, over=0.5, replicas=0))] == [True, False]
    assert [each.put_back == "" for each in opened(fleet, Worth(short=0.5, over=0.019, replicas=0))] == [False, True]


def test_a_group_of_a_hundred_waits_for_four_and_a_small_one_for_what_changes_it(fleet: Fleet) -> None:
    whole = np.array([4.0, 30.0, 60.0, 100.0, 150.0, 1000.0])
    missing, spare = asked_by(Worth(), whole)
    assert missing.tolist() == pytest.approx([0.2, 1.5, 3.0, 3.0, 3.0, 20.0])
    assert spare.tolist() == pytest.approx([0.4, 3.0, 6.0, 6.0, 6.0, 40.0])
    with_replicas(fleet, a=(50, 52), b=(50, 50))
    asked = "pullRequests.worth asks for more than 3 missing or 6 too many"
    assert [each.put_back for each in opened(fleet, Worth())] == [f"3 of 100 replicas are missing, 0 too many: {asked}"]
    assert [each.put_back for each in opened(fleet, Worth(replicas=2))] == [""]


def test_what_runs_short_now_never_waits(fleet: Fleet) -> None:
    with_replicas(fleet, a=(100, 130), b=(400, 401))
    assert all(each.blocked is None for each in opened(fleet, Worth(short=0.5)))


def test_a_pull_request_that_is_open_carries_all_that_differs(fleet: Fleet, make: Make) -> None:
    with_replicas(fleet, a=(100, 101), b=(100, 101), c=(100, 99))
    fleet.propose(make.change("a", "100 x H100", "101 x H100"), part=Part.URGENT)
    assert [(each.part, len(each.changes)) for each in opened(fleet, Worth()) if not each.put_back] == [
        (Part.URGENT, 2)
    ]


@pytest.mark.parametrize("worth", [None, Worth()])
def test_a_group_of_few_replicas_has_one_for_each_change(fleet: Fleet, worth: Worth | None) -> None:
    with_replicas(fleet, a=(4, 5))
    assert [each.put_back for each in opened(fleet, worth)] == [""]
