"""Prepared pull requests, each line in three spellings: what a review says, and that a plan decides alike."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision
from reconciler.domain.reports import Objection, Review
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY
from reconciler.git.repository import open_directory
from reconciler.pipeline.review import HeadReader, Reviewer, decide_base
from reconciler.pipeline.run import plan
from reconciler.pipeline.session import Doors
from reconciler.report.review import review_findings, review_summary
from tests.servers.desk import BUSY, NOW_S, RENDERER, Desk
from tests.servers.git_workshop import empty_workshop
from tests.servers.layouts import CONFIGURATION, DEPLOYMENT, KUSTOMIZATION, LAYOUTS, PATCH, RELEASE, VARIANT
from tests.unit.pipeline.test_review_like_plan import differences

GRANITE, QWEN = "clusters/prod/code/granite.yaml", "clusters/prod/batch/qwen.yaml"
NEW_FILE = "clusters/prod/chat/more.yaml"
NONE, HOLD, SLO, REFUSE, APPROVAL = (
    Objection.NONE,
    Objection.HOLD,
    Objection.SLO,
    Objection.REFUSE,
    Objection.APPROVAL,
)
Edit = tuple[str, str, str]
"""A file, and one of its texts that becomes another; an empty text is a new file's."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a head changes, what is said of it, and its gravest objection."""

    layout: str
    edits: tuple[Edit, ...]
    said: str
    objection: Objection
    removed: tuple[str, ...] = ()
    never: str = r"\A\Z"
    is_plan: bool = True
    """Whether a plan of the head decides alike: not where the number of replicas itself changes."""


def plain(*edits: Edit, said: str, objection: Objection = NONE, **more: object) -> Row:
    return Row(layout="plain", edits=edits, said=said, objection=objection, **more)  # type: ignore[arg-type]


def kustomize(*edits: Edit, said: str, objection: Objection = NONE, **more: object) -> Row:
    return Row(layout="kustomize", edits=edits, said=said, objection=objection, **more)  # type: ignore[arg-type]


def helm(*edits: Edit, said: str, objection: Objection = HOLD, **more: object) -> Row:
    return Row(layout="helm", edits=edits, said=said, objection=objection, **more)  # type: ignore[arg-type]


def argument(name: str, value: str, words: str, objection: Objection = HOLD) -> tuple[Row, ...]:
    """An argument of the engine: in the manifest, in a patch, in values whose meaning the chart alone knows."""
    flag = f"--{name}={value}"
    said = rf"warning: chat/llama: {words}; its profile was measured before"
    known = {"max-num-seqs": "0", "max-model-len": "1", "tensor-parallel-size": "2", "gpu-memory-utilization": "3"}
    return (
        plain((DEPLOYMENT, "name=llama]", f"name=llama, {flag}]"), said=said, objection=objection),
        kustomize((PATCH, "name=llama]", f"name=llama, {flag}]"), said=rf"patch.yaml:12: {said}", objection=objection),
        helm(
            (RELEASE, re.search(rf"--{name}=[\d.]+", LAYOUTS["helm"][RELEASE])[0], flag),  # type: ignore[index]
            said=rf"extraArgs\[{known[name]}\] is {flag} instead of .*: what its chart makes of that is not known; its "
            "profile and price were measured before",
        ),
    )


def everywhere(*edits: Edit, said: str, objection: Objection = NONE, **more: object) -> tuple[Row, ...]:
    """The same in all layouts."""
    return tuple(
        Row(layout=each, edits=edits, said=said, objection=objection, **more)  # type: ignore[arg-type]
        for each in LAYOUTS
    )


def sized(count: int, said: str, objection: Objection) -> tuple[Row, ...]:
    """Other replicas."""
    return (
        plain((DEPLOYMENT, "replicas:   2 ", f"replicas:   {count} "), said=said, objection=objection, is_plan=False),
        kustomize((PATCH, "replicas: 2", f"replicas: {count}"), said=said, objection=objection, is_plan=False),
        helm((RELEASE, "replicaCount: 2", f"replicaCount: {count}"), said=said, objection=objection, is_plan=False),
    )


def annotated(text: str) -> str:
    return f"chat, annotations: {{{text}}}"


NEEDS = r"its demand of [\d.]+ req/s needs 4"
COSTS = ConfigMap = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: accelerator-unit-costs, namespace: workload-variant-autoscaler-system}
data:
  H100: "2.5"
"""
HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llama, namespace: chat}
spec: {minReplicas: 3, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}}
"""
SCALED = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llama, namespace: chat}
spec: {minReplicaCount: 3, maxReplicaCount: 9, scaleTargetRef: {name: llama}, triggers: [{type: cpu}]}
"""
BOUNDS = (CONFIGURATION, "defaults: {", "defaults: {whenAutoscaled: bounds, ")
RENDERED = """\
namespace: chat
helmCharts:
- name: inferencepool
  repo: https://charts.example.com
  version: 0.1.5
  releaseName: gateway
  valuesFile: values.yaml
  valuesInline: {port: 8000}
"""
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: llama, namespace: argocd}
spec:
  source:
    repoURL: https://charts.example.com
    chart: vllm-stack
    targetRevision: 0.1.5
    helm: {parameters: [{name: replicaCount, value: "2"}, {name: tag, value: v1}]}
  destination: {namespace: chat}
"""
OWNED = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: chat, namespace: argocd}
spec:
  source: {repoURL: "https://example.com/fleet.git", path: clusters/prod/chat}
  destination: {namespace: chat}
  ignoreDifferences:
    - {group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}
"""
POOL = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: chat}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 80}]
  endpointPickerRef: {name: epp, port: {number: 90}}
---
"""
OBJECTIVE = """\
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceObjective
metadata: {name: chat, namespace: chat}
spec: {priority: 7, poolRef: {name: chat}}
"""
POOL_RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: gateway, namespace: chat}
spec:
  chart: {spec: {chart: inferencepool, version: v1.0.0, sourceRef: {kind: HelmRepository, name: x}}}
  values: {inferencePool: {modelServers: {matchLabels: {app: llama}}}}
"""
OCI = """\
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: vllm, namespace: chat}
spec: {url: "oci://ghcr.io/vllm/stack", ref: {tag: 0.1.5}}
"""
BY_REFERENCE = "chartRef: {kind: OCIRepository, name: vllm}"
INLINE = "chart: {spec: {chart: vllm-stack, version: 0.1.5, sourceRef: {kind: HelmRepository, name: vllm}}}"
PROFILE = "profiles: [{accelerator: H100, alpha: 6.958ms"
EXTRA_BASES: Mapping[str, tuple[str, Mapping[str, str | None]]] = {
    "argo": ("helm", {RELEASE: None, "clusters/prod/argo.yaml": APPLICATION}),
    "oci": (
        "helm",
        {RELEASE: LAYOUTS["helm"][RELEASE].replace(INLINE, BY_REFERENCE), "clusters/prod/chat/oci.yaml": OCI},
    ),
    "rendered": (
        "plain",
        {
            "clusters/prod/gateway/kustomization.yaml": RENDERED,
            "clusters/prod/gateway/values.yaml": "replicas: 1\npassword: canary\n"
            "env: [{name: DB_PASSWORD, value: canary}]\n",
        },
    ),
    "gateway": ("plain", {"clusters/prod/chat/gateway.yaml": POOL_RELEASE, NEW_FILE: POOL + OBJECTIVE}),
    "autoscaled": (
        "plain",
        {NEW_FILE: HPA, CONFIGURATION: LAYOUTS["plain"][CONFIGURATION].replace(*BOUNDS[1:])},
    ),
    "profiled": (
        "plain",
        {CONFIGURATION: re.sub(r"  - id: ibm/granite-13b\n.*\n", "", LAYOUTS["plain"][CONFIGURATION])},
    ),
    "costs": (
        "plain",
        {
            NEW_FILE: COSTS,
            CONFIGURATION: LAYOUTS["plain"][CONFIGURATION].replace(", costPerHour: 6.88", ""),
        },
    ),
    "rules": (
        "plain",
        {
            "rules.yaml": "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
            "  - {name: money, budget: {amount: 25, per: hour}}\n  - {name: slow, step: {up: 2}}\n",
            CONFIGURATION: LAYOUTS["plain"][CONFIGURATION] + "policies: [rules.yaml]\n",
        },
    ),
}

LINES: Mapping[str, tuple[Row, ...]] = {
    "devices a replica": (
        plain(
            (DEPLOYMENT, 'gpu: "1"', 'gpu: "8"'),
            said=r"(?s)8 nvidia.com/gpu a replica instead of 1.*\+\$96.32/h \(\+\$70,000 a month\)",
            objection=HOLD,
        ),
        kustomize(
            (PATCH, 'gpu: "1"', 'gpu: "8"'),
            said=r"(?s)\+\$96.32/h .*patch.yaml:13: warning: .*8 nvidia.com/gpu a replica instead of 1",
            objection=HOLD,
        ),
        helm((RELEASE, "gpu: 1", "gpu: 8"), said=r'resources.limits\["nvidia.com/gpu"\] is 8 instead of 1'),
    ),
    "tensor parallel": argument("tensor-parallel-size", "2", "tensor parallel size 2 instead of 1"),
    "batch limit": argument("max-num-seqs", "8", "most requests at once 8 instead of 256", SLO),
    "length of the model": argument("max-model-len", "131072", "longest context 131072 instead of none"),
    "share of memory": argument("gpu-memory-utilization", "0.5", "share of the device's memory 0.5 instead of 0.9"),
    "image of the engine": (
        plain(
            (DEPLOYMENT, "v0.11.0", "v0.12.0"), said=r"image vllm/vllm-openai:v0.12.0 instead of .*v0.11.0; how fast"
        ),
        kustomize((PATCH, "v0.11.0", "v0.12.0"), said=r"patch.yaml:11: note: .*image vllm/vllm-openai:v0.12.0 instead"),
        helm((RELEASE, "tag: v0.11.0", "tag: v0.12.0"), said=r"image.tag is v0.12.0 instead of v0.11.0"),
    ),
    "chart version": (
        helm(
            (RELEASE, "0.1.5", "0.1.6"),
            said=r"release.yaml:5: warning: chat/llama: chart version is 0.1.6 instead of 0.1.5 \(HelmRelease "
            r"chat/llama\): what its chart makes of that is not known; its profile and price were measured before",
        ),
        Row(
            layout="argo",
            edits=(("clusters/prod/argo.yaml", "targetRevision: 0.1.5", "targetRevision: 0.2.0"),),
            said=r"argo.yaml:8: warning: chat/llama: chart version is 0.2.0 instead of 0.1.5 \(Application argocd",
            objection=HOLD,
        ),
        Row(
            layout="oci",
            edits=(("clusters/prod/chat/oci.yaml", "0.1.5", "0.1.6"),),
            said=r"oci.yaml:4: warning: chat/llama: chart version is 0.1.6 instead of 0.1.5",
            objection=HOLD,
        ),
    ),
    "charts that Kustomize renders": (
        *(
            Row(layout="rendered", edits=((f"clusters/prod/gateway/{path}", before, after),), said=said, objection=HOLD)
            for path, before, after, said in (
                (
                    "kustomization.yaml",
                    "version: 0.1.5",
                    "version: 0.2.0",
                    r"gateway/kustomization.yaml:5: warning: .*: chart version is 0.2.0 instead of 0.1.5",
                ),
                (
                    "kustomization.yaml",
                    "port: 8000",
                    "port: 9000",
                    r"kustomization.yaml:8: .* port is 9000 instead of 8000",
                ),
                ("values.yaml", "replicas: 1", "replicas: 5", r"warning: chart gateway .* replicas is 5 instead of 1"),
            )
        ),
        Row(
            layout="rendered",
            edits=(
                ("clusters/prod/gateway/values.yaml", "replicas: 1", "replicas: 5"),
                ("clusters/prod/gateway/values.yaml", "value: canary", "value: another-canary"),
            ),
            said=r"replicas is 5 instead of 1",
            objection=HOLD,
            never="canary",
        ),
    ),
    "target latencies": (
        *everywhere(
            (CONFIGURATION, "itl: 60ms", "itl: 9ms"),
            said=r"(?s)ITL mean 9 ms instead of 60 ms \(stricter\)",
            objection=SLO,
        )[:2],
        plain(
            (CONFIGURATION, "ttft: 2s", "ttft: 9s"),
            said=r"TTFT p95 9 s instead of 2 s \(looser\)",
        ),
    ),
    "prices": (
        plain(
            (CONFIGURATION, "costPerHour: 3.97", "costPerHour: 99"),
            said=r"(?s)A100: costs 99 USD/h instead of 3.97 USD/h.*\+\$95.03/h",
        ),
        helm(
            (CONFIGURATION, "costPerHour: 6.88", "costPerHour: 3.44"),
            said=r"(?s)H100: costs 3.44 USD/h instead of 6.88 USD/h.*−\$6.88/h",
            objection=NONE,
        ),
        Row(
            layout="costs",
            edits=((NEW_FILE, '"2.5"', '"5"'),),
            said=r"(?s)H100.*5 USD/h instead of 2.5 USD/h.*\+\$5.00/h",
            objection=NONE,
        ),
    ),
    "profiles": (
        plain(
            (CONFIGURATION, "alpha: 6.958ms", "alpha: 30ms"),
            said=r"its profile on H100 changes: alpha 30 ms instead of 6.958 ms",
            objection=HOLD,
        ),
        kustomize((CONFIGURATION, "alpha: 6.958ms", "alpha: 5ms"), said=r"needs 3 instead of 4"),
        Row(
            layout="profiled",
            edits=((GRANITE, 'alpha: "20.58"', 'alpha: "25"'),),
            said=r"granite.yaml:\d+: note: code/granite: its profile on A100 changes: alpha 25 ms instead of 20.58 ms",
            objection=NONE,
        ),
    ),
    "bounds": (
        plain(
            (VARIANT, "namespace: chat", "namespace: " + annotated("reconciler.io/max-replicas: '3'")),
            said=r"(?s)its maxReplicas of 3 is below the 4 that its load needs.*maxReplicas is 3 instead of none",
            objection=SLO,
        ),
        kustomize(
            (VARIANT, "  modelID", "  maxReplicas: 1\n  modelID"),
            said=r"(?s)its maxReplicas of 1 is below the 4 that its load needs.*that is above its maxReplicas of 1",
            objection=SLO,
        ),
        helm(
            (CONFIGURATION, "helmValues", "maxReplicas: 3, helmValues"),
            said=r"maxReplicas is 3 instead of none",
            objection=SLO,
        ),
    ),
    "another model": tuple(
        Row(
            layout=layout,
            edits=((VARIANT, "Llama-3.1-8B-Instruct", "Other"),),
            said=r"serves meta-llama/Other instead of meta-llama/Llama-3.1-8B-Instruct, whose load is not known",
            objection=HOLD,
        )
        for layout in LAYOUTS
    ),
    "selectors": (
        plain(
            (DEPLOYMENT, "{app: llama,", "{app: bot,"),
            (DEPLOYMENT, "{app: llama}", "{app: bot}"),
            said=r"the labels of its pods change \(app\): what selects them may lose them",
        ),
        kustomize((PATCH, "team: chat", "team: bot"), said=r"patch.yaml:7: note: .*labels of its pods change \(team\)"),
        helm((RELEASE, "app: llama", "app: bot"), said=r"podLabels.app is bot instead of llama"),
        Row(
            layout="gateway",
            edits=(("clusters/prod/chat/gateway.yaml", "app: llama", "app: bot"),),
            said=r"HelmRelease chat/gateway: inferencePool.modelServers.matchLabels.app is bot instead of llama: what",
            objection=HOLD,
        ),
    ),
    "owners": (
        plain((NEW_FILE, "", HPA), said=r"replicas are owned by HorizontalPodAutoscaler llama", objection=HOLD),
        kustomize(
            (NEW_FILE, "", SCALED),
            (KUSTOMIZATION, "variant.yaml]", "variant.yaml, more.yaml]"),
            said=r"replicas are owned by ScaledObject llama",
            objection=HOLD,
        ),
        plain(("clusters/prod/argo.yaml", "", OWNED), said=r"Application argocd/chat ignores", objection=HOLD),
    ),
    "objectives": (
        plain((NEW_FILE, "", POOL + OBJECTIVE), said=r"chat/llama: its priority is 7 instead of 0"),
        kustomize(
            (NEW_FILE, "", POOL + OBJECTIVE.replace("7", "-5")),
            (KUSTOMIZATION, "variant.yaml]", "variant.yaml, more.yaml]"),
            said=r"more.yaml:\d+: note: chat/llama: its priority is -5 instead of 0",
        ),
        Row(
            layout="gateway",
            edits=((NEW_FILE, "priority: 7", "priority: 1"),),
            said=r"chat/llama: its priority is 1 instead of 7",
            objection=NONE,
        ),
    ),
    "classes": (
        plain(
            (CONFIGURATION, "  - {name: standard", "  - {name: fast, ttft: 1s, itl: 60ms}\n  - {name: standard"),
            (VARIANT, "namespace: chat", "namespace: " + annotated("reconciler.io/service-class: fast")),
            said=r"its service class is fast instead of standard: TTFT p95 1 s instead of 2 s \(stricter\)",
        ),
        helm(
            (CONFIGURATION, "  - {name: standard", "  - {name: slow, ttft: 9s, itl: 60ms}\n  - {name: standard"),
            (CONFIGURATION, "helmValues", "serviceClass: slow, helmValues"),
            said=r"its service class is slow instead of standard: TTFT p95 9 s instead of 2 s \(looser\)",
            objection=NONE,
        ),
        kustomize(
            (VARIANT, "namespace: chat", "namespace: " + annotated("reconciler.io/service-class: gone")),
            said=r"(?i)chat/llama: is held from then on: .*gone",
            objection=HOLD,
        ),
    ),
    "what validate finds": (
        plain(
            (QWEN, "replicas: 1", "replicas: -1"),
            said=r"qwen.yaml:\d+: error: spec.replicas: ",
            objection=REFUSE,
            is_plan=False,
            never="moves|keeps plans",
        ),
        kustomize(
            (PATCH, "replicas: 2", "replicas: two"),
            said=r"patch.yaml:\d+: error: .*replicas",
            objection=REFUSE,
            is_plan=False,
            never="moves|keeps plans",
        ),
        helm(
            (VARIANT, "namespace: chat", "namespace: " + annotated("reconciler.io/max-replcas: '3'")),
            said=r"variant.yaml:\d+: error: .*max-replcas.*did you mean",
            objection=REFUSE,
            is_plan=False,
        ),
    ),
    "too few": sized(
        1, rf"error: sets chat/llama to 1 replica; {NEEDS}.*carries 27% of it instead of 54%; −\$6.88/h", SLO
    ),
    "enough": sized(
        4,
        r"sets chat/llama to 4 replicas; expected wait p95 over capacity → [\d.]+ ms, target 2 s; room for 8% more; "
        r"\+\$13.76/h \(\+\$10,000 a month\); needs approval by `a-fifth-dearer` and `first-change`",
        APPROVAL,
    ),
    "too many": sized(9, rf"sets chat/llama to 9 replicas; {NEEDS} .*room for 143% more; \+\$48.16/h", APPROVAL),
    "a rescue that is not enough": sized(
        3, rf"warning: sets chat/llama to 3 replicas; {NEEDS} .*carries 81% of it instead of 54%", APPROVAL
    ),
    "none left": sized(
        0, rf"error: sets chat/llama to 0 replicas; that is below its minReplicas of 1; {NEEDS}", REFUSE
    ),
    "another namespace": (
        plain(
            (DEPLOYMENT, "namespace: chat", "namespace: talk"),
            (VARIANT, "namespace: chat", "namespace: talk"),
            said=r"renames chat/llama to talk/llama",
            objection=NONE,
            never="removes|adds",
            is_plan=False,
        ),
        kustomize(
            (KUSTOMIZATION, "resources", "namespace: talk\nresources"),
            said=r"renames chat/llama to talk/llama",
            objection=NONE,
            never="removes|adds",
            is_plan=False,
        ),
        kustomize(
            (KUSTOMIZATION, "resources", "namePrefix: big-\nresources"),
            said=r"renames chat/llama to chat/big-llama",
            objection=HOLD,
            never="removes|adds",
            is_plan=False,
        ),
    ),
    "an autoscaler": (
        plain(
            (NEW_FILE, "", HPA),
            BOUNDS,
            said=r"has chat/llama scaled by HorizontalPodAutoscaler llama between 3 and 9 replicas; ",
            objection=APPROVAL,
            never="sets chat/llama",
            is_plan=False,
        ),
        kustomize(
            (NEW_FILE, "", SCALED),
            (KUSTOMIZATION, "variant.yaml]", "variant.yaml, more.yaml]"),
            BOUNDS,
            said=r"has chat/llama scaled by ScaledObject llama between 3 and 9 replicas; ",
            objection=APPROVAL,
            never="sets chat/llama",
            is_plan=False,
        ),
        Row(
            layout="autoscaled",
            edits=((NEW_FILE, "maxReplicas: 9", "maxReplicas: 3"),),
            said=r"is scaled by HorizontalPodAutoscaler llama between 3 and 3 replicas instead of .* between 3 and 9",
            objection=NONE,
        ),
    ),
    "rules": (
        Row(
            layout="rules",
            edits=(("rules.yaml", "up: 2", "up: 9"),),
            said=r"warning: rule slow: is relaxed: up 9 instead of 2",
            objection=HOLD,
            is_plan=False,
        ),
        Row(
            layout="rules",
            edits=(("rules.yaml", "up: 2", "up: 1"),),
            said=r"note: rule slow: is tightened: up 1 instead of 2; in force once this is merged",
            objection=NONE,
            is_plan=False,
        ),
        Row(
            layout="rules",
            edits=((DEPLOYMENT, 'gpu: "1"', 'gpu: "8"'),),
            said=r"changes what chat/llama costs; .*breaks `money`",
            objection=REFUSE,
        ),
    ),
    "gone": (
        plain(
            removed=(DEPLOYMENT, VARIANT), said=rf"error: removes chat/llama; {NEEDS}", objection=REFUSE, is_plan=False
        ),
        kustomize(
            (KUSTOMIZATION, "../../../apps/llama, ", ""),
            (KUSTOMIZATION, "patches: [{path: patch.yaml}]", ""),
            said=rf"error: removes chat/llama; {NEEDS}",
            objection=REFUSE,
            is_plan=False,
        ),
        helm(removed=(RELEASE, VARIANT), said=rf"removes chat/llama; {NEEDS}", objection=REFUSE, is_plan=False),
    ),
    "without a price": (
        plain(
            (CONFIGURATION, ", costPerHour: 0.70", ""),
            (DEPLOYMENT, "replicas:   2 ", "replicas:   4 "),
            said=r"(?s)sets chat/llama to 4 replicas.*1 variant changes: \+\$13.76/h",
            objection=APPROVAL,
            never="unknown cost$|: unknown",
            is_plan=False,
        ),
        kustomize(
            (QWEN, "NVIDIA-L4", "Abacus-9000"),
            (PATCH, "replicas: 2", "replicas: 4"),
            said=r"(?s)sets chat/llama to 4 replicas.*2 variants change: \+\$13.76/h .*and 1 change of unknown cost",
            objection=HOLD,
            is_plan=False,
        ),
        helm(
            (CONFIGURATION, ", costPerHour: 6.88", ""),
            (RELEASE, "replicaCount: 2", "replicaCount: 4"),
            said=r"(?s)sets chat/llama to 4 replicas.*its cost is not known.*and 1 change of unknown cost",
            objection=APPROVAL,
            is_plan=False,
        ),
    ),
}
ROWS = [(line, number) for line, rows in LINES.items() for number in range(len(rows))]


class Stage:
    """A base that is decided once, and heads on top of it."""

    def __init__(self, folder: Path, files: Mapping[str, str | None]) -> None:
        (folder / "acme").mkdir()
        self._workshop = empty_workshop(folder / "acme")
        self.files = {path: text for path, text in files.items() if text is not None}
        for path, text in self.files.items():
            self._workshop.write(path, text.encode())
        self._workshop.commit("The fleet")
        self._desk = Desk(folder=folder, workshop=self._workshop)
        repository = open_directory(self._workshop.clone, base="HEAD")
        settings = self._desk.settings(repository)
        reader = HeadReader(base=repository, settings=settings, flags=Flags(), environment=Environment(), name="fleet")
        self.reviewer = Reviewer(base=decide_base(self._doors("HEAD"), settings, NOW_S, "fleet"), reader=reader)

    def propose(self, row: Row) -> None:
        """The branch `change` with a head."""
        git = self._workshop.git
        git("checkout", "-q", "-B", "change", "origin/main")
        changed: dict[str, str] = {}
        for path, old, new in row.edits:
            before = changed.get(path, self.files.get(path, ""))
            assert (old in before) if old else not before, (path, old)
            changed[path] = before.replace(old, new) if old else new
        for path, text in changed.items():
            self._workshop.write(path, text.encode())
        for path in row.removed:
            git("rm", "-q", path)
        git("add", "-A")
        git("commit", "-q", "-m", "A change")

    def review(self) -> Review:
        """What merging it would do."""
        return self.reviewer.review(open_directory(self._workshop.clone, base="change"))

    def plan(self) -> dict[ResourceKey, Decision]:
        """What a plan of it decides."""
        doors = self._doors("change")
        prepared = plan(doors, self._desk.settings(doors.repository), NOW_S, repository="fleet")
        return {each.variant: each for each in prepared.plan.decisions}

    def _doors(self, branch: str) -> Doors:
        repository = open_directory(self._workshop.clone, base=branch)
        return Doors(repository=repository, ask=BUSY, forge=None, author=NEUTRAL_IDENTITY, renderer=RENDERER)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    """Those that a row asked for."""
    made: dict[str, Stage] = {}

    class Stages(dict[str, Stage]):
        def __missing__(self, name: str) -> Stage:
            layout, changes = EXTRA_BASES.get(name, (name, {}))
            files: dict[str, str | None] = {**LAYOUTS[layout], **changes}
            self[name] = Stage(tmp_path_factory.mktemp(name), files)
            return self[name]

    return Stages(made)


def text_of(review: Review) -> str:
    return "\n".join([*map(str, review_findings(review)), review_summary(review)])


def gravest(review: Review) -> Objection:
    """Errors of the head refuse, as they fail whatever is asked."""
    found = review.objections | ({Objection.REFUSE} if review.is_broken else set())
    return next((each for each in Objection if each in found), Objection.NONE)


def test_every_line_is_told_in_three_spellings() -> None:
    assert all(len(rows) >= 3 for rows in LINES.values())
    assert len(ROWS) >= 80


@pytest.mark.parametrize(("line", "number"), ROWS)
def test_a_prepared_change_is_told_and_judged_as_a_plan_would(stages: dict[str, Stage], line: str, number: int) -> None:
    row = LINES[line][number]
    stage = stages[row.layout]
    stage.propose(row)
    review = stage.review()
    text = text_of(review)
    assert re.search(row.said, text), text
    assert not re.search(row.never, text), text
    assert gravest(review) is row.objection, text
    if row.is_plan:
        assert not list(differences(review, stage.plan(), dict(stage.reviewer.base.recommended))), text
