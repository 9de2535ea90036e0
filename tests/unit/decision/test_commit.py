"""Which files of a commit are read, and which are kept for a replay."""

from collections.abc import Mapping

import pytest

from reconciler.domain.recording import ManifestFile
from reconciler.snapshot.declarations import Commit, read_commit

RELEASE = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: llama, namespace: argocd}
spec:
  source: {repoURL: "", path: charts/vllm, helm: {valueFiles: [../../values/llama.yaml]}}
  destination: {namespace: llm}
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 2}\n"


def read(files: Mapping[str, str]) -> Commit:
    manifests = [ManifestFile(path=path, body=text.encode()) for path, text in files.items()]
    holds = {"prod": lambda path: path.startswith("prod/")}
    return read_commit(manifests, files, holds, lambda paths: [each for each in manifests if each.path in paths])


def kept(files: Mapping[str, str]) -> list[str]:
    return [manifest.path for manifest in read(files).manifests]


def test_what_a_cluster_holds_or_builds_is_kept() -> None:
    files = {
        "prod/kustomization.yaml": "resources: [../base]\npatches: [{path: patch.yaml, target: {kind: Deployment}}]\n",
        "prod/patch.yaml": "- {op: replace, path: /spec/replicas, value: 4}\n",
        "base/kustomization.yaml": "resources: [a.yaml]\n",
        "base/a.yaml": DEPLOYMENT,
        "other/a.yaml": DEPLOYMENT,
        "prod/notes.yaml": "a: 1\n",
    }
    assert kept(files) == ["base/a.yaml", "base/kustomization.yaml", "prod/kustomization.yaml", "prod/patch.yaml"]


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [("values/llama.yaml", True), ("charts/vllm/values.yaml", True), ("values/database.yaml", False)],
)
def test_values_are_kept_only_of_what_a_deployer_names(path: str, is_kept: bool) -> None:
    files = {"prod/app.yaml": RELEASE, path: "decode: {replicas: 1}\n"}
    assert (path in kept(files)) is is_kept


def test_a_pattern_that_takes_long_to_match_names_nothing() -> None:
    pattern = "**a" * 60
    files = {"prod/app.yaml": RELEASE.replace("charts/vllm", pattern), "values/b.yaml": "a: 1\n", "a" * 2000: "a: 1\n"}
    assert kept(files) == ["prod/app.yaml"]
