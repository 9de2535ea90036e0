"""`reconciler prior MODEL [ACCELERATOR...]`: what an untried accelerator would probably do."""

import click

from reconciler.cli.options import Common, with_common

OUTPUTS = ("text", "json", "html")


@click.argument("model", metavar="MODEL", help="The id of a model.")
@click.argument(
    "accelerators",
    metavar="[ACCELERATOR]...",
    nargs=-1,
    help="Names such as H200 or 2xH100. Default: all that have a price.",
)
@with_common(outputs=OUTPUTS)
def prior(common: Common, *, model: str, accelerators: tuple[str, ...]) -> int:
    """Say how fast a model would probably be on untried accelerators.

    A band says how sure that is. The number is a roofline from the model's shape and data sheets, corrected by the
    model's profile on another accelerator. What measured points do not cover is refused, with the reason. No network
    is used.
    """
    from reconciler.cli.console import exit_of_findings, painted, progress, width, write, write_json
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.prior import find_model_priors
    from reconciler.pipeline.session import open_session
    from reconciler.rendering.renderer import Renderer
    from reconciler.report.prior import prior_json, prior_page, prior_text

    with (
        progress(quiet=common.quiet) as step,
        open_session(common.flags, read_environment(), writes=False, with_forge=False, progress=step) as session,
    ):
        found = find_model_priors(session.doors, session.settings, session.repository, model, accelerators)
    if common.output == "json":
        write_json(prior_json(found))
    elif common.output == "html":
        write(Renderer().render("html/page.html.j2", prior_page(found)))
    else:
        write(painted(common.color, prior_text(found, width=width())))
    return exit_of_findings(found.findings)
