"""Names, trees and files of a repository, and a new one."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, InputError
from reconciler.git.clone import clone_base
from reconciler.git.repository import (
    EntryKind,
    Repository,
    branch_ref,
    check_branch_name,
    check_object_id,
    create_bare,
    is_bare,
    is_branch_name,
    open_directory,
    origin_url,
)
from tests.servers.git_workshop import MANIFEST, ODD_PATH, Workshop, run_git


def contents(repository: Repository) -> dict[str, bytes]:
    files = [entry for entry in repository.list_files() if entry.kind is EntryKind.FILE]
    by_oid = dict(repository.read_files(entry.oid for entry in files))
    return {entry.path: by_oid[entry.oid] for entry in files}


def test_files_of_any_name_are_read_byte_for_byte(workshop: Workshop) -> None:
    repository = open_directory(workshop.clone)
    assert contents(repository) == {
        "README.md": b"first\n",
        "apps/llama.yaml": MANIFEST,
        ODD_PATH: b"odd\n",
        "run.sh": b"#!/bin/sh\n",
    }
    assert repository.branch == "main"
    sizes = {entry.path: (entry.mode, entry.size_bytes) for entry in repository.list_files()}
    assert sizes["run.sh"] == ("100755", 10)


def test_the_commit_is_read_and_not_the_work_tree(workshop: Workshop) -> None:
    workshop.write("README.md", b"not committed\n")
    assert contents(open_directory(workshop.clone))["README.md"] == b"first\n"


def test_a_bare_directory_and_a_folder_inside_a_clone_are_opened_alike(workshop: Workshop) -> None:
    commits = {open_directory(place).commit for place in (workshop.remote, workshop.clone, workshop.clone / "apps")}
    assert commits == {workshop.head()}
    assert is_bare(workshop.remote)
    assert not is_bare(workshop.clone)


@pytest.mark.parametrize(
    ("base", "branch"), [("main", "main"), ("origin/main", "main"), ("v1", ""), ("HEAD", "main"), (None, "main")]
)
def test_a_base_is_a_branch_a_remote_branch_or_a_tag(workshop: Workshop, base: str | None, branch: str) -> None:
    workshop.git("tag", "-a", "v1", "-m", "one")
    repository = open_directory(workshop.clone, base=base)
    assert (repository.commit, repository.branch) == (workshop.head(), branch)


def test_a_detached_head_has_no_branch(workshop: Workshop) -> None:
    first = workshop.git("rev-parse", "HEAD~1")
    workshop.git("checkout", "-q", "--detach", first)
    assert (open_directory(workshop.clone).commit, open_directory(workshop.clone).branch) == (first, "")
    assert open_directory(workshop.clone, base=first).commit == first


@pytest.mark.parametrize("base", ["absent", "0" * 40, "--help", "main..x"])
def test_an_unknown_or_hostile_base_is_a_configuration_error(workshop: Workshop, base: str) -> None:
    with pytest.raises(ConfigurationError):
        open_directory(workshop.clone, base=base)


def test_a_directory_without_a_repository_or_commit_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a git repository"):
        open_directory(tmp_path)
    with pytest.raises(ConfigurationError, match="no such directory"):
        open_directory(tmp_path / "absent")
    run_git(tmp_path, "init", "-q", "new")
    with pytest.raises(ConfigurationError, match="first commit"):
        open_directory(tmp_path / "new")


def test_links_and_submodules_are_named_and_never_followed(workshop: Workshop) -> None:
    (workshop.clone / "link.yaml").symlink_to("/etc/passwd")
    (workshop.clone / "folder").symlink_to("apps")
    commit = workshop.head()
    workshop.git("update-index", "--add", "--cacheinfo", f"160000,{commit},vendored")
    workshop.git("add", "link.yaml", "folder")
    workshop.git("commit", "-q", "-m", "Links")
    repository = open_directory(workshop.clone)
    kinds = {entry.path: entry.kind for entry in repository.list_files()}
    assert kinds["link.yaml"] is kinds["folder"] is EntryKind.SYMLINK
    assert kinds["vendored"] is EntryKind.SUBMODULE
    assert repository.read_file_at(repository.commit, "link.yaml") is None
    assert repository.read_file_at(repository.commit, "folder/llama.yaml") is None


def test_a_path_that_is_not_utf8_is_reported_and_kept_apart(workshop: Workshop) -> None:
    Path(os.fsdecode(os.fsencode(workshop.clone) + b"/\xff.yaml")).write_bytes(b"x\n")
    workshop.write("\\xff.yaml", b"another\n")
    workshop.commit()
    repository = open_directory(workshop.clone)
    odd = [entry for entry in repository.list_files() if entry.kind is EntryKind.UNREADABLE_NAME]
    assert [entry.path for entry in odd] == ["\\xff.yaml"]
    assert repository.read_file_at(repository.commit, "\\xff.yaml") == b"another\n"


def test_attributes_of_the_repository_change_no_byte(workshop: Workshop) -> None:
    workshop.git("config", "filter.shout.smudge", "tr a-z A-Z")
    workshop.write(".gitattributes", b"*.txt text eol=crlf filter=shout\n")
    workshop.write("note.txt", b"one\ntwo\n")
    workshop.commit()
    assert contents(open_directory(workshop.clone))["note.txt"] == b"one\ntwo\n"


def test_a_file_is_read_at_any_commit(workshop: Workshop) -> None:
    repository = open_directory(workshop.clone)
    first = workshop.git("rev-parse", "HEAD~1")
    assert repository.read_file_at(repository.commit, "apps/llama.yaml") == MANIFEST
    assert repository.read_file_at(repository.commit, ODD_PATH) == b"odd\n"
    assert repository.read_file_at(first, "apps/llama.yaml") is None
    for path in ("../person/README.md", "/etc/passwd", "apps", "", "./README.md"):
        assert repository.read_file_at(repository.commit, path) is None


def test_no_ids_read_nothing_and_a_missing_object_is_explained(workshop: Workshop) -> None:
    repository = open_directory(workshop.clone)
    assert list(repository.read_files([])) == []
    with pytest.raises(ConfigurationError, match="missing"):
        list(repository.read_files(["0" * 40]))


def test_a_partial_clone_is_not_completed_behind_the_operators_back(workshop: Workshop, tmp_path: Path) -> None:
    run_git(workshop.remote, "config", "uploadpack.allowFilter", "true")
    run_git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{workshop.remote}", "partial")
    repository = open_directory(tmp_path / "partial")
    kinds = {each.path: each.kind for each in open_directory(workshop.clone).list_files()}
    found = {each.path: each.kind for each in repository.list_files()}
    assert found == {path: EntryKind.MISSING if kind is EntryKind.FILE else kind for path, kind in kinds.items()}, (
        "nothing is fetched"
    )
    with pytest.raises(ConfigurationError, match="incomplete"):
        repository.read_file_at(repository.commit, "apps/llama.yaml")


def test_what_a_partial_clone_holds_is_read(workshop: Workshop, tmp_path: Path) -> None:
    workshop.write("apps/large.yaml", b"a: " + b"x" * 5000)
    workshop.commit("A large file")
    run_git(workshop.remote, "config", "uploadpack.allowFilter", "true")
    run_git(tmp_path, "clone", "-q", "--bare", "--filter=blob:limit=4k", f"file://{workshop.remote}", "partial")
    repository = open_directory(tmp_path / "partial")
    entries = {each.path: each for each in repository.list_files()}
    assert [path for path, each in entries.items() if each.kind is EntryKind.MISSING] == ["apps/large.yaml"]
    assert repository.read_file_at(repository.commit, "apps/llama.yaml") == MANIFEST
    assert entries["apps/llama.yaml"].size_bytes == len(MANIFEST)


def test_the_origin_of_a_clone_is_its_remote(workshop: Workshop) -> None:
    assert origin_url(workshop.clone / "apps") == str(workshop.remote)
    assert origin_url(workshop.remote) is None
    workshop.git("remote", "set-url", "origin", str(workshop.remote))
    assert origin_url(workshop.clone) == str(workshop.remote)
    workshop.git("remote", "set-url", "origin", "git@github.com:acme/fleet.git")
    assert origin_url(workshop.clone) == "git@github.com:acme/fleet.git"


def test_commands_named_by_the_directory_are_not_run(workshop: Workshop, tmp_path: Path) -> None:
    command = tmp_path / "planted.sh"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path / 'was-run'}\n")
    command.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "remote.origin.uploadpack", "diff.external"):
        workshop.git("config", key, str(command))
    workshop.git("config", "remote.origin.promisor", "true")
    workshop.git("config", "extensions.partialClone", "origin")
    repository = open_directory(workshop.clone)
    with pytest.raises(ConfigurationError, match="missing"):
        list(repository.read_files(["1" * 40]))
    assert contents(repository)
    assert origin_url(workshop.clone)
    assert not (tmp_path / "was-run").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_directory_of_another_user_can_be_read(workshop: Workshop) -> None:
    for place in (workshop.clone, *workshop.clone.rglob("*")):
        os.chown(place, 65534, 65534, follow_symlinks=False)
    assert contents(open_directory(workshop.clone))["README.md"] == b"first\n"


def test_the_time_of_a_commit_is_that_of_its_committer(workshop: Workshop) -> None:
    workshop.git("commit", "-q", "--allow-empty", "--date=@1700000000 +0000", "-m", "Written long ago")
    committed_s = open_directory(workshop.clone).committed_s()
    assert committed_s == float(workshop.git("log", "-1", "--format=%ct")) != 1_700_000_000.0


HOSTILE = [
    "",
    "-x",
    "--upload-pack=x",
    "@{-1}",
    "a..b",
    "a b",
    "a\nb",
    "main\n",
    ".hidden",
    "a/.hidden",
    "/a",
    "a/",
    "a//b",
    "a.",
    "a.lock",
    "a.lock/b",
    "a:b",
    "+a",
    "a^",
    "a~1",
    "a*",
    "a;id",
    "$(id)",
    "ü",
    "x" * 201,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_branch_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="branch"):
        check_branch_name(name)


@pytest.mark.parametrize("name", ["main", "release-1.2", "reconciler/us-east-llm-1a2b3c4d", "a_b", "x" * 200])
def test_ordinary_branch_names_are_accepted(name: str) -> None:
    assert branch_ref(name) == f"refs/heads/{name}"


@given(st.text(alphabet="ab./-_@{}~^: \n", max_size=12))
def test_an_accepted_name_is_never_an_option_or_a_range(name: str) -> None:
    if is_branch_name(name):
        assert not name.startswith(("-", "/", "."))
        assert ".." not in name
        assert not set(name) & set("@{}~^: \n")


@pytest.mark.parametrize("text", ["", "0" * 39, "0" * 41, "g" * 40, "A" * 40, "0" * 40 + "\n", "HEAD"])
def test_only_full_object_ids_reach_a_refspec(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        check_object_id(text)


@pytest.mark.parametrize("length", [40, 64])
def test_both_object_formats_are_accepted(length: int) -> None:
    assert check_object_id("a" * length) == "a" * length


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


def test_a_directory_with_files_is_never_made_a_repository(tmp_path: Path, author: Identity) -> None:
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
