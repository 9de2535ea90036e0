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


@pytest.fixture(params=["github", "local"])
def divided(request: pytest.FixtureRequest, make_fleet: Callable[..., Fleet]) -> Fleet:
    """Three namespaces on devices of their own in a busy hour: of two shards the first has chat, the second code."""
    fleet = make_fleet(request.param)
    settings = fleet.read("reconciler.yaml").decode().replace("{name: prod,", "{name: east,")
    fleet.write(
        "reconciler.yaml", settings.replace("serviceClass: standard}", "serviceClass: standard, accelerator: keep}")
    )
    fleet.go_to(Level.BUSY)
    return fleet


def run_together(fleet: Fleet, folder: Path, *shards: str, step: str = "none") -> list[str]:
    """What runs of these shards print that are started at the same moment; all end well."""
    folder.mkdir()
    halt = f"meet:{folder}" if step == "push" else step
    ended = [each.end() for each in [fleet.start(halt, "--shard", shard) for shard in shards]]
    assert [code for code, _ in ended] == [0] * len(shards), ended
    return [printed for _, printed in ended]


def standing(fleet: Fleet) -> dict[str, tuple[str, str]]:
    """State and commit of each pull request, by its head branch."""
    branches = fleet.branches()
    return {each.head: (each.state, branches.get(each.head, "")) for each in fleet.pull_requests()}


def test_two_shards_at_once_open_what_each_has_to_and_then_nothing(divided: Fleet, tmp_path: Path) -> None:
    chat, code = run_together(divided, tmp_path / "first", "0/2", "1/2", step="push")
    assert "created: east/chat urgent" in chat
    assert "east/code" not in chat
    assert "created: east/code urgent" in code
    assert "east/chat" not in code
    before = standing(divided)
    assert len(before) == 2
    with divided.writes() as writes:
        for round_name, shards in (
            ("again", ("0/2", "1/2")),
            ("more", ("0/3", "1/3", "2/3")),
            ("mixed", ("0/2", "1/3")),
        ):
            run_together(divided, tmp_path / round_name, *shards)
        assert divided.run().code == 0
    assert writes == []
    assert standing(divided) == before


def test_a_shard_updates_and_withdraws_its_own_alone(divided: Fleet, tmp_path: Path) -> None:
    run_together(divided, tmp_path / "first", "0/2", "1/2")
    before = standing(divided)
    divided.go_to(Level.QUIET)  # chat needs no more, code is as busy as ever
    assert divided.run("--shard", "1/2").code == 0
    assert standing(divided) == before
    run_together(divided, tmp_path / "second", "0/2", "1/2")
    assert sorted(state for state, _ in standing(divided).values()) == ["closed", "open"]
    with divided.writes() as writes:
        run_together(divided, tmp_path / "third", "0/2", "1/2", "0/3", "1/3", "2/3")
    assert writes == []


def test_two_numbers_of_shards_at_once_are_as_two_runs_at_once(divided: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "meeting"
    folder.mkdir()
    started = [
        divided.start(f"meet:{folder}", "--shard", shard, later_s=s) for shard, s in (("1/2", 0.0), ("1/3", 60.0))
    ]
    (won, _), (lost, out_lost) = sorted(each.end() for each in started)
    assert (won, lost) == (0, 4)
    assert "another run" in out_lost
    (code,) = standing(divided).values()
    assert code[0] == "open"
