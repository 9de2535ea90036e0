"""A newcomer's fleet: twelve Deployments of vLLM and their HPAs in overlays, no resource of ours, a real Prometheus."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.servers.git_workshop import Workshop, empty_workshop, run_git
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = pytest.mark.integration

MODELS = tuple(f"model-{number:02d}" for number in range(12))
FULL, CONSTANT, UNSEEN = MODELS[3], MODELS[4], MODELS[11]
TOOLS = Path(__file__).parents[2] / ".tools" / "bin"
KUBECTL = shutil.which("kubectl") or shutil.which("kubectl", path=str(TOOLS)) or ""
SINCE_S = 3 * 3600.0
OVERLAYS = ("dev", "prod", "staging")
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.9.1
          args: [--model, acme/NAME]
          ports: [{name: http, containerPort: 8000}]
          resources: {limits: {nvidia.com/gpu: 1}}
"""
AUTOSCALER = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: NAME
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  minReplicas: 1
  maxReplicas: 2
  metrics:
    - type: Pods
      pods: {metric: {name: vllm_num_requests_waiting}, target: {type: AverageValue, averageValue: "5"}}
"""
HEAD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"


def pod(model: str, number: int) -> str:
    return f"{model}-6c9f7d8b5f-{'bcdfg'[number]}2x4k"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the production cluster reports: one model's replicas are full, the others are nearly idle."""
    if ABSENT or not KUBECTL:
        pytest.skip(ABSENT or "needs kubectl")
    history = History(end_s=time.time(), step_s=30.0)
    for model in MODELS[:-1]:
        for number in range(2):
            labels = {"namespace": "llm", "pod": pod(model, number), "model_name": f"acme/{model}"}
            is_full = model == FULL
            running, waiting = (200.0, 40.0) if is_full else (1.0, 0.0)
            vllm_replica(
                history, labels, per_s=6.0 if is_full else 0.2, running=running, waiting=waiting, since_s=SINCE_S
            )
            history.gauge("vllm:kv_cache_usage_perc", labels, 0.97 if is_full else 0.02, since_s=SINCE_S)
            blocks = {"num_gpu_blocks": "8000", "block_size": "16"}
            history.gauge("vllm:cache_config_info", {**labels, **blocks}, 1.0, since_s=SINCE_S)
    with prometheus_over(history, tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Her repository."""
    workshop = empty_workshop(tmp_path)
    for model in MODELS:
        scaler = "" if model == CONSTANT else AUTOSCALER
        workshop.write(f"apps/base/{model}.yaml", (DEPLOYMENT + scaler).replace("NAME", model).encode())
    listed = "".join(f"  - {model}.yaml\n" for model in MODELS)
    workshop.write("apps/base/kustomization.yaml", f"{HEAD}resources:\n{listed}".encode())
    for overlay in OVERLAYS:
        text = f"{HEAD}namespace: llm\nresources:\n  - ../../base\nreplicas:\n  - {{name: {CONSTANT}, count: 2}}\n"
        workshop.write(f"apps/overlays/{overlay}/kustomization.yaml", text.encode())
    workshop.commit()
    return workshop


def typed(workshop: Workshop, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command in her clone."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RECONCILER_")}
    command = [sys.executable, "-m", "reconciler", *arguments]
    return subprocess.run(
        command, cwd=workshop.clone, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_newcomer_comes_from_her_deployments_to_a_pull_request(workshop: Workshop, prometheus: str) -> None:
    seen = typed(workshop, "plan", "--prometheus", prometheus)
    assert "12 workloads serve models and are not managed" in seen.stdout, seen
    assert "declared again" not in seen.stdout
    asked = typed(workshop, "init", "--adopt", "--prometheus", prometheus)
    assert asked.returncode == 5
    assert "name it with --cluster, like --cluster" in asked.stderr
    begun = typed(workshop, "init", "--adopt", "--cluster", "prod", "--prometheus", prometheus)
    assert begun.returncode == 0, begun
    assert "metrics of 11 of 12 variants" in begun.stdout
    configuration = yaml.safe_load((workshop.clone / "reconciler.yaml").read_text())
    entries = {each["match"]["name"]: each.get("whenAutoscaled") for each in configuration["workloads"]}
    assert entries == {model: None if model == CONSTANT else "bounds" for model in MODELS}
    workshop.git("add", "-A")
    workshop.commit("Adopt what runs")
    planned = typed(workshop, "plan", "-o", "json")
    assert planned.returncode == 0, planned
    plan = yaml.safe_load(planned.stdout)
    decisions = {each["variant"]["name"]: each for group in plan["groups"] for each in group["decisions"]}
    assert set(decisions) == set(MODELS)
    changed = {name for name, each in decisions.items() if each["outcome"] == "change"}
    assert changed == {FULL, CONSTANT}
    assert plan["unmanaged"] == []
    examined = yaml.safe_load(typed(workshop, "doctor", "-o", "json").stdout)
    checks = [each for each in examined["checks"] if each["rule"] == "workload-metrics"]
    assert [each["level"] for each in checks] == ["ok", "warn"]
    assert checks[0]["words"].startswith(
        "llm/model-00 and 10 more: replicas report KV cache usage, KV cache size, wait"
    )
    assert checks[1]["words"] == f"llm/{UNSEEN}: no series of vllm at all"
    (endpoint,) = yaml.safe_load(checks[1]["manifest"])["spec"]["podMetricsEndpoints"]
    assert endpoint == {"path": "/metrics", "port": "http"}
    (rule,) = yaml.safe_load(checks[1]["manifest"])["spec"]["selector"]["matchExpressions"]
    assert rule == {"key": "app", "operator": "In", "values": [UNSEEN]}
    done = typed(workshop, "run")
    assert done.returncode == 0, done
    branches = run_git(workshop.remote, "for-each-ref", "--format=%(refname)", "refs/heads/reconciler").split()
    for branch in branches:
        changes = run_git(workshop.remote, "diff", "--name-only", f"HEAD...{branch}").split()
        assert {path.rpartition("/")[0] for path in changes} == {"apps/overlays/prod"}, "other overlays build the base"
    before: dict[tuple[str, ...], tuple[int | None, ...]] = {}
    after: dict[tuple[str, ...], tuple[int | None, ...]] = {}
    for overlay in OVERLAYS:
        before |= {(overlay, *each): number for each, number in numbers(workshop, "HEAD", overlay).items()}
        for branch in branches:
            found = numbers(workshop, branch, overlay).items()
            after |= {(overlay, *each): number for each, number in found if before[overlay, *each] != number}
    assert after == {
        ("prod", "Deployment", CONSTANT): (1,),
        ("prod", "HorizontalPodAutoscaler", FULL): (3, 3),
    }, "as the real Kustomize renders them"


def numbers(workshop: Workshop, revision: str, overlay: str) -> dict[tuple[str, str], tuple[int | None, ...]]:
    """The numbers of every object of an overlay, as Kustomize renders them."""
    checkout = workshop.clone.parent / f"{overlay}-{revision.replace('/', '-')}"
    run_git(workshop.remote.parent, "clone", "-q", str(workshop.remote), str(checkout))
    run_git(checkout, "checkout", "-q", run_git(workshop.remote, "rev-parse", revision).strip())
    command = [KUBECTL, "kustomize", str(checkout / "apps" / "overlays" / overlay)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    fields = {"Deployment": ("replicas",), "HorizontalPodAutoscaler": ("minReplicas", "maxReplicas")}
    return {
        (each["kind"], each["metadata"]["name"]): tuple(each["spec"].get(name) for name in fields[each["kind"]])
        for each in yaml.safe_load_all(rendered)
    }
