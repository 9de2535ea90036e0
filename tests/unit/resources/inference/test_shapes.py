"""The manifests that users of the inference gateway write are read, and what is wrong with them is told."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents, parse_readable
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.inference.priorities import Priorities
from reconciler.resources.reading import read_file
from reconciler.resources.registry import KIND_WORDS

SHAPES = Path(__file__).parents[3] / "testdata" / "resources" / "inference" / "shapes.yaml"
DOCUMENTS = SHAPES.read_text().split("\n---\n")
WORDS = sorted({word for text in DOCUMENTS for word in text.split()})
NOISE = st.sampled_from(["null", "[]", "{}", "[{}]", "1", "-1", "1e400", ".nan", '"\\e[31m"', "*a", "true", "\n"])


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


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A few objects with some of their words replaced or cut."""
    texts = draw(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3))
    words = "\n---\n".join(texts).split(" ")
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(words) - 1))
        words[index] = draw(NOISE | st.sampled_from(WORDS) | st.text(max_size=8) | st.just(""))
    return " ".join(words)


@given(mutations())
def test_mutated_manifests_end_in_findings(text: str) -> None:
    try:
        documents = parse_documents("a.yaml", text.encode(errors="replace"))
    except InputError:
        return
    declaration = merge([read_file("prod", "a.yaml", documents)])
    Priorities.of(declaration.inference)
    assert all(str(finding).isprintable() for finding in declaration.findings)
    assert all(broken.reason.isprintable() for broken in declaration.broken)
