"""`reconciler validate [PATH...]`: lint resources and configuration; no network."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.options import Common, with_common
from reconciler.errors import ConfigurationError

if TYPE_CHECKING:
    from reconciler.domain.recording import ManifestFile

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH...]", help="Files or directories on disk, uncommitted; else the base commit."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings fail too.")]


@with_common(outputs=("text", "json"))
def validate(common: Common, paths: Paths = None, *, strict: Strict = False) -> int:
    """Lint resources and configuration, without network."""
    from reconciler.cli.exits import exit_of_findings
    from reconciler.cli.presenting import present_findings
    from reconciler.pipeline.validate import validate_commit, validate_files

    checked = validate_files(common.wanted, read_paths(paths)) if paths else validate_commit(common.wanted)
    present_findings(common, checked.findings, files=checked.files, resources=checked.resources)
    return exit_of_findings(checked.findings, strict=strict)


def read_paths(paths: Iterable[Path]) -> Iterator["ManifestFile"]:
    """Every YAML file of the given paths, links left alone; ConfigurationError for a path that is not there."""
    from reconciler.domain.recording import ManifestFile

    for path in paths:
        if not path.exists():
            raise ConfigurationError(f"{path}: no such file or directory")
        for file in sorted(path.rglob("*")) if path.is_dir() else (path,):
            if file.is_file() and not file.is_symlink() and file.suffix in (".yaml", ".yml", ".json"):
                yield ManifestFile(path=str(file), body=file.read_bytes())
