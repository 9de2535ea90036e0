"""A GitLab with a memory: merge requests over real bare git repositories, with faults to switch on.

    with serve_gitlab() as gitlab:
        gitlab.add_repository("acme/platform/fleet", path_of_bare_repository)
        ... GitLabClient(gitlab.url, gitlab.token, ...)

It has exactly the endpoints that we use, and acts on texts as GitLab does: quick actions, drafts by title, carriage
returns and spaces at the end. Each request and answer is held against what its API reference says (`gitlab_contract`).
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from tests.servers.contract import Contract
from tests.servers.forge_server import (
    MISSING_COMMIT,
    Answer,
    ForgeServer,
    StoredIssue,
    StoredPullRequest,
    StoredRepository,
    page_of,
    serve_forge,
)
from tests.servers.git_workshop import run_git
from tests.servers.gitlab_contract import load_contract
from tests.servers.gitlab_objects import (
    Json,
    MergeRequestView,
    branch_object,
    commit_object,
    event_object,
    merge_request_object,
    note_object,
    own_user_object,
    project_object,
    status_object,
    user_object,
)

LIMIT_HEADERS = {"RateLimit-Limit": "2000", "RateLimit-Remaining": "1999", "RateLimit-Reset": "1790000060"}
QUICK_ACTION = re.compile(
    r"(?P<code>^```\n.+?\n```$)|^/(?:merge|close|label|assign|approve|draft|ready|title)\b[^\n]*(?:\n|$)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
OWN_ID = 99
DEVELOPER, MAINTAINER = 30, 40
STATES = {"open": "opened"}
MERGE_STATES = {"clean": "mergeable"}


class GitLabServer(ForgeServer):
    """The state behind the server.

    `access_level` is the token's (None: told nowhere); `group_access` whether a group gives it. `users` are by number.
    `commands` are the quick actions that texts of ours contained. `pipelines` are commit and state of the newest one of
    a merge request, by number.
    """

    kind = "gitlab"
    creates = ("POST", r"/merge_requests$")
    lists = ("GET", r"/merge_requests$")
    updates = ("PUT", r"/merge_requests/\d+$")
    head_ref = "refs/merge-requests/{number}/head"
    merge_words = "Merge !{number}"
    limit_headers = LIMIT_HEADERS
    root = "/api/v4"

    def __init__(self, contract: Contract | None) -> None:
        super().__init__(contract)
        self.token = "glpat-1234-canary_token"
        self.access_level: int | None = DEVELOPER
        self.group_access = False
        self.users: dict[int, str] = {7: "alice", 8: "bob"}
        self.most_reviewers = 1
        self.creates_labels = True
        self.protections: Sequence[Json] = ()
        self.push_rule: Json | None = None
        self.resets_approvals: bool | None = None
        self.project: Json = {}
        self.commit_email = "reconciler-bot@noreply.gitlab.example.com"
        self.commands: list[str] = []
        self.expires_on = ""
        self.can_merge = True
        self.pipelines: dict[int, tuple[str, str]] = {}
        self.schedules: Sequence[Json] = ()

    def error(self, message: str) -> Json:
        """See `ForgeServer`."""
        return {"message": message}

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """See `ForgeServer`."""
        if headers.get("PRIVATE-TOKEN") != self.token:
            return Answer(status=401, body=self.error("401 Unauthorized"))
        if method == "GET" and path == "/user":
            return self._user()
        if method == "GET" and path == "/personal_access_tokens/self" and self.expires_on:
            token = {"id": 1, "name": "reconciler", "scopes": ["api"], "active": True, "expires_at": self.expires_on}
            return Answer(status=200, body=token)
        if method == "GET" and path == "/events":
            return self._events(query)
        if method == "GET" and path == "/users":
            found = [(number, name) for number, name in self.users.items() if name == query["username"].lower()]
            return Answer(status=200, body=[self._person(number, name) for number, name in found])
        match = re.fullmatch(r"/projects/([^/]+)(/.*)?", path)
        repository = self.repositories.get(unquote(match[1]).lower()) if match else None
        if match is None or repository is None:
            return Answer(status=404, body=self.error("404 Project Not Found"))
        self._refresh(repository)
        for route_method, pattern, respond in self._routes(repository, query, body):
            if route_method == method and (found_path := re.fullmatch(pattern, match[2] or "")):
                return respond(*found_path.groups())
        return Answer(status=404, body={"error": "404 Not Found"})

    def _routes(
        self, repository: StoredRepository, query: Mapping[str, str], body: Any
    ) -> list[tuple[str, str, Callable[..., Answer]]]:
        return [
            ("GET", "", lambda: self._project(repository)),
            ("GET", "/issues", lambda: self._issues(repository, query)),
            ("POST", "/issues", lambda: self._open_issue(repository, body)),
            ("PUT", r"/issues/(\d+)", lambda number: self._edit_issue(repository, number, body)),
            ("GET", "/milestones", lambda: Answer(status=200, body=page_of(_milestones(repository), query))),
            ("GET", "/merge_requests", lambda: self._list(repository, query)),
            ("POST", "/merge_requests", lambda: self._create(repository, body)),
            ("GET", r"/merge_requests/(\d+)", lambda number: self._one(repository, number)),
            ("PUT", r"/merge_requests/(\d+)", lambda number: self._edit(repository, number, body)),
            ("GET", r"/merge_requests/(\d+)/notes", lambda number: self._notes(repository, number, query)),
            ("POST", r"/merge_requests/(\d+)/notes", lambda number: self._note(repository, number, body)),
            ("PUT", r"/merge_requests/\d+/notes/(\d+)", lambda key: self._edit_note(repository, key, body)),
            ("DELETE", r"/merge_requests/\d+/notes/(\d+)", lambda key: self._delete_note(repository, key)),
            ("POST", "/repository/commits", lambda: self._commit(repository, body)),
            ("GET", r"/repository/commits/([0-9a-f]+)/statuses", lambda sha: self._statuses(repository, sha, query)),
            ("POST", r"/statuses/([0-9a-f]+)", lambda sha: self._set_status(repository, sha, body)),
            ("PUT", r"/merge_requests/(\d+)/merge", lambda number: self._merge(repository, int(number), body)),
            (
                "POST",
                r"/merge_requests/(\d+)/cancel_merge_when_pipeline_succeeds",
                lambda number: self._cancel(repository, int(number)),
            ),
            ("GET", r"/merge_requests/(\d+)/reviewers", lambda number: self._reviewers(repository, int(number))),
            ("POST", r"/merge_trains/merge_requests/(\d+)", lambda number: self._board(repository, int(number), body)),
            ("GET", "/repository/compare", lambda: self._compare(repository, query["from"], query["to"])),
            ("GET", r"/repository/branches/([^/]+)", lambda name: self._branch(repository, unquote(name))),
            ("GET", "/protected_branches", self._protected_branches),
            ("GET", "/pipeline_schedules", self._schedules),
            ("GET", "/push_rule", lambda: self._paid(self.push_rule)),
            ("GET", "/approvals", self._approvals),
            ("GET", r"/members/all/(\d+)", self._member),
        ]

    def _user(self) -> Answer:
        if not self.has_user:
            return Answer(status=403, body={"error": "insufficient_scope", "error_description": "read_user is missing"})
        own = own_user_object(self.host, self.login, OWN_ID, self.user_name, self.commit_email)
        return Answer(status=200, body=own)

    def _events(self, query: Mapping[str, str]) -> Answer:
        """The pushes of our account in all projects, the newest first."""
        after_s = _seconds(f"{query['after']}T00:00:00Z")
        found = []
        for repository in self.repositories.values():
            self._refresh(repository)
            ours = (each for each in repository.pushes if not each.by and each.at_s > after_s)
            found += [event_object(each, repository.id, self._person(OWN_ID, self.login)) for each in ours]
        return Answer(status=200, body=page_of(found[::-1], query))

    def _person(self, number: int, name: str) -> Json:
        return user_object(self.host, name, number, name.title())

    def _project(self, repository: StoredRepository) -> Answer:
        level = None if self.access_level is None else {"access_level": self.access_level, "notification_level": 3}
        told = {
            "archived": repository.archived,
            "merge_requests_enabled": True,
            "merge_requests_access_level": "enabled",
            "permissions": {
                "project_access": None if self.group_access else level,
                "group_access": level if self.group_access else None,
            },
            "merge_method": "merge" if "merge" in repository.methods else "ff",
            "squash_option": _squash_option(repository.methods),
            "merge_trains_enabled": repository.has_queue,
            **self.project,
        }
        name = repository.renamed_to or repository.full_name
        return Answer(status=200, body=project_object(self.host, name, repository.id, told))

    def _list(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in repository.pull_requests.values() if self._is_listed(each, query)]
        by_update = query.get("order_by") == "updated_at"
        found.sort(key=lambda each: (each.updated_s if by_update else each.created_s, each.number))
        if query.get("sort", "desc") == "desc":
            found.reverse()
        size, page = min(100, int(query.get("per_page", "20"))), int(query.get("page", "1"))
        shown = found[(page - 1) * size : page * size]
        is_last = page * size >= len(found)
        headers = {"X-Page": str(page), "X-Per-Page": str(size), "X-Next-Page": "" if is_last else str(page + 1)}
        if not is_last:  # an address that must not be followed: paging is by number
            headers["Link"] = f'<{self.next_page}/steal?page={page + 1}>; rel="next"'
        body = [self._object(repository, each) for each in shown]
        return Answer(status=200, body=body, headers=headers)

    def _is_listed(self, stored: StoredPullRequest, query: Mapping[str, str]) -> bool:
        if stored.hidden_lists:
            stored.hidden_lists -= 1
            return False
        return (
            query.get("state", "all") in {_state(stored), "all"}
            and query.get("target_branch", stored.base) == stored.base
            and query.get("source_branch", stored.head) == stored.head
            and stored.updated_s >= _seconds(query.get("updated_after", "1970-01-01T00:00:00Z"))
        )

    def _create(self, repository: StoredRepository, body: Any) -> Answer:
        if self.access_level is not None and self.access_level < DEVELOPER:
            return Answer(status=403, body=self.error("403 Forbidden"))
        head, base = body["source_branch"], body["target_branch"]
        if head == base:
            return Answer(status=422, body={"message": ["You can't use same project/branch for source and target"]})
        ours = (each for each in repository.pull_requests.values() if each.head_repository is None)
        for each in ours:
            if (_state(each), each.head, each.base) == ("opened", head, base):
                words = f"Another open merge request already exists for this source branch: !{each.number}"
                return Answer(status=409, body={"message": [words]})
        title = body["title"].strip()
        stored = self.store(repository, head, base, title, self._without_commands(body.get("description")))
        stored.head_commit = repository.branches().get(head, MISSING_COMMIT)
        stored.hidden_lists = self.hide_new_for
        self._attach(repository, stored, body)
        return Answer(status=201, body=self._object(repository, stored))

    def _one(self, repository: StoredRepository, number: str) -> Answer:
        stored = repository.pull_requests.get(int(number))
        if stored is None:
            return Answer(status=404, body=self.error("404 Not found"))
        commit, state = self.pipelines.get(stored.number, ("", ""))
        pipeline = {"id": 1, "sha": commit or stored.head_commit, "status": state} if state else None
        told = {"head_pipeline": pipeline, "user": {"can_merge": self.can_merge}}
        shown = {**self._object(repository, stored), **told}
        stored.unknown_for = max(stored.unknown_for - 1, 0)
        return Answer(status=200, body=shown)

    def _merge(self, repository: StoredRepository, number: int, body: Any) -> Answer:
        """Merge by a request; a failed pipeline is no obstacle, unless the project asks for one that succeeds."""
        stored = repository.pull_requests[number]
        if stored.state != "open":
            return Answer(status=405, body=self.error("405 Method Not Allowed"))
        if body["sha"] != stored.head_commit:
            return Answer(
                status=409, body=self.error("SHA does not match HEAD of source branch: " + stored.head_commit)
            )
        stored.merged_by = "squash" if body.get("squash") else "merge"
        is_due = _merge_status(stored) == "mergeable"
        if body.get("auto_merge") and (not is_due or self.pipelines.get(number, ("", ""))[1] == "running"):
            if not repository.allows_auto_merge:
                return Answer(status=405, body=self.error("405 Method Not Allowed"))
            stored.told_by = self.login
        elif not is_due:
            return Answer(status=405, body=self.error("405 Method Not Allowed"))
        else:
            self.merge(repository.full_name, number)
        return Answer(status=200, body=self._object(repository, stored))

    def _cancel(self, repository: StoredRepository, number: int) -> Answer:
        stored = repository.pull_requests[number]
        stored.told_by = ""
        return Answer(status=201, body=self._object(repository, stored))

    def _reviewers(self, repository: StoredRepository, number: int) -> Answer:
        asked = [
            {"user": self._person(50, who), "state": state} for who, state in repository.pull_requests[number].reviews
        ]
        return Answer(status=200, body=asked)

    def _board(self, repository: StoredRepository, number: int, body: Any) -> Answer:
        stored = repository.pull_requests[number]
        if body["sha"] != stored.head_commit:
            return Answer(status=409, body=self.error("409 Conflict"))
        stored.told_by = self.login
        return Answer(status=201, body=[{"id": 1, "status": "idle"}])

    def _edit(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests.get(int(number))
        if stored is None:
            return Answer(status=404, body=self.error("404 Not found"))
        stored.title = body.get("title", stored.title).strip()
        if "description" in body:
            stored.body = self._without_commands(body["description"])
        gone = body.get("remove_labels", "").split(",")
        stored.labels = [label for label in stored.labels if label not in gone]
        self._attach(repository, stored, {**body, "labels": body.get("add_labels", "")})
        stored.updated_s = self.tick()
        if body.get("state_event") == "close" and stored.state == "open":
            self.close_stored(stored)
        return self._one(repository, number)

    def _notes(self, repository: StoredRepository, number: str, query: Mapping[str, str]) -> Answer:
        found = [key for key, each in sorted(repository.comments.items()) if each.number == int(number)]
        return Answer(status=200, body=[self._note_object(repository, key) for key in page_of(found, query)])

    def _note(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        text = self._without_commands(body["body"])
        key = self.store_comment(repository, int(number), text, self.login, OWN_ID)
        return Answer(status=201, body=self._note_object(repository, key))

    def _edit_note(self, repository: StoredRepository, key: str, body: Any) -> Answer:
        stored = repository.comments.get(int(key))
        if stored is None:
            return Answer(status=404, body=self.error("404 Note Not Found"))
        stored.body, stored.updated_s = self._without_commands(body["body"]), self.tick()
        return Answer(status=200, body=self._note_object(repository, int(key)))

    def _delete_note(self, repository: StoredRepository, key: str) -> Answer:
        gone = repository.comments.pop(int(key), None) is None
        return Answer(status=404, body=self.error("404 Note Not Found")) if gone else Answer(status=204)

    def _note_object(self, repository: StoredRepository, key: int) -> Json:
        stored = repository.comments[key]
        return note_object(key, stored.body, self._person(stored.user_id, stored.login), stored.created_s)

    def _commit(self, repository: StoredRepository, body: Any) -> Answer:
        """A commit on a new branch."""
        name, parent = body["branch"], body["start_sha"]
        if name in repository.branches():
            words = f"A branch called '{name}' already exists. Switch to that branch in order to make changes"
            return Answer(status=400, body=self.error(words))
        present = set(run_git(repository.directory, "ls-tree", "-r", "--name-only", parent).splitlines())
        for each in body["actions"]:
            if (each["file_path"] in present) != (each["action"] == "update"):
                return Answer(status=400, body=self.error("A file with this name already exists, or does not"))
        run_git(repository.directory, "update-ref", f"refs/heads/{name}", parent)
        files = {each["file_path"]: b64decode(each["content"]) for each in body["actions"]}
        commit = self.commit_files(repository, name, files, body["commit_message"], "noreply@gitlab.com")
        return Answer(status=201, body={**commit_object(commit), "message": body["commit_message"]})

    def _statuses(self, repository: StoredRepository, sha: str, query: Mapping[str, str]) -> Answer:
        named = [each for each in repository.statuses.get(sha, []) if each["name"] == query.get("name", each["name"])]
        return Answer(status=200, body=page_of(named, query))

    def _set_status(self, repository: StoredRepository, sha: str, body: Any) -> Answer:
        branches = run_git(repository.directory, "branch", "--contains", sha)
        if not branches and "ref" not in body:
            return Answer(status=404, body=self.error("404 References for commit Not Found"))
        return self._added(repository.statuses.setdefault(sha, []), sha, body)

    def _added(self, shown: list[Json], sha: str, body: Any) -> Answer:
        author = self._person(OWN_ID, self.login)
        made = status_object(len(shown) + 1, sha, body["state"], body["name"], body.get("description"), author)
        shown.insert(0, made)
        return Answer(status=201, body=made)

    def _issues(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in repository.issues.values() if query["labels"] in each.labels and not each.login]
        return Answer(status=200, body=page_of([self._issue_object(each) for each in reversed(found)], query))

    def _open_issue(self, repository: StoredRepository, body: Any) -> Answer:
        text = self._without_commands(body["description"])
        stored = self.store_issue(repository.full_name, body["title"], text, body["labels"].split(","))
        return Answer(status=201, body=self._issue_object(stored))

    def _edit_issue(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.issues[int(number)]
        texts = body.get("title", stored.title), self._without_commands(body.get("description", stored.body))
        self.edit_issue(stored, *texts, closes=body.get("state_event") == "close")
        return Answer(status=200, body=self._issue_object(stored))

    def _issue_object(self, stored: StoredIssue) -> Json:
        shown = {"id": stored.number, "iid": stored.number, "title": stored.title, "description": stored.body}
        state = "opened" if stored.state == "open" else "closed"
        return {**shown, "state": state, "labels": list(stored.labels), "author": self._person(OWN_ID, self.login)}

    def _attach(self, repository: StoredRepository, stored: StoredPullRequest, body: Any) -> None:
        """What is not allowed is passed over, without a word."""
        named = [label for label in body.get("labels", "").split(",") if label]
        stored.labels += [label for label in named if self.creates_labels and label not in stored.labels]
        if "reviewer_ids" in body:
            known = [self.users[number] for number in body["reviewer_ids"] if number in self.users]
            stored.reviewers = known[: self.most_reviewers]
        if "assignee_ids" in body:
            known = [self.users[number] for number in body["assignee_ids"] if number in self.users]
            stored.assignees = known[: self.most_reviewers]
        found = (each["title"] for each in _milestones(repository) if each["id"] == body.get("milestone_id"))
        stored.milestone = next(found, stored.milestone)

    def _without_commands(self, text: str | None) -> str:
        """What GitLab keeps of a text: it does what a line that is a quick action says."""

        def replaced(match: re.Match[str]) -> str:
            if match["code"]:
                return match[0]
            self.commands.append(match[0].strip())
            return ""

        return QUICK_ACTION.sub(replaced, (text or "").replace("\r", "")).rstrip()

    def _compare(self, repository: StoredRepository, base: str, head: str) -> Answer:
        branches = repository.branches()
        if base not in branches or head not in branches:
            return Answer(status=404, body=self.error("404 Ref Not Found"))
        lines = run_git(repository.directory, "rev-list", f"{branches[base]}..{branches[head]}").splitlines()
        commits = [commit_object(oid) for oid in lines]
        body = {"commit": commits[0] if commits else None, "commits": commits, "diffs": [], "compare_same_ref": False}
        return Answer(status=200, body=body)

    def _branch(self, repository: StoredRepository, name: str) -> Answer:
        branches = repository.branches()
        if name not in branches:
            return Answer(status=404, body=self.error("404 Branch Not Found"))
        protection = next((each for each in self.protections if each["name"] == name), None)
        levels = [] if protection is None else protection["merge_access_levels"]
        shown = branch_object(
            name,
            commit_object(branches[name]),
            protected=protection is not None,
            developers_may=protection is None or any(each["access_level"] == DEVELOPER for each in levels),
            can_push=True,
        )
        return Answer(status=200, body=shown)

    def _protected_branches(self) -> Answer:
        if (self.access_level or 0) < MAINTAINER:
            return Answer(status=403, body=self.error("403 Forbidden"))
        return Answer(status=200, body=list(self.protections))

    def _schedules(self) -> Answer:
        if (self.access_level or 0) < DEVELOPER:
            return Answer(status=403, body=self.error("403 Forbidden"))
        return Answer(status=200, body=list(self.schedules))

    def _approvals(self) -> Answer:
        told = {"reset_approvals_on_push": self.resets_approvals, "approvals_before_merge": 0}
        return self._paid(None if self.resets_approvals is None else told)

    def _paid(self, body: Json | None) -> Answer:
        return Answer(status=404, body={"error": "404 Not Found"}) if body is None else Answer(status=200, body=body)

    def _member(self, number: str) -> Answer:
        if int(number) != OWN_ID or self.access_level is None:
            return Answer(status=404, body=self.error("404 Not found"))
        shown = {"id": OWN_ID, "username": self.login, "access_level": self.access_level}
        return Answer(status=200, body=shown)

    def _refresh(self, repository: StoredRepository) -> None:
        """Unlike GitHub's, a merge request stays open when its head branch is deleted."""
        branches = repository.branches()
        self.note_pushes(repository, branches)
        for stored in repository.pull_requests.values():
            if stored.state == "open" and stored.head_repository is None and stored.head in branches:
                stored.head_commit = branches[stored.head]

    def _teller(self, stored: StoredPullRequest) -> Json | None:
        if stored.told_by == self.login:
            return self._person(OWN_ID, self.login)
        is_told = stored.told_by or stored.in_merge_queue
        return self._person(51, stored.told_by or "ann") if is_told else None

    def _object(self, repository: StoredRepository, stored: StoredPullRequest) -> Json:
        numbers = {name: number for number, name in self.users.items()}
        forks = {None: repository.id, "": None}
        return merge_request_object(
            MergeRequestView(
                number=stored.number,
                title=stored.title,
                description=stored.body,
                state=_state(stored),
                source_branch=stored.head,
                target_branch=stored.base,
                source_project_id=forks.get(stored.head_repository, 77),
                project_id=repository.id,
                labels=stored.labels,
                reviewers=[self._person(numbers[name], name) for name in stored.reviewers],
                assignees=[self._person(numbers[name], name) for name in stored.assignees],
                milestone=next((each for each in _milestones(repository) if each["title"] == stored.milestone), None),
                author=self._person(666, stored.author) if stored.author else self._person(OWN_ID, self.login),
                sha=stored.head_commit,
                told_by=self._teller(stored),
                merge_status="checking" if stored.unknown_for else _merge_status(stored),
                created_s=stored.created_s,
                updated_s=stored.updated_s,
                closed_s=stored.closed_s,
                merged_s=stored.merged_s,
                web_url=f"{self.host}/{repository.full_name}/-/merge_requests/{stored.number}",
            )
        )


def _milestones(repository: StoredRepository) -> list[Json]:
    named = enumerate(repository.milestones, start=71)
    return [{"id": number, "iid": number - 70, "title": title, "state": "active"} for number, title in named]


def protection(name: str, *, push: int = MAINTAINER, merge: int = MAINTAINER, force: bool = False) -> Json:
    """A protected branch, or a pattern of them, with the least levels that may push and merge."""
    return {
        "id": 1,
        "name": name,
        "push_access_levels": [{"access_level": push}],
        "merge_access_levels": [{"access_level": merge}],
        "allow_force_push": force,
    }


def schedule(cron: str, *, ref: str = "refs/heads/main", active: bool = True) -> Json:
    """A pipeline schedule."""
    times = dict.fromkeys(("next_run_at", "created_at", "updated_at"), "2026-01-15T14:00:00.000Z")
    told = {"id": 13, "description": "Reconcile", "ref": ref, "cron": cron, "cron_timezone": "UTC", "active": active}
    return {**told, **times, "owner": {"id": 7, "username": "alice"}}


def _merge_status(stored: StoredPullRequest) -> str:
    if stored.state != "open":
        return "not_open"
    is_draft = stored.title.lower().startswith("draft:")
    return "draft_status" if is_draft else MERGE_STATES.get(stored.mergeable_state, stored.mergeable_state)


def _squash_option(methods: Sequence[str]) -> str:
    if "squash" not in methods:
        return "never"
    return "always" if tuple(methods) == ("squash",) else "default_off"


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _state(stored: StoredPullRequest) -> str:
    return "merged" if stored.merged_s is not None else STATES.get(stored.state, stored.state)


@contextmanager
def serve_gitlab() -> Iterator[GitLabServer]:
    """A running server; see `serve_forge`."""
    with serve_forge(GitLabServer(load_contract())) as state:
        yield state
