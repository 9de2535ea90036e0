"""Texts of one shape are read as libyaml reads each of them, whatever stands around what differs."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import InputError
from reconciler.manifests import documents, edits
from reconciler.manifests.documents import ComposingBudget, compose_documents, parse_readable, resolve_plain
from reconciler.manifests.edits import build_tree, find_tree
from reconciler.manifests.shapes import Learned, Shapes

PIECES = [
    *("a: ", "b: ", "- ", "? ", ": ", "{", "}", "[", "]", ", ", "\n", "\n", "\n  ", "\n    ", "#", " # ", "'", '"'),
    *(
        "|\n  ",
        ">-\n  ",
        "&x ",
        "*x",
        "!t ",
        "!t- ",
        "!t: ",
        "!!str ",
        "<<: ",
        "...\n",
        "---",
        "%",
        " ",
        "@",
        "@",
        "@",
        "@",
        "\\",
    ),
    *("a: @\n", "b: @\n", "- @\n", "  a: @\n", "  - @\n", "c: {d: @}\n", "c: [@, @]\n", "d: @ # @\n", "e: |\n  f: @\n"),
    *("z: {a: @,\n b: @}\n", "# w: @\n", "k: &n @\n", "l: *n\n", "m: 'a\n  , @\n  '\n", "- @\n: @\n", "o: @, b\n"),
]
VALUES = [
    *("x", "1", "0x1f", "017", "1e3", ".inf", "-.inf", ".nan", "null", "~", "yes", "--flag=1", "-1", "-0.0", "a.b/c"),
    *('"1"', "'1'", '"a: b # c"', "'{x}'", '""', "''", "18446744073709551616", "zQx0xQz", "5@x", "<<", "x y", "%s"),
]


def in_full(text: str) -> tuple[object, ...] | None:
    try:
        budget = ComposingBudget()
        composed = compose_documents("", text, first_line=1, budget=budget)
    except InputError:
        return None
    if not composed:
        return None
    first = composed[0]
    return repr(first.value), repr(first.lines), first.first_line, first.literals, budget.events


def filled(pieces: list[str], values: list[str]) -> str:
    rest = iter(values * 2)
    return re.sub("@", lambda _: next(rest), "".join(pieces))


@given(
    st.lists(st.sampled_from(PIECES), min_size=2, max_size=20),
    st.lists(st.lists(st.sampled_from(VALUES), min_size=20, max_size=20), min_size=5, max_size=12),
)
@example(["a: @\n", "b: @ # a: @\n"], [["x", "1", "y"]] * 4 + [["1", "'1'", "y"]])
@example(["a: @\n", "  @"], [["x", "y"]] * 4 + [["x", "z"]])
@example(["- @\n"], [["zQx0xQz"]] * 5)
@example(["a: ", "!t- ", "@"], [["x", "5"], ["y", "5"], ["z", "5"], ["5", "5"]])
@example(["a: ", "!t: ", "@"], [["x", "5"], ["y", "5"], ["z", "5"], ["5", "5"]])
@example(["a:  zQx1xQz\nb: @\n# c: @\n"], [["x", "zQx1xQz"]] * 4 + [["x", "5"]])
def test_a_text_is_read_by_its_shape_as_in_full(pieces: list[str], fillings: list[list[str]]) -> None:
    shapes = Shapes(documents._read_alone, resolve_plain)
    for values in fillings:
        text = filled(pieces, values)
        if (found := shapes.find(text)) is not None:
            value, nodes = found
            budget = ComposingBudget().events - nodes.events
            assert (repr(value), repr(nodes.lines), nodes.first_line, nodes.literals, budget) == in_full(text)


FIELDS = (("a",), ("b", 0), ("c", "d"), ("e",), ("z", "b"))


@given(
    st.lists(st.sampled_from(PIECES), min_size=2, max_size=20),
    st.lists(st.lists(st.sampled_from(VALUES), min_size=20, max_size=20), min_size=5, max_size=8),
)
@example(["a: @\n", "b: @ # a: @\n"], [["x", "1", "y"]] * 4 + [["longer", "'1'", "y"]])
@example(["e: |\n  f: @\n"], [["x"]] * 4 + [["longer"]])
@example(["c: {@, d: @}\n"], [["x", "y"]] * 4 + [["longer", "y"]])
@example(["a: @\n", "  @"], [["x", "y"]] * 4 + [["longer", "z"]])
@example(['b: "@"\n', "<<: @\n"], [["x", "y"]] * 4 + [["longer", "z"]])
def test_the_nodes_of_a_text_are_found_by_its_shape_as_in_full(pieces: list[str], fillings: list[list[str]]) -> None:
    for values in fillings:
        text = filled(pieces, values)
        if in_full(text) is not None:
            assert find_tree(text, FIELDS) == build_tree(text, FIELDS)


def test_the_nodes_of_texts_alike_are_found_without_reading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"spec:\n  replicas: {10**number}\n  names: [n{number}]\nkind: 'K{number}'\n" for number in range(5)]
    trees = [build_tree(text, FIELDS) for text in texts]
    monkeypatch.setattr(edits, "_TREES", Learned())  # other tests may have filled it

    found = [find_tree(text, FIELDS) for text in texts[:3]]
    monkeypatch.setattr(edits, "build_tree", None)
    found += [find_tree(text, FIELDS) for text in texts[3:]]

    assert found == trees


def test_what_only_differs_in_scalars_is_read_by_its_shape() -> None:
    shapes = Shapes(documents._read_alone, resolve_plain)
    text = (
        "# {0}\nmetadata: {{name: {0}, labels: {{app: '{0}'}}}}\nargs:\n  - --model={0}\n  - \"{1}\"\ncount: {1} # n\n"
    )

    found = [shapes.find(text.format("first", number)) for number in range(5)]

    assert found[:2] == [None, None]
    assert found[4] is not None
    assert found[4][0] == {
        "metadata": {"name": "first", "labels": {"app": "first"}},
        "args": ["--model=first", "4"],
        "count": 4,
    }
    assert shapes.find(text.format("other", 1)) is None  # the comment is no scalar


def test_a_text_that_cannot_be_read_keeps_its_error_however_often_it_comes() -> None:
    for number in range(6):
        _, errors = parse_readable("a.yaml", f"a: {number}\nb: {number}\na: {number}\n".encode())
        assert [str(error) for error in errors] == [
            "a.yaml:3: a: the key is already set on line 1: remove one of the two"
        ]
