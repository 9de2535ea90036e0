"""`reconciler review`: what somebody else's pull request would do to latency and cost."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.options import Common, with_common

if TYPE_CHECKING:
    from reconciler.domain.identity import Finding
    from reconciler.domain.reported.review import Review

HEADING = "reconciler review"
Head = Annotated[str, typer.Option("--head", metavar="REF", help="What is reviewed.")]
FailOn = Annotated[
    list[str] | None,
    typer.Option("--fail-on", metavar="refuse|hold|slo", help="Exit 3 for such a remark (= refuse). Repeatable."),
]


@with_common(outputs=("text", "json", "markdown", "github", "sarif"))
def review(common: Common, *, head: Head = "HEAD", fail_on: FailOn = None) -> int:
    """Say what a change of the fleet would do, without making it."""
    from reconciler.cli.console import progress
    from reconciler.cli.exits import Exit
    from reconciler.config.environment import read_environment
    from reconciler.domain.identity import Severity
    from reconciler.domain.reported.review import Objection
    from reconciler.pipeline.review import review_head
    from reconciler.pipeline.session import open_session
    from reconciler.report.review import review_findings

    if not common.base:
        raise typer.BadParameter("what the change would be merged into, such as origin/main", param_hint="--base")
    asked = frozenset(fail_on or [Objection.REFUSE])
    if unknown := asked - {Objection.REFUSE, Objection.HOLD, Objection.SLO}:
        raise typer.BadParameter(f"{min(unknown)!r} is not one of refuse, hold, slo", param_hint="--fail-on")
    with (
        progress(common) as step,
        open_session(common.flags, read_environment(), writes=False, with_forge=False, progress=step) as session,
    ):
        found = review_head(session, common.flags, head, time.time())
    findings = review_findings(found)
    _present(common, found, findings)
    is_broken = any(finding.severity is Severity.ERROR for finding in found.findings)
    codes = {
        Exit.INPUT: is_broken or asked & found.objections,
        Exit.TRANSIENT: found.failures,
        Exit.CONFIGURATION: found.refusals,
    }
    return max((code for code, applies in codes.items() if applies), default=Exit.FINISHED)


def _present(common: Common, found: "Review", findings: "tuple[Finding, ...]") -> None:
    from reconciler import __version__
    from reconciler.cli.console import note, painted, width, write, write_json
    from reconciler.cli.findings import markdown_lines
    from reconciler.cli.workflow import STEP_SUMMARY, append_to
    from reconciler.report.findings import findings_text, workflow_commands
    from reconciler.report.review import review_json, review_summary
    from reconciler.report.sarif import findings_sarif

    summary = review_summary(found)
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
            write(painted(common, findings_text(findings, summary, width=width())))
