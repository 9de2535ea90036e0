"""Whole repositories of every layout, before and after: a change is made where it is decided, and can be undone."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.tools.sample_clusters import CASES, Sample, case_names, change, counts_of, read_files
from tests.tools.sample_moves import SampleMove, move, move_names, planned_names
from tests.tools.sample_pull_requests import Proposed, propose, propose_move, propose_planned

UPDATE = "UPDATE_GOLDEN"
HELD, TEXT = "HELD.txt", "PULL_REQUEST.md"
"""What stands in a folder of changed files beside them."""


def _write(folder: Path, files: Mapping[str, bytes], reasons: str) -> None:
    text = folder / TEXT
    notes = {HELD: reasons.encode()} | ({TEXT: text.read_bytes()} if text.exists() else {})
    shutil.rmtree(folder, ignore_errors=True)
    for path, body in {**files, **notes}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)


def _assert_written(sample: Sample | SampleMove, case: str, folder: str) -> None:
    """What is changed, and why the rest is not, are the sample's."""
    changed = {path: body for path, body in sample.after.items() if body != sample.before.get(path)}
    reasons = "".join(f"{key}: {reason}\n" for key, reason in sorted(sample.held.items()))
    if os.environ.get(UPDATE) == "1":
        _write(CASES / case / folder, changed, reasons)
    assert reasons == (CASES / case / folder / HELD).read_text()
    assert changed == _golden_files(case, folder)


def _assert_proposed(proposed: Proposed, golden: Path) -> None:
    """The texts of the pull requests are these."""
    if os.environ.get(UPDATE) == "1":
        golden.unlink(missing_ok=True)
        if proposed.text:
            golden.write_text(proposed.text)
    assert proposed.text == (golden.read_text() if golden.exists() else "")


def _golden_files(case: str, folder: str) -> dict[str, bytes]:
    return {path: body for path, body in read_files(case, folder).items() if path not in (HELD, TEXT)}


@pytest.mark.parametrize("case", case_names())
def test_files_change_where_a_number_is_decided_and_nowhere_else(case: str) -> None:
    sample = change(case, read_files(case))
    _assert_written(sample, case, "after")
    assert (sample.after != sample.before) == bool(sample.changed)


# The settings of these plans know one accelerator.
@pytest.mark.parametrize("case", [name for name in case_names() if name not in (*move_names(), *planned_names())])
def test_a_plan_proposes_these_files_in_these_words(case: str) -> None:
    proposed = propose(case, read_files(case))
    _assert_proposed(proposed, CASES / case / TEXT)
    assert proposed.files == _golden_files(case, "after")


@pytest.mark.parametrize("case", case_names())
def test_every_edit_can_be_undone_byte_for_byte(case: str) -> None:
    before = read_files(case)
    after = change(case, before).after
    _assert_undone(before, after, change(case, after, counts_of(case, before)).after)


@pytest.mark.parametrize("case", move_names())
def test_another_accelerator_is_written_where_its_fields_are_decided_or_in_our_patch(case: str) -> None:
    sample = move(case, read_files(case))
    _assert_written(sample, case, "moved")
    assert (sample.after != sample.before) == bool(sample.moved)


@pytest.mark.parametrize("case", move_names())
def test_a_plan_proposes_these_moves_in_these_words(case: str) -> None:
    proposed = propose_move(case, read_files(case))
    _assert_proposed(proposed, CASES / case / "moved" / TEXT)
    assert proposed.files == _golden_files(case, "moved")


@pytest.mark.parametrize("case", planned_names())
def test_a_plan_for_two_accelerators_proposes_these_files_in_these_words(case: str) -> None:
    proposed = propose_planned(case, read_files(case))
    if os.environ.get(UPDATE) == "1":
        _write(CASES / case / "planned", proposed.files, "")
    _assert_proposed(proposed, CASES / case / "planned" / TEXT)
    assert proposed.files == _golden_files(case, "planned")


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
