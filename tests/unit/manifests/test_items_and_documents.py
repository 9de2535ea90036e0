"""New items at the end of a list and new documents at the end of a file: what was there stays, byte for byte."""

import pytest
import yaml

from reconciler.manifests.editing import append_documents, apply_edits
from reconciler.manifests.edits import AppendDocument, Edit, EditRefused, InsertItem, SetEmbedded, SetScalar

ITEM = "- path: ours.yaml\n"
FIRST = "# first\na: 1\n"


def insert(text: str, *others: Edit, index: int = 1, item: str = ITEM, in_line: bool = False) -> str:
    edit = InsertItem(document=0, parent=("patches",), index=index, text=item, in_line=in_line)
    return apply_edits("kustomization.yaml", text.encode(), [*others, edit]).decode()


@pytest.mark.parametrize("above", ["- path: a.yaml", "- {path: a.yaml}    # why", "- |\n  - op: add\n", "- a:\n  - b"])
@pytest.mark.parametrize(
    "below", ["\n", "\n  # of the last one\n", "\n# of what follows\nresources: []\n", "\n---\nb: 1\n"]
)
@pytest.mark.parametrize("blank", ["", "  "])
def test_an_item_is_aligned_with_the_last_one(above: str, below: str, blank: str) -> None:
    head = "patches:\n" + "".join(f"{blank}{line}\n" for line in above.splitlines()).rstrip("\n")
    if blank or "of the last" not in below:
        deeper = below if "of the last" in below and not blank else ""
        expected = head + deeper + f"\n{blank}- path: ours.yaml" + below[len(deeper) :]
        assert insert(head + below) == expected
        crlf = (head + below).replace("\n", "\r\n")
        assert insert(crlf) == expected.replace("\n", "\r\n")


def test_an_item_may_be_added_where_another_changes() -> None:
    other = SetScalar(document=0, field=("patches", 0, "path"), value="b.yaml")
    assert insert("patches:\n- path: a.yaml\n", other) == "patches:\n- path: b.yaml\n" + ITEM


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("patches: [a]\n", 'patches: [a, {path: "ours.yaml"}]\n'),
        ("patches: [ {path: a}, ] # all\n", 'patches: [ {path: a}, {path: "ours.yaml"}, ] # all\n'),
        ("patches: [\n  {path: a} # one\n]\n", 'patches: [\n  {path: a}, {path: "ours.yaml"} # one\n]\n'),
    ],
)
def test_an_item_of_a_one_line_list_stays_on_its_line(text: str, expected: str) -> None:
    assert insert(text, in_line=True) == expected


def test_several_items_stand_one_behind_the_other() -> None:
    more = InsertItem(document=0, parent=("patches",), index=2, text="- path: more.yaml\n", in_line=True)
    first = InsertItem(document=0, parent=("patches",), index=1, text=ITEM, in_line=True)
    for text in ("patches:\n- a\n", "patches: [a]\n"):
        edited = apply_edits("kustomization.yaml", text.encode(), [first, more]).decode()
        assert yaml.safe_load(edited) == {"patches": ["a", {"path": "ours.yaml"}, {"path": "more.yaml"}]}


@pytest.mark.parametrize("header", ["|", "|-", "|2-"])
def test_a_text_that_is_an_item_of_a_list_is_edited_inside(header: str) -> None:
    text = f"patches:\n- first\n- {header}   # why\n  kind: Deployment\n  spec:\n    replicas: 1\n- last\n"
    inner = SetScalar(document=0, field=("spec", "replicas"), value=4)
    edit = SetEmbedded(document=0, field=("patches", 1), inner=inner)
    if header == "|2-":
        with pytest.raises(EditRefused, match="an indentation of its own"):
            apply_edits("kustomization.yaml", text.encode(), [edit])
        return
    edited = apply_edits("kustomization.yaml", text.encode(), [edit]).decode()
    assert edited == text.replace("replicas: 1", "replicas: 4")


@pytest.mark.parametrize(
    ("text", "index", "item", "reason"),
    [
        ("patches: [a]\n", 1, ITEM, "flow style"),
        ("patches:\n", 0, ITEM, "expected a list"),
        ("patches: {}\n", 0, ITEM, "expected a list"),
        ("patches:\n- a\n", 2, ITEM, "expected 2 items, got 1"),
        ("patches:\n- a\n", 1, "path: x\n", "expected a list of one item"),
        ("patches: &p\n- a\nmore: *p\n", 1, ITEM, "used by aliases"),
        ("a: 1\n", 0, ITEM, "not there"),
    ],
)
def test_an_item_is_refused_where_no_list_takes_it(text: str, index: int, item: str, reason: str) -> None:
    with pytest.raises(EditRefused, match=reason):
        insert(text, index=index, item=item)


@pytest.mark.parametrize("data", ["", "# a comment\n", "b: 2\n", "b: 2", "b: 2\n...\n", "b: 2\n---\nc: |\n  x\n"])
def test_a_document_goes_after_all_others(data: str) -> None:
    new = [AppendDocument(text=FIRST), AppendDocument(text="z: 26\n")]
    appended = append_documents("f.yaml", data.encode(), new).decode()
    assert appended.startswith(data)
    assert appended.endswith(FIRST + "---\nz: 26\n")


def test_a_document_behind_an_unfinished_text_is_refused() -> None:
    with pytest.raises(EditRefused):
        append_documents("f.yaml", b'b: "2\n', [AppendDocument(text=FIRST)])
