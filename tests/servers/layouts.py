"""The fleet of `fleet.py` as people lay it out: plain manifests, a patched Kustomize base, values of a chart."""

from collections.abc import Mapping

from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, MANIFESTS, SETTINGS

DEPLOYMENT = "clusters/prod/chat/deployment.yaml"
VARIANT = "clusters/prod/chat/variant.yaml"
BASE = "apps/llama/deployment.yaml"
KUSTOMIZATION = "clusters/prod/chat/kustomization.yaml"
PATCH = "clusters/prod/chat/patch.yaml"
RELEASE = "clusters/prod/chat/release.yaml"
CONFIGURATION = "reconciler.yaml"

PATCHED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: chat}
spec:
  replicas: 2
  template:
    metadata: {labels: {team: chat}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: [--model=meta-llama/Llama-3.1-8B-Instruct, --served-model-name=llama]
          resources: {limits: {nvidia.com/gpu: "1"}}
"""
VALUES = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: llama, namespace: chat}
spec:
  chart: {spec: {chart: vllm-stack, version: 0.1.5, sourceRef: {kind: HelmRepository, name: vllm}}}
  values:
    replicaCount: 2
    image: {repository: vllm/vllm-openai, tag: v0.11.0}
    podLabels: {app: llama}
    extraArgs: [--max-num-seqs=64, --max-model-len=8192, --tensor-parallel-size=1, --gpu-memory-utilization=0.9]
    resources: {limits: {nvidia.com/gpu: 1}}
    auth: {password: canary}
"""


def _without_chat(*kept: str) -> dict[str, str]:
    return {path: body.decode() for path, body in MANIFESTS.items() if not path.startswith("clusters/prod/chat/")} | {
        path: MANIFESTS[path].decode() for path in kept
    }


def plain() -> dict[str, str]:
    """Manifests as they are applied."""
    return {path: body.decode() for path, body in MANIFESTS.items()} | {CONFIGURATION: SETTINGS}


def kustomize() -> dict[str, str]:
    """A base that an overlay patches."""
    return {
        **_without_chat(VARIANT),
        BASE: CHAT_DEPLOYMENT.decode().replace("\r", ""),
        "apps/llama/kustomization.yaml": "resources: [deployment.yaml]\n",
        KUSTOMIZATION: "resources: [../../../apps/llama, variant.yaml]\npatches: [{path: patch.yaml}]\n",
        PATCH: PATCHED,
        CONFIGURATION: SETTINGS,
    }


def helm() -> dict[str, str]:
    """A release whose chart makes the Deployment; the number of replicas is in its values."""
    labelled = "namespace: chat, labels: {inference.optimization/acceleratorName: H100}}"
    return {
        **_without_chat(),
        VARIANT: CHAT_VARIANT.replace("namespace: chat}", labelled),
        RELEASE: VALUES,
        CONFIGURATION: SETTINGS.replace("Llama-3.1-8B-Instruct\n", "Llama-3.1-8B-Instruct\n    servedNames: [llama]\n")
        + "overrides: [{match: {namespace: chat}, helmValues: {replicas: replicaCount}}]\n",
    }


LAYOUTS: Mapping[str, Mapping[str, str]] = {"plain": plain(), "kustomize": kustomize(), "helm": helm()}
