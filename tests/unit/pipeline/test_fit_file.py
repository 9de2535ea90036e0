"""The file that `fit --write` keeps: what stays in it, where it may lie, and that it is whole at any moment."""

import os
from pathlib import Path

import pytest
import yaml

from reconciler.config.loading import FIRST_LINE, render_learned
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.errors import ConfigurationError
from reconciler.git.repository import Repository, open_directory
from reconciler.pipeline.work_tree import ProfilesFile, find_profiles_file, is_extended, merge_profiles
from tests.servers.desk import Desk

PATH = ".reconciler/profiles.yaml"
OLD, NEW = "2026-01-02", "2026-11-20"


def profile(accelerator: str, on: str, alpha_s: float = 0.008) -> PerformanceProfile:
    learning = Learning(on=on, samples=40, error=0.01, batch=(1, 9), input_tokens=(1, 9), output_tokens=(1, 9))
    return PerformanceProfile(
        accelerator=accelerator, alpha_s=alpha_s, beta_s=0.0001, max_batch_size=64, learning=learning
    )


@pytest.fixture
def tree(desk: Desk) -> Path:
    """The work tree of a person."""
    return desk.workshop.clone


@pytest.fixture
def repository(tree: Path) -> Repository:
    return open_directory(tree)


@pytest.fixture
def file(tree: Path) -> ProfilesFile:
    return find_profiles_file(str(tree), PATH)


def dates_in(location: Path) -> dict[tuple[str, str], str]:
    """By model and accelerator, the day each profile was learned on."""
    models = yaml.safe_load(location.read_bytes())["models"]
    return {
        (model["id"], each["accelerator"]): str(each["learned"]["date"])
        for model in models
        for each in model["profiles"]
    }


def test_a_file_that_is_not_there_is_made_with_its_folder(file: ProfilesFile, repository: Repository) -> None:
    kept = file.keep({"llama": [profile("H100", NEW)]}, repository)
    assert kept.is_changed
    assert not kept.is_extended
    assert file.location.read_text() == kept.text == render_learned({"llama": [profile("H100", NEW)]})
    assert kept.text.startswith(FIRST_LINE)
    assert file.location.stat().st_mode & 0o777 == 0o644


def test_profiles_of_other_models_and_accelerators_stay_with_their_day(
    file: ProfilesFile, repository: Repository
) -> None:
    file.keep({"llama": [profile("H100", OLD), profile("A100", OLD)], "qwen": [profile("L4", OLD)]}, repository)
    file.keep({"llama": [profile("H100", NEW)], "granite": [profile("A100", NEW)]}, repository)
    assert dates_in(file.location) == {
        ("granite", "A100"): NEW,
        ("llama", "A100"): OLD,
        ("llama", "H100"): NEW,
        ("qwen", "L4"): OLD,
    }


def test_the_same_content_is_not_written_again(file: ProfilesFile, repository: Repository) -> None:
    file.keep({"llama": [profile("H100", NEW)]}, repository)
    before = file.location.stat()
    assert not file.keep({"llama": [profile("H100", NEW)]}, repository).is_changed
    assert not file.keep({}, repository).is_changed
    after = file.location.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_nothing_learned_makes_no_file(file: ProfilesFile, repository: Repository) -> None:
    assert not file.keep({}, repository).is_changed
    assert not file.location.parent.exists()


@pytest.mark.parametrize("content", ["", "models: []\n", f"# mine\n{FIRST_LINE}\n", f"{FIRST_LINE} Really.\n"])
def test_a_file_that_somebody_wrote_is_refused_and_left_alone(tree: Path, content: str) -> None:
    location = tree / "profiles.yaml"
    location.write_text(content)
    with pytest.raises(ConfigurationError, match=r"profiles\.yaml:1: expected the first line"):
        find_profiles_file(str(tree), "profiles.yaml")
    assert location.read_text() == content


def test_a_file_that_somebody_puts_there_meanwhile_is_left_alone(file: ProfilesFile, repository: Repository) -> None:
    file.location.parent.mkdir()
    file.location.write_text("mine: true\n")
    with pytest.raises(ConfigurationError, match="expected the first line"):
        file.keep({"llama": [profile("H100", NEW)]}, repository)
    assert file.location.read_text() == "mine: true\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../profiles.yaml", "without `..`"),
        ("a/../../profiles.yaml", "without `..`"),
        ("/tmp/profiles.yaml", "from the repository's root"),
        ("~/profiles.yaml", "from the repository's root"),
        ("", "from the repository's root"),
        ("a\nb.yaml", "from the repository's root"),
        (".git/profiles.yaml", "outside of .git"),
        ("sub/.GIT/config", "outside of .git"),
        ("reconciler.yaml", "next to reconciler.yaml"),
        ("./reconciler.yaml", "next to reconciler.yaml"),
        ("clusters", "expected a file at clusters"),
        (".", "cannot be read"),
        ("README.md/profiles.yaml", "expected a directory at README.md"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(tree: Path, path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        find_profiles_file(str(tree), path)


@pytest.mark.parametrize("is_dangling", [False, True])
@pytest.mark.parametrize("linked", [".reconciler", PATH])
def test_nothing_is_written_through_a_link(tree: Path, tmp_path: Path, linked: str, *, is_dangling: bool) -> None:
    target = tmp_path / "elsewhere"
    if not is_dangling:
        target.mkdir()
    (tree / linked).parent.mkdir(exist_ok=True)
    (tree / linked).symlink_to(target)
    with pytest.raises(ConfigurationError, match=f"{linked} is a symbolic link"):
        find_profiles_file(str(tree), PATH)
    assert not target.exists() or not any(target.iterdir())


def test_a_pipe_is_refused_and_not_waited_for(tree: Path) -> None:
    os.mkfifo(tree / "pipe.yaml")
    with pytest.raises(ConfigurationError, match=r"expected a file at pipe\.yaml"):
        find_profiles_file(str(tree), "pipe.yaml")


@pytest.mark.parametrize("repo", ["https://git.example.com/acme/fleet.git", "git@git.example.com:acme/fleet.git"])
def test_a_repository_by_url_has_no_work_tree(repo: str) -> None:
    with pytest.raises(ConfigurationError, match="clone it and give its directory"):
        find_profiles_file(repo, PATH)


def test_a_bare_repository_has_no_work_tree(desk: Desk) -> None:
    with pytest.raises(ConfigurationError, match="clone it and give its directory"):
        find_profiles_file(str(desk.workshop.remote), PATH)


def test_a_folder_inside_a_repository_means_its_root(tree: Path, repository: Repository) -> None:
    find_profiles_file(str(tree / "clusters"), PATH).keep({"llama": [profile("H100", NEW)]}, repository)
    assert (tree / PATH).is_file()


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    file: ProfilesFile, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.keep({"llama": [profile("H100", OLD)]}, repository).text

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigurationError, match="No space left on device"):
        file.keep({"llama": [profile("H100", NEW)]}, repository)
    assert file.location.read_text() == before
    assert [each.name for each in file.location.parent.iterdir()] == [file.location.name]


def test_a_file_is_extended_by_way_of_others_too(desk: Desk, tree: Path) -> None:
    header = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
    desk.write("reconciler.yaml", f"{header}extends: [more.yaml]\n")
    desk.write("more.yaml", f"{header}extends: [./{PATH}]\n")
    repository = open_directory(tree)
    assert is_extended(repository, PATH)
    assert not is_extended(repository, "profiles.yaml")


def test_merging_replaces_what_was_learned_and_keeps_the_rest() -> None:
    kept = {"llama": [profile("A100", OLD), profile("H100", OLD)], "qwen": [profile("L4", OLD)]}
    merged = merge_profiles(kept, {"llama": [profile("H100", NEW)]})
    assert merged == {"llama": (profile("A100", OLD), profile("H100", NEW)), "qwen": (profile("L4", OLD),)}
    assert merge_profiles(kept, {}) == merge_profiles({}, kept)
