"""Numbers of a document that is a text in another one."""

import pytest

from reconciler.manifests.editing import apply_edits
from reconciler.manifests.edits import EditRefused, SetEmbedded, SetScalar
from reconciler.manifests.wording import Field

VALUES = """\
helm:
  values: |    # by hand
    decode:
      replicas: 2    # busy

    prefill: {replicas: 1}
name: x
"""


def inside(*field: str, value: int, text: Field = ("helm", "values"), document: int = 0) -> SetEmbedded:
    return SetEmbedded(document=0, field=text, inner=SetScalar(document=document, field=field, value=value))


def edit(text: str, *edits: SetEmbedded | SetScalar) -> str:
    return apply_edits("app.yaml", text.encode(), edits).decode()


def test_all_numbers_of_one_text_are_written_together() -> None:
    edits = (inside("decode", "replicas", value=5), inside("prefill", "replicas", value=3))
    expected = VALUES.replace("replicas: 2", "replicas: 5").replace("replicas: 1", "replicas: 3")
    assert edit(VALUES, *edits) == expected


def test_a_number_next_to_the_text_is_written_with_it() -> None:
    outer = SetScalar(document=0, field=("name",), value="z")
    found = edit(VALUES, inside("decode", "replicas", value=5), outer)
    assert found == VALUES.replace("replicas: 2", "replicas: 5").replace("name: x", "name: z")


def test_two_edits_of_one_number_are_refused() -> None:
    with pytest.raises(EditRefused, match="two edits want the same field"):
        edit(VALUES, inside("decode", "replicas", value=5), inside("decode", "replicas", value=6))


def test_a_refusal_inside_of_a_text_names_the_line_of_the_file() -> None:
    with pytest.raises(EditRefused) as caught:
        edit(VALUES, inside("decode", value=5))
    assert (caught.value.line, caught.value.field) == (4, "helm.values: decode")


@pytest.mark.parametrize("field", [("helm",), ("helm", "none"), ()])
def test_what_is_no_text_is_refused(field: Field) -> None:
    with pytest.raises(EditRefused, match=r"^app\.yaml"):
        edit(VALUES, inside("decode", "replicas", value=5, text=field))


def test_a_document_that_is_not_there_is_refused() -> None:
    with pytest.raises(EditRefused, match="there is no document 7"):
        edit(VALUES, SetEmbedded(document=7, field=("a",), inner=SetScalar(document=0, field=("b",), value=1)))
    with pytest.raises(EditRefused, match="there is no document 7"):
        edit(VALUES, inside("decode", "replicas", value=5, document=7))


@pytest.mark.parametrize(
    "text", ['"{replicas: 1}"', ">-\n    replicas: 1\n", "|2\n    replicas: 1\n", "|+\n   replicas: 1\n"]
)
def test_a_text_whose_lines_are_not_its_own_is_refused(text: str) -> None:
    with pytest.raises(EditRefused, match="literal block"):
        edit(f"a:\n  values: {text}", inside("replicas", value=5, text=("a", "values")))
