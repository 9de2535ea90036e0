"""Models that nobody measured on a bench: sized by how full their replicas are, or by what was learned from them."""

import json
from typing import Any

import pytest

from tests.servers.fleet import Fleet, Level

pytestmark = pytest.mark.integration

TRIAL = "reconciler/prod-trial-"
STARCODER = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: starcoder, namespace: trial}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: starcoder}
  modelID: bigcode/starcoder2-15b
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: starcoder, namespace: trial}
spec:
  replicas: 2    # on trial
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: [--model=bigcode/starcoder2-15b, --served-model-name=starcoder]
          resources: {limits: {nvidia.com/gpu: "1"}}
"""
NEMO = STARCODER.replace("starcoder2-15b", "nemo-12b").replace("bigcode", "mistralai").replace("starcoder", "nemo")
LEARNED = """\
  - id: mistralai/nemo-12b
    profiles:
      - accelerator: L4
        alpha: 11ms
        beta: 0.1ms
        gamma: 20ms
        delta: 0.002ms
        maxBatchSize: 32
        learned:
          date: 2026-11-01
          samples: 1200
          error: 3%
          batch: [1, 32]
          inputTokens: [200, 900]
          outputTokens: [50, 400]
"""


@pytest.fixture
def trial(fleet: Fleet) -> Fleet:
    """The company tries a model of which nothing is known but its metrics; it has no latency target."""
    fleet.write("clusters/prod/trial/starcoder.yaml", STARCODER)
    settings = fleet.read("reconciler.yaml").decode()
    fleet.write("reconciler.yaml", settings.replace("defaults: {serviceClass: standard}\n", CLASSES))
    return fleet


CLASSES = """\
overrides:
  - {match: {namespace: "[bc]*"}, serviceClass: standard}
"""


def explained(fleet: Fleet, name: str) -> Any:
    """What `explain -o json` says of a variant."""
    outcome = fleet.invoke("explain", name, "-o", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_a_full_variant_is_proposed_more_replicas_without_profile_and_class(trial: Fleet) -> None:
    trial.go_to(Level.BUSY)
    assert trial.run().code == 0
    (shown,) = (each for each in trial.pull_requests() if each.head.startswith(TRIAL))
    assert shown.state == "open"
    written = trial.read("clusters/prod/trial/starcoder.yaml", shown.head).decode()
    assert "replicas: 3    # on trial" in written
    assert "tokens" in shown.body


def test_the_proposal_goes_when_the_replicas_are_no_longer_full(trial: Fleet) -> None:
    trial.go_to(Level.BUSY)
    assert trial.run().code == 0
    trial.go_to(Level.QUIET)
    assert trial.run().code == 0
    (shown,) = (each for each in trial.pull_requests() if each.head.startswith(TRIAL))
    assert shown.state == "closed"


def test_a_second_run_writes_nothing_for_it(trial: Fleet) -> None:
    trial.go_to(Level.BUSY)
    assert trial.run().code == 0
    trial.go_to(Level.BUSY)
    with trial.writes() as writes:
        assert trial.run().code == 0
    assert writes == []


def test_explain_shows_inputs_queries_thresholds_and_what_lies_between(trial: Fleet) -> None:
    trial.go_to(Level.BUSY)
    document = explained(trial, "trial/starcoder")
    figures = {(each["subject"], each["name"]): each for each in document["figures"]}
    usage = figures["starcoder-7f9c6b5d84-bcdfg", "KV cache usage"]
    assert usage["value"] == pytest.approx(110 / 118, rel=1e-6)
    assert "vllm:kv_cache_usage_perc" in document["queries"][usage["queries"][0]]
    assert figures["threshold", "scale_up"]["source"] == "built-in"
    assert figures["trial/starcoder", "capacity of a replica"]["value"] == 64_000
    assert document["decision"]["engine"] == "saturation"


def test_thresholds_of_upstreams_config_map_are_named_with_their_line(trial: Fleet) -> None:
    config_map = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wva-saturation-scaling-config, namespace: wva}\n"
        "data:\n  default: |\n    kvCacheThreshold: 0.95\n    scaleUpThreshold: 0.99\n    scaleDownBoundary: 0.9\n"
    )
    trial.write("clusters/prod/wva.yaml", config_map)
    trial.go_to(Level.BUSY)
    document = explained(trial, "trial/starcoder")
    figures = {(each["subject"], each["name"]): each for each in document["figures"]}
    assert figures["threshold", "scale_up"]["value"] == 0.99
    assert "clusters/prod/wva.yaml:" in figures["threshold", "scale_up"]["source"]
    assert document["decision"]["outcome"] == "unchanged"


@pytest.mark.parametrize("engine", ["wva-v1", "wva-v2"])
def test_upstreams_answer_is_one_setting_away(trial: Fleet, engine: str) -> None:
    settings = trial.read("reconciler.yaml").decode()
    override = f"  - {{match: {{namespace: trial}}, sizing: {{engine: {engine}}}}}\n"
    trial.write("reconciler.yaml", settings.replace("overrides:\n", f"overrides:\n{override}"))
    trial.go_to(Level.BUSY)
    decision = explained(trial, "trial/starcoder")["decision"]
    assert decision["engine"] == engine
    assert decision["desired"]["replicas"] == 3


@pytest.fixture
def learned(fleet: Fleet) -> Fleet:
    """The company tries a model whose profile was learned."""
    fleet.write("clusters/prod/trial/nemo.yaml", NEMO)
    settings = fleet.read("reconciler.yaml").decode()
    fleet.write("reconciler.yaml", settings.replace("models:\n", f"models:\n{LEARNED}"))
    return fleet


def test_a_learned_profile_sizes_by_a_queue_and_says_that_it_was_learned(learned: Fleet) -> None:
    learned.go_to(Level.PEAK)
    document = explained(learned, "trial/nemo")
    decision = document["decision"]
    assert decision["engine"] == "queueing"
    assert "learned" in decision["engine_reason"]
    assert decision["desired"]["replicas"] > 2
    steps = {step["stage"]: step for step in decision["steps"]}
    assert steps["learned"]["after"] == "2026-11-01"
    assert "1200 samples" in steps["learned"]["reason"]
    assert {slo["name"] for slo in decision["slos"]} == {"ttft", "itl"}


def test_a_learned_profile_says_nothing_of_requests_it_never_saw(learned: Fleet) -> None:
    settings = learned.read("reconciler.yaml").decode()
    learned.write("reconciler.yaml", settings.replace("outputTokens: [50, 400]", "outputTokens: [5, 20]"))
    learned.go_to(Level.BUSY)
    decision = explained(learned, "trial/nemo")["decision"]
    assert decision["engine"] == "saturation"
    assert "does not reach" in decision["engine_reason"]
