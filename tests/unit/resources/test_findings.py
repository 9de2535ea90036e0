"""Golden findings: each `<case>.yaml` beside what is said of it, line by line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.manifests.wording import join_words
from reconciler.resources.annotations import VARIANT_NAMES
from reconciler.resources.declaration import Declaration

CASES = ["profile-form", "target-form", "objects", "config-maps", "saturation"]


@pytest.mark.parametrize("case", CASES)
def test_every_mistake_is_told_at_its_line(case: str, declare: Callable[..., Declaration], testdata: Path) -> None:
    name = f"findings/{case}.yaml"
    declaration = declare({name: (testdata / name).read_text()})
    told = [str(finding) for finding in declaration.findings]
    told += [f"broken: {broken.key.label}: {broken.reason}" for broken in declaration.broken]
    told += [f"read: {variant.key.label}" for variant in declaration.variants]
    told += [f"read: {workload.key.label}" for workload in declaration.workloads]
    expected = (testdata / f"findings/{case}.txt").read_text().replace("<ANNOTATIONS>", join_words(VARIANT_NAMES))
    assert told == expected.splitlines()


def test_no_case_is_forgotten(testdata: Path) -> None:
    assert sorted(path.stem for path in (testdata / "findings").glob("*.yaml")) == sorted(CASES)
