"""Whole repositories of every layout, before and after: a change is made where it is decided, and can be undone."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.tools.sample_clusters import CASES, case_names, change, counts_of, read_files
from tests.tools.sample_moves import move, move_names
from tests.tools.sample_pull_requests import propose

UPDATE = "UPDATE_GOLDEN"


def _write(folder: Path, files: dict[str, bytes], reasons: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    folder.mkdir(exist_ok=True)
    (folder / "HELD.txt").write_text(reasons)


@pytest.mark.parametrize("case", case_names())
def test_files_change_where_a_number_is_decided_and_nowhere_else(case: str) -> None:
    before = read_files(case)
    sample = change(case, before)
    changed = {path: body for path, body in sample.after.items() if body != before.get(path)}
    reasons = "".join(f"{key}: {reason}\n" for key, reason in sorted(sample.held.items()))
    if os.environ.get(UPDATE) == "1":
        _write(CASES / case / "after", changed, reasons)
    expected = read_files(case, "after")
    assert reasons == expected.pop("HELD.txt").decode()
    assert changed == expected
    assert bool(changed) == bool(sample.changed)


# What moves runs on accelerators of its own, which the settings of these plans have no profiles for.
@pytest.mark.parametrize("case", [name for name in case_names() if name not in move_names()])
def test_a_plan_proposes_these_files_in_these_words(case: str) -> None:
    proposed = propose(case, read_files(case))
    golden = CASES / case / "PULL_REQUEST.md"
    if os.environ.get(UPDATE) == "1":
        golden.unlink(missing_ok=True)
        if proposed.text:
            golden.write_text(proposed.text)
    assert proposed.text == (golden.read_text() if golden.exists() else "")
    expected = read_files(case, "after")
    del expected["HELD.txt"]
    assert proposed.files == expected


@pytest.mark.parametrize("case", case_names())
def test_every_edit_can_be_undone_byte_for_byte(case: str) -> None:
    before = read_files(case)
    after = change(case, before).after
    _assert_undone(before, after, change(case, after, counts_of(case, before)).after)


@pytest.mark.parametrize("case", move_names())
def test_another_accelerator_is_written_where_its_fields_are_decided_or_in_our_patch(case: str) -> None:
    before = read_files(case)
    sample = move(case, before)
    changed = {path: body for path, body in sample.after.items() if body != before.get(path)}
    reasons = "".join(f"{key}: {reason}\n" for key, reason in sorted(sample.held.items()))
    if os.environ.get(UPDATE) == "1":
        _write(CASES / case / "moved", changed, reasons)
    expected = read_files(case, "moved")
    assert reasons == expected.pop("HELD.txt").decode()
    assert changed == expected
    assert bool(changed) == bool(sample.moved)


@pytest.mark.parametrize("case", move_names())
def test_every_move_can_be_undone_byte_for_byte(case: str) -> None:
    before = read_files(case)
    forth = move(case, before)
    back = move(case, forth.after, back=True)
    assert back.moved.keys() == forth.moved.keys()
    _assert_undone(before, forth.after, back.after)


@pytest.mark.parametrize("case", move_names())
def test_a_second_move_needs_nothing_but_the_bytes_of_the_values(case: str) -> None:
    forth = move(case, read_files(case)).after
    back = move(case, forth, back=True).after
    assert move(case, back).after == forth


def _assert_undone(before: dict[str, bytes], after: Mapping[str, bytes], undone: Mapping[str, bytes]) -> None:
    for path, body in before.items():
        if len(after[path].splitlines()) == len(body.splitlines()):
            assert undone[path] == body, path
        else:
            # An overlay was given an entry or a patch of its own, which stays: what was there is there, in its order.
            lines = iter(undone[path].splitlines())
            assert all(line in lines for line in body.splitlines()), path
