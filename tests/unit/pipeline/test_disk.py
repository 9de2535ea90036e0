"""What is read from disk, under which names, and what is not."""

import os
from pathlib import Path

import pytest

from reconciler.domain.identity import Severity
from reconciler.errors import ConfigurationError
from reconciler.pipeline import validate as disk
from reconciler.pipeline.files import MAX_READ_BYTES
from reconciler.pipeline.validate import find_root, read_disk


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("kind: List\n", encoding="utf-8")


def names(*paths: Path) -> list[str]:
    return [file.path for file in read_disk(paths).files]


def test_manifests_are_found_below_a_directory_in_order(tmp_path: Path) -> None:
    write(tmp_path, "b/c.yml", "b/Kustomization", "a.yaml", "d.json", "notes.txt", "e.yaml.j2", ".git/config.yaml")
    assert names(tmp_path) == ["a.yaml", "d.json", "b/Kustomization", "b/c.yml"]


def test_what_two_paths_reach_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "a/x.yaml", "a/y.yaml")
    assert names(tmp_path / "a", tmp_path / "a" / ".." / "a" / "x.yaml") == ["x.yaml", "y.yaml"]


def test_a_named_file_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "a.yaml")
    assert names(tmp_path / "README.md", tmp_path / "a.yaml") == ["a.yaml"]


@pytest.mark.parametrize("sign", [".git/HEAD", "reconciler.yaml"])
def test_paths_begin_where_the_repository_does(tmp_path: Path, sign: str) -> None:
    write(tmp_path, sign, "clusters/prod/a.yaml")
    assert find_root([tmp_path / "clusters" / "prod"]) == tmp_path
    assert names(tmp_path / "clusters" / "prod") == ["clusters/prod/a.yaml"]


def test_outside_of_a_repository_they_begin_where_the_paths_part(tmp_path: Path) -> None:
    write(tmp_path, "a/x.yaml", "b/y.yaml")
    assert names(tmp_path / "a", tmp_path / "b" / "y.yaml") == ["a/x.yaml", "b/y.yaml"]


def test_a_file_keeps_the_names_that_a_person_and_a_job_know_it_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ".git/HEAD", "fleet/reconciler.yaml", "fleet/prod/a.yaml")
    monkeypatch.chdir(tmp_path / "fleet")
    found = read_disk([Path("prod")])
    assert [file.path for file in found.files] == ["prod/a.yaml"]
    assert found.typed == {"prod/a.yaml": "prod/a.yaml"}
    assert found.in_work_tree == {"prod/a.yaml": "fleet/prod/a.yaml"}


def test_without_git_a_job_counts_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "fleet/a.yaml")
    monkeypatch.chdir(tmp_path)
    assert read_disk([Path("fleet")]).in_work_tree == {"a.yaml": "fleet/a.yaml"}
    monkeypatch.chdir("/")
    assert set(read_disk([tmp_path / "fleet"]).in_work_tree.values()) == {str(tmp_path / "fleet/a.yaml").lstrip("/")}


def test_only_a_look_at_the_root_is_a_look_at_everything(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD", "a/x.yaml")
    assert read_disk([tmp_path / "a", tmp_path]).holds_root
    assert not read_disk([tmp_path / "a"]).holds_root


def test_links_below_a_directory_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "outside/x.yaml", "fleet/a.yaml")
    (tmp_path / "fleet" / "file.yaml").symlink_to(tmp_path / "outside" / "x.yaml")
    (tmp_path / "fleet" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "fleet" / "loop").symlink_to(tmp_path / "fleet")
    (tmp_path / "fleet" / "broken.yaml").symlink_to(tmp_path / "nowhere")
    assert names(tmp_path / "fleet") == ["a.yaml"]


@pytest.mark.parametrize("path", ["link", "link/x.yaml", "link/deep", "file.yaml"])
def test_a_path_that_leads_over_a_link_of_the_repository_is_refused(tmp_path: Path, path: str) -> None:
    write(tmp_path, "outside/x.yaml", "outside/deep/y.yaml", "fleet/.git/HEAD")
    (tmp_path / "fleet" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "fleet" / "file.yaml").symlink_to(tmp_path / "outside" / "x.yaml")
    with pytest.raises(ConfigurationError, match="a symbolic link, which is not followed"):
        read_disk([tmp_path / "fleet" / path])


def test_a_link_that_leads_to_the_repository_is_the_persons_own(tmp_path: Path) -> None:
    write(tmp_path, "fleet/.git/HEAD", "fleet/a.yaml")
    (tmp_path / "here").symlink_to(tmp_path / "fleet")
    assert names(tmp_path / "here") == ["a.yaml"]


@pytest.mark.parametrize("path", ["missing.yaml", "a.yaml/b.yaml", "x" * 300, "a\0b"])
def test_a_path_that_is_not_there_is_refused_with_a_sentence(tmp_path: Path, path: str) -> None:
    write(tmp_path, "a.yaml")
    with pytest.raises(ConfigurationError, match=r": (no such file or directory|cannot be read: \S)"):
        read_disk([tmp_path / "a.yaml", tmp_path / path])


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    assert names(tmp_path) == ["a.yaml"]
    with pytest.raises(ConfigurationError, match="expected a file or a directory"):
        read_disk([tmp_path / "pipe.yaml"])


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_file: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    write(tmp_path, "a.yaml")
    monkeypatch.setattr(disk, "_read", refuse)
    (finding,) = read_disk([tmp_path]).unread
    assert (str(finding), finding.severity) == (
        "a.yaml: error: cannot be read: Permission denied [unread-file]",
        Severity.ERROR,
    )


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("kind: CustomResourceDefinition\nspec:\n  names:\n    kind: VariantAutoscaling\n", False),
        ('{"panels": [{"kind": "row"}]}\n', False),
        ("---\nkind: VariantAutoscaling\n", True),
        ("kind: List\nitems:\n- kind: VariantAutoscaling\n", True),
        ('{\n  "kind": "VariantAutoscaling"\n}', True),
    ],
)
def test_a_giant_is_told_where_it_holds_something_of_ours(tmp_path: Path, text: str, is_ours: bool) -> None:
    filling = "# filling\n" * (MAX_READ_BYTES // 10)
    (tmp_path / "giant.yaml").write_text(filling + text + filling, encoding="utf-8")
    found = read_disk([tmp_path])
    assert found.files == []
    assert found.giants == {"giant.yaml"}
    told = [str(each).partition(", got")[0] for each in found.unread]
    assert told == (["giant.yaml: error: expected at most 1048576 bytes"] if is_ours else [])


def test_a_name_that_is_no_text_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"b\xff.yaml")).write_bytes(b"kind: List\n")
    (finding,) = read_disk([tmp_path]).unread
    assert finding.place.path == "b\\udcff.yaml"
    finding.message.encode()


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.yaml", "b.yaml", "c.yaml")
    monkeypatch.setattr(disk, "MAX_FILES", 2)
    with pytest.raises(ConfigurationError, match="expected at most 2 files: name a part of it"):
        read_disk([tmp_path])


@pytest.mark.parametrize(
    "path", ["../secret.yaml", "/etc/hostname", "link.yaml", "link/x.yaml", "missing", "folder", "a\0"]
)
def test_nothing_outside_of_the_root_or_behind_a_link_is_read_on_demand(tmp_path: Path, path: str) -> None:
    write(tmp_path, "secret.yaml", "fleet/.git/HEAD", "fleet/a.yaml", "fleet/folder/b.yaml", "away/x.yaml")
    (tmp_path / "fleet" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (tmp_path / "fleet" / "link").symlink_to(tmp_path / "away")
    found = read_disk([tmp_path / "fleet"])
    assert found.read(path) is None
    assert found.read("folder/b.yaml") == b"kind: List\n"
