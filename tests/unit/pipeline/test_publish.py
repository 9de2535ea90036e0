"""What becomes of pull requests, run after run."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.proposals import Part, head_branch, undivided_branch
from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.forge.local import Local
from reconciler.forge.marker import is_of_newer_version, read_marker, withdrawn
from reconciler.forge.pull_requests import Assignment, PullRequest, PullRequestState
from reconciler.git.clone import clone_base
from reconciler.git.signing import prepare_signer
from reconciler.pipeline.prepare import Prepared
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.run import RunResult, run
from tests.servers.answers import failing
from tests.servers.desk import BUSY, BUSY_TWICE, PEAK, QUIET, Desk, at
from tests.servers.fleet import CHAT_DEPLOYMENT, SETTINGS
from tests.servers.git_workshop import run_git

CHAT = "reconciler/prod-chat-urgent-705ae555"
DAY_S = 86400.0


def operations(result: RunResult) -> dict[str, Operation]:
    """What happened to each group that something happened to."""
    return {each.group: each.operation for each in result.published if each.operation is not Operation.NONE}


def test_a_pull_request_is_created_then_left_then_updated_then_withdrawn(desk: Desk) -> None:
    assert operations(desk.run(QUIET)) == {}
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.CREATED}
    before = desk.state()
    assert operations(desk.run(BUSY)) == {}
    assert desk.state() == before
    assert operations(desk.run(PEAK)) == {"prod/chat": Operation.UPDATED}
    assert [each.number for each in desk.pull_requests()] == [1]
    assert operations(desk.run(QUIET)) == {"prod/chat": Operation.CLOSED}
    assert set(desk.branches()) == {"main"}


def test_rules_of_the_base_commit_judge_label_and_ask(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Assignment] = []
    create = Local.create

    def told(forge: Local, **fields: Any) -> Any:
        asked.append(fields["assignment"])
        return create(forge, **fields)

    monkeypatch.setattr(Local, "create", told)
    settings = SETTINGS.replace("{labels: [reconciler]}", "{labels: [reconciler], assignees: [bob], milestone: Q2}")
    desk.write("reconciler.yaml", f"{settings}policies: [.reconciler/policies/]\n")
    rules = "- {name: up, step: {up: 1}}\n- {name: on-call, labels: {add: [gpu]}}\n"
    rules += "- {name: ann, approval: {reviewers: [ann]}}\n"
    desk.write(".reconciler/policies/rules.yaml", f"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n{rules}")
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.CREATED}
    (shown,) = desk.pull_requests()
    assert shown.labels == ("reconciler", "gpu")
    assert asked == [Assignment(reviewers=("ann",), assignees=("bob",), milestone="Q2")]
    assert re.search(r"`llama` clamped: rule \[`up`\]\(\S+\): at most 1 up at once, 4 would be needed", shown.body)
    assert ".reconciler/policies/rules.yaml:4" in shown.body


def test_labels_of_ours_go_when_they_fit_no_more(desk: Desk) -> None:
    settings = SETTINGS.replace("pullRequests: {labels: [reconciler]}\n", "")
    desk.write("reconciler.yaml", f"{settings}policies: [.reconciler/policies/]\n")
    rule = '{name: small, label: {when: "change.replicas_after < 6", add: [small]}}'
    desk.write(
        ".reconciler/policies/rules.yaml", f"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules: [{rule}]\n"
    )
    desk.run(BUSY)
    (shown,) = desk.pull_requests()
    assert shown.labels == ("reconciler", "scale-up", "small")
    desk.forge.update(shown.number, labels=("looked at", "saving"))
    assert operations(desk.run(PEAK)) == {"prod/chat": Operation.UPDATED}
    assert desk.pull_requests()[0].labels == ("reconciler", "scale-up", "looked at")


def test_without_metrics_an_open_pull_request_stays_as_it_is(desk: Desk) -> None:
    desk.run(BUSY)
    before = desk.state()
    result = desk.run(failing("no route to host"))
    assert operations(result) == {"prod/chat": Operation.LEFT}
    assert "metrics of prod/chat/VariantAutoscaling/llama are missing" in result.published[1].reason
    assert desk.state() == before


def test_a_pull_request_from_before_parts_is_taken_over(desk: Desk) -> None:
    """Its branch and number stay; its body is told the part, once."""
    desk.run(BUSY)
    made, tip = desk.pull_requests()[0], desk.branches()[CHAT]
    old = undivided_branch("reconciler/", "prod/chat")
    run_git(desk.workshop.remote, "branch", old, tip)
    body = made.body.replace('"part":"urgent",', "")
    desk.forge.create(head=old, base="main", title=made.title, body=body, labels=("reconciler",))
    desk.forge.update(1, body=withdrawn(made.body), close=True)
    run_git(desk.workshop.remote, "branch", "-D", CHAT)
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    assert [each.number for each in desk.pull_requests() if each.is_open] == [2]
    marker = read_marker(desk.pull_requests()[1].body)
    assert marker is not None
    assert marker.part is Part.APPROVAL
    assert set(desk.branches()) == {"main", old}
    before = desk.state()
    assert operations(desk.run(BUSY)) == {}
    assert desk.state() == before
    assert operations(desk.run(QUIET)) == {"prod/chat": Operation.CLOSED}
    assert set(desk.branches()) == {"main"}


def test_a_branch_that_a_killed_run_left_for_another_part_is_deleted(desk: Desk) -> None:
    desk.run(BUSY)
    tip = desk.branches()[CHAT]
    for left in (head_branch("reconciler/", "prod/chat", Part.AUTO), undivided_branch("reconciler/", "prod/chat")):
        run_git(desk.workshop.remote, "branch", left, tip)
    desk.run(BUSY)
    assert set(desk.branches()) == {"main", CHAT}


def test_a_closed_decision_returns_after_its_time(desk: Desk) -> None:
    desk.run(BUSY)
    desk.forge.update(1, close=True)
    desk.now_s = desk.forge.list_pull_requests(head_prefix="", base="main", closed_since_s=0.0)[0].closed_at_s or 0.0
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.LEFT}
    desk.now_s += 6 * DAY_S
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.LEFT}
    desk.now_s += DAY_S
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.CREATED}
    assert [each.is_open for each in desk.pull_requests()] == [False, True]


def test_a_group_that_is_gone_has_its_pull_request_withdrawn(desk: Desk) -> None:
    desk.run(BUSY)
    desk.configure("pullRequests: {", "pullRequests: {groupBy: [], ")
    assert operations(desk.run(BUSY)) == {"all": Operation.CREATED, "prod/chat": Operation.CLOSED}
    assert CHAT not in desk.branches()


def test_a_group_of_a_cluster_that_was_not_asked_for_is_not_gone(desk: Desk) -> None:
    desk.run(BUSY)
    desk.configure(
        'paths: {include: ["clusters/prod/**"]}}\n',
        'paths: {include: ["clusters/prod/**"]}}\n  - {name: dev, paths: {include: ["clusters/dev/**"]}}\n',
    )
    desk.clusters = ("dev",)
    before = desk.state()
    assert operations(desk.run(BUSY)) == {}
    assert desk.state() == before


def test_a_branch_of_somebody_else_is_never_taken(desk: Desk) -> None:
    desk.workshop.write("mine.txt", b"mine\n")
    commit = desk.workshop.commit("Mine", CHAT)
    desk.workshop.git("reset", "-q", "--hard", "HEAD~1")
    result = desk.run(BUSY)
    assert operations(result) == {"prod/chat": Operation.LEFT}
    assert "is not ours: delete it, or choose another git.branchPrefix" in result.published[1].reason
    assert desk.branches()[CHAT] == commit


def test_a_trailer_that_a_person_copied_does_not_make_a_commit_ours(desk: Desk) -> None:
    desk.run(BUSY)
    desk.workshop.git("fetch", "-q", "origin", CHAT)
    desk.workshop.git("checkout", "-q", "FETCH_HEAD")
    desk.workshop.git("commit", "-q", "--amend", "--no-edit", "--reset-author")
    desk.workshop.git("push", "-q", "--force", "origin", f"HEAD:refs/heads/{CHAT}")
    before = desk.state()
    assert operations(desk.run(PEAK)) == {"prod/chat": Operation.LEFT}
    assert desk.state() == before


def test_a_marker_can_only_make_us_do_less(desk: Desk) -> None:
    """A body without a marker, or with a lying one, loses our text and nothing else."""
    desk.run(BUSY)
    body = desk.pull_requests()[0].body
    desk.forge.update(1, body="Mine now.\n")
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    assert read_marker(desk.pull_requests()[0].body) == read_marker(body)


def test_the_author_and_sign_off_are_as_configured(desk: Desk) -> None:
    desk.configure("pullRequests: {", "git: {signOff: true}\npullRequests: {")
    desk.run(BUSY)
    shown = run_git(desk.workshop.remote, "show", "-s", "--format=%an <%ae>%n%B", CHAT)
    assert shown.startswith("Reconciler <reconciler@noreply.invalid>")
    assert "Signed-off-by: Reconciler <reconciler@noreply.invalid>" in shown


class BrokenForge(Local):
    """A forge whose creates fail."""

    def __init__(self, directory: Path, error: ReconcilerError) -> None:
        super().__init__(directory)
        self.error = error

    def create(self, **_keywords: object) -> PullRequest | None:
        raise self.error


@pytest.mark.parametrize("error", [TransientError("down"), ConfigurationError("denied"), RivalRunError("taken")])
def test_one_groups_failure_does_not_stop_another(desk: Desk, error: ReconcilerError) -> None:
    result = desk.run(BUSY_TWICE, BrokenForge(desk.workshop.remote, error))
    assert operations(result) == {"prod/chat": Operation.FAILED, "prod/code": Operation.FAILED}
    assert {each.error for each in result.published} == {None, error}
    assert operations(desk.run(BUSY_TWICE)) == {"prod/chat": Operation.CREATED, "prod/code": Operation.CREATED}


def test_nothing_is_pushed_where_access_is_refused(desk: Desk) -> None:
    class Locked(Local):
        def check_access(self) -> None:
            raise ConfigurationError("archived")

    result = desk.run(BUSY, Locked(desk.workshop.remote))
    assert operations(result) == {"prod/chat": Operation.FAILED}
    assert set(desk.branches()) == {"main"}


def test_a_run_needs_a_clone_and_a_forge(desk: Desk) -> None:
    doors = replace(desk.doors(BUSY), forge=None)
    with pytest.raises(ConfigurationError, match="expected a URL, or a directory with a remote origin"):
        run(doors, desk.settings(doors.repository), desk.now_s, repository="fleet")


def test_a_conflict_beside_the_same_decision_rebuilds_the_branch(desk: Desk) -> None:
    desk.run(BUSY)
    base = desk.write("clusters/prod/chat/deployment.yaml", CHAT_DEPLOYMENT.replace(b"# since June", b"# since July"))
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    tip = clone_base(str(desk.workshop.remote), base=CHAT, credentials=None, directory=desk.folder / "look")
    assert tip.read_commit(tip.commit).parents == (base,)
    assert tip.read_commit(tip.commit).author == Identity(name="Reconciler", email="reconciler@noreply.invalid")


def test_a_person_who_edits_the_same_number_gets_it_decided_anew(desk: Desk) -> None:
    desk.run(BUSY)
    desk.write("clusters/prod/chat/deployment.yaml", CHAT_DEPLOYMENT.replace(b"replicas:   2", b"replicas:   4"))
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.CLOSED}


def test_a_variant_that_left_the_repository_takes_its_pull_request_along(desk: Desk) -> None:
    desk.run(BUSY)
    desk.write("clusters/prod/chat/variant.yaml", "# moved\n")
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.CLOSED}


def test_the_next_run_labels_what_a_killed_run_only_created(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Local.create

    def unlabelled(forge: Local, **fields: Any) -> PullRequest | None:
        return create(forge, **{**fields, "labels": ()})

    with monkeypatch.context() as patched:
        patched.setattr(Local, "create", unlabelled)
        desk.run(BUSY)
    assert desk.pull_requests()[0].labels == ()
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    assert desk.pull_requests()[0].labels == ("reconciler",)
    assert operations(desk.run(BUSY)) == {}


def merge_by_hand(desk: Desk, *, with_a_commit_of_the_reviewer: bool) -> None:
    person = desk.workshop
    person.git("fetch", "-q", "origin", CHAT)
    if with_a_commit_of_the_reviewer:
        person.git("checkout", "-q", "FETCH_HEAD")
        person.write("clusters/prod/chat/NOTES", b"Looked at.\n")
        person.commit("Note", CHAT)
        person.git("checkout", "-q", "main")
        person.git("fetch", "-q", "origin", CHAT)
    person.git("merge", "-q", "--no-ff", "-m", "Merge", "FETCH_HEAD")
    person.git("push", "-q", "origin", "HEAD:refs/heads/main")


@pytest.mark.parametrize("with_a_commit_of_the_reviewer", [False, True])
def test_what_git_merged_counts_as_merged_by_whomever_it_was_written(
    desk: Desk, with_a_commit_of_the_reviewer: bool
) -> None:
    desk.run(BUSY)
    merge_by_hand(desk, with_a_commit_of_the_reviewer=with_a_commit_of_the_reviewer)
    assert operations(desk.run(BUSY)) == {}
    assert desk.pull_requests()[0].state is PullRequestState.MERGED
    assert operations(desk.run(PEAK)) == {"prod/chat": Operation.CREATED}
    assert [each.is_open for each in desk.pull_requests()] == [False, True]
    assert desk.pull_requests()[1].number == 2


def push_by_force(desk: Desk, *, to: str) -> str:
    """Give the base another past: the same files without a history, or an earlier commit with them."""
    person = desk.workshop
    if to == "an unrelated history":
        commit = person.git("commit-tree", "HEAD^{tree}", "-m", "Begin anew")
    else:
        commit = person.git("commit-tree", "HEAD^{tree}", "-p", "HEAD~1", "-m", "Say it better")
    person.git("push", "-q", "--force", "origin", f"{commit}:refs/heads/main")
    person.git("reset", "-q", "--hard", commit)
    return commit


@pytest.mark.parametrize("to", ["an unrelated history", "an amended commit"])
def test_a_base_that_was_pushed_by_force_is_built_upon_anew(desk: Desk, to: str) -> None:
    desk.write("README.md", "More.\n")
    desk.run(BUSY)
    base = push_by_force(desk, to=to)
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    assert run_git(desk.workshop.remote, "rev-parse", f"{CHAT}~1") == base
    before = desk.state()
    assert operations(desk.run(BUSY)) == {}
    assert desk.state() == before


def test_a_base_that_moves_on_leaves_a_branch_where_it_is(desk: Desk) -> None:
    desk.run(BUSY)
    for content in ("More.\n", "Still more.\n"):
        desk.write("README.md", content)
        before = desk.state()
        assert operations(desk.run(BUSY)) == {}
        assert desk.state() == before


def test_noise_about_the_edge_of_one_replica_rewrites_no_pull_request(desk: Desk) -> None:
    below, above = at(236.8), at(237.5)
    assert desired_of_chat(desk.plan(below)) == 8
    assert desired_of_chat(desk.run(above).prepared) == 9
    before = desk.state()
    for ask in (below, above, below):
        assert operations(desk.run(ask)) == {}
        assert desk.state() == before
    assert operations(desk.run(at(225.0))) == {"prod/chat": Operation.UPDATED}


def desired_of_chat(prepared: Prepared) -> int:
    return next(each.desired.replicas for each in prepared.plan.decisions if each.variant.name == "llama")


def test_what_was_opened_before_commits_were_signed_is_signed_once(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run(BUSY)
    key = tmp_path / "bot"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signer, clone = prepare_signer("ssh", key.read_text(), tmp_path), desk.clone
    monkeypatch.setattr(desk, "clone", lambda: replace(clone(), signer=signer))
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    assert "\ngpgsig -----BEGIN SSH SIGNATURE-----\n" in run_git(desk.workshop.remote, "cat-file", "commit", CHAT)
    before = desk.branches()
    assert operations(desk.run(BUSY)) == {}
    assert desk.branches() == before
    monkeypatch.undo()
    assert operations(desk.run(BUSY)) == {}, "without a key nothing is written anew"


def marked(desk: Desk, old: str, new: str) -> None:
    """Have the body of the first pull request carry another marker, as a run of another version writes it."""
    (found,) = desk.pull_requests()
    assert old in found.body
    desk.forge.update(found.number, body=found.body.replace(old, new))


@pytest.mark.parametrize("version", ['"version":2,"risk":[1]', '"version":17'])
def test_an_older_run_leaves_what_a_newer_version_wrote(desk: Desk, version: str) -> None:
    desk.run(BUSY)
    marked(desk, '"version":1', version)
    before = desk.state()
    for ask in (BUSY, PEAK, QUIET):
        (left,) = [each for each in desk.run(ask).published if each.number is None and each.head_branch == CHAT]
        assert (left.operation, left.reason) == (
            Operation.LEFT,
            "a newer version wrote pull request #1: it is left to that one",
        )
    assert desk.state() == before


def test_a_newer_run_upgrades_what_an_older_version_wrote_in_place(desk: Desk) -> None:
    """Of before groups had parts, and before pull requests kept promises: the branch stays, the text is written."""
    desk.run(BUSY)
    head = desk.branches()[CHAT]
    (found,) = desk.pull_requests()
    marker = found.body[found.body.rindex("<!-- reconciler:") :]
    content = json.loads(marker.removeprefix("<!-- reconciler: ").rpartition(" -->")[0])
    old = f"<!-- reconciler: {json.dumps({key: content[key] for key in ('version', 'group', 'decision', 'state')})} -->"
    assert read_marker(old) is not None
    marked(desk, marker, old)
    assert operations(desk.run(BUSY)) == {"prod/chat": Operation.UPDATED}
    assert desk.branches()[CHAT] == head
    (upgraded,) = desk.pull_requests()
    assert upgraded.body.endswith(marker)
    assert operations(desk.run(BUSY)) == {}


@pytest.mark.parametrize(
    ("body", "is_newer"),
    [
        ('<!-- reconciler: {"version":2} -->', True),
        ('<!-- reconciler: {"version":1} -->', False),
        ('<!-- reconciler: {"version":true} -->', False),
        ('<!-- reconciler: {"version":"2"} -->', False),
        ('<!-- reconciler: {"version":2', False),
        ('<!-- reconciler: {"version":2} --> <!-- reconciler: {"version":1} -->', False),
        ("", False),
    ],
)
def test_only_a_number_above_ours_is_a_newer_version(body: str, is_newer: bool) -> None:
    assert is_of_newer_version(body) is is_newer
