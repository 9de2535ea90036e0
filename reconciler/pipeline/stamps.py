"""The first line of a file that we make: it proves that nobody has changed the rest."""

import hashlib
import re

_STAMP = re.compile(rb"# Made by reconciler(?: init)? \(([0-9a-f]{16})\)[^\n]*\n")


def stamp(body: bytes, maker: str = "reconciler") -> bytes:
    """The first line for a text, by which a later run knows that nobody has changed it."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    words = "Change anything below and the file is yours: it is kept then."
    return f"# Made by {maker} ({digest}). {words}\n".encode()


def is_untouched(content: bytes) -> bool:
    """Whether a file is one of ours, as we wrote it."""
    match = _STAMP.match(content)
    return match is not None and hashlib.sha256(content[match.end() :]).hexdigest()[:16].encode() == match[1]
