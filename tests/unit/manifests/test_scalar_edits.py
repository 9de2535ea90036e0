"""Replacing one scalar: exactly its bytes, or a refusal that says what is in the way."""

import pytest

from reconciler.manifests.editing import apply_edits
from reconciler.manifests.edits import EditRefused, SetScalar
from reconciler.manifests.wording import Field

REPLICAS: Field = ("spec", "replicas")


def set_value(text: str | bytes, field: Field, value: str | int, *, document: int = 0) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    edited = apply_edits("apps/app.yaml", data, [SetScalar(document=document, field=field, value=value)])
    return edited.decode()


LAYOUTS = {
    "plain": "spec:\n  replicas: {}\n",
    "comment behind": "spec:\n  replicas: {} # {{}} keep\n  x: 1\n",
    "comments around": "# head\n---\n# above\nspec:\n  # about\n  replicas: {}   # why\n\n# below\n",
    "carriage returns": "spec:\r\n  replicas: {} # c\r\n  x: 'a'\r\n",
    "mixed line ends": "spec:\r\n  replicas: {}\n  x: 1\r\n",
    "byte order mark": "\ufeffspec:\n  replicas: {}\n",
    "double quotes": 'spec:\n  replicas: "{}"\n',
    "single quotes": "spec:\n  replicas: '{}'\n",
    "unused anchor": "spec:\n  replicas: &r {}\n",
    "anchor on the line above": "spec:\n  replicas: &r # note\n    {}\n",
    "unused anchor of the parent": "spec: &s\n  replicas: {}\n",
    "merge above": "base: &b {{x: 1}}\nspec:\n  <<: *b\n  replicas: {}\n",
    "value on the next line": "spec:\n  replicas:\n      {}\n",
    "blanks around the colon": "spec:\n  replicas  :    {}   \n",
    "odd indentation": "spec:\n       replicas: {}\n       x:\n        - 1\n",
    "trailing blanks": "spec:   \n  replicas: {}  \n  \n",
    "tab before a comment": "spec:\n  replicas: {}\t# c\n",
    "flow": "spec: {{replicas: {}, x: [1, 2]}} # c\n",
    "flow over lines": "spec: {{\n  replicas: {},   # c\n  x: 1}}\n",
    "json": '{{"spec": {{"replicas": {}, "x": [1, 2]}}}}\n',
    "json over lines": '{{\n\t"spec": {{\n\t\t"replicas": {}\n\t}}\n}}',
    "tight json": '{{"spec":{{"replicas":{}}}}}',
    "no final newline": "spec:\n  replicas: {}",
    "document end": "spec:\n  replicas: {}\n...\n",
    "empty documents behind": "spec:\n  replicas: {}\n---\n---\n",
    "comment-only document behind": "spec:\n  replicas: {}\n---\n# nothing here\n---\n",
    "directive": "%YAML 1.1\n---\nspec:\n  replicas: {}\n",
    "characters beyond ASCII before": "é: 💡\nspec:\n  x: 日本  # 💡\n  replicas: {}  # é\n",
    "long line": "x: " + "y" * 70_000 + "\nspec:\n  replicas: {}\n",
    "quoted key": 'spec:\n  "replicas": {}\n',
    "explicit key": "spec:\n  ? replicas\n  : {}\n",
    "block scalars around": "a: |+\n  text\n\nspec:\n  replicas: {}\n  b: >-\n    folded\n\n",
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_exactly_the_value_changes_and_going_back_gives_the_same_bytes(layout: str) -> None:
    before, after = layout.format(3), layout.format(12)
    assert set_value(before, REPLICAS, 12) == after
    assert set_value(after, REPLICAS, 3) == before


def test_only_the_addressed_document_changes() -> None:
    text = "spec: {replicas: 3}\n---\n# none\n---\nspec:\n  replicas: 3\n---\nspec:\n  replicas: 3\n"
    assert set_value(text, REPLICAS, 5, document=2) == text.replace("replicas: 3\n---\nspec", "replicas: 5\n---\nspec")


def test_a_document_next_to_a_broken_one_can_be_edited() -> None:
    text = "{{ if .x }}\n---\nspec:\n  replicas: 3\n---\na: [\n"
    assert set_value(text, REPLICAS, 5, document=1) == text.replace("3", "5")


def test_list_items_and_keys_with_dots_are_addressed() -> None:
    text = 'metadata:\n  annotations:\n    llm-d.ai/cost: "1.5"\nlist:\n- - a\n  - b: 1\n'
    assert set_value(text, ("metadata", "annotations", "llm-d.ai/cost"), "2.5") == text.replace("1.5", "2.5")
    assert set_value(text, ("list", 0, 1, "b"), 7) == text.replace("b: 1", "b: 7")


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("spec:\n  replicas:\n  x: 1\n", "spec:\n  replicas: 5\n  x: 1\n"),
        ("spec:\n  replicas: # why\n  x: 1\n", "spec:\n  replicas: 5 # why\n  x: 1\n"),
        ("spec:\r\n  replicas:\r\n", "spec:\r\n  replicas: 5\r\n"),
        ("spec:\n  replicas:", "spec:\n  replicas: 5"),
        ("spec:\n  replicas: &r\n", "spec:\n  replicas: &r 5\n"),
        ("spec:\n  replicas: ~\n", "spec:\n  replicas: 5\n"),
        ("spec: {replicas: , x: 1}\n", "spec: {replicas: 5 , x: 1}\n"),
        ('{"spec": {"replicas":}}\n', '{"spec": {"replicas": 5}}\n'),
    ],
)
def test_an_empty_value_gets_a_leading_blank(text: str, edited: str) -> None:
    assert set_value(text, REPLICAS, 5) == edited


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ('"3"', 5, '"5"'),
        ('"3"', "5", '"5"'),
        ("3", "5", '"5"'),
        ("abc", "5", '"5"'),
        ("abc", 5, "5"),
        ("abc", "yes", '"yes"'),
        ("abc", "a: b", '"a: b"'),
        ("abc", "a #b", '"a #b"'),
        ("abc", "- a", '"- a"'),
        ("abc", "a, b", "a, b"),
        ("abc", "", '""'),
        ("abc", " a ", '" a "'),
        ("abc", "*a", '"*a"'),
        ("abc", "new\nline", '"new\\nline"'),
        ("'abc'", "it's", "'it''s'"),
        ("'abc'", "new\nline", '"new\\nline"'),
        ('"abc"', 'say "hi" \\ \t é 💡', '"say \\"hi\\" \\\\ \\t é 💡"'),
        ('"abc"', "a\u2028b\x85\x7f", '"a\\u2028b\\u0085\\u007f"'),
        ("abc", "x" * 300, "x" * 300),
        ("a\n    b", "c", "c"),
        ("true", False, "false"),
        ("2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-02-01T00:00:00Z"),
    ],
)
def test_the_quotes_stay_and_types_are_exact(old: str, value: str | int, new: str) -> None:
    assert set_value(f"a:\n  b: {old} # c\n", ("a", "b"), value) == f"a:\n  b: {new} # c\n"


def test_text_in_a_json_file_is_quoted() -> None:
    assert set_value('{"a": null}', ("a",), "H100") == '{"a": "H100"}'


def test_text_in_flow_style_stays_plain_where_it_can() -> None:
    assert set_value("{a: A100}", ("a",), "H100") == "{a: H100}"
    assert set_value("{a: A100}", ("a",), "H,100") == '{a: "H,100"}'


@pytest.mark.parametrize("old", ["3", "0x3", "+3", "0b11", "3 # c"])
def test_a_value_that_is_already_there_changes_no_byte(old: str) -> None:
    assert set_value(f"spec:\n  replicas: {old}\n", REPLICAS, 3) == f"spec:\n  replicas: {old}\n"


def test_no_edit_changes_no_byte_of_any_file() -> None:
    assert apply_edits("x.yaml", b"a: [\xff\x00", []) == b"a: [\xff\x00"


def test_several_edits_of_one_file_are_made_together() -> None:
    text = "a: 1\nb: 2\n---\nc: x\n"
    edits = [SetScalar(document=0, field=("b",), value=20), SetScalar(document=1, field=("c",), value="yy")]
    edits.append(SetScalar(document=0, field=("a",), value=100))
    assert apply_edits("x.yaml", text.encode(), edits) == b"a: 100\nb: 20\n---\nc: yy\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x: &r 3\nspec:\n  replicas: *r\n", 3, "this is an alias"),
        ("spec:\n  replicas: &r 3\nx: *r\n", 2, "the anchor &r is used by aliases"),
        ("spec: &s\n  replicas: 3\nx: *s\n", 1, "the anchor &s is used by aliases"),
        ("spec: &s\n  replicas: 3\nx:\n  <<: *s\n", 1, "the anchor &s is used by aliases"),
        ("x: &s\n  replicas: 3\nspec: *s\n", 3, "this is an alias"),
        ("x: &s\n  replicas: 3\nspec:\n  <<: *s\n", 4, "it can only come from the merge key <<"),
        (
            "x: &s\n  replicas: 3\nspec:\n  replicas: 1\n  <<: *s\n",
            5,
            "a merge key << below 'replicas' may override it",
        ),
        ("spec:\n  replicas: !!int 3\n", 2, "the value has a tag"),
        ("spec:\n  replicas: &a ! 3\n", 2, "the value has a tag"),
        ("spec:\n  replicas: 3\n  replicas: 4\n", 3, "the key is already set on line 2"),
        ("spec:\n  replicas: ${REPLICAS}\n", 2, "the value is from a template (${)"),
        ("spec:\n  replicas: '{{ .Values.replicas }}'\n", 2, "the value is from a template ({{)"),
        ("spec:\n  replicas: {{ .Values.replicas }}\n", 2, "expected a text key"),
        ("spec:\n  replicas: |\n    3\n", 2, "got a block scalar"),
        ("spec:\n  replicas: [3]\n", 2, "expected a scalar here, got a mapping or a list"),
        ("spec:\n  x: 3\n", 2, "the field is not there"),
        ("a: 1\n", 1, "'spec' on the way to it is not there"),
        ("- a\n", 1, "'spec' on the way to it is not there"),
        ("spec: {replicas}\n", 1, "expected a key and a colon before the empty value"),
        ("a: [\n", 2, "expected YAML"),
        ("spec:\n  replicas: 3\n  x: a\u2028b\n", 3, "U+2028"),
    ],
)
def test_what_is_in_the_way_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(EditRefused) as raised:
        set_value(text, REPLICAS, 5)
    assert words in raised.value.message
    assert (raised.value.path, raised.value.line) == ("apps/app.yaml", line)


def test_a_template_in_a_comment_does_no_harm() -> None:
    assert set_value("spec:\n  replicas: 3 # {{ x }} ${y}\n", REPLICAS, 5) == "spec:\n  replicas: 5 # {{ x }} ${y}\n"


def test_two_values_on_one_line_can_change_together() -> None:
    edits = [SetScalar(document=0, field=("a", key), value=10) for key in ("x", "z")]
    assert apply_edits("x.yaml", "a: {x: 1, é: 2, z: 3} # c\r\n".encode(), edits) == (
        "a: {x: 10, é: 2, z: 10} # c\r\n".encode()
    )


def test_seventy_updates_leave_no_trace_but_the_last_value() -> None:
    text = "# head\r\n---\r\n\r\nspec:\r\n  replicas: 0   # c\r\n\r\n---\r\n---\r\n...\r\n"
    edited = text
    for value in range(1, 71):
        edited = set_value(edited, REPLICAS, value)
    assert edited == text.replace("0", "70")


def test_a_document_that_is_not_there_is_refused() -> None:
    with pytest.raises(EditRefused, match="there is no document 2"):
        set_value("a: 1\n---\nb: 1\n", ("a",), 5, document=2)
    with pytest.raises(EditRefused, match="there is no document 0"):
        set_value("# nothing\n", ("a",), 5)


def test_two_edits_of_one_field_are_refused() -> None:
    edits = [SetScalar(document=0, field=("a",), value=value) for value in (1, 2)]
    with pytest.raises(EditRefused, match="two edits want the same field"):
        apply_edits("x.yaml", b"a: 0\n", edits)


@pytest.mark.parametrize("data", [b"a: \xff\n", b"a: 1\x00\n", b"\xff\xfea\x00", b"a: 1\n" * 300_000])
def test_a_file_that_cannot_be_read_is_not_edited(data: bytes) -> None:
    with pytest.raises(EditRefused):
        apply_edits("x.yaml", data, [SetScalar(document=0, field=("a",), value=5)])


def test_an_edit_that_makes_the_file_too_large_is_refused() -> None:
    data = b"a: 1\nb: " + b"x" * (1024 * 1024 - 9) + b"\n"
    with pytest.raises(EditRefused, match="could not be read"):
        apply_edits("x.yaml", data, [SetScalar(document=0, field=("a",), value=10)])
