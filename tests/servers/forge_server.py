"""What the servers of all forges have in common: a memory over real bare git repositories, faults, and a log.

Each request and answer is held against the forge's own description as far as there is one (`contract`); what breaks it
is raised when the server is left.
"""

import functools
import json
import re
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from tests.servers.contract import Contract, Exchange
from tests.servers.git_workshop import run_git

MISSING_COMMIT = "0" * 40
START_S = 1_790_000_000.0
CHECKED_FAULTS = {403, 404, 409, 422, 429, 500}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request gets; `body` is JSON, or bytes as they are."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Fault:
    """Something that goes wrong for matching requests: those after the first `after`, `times` of them.

    `answer` None cuts the connection. `applied` lets the request take effect first: the answer alone is lost.
    """

    method: str
    path: re.Pattern[str]
    answer: Answer | None
    after: int = 0
    times: int = 1
    applied: bool = False

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is one of them; counts it when it matches."""
        if method != self.method or not self.path.search(path) or not self.times:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """One request as it came in, and the status that it got (0: the connection was cut)."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    status: int

    @property
    def is_write(self) -> bool:
        """Whether it could have changed something."""
        return self.method != "GET" and not self.path.endswith("/graphql")


@dataclass(kw_only=True)
class StoredPullRequest:
    """A pull request as the server remembers it; `head_repository` None is this repository, empty a deleted fork.

    `mergeable_state` is what rules and checks make of it, unknown for so many looks; `reviews` are pairs of who and
    what, `merged_by` the method, `told_by` who switched auto-merge on.
    """

    number: int
    title: str
    body: str | None
    head: str
    base: str
    draft: bool
    created_s: float
    updated_s: float
    head_repository: str | None = None
    state: str = "open"
    head_commit: str = MISSING_COMMIT
    labels: list[str] = field(default_factory=list)
    reviewers: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    milestone: str = ""
    closed_s: float | None = None
    merged_s: float | None = None
    in_merge_queue: bool = False
    mergeable_state: str = "clean"
    unknown_for: int = 0
    reviews: list[tuple[str, str]] = field(default_factory=list)
    merged_by: str = ""
    told_by: str = ""
    author: str = ""
    """Who opened it; empty: our account."""
    hidden_lists: int = 0


@dataclass(kw_only=True)
class StoredComment:
    """A comment under a pull request."""

    number: int
    body: str
    user_id: int
    login: str
    created_s: float
    updated_s: float


@dataclass(kw_only=True)
class StoredIssue:
    """An issue; `login` empty is our account."""

    number: int
    title: str
    body: str
    labels: list[str]
    created_s: float
    login: str = ""
    state: str = "open"
    closed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A push as the forge saw it; `by` is empty for our account."""

    branch: str
    commit: str
    by: str
    at_s: float


@dataclass(kw_only=True)
class StoredRepository:
    """A repository with its pull requests by number.

    `role` is the token's: admin, push, triage, pull, or empty for a workflow's token, which has none. `rules` are the
    types of rules by the beginning of a branch's name. With `has_queue` only auto-merge merges; `methods` are allowed.
    """

    full_name: str
    directory: Path
    id: int
    archived: bool = False
    renamed_to: str = ""
    role: str = "push"
    allows_auto_merge: bool = True
    has_queue: bool = False
    methods: Sequence[str] = ("merge", "squash", "rebase")
    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)
    may_bypass: str = "never"
    """What a ruleset says of our account."""
    pull_requests: dict[int, StoredPullRequest] = field(default_factory=dict)
    comments: dict[int, StoredComment] = field(default_factory=dict)
    issues: dict[int, StoredIssue] = field(default_factory=dict)
    """By number, from 1001 on."""
    milestones: tuple[str, ...] = ("2026-Q1", "2026-Q2")
    """Titles of the open ones, numbered from 1 on."""
    statuses: dict[str, list[Any]] = field(default_factory=dict)
    """By commit, the newest first, as the forge shows them."""
    pushes: list[Push] = field(default_factory=list)
    """The oldest first."""

    def branches(self) -> dict[str, str]:
        """Branch -> commit, as git has them now."""
        lines = run_git(self.directory, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/").splitlines()
        return {name.removeprefix("refs/heads/"): commit for name, commit in map(str.split, lines)}


@functools.cache
def forge_key() -> Path:
    """The key that a forge signs with."""
    path = Path(tempfile.mkdtemp(prefix="forge-key-"), "key")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


class ForgeServer(ABC):
    """The state behind a server, and a person's hands on it.

    `hide_new_for` keeps a new pull request out of that many lists; `next_page` is where its Link headers lead;
    `faults` go wrong once or more; `requests` grows with each request; `pushed_by` says which commits others pushed.
    """

    kind: str
    """What `forge.kind` calls it."""
    creates: tuple[str, str]
    """Method and path (a regular expression) by which one is opened, and so on."""
    lists: tuple[str, str]
    updates: tuple[str, str]
    head_ref: str
    """Where it keeps the head of a pull request, with its `{number}`."""
    merge_words: str
    limit_headers: Mapping[str, str]
    unchecked: frozenset[str] = frozenset()
    """Paths that the description leaves out."""
    root = ""
    """The path that its API is below."""

    def __init__(self, contract: Contract | None) -> None:
        self.host = ""
        self.token = ""
        self.login = "reconciler-bot"
        self.user_name = "Reconciler Bot"
        self.has_user = True
        self.hide_new_for = 0
        self.next_page = "http://evil.invalid"
        self.now_s = START_S
        self.requests: list[LoggedRequest] = []
        self.faults: list[Fault] = []
        self.violations: list[str] = []
        self.operations: set[str] = set()
        self.repositories: dict[str, StoredRepository] = {}
        self.pushed_by: dict[str, str] = {}
        self.signs = True
        """Whether it signs what its API commits, in the name of our account."""
        self.commit_author = "reconciler@noreply.invalid"
        self._contract = contract
        self._lock = threading.Lock()

    @property
    def pages(self) -> str:
        """Where its pages for people are."""
        return self.host

    @property
    def url(self) -> str:
        """The root of its API."""
        return f"{self.host}{self.root}"

    # A person's hands.

    def add_repository(self, full_name: str, directory: Path) -> StoredRepository:
        """Serve a bare repository under OWNER/NAME."""
        repository = StoredRepository(full_name=full_name, directory=directory, id=len(self.repositories) + 1)
        self.repositories[full_name.lower()] = repository
        return repository

    def fail(  # what goes wrong, where, and how often
        self,
        method: str,
        path: str,
        *,
        status: int,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        after: int = 0,
        times: int = 1,
    ) -> None:
        """Answer matching requests (`path` is a regular expression) with `status` instead."""
        content = self.error("Something failed") if body is None else body
        answer = Answer(status=status, body=content, headers=headers or {})
        self.faults.append(Fault(method=method, path=re.compile(path), answer=answer, after=after, times=times))

    def cut(self, method: str, path: str, *, applied: bool = False, times: int = 1) -> None:
        """End the connection instead of answering; with `applied` after the request took effect."""
        self.faults.append(Fault(method=method, path=re.compile(path), answer=None, applied=applied, times=times))

    def open_pull_request(
        self,
        full_name: str,
        *,
        head: str,
        base: str = "main",
        title: str = "A title",
        body: str = "",
        fork: str | None = None,
        commit: str = "",
        author: str = "",
    ) -> StoredPullRequest:
        """Open a pull request as `author` would; `fork` is OWNER/NAME, or empty for a deleted one.

        `commit` is a fork's head, which this repository holds under the number of the pull request alone.
        """
        repository = self.repositories[full_name.lower()]
        stored = self.store(repository, head, base, title, body, fork=fork)
        stored.author = author
        found = commit or repository.branches().get(head, "")
        if found:
            self.push_head(full_name, stored.number, found)
        return stored

    def push_head(self, full_name: str, number: int, commit: str) -> None:
        """Make a commit, which the repository holds, the head of a pull request."""
        repository = self.repositories[full_name.lower()]
        repository.pull_requests[number].head_commit = commit
        run_git(repository.directory, "update-ref", self.head_ref.format(number=number), commit)

    def comment(self, full_name: str, number: int, body: str, *, login: str = "mallory", user_id: int = 666) -> int:
        """Comment as somebody else, and return the comment's number."""
        return self.store_comment(self.repositories[full_name.lower()], number, body, login, user_id)

    def close(self, full_name: str, number: int) -> None:
        """Close without merging, as a person."""
        self.close_stored(self.repositories[full_name.lower()].pull_requests[number])

    def merge(self, full_name: str, number: int) -> str:
        """Merge as a person, with a merge commit unless the request said otherwise, and return it; the branch stays."""
        repository = self.repositories[full_name.lower()]
        stored = repository.pull_requests[number]
        branches = repository.branches()
        base, head = branches[stored.base], branches[stored.head]
        tree = run_git(repository.directory, "merge-tree", "--write-tree", base, head).splitlines()[0]
        message = f"{self.merge_words.format(number=number)} from {stored.head}"
        parents = ("-p", base) if stored.merged_by in ("squash", "rebase") else ("-p", base, "-p", head)
        commit = run_git(repository.directory, "commit-tree", tree, *parents, "-m", message)
        run_git(repository.directory, "update-ref", f"refs/heads/{stored.base}", commit, base)
        self.close_stored(stored)
        stored.merged_s = stored.closed_s
        return commit

    def commit_files(
        self, repository: StoredRepository, branch: str, files: Mapping[str, bytes], message: str, committer: str
    ) -> str:
        """Commit to a branch as the API does for our account, signed with the forge's own key, if it has one."""
        directory, parent = repository.directory, repository.branches()[branch]
        people = {"AUTHOR_NAME": "Reconciler", "AUTHOR_EMAIL": self.commit_author, "COMMITTER_EMAIL": committer}
        people |= dict.fromkeys(("AUTHOR_DATE", "COMMITTER_DATE"), f"@{self.now_s:.0f} +0000")
        signing = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={forge_key()}")
        with tempfile.TemporaryDirectory() as folder:
            file, index = Path(folder, "file"), {"GIT_INDEX_FILE": f"{folder}/index"}
            run_git(directory, "read-tree", parent, **index)
            for path, content in files.items():
                file.write_bytes(content)
                oid = run_git(directory, "hash-object", "-w", str(file))
                run_git(directory, "update-index", "--add", "--cacheinfo", f"100644,{oid},{path}", **index)
            tree = run_git(directory, "write-tree", **index)
            file.write_text(message)
            command = ("commit-tree", *(["-S"] if self.signs else []), "-p", parent, "-F", str(file), tree)
            told = {f"GIT_{name}": value for name, value in people.items()}
            commit = run_git(directory, *signing, *command, **told)
        run_git(directory, "update-ref", f"refs/heads/{branch}", commit, parent)
        return commit

    def meet_rules(self, full_name: str, number: int) -> None:
        """Let checks pass and reviewers approve: what is to be merged then is merged."""
        stored = self.repositories[full_name.lower()].pull_requests[number]
        stored.mergeable_state = "clean"
        if stored.told_by:
            self.merge(full_name, number)

    @property
    def writes(self) -> list[LoggedRequest]:
        """The requests that could have changed something."""
        return [request for request in self.requests if request.is_write]

    # The server's side.

    def answer(self, method: str, target: str, headers: Mapping[str, str], content: bytes) -> Answer | None:
        """The answer to one request; None cuts the connection."""
        parts = urlsplit(target)
        path = parts.path.removeprefix(self.root)
        query = dict(parse_qsl(parts.query))
        body = json.loads(content) if content else None
        with self._lock:
            fault = next((each for each in self.faults if each.strikes(method, path)), None)
            answer = None
            if fault is None or fault.applied:
                answer = self.route(method, path, query, headers, body)
                self._check(method, path, query, body, answer)
            if fault is not None:
                answer = fault.answer
                if answer is not None and answer.status in CHECKED_FAULTS:
                    self._check(method, path, query, body, answer)
            logged = LoggedRequest(
                method=method,
                path=path,
                query=query,
                body=body,
                headers=headers,
                status=answer.status if answer else 0,
            )
            self.requests.append(logged)
        return answer

    @abstractmethod
    def error(self, message: str) -> Any:
        """An error's body."""

    @abstractmethod
    def route(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """What this forge answers."""

    def _check(self, method: str, path: str, query: Mapping[str, str], body: Any, answer: Answer) -> None:
        shown = answer.body or None if isinstance(answer.body, bytes) else answer.body
        if self._contract is None or path in self.unchecked or isinstance(shown, bytes):
            return
        exchange = Exchange(method=method, path=path, query=query, body=body, status=answer.status, answer=shown)
        self.operations.add(self._contract.operation_id(method, path))
        self.violations += self._contract.violations(exchange)

    def note_pushes(self, repository: StoredRepository, branches: Mapping[str, str]) -> None:
        """Remember when branches came to their commits: at the first request after that."""
        known = {each.branch: each.commit for each in repository.pushes}
        for branch, commit in branches.items():
            if known.get(branch) != commit:
                by = self.pushed_by.get(commit, "")
                repository.pushes.append(Push(branch=branch, commit=commit, by=by, at_s=self.now_s))

    def store(
        self,
        repository: StoredRepository,
        head: str,
        base: str,
        title: str,
        body: str | None,
        *,
        fork: str | None = None,
        draft: bool = False,
    ) -> StoredPullRequest:
        """Remember a new one; `fork` as in `open_pull_request`."""
        now_s = self.tick()
        stored = StoredPullRequest(
            number=max(repository.pull_requests, default=0) + 1,
            title=title,
            body=body or None,
            head=head,
            base=base,
            draft=draft,
            created_s=now_s,
            updated_s=now_s,
            head_repository=fork,
        )
        repository.pull_requests[stored.number] = stored
        return stored

    def store_issue(self, full_name: str, title: str, body: str, labels: Sequence[str], login: str = "") -> StoredIssue:
        """Remember a new issue of ours, or of somebody else."""
        issues, now_s = self.repositories[full_name.lower()].issues, self.tick()
        number = 1001 + len(issues)
        issues[number] = StoredIssue(
            number=number, title=title, body=body, labels=list(labels), created_s=now_s, login=login
        )
        return issues[number]

    def edit_issue(self, stored: StoredIssue, title: str, body: str, *, closes: bool) -> None:
        """Change an issue, and close it."""
        stored.title, stored.body = title, body
        if closes:
            stored.state, stored.closed_s = "closed", self.tick()

    def store_comment(self, repository: StoredRepository, number: int, body: str, login: str, user_id: int) -> int:
        """Remember a new comment, and return its number."""
        now_s = self.tick()
        key = 5000 + int(now_s - START_S)
        repository.comments[key] = StoredComment(
            number=number, body=body, user_id=user_id, login=login, created_s=now_s, updated_s=now_s
        )
        return key

    def close_stored(self, stored: StoredPullRequest) -> None:
        """Mark as closed."""
        stored.state = "closed"
        stored.closed_s = stored.updated_s = self.tick()

    def tick(self) -> float:
        """A second passes."""
        self.now_s += 1.0
        return self.now_s


def page_of(found: list[Any], query: Mapping[str, str]) -> list[Any]:
    """What of a list a request gets."""
    size, page = min(100, int(query.get("per_page", "30"))), int(query.get("page", "1"))
    return found[(page - 1) * size : page * size]


AnyForge = TypeVar("AnyForge", bound=ForgeServer)


@contextmanager
def serve_forge(state: AnyForge) -> Iterator[AnyForge]:
    """A running server on a free port of 127.0.0.1; leaving it raises what broke the forge's contract."""

    class Connection(_Connection):
        forge = state

    with ThreadingHTTPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        server.block_on_close = False
        state.host = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
    if state.violations:
        raise AssertionError(f"the contract of {state.kind} was broken:\n" + "\n".join(dict.fromkeys(state.violations)))


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # header and body in one piece: two would wait 40 ms for each other
    forge: ForgeServer

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def do_PATCH(self) -> None:
        self._respond()

    def do_PUT(self) -> None:
        self._respond()

    def do_DELETE(self) -> None:
        self._respond()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (the base class's name)
        """Nothing: the server keeps its own log."""

    def _respond(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        answer = self.forge.answer(self.command, self.path, dict(self.headers.items()), content)
        if answer is None:
            self.close_connection = True
            return
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        if answer.status == 204:
            body = b""
        self.send_response(answer.status)
        content_headers = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**self.forge.limit_headers, **content_headers, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
