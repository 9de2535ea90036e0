"""Nothing is proposed that `validate` refuses: what would be written is read again as a person's change is."""

from collections.abc import Mapping

import pytest

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.plan import Outcome
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.pipeline import draft
from reconciler.pipeline import draft as checking
from reconciler.pipeline.draft import Checker
from tests.servers.desk import BUSY, BUSY_TWICE, Desk

DEPLOYMENT, GRANITE = "clusters/prod/chat/deployment.yaml", "clusters/prod/code/granite.yaml"
PATH = "model.yaml"
MODEL = b"""\
apiVersion: registry.volcano.sh/v1alpha1
kind: Model
metadata: {name: phi, namespace: llm}
spec:
  autoscalingPolicy: {metrics: [{metricName: m, targetValue: 10}]}
  backends:
    - {name: a, type: SGLang, scalingCost: 9, minReplicas: 1, maxReplicas: 8, modelURI: "hf://a", workers: [{}]}
    - {name: b, type: SGLang, scalingCost: 3, minReplicas: 0, maxReplicas: 8, modelURI: "hf://a", workers: [{}]}
"""


def checker_of(files: Mapping[str, bytes]) -> Checker:
    recording = Recording(
        now_s=0.0,
        repository="fleet",
        branch="main",
        commit="0" * 40,
        settings=Settings(clusters=(ClusterSettings(name="prod"),)),
        manifests=tuple(ManifestFile(path=path, body=body) for path, body in files.items()),
        withheld=(),
        unread=(),
        answers=(),
        proposals=(),
        paths=tuple(files),
    )
    return Checker(recording=recording)


def test_what_upstreams_webhook_refuses_is_found_before_it_is_proposed() -> None:
    checker = checker_of({PATH: MODEL})
    assert checker.find_errors({PATH: MODEL.replace(b"minReplicas: 1", b"minReplicas: 3")}) == ()
    (error,) = checker.find_errors({PATH: MODEL.replace(b"minReplicas: 1", b"minReplicas: 0")})
    assert error.message == "expected minReplicas of at least 1 over all backends, got 0"


def test_a_patch_is_read_as_what_it_is_built_into() -> None:
    kustomization = b"resources: [model.yaml]\npatches: [{path: patch.yaml}]\n"
    patch = b"""\
apiVersion: registry.volcano.sh/v1alpha1
kind: Model
metadata: {name: phi, namespace: llm}
spec:
  backends:
    - {name: b, type: SGLang, scalingCost: 3, minReplicas: 1, maxReplicas: 8, modelURI: "hf://a", workers: [{}]}
"""
    files = {PATH: MODEL, "kustomization.yaml": kustomization, "patch.yaml": patch}
    found = checker_of(files).find_errors({"patch.yaml": patch.replace(b"minReplicas: 1", b"minReplicas: 0")})
    assert [each.message for each in found] == ["expected minReplicas of at least 1 over all backends, got 0"]


def test_what_was_wrong_before_is_nobodys_fault() -> None:
    broken = MODEL.replace(b"minReplicas: 1", b"minReplicas: 0")
    assert checker_of({PATH: broken}).find_errors({PATH: b"# moved\n" + broken}) == ()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that no sample breaks: the chat model may not have four replicas."""

    def find_errors(_self: Checker, files: Mapping[str, bytes]) -> tuple[Finding, ...]:
        place = Place(path=DEPLOYMENT, line=7, field="spec.replicas")
        found = Finding(place=place, severity=Severity.ERROR, message="expected at most 3")
        return (found,) if b"replicas:   4" in files.get(DEPLOYMENT, b"") else ()

    monkeypatch.setattr(Checker, "find_errors", find_errors)
    monkeypatch.setattr(draft, "has_rules", lambda _variant: True)


@pytest.mark.usefixtures("strict")
def test_a_change_that_would_be_refused_is_held_with_the_finding_and_the_rest_goes_on(desk: Desk) -> None:
    prepared = desk.plan(BUSY_TWICE)
    held = next(each for each in prepared.plan.decisions if each.variant.label == "chat/llama")
    assert held.outcome is Outcome.HELD
    assert str(held.hold) == f"would be refused: {DEPLOYMENT}:7: error: spec.replicas: expected at most 3"
    assert held.desired == held.current
    assert {path for each in prepared.edited.change_sets for path in each.files} == {GRANITE}


def test_native_workloads_take_any_number_and_are_not_read_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Checker, _files: Mapping[str, bytes]) -> tuple[Finding, ...]:
        raise AssertionError("nothing to check")

    monkeypatch.setattr(checking.Checker, "find_errors", refuse)
    assert desk.plan(BUSY).edited.change_sets
