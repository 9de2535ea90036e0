"""Kustomizations: what they set, and which files are patches and no objects."""

from collections.abc import Callable

import pytest

from reconciler.domain.declarations import Declaration
from reconciler.resources import is_kustomization
from reconciler.resources.kustomize import join_path

Declare = Callable[..., Declaration]

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME, namespace: llm}\nspec: {replicas: 2}\n"
PATCH = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec: {replicas: 5}\n"


def owned(declaration: Declaration) -> list[tuple[str, str, int]]:
    return [(owner.target_kind, owner.target_name, owner.place.line) for owner in declaration.owners]


def declare_with(declare: Declare, kustomization: str, **others: str) -> Declaration:
    files = {
        "apps/llama.yaml": DEPLOYMENT.replace("NAME", "llama"),
        "apps/llama-decode.yaml": DEPLOYMENT.replace("NAME", "llama-decode"),
        "overlays/kustomization.yaml": kustomization,
    }
    return declare(files | {name.replace("__", "/") + ".yaml": text for name, text in others.items()})


def test_replicas_of_a_kustomization_are_its_own(declare: Declare) -> None:
    declaration = declare_with(declare, "resources: [../apps]\nreplicas:\n  - name: llama\n    count: 3\n")
    assert owned(declaration) == [("Deployment", "llama", 3), ("StatefulSet", "llama", 3)]
    owner = declaration.owners[0]
    assert (owner.owner, owner.namespace, owner.cluster) == ("kustomization", "", "prod")
    assert not declaration.findings


@pytest.mark.parametrize(
    "head",
    [
        "",
        "kind: Kustomization\n",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nmetadata: {name: x}\n",
    ],
)
def test_kustomizations_and_components_are_read_alike(declare: Declare, head: str) -> None:
    declaration = declare_with(declare, head + "replicas: [{name: llama, count: 3}]\n")
    assert [owner.target_name for owner in declaration.owners] == ["llama", "llama"]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("{kind: Deployment, name: llama}", ["llama"]),
        ("{kind: Deployment, name: llama.*}", ["llama", "llama-decode"]),
        ("{kind: Deploy.*, name: .*-decode}", ["llama-decode"]),
        ("{name: lla}", []),
        ("{kind: Deployment, labelSelector: app=x}", ["llama", "llama-decode"]),
        ("{kind: StatefulSet, name: .*}", []),
        ('{kind: Deployment, name: "(a+)+$"}', ["llama", "llama-decode"]),
        ('{kind: Deployment, name: ".*.*.*.*.*.*x"}', ["llama", "llama-decode"]),
        ('{kind: Deployment, name: "llama|other"}', ["llama"]),
    ],
)
def test_a_target_matches_whole_names_and_clever_patterns_match_all(
    declare: Declare, target: str, names: list[str]
) -> None:
    patch = "[{op: replace, path: /spec/replicas, value: 4}]"
    declaration = declare_with(declare, f'patches:\n  - target: {target}\n    patch: "{patch}"\n')
    assert owned(declaration) == [("Deployment", name, 2) for name in names]


def test_a_patch_of_everything_counts_only_when_it_may_set_replicas(declare: Declare) -> None:
    patch = "[{op: add, path: /metadata/labels/a, value: b}]"
    assert not declare_with(declare, f'patches: [{{target: {{kind: Deployment}}, patch: "{patch}"}}]\n').owners
    named = f'patches: [{{target: {{kind: Deployment, name: llama}}, patch: "{patch}"}}]\n'
    assert len(declare_with(declare, named).owners) == 1


def test_an_inline_patch_names_its_object(declare: Declare) -> None:
    inline = "".join(f"      {line}\n" for line in PATCH.splitlines())
    assert owned(declare_with(declare, f"patches:\n  - patch: |\n{inline}")) == [("Deployment", "llama", 2)]
    older = f"patchesStrategicMerge:\n  - |\n{inline}"
    assert owned(declare_with(declare, older)) == [("Deployment", "llama", 2)]
    broken = declare_with(declare, 'patches:\n  - patch: "a: ["\n')
    assert [finding.place.line for finding in broken.findings] == [2]


def test_a_patch_file_is_no_deployment_of_its_own(declare: Declare) -> None:
    for kustomization in ("patches:\n  - path: patch.yaml\n", "patchesStrategicMerge:\n  - ./patch.yaml\n"):
        declaration = declare_with(declare, kustomization, overlays__patch=PATCH)
        assert owned(declaration) == [("Deployment", "llama", 2)]
        assert [workload.replicas for workload in declaration.workloads] == [2, 2]
        assert not declaration.findings


def test_a_patch_file_with_mistakes_still_names_its_object(declare: Declare) -> None:
    text = PATCH.replace("replicas: 5", 'replicas: "5"')
    declaration = declare_with(declare, "patches:\n  - path: patch.yaml\n", overlays__patch=text)
    assert owned(declaration) == [("Deployment", "llama", 2)]
    assert not declaration.findings
    assert not declaration.broken


def test_a_patch_file_with_a_target_is_set_where_the_target_says(declare: Declare) -> None:
    text = "patches:\n  - {path: patch.yaml, target: {kind: Deployment, name: llama-decode}}\n"
    assert ("Deployment", "llama-decode", 2) in owned(declare_with(declare, text, overlays__patch=PATCH))
    older = "patchesJson6902:\n  - {path: ops.json, target: {version: v1, kind: Deployment, name: llama}}\n"
    assert owned(declare_with(declare, older)) == [("Deployment", "llama", 2)]


def test_a_patch_outside_the_repository_is_told(declare: Declare) -> None:
    (finding,) = declare_with(declare, "patches:\n  - path: ../../../etc/passwd\n").findings
    assert str(finding) == (
        "overlays/kustomization.yaml:2: warning: patches[0].path: "
        'expected a file inside the repository, got "../../../etc/passwd"'
    )


def test_mistakes_of_a_kustomization_are_told(declare: Declare) -> None:
    (finding,) = declare_with(declare, "replicas:\n  - count: 3\n").findings
    assert str(finding) == ("overlays/kustomization.yaml:2: error: replicas[0].name: expected a string, found nothing")


@pytest.mark.parametrize(
    ("file", "relative", "path"),
    [
        ("a/b/kustomization.yaml", "p.yaml", "a/b/p.yaml"),
        ("a/b/kustomization.yaml", "./../p//q.yaml", "a/p/q.yaml"),
        ("kustomization.yaml", "../p.yaml", ""),
        ("a/kustomization.yaml", "/etc/passwd", ""),
        ("a/kustomization.yaml", "https://example.com/p.yaml", ""),
    ],
)
def test_paths_never_leave_the_repository(file: str, relative: str, path: str) -> None:
    assert join_path(file, relative) == path


def test_kustomizations_are_told_by_their_file_names() -> None:
    assert all(map(is_kustomization, ["kustomization.yaml", "a/kustomization.yml", "a/Kustomization"]))
    assert not is_kustomization("a/my-kustomization.yaml")
