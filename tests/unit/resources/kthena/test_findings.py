"""Golden findings of Kthena: each `<case>.yaml` beside what is said of it, line by line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.resources.declaration import Declaration

CASES = ["policies", "roles", "bindings", "models", "servings", "joined"]


@pytest.mark.parametrize("case", CASES)
def test_every_mistake_is_told_at_its_line(case: str, declare: Callable[..., Declaration], kthena: Path) -> None:
    name = f"{case}.yaml"
    declaration = declare({name: (kthena / "findings" / name).read_text()})
    told = [str(finding) for finding in declaration.findings]
    told += [f"broken: {each.key.kind} {each.key.label}: {each.reason}" for each in declaration.broken]
    read = declaration.kthena
    keys = [policy.key for policy in read.policies] + [binding.key for binding in read.bindings]
    keys += [model.key for model in read.models] + [serving.key for serving in read.servings]
    told += [f"read: {key.kind} {key.label}" for key in keys]
    assert told == (kthena / "findings" / f"{case}.txt").read_text().splitlines()


def test_no_case_is_forgotten(kthena: Path) -> None:
    assert sorted(path.stem for path in (kthena / "findings").glob("*.yaml")) == sorted(CASES)


@pytest.mark.parametrize("generation", ["g0", "g2", "g3", "g4"])
def test_samples_of_every_generation_have_nothing_to_say_of(
    generation: str, sample: Callable[[str], Declaration]
) -> None:
    declaration = sample(generation)
    assert [str(finding) for finding in declaration.findings] == []
    assert declaration.broken == ()


def test_the_published_example_lacks_a_panic_period_which_is_read_as_zero(
    sample: Callable[[str], Declaration],
) -> None:
    (finding,) = sample("g1").findings
    message = "no period: required upstream, read as 0s"
    assert str(finding) == f"a.yaml:17: warning: spec.behavior.scaleUp.panicPolicy: {message}"
