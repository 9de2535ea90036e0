"""A plan of HEAD says when the work tree holds something else."""

from collections.abc import Callable
from pathlib import Path

import git
import pytest

from tests.servers.desk import Desk
from tests.servers.fleet import Outcome

Command = Callable[..., Outcome]
WARNING = "work tree is dirty: planned HEAD, without what is not committed"


@pytest.fixture
def clone(desk: Desk, tmp_path: Path) -> Path:
    """A clean clone."""
    git.Repo.clone_from(str(desk.workshop.remote), str(tmp_path / "clone")).close()
    return tmp_path / "clone"


def test_a_clean_work_tree_is_not_worth_a_word(command: Command, clone: Path) -> None:
    assert "dirty" not in command("plan", "--repo", clone).err


def test_an_edit_is_named(command: Command, clone: Path) -> None:
    edited = next(iter(sorted((clone / "clusters").rglob("*.yaml"))))
    edited.write_text(edited.read_text() + "# edited\n")
    assert f"{WARNING} ({edited.relative_to(clone)})" in command("plan", "--repo", clone).err


def test_so_is_a_new_file_and_one_that_is_gone(command: Command, clone: Path) -> None:
    (clone / "clusters" / "new.yaml").write_text("a: 1\n")
    gone = next(iter(sorted((clone / "clusters").rglob("*.yaml"), reverse=True)))
    gone.unlink()
    said = command("plan", "--repo", clone).err
    assert WARNING in said
    assert "clusters/new.yaml" in said
    assert str(gone.relative_to(clone)) in said


def test_other_line_ends_and_other_files_are_no_edit(command: Command, clone: Path) -> None:
    edited = next(iter(sorted((clone / "clusters").rglob("*.yaml"))))
    edited.write_bytes(edited.read_bytes().replace(b"\n", b"\r\n"))
    (clone / "notes.txt").write_text("mine\n")
    assert "dirty" not in command("plan", "--repo", clone).err


def test_another_base_is_not_compared_with_the_work_tree(command: Command, clone: Path) -> None:
    edited = next(iter(sorted((clone / "clusters").rglob("*.yaml"))))
    edited.write_text("edited: 1\n")
    assert "dirty" not in command("plan", "--repo", clone, "--base", "HEAD").err
