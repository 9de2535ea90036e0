"""Branches of open pull requests while their base moves: what is rebuilt, what is withdrawn, and what is left."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.domain.proposals import Part, head_branch
from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import BEHIND, PullRequestState
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.session import Ask
from tests.attack.merging.field import BLOCKED, Change, Field, open_field
from tests.servers.answers import answering
from tests.servers.desk import BUSY, BUSY_TWICE, GRANITE, QWEN, Desk, llama
from tests.servers.fleet import CHAT_DEPLOYMENT, SETTINGS
from tests.servers.gitlab import GitLabServer
from tests.servers.hosted import NAME
from tests.unit.pipeline.test_limits import LESS, SIX

CHAT = "clusters/prod/chat/deployment.yaml"
BLIND = answering(GRANITE, QWEN)
"""A Prometheus that has lost the chat model."""


def write_replicas(desk: Desk, replicas: int) -> None:
    """A person writes another number onto the base."""
    desk.write(CHAT, CHAT_DEPLOYMENT.replace(b"replicas:   2 ", b"replicas:   %d " % replicas))


def is_mergeable(desk: Desk, branch: str) -> bool:
    """Whether git merges the branch into its base without a conflict."""
    command = ["git", "merge-tree", "--write-tree", "main", branch]
    return subprocess.run(command, cwd=desk.workshop.remote, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("ask", [BUSY, BLIND], ids=["seen", "blind"])
@pytest.mark.parametrize("replicas", [1, 3, 4, 5, 9])
def test_the_same_number_was_changed_on_the_base(desk: Desk, replicas: int, ask: Ask) -> None:
    desk.run(BUSY)
    (made,) = desk.pull_requests()
    write_replicas(desk, replicas)
    for _ in range(2):
        desk.run(ask)
    found = next(each for each in desk.pull_requests() if each.number == made.number)
    assert not found.is_open or is_mergeable(desk, made.head_branch)


RULE = """apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {name: down, scope: {direction: [down]}, autoMerge: {}}
"""


def test_a_rule_that_allows_it_later_moves_what_is_open_to_the_part_that_merges_by_itself(desk: Desk) -> None:
    desk.write(CHAT, SIX)
    desk.run(LESS, desk.dated_forge)
    (waiting,) = desk.pull_requests()
    assert waiting.head_branch == head_branch("reconciler/", "prod/chat", Part.APPROVAL)
    desk.write(".reconciler/policies/rules.yaml", RULE)
    desk.write("reconciler.yaml", SETTINGS + "policies: [.reconciler/policies/]\n")
    desk.run(LESS, desk.dated_forge)
    before, now = desk.pull_requests()
    assert (before.state, now.is_open) == (PullRequestState.CLOSED, True)
    assert now.head_branch == head_branch("reconciler/", "prod/chat", Part.AUTO)
    desk.now_s += 600
    desk.run(LESS, desk.dated_forge)
    assert [each.state for each in desk.pull_requests()] == [PullRequestState.CLOSED, PullRequestState.MERGED]


def test_a_rule_that_only_allows_it_moves_nothing(desk: Desk) -> None:
    """People merge it all the same: closing one to open another would be noise."""
    desk.write(CHAT, SIX)
    desk.run(LESS, desk.dated_forge)
    desk.write(".reconciler/policies/rules.yaml", RULE.replace("autoMerge: {}", "step: {down: 100%}"))
    desk.write("reconciler.yaml", SETTINGS + "policies: [.reconciler/policies/]\n")
    desk.run(LESS, desk.dated_forge)
    assert [each.is_open for each in desk.pull_requests()] == [True]


KINDS = ("github", "gitlab", "local")


def move_base(place: Field, number: int = 1) -> None:
    """Somebody commits something else."""
    place.desk.write("README.md", f"{number}\n")


def update_branch(place: Field, changes: Sequence[Change] = ()) -> None:
    """A person has the forge merge the base into our branch, perhaps with more than git makes of it."""
    tree = place.git("merge-tree", "--write-tree", place.branch, "main").splitlines()[0]
    index = {"GIT_INDEX_FILE": str(place.remote / "index-of-a-person")}
    place.git("read-tree", tree, variables=index)
    for mode, path, content in changes:
        oid = place.git("hash-object", "-w", "--stdin", stdin=content)
        place.git("update-index", "--add", "--cacheinfo", f"{mode},{oid},{path}", variables=index)
    person = {f"GIT_{who}_{what}": "ada@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    tree = place.git("write-tree", variables=index)
    parents = ("-p", place.branch, "-p", "main")
    commit = place.git("commit-tree", tree, *parents, "-m", "Merge branch 'main'", variables=person)
    if place.server is not None and place.kind != "local":
        place.server.pushed_by[commit] = "ada"
    place.push(commit)


def parents(place: Field) -> list[str]:
    return place.git("show", "-s", "--format=%P", place.branch).split()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [1, 3])
def test_an_update_of_the_branch_by_a_person_takes_over_nothing(desk: Desk, kind: str, times: int) -> None:
    with open_field(kind, desk) as place:
        for number in range(times):
            move_base(place, number)
            update_branch(place)
        assert place.outcome(place.run()).operation is Operation.UPDATED
        assert parents(place) == [place.git("rev-parse", "main")]
        assert place.outcome(place.run()).operation is Operation.MERGED


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_with_more_in_it_is_a_persons_commit(desk: Desk, kind: str) -> None:
    with open_field(kind, desk) as place:
        move_base(place)
        update_branch(place, [("100644", "clusters/prod/more.yaml", b"kind: Role\n")])
        before = place.git("rev-parse", place.branch)
        for _ in range(2):
            found = place.outcome(place.run())
            assert found.operation is Operation.LEFT
            assert "ada@example.com pushed commits" in found.reason
        assert place.git("rev-parse", place.branch) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_of_something_else_is_a_persons_commit(desk: Desk, kind: str) -> None:
    """Nothing is added to the tree, but its second parent is not on the base."""
    with open_field(kind, desk) as place:
        place.git("update-ref", "refs/heads/theirs", place.commit([("100644", "README.md", b"theirs\n")], onto="main"))
        tree = place.git("rev-parse", f"{place.branch}^{{tree}}")
        person = {f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        merge = ("commit-tree", tree, "-p", place.branch, "-p", "theirs", "-m", "Merge")
        place.push(place.git(*merge, variables=person))
        assert place.outcome(place.run()).operation is Operation.LEFT


def ask_for_current_branches(place: Field) -> None:
    if isinstance(place.server, GitLabServer):
        place.server.project["merge_method"] = "ff"
    elif place.server is not None:
        place.server.repositories[NAME].rules = {"main": ["required_status_checks"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_base_that_moved_is_followed_where_the_forge_asks_for_it(desk: Desk, kind: str) -> None:
    with open_field(kind, desk) as place:
        before = parents(place)
        move_base(place)
        assert place.outcome(place.run(minutes=1)).operation is Operation.WAITING
        assert parents(place) == before
        ask_for_current_branches(place)
        is_local = kind == "local"
        expected = Operation.WAITING if is_local else Operation.UPDATED
        assert place.outcome(place.run(minutes=1)).operation is expected
        assert (parents(place) == before) is is_local
        if not is_local:
            assert place.outcome(place.run(minutes=1)).operation is Operation.WAITING, "one push is enough"


@pytest.mark.parametrize(("kind", "state"), [("github", "behind"), ("gitlab", "need_rebase")])
def test_a_branch_that_is_behind_is_rebuilt_though_no_rule_is_shown(desk: Desk, kind: str, state: str) -> None:
    with open_field(kind, desk) as place:
        place.stored.mergeable_state = state
        found = place.outcome(place.run())
        assert (found.operation, found.reason) == (Operation.WAITING, BEHIND), (
            "it is on the newest commit that is known"
        )
        move_base(place)
        assert place.outcome(place.run()).operation is Operation.UPDATED
        assert parents(place) == [place.git("rev-parse", "main")]
        place.stored.mergeable_state = "clean"
        assert place.outcome(place.run()).operation is Operation.MERGED


def test_a_branch_that_the_forge_calls_behind_is_pushed_no_more_often_than_other_changes(desk: Desk) -> None:
    with open_field("github", desk) as place:
        assert place.server is not None
        limited = SETTINGS.replace("labels: [reconciler]", "labels: [reconciler], limits: {pushesPerHour: 1}")
        desk.write("reconciler.yaml", limited + "policies: [.reconciler/policies/]\n")
        desk.write(".reconciler/policies/rules.yaml", RULE)
        desk.write(CHAT, SIX)
        place.run(LESS)
        assert place.branch == head_branch("reconciler/", "prod/chat", Part.AUTO)
        place.server.repositories[NAME].pull_requests[2].mergeable_state = "behind"
        move_base(place)
        before = parents(place)
        found = place.outcome(place.run(LESS))
        assert found.operation is Operation.PUT_BACK
        assert "pullRequests.limits.pushesPerHour is 1" in found.reason
        assert parents(place) == before
        assert place.outcome(place.run(LESS, minutes=60)).operation is Operation.UPDATED


def test_what_is_only_behind_is_pushed_no_more_often_than_other_changes(desk: Desk) -> None:
    with open_field("github", desk) as place:
        desk.write(".reconciler/policies/rules.yaml", "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules: []\n")
        desk.configure(
            "pullRequests: {labels: [reconciler]", "pullRequests: {labels: [reconciler], limits: {pushesPerHour: 1}"
        )
        desk.write(CHAT, SIX)
        ask_for_current_branches(place)
        assert place.run(LESS) is not None
        for number in range(3):
            move_base(place, number)
            published = place.run(LESS).published
            found = [each for each in published if (each.group, each.part) == ("prod/chat", Part.APPROVAL)]
            assert [each.operation for each in found] == [Operation.PUT_BACK]


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_merge_into_another_branch_that_cannot_be_cancelled_fails_alone(desk: Desk, kind: str) -> None:
    """What was pushed to its branch would go there."""
    with open_field(kind, desk) as place:
        place.stored.mergeable_state = BLOCKED[kind]
        place.run(BUSY_TWICE)
        place.stored.base = "release"
        before = place.git("rev-parse", place.branch)

        def refuse(number: int) -> None:
            raise ConfigurationError(f"the token may not change pull request {number}")

        place.forge.unschedule = refuse  # type: ignore[method-assign]
        published = place.run(answering(*llama(170.0), replace(GRANITE, per_s=12.0), QWEN)).published
        found = {each.group: each for each in published}
        assert (found["prod/chat"].operation, found["prod/chat"].reason) == (
            Operation.FAILED,
            "the token may not change pull request 1",
        )
        assert place.git("rev-parse", place.branch) == before
        assert found["prod/code"].operation is Operation.MERGED
