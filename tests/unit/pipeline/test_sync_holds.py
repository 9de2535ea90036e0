"""What would keep a merge from being applied is read in Git and told to who is about to merge."""

import pytest

from tests.servers.desk import BUSY, Desk

FOLDER = "clusters/prod/chat"
KUSTOMIZATION = "resources: [deployment.yaml, variant.yaml]\n"
FLUX = f"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: chat, namespace: flux-system}}
spec:
  path: ./{FOLDER}
  sourceRef: {{kind: GitRepository, name: fleet}}
  suspend: true
"""
ARGO = f"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: chat, namespace: argocd}}
spec:
  project: llm
  source: {{repoURL: https://github.com/acme/fleet, path: {FOLDER}}}
  destination: {{name: prod, namespace: chat}}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {{name: llm, namespace: argocd}}
spec:
  syncWindows:
    - {{kind: deny, schedule: "0 22 * * *", duration: 8h, WHICH}}
"""
WORDS = 'a merge waits for the sync windows of Application argocd/chat: deny "0 22 * * *" UTC for 8h'


def cautions(desk: Desk, deployer: str) -> str:
    desk.workshop.write(f"{FOLDER}/kustomization.yaml", KUSTOMIZATION.encode())
    desk.workshop.write("clusters/prod/apps/chat.yaml", deployer.encode())
    desk.workshop.commit("Deploy the chat")
    desk.run(BUSY)
    (pull_request,) = desk.pull_requests()
    return pull_request.body.partition("**On merge**")[2].partition("<details>")[0]


def test_a_suspended_kustomization_is_told(desk: Desk) -> None:
    told = cautions(desk, FLUX)
    assert "Kustomization flux-system/chat is suspended (clusters/prod/apps/chat.yaml:7): a merge waits" in told
    desk.write("clusters/prod/apps/chat.yaml", FLUX.replace("suspend: true", "suspend: false"))
    assert "suspended" not in "".join(desk.plan(BUSY).plan.notes)


@pytest.mark.parametrize(
    ("which", "is_told"),
    [
        ("applications: ['ch*']", True),
        ("applications: [code]", False),
        ("namespaces: [chat]", True),
        ("clusters: [prod]", True),
        ("applications: [code], namespaces: [chat]", True),
        ("applications: [code], namespaces: [chat], andOperator: true", False),
        ("manualSync: true", False),
    ],
)
def test_the_sync_windows_of_a_project_are_told_where_they_are_for_it(desk: Desk, which: str, is_told: bool) -> None:
    assert (WORDS in cautions(desk, ARGO.replace("WHICH", which)).replace("\\", "")) is is_told


def test_windows_of_another_project_are_not(desk: Desk) -> None:
    assert "windows" not in cautions(
        desk, ARGO.replace("project: llm", "project: web").replace("WHICH", "clusters: ['*']")
    )
