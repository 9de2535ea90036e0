"""Where the number of an adopted workload is written in each layout, and who keeps us from writing it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.domain.settings import ClusterSettings, Override, Setting, Settings
from reconciler.domain.snapshot import Form, Variant
from reconciler.git.repository import open_directory
from reconciler.pipeline.files import read_files
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.variants import declared_variants
from tests.servers.git_workshop import empty_workshop

REMOTE = "https://git.example.com/acme/fleet"
SETTINGS = Settings(
    clusters=(ClusterSettings(name="prod"),),
    workloads=(Override(match={"namespace": "llm*"}, settings={"whenAutoscaled": Setting(value="bounds")}),),
)
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: vllm, image: vllm/vllm-openai, args: [--model, acme/chat]}]}
"""
GROUP = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: chat}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 4
    workerTemplate:
      spec:
        containers:
          - {name: s, image: lmsysorg/sglang, args: [--model-path, acme/chat], resources: {limits: {nvidia.com/gpu: 8}}}
"""
SCALED_OBJECT = """---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 1
  maxReplicaCount: 4
  triggers: [{type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)", threshold: "5"}}]
"""
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: llm\n"
ARGO = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: chat, namespace: argocd}
spec:
  source:
    repoURL: https://git.example.com/acme/fleet
    path: apps/chat
    SOURCE
  destination: {name: prod, namespace: llm}
  SPEC
"""
FLUX = """apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: chat, namespace: flux-system}
spec:
  path: ./apps/chat
  targetNamespace: llm
  sourceRef: {kind: GitRepository, name: flux-system}
  SPEC
"""


def variant_of(directory: Path, files: Mapping[str, str]) -> Variant:
    workshop = empty_workshop(directory)
    for path, text in files.items():
        workshop.write(path, text.encode())
    workshop.commit()
    commit = read_files(open_directory(workshop.clone), SETTINGS, REMOTE).commit
    (variant,) = declared_variants(SETTINGS, fold(commit, SETTINGS))
    assert variant.form is Form.ADOPTED
    return variant


def in_kustomization(**lists: str) -> dict[str, str]:
    text = KUSTOMIZATION + "resources: [../base]\n" + "".join(f"{key}:\n{value}" for key, value in lists.items())
    base = {"base/kustomization.yaml": KUSTOMIZATION + "resources: [chat.yaml]\n", "base/chat.yaml": DEPLOYMENT}
    return {**base, "prod/kustomization.yaml": text}


JSON_PATCH = """  - target: {kind: Deployment, name: chat}
    patch: |-
      - {op: replace, path: /spec/replicas, value: 5}
"""
MERGE_PATCH = """  - patch: |-
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: chat}
      spec: {replicas: 5}
"""
DEV = KUSTOMIZATION.replace("llm", "dev") + "resources: [../base]\n"
ARGO_REPLICAS = "kustomize: {replicas: [{name: chat, count: 5}]}"
PLAIN = {"apps/chat/chat.yaml": DEPLOYMENT}


@pytest.mark.parametrize(
    ("files", "places", "replicas"),
    [
        ({"llm.yaml": DEPLOYMENT.replace("name: chat}", "name: chat, namespace: llm}", 1)}, ["llm.yaml:5"], 2),
        ({"llm.yaml": GROUP.replace("name: chat}", "name: chat, namespace: llm}", 1)}, ["llm.yaml:5"], 2),
        (in_kustomization(), ["base/chat.yaml:5"], 2),
        (in_kustomization(replicas="  - {name: chat, count: 5}\n"), ["prod/kustomization.yaml:6"], 5),
        (in_kustomization(patches=JSON_PATCH), ["prod/kustomization.yaml:7"], 5),
        (in_kustomization(patches=MERGE_PATCH), ["prod/kustomization.yaml:10"], 5),
        (
            {
                **in_kustomization(),
                "dev/kustomization.yaml": KUSTOMIZATION.replace("llm", "dev") + "resources: [../base]\n",
            },
            ["prod/kustomization.yaml"],
            2,
        ),
        (
            {**PLAIN, "argo/chat.yaml": ARGO.replace("SOURCE", "directory: {recurse: true}").replace("SPEC", "")},
            ["apps/chat/chat.yaml:5"],
            2,
        ),
        (
            {
                **PLAIN,
                "apps/chat/kustomization.yaml": "resources: [chat.yaml]\n",
                "argo/chat.yaml": ARGO.replace("SOURCE", "kustomize: {replicas: [{name: chat, count: 5}]}").replace(
                    "SPEC", ""
                ),
            },
            ["argo/chat.yaml:8"],
            5,
        ),
        ({**PLAIN, "flux/chat.yaml": FLUX.replace("SPEC", "")}, ["apps/chat/chat.yaml:5"], 2),
        (
            {**PLAIN, "apps/chat/chat.yaml": DEPLOYMENT + SCALED_OBJECT, "flux/chat.yaml": FLUX.replace("SPEC", "")},
            ["apps/chat/chat.yaml:15", "apps/chat/chat.yaml:16"],
            1,
        ),
    ],
    ids=[
        *("deployment", "group", "base", "replicas", "json-patch", "merge-patch", "shared-base"),
        *("argo-directory", "argo-replicas", "flux", "flux-bounds"),
    ],
)
def test_the_number_is_written_where_it_decides(
    tmp_path: Path, files: Mapping[str, str], places: list[str], replicas: int
) -> None:
    variant = variant_of(tmp_path, files)
    assert variant.holds == ()
    assert variant.workload is not None
    assert [str(each.place) for each in variant.workload.written_at] == places
    assert variant.current.replicas == replicas


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {
                **PLAIN,
                "argo/chat.yaml": ARGO.replace("SOURCE", "directory: {}").replace(
                    "SPEC", "ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]"
                ),
            },
            "Application argocd/chat",
        ),
        (
            {
                "apps/chat/chat.yaml": DEPLOYMENT.replace(
                    "{name: chat}", "{name: chat, annotations: {kustomize.toolkit.fluxcd.io/reconcile: disabled}}", 1
                ),
                "flux/chat.yaml": FLUX.replace("SPEC", ""),
            },
            "kustomize.toolkit.fluxcd.io/reconcile",
        ),
        (
            {
                "apps/chat/chat.yaml": DEPLOYMENT.replace("replicas: 2", "replicas: ${COUNT}"),
                "flux/chat.yaml": FLUX.replace("SPEC", "postBuild: {substitute: {OTHER: x}}"),
            },
            "filled in by the substitution of Kustomization flux-system/chat",
        ),
        (
            {
                "llm.yaml": DEPLOYMENT.replace("name: chat}", "name: chat, namespace: llm}", 1)
                + "---\napiVersion: x.example.com/v1\nkind: Scaler\nmetadata: {name: s, namespace: llm}\n"
                "spec: {scaleTargetRef: {kind: Deployment, name: chat}}\n"
            },
            "replicas are owned by Scaler s",
        ),
    ],
    ids=["argo-ignores", "flux-ignores", "substituted", "foreign-scaler"],
)
def test_a_number_that_would_be_reset_is_held_with_its_owner(
    tmp_path: Path, files: Mapping[str, str], words: str
) -> None:
    holds = [each.words for each in variant_of(tmp_path, files).holds]
    assert any(words in each for each in holds), holds
