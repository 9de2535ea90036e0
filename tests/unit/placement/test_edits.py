"""The place that was found can be edited, and the cluster then gets the new number and nothing else."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.manifests.documents import OpenFile
from reconciler.manifests.editing import edit_file
from reconciler.manifests.edits import Edit, EditRefused, InsertBlock, SetEmbedded, SetScalar
from reconciler.placement.helm import helm_place
from reconciler.placement.objects import ValueOrigin
from reconciler.placement.places import EffectivePlace, NoPatchError, effective_place, overlay_insertion, way_through
from tests.unit.placement.conftest import Build, texts_of

REPLICAS = ("spec", "replicas")
EDITED = [
    "plain",
    "overlay-replicas",
    "patch-strategic-inline",
    "patch-strategic-file",
    "patch-json6902",
    "component",
    "prefix-and-namespace",
    "flux-target-namespace",
    "argo-destination",
    "argo-kustomize-replicas",
    "argo-source-file",
]
IN_VALUES = [
    "helm-release-values",
    "helm-release-config-map",
    "argo-values-object",
    "argo-parameters",
    "argo-values-text",
]


def _edit_of(origin: ValueOrigin, value: int) -> Edit:
    if origin.embedding is None:
        return SetScalar(document=origin.document, field=origin.field, value=value)
    inner = SetScalar(document=origin.inner_document, field=origin.field, value=value)
    return SetEmbedded(document=origin.document, field=origin.embedding, inner=inner)


def _edit(texts: dict[str, str], found: EffectivePlace, value: int) -> dict[str, str]:
    path = found.place.path
    file = OpenFile(path, texts[path].encode())
    return {**texts, path: edit_file(file, [_edit_of(found.origin, value)]).decode()}


def _changed_lines(before: dict[str, str], after: dict[str, str]) -> list[tuple[str, str]]:
    pairs = [(before[path].split("\n"), after[path].split("\n")) for path in before]
    return [pair for old, new in pairs for pair in zip(old, new, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize("name", EDITED)
def test_an_edit_at_the_effective_place_changes_what_the_cluster_gets(name: str, build: Build) -> None:
    before = texts_of(name)
    fleet = build(before)
    (key,) = (key for key in fleet.objects if key.kind == "Deployment")
    found = effective_place(fleet, key)
    assert isinstance(found, EffectivePlace)
    after = _edit(before, found, 17)
    (built,) = build(after).objects[key]
    assert built.value_at(*REPLICAS) == 17
    ((old, new),) = _changed_lines(before, after)
    assert old.replace(str(found.value), "17") == new


@pytest.mark.parametrize("name", IN_VALUES)
def test_an_edit_of_values_is_found_again(name: str, build: Build) -> None:
    before = texts_of(name)
    key = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama-decode")
    found = helm_place(build(before), key, "decode.replicas")
    assert isinstance(found, EffectivePlace)
    after = _edit(before, found, 17)
    again = helm_place(build(after), key, "decode.replicas")
    assert isinstance(again, EffectivePlace)
    assert (str(again.value), again.place) == ("17", found.place)
    assert len(_changed_lines(before, after)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '    patch: "[{op: replace, path: /spec/replicas, value: 3}]"\n',
        "    patch: >-\n      [{op: replace, path: /spec/replicas, value: 3}]\n",
    ],
)
def test_a_number_in_a_text_that_is_no_literal_block_is_found_and_not_edited(build: Build, text: str) -> None:
    files = {
        "deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1}\n",
        "kustomization.yaml": f"resources: [deployment.yaml]\npatches:\n  - target: {{name: a}}\n{text}",
    }
    fleet = build(files)
    found = effective_place(fleet, next(iter(fleet.objects)))
    assert isinstance(found, EffectivePlace)
    with pytest.raises(EditRefused, match="literal block"):
        _edit(files, found, 4)


def test_an_overlay_of_a_shared_base_can_be_given_a_count_of_its_own(build: Build) -> None:
    before = texts_of("two-overlays-of-one-base")
    fleet = build(before)
    built = {each.key.namespace: each for each in fleet.clusters["prod"].objects}
    insertion = overlay_insertion(fleet, built["team-a"])
    assert insertion is not None
    path, text = insertion.document.path, f"- name: {insertion.entry}\n  count: 9\n"
    entry = InsertBlock(document=insertion.document.document, parent=(), key=str(insertion.field[0]), text=text)
    file = OpenFile(path, before[path].encode())
    after = build({**before, path: edit_file(file, [entry]).decode()})
    counts = {each.key.namespace: each.value_at(*REPLICAS) for each in after.clusters["prod"].objects}
    assert counts == {"team-a": 9, "team-b": 2, "team-c": 1}
    assert overlay_insertion(fleet, built["team-c"]) is None


def test_an_overlay_that_is_deployed_twice_is_given_nothing(build: Build) -> None:
    texts = texts_of("two-overlays-of-one-base")
    deployer = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: NAME}\n"
    spec = "spec: {path: prod/a, targetNamespace: NAME}\n"
    texts |= {f"flux/{name}.yaml": (deployer + spec).replace("NAME", name) for name in ("one", "two")}
    fleet = build(texts)
    (built,) = (each for each in fleet.clusters["prod"].objects if each.key.namespace == "one")
    assert overlay_insertion(fleet, built) is None


OBJECT = """\
apiVersion: {version}
kind: {kind}
metadata: {{name: llama}}
spec:
  template:
    spec:
      containers: [{{name: a}}, {{name: b}}]
      volumes: [{{emptyDir: {{}}}}]
      hostAliases: [{{ip: 10.0.0.1, name: a}}]
"""
POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("version", "kind", "path", "way"),
    [
        ("apps/v1", "Deployment", (*POD, "nodeSelector"), (*POD, "nodeSelector")),
        ("apps/v1", "Deployment", (*POD, "containers", 0, "image"), (*POD, "containers", ("a",), "image")),
        ("apps/v1", "Deployment", (*POD, "containers", 1, "image"), (*POD, "containers", ("a", "b"), "image")),
        ("apps/v1", "Deployment", (*POD, "volumes", 0), None),
        ("apps/v1", "Deployment", (*POD, "hostAliases", 0), None),
        ("example.com/v1", "Deployment", (*POD, "containers", 0, "image"), None),
        ("apps/v1", "Rollout", (*POD, "containers", 0, "image"), None),
    ],
)
def test_a_patch_leads_through_lists_that_merge_by_name(
    build: Build, version: str, kind: str, path: tuple[str | int, ...], way: object
) -> None:
    (built,) = build({"a.yaml": OBJECT.format(version=version, kind=kind)}).clusters["prod"].objects
    if way is None:
        with pytest.raises(NoPatchError, match="would replace the whole list"):
            way_through(built, path)
    else:
        assert way_through(built, path) == way
