"""Edits that touch each other in a file go into one pull request, for the second to be merged would conflict."""

import subprocess
from pathlib import Path

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.proposals import ChangeSet, Part
from reconciler.pipeline.draft import find_touching

BASE = "".join(f"line {number}\n" for number in range(9)).encode()


def key(name: str) -> ResourceKey:
    return ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name=name)


def edited(*lines: int, word: str = "other") -> bytes:
    """The base with other text in these lines."""
    changed = [f"{word} {number}\n" if number in lines else f"line {number}\n" for number in range(9)]
    return "".join(changed).encode()


def touching(first: bytes, second: bytes, base: bytes | None = BASE) -> list[set[str]]:
    """The names that find each other, of two changes to one file in two parts of a group."""
    alone = {Part.URGENT: first, Part.APPROVAL: second}
    sets = [
        ChangeSet(group="g", part=part, head_branch=str(part), decision="", files={"a.yaml": body}, changes=())
        for part, body in alone.items()
    ]
    files = {} if base is None else {"a.yaml": base}
    found = find_touching(sets, lambda each, path: [(key(str(each.part)), each.files[path])], files, {})
    return [{variant.name for variant in bond} for bond in found]


BOTH = [{"urgent", "approval"}]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ((3,), (3,), BOTH),
        ((3,), (4,), BOTH),
        ((3,), (5,), []),
        ((1, 7), (4,), []),
        ((1, 7), (6,), BOTH),
        ((0,), (8,), []),
    ],
)
def test_lines_without_one_between_them_touch(
    first: tuple[int, ...], second: tuple[int, ...], found: list[set[str]], tmp_path: Path
) -> None:
    mine, yours = edited(*first), edited(*second, word="third")
    assert touching(mine, yours) == found
    assert does_conflict(tmp_path, mine, yours) == bool(found)


def test_what_both_insert_at_one_place_touches() -> None:
    lines = BASE.splitlines(keepends=True)
    first, second = (b"".join([*lines[:4], text, *lines[4:]]) for text in (b"one\n", b"two\n"))
    assert touching(first, second) == BOTH


def test_a_file_that_both_would_make_touches() -> None:
    assert touching(b"mine\n", b"yours\n", base=None) == BOTH


def does_conflict(folder: Path, first: bytes, second: bytes) -> bool:
    """What git says of merging both."""
    for name, body in (("base", BASE), ("first", first), ("second", second)):
        (folder / name).write_bytes(body)
    command = ["git", "merge-file", "-p", "-q", "first", "base", "second"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode > 0
