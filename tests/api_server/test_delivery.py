"""The status that a Job of ours delivers, read back from a real API server; `make api-server-test` runs it all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_delivery import ARGO, FOLDER, deployed_by, merged
from tests.servers.desk import BUSY, BUSY_TWICE, PEAK, Desk
from tests.servers.kubernetes import ABSENT, KubernetesServer
from tests.servers.manifests import Manifest, build, by_kind, pod_spec_of

pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"needs {ABSENT} on PATH")

NAME_FORM = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: llama
  namespace: chat
  labels: {inference.optimization/acceleratorName: H100}
spec:
  modelID: meta-llama/Llama-3.1-8B-Instruct
  modelProfile:
    accelerators:
      - acc: H100
        accCount: 1
        maxBatchSize: 64
        perfParms: {decodeParms: {alpha: "6.958", beta: "0.042"}, prefillParms: {gamma: "5.2", delta: "0.0001"}}
"""
FORMS = Path(__file__).parents[1] / "testdata" / "api_server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A namespace of the server to which a folder of the base branch is applied."""

    server: KubernetesServer
    namespace: str
    objects: Mapping[str, Manifest]
    folder: Path
    scratch: Path

    @property
    def variant(self) -> Mapping[str, Any]:
        """The resource as the server has it."""
        name = self.objects["VariantAutoscaling"]["metadata"]["name"]
        return self.server.get(self.namespace, "variantautoscaling", name)

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status there; empty where there is none."""
        found: Mapping[str, Any] = self.variant.get("status", {})
        return found

    @property
    def delivered(self) -> Mapping[str, Any]:
        """The status that the carrier in the cluster holds."""
        (text,) = self.carried.values()
        status: Mapping[str, Any] = json.loads(text)["status"]
        return status

    @property
    def carried(self) -> Mapping[str, str]:
        """The files of the carrier in the cluster."""
        data: Mapping[str, str] = self.server.get(self.namespace, "configmap", self.name)["data"]
        return data

    @property
    def name(self) -> str:
        """What all objects that deliver are called."""
        name: str = self.objects["ConfigMap"]["metadata"]["name"]
        return name

    @property
    def token(self) -> str:
        """One of the Job's service account."""
        pod = pod_spec_of(self.objects["Job"])
        assert pod is not None
        return self.server.kubectl("-n", self.namespace, "create", "token", pod["serviceAccountName"]).stdout.strip()

    def run_job(self, files: Mapping[str, str] | None = None) -> tuple[int, str]:
        """What the Job's container does, with its own arguments, the carrier mounted and its account's token."""
        pod = pod_spec_of(self.objects["Job"])
        assert pod is not None
        (container,) = pod["containers"]
        mount = _mounted(self.scratch, self.carried if files is None else files)
        paths = {"--filename=/status": f"--filename={mount}", "--cache-dir=/tmp": f"--cache-dir={self.scratch}/cache"}
        arguments = [paths.pop(each, each) for each in container["args"]]
        assert not paths, "both are arguments of the Job"
        done = self.server.kubectl(*arguments, token=self.token)
        return done.returncode, done.stdout + done.stderr


def _mounted(scratch: Path, files: Mapping[str, str]) -> Path:
    """A ConfigMap as the kubelet mounts it: links into a hidden directory."""
    mount = scratch / f"status-{len(list(scratch.glob('status-*')))}"
    hidden = mount / "..2026_11_23"
    hidden.mkdir(parents=True)
    (mount / "..data").symlink_to(hidden.name)
    for name, text in files.items():
        (hidden / name).write_text(text)
        (mount / name).symlink_to(f"..data/{name}")
    return mount


def applied(server: KubernetesServer, root: Path, scratch: Path, folder: str = FOLDER) -> Cluster:
    """The folder as Git has it, applied as a person or Flux does."""
    directory = root / folder
    objects = by_kind(build(directory))
    server.apply("--kustomize", str(directory))
    namespace = folder.rpartition("/")[2]
    scratch.mkdir(exist_ok=True)
    return Cluster(server=server, namespace=namespace, objects=objects, folder=directory, scratch=scratch)


def define(server: KubernetesServer, form: str) -> None:
    """Make the server know resources of one form, and forget all that there were."""
    server.kubectl("delete", "--ignore-not-found", "crd", "variantautoscalings.llmd.ai")
    server.apply("--filename", str(FORMS / f"{form}.yaml"))
    crd = "crd/variantautoscalings.llmd.ai"
    assert server.kubectl("wait", "--for=condition=established", "--timeout=30s", crd).returncode == 0


@pytest.fixture
def cluster(server: KubernetesServer, desk: Desk, tmp_path: Path) -> Cluster:
    """A cluster with what was merged, before the hook has run."""
    define(server, "target")
    deployed_by(desk, ARGO)
    desk.run(BUSY)
    return applied(server, merged(desk), tmp_path / "scratch")


def test_applying_git_alone_brings_no_status(cluster: Cluster) -> None:
    assert cluster.status == {}


def test_what_the_carrier_holds_is_read_back(cluster: Cluster) -> None:
    assert cluster.run_job() == (0, "variantautoscaling.llmd.ai/llama serverside-applied\n")
    assert cluster.status == cluster.delivered
    assert cluster.status["actuation"] == {"applied": True}
    assert cluster.variant["metadata"]["generation"] == 1, "no controller is woken"
    owners = {each["manager"]: each.get("subresource") for each in cluster.variant["metadata"]["managedFields"]}
    assert owners["reconciler"] == "status"


def test_another_run_of_the_job_changes_nothing(cluster: Cluster) -> None:
    cluster.run_job()
    before = cluster.variant
    assert cluster.run_job()[0] == 0
    assert cluster.variant == before


@pytest.mark.parametrize(
    "how",
    [
        (),
        ("--server-side", "--field-manager=kubectl-client-side-apply"),
        ("--server-side", "--field-manager=argocd-controller", "--force-conflicts"),
    ],
    ids=["client side", "server side", "another manager"],
)
def test_it_survives_another_apply_of_git(cluster: Cluster, how: tuple[str, ...]) -> None:
    cluster.run_job()
    before = cluster.status
    cluster.server.apply(*how, "--kustomize", str(cluster.folder))
    assert cluster.status == before
    file = cluster.folder / "variant.yaml"
    file.write_text(file.read_text().replace("numReplicas: ", "numReplicas: 9").replace("Llama-3.1", "Llama-3.2"))
    cluster.server.apply(*how, "--kustomize", str(cluster.folder))
    assert cluster.variant["spec"]["modelID"].endswith("Llama-3.2-8B-Instruct")
    assert cluster.status == before, "an older or newer file says nothing of the status"


def test_the_next_decision_takes_the_place_of_the_last(cluster: Cluster, desk: Desk) -> None:
    cluster.run_job()
    before = cluster.status
    desk.forge.update(1, close=True)
    desk.now_s += 8 * 86400.0
    desk.run(PEAK)
    later = applied(cluster.server, merged(desk), cluster.scratch)
    assert later.name == cluster.name
    assert later.run_job()[0] == 0
    assert later.status == later.delivered != before


def test_conditions_of_others_stay_and_what_was_theirs_becomes_ours(cluster: Cluster) -> None:
    theirs = {
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "m",
        "reason": "TargetFound",
        "status": "True",
        "type": "TargetResolved",
    }
    wrong = {**theirs, "type": "OptimizationReady", "status": "False"}
    patch = {
        "status": {"conditions": [theirs, wrong], "desiredOptimizedAlloc": {"accelerator": "A1", "numReplicas": 1}}
    }
    arguments = ("-n", "chat", "patch", "variantautoscaling", "llama", "--subresource=status", "--type=merge")
    done = cluster.server.kubectl(*arguments, f"--patch={json.dumps(patch)}", "--field-manager=controller")
    assert done.returncode == 0, done.stderr
    assert cluster.run_job()[0] == 0
    told = {each["type"]: each for each in cluster.status["conditions"]}
    assert told.pop("TargetResolved") == theirs
    assert list(told.values()) == cluster.delivered["conditions"]
    assert cluster.status["desiredOptimizedAlloc"] == cluster.delivered["desiredOptimizedAlloc"]


def test_the_account_may_do_nothing_else(cluster: Cluster) -> None:
    manifest = json.dumps({**_identity(cluster, "llama"), "spec": {"modelID": "mine"}})
    cluster.server.apply("--filename=-", stdin=json.dumps(_another(cluster)))
    token = cluster.token
    attempts = (
        (("get", "variantautoscaling", "llama"), ""),
        (("delete", "variantautoscaling", "llama"), ""),
        (("get", "secrets"), ""),
        (("get", "configmap", cluster.name), ""),
        (("create", "token", cluster.name), ""),
        (("patch", "variantautoscaling", "llama", "--type=merge", "--patch={}"), ""),
        (("apply", "--server-side", "--filename=-"), manifest),
        (("patch", "variantautoscaling", "other", "--subresource=status", "--type=merge", "--patch={}"), ""),
    )
    for arguments, stdin in attempts:
        done = cluster.server.kubectl("-n", "chat", *arguments, token=token, stdin=stdin)
        assert done.returncode == 1, arguments
        assert "is forbidden" in done.stderr, arguments


def test_an_ill_typed_status_is_refused_and_the_last_one_stays(cluster: Cluster) -> None:
    cluster.run_job()
    before = cluster.variant
    ill = {**_identity(cluster, "llama"), "status": {"desiredOptimizedAlloc": {"accelerator": "A", "numReplicas": "2"}}}
    code, words = cluster.run_job({"llama.json": json.dumps(ill)})
    assert code == 1, words
    assert "numReplicas" in words
    assert cluster.variant == before


def test_a_field_that_the_version_does_not_know_is_refused(cluster: Cluster) -> None:
    cluster.run_job()
    before = cluster.variant
    more = {**_identity(cluster, "llama"), "status": {**cluster.delivered, "currentAlloc": {}}}
    code, words = cluster.run_job({"llama.json": json.dumps(more)})
    assert (code, "currentAlloc" in words) == (1, True), words
    assert cluster.variant == before


def test_a_resource_that_is_gone_fails_the_job_is_not_made_and_stops_no_other(cluster: Cluster) -> None:
    (text,) = cluster.carried.values()
    gone = json.dumps({**json.loads(text), "metadata": {"name": "gone", "namespace": "chat"}})
    role = json.loads(json.dumps(cluster.objects["Role"]))
    role["rules"][0]["resourceNames"] = ["gone", "llama"]
    cluster.server.apply("--filename=-", stdin=json.dumps(role))
    code, words = cluster.run_job({"a-gone.json": gone, "llama.json": text})
    assert code == 1
    assert '"gone" not found' in words
    assert cluster.status == cluster.delivered, "the others have theirs"
    assert cluster.server.kubectl("-n", "chat", "get", "variantautoscaling", "gone").returncode == 1


def test_the_profile_form_takes_its_status_and_its_times(server: KubernetesServer, desk: Desk, tmp_path: Path) -> None:
    define(server, "profile")
    folder = "clusters/prod/code"
    deployed_by(desk, ARGO.replace("chat", "code"), "")
    desk.workshop.write(f"{folder}/kustomization.yaml", b"resources:\n  - granite.yaml\n")
    desk.workshop.commit("Build the code")
    desk.run(BUSY_TWICE)
    proposed = [each for each in desk.pull_requests() if "prod-code" in each.head_branch]
    cluster = applied(server, merged(desk, proposed[0]), tmp_path / "scratch", folder)
    code, words = cluster.run_job()
    assert code == 0, words
    assert cluster.status == cluster.delivered
    assert set(cluster.status["actuation"]) == {"applied", "lastAttemptTime", "lastSuccessTime"}


def test_the_name_form_takes_its_status(server: KubernetesServer, desk: Desk, tmp_path: Path) -> None:
    define(server, "name")
    desk.workshop.write(f"{FOLDER}/variant.yaml", NAME_FORM.encode())
    deployed_by(desk, ARGO)
    desk.run(BUSY)
    cluster = applied(server, merged(desk), tmp_path / "scratch")
    code, words = cluster.run_job()
    assert code == 0, words
    assert cluster.status == cluster.delivered
    assert {"currentAlloc", "conditions"} <= cluster.status.keys()


def test_a_pod_of_the_job_is_let_in_where_only_restricted_ones_are(cluster: Cluster) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    assert cluster.server.kubectl("label", "--overwrite", "namespace", "chat", label).returncode == 0
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "chat"}}
    spec = pod_spec_of(cluster.objects["Job"])
    done = cluster.server.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps({**pod, "spec": spec}))
    assert done.returncode == 0, done.stderr
    assert "would violate" not in done.stderr


def _identity(cluster: Cluster, name: str) -> dict[str, Any]:
    return {
        "apiVersion": cluster.objects["VariantAutoscaling"]["apiVersion"],
        "kind": "VariantAutoscaling",
        "metadata": {"name": name, "namespace": cluster.namespace},
    }


def _another(cluster: Cluster) -> Mapping[str, Any]:
    return {**_identity(cluster, "other"), "spec": cluster.objects["VariantAutoscaling"]["spec"]}
