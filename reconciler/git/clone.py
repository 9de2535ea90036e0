"""A private clone of one branch, from which `run` reads, commits and pushes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, RivalRunError, TransientError
from reconciler.git.command import TIMEOUT_S, GitCommand, GitToken, explain_failure, open_remote, shorten
from reconciler.git.history import CLOCKS_DIFFER_S, merged_files, merges_cleanly
from reconciler.git.repository import (
    CommitRecord,
    Repository,
    branch_ref,
    check_branch_name,
    check_head_ref,
    check_object_id,
    is_branch_name,
    is_object_id,
    parse_commit,
    write_import,
)
from reconciler.git.signing import Signer

FETCHED_AT_ONCE = 200
"""Branches of one request, as the number of arguments is limited."""
DEPTHS = (50, 1000, 2_147_483_647)
"""How many commits of a history are fetched until it is long enough; the last is git's value for all."""
MOST_UPDATES = 10
"""Merges of the base, one after the other, that are looked through for the commit below."""
FETCH = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--force")


@dataclass(frozen=True, kw_only=True)
class Clone(Repository):
    """A repository that may also be written: commits here, branches on the remote, each push with a lease.

    Commits get a signature of `signer`, where there is one.
    """

    signer: Signer | None = None

    def write_commit(
        self, *, parent: str, files: Mapping[str, bytes], message: str, author: Identity, date_s: int, merged: str = ""
    ) -> str:
        """Commit `files` (path -> whole content) on top of `parent` and return the new commit's id.

        Other files and all modes stay as in `parent`; `merged` is a second parent. The same arguments give the same id.
        Only objects are written: no work tree, hook or filter is used. InputError for a path that is a link or leaves
        the tree; ConfigurationError where it is not signed.
        """
        oid = self._write(parent=parent, files=files, message=message, author=author, date_s=date_s, merged=merged)
        if self.signer is None:
            return oid
        unsigned = self.read_commit(oid)
        date = f"@{date_s} +0000"
        roles = {"NAME": author.name, "EMAIL": author.email, "DATE": date}
        person = {f"GIT_{who}_{name}": value for who in ("AUTHOR", "COMMITTER") for name, value in roles.items()}
        message_bytes = unsigned.message.encode()
        signed = self.signer.sign(
            self.git, tree=unsigned.tree, parents=unsigned.parents, message=message_bytes, person=person
        )
        found = self.read_commit(check_object_id(signed))
        if found.author != unsigned.author:  # our commits are known by it
            raise ConfigurationError(
                f"git.author: git signs for {found.author.name!r} <{found.author.email}>, not for "
                f"{unsigned.author.name!r} <{unsigned.author.email}>: write it so"
            )
        return signed

    def check_signing(self) -> None:
        """Sign a commit that is never pushed; errors as of `write_commit`."""
        author = Identity(name="Try", email="try@noreply.invalid")
        self.write_commit(parent=self.commit, files={}, message="Try the key", author=author, date_s=0)

    def _write(
        self, *, parent: str, files: Mapping[str, bytes], message: str, author: Identity, date_s: int, merged: str = ""
    ) -> str:
        """The same without a signature."""
        stream = write_import(
            parent=parent,
            entries=self._files_of(parent),
            files=files,
            message=message,
            author=author,
            date_s=date_s,
            merged=merged,
        )
        arguments = ("fast-import", "--quiet", "--done", "--force", "--date-format=raw")
        output = self.git.run(*arguments, action="write the merge" if merged else "write the commit", stdin=stream)
        return check_object_id(output.strip().decode("ascii", "replace"))

    def remote_branches(self, prefix: str) -> dict[str, str]:
        """Names and object ids of the remote's branches that begin with `prefix`."""
        check_branch_name(prefix.removesuffix("/"))
        refs = _list_remote(self.git, f"refs/heads/{prefix}*")
        names = {ref.removeprefix("refs/heads/"): oid for ref, oid in refs.items()}
        return {name: oid for name, oid in names.items() if name.startswith(prefix) and is_branch_name(name)}

    def fetch_branches(self, names: Collection[str], depth: int = 2) -> dict[str, CommitRecord]:
        """Fetch branches with `depth` commits each and return their newest, a few hundred in one request.

        RivalRunError when one was deleted meanwhile.
        """
        ordered, found = sorted(names), dict[str, CommitRecord]()
        for start in range(0, len(ordered), FETCHED_AT_ONCE):
            batch = ordered[start : start + FETCHED_AT_ONCE]
            commits = _fetch_refs(self.git, [branch_ref(name) for name in batch], (f"--depth={depth}",))
            found |= {name: self.read_commit(oid) for name, oid in zip(batch, commits, strict=True)}
        return found

    def fetch_head(self, ref: str) -> Repository:
        """The head of a proposed merge (a branch, or a forge's ref of a head), as data: nothing is checked out.

        With enough history to find its common ancestor with the base, or all of it without one. RivalRunError when it
        was deleted meanwhile.
        """
        ref, base = check_head_ref(ref), branch_ref(self.branch)
        for depth in DEPTHS:
            try:
                (commit,) = _fetch_refs(self.git, [ref], (f"--depth={depth}",), history_of=(base,))
            finally:
                if self.git.directory is not None:  # files of interrupted fetches would fill the disk
                    for path in (self.git.directory / "objects" / "pack").glob("tmp_*"):
                        path.unlink(missing_ok=True)
            head = Repository(git=self.git, commit=commit, branch="")
            if head.common_ancestor(self.commit):
                break
        return head

    def read_commit(self, oid: str) -> CommitRecord:
        """One commit that was fetched already."""
        content = self.git.run("cat-file", "commit", check_object_id(oid), action=f"read commit {oid}")
        return parse_commit(oid, content)

    def fetch_history(self, since_s: float, *, most: int = DEPTHS[-1]) -> None:
        """Fetch the base's commits since then, at most `most`: a fresh clone has only the newest.

        This is done by depth, as git fails with merges that `--shallow-since` cut and a later fetch deepens.
        """
        since = min(since_s, self.committed_s()) - CLOCKS_DIFFER_S
        ref, action = branch_ref(self.branch), f"fetch the history of {self.branch}"
        for depth in DEPTHS:
            if depth > most:
                return
            reading = ("log", "--first-parent", "--format=%ct", "--end-of-options", self.commit)
            times = self.git.run(*reading, action="look at the history").split()
            if float(times[-1]) < since or not self.is_shallow():
                return
            arguments = (*FETCH, f"--depth={depth}", *_upload_pack(self.git), "--", _url_of(self.git), ref)
            self.git.run(*arguments, action=action)

    def descends_from(self, oid: str) -> bool:
        """Whether the fetched history of the base has the commit `oid`."""
        arguments = ("merge-base", "--is-ancestor", check_object_id(oid), self.commit)
        return self.git.attempt(*arguments, action="look into the history").status == 0

    def merges_cleanly(self, *, head: str, onto: str, parent: str) -> bool:
        """Whether `head`, a single commit on `parent`, still merges into `onto` without a conflict."""
        return merges_cleanly(self, self._files_of(parent), self._files_of(head), self._files_of(onto))

    def merged(self, head: str, *, parent: str) -> Mapping[str, bytes] | None:
        """The files changed by a merge of `head`, a single commit on `parent`; None for a conflict or a removal."""
        return merged_files(self, self._files_of(parent), self._files_of(head), self._files_of(self.commit))

    def changes_only(self, tip: CommitRecord, paths: Iterable[str]) -> bool:
        """Whether a commit is its parent with other contents of these files: its tree, written anew, is the same."""
        contents = {path: self.read_file_at(tip.oid, path) for path in paths}
        files = {path: content for path, content in contents.items() if content is not None}
        author = Identity(name="Compare", email="")
        written = self._write(parent=tip.parents[0], files=files, message="Compare", author=author, date_s=0)
        return self.read_commit(written).tree == tip.tree

    def below_updates(self, branch: str, tip: CommitRecord) -> CommitRecord:
        """The commit of a branch below merges of the base that add nothing, as a forge's button makes them.

        `tip` itself where it is no such merge. The base's history must have been fetched.
        """
        if len(tip.parents) == 2:
            self.fetch_branches((branch,), depth=MOST_UPDATES + 2)
        found = tip
        for _ in range(MOST_UPDATES):
            if len(found.parents) != 2 or not self.descends_from(found.parents[1]):
                break
            below = self.read_commit(found.parents[0])
            if not below.parents or not self._adds_nothing(found, below):
                break
            found = below
        return found

    def _adds_nothing(self, tip: CommitRecord, below: CommitRecord) -> bool:
        """Whether a commit is what git makes of the one below and the base that it merges."""
        onto = tip.parents[1]
        trees = (self._files_of(oid) for oid in (below.parents[-1], below.oid, onto))
        files = merged_files(self, *trees)
        if files is None:
            return False
        author = Identity(name="Compare", email="")
        written = self._write(parent=onto, files=files, message="Compare", author=author, date_s=0)
        return self.read_commit(written).tree == tip.tree

    def merge(
        self,
        branch: str,
        head: str,
        *,
        files: Mapping[str, bytes],
        since: str,
        message: str,
        author: Identity,
        date_s: int,
    ) -> "Clone":
        """Push a merge of `head`, the newest commit of `branch`, that brings `files`, made from the base at `since`.

        Returns the new clone. Raises RivalRunError when the branch or the base points elsewhere by now, or the files
        conflict with what the base has become.
        """
        ref = branch_ref(branch)
        if _list_remote(self.git, ref).get(ref) != head:
            raise RivalRunError(f"merge {branch}: somebody pushed to it meanwhile; left alone")
        drafted = self._write(parent=since, files=files, message=message, author=author, date_s=date_s)
        merged = self.merged(drafted, parent=since)
        if merged is None:
            raise RivalRunError(f"merge {branch}: it conflicts with {self.branch}")
        commit = self.write_commit(
            parent=self.commit, files=merged, message=message, author=author, date_s=date_s, merged=head
        )
        self.push(self.branch, commit, expected=self.commit)
        return replace(self, commit=commit)

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Make the remote's `branch` point to `commit` if it still points to `expected` (None: must not exist).

        Raises RivalRunError when it points elsewhere, TransientError with git's reason when the remote refuses.
        """
        self._push(branch, f"{check_object_id(commit)}:{branch_ref(branch)}", expected, wanted=commit)

    def check_push(self, branch: str) -> None:
        """Try a push of a new `branch` without sending anything; errors as of `push`."""
        self._push(branch, f"{self.commit}:{branch_ref(branch)}", None, wanted=None, options=("--dry-run",))

    def delete_branch(self, branch: str, *, expected: str) -> None:
        """Delete the remote's `branch` if it still points to `expected`; errors as of `push`."""
        self._push(branch, f":{branch_ref(branch)}", check_object_id(expected), wanted=None)

    def _push(
        self, branch: str, refspec: str, expected: str | None, wanted: str | None, options: tuple[str, ...] = ()
    ) -> None:
        action = f"push {branch}"
        lease = f"--force-with-lease={branch_ref(branch)}:{check_object_id(expected) if expected is not None else ''}"
        url, fixed = _url_of(self.git), ("--porcelain", "--no-verify", "--no-signed")
        completed = self.git.attempt("push", *options, *fixed, lease, "--", url, refspec, action=action)
        if completed.status == 0:
            return
        if not any(line.startswith(b"!") for line in completed.stdout.splitlines()):
            raise explain_failure(action, completed.status, completed.stderr, self.git.redactor)
        # The remote refused. Its present state is a better explanation than any text.
        found = _list_remote(self.git, branch_ref(branch)).get(branch_ref(branch))
        if found == wanted:
            return
        if found != expected:
            moved = f"another run or person moved it to {found or 'nothing'} meanwhile"
            raise RivalRunError(f"{action}: {moved}; left alone")
        reason = shorten(completed.stdout + completed.stderr, self.git.redactor)
        raise TransientError(f"{action}: the remote refused it (branch protection or a hook?): {reason}")


def clone_base(
    source: str,
    *,
    base: str | None,
    credentials: GitToken | None,
    directory: Path,
    timeout_s: float = TIMEOUT_S,
    run_ends_s: float = math.inf,
) -> Clone:
    """Fetch the newest commit of branch `base` (None: the remote's default branch) into a new bare `directory`.

    `source` is a URL (https, ssh, user@host:path; http for this machine only) or a directory. Only this commit comes,
    without its history. Raises ConfigurationError for a source, branch or credential that is wrong.
    """
    if directory.exists() and any(directory.iterdir()):
        raise ConfigurationError(f"{directory}: expected an empty directory to clone into")
    remote = open_remote(source)
    git = GitCommand(
        directory=directory.absolute(),
        remote=remote,
        credentials=credentials,
        timeout_s=timeout_s,
        run_ends_s=run_ends_s,
    )
    branch, oid = _find_base(git, base)
    object_format = "sha256" if len(oid) == 64 else "sha1"
    git.run("init", "--bare", "--quiet", "--template=", f"--object-format={object_format}", action="start a clone")
    (commit,) = _fetch_refs(git, [branch_ref(branch)], ("--depth=1",))
    return Clone(git=git, commit=commit, branch=branch)


def _find_base(git: GitCommand, base: str | None) -> tuple[str, str]:
    """Branch and object id; always queried first, as a clone of a HEAD that points nowhere is silently empty."""
    if base is not None:
        refs = _list_remote(git, branch_ref(base))
        if branch_ref(base) not in refs:
            raise ConfigurationError(f"{git.remote}: no branch {base!r}; check --base or git.baseBranch")
        return base, refs[branch_ref(base)]
    arguments = ("ls-remote", "--symref", *_upload_pack(git), "--", _url_of(git), "HEAD")
    output = git.run(*arguments, action=f"ask {git.remote}").decode("utf-8", "replace")
    pairs = (line.split("\t") for line in output.splitlines())
    found = [left for left, name in pairs if name == "HEAD"]
    targets = [left.removeprefix("ref: refs/heads/") for left in found if left.startswith("ref: ")]
    oids = list(filter(is_object_id, found))
    if not oids or not targets:
        raise ConfigurationError(
            f"{git.remote}: its HEAD names no branch that exists (an empty repository, or a default branch that was "
            "renamed or deleted); name a branch with --base or git.baseBranch"
        )
    return check_branch_name(targets[0]), oids[0]


def _list_remote(git: GitCommand, *patterns: str) -> dict[str, str]:
    arguments = ("ls-remote", "--heads", *_upload_pack(git), "--", _url_of(git), *patterns)
    output = git.run(*arguments, action=f"list branches of {git.remote}")
    pairs = [line.partition("\t") for line in output.decode("utf-8", "replace").splitlines()]
    return {ref: oid for oid, _, ref in pairs if is_object_id(oid)}


def _fetch_refs(
    git: GitCommand, refs: Sequence[str], options: Sequence[str], history_of: Sequence[str] = ()
) -> tuple[str, ...]:
    """The commits of some refs, fetched in one request; `history_of` are fetched only for their history."""
    pairs = (f"{ref}:{ref}" for ref in dict.fromkeys((*refs, *history_of)))
    named = refs[0].removeprefix("refs/heads/") if len(refs) == 1 else f"{len(refs)} branches"
    action = f"fetch {named} of {git.remote}"
    completed = git.attempt(*FETCH, *options, *_upload_pack(git), "--", _url_of(git), *pairs, action=action)
    if b"couldn't find remote ref" in completed.stderr:
        raise RivalRunError(f"{action}: it was deleted meanwhile")
    if completed.status != 0:
        raise explain_failure(action, completed.status, completed.stderr, git.redactor)
    shown = git.run("rev-parse", "--end-of-options", *(f"{ref}^{{commit}}" for ref in refs), action=action)
    oids = [line for line in shown.decode("ascii", "replace").splitlines() if line != "--end-of-options"]
    return tuple(check_object_id(oid) for oid in oids)


def _upload_pack(git: GitCommand) -> tuple[str, ...]:
    return git.remote.upload_pack if git.remote else ()


def _url_of(git: GitCommand) -> str:
    if git.remote is None:
        raise ConfigurationError("this repository was opened for reading and has no remote")
    return git.remote.url
