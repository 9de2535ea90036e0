"""Guard rails: presets from the package, a team's own from the base commit, the operator's from this machine."""

from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from reconciler.config.files import MAX_FILE_BYTES, RepositoryReader
from reconciler.config.layers import PlacedValue
from reconciler.config.values import find_path_flaw
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import describe, join_words
from reconciler.policy.reading.files import ReadPolicy, join_policies, read_policy

DEFAULT = "default"
SUFFIXES = (".yaml", ".yml")
MAX_FILES = 100

RepositoryFolder = Callable[[str], Sequence[str]]
"""The paths of all files below a folder of the base commit."""


def no_files(folder: str) -> Sequence[str]:
    """A repository of which nobody lists folders."""
    del folder
    return ()


def preset_names() -> tuple[str, ...]:
    """The presets that are shipped, by name."""
    return tuple(sorted(each.name.removesuffix(".yaml") for each in _shipped().iterdir() if _is_policy(each.name)))


def preset_path(name: str) -> str:
    """What the places of a preset's rules call its file."""
    return f"policies/{name}.yaml"


def read_preset(name: str) -> ReadPolicy:
    """The rules of a shipped preset."""
    return read_policy(preset_path(name), (_shipped() / f"{name}.yaml").read_bytes())


def load_policies(
    stated: PlacedValue, read: RepositoryReader, list_folder: RepositoryFolder
) -> tuple[ReadPolicy, tuple[Finding, ...]]:
    """The rules of `policies` (those of the default preset without it), and what is wrong with the list itself."""
    if not isinstance(stated.value, tuple):
        return read_preset(DEFAULT), ()
    found: list[ReadPolicy] = []
    wrong: list[Finding] = []
    for entry in stated.items:
        try:
            found += _entry(entry, read, list_folder)
        except ValueError as error:
            wrong.append(Finding(place=entry.place, severity=Severity.ERROR, message=str(error)))
    return join_policies(found), tuple(wrong)


def _entry(entry: PlacedValue, read: RepositoryReader, list_folder: RepositoryFolder) -> Iterator[ReadPolicy]:
    name = str(entry.value)
    if name in preset_names():
        yield read_preset(name)
        return
    files = dict(_operators(entry, name) if entry.by_operator else _repositorys(name, read, list_folder))
    if not files or len(files) > MAX_FILES:
        where = "on this machine" if entry.by_operator else "in the repository"
        expected = f"expected {join_words((*preset_names(), f'a policy file or a folder with some {where}'))}"
        raise ValueError(f"{expected} (at most {MAX_FILES}), got {describe(name)}")
    yield from (read_policy(path, data) for path, data in sorted(files.items()))


def _repositorys(path: str, read: RepositoryReader, list_folder: RepositoryFolder) -> Iterator[tuple[str, bytes]]:
    """Files of the base commit: no pull request relaxes the rule that judges it."""
    if flaw := find_path_flaw(path):
        raise ValueError(flaw)
    folder = path.rstrip("/") + "/"
    names = [path] if _is_policy(path) else [each for each in list_folder(folder) if _is_policy(each)]
    for name in names[: MAX_FILES + 1]:
        data = read(name)
        if data is not None:
            yield name, data


def _operators(entry: PlacedValue, name: str) -> Iterator[tuple[str, bytes]]:
    """Files beside the operator's own."""
    path = Path(entry.place.path).parent / name
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in [file for file in files if _is_policy(file.name)][: MAX_FILES + 1]:
            with each.open("rb") as file:
                yield str(each), file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{describe(name)} cannot be read: {error.strerror or 'unknown reason'}") from None


def _is_policy(name: str) -> bool:
    return name.endswith(SUFFIXES)


def _shipped() -> Path:
    """The presets of the installed package, or of the checkout that it is imported from."""
    package = Path(str(resources.files("reconciler")))
    packaged = package / "_policies"
    return packaged if packaged.is_dir() else package.parent / "policies"
