"""A forge whose API we do not speak: branches are pushed, a person opens their pull requests, and git remembers."""

from typing import Any

import pytest

from reconciler.cli.output import published_lines
from reconciler.forge.marker import MARKER, marker_of_commit
from reconciler.forge.push import Push
from reconciler.git.repository import CommitRecord
from reconciler.pipeline.publish import Operation, Published
from reconciler.pipeline.session import read_tips
from tests.servers.desk import BUSY, PEAK, QUIET, Desk
from tests.servers.fleet import SETTINGS
from tests.servers.git_workshop import run_git

FORGE = Push("https://bitbucket.org/acme/fleet.git")
LATER_S = 1200.0
"""Pushes to one branch are limited."""


@pytest.fixture
def fleet(desk: Desk) -> Desk:
    """A desk with all that only pull requests have."""
    asked = "{labels: [reconciler], reviewers: [ann], assignees: [bob], milestone: Q2, dashboard: true}"
    desk.write("reconciler.yaml", SETTINGS.replace("{labels: [reconciler]}", asked))
    return desk


def forge_of(fleet: Desk) -> Push:
    return FORGE.reading(lambda prefix: read_tips(fleet.clone(), prefix))


def published(fleet: Desk, ask: Any = BUSY) -> Published:
    fleet.now_s += LATER_S
    (only,) = (each for each in fleet.run(ask, forge_of(fleet)).published if each.group == "prod/chat")
    return only


def branch_of(fleet: Desk) -> str:
    (branch,) = set(fleet.branches()) - {"main"}
    return branch


def tip_of(fleet: Desk) -> CommitRecord:
    return fleet.clone().fetch_branches((branch_of(fleet),))[branch_of(fleet)]


def test_a_branch_is_pushed_with_the_link_that_opens_its_pull_request(fleet: Desk) -> None:
    outcome, branch = published(fleet), branch_of(fleet)
    link = f"https://bitbucket.org/acme/fleet/pull-requests/new?source={branch.replace('/', '%2F')}&dest=main"
    assert (outcome.operation, outcome.url, outcome.number) == (Operation.PUSHED, link, None)
    assert list(published_lines(outcome)) == [f"pushed, open it: prod/chat urgent ({branch}) {link}"]
    marker = marker_of_commit(tip_of(fleet).message)
    assert marker is not None
    (change,) = marker.changes
    assert (change.resource, change.replicas_before) == ("prod/chat/VariantAutoscaling/llama", 2)
    assert max(map(len, tip_of(fleet).message.splitlines())) < 100


def test_a_later_run_knows_its_branch_and_pushes_nothing(fleet: Desk) -> None:
    published(fleet)
    before = fleet.branches()
    again = published(fleet)
    assert (again.operation, again.number) == (Operation.NONE, None)
    (line,) = published_lines(again)
    assert line.startswith("open as it was: prod/chat urgent (")
    assert fleet.branches() == before


def test_another_need_updates_the_branch(fleet: Desk) -> None:
    published(fleet)
    first = tip_of(fleet)
    assert published(fleet, PEAK).operation is Operation.PUSHED
    second = tip_of(fleet)
    assert second.oid != first.oid
    assert second.parents == first.parents


def test_what_is_not_needed_any_more_is_deleted(fleet: Desk) -> None:
    published(fleet)
    assert published(fleet, QUIET).operation is Operation.CLOSED
    assert set(fleet.branches()) == {"main"}


@pytest.mark.parametrize("way", ["merge", "squash"])
def test_what_a_person_merged_is_done(fleet: Desk, way: str) -> None:
    published(fleet)
    remote, tip = fleet.workshop.remote, tip_of(fleet)
    parents = ("-p", "main", "-p", tip.oid) if way == "merge" else ("-p", "main")
    merge = run_git(remote, "commit-tree", tip.tree, *parents, "-m", "Merged in a pull request")
    run_git(remote, "update-ref", "refs/heads/main", merge)
    for _ in range(2):
        fleet.now_s += LATER_S
        fleet.run(BUSY, forge_of(fleet))
    assert fleet.branches()["main"] == merge
    assert len(fleet.branches()) == (2 if way == "merge" else 1)  # whose merge is known leaves the branch to people


def test_a_persons_commits_are_never_overwritten(fleet: Desk) -> None:
    published(fleet)
    branch, tip = branch_of(fleet), tip_of(fleet)
    commit = run_git(fleet.workshop.remote, "commit-tree", tip.tree, "-p", tip.oid, "-m", tip.message)
    run_git(fleet.workshop.remote, "update-ref", f"refs/heads/{branch}", commit)
    assert published(fleet, PEAK).operation is Operation.LEFT
    assert fleet.branches()[branch] == commit


def test_a_marker_of_another_decision_or_a_broken_one_counts_for_nothing(fleet: Desk) -> None:
    published(fleet)
    message = tip_of(fleet).message
    marker = marker_of_commit(message)
    assert marker is not None
    assert (
        marker_of_commit(message.replace(f"Reconciler-Decision: {marker.decision}", f"Reconciler-Decision: {'0' * 64}"))
        is None
    )
    assert marker_of_commit(message.replace(f"{MARKER}: {{", f"{MARKER}: [", 1)) is None
    assert marker_of_commit(f"{message}\nA person's words\n") is None


def test_nothing_merges_by_itself(fleet: Desk) -> None:
    rule = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n- {name: up, autoMerge: {}}\n"
    fleet.write("reconciler.yaml", f"{SETTINGS}policies: [.reconciler/policies/]\n")
    fleet.write(".reconciler/policies/rules.yaml", rule)
    main = fleet.branches()["main"]
    assert [published(fleet).operation, published(fleet).operation] == [Operation.PUSHED, Operation.NONE]
    assert fleet.branches()["main"] == main
