"""What brings a status into the cluster, built by the real Kustomize and judged as a cluster would."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.forge.pull_requests import PullRequest
from reconciler.pipeline.proving import prove
from tests.servers.desk import BUSY, BUSY_TWICE, PEAK, Desk, open_desk
from tests.servers.fleet import SETTINGS
from tests.servers.git_workshop import Workshop, run_git
from tests.servers.manifests import Manifest, build, by_kind, objections, pod_spec_of, violations

ROOT = Path(__file__).parents[2]
OBSERVED = yaml.safe_load((ROOT / "tests" / "testdata" / "api_server" / "observed.yaml").read_text())
FOLDER = "clusters/prod/chat"
ARGO = f"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: chat, namespace: argocd}}
spec:
  source: {{repoURL: https://github.com/acme/fleet, path: {FOLDER}}}
  destination: {{server: https://kubernetes.default.svc, namespace: chat}}
"""
FLUX = f"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: chat, namespace: flux-system}}
spec: {{path: ./{FOLDER}, wait: true, sourceRef: {{kind: GitRepository, name: fleet}}}}
"""
KUSTOMIZATION = "resources:\n  - deployment.yaml\n  - variant.yaml\n"

pytestmark = pytest.mark.integration


@pytest.fixture
def desk(template: Workshop, tmp_path: Path) -> Desk:
    return open_desk(template, tmp_path)


def deployed_by(desk: Desk, deployer: str, kustomization: str = KUSTOMIZATION) -> None:
    desk.workshop.write("reconciler.yaml", f"{SETTINGS}status: deliver\n".encode())
    desk.workshop.write("clusters/prod/apps/chat.yaml", deployer.encode())
    if kustomization:
        desk.workshop.write(f"{FOLDER}/kustomization.yaml", kustomization.encode())
    desk.workshop.commit("Deploy the chat")


def merged(desk: Desk, proposed: PullRequest | None = None) -> Path:
    """A checkout of a pull request's branch, merged: the newest one's unless another is given."""
    branch = (proposed or desk.pull_requests()[-1]).head_branch
    run_git(desk.workshop.clone, "fetch", "-q", "origin", branch)
    run_git(desk.workshop.clone, "reset", "-q", "--hard", "FETCH_HEAD")
    return desk.workshop.clone


def carried(objects: list[Manifest]) -> dict[str, Any]:
    """What kubectl is given: one manifest a file."""
    return {name: json.loads(text) for name, text in by_kind(objects)["ConfigMap"]["data"].items()}


def test_argo_cd_runs_a_hook_once_all_is_healthy(desk: Desk) -> None:
    deployed_by(desk, ARGO)
    desk.run(BUSY)
    objects = build(merged(desk) / FOLDER)
    found = by_kind(objects)
    assert set(found) == {
        *("Deployment", "VariantAutoscaling"),
        *("ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Job"),
    }
    ours = [found[kind] for kind in ("ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Job")]
    assert [words for each in ours for words in objections(each)] == []
    annotations = found["Job"]["metadata"]["annotations"]
    assert annotations == {
        "argocd.argoproj.io/hook": "PostSync",
        "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
    }
    pod = pod_spec_of(found["Job"])
    assert pod is not None
    assert list(violations(pod)) == []
    (container,) = pod["containers"]
    assert container["args"][:4] == ["apply", "--server-side", "--subresource=status", "--field-manager=reconciler"]
    assert "command" not in container, "no shell"


def test_the_job_may_patch_these_statuses_and_nothing_else(desk: Desk) -> None:
    deployed_by(desk, ARGO)
    desk.run(BUSY)
    found = by_kind(build(merged(desk) / FOLDER))
    assert found["Role"]["rules"] == [
        {
            "apiGroups": ["llmd.ai"],
            "resources": ["variantautoscalings/status"],
            "resourceNames": ["llama"],
            "verbs": ["patch"],
        }
    ]
    assert found["RoleBinding"]["subjects"][0]["name"] == found["ServiceAccount"]["metadata"]["name"]
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False


def test_it_is_what_a_real_api_server_was_seen_to_take(desk: Desk) -> None:
    deployed_by(desk, ARGO)
    desk.run(BUSY)
    found = by_kind(build(merged(desk) / FOLDER))
    pod = pod_spec_of(found["Job"])
    assert pod is not None
    assert pod["containers"][0]["args"] == OBSERVED["command"]
    asked = [{key: rule[key] for key in rule if key != "resourceNames"} for rule in found["Role"]["rules"]]
    assert asked == OBSERVED["rights"]


@pytest.mark.parametrize("seen", OBSERVED["seen"], ids=lambda seen: seen["what"])
def test_the_page_says_what_was_seen_and_a_test_sees_it_again(seen: dict[str, str]) -> None:
    page = " ".join((ROOT / ".github" / "docs" / "configuration.md").read_text().split())
    assert seen.get("page", "") in page
    assert f"def {seen['test']}(" in (ROOT / "tests" / "api_server" / "test_delivery.py").read_text()


@pytest.mark.parametrize("kustomization", [KUSTOMIZATION, "resources: [deployment.yaml, variant.yaml]\n"])
def test_the_carrier_holds_the_status_of_git_as_applied(desk: Desk, kustomization: str) -> None:
    deployed_by(desk, ARGO, kustomization)
    desk.run(BUSY)
    objects = build(merged(desk) / FOLDER)
    (manifest,) = carried(objects).values()
    in_git = by_kind(objects)["VariantAutoscaling"]
    assert manifest["apiVersion"] == in_git["apiVersion"]
    assert manifest["metadata"] == {"name": "llama", "namespace": "chat"}
    assert set(manifest) == {"apiVersion", "kind", "metadata", "status"}
    assert manifest["status"]["desiredOptimizedAlloc"] == in_git["status"]["desiredOptimizedAlloc"]
    assert manifest["status"]["actuation"] == {"applied": True}
    assert in_git["status"]["actuation"] == {"applied": False}


@pytest.mark.parametrize("name", ["", "/README"])
def test_a_carrier_takes_the_place_of_nothing(desk: Desk, name: str) -> None:
    deployed_by(desk, ARGO)
    (path,) = (each for each in planned_paths(desk) if "reconciler-status" in each)
    desk.write(f"{path}{name}", "values: {}\n")
    assert path not in planned_paths(desk)
    assert planned_paths(desk)


def planned_paths(desk: Desk) -> set[str]:
    """The files that a plan would write."""
    return {path for each in desk.plan(BUSY).edited.change_sets for path in each.files}


def test_another_run_writes_nothing_and_another_decision_the_same_file(desk: Desk) -> None:
    deployed_by(desk, ARGO)
    desk.run(BUSY)
    before = desk.state()
    desk.run(BUSY)
    assert desk.state() == before
    root = merged(desk)
    run_git(root, "push", "-q", "origin", "HEAD:refs/heads/main")
    first = build(root / FOLDER)
    desk.forge.update(1, close=True)
    desk.now_s += 8 * 86400.0
    desk.run(PEAK)
    second = build(merged(desk) / FOLDER)
    assert sorted(each["kind"] for each in first) == sorted(each["kind"] for each in second)
    assert carried(first) != carried(second)
    assert (root / FOLDER / "kustomization.yaml").read_text().count("reconciler-status") == 1


def test_flux_applies_a_job_of_its_own_after_the_rest(desk: Desk) -> None:
    deployed_by(desk, FLUX)
    desk.run(BUSY)
    root = merged(desk)
    assert {each["kind"] for each in build(root / FOLDER)} == {"Deployment", "VariantAutoscaling"}
    first, second = yaml.safe_load_all((root / "clusters/prod/apps/chat.yaml").read_text())
    assert first["metadata"]["name"] == "chat"
    assert second["spec"]["dependsOn"] == [{"name": "chat"}]
    assert second["spec"]["prune"] is True
    assert second["metadata"]["namespace"] == "flux-system"
    folder = root / second["spec"]["path"]
    (file,) = folder.iterdir()
    objects = list(yaml.safe_load_all(file.read_text()))
    assert [words for each in objects for words in objections(each)] == []
    job = by_kind(objects)["Job"]
    assert "annotations" not in job["metadata"]
    assert "ttlSecondsAfterFinished" not in job["spec"]
    assert job["metadata"]["name"] != by_kind(objects)["ConfigMap"]["metadata"]["name"], "it says what it applies"


@pytest.mark.parametrize("deployer", [ARGO, FLUX])
def test_the_render_proof_expects_what_delivers(desk: Desk, deployer: str) -> None:
    desk.workshop.write("clusters/prod/apps/kustomization.yaml", b"resources: [chat.yaml]\n")
    deployed_by(desk, deployer)
    proof = prove(desk.clone(), desk.plan(BUSY))
    assert proof.changed == (1 if deployer == FLUX else 0)


def test_a_profile_form_has_the_times_of_its_schema_too(desk: Desk) -> None:
    folder = "clusters/prod/code"
    deployed_by(desk, ARGO.replace("chat", "code"), "")
    desk.workshop.write(f"{folder}/kustomization.yaml", b"resources:\n  - granite.yaml\n")
    desk.workshop.commit("Build the code")
    desk.run(BUSY_TWICE)
    (proposed,) = (each for each in desk.pull_requests() if "prod-code" in each.head_branch)
    objects = build(merged(desk, proposed) / folder)
    (manifest,) = carried(objects).values()
    assert manifest["metadata"] == {"name": "granite", "namespace": "code"}
    assert set(manifest["status"]["actuation"]) == {"applied", "lastAttemptTime", "lastSuccessTime"}
    found = by_kind(objects)
    name = found["ConfigMap"]["metadata"]["name"]
    pod = pod_spec_of(found["Job"])
    assert pod is not None
    assert [each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each] == [name]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    assert found["RoleBinding"]["subjects"][0]["name"] == pod["serviceAccountName"]


@pytest.mark.parametrize(
    ("deployer", "kustomization", "reason"),
    [
        ("a: 1\n", KUSTOMIZATION, "no Application and no Flux Kustomization in Git deploys clusters/prod/chat"),
        (ARGO, "", "has no kustomization of its own"),
        (
            ARGO,
            "resources:\n  - variant.yaml\n  - |-\n    deployment.yaml",
            "a block scalar ends here without a line break",
        ),
        (FLUX.replace("wait: true, ", ""), KUSTOMIZATION, "does not wait until all is healthy: set spec.wait: true"),
    ],
)
def test_where_it_cannot_be_brought_the_pull_request_says_so(
    desk: Desk, deployer: str, kustomization: str, reason: str
) -> None:
    deployed_by(desk, deployer, kustomization)
    desk.run(BUSY)
    (pull_request,) = desk.pull_requests()
    assert "cannot be brought to the cluster" in pull_request.body
    assert reason in pull_request.body.replace("\\", "")
    assert not list(merged(desk).rglob("reconciler-status*"))
