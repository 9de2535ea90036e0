"""An edit of any manifest, however it is written, changes what is wanted and not a byte else, or is refused."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

import pytest

from reconciler.manifests.documents import Document
from reconciler.manifests.editing import apply_edits
from reconciler.manifests.edits import EditRefused, InsertBlock, PlainEdit, ReplaceBlock, SetScalar
from reconciler.manifests.wording import Field
from tests.fuzz.cases import Tape, fuzz, written_file
from tests.fuzz.oracle import (
    MOST_FIELDS,
    Changed,
    Difference,
    assert_values,
    compare,
    field_of,
    fields_of,
    find_differences,
    value_at,
    written_in,
)

SCALAR_CHUNKS, SCALARS_PER_CHUNK = 8, 500
BLOCK_CHUNKS, BLOCKS_PER_CHUNK = 4, 1_150
GROUP_CHUNKS, GROUPS_PER_CHUNK = 4, 1_125

NEW_SCALARS: tuple[str | int, ...] = (
    7, 0, -5, 10**12, True, "7", "H100", "", " ", "a b", "yes", "null", "~", "0x1F", "1e3", ".nan", "2024-01-01",
    "a: b", "- x", "#c", "a #b", "a:", "'", '"', "it's", 'say "x"', "a\nb", "a\\nb", "\t", "x\r\n", "💡 é", "\u2028",
    "\x85", "\ufeff", "\0", "\x1b", "{{ x }}", "${X}", "*a", "&a", "!x", "|", ">", "%", "@", "`", "[a", "a]", "a, b",
    "{", "?", "? x", ": x", "---", "...", "--- a", "<<", "=", "x" * 300, "a\n---\nb", "end ", "x:y", "a\u00a0b",
    "\ud7ff", "\U0010ffff", ",",
)  # fmt: skip
BLOCKS = (
    "5", '"5"', "{}", "[]", "text", "a: 1\n", "a: 1\nb:\n  c: x\n", "- 1\n- k: v\n", "|\n  text\n",
    "|-\n  a\n\n  b\n", "'q'", "a: &b 1\nc: 2\n", "{a: [1, x]}", "# c\na: 1\n", "a: 1 # c\n\n# d\nb: 2\n",
    "a:\n- x\n- y\n", "a: |\n  x\nb: >-\n  y\n", "~", "\n\na: 1\n", ">-\n  folded\n  text\n", '"a\n  b"',
    "- - 1\n  - 2\n", "? a\n: b\n", "a: 1\n...\n", "--- \na: 1\n", "a: 'x\n\n  y'\n", "|+\n  kept\n\n", "!!str 5",
    "a: {{ x }}", "  a: 1\n  b: 2\n", "[1,\n 2]", "é: 💡\n", "a: |\n  x", "",
)  # fmt: skip
KEYS = ("status", "nodeSelector", "a.b/c", "on", "8080", "a b", "x: y", "#", "é", "", "replicas", "<<", "- a", "'", "~")


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and edits of fields that it has."""

    body: bytes
    documents: tuple[Document, ...] = field(repr=False)
    edits: tuple[PlainEdit, ...]


def choose_field(tape: Tape, documents: tuple[Document, ...]) -> tuple[int, Field]:
    """A field of one document."""
    document = tape.choose(documents)
    fields = list(islice(fields_of(document.value), MOST_FIELDS))
    leaves = [field for field in fields if not isinstance(value_at(document.value, field), dict | list)]
    return document.index, tape.choose(leaves if leaves and not tape.one_in(8) else fields)


def scalar_edit(tape: Tape, documents: tuple[Document, ...]) -> PlainEdit:
    number, field = choose_field(tape, documents)
    return SetScalar(document=number, field=field, value=tape.choose(NEW_SCALARS))


def block_edit(tape: Tape, documents: tuple[Document, ...]) -> PlainEdit:
    number, field = choose_field(tape, documents)
    around = field[: -tape.choose((1, 1, 2, 3))]
    if tape.one_in(2):
        return ReplaceBlock(document=number, field=around if tape.one_in(3) else field, text=tape.choose(BLOCKS))
    return InsertBlock(document=number, parent=around, key=tape.choose(KEYS), text=tape.choose(BLOCKS))


def any_edit(tape: Tape, documents: tuple[Document, ...]) -> PlainEdit:
    return block_edit(tape, documents) if tape.one_in(3) else scalar_edit(tape, documents)


def case_of(tape: Tape, edit: Callable[[Tape, tuple[Document, ...]], PlainEdit], number: int) -> Case:
    body, documents = written_file(tape)
    return Case(body, documents, tuple(edit(tape, documents) for _ in range(number)))


def scalar_case(tape: Tape) -> Case:
    return case_of(tape, scalar_edit, 1)


def block_case(tape: Tape) -> Case:
    return case_of(tape, block_edit, 1)


def group_case(tape: Tape) -> Case:
    return case_of(tape, any_edit, tape.choose((2, 3, 5)))


def edited(body: bytes, *edits: PlainEdit) -> bytes | None:
    """The edited file; None when the edits are refused, in which nothing but a refusal is allowed."""
    refused: EditRefused
    try:
        return apply_edits("f.yaml", body, edits)
    except EditRefused as error:
        refused = error
    assert refused.path == "f.yaml"
    assert 0 <= refused.line <= body.count(b"\n") + 1
    assert refused.message
    return None


@pytest.mark.parametrize("chunk", range(SCALAR_CHUNKS))
def test_setting_any_scalar_of_any_manifest(chunk: int) -> None:
    @fuzz(scalar_case, chunk=chunk, examples=SCALARS_PER_CHUNK)
    def check(case: Case) -> None:
        after = edited(case.body, *case.edits)
        if after is not None:
            check_scalar(case, after)

    check()


def check_scalar(case: Case, after: bytes) -> None:
    (edit,) = case.edits
    assert isinstance(edit, SetScalar)
    assert_values(case.documents, case.body, after, [edit])
    if after == case.body:
        return
    changed = compare(case.body, after)
    # Where a file is too odd for PyYAML it has no opinion; else one other scalar.
    (difference,) = find_differences(changed) or (None,)
    if difference is not None:
        assert_inside_scalar(changed, edit, difference)
    assert_stable(after, edit)
    assert_undone(case, after, edit, difference)


def assert_inside_scalar(changed: Changed, edit: SetScalar, difference: Difference) -> None:
    """PyYAML's tree differs at the same path, and the bytes differ inside that scalar only."""
    # Of keys no more than that they are some: Kubernetes reads a few otherwise than they are written.
    assert len(difference.path) == len(edit.field)
    for part, wanted in zip(difference.path, edit.field, strict=True):
        assert part == wanted if isinstance(wanted, int) else isinstance(part, str)
    if changed.start < changed.old_end:
        assert difference.old.start_mark.index <= changed.start
        assert changed.old_end <= difference.old.end_mark.index


def assert_stable(after: bytes, edit: PlainEdit) -> None:
    """Made again, the edit changes nothing; what it wrote may be something that is never written over."""
    again = edited(after, edit)
    assert again == after or (again is None and is_protected(edit))


def is_protected(edit: PlainEdit) -> bool:
    """Whether an edit writes a template, or a block's anchor or tag."""
    if isinstance(edit, SetScalar):
        return isinstance(edit.value, str) and ("{{" in edit.value or "${" in edit.value)
    return edit.text.startswith(("!", "&"))


def assert_undone(case: Case, after: bytes, edit: SetScalar, difference: Difference | None) -> None:
    """The old value can be set again; and where there was one way only to write it, that gives the old bytes."""
    (old,) = (document for document in case.documents if document.index == edit.document)
    value = value_at(old.value, edit.field)
    if not isinstance(value, str | int):
        return
    restored = edited(after, SetScalar(document=edit.document, field=edit.field, value=value))
    if restored is None:
        assert is_protected(edit)
    elif difference is not None and isinstance(value, str) == isinstance(edit.value, str):
        is_quoted_alike = difference.old.style == difference.new.style
        if is_quoted_alike and written_in(case.body, difference.old) == str(value):
            assert restored == case.body


@pytest.mark.parametrize("chunk", range(BLOCK_CHUNKS))
def test_inserting_and_replacing_any_block_of_any_manifest(chunk: int) -> None:
    @fuzz(block_case, chunk=chunk, examples=BLOCKS_PER_CHUNK)
    def check(case: Case) -> None:
        after = edited(case.body, *case.edits)
        if after is not None:
            check_block(case, after)

    check()


def check_block(case: Case, after: bytes) -> None:
    (edit,) = case.edits
    assert_values(case.documents, case.body, after, [edit])
    changed = compare(case.body, after)
    if isinstance(edit, InsertBlock):
        assert changed.start == changed.old_end
        assert after.endswith(b"\n") == case.body.endswith(b"\n")
    else:
        assert_inside_block(changed, edit)
        assert_stable(after, edit)
    if b"\r\n" in case.body and case.body.count(b"\n") == case.body.count(b"\r\n"):
        assert after.count(b"\n") == after.count(b"\r\n")


def assert_inside_block(changed: Changed, edit: PlainEdit) -> None:
    """PyYAML's trees differ at one path and below it, and the bytes from the line break before its value on."""
    # The blanks of a new line may be those of the old one below it: then the change seems to begin behind them.
    first_line = changed.old[: changed.start].rstrip(" ").removesuffix("\n").count("\n")
    for difference in find_differences(changed):
        assert len(difference.path) >= len(field_of(edit))
        assert difference.old.end_mark.line >= first_line


@pytest.mark.parametrize("chunk", range(GROUP_CHUNKS))
def test_several_edits_of_one_file_at_once(chunk: int) -> None:
    @fuzz(group_case, chunk=chunk, examples=GROUPS_PER_CHUNK)
    def check(case: Case) -> None:
        after = edited(case.body, *case.edits)
        if after is not None:
            assert_values(case.documents, case.body, after, case.edits)

    check()
