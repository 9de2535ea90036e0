"""`reconciler run`: observe, decide, draft, publish."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.options import Common, flag, record_option, shard_option, with_common

if TYPE_CHECKING:
    from reconciler.cli.console import Exit
    from reconciler.pipeline.run import RunResult

OUTPUTS = ("text", "json")


@shard_option
@record_option
@flag("--fail-when-held", help="Exit with 3 when every variant is held.")
@with_common(outputs=OUTPUTS)
def run(common: Common, *, shard: str | None, record: Path | None, fail_when_held: bool) -> int:
    """Open or update pull requests with the plan."""
    from reconciler.cli.console import exit_for, progress
    from reconciler.cli.output import present_run
    from reconciler.config.environment import read_environment
    from reconciler.errors import ReconcilerError
    from reconciler.pipeline.gauges import failed_outcome, outcome_of, tell_gauges
    from reconciler.pipeline.run import run as run_now
    from reconciler.pipeline.session import open_session

    with (
        progress(quiet=common.quiet) as step,
        open_session(common.flags_of(shard), read_environment(), writes=True, progress=step) as session,
    ):
        try:
            result = run_now(
                session.doors,
                session.settings,
                time.time(),
                repository=session.repository,
                record=record,
                paused=session.paused,
            )
        except ReconcilerError as error:
            tell_gauges(session, failed_outcome(session, exit_for(error), time.time()))
            raise
        code = exit_of_run(result, fails_when_held=fail_when_held)
        tell_gauges(session, outcome_of(result, code, time.time()))
    present_run(common, result)
    return code


def exit_of_run(result: "RunResult", *, fails_when_held: bool = False) -> "Exit":
    """The largest code of the plan and of every group's publication."""
    from reconciler.cli.console import exit_for, exit_of_plan

    failures = (each.error for each in result.published if each.error is not None)
    return max([exit_of_plan(result.prepared.plan, fails_when_held=fails_when_held), *map(exit_for, failures)])
