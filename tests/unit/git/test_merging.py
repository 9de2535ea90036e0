import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, RivalRunError
from reconciler.git.clone import clone_base
from reconciler.git.history import Merged, merge_into
from reconciler.git.repository import open_directory
from tests.servers.git_workshop import Workshop, run_git

LINES = b"".join(b"line %d\n" % number for number in range(12))


def edited(number: int, text: bytes) -> bytes:
    return LINES.replace(b"line %d\n" % number, text + b"\n")


def remove(path: str) -> Callable[[Workshop], None]:
    return lambda workshop: (workshop.clone / path).unlink()


def write(path: str, content: bytes) -> Callable[[Workshop], None]:
    return lambda workshop: workshop.write(path, content)


def replace_file_by_folder(workshop: Workshop) -> None:
    (workshop.clone / "a.yaml").unlink()
    workshop.write("a.yaml/b", b"inside\n")


def replace_file_by_link(workshop: Workshop) -> None:
    (workshop.clone / "a.yaml").unlink()
    (workshop.clone / "a.yaml").symlink_to("README.md")


OURS = {"a.yaml": edited(2, b"ours")}


@pytest.mark.parametrize(
    ("ours", "theirs", "clean"),
    [
        pytest.param(OURS, write("other.yaml", b"x"), True, id="another file"),
        pytest.param(OURS, write("a.yaml", edited(9, b"theirs")), True, id="far lines"),
        pytest.param(OURS, write("a.yaml", edited(2, b"theirs")), False, id="the same line"),
        pytest.param(OURS, write("a.yaml", edited(2, b"ours")), True, id="the same edit"),
        pytest.param(OURS, write("a.yaml", edited(2, b"ours") + b"more\n"), True, id="the same edit and more"),
        pytest.param(OURS, remove("a.yaml"), False, id="deleted there"),
        pytest.param(OURS, replace_file_by_folder, False, id="a folder there"),
        pytest.param(OURS, replace_file_by_link, False, id="a link there"),
        pytest.param(OURS, write("a.yaml", b"\0binary"), False, id="binary there"),
        pytest.param({"n.yaml": b"new\n"}, write("n.yaml", b"other\n"), False, id="added on both sides"),
        pytest.param({"n.yaml": b"new\n"}, write("n.yaml", b"new\n"), True, id="added alike"),
        pytest.param({"n/x": b"new\n"}, write("n", b"file\n"), False, id="folder here and file there"),
        pytest.param({"n": b"new\n"}, write("n/x", b"file\n"), False, id="file here and folder there"),
        pytest.param({"n/x": b"new\n"}, write("n/y", b"file\n"), True, id="a folder on both sides"),
    ],
)
def test_a_merge_is_judged_as_git_would(
    workshop: Workshop,
    author: Identity,
    tmp_path: Path,
    ours: dict[str, bytes],
    theirs: Callable[[Workshop], None],
    clean: bool,
) -> None:
    workshop.write("a.yaml", LINES)
    parent = workshop.commit("Base")
    first = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "first")
    head = first.write_commit(parent=parent, files=ours, message="Ours", author=author, date_s=0)
    first.push("reconciler/a", head, expected=None)
    theirs(workshop)
    onto = workshop.commit("Theirs")

    later = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "later")
    record = later.fetch_branches(["reconciler/a"])["reconciler/a"]
    assert later.merges_cleanly(head=record.oid, onto=later.commit, parent=record.parents[0]) is clean

    workshop.git("fetch", "-q", "origin", "reconciler/a")
    assert later.commit == onto
    tree = merged_tree(workshop)
    assert bool(tree) is clean

    order = partial(
        later.merge, "reconciler/a", head, files=ours, since=parent, message="Merge", author=author, date_s=1
    )
    if not clean:
        with pytest.raises(RivalRunError, match="conflicts with main"):
            order()
        return
    merged = order().commit
    assert run_git(workshop.remote, "rev-parse", "main", "main^{tree}", "main^1", "main^2").split() == [
        merged,
        tree,
        onto,
        head,
    ]
    assert order().commit == merged, "asking again changes nothing"
    with pytest.raises(RivalRunError, match="another run or person moved it"):
        order(date_s=2)


def merged_tree(workshop: Workshop) -> str:
    """What git itself makes of it, where all history is at hand; merge-tree ends with 1 for a conflict."""
    try:
        return workshop.git("merge-tree", "--write-tree", "HEAD", "FETCH_HEAD").strip()
    except subprocess.CalledProcessError as error:
        if error.returncode != 1:
            raise
        return ""


def test_a_branch_that_moved_meanwhile_is_not_merged(workshop: Workshop, author: Identity, tmp_path: Path) -> None:
    first = clone_base(str(workshop.remote), base="main", credentials=None, directory=tmp_path / "first")
    head = first.write_commit(parent=first.commit, files=OURS, message="Ours", author=author, date_s=0)
    other = first.write_commit(parent=first.commit, files=OURS, message="Another", author=author, date_s=0)
    first.push("reconciler/a", other, expected=None)
    with pytest.raises(RivalRunError, match="somebody pushed to it meanwhile"):
        first.merge("reconciler/a", head, files=OURS, since=first.commit, message="Merge", author=author, date_s=1)
    assert run_git(workshop.remote, "rev-parse", "main").strip() == first.commit


def review_of(workshop: Workshop, ours: Callable[[Workshop], None], theirs: Callable[[Workshop], None]) -> Merged:
    """What merging a person's branch into what others made of the base meanwhile would leave."""
    workshop.write("a.yaml", LINES)
    base = workshop.commit("Base")
    ours(workshop)
    head = workshop.commit("Ours", branch="change")
    workshop.git("checkout", "-q", "--detach", base)
    theirs(workshop)
    workshop.commit("Theirs")
    return merge_into(open_directory(workshop.remote, base="main"), open_directory(workshop.remote, base=head))


def read(merged: Merged, path: str) -> bytes | None:
    return merged.repository.read_file_at(merged.repository.commit, path)


def test_what_both_changed_in_one_file_is_merged_line_by_line(workshop: Workshop) -> None:
    merged = review_of(workshop, write("a.yaml", edited(2, b"ours")), write("a.yaml", edited(9, b"theirs")))
    assert read(merged, "a.yaml") == edited(2, b"ours").replace(b"line 9\n", b"theirs\n")
    assert merged.conflicts == ()
    assert [entry.path for entry in merged.touched] == ["a.yaml"]


def test_what_only_the_base_changed_is_the_bases(workshop: Workshop) -> None:
    merged = review_of(workshop, write("b.yaml", b"ours"), write("a.yaml", edited(9, b"theirs")))
    assert (read(merged, "a.yaml"), read(merged, "b.yaml")) == (edited(9, b"theirs"), b"ours")


def test_a_conflict_is_reported_and_the_heads_file_stays(workshop: Workshop) -> None:
    merged = review_of(workshop, write("a.yaml", edited(2, b"ours")), write("a.yaml", edited(2, b"theirs")))
    assert (read(merged, "a.yaml"), merged.conflicts) == (edited(2, b"ours"), ("a.yaml",))
    merged = review_of(workshop, remove("a.yaml"), write("a.yaml", edited(3, b"theirs")))
    assert (read(merged, "a.yaml"), merged.conflicts) == (None, ("a.yaml",))


def test_without_a_common_ancestor_nothing_is_merged(workshop: Workshop) -> None:
    stray = workshop.git("commit-tree", "HEAD^{tree}", "-m", "From nowhere")
    workshop.git("push", "-q", "origin", f"{stray}:refs/heads/stray")
    with pytest.raises(ConfigurationError, match="no common ancestor here: fetch their whole history"):
        merge_into(open_directory(workshop.remote, base="main"), open_directory(workshop.remote, base="stray"))
