"""Names that name nothing: in the configuration an error, from a resource a warning, with what was probably meant."""

from pathlib import Path

import pytest

from reconciler.config.environment import Flags
from reconciler.domain.identity import Severity
from reconciler.pipeline.validate import validate_commit, validate_paths
from tests.servers.answers import answering
from tests.servers.desk import Desk
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT

HEAD = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
FLEET = """\
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
serviceClasses: [{name: premium, ttft: 500ms, itl: 50ms}]
accelerators: [{name: H100, costPerHour: 6.88}]
"""
BASE = HEAD + FLEET
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def told(folder: Path, files: dict[str, str], **flags: object) -> list[str]:
    whole = {"reconciler.yaml": BASE, "prod/chat.yaml": CHAT_VARIANT, "prod/deployment.yaml": CHAT_DEPLOYMENT.decode()}
    for path, text in (whole | files).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    found = validate_paths(Flags(**flags), [folder]).findings  # type: ignore[arg-type]  # the test names what it means
    return [str(finding) for finding in found]


def test_a_fleet_that_refers_to_what_is_there_has_nothing_to_fix(tmp_path: Path) -> None:
    right = (
        f"models: [{{id: {LLAMA}, serviceClass: premium, profiles: [{{accelerator: 2xH100, alpha: 7ms, beta: 1ms, "
        "maxBatchSize: 8}, {accelerator: L40S, alpha: 7ms, beta: 1ms, maxBatchSize: 8}]}]\n"
        "defaults: {accelerator: keep}\n"
        "overrides:\n  - {match: {namespace: ch*, path: prod/**, cluster: prod}, minReplicas: 2, accelerator: h100}\n"
    )
    assert told(tmp_path, {"reconciler.yaml": BASE + right}) == []


PROFILE = "alpha: 7ms, beta: 1ms, maxBatchSize: 8"
WRONG = {
    "defaults: {serviceClass: premum}": ('defaults.serviceClass: no service class "premum", did you mean "premium"?'),
    "defaults: {serviceClass: gold}": ('defaults.serviceClass: no service class "gold": add it under serviceClasses'),
    "defaults: {accelerator: H10O}": 'defaults.accelerator: no accelerator "H10O", did you mean "H100"?',
    "models: [{id: meta-lama/Llama-3.1-8B-Instruct, minReplicas: 2}]": (
        f'models[0].id: no resource serves "meta-lama/Llama-3.1-8B-Instruct", did you mean "{LLAMA}"?'
    ),
    f"models: [{{id: {LLAMA}, serviceClass: premiun}}]": (
        'models[0].serviceClass: no service class "premiun", did you mean "premium"?'
    ),
    f"models: [{{id: {LLAMA}, profiles: [{{accelerator: H1O0, {PROFILE}}}]}}]": (
        'models[0].profiles[0].accelerator: no accelerator "H1O0", did you mean "H100"?'
    ),
    "overrides: [{match: {namespace: chatt}, minReplicas: 2}]": (
        'overrides[0].match.namespace: "chatt" fits nothing, did you mean "chat"?'
    ),
    "overrides: [{match: {name: 'lama*'}, minReplicas: 2}]": (
        'overrides[0].match.name: "lama*" fits nothing, did you mean "llama"?'
    ),
    "overrides: [{match: {cluster: prd}, minReplicas: 2}]": (
        'overrides[0].match.cluster: "prd" fits nothing, did you mean "prod"?'
    ),
    "overrides: [{match: {path: 'dev/**'}, minReplicas: 2}]": 'overrides[0].match.path: "dev/**" fits nothing',
    "overrides: [{match: {labels: {a: b}}, minReplicas: 2}]": "overrides[0].match: no resource fits all of it",
    "overrides: [{match: {name: llama}, accelerator: H10O}]": (
        'overrides[0].accelerator: no accelerator "H10O", did you mean "H100"?'
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_configuration_that_names_nothing_is_an_error_with_the_nearest_name(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, {"reconciler.yaml": f"{BASE}{text}\n"}) == [
        f"reconciler.yaml:6: error: {WRONG[text]} [unknown-reference]"
    ]


def test_a_device_of_a_pool_that_is_none_is_an_error(tmp_path: Path) -> None:
    text = BASE.replace('"prod/**"]}', '"prod/**"]}, pools: [{name: h, device: H10O, devices: 4}]')
    (line,) = told(tmp_path, {"reconciler.yaml": text})
    words = 'clusters[0].pools[0].device: unknown device type, did you mean "H100"'
    assert line.startswith(f"reconciler.yaml:3: error: {words}")


@pytest.mark.parametrize(("key", "severity"), [("include", "error"), ("exclude", "warning")])
def test_a_glob_of_paths_that_fits_no_file_is_told(tmp_path: Path, key: str, severity: str) -> None:
    written = {
        "include": 'include: ["prod/**", "pord/**"]',
        "exclude": 'include: ["prod/**"], exclude: ["pord/**"]',
    }
    text = BASE.replace('include: ["prod/**"]', written[key])
    assert told(tmp_path, {"reconciler.yaml": text}) == [
        f'reconciler.yaml:3: {severity}: clusters[0].paths.{key}: "pord/**" fits no file [unknown-reference]'
    ]


TARGETS = {
    ("Deployment", "lama"): 'error: {}Deployment chat/lama is not in Git, did you mean "llama"?',
    ("Deployment", "far-away"): "warning: {}Deployment chat/far-away is not in Git: it is held",
    ("Deploymnt", "llama"): 'error: {}of kind "Deploymnt", did you mean "Deployment"?',
    ("RayService", "llama"): (
        'warning: {}of kind "RayService", which is none of Deployment, LeaderWorkerSet, ModelServing or StatefulSet: '
        "it is held"
    ),
}


@pytest.mark.parametrize(("kind", "name"), TARGETS)
def test_a_scale_target_that_is_absent_is_told(tmp_path: Path, kind: str, name: str) -> None:
    text = CHAT_VARIANT.replace("kind: Deployment, name: llama", f"kind: {kind}, name: {name}")
    words = TARGETS[kind, name].format("spec.scaleTargetRef: scale target ")
    assert told(tmp_path, {"prod/chat.yaml": text}) == [f"prod/chat.yaml:5: {words} [unknown-reference]"]


def test_a_name_that_another_resource_means_is_not_what_was_meant(tmp_path: Path) -> None:
    other = CHAT_VARIANT.replace("name: llama", "name: llama-b")
    assert "did you mean" not in "".join(told(tmp_path, {"prod/other.yaml": other}))


CLASSES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: service-classes-config, namespace: chat}
data:
  premium: |
    name: Premium
    priority: 1
    data: [{model: m, slo-tpot: 80, slo-ttft: 1000}]
"""


REFERENCES = {
    "name: slo, key: premium": "warning: {}ConfigMap slo, key premium, is not in Git",
    "name: service-class-config, key: premium": (
        'error: {}ConfigMap service-class-config, key premium, is not in Git, did you mean "service-classes-config"?'
    ),
    "name: service-classes-config, key: premum": (
        'error: {}ConfigMap service-classes-config, key premum, is not in Git, did you mean "premium"?'
    ),
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_config_map_of_classes_that_is_absent_is_told(tmp_path: Path, reference: str) -> None:
    text = (
        "apiVersion: llmd.ai/v1alpha1\nkind: VariantAutoscaling\nmetadata: {name: llama, namespace: chat}\nspec:\n"
        f"  modelID: {LLAMA}\n  sloClassRef: {{{reference}}}\n"
        '  modelProfile: {accelerators: [{acc: H100, accCount: 1, alpha: "7", beta: "1", maxBatchSize: 8}]}\n'
    )
    found = told(tmp_path, {"prod/chat.yaml": text, "prod/classes.yaml": CLASSES})
    words = REFERENCES[reference].format("spec.sloClassRef: ")
    assert [line for line in found if "sloClass" in line] == [f"prod/chat.yaml:6: {words} [unknown-reference]"]


BINDING = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: policy, namespace: chat}
spec: {metrics: [{metricName: m, targetValue: 10}]}
---
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: binding, namespace: chat}
spec:
  policyRef: {name: policy}
  homogeneousTarget: {target: {targetRef: {kind: ModelServing, name: absent}}, minReplicas: 1, maxReplicas: 4}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", "ModelServing chat/absent is not in Git"),
        ("kind: ModelServing", "kind: Strange", 'expected "ModelServing", got "Strange"'),
        ("policyRef: {name: policy}", "policyRef: {name: polcy}", 'chat/polcy is not in Git, did you mean "policy"?'),
    ],
)
def test_a_binding_without_a_target_is_listed_as_held(desk: Desk, old: str, new: str, words: str) -> None:
    desk.write("clusters/prod/binding.yaml", BINDING.replace(old, new))
    plan = desk.plan(answering()).plan
    (held,) = [each for each in plan.decisions if each.variant.kind == "AutoscalingPolicyBinding"]
    assert words in str(held.hold)


@pytest.mark.parametrize(("kind", "name"), [("Deployment", "absent"), ("RayService", "llama")])
def test_a_variant_without_a_target_is_listed_as_held(desk: Desk, kind: str, name: str) -> None:
    text = CHAT_VARIANT.replace("kind: Deployment, name: llama", f"kind: {kind}, name: {name}")
    desk.write("clusters/prod/chat/variant.yaml", text)
    (held,) = [each for each in desk.plan(answering()).plan.decisions if each.variant.name == "llama"]
    assert f"scale target {kind} chat/{name} is not in Git" in str(held.hold)


def test_a_model_that_only_fit_knows_is_a_warning(tmp_path: Path) -> None:
    learned = (
        "models:\n  - id: gone\n    profiles:\n"
        "      - {accelerator: H100, alpha: 7ms, beta: 1ms, maxBatchSize: 8, learned: {date: 2026-01-01, "
        "samples: 9, error: 4%, batch: [1, 8], inputTokens: [1, 9], outputTokens: [1, 9]}}\n"
    )
    lines = told(tmp_path, {"reconciler.yaml": BASE + learned})
    assert [line for line in lines if "gone" in line] == [
        'reconciler.yaml:7: warning: models[0].id: no resource serves "gone" [unknown-reference]'
    ]


def test_a_chosen_cluster_is_told_of_its_own_files_alone(desk: Desk) -> None:
    desk.configure(
        'paths: {include: ["clusters/prod/**"]}}\n',
        'paths: {include: ["clusters/prod/**"]}}\n  - {name: dev, paths: {include: ["clusters/dev/**"]}}\n',
    )
    desk.write("clusters/dev/broken.yaml", "kind: Deployment\nspec: [\n")
    desk.write("clusters/dev/variant.yaml", CHAT_VARIANT)
    repo = str(desk.workshop.clone)
    paths = {
        name: {finding.place.path for finding in validate_commit(Flags(repo=repo, clusters=name)).findings}
        for name in ((), ("prod",), ("dev",))
    }
    dev = {"clusters/dev/broken.yaml", "clusters/dev/variant.yaml"}
    assert dev <= paths[()]
    assert dev & paths["prod",] == set()
    assert paths["dev",] == dev
    findings = validate_commit(Flags(repo=repo, clusters=("dev",))).findings
    assert {finding.severity for finding in findings} == {Severity.ERROR, Severity.WARNING}
