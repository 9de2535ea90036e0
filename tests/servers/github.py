"""A GitHub with a memory: pull requests over real bare git repositories, with faults to switch on.

    with serve_github() as github:
        github.add_repository("acme/fleet", path_of_bare_repository)
        ... GitHubClient(github.url, github.token, ...)

It has exactly the endpoints that we use. Each request and answer is held against GitHub's own description where that
is on this machine (`github_contract`); what breaks it is raised when the server is left.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers.git_workshop import run_git
from tests.servers.github_contract import Contract, Exchange, find_description, load_contract
from tests.servers.github_objects import (
    Json,
    PullRequestView,
    error_object,
    full_repository_object,
    label_object,
    public_user_object,
    pull_request_object,
    repository_object,
    rule_object,
    simple_pull_request_object,
    user_object,
    validation_error_object,
)

MISSING_COMMIT = "0" * 40
START_S = 1_790_000_000.0
ROLES = ("admin", "maintain", "push", "triage", "pull")
"""Each may all that those after it may."""
QUEUE_FIELD = re.compile(r"(p\d+): pullRequest\(number: (\d+)\) \{ isInMergeQueue \}")


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
    """A pull request as the server remembers it; `head_repository` None is this repository, empty a deleted fork."""

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
    closed_s: float | None = None
    merged_s: float | None = None
    in_merge_queue: bool = False
    hidden_lists: int = 0


@dataclass(kw_only=True)
class StoredRepository:
    """A repository with its pull requests by number.

    `role` is the token's: admin, push, triage, pull, or empty for a workflow's token, which has none. `rules` are the
    types of rules by the beginning of a branch's name.
    """

    full_name: str
    directory: Path
    id: int
    archived: bool = False
    renamed_to: str = ""
    role: str = "push"
    allows_auto_merge: bool = True
    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pull_requests: dict[int, StoredPullRequest] = field(default_factory=dict)

    def branches(self) -> dict[str, str]:
        """Branch -> commit, as git has them now."""
        lines = run_git(self.directory, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/").splitlines()
        return {name.removeprefix("refs/heads/"): commit for name, commit in map(str.split, lines)}


class GitHubServer:
    """The state behind the server, and a person's hands on it.

    `has_graphql`, `labels_work` and `has_user` switch parts off; `hide_new_for` keeps a new pull request out of that
    many lists; `next_page` is where its Link headers lead; `faults` go wrong once or more; `requests` grows with each
    request.
    """

    def __init__(self, contract: Contract | None) -> None:
        self.url = ""
        self.token = "ghs_1234_eyJhbGciOi.JSUzI1NiJ9-canary_token"
        self.login = "reconciler-bot"
        self.user_name = "Reconciler Bot"
        self.has_user = True
        self.has_graphql = True
        self.hide_new_for = 0
        self.next_page = "http://evil.invalid"
        self.now_s = START_S
        self.requests: list[LoggedRequest] = []
        self.faults: list[Fault] = []
        self.violations: list[str] = []
        self.operations: set[str] = set()
        self.repositories: dict[str, StoredRepository] = {}
        self._contract = contract
        self._lock = threading.Lock()

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
        content = error_object("Something failed") if body is None else body
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
    ) -> StoredPullRequest:
        """Open a pull request as somebody else would; `fork` is OWNER/NAME, or empty for a deleted one."""
        return self._store(self.repositories[full_name.lower()], head, base, title, body, fork=fork)

    def close(self, full_name: str, number: int) -> None:
        """Close without merging, as a person."""
        self._close(self.repositories[full_name.lower()].pull_requests[number])

    def merge(self, full_name: str, number: int) -> str:
        """Merge with a merge commit, as a person, and return it; the head branch stays."""
        repository = self.repositories[full_name.lower()]
        stored = repository.pull_requests[number]
        branches = repository.branches()
        base, head = branches[stored.base], branches[stored.head]
        tree = run_git(repository.directory, "merge-tree", "--write-tree", base, head).splitlines()[0]
        message = f"Merge pull request #{number} from {stored.head}"
        commit = run_git(repository.directory, "commit-tree", tree, "-p", base, "-p", head, "-m", message)
        run_git(repository.directory, "update-ref", f"refs/heads/{stored.base}", commit, base)
        self._close(stored)
        stored.merged_s = stored.closed_s
        return commit

    @property
    def writes(self) -> list[LoggedRequest]:
        """The requests that could have changed something."""
        return [request for request in self.requests if request.is_write]

    # The server's side.

    def answer(self, method: str, target: str, headers: Mapping[str, str], content: bytes) -> Answer | None:
        """The answer to one request; None cuts the connection."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        body = json.loads(content) if content else None
        with self._lock:
            fault = next((each for each in self.faults if each.strikes(method, parts.path)), None)
            answer = None
            if fault is None or fault.applied:
                answer = self._route(method, parts.path, query, headers, body)
                self._check(method, parts.path, query, body, answer)
            if fault is not None:
                answer = fault.answer
                if answer is not None and answer.status in {403, 404, 409, 422, 429, 500}:
                    self._check(method, parts.path, query, body, answer)
            logged = LoggedRequest(
                method=method,
                path=parts.path,
                query=query,
                body=body,
                headers=headers,
                status=answer.status if answer else 0,
            )
            self.requests.append(logged)
        return answer

    def _check(self, method: str, path: str, query: Mapping[str, str], body: Any, answer: Answer) -> None:
        if self._contract is None or path == "/graphql" or isinstance(answer.body, bytes):
            return
        exchange = Exchange(method=method, path=path, query=query, body=body, status=answer.status, answer=answer.body)
        self.operations.add(self._contract.operation_id(method, path))
        self.violations += self._contract.violations(exchange)

    def _route(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        if (
            headers.get("Authorization") != f"token {self.token}"
            and headers.get("Authorization") != f"Bearer {self.token}"
        ):
            return Answer(status=401, body=error_object("Bad credentials"))
        if path == "/user" and method == "GET":
            return self._user()
        if path == "/graphql" and method == "POST":
            return self._graphql(body)
        match = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        repository = self.repositories.get(match[1].lower()) if match else None
        if match is None or repository is None:
            return Answer(status=404, body=error_object("Not Found"))
        self._refresh(repository)
        for route_method, pattern, respond in self._routes(repository, query, body):
            if route_method == method and (found := re.fullmatch(pattern, match[2] or "")):
                return respond(*found.groups())
        return Answer(status=404, body=error_object("Not Found"))

    def _routes(
        self, repository: StoredRepository, query: Mapping[str, str], body: Any
    ) -> list[tuple[str, str, Callable[..., Answer]]]:
        return [
            ("GET", "", lambda: self._repository_answer(repository)),
            ("GET", r"/rules/branches/([^/]+)", lambda branch: self._rules(repository, branch)),
            ("GET", r"/branches/([^/]+)/protection", lambda _: self._protection(repository)),
            ("GET", "/pulls", lambda: self._list(repository, query)),
            ("POST", "/pulls", lambda: self._create(repository, body)),
            ("GET", r"/pulls/(\d+)", lambda number: self._one(repository, number)),
            ("PATCH", r"/pulls/(\d+)", lambda number: self._edit(repository, number, body)),
            ("POST", r"/issues/(\d+)/labels", lambda number: self._add_labels(repository, number, body)),
            ("POST", r"/pulls/(\d+)/requested_reviewers", lambda number: self._review(repository, number, body)),
        ]

    def _user(self) -> Answer:
        if not self.has_user:
            return Answer(status=403, body=error_object("Resource not accessible by integration"))
        return Answer(status=200, body=public_user_object(self.url, self.login, 99, self.user_name, START_S))

    def _graphql(self, body: Any) -> Answer:
        if not self.has_graphql:
            return Answer(status=404, body=error_object("Not Found"))
        variables = body["variables"]
        repository = self.repositories[f"{variables['owner']}/{variables['name']}".lower()]
        asked = QUEUE_FIELD.findall(body["query"])
        queued = {
            alias: {"isInMergeQueue": repository.pull_requests[int(number)].in_merge_queue} for alias, number in asked
        }
        return Answer(status=200, body={"data": {"repository": queued}})

    def _repository_answer(self, repository: StoredRepository) -> Answer:
        shown = self._repository(repository.renamed_to or repository.full_name)
        role = ROLES.index(repository.role) if repository.role else len(ROLES)
        told = {
            "archived": repository.archived,
            "permissions": {name: index >= role for index, name in enumerate(ROLES)},
            "allow_auto_merge": repository.allows_auto_merge,
        }
        return Answer(status=200, body={**full_repository_object(shown), **told})

    def _rules(self, repository: StoredRepository, branch: str) -> Answer:
        name = unquote(branch)
        types = [each for start, rules in repository.rules.items() if name.startswith(start) for each in rules]
        return Answer(status=200, body=[rule_object(each) for each in types])

    def _protection(self, repository: StoredRepository) -> Answer:
        if repository.role != "admin":
            return Answer(status=403, body=error_object("Resource not accessible by personal access token"))
        return Answer(status=404, body=error_object("Branch not protected"))

    def _list(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in repository.pull_requests.values() if self._is_listed(repository, each, query)]
        by_update = query.get("sort") == "updated"
        found.sort(key=lambda each: (each.updated_s if by_update else each.created_s, each.number))
        if query.get("direction", "desc") == "desc":
            found.reverse()
        size, page = min(100, int(query.get("per_page", "30"))), int(query.get("page", "1"))
        shown = found[(page - 1) * size : page * size]
        headers = {}
        if page * size < len(found):  # an address that must not be followed: paging is by number
            headers["Link"] = f'<{self.next_page}/steal?page={page + 1}>; rel="next"'
        body = [simple_pull_request_object(self.url, self._view(repository, each)) for each in shown]
        return Answer(status=200, body=body, headers=headers)

    def _is_listed(self, repository: StoredRepository, stored: StoredPullRequest, query: Mapping[str, str]) -> bool:
        if stored.hidden_lists:
            stored.hidden_lists -= 1
            return False
        owner = (stored.head_repository or repository.full_name).partition("/")[0]
        return (
            query.get("state", "open") in {stored.state, "all"}
            and query.get("base", stored.base) == stored.base
            and query.get("head", f"{owner}:{stored.head}") == f"{owner}:{stored.head}"
        )

    def _create(self, repository: StoredRepository, body: Any) -> Answer:
        if repository.role not in ("admin", "push", ""):
            return Answer(status=403, body=error_object("Resource not accessible by personal access token"))
        branches = repository.branches()
        head, base = body["head"], body["base"]
        for field_name, branch in (("head", head), ("base", base)):
            if branch not in branches:
                error = {"resource": "PullRequest", "field": field_name, "code": "invalid"}
                return Answer(status=422, body=validation_error_object(error))
        ours = (each for each in repository.pull_requests.values() if each.head_repository is None)
        if any((each.state, each.head, each.base) == ("open", head, base) for each in ours):
            owner = repository.full_name.partition("/")[0]
            return _refuse_create(f"A pull request already exists for {owner}:{head}.")
        if run_git(repository.directory, "rev-list", "--count", f"{branches[base]}..{branches[head]}") == "0":
            return _refuse_create(f"No commits between {base} and {head}")
        stored = self._store(repository, head, base, body["title"], body.get("body"), draft=body.get("draft", False))
        stored.head_commit = branches[head]
        stored.hidden_lists = self.hide_new_for
        return Answer(status=201, body=pull_request_object(self.url, self._view(repository, stored)))

    def _one(self, repository: StoredRepository, number: str) -> Answer:
        stored = repository.pull_requests.get(int(number))
        if stored is None:
            return Answer(status=404, body=error_object("Not Found"))
        return Answer(status=200, body=pull_request_object(self.url, self._view(repository, stored)))

    def _edit(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        stored.title = body.get("title", stored.title)
        stored.body = body.get("body", stored.body)
        stored.updated_s = self._tick()
        if body.get("state") == "closed" and stored.state == "open":
            self._close(stored)
        return self._one(repository, number)

    def _add_labels(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        stored.labels += [label for label in body["labels"] if label not in stored.labels]
        stored.updated_s = self._tick()
        return Answer(status=200, body=self._labels(repository, stored))

    def _review(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        stored.reviewers += [*body.get("reviewers", []), *body.get("team_reviewers", [])]
        view = replace(self._view(repository, stored))
        return Answer(status=201, body=simple_pull_request_object(self.url, view))

    def _refresh(self, repository: StoredRepository) -> None:
        """As on GitHub, a pull request closes by itself when its head branch is deleted."""
        branches = repository.branches()
        for stored in repository.pull_requests.values():
            if stored.state != "open" or stored.head_repository is not None:
                continue
            if stored.head in branches:
                stored.head_commit = branches[stored.head]
            else:
                self._close(stored)

    def _store(
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
        now_s = self._tick()
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

    def _close(self, stored: StoredPullRequest) -> None:
        stored.state = "closed"
        stored.closed_s = stored.updated_s = self._tick()

    def _tick(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def _view(self, repository: StoredRepository, stored: StoredPullRequest) -> PullRequestView:
        here = self._repository(repository.full_name)
        return PullRequestView(
            number=stored.number,
            title=stored.title,
            body=stored.body,
            state=stored.state,
            draft=stored.draft,
            base=stored.base,
            base_commit=MISSING_COMMIT,
            head=stored.head,
            head_commit=stored.head_commit,
            repository=here,
            head_repository=here if stored.head_repository is None else self._fork(stored.head_repository),
            labels=self._labels(repository, stored),
            reviewers=[user_object(self.url, login, 100 + number) for number, login in enumerate(stored.reviewers)],
            user=user_object(self.url, self.login, 99),
            created_s=stored.created_s,
            updated_s=stored.updated_s,
            closed_s=stored.closed_s,
            merged_s=stored.merged_s,
        )

    def _labels(self, repository: StoredRepository, stored: StoredPullRequest) -> list[Json]:
        names = enumerate(stored.labels, start=1)
        return [label_object(self.url, repository.full_name, name, number) for number, name in names]

    def _repository(self, full_name: str) -> Json:
        owner = user_object(self.url, full_name.partition("/")[0], 7)
        return repository_object(self.url, full_name, 1, owner, START_S)

    def _fork(self, full_name: str) -> Json | None:
        return self._repository(full_name) if full_name else None


@contextmanager
def serve_github() -> Iterator[GitHubServer]:
    """A running server on a free port of 127.0.0.1; leaving it raises what broke GitHub's contract."""
    description = find_description()
    state = GitHubServer(load_contract(description) if description else None)

    class Connection(_Connection):
        github = state

    with ThreadingHTTPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        server.block_on_close = False
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
    if state.violations:
        raise AssertionError("GitHub's contract was broken:\n" + "\n".join(dict.fromkeys(state.violations)))


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # header and body in one piece: two would wait 40 ms for each other
    github: GitHubServer

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def do_PATCH(self) -> None:
        self._respond()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (the base class's name)
        """Nothing: the server keeps its own log."""

    def _respond(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        answer = self.github.answer(self.command, self.path, dict(self.headers.items()), content)
        if answer is None:
            self.close_connection = True
            return
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        limits = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1790003600"}
        content_headers = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**limits, **content_headers, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _refuse_create(message: str) -> Answer:
    error = {"resource": "PullRequest", "code": "custom", "message": message}
    return Answer(status=422, body=validation_error_object(error))
