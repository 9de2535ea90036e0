"""Recordings are shared: what in them may be a secret is left out, or named before anybody sends them."""

import logging
import zipfile

import pytest

from reconciler.domain.recording import ManifestFile
from reconciler.pipeline.recording import read_recording
from reconciler.pipeline.run import find_confidential, prepare, warning_of
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json
from tests.servers.desk import QUIET, Desk
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT

SUSPICIOUS = {
    "generated": ("kustomization.yaml", "secretGenerator:\n  - name: db\n    literals: [password=canary]\n"),
    "values of a chart": ("values.yaml", "image: {tag: v1}\nauth:\n  adminPassword: canary\n"),
    "an object in a text": ("config.yaml", "data:\n  all.yaml: |\n    kind: Secret\n    stringData: {a: canary}\n"),
    "a variable": ("deployment.yaml", "env:\n  - name: HF_TOKEN\n    value: canary\n"),
    "a variable on one line": ("deployment.yaml", "env: [{name: API_KEY, value: canary}]\n"),
    "an argument": ("deployment.yaml", "args: [--api-key=canary]\n"),
    "a token by its shape": ("deployment.yaml", "args: [ghp_0123456789abcdefABCDEF]\n"),
    "a URL with a password": ("source.yaml", "repoURL: https://ann:canary@git.example.com/fleet\n"),
}
HARMLESS = {
    "a reference": "imagePullSecrets:\n  - name: registry\nvolumes: [{secret: {secretName: tls}}]\n",
    "a variable from elsewhere": "env:\n  - name: HF_TOKEN\n    valueFrom: {secretKeyRef: {name: hf, key: token}}\n",
    "numbers": "maxTokens: 512\nbatch_tokens: 2048\nargs: [--max-num-batched-tokens=8192]\n",
    "switches": "automountServiceAccountToken: false\n",
    "nothing in it": "password: ''\ntoken:\nsecret: {}\n",
}


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_what_may_be_a_secret_is_named(name: str) -> None:
    path, text = SUSPICIOUS[name]
    manifest = ManifestFile(path=f"apps/{path}", body=text.encode())
    assert [found for found, _ in find_confidential([manifest])] == [f"apps/{path}"]
    assert "canary" not in warning_of([manifest])


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_none_is_not_named(name: str) -> None:
    assert warning_of([ManifestFile(path="apps/kustomization.yaml", body=HARMLESS[name].encode())]) == ""


def test_of_many_files_a_few_are_named_and_the_rest_counted() -> None:
    manifests = [ManifestFile(path=f"{number}.yaml", body=b"password: x") for number in range(8)]
    assert warning_of(manifests).endswith("4.yaml (a field named like a secret) and 3 more")


def test_keeping_a_recording_says_what_it_holds(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.write(
        "clusters/prod/chat/deployment.yaml",
        CHAT_DEPLOYMENT + b"---\nkind: Service\nmetadata: {annotations: {example.com/password: canary}}\n",
    )
    with caplog.at_level(logging.WARNING):
        desk.plan(QUIET, record=desk.folder / "recording.zip")
    assert "look before you share it: clusters/prod/chat/deployment.yaml (a field named like a secret)" in caplog.text


BROKEN_SECRET = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: canary-in-git\n"


def test_a_secret_that_cannot_be_parsed_is_left_out_with_its_file(desk: Desk) -> None:
    text = CHAT_VARIANT.replace("name: llama", "name: x")
    desk.write("clusters/prod/secret.yaml", text + BROKEN_SECRET)
    path = desk.folder / "recording.zip"
    prepared = desk.plan(QUIET, record=path)
    with zipfile.ZipFile(path) as archive:
        assert not any(b"canary-in-git" in archive.read(name) for name in archive.namelist())
    assert any(finding.place.path == "clusters/prod/secret.yaml" for finding in prepared.plan.findings)
    assert plan_json(prepare(read_recording(path), Renderer()).plan) == plan_json(prepared.plan)
