"""Inserting and replacing blocks: where they stand, how they are indented, and when they are refused."""

import pytest

from reconciler.manifests.editing import apply_edits
from reconciler.manifests.edits import Edit, EditRefused, InsertBlock, ReplaceBlock, SetScalar
from reconciler.manifests.wording import Field

STATUS = "a: 1\nb:\n  c: x\n"


def edit(text: str, *edits: Edit) -> str:
    return apply_edits("apps/app.yaml", text.encode(), edits).decode()


def insert(text: str, parent: Field, key: str = "status", block: str = STATUS, *, document: int = 0) -> str:
    return edit(text, InsertBlock(document=document, parent=parent, key=key, text=block))


def replace(text: str, field: Field, block: str, *, document: int = 0) -> str:
    return edit(text, ReplaceBlock(document=document, field=field, text=block))


BLOCK = "status:\n  a: 1\n  b:\n    c: x\n"


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("spec:\n  x: 1\n", ""),
        ("spec:\n  x: 1\n", "---\nkind: next\n"),
        ("spec:\n  x: 1\n", "\n# trailing comment\n"),
        ("spec:\n  x: 1 # behind\n", "# trailing comment\n---\n"),
        ("spec:\n  x: 1\n  # about spec\n", "# trailing comment\n"),
        ("spec:\n  x: 1\n\n    # deeper\n\n  # about spec\n", "\n# trailing comment\n"),
        ("spec:\n  x: 1\n", "...\n"),
        ("spec:\n  x: |\n    text\n", "\n\n"),
        ("spec:\n  x: |+\n    text\n\n", ""),
        ("spec:\n  x: >-\n    text\n", "\n# trailing comment\n"),
        ("spec:\n  x: |\n", ""),
        ("spec:\n- a\n- b:\n", "\n"),
        ("spec: {x: [1,\n  2]} # c\n", "\n"),
        ("spec: 'a\n  b'\n", ""),
        ("a: &a 1\nspec: *a\n", "# c\n"),
        ("# head\n---\nspec:\n  x:\n", "---\n"),
    ],
)
def test_a_block_is_inserted_right_behind_the_last_content(above: str, below: str) -> None:
    assert insert(above + below, ()) == above + BLOCK + below
    crlf = (above + below).replace("\n", "\r\n")
    assert insert(crlf, ()) == (above + BLOCK + below).replace("\n", "\r\n")
    assert insert("\ufeff" + above + below, ()) == "\ufeff" + above + BLOCK + below


def test_a_missing_final_newline_stays_missing() -> None:
    assert insert("spec: 1", ()) == "spec: 1\n" + BLOCK.rstrip("\n")
    assert insert("a: 1\r\nspec: 1 # c", (), block="5") == "a: 1\r\nspec: 1 # c\r\nstatus: 5"


def test_a_block_goes_into_a_nested_parent_at_its_siblings_indentation() -> None:
    text = "spec:\n    template:\n        spec:\n            x: 1\n        # of template\n    replicas: 3\n"
    edited = insert(text, ("spec", "template", "spec"), "nodeSelector", "gpu: H100\n")
    assert edited == text.replace("x: 1\n", "x: 1\n            nodeSelector:\n              gpu: H100\n")
    wide = insert(text, ("spec",), "strategy", "type: Recreate\n")
    assert wide == text + "    strategy:\n        type: Recreate\n"


def test_a_block_goes_into_a_list_item() -> None:
    text = "containers:\n  - name: a\n    image: x\n  - name: b\n"
    assert insert(text, ("containers", 0), "env", "- name: A\n") == text.replace(
        "    image: x\n", "    image: x\n    env:\n      - name: A\n"
    )
    assert insert(text, ("containers", 1), "image", "y") == text + "    image: y\n"


@pytest.mark.parametrize("value", ["5", '"5"', "{a: 1}", "[]", "|\n  text\n  more\n", "plain text"])
def test_any_single_value_can_be_inserted(value: str) -> None:
    assert insert("a: 1\n", (), "b", value) == f"a: 1\nb: {value.rstrip()}\n"


def test_a_key_is_quoted_when_it_must_be() -> None:
    assert insert("a: 1\n", (), "on", "1") == 'a: 1\n"on": 1\n'
    assert insert("a: 1\n", (), "llm-d.ai/cost", '"5"') == 'a: 1\nllm-d.ai/cost: "5"\n'


def test_blocks_that_end_on_one_line_do_not_fall_into_each_other() -> None:
    edits: list[Edit] = [
        InsertBlock(document=0, parent=(), key="status", text="s: 1"),
        InsertBlock(document=0, parent=("spec", "t"), key="new", text="n: 1"),
        InsertBlock(document=0, parent=("spec",), key="z", text="2"),
        SetScalar(document=0, field=("spec", "t", "x"), value=7),
    ]
    assert edit("spec:\n  t:\n    x:", *edits) == (
        "spec:\n  t:\n    x: 7\n    new:\n      n: 1\n  z: 2\nstatus:\n  s: 1"
    )


def test_an_own_key_may_be_inserted_next_to_a_merge() -> None:
    text = "b: &b {r: 1}\nspec:\n  <<: *b\n  x: 1\n"
    assert insert(text, ("spec",), "r", "2") == text + "  r: 2\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("status:\n  old: 1\n  # inside\n  more:\n  - x\n", BLOCK),
        ("status: # ours\n  old: 1\n", BLOCK.replace("status:", "status: # ours")),
        ("status:\n    old: 1\n", "status:\n    a: 1\n    b:\n      c: x\n"),
        ("status: {}\n", BLOCK),
        ("status: {} # ours\n", BLOCK.replace("status:", "status: # ours")),
        ("status: {a: 1,\n  b: 2}\n", BLOCK),
        ("status:\n", BLOCK),
        ("status: ~\n", BLOCK),
        ("status: text\n", BLOCK),
        ("status: |\n  text\n", BLOCK),
        ("status:\n- 1\n- 2\n", BLOCK),
    ],
)
@pytest.mark.parametrize("below", ["", "x: 1\n", "\n# trailing comment\n", "---\nz: 1\n"])
def test_the_whole_value_of_a_key_is_replaced(old: str, new: str, below: str) -> None:
    head = "# head\nspec:\n  r: 3 # c\n"
    assert replace(head + old + below, ("status",), STATUS) == head + new + below
    crlf = (head + old + below).replace("\n", "\r\n")
    assert replace(crlf, ("status",), STATUS) == (head + new + below).replace("\n", "\r\n")


@pytest.mark.parametrize("old", ["a: 1", "a:\n  x: 1\n  y: 2", "a: {x: 1}", "a:", "a: |\n  x", "a:\n- 1"])
@pytest.mark.parametrize("value", ["5", "{}", "|-\n  text", "'q'"])
def test_a_block_can_become_a_value_on_its_line(old: str, value: str) -> None:
    assert replace(f"{old}\nb: 1\n", ("a",), value) == f"a: {value}\nb: 1\n"


def test_a_list_keeps_the_place_of_its_dashes() -> None:
    text = "s:\n  conditions:\n  - type: a\n  - type: b\n  x: 1\n"
    assert replace(text, ("s", "conditions"), "- type: c\n  ok: true\n") == (
        "s:\n  conditions:\n  - type: c\n    ok: true\n  x: 1\n"
    )


def test_a_block_with_the_same_value_changes_no_byte() -> None:
    text = "status:\n      b: {c: x} # odd\n      a: 0x1\n"
    assert replace(text, ("status",), STATUS) == text


@pytest.mark.parametrize(
    ("text", "parent", "words"),
    [
        ("spec: {x: 1}\n", ("spec",), "flow style"),
        ('{"a": 1}\n', (), "flow style"),
        ("spec:\n", ("spec",), "got an empty value"),
        ("spec: {}\n", ("spec",), "flow style"),
        ("---\n", (), "got an empty value"),
        ("spec:\n- 1\n", ("spec",), "got an empty value, a scalar or a list"),
        ("a: 1\n", ("spec",), "the field is not there"),
        ("spec:\n  x: 1\n  status: 2\n", ("spec",), "the key exists already"),
        ("a: &s\n  x: 1\nspec: *s\n", ("spec",), "this is an alias"),
        ("spec: &s\n  x: 1\nb: *s\n", ("spec",), "the anchor &s is used by aliases"),
        ("b: &b {x: 1}\nspec:\n  <<: *b\n", ("spec",), "keys of its own"),
        ("spec:\n  ? x\n  : 1\n", ("spec",), "not written as"),
        ("spec:\n  x: |\n    no newline", ("spec",), "add one at the end of the file"),
        ("spec:\n  a: 1\n  ? x\n", ("spec",), "a key without a colon"),
        ("a: 1\n? x\t\r\n", (), "a key without a colon"),
    ],
)
def test_an_insertion_is_refused_with_its_reason(text: str, parent: Field, words: str) -> None:
    with pytest.raises(EditRefused) as raised:
        insert(text, parent)
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("spec: {status: {}}\n", ("spec", "status"), "flow style"),
        ("status: &s {}\n", ("status",), "an anchor or a tag"),
        ("status: !x {}\n", ("status",), "an anchor or a tag"),
        ("status: &s {}\nb: *s\n", ("status",), "used by aliases"),
        ("status:\n  a: &s 1\nb: *s\n", ("status",), "expected an anchor &s"),
        ("status: ${X}\n", ("status",), "template"),
        ("l:\n- a: 1\n", ("l", 0), "expected the key of a mapping"),
        ("a: 1\n", (), "expected the key of a mapping"),
        ("a: 1\n", ("status",), "the field is not there"),
    ],
)
def test_a_replacement_is_refused_with_its_reason(text: str, field: Field, words: str) -> None:
    with pytest.raises(EditRefused) as raised:
        replace(text, field, STATUS)
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("a: [", "the new text is not YAML"),
        ("", "expected one value in the new text, got 0"),
        ("a: 1\n---\nb: 1\n", "expected one value in the new text, got 2"),
        ("a: 1\r\n", "expected LF line breaks"),
        ("a: *x\n", "the new text is not YAML"),
        ("a: 'x\u2028 y'\n", "U+2028"),
    ],
)
def test_new_text_that_is_not_one_value_is_refused(block: str, words: str) -> None:
    with pytest.raises(EditRefused, match=r"apps/app\.yaml") as raised:
        insert("x: 1\n", (), "status", block)
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("text", "inside", "block"),
    [
        ("status:\n  x: 1\n", ("status", "x"), STATUS),
        ("status:\n  x: 1\n", ("status", "x"), "x: 2\n"),
        ("status:\n- x: 1\n", ("status", 0, "x"), "[]"),
        ("status:\n- x: 1\n", ("status", 0, "x"), "5"),
    ],
)
def test_edits_inside_a_replaced_block_are_refused(text: str, inside: Field, block: str) -> None:
    around = ReplaceBlock(document=0, field=("status",), text=block)
    for within in (
        SetScalar(document=0, field=inside, value=2),
        InsertBlock(document=0, parent=inside[:-1], key="y", text="1"),
    ):
        for edits in ([around, within], [within, around]):
            with pytest.raises(EditRefused, match="two edits want the same place"):
                edit(text, *edits)
