"""An open file says what may stand in a document without reading it."""

from reconciler.manifests.documents import OpenFile


def test_only_a_document_whose_text_has_the_key_may_name_it() -> None:
    text = 'a: 1\n---\nkind: X\nstatus: {}\n---\n"st\\x61tus": {}\n---\nb: {<<: *a}\n'
    file = OpenFile("a.yaml", text.encode())

    assert [file.may_name(number, "status") for number in range(5)] == [False, True, True, False, False]
    assert file.documents_near(2)[0].value == {"status": {}}


def test_a_file_that_cannot_be_cut_is_one_section() -> None:
    file = OpenFile("a.yaml", b"%YAML 1.1\n---\na: 1\n---\nstatus: 1\n")

    assert [file.may_name(number, "status") for number in range(2)] == [True, True]
