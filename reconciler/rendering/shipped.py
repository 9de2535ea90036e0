"""The templates that come with the reconciler."""

from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

SUFFIX = ".j2"


def shipped_templates() -> Mapping[str, str]:
    """Name (`pull_request/body.md.j2`) -> text: of the installed package, or of the checkout it is imported from."""
    package = resources.files("reconciler")
    packaged = package / "_templates"
    root = packaged if packaged.is_dir() else Path(str(package)).parent / "templates"
    return dict(sorted(_read(root, "")))


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read(entry, f"{name}/")
        elif entry.name.endswith(SUFFIX):
            yield name, entry.read_text(encoding="utf-8")
