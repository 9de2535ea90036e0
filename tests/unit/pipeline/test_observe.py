"""What is read, what is asked, and what of it is kept."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.answers import Answer, Query
from reconciler.domain.metric_targets import Generation
from reconciler.domain.settings import ClusterSettings
from reconciler.errors import TransientError
from reconciler.forge.local import Local
from reconciler.forge.pull_requests import PullRequest
from reconciler.manifests.documents import parse_readable
from reconciler.metrics.quantities import (
    CLUSTER_LABEL,
    DEMAND,
    PAST,
    QUANTITIES,
    SATURATION_HISTORY,
    SATURATION_QUANTITIES,
    TRACED_HISTORY,
    USUAL,
    Name,
)
from reconciler.pipeline.observe import observe
from reconciler.pipeline.prepare import prepare
from reconciler.pipeline.recording import read_recording
from reconciler.resources.kthena.models import ModelResource
from reconciler.resources.objects import KubernetesObject
from reconciler.snapshot.build import read_snapshot
from tests.servers.answers import Rows, answering
from tests.servers.desk import BUSY, GRANITE, QUIET, QWEN, RENDERER, Desk, llama


class Mute(Local):
    """A forge that does not answer."""

    def list_pull_requests(self, **_keywords: object) -> tuple[PullRequest, ...]:
        raise TransientError("the forge is down")


def test_a_plan_goes_on_without_the_forge_and_says_so(desk: Desk) -> None:
    prepared = desk.plan(BUSY, Mute(desk.workshop.remote))
    assert "open pull requests were not read" in prepared.plan.assumptions
    assert [str(each.variant) for each in prepared.plan.decisions if each.desired != each.current] == [
        "prod/chat/VariantAutoscaling/llama"
    ]


def test_a_run_never_goes_on_without_the_forge(desk: Desk) -> None:
    with pytest.raises(TransientError, match="the forge is down"):
        desk.run(BUSY, Mute(desk.workshop.remote))
    assert set(desk.branches()) == {"main"}


def test_each_quantity_is_asked_once_for_all_namespaces(desk: Desk) -> None:
    asked: list[Query] = []

    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        asked.extend(queries)
        return QUIET(cluster, queries)

    desk.plan(ask)
    past = (*PAST, *USUAL, Name.USUAL_COMPLETIONS, *DEMAND)
    now = {*(each.name for each in (*QUANTITIES, CLUSTER_LABEL, *SATURATION_QUANTITIES))}
    now |= {Name.NODES, Name.DEVICE_REQUESTS}
    traced = [*TRACED_HISTORY, *SATURATION_HISTORY, *past, Name.LIVE_REPLICAS]
    assert sorted(each.quantity for each in asked if each.step_s is None) == sorted(now)
    assert sorted(each.quantity for each in asked if each.step_s is not None) == sorted(traced)
    elsewhere = {Name.NODES, Name.DEVICE_REQUESTS, Name.FLOW_CONTROL_QUEUE_SIZE, Name.FLOW_CONTROL_QUEUE_BYTES}
    named = {each.quantity for each in asked if 'namespace=~"batch|chat|code"' in each.text}
    assert named >= {*now, *traced} - elsewhere
    assert {each.end_s for each in asked if each.step_s is None} == {desk.now_s}


def test_nobody_is_asked_about_a_repository_without_variants(desk: Desk) -> None:
    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        raise AssertionError(f"{cluster.name} was asked {len(queries)} questions")

    desk.configure("clusters/prod/**", "elsewhere/**")
    assert desk.plan(ask).plan.decisions == ()


def test_only_files_that_matter_are_recorded(desk: Desk) -> None:
    desk.write("clusters/prod/values.yaml", "replicas: 3\n")
    desk.write("clusters/prod/notes.txt", "kind: Deployment\n")
    desk.write("elsewhere/variant.yaml", "kind: VariantAutoscaling\n")
    paths = [each.path for each in desk.plan(QUIET).recording.manifests]
    assert paths == [
        "clusters/prod/batch/qwen.yaml",
        "clusters/prod/chat/deployment.yaml",
        "clusters/prod/chat/variant.yaml",
        "clusters/prod/code/granite.yaml",
    ]


def test_links_submodules_and_our_giants_are_named_and_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.pipeline.files.MAX_READ_BYTES", 2048)
    desk.write("clusters/prod/dashboard.yaml", "# " + "x" * 4096)
    desk.write("clusters/prod/giant.yaml", "# " + "x" * 4096 + "\nkind: VariantAutoscaling\n")
    link = desk.workshop.clone / "clusters/prod/link.yaml"
    link.symlink_to("../../README.md")
    commit = desk.workshop.git("rev-parse", "HEAD")
    desk.workshop.git("update-index", "--add", "--cacheinfo", f"160000,{commit},clusters/prod/module.yaml")
    (desk.workshop.clone / "clusters/prod/module.yaml").mkdir()
    desk.workshop.commit()
    findings = [str(each) for each in desk.plan(QUIET).plan.findings]
    assert sorted(each.partition(": ")[0] for each in findings) == [
        "clusters/prod/giant.yaml",
        "clusters/prod/link.yaml",
        "clusters/prod/module.yaml",
    ]
    told = sorted(findings)
    assert ["bytes" in told[0], "symbolic link" in told[1], "submodule" in told[2]] == [True] * 3


def test_every_tip_that_decides_something_is_looked_at(desk: Desk) -> None:
    desk.run(BUSY)
    (proposed,) = desk.pull_requests()
    doors = desk.doors(BUSY)
    for state in ("open", "closed"):
        if state == "closed":
            desk.forge.update(proposed.number, close=True)
        observed = observe(doors, desk.settings(doors.repository), desk.now_s, "fleet")
        assert set(observed.forge.tips) == {proposed.head_branch}


def test_a_plan_without_a_forge_assumes_no_pull_requests(desk: Desk) -> None:
    doors = replace(desk.doors(QUIET), forge=None, needs_forge=False)
    observed = observe(doors, desk.settings(doors.repository), desk.now_s, "fleet")
    assert observed.recording.proposals == ()
    assert observed.recording.settings.assumed[-1] == "open pull requests were not read"


@pytest.mark.parametrize("has_forge", [True, False])
def test_variants_that_were_joined_to_ask_are_those_of_the_snapshot(desk: Desk, has_forge: bool) -> None:
    desk.run(BUSY)
    doors = desk.doors(BUSY) if has_forge else replace(desk.doors(BUSY), forge=None, needs_forge=False)
    observed = observe(doors, desk.settings(doors.repository), desk.now_s, "fleet")
    recording, declaration = observed.recording, observed.declaration
    joined = read_snapshot(recording, declaration, "").variants
    assert bool(recording.proposals) is has_forge
    assert read_snapshot(recording, declaration, "", declared=observed.variants).variants is observed.variants
    assert observed.variants == joined
    # Of Kthena's models and policies a minimum may be ours.
    (document,), _ = parse_readable("model.yaml", b"kind: ModelBooster\n")
    source = KubernetesObject(cluster="prod", kind="ModelBooster", document=document, prefix=(), fields={}, name="m")
    model = ModelResource(source=source, generation=Generation.G4, label_prefix="", model_id="m", backends=())
    with_models = replace(declaration, kthena=replace(declaration.kthena, models=(model,)))
    assert (read_snapshot(recording, with_models, "", declared=()).variants == ()) is not has_forge


def test_the_devices_of_the_cluster_are_part_of_the_recording(desk: Desk, tmp_path: Path) -> None:
    rows: dict[str, Rows] = {
        Name.NODES: [
            ({"fact": "offers", "node": "a", "resource": "cpu"}, 64.0),
            ({"fact": "offers", "node": "a", "resource": "nvidia_com_gpu"}, 8.0),
            ({"fact": "labels", "node": "a", "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"}, 1.0),
            ({"fact": "seen", "node": "a"}, desk.now_s),
        ],
        Name.DEVICE_REQUESTS: [
            ({"namespace": "lab", "pod": "train", "node": "a", "resource": "nvidia_com_gpu"}, 3.0),
            ({"namespace": "chat", "pod": "llama-5d4c8b7f9-bcdfg", "node": "a", "resource": "nvidia_com_gpu"}, 2.0),
        ],
    }
    planned = desk.plan(answering(*llama(110.0), GRANITE, QWEN, rows=rows), record=tmp_path / "recording.zip")
    pools = planned.snapshot.inventory.pools
    assert {name: pool.devices for (_, name), pool in pools.items()} == {"A100": 0, "H100": 5, "L4": 0}
    replayed = prepare(read_recording(tmp_path / "recording.zip"), RENDERER)
    assert replayed.snapshot.inventory == planned.snapshot.inventory
    assert replayed.plan == planned.plan
