"""`reconciler validate [PATH...]`: lint resources and configuration; no network."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.options import Common, with_common

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH", help="Files or directories on disk. Default: the base commit."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.")]


@with_common(outputs=("text", "json", "github", "sarif"), without=("prometheus",))
def validate(common: Common, paths: Paths = None, *, strict: Strict = False) -> int:
    """Check resources and configuration, without a network."""
    from reconciler.cli.console import exit_of_findings
    from reconciler.cli.findings import present_findings
    from reconciler.pipeline.validate import validate_commit, validate_paths

    checked = validate_paths(common.flags, paths) if paths else validate_commit(common.flags)
    present_findings(common, checked)
    return exit_of_findings(checked.findings, strict=strict)
