"""Review: heads of other people read as data, judged against the base, reported on their pull requests."""

import json
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType

from reconciler.config.environment import FORGE_TOKEN, SECRETS_DIRECTORY, TRUSTED_ORIGINS, Environment, Flags
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import LoadedSettings, Sources, load
from reconciler.decision.review import ReviewedBase, review, unreviewed
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.reports import FailOn, HeadView, Objection, ReleaseChange, Review, Reviewed
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.events import Event
from reconciler.forge.marker import MAX_NAMES, ReviewMarker, is_marked, read_review_marker, write_review_marker
from reconciler.forge.pull_requests import Comment, CommitStatus, Forge, PullRequest, Verdict
from reconciler.forge.registry import TOKEN_VARIABLES
from reconciler.git.clone import Clone
from reconciler.git.command import INTERRUPTIONS
from reconciler.git.history import Merged, merge_into
from reconciler.git.repository import EntryKind, Repository, TreeEntry, is_object_id, open_directory
from reconciler.http.messages import Clock
from reconciler.http.redaction import Redactor
from reconciler.manifests.wording import join_words
from reconciler.pipeline.confidential import NAMED, without_secrets
from reconciler.pipeline.files import MAX_READ_BYTES, is_manifest, read_files, read_small
from reconciler.pipeline.observe import observe, runs_on
from reconciler.pipeline.process import paused_collector
from reconciler.pipeline.recording import fingerprint
from reconciler.pipeline.session import Doors, Session
from reconciler.placement.changes import changed_charts, changed_place, changed_values
from reconciler.rendering.renderer import Renderer
from reconciler.report.review import comment_view, is_silent, reductions, review_summary, told_fingerprint
from reconciler.snapshot.build import ChangeOf, read_snapshot
from reconciler.snapshot.declarations import Commit, fold, read_recorded
from reconciler.snapshot.priors import with_shapes
from reconciler.snapshot.variants import declared_variants

# One comment kept up to date under a pull request, and a status on its head. The comment is found again by its marker
# and by its author, and written anew only when it would tell people something else. Lost answers, kills and rivals
# may leave two: the oldest stays.

logger = logging.getLogger(__name__)

TEMPLATE = "review/comment.md.j2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where reviews are published, and for which objections a status fails."""

    forge: Forge
    renderer: Renderer
    fail_on: FailOn

    def find(self, number: int) -> Comment | None:
        """Our comment under a pull request: the oldest, should there be several; the others are deleted."""
        found = [each for each in self.forge.own_comments(number) if is_marked(each.body)]
        for surplus in found[1:]:
            self.forge.delete_comment(number, surplus.key)
        return found[0] if found else None

    def tell(self, number: int, review: Review, base: ReviewedBase) -> None:
        """Set the status of a pull request's head and comment on it, as far as people learn something by it.

        The comment comes last: its marker tells the next run that nothing is left to do. Where statuses are refused to
        us for good it comes all the same.
        """
        refusal = self._refusal_of_status(review)
        marker = marker_of(review, base)
        present = self.find(number)
        said = read_review_marker(present.body) if present is not None else None
        if present is None and not is_silent(review):
            self.forge.write_comment(number, self._body(review, marker))
            self.find(number)  # a rival, or a request that was sent twice, may have written one too
        elif present is not None and (said is None or not said.says(marker)):
            self.forge.edit_comment(number, present.key, self._body(review, marker))
        if refusal is not None:
            raise refusal

    def _refusal_of_status(self, review: Review) -> ConfigurationError | None:
        try:
            self.set_status(review)
        except ConfigurationError as error:
            return error
        return None

    def set_status(self, review: Review) -> None:
        """Say on the head whether it may pass."""
        status = CommitStatus(verdict=verdict_of(review, self.fail_on), words=review_summary(review))
        self.forge.set_status(review.head, status)

    def _body(self, review: Review, marker: ReviewMarker) -> str:
        written = write_review_marker(marker)
        views = reductions(comment_view(review, written))
        return self.renderer.render_within(TEMPLATE, views, limit=self.forge.body_limit, marker=written)


def open_desk(session: Session, fail_on: FailOn) -> Desk | None:
    """The desk of a session; None while nothing may be written, which is said. ConfigurationError without a forge."""
    if session.paused:
        logger.warning("nothing is written to pull requests: paused by %s", session.paused)
        return None
    if session.doors.forge is None:
        raise ConfigurationError(f"comments need a forge's token: set {join_words((FORGE_TOKEN, *TOKEN_VARIABLES))}")
    return Desk(forge=session.doors.forge, renderer=session.doors.renderer, fail_on=fail_on)


def tell_job(session: Session, fail_on: FailOn, event: Event, review: Review, base: ReviewedBase) -> None:
    """Tell the change that a job was started for: a merge queue's gets a status alone, a fork's job writes nothing."""
    if event.is_from_fork:
        logger.warning("a fork's job may not comment: `reconciler review --open` on a schedule does")
        return
    desk = open_desk(session, fail_on)
    if desk is None:
        return
    if event.number:
        desk.tell(event.number, review, base)
    else:
        desk.set_status(review)


def marker_of(review: Review, base: ReviewedBase) -> ReviewMarker:
    """What the comment for a review is remembered by."""
    variants = [str(each.variant) for each in review.allocations]
    needed = base.needed(variants) if sum(map(len, variants)) <= MAX_NAMES else {}
    return ReviewMarker(head=review.head, base=review.base, told=told_fingerprint(review), needed=needed)


def verdict_of(review: Review, fail_on: FailOn) -> Verdict:
    """FAILURE for what was asked to fail and for what cannot be read; NEUTRAL where something else is objected to."""
    if review.fails(fail_on):
        return Verdict.FAILURE
    is_objected = review.objections - {Objection.NONE} or review.failures or review.refusals
    return Verdict.NEUTRAL if is_objected else Verdict.SUCCESS


# A head as data: its manifests, facts and variant settings, as merging it would leave them. Its connections, secrets,
# templates and branches are not used, and its guard rails judge nothing: those of the base stand.

MOST_FILES = 20_000
MOST_BYTES = 32 * 1024 * 1024
"""A change of more manifests than these is not a change to a fleet."""
NAMES_ALONE = (SECRETS_DIRECTORY, TRUSTED_ORIGINS)
"""The variables that say which references are allowed; of no other is a value there to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadReader:
    """Reads heads against one base, whose settings are `settings`; `name` is the repository's, without credentials."""

    base: Repository
    settings: Settings
    flags: Flags
    environment: Environment
    name: str

    def read(self, head: Repository, base: ReviewedBase) -> HeadView:
        """What `head` declares once it is merged into `base`, and what a plan of that is decided from.

        Raises ConfigurationError for a head that is too large, or that has no ancestor with the base.
        """
        merged = merge_into(self.base, head)
        sizes_bytes = [entry.size_bytes for entry in merged.touched if is_manifest(entry.path)]
        if len(sizes_bytes) > MOST_FILES or sum(sizes_bytes) > MOST_BYTES:
            raise ConfigurationError(
                f"{merged.repository.commit[:7]} changes {len(sizes_bytes)} manifests with {sum(sizes_bytes)} bytes: "
                f"at most {MOST_FILES} with {MOST_BYTES} are reviewed"
            )
        repository = merged.repository
        stated = self._settings_of(repository)
        shaped, _ = with_shapes(stated.settings, partial(read_small, repository))
        stated = replace(stated, settings=shaped)
        files = read_files(repository, stated.settings, self.name, known=(self.base, base.commit))
        declaration = fold(files.commit, stated.settings)
        variants = declared_variants(stated.settings, declaration)
        known = {each.key: each for each in base.snapshot.variants}
        # The head's facts under the base's rules.
        judged = replace(
            stated.settings,
            rules=base.snapshot.settings.rules,
            pull_requests=base.snapshot.settings.pull_requests,
            assumed=base.snapshot.settings.assumed,
        )
        moved = [each.key for each in variants if (old := known.get(each.key)) and runs_on(old) != runs_on(each)]
        recording = replace(base.recording, settings=judged, moved=(*(base.recording.moved or ()), *moved))
        snapshot = read_snapshot(recording, declaration, "", ChangeOf(base.snapshot, variants))
        is_alike = (
            replace(snapshot, findings=base.snapshot.findings, fingerprint=base.snapshot.fingerprint) == base.snapshot
        )
        return HeadView(
            snapshot=None if is_alike else snapshot,
            variants={variant.key: variant for variant in variants},
            settings=stated.settings,
            findings=(*declaration.findings, *files.unread, *stated.findings),
            broken={each.key: each for each in declaration.broken},
            workloads=frozenset(workload.key for workload in declaration.workloads),
            paths=frozenset(entry.path for entry in repository.list_files()),
            unread=frozenset(entry.path for entry in repository.list_files() if _is_unread(entry)),
            untried=stated.untried,
            releases=tuple(_releases(base, files.commit, variants)),
            changed_at=dict(_changed_at(base, files.commit, variants)),
            notes=_notes(merged),
        )

    def _settings_of(self, head: Repository) -> "_Stated":
        """The base's settings with what the head says of the fleet; all of the base's where the head's are wrong."""
        entry = next((each for each in head.list_files() if each.path == REPOSITORY_FILE), None)
        if entry is not None and entry.kind is not EntryKind.FILE:
            message = f"expected a file, found a {entry.kind}: this configuration is not used"
            finding = Finding(place=Place(path=REPOSITORY_FILE), severity=Severity.ERROR, message=message)
            return _Stated(settings=self.settings, findings=(finding,))
        before, after = self._load(self.base), self._load(head)
        if isinstance(after, tuple):
            return _Stated(settings=self.settings, findings=after)
        known = before.findings if isinstance(before, LoadedSettings) else before
        return _Stated(
            settings=_with_facts(self.settings, after.settings),
            findings=tuple(each for each in after.findings if each not in known),
            untried=tuple(_untried(before, after)) if isinstance(before, LoadedSettings) else (),
        )

    def _load(self, repository: Repository) -> LoadedSettings | tuple[Finding, ...]:
        """What a commit and the operator's files state; else what is wrong with it."""
        variables = {name: self.environment.get(name) for name in NAMES_ALONE}
        sources = Sources(
            repository_file=repository.read_file_at(repository.commit, REPOSITORY_FILE),
            read=lambda path: repository.read_file_at(repository.commit, path),
            list_folder=repository.files_below,
            operator_files=self.flags.config_files,
        )
        loaded, findings = load(sources, Flags(repo=self.name), Environment(variables=variables))
        return findings if loaded is None else loaded


def _releases(base: ReviewedBase, head: Commit, variants: Sequence[Variant]) -> Iterator[ReleaseChange]:
    """What becomes of charts besides numbers of replicas; values by names of secrets are hidden."""
    everybody = [each.workload for each in (*base.snapshot.variants, *variants) if each.workload is not None]
    targets = {replace(each.key, part="") for each in everybody}
    counted = {(field.place.path, field.place.line) for each in everybody for field in each.written_at}
    for cluster in base.snapshot.settings.clusters:
        released = changed_values(base.commit.fleet, head.fleet, cluster.name, targets)
        rendered = changed_charts(base.commit.fleet, head.fleet, cluster.name)
        for each, is_rendered in (*((each, False) for each in released), *((each, True) for each in rendered)):
            is_secret = any(NAMED.search(str(part)) for part in (*each.field, each.variable))
            if is_secret or (each.place.path, each.place.line) in counted:
                continue
            words = f"{each.name} is {_shown(each.after)} instead of {_shown(each.before)}"
            yield ReleaseChange(
                cluster=cluster.name,
                namespace=each.namespace,
                release=each.release,
                targets=each.targets,
                words=words,
                place=each.place,
                selects=each.selects,
                is_rendered=is_rendered,
            )


def _shown(value: object) -> str:
    if value is None:
        return "none"
    (hidden,) = without_secrets([ManifestFile(path="", body=json.dumps({"value": value}).encode())])
    found = json.loads(hidden.body)["value"]
    return Redactor().show(found if isinstance(found, str) else json.dumps(found))


def _changed_at(base: ReviewedBase, head: Commit, variants: Sequence[Variant]) -> Iterator[tuple[ResourceKey, Place]]:
    """Where the head changes the scale targets of variants: what an overlay patches is declared elsewhere."""
    known = {each.key: each.workload for each in base.snapshot.variants}
    for each in variants:
        if each.workload is not None and each.key in known and known[each.key] != each.workload:
            place = changed_place(base.commit.fleet, head.fleet, replace(each.workload.key, part=""))
            if place is not None:
                yield each.key, place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """Settings to read a head by; `untried` names what it changes that is never taken from a head."""

    settings: Settings
    findings: tuple[Finding, ...] = ()
    untried: tuple[str, ...] = ()


def _is_unread(entry: TreeEntry) -> bool:
    return is_manifest(entry.path) and (entry.kind is not EntryKind.FILE or entry.size_bytes > MAX_READ_BYTES)


def _notes(merged: Merged) -> tuple[str, ...]:
    if not merged.conflicts:
        return ()
    more = f" and {len(merged.conflicts) - 1} more" if len(merged.conflicts) > 1 else ""
    return (f"{merged.conflicts[0]}{more}: conflicts with the base, and is judged as the head has it",)


def _with_facts(base: Settings, head: Settings) -> Settings:
    clusters = {cluster.name: cluster for cluster in head.clusters}
    return replace(
        base,
        clusters=tuple(_facts_of(cluster, clusters.get(cluster.name)) for cluster in base.clusters),
        accelerators=head.accelerators,
        service_classes=head.service_classes,
        models=head.models,
        defaults=head.defaults,
        overrides=head.overrides,
        rules=head.rules,
        pull_requests=replace(base.pull_requests, auto_merge=head.pull_requests.auto_merge),
    )


def _facts_of(base: ClusterSettings, head: ClusterSettings | None) -> ClusterSettings:
    """The cluster with the head's paths and pools, and the base's Prometheus."""
    if head is None:
        return base
    return replace(base, include=head.include, exclude=head.exclude, pools=head.pools)


def _untried(base: LoadedSettings, head: LoadedSettings) -> Iterator[str]:
    """What of the configuration another change would put in force only once it is merged."""
    before, after = ({each.name: each for each in loaded.settings.clusters} for loaded in (base, head))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield f"the list of clusters ({name})"
        elif was.prometheus != now.prometheus:
            yield f"the Prometheus of cluster {name}"
    old, new = base.settings, head.settings
    parts = (
        ("forge", (old.forge.kind, old.forge.url, old.forge.token), (new.forge.kind, new.forge.url, new.forge.token)),
        ("git", old.git, new.git),
        ("pullRequests", old.pull_requests, new.pull_requests),
        ("gauges", base.gauges, head.gauges),
        ("status", old.status, new.status),
        ("paused", bool(base.paused), bool(head.paused)),
    )
    yield from (name for name, was, now in parts if was != now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """A base with what a plan would do to it, and the way to read heads against it."""

    base: ReviewedBase
    reader: HeadReader

    @property
    def commit(self) -> str:
        """The base's."""
        return self.base.snapshot.commit

    @paused_collector()
    def review(self, head: Repository) -> Review:
        """What merging `head` would do."""
        return review(self.base, self.reader.read(head, self.base), head_commit=head.commit)


def open_reviewer(
    session: Session, flags: Flags, environment: Environment, now_s: float, recording: Recording | None = None
) -> Reviewer:
    """Decide the session's base, as it was recorded, else as it is observed; `now_s` is Unix seconds.

    Raises ConfigurationError for a recording of another commit.
    """
    reader = HeadReader(
        base=session.doors.repository,
        settings=session.settings,
        flags=flags,
        environment=environment,
        name=session.repository,
    )
    if recording is None:
        base = decide_base(session.doors, session.settings, now_s, session.repository)
    else:
        base = _recorded_base(recording, session.doors.repository.commit)
    return Reviewer(base=base, reader=reader)


@paused_collector()
def decide_base(doors: Doors, settings: Settings, now_s: float, name: str) -> ReviewedBase:
    """What a plan would do with the base; our own pull requests play no part."""
    observed = observe(replace(doors, forge=None), settings, now_s, name)
    recording = observed.recording
    snapshot = read_snapshot(recording, observed.declaration, fingerprint(recording), declared=observed.variants)
    logger.info("decided the base %s", recording.commit[:7])
    return ReviewedBase.of(recording, snapshot, observed.files.commit)


@paused_collector()
def _recorded_base(recording: Recording, commit: str) -> ReviewedBase:
    if recording.commit != commit:
        raise ConfigurationError(
            f"--replay: the recording is of commit {recording.commit[:7]}, the base is {commit[:7]}: "
            f"leave --base out, or name that commit"
        )
    commit_read = read_recorded(
        recording.manifests, recording.withheld, recording.settings, recording.paths, recording.repository
    )
    declaration = fold(commit_read, recording.settings)
    snapshot = read_snapshot(recording, declaration, fingerprint(recording))
    return ReviewedBase.of(recording, snapshot, commit_read)


def find_head(session: Session, flags: Flags, head: str) -> Repository:
    """A branch or commit of the directory as it lies; a branch or a pull request's ref of a remote, as data."""
    repository = session.doors.repository
    if not isinstance(repository, Clone):
        return open_directory(flags.repo, base=head)
    if is_object_id(head) or head == "HEAD":
        raise ConfigurationError(f"--head {head}: of a URL name a branch, or refs/pull/NUMBER/head")
    return repository.fetch_head(head)


# All open pull requests, those of forks too: fetched as data, judged beside one base, told where that is news. No job
# of a fork runs for it, so no secret is near it; nothing that anybody comments is read.

MOST_LOOKED_AT = 200
MOST_REVIEWED = 50
"""In one run; the next goes on. First those of this repository, then of forks, then ours, the newest of each first."""
ONE_S = 60.0
ALL_S = 900.0
"""Seconds for one head, and for all of a run."""
AGAIN_S = 0.01
"""Seconds until a limit that is over is tried again, where a process was being started or ended."""


class OutOfTimeError(BaseException):
    """Raised inside whatever takes too long; nothing that handles errors may keep it."""


def review_open(reviewer: Reviewer, desk: Desk, *, only: str = "") -> Iterator[Reviewed]:
    """Review what is open to the base; ConfigurationError where the base is no clone.

    Ours get the status alone, which may be required of every pull request: their text says all that a comment would.
    `only` is a commit: then those pull requests whose head it is. One that fails stops no other.
    """
    clone, prefix = reviewer.reader.base, reviewer.reader.settings.git.branch_prefix
    if not isinstance(clone, Clone):
        raise ConfigurationError("--open reviews what is open on a remote: expected a URL, or a directory with one")
    ends_s = Clock().monotonic() + ALL_S
    listed = [each for each in desk.forge.list_open(base=clone.branch) if not only or each.head_commit == only]
    wanted = sorted(listed, key=lambda each: (_is_ours(each, prefix), each.is_from_fork, -each.number))
    left, reviewed = list(wanted), 0
    while left and len(wanted) - len(left) < MOST_LOOKED_AT and reviewed < MOST_REVIEWED:
        if Clock().monotonic() > ends_s:
            break
        done = _review_one(reviewer, clone, desk, left.pop(0))
        reviewed += done.review is not None
        yield done
    if left:
        logger.warning("%d open pull requests are left to the next run", len(left))


def _is_ours(pull_request: PullRequest, prefix: str) -> bool:
    return not pull_request.is_from_fork and pull_request.head_branch.startswith(prefix)


def _review_one(reviewer: Reviewer, clone: Clone, desk: Desk, pull_request: PullRequest) -> Reviewed:
    number = pull_request.number
    try:
        if _is_ours(pull_request, reviewer.reader.settings.git.branch_prefix):
            review = _judge(reviewer, clone, pull_request, pull_request.head_branch)
            desk.set_status(review)
            return Reviewed(number=number, review=review, reason=review.unreviewed)
        comment = desk.find(number)
        said = read_review_marker(comment.body) if comment is not None else None
        if _is_said(said, pull_request.head_commit, reviewer):
            return Reviewed(number=number)
        review = _judge(reviewer, clone, pull_request, desk.forge.head_ref(pull_request))
        if _is_said(said, review.head, reviewer):
            return Reviewed(number=number)
        desk.tell(number, review, reviewer.base)
    except _UnfetchableError as error:
        return Reviewed(number=number, reason=str(error))
    except ReconcilerError as error:
        return Reviewed(number=number, error=error, reason=str(error))
    return Reviewed(number=number, review=review, reason=review.unreviewed)


class _UnfetchableError(ReconcilerError):
    """Raised where a head does not come: a person may be pushing or deleting it, or it is too large."""


def _judge(reviewer: Reviewer, clone: Clone, pull_request: PullRequest, ref: str) -> Review:
    """The review of the head that git finds at `ref`; one that says why there is none where the head is to blame."""
    commit = pull_request.head_commit
    try:
        with time_limit(ONE_S):
            try:
                head = clone.fetch_head(ref)
            except ReconcilerError as error:
                raise _UnfetchableError(str(error)) from None
            commit = head.commit
            return reviewer.review(head)
    except OutOfTimeError:
        reason = f"it takes longer than {ONE_S:.0f} s"
    except ConfigurationError as error:
        reason = str(error)
    if not commit:
        raise _UnfetchableError(reason)
    return unreviewed(reviewer.base, commit, reason)


def _is_said(said: ReviewMarker | None, head: str, reviewer: Reviewer) -> bool:
    """Whether this head was reviewed against this base, when a plan would have done the same."""
    if said is None or (said.head, said.base) != (head, reviewer.commit):
        return False
    return said.needs(reviewer.base.needed(said.needed))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """OutOfTimeError inside once the time is over; without a limit where signals cannot be had."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        if not INTERRUPTIONS.have_to_wait:
            raise OutOfTimeError
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
