"""`reconciler plan`: what `run` would do, without doing it."""

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import Common, flag, path_option, record_option, shard_option, with_common

if TYPE_CHECKING:
    from reconciler.pipeline.prepare import Prepared

logger = logging.getLogger(__name__)

OUTPUTS = ("text", "json", "yaml", "markdown", "diff", "html")


@shard_option
@record_option
@path_option("--replay", help="Plan from a recording, without network or repository.")
@flag("--prove", help="Verify the edits with kustomize or kubectl (fetches remote bases).")
@flag("--detailed-exitcode", help="Exit with 2 when there are changes.")
@with_common(outputs=OUTPUTS)
def plan(
    common: Common, *, shard: str | None, record: Path | None, replay: Path | None, prove: bool, detailed_exitcode: bool
) -> int:
    """Show what run would change, and why. Writes nothing."""
    from reconciler.cli.console import exit_of_plan
    from reconciler.cli.output import present_plan, tell_workflow

    if record is not None and replay is not None:
        raise click.BadParameter("a replay has nothing new to record", param_hint="--record")
    if shard is not None and replay is not None:
        raise click.BadParameter(
            "a recording says itself which shard made it: give neither this nor RECONCILER_SHARD", param_hint="--shard"
        )
    if prove and replay is not None:
        raise click.BadParameter("a replay has no repository to render", param_hint="--prove")
    prepared = prepare_plan(common, shard=shard, record=record, replay=replay, prove=prove)
    present_plan(common, prepared)
    tell_workflow(prepared.plan, is_changed=prepared.plan.proposes)
    return exit_of_plan(prepared.plan, detailed=detailed_exitcode)


def prepare_plan(
    common: Common,
    *,
    shard: str | None = None,
    record: Path | None = None,
    replay: Path | None = None,
    prove: bool = False,
) -> "Prepared":
    """The plan of a recording, or of what is observed now, whose render proof is printed on stderr."""
    if replay is not None:
        from reconciler.pipeline.prepare import prepare
        from reconciler.pipeline.recording import read_recording
        from reconciler.rendering.renderer import Renderer

        return prepare(read_recording(replay), Renderer())
    from reconciler.cli.console import note, progress
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.run import plan as plan_now
    from reconciler.pipeline.session import open_session
    from reconciler.pipeline.work_tree import uncommitted

    with (
        progress(quiet=common.quiet) as step,
        open_session(common.flags_of(shard), read_environment(), writes=False, progress=step) as session,
    ):
        prepared = plan_now(session.doors, session.settings, time.time(), repository=session.repository, record=record)
        if session.paused:
            logger.warning("paused by %s: run would write nothing", session.paused)
        if session.directory and (
            dirty := uncommitted(session.directory, session.doors.repository, prepared.recording.manifests)
        ):
            logger.warning("%s", dirty)
        if prove:
            from reconciler.pipeline.proving import prove as prove_render

            note(str(prove_render(session.doors.repository, prepared)))
        return prepared
