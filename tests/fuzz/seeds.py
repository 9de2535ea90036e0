"""The manifests that everything is mutated from: every YAML file of the tests' data and of the demo's repository."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("tests/testdata", "reconciler/cli/demo_data/repository")
_MARKER = re.compile(r"^---\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Seed:
    """One document, and the name of its file."""

    name: str
    text: str


@cache
def read_seeds() -> tuple[Seed, ...]:
    """All of them, those of one file side by side; the same in every checkout, and no text twice."""
    paths = sorted(path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.y*ml"))
    documents = ((text, path.name) for path in paths for text in _MARKER.split(path.read_text()) if text.strip())
    return tuple(Seed(name, text) for text, name in dict(documents).items())


@cache
def read_repositories() -> tuple[dict[str, str], ...]:
    """Whole repositories, path -> text: charts, overlays and what deploys them."""
    folders = sorted((_ROOT / "tests/testdata/clusters").glob("*/before"))
    return tuple(
        {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.*"))}
        for folder in folders
    )
