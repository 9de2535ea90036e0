"""`init --adopt` in real clones: which entries it writes and why, and what it leaves to a person."""

from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.domain.plan import Outcome
from reconciler.errors import ConfigurationError
from reconciler.pipeline.init import Fate, InitRequest, InitResult, Wishes, init
from tests.servers.git_workshop import Workshop, empty_workshop

NOW_S = 1_790_000_000.0
HEAD = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: engine, image: vllm/vllm-openai:v1, args: [ARGS], resources: {limits: {nvidia.com/gpu: 2}}}]
"""
AUTOSCALER = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  minReplicas: 1
  maxReplicas: 4
  metrics:
    - {type: Pods, pods: {metric: {name: vllm_num_requests_waiting}, target: {type: AverageValue, averageValue: 5}}}
"""
FOREIGN = """---
apiVersion: autoscaling.example.com/v1
kind: Scaler
metadata: {name: NAME, namespace: llm}
spec: {scaleTargetRef: {kind: Deployment, name: NAME}}
"""


def deployment(name: str, arguments: str = "--model, acme/NAME", scaler: str = "") -> str:
    return (DEPLOYMENT.replace("ARGS", arguments) + scaler).replace("NAME", name)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return empty_workshop(tmp_path)


def committed(workshop: Workshop, **files: str) -> Workshop:
    for name, text in files.items():
        workshop.write(f"{name}.yaml", text.encode())
    workshop.commit()
    return workshop


def adopted(workshop: Workshop, *, checks: bool = False) -> InitResult:
    flags = Flags(repo=str(workshop.clone))
    wishes = Wishes(adopt=True)
    return init(InitRequest(flags=flags, environment=Environment(), wishes=wishes, now_s=NOW_S, checks=checks))


def configuration(workshop: Workshop) -> str:
    return (workshop.clone / "reconciler.yaml").read_text()


def test_each_workload_gets_an_entry_with_its_reason(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat"), b=deployment("code", scaler=AUTOSCALER))
    result = adopted(workshop)
    section = configuration(workshop).partition("workloads:\n")[2]
    assert section == (
        '  - match: {namespace: "llm", kind: "Deployment", name: "chat"} '
        "# vllm serves acme/chat on 2 x L4, 2 replicas (a.yaml:1)\n"
        '  - match: {namespace: "llm", kind: "Deployment", name: "code"} '
        "# vllm serves acme/code on 2 x L4, 2 replicas (b.yaml:1)\n"
        "    whenAutoscaled: bounds # HorizontalPodAutoscaler code scales it by vllm_num_requests_waiting "
        "(b.yaml:16): its minimum and maximum are proposed\n"
    )
    assert [each.variant.name for each in result.prepared.plan.decisions] == ["chat", "code"]
    assert result.prepared.plan.unmanaged == ()
    assert {each.outcome for each in result.prepared.plan.decisions} == {Outcome.HELD}, "nothing is measured yet"


def test_without_the_wish_nothing_is_managed(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat"))
    flags = Flags(repo=str(workshop.clone))
    result = init(InitRequest(flags=flags, environment=Environment(), wishes=Wishes(), now_s=NOW_S))
    assert "workloads:" not in configuration(workshop)
    assert [each.name for each in result.prepared.plan.unmanaged] == ["chat"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (deployment("chat", "--port, '8000'"), "nothing in Git names its model"),
        (deployment("chat", "--model, a, --task, embed"), "embeddings"),
        (deployment("chat", scaler=FOREIGN), "Scaler chat sets its replicas (a.yaml:"),
        (deployment("chat").replace("  replicas: 2\n", ""), "spec.replicas is not in Git"),
        (deployment("chat").replace("replicas: 2", 'replicas: "${N}"'), 'filled in by a template: "${N}" (a.yaml:5)'),
    ],
)
def test_what_would_need_a_guess_is_a_comment(workshop: Workshop, text: str, words: str) -> None:
    committed(workshop, a=text)
    result = adopted(workshop)
    assert [each.obstacle for each in result.adopted.left if words not in each.obstacle] == []
    written = configuration(workshop)
    assert "\n# workloads:\n" in written
    assert words in written
    assert '  # - match: {namespace: "llm", kind: "Deployment", name: "chat"}' in written
    assert result.prepared.plan.decisions == ()


def test_workloads_of_one_model_are_left_to_a_person(workshop: Workshop) -> None:
    committed(workshop, a=deployment("one", "--model, m"), b=deployment("two", "--model, m"), c=deployment("three"))
    result = adopted(workshop)
    assert [each.workload.name for each in result.adopted.entries] == ["three"]
    assert ["share its requests" in each.obstacle for each in result.adopted.left] == [True, True]


@pytest.mark.parametrize(
    "before",
    [
        HEAD + "# mine\ncurrency: EUR   # of ours\n",
        HEAD + "workloads:\n  # the first\n  - match: {name: other}\n    managed: false\ncurrency: EUR\n",
        HEAD.replace("\n", "\r\n") + "currency: EUR\r\n",
    ],
)
def test_a_persons_file_keeps_every_byte_and_gets_the_entries(workshop: Workshop, before: str) -> None:
    committed(workshop, a=deployment("chat"))
    file = workshop.clone / "reconciler.yaml"
    file.write_bytes(before.encode())
    result = adopted(workshop)
    after = file.read_bytes().decode()
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert [line for line in after.splitlines() if line not in added] == before.splitlines()
    assert added[-1].startswith('  - match: {namespace: "llm", kind: "Deployment", name: "chat"} # vllm serves')
    assert [each.variant.name for each in result.prepared.plan.decisions] == ["chat"]
    assert adopted(workshop).adopted.entries == (), "a second time there is nothing to add"
    assert file.read_bytes().decode() == after


def test_a_file_that_cannot_be_edited_is_left_and_the_entries_are_said(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat"))
    before = "{apiVersion: reconciler.io/v1alpha1, kind: Configuration}\n"
    (workshop.clone / "reconciler.yaml").write_text(before)
    with pytest.raises(ConfigurationError, match="add them by hand") as raised:
        adopted(workshop)
    assert 'name: "chat"' in str(raised.value)
    assert configuration(workshop) == before


def test_a_check_writes_nothing(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat"))
    result = adopted(workshop, checks=True)
    assert [(file.path, fate) for file, fate in result.files] == [("reconciler.yaml", Fate.CREATED)]
    assert not (workshop.clone / "reconciler.yaml").exists()
