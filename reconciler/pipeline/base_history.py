"""What the history of the base branch says: merges, reverts, and the replicas that Git asked for."""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decision.questions import variants_with_past
from reconciler.domain.places import WrittenField
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant
from reconciler.errors import ReconcilerError
from reconciler.forge.marker import decision_of_commit
from reconciler.forge.pull_requests import PullRequest
from reconciler.git.clone import Clone
from reconciler.git.history import History, LoggedCommit, read_history, read_log
from reconciler.git.repository import CommitRecord, Repository
from reconciler.manifests.past_values import MISSING, FileVersion, count_then
from reconciler.resources.declaration import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBranches:
    """Head branches that the base holds whole, and those that begin at no commit of it (it was pushed by force)."""

    merged: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()


def compare_with_base(clone: Clone, found: Iterable[PullRequest], tips: Mapping[str, CommitRecord]) -> ComparedBranches:
    """Look at the branches of open pull requests; history is asked for only where the base has moved on beneath one."""
    open_branches = {each.head_branch for each in found if each.is_open}
    moved = {name: tip for name, tip in tips.items() if name in open_branches and tip.parents != (clone.commit,)}
    if not moved:
        return ComparedBranches()
    begun = (clone.read_commit(oid) for tip in moved.values() for oid in tip.parents)
    clone.fetch_history(min(each.committed_s for each in (*begun, *moved.values())))
    return ComparedBranches(
        merged=frozenset(name for name, tip in moved.items() if clone.descends_from(tip.oid)),
        stale=frozenset(name for name, tip in moved.items() if not any(map(clone.descends_from, tip.parents))),
    )


# Which of our merged pull requests a person took back, by what the base's commits say: that is a no like a closed
# one. Git writes `This reverts commit <sha>`; where a forge's button made the commit it may name the pull request
# instead. Who takes the revert back in turn has not said no. Whoever may write to the base may write such words: they
# can only make us propose less.

logger = logging.getLogger(__name__)

MOST_COMMITS = 1000
"""Fetched by every run that has a merge to look after: of a base with more in a week the last ones must do."""

COMMIT = re.compile(r"^This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE)
NUMBER = re.compile(
    r"^(?:Reverts [^\s#]{0,200}#|This reverts merge request [^\s!]{0,200}!)([0-9]{1,9})\s*$", re.MULTILINE
)


def note_reverts(
    repository: Repository,
    proposals: Sequence[Proposal],
    shown: Mapping[int, PullRequest],
    *,
    since_s: float,
    listed_since_s: float,
    now_s: float,
) -> tuple[Proposal, ...]:
    """The proposals, those that were merged and then taken back since `since_s` with when that was (Unix seconds).

    `shown` are pull requests by number, those that were merged since `listed_since_s` among them. The base's history is
    fetched as far as reverts count, and as far as merges do where it takes anything back.
    """
    merged = [each for each in proposals if each.state is ProposalState.MERGED and each.decision]
    if not merged:
        return tuple(proposals)
    try:
        log = _read(repository, since_s)
        if any(COMMIT.findall(each.message) + NUMBER.findall(each.message) for each in log):
            log = _read(repository, listed_since_s)
    except ReconcilerError as error:
        logger.warning("Git's history is not known: what a person took back by hand may be proposed again: %s", error)
        return tuple(proposals)
    found: dict[int, float] = {}
    for number, at_s in _taken_back(log, [_Merged(each, shown.get(each.number)) for each in merged]):
        found[number] = max(min(at_s, now_s), found.get(number, since_s))
    return tuple(
        replace(each, reverted_at_s=found[each.number]) if found.get(each.number, since_s) > since_s else each
        for each in proposals
    )


def _read(repository: Repository, since_s: float) -> tuple[LoggedCommit, ...]:
    if isinstance(repository, Clone):
        repository.fetch_history(since_s, most=MOST_COMMITS)
    return read_log(repository, since_s)


@dataclass(frozen=True, slots=True)
class _Merged:
    """A merged pull request, as decide sees it and as the forge shows it."""

    proposal: Proposal
    shown: PullRequest | None

    def is_commit(self, oid: str) -> bool:
        """Whether a commit is what was merged, or what the forge made of it."""
        known = {
            self.proposal.head_commit,
            *(() if self.shown is None else (self.shown.head_commit, *self.shown.merged_as)),
        }
        return oid in known

    def order(self, at_s: float) -> tuple[bool, int]:
        """The same may have been merged before and after a time: what was before it goes first, the newest of it."""
        closed_at_s = self.proposal.closed_at_s
        return closed_at_s is not None and closed_at_s <= at_s, self.proposal.number


def _taken_back(log: Sequence[LoggedCommit], merged: Sequence[_Merged]) -> Iterator[tuple[int, float]]:
    """By number, when a pull request was taken back."""
    commits, numbers = {each.oid: each for each in log}, {each.proposal.number for each in merged}
    undone: set[str] = set()
    for commit in log:
        if commit.oid in undone:
            continue
        yield from ((int(each), commit.at_s) for each in NUMBER.findall(commit.message) if int(each) in numbers)
        for text in COMMIT.findall(commit.message):
            for oid in _named(text, commits, merged):
                undone.add(oid)
                matching = [each for each in merged if each.is_commit(oid)] or _by_decision(oid, commits, merged)
                if matching:
                    yield max(matching, key=lambda each: each.order(commit.at_s)).proposal.number, commit.at_s


def _named(text: str, commits: Mapping[str, LoggedCommit], merged: Iterable[_Merged]) -> list[str]:
    """The commit that a text means, which may be only the beginning of its name."""
    known = {*commits, *(oid for each in merged if each.shown is not None for oid in each.shown.merged_as)}
    known |= {each.proposal.head_commit for each in merged}
    found = [text] if text in known else [oid for oid in known if oid.startswith(text)]
    return found if len(found) == 1 else []


def _by_decision(oid: str, commits: Mapping[str, LoggedCommit], merged: Iterable[_Merged]) -> list[_Merged]:
    """Those whose decision a commit bears, or the commit that it merged."""
    commit = commits.get(oid)
    if commit is None:
        return []
    found = [commit, *(commits[parent] for parent in commit.parents[1:] if parent in commits)]
    decisions = {decision_of_commit(each.message) for each in found}
    heads = {each.oid for each in found}
    return [each for each in merged if each.proposal.decision in decisions or any(map(each.is_commit, heads))]


# What the base's history says of replicas: how many there were to be, and since when, whoever wrote that. Asked for
# rules that look back, of the variants in their scope. A private clone is deepened as far as they look.

MOST_BYTES = 16 * 1024 * 1024
"""Of older versions of files, by the size of today's: beyond, the oldest are not looked at."""
ABSENT = -1
"""Stands for the replicas of what is not there."""
PLAIN = ("Deployment", "StatefulSet", "LeaderWorkerSet")
"""Scale targets whose own manifest has `spec.replicas`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A field that says how many replicas a variant has; `is_own`: in the object's own manifest."""

    field: WrittenField
    is_own: bool

    @property
    def path(self) -> str:
        return self.field.document.path


@dataclass(slots=True, kw_only=True)
class _File:
    """A file of the base and its older versions: when each ended, and which it was (empty: none), the newest first."""

    oid: str
    size_bytes: int
    versions: list[tuple[float, str]] = field(default_factory=list)
    since_s: float = 0.0

    @property
    def oids(self) -> list[str]:
        """Every version that there is, the newest first."""
        return [each for each in dict.fromkeys([self.oid, *(oid for _, oid in self.versions)]) if each]


def read_written(
    repository: Repository, settings: Settings, declaration: Declaration, now_s: float
) -> tuple[WrittenCounts, ...]:
    """What is known of each variant that a rule looks back at; nothing where no rule does, or nobody can tell."""
    asked = variants_with_past(settings, declaration, now_s)
    places = {variant.key: tuple(_places(variant)) for variant, _ in asked}
    listed = [place for each in places.values() for place in each]
    if not listed:
        return ()
    since_s = min(since_s for _, since_s in asked)
    try:
        if isinstance(repository, Clone):
            repository.fetch_history(since_s)
        history = read_history(repository, since_s)
        files = _files(repository, history, {place.path for place in listed}, now_s)
        told = _counts(repository, files, listed)
    except ReconcilerError as error:
        logger.warning("Git's history is not known, so nothing is allowed that depends on it: %s", error)
        return ()
    found = (_written(variant, places[variant.key], files, told, history, since_s) for variant, _ in asked)
    return tuple(each for each in found if each is not None)


def _places(variant: Variant) -> Iterator[_Place]:
    """Where its number is written, and where it was before that place was made: in the object's own manifest."""
    workload = variant.workload
    if workload is None or workload.replicas is None:
        return
    chosen = workload.written_at[0]
    is_own = chosen.document == workload.document
    if not chosen.entry:
        yield _Place(field=chosen, is_own=is_own)
    if not is_own and not variant.is_autoscaled and workload.key.kind in PLAIN:
        yield _Place(field=workload.own_replicas, is_own=True)


def _files(repository: Repository, history: History, paths: Iterable[str], now_s: float) -> dict[str, _File]:
    """The versions of files, by the names that they have now; names that they had before are followed."""
    entries = {each.path: each for each in repository.list_files()}
    found = ((path, entries[path]) for path in paths if path in entries)
    files = {path: _File(oid=entry.oid, size_bytes=entry.size_bytes) for path, entry in found}
    named, left = dict(files), MOST_BYTES
    for commit in history.commits:
        at_s = min(commit.at_s, now_s)
        for file, change in [(named[each.path], each) for each in commit.changes if each.path in named]:
            left -= file.size_bytes
            if left < 0:
                file.since_s = max(file.since_s, at_s)
                continue
            named[change.path_before] = file
            file.versions.append((at_s, change.oid_before))
    return files


Told = Mapping[tuple[str, WrittenField], int | None]
"""By version of a file and place in it the replicas that it gives; ABSENT where the object is not there."""


def _counts(repository: Repository, files: Mapping[str, _File], places: Iterable[_Place]) -> Told:
    """Every version is read once, for all places in its file."""
    by_path: defaultdict[str, list[WrittenField]] = defaultdict(list)
    for each in places:
        by_path[each.path].append(each.field)
    told: dict[tuple[str, WrittenField], int | None] = {}
    for path, file in files.items():
        bodies = repository.read_files(file.oids)
        now = FileVersion(path, next(bodies)[1])
        objects = [(place, now.object_at(place)) for place in by_path[path]]
        told |= {(file.oid, place): count_then(found, found, place) for place, found in objects}
        for oid, body in bodies:
            version = FileVersion(path, body)
            then = [(place, each, version.object_like(each, place)) for place, each in objects]
            told |= {
                (oid, place): ABSENT if past is MISSING else count_then(each, past, place) for place, each, past in then
            }
    return told


def _written(
    variant: Variant,
    places: Sequence[_Place],
    files: Mapping[str, _File],
    told: Told,
    history: History,
    asked_since_s: float,
) -> WrittenCounts | None:
    """The counts of one variant; None where its place does not say what it has now."""
    used = [place for place in places if place.path in files]
    oids = {place.path: files[place.path].oid for place in used}
    if _count(used, oids, told) != variant.current.replicas:
        return None
    ended: defaultdict[float, dict[str, str]] = defaultdict(dict)
    for path in oids:
        for at_s, oid in files[path].versions:
            ended[at_s][path] = oid
    counts: list[tuple[float, int | None]] = []
    count: int | None = variant.current.replicas
    for at_s in sorted(ended, reverse=True):
        oids |= ended[at_s]
        before = _count(used, oids, told)
        if before != count:
            counts.append((at_s, count))
            count = before
    since_s = max(history.since_s, *(files[path].since_s for path in oids))
    is_whole = count == ABSENT and bool(counts) and since_s <= asked_since_s
    first = [] if is_whole else [(since_s, count)]
    ordered = [(at_s, 0 if each == ABSENT else each) for at_s, each in (*first, *reversed(counts))]
    return WrittenCounts(variant=variant.key, counts=tuple(ordered), is_whole=is_whole)


def _count(places: Iterable[_Place], oids: Mapping[str, str], told: Told) -> int | None:
    """The first place that tells; ABSENT where the object itself is not there, None where nobody knows."""
    is_absent = False
    for place in places:
        oid = oids[place.path]
        count = told.get((oid, place.field)) if oid else ABSENT
        if count is not None and count != ABSENT:
            return count
        is_absent = place.is_own and count == ABSENT
    return ABSENT if is_absent else None
