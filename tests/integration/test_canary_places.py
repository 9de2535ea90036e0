"""Where the file of a canary goes: what it is added to still builds, by others' tools, and has one object more."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.domain.snapshot import Variant
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import OpenFile, Value, mapping_of, parse_documents
from reconciler.pipeline.draft import Checker
from reconciler.pipeline.edits import Editor, Sheet, sheet_of, write_edits
from reconciler.rendering.renderer import Renderer
from tests.integration.test_kustomize import render
from tests.unit.pipeline.test_canary_copies import DEPLOYMENT, PROFILED, planned, refusal, written

pytestmark = pytest.mark.integration

NAME = "chat-canary-h100"
CHAT = f"{PROFILED}---\n{DEPLOYMENT}"
KIND = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
BASE = {"base/chat.yaml": CHAT, "base/kustomization.yaml": f"{KIND}resources: [chat.yaml]\n"}
COMPONENT = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamespace: llm\n"
PART = {"part/kustomization.yaml": COMPONENT}
BESIDE = {"app/chat.yaml": CHAT}
KUSTOMIZATIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "a list": (f"{KIND}resources:\n  - chat.yaml\n", BESIDE),
    "a list that is not indented": ("resources:\n- chat.yaml\nnamespace: llm\n", BESIDE),
    "a list on one line": (f"{KIND}resources: [chat.yaml]\n", BESIDE),
    "a list in brackets": ("resources: [\n  './chat.yaml', # the model\n  ]\nnamespace: llm\n", BESIDE),
    "comments": (
        "# Ours\nresources:\n  # the model\n  - chat.yaml  # one\n  # - other.yaml\n\n# All of it\nnamespace: llm\n",
        BESIDE,
    ),
    "JSON": ('{"resources": ["chat.yaml"], "namespace": "llm"}\n', BESIDE),
    "other line ends": ("resources:\r\n  - chat.yaml\r\nnamespace: llm\r\n", BESIDE),
    "no line end": (f"{KIND}resources:\n  - chat.yaml", BESIDE),
    "a directory": (f"{KIND}resources:\n  - ../base\n", BASE),
    "bases": ("bases:\n  - ../base\nnamespace: llm\n", BASE),
    "bases and an empty list": ("bases: [../base]\nresources: []\nnamespace: llm\n", BASE),
    "bases and an empty key": ("bases: [../base]\nresources:\n# none yet\nnamespace: llm\n", BASE),
    "a component": (f"{KIND}resources:\n  - chat.yaml\ncomponents:\n  - ../part\n", {**BESIDE, **PART}),
    "what a component adds": (
        f"{KIND}components:\n  - ../part\n",
        {"part/chat.yaml": CHAT, "part/kustomization.yaml": f"{COMPONENT}resources: [chat.yaml]\n"},
    ),
}


def added(files: Mapping[str, str]) -> tuple[dict[str, bytes], str]:
    """The files that a pull request for the canary writes, and what would be wrong with it."""
    recording, canary = planned(files)
    assert isinstance(canary, Variant), canary
    assert canary.copied is not None
    bodies, place = {each.path: each.body for each in recording.manifests}, canary.copied.place

    def open_sheet(reference: DocumentRef) -> Sheet:
        return sheet_of(OpenFile(reference.path, bodies[reference.path]).documents_near(reference.document), reference)

    new = written(recording, canary)
    if place.kustomization:
        listing = DocumentRef(path=place.kustomization, document=place.kustomization_document)
        edits = Editor(renderer=Renderer()).listing_edits(f"{NAME}.yaml", listing, place.listed, open_sheet)
        new[listing.path] = write_edits(listing.path, bodies[listing.path], edits)
    found = dict(Checker(recording=recording).find_differences(new, [canary]))
    return new, found.get(canary.key, "")


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, body in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(body)


def built(folder: Path) -> dict[tuple[str, str], Value]:
    """What the real tool makes of it, by kind and name."""
    made = render(folder / "app")
    assert made.returncode == 0, made.stderr
    objects = [mapping_of(document.value) for document in parse_documents("built", made.stdout.encode())]
    return {(str(each["kind"]), str(mapping_of(each["metadata"])["name"])): dict(each) for each in objects}


@pytest.mark.parametrize(("kustomization", "files"), KUSTOMIZATIONS.values(), ids=KUSTOMIZATIONS)
def test_a_kustomization_builds_one_object_more(kustomization: str, files: Mapping[str, str], tmp_path: Path) -> None:
    whole = {**files, "app/kustomization.yaml": kustomization}
    write(tmp_path, {path: text.encode() for path, text in whole.items()})
    before = built(tmp_path)
    new, difference = added(whole)
    assert difference == ""
    write(tmp_path, new)
    after = built(tmp_path)
    canary = after.pop(("Deployment", NAME))
    assert before == after
    assert mapping_of(canary)["spec"] != mapping_of(before["Deployment", "chat"])["spec"]
    kept = kustomization.splitlines()
    lines = (tmp_path / "app/kustomization.yaml").read_text().splitlines()
    assert len([line for line in kept if line not in lines]) <= 1


ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: chat, namespace: argocd}}
spec:
  source: {{repoURL: fleet, path: app, directory: {directory}}}
  destination: {{name: in-cluster, namespace: llm}}
"""
FLUX = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: chat, namespace: flux-system}
spec: {path: ./app, sourceRef: {kind: GitRepository, name: flux-system}, interval: 10m}
"""


@pytest.mark.parametrize(
    ("deployer", "path"),
    [
        (ARGO.format(directory="{}"), "app/chat.yaml"),
        (ARGO.format(directory="{recurse: false}"), "app/chat.yaml"),
        (ARGO.format(directory="{recurse: true}"), "app/models/chat.yaml"),
        (ARGO.format(directory="{include: 'chat*.yaml', exclude: '*.json'}"), "app/chat.yaml"),
        (FLUX, "app/chat.yaml"),
        (FLUX, "app/models/chat.yaml"),
    ],
)
def test_a_deployer_applies_what_is_beside_the_first(deployer: str, path: str) -> None:
    new, difference = added({"deployer.yaml": deployer, path: CHAT})
    assert (list(new), difference) == ([path.replace("chat.yaml", f"{NAME}.yaml")], "")


@pytest.mark.parametrize(
    "directory", ["{include: chat.yaml}", "{exclude: '*canary*'}", "{recurse: true, include: '{chat.yaml,form.yaml}'}"]
)
def test_one_that_a_deployer_would_leave_out_is_told(directory: str) -> None:
    _, difference = added({"deployer.yaml": ARGO.format(directory=directory), "app/chat.yaml": CHAT})
    assert difference == "would not be applied"


def test_one_that_a_patch_for_others_would_change_is_told() -> None:
    patch = "[{op: add, path: /spec/minReadySeconds, value: 9}]"
    patches = f'patches: [{{target: {{kind: Deployment, name: "chat-.*"}}, patch: "{patch}"}}]\n'
    kustomization = f"{KIND}resources: [chat.yaml]\n{patches}"
    _, difference = added({**BESIDE, "app/kustomization.yaml": kustomization})
    assert difference.startswith("would not be what is written: app changes what app/chat-canary-h100.yaml says of it")


def test_where_flux_enters_a_kustomization_that_lists_it() -> None:
    inner = {"app/chat/chat.yaml": CHAT, "app/chat/kustomization.yaml": f"{KIND}resources: [chat.yaml]\n"}
    assert "could list a copy" in refusal({"deployer.yaml": FLUX, **inner})
