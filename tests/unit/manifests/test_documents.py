"""Reading: values as Kubernetes sees them, the line of every field, and which documents are skipped."""

import math
from typing import Any

import pytest

from reconciler.errors import InputError
from reconciler.manifests.documents import Document, Value, parse_documents, parse_readable
from reconciler.manifests.wording import format_field


def parse_one(text: str) -> Document:
    (document,) = parse_documents("app.yaml", text.encode())
    return document


def value_of(text: str) -> Value:
    value: Any = parse_one(f"a: {text}\n").value
    found: Value = value["a"]
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("N", False),
        ("yEs", "yEs"),
        ("", None),
        ("~", None),
        ("Null", None),
        ("5", 5),
        ("+5", 5),
        ("-0", 0),
        ("1_000", 1000),
        ("0x1F", 31),
        ("-0x10", -16),
        ("0o17", 15),
        ("017", 15),
        ("0b101", 5),
        ("08", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("._5", "._5"),
        ("-x", "-x"),
        ("-.inf", -math.inf),
        (".INF", math.inf),
        ("9223372036854775808", 9223372036854775808),
        ("18446744073709551616", 18446744073709551616.0),
        ("9" * 5000, "9" * 5000),
        ("1e999", "1e999"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1:30", "1:30"),
        ("10m", "10m"),
        ("'5'", "5"),
        ('"yes"', "yes"),
        ("!!str 5", "5"),
        ("! 5", 5),
        ("!!int '5'", 5),
        ("!!float 5", 5.0),
        ("!!binary aGk=", "hi"),
        ("!Ref x", "x"),
        ("{b: [1, two]}", {"b": [1, "two"]}),
    ],
)
def test_scalars_mean_what_kubernetes_reads(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_float() -> None:
    found = value_of(".NaN")
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("key", "text"), [("on", "true"), ("No", "false"), ("8080", "8080"), ("0x10", "16"), ("1.5", "1.5"), ("'on'", "on")]
)
def test_keys_become_the_text_that_kubernetes_makes_of_them(key: str, text: str) -> None:
    assert parse_one(f"{key}: 1\n").value == {text: 1}


def test_merge_keys_and_aliases_are_resolved_and_own_keys_win() -> None:
    document = parse_one("base: &b {a: 1, b: 2}\nmore: &m {b: 3, c: 4}\nx:\n  <<: [*b, *m]\n  a: 9\nz: *b\n")
    assert document.value == {
        "base": {"a": 1, "b": 2},
        "more": {"b": 3, "c": 4},
        "x": {"a": 9, "b": 2, "c": 4},
        "z": {"a": 1, "b": 2},
    }
    assert document.line_of(["x", "a"]) == 5
    assert document.line_of(["x", "c"]) == 2


def test_an_own_key_above_a_merge_key_wins_too() -> None:
    assert parse_one("b: &b {a: 1}\nx:\n  a: 9\n  <<: *b\n").value == {"b": {"a": 1}, "x": {"a": 9}}


def test_lines_count_through_comments_documents_and_carriage_returns() -> None:
    text = "# head\n---\na: 1\n---\n# note\n\nspec:\n  list:\n    - name: x\n      size: 2\n    - 7\n"
    first, second = parse_documents("app.yaml", text.replace("\n", "\r\n").encode())
    assert (first.index, first.first_line, first.line_of(["a"])) == (0, 3, 3)
    assert (second.index, second.first_line) == (1, 7)
    assert second.line_of([]) == 7
    assert second.line_of(["spec", "list"]) == 8
    assert second.line_of(["spec", "list", 0, "size"]) == 10
    assert second.line_of(["spec", "list", 1]) == 11


def test_the_line_of_a_missing_field_is_its_nearest_ancestors() -> None:
    document = parse_one("kind: x\nspec:\n  a: 1\n  l: [1]\n")
    assert document.line_of(["spec", "missing", "deep"]) == 2
    assert document.line_of(["spec", "a", "below a scalar"]) == 3
    assert document.line_of(["spec", "l", 5]) == 4
    assert document.line_of(["spec", "l", "not an index"]) == 4
    assert document.line_of(["nothing"]) == 1


def test_field_paths_read_only_one_way() -> None:
    field = ("metadata", "annotations", "llm-d.ai/managed", "containers", 0, "name")
    assert format_field(field) == 'metadata.annotations["llm-d.ai/managed"].containers[0].name'


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n", "# a\r\n# b"])
def test_a_file_without_content_has_no_document(text: str) -> None:
    assert parse_documents("app.yaml", text.encode()) == ()


def test_empty_documents_count() -> None:
    documents = parse_documents("app.yaml", b"---\n# nothing\n---\na: 1\n---\n")
    assert [(document.index, document.value) for document in documents] == [(0, None), (1, {"a": 1}), (2, None)]


@pytest.mark.parametrize(("text", "line"), [("a: 1\n---", 2), ("a: 1\n---\n", 2), ("---\n\n# nothing\n---\nb: 1\n", 1)])
def test_an_empty_document_is_at_its_marker(text: str, line: int) -> None:
    assert line in [each.first_line for each in parse_documents("app.yaml", text.encode()) if each.value is None]


def test_a_byte_order_mark_is_no_content() -> None:
    assert parse_documents("app.yaml", b"\xef\xbb\xbfa: 1\n")[0].value == {"a": 1}


KINDS = frozenset({b"Variant", b"Deployment"})


def test_documents_of_other_kinds_are_skipped_but_counted() -> None:
    text = (
        "# Copyright\n---\nkind: Service\nbroken: [\n---\nkind: Variant\n---\n{{ template }}\n---\nkind: Deployment\n"
    )
    documents = parse_documents("app.yaml", text.encode(), kinds=KINDS)
    assert [(document.index, document.first_line) for document in documents] == [(1, 6), (3, 10)]


def test_a_document_before_the_first_marker_counts() -> None:
    documents = parse_documents("app.yaml", b"kind: Service\n---\nkind: Variant\n", kinds=KINDS)
    assert [document.index for document in documents] == [1]


@pytest.mark.parametrize("kind", ['"Vari\\x61nt"', '"V\\u0061riant"', '"Vari\\\n  ant"', '"Vari\\U00000061nt"'])
def test_a_kind_written_with_escapes_is_found(kind: str) -> None:
    documents = parse_documents("app.yaml", f"kind: {kind}\n".encode(), kinds=KINDS)
    assert [document.value for document in documents] == [{"kind": "Variant"}]


def test_a_file_that_names_no_kind_is_not_read_at_all() -> None:
    assert parse_documents("app.yaml", b"a: [\xff" * 400_000, kinds=KINDS) == ()


def test_markers_inside_block_scalars_are_text_when_indented() -> None:
    document = parse_one("script: |\n  a\n  ---\n  ...\n  %x\nkind: x\n")
    assert document.value == {"script": "a\n---\n...\n%x\n", "kind": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "%YAML 1.1\n---\na: 1\n---\nb: 2\n",
        "---\na: 1\n...\n---\nb: 2\n...\n",
        "%TAG !e! tag:example.com,2000:\n---\na: !e!x 1\n---\nb: 2\n",
    ],
)
def test_directives_and_document_ends_are_read_with_the_whole_file(text: str) -> None:
    documents = parse_documents("app.yaml", text.encode())
    assert [document.index for document in documents] == [0, 1]
    assert documents[1].value == {"b": 2}
    assert text.splitlines()[documents[1].line_of(["b"]) - 1] == "b: 2"


def test_content_on_the_marker_line_belongs_to_its_document() -> None:
    first, second = parse_documents("app.yaml", b"--- {a: 1}\n--- # comment\nb: 2\n")
    assert (first.value, first.first_line) == ({"a": 1}, 1)
    assert (second.value, second.first_line) == ({"b": 2}, 3)


def test_one_bad_document_leaves_the_others_readable() -> None:
    documents, errors = parse_readable("app.yaml", b"a: 1\n---\nb: [\n---\nc: 3\n")
    assert [document.index for document in documents] == [0, 2]
    assert [(error.path, error.line) for error in errors] == [("app.yaml", 4)]
    with pytest.raises(InputError):
        parse_documents("app.yaml", b"a: 1\n---\nb: [\n")


def test_a_definition_of_kinds_is_no_object_of_them() -> None:
    text = "kind: CustomResourceDefinition\nspec: {names: {kind: Deployment}}\n---\nkind: Deployment\n"
    (found,) = parse_documents("crds.yaml", text.encode(), kinds=frozenset({b"Deployment"}))
    assert (found.index, found.value) == (1, {"kind": "Deployment"})
    assert len(parse_documents("crds.yaml", text.encode())) == 2
    kept = parse_documents("crds.yaml", text.replace("---", "...\n---").encode(), kinds=frozenset({b"Deployment"}))
    assert [each.index for each in kept] == [0, 1]
