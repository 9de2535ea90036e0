"""One run: observe, decide, draft, publish."""

from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.proposals import Draft
from reconciler.domain.settings import Settings
from reconciler.errors import ConfigurationError
from reconciler.git.clone import Clone
from reconciler.pipeline.doors import Doors
from reconciler.pipeline.drafting.draft import write_texts
from reconciler.pipeline.observe import ObservedRun, observe
from reconciler.pipeline.prepare import Prepared, paused_collector, prepare
from reconciler.pipeline.publish import Published, publish
from reconciler.pipeline.recording import write_recording


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run's plan, its drafts, and what became of each group."""

    prepared: Prepared
    drafts: tuple[Draft, ...]
    published: tuple[Published, ...]


@paused_collector()
def run(doors: Doors, settings: Settings, now_s: float, *, repository: str, record: Path | None = None) -> RunResult:
    """Observe, decide, draft, publish; `now_s` is Unix seconds, `repository` a name without credentials."""
    if not isinstance(doors.repository, Clone) or doors.forge is None:
        raise ConfigurationError("run writes to a remote: expected a URL, or a directory with a remote origin")
    observed = observe(doors, settings, now_s, repository)
    _keep(observed, record)
    prepared = prepare(observed.recording, doors.renderer, observed.declaration)
    drafts = write_texts(
        prepared.plan,
        prepared.edited,
        doors.renderer,
        body_limit=doors.forge.body_limit,
        sign_off=_sign_off(doors, settings),
    )
    published = publish(doors, doors.repository, observed, prepared.plan, drafts)
    return RunResult(prepared=prepared, drafts=drafts, published=published)


@paused_collector()
def plan(doors: Doors, settings: Settings, now_s: float, *, repository: str, record: Path | None = None) -> Prepared:
    """Observe, decide and draft; nothing is published."""
    observed = observe(doors, settings, now_s, repository)
    _keep(observed, record)
    return prepare(observed.recording, doors.renderer, observed.declaration)


def _keep(observed: ObservedRun, record: Path | None) -> None:
    if record is not None:
        write_recording(observed.recording, record)


def _sign_off(doors: Doors, settings: Settings) -> str:
    return f"{doors.author.name} <{doors.author.email}>" if settings.git.sign_off else ""
