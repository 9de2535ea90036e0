"""An accelerator that nobody tried, from the proposal of one replica to its end: nothing moves on a prior alone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import which

import pytest

from tests.servers.prometheus import ABSENT
from tests.servers.speeds import Speed
from tests.stories.canaries import (
    FILE,
    GROUPS,
    MUCH_LATER_H,
    REPLICAS,
    Tale,
    canary_of,
    look,
    opened,
    remembered,
    start,
)
from tests.stories.stage import Team

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

PROFILED = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: chat
  namespace: SPACE
  labels: {inference.optimization/acceleratorName: A100}
spec:
  modelID: meta-llama/Llama-3.1-8B-Instruct
  sloClassRef: {name: interactive, key: interactive}
  modelProfile:
    accelerators:
      - {acc: A100, accCount: 1, alpha: "13.5", beta: "0.12", atTokens: 180, maxBatchSize: 128}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: SPACE}
spec:
  replicas: 4
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers: [{name: vllm, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
PLAYED = """\
apiVersion: inference.llmaz.io/v1alpha1
kind: Playground
metadata: {name: chat, namespace: SPACE}
spec:
  replicas: 4
  modelClaim: {modelName: SPACE, inferenceFlavors: [a100]}
---
apiVersion: llmaz.io/v1alpha1
kind: OpenModel
metadata: {name: SPACE}
spec:
  familyName: llama3
  source: {modelHub: {modelID: meta-llama/Llama-3.1-8B-Instruct}}
  inferenceConfig:
    flavors:
      - {name: a100, limits: {nvidia.com/gpu: 1}, nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}
      - {name: h100, limits: {nvidia.com/gpu: 1}, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: SPACE}
spec:
  selector: {matchLabels: {llmaz.io/model-name: SPACE}}
  targetPorts: [{number: 8080}]
  endpointPickerRef: {name: epp, port: {number: 9002}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: llmaz-global-config, namespace: llmaz-system}
data:
  config.data: |
    scheduler-name: inftyai-scheduler
    init-container-image: inftyai/model-loader:v0.0.10
"""
KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - chat.yaml
"""
PASSES = Tale(name="good", looks=(0, 5, 26, MUCH_LATER_H))
SLOW = Tale(name="slow", looks=(0, 5), speed=Speed(alpha_s=0.025, beta_s=0.0001, max_batch=128))
FAST = Tale(name="fast", looks=(0, 26), speed=Speed(alpha_s=0.004, beta_s=0.00003, max_batch=128))
NOTHING = Tale(name="nothing", looks=(0, 26, 97), speed=None)
REMOVED = Tale(name="removed", looks=(0, 2), until_h=1.0)
PENDING = Tale(name="pending", looks=(0, 3, 7), speed=None, pending=True)
HARMFUL = Tale(name="harmful", looks=(0, 3), speed=Speed(alpha_s=0.09, beta_s=0.0005, max_batch=128))
BLIND = Tale(name="blind", looks=(0,), until_h=20.0)
SCALED = Tale(name="scaled", looks=(0, 5, 26), scaled=3)
DEARER = Tale(name="dearer", looks=(0, 5))
DECLINED = Tale(name="declined", looks=(0,), speed=None)
FORM = Tale(name="profiled", looks=(0, 26), manifest=PROFILED)
SLOW_FORM = Tale(name="profiled-slow", looks=(0, 5), speed=SLOW.speed, manifest=PROFILED)
PLAY = Tale(name="played", looks=(0, 26), manifest=PLAYED, model="played", pods=GROUPS)
SLOW_PLAY = Tale(name="played-slow", looks=(0, 5), speed=SLOW.speed, manifest=PLAYED, model="played-slow", pods=GROUPS)
TALES = (PASSES, SLOW, FAST, NOTHING, REMOVED, PENDING, HARMFUL, BLIND, SCALED, DEARER, DECLINED)
FAMILIES = (FORM, SLOW_FORM, PLAY, SLOW_PLAY)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where all of them are remembered."""
    with remembered((*TALES, *FAMILIES), tmp_path_factory.mktemp("canaries")) as url:
        yield url


Begin = Callable[..., Team]


@pytest.fixture
def begin(prometheus: str, tmp_path: Path) -> Iterator[Begin]:
    """Opens the repository of one tale."""
    with ExitStack() as stack:
        yield lambda tale, *rules, settings=(): stack.enter_context(
            opened(tale, prometheus, tmp_path, *rules, settings=settings)
        )


def test_one_that_is_good_gets_the_load_and_nothing_moves_before(begin: Begin) -> None:
    team = start(begin(PASSES), PASSES)
    assert look(team, 5) == {}
    ((branch, words),) = look(team, 26).items()
    assert (canary_of(team, PASSES, branch), team.replicas_of("chat", branch)) == (2, 2)
    assert "good/chat-canary-h100 was an experiment, and is sized by what it measured" in words
    assert "It measured 26 hours with load" in words
    assert "  reconciler.io/measured: " in team.read(PASSES.path, branch).decode()
    team.later(minutes=60)
    assert team.run().code == 0
    assert list(team.proposed()) == [branch]
    team.merge_all()
    ((branch, words),) = look(team, MUCH_LATER_H).items()
    assert (canary_of(team, PASSES, branch), team.replicas_of("chat", branch)) == (3, 1)
    assert "was an experiment" not in words


def test_one_that_is_far_slower_is_taken_back_and_not_tried_again(begin: Begin) -> None:
    team = start(begin(SLOW, settings=(("costPerHour: 3.00", "costPerHour: 4.00"),)), SLOW)
    ((branch, words),) = look(team, 5).items()
    assert (canary_of(team, SLOW, branch), team.replicas_of("chat", branch)) == (0, REPLICAS)
    assert "which the band did not hold" in words
    assert "it would cost" in words
    team.merge_all()
    assert look(team, 5.1) == {}


def test_one_that_is_far_faster_is_sized_by_what_was_measured(begin: Begin) -> None:
    team = start(begin(FAST), FAST)
    ((branch, _),) = look(team, 26).items()
    assert (canary_of(team, FAST, branch), team.replicas_of("chat", branch)) == (2, 2)


def test_one_that_nothing_is_heard_of_ends_after_four_days(begin: Begin) -> None:
    team = start(begin(NOTHING), NOTHING)
    assert look(team, 26) == {}
    ((branch, words),) = look(team, 97).items()
    assert canary_of(team, NOTHING, branch) == 0
    assert "It measured nothing." in words


def test_one_that_a_person_removes_does_not_come_back(begin: Begin) -> None:
    team = start(begin(REMOVED), REMOVED)
    team.rearrange({}, REMOVED.path)
    assert look(team, 2) == {}


def test_one_that_finds_no_node_is_taken_back(begin: Begin) -> None:
    team = start(begin(PENDING), PENDING)
    assert look(team, 3) == {}
    ((branch, words),) = look(team, 7).items()
    assert canary_of(team, PENDING, branch) == 0
    assert "it has found no node for 7 hours: H100 is not to be had" in words


def test_one_that_misses_a_target_is_taken_back_at_once(begin: Begin) -> None:
    team = start(begin(HARMFUL), HARMFUL)
    ((branch, words),) = look(team, 3).items()
    assert (canary_of(team, HARMFUL, branch), "-urgent-" in branch) == (0, True)
    assert "and the others keep it" in words


@pytest.mark.parametrize("repairs", ["ask", "hold"])
def test_a_freeze_lets_a_person_end_one_that_does_harm(begin: Begin, repairs: str) -> None:
    files = ("policies: [default]", "policies: [default, .reconciler/policies/]")
    freeze = f'{{name: afternoon, freeze: {{cron: "0 12 * * *", for: 4h, repairs: {repairs}}}}}'
    team = start(begin(HARMFUL, freeze, settings=(files,)), HARMFUL)
    found = look(team, 3)
    assert [canary_of(team, HARMFUL, branch) for branch in found] == ([0] if repairs == "ask" else [])
    assert all("a person decides about repairs" in words for words in found.values())


def test_without_metrics_nothing_is_known_and_nothing_is_done(begin: Begin) -> None:
    team = start(begin(BLIND), BLIND)
    assert look(team, 100) == {}
    assert canary_of(team, BLIND) == 1


def test_one_that_a_person_scales_holds_its_model_until_it_is_measured(begin: Begin) -> None:
    team = start(begin(SCALED), SCALED)
    team.write(SCALED.path, team.read(SCALED.path).replace(b"replicas: 1", b"replicas: 3"))
    assert look(team, 5) == {}
    assert "it has 3 replicas, and what one carries is measured in 24 hours with load" in team.plan().out
    ((branch, _),) = look(team, 26).items()
    assert (canary_of(team, SCALED, branch), team.replicas_of("chat", branch)) == (2, 2)


def test_one_that_gets_dearer_meanwhile_is_taken_back(begin: Begin) -> None:
    team = start(begin(DEARER), DEARER)
    settings = team.read("reconciler.yaml").decode()
    team.write(
        "reconciler.yaml",
        settings.replace("costPerHour: 3.00}", "costPerHour: 12.00}"),
    )
    ((branch, words),) = look(team, 5).items()
    assert canary_of(team, DEARER, branch) == 0
    assert "an hour more than the plan" in words


def test_one_that_a_person_declines_is_not_asked_for_again(begin: Begin) -> None:
    team = begin(DECLINED)
    team.write("prod/declined/kustomization.yaml", KUSTOMIZATION)
    assert team.run().code == 0
    (opened,) = team.pull_requests()
    lines = team.changed_lines(opened.head)
    assert lines["prod/declined/kustomization.yaml"] == [f'+  - "{FILE}"']
    if which("kustomize") or which("kubectl"):
        assert "1 of 3 objects change in 1 root, as wanted" in team.plan("--prove").err
    team.close(opened.number)
    team.later(minutes=10)
    assert team.run().code == 0
    assert team.proposed() == {}


OBSTACLES: dict[str, Callable[[Team], object]] = {
    "a file of another kind": lambda team: team.write(DECLINED.path, "values: {replicas: 3}\n"),
    "a directory": lambda team: team.write(f"{DECLINED.path}/README", "Notes\n"),
    "a link": lambda team: link(team, DECLINED.path),
    "a file that is too large": lambda team: team.write(DECLINED.path, "#" * (1024 * 1024 + 1)),
    "a file that is left out": lambda team: team.rearrange(
        {DECLINED.path: "values: {replicas: 3}\n", ".gitattributes": f"{DECLINED.path} linguist-vendored\n"}
    ),
}


def link(team: Team, path: str) -> None:
    """Commit a symbolic link."""
    team.write("prod/shared.yaml", "values: {}\n")
    (team.workshop.clone / path).symlink_to("../shared.yaml")
    team.workshop.commit()


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES)
def test_nothing_that_is_there_is_written_over(begin: Begin, obstacle: Callable[[Team], object]) -> None:
    team = begin(DECLINED)
    obstacle(team)
    assert team.run().code == 0
    assert team.proposed() == {}
    assert f"cannot be written: {DECLINED.path} is there already" in " ".join(team.plan().out.split())


DEARER_H100 = ("costPerHour: 3.00", "costPerHour: 4.00")
CLASSES = ("serviceClasses:\n", "serviceClasses:\n  - {name: interactive, ttft: 2s, itl: 60ms}\n")


@pytest.mark.parametrize("tale", [FORM, PLAY], ids=["profile form", "llmaz"])
def test_another_family_is_tried_and_moved_as_well(begin: Begin, tale: Tale) -> None:
    team = start(begin(tale, settings=(CLASSES,)), tale)
    ((branch, words),) = look(team, 26).items()
    assert (canary_of(team, tale, branch), team.replicas_of("chat", branch)) == (2, 2)
    assert "It measured 26 hours with load" in words


@pytest.mark.parametrize("tale", [SLOW_FORM, SLOW_PLAY], ids=["profile form", "llmaz"])
def test_another_family_is_taken_back_as_well(begin: Begin, tale: Tale) -> None:
    team = start(begin(tale, settings=(CLASSES, DEARER_H100)), tale)
    ((branch, words),) = look(team, 5).items()
    assert (canary_of(team, tale, branch), team.replicas_of("chat", branch)) == (0, REPLICAS)
    assert "it would cost" in words
    team.merge_all()
    assert look(team, 5.1) == {}
