"""Files that init makes: replaced while nobody has changed them, which their first line can prove."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reconciler.pipeline.stamps import is_untouched, stamp
from reconciler.pipeline.work_tree import read_content, refuse_links, write_content


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
        return body if self.is_started else stamp(body, "reconciler init") + body

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
