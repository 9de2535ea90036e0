"""What needs no person merges by itself, run after run on the local forge: when it does, and what stops it."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.domain.proposals import Part
from reconciler.forge.marker import read_marker
from reconciler.forge.pull_requests import Forge, PullRequest, PullRequestState
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from tests.servers.desk import BUSY, BUSY_TWICE, GRANITE, PEAK, QUIET, QWEN, Desk, at
from tests.servers.fleet import SETTINGS
from tests.servers.forge_server import ForgeServer, StoredPullRequest
from tests.servers.git_workshop import run_git
from tests.servers.gitlab import GitLabServer
from tests.servers.hosted import open_hosted
from tests.unit.pipeline.test_after_merge import serving

MINUTE_S = 60.0
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
UP = "  - {name: up, scope: {direction: [up]}, autoMerge: {}}\n"
CHAT, VARIANT = "clusters/prod/chat/deployment.yaml", "clusters/prod/chat/variant.yaml"


def configured(settings: str, policies: str) -> str:
    """The fleet's configuration with more `settings` of pull requests, and these policies."""
    whole = SETTINGS.replace("{labels: [reconciler]}", f"{{labels: [reconciler]{settings}}}")
    return f"{whole}policies: [{policies}]\n"


def rule(desk: Desk, text: str, settings: str = "") -> None:
    """Give the fleet these rules and nothing else."""
    desk.write("reconciler.yaml", configured(settings, ".reconciler/policies/"))
    desk.write(".reconciler/policies/rules.yaml", HEADER + text)


def of_chat(result: RunResult) -> tuple[Operation, str]:
    (found,) = (each for each in result.published if each.group == "prod/chat" and (each.number or each.reason))
    return found.operation, found.reason


def of_number(result: RunResult, number: int) -> tuple[Operation, str]:
    (found,) = (each for each in result.published if each.number == number)
    return found.operation, found.reason


def chat(desk: Desk) -> PullRequest:
    return desk.pull_requests()[0]


def later(desk: Desk, minutes: float = 10.0) -> None:
    desk.now_s += minutes * MINUTE_S


def merged_now(desk: Desk, number: int = 1) -> None:
    """A file's time is the machine's; the desk has its own."""
    path = desk.workshop.remote / "reconciler" / "pulls" / f"{number}.md"
    os.utime(path, (desk.now_s, desk.now_s))


@pytest.fixture
def ruled(desk: Desk) -> Desk:
    """A desk with a pull request that a rule lets merge by itself, old enough for that."""
    rule(desk, UP)
    desk.run(BUSY)
    later(desk)
    return desk


def test_it_says_so_and_is_merged_by_a_later_run_at_the_commit_that_was_looked_at(desk: Desk) -> None:
    rule(desk, UP)
    assert of_chat(desk.run(BUSY))[0] is Operation.CREATED
    assert "**Merges by itself** once its checks have passed" in chat(desk).body
    assert "rule `up` lets it" in chat(desk).body
    marker = read_marker(chat(desk).body)
    assert marker is not None
    assert (marker.part, marker.merges) == (Part.URGENT, True)
    assert of_chat(desk.run(BUSY)) == (Operation.WAITING, "it was pushed less than 5 minutes ago")
    later(desk)
    base, head = desk.branches()["main"], desk.branches()[chat(desk).head_branch]
    result = desk.run(BUSY)
    assert of_chat(result) == (Operation.MERGED, "")
    assert chat(desk).state is PullRequestState.MERGED
    commit = run_git(desk.workshop.remote, "rev-list", "--parents", "-1", "main").split()
    assert commit[1:] == [base, head]
    assert b"replicas:   4" in run_git(desk.workshop.remote, "show", f"main:{CHAT}").encode()
    assert run_git(desk.workshop.remote, "diff", "--name-only", base, "main").splitlines() == [CHAT, VARIANT]


@pytest.fixture
def one_group(desk: Desk) -> Desk:
    """A desk whose models are all of one group, of which the first pull request was merged by itself just now."""
    rule(desk, UP, ", groupBy: [cluster]")
    desk.run(BUSY)
    later(desk)
    assert of_number(desk.run(BUSY), 1)[0] is Operation.MERGED
    merged_now(desk)
    return desk


def both(replicas: int, per_s: float, *, itl_s: float | None = None) -> Ask:
    """The chat model after its merge, and a second model that is busy."""
    return serving(replicas, per_s, itl_s=itl_s, beside=(replace(GRANITE, per_s=12.0), QWEN))


def test_what_was_merged_rolls_out_before_the_next_merge_of_its_group(one_group: Desk) -> None:
    one_group.run(both(2, 110.0))
    later(one_group, 5.0)
    why = "what pull request #1 changed has not rolled out yet"
    assert of_number(one_group.run(both(2, 110.0)), 2) == (Operation.WAITING, why)
    later(one_group, 15.0)
    assert of_number(one_group.run(both(4, 110.0)), 2)[0] is Operation.MERGED


def test_after_a_promise_that_was_not_kept_a_person_merges(one_group: Desk) -> None:
    slow = both(4, 40.0, itl_s=0.09)
    later(one_group, 15.0)
    one_group.run(slow)
    later(one_group)
    operation, why = of_number(one_group.run(slow), 2)
    assert operation is Operation.WAITING
    assert why.startswith("pull request #1 did not do what it was merged for: 4 of 4 replicas serve, but mean wait is")
    later(one_group, 24 * 60.0)
    assert of_number(one_group.run(slow), 2)[0] is Operation.MERGED, "a day later it speaks of nothing any more"


def test_without_a_rule_a_person_merges(desk: Desk) -> None:
    rule(desk, "  - {name: down, scope: {direction: [down]}, autoMerge: {}}\n")
    for _ in range(3):
        result = desk.run(BUSY)
        later(desk)
    assert of_chat(result)[0] is Operation.NONE
    assert "by itself" not in chat(desk).body
    assert chat(desk).is_open


@pytest.mark.parametrize("preset", ["default", "conservative", "aggressive", "balanced"])
def test_no_preset_merges_a_first_change(desk: Desk, preset: str) -> None:
    desk.write("reconciler.yaml", configured("", preset))
    for _ in range(3):
        result = desk.run(BUSY)
        later(desk)
    assert of_chat(result)[0] is Operation.NONE
    assert chat(desk).is_open


def test_a_rule_that_objects_leaves_it_to_a_person(desk: Desk) -> None:
    rule(desk, UP + "  - {name: ask, approval: {upMoreThan: 1}}\n")
    for _ in range(3):
        result = desk.run(BUSY)
        later(desk)
    assert of_chat(result)[0] is Operation.NONE
    assert chat(desk).is_open


def test_what_a_model_needs_is_not_taken_without_a_person(desk: Desk) -> None:
    rule(desk, "  - {name: cap, bounds: {maxReplicas: 1}}\n  - {name: all, autoMerge: {}}\n")
    desk.run(QUIET)
    later(desk)
    result = desk.run(QUIET)
    (change,) = (each for group in result.prepared.plan.groups for each in group.changes if each.group == "prod/chat")
    assert (change.current.replicas, change.desired.replicas) == (2, 1)
    assert change.verdict.may_merge_itself
    assert of_chat(result)[0] is Operation.NONE
    assert chat(desk).is_open
    assert "Merges by itself" not in chat(desk).body


def test_the_setting_merges_all_that_rules_allow(desk: Desk) -> None:
    rule(desk, "  - {name: few, changeLimit: {changes: 9}}\n", ", autoMerge: true")
    desk.run(BUSY)
    assert "`pullRequests.autoMerge` lets it" in chat(desk).body
    later(desk)
    assert of_chat(desk.run(BUSY))[0] is Operation.MERGED


def test_the_setting_false_goes_before_any_rule(desk: Desk) -> None:
    rule(desk, UP, ", autoMerge: false")
    desk.run(BUSY)
    later(desk)
    assert of_chat(desk.run(BUSY))[0] is Operation.NONE


def test_without_any_rules_nothing_merges_whatever_the_setting(desk: Desk) -> None:
    desk.write("reconciler.yaml", configured(", autoMerge: true", ""))
    desk.run(BUSY)
    later(desk)
    assert of_chat(desk.run(BUSY))[0] is Operation.NONE


def test_a_rule_that_came_later_is_told_first_and_merges_then(desk: Desk) -> None:
    rule(desk, "  - {name: few, changeLimit: {changes: 9}}\n")
    desk.run(BUSY)
    before = desk.branches()[chat(desk).head_branch]
    rule(desk, UP)
    later(desk)
    assert of_chat(desk.run(BUSY))[0] is Operation.UPDATED
    assert "**Merges by itself**" in chat(desk).body
    assert desk.branches()[chat(desk).head_branch] == before, "the same decision is not pushed again"
    assert of_chat(desk.run(BUSY))[0] is Operation.MERGED


def test_a_label_leaves_it_alone(ruled: Desk) -> None:
    ruled.forge.update(1, labels=("stop-updating",))
    assert of_chat(ruled.run(BUSY))[0] is Operation.LEFT
    assert chat(ruled).is_open


def test_a_pause_merges_nothing(ruled: Desk) -> None:
    ruled.variables = {"RECONCILER_PAUSED": "true"}
    before = ruled.state()
    ruled.run(BUSY)
    assert ruled.state() == before


def test_another_decision_is_pushed_and_waits_anew(ruled: Desk) -> None:
    later(ruled, 22.0)  # two runs have let it through as it stands
    assert of_chat(ruled.run(PEAK))[0] is Operation.UPDATED
    assert of_chat(ruled.run(PEAK))[0] is Operation.WAITING
    assert chat(ruled).is_open


def test_what_is_no_longer_needed_is_withdrawn_instead(ruled: Desk) -> None:
    assert of_chat(ruled.run(QUIET))[0] is Operation.CLOSED
    assert chat(ruled).state is PullRequestState.CLOSED


def test_a_freeze_holds_it(ruled: Desk) -> None:
    frozen = UP + "  - {name: stop, freeze: {from: '2020-01-01', until: '2100-01-01'}}\n"
    ruled.write(".reconciler/policies/rules.yaml", HEADER + frozen)
    before = ruled.branches()["main"]
    for _ in range(3):
        ruled.run(BUSY)
        later(ruled)
    assert ruled.branches()["main"] == before


def test_a_persons_commit_on_it_is_theirs(ruled: Desk) -> None:
    branch = chat(ruled).head_branch
    person = ruled.workshop
    person.git("fetch", "-q", "origin", branch)
    person.git("checkout", "-q", "--detach", "FETCH_HEAD")
    person.git("commit", "-q", "--allow-empty", "-m", "Mine")
    person.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
    assert of_chat(ruled.run(BUSY))[0] is Operation.LEFT
    assert chat(ruled).is_open


def test_measured_numbers_of_a_status_differ_from_run_to_run_and_stop_nothing(ruled: Desk) -> None:
    drafted = run_git(ruled.workshop.remote, "show", f"{chat(ruled).head_branch}:{VARIANT}")
    ask = at(111.0)
    result = ruled.run(ask)
    (draft,) = (each for each in result.drafts if VARIANT in each.change_set.files)
    assert draft.change_set.files[VARIANT].decode().strip() != drafted
    assert of_chat(result)[0] is Operation.MERGED
    merged = run_git(ruled.workshop.remote, "show", f"main:{VARIANT}")
    assert merged == draft.change_set.files[VARIANT].decode().strip(), "here git merges what this run writes"


def test_a_body_that_a_person_changed_is_put_right_before_anything_merges(ruled: Desk) -> None:
    path = ruled.workshop.remote / "reconciler" / "pulls" / "1.md"
    path.write_text(path.read_text().replace('"merges":true', '"merges":false'))
    assert of_chat(ruled.run(BUSY))[0] is Operation.UPDATED
    assert of_chat(ruled.run(BUSY))[0] is Operation.MERGED


def test_a_push_to_the_base_meanwhile_loses_nothing(ruled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base moves between the look and the merge: nothing is overwritten, and the next run merges."""
    forge = type(ruled.forge)
    order = forge.merge

    def slow(self: Any, wanted: PullRequest, **asked: Any) -> Any:
        ruled.write("README.md", "Somebody was faster.\n")
        return order(self, wanted, **asked)

    with monkeypatch.context() as patched:
        patched.setattr(forge, "merge", slow)
        operation, reason = of_chat(ruled.run(BUSY))
    assert operation is Operation.FAILED
    assert "another run or person moved it" in reason
    assert chat(ruled).is_open
    assert of_chat(ruled.run(BUSY))[0] is Operation.MERGED
    assert run_git(ruled.workshop.remote, "show", "main:README.md").startswith("Somebody was faster.")


def test_a_push_to_the_head_meanwhile_is_never_merged(ruled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    forge, branch = type(ruled.forge), chat(ruled).head_branch
    order = forge.merge

    def slow(self: Any, wanted: PullRequest, **asked: Any) -> Any:
        commit = run_git(ruled.workshop.remote, "commit-tree", "main^{tree}", "-p", branch, "-m", "Mine")
        run_git(ruled.workshop.remote, "update-ref", f"refs/heads/{branch}", commit)
        return order(self, wanted, **asked)

    monkeypatch.setattr(forge, "merge", slow)
    operation, reason = of_chat(ruled.run(BUSY))
    assert (operation, "somebody pushed to it meanwhile" in reason) == (Operation.FAILED, True)
    assert chat(ruled).is_open


@pytest.mark.parametrize(
    ("own", "setting", "merges"),
    [
        ("{}", "", 2),
        ("{mergesPerHour: 1}", "", 1),
        ("{mergesPerHour: 5}", ", limits: {mergesPerHour: 1}", 1),
    ],
)
def test_no_more_merge_in_an_hour_than_the_smaller_limit(desk: Desk, own: str, setting: str, merges: int) -> None:
    rule(desk, f"  - {{name: up, autoMerge: {own}}}\n", setting)
    desk.run(BUSY_TWICE)
    later(desk)
    result = desk.run(BUSY_TWICE)
    operations = [each.operation for each in result.published if each.number is not None]
    assert operations.count(Operation.MERGED) == merges
    waiting = [each.reason for each in result.published if each.operation is Operation.WAITING]
    assert waiting == ["at most 1 of our pull requests are merged in an hour"] * (2 - merges)
    for number in (1, 2)[:merges]:
        merged_now(desk, number)
    if merges == 1:
        later(desk, 61.0)
        result = desk.run(BUSY_TWICE)
        assert Operation.MERGED in [each.operation for each in result.published]


@dataclass(frozen=True, kw_only=True)
class Served:
    """A desk whose pull requests are on a forge, which merges the first one only when its rules are met."""

    desk: Desk
    server: ForgeServer
    forge: Forge
    words: str
    """What the forge waits for."""

    @property
    def stored(self) -> StoredPullRequest:
        return self.server.repositories["acme/fleet"].pull_requests[1]

    def run(self, ask: Ask) -> tuple[Operation, str]:
        self.server.now_s = self.desk.now_s
        return of_chat(self.desk.run(ask, self.forge))


BLOCKED = {
    "github": ("blocked", "rules of its base are not met"),
    "gitlab": ("not_approved", "rules of the project are not met (not approved)"),
}


@pytest.fixture(params=["github", "gitlab"])
def served(request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """On each forge that merges."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    rule(desk, UP)
    with open_hosted(request.param, desk.workshop.remote, desk.now_s) as (forge, server):
        state, words = BLOCKED[request.param]
        made = Served(desk=desk, server=server, forge=forge, words=words)
        assert made.run(BUSY)[0] is Operation.CREATED
        made.stored.mergeable_state = state
        later(desk)
        yield made


def test_on_a_forge_it_is_merged_when_its_checks_have_passed(served: Served) -> None:
    if isinstance(served.server, GitLabServer):
        served.stored.mergeable_state = "clean"
        served.server.pipelines[1] = ("", "failed")
        assert served.run(BUSY) == (Operation.WAITING, "its pipeline failed")
        served.server.pipelines[1] = ("", "success")
    else:
        served.stored.mergeable_state = "unstable"
        assert served.run(BUSY) == (Operation.WAITING, "a check failed or has not finished")
    served.stored.mergeable_state = "clean"
    assert served.run(BUSY)[0] is Operation.MERGED
    assert served.stored.merged_s is not None


def test_on_a_forge_its_rules_are_waited_for(served: Served) -> None:
    for _ in range(2):
        assert served.run(BUSY) == (Operation.SCHEDULED, served.words)
    served.server.meet_rules("acme/fleet", 1)
    (found, *_) = served.forge.list_pull_requests(head_prefix="", base="main", closed_since_s=0.0)
    assert found.state is PullRequestState.MERGED


def ask(desk: Desk) -> None:
    desk.write(".reconciler/policies/rules.yaml", HEADER + UP + "  - {name: ask, approval: {}}\n")


def pause(desk: Desk) -> None:
    desk.variables = {"RECONCILER_PAUSED": "true"}


def forbid(desk: Desk) -> None:
    desk.write("reconciler.yaml", configured(", autoMerge: false", ".reconciler/policies/"))


@pytest.mark.parametrize("stop", [ask, pause, forbid])
def test_what_a_forge_was_told_is_taken_back_when_somebody_objects(
    served: Served, stop: Callable[[Desk], None]
) -> None:
    served.desk.run(BUSY, served.forge)
    assert served.stored.told_by
    stop(served.desk)
    served.desk.run(BUSY, served.forge)
    assert not served.stored.told_by


def test_what_a_forge_was_told_is_taken_back_for_a_label(served: Served) -> None:
    served.desk.run(BUSY, served.forge)
    served.stored.labels.append("stop-updating")
    assert served.run(BUSY)[0] is Operation.LEFT
    assert not served.stored.told_by


def test_a_forge_merges_no_other_decision_than_it_was_told_to(served: Served) -> None:
    """What was told is taken back before the push, and a push that fails changes nothing of that."""
    served.desk.run(BUSY, served.forge)
    if served.server.kind == "github":
        served.server.fail("POST", "/graphql", status=500, after=1, times=99)  # the first asks for merge queues
    else:
        served.server.fail("POST", "/cancel_merge_when_pipeline_succeeds$", status=500, times=99)
    head = served.desk.branches()["reconciler/prod-chat-urgent-705ae555"]
    served.desk.now_s += 1300  # two runs have let it through as it stands
    assert served.run(PEAK)[0] is Operation.FAILED
    branches = served.desk.branches()
    assert branches["reconciler/prod-chat-urgent-705ae555"] == head, "nothing is pushed to what may be merged"
    served.server.faults.clear()
    assert served.run(PEAK)[0] is Operation.UPDATED
    assert not served.stored.told_by
    assert served.run(PEAK)[0] is Operation.WAITING
