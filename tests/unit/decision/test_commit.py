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


def read(files: Mapping[str, str], known: Commit | None = None) -> Commit:
    manifests = [ManifestFile(path=path, body=text.encode()) for path, text in files.items()]
    parsed = known.parsed if known is not None else {}
    same = {path: each for path, each in parsed.items() if files.get(path, "").encode() == each.body}
    holds = {"prod": lambda path: path.startswith("prod/")}
    return read_commit(
        [same.get(each.path, each) for each in manifests],
        files,
        holds,
        lambda paths: [each for each in manifests if each.path in paths],
        known=known,
    )


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


BUILT = {
    "prod/plain.yaml": DEPLOYMENT.replace("name: a", "name: plain"),
    "prod/app/kustomization.yaml": "resources: [../../base]\npatches: [{path: patch.yaml}]\n",
    "prod/app/patch.yaml": "# four\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 4}\n",
    "base/kustomization.yaml": "resources: [a.yaml, b.yaml]\n",
    "base/a.yaml": DEPLOYMENT,
    "base/b.yaml": DEPLOYMENT.replace("name: a", "name: b"),
}


@pytest.mark.parametrize(
    ("path", "text", "same"),
    [
        ("notes.txt", "", {"prod/plain.yaml", "base/b.yaml"}),
        ("prod/plain.yaml", DEPLOYMENT.replace("name: a", "name: c"), {"base/b.yaml"}),
        ("base/b.yaml", "\n" + BUILT["base/b.yaml"], {"prod/plain.yaml"}),
        ("prod/app/patch.yaml", "# one\n" + BUILT["prod/app/patch.yaml"], {"prod/plain.yaml", "base/b.yaml"}),
        ("prod/app/patch.yaml", BUILT["prod/app/patch.yaml"].replace("4", "5"), {"prod/plain.yaml", "base/b.yaml"}),
        ("base/kustomization.yaml", "namespace: llm\nresources: [a.yaml, b.yaml]\n", {"prod/plain.yaml"}),
        ("prod/app/kustomization.yaml", "resources: [../../base, ../plain.yaml]\n", {"base/b.yaml"}),
        ("prod/app/kustomization.yaml", "resources: [../../base/a.yaml]\n", {"prod/plain.yaml"}),
        ("base/a.yaml", "{", {"prod/plain.yaml", "base/b.yaml"}),
    ],
)
def test_of_a_change_only_what_is_built_otherwise_is_read(path: str, text: str, same: set[str]) -> None:
    base, files = read(BUILT), {**BUILT, path: text}
    head, alone = read(files, base), read(files)
    assert head.declared == alone.declared
    assert [each.findings for each in head.readings.values()] == [each.findings for each in alone.readings.values()]
    given = {id(each) for each in base.declared}
    assert {each.path for each in head.declared if id(each) in given} == same
