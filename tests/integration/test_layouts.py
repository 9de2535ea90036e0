"""GitOps repositories as people build them: the number changes where it is decided, and nowhere else."""

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import invoke
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, Fleet, Level
from tests.servers.git_workshop import run_git

OpenFleet = Callable[..., Fleet]

pytestmark = pytest.mark.integration

ROOT = "clusters/prod/chat/kustomization.yaml"
BARE = CHAT_DEPLOYMENT.replace(b", namespace: chat", b"")
BASE = "apps/llama/deployment.yaml"
RELEASE_PATH = "clusters/prod/chat/release.yaml"
RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: llama, namespace: chat}
spec:
  chart: {spec: {chart: vllm, sourceRef: {kind: HelmRepository, name: charts}}}
  values:
    image: {tag: v0.11.0}
    decode:
      replicas: 2    # busy since June
"""


LYING_TOOL = """\
import pathlib, sys
root = pathlib.Path(sys.argv[2])
is_changed = "count: 4" in (root / "kustomization.yaml").read_text()
print("kind: Deployment\\nmetadata: {name: llama}\\nspec: {paused: %s}" % str(is_changed).lower())
"""


def decided(fleet: Fleet, name: str = "chat/llama") -> Any:
    outcome = fleet.invoke("explain", name, "-o", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def charted(fleet: Fleet, release: str, override: str = "") -> None:
    """The assistant comes from a chart, whose values Git holds; what the chart makes of them has to be said."""
    said = "namespace: chat, labels: {inference.optimization/acceleratorName: H100}}"
    settings = fleet.read("reconciler.yaml").decode()
    served = settings.replace("3.1-8B-Instruct\n", "3.1-8B-Instruct\n    servedNames: [llama]\n")
    files = {
        RELEASE_PATH: release,
        "clusters/prod/chat/variant.yaml": CHAT_VARIANT.replace("namespace: chat}", said),
        "reconciler.yaml": served + override,
    }
    fleet.rearrange(files, "clusters/prod/chat/deployment.yaml")
    fleet.go_to(Level.BUSY)


def rows_of(explained: Any, name: str) -> list[str]:
    return [row["value"] for row in explained["settings"] if row["name"] == name]


def written(fleet: Fleet) -> dict[str, list[str]]:
    """What the assistant's pull request changes but for its status."""
    assert fleet.run().code == 0
    (shown,) = (each for each in fleet.pull_requests() if each.head.startswith("reconciler/prod-chat-"))
    lines = fleet.changed_lines(shown.head)
    lines.pop("clusters/prod/chat/variant.yaml", None)
    return lines


def to_base(fleet: Fleet, kustomization: str, more: Mapping[str, str] | None = None) -> None:
    """The assistant's Deployment in a base outside of the cluster's paths, and an overlay of it in them."""
    files: dict[str, str | bytes] = {
        "apps/llama/kustomization.yaml": "resources: [deployment.yaml]\n",
        BASE: BARE,
        ROOT: kustomization,
    }
    fleet.rearrange({**files, **(more or {})}, "clusters/prod/chat/deployment.yaml")
    fleet.go_to(Level.BUSY)


OVERLAY = "namespace: chat\nresources: [../../../apps/llama, variant.yaml]\n"


def test_a_base_that_one_overlay_builds_is_edited(fleet: Fleet) -> None:
    to_base(fleet, OVERLAY)
    assert written(fleet) == {BASE: ["-  replicas:   2     # since June", "+  replicas:   4     # since June"]}


TRIAL = "trial/kustomization.yaml"


def test_a_base_that_is_built_in_the_paths_of_no_cluster_is_not_edited(fleet: Fleet, tmp_path: Path) -> None:
    to_base(fleet, OVERLAY, {TRIAL: "namespace: trial\nresources: [../apps/llama]\n"})
    lines = written(fleet)
    assert set(lines) == {ROOT}
    assert any("count: 4" in line for line in lines[ROOT])
    kept = str(tmp_path / "recording.zip")
    outcome = fleet.invoke("plan", "--prove", "--record", kept, "-o", "diff")
    assert outcome.code == 0, outcome.err
    assert "as wanted" in outcome.out + outcome.err
    assert fleet.invoke("plan", "--replay", kept, "-o", "diff").out == outcome.out


def test_the_count_of_an_overlay_wins(fleet: Fleet) -> None:
    to_base(fleet, OVERLAY + "replicas:\n  - {name: llama, count: 3}    # prod\n")
    assert rows_of(decided(fleet), "considered") == [
        f"overlay replicas: {ROOT}:4 replicas[0].count = 3",
        f"base: {BASE}:6 spec.replicas = 2",
    ]
    assert written(fleet) == {
        ROOT: ["-  - {name: llama, count: 3}    # prod", "+  - {name: llama, count: 4}    # prod"]
    }


def test_a_patch_is_edited_inside_of_its_text(fleet: Fleet) -> None:
    patch = "patches:\n  - target: {kind: Deployment, name: llama}\n    patch: |\n"
    patch += "      - op: replace\n        path: /spec/replicas\n        value: 3\n"
    to_base(fleet, OVERLAY + patch)
    assert written(fleet) == {ROOT: ["-        value: 3", "+        value: 4"]}


def test_a_patch_file_is_edited(fleet: Fleet) -> None:
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec: {replicas: 3}\n"
    path = "clusters/prod/chat/replicas.yaml"
    to_base(fleet, OVERLAY + "patches: [{path: replicas.yaml}]\n", {path: patch})
    assert written(fleet) == {path: ["-spec: {replicas: 3}", "+spec: {replicas: 4}"]}


def test_an_overlay_of_a_shared_base_gets_a_count_of_its_own(fleet: Fleet) -> None:
    other = "namespace: staging\nresources: [../../../apps/llama]\n"
    to_base(fleet, OVERLAY, {"clusters/prod/staging/kustomization.yaml": other})
    assert written(fleet) == {ROOT: ["+replicas:", '+  - name: "llama"', "+    count: 4"]}


VARIANT = "clusters/prod/chat/variant.yaml"
LABELLED = ":\n  name: llama\n  namespace: chat\n  labels: {inference.optimization/acceleratorName: H100}"
OURS = "clusters/prod/chat/reconciler-patches.yaml"
PATCH = """\
# The reconciler keeps here what Deployment llama runs on in this overlay.
apiVersion: "apps/v1"
kind: "Deployment"
metadata:
  name: "llama"
spec:
  template:
    spec:
      nodeSelector:
        nvidia.com/gpu.product: "NVIDIA-A100-SXM4-80GB"
"""


def choose(fleet: Fleet, accelerator: str) -> None:
    """Let the assistant run on one accelerator alone, with a profile for each."""
    settings = fleet.read("reconciler.yaml").decode().partition("overrides:")[0]
    h100 = "{accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}"
    both = f"[{h100}, {{accelerator: A100, alpha: 7ms, beta: 0.05ms, maxBatchSize: 64}}]"
    override = f"overrides: [{{match: {{namespace: chat}}, accelerator: {accelerator}}}]\n"
    fleet.write("reconciler.yaml", settings.replace(f"[{h100}]", both) + override)


def test_an_overlay_of_a_shared_base_gets_a_patch_of_ours_for_another_accelerator(fleet: Fleet) -> None:
    other = "namespace: staging\nresources: [../../../apps/llama]\n"
    variant = CHAT_VARIANT.replace(": {name: llama, namespace: chat}", LABELLED)
    to_base(fleet, OVERLAY, {"clusters/prod/staging/kustomization.yaml": other, VARIANT: variant})
    choose(fleet, "A100")
    proof = fleet.invoke("plan", "--prove")
    assert "2 of 2 objects change in 1 root, as wanted." in proof.err
    count = decided(fleet)["decision"]["desired"]["replicas"]
    assert written(fleet) == {
        ROOT: [
            "+replicas:",
            '+  - name: "llama"',
            f"+    count: {count}",
            "+patches:",
            '+  - path: "reconciler-patches.yaml"',
        ],
        OURS: [f"+{line}" for line in PATCH.splitlines()],
    }
    (shown,) = (each for each in fleet.pull_requests() if each.head.startswith("reconciler/prod-chat-"))
    fleet.merge(shown.number)
    # Two replicas report, and an accelerator is kept until all do.
    fleet.write(ROOT, fleet.read(ROOT).replace(f"count: {count}".encode(), b"count: 2"))
    choose(fleet, "H100")
    assert fleet.run().code == 0
    lines = fleet.changed_lines(shown.head)
    assert lines[ROOT] == ["-    count: 2", "+    count: 4"]
    assert lines[OURS] == [
        '-        nvidia.com/gpu.product: "NVIDIA-A100-SXM4-80GB"',
        '+        nvidia.com/gpu.product: "NVIDIA-H100-80GB-HBM3"',
    ]


def test_a_base_that_cannot_be_seen_holds_with_its_reason(fleet: Fleet) -> None:
    to_base(fleet, OVERLAY.replace("variant.yaml", "variant.yaml, ../missing"))
    decision = decided(fleet)["decision"]
    assert decision["outcome"] == "held"
    assert 'there is no file or directory "../missing"' in decision["reason"]


def test_a_file_that_nobody_builds_is_told(fleet: Fleet) -> None:
    to_base(fleet, "namespace: chat\nresources: [../../../apps/llama]\n")
    run_git(fleet.folder, "clone", "-q", str(fleet.workshop.remote), "clone")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        invoke(["validate", "--repo", str(fleet.folder / "clone")])
    assert "variant.yaml" in out.getvalue()
    assert "no kustomization lists it, so it is not applied" in out.getvalue()


def test_a_marked_number_of_a_chart_is_edited(fleet: Fleet) -> None:
    charted(fleet, RELEASE.replace("busy since June", "reconciler.io/replicas: Deployment/llama"))
    comment = "# reconciler.io/replicas: Deployment/llama"
    assert written(fleet) == {RELEASE_PATH: [f"-      replicas: 2    {comment}", f"+      replicas: 4    {comment}"]}


def test_two_marks_of_one_number_are_one_too_many(fleet: Fleet) -> None:
    note = "# reconciler.io/replicas: Deployment/llama"
    fleet.rearrange({"clusters/prod/a.yaml": f"a: 2    {note}\n", "clusters/prod/b.yaml": f"b: 3    {note}\n"})
    fleet.go_to(Level.BUSY)
    decision = decided(fleet)["decision"]
    assert decision["outcome"] == "held"
    assert decision["reason"].startswith("2 marker comments claim replicas of Deployment chat/llama")


def test_the_values_of_a_chart_are_edited_where_they_are_told(fleet: Fleet) -> None:
    charted(fleet, RELEASE, "overrides:\n  - {match: {namespace: chat}, helmValues: {replicas: decode.replicas}}\n")
    assert written(fleet) == {
        RELEASE_PATH: ["-      replicas: 2    # busy since June", "+      replicas: 4    # busy since June"]
    }


def test_what_argo_cd_leaves_alone_is_held(fleet: Fleet) -> None:
    application = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: chat, namespace: argocd}
spec:
  source: {repoURL: "", path: clusters/prod/chat}
  destination: {namespace: chat}
  ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]
"""
    fleet.rearrange({"clusters/prod/argocd/chat.yaml": application})
    fleet.go_to(Level.BUSY)
    decision = decided(fleet)["decision"]
    assert decision["outcome"] == "held"
    assert decision["reason"].startswith("Application argocd/chat ignores differences of it")


def test_the_real_tool_proves_a_plan(fleet: Fleet) -> None:
    to_base(fleet, OVERLAY + "replicas: [{name: llama, count: 3}]\n")
    outcome = fleet.invoke("plan", "--prove")
    assert outcome.code == 0, outcome.err
    assert "2 of 2 objects change in 1 root, as wanted." in outcome.err


def test_a_render_that_differs_otherwise_is_refused(
    make_fleet: OpenFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_fleet("local")
    to_base(fleet, OVERLAY + "replicas: [{name: llama, count: 3}]\n")
    tool = tmp_path / "kustomize"
    tool.write_text(f"#!{sys.executable}\n{LYING_TOOL}")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    outcome = fleet.invoke("plan", "--prove")
    assert outcome.code == 3
    assert "Deployment llama spec.paused would change from False to True, which the change does not say" in outcome.err


def test_without_a_tool_there_is_no_proof(
    make_fleet: OpenFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_fleet("local")
    fleet.go_to(Level.BUSY)
    (tmp_path / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = fleet.invoke("plan", "--prove")
    assert outcome.code == 5
    assert "expected kustomize or kubectl on the PATH, found neither" in outcome.err
