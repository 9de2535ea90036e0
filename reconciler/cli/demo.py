"""`reconciler demo`: a sample repository, planned and proposed on this machine."""

from pathlib import Path

import click

from reconciler.cli.options import READING, Common, path_option, with_common


@click.option(
    "--family", metavar="NAME", help="Another sample: flux, kserve, kthena, llm-d, llmaz or vllm.", default=""
)
@path_option("--directory", metavar="DIR", help="New, empty, or from an earlier demo. Default: a temporary one.")
@with_common(outputs=("text",), without=(*READING, "output"))
def demo(common: Common, *, family: str, directory: Path | None) -> int:
    """Plan and propose changes for a sample repository."""
    from reconciler.cli.console import painted, progress, width, write
    from reconciler.cli.run import exit_of_run
    from reconciler.cli.sample import demo_text, run_demo

    with progress(quiet=common.quiet) as step:
        shown = run_demo(directory, step, family)
    if not common.quiet:
        write(painted(common.color, demo_text(shown, width=width())))
    return exit_of_run(shown.result)
