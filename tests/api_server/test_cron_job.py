"""The CronJob that `init` writes, applied to a real API server by the page's own commands."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.pipeline.init import InitRequest, Wishes, init
from tests.servers.desk import Desk
from tests.servers.kubernetes import ABSENT, BINARIES, KubernetesServer
from tests.servers.manifests import build, by_kind, pod_spec_of

pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"needs {ABSENT} on PATH")

PAGE = Path(__file__).parents[2] / ".github" / "docs" / "running.md"


def commands_of_the_page(token: Path) -> str:
    """What it says to type once the files are pushed; without Argo CD or Flux the last line is another."""
    section = PAGE.read_text().partition("### A CronJob\n")[2].partition("\n### ")[0]
    block = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)[1]
    assert "without either, `kubectl apply -k reconciler`" in section
    applied = str(block).replace("kubectl apply -f reconciler/argocd/reconciler.yaml", "kubectl apply -k reconciler")
    return applied.replace("/path/to/token", str(token))


def test_the_commands_of_the_page_are_taken(server: KubernetesServer, desk: Desk, tmp_path: Path) -> None:
    desk.workshop.git("remote", "set-url", "origin", "https://github.com/acme/fleet.git")
    flags = Flags(repo=str(desk.workshop.clone), prometheus="http://127.0.0.1:9")
    init(InitRequest(flags=flags, environment=Environment(), wishes=Wishes(cronjob=True), now_s=desk.now_s))
    token = tmp_path / "token"
    token.write_text("t\n")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {BINARIES["kubectl"]} "$@" {" ".join(server.connection())}\n')
    kubectl.chmod(0o755)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands_of_the_page(token)],
        cwd=desk.workshop.clone,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "would violate" not in done.stderr
    found = by_kind(build(desk.workshop.clone / "reconciler"))
    for kind in ("CronJob", "NetworkPolicy", "ServiceAccount"):
        assert server.get("reconciler", kind, "reconciler")["kind"] == kind
    label = server.get("reconciler", "namespace", "reconciler")["metadata"]["labels"]
    assert label["pod-security.kubernetes.io/enforce"] == "restricted"
    assert server.get("reconciler", "secret", "reconciler")["data"].keys() == {"forge-token"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run", "namespace": "reconciler"}}
    text = json.dumps({**pod, "spec": pod_spec_of(found["CronJob"])})
    let_in = server.kubectl("create", "--filename=-", stdin=text)
    assert let_in.returncode == 0, let_in.stderr
    volumes = {each["name"] for each in server.get("reconciler", "pod", "run")["spec"]["volumes"]}
    assert volumes == {"tmp", "secrets"}, "no token of the cluster is mounted"
