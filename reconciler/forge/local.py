"""Pull requests as files in a bare repository on this machine, for trials and demonstrations."""

import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from reconciler.domain.records import replace
from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError, TransientError
from reconciler.forge.pull_requests import (
    NO_ASSIGNMENT,
    Assignment,
    Comment,
    CommitStatus,
    ForgeToken,
    MergeAnswer,
    MergeState,
    PlainForge,
    PullRequest,
    PullRequestState,
    Rights,
    check_commit,
    check_same,
    ours_among,
    waiting,
)
from reconciler.forge.registry import directory_of
from reconciler.http.messages import Clock
from reconciler.http.redaction import Redactor

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_FRONT_MATTER_LENGTH = 16_000

FENCE = "---"


def one_line(text: str) -> str:
    """`text` for front matter: on one line, and without unprintable characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def render_pull_request(pull_request: PullRequest) -> bytes:
    """The file for a pull request. Texts are written as JSON, which is also YAML."""
    lines = [
        FENCE,
        f"number: {pull_request.number}",
        f"state: {pull_request.state.value}",
        f"head: {json.dumps(pull_request.head_branch)}",
        f"base: {json.dumps(pull_request.base_branch)}",
        f"title: {json.dumps(pull_request.title, ensure_ascii=False)}",
        f"labels: {json.dumps(list(pull_request.labels), ensure_ascii=False)}",
        *(["draft: true"] if pull_request.is_draft else []),
        *([] if pull_request.opened_at_s is None else [f"opened: {_moment(pull_request.opened_at_s)}"]),
    ]
    return "\n".join((*lines, FENCE, "", pull_request.body)).encode("utf-8", "replace")


def parse_pull_request(content: bytes, path: Path) -> PullRequest:
    """The pull request in a file; ConfigurationError says what to correct in it."""
    fields, body = _split(content, path)
    number = _text(fields, "number", path)
    if number != path.stem:
        raise ConfigurationError(f"{path}: number: expected {path.stem}, as the file is named, found {number[:20]!r}")
    labels = fields.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ConfigurationError(f"{path}: labels: expected a list of texts")
    state = _text(fields, "state", path)
    if state not in set(PullRequestState):
        known = ", ".join(PullRequestState)
        raise ConfigurationError(f"{path}: state: expected one of {known}, found {state[:40]!r}")
    return PullRequest(
        number=int(path.stem),
        state=PullRequestState(state),
        head_branch=_text(fields, "head", path),
        base_branch=_text(fields, "base", path),
        title=_text(fields, "title", path),
        body=body,
        labels=tuple(labels),
        is_draft=fields.get("draft") == "true",
        opened_at_s=_opened_at_s(fields, path),
        url=path.absolute().as_uri(),
    )


def _split(content: bytes, path: Path) -> tuple[dict[str, object], str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: expected text in UTF-8") from None
    opening, _, rest = text.partition("\n")
    end = 0
    for line in rest[:MAX_FRONT_MATTER_LENGTH].split("\n") if opening.rstrip() == FENCE else ():
        if line.rstrip() == FENCE:
            break
        end += len(line) + 1
    else:
        raise ConfigurationError(
            f"{path}: expected front matter of at most {MAX_FRONT_MATTER_LENGTH} characters between two lines `---`"
        )
    body = rest[end:].partition("\n")[2]
    blank, _, after_blank = body.partition("\n")
    try:
        # Every scalar stays text and no merge key is expanded, so nothing in it can grow.
        fields = yaml.load(rest[:end], Loader=yaml.BaseLoader)  # noqa: S506 (constructs no objects)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        line_number = getattr(getattr(error, "problem_mark", None), "line", 0) + 2
        raise ConfigurationError(f"{path}:{line_number}: the front matter is not valid YAML") from None
    if not isinstance(fields, dict):
        raise ConfigurationError(f"{path}: the front matter is not a mapping")
    return {str(name): value for name, value in fields.items()}, body if blank.strip() else after_blank


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(int(time_s), UTC).isoformat().replace("+00:00", "Z")


def _opened_at_s(fields: dict[str, object], path: Path) -> float | None:
    """When it was opened, in Unix seconds, UTC without a zone; None if the file does not say."""
    if "opened" not in fields:
        return None
    text = _text(fields, "opened", path)
    try:
        moment = datetime.fromisoformat(text)
        time_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        _moment(time_s)  # it must be writable again
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{path}: opened: expected a time, found {text[:40]!r}") from None
    return time_s


def _text(fields: dict[str, object], name: str, path: Path) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{path}: {name}: expected a text, found {type(value).__name__}")
    return value


MAX_NUMBER_TRIES = 1000
FILE_MODE = 0o644  # temporary files are private, but people should read this one


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of a file."""
    with _written(path.parent, content) as temporary:
        temporary.replace(path)


def _write_next(folder: Path, content: bytes) -> None:
    """Write `N.md` under the first free number; never over another file."""
    for number in range(1, 1 + MAX_NUMBER_TRIES):
        if _claim(folder, number, content):
            return
    raise TransientError(f"{folder}: all numbers up to {MAX_NUMBER_TRIES} are taken")


def _claim(folder: Path, number: int, content: bytes) -> Path | None:
    """The path of a new `N.md`, complete once it is there; None where there is one already."""
    path = folder / f"{number}.md"
    with _written(folder, content) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return None
    return path


@contextmanager
def _written(folder: Path, content: bytes) -> Iterator[Path]:
    """A complete, synced file to be moved or linked to its place; removed afterwards."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".writing-", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, FILE_MODE)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            yield Path(name)
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise TransientError(f"{folder}: cannot be written: {error.strerror}") from None


COMMENTS = Path("reconciler", "comments")
STATUSES = Path("reconciler", "statuses")
FILE_NAME = re.compile(r"([1-9][0-9]{0,8})\.md")

logger = logging.getLogger(__name__)

FOLDER = Path("reconciler", "pulls")


class Local(PlainForge):
    """The pull requests of one bare repository; `directory` is its git directory.

    Pull request N is `reconciler/pulls/N.md`; a person closes or merges it by editing `state`. A comment is
    `reconciler/comments/NUMBER/KEY.md`, the status of a commit `reconciler/statuses/COMMIT`.
    """

    name = "local"
    body_limit = 250_000
    keeps_pull_requests = True

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or Clock()
        self._folder = directory / FOLDER

    def check_access(self) -> None:
        """Check that this is a writable bare repository."""
        if not all((self._directory / entry).exists() for entry in ("HEAD", "objects", "refs")):
            raise ConfigurationError(
                f"{self._directory}: not a bare repository; the local forge needs one (`git clone --bare`), "
                "or set forge.kind"
            )
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise ConfigurationError(f"{self._directory}: this user may not write to it: check its owner")

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`: write access to the directory allows everything."""
        del base, head
        return Rights()

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
        assignment: Assignment = NO_ASSIGNMENT,
    ) -> PullRequest | None:
        """See `Forge`; a directory has nobody to ask, and no milestones."""
        del assignment
        first = 1
        for _ in range(MAX_NUMBER_TRIES):
            present = self._read_all()
            for pull_request in present:
                if pull_request.is_open and (pull_request.head_branch, pull_request.base_branch) == (head, base):
                    return self.update(pull_request.number, labels=labels)
            number = max((first, *(pull_request.number + 1 for pull_request in present)))
            wanted = PullRequest(
                number=number,
                state=PullRequestState.OPEN,
                head_branch=head,
                base_branch=base,
                title=one_line(title),
                body=body,
                labels=tuple(one_line(label) for label in labels),
                is_draft=draft,
                opened_at_s=self._clock.now_s(),
            )
            path = _claim(self._folder, number, render_pull_request(wanted))
            if path is not None:
                return self._read(path)
            first = number + 1  # Another run has just taken it, perhaps for the same branch.
        raise TransientError(f"{self._folder}: no free number near {first}")

    def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        close: bool = False,
        labels: tuple[str, ...] = (),
        unlabel: tuple[str, ...] = (),
        assignment: Assignment = NO_ASSIGNMENT,
    ) -> PullRequest:
        """See `Forge`; a directory has nobody to ask, and no milestones."""
        del assignment
        current = self._read(self._path(number))
        if not current.is_open:
            logger.info("pull request %d is %s, left as it is", number, current.state.value)
            return current
        gone = set(map(one_line, unlabel))
        kept = [label for label in current.labels if label not in gone]
        updated = replace(
            current,
            title=current.title if title is None else one_line(title),
            body=current.body if body is None else body,
            state=PullRequestState.CLOSED if close else current.state,
            labels=tuple(dict.fromkeys((*kept, *map(one_line, labels)))),
        )
        return current if updated == current else self._rewrite(updated)

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`; the modification time is kept, as it is the time of the merge."""
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

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """See `Forge`: when git wrote the branch, whoever pushed it, as there are no accounts."""
        del commit, since_s
        places = (self._directory / "refs" / "heads" / branch, self._directory / "packed-refs")
        return next((path.stat().st_mtime for path in places if path.is_file()), None)

    def merge(self, wanted: PullRequest, *, method: str = "") -> MergeAnswer:
        """See `Forge`; git does it, with a merge commit, and looks at the commit."""
        del method
        current = self._read(self._path(wanted.number))
        if current.is_draft:
            return waiting("it is a draft")
        if current.state is PullRequestState.CLOSED:
            return waiting("a person closed it")
        if current.is_open:
            check_same(current, replace(wanted, head_commit=current.head_commit))
        return MergeAnswer(state=MergeState.LEFT_TO_GIT if current.is_open else MergeState.MERGED)

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """All comments: everybody with write access is us."""
        folder = self._comments(number)
        return tuple(
            Comment(key=str(key), body=(folder / f"{key}.md").read_text(encoding="utf-8", errors="replace"))
            for key in _numbers(folder)
        )

    def write_comment(self, number: int, body: str) -> None:
        """Add one."""
        _write_next(self._comments(number), body.encode("utf-8", "replace"))

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Forge`."""
        path = self._comments(number) / f"{int(key)}.md"
        if path.exists():
            replace_file(path, body.encode("utf-8", "replace"))

    def delete_comment(self, number: int, key: str) -> None:
        """See `Forge`."""
        (self._comments(number) / f"{int(key)}.md").unlink(missing_ok=True)

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Write it, unless the file has it already."""
        check_commit(commit)
        path = self._directory / STATUSES / commit
        content = f"{status.context}: {status.verdict}\n{one_line(status.words)}\n".encode("utf-8", "replace")
        if not path.exists() or path.read_bytes() != content:
            replace_file(path, content)

    def _comments(self, number: int) -> Path:
        return self._directory / COMMENTS / str(number)

    def _rewrite(self, pull_request: PullRequest) -> PullRequest:
        path = self._path(pull_request.number)
        replace_file(path, render_pull_request(pull_request))
        return self._read(path)

    def _read_all(self) -> tuple[PullRequest, ...]:
        return tuple(self._read(self._path(number)) for number in _numbers(self._folder))

    def _read(self, path: Path) -> PullRequest:
        try:
            content, changed_at_s = _read_file(path)
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
        pull_request = parse_pull_request(content, path)
        return pull_request if pull_request.is_open else replace(pull_request, closed_at_s=changed_at_s)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.md"


def _numbers(folder: Path) -> list[int]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := FILE_NAME.fullmatch(name)))


def _read_file(path: Path) -> tuple[bytes, float]:
    """Content and modification time of a regular file; symbolic links are not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"{path}: expected a file")
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path}: expected at most {MAX_FILE_BYTES} bytes, found {status.st_size}")
        return file.read(MAX_FILE_BYTES), status.st_mtime


def open_forge(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Local:
    """The forge of a directory; ConfigurationError for any other remote."""
    del settings, token, run_ends_s  # a directory needs none of them
    directory = directory_of(remote)
    if directory is None:
        raise ConfigurationError(
            f"{Redactor().show(remote)}: forge.kind local works only with a bare repository on this machine"
        )
    return Local(directory)
