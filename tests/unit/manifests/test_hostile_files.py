"""What a hostile or broken file meets: one error that says where and what, soon, and never a crash."""

import pytest

from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents


def error_of(data: bytes) -> InputError:
    with pytest.raises(InputError) as raised:
        parse_documents("apps/bad.yaml", data)
    assert raised.value.path == "apps/bad.yaml"
    return raised.value


def test_a_file_of_ten_mebibytes_is_refused_by_its_size() -> None:
    assert "expected at most 1048576 bytes, got 10485760" in str(error_of(b"a" * (10 * 1024 * 1024)))


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- "])
def test_a_thousand_levels_of_nesting_are_refused(opening: bytes) -> None:
    assert "expected at most 100 levels of nesting" in str(error_of(opening * 1000))


def test_two_hundred_thousand_levels_are_refused_as_quickly() -> None:
    assert "levels of nesting" in str(error_of(b"[" * 200_000))


def test_a_hundred_levels_are_read() -> None:
    (document,) = parse_documents("deep.yaml", b"[" * 100 + b"]" * 100)
    assert document.value != []


def bomb(reference: str) -> bytes:
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: {i}" for i in range(10)) + "}"]
    for level in range(1, 12):
        members = reference.format(previous=f"*a{level - 1}")
        lines.append(f"a{level}: &a{level} {members}")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    "reference",
    [
        "[" + ", ".join(["{previous}"] * 10) + "]",
        "{{<<: [" + ", ".join(["{previous}"] * 10) + "]}}",
        "{{" + ", ".join(f"x{i}: {{previous}}" for i in range(10)) + "}}",
    ],
    ids=["lists", "merges", "mappings"],
)
def test_alias_and_merge_bombs_are_refused(reference: str) -> None:
    error = error_of(bomb(reference))
    assert "values through aliases" in error.message
    assert error.line > 1


def test_a_tower_of_aliases_is_refused_by_its_height() -> None:
    lines = ["a0: &a0 [1]", *(f"a{level}: &a{level} [*a{level - 1}]" for level in range(1, 200))]
    assert "aliases lead to more" in error_of("\n".join(lines).encode()).message


def test_too_many_events_are_refused() -> None:
    assert "500000 YAML events" in error_of(b"[" + b"a," * 510_000 + b"]").message


@pytest.mark.parametrize("separator", [b"---\n", b"--- 1\n...\n"])
def test_too_many_documents_are_refused(separator: bytes) -> None:
    assert "at most 10000 documents" in error_of(separator * 10_001).message


def test_a_binary_file_is_refused() -> None:
    error = error_of(b"kind: x\n\x00\x01")
    assert (error.line, error.message) == (2, "expected YAML text, got a NUL byte")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf16_is_refused(encoding: str) -> None:
    prefix = "" if encoding == "utf-16" else "\ufeff"
    assert "expected UTF-8, got UTF-16" in error_of((prefix + "a: 1\n").encode(encoding)).message


def test_latin1_is_refused_at_its_line() -> None:
    error = error_of("a: 1\nb: caf\xe9\n".encode("latin-1"))
    assert (error.line, "got byte 0xe9" in error.message) == (2, True)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "expected YAML"),
        ("a: 'open\n", 2, "expected YAML"),
        ("a: 1\nb", 2, "could not find expected ':'"),
        ("a: 1\nb: !!int", 2, "expected int"),
        ("\ta: 1\n", 1, "expected YAML"),
        ("a: 1\nb: \x07\n", 2, "control characters"),
        ("a: *b\n", 1, "expected an anchor &b above"),
        ("a: &a [1, *a]\n", 1, "inside its own anchor"),
        ("a: 1\n? [b]\n: 2\n", 2, "expected a text key"),
        ("a: {{ .Values.x }}\n", 1, "expected a text key, got a collection (a template"),
        ("~: 1\n", 1, "expected a text key"),
        ("a: 1\n<<: 5\n", 2, "expected a mapping, or a list of them, after the merge key"),
        ("a: !!int x\n", 1, "expected int"),
        ("a: 1\nb: x\x85y\n", 2, "U+0085"),
        ("a: 1\nb: x\u2028y\n", 2, "U+2028"),
        ("a: 1\nb: x\u2029y\n", 2, "U+2029"),
        ("a: 1\n\rb: x\n", 2, "lone carriage return"),
    ],
)
def test_a_malformed_file_is_refused_at_its_line(text: str, line: int, words: str) -> None:
    error = error_of(text.encode())
    assert words in error.message
    assert error.line == line


def test_line_separators_in_a_skipped_document_do_no_harm() -> None:
    data = "kind: Service\ntext: a\u2028b\n---\nkind: Variant\n".encode()
    (document,) = parse_documents("app.yaml", data, kinds=frozenset({b"Variant"}))
    assert (document.index, document.first_line) == (1, 4)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("x: 1\n---\nspec:\n  l:\n    - a: 1\n      b: 2\n      a: 3\n", "spec.l[0].a"),
        ("x: 1\n---\nspec:\n  l:\n    - 1: 1\n      b: 2\n      '1': 3\n", "spec.l[0].1"),
        ("x: 1\n---\nspec:\n  l:\n    - <<: {}\n      b: 2\n      <<: {}\n", 'spec.l[0]["<<"]'),
    ],
)
def test_duplicate_keys_are_refused_with_both_lines(text: str, field: str) -> None:
    error = error_of(text.encode())
    assert (error.line, error.field) == (7, field)
    assert "already set on line 5" in error.message
