"""The place that was found can be edited, and the cluster then gets the new number and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.manifests.documents import OpenFile
from reconciler.manifests.editing import edit_file
from reconciler.manifests.edits import Edit, EditRefused, InsertBlock, SetEmbedded, SetScalar
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place
from reconciler.placement.objects import ValueOrigin
from reconciler.placement.places import EffectivePlace, effective_place, overlay_insertion

Build = Callable[..., Fleet]
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


def _texts(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.yaml"))}


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
def test_an_edit_at_the_effective_place_changes_what_the_cluster_gets(name: str, build: Build, cases: Path) -> None:
    before = _texts(cases / name / "before")
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
def test_an_edit_of_values_is_found_again(name: str, build: Build, cases: Path) -> None:
    before = _texts(cases / name / "before")
    keys = [ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name=name) for name in ("llama-decode",)]
    found = helm_place(build(before), keys[0], "decode.replicas")
    assert isinstance(found, EffectivePlace)
    after = _edit(before, found, 17)
    again = helm_place(build(after), keys[0], "decode.replicas")
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


def test_an_overlay_of_a_shared_base_can_be_given_a_count_of_its_own(build: Build, cases: Path) -> None:
    before = _texts(cases / "two-overlays-of-one-base" / "before")
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


def test_an_overlay_that_is_deployed_twice_is_given_nothing(build: Build, cases: Path) -> None:
    texts = _texts(cases / "two-overlays-of-one-base" / "before")
    deployer = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: NAME}\n"
    spec = "spec: {path: prod/a, targetNamespace: NAME}\n"
    texts |= {f"flux/{name}.yaml": (deployer + spec).replace("NAME", name) for name in ("one", "two")}
    fleet = build(texts)
    (built,) = (each for each in fleet.clusters["prod"].objects if each.key.namespace == "one")
    assert overlay_insertion(fleet, built) is None
