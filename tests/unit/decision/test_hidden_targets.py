"""Scale targets that nobody reads: the hold says where they may be."""

import pytest

from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.variants import declared_variants

VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama, namespace: llm, labels: {inference.optimization/acceleratorName: H100}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}
  modelID: org/llama
"""
REMOTE = "resources: ['https://github.com/acme/base//llama?ref=v1']\n"
CHART = "helmCharts: [{name: vllm, repo: 'https://example.com', releaseName: llama}]\n"
SETTINGS = Settings(clusters=(ClusterSettings(name="prod"),))


def hold_of(files: dict[str, str]) -> str:
    manifests = [ManifestFile(path=path, body=text.encode()) for path, text in files.items()]
    declaration = read_declaration(manifests, (), SETTINGS, files)
    (variant,) = declared_variants(SETTINGS, declaration)
    return variant.hold.words if variant.hold is not None else ""


MISSING = "scale target Deployment llm/llama is not in Git"


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        (
            {"prod/kustomization.yaml": REMOTE.replace("]", ", va.yaml]"), "prod/va.yaml": VARIANT},
            '"https://github.com/acme/base//llama?ref=v1" is not read: nothing is fetched',
        ),
        (
            {"prod/kustomization.yaml": f"namespace: llm\n{CHART}", "va.yaml": VARIANT},
            "the objects of a chart are not read: no chart is rendered",
        ),
    ],
)
def test_what_is_not_read_may_hold_a_missing_target(files: dict[str, str], cause: str) -> None:
    line = 2 if "chart" in cause else 1
    assert hold_of(files) == f"{MISSING}, but perhaps in this: {cause} (prod/kustomization.yaml:{line})"


def test_what_is_not_read_elsewhere_is_no_cause() -> None:
    other = {"other/kustomization.yaml": f"namespace: other\n{CHART}", "va.yaml": VARIANT}
    assert hold_of(other) == MISSING


DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama, namespace: llm}\nspec: {replicas: 1}\n"


def declared(files: dict[str, str]) -> Declaration:
    manifests = [ManifestFile(path=path, body=text.encode()) for path, text in files.items()]
    return read_declaration(manifests, (), SETTINGS, files)


def test_what_overlays_build_twice_is_told_by_their_names() -> None:
    base = {"base/kustomization.yaml": "resources: [llama.yaml, va.yaml]\n", "base/llama.yaml": DEPLOYMENT}
    overlays = {f"{name}/kustomization.yaml": "resources: [../base]\n" for name in ("east", "west")}
    found = {str(each) for each in declared({**base, **overlays, "base/va.yaml": VARIANT}).findings}
    cure = "is built by east, west: keep one, or name the cluster of each in clusters[].paths"
    assert found == {f"base/va.yaml:1: error: metadata.name: VariantAutoscaling llm/llama {cure}"}, "of two Deployments"


def test_a_service_of_kubernetes_is_no_variant_that_is_held() -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: llama, namespace: llm}\n"
    files = {"prod/kustomization.yaml": "resources: [service.yaml, missing.yaml]\n", "prod/service.yaml": service}
    assert declared(files).broken == ()
