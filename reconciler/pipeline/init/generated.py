"""Files that init makes: replaced while nobody has changed them, which their first line can prove."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reconciler.pipeline.work_tree import read_content, refuse_links, write_content

_STAMP = re.compile(rb"# Made by reconciler init \(([0-9a-f]{16})\)[^\n]*\n")


class Fate(StrEnum):
    """What becomes of a file."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFile:
    """A file of the work tree: its path from the root, and the text that init wants in it, without its first line.

    What is `started` is a person's as soon as it is there: its first line proves nothing.
    """

    path: str
    text: str
    is_started: bool = False

    @property
    def content(self) -> bytes:
        """The whole file."""
        body = self.text.encode()
        return body if self.is_started else stamp(body) + body

    def fate_in(self, root: Path) -> Fate:
        """What becomes of it in a work tree, or would."""
        refuse_links(root, self.path, f"init: {self.path}")
        present = read_content(root, self.path)
        if present is None:
            return Fate.CREATED
        if present == self.content:
            return Fate.UNCHANGED
        return Fate.UPDATED if is_untouched(present) else Fate.KEPT

    def write(self, root: Path) -> Fate:
        """Write it, unless a person has changed what is there."""
        fate = self.fate_in(root)
        if fate in (Fate.CREATED, Fate.UPDATED):
            write_content(root, self.path, self.content, f"init: {self.path}")
        return fate


def stamp(body: bytes) -> bytes:
    """The first line for a text, by which a later run knows that nobody has changed it."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    words = "Change anything below and the file is yours: it is kept then."
    return f"# Made by reconciler init ({digest}). {words}\n".encode()


def is_untouched(content: bytes) -> bool:
    """Whether a file is one of ours, as we wrote it."""
    match = _STAMP.match(content)
    return match is not None and stamp(content[match.end() :]) == match[0]
