"""The reviewer: a base that is observed and decided once, and heads that are judged beside it, one by one."""

import logging
from dataclasses import dataclass, replace

from reconciler.config.environment import Environment, Flags
from reconciler.decision.reviewing.judging import ReviewedBase, review
from reconciler.domain.recording import Recording
from reconciler.domain.reported.review import Review
from reconciler.domain.settings import Settings
from reconciler.errors import ConfigurationError
from reconciler.git.clone import Clone
from reconciler.git.refs import is_object_id
from reconciler.git.repository import Repository, open_directory
from reconciler.pipeline.observe import observe
from reconciler.pipeline.recording import fingerprint
from reconciler.pipeline.reviewing.heads import HeadReader
from reconciler.pipeline.run import paused_collector
from reconciler.pipeline.session import Doors, Session
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """A base with what a plan would do to it, and the way to read heads beside it."""

    base: ReviewedBase
    reader: HeadReader

    @property
    def commit(self) -> str:
        """The base's."""
        return self.base.snapshot.commit

    @paused_collector()
    def review(self, head: Repository) -> Review:
        """What merging `head` would do."""
        return review(self.base, self.reader.read(head), head_commit=head.commit)


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
    snapshot = read_snapshot(recording, observed.declaration, fingerprint(recording))
    logger.info("decided the base %s", recording.commit[:7])
    return ReviewedBase.of(snapshot)


@paused_collector()
def _recorded_base(recording: Recording, commit: str) -> ReviewedBase:
    if recording.commit != commit:
        raise ConfigurationError(
            f"--replay: the recording is of commit {recording.commit[:7]}, the base is {commit[:7]}: "
            f"leave --base out, or name that commit"
        )
    declaration = read_declaration(
        recording.manifests, recording.withheld, recording.settings, recording.paths, recording.repository
    )
    return ReviewedBase.of(read_snapshot(recording, declaration, fingerprint(recording)))


def find_head(session: Session, flags: Flags, head: str) -> Repository:
    """A branch or commit of the directory as it lies; a branch or a pull request's ref of a remote, as data."""
    repository = session.doors.repository
    if not isinstance(repository, Clone):
        return open_directory(flags.repo, base=head)
    if is_object_id(head) or head == "HEAD":
        raise ConfigurationError(f"--head {head}: of a URL name a branch, or refs/pull/NUMBER/head")
    return repository.fetch_head(head)
