"""Two runs at once: one wins, the other says so, and what stands in the end is one run's work."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.forge.marker import decision_of_commit, read_marker
from tests.servers.fleet import CODE, Fleet, Level

pytestmark = pytest.mark.integration

CHAT = "reconciler/prod-chat-urgent-705ae555"


@pytest.fixture(params=["github", "gitlab", "local"])
def fleet(request: pytest.FixtureRequest, make_fleet: Callable[..., Fleet]) -> Fleet:
    """A fleet in which only one namespace should change."""
    fleet = make_fleet(request.param)
    fleet.write("clusters/prod/code/granite.yaml", CODE.replace("replicas: 1", "replicas: 5"))
    return fleet


def race(fleet: Fleet, folder: Path, *, later_s: float) -> list[tuple[int, str]]:
    """Exit codes with outputs of two runs that push at the same moment, `later_s` apart by their clocks."""
    folder.mkdir()
    started = [fleet.start(f"meet:{folder}", later_s=delay_s) for delay_s in (0.0, later_s)]
    return sorted(each.end() for each in started)


def assert_sound(fleet: Fleet) -> None:
    """One open pull request whose body speaks of its branch, and nothing left to do."""
    (chat,) = fleet.pull_requests()
    assert chat.state == "open"
    assert set(fleet.branches()) == {"main", CHAT}
    marker = read_marker(chat.body)
    assert marker
    assert marker.decision == decision_of_commit(fleet.show("%B", CHAT))
    with fleet.writes() as writes:
        assert fleet.run().code == 0
    assert writes == []


def test_of_two_first_runs_one_wins_and_the_other_exits_4(fleet: Fleet, tmp_path: Path) -> None:
    fleet.go_to(Level.BUSY)
    (won, out_won), (lost, out_lost) = race(fleet, tmp_path / "meeting", later_s=60.0)
    assert (won, lost) == (0, 4), (out_won, out_lost)
    assert "created: prod/chat urgent #1" in out_won
    assert "another run" in out_lost
    assert_sound(fleet)


def test_of_two_updates_one_wins_and_the_other_exits_4(fleet: Fleet, tmp_path: Path) -> None:
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    fleet.go_to(Level.PEAK)
    (won, _), (lost, out_lost) = race(fleet, tmp_path / "meeting", later_s=60.0)
    assert (won, lost) == (0, 4)
    assert "another run" in out_lost
    assert_sound(fleet)


def test_two_runs_that_make_the_same_commit_agree(fleet: Fleet, tmp_path: Path) -> None:
    fleet.go_to(Level.BUSY)
    codes = [code for code, _ in race(fleet, tmp_path / "meeting", later_s=0.0)]
    assert codes == [0, 0]
    assert_sound(fleet)
