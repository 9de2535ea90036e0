"""Everything that is ever asked of a forge, in the life of two pull requests from one branch."""

import os
from pathlib import Path

from reconciler.forge.marker import Marker, withdrawn, write_marker
from reconciler.forge.pull_requests import Assignment, CommitStatus, Forge, MergeState, Verdict
from tests.servers.git_workshop import run_git


def two_branches(folder: Path) -> Path:
    """A bare repository whose branch `reconciler/llm` is one commit ahead of `main`."""
    directory = folder / "fleet.git"
    run_git(folder, "init", "-q", "--bare", "--initial-branch=main", str(directory))
    tree = run_git(directory, "hash-object", "-w", "-t", "tree", os.devnull)
    first = run_git(directory, "commit-tree", tree, "-m", "First")
    second = run_git(directory, "commit-tree", tree, "-p", first, "-m", "Scale llama")
    run_git(directory, "update-ref", "refs/heads/main", first)
    run_git(directory, "update-ref", "refs/heads/reconciler/llm", second)
    return directory


def live_through_everything(forge: Forge) -> None:
    """Ask for each thing once."""
    forge.check_access()
    forge.author()
    assert forge.rights(base="main", head="reconciler/llm").may_open
    forge.schedules()
    body = "Words\n\n" + write_marker(Marker(group="llm", decision="a" * 64))
    created = forge.create(
        head="reconciler/llm",
        base="main",
        title="Scale llama",
        body=body,
        draft=True,
        labels=("reconciler",),
        assignment=Assignment(reviewers=("alice", "team:inference"), assignees=("bob",), milestone="2026-Q2"),
    )
    assert created is not None
    assert forge.create(head="reconciler/llm", base="main", title="Again", body=body) == created
    assert forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0) == (created,)
    assert forge.list_open(base="main") == (created,)
    forge.write_comment(created.number, "Words")
    (comment,) = forge.own_comments(created.number)
    forge.edit_comment(created.number, comment.key, "Other words")
    forge.delete_comment(created.number, comment.key)
    forge.set_status(created.head_commit, CommitStatus(verdict=Verdict.NEUTRAL, words="1 cannot be judged"))
    for _opened_then_written in range(2):
        forge.keep_issue(label="dashboard", title="What is open", body="Nothing", is_current=lambda _text: False)
    forge.update(created.number, title="Scale llama and 2 more", unlabel=("reconciler",))
    forge.update(created.number, body=withdrawn(body), close=True)
    (closed,) = forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0)
    assert not closed.is_open
    again = forge.create(head="reconciler/llm", base="main", title="Scale llama", body=body)
    assert again is not None
    if forge.writes_commits:
        files = {"replicas.yaml": b"replicas: 3\n"}
        forge.write_commit(
            "reconciler/llm-commit",
            parent=again.head_commit,
            files=files,
            created=files.keys(),
            message="Scale\n\nUp\n",
        )
    assert forge.pushed_s("reconciler/llm", again.head_commit, since_s=0.0) is not None
    assert forge.merge(again).state is MergeState.MERGED
