"""Commits as bytes: read from an object, written as a stream for `git fast-import`, or into a new repository."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, InputError, TransientError
from reconciler.git.command import GitCommand
from reconciler.git.refs import branch_ref, check_object_id
from reconciler.git.repository import EntryKind, TreeEntry

PERSON = re.compile(r"(?P<name>.*?) ?<(?P<email>[^>]*)>.*")
TIME = re.compile(r".*> (?P<seconds>[0-9]{1,12}) [+-][0-9]{4}")
NEW_FILE_MODE = "100644"
DRAFT_REF = "refs/reconciler/draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """One commit as its object says; names and message come from outside and are hostile text."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    author: Identity
    committer: Identity
    message: str
    committed_s: float = 0.0
    """Unix seconds, by the clock of whoever made it."""


def parse_commit(oid: str, content: bytes) -> CommitRecord:
    """The commit behind an object's content."""
    head, _, message = content.decode("utf-8", "replace").partition("\n\n")
    # A continuation line (of a signature) begins with a space and is none of ours.
    fields = [line.partition(" ") for line in head.split("\n") if not line.startswith(" ")]
    values: dict[str, list[str]] = {}
    for key, _, value in fields:
        values.setdefault(key, []).append(value)
    if not values.get("tree"):
        raise TransientError(f"commit {oid}: the object holds no tree")
    return CommitRecord(
        oid=oid,
        tree=values["tree"][0],
        parents=tuple(values.get("parent", ())),
        author=_parse_person(values.get("author", [""])[0]),
        committer=_parse_person(values.get("committer", [""])[0]),
        message=message,
        committed_s=_parse_time(values.get("committer", [""])[0]),
    )


def write_import(
    *,
    parent: str | None,
    entries: Mapping[str, TreeEntry],
    files: Mapping[str, bytes],
    message: str,
    author: Identity,
    date_s: int,
    ref: str = DRAFT_REF,
    merged: str = "",
) -> bytes:
    """A `fast-import` stream of one commit on `parent` that sets `files`; it prints the new commit's id.

    Without a parent it is a first commit; `ref` is what comes to point to it. The same arguments give the same
    commit. A file keeps the mode it has in `entries`, a new one gets 100644. `merged` is a second parent.

    Raises InputError for a path that cannot be written.
    """
    person = _format_person(author)
    text = message.encode() if message.endswith("\n") else f"{message}\n".encode()
    pieces = [
        f"commit {ref}\nmark :1\n".encode(),
        f"author {person} {date_s} +0000\ncommitter {person} {date_s} +0000\n".encode(),
        _block(text),
        b"" if parent is None else f"from {check_object_id(parent)}\n".encode(),
        f"merge {check_object_id(merged)}\n".encode() if merged else b"",
        *_format_files(entries, files),
        b"\nget-mark :1\ndone\n",
    ]
    return b"".join(pieces)


def _format_files(entries: Mapping[str, TreeEntry], files: Mapping[str, bytes]) -> Iterator[bytes]:
    for path, content in sorted(files.items()):
        yield f"M {_mode_for(path, entries.get(path))} inline {_quote(path)}\n".encode()
        yield _block(content)


def _mode_for(path: str, entry: TreeEntry | None) -> str:
    parts = path.split("/")
    if any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts) or "\0" in path:
        raise InputError(path, 0, "", "cannot be written: the path leaves the repository or is git's own")
    if entry is None:
        return NEW_FILE_MODE
    if entry.kind is not EntryKind.FILE:
        raise InputError(path, 0, "", f"cannot be written: it is a {entry.kind}; edit the file that it stands for")
    return entry.mode


def _quote(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _block(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _format_person(identity: Identity) -> str:
    if not identity.name.strip() or any(sign in identity.name + identity.email for sign in "<>\n\r\0"):
        raise ConfigurationError(
            f"git.author: expected a name and an email address without angle brackets and line breaks, "
            f"found {identity.name!r} and {identity.email!r}"
        )
    return f"{identity.name} <{identity.email}>"


def _parse_person(text: str) -> Identity:
    match = PERSON.fullmatch(text)
    return Identity(name=match["name"], email=match["email"]) if match else Identity(name=text, email="")


def _parse_time(text: str) -> float:
    match = TIME.fullmatch(text)
    return float(match["seconds"]) if match else 0.0


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
