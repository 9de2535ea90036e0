"""One company over a day: its pull requests come, follow the load, yield to people and go.

From a real Prometheus, by the command line, over git on this machine and by HTTP. That they do so on every forge is
tried by tests/unit/pipeline/test_thirty_steps.py.
"""

from collections.abc import Callable

import pytest

from reconciler.forge.marker import MarkerState, decision_of_commit, read_marker
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, Fleet, Level, ShownPullRequest
from tests.servers.git_workshop import run_git

pytestmark = pytest.mark.integration

CHAT = "reconciler/prod-chat-urgent-705ae555"
DEPLOYMENT = "clusters/prod/chat/deployment.yaml"


def chat_of(fleet: Fleet) -> ShownPullRequest:
    """The newest pull request of the chat namespace."""
    return max((each for each in fleet.pull_requests() if each.head == CHAT), key=lambda each: each.number)


def replicas(count: int) -> bytes:
    """The deployment with other replicas, and every other byte as people wrote it."""
    return CHAT_DEPLOYMENT.replace(b"replicas:   2 ", b"replicas:   %d " % count)


@pytest.fixture(params=["github", "local"])
def fleet(request: pytest.FixtureRequest, make_fleet: Callable[..., Fleet]) -> Fleet:
    """The company on a hosted forge, and on a directory."""
    return make_fleet(request.param)


@pytest.fixture
def proposed(fleet: Fleet) -> Fleet:
    """After a first run in a busy hour."""
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    return fleet


def test_the_first_run_opens_a_pull_request_for_each_namespace_that_should_change(fleet: Fleet) -> None:
    base = fleet.branches()["main"]
    fleet.go_to(Level.BUSY)
    outcome = fleet.run()

    assert (outcome.code, outcome.err) == (0, "")
    chat, code = sorted(fleet.pull_requests(), key=lambda each: each.title)[::-1]
    assert {chat.head, code.head, "main"} == set(fleet.branches())
    assert f"created: prod/chat urgent #{chat.number} ({chat.head})" in outcome.out
    assert (chat.state, chat.head, chat.base, chat.labels) == ("open", CHAT, "main", ("reconciler",))
    assert "llama" in chat.title
    head = fleet.branches()[CHAT]
    assert fleet.show("%P", head) == base
    marker = read_marker(chat.body)
    assert marker
    assert marker.state is MarkerState.OPEN
    assert marker.group == "prod/chat"
    assert marker.decision == decision_of_commit(fleet.show("%B", head))
    assert fleet.read(DEPLOYMENT, CHAT) == replicas(4)
    variant = fleet.read("clusters/prod/chat/variant.yaml", CHAT).decode()
    assert variant.startswith(CHAT_VARIANT + "status:\n")
    assert "numReplicas: 4" in variant
    changed = run_git(fleet.workshop.remote, "diff", "--name-only", base, head)
    assert changed.splitlines() == [DEPLOYMENT, "clusters/prod/chat/variant.yaml"]


def test_the_second_run_writes_nothing(proposed: Fleet) -> None:
    with proposed.writes() as writes:
        outcome = proposed.run()
    assert (outcome.code, writes) == (0, [])


def test_noise_of_the_load_writes_nothing_three_hours_later_either(proposed: Fleet) -> None:
    proposed.go_to(Level.BUSY)
    with proposed.writes() as writes:
        assert proposed.run().code == 0
    assert writes == []


def test_a_load_that_rises_updates_the_pull_request_in_place(proposed: Fleet) -> None:
    before = chat_of(proposed)
    base = proposed.write("README.md", "# Fleet\n\nNews.\n")
    proposed.go_to(Level.PEAK)
    assert proposed.run().code == 0

    after = chat_of(proposed)
    assert (after.number, after.state) == (before.number, "open")
    assert after.title != before.title
    assert proposed.read(DEPLOYMENT, CHAT) == replicas(6)
    head = proposed.branches()[CHAT]
    assert proposed.show("%P", head) == base
    marker = read_marker(after.body)
    assert marker
    assert marker.decision == decision_of_commit(proposed.show("%B", head))
    with proposed.writes() as writes:
        assert proposed.run().code == 0
    assert writes == []


def test_a_load_that_returns_withdraws_the_pull_request(proposed: Fleet) -> None:
    number = chat_of(proposed).number
    proposed.go_to(Level.QUIET)
    outcome = proposed.run()

    withdrawn = chat_of(proposed)
    assert f"closed: prod/chat urgent #{number}" in outcome.out
    assert (withdrawn.number, withdrawn.state) == (number, "closed")
    marker = read_marker(withdrawn.body)
    assert marker
    assert marker.state is MarkerState.WITHDRAWN
    assert CHAT not in proposed.branches()
    with proposed.writes() as writes:
        assert proposed.run().code == 0
    assert writes == []


def test_a_withdrawn_decision_comes_back_with_the_load(proposed: Fleet) -> None:
    for level in (Level.QUIET, Level.BUSY):
        proposed.go_to(level)
        assert proposed.run().code == 0
    assert chat_of(proposed).state == "open"
    assert [each.state for each in proposed.pull_requests() if each.head == CHAT] == ["closed", "open"]


def test_what_a_person_closed_stays_closed_until_the_decision_leaves_its_band(proposed: Fleet) -> None:
    number = chat_of(proposed).number
    proposed.close(number)
    for level in (Level.BUSY, Level.QUIET, Level.BUSY):
        proposed.go_to(level)
        with proposed.writes() as writes:
            outcome = proposed.run()
        assert (outcome.code, writes) == (0, [])
        if level is Level.BUSY:
            assert f"a person closed pull request #{number}" in outcome.out

    proposed.go_to(Level.PEAK)
    assert proposed.run().code == 0
    reopened = chat_of(proposed)
    assert reopened.number > number
    assert reopened.state == "open"
    assert proposed.read(DEPLOYMENT, CHAT) == replicas(6)


@pytest.mark.parametrize("level", list(Level))
def test_a_persons_commit_is_never_overwritten_whatever_the_load(proposed: Fleet, level: Level) -> None:
    commit = proposed.push_to(CHAT, "NOTES.md", "Wait for Monday.\n")
    proposed.go_to(level)
    with proposed.writes() as writes:
        outcome = proposed.run()
    assert (outcome.code, writes) == (0, [])
    assert proposed.branches()[CHAT] == commit
    assert "ann@example.com pushed commits" in outcome.out


def test_a_persons_commit_survives_the_close_of_its_pull_request(proposed: Fleet) -> None:
    commit = proposed.push_to(CHAT, "NOTES.md", "Wait for Monday.\n")
    proposed.close(chat_of(proposed).number)
    for level in (Level.PEAK, Level.QUIET):
        proposed.go_to(level)
        assert proposed.run().code == 0
        assert proposed.branches()[CHAT] == commit


@pytest.mark.parametrize("level", list(Level))
def test_the_label_stop_updating_stops_every_update(proposed: Fleet, level: Level) -> None:
    number = chat_of(proposed).number
    proposed.label(number, "stop-updating")
    proposed.go_to(level)
    with proposed.writes() as writes:
        outcome = proposed.run()
    assert (outcome.code, writes) == (0, [])
    assert f"#{number} is labelled stop-updating" in outcome.out


def test_a_base_that_moves_without_a_conflict_writes_nothing(proposed: Fleet) -> None:
    proposed.write("README.md", "# Fleet\n\nNews.\n")
    proposed.write("clusters/prod/batch/extra.yaml", "kind: Namespace\napiVersion: v1\nmetadata: {name: batch}\n")
    with proposed.writes() as writes:
        assert proposed.run().code == 0
    assert writes == []


def test_a_base_that_moves_with_a_conflict_gets_the_branch_rebuilt_on_it(proposed: Fleet) -> None:
    number = chat_of(proposed).number
    base = proposed.write(DEPLOYMENT, CHAT_DEPLOYMENT.replace(b"# since June", b"# since July"))
    assert proposed.run().code == 0

    assert chat_of(proposed).number == number
    assert proposed.show("%P", proposed.branches()[CHAT]) == base
    assert proposed.read(DEPLOYMENT, CHAT) == replicas(4).replace(b"June", b"July")
    with proposed.writes() as writes:
        assert proposed.run().code == 0
    assert writes == []


def test_a_merged_pull_request_leaves_nothing_to_do(proposed: Fleet) -> None:
    number = chat_of(proposed).number
    proposed.merge(number)
    with proposed.writes() as writes:
        outcome = proposed.run()
    assert (outcome.code, writes) == (0, [])
    assert proposed.read(DEPLOYMENT) == replicas(4)
    assert chat_of(proposed).state == "merged"
    assert [each.head for each in proposed.pull_requests()].count(CHAT) == 1


def test_after_a_merge_the_next_change_is_another_pull_request(proposed: Fleet) -> None:
    number = chat_of(proposed).number
    proposed.merge(number)
    proposed.go_to(Level.PEAK)
    assert proposed.run().code == 0
    assert chat_of(proposed).number > number
    assert proposed.read(DEPLOYMENT, CHAT) == replicas(6)


def test_groups_do_not_disturb_each_other(proposed: Fleet) -> None:
    code = next(each for each in proposed.pull_requests() if "prod-code" in each.head)
    tip = proposed.branches()[code.head]
    proposed.go_to(Level.PEAK)
    assert proposed.run().code == 0
    assert proposed.branches()[code.head] == tip
    assert next(each for each in proposed.pull_requests() if each.number == code.number) == code
