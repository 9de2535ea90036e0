"""Observe: one commit's manifests, Prometheus' answers, our own pull requests, as they came."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.decision.questions import Asking, ask_by_cluster
from reconciler.domain.answers import Answer, AnswerStatus
from reconciler.domain.identity import Finding, Place, Severity, fits_ignore_line
from reconciler.domain.proposals import Proposal
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.settings import Assumption, ClusterSettings, Settings
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.marker import proposal_of
from reconciler.forge.pull_requests import Forge, PullRequest, PullRequestState
from reconciler.git.clone import Clone
from reconciler.git.repository import CommitRecord, EntryKind, Repository, TreeEntry
from reconciler.metrics.answers import clusters_seen
from reconciler.metrics.devices import device_queries
from reconciler.metrics.quantities import CLUSTER
from reconciler.metrics.queries import live_queries, queries_for
from reconciler.metrics.tracked_queries import tracking_queries
from reconciler.pipeline.base_history import ComparedBranches, compare_with_base, note_reverts, read_written
from reconciler.pipeline.session import Doors, Progress, no_progress
from reconciler.placement.fleet import Fleet
from reconciler.placement.repository import CHART_NAME, directory_of, is_within, join, name_of
from reconciler.resources.declaration import Declaration
from reconciler.resources.registry import KINDS
from reconciler.snapshot.declarations import Commit, Skipped, clusters_example, clusters_of, fold, read_commit
from reconciler.snapshot.inventory import device_names

MAX_READ_BYTES: Final = 1024 * 1024
"""Larger files are never loaded: no parser here reads more, and no manifest of ours is as long."""
ATTRIBUTES: Final = ".gitattributes"
_VENDORED: Final = "linguist-vendored"
_TEMPLATES: Final = ("templates", "files", "crds", "ci", "tests")
"""Directories of a chart whose files are for Helm, which makes documents of them or tries the chart with them."""

_OURS: Final = "|".join(sorted(name for name, kind in KINDS.items() if kind.declares_variants and not kind.word))
OURS_PATTERN: Final = rf"""^( {{0,2}}(- )?kind|[ \t]*"kind") *: *["']?({_OURS})"""
"""An extended regular expression of a line that begins an object which declares a variant."""


def find_templates(paths: Iterable[str]) -> frozenset[str]:
    """The templates of charts, and what they are made with: Helm makes documents of them, they are none."""
    paths = list(paths)
    charts = {directory_of(path) for path in paths if name_of(path) == CHART_NAME}
    roots = {join(chart, name) for chart in charts for name in _TEMPLATES}
    return frozenset(path for path in paths if any(each in roots for each in _parents(path)))


def _parents(path: str) -> Iterator[str]:
    while path:
        path = directory_of(path)
        yield path


def find_vendored(attributes: Mapping[str, bytes], paths: Iterable[str]) -> frozenset[str]:
    """The files that `.gitattributes` files, by path, say are somebody else's; the nearest line counts."""
    lines = [
        (directory_of(path), pattern, _is_set(words))
        for path, body in sorted(attributes.items(), key=lambda each: (each[0].count("/"), each[0]))
        for pattern, *words in (line.split() for line in body.decode(errors="replace").splitlines() if line.strip())
        if _is_set(words) is not None and not pattern.startswith("#")
    ]
    return frozenset(path for path in paths if lines and _is_vendored(path, lines))


def _is_vendored(path: str, lines: list[tuple[str, str, bool | None]]) -> bool:
    found: bool | None = False
    for directory, pattern, is_set in lines:
        relative = path[len(directory) :].lstrip("/")
        if is_within(path, directory) and fits_ignore_line(pattern, relative):
            found = is_set
    return bool(found)


def _is_set(words: Iterable[str]) -> bool | None:
    """What the words behind a pattern say; None where they say nothing of it."""
    found: bool | None = None
    for word in words:
        name, equals, value = word.lstrip("-!").partition("=")
        if name == _VENDORED:
            found = not word.startswith(("-", "!")) and (not equals or value.lower() != "false")
    return found


def tell_giant(path: str, size_bytes: int) -> Finding:
    """What is wrong with a giant that holds something of ours."""
    message = f"expected at most {MAX_READ_BYTES} bytes, got {size_bytes}: split the file"
    return Finding(place=Place(path=path), severity=Severity.ERROR, message=message)


logger = logging.getLogger(__name__)

MANIFEST_NAMES = (".yaml", ".yml", ".json")
BATCH_BYTES = 8 * 1024 * 1024
"""As much of Git's files is held at once."""
CLOSED_WINDOW_S = 30 * 86400.0
"""How far back closed and merged pull requests are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeView:
    """Our pull requests and branches as they stood when they were read; without a forge there are none.

    `pull_requests` are by number. `branches` are the remote's under our prefix, with the object each points at; `tips`
    the commits of those whose newest pull request is not merged. `stale` are those that begin at no commit of
    the base, `merged_in_git` the numbers of those that the base holds although the forge shows them as open.
    """

    proposals: tuple[Proposal, ...] = ()
    pull_requests: Mapping[int, PullRequest] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)
    tips: Mapping[str, CommitRecord] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    merged_in_git: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """What a run observed: the recording that it decides from, what it read and what that declares, and the forge."""

    recording: Recording
    files: "Files"
    declaration: Declaration
    forge: ForgeView


def observe(doors: Doors, settings: Settings, now_s: float, repository_name: str) -> ObservedRun:
    """Read the base commit, ask every Prometheus, list our pull requests."""
    files = read_files(doors.repository, settings, repository_name, doors.progress)
    declaration = fold(files.commit, settings)
    commit = doors.repository.commit
    logger.info("read %d manifests at %s", len(files.commit.manifests), commit[:7])
    answers = _ask(doors, settings, declaration, now_s)
    if Assumption.ONE_CLUSTER in settings.assumed:
        refuse_several_clusters(answers, files.commit.fleet)
    forge_view = _read_forge(doors, settings, now_s)
    if forge_view is None:
        settings = replace(settings, assumed=(*settings.assumed, Assumption.WITHOUT_FORGE))
        forge_view = ForgeView()
    # After the forge, which may have deepened the clone less far.
    written = read_written(doors.repository, settings, declaration, now_s)
    recording = Recording(
        now_s=now_s,
        repository=repository_name,
        branch=doors.repository.branch,
        commit=doors.repository.commit,
        settings=settings,
        manifests=files.commit.manifests,
        withheld=files.commit.withheld,
        unread=files.unread,
        answers=answers,
        proposals=forge_view.proposals,
        paths=files.paths,
        committed_s=doors.repository.committed_s(),
        written=written,
    )
    return ObservedRun(recording=recording, files=files, declaration=declaration, forge=forge_view)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The manifests of a commit, and what of it was not read at all."""

    commit: Commit
    paths: tuple[str, ...]
    unread: tuple[Finding, ...]


def read_files(repository: Repository, settings: Settings, remote: str, progress: Progress = no_progress) -> Files:
    """Every manifest of the commit: kustomizations reach beyond the paths of a cluster. `remote` is its address."""
    listed = repository.list_files()
    entries = [entry for entry in listed if is_manifest(entry.path)]
    readable = {entry.path: entry for entry in entries if _is_readable(entry)}
    giants = {entry.path: entry for entry in entries if _is_giant(entry)}

    def fetch(paths: Sequence[str]) -> Iterator[ManifestFile]:
        named = [readable[path] for path in paths if path in readable]
        done = 0
        for batch in _batches(named):
            for entry, (_, body) in zip(batch, repository.read_files(each.oid for each in batch), strict=True):
                done += 1
                progress("reading manifests", done, len(named))
                yield ManifestFile(path=entry.path, body=body)

    attributes = [each for each in listed if name_of(each.path) == ATTRIBUTES and _is_readable(each)]
    bodies = repository.read_files(each.oid for each in attributes)
    written = {each.path: body for each, (_, body) in zip(attributes, bodies, strict=True)}
    skipped = Skipped(templates=find_templates(readable), vendored=find_vendored(written, readable))
    left_out = skipped.templates | skipped.vendored
    commit = read_commit(
        fetch([path for path in readable if path not in left_out]),
        {*readable, *giants},
        clusters_of(settings),
        fetch,
        remote=remote,
        skipped=skipped,
    )
    odd = (_unread(each) for each in entries if each.kind is not EntryKind.FILE and _is_held(each, settings))
    ours = repository.find_lines(OURS_PATTERN, (path for path, each in giants.items() if _is_held(each, settings)))
    told = (tell_giant(path, giants[path].size_bytes) for path in sorted(ours))
    return Files(commit=commit, paths=tuple(sorted(commit.paths)), unread=(*odd, *told, *commit.unreadable))


def _batches(entries: Iterable[TreeEntry]) -> Iterator[list[TreeEntry]]:
    batch: list[TreeEntry] = []
    size = 0
    for entry in entries:
        if batch and size + entry.size_bytes > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size_bytes
    yield batch


def _is_held(entry: TreeEntry, settings: Settings) -> bool:
    return any(cluster.holds(entry.path) for cluster in settings.clusters)


def is_manifest(path: str) -> bool:
    """Whether a file of this name is read."""
    name = path.rpartition("/")[2]
    return name.endswith(MANIFEST_NAMES) or name == "Kustomization"


def _is_readable(entry: TreeEntry) -> bool:
    return entry.kind is EntryKind.FILE and not _is_giant(entry)


def _is_giant(entry: TreeEntry) -> bool:
    return entry.kind is EntryKind.FILE and entry.size_bytes > MAX_READ_BYTES


def _unread(entry: TreeEntry) -> Finding:
    """A link is named, never followed."""
    words = {
        EntryKind.SYMLINK: "expected a file, found a symbolic link: links are not followed, so it is not read",
        EntryKind.SUBMODULE: "expected a file, found a submodule: it is not read",
        EntryKind.UNREADABLE_NAME: "expected a name in UTF-8: it is not read",
    }
    return Finding(place=Place(path=entry.path), severity=Severity.WARNING, message=words[entry.kind])


def _ask(doors: Doors, settings: Settings, declaration: Declaration, now_s: float) -> tuple[Answer, ...]:
    answers: list[Answer] = []
    asked = ask_by_cluster(settings, declaration)
    names = device_names(settings)
    for cluster in settings.clusters:
        asking = asked.get(cluster.name, Asking())
        queries = [
            *queries_for(cluster, asking.loads, now_s, needs=asking.needs, with_cluster_label=_may_mix(cluster)),
            *tracking_queries(cluster, asking.targets, now_s),
            *live_queries(cluster, asking.watched, now_s, asking.sync_delay_s),
            *(device_queries(cluster, names, now_s) if cluster.name in asked else ()),
        ]
        answered = doors.ask(cluster, queries) if queries else ()
        missing = sum(answer.status is not AnswerStatus.OK for answer in answered)
        logger.info("asked Prometheus of %s %d questions, %d without an answer", cluster.name, len(answered), missing)
        answers += answered
    return tuple(answers)


def _may_mix(cluster: ClusterSettings) -> bool:
    """Whether a Prometheus may answer for other clusters, too."""
    return cluster.prometheus is not None and CLUSTER not in cluster.prometheus.match_labels


def refuse_several_clusters(answers: Sequence[Answer], fleet: Fleet) -> None:
    """Without a configuration one Prometheus is one cluster: where it holds more, loads would be added up."""
    seen = clusters_seen(answers)
    if len(seen) > 1:
        raise ConfigurationError(
            f"this Prometheus holds several clusters ({', '.join(seen)}): "
            f"name them in reconciler.yaml, as in {clusters_example(seen, fleet)}"
        )


def _read_forge(doors: Doors, settings: Settings, now_s: float) -> ForgeView | None:
    """Our pull requests; None when the forge does not answer and the run goes on without it."""
    if doors.forge is None:
        return None
    try:
        return _view_of(doors.forge, doors, settings, now_s)
    except ReconcilerError as error:
        if doors.needs_forge:
            raise
        logger.warning("%s: %s", Assumption.WITHOUT_FORGE, error)
        return None


def _view_of(forge: Forge, doors: Doors, settings: Settings, now_s: float) -> ForgeView:
    doors.progress("reading pull requests", 0, 1)
    prefix = settings.git.branch_prefix
    window_s = max(CLOSED_WINDOW_S, settings.pull_requests.reopen_after_s)
    found = forge.list_pull_requests(head_prefix=prefix, base=doors.repository.branch, closed_since_s=now_s - window_s)
    branches: Mapping[str, str] = {}
    tips: Mapping[str, CommitRecord] = {}
    compared = ComparedBranches()
    if isinstance(doors.repository, Clone):
        branches = doors.repository.remote_branches(prefix)
        tips = doors.repository.fetch_branches(tuple(_wanted(found, branches)))
        compared = compare_with_base(doors.repository, found, tips)
    doors.progress("reading pull requests", 1, 1)
    committed_s = doors.repository.committed_s()
    known = tuple(
        replace(each, state=PullRequestState.MERGED, closed_at_s=committed_s)
        if each.is_open and each.head_branch in compared.merged
        else each
        for each in found
    )
    shown = {each.number: each for each in known}
    proposals = [proposal_of(each, tips.get(each.head_branch), doors.author) for each in known]
    return ForgeView(
        proposals=note_reverts(
            doors.repository,
            proposals,
            shown,
            since_s=now_s - settings.pull_requests.reopen_after_s,
            listed_since_s=now_s - window_s,
            now_s=now_s,
        ),
        pull_requests=shown,
        branches=branches,
        tips={name: tip for name, tip in tips.items() if name not in compared.merged},
        merged_in_git=tuple(each.number for each in found if each.is_open and each.head_branch in compared.merged),
        stale=compared.stale,
    )


def _wanted(found: tuple[PullRequest, ...], branches: Mapping[str, str]) -> Iterator[str]:
    """Branches whose tip decides something: all but those that are still there after their merge."""
    newest = {each.head_branch: each for each in found}
    merged = {name for name, each in newest.items() if each.state is PullRequestState.MERGED}
    return (name for name in sorted(branches) if name not in merged)
