"""A new bare repository with one commit: a place for demonstrations to work on."""

from collections.abc import Mapping
from pathlib import Path

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError
from reconciler.git.command import GitCommand
from reconciler.git.commits import write_import
from reconciler.git.refs import branch_ref, check_object_id


def create_bare(
    directory: Path, *, branch: str, files: Mapping[str, bytes], message: str, author: Identity, date_s: int
) -> str:
    """Make `directory` a bare repository whose `branch` holds `files` (path -> content), and return that commit's id.

    The same arguments but for the directory give the same id. Raises ConfigurationError unless `directory` is new or
    empty, InputError for a path that leaves the tree.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        is_empty = not any(directory.iterdir())
    except OSError as error:
        raise ConfigurationError(f"{directory}: cannot be made or read: {error.strerror or error}") from error
    if not is_empty:
        raise ConfigurationError(f"{directory}: expected a new or empty directory for a repository")
    ref = branch_ref(branch)
    stream = write_import(parent=None, entries={}, files=files, message=message, author=author, date_s=date_s, ref=ref)
    git = GitCommand(directory=directory.absolute())
    git.run(
        "init", "--bare", "--quiet", "--template=", f"--initial-branch={branch}", "--object-format=sha1",
        action=f"make the repository {directory}",
    )  # fmt: skip
    arguments = ("fast-import", "--quiet", "--done", "--date-format=raw")
    output = git.run(*arguments, action="write the first commit", stdin=stream)
    return check_object_id(output.strip().decode("ascii", "replace"))
