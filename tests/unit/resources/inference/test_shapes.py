"""The manifests that users of the inference gateway write are read, and what is wrong with them is told."""

from pathlib import Path

import pytest

from reconciler.errors import InputError
from reconciler.manifests.documents import parse_readable
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KIND_WORDS

SHAPES = Path(__file__).parents[3] / "testdata" / "resources" / "inference" / "shapes.yaml"


@pytest.fixture(scope="module")
def shapes() -> tuple[Declaration, tuple[InputError, ...]]:
    documents, errors = parse_readable("a.yaml", SHAPES.read_bytes(), kinds=KIND_WORDS)
    return merge([read_file("prod", "a.yaml", documents)]), tuple(errors)


def test_objectives_are_read_in_every_shape(shapes: tuple[Declaration, tuple[InputError, ...]]) -> None:
    assert {each.key.label: each.priority for each in shapes[0].inference.objectives} == {
        "llm/without-kind": 2,
        "llm/name-only": 1,
        "llm/no-priority": 0,
        "llm/expendable": -10,
        "llm/of-the-older-pool": 3,
        "llm/with-models": 1,
        "default/nowhere": 0,
        "llm/lost": 0,
        "llm/beyond": 3_000_000_000,
    }


def test_pools_models_and_rewrites_are_read_in_every_shape(
    shapes: tuple[Declaration, tuple[InputError, ...]],
) -> None:
    declared = shapes[0].inference
    assert {each.key.name for each in declared.pools} == {
        "full",
        "few-words",
        "several-ports",
        "without-picker",
        "nowhere",
        "flat",
    }
    assert [each.criticality for each in declared.models] == ["Critical", "Standard"]
    assert {each.key.name for each in declared.rewrites} == {"canary", "generic"}


def test_what_is_wrong_with_them_is_told_line_by_line(shapes: tuple[Declaration, tuple[InputError, ...]]) -> None:
    declaration, errors = shapes
    told = [*map(str, errors), *map(str, declaration.findings)]
    told += [f"broken: {broken.key.label}: {broken.reason}" for broken in declaration.broken]
    assert told == SHAPES.with_suffix(".txt").read_text().splitlines()
