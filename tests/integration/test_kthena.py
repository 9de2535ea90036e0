"""Workloads of Kthena that a policy scales by metric targets: from manifests and a real Prometheus to a proposal."""

import json
from typing import Any

import pytest

from tests.servers.fleet import Fleet, Level

pytestmark = pytest.mark.integration

PATH = "clusters/prod/serving/phi.yaml"
SERVING = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {name: phi, namespace: serving}
spec:
  replicas: 3    # groups
  template:
    roles:
      - name: server
        workerReplicas: 0
        entryTemplate:
          spec:
            containers:
              - name: vllm
                image: vllm/vllm-openai:v0.11.0
                args: [--model=microsoft/phi-4, --served-model-name=phi]
                resources: {limits: {nvidia.com/gpu: "1"}}
---
"""
POLICY = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: serving}
spec:
  metrics: [{name: waiting, targetValue: 10}]
  homogeneousTarget:
    minReplicas: 1
    maxReplicas: 8
    target:
      targetRef: {kind: ModelServing, name: phi}
      metricSources: {waiting: {pod: {name: "vllm:num_requests_waiting"}}}
"""
BOUND = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: serving}
spec:
  metrics: [{metricName: "vllm:num_requests_waiting", targetValue: 10}]
---
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: phi, namespace: serving}
spec:
  policyRef: {name: phi}
  homogeneousTarget:
    target: {targetRef: {kind: ModelServing, name: phi}}
    minReplicas: 1
    maxReplicas: 8
"""


def explained(fleet: Fleet) -> Any:
    outcome = fleet.invoke("explain", "serving/phi", "-o", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.mark.parametrize("policy", [POLICY, BOUND], ids=["G4", "G3"])
def test_the_replicas_follow_the_metric_target(fleet: Fleet, policy: str) -> None:
    fleet.write(PATH, SERVING + policy)
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    (shown,) = (each for each in fleet.pull_requests() if each.head.startswith("reconciler/prod-serving-"))
    # three pods that have 110 / 6 requests waiting each, ten of them a replica
    assert fleet.read(PATH, shown.head).decode() == (SERVING + policy).replace("replicas: 3 ", "replicas: 6 ")
    decision = explained(fleet)["decision"]
    assert (decision["engine"], decision["desired"]["replicas"]) == ("tracking", 6)


def test_a_quiet_hour_asks_for_fewer_once_the_window_has_passed(fleet: Fleet) -> None:
    fleet.write(PATH, SERVING + POLICY)
    fleet.go_to(Level.QUIET)
    decision = explained(fleet)["decision"]
    assert decision["desired"]["replicas"] == 3
    assert decision["outcome"] == "unchanged"


def test_explain_shows_votes_windows_and_queries(fleet: Fleet) -> None:
    fleet.write(PATH, SERVING + POLICY)
    fleet.go_to(Level.BUSY)
    document = explained(fleet)
    figures = {each["name"]: each for each in document["figures"]}
    assert figures["waiting in total"]["value"] == pytest.approx(55.0)
    assert figures["waiting asks for"]["value"] == 6
    (quantity,) = figures["waiting in total"]["queries"]
    assert "vllm:num_requests_waiting" in document["queries"][quantity]


def test_a_metric_that_nobody_exports_shrinks_nothing(fleet: Fleet) -> None:
    fleet.write(PATH, SERVING + POLICY.replace("num_requests_waiting", "num_request_waiting"))
    fleet.go_to(Level.BUSY)
    decision = explained(fleet)["decision"]
    assert decision["outcome"] == "held"
    assert "waiting" in decision["reason"]


@pytest.mark.parametrize("engine", ["kthena-v0", "kthena-v1"])
def test_upstreams_loops_answer_on_demand(fleet: Fleet, engine: str) -> None:
    fleet.write(PATH, SERVING + POLICY)
    settings = fleet.read("reconciler.yaml").decode()
    override = f"overrides:\n  - {{match: {{namespace: serving}}, sizing: {{engine: {engine}}}}}\n"
    fleet.write("reconciler.yaml", settings + override)
    fleet.go_to(Level.BUSY)
    decision = explained(fleet)["decision"]
    assert (decision["engine"], decision["desired"]["replicas"]) == (engine, 6)


def test_a_second_run_writes_nothing_for_it(fleet: Fleet) -> None:
    fleet.write(PATH, SERVING + POLICY)
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    with fleet.writes() as writes:
        assert fleet.run().code == 0
    assert writes == []


BOOSTER = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelBooster
metadata: {name: phi, namespace: serving}
spec:
  autoscalingPolicy: {metrics: [{metricName: "vllm:num_requests_waiting", targetValue: 10}]}
  backend:
    type: vLLM
    modelURI: hf://microsoft/phi-4
    minReplicas: 3    # a start
    maxReplicas: 8
    workers: [{type: server, pods: 1, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_a_model_is_scaled_by_the_lower_bound_of_its_backend(fleet: Fleet) -> None:
    fleet.write(PATH, BOOSTER)
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    (shown,) = (each for each in fleet.pull_requests() if each.head.startswith("reconciler/prod-serving-"))
    assert fleet.read(PATH, shown.head).decode() == BOOSTER.replace("minReplicas: 3 ", "minReplicas: 6 ")
    assert "any edit of a backend makes Kthena set the replicas of its workload back" in " ".join(shown.body.split())


def test_a_lower_bound_that_a_person_wrote_stays_one_and_ours_does_not(fleet: Fleet) -> None:
    fleet.write(PATH, BOOSTER.replace("minReplicas: 3 ", "minReplicas: 5 "))
    fleet.go_to(Level.QUIET)
    document = explained(fleet)
    assert document["decision"]["desired"]["replicas"] == 5
    assert "a person wrote that as minReplicas" in json.dumps(document)
    fleet.write(PATH, BOOSTER)
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    (shown,) = (each for each in fleet.pull_requests() if each.head.startswith("reconciler/prod-serving-"))
    fleet.merge(shown.number)
    fleet.go_to(Level.QUIET)
    assert fleet.run().code == 0
    assert b"minReplicas: 6 " in fleet.read(PATH)
    # After the first merge half down needs no person: it is another part of the group.
    (again,) = (each for each in fleet.pull_requests() if each.number > shown.number and "serving" in each.head)
    assert fleet.read(PATH, again.head).decode() == BOOSTER
