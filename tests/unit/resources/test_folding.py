"""Many files, one declaration: duplicates, disagreements, clusters."""

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.identity import Severity
from reconciler.domain.snapshot import Form
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import Declaration, FileDeclaration, merge
from reconciler.resources.reading import read_file

Declare = Callable[..., Declaration]

VARIANT = """apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: NAME, namespace: llm, labels: {inference.optimization/acceleratorName: L4}}
spec: {modelID: m}
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME, namespace: llm}\nspec: {replicas: 2}\n"
COSTS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: accelerator-unit-costs, namespace: NAME}\ndata: {L4: '1'}\n"


def read(files: Mapping[str, str], cluster: str = "prod") -> list[FileDeclaration]:
    return [read_file(cluster, path, parse_documents(path, text.encode())) for path, text in files.items()]


def test_two_resources_of_one_name_are_broken_in_both_places(declare: Declare) -> None:
    text = VARIANT.replace("NAME", "a")
    declaration = declare({"a.yaml": text, "b.yaml": text, "c.yaml": VARIANT.replace("NAME", "c")})
    assert [variant.key.name for variant in declaration.variants] == ["c"]
    assert [str(finding) for finding in declaration.findings] == [
        "a.yaml:1: error: metadata.name: VariantAutoscaling llm/a is declared again at b.yaml:1: keep one",
        "b.yaml:1: error: metadata.name: VariantAutoscaling llm/a is declared again at a.yaml:1: keep one",
    ]
    assert [str(broken.place) for broken in declaration.broken] == ["a.yaml:1", "b.yaml:1"]


def test_two_deployments_of_one_name_are_a_mistake_when_a_variant_means_them(declare: Declare) -> None:
    files = {"a.yaml": DEPLOYMENT.replace("NAME", "a"), "b.yaml": DEPLOYMENT.replace("NAME", "a")}
    alone = declare(files)
    assert {finding.severity for finding in alone.findings} == {Severity.WARNING}
    assert not alone.workloads
    assert len(alone.broken) == 2
    meant = declare(files | {"v.yaml": VARIANT.replace("NAME", "a")})
    assert {finding.severity for finding in meant.findings} == {Severity.ERROR}


def test_one_name_in_two_clusters_is_no_duplicate() -> None:
    files = {"a.yaml": VARIANT.replace("NAME", "a")}
    declaration = merge([*read(files, "east"), *read(files, "west"), *read({"b.yaml": "{}"}, "east")])
    assert [variant.key.cluster for variant in declaration.variants] == ["east", "west"]
    assert declaration.shared_paths == {"a.yaml"}
    assert declaration.files == 2


def test_entries_that_say_the_same_count_once_and_others_not_at_all(declare: Declare) -> None:
    files = {"a.yaml": COSTS.replace("NAME", "a"), "b.yaml": COSTS.replace("NAME", "b")}
    assert len(declare(files).costs["prod"]) == 1
    differing = declare({"a.yaml": files["a.yaml"], "b.yaml": files["b.yaml"].replace("'1'", "'2'")})
    assert differing.costs["prod"] == ()
    assert [finding.message for finding in differing.findings] == [
        "differs from b.yaml:4: neither is used",
        "differs from a.yaml:4: neither is used",
    ]


@given(st.permutations(range(5)))
def test_the_order_of_files_does_not_matter(order: list[int]) -> None:
    texts = [VARIANT, VARIANT, DEPLOYMENT, COSTS, COSTS.replace("'1'", "cheap")]
    files = read({f"{index}.yaml": text.replace("NAME", "a") for index, text in enumerate(texts)})
    assert merge([files[index] for index in order]) == merge(files)


EARLY = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama, namespace: llm, labels: {inference.optimization/acceleratorName: A100}}
spec:
  modelID: org/llama
  variantCost: "12.5"
  sloClassRef: {name: classes, key: standard}
  modelProfile:
    accelerators:
      - acc: A100
        accCount: 1
        maxBatchSize: 64
        perfParms: {decodeParms: {alpha: "7", beta: "0.04"}, prefillParms: {gamma: "5", delta: "0.1"}}
"""


def test_the_shape_that_has_a_class_a_profile_and_a_cost_is_read() -> None:
    declaration = merge(read({"a.yaml": EARLY}, "east"))
    (variant,) = declaration.variants
    assert (variant.form, variant.variant_cost, len(variant.profiles)) == (Form.PROFILE, 12.5, 1)
    assert variant.slo_class_ref is not None
    assert declaration.findings == ()
