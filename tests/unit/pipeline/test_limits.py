"""How many pull requests are opened, and how often one is pushed, run after run."""

from dataclasses import replace
from itertools import cycle

import pytest

from reconciler.domain.proposals import Part, head_branch
from reconciler.forge.marker import PUSHES
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from reconciler.report.pull_request import plan_view
from reconciler.report.text import plan_text
from tests.servers.answers import Replica, answering
from tests.servers.desk import GRANITE, QWEN, RENDERER, Desk
from tests.servers.fleet import CHAT_DEPLOYMENT
from tests.servers.git_workshop import run_git

CHAT = head_branch("reconciler/", "prod/chat", Part.APPROVAL)
PODS = tuple(f"llama-5d4c8b7f9-bcd{letter}g" for letter in "fghjkl")


def wide(per_s: float, granite_per_s: float = 1.0) -> Ask:
    """A Prometheus that sees six replicas of the chat model, which are more than it needs."""
    pods = (Replica(namespace="chat", pod=pod, model="llama", per_s=per_s / len(PODS)) for pod in PODS)
    return answering(*pods, replace(GRANITE, per_s=granite_per_s), QWEN)


LESS, LEAST, KEPT, LESS_AND_MORE = wide(120.0), wide(85.0), wide(165.0), wide(120.0, 12.0)


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """One whose chat model has six replicas."""
    desk.write("clusters/prod/chat/deployment.yaml", SIX)
    return desk


SIX = CHAT_DEPLOYMENT.replace(b"replicas:   2 ", b"replicas:   6 ")
LABELS = "pullRequests: {labels: [reconciler]"


def limit(desk: Desk, limits: str) -> None:
    desk.configure(LABELS, f"{LABELS}, limits: {{{limits}}}")


def run(desk: Desk, load: Ask) -> dict[str, tuple[Operation, str]]:
    """What happened to each part of a group that something happened to, and why."""
    return happened(result_of(desk, load))


def result_of(desk: Desk, load: Ask) -> RunResult:
    return desk.run(load, desk.dated_forge)


def happened(result: RunResult) -> dict[str, tuple[Operation, str]]:
    found = (each for each in result.published if each.operation is not Operation.NONE)
    return {f"{each.group} {each.part}": (each.operation, each.reason) for each in found}


def body(desk: Desk) -> str:
    return next(each.body for each in desk.pull_requests() if each.is_open and each.head_branch == CHAT)


def message(desk: Desk) -> str:
    return run_git(desk.workshop.remote, "log", "-1", "--format=%B", CHAT)


def test_a_pull_request_is_pushed_four_times_in_an_hour(desk: Desk) -> None:
    """A minute apart; the fifth waits for the first to be an hour ago, and its text waits with it."""
    loads = cycle((LESS, LEAST))
    made = [run(desk, next(loads)) for _ in range(4)]
    assert [operation for each in made for operation, _ in each.values()] == [
        Operation.CREATED,
        *[Operation.UPDATED] * 3,
    ]
    times = [desk.now_s - 60 * ago for ago in (3, 2, 1)]
    assert f"\n{PUSHES}: {' '.join(f'{each:.0f}' for each in times)}" in message(desk)
    before, branches = body(desk), desk.branches()
    result = result_of(desk, next(loads))
    words = "#1 was pushed 4 times in an hour, and pullRequests.limits.pushesPerHour is 4: until 2026-09-21 15:15 UTC"
    assert happened(result) == {"prod/chat approval": (Operation.PUT_BACK, words)}
    assert f"\nPut back\n   prod/chat approval: {words}\n" in plan_text(result.prepared.plan)
    page = RENDERER.render("pull_request/body.md.j2", plan_view(result.prepared.plan))
    told = words.replace("#", r"\#&#8203;")
    assert f"\n\n**Put back**: not opened or pushed now\n- prod/chat approval: {told}\n" in page
    assert (body(desk), desk.branches()) == (before, branches)
    desk.now_s += 3300  # and a minute by the run: to the second an hour after the first
    assert run(desk, LESS)["prod/chat approval"][0] is Operation.UPDATED
    assert len(message(desk).partition(f"{PUSHES}: ")[2].split()) == 3


def test_without_a_limit_no_pushes_are_told(desk: Desk) -> None:
    limit(desk, "pushesPerHour: 0")
    for load in (LESS, LEAST) * 4:
        assert run(desk, load)["prod/chat approval"][0] in (Operation.CREATED, Operation.UPDATED)
    assert PUSHES not in message(desk)


def test_what_is_decided_already_is_no_push(desk: Desk) -> None:
    limit(desk, "pushesPerHour: 1")
    assert run(desk, LESS) == {"prod/chat approval": (Operation.CREATED, "")}
    assert run(desk, LESS) == {}


def test_closing_is_no_push_and_another_pull_request_begins_anew(desk: Desk) -> None:
    limit(desk, "pushesPerHour: 1")
    run(desk, LESS)
    assert run(desk, KEPT)["prod/chat approval"][0] is Operation.CLOSED
    assert run(desk, LEAST) == {"prod/chat approval": (Operation.CREATED, "")}
    assert PUSHES not in message(desk)


def test_a_branch_that_somebody_deleted_is_pushed_again_at_once(desk: Desk) -> None:
    limit(desk, "pushesPerHour: 1")
    run(desk, LESS)
    run_git(desk.workshop.remote, "branch", "-D", CHAT)
    assert run(desk, LESS)["prod/chat approval"][0] is not Operation.PUT_BACK
    assert CHAT in desk.branches()


def test_a_branch_that_conflicts_waits_for_its_next_push(desk: Desk) -> None:
    """Which no plan knows of: it is decided as before, and only git sees that it does not merge."""
    limit(desk, "pushesPerHour: 1")
    run(desk, LESS)
    desk.write("clusters/prod/chat/deployment.yaml", SIX.replace(b"# since June", b"# since July"))
    branches = desk.branches()
    operation, words = run(desk, LESS)["prod/chat approval"]
    assert (operation, words.partition(",")[0]) == (Operation.PUT_BACK, "#1 was pushed once in an hour")
    assert desk.branches() == branches
    desk.now_s += 3600
    assert run(desk, LESS)["prod/chat approval"][0] is Operation.UPDATED


@pytest.mark.parametrize("limits", ["open: 1", "createdPerHour: 1"])
def test_one_is_opened_and_the_other_waits(desk: Desk, limits: str) -> None:
    limit(desk, limits)
    found = run(desk, LESS_AND_MORE)
    assert {operation for operation, _ in found.values()} == {Operation.CREATED, Operation.PUT_BACK}
    assert len(desk.pull_requests()) == 1
    before = desk.state()
    assert Operation.CREATED not in {operation for operation, _ in run(desk, LESS_AND_MORE).values()}
    assert desk.state() == before


def test_what_was_closed_makes_room_for_what_is_open_and_not_for_what_was_opened(desk: Desk) -> None:
    limit(desk, "open: 1, createdPerHour: 2")
    assert len(run(desk, LESS_AND_MORE)) == 2
    desk.forge.update(1, close=True)
    found = run(desk, LESS_AND_MORE)
    assert [each.number for each in desk.pull_requests()] == [1, 2]
    desk.forge.update(2, close=True)
    found = run(desk, LEAST)
    assert {operation for operation, _ in found.values()} >= {Operation.PUT_BACK}
    assert "createdPerHour" in str(found)
    desk.now_s += 3600
    assert Operation.CREATED in {operation for operation, _ in run(desk, LEAST).values()}


def test_a_push_of_a_clock_that_runs_ahead_counts_and_one_far_ahead_does_not(desk: Desk) -> None:
    limit(desk, "pushesPerHour: 1")
    run(desk, LESS)
    desk.now_s -= 1800
    assert run(desk, LEAST)["prod/chat approval"][0] is Operation.PUT_BACK
    desk.now_s -= 7200
    assert run(desk, LEAST)["prod/chat approval"][0] is Operation.UPDATED
