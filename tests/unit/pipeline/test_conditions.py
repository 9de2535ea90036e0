"""Conditions that flip although nothing changes: told to the cluster once a day a group, where that is asked for."""

import json
import os
from typing import Any

import pytest
import yaml

from reconciler.cli.console import Exit, exit_of_plan
from reconciler.forge.marker import read_marker
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from tests.servers.answers import answering
from tests.servers.desk import BUSY, GRANITE, QWEN, Desk
from tests.servers.fleet import SETTINGS
from tests.servers.git_workshop import run_git
from tests.unit.pipeline.test_after_merge import HOUR_S, merge, proposed_replicas, serving

FOLDER = "clusters/prod/chat"
ARGO = f"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: chat, namespace: argocd}}
spec:
  source: {{repoURL: https://github.com/acme/fleet, path: {FOLDER}}}
  destination: {{server: https://kubernetes.default.svc, namespace: chat}}
"""
BLIND = answering(GRANITE, QWEN)
"""A Prometheus that has lost the chat model."""
DAY_S = 24 * HOUR_S


FLUX = f"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: chat, namespace: flux-system}}
spec: {{path: ./{FOLDER}, wait: true, sourceRef: {{kind: GitRepository, name: fleet}}}}
"""


@pytest.fixture
def delivered(desk: Desk) -> Desk:
    """A desk that brings conditions too, and whose first change was merged a day ago."""
    return deliver_a_day_ago(desk, ARGO)


def deliver_a_day_ago(desk: Desk, deployer: str) -> Desk:
    desk.workshop.write("reconciler.yaml", f"{SETTINGS}status: {{deliver: {{conditions: true}}}}\n".encode())
    desk.workshop.write("clusters/prod/apps/chat.yaml", deployer.encode())
    desk.workshop.write(f"{FOLDER}/kustomization.yaml", b"resources:\n  - deployment.yaml\n  - variant.yaml\n")
    desk.workshop.commit("Deploy the chat")
    desk.run(BUSY)
    merge(desk)
    desk.now_s += DAY_S
    return desk


def seeing(desk: Desk) -> Ask:
    """A Prometheus that sees as many replicas as were merged, and as much load as they are for."""
    return serving(proposed_replicas(desk), 110.0)


def open_ones(desk: Desk) -> list[int]:
    return [each.number for each in desk.pull_requests() if each.is_open]


def at_base(desk: Desk, path: str) -> str:
    return run_git(desk.workshop.remote, "show", f"main:{path}")


def carried(desk: Desk) -> dict[str, Any]:
    """The status that the base's carrier holds."""
    names = run_git(desk.workshop.remote, "ls-tree", "--name-only", "main", f"{FOLDER}/").split()
    (path,) = (name for name in names if "reconciler-status-" in name)
    carrier = next(yaml.safe_load_all(at_base(desk, path)))
    status: dict[str, Any] = json.loads(carrier["data"]["llama.json"])["status"]
    return status


def happens_now(desk: Desk) -> None:
    """What was closed was closed at the desk's time, not at this machine's, which is later."""
    for file in (desk.workshop.remote / "reconciler" / "pulls").glob("*.md"):
        if file.stat().st_mtime > desk.now_s:
            os.utime(file, (desk.now_s, desk.now_s))


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


def told(result: RunResult) -> list[str]:
    return [f"{flip.type} {flip.before} {flip.after}" for group in result.prepared.plan.groups for flip in group.flips]


def test_a_flip_alone_is_a_pull_request_that_changes_no_number(delivered: Desk) -> None:
    before = at_base(delivered, f"{FOLDER}/deployment.yaml")
    result = delivered.run(BLIND)
    assert told(result) == ["MetricsAvailable True False", "OptimizationReady True False"]
    (pull_request,) = (each for each in delivered.pull_requests() if each.is_open)
    assert pull_request.title == "Deliver conditions of llama in prod/chat"
    assert "**2 conditions flipped, and nothing changes.**" in pull_request.body
    assert "| `llama` `MetricsAvailable` | True → **False** | MetricsUnavailable: " in pull_request.body
    marker = read_marker(pull_request.body)
    assert marker is not None
    assert marker.changes == ()
    assert merge(delivered) == pull_request.number
    assert at_base(delivered, f"{FOLDER}/deployment.yaml") == before
    in_git = yaml.safe_load(at_base(delivered, f"{FOLDER}/variant.yaml"))["status"]
    assert conditions(in_git) == conditions(carried(delivered)) == dict.fromkeys(conditions(in_git), "False")
    assert carried(delivered)["actuation"] == {"applied": True}


def test_it_is_made_once(delivered: Desk) -> None:
    delivered.run(BLIND)
    before = delivered.state()
    delivered.run(BLIND)
    assert delivered.state() == before


def test_flux_applies_another_job_and_is_told_no_more_often(desk: Desk) -> None:
    delivered = deliver_a_day_ago(desk, FLUX)
    assert told(delivered.run(BLIND)) != []
    merge(delivered)
    files = run_git(delivered.workshop.remote, "ls-tree", "-r", "--name-only", "main", f"{FOLDER}/").split()
    (carrier,) = (name for name in files if name.endswith("/status.yaml"))
    jobs = {commit: run_git(delivered.workshop.remote, "show", f"{commit}:{carrier}") for commit in ("main", "main~1")}
    made = [each for text in jobs.values() for each in yaml.safe_load_all(text) if each["kind"] == "Job"]
    assert len({each["metadata"]["name"] for each in made}) == 2
    delivered.now_s += 23 * HOUR_S
    assert told(delivered.run(seeing(delivered))) == []
    delivered.now_s += HOUR_S
    assert told(delivered.run(seeing(delivered))) != []


def test_what_is_told_is_told_otherwise_a_day_later(delivered: Desk) -> None:
    delivered.run(BLIND)
    (before,) = (each for each in delivered.pull_requests() if each.is_open)
    sees = seeing(delivered)
    settings = at_base(delivered, "reconciler.yaml")
    delivered.write("reconciler.yaml", settings.replace("itl: 60ms", "itl: 1ms"))
    delivered.now_s += HOUR_S
    result = delivered.run(sees)
    assert told(result) == ["OptimizationReady True False"], "it is seen, and held"
    (reason,) = (each.reason for each in result.published if each.reason)
    assert reason == "conditions are published once a day, and #2 is not a day old"
    assert [each for each in delivered.pull_requests() if each.is_open] == [before]
    delivered.now_s += DAY_S
    delivered.run(sees)
    (after,) = (each for each in delivered.pull_requests() if each.is_open)
    assert after.number == before.number
    assert "`MetricsAvailable`" not in after.body


def test_a_plan_that_only_tells_has_something_to_propose(delivered: Desk) -> None:
    assert exit_of_plan(delivered.plan(BLIND).plan, detailed=True) is Exit.CHANGES
    assert exit_of_plan(delivered.plan(seeing(delivered)).plan, detailed=True) is Exit.FINISHED


def test_without_the_wish_no_flip_opens_one(delivered: Desk) -> None:
    delivered.write("reconciler.yaml", f"{SETTINGS}status: deliver\n")
    assert told(delivered.run(BLIND)) == []
    assert open_ones(delivered) == []


def test_a_day_passes_since_the_last_carrier_whatever_made_it(delivered: Desk) -> None:
    delivered.now_s -= 2 * HOUR_S
    assert told(delivered.run(BLIND)) == []
    delivered.now_s += 2 * HOUR_S
    assert told(delivered.run(BLIND)) != []


def test_a_flip_rides_with_a_change(delivered: Desk) -> None:
    delivered.run(BLIND)
    merge(delivered)
    delivered.now_s += HOUR_S
    result = delivered.run(serving(proposed_replicas(delivered), 170.0))
    assert told(result) == []
    (pull_request,) = (each for each in delivered.pull_requests() if each.is_open)
    assert pull_request.title.startswith("Scale up")
    merge(delivered)
    assert set(conditions(carried(delivered)).values()) == {"True"}


def test_a_change_takes_the_place_of_what_only_told(delivered: Desk) -> None:
    delivered.run(BLIND)
    assert open_ones(delivered) == [2]
    delivered.run(serving(proposed_replicas(delivered), 170.0))
    assert open_ones(delivered) == [3]


def test_what_flips_back_is_withdrawn_and_not_told_again_that_day(delivered: Desk) -> None:
    delivered.run(BLIND)
    assert open_ones(delivered) == [2]
    delivered.run(seeing(delivered))
    assert open_ones(delivered) == []
    result = delivered.run(BLIND)
    assert open_ones(delivered) == []
    assert [each.reason for each in result.published if each.reason] == [
        "conditions are published once a day, and #2 was"
    ]


def test_what_a_person_closed_stays_closed(delivered: Desk) -> None:
    delivered.run(BLIND)
    delivered.forge.update(2, close=True)
    happens_now(delivered)
    delivered.now_s += 3 * DAY_S
    delivered.run(BLIND)
    assert open_ones(delivered) == []
    delivered.now_s += 5 * DAY_S
    delivered.run(BLIND)
    assert open_ones(delivered) == [3]


def test_a_carrier_that_a_person_changed_is_left_alone(delivered: Desk) -> None:
    names = run_git(delivered.workshop.remote, "ls-tree", "--name-only", "main", f"{FOLDER}/").split()
    (path,) = (name for name in names if "reconciler-status-" in name)
    delivered.write(path, at_base(delivered, path) + "# mine\n")
    assert told(delivered.run(BLIND)) == []
    assert open_ones(delivered) == []


@pytest.mark.parametrize("merges", [True, False])
def test_two_days_of_flapping_open_two_pull_requests(delivered: Desk, *, merges: bool) -> None:
    """Metrics come and go every three hours; somebody merges at once what tells of that, or nobody ever does."""
    start_s = delivered.now_s
    opened: list[float] = []
    sees = seeing(delivered)
    for time in range(16):
        delivered.now_s = start_s + time * 3 * HOUR_S
        before = {each.number for each in delivered.pull_requests()}
        delivered.run(BLIND if time % 2 else sees)
        happens_now(delivered)
        new = {each.number for each in delivered.pull_requests()} - before
        opened.extend(delivered.now_s for _ in new)
        if new and merges:
            merge(delivered)
    assert len(opened) == 2
    assert opened[1] - opened[0] >= DAY_S
