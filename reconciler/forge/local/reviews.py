"""Comments and commit statuses of the local forge: files of text beside its pull requests."""

import re
from pathlib import Path

from reconciler.forge.local.files import one_line
from reconciler.forge.local.writing import claim_number, replace_file
from reconciler.forge.reviews import Comment, CommitStatus, check_commit

COMMENTS = Path("reconciler", "comments")
STATUSES = Path("reconciler", "statuses")
FILE_NAME = re.compile(r"([1-9][0-9]{0,8})\.md")


class LocalReviews:
    """What reviews leave in a bare repository; `directory` is its git directory.

    A comment is `reconciler/comments/NUMBER/KEY.md`, the status of a commit `reconciler/statuses/COMMIT`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """All there are: who may write to the directory is one."""
        folder = self._folder(number)
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        keys = sorted(int(match[1]) for name in names if (match := FILE_NAME.fullmatch(name)))
        return tuple(
            Comment(key=str(key), body=(folder / f"{key}.md").read_text(encoding="utf-8", errors="replace"))
            for key in keys
        )

    def write_comment(self, number: int, body: str) -> None:
        """Add one."""
        claim_number(self._folder(number), 1, lambda _number: _bytes(body))

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """Replace its text, if it is still there."""
        path = self._folder(number) / f"{int(key)}.md"
        if path.exists():
            replace_file(path, _bytes(body))

    def delete_comment(self, number: int, key: str) -> None:
        """Delete it, if it is still there."""
        (self._folder(number) / f"{int(key)}.md").unlink(missing_ok=True)

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Write it down, unless it stands there."""
        check_commit(commit)
        path = self._directory / STATUSES / commit
        content = _bytes(f"{status.context}: {status.verdict}\n{one_line(status.words)}\n")
        if not path.exists() or path.read_bytes() != content:
            replace_file(path, content)

    def _folder(self, number: int) -> Path:
        return self._directory / COMMENTS / str(number)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
