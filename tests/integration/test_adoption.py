"""Fleets of newcomers, with no resource of ours, over a real Prometheus: the page takes each to its pull requests.

Twelve Deployments of vLLM with their HPAs in overlays; services of KServe; values of vLLM's production stack under
Argo CD. Each Prometheus holds two days.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tests.servers.daily_load import DAY_S, DailyLoad, replica_under
from tests.servers.git_workshop import Workshop, empty_workshop, run_git
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = pytest.mark.integration

MODELS = tuple(f"model-{number:02d}" for number in range(12))
FULL, CONSTANT, UNSEEN = MODELS[3], MODELS[4], MODELS[11]
TOOLS = Path(__file__).parents[2] / ".tools" / "bin"
KUBECTL = shutil.which("kubectl") or shutil.which("kubectl", path=str(TOOLS)) or ""
STEP_S = 60.0
SLOWEST_S = 1800.0
"""Histories go on for as long as a walk may take on a busy machine."""
SINCE_S = 2 * DAY_S
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
    history = History(end_s=time.time() + SLOWEST_S, step_s=STEP_S)
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


def typed(workshop: Workshop, prometheus: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command in her clone."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RECONCILER_")}
    environment["RECONCILER_PROMETHEUS"] = prometheus
    command = [sys.executable, "-m", "reconciler", *arguments]
    return subprocess.run(
        command, cwd=workshop.clone, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_newcomer_comes_from_her_deployments_to_a_pull_request(workshop: Workshop, prometheus: str) -> None:
    seen = typed(workshop, prometheus, "plan")
    assert "12 workloads serve models and are not managed" in seen.stdout, seen
    assert "declared again" not in seen.stdout
    asked = typed(workshop, prometheus, "init", "--adopt")
    assert asked.returncode == 5
    assert "name it with --cluster, like --cluster" in asked.stderr
    begun = typed(workshop, prometheus, "init", "--adopt", "--cluster", "prod")
    assert begun.returncode == 0, begun
    assert "metrics of 11 of 12 variants" in begun.stdout
    configuration = yaml.safe_load((workshop.clone / "reconciler.yaml").read_text())
    entries = {each["match"]["name"]: each.get("whenAutoscaled") for each in configuration["workloads"]}
    assert entries == {model: None if model == CONSTANT else "bounds" for model in MODELS}
    workshop.git("add", "-A")
    workshop.commit("Adopt what runs")
    planned = typed(workshop, prometheus, "plan", "-o", "json")
    assert planned.returncode == 0, planned
    plan = yaml.safe_load(planned.stdout)
    decisions = {each["variant"]["name"]: each for group in plan["groups"] for each in group["decisions"]}
    assert set(decisions) == set(MODELS)
    changed = {name for name, each in decisions.items() if each["outcome"] == "change"}
    assert changed == {FULL, CONSTANT}
    assert plan["unmanaged"] == []
    examined = yaml.safe_load(typed(workshop, prometheus, "doctor", "-o", "json").stdout)
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
    done = typed(workshop, prometheus, "run")
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


# ---- what the page says, command by command

PAGE = Path(__file__).parents[2] / ".github" / "docs" / "workloads.md"
RUNTIME = """apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: vllm}
spec:
  supportedModelFormats: [{name: vLLM}]
  containers:
    - name: kserve-container
      image: vllm/vllm-openai:v0.11.0
      command: [python3, -m, vllm.entrypoints.openai.api_server]
      args: [--model=/mnt/models, "--served-model-name={{.Name}}", --port=8080]
      ports: [{name: http, containerPort: 8080}]
"""
INFERENCE_SERVICE = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: NAME
  annotations: {serving.kserve.io/deploymentMode: RawDeployment}
spec:
  predictor:
    minReplicas: LEAST
    maxReplicas: MOST
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    model:
      modelFormat: {name: vLLM}
      runtime: vllm
      storageUri: hf://acme/NAME
      resources: {limits: {nvidia.com/gpu: "1"}}
"""
LLM_SERVICE = """apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: assistant}
spec:
  replicas: 2
  model: {uri: "hf://acme/assistant", name: acme/assistant}
  router: {scheduler: {}, route: {}, gateway: {}}
  template:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
STACK = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: NAME, namespace: argocd}
spec:
  project: default
  destination: {server: "https://kubernetes.default.svc", namespace: llm}
SOURCE"""
CHART = "chart: vllm-stack, repoURL: 'https://vllm-project.github.io/production-stack', targetRevision: 0.1.7"
BOTH = f"""  sources:
    - {{{CHART}, helm: {{valueFiles: [$values/values/NAME.yaml]}}}}
    - {{repoURL: REMOTE, targetRevision: HEAD, ref: values}}
"""
INLINE = """  source:
    chart: vllm-stack
    repoURL: https://vllm-project.github.io/production-stack
    targetRevision: 0.1.7
    helm:
      valuesObject:
"""
MODEL = """      - name: NAME
        repository: vllm/vllm-openai
        tag: v0.11.0
        modelURL: acme/NAME
        replicaCount: COUNT
        requestGPU: 1
        nodeSelectorTerms:
          - matchExpressions:
              - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model of a fleet: its replicas by the start of their pods' names, its load, and what is proposed for it.

    `numbers` are those of its lines before and after, none where nothing is proposed; with `is_learned` two days of
    its load show how fast it is.
    """

    name: str
    pods: str
    count: int
    load: DailyLoad
    metrics_name: str = ""
    numbers: tuple[tuple[str, str], ...] = ()
    is_learned: bool = True
    is_scaled: bool = False


FULL_LOAD, IDLE, USUAL = (
    DailyLoad(least=90, most=130),
    DailyLoad(least=1, most=2),
    DailyLoad(least=10, most=60, phase=0.5),
)
KSERVE = (
    Served(name="chat", pods="chat-predictor", count=2, load=USUAL),
    Served(
        name="code",
        pods="code-predictor",
        count=2,
        load=FULL_LOAD,
        numbers=(("minReplicas: 2", "minReplicas: 3"), ("maxReplicas: 2", "maxReplicas: 3")),
        is_learned=False,
    ),
    Served(
        name="quiet",
        pods="quiet-predictor",
        count=3,
        load=IDLE,
        numbers=(("minReplicas: 3", "minReplicas: 2"), ("maxReplicas: 3", "maxReplicas: 2")),
        is_learned=False,
    ),
    Served(name="search", pods="search-predictor", count=1, load=USUAL, is_scaled=True),
    Served(name="assistant", pods="assistant-kserve", count=2, load=USUAL, metrics_name="acme/assistant"),
)
STACKS = tuple(
    replace(each, pods=f"{stack}-{each.name}-deployment-vllm", metrics_name=f"acme/{each.name}", is_scaled=False)
    for stack, each in (
        ("apps", KSERVE[0]),
        ("apps", replace(KSERVE[1], numbers=(("replicaCount: 2", "replicaCount: 3"),))),
        ("batch", replace(KSERVE[2], numbers=(("replicaCount: 3", "replicaCount: 2"),))),
    )
)


def kserve_files(_: Workshop) -> dict[str, str]:
    """InferenceServices of one runtime and an LLMInferenceService, in one kustomization."""
    files = {"models/runtime.yaml": RUNTIME, "models/assistant.yaml": LLM_SERVICE}
    for each in KSERVE[:-1]:
        most = each.count + (3 if each.is_scaled else 0)
        text = INFERENCE_SERVICE.replace("LEAST", str(each.count)).replace("MOST", str(most))
        files[f"models/{each.name}.yaml"] = text.replace("NAME", each.name)
    listed = "".join(f"  - {path.partition('/')[2]}\n" for path in sorted(files))
    return files | {"models/kustomization.yaml": f"{HEAD}namespace: llm\nresources:\n{listed}"}


def stack_files(workshop: Workshop) -> dict[str, str]:
    """Two Applications of the chart: one with a file of values in this repository, one with its values inline."""
    models = {each.name: MODEL.replace("NAME", each.name).replace("COUNT", str(each.count)) for each in STACKS}
    apps = "servingEngineSpec:\n  modelSpec:\n" + "".join(
        textwrap.indent(textwrap.dedent(models[name]), "    ") for name in ("chat", "code")
    )
    batch = "servingEngineSpec:\n  modelSpec:\n" + textwrap.indent(textwrap.dedent(models["quiet"]), "    ")
    source = BOTH.replace("REMOTE", str(workshop.remote))
    return {
        "argocd/apps.yaml": STACK.replace("SOURCE", source).replace("NAME", "apps"),
        "values/apps.yaml": apps,
        "argocd/batch.yaml": STACK.replace("SOURCE", INLINE + textwrap.indent(batch, " " * 8)).replace("NAME", "batch"),
    }


def written_on_the_page(mark: str) -> str:
    """The block of the page that follows a comment."""
    (found,) = re.findall(rf"<!-- {mark}:[^>]*-->\n```\w+\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return str(found)


def follow(workshop: Workshop, text: str, url: str) -> str:
    """Type what stands on the page; return what is printed."""
    shim = workshop.clone.parent / "bin"
    shim.mkdir(exist_ok=True)
    (shim / "reconciler").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
    (shim / "reconciler").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECONCILER_")}
    environment["PATH"] = f"{shim}:{environment['PATH']}"
    environment["RECONCILER_PROMETHEUS"] = url
    typed_words = "set -e\n" + text.replace("http://127.0.0.1:9090", url)
    done = subprocess.run(
        ["sh", "-c", typed_words], cwd=workshop.clone, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.skipif(bool(ABSENT), reason=ABSENT)
@pytest.mark.parametrize(
    ("files", "fleet"), [(kserve_files, KSERVE), (stack_files, STACKS)], ids=["KServe", "production stack"]
)
def test_the_page_leads_from_a_clone_to_learned_profiles(
    files: Callable[[Workshop], dict[str, str]], fleet: tuple[Served, ...], tmp_path: Path
) -> None:
    workshop = empty_workshop(tmp_path)
    for path, text in files(workshop).items():
        workshop.write(path, text.encode())
    workshop.commit()
    for words in (
        "config user.name Ann",
        "config user.email ann@example.com",
        "fetch -q origin",
        "branch -q -u origin/main",
    ):
        workshop.git(*words.split())
    history = History(end_s=time.time() + SLOWEST_S, step_s=STEP_S)
    for each in fleet:
        for number in range(each.count):
            labels = {"namespace": "llm", "pod": pod(each.pods, number), "model_name": each.metrics_name or each.name}
            replica_under(history, labels, each.load, since_s=SINCE_S, kv_tokens=60_000)
    place = tmp_path / "prometheus"
    place.mkdir()
    with prometheus_over(history, place) as url:
        begun_s = time.monotonic()
        seen = follow(workshop, written_on_the_page("first pull request"), url)
        assert time.monotonic() - begun_s < 600, "ten minutes, at any load of this machine"
        assert f"{len(fleet)} workloads serve models and are not managed" in seen
        assert f"{len(fleet)} managed from now on" in seen
        assert f"metrics of {len(fleet)} of {len(fleet)} variants" in seen
        assert f"adopted workloads are sized by saturation ({len(fleet)})" in seen
        assert "0 failures" in seen
        assert changes_of(workshop) == sorted(line for each in fleet for line in each.numbers)
        follow(workshop, written_on_the_page("learned profiles"), url)
        entries = (workshop.clone / "reconciler.yaml").read_text() + written_on_the_page("latency target")
        (workshop.clone / "reconciler.yaml").write_text(entries)
        workshop.git("add", "-A")
        workshop.commit("Give a latency")
        sized = yaml.safe_load(follow(workshop, "reconciler plan -o json", url))
    engines = {
        each["variant"]["name"]: (each["engine"], "learned at .reconciler/profiles.yaml" in each["engine_reason"])
        for group in sized["groups"]
        for each in group["decisions"]
    }
    ways = {True: ("queueing", True), False: ("saturation", False)}
    expected = {each.name: ways[each.is_learned] for each in fleet}
    assert {name.rpartition("-deployment-vllm")[0].partition("-")[2] or name: way for name, way in engines.items()} == (
        expected
    )
    learned = sum(each.is_learned for each in fleet)
    words = f"adopted workloads are sized by learned profiles ({learned}) and saturation ({len(fleet) - learned})"
    assert words in sized["assumptions"]


def changes_of(workshop: Workshop) -> list[tuple[str, str]]:
    """Each line that a proposal changes, and what it becomes."""
    branches = run_git(workshop.remote, "for-each-ref", "--format=%(refname)", "refs/heads/reconciler").split()
    pairs: list[tuple[str, str]] = []
    for branch in branches:
        lines = run_git(workshop.remote, "diff", "-U0", f"HEAD...{branch}").splitlines()
        gone = [each[1:] for each in lines if each.startswith("-") and not each.startswith("---")]
        come = [each[1:] for each in lines if each.startswith("+") and not each.startswith("+++")]
        pairs += zip(gone, come, strict=True)
    return sorted((before.strip(), after.strip()) for before, after in pairs)


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
