"""One run: observe, decide, draft, publish."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from reconciler.aftermerge import judge_merges
from reconciler.domain.plan import Pages
from reconciler.domain.proposals import Draft, MergedOutcome
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.rules import labels_given
from reconciler.domain.settings import Settings
from reconciler.errors import ConfigurationError
from reconciler.git.clone import Clone
from reconciler.http.messages import Clock
from reconciler.pipeline.dashboard import keep_dashboard
from reconciler.pipeline.draft import Style, write_texts
from reconciler.pipeline.observe import ForgeView, ObservedRun, ask_ran, observe, read_written
from reconciler.pipeline.prepare import Prepared, prepare
from reconciler.pipeline.process import paused_collector
from reconciler.pipeline.publish import Published, publish, take_back, tell_outcomes
from reconciler.pipeline.recording import write_recording
from reconciler.pipeline.session import Doors


@dataclass(frozen=True, slots=True)
class Acts:
    """Seconds by act, in the order they came."""

    seconds: dict[str, float] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    @contextmanager
    def timed(self, act: str) -> Iterator[None]:
        """Note how long what is done inside takes, also when it fails."""
        begun_s = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[act] = self.clock.monotonic() - begun_s


PAUSE_LABEL = "reconciler:paused"
"""On any open pull request under our prefix: whoever may label one can stop us without a commit."""


def find_pause(stated: str, forge: ForgeView) -> str:
    """Who says that nothing may be written, as the end of "paused by"; empty when it may.

    `stated` is what configuration and environment say.
    """
    if stated:
        return stated
    labelled = [number for number, each in forge.pull_requests.items() if each.is_open and PAUSE_LABEL in each.labels]
    return f"the label {PAUSE_LABEL} on pull request #{min(labelled)}" if labelled else ""


MOST_NAMED = 5


def warning_of(manifests: Sequence[ManifestFile]) -> str:
    """What to read before the recording is shared; empty when nothing looks like a secret."""
    from reconciler.pipeline.confidential import without_secrets

    pairs = zip(manifests, without_secrets(manifests), strict=True)
    found = [before.path for before, after in pairs if before.body != after.body]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    named = ", ".join(found[:MOST_NAMED])
    return f"replaced by *** what looks like a secret; look before you share it: {named}{more}" if found else ""


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run's plan, its drafts, and what became of each group.

    `paused` says who stopped all writing (empty: nobody); nothing became of any group then. `judged` is what became of
    pull requests that were merged, where that is known now, and `told` of them what this run told.
    """

    prepared: Prepared
    drafts: tuple[Draft, ...]
    published: tuple[Published, ...]
    paused: str = ""
    judged: tuple[MergedOutcome, ...] = ()
    told: tuple[MergedOutcome, ...] = ()
    forge: ForgeView = field(default_factory=ForgeView)
    """Our pull requests as they stood before anything was published."""
    acts: Mapping[str, float] = field(default_factory=dict)
    """How many seconds each act took."""


@paused_collector()
def run(
    doors: Doors, settings: Settings, now_s: float, *, repository: str, record: Path | None = None, paused: str = ""
) -> RunResult:
    """Observe, decide, draft, publish; `now_s` is Unix seconds, `repository` a name without credentials.

    `paused` says who wants nothing to be written; a label on a pull request of ours can say it too.
    """
    if not isinstance(doors.repository, Clone) or doors.forge is None:
        raise ConfigurationError("run writes to a remote: expected a URL, or a directory with a remote origin")
    acts = Acts()
    with acts.timed("observe"):
        observed = observe(doors, settings, now_s, repository)
        _keep(observed, record)
    with acts.timed("decide"):
        prepared = prepare(observed.recording, doors.renderer, observed.declaration, observed.variants)
    style = Style(
        body_limit=doors.forge.body_limit,
        pages=Pages(
            files_at=doors.forge.files_address(doors.repository.commit),
            commit_at=doors.forge.commit_address(doors.repository.commit),
            draws_mermaid=doors.forge.draws_mermaid,
            recording="" if record is None else record.name,
        ),
        labels=settings.pull_requests.labels,
        labels_of_rules=labels_given(settings.rules),
        sign_off=f"{doors.author.name} <{doors.author.email}>" if settings.git.sign_off else "",
        title=settings.pull_requests.title,
        commit_message=settings.git.commit_message,
    )
    with acts.timed("draft"):
        drafts = write_texts(prepared.plan, prepared.edited, doors.renderer, style)
    judged = tuple(judge_merges(prepared.snapshot, prepared.plan))
    result = RunResult(
        prepared=prepared, drafts=drafts, published=(), judged=judged, forge=observed.forge, acts=acts.seconds
    )
    paused = find_pause(paused, observed.forge)
    keeps_dashboard = settings.pull_requests.dashboard and not settings.other_clusters  # a part would hide the rest
    if paused:
        take_back(doors.forge, observed.forge)
        result = replace(result, paused=paused)
        if keeps_dashboard:
            keep_dashboard(doors.forge, doors.renderer, result, style.pages)
        return result
    with acts.timed("publish"):
        published = publish(doors, doors.repository, observed, prepared.plan, drafts)
        told = tuple(tell_outcomes(doors, observed.forge, judged))
    result = replace(result, published=published, told=told)
    if keeps_dashboard:
        keep_dashboard(doors.forge, doors.renderer, result, style.pages)
    return result


@paused_collector()
def plan(doors: Doors, settings: Settings, now_s: float, *, repository: str, record: Path | None = None) -> Prepared:
    """Observe, decide and draft; nothing is published."""
    observed = observe(doors, settings, now_s, repository)
    _keep(observed, record)
    return prepare(observed.recording, doors.renderer, observed.declaration, observed.variants)


def observe_back(
    doors: Doors, settings: Settings, now_s: float, *, repository: str, since_s: float, record: Path | None = None
) -> Recording:
    """Observe, and what ran and what Git said of every variant since a moment: what a backtest replays."""
    observed = observe(doors, settings, now_s, repository)
    written = read_written(doors.repository, settings, observed.variants, now_s, since_s)
    answers = (*observed.recording.answers, *ask_ran(doors, settings, observed.variants, since_s, now_s))
    observed = replace(observed, recording=replace(observed.recording, written=written, answers=answers))
    _keep(observed, record)
    return observed.recording


def _keep(observed: ObservedRun, record: Path | None) -> None:
    if record is not None:
        write_recording(observed.recording, record)
        if warning := warning_of(observed.recording.manifests):
            logger.warning("--record %s: %s", record, warning)
