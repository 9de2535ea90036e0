"""One pull request of several groups in a real repository: written, kept, pushed, merged and withdrawn."""

from dataclasses import replace

import pytest

from reconciler.domain.proposals import Part, collected_groups, head_branch
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from tests.servers.answers import answering
from tests.servers.desk import GRANITE, QWEN, Desk, llama
from tests.servers.fleet import CODE
from tests.servers.git_workshop import run_git

NAME, SECOND, _ = collected_groups("prod")
BRANCH = head_branch("reconciler/", NAME, Part.URGENT)
LABELS = "pullRequests: {labels: [reconciler]"
MORE_CODE, MORE_BATCH = replace(GRANITE, per_s=12.0), replace(QWEN, per_s=60.0)
BATCH = answering(*llama(45.0), GRANITE, MORE_BATCH)
CHAT = answering(*llama(110.0), GRANITE, QWEN)
ALL = answering(*llama(110.0), MORE_CODE, MORE_BATCH)
CODE_AND_BATCH = answering(*llama(45.0), MORE_CODE, MORE_BATCH)


def run(desk: Desk, ask: Ask) -> dict[str, Operation]:
    """What happened to each pull request that something happened to."""
    return happened(desk.run(ask, desk.dated_forge))


def happened(result: RunResult) -> dict[str, Operation]:
    return {each.group: each.operation for each in result.published if each.operation is not Operation.NONE}


KUSTOMIZATION = """resources:
  - chat/deployment.yaml
  - chat/variant.yaml
  - code/granite.yaml
  - batch/qwen.yaml
"""
APPLICATION = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: prod, namespace: argocd}
spec:
  source: {repoURL: "https://git.example.com/acme/fleet", path: clusters/prod, targetRevision: main}
  destination: {name: in-cluster}
"""


def files_of(desk: Desk, branch: str) -> list[str]:
    return run_git(desk.workshop.remote, "diff", "--name-only", f"main...{branch}").split()


@pytest.fixture
def busy(desk: Desk) -> Desk:
    """One pull request was opened, which is half of what may be in an hour; two more groups have changes."""
    desk.configure(LABELS, f"{LABELS}, limits: {{createdPerHour: 2}}")
    assert run(desk, BATCH) == {"prod/batch": Operation.CREATED}
    return desk


def changed(desk: Desk, revision: str) -> set[str]:
    names = run_git(desk.workshop.remote, "diff", "--name-only", f"main...{revision}").split()
    return {name.split("/")[2] for name in names}


def test_two_groups_are_one_pull_request_until_it_is_merged(busy: Desk) -> None:
    assert run(busy, ALL) == {NAME: Operation.CREATED}
    assert changed(busy, BRANCH) == {"chat", "code"}
    made = next(each for each in busy.pull_requests() if each.head_branch == BRANCH)
    words = "**Changes of several groups**, together because of `pullRequests.limits`: prod/chat, prod/code."
    assert words in made.body
    assert run(busy, ALL) == {}
    busy.now_s += 7200  # limits bind no more: what is open stays where it stands
    before = busy.branches()
    assert run(busy, ALL) == {}
    assert busy.branches() == before
    assert run(busy, CODE_AND_BATCH) == {NAME: Operation.UPDATED}
    assert changed(busy, BRANCH) == {"code"}
    assert run(busy, BATCH) == {NAME: Operation.CLOSED}
    assert BRANCH not in busy.branches()


def test_what_a_person_merged_is_done_for_every_group(busy: Desk) -> None:
    run(busy, ALL)
    number = next(each.number for each in busy.pull_requests() if each.head_branch == BRANCH)
    run_git(busy.workshop.remote, "update-ref", "refs/heads/main", BRANCH)
    assert set(run(busy, ALL)) <= {NAME}
    assert next(each for each in busy.pull_requests() if each.number == number).state.value == "merged"
    assert NAME not in run(busy, ALL)


def test_what_a_person_closed_is_not_opened_again_by_either_group(busy: Desk) -> None:
    run(busy, ALL)
    number = next(each.number for each in busy.pull_requests() if each.head_branch == BRANCH)
    busy.forge.update(number, close=True)
    busy.now_s += 7200
    assert run(busy, ALL) == {"prod/chat": Operation.LEFT, "prod/code": Operation.LEFT}


def test_a_pull_request_that_none_of_its_groups_is_in_any_more_is_withdrawn(busy: Desk) -> None:
    """A person reopened those of both groups."""
    run(busy, ALL)
    busy.configure(LABELS, LABELS)
    for group in ("prod/chat", "prod/code"):
        branch = head_branch("reconciler/", group, Part.URGENT)
        run_git(busy.workshop.remote, "branch", branch, BRANCH)
        body = next(each.body for each in busy.pull_requests() if each.head_branch == BRANCH)
        busy.forge.create(head=branch, base="main", title=group, body=body)
    found = run(busy, ALL)
    assert found[NAME] is Operation.CLOSED
    assert changed(busy, head_branch("reconciler/", "prod/chat", Part.URGENT)) == {"chat"}


def test_one_whose_text_a_person_emptied_is_withdrawn_so_that_nothing_is_proposed_twice(busy: Desk) -> None:
    run(busy, ALL)
    number = next(each.number for each in busy.pull_requests() if each.head_branch == BRANCH)
    busy.forge.update(number, body="Ours.")
    assert run(busy, ALL) == {NAME: Operation.CLOSED, SECOND: Operation.CREATED}
    assert BRANCH not in busy.branches()
    assert run(busy, ALL) == {}


def test_what_cannot_be_seen_of_one_group_keeps_the_others_from_nothing(busy: Desk) -> None:
    run(busy, ALL)
    busy.write(
        "clusters/prod/wrong.yaml", CODE.replace("granite", "wrong").replace("maxBatchSize: 32", "maxBatchSize: x")
    )
    assert run(busy, answering(*llama(110.0), MORE_BATCH)) == {NAME: Operation.LEFT}
    assert changed(busy, BRANCH) == {"chat", "code"}
    assert run(busy, answering(*llama(170.0), MORE_BATCH)) == {NAME: Operation.UPDATED}
    assert changed(busy, BRANCH) == {"chat"}


def test_statuses_are_delivered_by_group_also_where_one_kustomization_builds_both(desk: Desk) -> None:
    """Each group keeps its carrier, and the kustomization lists both: it once refused the second."""
    desk.write("clusters/prod/kustomization.yaml", KUSTOMIZATION)
    desk.write("clusters/prod/app.yaml", APPLICATION)
    desk.configure(LABELS, f"status: deliver\n{LABELS}, limits: {{createdPerHour: 2}}")
    assert run(desk, CHAT) == {"prod/chat": Operation.CREATED}
    assert run(desk, ALL) == {NAME: Operation.CREATED}
    carriers = [path for path in files_of(desk, BRANCH) if "reconciler-status" in path]
    assert len(carriers) == 2
    listed = run_git(desk.workshop.remote, "show", f"{BRANCH}:clusters/prod/kustomization.yaml")
    assert all(path.rpartition("/")[2] in listed for path in carriers)
