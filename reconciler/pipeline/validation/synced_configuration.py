"""Whether what is synced to a cluster covers our own configuration, which no cluster knows.

Argo CD and Flux take every YAML file of a directory without kustomization for manifests, and fail at one that is none.
Argo CD skips files with a marker comment, Flux what `.sourceignore` or its source's `spec.ignore` lists.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.config.files import REPOSITORY_FILE
from reconciler.domain.globs import fits_ignore_line, matches_any
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.settings import ClusterSettings
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, parse_readable
from reconciler.manifests.wording import quote
from reconciler.placement.deployers import ARGO_GROUP, FLUX_GROUP, Deployer, try_read
from reconciler.placement.kustomize.build import objects_in
from reconciler.placement.objects import identify
from reconciler.placement.origins import SourceField
from reconciler.placement.paths import CHART_NAME, KUSTOMIZATION_NAMES, directory_of, is_yaml, join, name_of, resolve
from reconciler.placement.repository import ManifestRepository

RULE = "synced-configuration"
MARKER = "+argocd:skip-file-rendering"
OWN_DIRECTORY = ".reconciler"
IGNORE_FILE = ".sourceignore"
"""Flux's, in the syntax of .gitignore; only the one at the root is read."""

_FLUX_SOURCES = "source.toolkit.fluxcd.io"
_WORDS = frozenset(word.encode() for word in (ARGO_GROUP, FLUX_GROUP, _FLUX_SOURCES))
# With one of these Argo CD renders something else than the plain files of a directory.
_OTHER_TOOLS = ("chart", "helm", "kustomize", "plugin")
_LISTS = ("resources", "bases")


@dataclass(slots=True, kw_only=True)
class _Scene:
    """Files of ours, who deploys directories, and what Flux leaves out of each source, by namespace and name."""

    repository: ManifestRepository
    own: frozenset[str]
    unmarked: frozenset[str]
    deployers: list[Deployer] = field(default_factory=list)
    ignored: dict[tuple[str, str], str] = field(default_factory=dict)


def is_own(path: str) -> bool:
    """Whether a path from the repository's root is configuration of ours that tools take for a manifest."""
    return path == REPOSITORY_FILE or (path.startswith(f"{OWN_DIRECTORY}/") and is_yaml(path))


def may_tell(path: str) -> bool:
    """Whether a file can say what is synced, or is what should not be."""
    return is_yaml(path) or name_of(path) in KUSTOMIZATION_NAMES or path == IGNORE_FILE


def find_synced_configuration(
    files: Mapping[str, bytes], clusters: Iterable[ClusterSettings], remote: str = ""
) -> Iterator[Finding]:
    """A warning for each deployer, kustomization and cluster that covers a file of ours, where it says so.

    `files` are all of the repository that `may_tell`; `remote` its address, as far as it is known.
    """
    own = frozenset(path for path in files if is_own(path))
    if not own:
        return
    scene = _Scene(
        repository=ManifestRepository(files={path: _parse(path, files[path]) for path in files}, remote=remote),
        own=own,
        unmarked=frozenset(path for path in own if MARKER.encode() not in files[path]),
    )
    _read_objects(scene)
    shared = files.get(IGNORE_FILE, b"").decode(errors="replace")
    for deployer in scene.deployers:
        yield from _check_flux(scene, deployer, shared) if deployer.is_flux else _check_argo(scene, deployer)
    yield from _check_kustomizations(scene)
    yield from _check_clusters(scene, clusters)


def _parse(path: str, body: bytes) -> tuple[Document, ...]:
    """The documents of deployers and sources, and kustomizations that may name a file of ours."""
    if name_of(path) in KUSTOMIZATION_NAMES and REPOSITORY_FILE.partition(".")[0].encode() in body:
        return parse_readable(path, body)[0]
    return parse_readable(path, body, kinds=_WORDS)[0] if is_yaml(path) else ()


def _read_objects(scene: _Scene) -> None:
    for path in scene.repository.paths:
        for document in scene.repository.read(path):
            try:
                objects = list(objects_in(SourceField(document)))
            except InputError:
                continue
            for each in objects:
                _read_object(scene, each)


def _read_object(scene: _Scene, source: SourceField) -> None:
    fields = source.value if isinstance(source.value, dict) else {}
    identity = identify(fields)
    spec = fields.get("spec")
    if identity.group != _FLUX_SOURCES:
        scene.deployers += try_read(scene.repository, identity, source)[0]
    elif isinstance(spec, dict):
        key, ignore = (identity.namespace, identity.name), spec.get("ignore")
        scene.ignored[key] = ignore if isinstance(ignore, str) else ""


def _check_flux(scene: _Scene, deployer: Deployer, shared: str) -> Iterator[Finding]:
    """Flux makes a kustomization of all YAML files in and below a directory without one."""
    reference = deployer.source.get("sourceRef")
    name, namespace = ("", "") if reference is None else (_text(reference, "name"), _text(reference, "namespace"))
    key = (namespace or deployer.identity.namespace, name)
    if scene.repository.kustomizations_in(deployer.directory):
        return
    rules = f"{shared}\n{scene.ignored.get(key, '')}"
    files = (path for path in _below(deployer, scene.own) if not path.endswith(".json"))
    covered = [path for path in files if not is_ignored(rules, path) and not _is_entered(scene, deployer, path)]
    if covered:
        lines = " and ".join(sorted({quote(f"/{path.partition('/')[0]}") for path in covered}))
        yield _warn(deployer.source.below("path").place, covered, f"put {lines} into {IGNORE_FILE}")


def _check_argo(scene: _Scene, deployer: Deployer) -> Iterator[Finding]:
    """Argo CD reads the files of a directory, and with `recurse` those below, unless it knows a tool for it."""
    directory = deployer.directory
    is_built = scene.repository.kustomizations_in(directory) or scene.repository.has_file(join(directory, CHART_NAME))
    if is_built or any(deployer.source.get(tool) is not None for tool in _OTHER_TOOLS):
        return
    covered = [path for path in _below(deployer, scene.unmarked) if _is_rendered(deployer, path)]
    if covered:
        yield _warn(deployer.source.below("path").place, covered, _marking(covered))


def _is_rendered(deployer: Deployer, path: str) -> bool:
    relative = path[len(deployer.directory) :].lstrip("/")
    if "/" in relative and not deployer.is_recursive:
        return False
    is_included = not deployer.include or matches_any(deployer.include, relative)
    return is_included and not (deployer.exclude and matches_any(deployer.exclude, relative))


def _below(deployer: Deployer, paths: Iterable[str]) -> Iterator[str]:
    prefix = f"{deployer.directory}/" if deployer.directory else ""
    return (path for path in sorted(paths) if path.startswith(prefix))


def _is_entered(scene: _Scene, deployer: Deployer, path: str) -> bool:
    """Whether a directory between has a kustomization of its own, which says itself what is in it."""
    directory = directory_of(path)
    while directory != deployer.directory and directory:
        if scene.repository.kustomizations_in(directory):
            return True
        directory = directory_of(directory)
    return False


def _check_kustomizations(scene: _Scene) -> Iterator[Finding]:
    """A file of ours among the resources of a kustomization stops its build, whatever stands in it."""
    for path in scene.repository.paths:
        for document in scene.repository.read(path) if name_of(path) in KUSTOMIZATION_NAMES else ():
            value = document.value if isinstance(document.value, dict) else {}
            for key in _LISTS:
                entries = value.get(key)
                for index, entry in enumerate(entries if isinstance(entries, list) else ()):
                    target = resolve(directory_of(path), entry) if isinstance(entry, str) else None
                    if target in scene.own:
                        yield _warn(SourceField(document, (key, index)).place, [target], "leave it out")


def _check_clusters(scene: _Scene, clusters: Iterable[ClusterSettings]) -> Iterator[Finding]:
    """Paths that somebody chose; all files is what nobody chose, and says nothing of what is synced."""
    for cluster in clusters:
        is_chosen = bool(cluster.exclude) or cluster.include != ClusterSettings(name="").include
        covered = [path for path in sorted(scene.unmarked) if is_chosen and cluster.holds(path)]
        if covered and cluster.place is not None:
            yield _warn(cluster.place, covered, f"exclude that, or {_marking(covered)}")


def _warn(place: Place, covered: list[str], remedy: str) -> Finding:
    more = f" and {len(covered) - 1} more" if len(covered) > 1 else ""
    message = f"covers {quote(covered[0])}{more}, which no cluster knows: {remedy}"
    return Finding(place=place, severity=Severity.WARNING, message=message, rule=RULE)


def _marking(covered: list[str]) -> str:
    return f"put the comment {quote(f'# {MARKER}')} in {'each' if len(covered) > 1 else 'it'}"


def _text(source: SourceField, key: str) -> str:
    try:
        return source.text(key)
    except InputError:
        return ""


def is_ignored(rules: str, path: str) -> bool:
    """Whether lines in the syntax of .gitignore leave a file out; the last one that fits decides.

    Character classes are not read: such a line fits nothing.
    """
    ignored = False
    for line in rules.splitlines():
        rule = line.strip()
        pattern = rule.removeprefix("!")
        if pattern and not pattern.startswith("#") and fits_ignore_line(pattern, path):
            ignored = not rule.startswith("!")
    return ignored
