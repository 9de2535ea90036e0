"""`reconciler backtest`: what the last days would have been like, compared with what ran and what is possible."""

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import Common, flag, path_option, record_option, with_common

if TYPE_CHECKING:
    from reconciler.domain.recording import Recording

OUTPUTS = ("text", "json", "html")
MOST_DAYS, DAY_S = 90, 86_400.0
FORECAST_DAYS = 14
"""What a run's forecasts are learned from: a few days are replayed with it, too."""
number_option = functools.partial(click.option, metavar="N", show_default=True)


@number_option("--days", type=click.IntRange(min=1, max=MOST_DAYS), default=14, help="How many whole days, UTC.")
@record_option
@path_option("--replay", help="Read a recording, without network or repository.")
@path_option("--loads", help="Replay the loads of this CSV file instead of the observed ones.")
@path_option("--keep", metavar="DIR", help="Keep each finished day there; a replay that was stopped goes on.")
@number_option("--seed", type=click.IntRange(min=0), default=1, help="Of what is drawn at random, such as merges.")
@flag("--office-hours", help="People merge from 8 to 18 UTC, Monday to Friday.")
@flag("--ablations", help="Also ours without forecasts, limits or rules, and merged in a minute.")
@flag("--faults", help="Let metrics fail, nodes end, starts find nothing free, and merges be late.")
@click.option("--scheduler", metavar="ADDRESS", default="", help="Replay days on the Dask cluster there, one a worker.")
@number_option(
    "--workers",
    type=click.IntRange(min=0),
    default=0,
    help="Replay days in so many processes of Dask; 0 is this one.",
)
@with_common(outputs=OUTPUTS)
def backtest(
    common: Common,
    *,
    days: int,
    record: Path | None,
    replay: Path | None,
    loads: Path | None,
    keep: Path | None,
    seed: int,
    office_hours: bool,
    ablations: bool,
    faults: bool,
    scheduler: str,
    workers: int,
) -> int:
    """Replay the last days: what it would have cost and missed."""
    from reconciler.cli.console import painted, progress, width, write, write_json
    from reconciler.pipeline.backtest import BacktestRequest
    from reconciler.pipeline.backtest import backtest as replay_days
    from reconciler.pipeline.backtest_days import Workers
    from reconciler.report.backtest import backtest_json, backtest_text

    if record is not None and replay is not None:
        raise click.BadParameter("a replay has nothing new to record", param_hint="--record")
    if keep is not None and record is None and replay is None:
        # two readings of a Prometheus differ, so no day that is kept would fit the next one
        words = "add --record FILE: after a stop, --replay FILE goes on with the days that are finished"
        raise click.BadParameter(words, param_hint="--keep")
    request = BacktestRequest(
        days=days,
        seed=seed,
        loads=loads,
        keep=keep,
        office_hours=office_hours,
        ablations=ablations,
        faults=faults,
        workers=Workers(scheduler=scheduler, count=workers),
    )
    recording = _recorded(common, replay, record, days)
    with progress(quiet=common.quiet) as step:
        found = replay_days(recording, request, step)
    if common.output == "json":
        write_json(backtest_json(found))
    elif common.output == "html":
        from reconciler.rendering.renderer import Renderer
        from reconciler.report.backtest_page import backtest_page

        write(Renderer().render("html/page.html.j2", backtest_page(found)))
    else:
        write(painted(common.color, backtest_text(found, width=width())))
    return 0


def _recorded(common: Common, replay: Path | None, record: Path | None, days: int) -> "Recording":
    """The recording that is read, or what is observed now."""
    if replay is not None:
        from reconciler.pipeline.recording import read_recording

        return read_recording(replay)
    from reconciler.cli.console import progress
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.run import observe_back
    from reconciler.pipeline.session import open_session

    with (
        progress(quiet=common.quiet) as step,
        open_session(common.flags, read_environment(), writes=False, progress=step) as session,
    ):
        now_s = time.time()
        return observe_back(
            session.doors,
            session.settings,
            now_s,
            repository=session.repository,
            since_s=now_s - (max(days, FORECAST_DAYS) + 1) * DAY_S,
            record=record,
        )
