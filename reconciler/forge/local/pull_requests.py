"""Pull requests as files in a bare repository on this machine: for trying out, and for demonstrations.

Pull request N is `reconciler/pulls/N.md` inside the git directory. A person closes or merges one by editing `state`.
"""

import logging
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError
from reconciler.forge.local.files import MAX_FILE_BYTES, one_line, parse_pull_request, render_pull_request
from reconciler.forge.local.reviews import LocalReviews
from reconciler.forge.local.writing import claim_number, replace_file
from reconciler.forge.merging import MergeAnswer, MergeState, waiting
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY, PullRequest, PullRequestState, ours_among
from reconciler.forge.rights import Rights
from reconciler.http.limits import Clock

logger = logging.getLogger(__name__)

FOLDER = Path("reconciler", "pulls")
FILE_NAME = re.compile(r"([1-9][0-9]{0,8})\.md")


class Local:
    """The pull requests of one bare repository; `directory` is its git directory."""

    name = "local"
    body_limit = 250_000
    draws_mermaid = False

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or Clock()
        self._folder = directory / FOLDER
        self.reviews = LocalReviews(directory)

    def check_access(self) -> None:
        """See that this is a bare repository that may be written to."""
        if not all((self._directory / entry).exists() for entry in ("HEAD", "objects", "refs")):
            raise ConfigurationError(
                f"{self._directory}: not a bare repository; the local forge needs one (`git clone --bare`), "
                "or set forge.kind"
            )
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise ConfigurationError(f"{self._directory}: may not be written to by this user: check its owner")

    def rights(self, *, base: str, head: str) -> Rights:
        """All that there are: whoever may write to the directory may do everything."""
        del base, head
        return Rights()

    def schedules(self) -> None:
        """See `Forge`: a directory starts nothing."""

    def commit_address(self, commit: str) -> str:
        """None: a directory has no pages."""
        del commit
        return ""

    def files_address(self, commit: str) -> str:
        """None: a directory has no pages."""
        del commit
        return ""

    def author(self) -> Identity:
        """A neutral one: a directory has no credential."""
        return NEUTRAL_IDENTITY

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """See `Forge`; a file counts as closed at the time of its last change."""
        return ours_among(self._read_all(), head_prefix=head_prefix, base=base, closed_since_s=closed_since_s)

    def create(
        self,
        *,
        head: str,
        base: str,
        title: str,
        body: str,
        draft: bool = False,
        labels: tuple[str, ...] = (),
        reviewers: tuple[str, ...] = (),
    ) -> PullRequest | None:
        """See `Forge`; nobody can be asked for a review."""
        if reviewers:
            logger.debug("the local forge asks nobody for a review")
        present = self._read_all()
        for pull_request in present:
            if pull_request.is_open and (pull_request.head_branch, pull_request.base_branch) == (head, base):
                return self.update(pull_request.number, labels=labels)
        wanted = PullRequest(
            number=max((pull_request.number for pull_request in present), default=0) + 1,
            state=PullRequestState.OPEN,
            head_branch=head,
            base_branch=base,
            title=one_line(title),
            body=body,
            labels=tuple(one_line(label) for label in labels),
            is_draft=draft,
            opened_at_s=self._clock.now_s(),
        )
        return self._claim_number(wanted)

    def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        close: bool = False,
        labels: tuple[str, ...] = (),
        unlabel: tuple[str, ...] = (),
        reviewers: tuple[str, ...] = (),
    ) -> PullRequest:
        """See `Forge`; nobody can be asked for a review."""
        del reviewers
        gone = set(map(one_line, unlabel))
        path = self._path(number)
        current = self._read(path)
        if not current.is_open:
            logger.info("pull request %d is %s, left as it is", number, current.state.value)
            return current
        updated = replace(
            current,
            title=current.title if title is None else one_line(title),
            body=current.body if body is None else body,
            state=PullRequestState.CLOSED if close else current.state,
            labels=tuple(
                dict.fromkeys((*(each for each in current.labels if each not in gone), *map(one_line, labels)))
            ),
        )
        return current if updated == current else self._rewrite(updated)

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`; the time of the file's last change stays, for it is when it was merged."""
        path = self._path(number)
        current = self._read(path)
        if current.state is PullRequestState.MERGED and current.body != body and current.closed_at_s is not None:
            self._rewrite(replace(current, body=body))
            os.utime(path, (current.closed_at_s, current.closed_at_s))

    def note_merge(self, number: int) -> None:
        """See `Forge`."""
        current = self._read(self._path(number))
        if current.is_open:
            self._rewrite(replace(current, state=PullRequestState.MERGED))

    def list_open(self, *, base: str) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        return tuple(each for each in self._read_all() if each.is_open and each.base_branch == base)

    def head_ref(self, pull_request: PullRequest) -> str:
        """See `Forge`: there are no forks."""
        return f"refs/heads/{pull_request.head_branch}"

    def merge(self, number: int, *, head_commit: str, method: str = "") -> MergeAnswer:
        """See `Forge`; files know nothing of commits, so git does it, with a merge commit."""
        del head_commit, method
        current = self._read(self._path(number))
        if current.is_draft:
            return waiting("it is a draft")
        if current.state is PullRequestState.CLOSED:
            return waiting("a person closed it")
        return MergeAnswer(state=MergeState.LEFT_TO_GIT if current.is_open else MergeState.MERGED)

    def unschedule(self, number: int) -> None:
        """See `Forge`; nothing is ever scheduled here."""
        del number

    def _rewrite(self, pull_request: PullRequest) -> PullRequest:
        path = self._path(pull_request.number)
        replace_file(path, render_pull_request(pull_request))
        return self._read(path)

    def _claim_number(self, wanted: PullRequest) -> PullRequest:
        """Write it under the first free number."""
        return self._read(
            claim_number(
                self._folder, wanted.number, lambda number: render_pull_request(replace(wanted, number=number))
            )
        )

    def _read_all(self) -> tuple[PullRequest, ...]:
        numbers = sorted(int(match[1]) for name in self._names() if (match := FILE_NAME.fullmatch(name)))
        return tuple(self._read(self._path(number)) for number in numbers)

    def _names(self) -> Iterator[str]:
        if self._folder.is_dir():
            yield from (entry.name for entry in self._folder.iterdir())

    def _read(self, path: Path) -> PullRequest:
        try:
            content, changed_at_s = _read_file(path)
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
        pull_request = parse_pull_request(content, path)
        return pull_request if pull_request.is_open else replace(pull_request, closed_at_s=changed_at_s)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.md"


def _read_file(path: Path) -> tuple[bytes, float]:
    """Content and time of last change of a regular file; no symbolic link is followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"{path}: expected a file")
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path}: expected at most {MAX_FILE_BYTES} bytes, found {status.st_size}")
        return file.read(MAX_FILE_BYTES), status.st_mtime
