"""The manifest of a canary: what it has of the original, and that every reader of YAML reads the same in it."""

import io
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from reconciler.domain.snapshot import Variant
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, parse_documents
from tests.servers.manifests import objections
from tests.unit.pipeline.test_canary_copies import DEPLOYMENT, PLAYED, PLAYGROUND, PROFILED, planned, refusal, written

AMBIGUOUS = (
    *("1e5", "1e-3", "12e03", "1E5", "08", "010", "0o17", "0x1F", "0b11", "1_000", "1:30", "190:20:30", "+1", "-0"),
    *("1.", ".5", "+.inf", ".NaN", "685_230.15", "6.02e+23", "12e", "e5", "inf", "nan", "Infinity"),
    *("y", "Y", "n", "N", "yes", "No", "on", "Off", "true", "FALSE", "~", "null", "Null", "NULL", ""),
    *("2001-12-14", "2001-12-14t21:59:43.10-05:00", "=", "<<", "-", "--", "---", "...", "?", ": ", "a: b", "a #b"),
    *("#a", "&a", "*a", "!a", "!!int 3", "%a", "@a", "`a`", "|", ">", "[a", "{a", "]", "}", ",", "'", '"', "\\", " a"),
    *("a ", "\ta", "a\n", "a\nb", "\na", "a\n\n", "  a\n b", "a\n\tb", "a \nb", "a\r\nb", "\u0085", "\u2028", "\ufeff"),
    *("大", "大\n小\n", "\U0001f600", "\u202e", "\u200b", "\x00x\x07", "\x7f", "\xa0", "a" * 200, "a b " * 400),
)
"""Texts that some reader takes for something else, or that are hard to write."""
HEAD, _, POD = DEPLOYMENT.partition("  template:\n")


def deployment(*, metadata: str = "", spec: str = "", labels: str = "app: chat", env: str = "[]", pod: str = "") -> str:
    """A manifest with a few fields of its own."""
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: chat\n  namespace: llm\n{metadata}"
        f"spec:\n  replicas: 4\n{spec or '  selector: {matchLabels: {app: chat}}'}\n  template:\n    metadata:\n"
        f"      labels: {{{labels}}}\n    spec:\n{pod}      containers:\n        - name: vllm\n"
        f'          image: "vllm/vllm-openai:v0.11.0"\n          resources: {{limits: {{nvidia.com/gpu: "1"}}}}\n'
        f"          env: {env}\n"
    )


def copied(manifest: str) -> str:
    """The text of its canary."""
    recording, canary = planned({"chat.yaml": f"{PROFILED}---\n{manifest}"})
    assert isinstance(canary, Variant), canary
    ((path, body),) = written(recording, canary).items()
    assert path == "chat-canary-h100.yaml"
    return body.decode()


def fields(manifest: str) -> Mapping[str, Value]:
    """What the text of its canary says."""
    (document,) = parse_documents("canary.yaml", copied(manifest).encode())
    assert isinstance(document.value, dict)
    return document.value


def at(value: object, *path: str | int) -> object:
    """A field of a manifest; None without one."""
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        else:
            value = value[part] if isinstance(value, list) and isinstance(part, int) else None
    return value


class _Quoting(yaml.SafeDumper):
    """Writes a manifest in which each text is quoted, hidden characters as escapes."""

    def ignore_aliases(self, data: object) -> bool:
        return data is not None


_Quoting.add_representer(str, lambda writer, text: writer.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def dumped(manifest: object) -> str:
    """Its YAML, which leaves nothing to a reader."""
    return yaml.dump(manifest, Dumper=_Quoting, sort_keys=False)


def everywhere(texts: Mapping[str, str]) -> str:
    """A manifest with these texts as values of the environment and of annotations."""
    manifest = yaml.safe_load(deployment())
    manifest["metadata"]["annotations"] = {f"acme.io/{name}": text for name, text in texts.items()}
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": name, "value": text} for name, text in texts.items()]
    return dumped(manifest)


def env_of(value: object) -> Mapping[str, object]:
    items = cast("list[Mapping[str, object]]", at(value, "spec", "template", "spec", "containers", 0, "env"))
    return {str(each["name"]): each["value"] for each in items}


NAMED = {f"V{number}": text for number, text in enumerate(AMBIGUOUS)}


def read_by_1_2(text: str) -> object:
    """What a reader of YAML 1.2 finds."""
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


def test_every_reader_finds_the_same_texts() -> None:
    text = copied(everywhere(NAMED))
    for value in (yaml.safe_load(text), read_by_1_2(text)):
        assert env_of(value) == NAMED
        kept = cast("Mapping[str, object]", at(value, "metadata", "annotations"))
        assert {key: each for key, each in kept.items() if key.startswith("acme.io/")} == {
            f"acme.io/{name}": each for name, each in NAMED.items()
        }


@pytest.mark.skipif(which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_finds_the_same_texts(tmp_path: Path) -> None:
    path = tmp_path / "canary.yaml"
    path.write_text(copied(everywhere(NAMED)), encoding="utf-8")
    command = ["kubectl", "label", "--local", "--output=json", f"--filename={path}", "read=yes"]
    found = subprocess.run(command, capture_output=True, check=True, timeout=60, env={"HOME": str(tmp_path)})
    assert env_of(json.loads(found.stdout)) == NAMED


def test_what_nobody_can_mistake_is_not_quoted_and_long_texts_keep_their_lines() -> None:
    text = copied(everywhere({"PLAIN": "meta-llama/Llama-3.1-8B", "LINES": "{% if a %}\n  b: 1\n{% endif %}\n"}))
    assert "value: meta-llama/Llama-3.1-8B\n" in text
    assert "value: |\n" in text
    assert 'image: "vllm/vllm-openai:v0.11.0"\n' in text


def test_hidden_characters_are_told() -> None:
    text = copied(everywhere({"TURNED": "a\u202eb", "NOTHING": "a\u200bb", "TEXT": "大"}))
    assert ('"a\\u202Eb"' in text, '"a\\u200Bb"' in text, '"大"' in text) == (True, True, True)
    assert text.isprintable() is False  # line breaks
    assert text.replace("\n", "").isprintable()


def test_anchors_and_merge_keys_are_written_out() -> None:
    manifest = deployment(
        metadata="  annotations: &notes {acme.io/a: &text '1e5', acme.io/b: *text}\n",
        env="[&one {name: A, value: '08'}, {<<: *one, name: B}, *one]",
    ).replace("    metadata:\n", "    metadata:\n      annotations: {<<: *notes, acme.io/c: 'on'}\n")
    text = copied(manifest)
    assert ("&" in text, "*" in text, "<<" in text) == (False, False, False)
    assert at(fields(manifest), "spec", "template", "metadata", "annotations") == {
        "acme.io/a": "1e5",
        "acme.io/b": "1e5",
        "acme.io/c": "on",
    }
    items = cast("list[object]", at(fields(manifest), "spec", "template", "spec", "containers", 0, "env"))
    assert items == [{"name": "A", "value": "08"}, {"name": "B", "value": "08"}, {"name": "A", "value": "08"}]


def test_a_short_text_that_would_become_a_huge_one_is_refused() -> None:
    many = ", ".join(["*long"] * 3000)
    manifest = deployment(
        metadata=f"  annotations: {{acme.io/a: &long '{'x' * 1000}'}}\n", pod=f"      many: [{many}]\n"
    )
    with pytest.raises(InputError, match="1048576 bytes"):
        copied(manifest)


VARIANT = "llm-d.ai/variant"


def selects(selector: object, labels: Mapping[str, object]) -> bool:
    """Whether a selector of Kubernetes selects pods with these labels."""
    wanted = cast("Mapping[str, object]", at(selector, "matchLabels") or {})
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    for each in cast("list[Mapping[str, object]]", at(selector, "matchExpressions") or []):
        key, values = str(each["key"]), cast("list[object]", each.get("values") or [])
        meets = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not meets[str(each["operator"])]:
            return False
    return True


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ("matchLabels: {app: chat}", "app: chat"),
        (f"matchLabels: {{app: chat, {VARIANT}: chat}}", f"app: chat, {VARIANT}: chat"),
        (f"matchExpressions: [{{key: {VARIANT}, operator: In, values: [chat]}}]", f"app: chat, {VARIANT}: chat"),
        ("matchExpressions: [{key: app, operator: In, values: [chat]}]", "app: chat"),
        ("matchLabels: {app: chat}, matchExpressions: [{key: tier, operator: DoesNotExist}]", "app: chat"),
        (
            "matchLabels: {app: chat}, matchExpressions: [{key: reconciler.io/canary, operator: DoesNotExist}]",
            "app: chat",
        ),
    ],
)
def test_a_canary_selects_its_own_pods_and_no_others(selector: str, labels: str) -> None:
    manifest = deployment(spec=f"  selector: {{{selector}}}", labels=labels)
    original, canary = yaml.safe_load(manifest), fields(manifest)
    pods = [
        cast("Mapping[str, object]", at(each, "spec", "template", "metadata", "labels")) for each in (original, canary)
    ]
    assert objections(dict(canary)) == []
    assert selects(at(original, "spec", "selector"), pods[0])
    assert [selects(at(canary, "spec", "selector"), each) for each in pods] == [False, True]
    assert pods[1] == {**pods[0], **({VARIANT: "chat-canary-h100"} if VARIANT in pods[0] else {}), **OWN}


OWN = {"reconciler.io/canary": "chat-canary-h100"}


def test_no_label_says_that_it_is_the_first_or_runs_on_its_accelerator() -> None:
    label = "inference.optimization/acceleratorName"
    manifest = deployment(
        metadata=f"  labels: {{{VARIANT}: chat, {label}: A100, team: search}}\n",
        labels=f"app: chat, {label}: A100",
    )
    canary = fields(manifest)
    assert at(canary, "metadata", "labels") == {VARIANT: "chat-canary-h100", "team": "search"}
    assert at(canary, "spec", "template", "metadata", "labels") == {"app": "chat", **OWN}


KEPT = {
    "argocd.argoproj.io/sync-wave": "5",
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    "kustomize.toolkit.fluxcd.io/substitute": "disabled",
    "acme.io/owner": "search",
}
DROPPED = {
    "argocd.argoproj.io/tracking-id": "llm:apps/Deployment:llm/chat",
    "argocd.argoproj.io/installation-id": "one",
    "deployment.kubernetes.io/revision": "7",
    "helm.sh/resource-policy": "keep",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "kustomize.toolkit.fluxcd.io/checksum": "abc",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
    "kustomize.toolkit.fluxcd.io/ssa": "Merge",
    "meta.helm.sh/release-name": "chat",
    "meta.helm.sh/release-namespace": "llm",
    "reconciler.io/max-replicas": "9",
}


@pytest.mark.parametrize("kind", ["Deployment", "Playground"])
def test_what_a_cluster_or_a_deployer_wrote_of_the_first_is_not_copied(kind: str) -> None:
    metadata = {
        "uid": "0d5f2c9e",
        "resourceVersion": "12",
        "generation": 3,
        "creationTimestamp": "2026-09-07T10:00:00Z",
        "selfLink": "/apis",
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}],
        "finalizers": ["acme.io/wait"],
        "labels": {
            "app.kubernetes.io/instance": "chat",
            "app.kubernetes.io/managed-by": "Helm",
            "argocd.argoproj.io/instance": "llm",
            "helm.sh/chart": "chat-1.2.3",
            "helm.toolkit.fluxcd.io/name": "chat",
            "kustomize.toolkit.fluxcd.io/name": "llm",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            "team": "search",
        },
        "annotations": {
            **KEPT,
            **DROPPED,
            "argocd.argoproj.io/sync-options": "Prune=false, ServerSideApply=true,Delete=confirm",
        },
    }
    manifest = yaml.safe_load(PLAYGROUND if kind == "Playground" else deployment(pod="      nodeName: node-a100-7\n"))
    manifest = json.dumps({**manifest, "metadata": {**manifest["metadata"], **metadata}, "status": {"replicas": 4}})
    files = {**PLAYED, "play.yaml": manifest} if kind == "Playground" else {"chat.yaml": f"{PROFILED}---\n{manifest}"}
    recording, canary = planned(files)
    assert isinstance(canary, Variant), canary
    (document,) = parse_documents("a.yaml", written(recording, canary)["chat-canary-h100.yaml"])
    assert isinstance(document.value, dict)
    assert list(document.value) == ["apiVersion", "kind", "metadata", "spec"]
    found = cast("Mapping[str, Mapping[str, object]]", document.value["metadata"])
    assert found["labels"] == {"app.kubernetes.io/instance": "chat", "team": "search"}
    assert found.keys() == {"name", "namespace", "labels", "annotations"}
    own = {key: each for key, each in found["annotations"].items() if not key.startswith("reconciler.io/")}
    assert own == {**KEPT, "argocd.argoproj.io/sync-options": "ServerSideApply=true"}
    assert at(document.value, "spec", "template", "spec", "nodeName") is None


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (deployment(metadata="  annotations: {argocd.argoproj.io/hook: PostSync}\n"), "argocd.argoproj.io/hook"),
        (deployment(metadata="  annotations: {helm.sh/hook: post-install}\n"), "helm.sh/hook"),
        (
            deployment(metadata="  annotations: {kustomize.toolkit.fluxcd.io/reconcile: disabled}\n"),
            "kustomize.toolkit.fluxcd.io/reconcile",
        ),
        (
            deployment(metadata="  annotations: {kustomize.toolkit.fluxcd.io/ssa: IfNotPresent}\n"),
            "kustomize.toolkit.fluxcd.io/ssa",
        ),
        (deployment(spec="  paused: true\n  selector: {matchLabels: {app: chat}}"), "spec.paused"),
    ],
)
def test_what_may_not_be_what_runs_is_not_copied(manifest: str, words: str) -> None:
    assert words in refusal({"chat.yaml": f"{PROFILED}---\n{manifest}"})


_TEXTS = st.one_of(st.sampled_from(AMBIGUOUS), st.text(max_size=30))
_KEYS = st.one_of(st.sampled_from(["y", "on", "08", "1e5", "null", "a: b", "大", "k" * 140]), st.text(max_size=12))
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(-(2**63), 2**64 - 1), st.booleans(), st.none(), st.floats(allow_nan=False, width=32)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(env=st.lists(_TEXTS, max_size=4), args=st.lists(_TEXTS, max_size=4), extra=_VALUES)
def test_any_manifest_is_read_alike(env: list[str], args: list[str], extra: object) -> None:
    wanted = {"env": [{"name": f"V{number}", "value": text} for number, text in enumerate(env)]}
    manifest = yaml.safe_load(deployment())
    manifest["spec"]["template"]["spec"]["containers"][0] |= {**wanted, "args": args, "extra": extra}
    text = copied(dumped(manifest))
    for value in (yaml.safe_load(text), read_by_1_2(text)):
        found = cast("Mapping[str, object]", at(value, "spec", "template", "spec", "containers", 0))
        assert {key: found[key] for key in ("env", "args", "extra")} == {**wanted, "args": args, "extra": extra}
