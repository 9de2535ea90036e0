"""Statuses in Git that Argo CD before 3.0 compares: who lacks the way out, and init, which writes it."""

import pytest
import yaml

from reconciler.config.environment import Environment, Flags
from reconciler.pipeline.init import Fate, InitRequest, InitResult, Wishes, init
from reconciler.pipeline.references import COMPARED_STATUS
from reconciler.pipeline.validate import validate_commit, validate_paths
from tests.servers.desk import NOW_S, Desk

PATH = "bootstrap/chat.yaml"
APPLICATION = """\
# Argo CD deploys the assistant.
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: chat
  namespace: argocd
spec:
  source: {repoURL: https://github.com/acme/fleet, path: clusters/prod/chat}
  destination: {server: https://kubernetes.default.svc, namespace: chat}
"""
APPLICATION_SET = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: fleet, namespace: argocd}
spec:
  generators:
  - list: {elements: [{team: chat}, {team: code}]}
  template:
    metadata: {name: "{{team}}"}
    spec:
      source: {repoURL: https://github.com/acme/fleet, path: "clusters/prod/{{team}}"}
      destination: {server: https://kubernetes.default.svc, namespace: "{{team}}"}
"""
OTHERS = "  ignoreDifferences:\n  - group: apps\n    kind: Deployment\n    jsonPointers: [/spec/paused]\n"
ENTRY = {"group": "llmd.ai", "kind": "VariantAutoscaling", "jsonPointers": ["/status"]}
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: argocd}
data:
"""


def lacking(desk: Desk) -> list[str]:
    """Where the finding is, as a commit and a whole work tree are told."""
    clone = desk.workshop.clone
    of_commit, of_paths = validate_commit(Flags(repo=str(clone))), validate_paths(Flags(), (clone,))
    found = [[str(each) for each in one.findings if each.rule == COMPARED_STATUS] for one in (of_commit, of_paths)]
    assert found[0] == found[1]
    return found[0]


def initialized(desk: Desk) -> InitResult:
    return init(
        InitRequest(flags=Flags(repo=str(desk.workshop.clone)), environment=Environment(), wishes=Wishes(), now_s=NOW_S)
    )


def fates(result: InitResult) -> dict[str, Fate]:
    return {file.path: fate for file, fate in result.files}


def test_an_application_that_compares_statuses_is_found_with_the_way_out(desk: Desk) -> None:
    desk.write(PATH, APPLICATION)
    (finding,) = lacking(desk)
    assert finding.startswith(f"{PATH}:7: warning: spec: Argo CD before 3.0 compares the status of VariantAutoscaling ")
    assert "{group: llmd.ai, kind: VariantAutoscaling, jsonPointers: [/status]}" in finding


@pytest.mark.parametrize(
    "entry",
    [
        "{group: llmd.ai, kind: VariantAutoscaling, jsonPointers: [/status]}",
        "{group: '*', kind: '*', jqPathExpressions: [.status]}",
    ],
)
def test_an_application_that_ignores_them_lacks_nothing(desk: Desk, entry: str) -> None:
    desk.write(PATH, f"{APPLICATION}  ignoreDifferences: [{entry}]\n")
    assert lacking(desk) == []


@pytest.mark.parametrize(
    "entry",
    [
        "{group: llmd.ai, kind: VariantAutoscaling, jsonPointers: [/status/conditions]}",
        "{group: apps, kind: Deployment, jsonPointers: [/status]}",
        "{group: llmd.ai, kind: VariantAutoscaling, managedFieldsManagers: [wva]}",
    ],
)
def test_another_entry_is_no_way_out(desk: Desk, entry: str) -> None:
    desk.write(PATH, f"{APPLICATION}  ignoreDifferences: [{entry}]\n")
    assert len(lacking(desk)) == 1


@pytest.mark.parametrize(
    ("line", "is_ignored"),
    [
        ("resource.compareoptions: |\n    ignoreResourceStatusField: all", True),
        ("resource.compareoptions: |\n    ignoreResourceStatusField: crd", False),
        ("resource.customizations.ignoreDifferences.all: |\n    jsonPointers:\n    - /status", True),
        ("resource.customizations.ignoreDifferences.llmd.ai_VariantAutoscaling: 'jsonPointers: [/status]'", True),
        ("resource.customizations.ignoreDifferences.apps_Deployment: 'jsonPointers: [/status]'", False),
    ],
)
def test_what_argo_cd_is_configured_to_ignore_everywhere_counts(desk: Desk, line: str, is_ignored: bool) -> None:
    desk.write(PATH, APPLICATION)
    desk.write("clusters/prod/argocd/cm.yaml", f"{CONFIG_MAP}  {line}\n")
    assert (lacking(desk) == []) is is_ignored


def test_nothing_is_lacking_where_no_status_is_written(desk: Desk) -> None:
    desk.write(PATH, APPLICATION)
    desk.write("reconciler.yaml", (desk.workshop.clone / "reconciler.yaml").read_text() + "status: 'off'\n")
    assert lacking(desk) == []
    assert fates(initialized(desk)) == {}


@pytest.mark.parametrize("others", ["", OTHERS])
def test_init_adds_the_entry_and_leaves_every_other_byte(desk: Desk, others: str) -> None:
    desk.write(PATH, APPLICATION + others)
    file = desk.workshop.clone / PATH
    assert fates(initialized(desk)) == {PATH: Fate.UPDATED}
    edited = file.read_text()
    assert edited.startswith(APPLICATION + others)
    assert yaml.safe_load(edited)["spec"]["ignoreDifferences"][-1] == ENTRY
    assert fates(initialized(desk)) == {PATH: Fate.UNCHANGED}
    desk.workshop.commit("Ignore statuses")
    assert lacking(desk) == []
    assert fates(initialized(desk)) == {}


def test_init_edits_the_template_of_an_application_set_once(desk: Desk) -> None:
    desk.write(PATH, APPLICATION_SET)
    assert len(lacking(desk)) == 1
    initialized(desk)
    edited = yaml.safe_load((desk.workshop.clone / PATH).read_text())
    assert edited["spec"]["template"]["spec"]["ignoreDifferences"] == [ENTRY]
    desk.workshop.commit("Ignore statuses")
    assert lacking(desk) == []


def test_init_leaves_a_file_with_uncommitted_changes_alone(desk: Desk) -> None:
    desk.write(PATH, APPLICATION)
    file = desk.workshop.clone / PATH
    file.write_text(APPLICATION + "# mine\n")
    assert fates(initialized(desk)) == {PATH: Fate.KEPT}
    assert file.read_text().endswith("# mine\n")


def test_init_leaves_what_it_cannot_edit_to_validate(desk: Desk) -> None:
    desk.write(
        PATH, APPLICATION.replace("spec:\n  source", "spec: {source").replace("}\n  dest", "}, dest")[:-1] + "}\n"
    )
    assert len(lacking(desk)) == 1
    assert fates(initialized(desk)) == {}
