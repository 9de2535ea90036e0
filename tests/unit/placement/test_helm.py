"""Which release makes a target, and what hides its values."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.placement.helm import helm_place, split_setting
from reconciler.placement.places import EffectivePlace, NoPlace
from tests.unit.placement.conftest import Build

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


APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: llama, namespace: argocd}
spec:
  destination: {namespace: llm}
  source:
    chart: llm-d
    repoURL: https://charts.example
    helm:
"""
PARAMETERS = """\
      parameters:
        - {name: decode.replicas, value: "3"}
        - {name: decode.replicas, value: "4"}
        - {name: prefill.replicas, value: "5"}
"""
INLINE = "      valuesObject: {decode: {replicas: 6}}\n"


@pytest.mark.parametrize(
    ("sections", "line", "value"),
    [
        (PARAMETERS, 12, "4"),
        (INLINE + PARAMETERS, 13, "4"),
        (INLINE + PARAMETERS.replace("decode", "encode"), 10, 6),
    ],
    ids=["last-parameter", "parameter-over-values", "values"],
)
def test_the_last_parameter_of_a_name_wins_and_then_the_values(
    build: Build, sections: str, line: int, value: object
) -> None:
    found = helm_place(build({"a.yaml": APPLICATION + sections}), key("llama"), "decode.replicas")
    assert isinstance(found, EffectivePlace)
    assert (found.place.line, found.value) == (line, value)


@pytest.mark.parametrize(("names", "value"), [(("a", "b"), 8), (("b", "a"), 7)])
def test_the_last_of_several_sources_of_values_wins(build: Build, names: tuple[str, str], value: int) -> None:
    entries = "".join(f"    - {{kind: ConfigMap, name: {name}}}\n" for name in names)
    release = RELEASE.replace("  values:\n    decode: {replicas: 2}\n", f"  valuesFrom:\n{entries}")
    maps = {
        f"{name}.yaml": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: llm}}\n"
        f"data:\n  values.yaml: |\n    decode: {{replicas: {number}}}\n"
        for name, number in (("a", 7), ("b", 8))
    }
    found = helm_place(build({"release.yaml": release, **maps}), key("llama"), "decode.replicas")
    assert isinstance(found, EffectivePlace)
    assert found.value == value


def test_a_setting_may_lead_through_lists_and_dotted_keys() -> None:
    assert split_setting(r"roles[0].a\.b.replicas") == ("roles", 0, "a.b", "replicas")
