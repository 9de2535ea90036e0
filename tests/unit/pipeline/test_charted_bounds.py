"""The bounds of an autoscaler that only a chart makes: written where its values hold them, or held with a reason."""

import pytest

from tests.tools.sample_clusters import rewrite

RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: llama, namespace: llm}
spec:
  values:
    count: 1
    scaling:
      enabled: true
      least: 2
      most: 3
"""
BOTH = {"minReplicas": "scaling.least", "maxReplicas": "scaling.most"}


def written(text: str, values: object, when: str = "bounds", wanted: int | None = None) -> tuple[str, list[str]]:
    """The lines that change when one replica more is wanted, and why nothing may."""
    files = {"release.yaml": text.encode()}
    said = {"asked": ["prod/llm/Deployment/llama"], "helmValues": values, "whenAutoscaled": when}
    sample = rewrite(said, files)
    if wanted is not None:
        sample = rewrite(said, files, dict.fromkeys(sample.changed, wanted))
    old, new = (each["release.yaml"].decode().splitlines() for each in (sample.before, sample.after))
    changed = (line.strip() for line, was in zip(new, old, strict=True) if line != was)
    return ", ".join(changed), list(sample.held.values())


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [(1, "least: 1"), (2, ""), (3, "least: 3"), (5, "least: 5, most: 5")],
)
def test_the_lower_bound_follows_the_load_and_the_upper_one_only_rises(wanted: int, lines: str) -> None:
    assert written(RELEASE, BOTH, wanted=wanted) == (lines, [])


def test_without_a_word_the_autoscaler_of_a_chart_owns_the_replicas() -> None:
    reason = "replicas are owned by the autoscaler of its chart (release.yaml:9)"
    assert written(RELEASE, {**BOTH, "replicas": "count"}, when="hold") == ("", [reason])


@pytest.mark.parametrize("when", ["hold", "bounds"])
def test_an_autoscaler_that_is_switched_off_owns_nothing(when: str) -> None:
    off = RELEASE.replace("true", "false")
    assert written(off, {**BOTH, "replicas": "count"}, when=when) == ("count: 2", [])


def test_a_switch_of_which_only_a_secret_knows_switches_nothing_off() -> None:
    hidden = RELEASE.replace("  values:", "  valuesFrom: [{kind: Secret, name: x}]\n  values:")
    assert written(hidden, BOTH) == ("least: 3", [])
    _, (reason,) = written(hidden.replace("      enabled: true\n      least: 2\n", ""), BOTH)
    assert reason.startswith("values of HelmRelease llm/llama come from Secret x, which is not in Git")


@pytest.mark.parametrize(("told", "missing"), [("minReplicas", "maxReplicas"), ("maxReplicas", "minReplicas")])
def test_one_bound_alone_is_held(told: str, missing: str) -> None:
    _, (reason,) = written(RELEASE, {told: BOTH[told]})
    assert reason.startswith(f"only one bound of its autoscaler is given: also set helmValues.{missing}")


def test_a_bound_that_no_values_hold_is_held() -> None:
    _, (reason,) = written(RELEASE.replace("      most: 3\n", ""), BOTH)
    assert reason.startswith('the values of HelmRelease llm/llama have no "scaling.most": write the bound that counts')


def test_marker_comments_tell_bounds_too() -> None:
    marked = RELEASE.replace("least: 2", "least: 2    # reconciler.io/min-replicas: Deployment/llama")
    marked = marked.replace("most: 3", "most: 3    # reconciler.io/max-replicas: Deployment/llama")
    lines, held = written(marked, {}, wanted=4)
    assert [part.split()[:2] for part in lines.split(", ")] == [["least:", "4"], ["most:", "4"]]
    assert held == []


def test_what_two_releases_may_make_asks_for_the_marker_of_a_bound() -> None:
    other = RELEASE.replace("name: llama,", "name: other,").replace("spec:\n", "spec:\n  releaseName: llama\n")
    _, (reason,) = written(f"{RELEASE}---\n{other}", BOTH)
    assert "mark the number with `# reconciler.io/min-replicas: Deployment/llama`" in reason
