import os
from pathlib import Path

import pytest

from reconciler.errors import ConfigurationError
from reconciler.git.repository import EntryKind, Repository, is_bare, open_directory, origin_url
from tests.servers.git_workshop import MANIFEST, ODD_PATH, Workshop, run_git


def contents(repository: Repository) -> dict[str, bytes]:
    files = [entry for entry in repository.list_files() if entry.kind is EntryKind.FILE]
    by_oid = dict(repository.read_files(entry.oid for entry in files))
    return {entry.path: by_oid[entry.oid] for entry in files}


def test_files_are_read_byte_for_byte_whatever_their_name(workshop: Workshop) -> None:
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


def test_nothing_asked_is_nothing_read_and_a_missing_object_is_explained(workshop: Workshop) -> None:
    repository = open_directory(workshop.clone)
    assert list(repository.read_files([])) == []
    with pytest.raises(ConfigurationError, match="missing"):
        list(repository.read_files(["0" * 40]))


def test_a_partial_clone_is_not_completed_behind_the_operators_back(workshop: Workshop, tmp_path: Path) -> None:
    run_git(workshop.remote, "config", "uploadpack.allowFilter", "true")
    run_git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{workshop.remote}", "partial")
    repository = open_directory(tmp_path / "partial")
    with pytest.raises(ConfigurationError, match="incomplete"):
        repository.list_files()


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
