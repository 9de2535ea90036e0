"""Configuration and policy files: read within caps, each checked by itself before they are merged."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.config.layers import API_VERSION, KIND, PlacedValue, find_flaws, find_path_flaw, placed
from reconciler.domain.identity import Finding, Place, Severity, finding_of
from reconciler.domain.records import dataclass
from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents
from reconciler.manifests.wording import describe, join_words

if TYPE_CHECKING:
    from reconciler.domain.rules import Rule
    from reconciler.policy.files import ReadPolicy

REPOSITORY_FILE = "reconciler.yaml"
MAX_FILES = 50
MAX_POLICY_FILES = 100
MAX_FILE_BYTES = 1024 * 1024

HEADER = {"apiVersion": API_VERSION, "kind": KIND}

_PLACE = Place(path=REPOSITORY_FILE)
EMPTY = PlacedValue(
    value={name: PlacedValue(value=value, place=_PLACE) for name, value in HEADER.items()}, place=_PLACE
)
"""What a repository without a configuration file says."""

RepositoryReader = Callable[[str], bytes | None]
"""The bytes of a file of the base commit by its path from the root; None when there is none."""


@dataclass(slots=True)
class LayerReader:
    """Reads the files of one run; `layers` grow in the order in which they are laid over one another."""

    read_repository_file: RepositoryReader
    layers: list[PlacedValue] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _read: set[str] = field(default_factory=set)

    def add_repository_file(self, path: str, data: bytes, ancestors: tuple[str, ...] = ()) -> None:
        """A file of the repository, after the files that it extends."""
        self._read.add(path)
        root = self._parse(path, data, by_operator=False)
        if root is None:
            return
        for entry in root.at("extends").items:
            if isinstance(entry.value, str) and not find_path_flaw(entry.value):  # else the schema says so
                self._add_extended(entry.value, entry.place, (*ancestors, path))
        self.layers.append(root)

    def add_operator_file(self, path: Path) -> None:
        """A file of the operator; it is on this machine, and cannot name files of the repository."""
        shown = str(path)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            self._refuse(Place(path=shown), f"cannot be read: {error.strerror or 'unknown reason'}")
            return
        root = self._parse(shown, data, by_operator=True)
        if root is None:
            return
        if "extends" in root.members:
            self._refuse(root.at("extends").place, "expected only in files of the repository: give --config once more")
        self.layers.append(root)

    def _add_extended(self, path: str, place: Place, ancestors: tuple[str, ...]) -> None:
        if path in ancestors:
            self._refuse(place, f"{describe(path)} extends itself: {' -> '.join((*ancestors, path))}")
        elif path in self._read:
            return
        elif len(self._read) >= MAX_FILES:
            self._refuse(place, f"expected at most {MAX_FILES} files")
        elif (data := self.read_repository_file(path)) is None:
            self._refuse(place, f"no file {describe(path)} in the repository")
        else:
            self.add_repository_file(path, data, ancestors)

    def _parse(self, path: str, data: bytes, *, by_operator: bool) -> PlacedValue | None:
        try:
            documents = parse_documents(path, data)
        except InputError as error:
            self.findings.append(finding_of(error))
            return None
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            self._refuse(Place(path=path), "expected one YAML document that is a mapping")
            return None
        root = placed(documents[0], by_operator=by_operator)
        self.findings += [*_find_wrong_header(root), *find_flaws(root)]
        return root

    def _refuse(self, place: Place, message: str) -> None:
        self.findings.append(Finding(place=place, severity=Severity.ERROR, message=message))


def read_layers(
    repository_file: bytes | None, read_repository_file: RepositoryReader, operator_files: Sequence[Path]
) -> tuple[tuple[PlacedValue, ...], tuple[Finding, ...]]:
    """Every file as a layer, the strongest last, and what is wrong with each by itself."""
    reader = LayerReader(read_repository_file)
    if repository_file is not None:
        reader.add_repository_file(REPOSITORY_FILE, repository_file)
    for path in operator_files:
        reader.add_operator_file(path)
    return tuple(reader.layers), tuple(reader.findings)


def _find_wrong_header(root: PlacedValue) -> Iterator[Finding]:
    """Each file says what it is; merging would lend it another one's header."""
    for name, expected in HEADER.items():
        entry = root.at(name)
        if entry.value != expected:
            found = "found nothing" if name not in root.members else f"got {describe(entry.plain)}"
            yield Finding(place=entry.place, severity=Severity.ERROR, message=f"expected {expected}, {found}")


# Guard rails: presets from the package, a team's own from the base commit, the operator's from this machine.

RepositoryFolder = Callable[[str], Sequence[str]]
"""The paths of all files below a folder of the base commit."""


def no_files(folder: str) -> Sequence[str]:
    """A repository whose folders are not listed."""
    del folder
    return ()


def preset_names() -> tuple[str, ...]:
    """The presets that are shipped, by name."""
    return tuple(sorted(each.name.removesuffix(".yaml") for each in _shipped().iterdir() if _is_policy(each.name)))


def preset_path(name: str) -> str:
    """What the places of a preset's rules call its file."""
    return f"policies/{name}.yaml"


@cache
def read_preset(name: str) -> "ReadPolicy":
    """The rules of a shipped preset, read once in a process: a validation loads its settings twice."""
    from reconciler.policy.files import read_policy

    return read_policy(preset_path(name), (_shipped() / f"{name}.yaml").read_bytes())


def load_policies(
    stated: PlacedValue, read: RepositoryReader, list_folder: RepositoryFolder, *, with_default: bool
) -> "tuple[tuple[Rule, ...], tuple[Finding, ...], tuple[Finding, ...]]":
    """The rules of `policies`, what is wrong with the list itself, and what is wrong with the rules.

    Without such a list they are those of the default preset, or none.
    """
    if not isinstance(stated.value, tuple):
        return (read_preset("default").rules if with_default else ()), (), ()
    from reconciler.policy.files import join_policies  # who names no rules waits for none of their schemas

    found: list[ReadPolicy] = []
    wrong: list[Finding] = []
    for entry in stated.items:
        try:
            found += _entry(entry, read, list_folder)
        except ValueError as error:
            wrong.append(Finding(place=entry.place, severity=Severity.ERROR, message=str(error)))
    policy = join_policies(found)
    return policy.rules, tuple(wrong), policy.findings


def _entry(entry: PlacedValue, read: RepositoryReader, list_folder: RepositoryFolder) -> "Iterator[ReadPolicy]":
    from reconciler.policy.files import read_policy

    name = str(entry.value)
    if name in preset_names():
        yield read_preset(name)
        return
    files = dict(_operators(entry, name) if entry.by_operator else _repositorys(name, read, list_folder))
    if not files or len(files) > MAX_POLICY_FILES:
        where = "on this machine" if entry.by_operator else "in the repository"
        expected = f"expected {join_words((*preset_names(), f'a policy file or a folder with some {where}'))}"
        raise ValueError(f"{expected} (at most {MAX_POLICY_FILES}), got {describe(name)}")
    yield from (read_policy(path, data) for path, data in sorted(files.items()))


def _repositorys(path: str, read: RepositoryReader, list_folder: RepositoryFolder) -> Iterator[tuple[str, bytes]]:
    """Files of the base commit: no pull request relaxes the rule that judges it."""
    if flaw := find_path_flaw(path):
        raise ValueError(flaw)
    folder = path.rstrip("/") + "/"
    names = [path] if _is_policy(path) else [each for each in list_folder(folder) if _is_policy(each)]
    for name in names[: MAX_POLICY_FILES + 1]:
        data = read(name)
        if data is not None:
            yield name, data


def _operators(entry: PlacedValue, name: str) -> Iterator[tuple[str, bytes]]:
    """Files relative to the operator's own."""
    path = Path(entry.place.path).parent / name
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in [file for file in files if _is_policy(file.name)][: MAX_POLICY_FILES + 1]:
            with each.open("rb") as file:
                yield str(each), file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{describe(name)} cannot be read: {error.strerror or 'unknown reason'}") from None


def _is_policy(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


def _shipped() -> Path:
    """The presets of the installed package, or of the checkout that it is imported from."""
    package = Path(str(resources.files("reconciler")))
    packaged = package / "_policies"
    return packaged if packaged.is_dir() else package.parent / "policies"
