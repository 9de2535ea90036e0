"""New documents at the end of a file, which need not be there yet."""

from collections.abc import Sequence

from reconciler.errors import InputError
from reconciler.manifests.differences import find_difference
from reconciler.manifests.documents import parse_documents
from reconciler.manifests.edits import AppendDocument, EditRefused

_START = b"---\n"


def append_documents(path: str, data: bytes, edits: Sequence[AppendDocument]) -> bytes:
    """The bytes with each document behind them; what was there stays, byte for byte.

    Raises EditRefused when what comes out does not read as the old documents followed by the new ones.
    """
    appended = data if data.endswith(b"\n") or not data else data + b"\n"
    for edit in edits:
        appended += (_START if appended else b"") + edit.text.encode()
    try:
        wanted = [
            document.value
            for text in (data, *(edit.text.encode() for edit in edits))
            for document in parse_documents(path, text)
        ]
        found = [document.value for document in parse_documents(path, appended)]
    except InputError as error:
        raise EditRefused(path, error.line, error.field, error.message) from error
    if find_difference(wanted, found) is not None:
        raise EditRefused(path, 0, "", "a document at its end would not be read as wanted: end the last one with ---")
    return appended
