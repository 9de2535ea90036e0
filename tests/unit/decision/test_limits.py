"""How many pull requests are opened and pushed: who goes first, and what those are told that are put back."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import solve
from reconciler.decision.limits import within_limits
from reconciler.domain.holds import HoldKind
from reconciler.domain.plan import GroupPlan
from reconciler.domain.proposals import STOP_LABEL, ConditionFlip, Part, ProposalState

NOW_S = 1_800_000_000.0
"""2027-01-15 08:00 UTC."""
HOUR_S = 3600.0
GROUPS = ("a", "b", "c")

Limited = Callable[..., dict[str, str]]


@pytest.fixture
def idle(fleet: Any) -> Any:
    """Three models of a group each, all of which have more replicas than they need."""
    for name in GROUPS:
        fleet.add(name, model_id=f"model-{name}", replicas=9, annotations={"group": name})
        fleet.offer(55.0, f"model-{name}")
    return fleet


def limit(fleet: Any, **limits: int) -> None:
    """Allow no more than that; what is left out is unlimited."""
    none = {"open_at_once": 0, "created_per_hour": 0, "pushes_per_hour": 0}
    fleet.set(pull_requests=replace(fleet.settings.pull_requests, **none | limits))


def planned(fleet: Any) -> tuple[GroupPlan, ...]:
    solved = solve(fleet.snapshot(), {})
    return within_limits(solved.situation, solved.plan_of(solved.staged).groups)


def put_back(fleet: Any) -> dict[str, str]:
    """By group, or group and part where it has several, why it is put back."""
    plans = planned(fleet)
    assert all(each.blocked is None or each.blocked.kind is HoldKind.PUT_BACK for each in plans)
    return {f"{each.name} {each.part}": each.put_back for each in plans if each.put_back}


def opened(fleet: Any, number: int, opened_at_s: float | None, **fields: Any) -> None:
    """A pull request of ours, of a group that changes nothing now."""
    told = {"opened_at_s": opened_at_s, "head_branch": f"reconciler/gone-{number}"}
    fleet.propose(number=number, **told | fields)


def test_without_limits_nothing_is_put_back(idle: Any) -> None:
    limit(idle)
    for number in range(50):
        opened(idle, number, NOW_S, pushes_s=(NOW_S,) * 9)
    assert put_back(idle) == {}


def test_as_many_are_open_as_may_be(idle: Any) -> None:
    limit(idle, open_at_once=2)
    limits = "and pullRequests.limits.open is 2: until one of them is merged or closed"
    words = f"of our pull requests are open, or are opened before it, {limits}"
    assert put_back(idle) == {"c approval": f"2 {words}"}
    opened(idle, 1, None)
    assert list(put_back(idle)) == ["b approval", "c approval"]
    opened(idle, 2, None)
    opened(idle, 3, None)
    assert put_back(idle) == dict.fromkeys(("a approval", "b approval", "c approval"), f"3 {words}")


def test_what_a_person_took_over_is_open_and_what_is_closed_or_none_of_ours_is_not(idle: Any) -> None:
    limit(idle, open_at_once=4)
    opened(idle, 1, None, labels=(STOP_LABEL,))
    opened(idle, 2, None, state=ProposalState.MERGED, closed_at_s=NOW_S)
    opened(idle, 3, None, state=ProposalState.CLOSED, closed_at_s=NOW_S)
    opened(idle, 4, None, decision="")
    assert put_back(idle) == {}
    opened(idle, 5, None, decision="", branch_decision="e" * 64)  # a person took the marker away
    assert list(put_back(idle)) == ["c approval"]


def test_a_repair_is_never_put_back(idle: Any, make: Any) -> None:
    """Neither new nor pushed once more; what it takes from the limits is not there for others."""
    for name in ("x", "y"):
        idle.add(name, model_id=f"model-{name}", replicas=3, annotations={"group": name})
        idle.offer(55.0, f"model-{name}")
    limit(idle, open_at_once=3, created_per_hour=3, pushes_per_hour=1)
    push(idle, make, "y", 60.0, part=Part.URGENT)
    assert list(put_back(idle)) == ["b approval", "c approval"]
    limit(idle, open_at_once=1, created_per_hour=1, pushes_per_hour=1)
    assert list(put_back(idle)) == ["a approval", "b approval", "c approval"]


def test_what_saves_most_goes_first_then_who_has_waited_longest_then_whose_model_is_most_urgent(idle: Any) -> None:
    idle.add("large", model_id="model-l", replicas=19, annotations={"group": "z"})
    idle.offer(55.0, "model-l")
    limit(idle, open_at_once=1)
    assert list(put_back(idle)) == ["a approval", "b approval", "c approval"]
    limit(idle, open_at_once=2)
    idle.prioritise("b", 10)
    assert list(put_back(idle)) == ["a approval", "c approval"]
    for number, name in enumerate(("a", "b"), 1):
        idle.propose(number=number, group=name, state=ProposalState.MERGED, closed_at_s=NOW_S - 7200 * number)
    assert list(put_back(idle)) == ["a approval", "b approval"]


@pytest.mark.parametrize(
    ("ago_s", "is_counted"),
    [(0.0, True), (HOUR_S - 1, True), (HOUR_S, False), (-120.0, True), (-HOUR_S, False), (-86400.0, False)],
)
def test_an_hour_ends_exactly_and_a_clock_that_is_wrong_by_more_says_nothing(
    idle: Any, ago_s: float, *, is_counted: bool
) -> None:
    limit(idle, created_per_hour=3)
    opened(idle, 1, NOW_S - ago_s)
    assert list(put_back(idle)) == (["c approval"] if is_counted else [])


def test_each_that_waits_is_told_when_it_can_come(idle: Any) -> None:
    limit(idle, created_per_hour=2)
    for number, ago_s in enumerate((3000.0, 1800.5, 90_000.0)):
        opened(idle, number, NOW_S - ago_s, state=ProposalState.MERGED, closed_at_s=NOW_S)
    words = (
        "2 of our pull requests were opened in an hour, or are before it, and pullRequests.limits.createdPerHour is 2"
    )
    assert put_back(idle) == {
        "a approval": f"{words}: until 2027-01-15 08:10 UTC",
        "b approval": f"{words}: until 2027-01-15 08:30 UTC",
        "c approval": f"{words}: until 2027-01-15 09:10 UTC",
    }


@pytest.mark.parametrize("state", [ProposalState.OPEN, ProposalState.CLOSED, ProposalState.WITHDRAWN])
def test_what_was_closed_within_the_hour_was_opened_all_the_same(idle: Any, state: ProposalState) -> None:
    limit(idle, created_per_hour=3)
    opened(idle, 1, NOW_S - 600, state=state, closed_at_s=None if state is ProposalState.OPEN else NOW_S - 60)
    assert list(put_back(idle)) == ["c approval"]


@pytest.mark.parametrize(
    ("told", "is_counted"),
    [
        ({}, True),
        ({"pushes_s": (NOW_S - 60,)}, True),
        ({"pushes_s": (NOW_S - 7200,)}, False),
        ({"pushes_s": (NOW_S - 7200, NOW_S - 60)}, False),
        ({"state": ProposalState.CLOSED, "closed_at_s": NOW_S - 60}, True),
        ({"state": ProposalState.CLOSED, "closed_at_s": NOW_S - 7200}, False),
        # its branch was made again since: it was closed before that
        ({"state": ProposalState.CLOSED, "closed_at_s": NOW_S - 7200, "pushes_s": (NOW_S - 60,)}, False),
    ],
)
def test_where_the_forge_does_not_say_it_was_opened_before_it_was_pushed_or_closed(
    idle: Any, told: dict[str, Any], *, is_counted: bool
) -> None:
    limit(idle, created_per_hour=3)
    opened(idle, 1, None, **told)
    assert list(put_back(idle)) == (["c approval"] if is_counted else [])


def push(fleet: Any, make: Any, name: str, *ago_s: float, number: int = 7, after: int = 8, **fields: Any) -> None:
    """An open pull request of a group that says something else than is decided now, pushed so long ago."""
    times = tuple(sorted(NOW_S - each for each in ago_s))
    told = {"group": name, "number": number, "pushes_s": times, "branch_decision": "e" * 64}
    fleet.propose(make.change(name, "9 x H100", f"{after} x H100"), **told | fields)


@pytest.mark.parametrize(
    ("ago_s", "until"),
    [
        ((), ""),
        ((60.0, 120.0), ""),
        ((60.0, 120.0, HOUR_S), ""),
        ((60.0, 120.0, HOUR_S - 60), "08:01"),
        ((60.0, 120.0, 180.0, 240.0), "08:57"),
        ((60.0, 120.0, -30.0), "08:58"),
        ((60.0, 120.0, -7200.0), ""),
    ],
)
def test_a_pull_request_is_pushed_so_often_in_an_hour(
    idle: Any, make: Any, ago_s: tuple[float, ...], until: str
) -> None:
    limit(idle, pushes_per_hour=3)
    push(idle, make, "b", *ago_s)
    words = f"#7 was pushed {len(ago_s)} times in an hour, and pullRequests.limits.pushesPerHour is 3"
    assert put_back(idle) == ({"b approval": f"{words}: until 2027-01-15 {until} UTC"} if until else {})


def test_what_says_the_same_or_may_not_be_written_to_waits_for_no_limit(idle: Any, make: Any) -> None:
    limit(idle, pushes_per_hour=1)
    same = {each.name: each.fingerprint for each in planned(idle)}
    push(idle, make, "a", 60.0, after=6, branch_decision=same["a"])
    push(idle, make, "b", 60.0, number=8, labels=(STOP_LABEL,))
    push(idle, make, "c", 60.0, number=9, touched_by="ann@example.com")
    assert put_back(idle) == {}


WORDS = "was pushed once in an hour, and pullRequests.limits.pushesPerHour is 1: until 2027-01-15 08:59 UTC"
BESIDE = f"does not go with what #7 says now, which {WORDS}"


@pytest.fixture
def spread(idle: Any, make: Any) -> Any:
    """Another model in two groups, both of which shrink; #7 of the first asks for more, and was pushed just now."""
    limit(idle, pushes_per_hour=1)
    for name in ("d", "e"):
        idle.add(name, model_id="model-d", replicas=9, max_replicas=6, annotations={"group": name})
    idle.offer(95.0, "model-d")
    push(idle, make, "d", 60.0, after=8)
    return idle


def test_nothing_changes_a_model_beside_a_pull_request_that_stays_as_it_stands(spread: Any) -> None:
    """Both were never looked at together: a model could lose what the other's text still takes for granted."""
    assert {each.name for each in planned(spread) if each.changes} == {*GROUPS, "d", "e"}
    assert put_back(spread) == {"d approval": f"#7 {WORDS}", "e approval": BESIDE}


def test_what_is_put_back_beside_another_puts_back_what_does_not_go_with_it_in_turn(spread: Any, make: Any) -> None:
    """#8 is to change the model of #7, and still speaks of another one."""
    of_c = make.change("c", "9 x H100", "8 x H100")
    spread.propose(of_c, group="e", number=8, branch_decision="e" * 64)
    assert put_back(spread) == {"c approval": BESIDE, "d approval": f"#7 {WORDS}", "e approval": BESIDE}


def test_what_takes_the_devices_of_a_repair_is_pushed_once_more(fleet: Any, make: Any) -> None:
    """Of a group one asks for more and one for less, of the same devices: whoever counts both counts none."""
    limit(fleet, pushes_per_hour=1)
    for name, replicas, rate in (("x", 3, 35.0), ("y", 9, 45.0), ("z", 3, 55.0)):
        fleet.add(name, model_id=name, replicas=replicas, annotations={"group": "other" if name == "z" else "both"})
        fleet.offer(rate, name)
    fleet.stock(H100=18)
    fleet.propose(make.change("x", "3 x H100", "7 x H100"), group="both", part=Part.URGENT, number=6)
    fleet.propose(make.change("y", "9 x H100", "4 x H100"), group="both", number=7, pushes_s=(NOW_S - 60,))
    assert fleet.desired() == {"x": "4 x H100", "y": "5 x H100", "z": "6 x H100"}
    assert put_back(fleet) == {}, "a repair waits for no limit of others"
    fleet.stock(H100=22)
    assert put_back(fleet) == {"both approval": f"#7 {WORDS}"}


def test_where_nothing_is_put_back_plans_are_the_same(idle: Any) -> None:
    assert tuple(replace(each, blocked=None) for each in planned(idle)) == idle.plan().groups


def test_what_only_tells_of_conditions_goes_last(idle: Any) -> None:
    limit(idle, open_at_once=3)
    solved = solve(idle.snapshot(), {})
    flip = ConditionFlip(variant=planned(idle)[0].changes[0].variant, type="Ready", before="", after="True", reason="")
    status = GroupPlan(name="a", part=Part.STATUS, head_branch="reconciler/a-status", decisions=(), flips=(flip,))
    found = within_limits(solved.situation, (status, *solved.plan_of(solved.staged).groups))
    assert [each.part for each in found if each.put_back] == [Part.STATUS]
