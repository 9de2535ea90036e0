"""`reconciler validate [PATH...]`: lint resources and configuration; no network."""

from pathlib import Path

import click

from reconciler.cli.options import PATH, Common, flag, with_common


@click.argument(
    "paths", metavar="[PATH]...", nargs=-1, type=PATH, help="Files or directories on disk. Default: the base commit."
)
@flag("--strict", help="Fail on warnings, too.")
@with_common(outputs=("text", "json", "github", "sarif"), without=("prometheus",))
def validate(common: Common, *, paths: tuple[Path, ...], strict: bool) -> int:
    """Check resources and configuration, without a network."""
    from reconciler.cli.console import exit_of_findings
    from reconciler.cli.findings import present_findings
    from reconciler.pipeline.validate import validate_commit, validate_paths

    checked = validate_paths(common.flags, paths) if paths else validate_commit(common.flags)
    present_findings(common, checked)
    return exit_of_findings(checked.findings, strict=strict)
