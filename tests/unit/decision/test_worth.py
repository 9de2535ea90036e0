"""Which pull requests are worth opening."""

import pytest

from reconciler.decision.decide import solve
from reconciler.decision.worth import worth_opening
from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import Part
from reconciler.domain.settings import PullRequestSettings, Worth
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
    asked = "pullRequests.worth asks for more than 2 % missing or 4 % too many"
    assert [each.put_back for each in opened(fleet, Worth())] == [
        f"2 of 200 replicas are missing, 0 too many: {asked}",
        f"0 of 200 replicas are missing, 4 too many: {asked}",
    ]
    assert [each.put_back == "" for each in opened(fleet, Worth(short=0.009, over=0.5))] == [True, False]
    assert [each.put_back == "" for each in opened(fleet, Worth(short=0.5, over=0.019))] == [False, True]


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
