"""`init --adopt` in real clones: which entries it writes and why, and what it leaves to a person."""

import re
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.domain.plan import Outcome
from reconciler.errors import ConfigurationError
from reconciler.pipeline.init import Fate, InitRequest, InitResult, Wishes, init
from reconciler.pipeline.validate import validate_commit
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
SCALED_OBJECT = """---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: NAME, namespace: llm}
spec:
  scaleTargetRef: {name: NAME}
  maxReplicaCount: 4
  triggers:
    - type: prometheus
      metadata: {query: "sum(rate(vllm:request_success_total[2m]))", threshold: "5"}
"""
NAMED = SCALED_OBJECT.replace("- type: prometheus", "- name: arrivals\n      type: prometheus")
ADAPTER = """apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config, namespace: monitoring}
data:
  config.yaml: |
    rules:
    - seriesQuery: 'vllm:num_requests_waiting{namespace!="",pod!=""}'
      resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
      name: {matches: "^vllm:num_requests_waiting$", as: vllm_num_requests_waiting}
      metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
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
        "(b.yaml:16): its minimum and maximum are proposed; with tune its target and windows, for a person to merge\n"
    )
    assert [each.variant.name for each in result.prepared.plan.decisions] == ["chat", "code"]
    assert result.prepared.plan.unmanaged == ()
    assert {each.outcome for each in result.prepared.plan.decisions} == {Outcome.HELD}, "nothing is measured yet"


def test_one_that_goes_by_its_own_query_is_tuned(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat", scaler=SCALED_OBJECT))
    adopted(workshop)
    assert (
        "    whenAutoscaled: tune # ScaledObject chat scales it by sum(rate(vllm:request_success_total[2m])) "
        "(a.yaml:16): its target, windows and bounds are proposed\n"
    ) in configuration(workshop)


def test_what_long_queries_say_is_cut_before_what_is_proposed(workshop: Workshop) -> None:
    """A trigger with a name is told by it."""
    query = "sum(rate(vllm:request_success_total{model_name='a'}[2m])) + 0 * sum(vllm:num_requests_waiting)"
    scaler = SCALED_OBJECT.replace("sum(rate(vllm:request_success_total[2m]))", query)
    committed(workshop, a=deployment("chat", scaler=scaler), b=deployment("code", scaler=NAMED))
    adopted(workshop)
    written = configuration(workshop)
    cut = r"scales it by sum\(rate\(.{40,55}… \(a\.yaml:16\): its minimum and maximum are proposed"
    assert re.search(cut, written), written
    assert "scales it by arrivals (b.yaml:16): its target, windows and bounds are proposed" in written


def test_one_whose_metric_a_rule_in_git_has_is_tuned(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat", scaler=AUTOSCALER), b=ADAPTER)
    adopted(workshop)
    assert (
        "    whenAutoscaled: tune # HorizontalPodAutoscaler chat scales it by vllm_num_requests_waiting "
        "(a.yaml:16, the rule of prometheus-adapter at b.yaml:7): its target, windows and bounds are proposed\n"
    ) in configuration(workshop)


def test_a_rule_whose_query_follows_no_load_moves_bounds_alone(workshop: Workshop) -> None:
    adapter = ADAPTER.replace("sum(<<.Series>>{<<.LabelMatchers>>})", "100 * max(<<.Series>>{<<.LabelMatchers>>})")
    committed(workshop, a=deployment("chat", scaler=AUTOSCALER), b=adapter)
    adopted(workshop)
    assert "whenAutoscaled: bounds" in configuration(workshop)


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
        (deployment("chat").replace("replicas: 2", "replicas: 0"), "it is switched off: 0 replicas in Git"),
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


TARGET = """---
apiVersion: VERSION
kind: VariantAutoscaling
metadata: {name: va, namespace: llm}
spec: {modelID: m, scaleTargetRef: {kind: Deployment, name: chatt}}
"""


@pytest.mark.parametrize(
    ("version", "words"),
    [("llmd.ai/v9", "VariantAutoscaling llm/va cannot be read"), ("llmd.ai/v1alpha1", "is not in Git: is it this?")],
)
def test_what_a_resource_with_a_mistake_may_scale_is_left_alone(workshop: Workshop, version: str, words: str) -> None:
    committed(workshop, a=deployment("chat") + TARGET.replace("VERSION", version))
    (left,) = adopted(workshop).adopted.left
    assert words in left.obstacle


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


# ---- overlays that build the same objects

KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"


def overlaid(workshop: Workshop, text: str, overlays: tuple[str, ...] = ("dev", "prod", "staging")) -> Workshop:
    """A base and overlays of it, which nothing in Git deploys."""
    workshop.write("apps/base/chat.yaml", text.encode())
    workshop.write("apps/base/kustomization.yaml", f"{KUSTOMIZATION}resources: [chat.yaml]\n".encode())
    for overlay in overlays:
        path = f"apps/overlays/{overlay}/kustomization.yaml"
        workshop.write(path, f"{KUSTOMIZATION}resources: [../../base]\n".encode())
    workshop.commit()
    return workshop


def findings(workshop: Workshop) -> list[str]:
    return [str(each) for each in validate_commit(Flags(repo=str(workshop.clone))).findings]


def test_alternatives_that_nothing_deploys_together_are_no_mistake(workshop: Workshop) -> None:
    overlaid(workshop, deployment("chat", scaler=AUTOSCALER))
    workshop.write("docs/one/web.yaml", deployment("web").encode())
    workshop.write("docs/two/web.yaml", deployment("web").encode())
    workshop.commit()
    assert findings(workshop) == []
    flags = Flags(repo=str(workshop.clone))
    result = init(InitRequest(flags=flags, environment=Environment(), wishes=Wishes(), now_s=NOW_S, checks=True))
    assert {each.name for each in result.prepared.plan.unmanaged} == {"chat", "web"}


def test_one_name_twice_in_one_directory_is_a_mistake(workshop: Workshop) -> None:
    committed(workshop, a=deployment("chat"), b=deployment("chat"))
    assert ["declared again" in each for each in findings(workshop)] == [True, True]
    result = adopted(workshop, checks=True)
    assert [(each.workload.name, "keep one" in each.obstacle) for each in result.adopted.left] == [("chat", True)]
    assert [each.name for each in result.clusters] == ["default"]


def test_alternatives_that_are_to_be_managed_need_clusters(workshop: Workshop) -> None:
    managed = 'namespace: llm, annotations: {reconciler.io/managed: "true"}}'
    overlaid(workshop, deployment("chat").replace("namespace: llm}", managed))
    (found,) = findings(workshop)
    assert "built by apps/overlays/dev, apps/overlays/prod, apps/overlays/staging: keep one, or name" in found


def test_overlays_of_the_same_objects_are_clusters(workshop: Workshop) -> None:
    overlaid(workshop, deployment("chat"))
    result = adopted(workshop, checks=True)
    assert [(each.name, [path.glob for path in each.exclude]) for each in result.clusters] == [
        ("dev", ["apps/overlays/prod/**", "apps/overlays/staging/**"]),
        ("prod", ["apps/overlays/dev/**", "apps/overlays/staging/**"]),
        ("staging", ["apps/overlays/dev/**", "apps/overlays/prod/**"]),
    ]


def test_examples_in_many_directories_are_no_clusters(workshop: Workshop) -> None:
    overlaid(workshop, deployment("chat"), tuple(f"example-{number}" for number in range(9)))
    workshop.write("docs/a/web.yaml", deployment("web").encode())
    workshop.write("guides/b/web.yaml", deployment("web").encode())
    workshop.commit()
    result = adopted(workshop, checks=True)
    assert [(each.name, each.exclude) for each in result.clusters] == [("default", ())]
    assert [
        (each.workload.name, "declared" in each.obstacle or "built by" in each.obstacle) for each in result.adopted.left
    ] == [
        ("chat", True),
        ("web", True),
    ]


def test_one_of_them_is_chosen_by_its_name_and_its_edits_leave_the_others_alone(workshop: Workshop) -> None:
    overlaid(workshop, deployment("chat", scaler=AUTOSCALER))
    flags = Flags(repo=str(workshop.clone), clusters=("prod",))
    result = init(InitRequest(flags=flags, environment=Environment(), wishes=Wishes(adopt=True), now_s=NOW_S))
    assert [each.name for each in result.clusters] == ["prod"]
    (variant,) = result.prepared.snapshot.variants
    assert variant.workload is not None
    assert {each.document.path for each in variant.workload.written_at} == {
        "apps/overlays/prod/reconciler-patches.yaml"
    }


def test_overlays_with_namespaces_of_their_own_are_one_cluster(workshop: Workshop) -> None:
    overlaid(workshop, deployment("chat"))
    for overlay in ("dev", "prod", "staging"):
        text = f"{KUSTOMIZATION}namespace: llm-{overlay}\nresources: [../../base]\n"
        workshop.write(f"apps/overlays/{overlay}/kustomization.yaml", text.encode())
    workshop.commit()
    result = adopted(workshop, checks=True)
    assert [each.name for each in result.clusters] == ["default"]
    assert [each.workload.namespace for each in result.adopted.entries] == ["llm-dev", "llm-prod", "llm-staging"]


def test_a_prometheus_is_that_of_one_of_them(workshop: Workshop) -> None:
    overlaid(workshop, deployment("chat"))
    flags = Flags(repo=str(workshop.clone), prometheus="http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match=r"name it with --cluster, like --cluster staging"):
        init(InitRequest(flags=flags, environment=Environment(), wishes=Wishes(), now_s=NOW_S))
