"""From decisions to bytes: exactly what is wanted changes, and what cannot be written is held with its reason."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.proposals import MovedFile
from reconciler.manifests.edits import EditRefused, SetScalar
from reconciler.metrics.quantities import Name
from reconciler.pipeline.edits import FileEdit, write_edits
from reconciler.pipeline.prepare import Prepared
from tests.servers.answers import Replica, answering
from tests.servers.desk import BUSY, BUSY_TWICE, GRANITE, QUIET, QWEN, Desk, llama
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, CODE, SETTINGS
from tests.servers.speeds import GRANITE_A100

DEPLOYMENT, VARIANT = "clusters/prod/chat/deployment.yaml", "clusters/prod/chat/variant.yaml"
LINES = CHAT_DEPLOYMENT.decode().replace("\r\n", "\n")
ALIASED = "revisionHistoryLimit: &n 2\n  replicas: *n "


def decision_of(prepared: Prepared, label: str) -> Decision:
    """The decision for one variant."""
    return next(each for each in prepared.plan.decisions if each.variant.label == label)


def written(prepared: Prepared) -> dict[str, bytes]:
    """Every file that would be written."""
    return {path: body for each in prepared.edited.change_sets for path, body in each.files.items()}


def test_one_scalar_changes_and_every_other_byte_stays(desk: Desk) -> None:
    files = written(desk.plan(BUSY))
    assert files[DEPLOYMENT] == CHAT_DEPLOYMENT.replace(b"replicas:   2 ", b"replicas:   4 ")
    assert set(files) == {DEPLOYMENT, VARIANT}


def test_the_status_rides_along_in_the_shape_of_its_resource(desk: Desk) -> None:
    status = yaml.safe_load(written(desk.plan(BUSY))[VARIANT])["status"]
    assert status["desiredOptimizedAlloc"]["numReplicas"] == 4
    assert status["actuation"] == {"applied": False}
    assert [(each["type"], each["status"], each["message"]) for each in status["conditions"]] == [
        ("MetricsAvailable", "True", "Load metrics data is available for scaling decisions"),
        ("OptimizationReady", "True", "model-based decision: scale-up decision (target: 4 replicas)"),
    ]


def test_what_the_cluster_runs_by_now_rides_with_the_next_change_of_the_group(desk: Desk) -> None:
    merged = "status:\n  desiredOptimizedAlloc: {accelerator: H100, numReplicas: 2}\n  actuation: {applied: false}\n"
    add_silent(desk, merged)
    labels = {"namespace": "chat", "deployment": "silent"}
    for count, is_applied in ((2.0, True), (1.0, False)):
        counted = {str(name): [(labels, count)] for name in (Name.LIVE_REPLICAS, Name.READY_REPLICAS)}
        prepared = desk.plan(answering(*llama(110.0), GRANITE, QWEN, rows=counted))
        assert yaml.safe_load(written(prepared)[SILENT])["status"]["actuation"] == {"applied": is_applied}


SILENT, QUIET_DEPLOYMENT = "clusters/prod/chat/silent.yaml", "clusters/prod/chat/silent-deployment.yaml"
FOREIGN = """\
status:
  conditions:
    - {type: TargetResolved, status: "True", reason: TargetFound, message: found,
       lastTransitionTime: "2026-01-09T22:00:00Z"}
    - {type: MetricsAvailable, status: "False", reason: MetricsUnavailable, message: none,
       lastTransitionTime: "2026-01-09T22:00:00Z"}
"""


def add_silent(desk: Desk, status: str = "") -> None:
    """A variant of the same group that reports nothing."""
    desk.write(QUIET_DEPLOYMENT, LINES.replace("llama", "silent"))
    desk.write(SILENT, CHAT_VARIANT.replace("llama", "silent").replace("8B", "70B") + status)


def test_the_status_of_a_held_variant_rides_with_the_change_of_its_group(desk: Desk) -> None:
    add_silent(desk, FOREIGN)
    prepared = desk.plan(BUSY)
    assert decision_of(prepared, "chat/silent").outcome is Outcome.HELD
    status = yaml.safe_load(written(prepared)[SILENT])["status"]
    assert status["desiredOptimizedAlloc"]["numReplicas"] == 2
    foreign, metrics, ready = status["conditions"]
    assert (foreign["type"], foreign["lastTransitionTime"]) == ("TargetResolved", "2026-01-09T22:00:00Z")
    assert (metrics["type"], metrics["status"]) == ("MetricsAvailable", "False")
    assert metrics["lastTransitionTime"] == "2026-01-09T22:00:00Z"
    assert (ready["type"], ready["status"], ready["reason"]) == ("OptimizationReady", "False", "MetricsUnavailable")
    assert QUIET_DEPLOYMENT not in written(prepared)


def test_a_status_alone_proposes_nothing_and_pushes_nothing(desk: Desk) -> None:
    desk.run(BUSY)
    add_silent(desk)
    before = desk.branches(), desk.pull_requests()
    assert written(desk.plan(QUIET)) == {}
    assert SILENT in written(desk.plan(BUSY))
    desk.run(BUSY)
    assert (desk.branches(), desk.pull_requests()) == before


def test_a_variant_that_is_left_alone_gets_no_status(desk: Desk) -> None:
    add_silent(desk)
    ignored = CHAT_VARIANT.replace("llama", "silent").replace("8B", "70B")
    desk.write(
        SILENT, ignored.replace("namespace: chat}", 'namespace: chat, annotations: {reconciler.io/ignore: "true"}}')
    )
    assert SILENT not in written(desk.plan(BUSY))


def test_a_status_that_is_not_written_is_told(desk: Desk) -> None:
    desk.write(VARIANT, CHAT_VARIANT + "status: {conditions: [{type: Odd}]}\n")
    result = desk.run(BUSY)
    (body,) = (each.body for each in result.drafts if each.change_set.group == "prod/chat")
    assert "no status is written" in body
    assert "would be lost" in body


def test_without_a_status_only_the_number_is_written(desk: Desk) -> None:
    desk.configure("pullRequests: {", 'status: "off"\npullRequests: {')
    assert set(written(desk.plan(BUSY))) == {DEPLOYMENT}


def test_a_status_that_cannot_be_written_is_left_out_and_the_number_is_not(desk: Desk) -> None:
    desk.write(VARIANT, CHAT_VARIANT + "x: &status {a: 1}\nstatus: *status\n")
    prepared = desk.plan(BUSY)
    assert set(written(prepared)) == {DEPLOYMENT}
    assert [str(key) for key in prepared.edited.omissions] == ["prod/chat/VariantAutoscaling/llama"]


def test_a_number_behind_an_alias_is_refused_and_the_rest_of_the_fleet_goes_on(desk: Desk) -> None:
    desk.write(DEPLOYMENT, LINES.replace("replicas:   2 ", ALIASED))
    prepared = desk.plan(BUSY_TWICE)
    held = decision_of(prepared, "chat/llama")
    assert held.outcome is Outcome.HELD
    assert str(held.hold).startswith(f"cannot be written: {DEPLOYMENT}:7: spec.replicas: ")
    assert held.desired == held.current
    assert set(written(prepared)) == {"clusters/prod/code/granite.yaml"}


def add_other(desk: Desk) -> tuple[Replica, ...]:
    """A second model of the same group, and its replicas, which have as much to do."""
    desk.write("clusters/prod/chat/other.yaml", CHAT_VARIANT.replace("llama", "other").replace("8B", "70B"))
    desk.write(
        "reconciler.yaml",
        SETTINGS.replace(
            "  - id: ibm/granite-13b\n",
            "  - id: meta-other/Llama-3.1-70B-Instruct\n    servedNames: [other]\n"
            "    profiles: [{accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}]\n"
            "  - id: ibm/granite-13b\n",
        ),
    )
    return tuple(
        Replica(namespace="chat", pod=f"other-5d4c8b7f9-{end}", model="other", per_s=55.0) for end in ("bcdfg", "hjklm")
    )


def test_what_fits_no_file_beside_others_is_refused_and_they_go_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change can be written alone, and both cannot: no single file ends the run of all others."""

    def refuse_two(path: str, data: bytes, edits: Iterable[FileEdit], *more: Any) -> bytes:
        wanted = list(edits)
        counts = [each for each in wanted if isinstance(each.edit, SetScalar)]
        if path == DEPLOYMENT and len(counts) > 1:
            raise EditRefused(path, 7, "spec.replicas", "two edits want the same place")
        return write_edits(path, data, wanted, *more)

    desk.write(DEPLOYMENT, f"{LINES}---\n{LINES.replace('llama', 'other')}")
    others = add_other(desk)
    monkeypatch.setattr("reconciler.pipeline.desk.write_edits", refuse_two)
    prepared = desk.plan(answering(*llama(110.0), *others, replace(GRANITE, per_s=12.0), QWEN))
    assert "clusters/prod/code/granite.yaml" in written(prepared)
    outcomes = {each.variant.name: each.outcome for each in prepared.plan.decisions}
    assert (outcomes["llama"], outcomes["other"]) == (Outcome.CHANGE, Outcome.HELD)


def test_the_plan_that_is_shown_is_the_plan_that_is_written(desk: Desk) -> None:
    """Two variants in one file, one of which refuses: it is pinned and the other one's bytes are written."""
    second = LINES.replace("llama", "other").replace("replicas:   2 ", ALIASED)
    desk.write(DEPLOYMENT, f"{LINES}---\n{second}")
    others = add_other(desk)
    prepared = desk.plan(answering(*llama(110.0), *others, QWEN))
    assert decision_of(prepared, "chat/llama").desired.replicas == 4
    assert str(decision_of(prepared, "chat/other").hold).startswith("cannot be written: ")
    (change_set,) = prepared.edited.change_sets
    assert change_set.files[DEPLOYMENT].decode() == f"{LINES}---\n{second}".replace("replicas:   2 ", "replicas:   4 ")


APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: models, namespace: argocd}
spec:
  destination: {namespace: chat}
  source:
    chart: llm
    helm:
      releaseName: llama
      values: |
        chat:
          replicas: 2
        code:
          replicas: 1
"""
TOLD = """overrides:
  - {match: {name: llama}, helmValues: {replicas: chat.replicas}}
  - {match: {name: llama-code}, helmValues: {replicas: code.replicas}}
"""


def test_two_variants_whose_numbers_stand_in_one_text_are_written_together(desk: Desk) -> None:
    known = "namespace: chat, labels: {inference.optimization/acceleratorName: H100}}"
    variant = CHAT_VARIANT.replace("namespace: chat}", known)
    desk.write("clusters/prod/models.yaml", APPLICATION)
    desk.write(VARIANT, variant)
    code = variant.replace("name: llama", "name: llama-code").replace("H100", "A100")
    desk.write("clusters/prod/chat/code.yaml", code.replace("meta-llama/Llama-3.1-8B-Instruct", "ibm/granite-13b"))
    desk.write(DEPLOYMENT, "")
    desk.write("reconciler.yaml", SETTINGS.replace("8B-Instruct\n", "8B-Instruct\n    servedNames: [llama]\n") + TOLD)
    other = Replica(
        namespace="chat", pod="llama-code-5d4c8b7f9-bcdfg", model="ibm/granite-13b", per_s=9.0, speed=GRANITE_A100
    )
    prepared = desk.plan(answering(*llama(110.0), other, QWEN))
    (application,) = (body for path, body in written(prepared).items() if path == "clusters/prod/models.yaml")
    values = yaml.safe_load(application)["spec"]["source"]["helm"]["values"]
    counts = {name: each["replicas"] for name, each in yaml.safe_load(values).items()}
    assert counts == {"chat": 4, "code": 3}


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ("        chat: {replicas: 2}\n        code: {replicas: 9}\n", {"approval": {"llama", "llama-code"}}),
        (
            "        chat: {replicas: 2}\n        # of the assistant\n        code: {replicas: 9}\n",
            {"urgent": {"llama"}, "approval": {"llama-code"}},
        ),
    ],
)
def test_changes_in_neighbouring_lines_are_in_one_pull_request(
    desk: Desk, values: str, parts: dict[str, set[str]]
) -> None:
    known = "namespace: chat, labels: {inference.optimization/acceleratorName: H100}}"
    variant = CHAT_VARIANT.replace("namespace: chat}", known)
    desk.write("clusters/prod/models.yaml", APPLICATION.partition("        chat:")[0] + values)
    desk.write(VARIANT, variant)
    code = variant.replace("name: llama", "name: llama-code").replace("H100", "A100")
    desk.write("clusters/prod/chat/code.yaml", code.replace("meta-llama/Llama-3.1-8B-Instruct", "ibm/granite-13b"))
    desk.write(DEPLOYMENT, "")
    desk.write("reconciler.yaml", SETTINGS.replace("8B-Instruct\n", "8B-Instruct\n    servedNames: [llama]\n") + TOLD)
    other = [
        Replica(
            namespace="chat",
            pod=f"llama-code-5d4c8b7f9-bcdf{end}",
            model="ibm/granite-13b",
            per_s=1.0,
            speed=GRANITE_A100,
        )
        for end in "bcdfghjkl"
    ]
    change_sets = desk.plan(answering(*llama(110.0), *other, QWEN)).edited.change_sets
    found = {str(each.part): {change.resource.rpartition("/")[2] for change in each.changes} for each in change_sets}
    assert found == parts


def test_another_accelerator_is_placed_and_labelled_where_nothing_was(desk: Desk) -> None:
    offer = "      - acc: A100\n"
    other = '      - {acc: H100, accCount: 2, alpha: "2.0", beta: "0.02", atTokens: 128, maxBatchSize: 64}\n'
    image = "vllm/vllm-openai:v0.11.0"
    code = CODE.replace(offer, other + offer).replace(f'"{image}"', f'"{image}", args: [--tensor-parallel-size=2]')
    desk.write("clusters/prod/code/granite.yaml", code)
    prepared = desk.plan(BUSY_TWICE)
    change = decision_of(prepared, "code/granite")
    assert (change.current.accelerator, change.desired.accelerator) == ("A100", "H100")
    assert change.moved_in == (MovedFile(path="clusters/prod/code/granite.yaml"),)
    (devices,) = (step for step in change.steps if step.stage == "devices")
    assert (devices.before, devices.after, devices.reason) == ("1", "2", "nvidia.com/gpu of one replica")
    assert all(each.moved_in == () for each in prepared.plan.decisions if not each.is_accelerator_change)
    before = list(yaml.safe_load_all(code))
    resource, deployment = yaml.safe_load_all(written(prepared)["clusters/prod/code/granite.yaml"])
    assert resource["metadata"]["labels"] == {"inference.optimization/acceleratorName": "H100"}
    pod = deployment["spec"]["template"]["spec"]
    assert pod.pop("nodeSelector") == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    deployment["spec"]["replicas"] = before[1]["spec"]["replicas"]
    assert deployment == before[1]
