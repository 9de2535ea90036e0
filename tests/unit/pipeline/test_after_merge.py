"""What the next runs say of a merged pull request; and a day of runs with merges, a stuck rollout and a pause."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.holds import HoldKind
from reconciler.domain.proposals import ProposedChange
from reconciler.forge.local import Local
from reconciler.forge.marker import MarkerState, read_marker, write_marker
from reconciler.forge.pull_requests import PullRequestState
from reconciler.metrics.quantities import Name
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from tests.servers.answers import Replica, answering
from tests.servers.desk import BUSY, GRANITE, QUIET, QWEN, Desk
from tests.servers.git_workshop import run_git
from tests.servers.speeds import LLAMA_H100

MINUTE_S = 60.0
HOUR_S = 3600.0


def merge(desk: Desk) -> int:
    """Merge the open pull request at the desk's time, delete its branch, and return its number."""
    (open_one,) = (each for each in desk.pull_requests() if each.is_open)
    person = desk.workshop
    person.git("fetch", "-q", "origin", "main", open_one.head_branch)
    person.git("reset", "-q", "--hard", "origin/main")
    person.git("fetch", "-q", "origin", open_one.head_branch)
    when = f"{int(desk.now_s)} +0000"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Ann", f"GIT_{role}_EMAIL": "ann@example.com", f"GIT_{role}_DATE": when}
    command = ["git", "merge", "-q", "--no-ff", "-m", "Merge", "FETCH_HEAD"]
    subprocess.run(command, cwd=person.clone, env=environment, check=True)
    person.git("push", "-q", "origin", "HEAD:refs/heads/main")
    file = person.remote / "reconciler" / "pulls" / f"{open_one.number}.md"
    file.write_text(file.read_text().replace("state: open", "state: merged", 1))
    os.utime(file, (desk.now_s, desk.now_s))
    run_git(person.remote, "update-ref", "-d", f"refs/heads/{open_one.head_branch}")
    return open_one.number


def rewrite(file: Path, text: str) -> None:
    """Edit a pull request as somebody may who writes to the forge."""
    at_s = file.stat().st_mtime
    file.write_text(text)
    os.utime(file, (at_s, at_s))


def serving(
    replicas: int,
    per_s: float,
    *,
    itl_s: float | None = None,
    stuck: int = 0,
    beside: tuple[Replica, ...] = (GRANITE, QWEN),
) -> Ask:
    """A Prometheus that sees so many chat replicas, which finish `per_s` together; `stuck` more wait for a node."""
    speed = LLAMA_H100 if itl_s is None else replace(LLAMA_H100, alpha_s=itl_s, beta_s=0.0)
    pods = [f"llama-5d4c8b7f9-{'bcdfghjklm'[index]}xwvz" for index in range(replicas)]
    chat = (Replica(namespace="chat", pod=pod, model="llama", per_s=per_s / replicas, speed=speed) for pod in pods)
    pending = [
        ({"namespace": "chat", "pod": f"llama-5d4c8b7f9-{'bcdfghjklm'[index]}ppqx"}, 1.0) for index in range(stuck)
    ]
    return answering(*chat, *beside, rows={Name.UNSCHEDULABLE: pending})


def proposed_replicas(desk: Desk) -> int:
    """What the first pull request asks for."""
    marker = read_marker(desk.pull_requests()[0].body)
    assert marker is not None
    return marker.changes[0].replicas_after


def told(result: RunResult) -> list[tuple[int, bool]]:
    return [(each.number, each.is_broken) for each in result.told]


def changed(desk: Desk, number: int) -> ProposedChange:
    """What a pull request does to its only variant."""
    marker = read_marker(desk.pull_requests()[number - 1].body)
    assert marker is not None
    return marker.changes[0]


@pytest.fixture
def merged(desk: Desk) -> Desk:
    """A desk whose first pull request was merged just now."""
    desk.run(BUSY)
    merge(desk)
    return desk


def test_a_kept_promise_is_told_once_at_the_end_of_the_text(merged: Desk) -> None:
    asked = proposed_replicas(merged)
    before = merged.pull_requests()[0]
    assert told(merged.run(serving(asked, 110.0))) == [], "it has had no time to act"
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(serving(asked, 110.0))) == [(1, False)]
    after = merged.pull_requests()[0]
    assert (after.state, after.closed_at_s) == (PullRequestState.MERGED, before.closed_at_s)
    assert "**After the merge**: it does what it was merged for" in after.body
    assert f"{asked} of {asked} replicas serve, " in after.body
    assert "mean ITL is 9 ms measured, 9 ms forecast (target 60 ms)" in after.body
    assert "110 req/s measured, up to 132 forecast" in after.body
    marker = read_marker(after.body)
    assert marker is not None
    assert marker.state is MarkerState.REPORTED
    assert told(merged.run(serving(asked, 110.0))) == []
    assert merged.pull_requests()[0] == after


def test_a_rollout_that_is_stuck_is_told_and_nothing_is_added(merged: Desk) -> None:
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(BUSY)) == [], "a rollout may take a while"
    merged.now_s += 10 * MINUTE_S
    result = merged.run(serving(2, 170.0, stuck=2))
    assert told(result) == [(1, True)]
    assert "only 2 of 4 replicas serve, 2 find no node" in merged.pull_requests()[0].body
    assert not any(each.is_open for each in merged.pull_requests())


def live(replicas: int, asked: int) -> Ask:
    """A Prometheus that also says how many replicas the cluster asks for."""
    labels = {"namespace": "chat", "deployment": "llama"}
    pods = (f"llama-5d4c8b7f9-{'bcdfghjklm'[index]}xwvz" for index in range(replicas))
    chat = (Replica(namespace="chat", pod=pod, model="llama", per_s=110.0 / replicas) for pod in pods)
    return answering(*chat, GRANITE, QWEN, rows={Name.LIVE_REPLICAS: [(labels, float(asked))]})


@pytest.mark.parametrize(("reporting", "replicas"), [(3, 3), (5, 5), (0, 3)])
def test_a_cluster_that_does_not_follow_is_told_with_what_to_look_at(
    merged: Desk, reporting: int, replicas: int
) -> None:
    assert proposed_replicas(merged) == 4
    merged.now_s += 9 * MINUTE_S
    assert told(merged.run(live(reporting, replicas))) == [], "it has had no time to act"
    merged.now_s += 6 * MINUTE_S
    assert told(merged.run(live(reporting, replicas))) == [(1, True)]
    text = merged.pull_requests()[0].body
    assert "17 minutes after the merge the cluster has not followed: look whether Argo CD or Flux has applied" in text
    assert f"spec.replicas of Deployment chat/llama is {replicas} in the cluster and 4 in Git" in text
    assert told(merged.run(live(reporting, replicas))) == [], "once"


def test_a_cluster_that_has_followed_may_take_a_while(merged: Desk) -> None:
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(live(3, 4))) == []
    merged.now_s += 8 * MINUTE_S
    assert told(merged.run(live(3, 4))) == [(1, True)]
    words = "only 3 of 4 replicas serve: look whether this commit was applied, and at the events of its pods"
    assert words in merged.pull_requests()[0].body


def test_what_is_broken_is_told_beside_what_cannot_be_judged(desk: Desk) -> None:
    desk.run(BUSY)
    marker = read_marker(desk.pull_requests()[0].body)
    assert marker is not None
    merge(desk)
    file = desk.workshop.remote / "reconciler" / "pulls" / "1.md"
    gone = replace(marker.changes[0], resource="prod:Deployment/chat/gone")
    more = write_marker(replace(marker, changes=(*marker.changes, gone)))
    rewrite(file, file.read_text().replace(write_marker(marker), more))
    desk.now_s += 15 * MINUTE_S
    assert told(desk.run(live(3, 3))) == []
    desk.now_s += 9 * MINUTE_S
    assert told(desk.run(live(3, 3))) == [(1, True)]


def test_a_target_that_is_missed_at_a_load_that_was_promised_is_told(merged: Desk) -> None:
    asked = proposed_replicas(merged)
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(serving(asked, 40.0, itl_s=0.09))) == [(1, True)]
    assert "but mean ITL is 90 ms measured, 9 ms forecast (target 60 ms)" in merged.pull_requests()[0].body
    assert "To undo it, revert this pull request" in merged.pull_requests()[0].body


def test_what_is_promised_stands_in_the_marker(merged: Desk) -> None:
    marker = read_marker(merged.pull_requests()[0].body)
    assert marker is not None
    (promise,) = marker.promises
    assert (promise.resource, promise.unit) == (marker.changes[0].resource, "req/s")
    assert promise.demand == pytest.approx(110 * 1.2, rel=0.02)
    assert promise.demand is not None
    assert (promise.capacity or 0.0) >= promise.demand
    assert {each.name: each.target_s for each in promise.latencies} == {"wait": 2.0, "itl": 0.06}


def test_more_load_than_was_promised_breaks_no_promise(merged: Desk) -> None:
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(serving(proposed_replicas(merged), 140.0, itl_s=0.09))) == [(1, False)]
    text = merged.pull_requests()[0].body
    assert "mean ITL is 90 ms measured, 9 ms forecast (target 60 ms)" in text
    assert "140 req/s measured, up to 132 forecast: more load, or longer requests, than was forecast" in text


def test_a_latency_within_its_target_and_beyond_its_forecast_is_told(merged: Desk) -> None:
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(serving(proposed_replicas(merged), 110.0, itl_s=0.011))) == [(1, False)]
    assert "mean ITL is 11 ms measured, 9 ms forecast, slower than forecast" in merged.pull_requests()[0].body


def test_a_marker_without_promises_is_judged_by_what_is_known_now(merged: Desk) -> None:
    file = merged.workshop.remote / "reconciler" / "pulls" / "1.md"
    marker = read_marker(file.read_text())
    assert marker is not None
    rewrite(file, file.read_text().replace(write_marker(marker), write_marker(replace(marker, promises=()))))
    merged.now_s += 15 * MINUTE_S
    assert told(merged.run(serving(proposed_replicas(merged), 40.0, itl_s=0.09))) == [(1, True)]
    assert "but mean ITL is 90 ms (target 60 ms)" in merged.pull_requests()[0].body


def test_what_somebody_changed_again_is_not_judged(merged: Desk) -> None:
    path = "clusters/prod/chat/deployment.yaml"
    content = (merged.workshop.clone / path).read_bytes()
    merged.write(path, content.replace(f"replicas:   {proposed_replicas(merged)}".encode(), b"replicas:   2"))
    merged.now_s += 30 * MINUTE_S
    assert told(merged.run(QUIET)) == []


def test_a_day_later_it_is_no_longer_its_doing(merged: Desk) -> None:
    merged.now_s += 25 * HOUR_S
    assert told(merged.run(serving(proposed_replicas(merged), 110.0))) == []


def test_a_text_without_our_marker_is_left_alone(merged: Desk) -> None:
    file = merged.workshop.remote / "reconciler" / "pulls" / "1.md"
    rewrite(file, file.read_text().replace("<!-- reconciler:", "<!-- mine:"))
    before = file.read_text()
    merged.now_s += 15 * MINUTE_S
    merged.run(serving(5, 110.0))
    assert file.read_text() == before


@pytest.fixture
def shrunk(desk: Desk) -> Desk:
    """A desk whose chat model gave back half of its four replicas for a load that two were promised to carry."""
    desk.run(BUSY)
    merge(desk)
    desk.now_s += 3 * HOUR_S
    desk.run(serving(4, 45.0))
    merge(desk)
    desk.now_s += 15 * MINUTE_S
    return desk


def changes_of(desk: Desk) -> list[tuple[int, int, int | None]]:
    """What the open pull requests do to the chat model, and which pull request that takes back."""
    markers = [read_marker(each.body) for each in desk.pull_requests() if each.is_open]
    return [
        (change.replicas_before, change.replicas_after, promise.reverts)
        for marker in markers
        if marker is not None
        for change, promise in zip(marker.changes, marker.promises, strict=True)
    ]


def test_a_promise_that_is_broken_is_taken_back(shrunk: Desk) -> None:
    assert [each.is_open for each in shrunk.pull_requests()] == [False, False]
    result = shrunk.run(serving(2, 45.0, itl_s=0.09))
    assert told(result) == [(2, True)]
    assert changes_of(shrunk) == [(2, 4, 2)]
    (proposed,) = (each for each in shrunk.pull_requests() if each.is_open)
    assert "-urgent-" in proposed.head_branch
    assert "goes back to what it had: pull request" in proposed.body
    assert "took it from 4 to 2 replicas and broke its promise: mean wait is 60 s measured" in proposed.body
    assert "mean ITL is 90 ms measured, 9 ms forecast (target 60 ms)" in proposed.body
    before = shrunk.state()
    for itl_s in (0.09, 0.062):
        shrunk.run(serving(2, 45.0, itl_s=itl_s))
    assert shrunk.state() == before, "once, and not withdrawn for noise"
    shrunk.run(serving(2, 45.0))
    assert changes_of(shrunk) == [], "what is kept again needs nothing"


def test_a_run_that_is_killed_before_it_tells_is_made_up_for(shrunk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = serving(2, 45.0, itl_s=0.09)
    with monkeypatch.context() as patched:
        patched.setattr(Local, "amend_merged", die)
        with pytest.raises(KeyboardInterrupt):
            shrunk.run(ask)
    assert changes_of(shrunk) == [(2, 4, 2)]
    assert told(shrunk.run(ask)) == [(2, True)]
    assert changes_of(shrunk) == [(2, 4, 2)]
    text = shrunk.pull_requests()[1].body
    assert text.count("**After the merge**") == 1
    assert told(shrunk.run(ask)) == []
    assert shrunk.pull_requests()[1].body == text


def die(*_: object, **__: object) -> None:
    """What a kill between two writes comes to."""
    raise KeyboardInterrupt


def test_what_was_taken_back_does_not_return_and_what_a_person_closes_stays_closed(shrunk: Desk) -> None:
    shrunk.run(serving(2, 45.0, itl_s=0.09))
    merge(shrunk)
    shrunk.now_s += 3 * HOUR_S
    result = shrunk.run(serving(4, 45.0))
    assert changes_of(shrunk) == []
    holds = [each.waiting.kind for each in result.prepared.plan.decisions if each.waiting is not None]
    assert HoldKind.PROMISE_BROKEN in holds


def test_a_person_who_closes_the_revert_is_believed(shrunk: Desk) -> None:
    shrunk.run(serving(2, 45.0, itl_s=0.09))
    file = shrunk.workshop.remote / "reconciler" / "pulls" / "3.md"
    file.write_text(file.read_text().replace("state: open", "state: closed", 1))
    shrunk.now_s += HOUR_S
    shrunk.run(serving(2, 45.0, itl_s=0.09))
    assert changes_of(shrunk) == []


def test_guard_rails_judge_what_is_taken_back(shrunk: Desk) -> None:
    rules = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules: [{name: small, step: {up: 50%}}]\n"
    shrunk.write("policies/small.yaml", rules)
    shrunk.configure("defaults: {", "policies: [policies/small.yaml]\ndefaults: {")
    shrunk.run(serving(2, 45.0, itl_s=0.09))
    assert changes_of(shrunk) == [(2, 3, 2)]


def test_what_is_taken_back_is_merged_by_a_person(shrunk: Desk) -> None:
    """It rests on the text of a pull request, which anybody may have edited."""
    rules = "rules: [{name: up, scope: {direction: [up]}, autoMerge: {}}]\n"
    shrunk.write("policies/up.yaml", f"apiVersion: reconciler.io/v1alpha1\nkind: Policy\n{rules}")
    shrunk.configure("defaults: {", "policies: [policies/up.yaml]\ndefaults: {")
    for _ in range(3):
        shrunk.run(serving(2, 45.0, itl_s=0.09))
        shrunk.now_s += 10 * MINUTE_S
    assert changes_of(shrunk) == [(2, 4, 2)]
    (proposed,) = (each for each in shrunk.pull_requests() if each.is_open)
    assert "Merges by itself" not in proposed.body


def test_thirty_runs_over_a_day(desk: Desk) -> None:
    """Quiet, then busy: merged, stuck for two hours, then served; an hour's pause at the peak; and calm again.

    What is given back then breaks its promise, is taken back, and is not given back again.
    """
    start_s = desk.now_s

    def runs(number: int, ask: Ask) -> list[RunResult]:
        results = []
        for _ in range(number):
            desk.now_s += 47 * MINUTE_S
            results.append(desk.run(ask))
        return results

    def open_ones() -> list[int]:
        return [each.number for each in desk.pull_requests() if each.is_open]

    runs(3, QUIET)
    assert open_ones() == []
    runs(2, BUSY)
    assert open_ones() == [1], "the same decision is one pull request"
    asked = proposed_replicas(desk)
    assert merge(desk) == 1

    stuck = runs(3, serving(2, 170.0, stuck=asked - 2))
    assert [told(each) for each in stuck] == [[(1, True)], [], []]
    assert open_ones() == [], "nothing is added to what does not serve"
    holds = [each.hold or each.waiting for each in stuck[-1].prepared.plan.decisions]
    assert HoldKind.GROWTH_UNPROVEN in [each.kind for each in holds if each is not None]

    runs(2, serving(asked, 110.0))
    assert open_ones() == []

    desk.variables = {"RECONCILER_PAUSED": "true"}
    before = desk.state()
    paused = runs(2, serving(asked, 170.0))
    assert desk.state() == before
    assert all(each.paused and each.prepared.plan.decisions for each in paused)
    desk.variables = {}

    runs(3, serving(asked, 170.0))
    assert open_ones() == [2]
    more = read_marker(desk.pull_requests()[1].body)
    assert more is not None
    assert more.changes[0].replicas_before == asked
    assert merge(desk) == 2
    peak = more.changes[0].replicas_after
    last = runs(3, serving(peak, 170.0))
    assert [told(each) for each in last] == [[(2, False)], [], []]
    assert open_ones() == []

    runs(4, serving(peak, 45.0))
    assert open_ones() == [3], "what is no longer needed is given back"
    assert merge(desk) == 3
    less = changed(desk, 3).replicas_after
    assert less < peak

    broken = runs(2, serving(less, 45.0, itl_s=0.09))
    assert [told(each) for each in broken] == [[(3, True)], []]
    assert "mean ITL is 90 ms measured, 8 ms forecast (target 60 ms)" in desk.pull_requests()[2].body
    assert open_ones() == [4]
    assert changes_of(desk) == [(less, min(peak, 2 * less), 3)]
    assert merge(desk) == 4
    back = changed(desk, 4).replicas_after
    kept = runs(6, serving(back, 45.0))
    assert told(kept[0]) == [(4, False)]
    assert open_ones() == [], "what was taken back does not return"
    waiting = [each.waiting.kind for each in kept[-1].prepared.plan.decisions if each.waiting is not None]
    assert HoldKind.PROMISE_BROKEN in waiting
    assert {each.state for each in desk.pull_requests()} == {PullRequestState.MERGED}
    assert desk.now_s - start_s == pytest.approx(30 * 48 * MINUTE_S)
