"""Observe: one commit's manifests, what the base's history says, Prometheus' answers, our own pull requests."""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, partial
from itertools import pairwise

from reconciler.config.files import REPOSITORY_FILE
from reconciler.decision.questions import Asking, ask_by_cluster, variants_with_past, variants_with_spending
from reconciler.decision.variant_states import compared_s
from reconciler.domain.answers import Answer, AnswerStatus
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Catalog
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.recording import PaidPrices, Recording, WrittenCounts
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Assumption, ClusterSettings, Identity, Settings
from reconciler.domain.shards import Share
from reconciler.domain.snapshot import Variant
from reconciler.domain.written import WrittenField
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.marker import decision_of_commit, proposal_of, stranger_of
from reconciler.forge.pull_requests import Forge, PullRequest, PullRequestState
from reconciler.git.clone import Clone
from reconciler.git.history import History, LoggedCommit, PastChange, PastCommit, commit_at, read_history, read_log
from reconciler.git.repository import CommitRecord, Repository
from reconciler.manifests.documents import MISSING, FileVersion, Value, count_then, parse_readable
from reconciler.metrics.answers import clusters_seen
from reconciler.metrics.history import scale_target, watched_target
from reconciler.metrics.observed import device_queries
from reconciler.metrics.quantities import CLUSTER
from reconciler.metrics.queries import delay_queries, live_queries, queries_for, ran_queries
from reconciler.metrics.scaler_metrics import one_by_one, scaler_queries
from reconciler.metrics.tracked_queries import tracking_queries
from reconciler.pipeline.files import Files, is_manifest, read_files, read_small
from reconciler.pipeline.schedules import schedules_in, with_interval
from reconciler.pipeline.session import Doors
from reconciler.placement.fleet import Fleet
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.canaries import canary_queries
from reconciler.snapshot.declarations import (
    clusters_example,
    fold,
)
from reconciler.snapshot.inventory import device_names
from reconciler.snapshot.priors import with_shapes
from reconciler.snapshot.shards import share_of
from reconciler.snapshot.variants import build_catalogs, declared_variants, join_variants
from reconciler.tuning.schedule import looks


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBranches:
    """Head branches that the base holds whole, and those that begin at no commit of it (it was pushed by force)."""

    merged: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()


MOST_PARENTS = 8
"""Of a commit that are looked at: anybody may push one with thousands."""


def compare_with_base(clone: Clone, found: Iterable[PullRequest], tips: Mapping[str, CommitRecord]) -> ComparedBranches:
    """Look at the branches of open pull requests; history is asked for only where the base has moved on beneath one."""
    open_branches = {each.head_branch for each in found if each.is_open}
    moved = {name: tip for name, tip in tips.items() if name in open_branches and tip.parents != (clone.commit,)}
    if not moved:
        return ComparedBranches()
    begun = (clone.read_commit(oid) for tip in moved.values() for oid in tip.parents[:MOST_PARENTS])
    clone.fetch_history(min(each.committed_s for each in (*begun, *moved.values())))
    return ComparedBranches(
        merged=frozenset(name for name, tip in moved.items() if clone.descends_from(tip.oid)),
        stale=frozenset(
            name for name, tip in moved.items() if not any(map(clone.descends_from, tip.parents[:MOST_PARENTS]))
        ),
    )


def below_updates(clone: Clone, branch: str, tip: CommitRecord, ours: Identity) -> CommitRecord:
    """Our commit below merges of the base that add nothing: a person's *Update branch* takes over nothing.

    `tip` where it is ours, or anything else is above ours. What cannot be read of a branch concerns it alone.
    """
    if len(tip.parents) != 2 or not stranger_of(tip, ours):
        return tip
    try:
        found = clone.below_updates(branch, tip)
    except (ReconcilerError, ValueError) as error:
        logger.warning("%s is left alone: %s", branch, error)
        return tip
    return tip if stranger_of(found, ours) else found


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
    known = {*commits, *(oid for each in merged if each.shown is not None for oid in each.shown.merged_as)}
    known |= {each.proposal.head_commit for each in merged}
    undone: set[str] = set()
    for commit in log:
        if commit.oid in undone:
            continue
        yield from ((int(each), commit.at_s) for each in NUMBER.findall(commit.message) if int(each) in numbers)
        for text in COMMIT.findall(commit.message):
            # A text may be only the beginning of a commit's name.
            named = [text] if text in known else [oid for oid in known if oid.startswith(text)]
            if len(named) != 1:
                continue
            undone.add(named[0])
            matching = [each for each in merged if each.is_commit(named[0])] or _by_decision(named[0], commits, merged)
            if matching:
                yield max(matching, key=lambda each: each.order(commit.at_s)).proposal.number, commit.at_s


def _by_decision(oid: str, commits: Mapping[str, LoggedCommit], merged: Iterable[_Merged]) -> list[_Merged]:
    """Those whose decision a commit bears, or the commit that it merged."""
    commit = commits.get(oid)
    if commit is None:
        return []
    found = [commit, *(commits[parent] for parent in commit.parents[1:] if parent in commits)]
    decisions = {decision_of_commit(each.message) for each in found}
    heads = {each.oid for each in found}
    return [each for each in merged if each.proposal.decision in decisions or any(map(each.is_commit, heads))]


# How many replicas the base's history asks for, and since when. It is read only for the variants of rules that look
# back, and a private clone is deepened as far as they look.

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
    repository: Repository,
    settings: Settings,
    variants: Iterable[Variant],
    now_s: float,
    every_since_s: float | None = None,
) -> tuple[WrittenCounts, ...]:
    """The counts of each variant that a rule looks back at, or of every one, since `every_since_s` at the latest.

    None without such a rule or a readable history.
    """
    asked = variants_with_past(settings, variants, now_s)
    if every_since_s is not None:
        since_s = min((every_since_s, *(each for _, each in asked)))
        asked = tuple((variant, since_s) for variant in variants)
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
    if not chosen.entry and chosen.patch is None:
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
    """The count of the first place that has one; ABSENT without the object itself, None if it is not known."""
    is_absent = False
    for place in places:
        oid = oids[place.path]
        count = told.get((oid, place.field)) if oid else ABSENT
        if count is not None and count != ABSENT:
            return count
        is_absent = place.is_own and count == ABSENT
    return ABSENT if is_absent else None


CLOSED_WINDOW_S = 30 * 86400.0
"""How far back closed and merged pull requests are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeView:
    """Our pull requests and branches as they stood when they were read; without a forge there are none.

    `pull_requests` are by number. `branches` are the remote's under our prefix, with the object each points at; `tips`
    the commits of those whose newest pull request is not merged, below merges of the base that add nothing. `stale` are
    those that begin at no commit of the base, `merged_in_git` the numbers of those that the base holds although the
    forge shows them as open. `retargeted` are those to another base that the forge is to merge for us.
    """

    proposals: tuple[Proposal, ...] = ()
    pull_requests: Mapping[int, PullRequest] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)
    tips: Mapping[str, CommitRecord] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    merged_in_git: tuple[int, ...] = ()
    retargeted: tuple[PullRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """What a run observed: the recording that it decides from, what it read and what that declares, and the forge."""

    recording: Recording
    files: "Files"
    declaration: Declaration
    variants: tuple[Variant, ...]
    """Of the whole fleet, whatever the share."""
    forge: ForgeView
    share: Share | None = None

    @property
    def split(self) -> frozenset[str]:
        """Clusters of which other shards may decide parts."""
        return frozenset() if self.share is None else self.share.split


def observe(doors: Doors, settings: Settings, now_s: float, repository_name: str) -> ObservedRun:
    """Read the base commit, ask every Prometheus, list our pull requests."""
    files = read_files(doors.repository, settings, repository_name, doors.progress)
    settings, wrong = with_shapes(settings, partial(read_small, doors.repository))
    files = replace(files, unread=(*files.unread, *wrong))
    schedules = schedules_in(files.starting)
    settings = with_interval(settings, schedules)
    declaration = fold(files.commit, settings)
    commit = doors.repository.commit
    logger.info("read %d manifests at %s", len(files.commit.manifests), commit[:7])
    fleet = declared_variants(settings, declaration)
    settings, share, variants = _shared_out(settings, declaration, fleet)
    answers = _ask(doors, settings, variants, declaration, now_s)
    if Assumption.ONE_CLUSTER in settings.assumed:
        refuse_several_clusters(answers, files.commit.fleet)
    forge_view = _read_forge(doors, settings, now_s)
    if forge_view is None:
        settings = replace(settings, assumed=(*settings.assumed, Assumption.WITHOUT_FORGE))
        forge_view = ForgeView()
    settings = with_interval(settings, schedules, forge_view.proposals, now_s)
    answers += ask_delays(doors, settings, variants, forge_view.proposals, now_s)
    answers += ask_scalers(doors, settings, variants, forge_view.proposals, now_s)
    # After the forge, which may have deepened the clone less far.
    written = read_written(doors.repository, settings, variants, now_s)
    paid = read_paid(doors, settings, variants, files, now_s, repository_name)
    moved = read_moved(doors, settings, variants, now_s, repository_name)
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
        obstructed=files.obstructed,
        committed_s=doors.repository.committed_s(),
        written=written,
        paid=paid,
        moved=moved,
    )
    return ObservedRun(
        recording=recording, files=files, declaration=declaration, variants=fleet, forge=forge_view, share=share
    )


def _shared_out(
    settings: Settings, declaration: Declaration, fleet: tuple[Variant, ...]
) -> tuple[Settings, Share | None, tuple[Variant, ...]]:
    """What this shard decides: clusters of which that is a part are asked about its own namespaces alone."""
    share = share_of(settings, declaration, fleet)
    if share is None:
        return settings, None, fleet
    logger.info("%s", share.words)
    clusters = tuple(replace(each, is_part=each.name in share.split) for each in settings.clusters)
    return replace(settings, clusters=clusters), share, tuple(each for each in fleet if share.holds(each.key))


def read_moved(
    doors: Doors, settings: Settings, variants: Iterable[Variant], now_s: float, remote: str
) -> tuple[ResourceKey, ...] | None:
    """Return the variants whose accelerator or profiles changed within the history that profiles are checked by.

    Only variants that may run on several accelerators are compared. None where Git does not say what there was before.
    """
    compared = {each.key: each for each in variants if len(each.options) > 1 and each.service_class is not None}
    since_s = min((now_s - compared_s(each) for each in compared.values()), default=now_s)
    repository = doors.repository
    if not compared or repository.committed_s() < since_s:
        return ()
    try:
        if isinstance(repository, Clone):
            repository.fetch_history(since_s)
        commit = commit_at(repository, since_s)
        if commit is None:
            return None
        then = Repository(git=repository.git, commit=commit, branch=repository.branch)
        if _manifest_ids(then) == _manifest_ids(repository):
            return ()
        before = _settings_at(doors, settings, then)
        declared = declared_variants(before, fold(read_files(then, before, remote).commit, before))
    except ReconcilerError as error:
        logger.info("what variants ran on before is not known: %s", error)
        return None
    ran = {each.key: runs_on(each) for each in declared}
    return tuple(sorted(key for key, each in compared.items() if runs_on(each) != ran.get(key)))


def _settings_at(doors: Doors, settings: Settings, then: Repository) -> Settings:
    return doors.settings_of(then) if doors.settings_of is not None else settings


# What replicas cost before. Prices stand in the configuration and in ConfigMaps of the base, and a variant may have
# moved to another accelerator: the variants of few commits are read whole, with the files that have not changed since.

MOST_STATES = 32
"""Commits of which variants are read for their prices: before the oldest of these no price is known."""
Prices = Mapping[ResourceKey, float | None]


def read_paid(
    doors: Doors, settings: Settings, variants: Iterable[Variant], files: Files, now_s: float, remote: str
) -> tuple[PaidPrices, ...]:
    """What a replica of each variant whose spending a budget counts did cost; before the first entry it is not known.

    Read are the commits before and after each change of a price or of the variants' files beyond their replicas, and
    the oldest; where a variant cost something else between two of these, the commit that changed it is searched.
    """
    asked = variants_with_spending(settings, variants, now_s)
    if not asked:
        return ()
    repository, since_s = doors.repository, min(since_s for _, since_s in asked)
    present = {variant.key: variant.current_cost_per_hour for variant, _ in asked}
    try:
        if isinstance(repository, Clone):
            repository.fetch_history(since_s)
        history = read_history(repository, since_s)
        written = {path for variant, _ in asked for path in _files_of(variant)}
        states = _priced_states(doors, settings, files, remote, history, present, written)
    except ReconcilerError as error:
        logger.warning("Git's history is not known, so a budget counts what ran at today's prices: %s", error)
        return tuple(PaidPrices(variant=key, prices=((now_s, price),)) for key, price in sorted(present.items()))
    commits = history.commits
    oldest = _oldest_state(commits)
    begun_s = [history.since_s if state == oldest else min(commits[state].at_s, now_s) for state, _ in states]
    if begun_s[0] > since_s:
        logger.warning("prices are not known back to where a budget begins: the oldest known ones count")
    return tuple(
        PaidPrices(
            variant=key,
            prices=tuple(
                (at_s, prices.get(key))
                for index, (at_s, (_, prices)) in enumerate(zip(begun_s, states, strict=True))
                if not index or prices.get(key) != states[index - 1][1].get(key)
            ),
        )
        for key in sorted(present)
    )


def _priced_states(
    doors: Doors,
    settings: Settings,
    files: Files,
    remote: str,
    history: History,
    present: Prices,
    written: Collection[str],
) -> list[tuple[int, Prices]]:
    """The states of the base with what variants cost in them, the oldest first; between two nothing changed unseen.

    State 0 is now, state n what the base was before its n newest commits. `written` are the files of the variants.
    """
    repository, commits = doors.repository, history.commits
    paths = _price_paths(build_catalogs(settings, fold(files.commit, settings)))
    found: dict[int, Prices] = {0: present}

    def read(state: int) -> None:
        if state in found or len(found) > MOST_STATES:
            return
        commit = commits[state - 1].parent
        then = Repository(git=repository.git, commit=commit, branch=repository.branch)
        try:
            before = _settings_at(doors, settings, then)
            declaration = fold(read_files(then, before, remote, known=(repository, files.commit)).commit, before)
        except ReconcilerError as error:
            logger.info("what %s says of prices is not known: %s", commit[:7], error)
            found[state] = {}
            return
        catalogs = build_catalogs(before, declaration)
        paths.update(_price_paths(catalogs))
        found[state] = {each.key: each.current_cost_per_hour for each in join_variants(before, declaration, catalogs)}
        found[state] = {key: price for key, price in found[state].items() if key in present}

    def commit_of(state: int) -> str:
        return commits[state - 1].parent if state else repository.commit

    @lru_cache(maxsize=2)
    def priced_by(state: int) -> object:
        commit = commit_of(state)
        then = Repository(git=repository.git, commit=commit, branch=repository.branch)
        try:
            stated = _settings_at(doors, settings, then)
        except ReconcilerError:
            return state
        return (
            [replace(each, place=None, cost_place=None) for each in stated.accelerators],
            [(cluster.name, replace(each, place=None)) for cluster in stated.clusters for each in cluster.pools],
            [(each.model_id, *(replace(profile, place=None) for profile in each.profiles)) for each in stated.models],
        )

    def may_move(index: int, change: PastChange) -> bool:
        """Whether a change is of more than replicas and status, as nearly all of ours are."""
        names = ((index, change.path), (index + 1, change.path_before))
        after, before = (_unscaled(repository.read_file_at(commit_of(state), path), path) for state, path in names)
        return after != before

    oldest = _oldest_state(commits)
    read(oldest)
    known_to = oldest
    for index, commit in enumerate(commits[:oldest]):
        touched = paths & {name for each in commit.changes for name in (each.path, each.path_before)}
        # Most changes of the configuration are not about prices: reading two versions of it is cheap.
        is_priced = touched and (touched != {REPOSITORY_FILE} or priced_by(index) != priced_by(index + 1))
        if is_priced or any(each.path in written and may_move(index, each) for each in commit.changes):
            read(index)
            read(index + 1)
            if index + 1 not in found:
                known_to = index
                break
    pairs = [(newer, older) for newer, older in pairwise(sorted(found)) if older <= known_to]
    while pairs:
        newer, older = pairs.pop()
        middle = (newer + older) // 2
        if middle > newer and found[newer] != found[older]:
            read(middle)
            if middle in found:
                pairs += [(newer, middle), (middle, older)]
            else:
                known_to = min(known_to, newer)
    return sorted(((state, prices) for state, prices in found.items() if state <= known_to), reverse=True)


def _oldest_state(commits: Sequence[PastCommit]) -> int:
    """What the base was before all of them, or after the first one of all."""
    return len(commits) - (bool(commits) and not commits[-1].parent)


def _files_of(variant: Variant) -> Iterator[str]:
    """The files that say what a variant runs on."""
    yield variant.place.path
    if variant.workload is not None:
        yield variant.workload.place.path
        for moved in variant.workload.moves.values():
            yield from (each.place.path for each in (*moved.entries.values(), moved.home) if each is not None)


def _unscaled(data: bytes | None, path: str) -> list[Value]:
    """What a manifest says, but for numbers of replicas and statuses."""

    def without(value: Value) -> Value:
        if isinstance(value, dict):
            kept = (key for key in value if key != "status" and "replica" not in key.lower())
            return {key: without(value[key]) for key in kept}
        return [without(each) for each in value] if isinstance(value, list) else value

    documents, _ = parse_readable(path, data or b"")
    return [without(each.value) for each in documents]


def _price_paths(catalogs: Mapping[str, Catalog]) -> set[str]:
    """The files that say what accelerators cost."""
    listed = (each for catalog in catalogs.values() for each in catalog.accelerators.values())
    places = [place for each in listed for place in (each.cost_place, each.place) if place is not None]
    return {REPOSITORY_FILE, *(place.path for place in places)}


def _manifest_ids(repository: Repository) -> frozenset[tuple[str, str]]:
    return frozenset((each.path, each.oid) for each in repository.list_files() if is_manifest(each.path))


def runs_on(variant: Variant) -> tuple[str, dict[str, PerformanceProfile]]:
    """Its accelerator, and the profiles of all that it may run on."""
    return variant.current.accelerator, {
        each.accelerator: replace(each.profile, place=None) for each in variant.options
    }


def _ask(
    doors: Doors, settings: Settings, variants: Sequence[Variant], declaration: Declaration, now_s: float
) -> tuple[Answer, ...]:
    answers: list[Answer] = []
    asked = ask_by_cluster(variants, declaration)
    names = device_names(settings)
    for cluster in settings.clusters:
        asking = asked.get(cluster.name, Asking())
        queries = [
            *queries_for(cluster, asking.loads, now_s, needs=asking.needs, with_cluster_label=_may_mix(cluster)),
            *tracking_queries(cluster, asking.targets, now_s),
            *live_queries(cluster, asking.watched, now_s, asking.sync_delay_s),
            *(device_queries(cluster, names, now_s) if cluster.name in asked else ()),
            *canary_queries(cluster, variants, now_s),
        ]
        answered = doors.ask(cluster, queries) if queries else ()
        missing = sum(answer.status is not AnswerStatus.OK for answer in answered)
        logger.info("asked Prometheus of %s %d questions, %d without an answer", cluster.name, len(answered), missing)
        answers += answered
    return tuple(answers)


def ask_ran(
    doors: Doors, settings: Settings, variants: Iterable[Variant], since_s: float, now_s: float
) -> tuple[Answer, ...]:
    """How many replicas ran since a moment: one question a cluster, split as its answer needs it."""
    counted: dict[str, Counter[str]] = {}
    for variant in variants:
        target = scale_target(variant)
        if target is not None:
            counted.setdefault(variant.key.cluster, Counter())[target[0]] += 1
    answers: tuple[Answer, ...] = ()
    for each in settings.clusters:
        queries = ran_queries(each, counted.get(each.name, {}), since_s, now_s)
        answers += doors.ask(each, queries) if queries else ()
    return answers


def ask_delays(
    doors: Doors, settings: Settings, variants: Sequence[Variant], proposals: Sequence[Proposal], now_s: float
) -> tuple[Answer, ...]:
    """How long our merges took to reach their clusters, and replicas to start: two questions where there are merges."""
    targets = {str(each.key): target for each in variants if (target := watched_target(each)) is not None}
    watched = Counter((each.key.cluster, targets[str(each.key)][0]) for each in variants if str(each.key) in targets)
    merges_s: dict[str, list[float]] = {}
    touched: dict[str, dict[str, int]] = {}
    for proposal in proposals:
        if proposal.state is ProposalState.MERGED and proposal.closed_at_s is not None:
            for resource in (change.resource for change in proposal.changes if change.resource in targets):
                cluster, namespace = resource.partition("/")[0], targets[resource][0]
                merges_s.setdefault(cluster, []).append(proposal.closed_at_s)
                touched.setdefault(cluster, {})[namespace] = watched[cluster, namespace]
    answers: tuple[Answer, ...] = ()
    for each in settings.clusters:
        if each.name in merges_s:
            queries = delay_queries(each, touched[each.name], merges_s[each.name], now_s)
            answers += doors.ask(each, queries) if queries else ()
    return answers


def ask_scalers(
    doors: Doors,
    settings: Settings,
    variants: Sequence[Variant],
    proposals: Sequence[Proposal],
    now_s: float,
) -> tuple[Answer, ...]:
    """What autoscalers that are tuned did, those whose turn it is; a plan that a person asked for waits for no turn."""
    found = looks(settings, variants, proposals, now_s, is_asked=not doors.needs_forge)
    answers: tuple[Answer, ...] = ()
    for cluster in settings.clusters:
        look = found.get(cluster.name)
        if look is None:
            continue
        queries = scaler_queries(cluster, look.scalers, look.since_s, now_s)
        answered = doors.ask(cluster, queries) if queries else ()
        again = [query for answer in answered for query in one_by_one(answer)]
        answers += (*answered, *(doors.ask(cluster, again) if again else ()))
    return answers


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
    base = doors.repository.branch
    listed = forge.list_pull_requests(head_prefix=prefix, base=base, closed_since_s=now_s - window_s)
    found = tuple(each for each in listed if each.base_branch == base)
    branches: Mapping[str, str] = {}
    tips: Mapping[str, CommitRecord] = {}
    compared = ComparedBranches()
    if isinstance(doors.repository, Clone):
        branches = doors.repository.remote_branches(prefix)
        tips = doors.repository.fetch_branches(tuple(_wanted(found, branches)))
        compared = compare_with_base(doors.repository, found, tips)
        tips = {name: below_updates(doors.repository, name, tip, doors.author) for name, tip in tips.items()}
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
        retargeted=tuple(each for each in listed if each.base_branch != base),
    )


def _wanted(found: tuple[PullRequest, ...], branches: Mapping[str, str]) -> Iterator[str]:
    """Branches whose tip decides something: all but those that are still there after their merge."""
    newest = {each.head_branch: each for each in found}
    merged = {name for name, each in newest.items() if each.state is PullRequestState.MERGED}
    return (name for name in sorted(branches) if name not in merged)
