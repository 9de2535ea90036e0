"""`reconciler backtest`: what the last days would have been like, compared with what ran and what is possible."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.options import Common, with_common

if TYPE_CHECKING:
    from reconciler.domain.recording import Recording

OUTPUTS = ("text", "json", "html")
MOST_DAYS, DAY_S = 90, 86_400.0

Days = Annotated[int, typer.Option("--days", metavar="N", min=1, max=MOST_DAYS, help="How many whole days, UTC.")]
Record = Annotated[Path | None, typer.Option("--record", metavar="FILE", help="Save what was observed to this file.")]
Replay = Annotated[
    Path | None, typer.Option("--replay", metavar="FILE", help="Read a recording, without network or repository.")
]
Loads = Annotated[
    Path | None,
    typer.Option("--loads", metavar="FILE", help="Replay the loads of this CSV file instead of the observed ones."),
]
Keep = Annotated[
    Path | None,
    typer.Option("--keep", metavar="DIR", help="Keep each finished day there; a run that was stopped goes on."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of what is drawn at random, such as merges.")]
OfficeHoursOnly = Annotated[
    bool, typer.Option("--office-hours", help="People merge from 8 to 18 UTC, Monday to Friday.")
]
Ablations = Annotated[
    bool, typer.Option("--ablations", help="Also ours without forecasts, limits or rules, and merged in a minute.")
]
Faults = Annotated[
    bool, typer.Option("--faults", help="Let metrics fail, nodes end, starts find nothing free, and merges be late.")
]
Scheduler = Annotated[
    str, typer.Option("--scheduler", metavar="ADDRESS", help="Replay days on the Dask cluster there, one a worker.")
]
WorkerCount = Annotated[
    int, typer.Option("--workers", metavar="N", min=0, help="Replay days in so many processes of Dask; 0 is this one.")
]


@with_common(outputs=OUTPUTS)
def backtest(
    common: Common,
    *,
    days: Days = 14,
    record: Record = None,
    replay: Replay = None,
    loads: Loads = None,
    keep: Keep = None,
    seed: Seed = 1,
    office_hours: OfficeHoursOnly = False,
    ablations: Ablations = False,
    faults: Faults = False,
    scheduler: Scheduler = "",
    workers: WorkerCount = 0,
) -> int:
    """Replay the last days: what it would have cost and missed."""
    from reconciler.cli.console import painted, progress, width, write, write_json
    from reconciler.pipeline.backtest import BacktestRequest
    from reconciler.pipeline.backtest import backtest as replay_days
    from reconciler.pipeline.backtest_days import Workers
    from reconciler.report.backtest import backtest_json, backtest_text

    if record is not None and replay is not None:
        raise typer.BadParameter("a replay has nothing new to record", param_hint="--record")
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
            since_s=now_s - (days + 1) * DAY_S,
            record=record,
        )
