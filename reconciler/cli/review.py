"""`reconciler review`: what somebody else's pull request would do to latency and cost."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import Common, flag, path_option, with_common
from reconciler.domain.records import replace

if TYPE_CHECKING:
    from reconciler.cli.console import Exit
    from reconciler.config.environment import Environment
    from reconciler.domain.observed import Observed
    from reconciler.domain.reports import FailOn, Review
    from reconciler.forge.events import Event

HEADING = "reconciler review"
COST = "cost:"


@click.option("--head", metavar="REF", default="", help="The commit to review (default: the job's change, else HEAD).")
@flag("--open", "open_ones", help="Review and comment on all open pull requests, including forks.")
@flag("--comment", help="Comment on the job's pull request and set its status.")
@path_option("--replay", help="Take the base from a recording; heads still come from --repo.")
@click.option(
    "--fail-on",
    metavar="refuse|hold|slo|approval|cost:PERCENT",
    multiple=True,
    help="Exit with 3 on such a remark, or if costs rise by more (default: refuse). Repeatable.",
)
@with_common(outputs=("text", "json", "markdown", "github", "sarif"))
def review(
    common: Common, *, head: str, open_ones: bool, comment: bool, replay: Path | None, fail_on: tuple[str, ...]
) -> int:
    """Show what merging someone else's change would do."""
    from reconciler.config.environment import read_environment
    from reconciler.forge.events import find_event

    environment = read_environment()
    asked = _fail_on(fail_on)
    event = find_event(environment.variables)
    if open_ones and replay is not None:
        raise click.BadParameter("open pull requests are reviewed as things are now", param_hint="--replay")
    if open_ones:
        return _review_open(common, environment, asked, event)
    return _review_one(common, environment, asked, event, head=head, comment=comment, replay=replay)


def _fail_on(asked: tuple[str, ...]) -> "FailOn":
    from reconciler.domain.reports import FailOn, Objection

    known = {str(each): each for each in (Objection.REFUSE, Objection.HOLD, Objection.SLO, Objection.APPROVAL)}
    words = asked or (str(Objection.REFUSE),)
    shares = [_share(each.removeprefix(COST)) for each in words if each.startswith(COST)]
    named = [each for each in words if not each.startswith(COST)]
    if unknown := set(named) - known.keys():
        raise click.BadParameter(
            f"{min(unknown)!r} is not one of {', '.join(known)}, cost:PERCENT", param_hint="--fail-on"
        )
    return FailOn(objections=frozenset(known[each] for each in named), cost_fraction=min(shares, default=None))


def _share(percent: str) -> float:
    try:
        share = float(percent.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < math.inf:
        raise click.BadParameter(f"'{COST}{percent}': expected a percentage like cost:20", param_hint="--fail-on")
    return share


def _review_one(
    common: Common,
    environment: "Environment",
    asked: "FailOn",
    event: "Event | None",
    *,
    head: str,
    comment: bool,
    replay: Path | None,
) -> int:
    from reconciler.cli.console import progress
    from reconciler.pipeline.recording import read_recording
    from reconciler.pipeline.review import find_head, open_reviewer, tell_job
    from reconciler.pipeline.session import open_session

    is_directory = Path(common.repo).exists()
    recording = None if replay is None else read_recording(replay)
    recorded = "" if recording is None else recording.commit
    base = common.base or recorded or (event.base_in(is_directory=is_directory) if event is not None else "")
    if not base:
        raise click.BadParameter("what the change would be merged into, such as origin/main", param_hint="--base")
    if comment and (event is None or head):
        words = "only in a job that was started for a pull request, and without --head"
        raise click.BadParameter(words, param_hint="--comment")
    named = head or (event.head_in(is_directory=is_directory) if event is not None else "HEAD")
    flags = replace(common.flags, base=base)
    with (
        progress(quiet=common.quiet) as step,
        open_session(flags, environment, writes=False, with_forge=comment, progress=step) as session,
    ):
        reviewer = open_reviewer(session, flags, environment, time.time(), recording)
        found = reviewer.review(find_head(session, flags, named))
        _present(common, found)
        if comment and event is not None:
            tell_job(session, asked, event, found, reviewer.base)
    from reconciler.cli.console import Exit

    codes = {
        Exit.INPUT: found.fails(asked),
        Exit.TRANSIENT: found.failures,
        Exit.CONFIGURATION: found.refusals,
    }
    return max((code for code, applies in codes.items() if applies), default=Exit.FINISHED)


def _review_open(common: Common, environment: "Environment", asked: "FailOn", event: "Event | None") -> int:
    from reconciler.cli.console import Exit, exit_for, note, progress, write, write_json
    from reconciler.pipeline.review import open_desk, open_reviewer, review_open
    from reconciler.pipeline.session import open_session
    from reconciler.report.review import open_reviews_json, open_reviews_text

    if common.output not in ("text", "json"):
        raise click.BadParameter(f"--open prints text or json, not {common.output}", param_hint="--output")
    with (
        progress(quiet=common.quiet) as step,
        open_session(common.flags, environment, writes=True, progress=step) as session,
    ):
        desk, only = open_desk(session, asked), event.only if event is not None else ""
        if desk is None:
            return Exit.FINISHED
        reviewer = open_reviewer(session, common.flags, environment, time.time())
        reviewed = tuple(review_open(reviewer, desk, only=only))
    for each in reviewed:
        if each.reason:
            note(f"warning: pull request {each.number}: {each.reason}")
    if common.output == "json":
        write_json(open_reviews_json(reviewed))
    else:
        write(open_reviews_text(reviewed))
    failures = [exit_for(each.error) for each in reviewed if each.error is not None]
    return max([*failures, _exit_of_base(reviewer.base.snapshot.observed)], default=Exit.FINISHED)


def _exit_of_base(observed: "Observed") -> "Exit":
    from reconciler.cli.console import Exit

    if observed.refusals:
        return Exit.CONFIGURATION
    return Exit.TRANSIENT if observed.failures else Exit.FINISHED


def _present(common: Common, found: "Review") -> None:
    from reconciler import __version__
    from reconciler.cli.console import note, painted, width, write, write_json
    from reconciler.cli.findings import STEP_SUMMARY, append_to, markdown_lines
    from reconciler.report.findings import findings_sarif, findings_text, workflow_commands
    from reconciler.report.review import review_findings, review_json, review_summary

    findings, summary = review_findings(found), review_summary(found)
    for words in (*found.notes, *found.failures, *found.refusals):
        note(f"warning: {words}")
    match common.output:
        case "json":
            write_json(review_json(found))
        case "sarif":
            write_json(findings_sarif(findings, version=__version__))
        case "github":
            write(workflow_commands(findings, summary))
            append_to(STEP_SUMMARY, "\n".join(markdown_lines(findings, summary, HEADING)) + "\n")
        case "markdown":
            write("\n".join(markdown_lines(findings, summary, HEADING)))
        case _:
            write(painted(common.color, findings_text(findings, summary, width=width())))
