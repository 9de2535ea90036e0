"""What a commit or a work tree is told, and by which rule."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.config.environment import Flags
from reconciler.domain.identity import Severity
from reconciler.errors import ConfigurationError
from reconciler.pipeline import references as known_names
from reconciler.pipeline import references as synced_configuration
from reconciler.pipeline import validate
from reconciler.pipeline import validate as disk
from reconciler.pipeline.validate import CheckedFiles, validate_commit, validate_paths
from reconciler.resources import objects as undecided
from reconciler.snapshot import variants as cost_order
from tests.servers.desk import Desk
from tests.servers.fleet import CHAT_VARIANT, SETTINGS

APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: fleet, namespace: argocd}
spec: {source: {repoURL: "https://git.example.com/acme/fleet", path: .}}
"""
LACKING = (
    "clusters/prod/code/granite.yaml:9: warning: spec.sloClassRef: ConfigMap service-classes-config, key standard, "
    "is not in Git [unknown-reference]"
)
"""What the sample fleet itself lacks: its class is a configured one."""
PRICED = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: NAME, namespace: chat}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  modelID: meta-llama/Llama-3.1-8B-Instruct
  variantCost: "COST"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: chat}
spec:
  replicas: 1
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: PRODUCT}
      containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


def priced(name: str, product: str, cost: str) -> str:
    return PRICED.replace("NAME", name).replace("PRODUCT", product).replace("COST", cost)


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def lines(checked: CheckedFiles) -> list[str]:
    return [str(finding) for finding in checked.findings]


def rules(checked: CheckedFiles) -> list[str]:
    return [finding.rule for finding in checked.findings]


def on_disk(*paths: Path, **fields: object) -> CheckedFiles:
    return validate_paths(Flags(**fields), paths)  # type: ignore[arg-type]  # the test names the fields it means


def test_the_configuration_on_disk_says_which_cluster_a_file_belongs_to(tmp_path: Path) -> None:
    two = SETTINGS.replace("clusters:\n", 'clusters:\n  - {name: east, paths: {include: ["clusters/east/**"]}}\n')
    write(tmp_path, {"clusters/prod/a.yaml": CHAT_VARIANT, "clusters/east/a.yaml": CHAT_VARIANT})
    assert all("is declared again at" in line for line in lines(on_disk(tmp_path)))
    assert len(on_disk(tmp_path).findings) == 2
    write(tmp_path, {"reconciler.yaml": two})
    assert lines(on_disk(tmp_path / "clusters")) == []
    assert on_disk(tmp_path / "clusters").resources == 2


COUNTED = """\
kind: List
apiVersion: v1
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
  - {apiVersion: v1, kind: Service, metadata: {name: a}}
  - {apiVersion: inference.llmaz.io/v1alpha1, kind: Service, metadata: {name: a}}
  - {apiVersion: v1, kind: Pod, metadata: {name: a}}
---
apiVersion: llmd.ai/v9
kind: VariantAutoscaling
metadata: {name: a}
---
apiVersion: apps/v1
kind: DeploymentList
items: [{metadata: {name: A}, spec: {replicas: 1}}]
"""


def test_every_object_of_a_kind_that_is_read_counts_and_no_other(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": COUNTED})
    assert on_disk(tmp_path).resources == 4


def test_objects_count_as_often_as_they_are_built(tmp_path: Path) -> None:
    base = {"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": PRICED.replace("NAME", "a")}
    write(tmp_path, base)
    assert on_disk(tmp_path).resources == 2
    write(tmp_path, {f"{name}/kustomization.yaml": f"namespace: {name}\nresources: [../base]\n" for name in "xy"})
    assert on_disk(tmp_path).resources == 4
    write(tmp_path, {"base/unlisted.yaml": CHAT_VARIANT})
    assert on_disk(tmp_path).resources == 4


def test_a_file_in_the_paths_of_no_cluster_is_checked_by_itself(tmp_path: Path) -> None:
    write(tmp_path, {"reconciler.yaml": SETTINGS, "trial/a.yaml": f"{CHAT_VARIANT}  someField: 1\n"})
    checked = on_disk(tmp_path / "trial")
    assert (checked.resources, len(checked.findings)) == (1, 1)
    assert on_disk(tmp_path / "trial", clusters=("prod",)).findings == ()


def test_a_configuration_beside_the_paths_is_used_but_not_told_about(tmp_path: Path) -> None:
    write(tmp_path, {"reconciler.yaml": f"{SETTINGS}unknownKey: 1\n", "clusters/prod/a.yaml": CHAT_VARIANT})
    assert lines(on_disk(tmp_path / "clusters")) == []
    assert rules(on_disk(tmp_path)) == ["unknown-reference", "configuration"]


def test_what_a_configuration_extends_is_read_from_disk_beside_it(tmp_path: Path) -> None:
    extending = f"{SETTINGS}extends: [.reconciler/more.yaml]\n"
    header = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
    write(tmp_path, {".git/HEAD": "", "fleet/reconciler.yaml": extending, "fleet/.reconciler/more.yaml": header})
    write(tmp_path, {"other/reconciler.yaml": extending})
    assert lines(on_disk(tmp_path / "fleet")) == []
    (finding,) = on_disk(tmp_path).findings
    assert finding.place.path == "other/reconciler.yaml"
    assert 'no file ".reconciler/more.yaml"' in finding.message


def test_a_finding_in_an_extended_file_names_that_file(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "", "fleet/reconciler.yaml": f"{SETTINGS}extends: [more.yaml]\n"})
    write(tmp_path, {"fleet/more.yaml": "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\nmodel: []\n"})
    (line,) = lines(on_disk(tmp_path))
    assert line == 'fleet/more.yaml:3: error: model: unknown field, did you mean "models"? [configuration]'


@pytest.mark.parametrize("name", ["broken.yaml", "kustomization.yaml"])
def test_a_document_that_cannot_be_parsed_has_a_rule(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "kind: Deployment\n  : [\n"})
    assert rules(on_disk(tmp_path)) == ["unreadable-document"]


def test_the_cap_on_a_file_holds_on_disk_too(tmp_path: Path) -> None:
    write(tmp_path, {"big.yaml": CHAT_VARIANT + "# " + "x" * 2**20, "crds.yaml": "# " + "x" * 2**20})
    (line,) = lines(on_disk(tmp_path))
    assert line.startswith("big.yaml: error: expected at most 1048576 bytes, got ")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"clusters": ("mars",)}, '--cluster: error: no cluster "mars"'),
        ({"prometheus": "prometheus:9090"}, "--prometheus: error: "),
        ({"config_files": (Path("missing.yaml"),)}, "--config missing.yaml: no such file"),
    ],
)
def test_a_wrong_command_line_is_no_finding(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    write(tmp_path, {"reconciler.yaml": SETTINGS, "a.yaml": CHAT_VARIANT})
    for path in (tmp_path, tmp_path / "a.yaml"):
        with pytest.raises(ConfigurationError) as caught:
            on_disk(path, **fields)
        assert message in str(caught.value)


def test_relative_costs_against_prices_are_told_at_their_line(desk: Desk, tmp_path: Path) -> None:
    files = {
        "clusters/prod/chat/big.yaml": priced("big", "NVIDIA-H100-80GB-HBM3", "5"),
        "clusters/prod/chat/small.yaml": priced("small", "NVIDIA-L4", "8"),
    }
    for path, text in files.items():
        desk.write(path, text)
    write(tmp_path / "fleet", {"reconciler.yaml": SETTINGS, **files})
    expected = (
        "clusters/prod/chat/small.yaml:7: warning: spec.variantCost: relative cost 8 ranks it above chat/big (5), "
        "but a replica costs 0.70 against 6.88 USD/h [cost-order-contradicts-prices]"
    )
    assert lines(validate_commit(Flags(repo=str(desk.workshop.clone)))) == [expected, LACKING]
    found = on_disk(tmp_path / "fleet")
    assert [str(finding) for finding in found.findings if finding.rule == cost_order.RULE] == [expected]


def test_annotations_of_canaries_that_cannot_be_believed_are_told_at_their_line(desk: Desk) -> None:
    for name, annotation in (("one", "canary: H200"), ("two", "measured: a lot")):
        own, target = priced(name, "NVIDIA-H100-80GB-HBM3", "5").split("---\n")
        told = f"\n  name: {name}\n  namespace: chat\n  annotations:\n    reconciler.io/{annotation}"
        target = target.replace(f" {{name: {name}, namespace: chat}}", told, 1)
        desk.write(f"clusters/prod/chat/{name}.yaml", f"{own}---\n{target}")
    found = [str(each) for each in validate_commit(Flags(repo=str(desk.workshop.clone))).findings]
    assert [each.partition(": metadata")[0] for each in found if "[canary-annotation]" in each] == [
        "clusters/prod/chat/one.yaml:15: error",
        "clusters/prod/chat/two.yaml:15: error",
    ]


def test_a_synced_configuration_is_told_of_a_commit_and_of_a_whole_work_tree(desk: Desk) -> None:
    desk.write("bootstrap/app.yaml", APPLICATION)
    flags, clone = Flags(repo=str(desk.workshop.clone)), desk.workshop.clone
    finding, lack = validate_commit(flags).findings
    assert str(lack) == LACKING
    assert (finding.rule, str(finding.place)) == ("synced-configuration", "bootstrap/app.yaml:4")
    assert on_disk(clone).findings == (finding, lack)
    assert on_disk(clone / "bootstrap", clone / "reconciler.yaml").findings == ()


def test_a_link_in_a_commit_has_a_rule(desk: Desk) -> None:
    (desk.workshop.clone / "clusters/prod/link.yaml").symlink_to("chat/variant.yaml")
    desk.workshop.commit()
    assert rules(validate_commit(Flags(repo=str(desk.workshop.clone)))) == ["unknown-reference", "unread-file"]


def test_a_field_by_which_nothing_is_decided_is_a_note_that_fails_nothing(desk: Desk, tmp_path: Path) -> None:
    model = "{apiVersion: llmaz.io/v1alpha1, kind: OpenModel, metadata: {name: a}, spec: {familyName: a, ownedBy: us, "
    text = f'{model}source: {{uri: "ollama://a"}}}}}}\n'
    desk.write("clusters/prod/model.yaml", text)
    write(tmp_path / "fleet", {"model.yaml": text})
    for whole in (validate_commit(Flags(repo=str(desk.workshop.clone))), on_disk(tmp_path / "fleet")):
        findings = tuple(finding for finding in whole.findings if str(finding) != LACKING)
        checked = replace(whole, findings=findings)
        assert [finding.place.field for finding in checked.findings] == ["spec.ownedBy", "spec.source.uri"]
        assert {finding.severity for finding in checked.findings} == {Severity.NOTE}
        assert rules(checked) == ["undecided-field"] * 2


@pytest.mark.parametrize(
    "rule",
    [
        validate.CONFIGURATION,
        validate.UNREADABLE,
        disk.UNREAD,
        synced_configuration.SYNCED_CONFIGURATION,
        synced_configuration.COMPARED_STATUS,
        cost_order.RULE,
        undecided.RULE,
        known_names.RULE,
    ],
)
def test_every_rule_of_files_is_documented(rule: str) -> None:
    reference = Path(__file__).parents[3] / ".github" / "docs" / "configuration.md"
    assert f"\n| `{rule}` | " in reference.read_text(encoding="utf-8")


BROKEN = "kind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n"


def test_the_templates_of_a_chart_are_no_documents(tmp_path: Path) -> None:
    files = {"charts/llama/Chart.yaml": "name: llama\n", "charts/llama/templates/a/deployment.yaml": BROKEN}
    write(tmp_path, files)
    assert lines(on_disk(tmp_path)) == []
    write(tmp_path, {"other/templates/deployment.yaml": BROKEN})
    assert len(lines(on_disk(tmp_path))) == 1, "without a chart they are"


def test_a_template_that_a_kustomization_lists_is_a_document(tmp_path: Path) -> None:
    chart = {"charts/llama/Chart.yaml": "name: llama\n", "charts/llama/templates/crd.yaml": BROKEN}
    write(tmp_path, {**chart, "prod/kustomization.yaml": "resources: [../charts/llama/templates/crd.yaml]\n"})
    (line,) = lines(on_disk(tmp_path))
    assert line.startswith("charts/llama/templates/crd.yaml:3: error")


@pytest.mark.parametrize(
    ("attributes", "is_read"),
    [
        ("vendor/** linguist-vendored\n", False),
        ("vendor/ linguist-vendored=true\n", False),
        ("vendor/** linguist-vendored\nvendor/llama.yaml -linguist-vendored\n", True),
        ("vendor/** linguist-vendored=false\n", True),
        ("# vendor/** linguist-vendored\n", True),
        ("other/** linguist-vendored\n", True),
        ("vendor/** text eol=lf\n", True),
    ],
)
def test_what_is_vendored_is_not_read(tmp_path: Path, attributes: str, is_read: bool) -> None:
    write(tmp_path, {"vendor/llama.yaml": BROKEN, ".gitattributes": attributes})
    assert bool(lines(on_disk(tmp_path))) is is_read


def test_what_is_vendored_is_read_where_something_builds_or_deploys_it(tmp_path: Path) -> None:
    vendored = {"vendor/x/llama.yaml": BROKEN, "vendor/y/llama.yaml": BROKEN}
    application = "kind: Application\napiVersion: argoproj.io/v1alpha1\nmetadata: {name: x}\n"
    application += "spec: {source: {path: vendor/x}}\n"
    write(tmp_path, {"vendor/.gitattributes": "* linguist-vendored"})
    write(tmp_path, {**vendored, "app.yaml": application, "prod/kustomization.yaml": "resources: [../vendor/y]\n"})
    write(tmp_path, {"vendor/y/kustomization.yaml": "resources: [llama.yaml]\n", "vendor/z/llama.yaml": BROKEN})
    found = [line.partition(":")[0] for line in lines(on_disk(tmp_path))]
    assert found == ["vendor/x/llama.yaml", "vendor/y/llama.yaml"]


VARIANTS = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}
  modelID: org/llama
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: llama}}
  template:
    metadata: {labels: {app: llama}}
    spec: {containers: [{name: vllm, image: vllm}]}
"""


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["{name: a, scope: {namespace: lm}, approval: {}}"], "rule a has a scope that matches no variant"),
        (["{name: a, approval: {}}", "{name: b, approval: {}}"], "rule a says the same as rule b (rules.yaml:5)"),
        (
            ["{name: a, bounds: {minReplicas: 4}}", "{name: b, bounds: {maxReplicas: 3}}"],
            "rule a leaves llm/llama no number of replicas together with rule b (rules.yaml:5)",
        ),
        (
            ["{name: a, bounds: {maxReplicas: 9}}", "{name: b, bounds: {maxReplicas: 3}}"],
            "rule a is never tight: rule b (rules.yaml:5) is tighter",
        ),
        (["{name: a, stepp: {}}"], 'rules[0].stepp: unknown field, did you mean "step"?'),
        (["{name: a, scope: {namespace: llm}, approval: {}}", "{name: b, step: {down: 1}}"], ""),
    ],
)
def test_what_cannot_be_meant_by_a_rule_is_told_at_its_line(tmp_path: Path, rules: list[str], words: str) -> None:
    head = "apiVersion: reconciler.io/v1alpha1\nkind: "
    (tmp_path / "reconciler.yaml").write_text(f"{head}Configuration\npolicies: [default, rules.yaml]\n")
    (tmp_path / "rules.yaml").write_text(f"{head}Policy\nrules:\n" + "".join(f"  - {each}\n" for each in rules))
    (tmp_path / "llama.yaml").write_text(VARIANTS)
    found = validate_paths(Flags(), [tmp_path]).findings
    told = [str(each) for each in found if each.place.path == "rules.yaml"]
    assert bool(told) is bool(words)
    assert any(words in each and each.startswith("rules.yaml:4: ") for each in told) or not words, told


TEMPLATE = "apiVersion: v1\nkind: KIND\nmetadata:\n  name: {{ .name }}\n"


def severities(checked: CheckedFiles) -> list[str]:
    return [str(finding.severity) for finding in checked.findings]


@pytest.mark.parametrize(("kind", "expected"), [("Deployment", "warning"), ("VariantAutoscaling", "error")])
def test_a_template_that_nobody_renders_is_a_mistake_only_where_it_is_ours(
    tmp_path: Path, kind: str, expected: str
) -> None:
    write(tmp_path, {"hack/x.yaml": TEMPLATE.replace("KIND", kind)})
    assert severities(on_disk(tmp_path)) == [expected]


def test_a_template_that_a_kustomization_lists_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path, {"x/x.yaml": TEMPLATE.replace("KIND", "Deployment")})
    write(tmp_path, {"x/kustomization.yaml": "resources: [x.yaml]\n"})
    assert "error" in severities(on_disk(tmp_path))


@pytest.mark.parametrize(("kind", "expected"), [("User", "warning"), ("StatefulSet", "error")])
def test_what_cannot_be_read_is_a_mistake_where_it_is_of_a_kind_that_is_read(
    tmp_path: Path, kind: str, expected: str
) -> None:
    text = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: Deployment}}\nspec: {{}}\nspec: {{}}\n"
    write(tmp_path, {"x.yaml": text})
    assert severities(on_disk(tmp_path)) == [expected]


def test_what_lies_twice_is_a_mistake_for_sure_only_where_clusters_have_paths(tmp_path: Path) -> None:
    write(tmp_path, {"docs/v1/a.yaml": CHAT_VARIANT, "docs/v2/a.yaml": CHAT_VARIANT})
    assert severities(on_disk(tmp_path)) == ["warning", "warning"]
    beside = CHAT_VARIANT.replace("llama", "qwen")
    write(tmp_path, {"docs/v2/b.yaml": beside, "docs/v2/c.yaml": beside})
    assert severities(on_disk(tmp_path)).count("error") == 2
    (tmp_path / "docs/v2/c.yaml").unlink()
    paths = SETTINGS.replace("clusters:\n", 'clusters:\n  - {name: all, paths: {include: ["docs/**"]}}\n')
    write(tmp_path, {"reconciler.yaml": paths})
    assert severities(on_disk(tmp_path / "docs")).count("error") == 2


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: ${SPEC}\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: ${META}\nspec: {}\n",
        CHAT_VARIANT.partition("spec:")[0] + "spec: ${SPEC}\n",
    ],
)
def test_what_a_substitution_fills_in_is_no_mistake(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"a.yaml": text})
    (finding,) = on_disk(tmp_path).findings
    assert finding.severity == "warning"
    assert finding.message == "filled in by a substitution: it cannot be read from Git"


MODEL = """\
apiVersion: llmaz.io/v1alpha1
kind: OpenModel
metadata: {name: opt-125m}
spec: {familyName: opt, source: {modelHub: {modelID: facebook/opt-125m}}}
"""


def test_what_belongs_to_a_whole_cluster_may_lie_twice_as_well(tmp_path: Path) -> None:
    write(tmp_path, {"docs/vllm/a.yaml": MODEL, "docs/tgi/a.yaml": MODEL})
    assert "error" not in severities(on_disk(tmp_path))
