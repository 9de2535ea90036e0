"""Where a second Deployment is written beside one, and where none can be."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.placement.copies import CopyPlaces
from tests.unit.placement.conftest import Build

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  replicas: 2
  template: {spec: {containers: [{name: vllm, image: "vllm:1"}]}}
"""
KIND = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
LISTING = f"{KIND}namespace: llm\nresources: [llama.yaml]\n"


def found(build: Build, files: dict[str, str], namespace: str = "llm", **clusters: list[str]) -> object:
    fleet = build(files, clusters or None)
    key = ResourceKey(cluster=next(iter(clusters), "prod"), namespace=namespace, kind="Deployment", name="llama")
    built = fleet.find(key)
    assert built is not None
    place = CopyPlaces(fleet).find(built)
    return place.reason or (place.directory, place.kustomization, place.listed)


def test_a_plain_file_gets_one_beside_it(build: Build) -> None:
    assert found(build, {"apps/llama.yaml": DEPLOYMENT}, "default") == ("apps", "", ())


def test_a_kustomization_lists_it(build: Build) -> None:
    files = {"apps/llama.yaml": DEPLOYMENT, "apps/kustomization.yaml": LISTING}
    assert found(build, files) == ("apps", "apps/kustomization.yaml", ("llama.yaml",))


def test_an_overlay_that_sets_only_namespace_and_count_lists_it(build: Build) -> None:
    overlay = f"{KIND}namespace: llm\nresources: [../base]\nreplicas: [{{name: llama, count: 5}}]\n"
    base = f"{KIND}resources: [llama.yaml]\n"
    files = {"base/llama.yaml": DEPLOYMENT, "base/kustomization.yaml": base, "prod/kustomization.yaml": overlay}
    assert found(build, files) == ("prod", "prod/kustomization.yaml", ("../base",))


def test_what_an_overlay_changes_would_be_missing_in_a_copy(build: Build) -> None:
    patched = f"{LISTING}images: [{{name: vllm, newTag: '2'}}]\n"
    files = {"apps/llama.yaml": DEPLOYMENT, "apps/kustomization.yaml": patched}
    assert "changes what apps/llama.yaml says of it" in str(found(build, files))


def test_an_item_of_a_list_is_not_copied(build: Build) -> None:
    items = "".join(f"    {line}\n" for line in DEPLOYMENT.splitlines())
    listed = "apiVersion: v1\nkind: List\nitems:\n  -\n" + items
    assert "as a document of its own" in str(found(build, {"apps/list.yaml": listed}, "default"))


def test_what_two_clusters_build_is_not_copied(build: Build) -> None:
    base = f"{KIND}resources: [llama.yaml]\n"
    overlay = f"{KIND}namespace: llm\nresources: [../../base]\n"
    files = {
        "base/llama.yaml": DEPLOYMENT,
        "base/kustomization.yaml": base,
        "clusters/a/kustomization.yaml": overlay,
        "clusters/b/kustomization.yaml": overlay,
    }
    assert "is built more than once" in str(found(build, files, a=["clusters/a/**"], b=["clusters/b/**"]))


CLAIM = """\
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: weights}
spec: {accessModes: MODES, resources: {requests: {storage: 90Gi}}}
"""
MOUNTED = "volumes: [{name: models, persistentVolumeClaim: {claimName: weights}}], containers:"


@pytest.mark.parametrize(
    ("modes", "is_lone"),
    [("[ReadWriteOnce]", True), ("[ReadWriteOncePod]", True), ("[ReadOnlyMany]", False), ("[ReadWriteMany]", False)],
)
def test_no_copy_takes_a_volume_that_one_node_may_mount(build: Build, modes: str, *, is_lone: bool) -> None:
    text = DEPLOYMENT.replace("containers:", MOUNTED) + CLAIM.replace("MODES", modes)
    for files in ({"apps/llama.yaml": text}, {"apps/llama.yaml": text, "apps/kustomization.yaml": LISTING}):
        reason = found(build, files, "llm" if len(files) > 1 else "default")
        assert ("accessModes of claim weights let one node mount it" in str(reason)) is is_lone
