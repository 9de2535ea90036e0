"""What is peculiar to files: people edit them, programs are killed while writing them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.local import Local
from reconciler.forge.pull_requests import PullRequest, PullRequestState
from reconciler.http.messages import Clock

NOON_S = 1_795_176_000.0
"""2026-11-20 12:00 UTC."""


class Noon(Clock):
    """A clock that never advances."""

    def now_s(self) -> float:
        return NOON_S + 0.75


def create(forge: Local, head: str = "reconciler/a", body: str = "A body\n") -> PullRequest:
    created = forge.create(head=head, base="main", title='Scale "llama": +$3', body=body, labels=("a",))
    assert created is not None
    return created


def listed(forge: Local) -> tuple[PullRequest, ...]:
    return forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0)


@pytest.fixture
def forge(bare_repository: Path) -> Local:
    return Local(bare_repository, clock=Noon())


@pytest.fixture
def folder(bare_repository: Path) -> Path:
    return bare_repository / "reconciler" / "pulls"


def test_the_file_reads_as_documented(forge: Local, folder: Path) -> None:
    create(forge)
    assert (folder / "1.md").read_text() == (
        "---\n"
        "number: 1\n"
        "state: open\n"
        'head: "reconciler/a"\n'
        'base: "main"\n'
        'title: "Scale \\"llama\\": +$3"\n'
        'labels: ["a"]\n'
        "opened: 2026-11-20T12:00:00Z\n"
        "---\n"
        "\n"
        "A body\n"
    )
    assert [path.name for path in folder.iterdir()] == ["1.md"]


@pytest.mark.parametrize("state", ["closed", "'closed'", '"closed"', "closed   # not now"])
def test_a_person_closes_it_by_editing_its_state(forge: Local, folder: Path, state: str) -> None:
    create(forge)
    path = folder / "1.md"
    path.write_text(path.read_text().replace("state: open", f"state: {state}"))
    os.utime(path, (1000.0, 1234.5))
    (closed,) = listed(forge)
    assert (closed.state, closed.closed_at_s) == (PullRequestState.CLOSED, 1234.5)


def test_an_editor_may_change_line_ends_and_add_a_byte_order_mark(forge: Local, folder: Path) -> None:
    create(forge)
    path = folder / "1.md"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    (found,) = listed(forge)
    assert (found.head_branch, found.body) == ("reconciler/a", "A body\r\n")


VALID = "---\nnumber: 1\nstate: open\nhead: reconciler/a\nbase: main\ntitle: A\nlabels: []\n---\n\nBody"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "front matter"),
        (b"---\nnumber: 1\n", "front matter"),
        (b"\xff\xfe", "UTF-8"),
        (VALID.replace("open", "clsoed").encode(), "state: expected one of open, closed, merged, found 'clsoed'"),
        (VALID.replace("state: open\n", "").encode(), "state: expected a text"),
        (VALID.replace("number: 1", "number: 2").encode(), "number: expected 1"),
        (VALID.replace("labels: []", "labels: {a: b}").encode(), "labels: expected a list"),
        (VALID.replace("head: reconciler/a", "head: [a]").encode(), "head: expected a text"),
        (VALID.replace("title: A", "title: 'A").encode(), r"1\.md:\d+: the front matter is not valid YAML"),
        (VALID.replace("title: A", "title: " + "[" * 10_000).encode(), "not valid YAML"),
        (VALID.replace("title: A", "title: *a").encode(), "not valid YAML"),
        (b"---\n- a\n---\n", "not a mapping"),
        (VALID.replace("labels: []", "opened: noon").encode(), "opened: expected a time, found 'noon'"),
        (VALID.replace("labels: []", "opened: [2026-11-20]").encode(), "opened: expected a text"),
        (VALID.replace("labels: []", "opened: 9999-12-31T23:59:59-23:59").encode(), "opened: expected a time"),
        (b"---\n" + b"a: b\n" * 5000 + b"---\n", "front matter of at most"),
        (b"x" * (2 * 1024 * 1024 + 1), "expected at most 2097152 bytes"),
    ],
)
def test_a_broken_file_is_named_with_what_to_correct(forge: Local, folder: Path, content: bytes, message: str) -> None:
    folder.mkdir(parents=True)
    (folder / "1.md").write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        listed(forge)
    assert str(folder / "1.md") in str(caught.value)


@pytest.mark.parametrize(
    ("line", "opened_at_s"),
    [
        ("labels: []", None),
        ("opened: 2026-11-20T12:00:00Z", NOON_S),
        ("opened: 2026-11-20T13:00:00+01:00", NOON_S),
        ("opened: 2026-11-20 12:00", NOON_S),
        ("opened: 2026-11-20", NOON_S - 43_200),
    ],
)
def test_the_time_of_opening_may_be_missing_or_different(
    forge: Local, folder: Path, line: str, opened_at_s: float | None
) -> None:
    folder.mkdir(parents=True)
    (folder / "1.md").write_text(VALID.replace("labels: []", line))
    assert [each.opened_at_s for each in listed(forge)] == [opened_at_s]
    assert forge.update(1, title="B").opened_at_s == opened_at_s


def test_aliases_in_front_matter_do_not_grow(forge: Local, folder: Path) -> None:
    folder.mkdir(parents=True)
    layers = "\n".join(f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]" for number in range(1, 60))
    (folder / "1.md").write_text(VALID.replace("title: A", f"a0: &a0 [x]\n{layers}\ntitle: A"))
    assert [each.title for each in listed(forge)] == ["A"]


def test_symbolic_links_and_folders_are_not_read(forge: Local, folder: Path, tmp_path: Path) -> None:
    folder.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text(VALID)
    (folder / "1.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"1\.md: cannot be read"):
        listed(forge)
    (folder / "1.md").unlink()
    (folder / "1.md").mkdir()
    with pytest.raises(ConfigurationError, match=r"1\.md: cannot be read: Is a directory"):
        listed(forge)


def test_other_files_are_ignored(forge: Local, folder: Path) -> None:
    create(forge)
    for name in (".writing-abc", "1.md~", "01.md", "notes.md", "0.md"):
        (folder / name).write_text("anything")
    assert [each.number for each in listed(forge)] == [1]


def test_numbers_are_given_once_also_to_many_at_a_time(forge: Local) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        created = list(pool.map(lambda number: create(forge, f"reconciler/{number}"), range(24)))
    assert sorted(each.number for each in created) == list(range(1, 25))
    assert sorted(each.head_branch for each in listed(forge)) == sorted(each.head_branch for each in created)


def test_a_write_that_dies_leaves_the_old_file(forge: Local, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = create(forge)
    before = (folder / "1.md").read_bytes()

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(TransientError, match="No space left"):
        forge.update(created.number, body="Other")
    assert (folder / "1.md").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["1.md"]


def test_an_unknown_number_is_named(forge: Local) -> None:
    with pytest.raises(ConfigurationError, match=r"7\.md: cannot be read"):
        forge.update(7, body="Other")


@pytest.mark.parametrize("entry", ["HEAD", "objects", "refs"])
def test_a_directory_that_is_no_bare_repository_is_refused(tmp_path: Path, entry: str) -> None:
    for name in {"HEAD", "objects", "refs"} - {entry}:
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"not a bare repository.*forge\.kind"):
        Local(tmp_path).check_access()
