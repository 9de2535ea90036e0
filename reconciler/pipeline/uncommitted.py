"""What of a work tree is not in the commit that is planned."""

from collections.abc import Iterable
from pathlib import Path

from reconciler.config.files import REPOSITORY_FILE
from reconciler.domain.recording import ManifestFile
from reconciler.git.repository import Repository, untracked, work_tree
from reconciler.pipeline.observe import is_manifest

NAMED = 3


def uncommitted(directory: str, repository: Repository, manifests: Iterable[ManifestFile]) -> str:
    """A sentence about what in the work tree of `directory` differs from what was read; empty when nothing does.

    Files are compared byte by byte but for line ends, and links are not followed: no filter of the repository runs.
    """
    top = work_tree(directory)
    if top is None:
        return ""
    read = {each.path: each.body for each in manifests}
    if (configuration := repository.read_file_at(repository.commit, REPOSITORY_FILE)) is not None:
        read[REPOSITORY_FILE] = configuration
    changed = (path for path, body in read.items() if _differs(top / path, body))
    names = sorted({*changed, *filter(is_manifest, untracked(top))})
    if not names:
        return ""
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return f"work tree is dirty: planned HEAD, without what is not committed ({shown})"


def _differs(path: Path, body: bytes) -> bool:
    try:
        return path.is_symlink() or _unix(path.read_bytes()) != _unix(body)
    except OSError:
        return True


def _unix(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n")
