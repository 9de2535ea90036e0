"""One run: observe, decide, draft, publish."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from reconciler.aftermerge import judge_merges
from reconciler.domain.plan import Pages
from reconciler.domain.proposals import Draft, MergedOutcome, ProposalState
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.rules import labels_given
from reconciler.domain.settings import Settings
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.marker import is_current_dashboard, write_dashboard_marker
from reconciler.forge.pull_requests import Forge
from reconciler.git.clone import Clone
from reconciler.http.messages import Clock
from reconciler.pipeline.draft import Style, write_texts
from reconciler.pipeline.observe import ForgeView, ObservedRun, ask_ran, observe, read_written
from reconciler.pipeline.prepare import Prepared, prepare
from reconciler.pipeline.process import paused_collector
from reconciler.pipeline.publish import Operation, Published, publish, take_back, tell_outcomes
from reconciler.pipeline.recording import write_recording
from reconciler.pipeline.session import Doors
from reconciler.rendering.renderer import Renderer
from reconciler.report.dashboard import TITLE, OpenRow, dashboard_view, shortened, substance
from reconciler.report.formatting import one_line
from reconciler.report.pull_request import Link


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
    is_part = bool(settings.other_clusters) or settings.shard is not None
    keeps_dashboard = settings.pull_requests.dashboard and not is_part  # a part would hide the rest
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


# ---- the dashboard issue: what a run leaves open, waiting and held, written when that changes

DASHBOARD_LABEL = "reconciler-dashboard"
_GONE = (Operation.CLOSED, Operation.MERGED)
_WORDS = {
    Operation.LEFT: "left alone",
    Operation.PUT_BACK: "not pushed now",
    Operation.WAITING: "merges by itself, and waits",
    Operation.SCHEDULED: "the forge merges it",
    Operation.FAILED: "failed",
}


def keep_dashboard(forge: Forge, renderer: Renderer, result: RunResult, pages: Pages) -> None:
    """Write the issue of a run if it says something else; a failure is a warning, as the next run tries again."""
    failed = [each for each in result.published if each.operation is Operation.FAILED]
    settings = result.prepared.recording.settings.pull_requests
    words = [one_line(f"{each.group}: {each.reason}") for each in failed]
    view = dashboard_view(result.prepared.plan, tuple(_open_rows(result)), words, settings, pages, result.paused)
    marker = write_dashboard_marker(*substance(view))
    views = shortened(replace(view, marker=marker))
    body = renderer.render_within("dashboard/body.md.j2", views, limit=forge.body_limit, marker=marker)
    try:
        forge.keep_issue(
            label=DASHBOARD_LABEL,
            title=TITLE,
            body=body,
            is_current=lambda text: is_current_dashboard(text, marker),
            opens=not result.paused,
        )
    except ReconcilerError as error:
        logger.warning("the dashboard issue is not up to date: %s", error)


def _open_rows(result: RunResult) -> Iterator[OpenRow]:
    """What is open now: what was before, and what this run opened; in a pause the former alone."""
    proposals = result.prepared.recording.proposals
    before = {each.head_branch: each for each in proposals if each.state is ProposalState.OPEN}
    for left in before.values() if result.paused else ():
        page = Link(text=f"#{left.number}", address=left.url)
        yield OpenRow(page=page, title=one_line(left.title), group=left.group, state="left as it is in the pause")
    drafts = {each.change_set.head_branch: each for each in result.drafts}
    for each in result.published:
        proposal, draft = before.get(each.head_branch), drafts.get(each.head_branch)
        number = each.number or (proposal.number if proposal else None)
        if number is None or each.operation in _GONE:
            continue
        usual = "merges by itself" if draft is not None and draft.merges else "waits for a person"
        state = _WORDS.get(each.operation, usual) + (f": {each.reason}" if each.reason else "")
        yield OpenRow(
            page=Link(text=f"#{number}", address=each.url or (proposal.url if proposal else "")),
            title=one_line(draft.title if draft is not None else proposal.title if proposal else ""),
            group=each.group,
            state=one_line(state),
        )


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
