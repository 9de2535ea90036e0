"""Whatever the file looks like, an edit changes the wanted value and nothing else, or is refused."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.errors import InputError
from reconciler.manifests.documents import Value, parse_documents, parse_readable
from reconciler.manifests.editing import apply_edits
from reconciler.manifests.edits import EditRefused, InsertBlock, InsertItem, ReplaceBlock, SetScalar
from reconciler.manifests.wording import Field

KEYS = st.sampled_from(["a", "b", "spec", "replicas", "on", "x/y.z", "é", "'q'", '"d e"', "key with blank"])
SCALARS = st.sampled_from(
    [
        "1",
        "-7",
        "0x1f",
        "1.50",
        "text",
        "two words",
        "'q'",
        "'it''s'",
        '"d\\t\\u00e9"',
        "",
        "~",
        "true",
        "💡",
        "2024-01-01",
    ]
)
BLOCK_SCALARS = st.sampled_from(["|\n{}text\n{}  more", ">-\n{}folded\n\n{}x", "|+\n{}keep\n\n", "|2-\n  {}y"])
FLOWS = st.sampled_from(["{a: 1, b: [x, 'y']}", "[1, {k: v}, ]", "{}", "[]", '{"json": {"a": null}}', "[a,\n{}b]"])
COMMENTS = st.sampled_from(["", "", " # comment", "   ", " #{{ not a template }}"])
GAPS = st.sampled_from(["", "", "\n", "# comment\n", "      # deep comment\n", "   \n"])


@st.composite
def blocks(draw: st.DrawFn, indent: int = 0, depth: int = 0) -> str:
    """Lines of a block mapping or list at an indentation."""
    blank = " " * indent
    step = draw(st.sampled_from([1, 2, 4, 7]))
    lines = []
    keys = draw(st.lists(KEYS, min_size=1, max_size=4, unique=True))
    is_list = depth > 0 and draw(st.integers(0, 3)) == 0
    for key in keys:
        head = f"{blank}-" if is_list else f"{blank}{key}:"
        kind = draw(st.integers(0, 9))
        anchor = draw(st.sampled_from([""] * 6 + [" &r", " &s"]))
        if kind <= 1 and depth < 3:
            lines.append(f"{head}{anchor}\n{draw(blocks(indent + step, depth + 1))}")
        elif kind == 2:
            deeper = " " * (indent + step)
            block = draw(BLOCK_SCALARS).replace("{}", deeper)
            lines.append(f"{head} {block}\n")
        elif kind == 3:
            lines.append(f"{head}{anchor} {draw(FLOWS).replace('{}b', blank + ' b')}{draw(COMMENTS)}\n")
        elif kind == 4 and depth:
            lines.append(f"{head} {draw(st.sampled_from(['*r', '*s']))}\n")
        else:
            lines.append(f"{head}{anchor} {draw(SCALARS)}{draw(COMMENTS)}\n")
        lines.append(draw(GAPS))
    return "".join(lines)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files of several documents: CRLF, byte order marks, anchors, comments, empty documents, no final newline."""
    markers = st.sampled_from(["---\n", "--- # c\n", "---\n\n", "---\n# only a comment\n---\n", "...\n---\n"])
    text = draw(st.sampled_from(["", "---\n", "# head\n", "# head\n---\n", "%YAML 1.1\n---\n"]))
    text += draw(blocks())
    for _ in range(draw(st.integers(0, 2))):
        text += draw(markers) + draw(blocks())
    text += draw(st.sampled_from(["", "", "---\n", "...\n", "# tail\n", "\n\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    if draw(st.integers(0, 3)) == 0:
        text = text.rstrip("\r\n")
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + text.encode()


def fields_of(value: Value) -> list[Field]:
    """Every field below a value, and the root."""
    found: list[Field] = [()]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, member in members:
        found += [(part, *rest) for rest in fields_of(member)]
    return found


def values_of(data: bytes) -> list[Any]:
    return [document.value for document in parse_documents("f.yaml", data)]


def set_in(values: list[Any], number: int, field: Field, value: object) -> list[Any]:
    """A copy without shared parts, with one field set."""
    wanted: list[Any] = json.loads(json.dumps(values))
    if not field:
        wanted[number] = value
        return wanted
    place = wanted[number]
    for part in field[:-1]:
        place = place[part]
    place[field[-1]] = value
    return wanted


@dataclass(frozen=True)
class Choice:
    data: bytes
    document: int
    field: Field
    values: list[Any]


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """A readable file and a field in it."""
    data = draw(files())
    try:
        values = values_of(data)
    except InputError:
        values = []
    assume(values)
    number = draw(st.integers(0, len(values) - 1))
    return Choice(data, number, draw(st.sampled_from(fields_of(values[number]))), values)


def edited_or_refused(choice: Choice, edit: SetScalar | InsertBlock | InsertItem | ReplaceBlock) -> bytes | None:
    try:
        return apply_edits("f.yaml", choice.data, [edit])
    except EditRefused:
        return None


def assert_only_adds_lines(before: bytes, after: bytes) -> None:
    old, new = before.splitlines(), after.splitlines()
    num_added = len(new) - len(old)
    start = next((number for number, line in enumerate(old) if new[number] != line), len(old))
    assert num_added > 0
    assert new[:start] + new[start + num_added :] == old


NEW_VALUES = st.one_of(
    st.integers(-5, 10**6), st.text(max_size=12), st.sampled_from(["yes", "5", "a: b", "- x", "#c", "H100", "{{", "*a"])
)


@given(choices(), NEW_VALUES)
def test_setting_a_scalar_changes_only_that_scalar_or_is_refused(choice: Choice, value: str | int) -> None:
    edit = SetScalar(document=choice.document, field=choice.field, value=value)
    edited = edited_or_refused(choice, edit)
    if edited is None:
        return
    found = values_of(edited)
    as_read = [set_in(choice.values, choice.document, choice.field, candidate) for candidate in (value, str(value))]
    assert json.dumps(found) in [json.dumps(candidate) for candidate in as_read]
    assert edited.count(b"#") >= choice.data.count(b"#")


@given(choices(), st.integers(0, 99))
def test_setting_a_scalar_there_and_back_gives_the_same_bytes(choice: Choice, value: int) -> None:
    def written(data: bytes, number: int) -> bytes:
        return apply_edits("f.yaml", data, [SetScalar(document=choice.document, field=choice.field, value=number)])

    try:
        # A number that is there already keeps its spelling (0x1f), so another one is written first.
        first = written(written(choice.data, value + 1), value)
    except EditRefused:
        return
    assert written(written(first, value + 1), value) == first


@given(choices(), st.sampled_from(["5", "a: 1\nb:\n  c: x\n", "- 1\n- k: v\n", "|\n  text\n", "{}"]))
def test_inserting_a_block_adds_lines_and_changes_no_other(choice: Choice, text: str) -> None:
    edit = InsertBlock(document=choice.document, parent=choice.field, key="status", text=text)
    edited = edited_or_refused(choice, edit)
    if edited is None:
        return
    (wanted,) = values_of(text.encode())
    assert values_of(edited) == set_in(choice.values, choice.document, (*choice.field, "status"), wanted)
    assert_only_adds_lines(choice.data, edited)
    assert edited.endswith(b"\n") == choice.data.endswith(b"\n")
    assert (b"\r\n" in edited) == (b"\r\n" in choice.data) or choice.data.count(b"\n") == 0


@given(choices(), st.sampled_from(["- 5", "- a: 1\n  b:\n    c: x\n", "- - 1\n  - k: v\n"]))
def test_inserting_an_item_adds_lines_and_changes_no_other(choice: Choice, text: str) -> None:
    items: Any = choice.values[choice.document]
    for part in choice.field:
        items = items[part]
    if not isinstance(items, list):
        return
    edit = InsertItem(document=choice.document, parent=choice.field, index=len(items), text=text)
    edited = edited_or_refused(choice, edit)
    if edited is None:
        return
    (wanted,) = values_of(text.encode())
    assert values_of(edited) == set_in(choice.values, choice.document, choice.field, [*items, *wanted])
    assert_only_adds_lines(choice.data, edited)


@given(choices(), st.sampled_from(["5", "a: 1\nb:\n  c: x\n", "- 1\n- k: v\n", "|\n  text\n", "{}"]))
def test_replacing_a_block_changes_only_that_value_or_is_refused(choice: Choice, text: str) -> None:
    edit = ReplaceBlock(document=choice.document, field=choice.field, text=text)
    edited = edited_or_refused(choice, edit)
    if edited is None:
        return
    (wanted,) = values_of(text.encode())
    assert values_of(edited) == set_in(choice.values, choice.document, choice.field, wanted)
    assert apply_edits("f.yaml", edited, [edit]) == edited


@given(files())
def test_documents_read_one_by_one_are_those_read_with_the_whole_file(data: bytes) -> None:
    documents, errors = parse_readable("f.yaml", data)
    # A directive makes the parser read the whole file at once.
    has_bom = data.startswith(b"\xef\xbb\xbf")
    whole = b"%YAML 1.1\n" + (b"" if data.lstrip(b"\xef\xbb\xbf").startswith(b"---") else b"---\n")
    try:
        expected = parse_documents("f.yaml", whole + data[3 if has_bom else 0 :])
    except InputError:
        assert errors or not documents or data.lstrip(b"\xef\xbb\xbf").startswith(b"%")
        return
    assert not errors
    found = [document.value for document in documents]
    # Where only comments stand before the first marker, the marker added above begins an empty document.
    assert found in ([document.value for document in expected], [document.value for document in expected][1:])


@given(st.binary(max_size=200))
@example(b"a: [\xff")
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    documents, errors = parse_readable("f.yaml", data)
    assert all(error.path == "f.yaml" for error in errors)
    assert all(document.line_of(field) >= 1 for document in documents for field in fields_of(document.value))


@given(st.text(alphabet="ab: -[]{}&*!|>'\"#%@?\n\r\t<,.~0", max_size=60))
def test_no_punctuation_crashes_the_editor(text: str) -> None:
    documents, _ = parse_readable("f.yaml", text.encode())
    for document in documents:
        for field in fields_of(document.value):
            try:
                edited = apply_edits(
                    "f.yaml", text.encode(), [SetScalar(document=document.index, field=field, value=77)]
                )
            except EditRefused:
                continue
            assert b"77" in edited


def test_the_generator_makes_files_that_can_be_edited() -> None:
    """Without this, every property above could pass by refusing everything."""
    data = b"\xef\xbb\xbf# head\r\n---\r\nspec:\r\n    replicas: &r 3 # comment\r\n---\r\n# only a comment\r\n---\r\n"
    edited = apply_edits("f.yaml", data, [SetScalar(document=0, field=("spec", "replicas"), value=4)])
    assert edited == data.replace(b"3", b"4")
    with pytest.raises(EditRefused):
        apply_edits("f.yaml", data, [SetScalar(document=1, field=("spec", "replicas"), value=4)])
