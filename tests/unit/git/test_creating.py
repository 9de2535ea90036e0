from pathlib import Path

import pytest

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, InputError
from reconciler.git.clone import clone_base
from reconciler.git.repository import create_bare, open_directory
from tests.servers.git_workshop import run_git

FILES = {"README.md": b"# Fleet\n", "clusters/prod/llama.yaml": b"kind: Deployment\r\n"}
DATE_S = 1_700_000_000


def create(directory: Path, author: Identity, files: dict[str, bytes] | None = None) -> str:
    files = FILES if files is None else files
    return create_bare(directory, branch="main", files=files, message="Start", author=author, date_s=DATE_S)


def test_a_new_repository_holds_one_commit_without_a_parent(tmp_path: Path, author: Identity) -> None:
    commit = create(tmp_path / "deep" / "fleet.git", author)
    clone = clone_base(str(tmp_path / "deep" / "fleet.git"), base=None, credentials=None, directory=tmp_path / "clone")
    assert (clone.commit, clone.branch) == (commit, "main")
    assert {entry.path: clone.read_file_at(commit, entry.path) for entry in clone.list_files()} == FILES
    record = clone.read_commit(commit)
    assert (record.parents, record.author, record.message) == ((), author, "Start\n")


def test_the_same_files_give_the_same_commit_anywhere(tmp_path: Path, author: Identity) -> None:
    assert create(tmp_path / "one.git", author) == create(tmp_path / "two.git", author)


def test_a_new_repository_is_whole_and_has_no_other_ref(tmp_path: Path, author: Identity) -> None:
    commit = create(tmp_path / "fleet.git", author)
    assert run_git(tmp_path / "fleet.git", "for-each-ref", "--format=%(refname) %(objectname)") == (
        f"refs/heads/main {commit}"
    )
    assert run_git(tmp_path / "fleet.git", "fsck", "--strict") == ""


def test_what_stands_in_a_directory_is_never_made_a_repository(tmp_path: Path, author: Identity) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigurationError, match="new or empty directory"):
        create(tmp_path, author)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path, author: Identity) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be made or read"):
        create(tmp_path / "file" / "fleet.git", author)


def test_a_path_that_leaves_the_tree_makes_no_repository(tmp_path: Path, author: Identity) -> None:
    with pytest.raises(InputError, match="leaves the repository"):
        create(tmp_path / "fleet.git", author, {"../evil": b""})
    with pytest.raises(ConfigurationError, match="not a git repository"):
        open_directory(tmp_path / "fleet.git")
