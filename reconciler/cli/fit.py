"""`reconciler fit [MODEL...]`: learn performance profiles from Prometheus' history."""

import re
import time
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import Common, with_common

if TYPE_CHECKING:
    from reconciler.cli.console import Exit
    from reconciler.domain.profiles import Fitting, KeptProfiles

OUTPUTS = ("text", "json", "yaml")
SECONDS = {"m": 60.0, "h": 3600.0, "d": 86400.0}
LEAST_S, MOST_S = SECONDS["h"], 400 * SECONDS["d"]


@click.argument(
    "models", metavar="[MODEL]...", nargs=-1, help="Model ids or globs. Default: all models that are served."
)
@click.option(
    "--since", metavar="AGE", help="How far back to look, such as 36h or 7d.", default="7d", show_default=True
)
@click.option("--write", metavar="FILE", help="Write the profiles to this file in the repository.")
@with_common(outputs=OUTPUTS)
def fit(common: Common, *, models: tuple[str, ...], since: str, write: str | None) -> int:
    """Learn performance profiles of models from metrics history.

    What replicas reported to Prometheus tells how fast a model runs on an accelerator; where it tells too little,
    there is a reason instead of a profile.
    """
    from reconciler.cli.console import progress
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.fit import FitRequest
    from reconciler.pipeline.fit import fit as fit_now
    from reconciler.pipeline.session import open_session
    from reconciler.pipeline.work_tree import find_profiles_file, is_extended
    from reconciler.report.fit import DEFAULT_PATH

    request = FitRequest(since_s=read_age(since), models=models)
    file = None if write is None else find_profiles_file(common.repo, write)
    with (
        progress(quiet=common.quiet) as step,
        open_session(common.flags, read_environment(), writes=False, with_forge=False, progress=step) as session,
    ):
        fitting = fit_now(session.doors, session.settings, time.time(), request, session.repository)
        kept = None if file is None else file.keep(fitting.learned, session.doors.repository)
        is_default_extended = is_extended(session.doors.repository, DEFAULT_PATH)
    present_fit(common, fitting, kept, is_extended=is_default_extended)
    return exit_of_fit(fitting)


def read_age(text: str) -> float:
    """Seconds of an age like 36h or 7d; a usage error for anything else, and beyond an hour and 400 days."""
    match = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    age_s = int(match[1]) * SECONDS[match[2]] if match else 0.0
    if not LEAST_S <= age_s <= MOST_S:
        raise click.BadParameter(f"expected an age like 36h or 7d, from 1h to 400d, got {text!r}", param_hint="--since")
    return age_s


def present_fit(common: Common, fitting: "Fitting", kept: "KeptProfiles | None", *, is_extended: bool) -> None:
    """Write what was learned as `--output` asks; YAML is the file that `--write` writes, to the byte."""
    from reconciler.cli.console import painted, width, write, write_json
    from reconciler.config.loading import render_learned
    from reconciler.report.fit import fit_json, fit_text

    if common.output == "json":
        write_json(fit_json(fitting, kept))
    elif common.output == "yaml":
        write(render_learned(fitting.learned) if kept is None else kept.text)
    else:
        write(painted(common.color, fit_text(fitting, kept, is_extended=is_extended, width=width())))


def exit_of_fit(fitting: "Fitting") -> "Exit":
    """The largest code of what must be fixed and of what failed."""
    from reconciler.cli.console import Exit, exit_of_findings

    return max(exit_of_findings(fitting.findings), Exit.TRANSIENT if fitting.failures else Exit.FINISHED)
