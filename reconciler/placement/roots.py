"""Where builds begin: what nobody else builds, in the paths of a cluster."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import InputError
from reconciler.manifests.composer import Value
from reconciler.placement.kustomize.build import Builder
from reconciler.placement.paths import CHART_NAME, KUSTOMIZATION_NAMES, directory_of, is_yaml, name_of, resolve
from reconciler.placement.repository import ManifestRepository

# Every list of a kustomization whose entries may be files: what is named there is no manifest of its own.
_OBJECT_LISTS: Final = ("resources", "bases", "components")
_FILE_LISTS: Final = (
    *("patchesStrategicMerge", "configurations", "crds", "transformers"),
    *("generators", "validators"),
)
_PATH_LISTS: Final = ("patches", "patchesJson6902", "replacements")
_GENERATORS: Final = ("configMapGenerator", "secretGenerator")
_GENERATOR_LISTS: Final = ("files", "envs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What the kustomizations of a repository name: directories they enter, files they read.

    `rules` are those of the files that are read otherwise than for the objects in them: patches and the like. `users`
    are the directories of the kustomizations that name a directory, or a file for the objects in it.
    """

    directories: frozenset[str]
    files: frozenset[str]
    rules: frozenset[str]
    users: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def tops(self, path: str) -> frozenset[str]:
        """The directories of the kustomizations that a directory or file ends up in, and that no other one names."""
        return frozenset(each for each in self._above(path) if not self.users.get(each))

    def leads_to_itself(self, directory: str) -> bool:
        """Whether a directory is the first of a circle that nobody else enters: somebody must say that it is one."""
        above = self._above(directory)
        return directory in above and directory == min(above) and not self.tops(directory)

    def _above(self, path: str) -> frozenset[str]:
        found: set[str] = set()
        waiting = [path]
        while waiting:
            users = self.users.get(waiting.pop(), frozenset()) - found
            found |= users
            waiting += users
        return frozenset(found)


def find_used(repository: ManifestRepository) -> Used:
    """Everything that any kustomization names."""
    directories: set[str] = set()
    files: set[str] = set()
    rules: set[str] = set()
    users: dict[str, set[str]] = {}
    for path in repository.paths:
        if name_of(path) not in KUSTOMIZATION_NAMES:
            continue
        for name, is_rule in _names_in(repository, path):
            target = resolve(directory_of(path), name)
            if target is None or not (repository.has_file(target) or repository.has_directory(target)):
                own = repository.find_own(name)
                target = own.path if own is not None else target
            if target is None:
                continue
            if repository.has_file(target):
                files.add(target)
                rules.update((target,) if is_rule else ())
            elif repository.has_directory(target):
                directories.add(target)
            if not is_rule:
                users.setdefault(target, set()).add(directory_of(path))
    return Used(
        directories=frozenset(directories),
        files=frozenset(files),
        rules=frozenset(rules),
        users={target: frozenset(found) for target, found in users.items()},
    )


def _names_in(repository: ManifestRepository, path: str) -> Iterator[tuple[str, bool]]:
    try:
        documents = repository.read(path)
    except InputError:
        return
    for document in documents:
        value = document.value
        if isinstance(value, dict):
            yield from ((name, False) for key in _OBJECT_LISTS for name in _texts(value.get(key)))
            yield from ((name, True) for name in _entries(value))


def _entries(value: dict[str, Value]) -> Iterator[str]:
    for key in _FILE_LISTS:
        yield from _texts(value.get(key))
    for key in _PATH_LISTS:
        for entry in _list(value.get(key)):
            yield from _texts([entry.get("path")] if isinstance(entry, dict) else [])
    for key in _GENERATORS:
        for entry in _list(value.get(key)):
            for listed in _GENERATOR_LISTS if isinstance(entry, dict) else ():
                for text in _texts(entry.get(listed) if isinstance(entry, dict) else None):
                    yield text.rpartition("=")[2]


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _texts(value: Value) -> Iterator[str]:
    yield from (item for item in _list(value) if isinstance(item, str))


def find_charts(repository: ManifestRepository) -> frozenset[str]:
    """The directories of charts: what lies below is rendered by Helm, and is no manifest as it stands."""
    return frozenset(directory_of(path) for path in repository.paths if name_of(path) == CHART_NAME)


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Whether a path lies in or below one of some directories."""
    wanted = directories if isinstance(directories, frozenset | set) else frozenset(directories)
    directory = path
    while directory:
        if directory in wanted:
            return True
        directory = directory_of(directory)
    return "" in wanted


def root_directories(builder: Builder, used: Used, holds: Callable[[str], bool]) -> Iterator[str]:
    """Directories with a kustomization in a cluster's paths that no other kustomization enters."""
    repository = builder.repository
    seen: set[str] = set()
    for path in repository.paths:
        directory = directory_of(path)
        if name_of(path) not in KUSTOMIZATION_NAMES or directory in seen:
            continue
        if directory in used.directories and not used.leads_to_itself(directory):
            continue
        if holds(path) and not is_component(builder, directory):
            seen.add(directory)
            yield directory


def is_component(builder: Builder, directory: str) -> bool:
    """Whether the kustomization of a directory is one; one that cannot be read is not."""
    try:
        return builder.read(directory).is_component
    except InputError:
        return False


def plain_files(
    repository: ManifestRepository, used: Used, charts: frozenset[str], holds: Callable[[str], bool]
) -> Iterator[str]:
    """Files in a cluster's paths that are applied as they stand.

    A file beside a kustomization that does not list it is not: it is there, and nobody builds it.
    """
    for path in repository.paths:
        if not is_yaml(path) or path in used.files or name_of(path) in KUSTOMIZATION_NAMES or not holds(path):
            continue
        directory = directory_of(path)
        if not repository.kustomizations_in(directory) and not is_below(directory, charts):
            yield path


def unbuilt_files(
    repository: ManifestRepository,
    used: Used,
    charts: frozenset[str],
    holds: Callable[[str], bool],
    built: Container[str],
) -> Iterator[str]:
    """Files in a cluster's paths that look like manifests, and that nothing builds or uses."""
    for path in repository.paths:
        is_manifest = is_yaml(path) and path not in used.files and name_of(path) not in KUSTOMIZATION_NAMES
        if is_manifest and path not in built and holds(path) and not is_below(directory_of(path), charts):
            yield path
