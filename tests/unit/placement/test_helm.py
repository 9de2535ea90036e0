"""Which release makes a target, and what hides its values."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place, split_setting
from reconciler.placement.places import EffectivePlace, NoPlace

Build = Callable[..., Fleet]
RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: llama, namespace: llm}
spec:
  values:
    decode: {replicas: 2}
"""


def key(name: str, namespace: str = "llm") -> ResourceKey:
    return ResourceKey(cluster="prod", namespace=namespace, kind="Deployment", name=name)


@pytest.mark.parametrize(
    ("text", "target", "is_found"),
    [
        (RELEASE, key("llama"), True),
        (RELEASE, key("llama-decode"), True),
        (RELEASE, key("llamas"), False),
        (RELEASE, key("llama", "other"), False),
        (RELEASE.replace("spec:", "spec:\n  releaseName: qwen"), key("qwen-a"), True),
        (RELEASE.replace("spec:", "spec:\n  targetNamespace: gpu"), key("gpu-llama-a", "gpu"), True),
        (RELEASE.replace("spec:", "spec:\n  targetNamespace: gpu"), key("llama", "gpu"), False),
    ],
)
def test_a_release_makes_what_bears_its_name_in_its_namespace(
    build: Build, text: str, target: ResourceKey, is_found: bool
) -> None:
    assert isinstance(helm_place(build({"a.yaml": text}), target, "decode.replicas"), EffectivePlace) is is_found


def test_a_post_renderer_that_sets_replicas_has_the_last_word(build: Build) -> None:
    rendered = RELEASE + "  postRenderers: [{kustomize: {patches: [{patch: 'spec: {replicas: 3}'}]}}]\n"
    found = helm_place(build({"a.yaml": rendered}), key("llama"), "decode.replicas")
    assert isinstance(found, NoPlace)
    assert "post-renderer" in found.obstacle.reason


def test_two_releases_from_one_file_share_their_values(build: Build) -> None:
    overlay = "resources: [../base]\nnamespace: NAME\n"
    texts = {"base/a.yaml": RELEASE, "base/kustomization.yaml": "resources: [a.yaml]\n"}
    texts |= {f"{name}/kustomization.yaml": overlay.replace("NAME", name) for name in ("llm", "lab")}
    found = helm_place(build(texts), key("llama"), "decode.replicas")
    assert isinstance(found, NoPlace)
    assert "prod/lab/HelmRelease/llama" in found.obstacle.reason


def test_a_value_that_a_template_fills_in_is_no_place(build: Build) -> None:
    found = helm_place(build({"a.yaml": RELEASE.replace("2}", '"${N}"}')}), key("llama"), "decode.replicas")
    assert isinstance(found, NoPlace)
    assert "template" in found.obstacle.reason


def test_a_setting_may_lead_through_lists_and_dotted_keys() -> None:
    assert split_setting(r"roles[0].a\.b.replicas") == ("roles", 0, "a.b", "replicas")
