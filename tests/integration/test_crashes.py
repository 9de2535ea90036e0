"""A run is killed in the middle and run again: what stands in the end is what an undisturbed run makes."""

import signal
from collections.abc import Callable

import pytest

from reconciler.forge.marker import decision_of_commit, read_marker
from tests.servers.fleet import Fleet, Level
from tests.servers.git_workshop import run_git

pytestmark = pytest.mark.integration

State = tuple[str, ...]
Story = tuple[str, tuple[Level, ...]]


def kill(fleet: Fleet, step: str) -> None:
    """A run that ends by SIGKILL right after `step`."""
    code, said = fleet.start(step).end()
    assert code == -signal.SIGKILL, said


def final(fleet: Fleet) -> list[State]:
    """What counts of every pull request, and of the branches without one."""
    states = []
    for each in fleet.pull_requests():
        marker = read_marker(each.body)
        assert marker
        tree = decision = ""
        if each.head in fleet.branches():
            tree = run_git(fleet.workshop.remote, "rev-parse", f"{each.head}:clusters")
            decision = decision_of_commit(fleet.show("%B", each.head))
        states.append((each.head, each.state, each.title, marker.decision, marker.state.value, tree, decision))
    heads = {each.head for each in fleet.pull_requests()}
    strays: list[State] = [(name,) for name in fleet.branches() if name != "main" and name not in heads]
    return sorted(states) + strays


def story(fleet: Fleet, *levels: Level, kill_at: str = "") -> list[State]:
    """Runs at each level; the last one is killed at a step first. A further run must find nothing to do."""
    for level in levels:
        fleet.go_to(level)
        if kill_at and level is levels[-1]:
            kill(fleet, kill_at)
        assert fleet.run().code == 0
    with fleet.writes() as writes:
        assert fleet.run().code == 0
    assert writes == []
    return final(fleet)


@pytest.fixture(scope="module")
def undisturbed() -> dict[Story, list[State]]:
    """How stories end that nobody disturbs, told once each."""
    return {}


@pytest.mark.parametrize(
    ("forge", "step", "levels"),
    [
        ("github", "commit", (Level.BUSY,)),
        ("github", "push", (Level.BUSY,)),
        ("github", "create", (Level.BUSY,)),
        ("gitlab", "push", (Level.BUSY,)),
        ("gitlab", "create", (Level.BUSY,)),
        ("gitlab", "update", (Level.BUSY, Level.PEAK)),
        ("gitlab", "mark", (Level.BUSY, Level.QUIET)),
        ("gitlab", "close", (Level.BUSY, Level.QUIET)),
        ("gitlab", "delete", (Level.BUSY, Level.QUIET)),
        ("local", "push", (Level.BUSY,)),
        ("local", "create", (Level.BUSY,)),
        ("github", "push", (Level.BUSY, Level.PEAK)),
        ("github", "update", (Level.BUSY, Level.PEAK)),
        ("github", "mark", (Level.BUSY, Level.QUIET)),
        ("github", "close", (Level.BUSY, Level.QUIET)),
        ("github", "delete", (Level.BUSY, Level.QUIET)),
        ("local", "close", (Level.BUSY, Level.QUIET)),
    ],
)
def test_what_a_killed_run_left_is_completed_by_the_next(
    make_fleet: Callable[..., Fleet],
    undisturbed: dict[Story, list[State]],
    forge: str,
    step: str,
    levels: tuple[Level, ...],
) -> None:
    expected = undisturbed.get((forge, levels)) or story(make_fleet(forge), *levels)
    undisturbed[forge, levels] = expected
    assert story(make_fleet(forge), *levels, kill_at=step) == expected
    assert len(expected) == 2


def test_a_load_that_comes_back_after_a_killed_withdrawal_finds_an_honest_marker(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet("github")
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    fleet.go_to(Level.QUIET)
    kill(fleet, "mark")
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    chat = next(each for each in fleet.pull_requests() if "prod-chat" in each.head)
    marker = read_marker(chat.body)
    assert chat.state == "open"
    assert marker
    assert marker.state.value == "open"
    fleet.close(chat.number)
    with fleet.writes() as writes:
        assert fleet.run().code == 0
    assert writes == []
