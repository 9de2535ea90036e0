"""Branches of open pull requests while their base moves: what is rebuilt, what is withdrawn, and what is left."""

import subprocess

import pytest

from reconciler.decision.staged_plan import head_branch
from reconciler.domain.proposals import Part
from reconciler.forge.pull_requests import PullRequestState
from reconciler.pipeline.session import Ask
from tests.servers.answers import answering
from tests.servers.desk import BUSY, GRANITE, QWEN, Desk
from tests.servers.fleet import CHAT_DEPLOYMENT, SETTINGS
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
