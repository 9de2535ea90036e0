import os
from pathlib import Path

import pytest

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, InputError, RivalRunError, TransientError
from reconciler.git.clone import Clone, clone_base
from reconciler.git.history import read_log
from reconciler.git.repository import EntryKind, open_directory
from tests.servers.git_workshop import MANIFEST, ODD_PATH, Workshop, run_git


def commit_on(clone: Clone, author: Identity, files: dict[str, bytes], message: str = "Scale up") -> str:
    return clone.write_commit(parent=clone.commit, files=files, message=message, author=author, date_s=1_700_000_000)


def tree_of(clone: Clone, commit: str) -> str:
    assert clone.git.directory is not None
    return run_git(clone.git.directory, "rev-parse", f"{commit}^{{tree}}")


def plant_hooks(repository: Path, marker: Path) -> None:
    for name in ("post-checkout", "pre-push", "post-commit", "pre-commit", "reference-transaction", "post-update"):
        hook = repository / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
        hook.chmod(0o755)


def test_a_clone_holds_one_commit_of_one_branch(workshop: Workshop, clone: Clone) -> None:
    assert (clone.commit, clone.branch) == (workshop.head(), "main")
    assert clone.git.directory is not None
    assert run_git(clone.git.directory, "rev-list", "--all") == workshop.head()
    assert clone.read_file_at(clone.commit, "apps/llama.yaml") == MANIFEST


def test_without_a_base_the_default_branch_is_cloned(workshop: Workshop, tmp_path: Path) -> None:
    workshop.commit(branch="release-1")
    run_git(workshop.remote, "symbolic-ref", "HEAD", "refs/heads/release-1")
    clone = clone_base(str(workshop.remote), base=None, credentials=None, directory=tmp_path / "private")
    assert (clone.commit, clone.branch) == (workshop.head("release-1"), "release-1")


def test_a_working_clone_is_a_source_too(workshop: Workshop, tmp_path: Path) -> None:
    clone = clone_base(str(workshop.clone), base=None, credentials=None, directory=tmp_path / "private")
    assert clone.commit == workshop.head()


def test_a_repository_of_sha256_objects_is_cloned_and_committed_to(tmp_path: Path, author: Identity) -> None:
    run_git(tmp_path, "init", "-q", "--object-format=sha256", "--initial-branch=main", "wide")
    run_git(tmp_path / "wide", "commit", "-q", "--allow-empty", "-m", "First")
    clone = clone_base(str(tmp_path / "wide"), base="main", credentials=None, directory=tmp_path / "private")
    assert len(clone.commit) == len(commit_on(clone, author, {"a.yaml": b"a\n"})) == 64


@pytest.mark.parametrize("head", ["refs/heads/gone", "empty"])
def test_a_head_that_names_no_branch_is_explained(workshop: Workshop, tmp_path: Path, head: str) -> None:
    source = workshop.remote
    if head == "empty":
        source = tmp_path / "empty.git"
        run_git(tmp_path, "init", "-q", "--bare", str(source))
    else:
        run_git(source, "symbolic-ref", "HEAD", head)
    with pytest.raises(ConfigurationError, match=r"HEAD names no branch.*git\.baseBranch"):
        clone_base(str(source), base=None, credentials=None, directory=tmp_path / "private")


def test_an_unknown_branch_is_a_configuration_error(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no branch 'absent'"):
        clone_base(str(workshop.remote), base="absent", credentials=None, directory=tmp_path / "private")


def test_a_directory_without_a_repository_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(ConfigurationError, match="no repository there"):
        clone_base(str(tmp_path / "plain"), base="main", credentials=None, directory=tmp_path / "private")


def test_a_clone_never_goes_into_a_directory_with_something_in_it(workshop: Workshop) -> None:
    with pytest.raises(ConfigurationError, match="empty directory"):
        clone_base(str(workshop.remote), base="main", credentials=None, directory=workshop.clone)


def test_hooks_of_the_source_do_not_run(workshop: Workshop, tmp_path: Path, author: Identity) -> None:
    marker = tmp_path / "hook-ran"
    plant_hooks(workshop.clone / ".git", marker)
    source = str(workshop.clone)
    clone = clone_base(source, base="main", credentials=None, directory=tmp_path / "private")
    commit_on(clone, author, {"README.md": b"second\n"})
    list(open_directory(source).list_files())
    assert not marker.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_directory_of_another_user_is_cloned_but_never_pushed_to(
    workshop: Workshop, tmp_path: Path, author: Identity
) -> None:
    for place in (workshop.remote, *workshop.remote.rglob("*")):
        os.chown(place, 65534, 65534)
    clone = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "private")
    commit = commit_on(clone, author, {"README.md": b"second\n"})
    with pytest.raises(ConfigurationError, match="may write to"):
        clone.push("reconciler/a", commit, expected=None)


def test_a_commit_changes_the_given_files_and_nothing_else(workshop: Workshop, clone: Clone, author: Identity) -> None:
    files = {"run.sh": b"#!/bin/sh\nexit\n", ODD_PATH: b"even\r\n\n", "apps/new/über.yaml": b"", "a": b"no newline"}
    commit = commit_on(clone, author, files)
    before = {entry.path: entry for entry in clone.list_files()}
    after = {entry.path: entry for entry in clone.list_files(commit)}
    assert {path: clone.read_file_at(commit, path) for path in files} == files
    assert {path for path in after if after[path] != before.get(path)} == set(files)
    assert (after["run.sh"].mode, after["a"].mode) == ("100755", "100644")
    assert clone.commit == workshop.head()


def test_a_commit_says_who_when_and_why(clone: Clone, author: Identity) -> None:
    commit = commit_on(clone, author, {"a": b"a"}, message="Scale up\n\nReconciler-Decision: 12ab — ü")
    record = clone.read_commit(commit)
    assert record.author == record.committer == author
    assert record.message == "Scale up\n\nReconciler-Decision: 12ab — ü\n"
    assert record.parents == (clone.commit,)
    assert record.tree == tree_of(clone, commit)


def test_the_same_commit_is_made_twice_and_another_parent_makes_another(
    workshop: Workshop, clone: Clone, author: Identity, tmp_path: Path
) -> None:
    again = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "again")
    files = {"b": b"b", "a": b"a"}
    first = commit_on(clone, author, files)
    assert first == commit_on(again, author, dict(reversed(files.items())))
    assert first != commit_on(clone, author, files, message="Scale down")
    assert first == commit_on(clone, author, files)


def test_a_commit_that_changes_nothing_has_its_parents_tree(clone: Clone, author: Identity) -> None:
    commit = commit_on(clone, author, {"apps/llama.yaml": MANIFEST})
    assert tree_of(clone, commit) == tree_of(clone, clone.commit)


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/x", ".git/config", "a/.GIT/hooks/x", "a//b", "", "./a", "a\0b"]
)
def test_a_path_that_leaves_the_tree_is_not_written(clone: Clone, author: Identity, path: str) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        commit_on(clone, author, {path: b"x"})


@pytest.mark.parametrize("path", ["apps", "apps/llama.yaml/new.yaml"])
def test_a_new_file_takes_the_place_of_nothing(clone: Clone, author: Identity, path: str) -> None:
    with pytest.raises(InputError, match=r"cannot be written: (apps/llama\.yaml is a file|it is a directory)"):
        commit_on(clone, author, {path: b"x"})


def test_a_link_is_not_written_through(workshop: Workshop, author: Identity, tmp_path: Path) -> None:
    (workshop.clone / "link.yaml").symlink_to("apps/llama.yaml")
    workshop.commit()
    clone = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "private")
    with pytest.raises(InputError, match="symbolic link"):
        commit_on(clone, author, {"link.yaml": b"x"})


@pytest.mark.parametrize("name", ["", "A <b>", "A\ncommitter B"])
def test_an_author_that_would_forge_a_commit_header_is_refused(clone: Clone, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"git\.author"):
        commit_on(clone, Identity(name=name, email="a@example.com"), {"a": b"a"})


def test_a_branch_is_pushed_moved_and_deleted_under_its_lease(
    workshop: Workshop, clone: Clone, author: Identity
) -> None:
    first, second = (commit_on(clone, author, {"a": content}) for content in (b"1", b"2"))
    clone.push("reconciler/a", first, expected=None)
    assert clone.remote_branches("reconciler/") == {"reconciler/a": first}
    clone.push("reconciler/a", second, expected=first)
    assert workshop.head("reconciler/a") == second
    clone.delete_branch("reconciler/a", expected=second)
    assert clone.remote_branches("reconciler/") == {}
    assert workshop.head() == clone.commit


@pytest.mark.parametrize("expected", [None, "stale"])
def test_a_stale_lease_leaves_the_other_runs_branch_alone(
    workshop: Workshop, clone: Clone, author: Identity, expected: str | None
) -> None:
    ours, theirs = commit_on(clone, author, {"a": b"1"}), workshop.commit("Theirs", branch="reconciler/a")
    with pytest.raises(RivalRunError, match=theirs):
        clone.push("reconciler/a", ours, expected=expected and clone.commit)
    with pytest.raises(RivalRunError, match=theirs):
        clone.delete_branch("reconciler/a", expected=ours)
    assert workshop.head("reconciler/a") == theirs


def test_a_branch_that_is_where_it_should_be_stays_there(clone: Clone, author: Identity) -> None:
    commit = commit_on(clone, author, {"a": b"1"})
    for _ in ("pushed", "there already"):
        clone.push("reconciler/a", commit, expected=None)
        assert clone.remote_branches("reconciler/") == {"reconciler/a": commit}
    for _ in ("deleted", "gone already"):
        clone.delete_branch("reconciler/a", expected=commit)
        assert clone.remote_branches("reconciler/") == {}


@pytest.mark.parametrize("commit", ["", "main", "+main", "0" * 39])
def test_a_push_without_a_full_commit_id_is_refused_before_git_sees_it(
    workshop: Workshop, clone: Clone, commit: str
) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        clone.push("main", commit, expected=None)
    with pytest.raises(ValueError, match="hexadecimal"):
        clone.delete_branch("main", expected="")
    assert workshop.head() == clone.commit


def test_a_refusal_by_the_remote_is_transient_and_has_its_reason(
    workshop: Workshop, clone: Clone, author: Identity
) -> None:
    hook = workshop.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'main is frozen until Monday' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(TransientError, match="frozen until Monday") as raised:
        clone.push("reconciler/a", commit_on(clone, author, {"a": b"1"}), expected=None)
    assert not isinstance(raised.value, RivalRunError)


def test_branches_are_listed_by_prefix_only(workshop: Workshop, clone: Clone) -> None:
    commits = {name: workshop.commit(name, branch=name) for name in ("reconciler/a", "reconciler/b/c", "reconciler-x")}
    workshop.commit("Odd", branch="other/reconciler/d")
    del commits["reconciler-x"]
    assert clone.remote_branches("reconciler/") == commits


def test_a_branch_is_fetched_with_its_parent(workshop: Workshop, clone: Clone) -> None:
    parent = workshop.commit("On the branch", branch="reconciler/a")
    head = workshop.commit("Second", branch="reconciler/a")
    record = clone.fetch_branches(["reconciler/a"])["reconciler/a"]
    assert (record.oid, record.parents, record.message) == (head, (parent,), "Second\n")
    assert (record.author.name, record.author.email) == ("Ann", "ann@example.com")
    assert tree_of(clone, parent)


def test_hundreds_of_branches_cost_a_few_commands(
    workshop: Workshop, clone: Clone, caplog: pytest.LogCaptureFixture
) -> None:
    head = workshop.commit("On many", branch="reconciler/0")
    names = [f"reconciler/{number}" for number in range(250)]
    workshop.git("push", "--quiet", "origin", *(f"{head}:refs/heads/{name}" for name in names))
    with caplog.at_level("DEBUG", logger="reconciler.git.command"):
        tips = clone.fetch_branches(names)
    assert {name: tip.oid for name, tip in tips.items()} == dict.fromkeys(names, head)
    assert caplog.messages.count("git fetch") == 2


def test_a_branch_that_vanished_is_a_rivals_doing(clone: Clone) -> None:
    with pytest.raises(RivalRunError, match="deleted meanwhile"):
        clone.fetch_branches(["reconciler/gone"])["reconciler/gone"]


def test_objects_of_other_kinds_do_not_confuse_the_list(workshop: Workshop, clone: Clone) -> None:
    assert {entry.kind for entry in clone.list_files()} == {EntryKind.FILE}
    assert clone.list_files() is clone.list_files(workshop.head())


@pytest.mark.parametrize(("most", "fetched"), [(50, 50), (1000, 63)])
def test_history_comes_as_far_as_it_is_wanted_and_no_further_than_so_many_commits(
    workshop: Workshop, tmp_path: Path, most: int, fetched: int
) -> None:
    for _ in range(60):
        workshop.git("commit", "-q", "--allow-empty", "-m", "On")
    workshop.commit()
    made = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "deep")
    assert run_git(tmp_path / "deep", "rev-list", "--count", made.commit) == "1"
    made.fetch_history(0.0, most=most)
    assert run_git(tmp_path / "deep", "rev-list", "--count", made.commit) == str(fetched)


def test_a_log_holds_what_came_by_merges_children_first(workshop: Workshop) -> None:
    workshop.git("switch", "-q", "-c", "side")
    side = workshop.commit("A side\n\nof two\n", "side")
    workshop.git("switch", "-q", "-")
    workshop.git("merge", "-q", "--no-ff", "-m", "Merged", "side")
    top = workshop.commit("On top")
    found = read_log(open_directory(str(workshop.remote)), 0.0)
    assert [each.message.strip() for each in found] == ["On top", "Merged", "A side\n\nof two", "Second", "First"]
    assert (found[0].oid, found[1].parents[1], found[2].oid) == (top, side, side)
    assert all(each.at_s > 1e9 for each in found)
