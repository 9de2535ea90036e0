"""A Gitea with a memory: pull requests over real bare git repositories, with faults to switch on.

    with serve_gitea() as gitea:
        gitea.add_repository("acme/fleet", path_of_bare_repository)
        ... GiteaClient(gitea.url, gitea.token, ...)

It has exactly the endpoints that we use, and acts as Gitea's handlers do where that is not what GitHub does: pages of
at most fifty, drafts by title, labels by number, an empty pull request where nothing differs. Each request and
answer is held against what its types and handlers say (`gitea_contract`).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from tests.servers.contract import Contract, Json
from tests.servers.forge_server import (
    MISSING_COMMIT,
    Answer,
    ForgeServer,
    Push,
    StoredIssue,
    StoredPullRequest,
    StoredRepository,
    serve_forge,
)
from tests.servers.git_workshop import run_git
from tests.servers.gitea_contract import load_contract

OWN_ID, OTHER_ID = 99, 666
MOST_ON_A_PAGE = 50
DRAFTS = ("wip:", "[wip]")
METHODS = {"merge": "allow_merge_commits", "squash": "allow_squash_merge", "rebase": "allow_rebase"}


class GiteaServer(ForgeServer):
    """The state behind the server; `protections` are its rules of branches, `scopes` what the token may write."""

    kind = "gitea"
    creates = ("POST", r"/pulls$")
    lists = ("GET", r"/pulls$")
    updates = ("PATCH", r"/pulls/\d+$")
    head_ref = "refs/pull/{number}/head"
    merge_words = "Merge pull request '#{number}'"
    limit_headers: Mapping[str, str] = {}
    root = "/api/v1"

    def __init__(self, contract: Contract | None) -> None:
        super().__init__(contract)
        self.token = "0a1b2c3d-canary_token"
        self.protections: Sequence[Json] = ()
        self.scopes = {"repository", "issue"}
        self.labels: dict[str, int] = {}
        self.organization_labels: dict[str, int] = {}
        self.checks: dict[str, Sequence[str]] = {}
        """The states of the checks of a commit, where any ran."""

    def error(self, message: str) -> Json:
        """See `ForgeServer`."""
        return {"message": message, "url": f"{self.host}/api/swagger"}

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """See `ForgeServer`."""
        if headers.get("Authorization") != f"token {self.token}":
            return Answer(status=401, body=self.error("user does not exist [uid: 0, name: ]"))
        needed = "issue" if path.startswith("/repos/") and "/issues/" in path else "repository"
        if method != "GET" and needed not in self.scopes:
            return Answer(status=403, body=self.error(f"token does not have scope write:{needed}"))
        if path == "/user":
            refused = Answer(status=403, body=self.error("token does not have scope read:user"))
            return Answer(status=200, body=self._user("")) if self.has_user else refused
        if re.fullmatch(r"/orgs/[^/]+/labels", path):
            return self._page(_labels(self.organization_labels), query)
        match = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        repository = self.repositories.get(match[1].lower()) if match else None
        if match is None or repository is None:
            return self._missing()
        self._refresh(repository)
        for route_method, pattern, respond in self._routes(repository, query, body):
            if route_method == method and (found := re.fullmatch(pattern, match[2] or "")):
                return respond(*map(unquote, found.groups()))
        return self._missing()

    def _routes(
        self, repository: StoredRepository, query: Mapping[str, str], body: Any
    ) -> list[tuple[str, str, Callable[..., Answer]]]:
        return [
            ("GET", "", lambda: self._repository_answer(repository)),
            ("GET", r"/branches/(.+)", lambda branch: self._branch(repository, branch)),
            ("GET", "/branch_protections", lambda: self._rules(repository)),
            ("GET", "/activities/feeds", lambda: self._activities(repository, query)),
            ("GET", r"/compare/(.+)\.\.\.(.+)", lambda base, head: self._compare(repository, base, head)),
            ("GET", "/pulls", lambda: self._list(repository, query)),
            ("POST", "/pulls", lambda: self._create(repository, body)),
            ("GET", r"/pulls/(\d+)", lambda number: self._one(repository, number)),
            ("PATCH", r"/pulls/(\d+)", lambda number: self._edit(repository, number, body)),
            ("POST", r"/pulls/(\d+)/merge", lambda number: self._merge(repository, number, body)),
            ("GET", r"/pulls/(\d+)/reviews", lambda number: self._reviews(repository, number, query)),
            ("POST", r"/pulls/(\d+)/requested_reviewers", lambda number: self._ask(repository, number, body)),
            ("GET", "/issues", lambda: self._issues(repository, query)),
            ("POST", "/issues", lambda: self._open_issue(repository, body)),
            (
                "GET",
                r"/issues/(\d+)",
                lambda number: self._behind(repository, number, 200),
            ),
            ("PATCH", r"/issues/(\d+)", lambda number: self._edit_issue(repository, number, body)),
            ("GET", "/milestones", lambda: self._page(_milestones(repository), query)),
            ("GET", "/labels", lambda: self._page(_labels(self.labels), query)),
            ("POST", "/labels", lambda: self._create_label(body)),
            ("POST", r"/issues/(\d+)/labels", lambda number: self._add_labels(repository, number, body)),
            ("DELETE", r"/issues/(\d+)/labels/(\d+)", lambda *found: self._remove_label(repository, *found)),
            ("GET", r"/issues/(\d+)/comments", lambda number: self._list_comments(repository, number)),
            ("POST", r"/issues/(\d+)/comments", lambda number: self._comment(repository, number, body)),
            ("PATCH", r"/issues/comments/(\d+)", lambda key: self._edit_comment(repository, key, body)),
            ("DELETE", r"/issues/comments/(\d+)", lambda key: self._delete_comment(repository, key)),
            ("GET", r"/commits/([0-9a-f]+)/statuses", lambda sha: self._statuses(repository, sha, query)),
            ("POST", r"/statuses/([0-9a-f]+)", lambda sha: self._set_status(repository, sha, body)),
        ]

    def _missing(self) -> Answer:
        return Answer(status=404, body=self.error("The target couldn't be found."))

    def _page(self, found: Sequence[Any], query: Mapping[str, str], *, is_linked: bool = False) -> Answer:
        """A page, whose headers count all entries; few lists link to the next one (`is_linked`)."""
        size = min(MOST_ON_A_PAGE, int(query.get("limit", "30")))
        page = int(query.get("page", "1"))
        headers = {"X-Total-Count": str(len(found))}
        if is_linked and page * size < len(found):  # an address that must not be followed: paging is by number
            headers["Link"] = f'<{self.next_page}/steal?page={page + 1}>; rel="next"'
        return Answer(status=200, body=list(found[(page - 1) * size : page * size]), headers=headers)

    def _user(self, login: str) -> Json:
        """An account by its name; empty is ours."""
        name = login or self.login
        return {
            "id": OTHER_ID if login else OWN_ID,
            "login": name,
            "full_name": "" if login else self.user_name,
            "email": f"{name}@noreply.gitea.com",
        }

    def _repository_answer(self, repository: StoredRepository) -> Answer:
        shown = {
            "id": repository.id,
            "full_name": repository.renamed_to or repository.full_name,
            "archived": repository.archived,
            "has_pull_requests": True,
            "permissions": {
                "admin": repository.role == "admin",
                "push": repository.role in ("admin", "push"),
                "pull": True,
            },
            **{field: name in repository.methods for name, field in METHODS.items()},
        }
        return Answer(status=200, body=shown)

    def _branch(self, repository: StoredRepository, branch: str) -> Answer:
        if branch not in repository.branches():
            return self._missing()
        may = repository.role in ("admin", "push")
        shown = {"name": branch, "protected": False, "user_can_push": may, "user_can_merge": may}
        return Answer(status=200, body=shown)

    def _rules(self, repository: StoredRepository) -> Answer:
        if repository.role != "admin":
            return Answer(status=403, body=self.error("user should be an owner or a collaborator with admin write"))
        return Answer(status=200, body=list(self.protections))

    def _activities(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        shown = [self._activity(each, number) for number, each in enumerate(repository.pushes, start=1)]
        return self._page(shown[::-1], query)

    def _activity(self, push: Push, number: int) -> Json:
        content = {"Commits": [{"Sha1": push.commit}], "HeadCommit": {"Sha1": push.commit}, "Len": 1}
        return {
            "id": number,
            "op_type": "commit_repo",
            "ref_name": f"refs/heads/{push.branch}",
            "content": json.dumps(content),
            "act_user": self._user(push.by),
            "created": _timestamp(push.at_s),
        }

    def _compare(self, repository: StoredRepository, base: str, head: str) -> Answer:
        branches = repository.branches()
        if base not in branches or head not in branches:
            return self._missing()
        count = run_git(repository.directory, "rev-list", "--count", f"{branches[base]}..{branches[head]}")
        return Answer(status=200, body={"total_commits": int(count), "commits": []})

    def _list(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in repository.pull_requests.values() if self._is_listed(each, query)]
        if query["sort"] == "recentupdate":
            found.sort(key=lambda each: (-each.updated_s, -each.number))
        return self._page([self._view(repository, each) for each in found], query, is_linked=True)

    def _is_listed(self, stored: StoredPullRequest, query: Mapping[str, str]) -> bool:
        if stored.hidden_lists:
            stored.hidden_lists -= 1
            return False
        return query["state"] in {stored.state, "all"} and query.get("base_branch", stored.base) == stored.base

    def _create(self, repository: StoredRepository, body: Any) -> Answer:
        head, base = body["head"], body["base"]
        if head == base:
            words = "Invalid PullRequest: There are no changes between the head and the base"
            return Answer(status=422, body=self.error(words))
        branches = repository.branches()
        if head not in branches or base not in branches:
            return self._missing()
        ours = (each for each in repository.pull_requests.values() if each.head_repository is None)
        if any((each.state, each.head, each.base) == ("open", head, base) for each in ours):
            return Answer(status=409, body=self.error("pull request already exists for these targets"))
        stored = self.store(repository, head, base, body["title"], body.get("body"))
        stored.head_commit = branches[head]
        stored.hidden_lists = self.hide_new_for
        return Answer(status=201, body=self._view(repository, stored))

    def _one(self, repository: StoredRepository, number: str) -> Answer:
        stored = repository.pull_requests.get(int(number))
        if stored is None:
            return self._missing()
        shown = self._view(repository, stored)
        stored.unknown_for = max(stored.unknown_for - 1, 0)
        return Answer(status=200, body=shown)

    def _edit(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        stored.title = body.get("title", stored.title)
        stored.body = body.get("body", stored.body)
        stored.updated_s = self.tick()
        if body.get("state") == "closed" and stored.state == "open":
            self.close_stored(stored)
        return Answer(status=201, body=self._view(repository, stored))

    def _merge(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored, branches = repository.pull_requests[int(number)], repository.branches()
        if stored.state != "open":
            return Answer(status=405, body=self.error("")) if stored.merged_s else self._missing()
        if stored.mergeable_state != "clean" or _is_draft(stored):
            return Answer(status=405, body=self.error("Not all required status checks successful"))
        if body["Do"] not in repository.methods:
            return Answer(status=405, body=self.error(f"{body['Do']} is not an allowed merge style"))
        if body["head_commit_id"] != branches[stored.head]:
            return Answer(status=409, body=self.error("head out of date"))
        stored.merged_by = body["Do"]
        self.merge(repository.full_name, int(number))
        return Answer(status=200, body=b"")

    def _reviews(self, repository: StoredRepository, number: str, query: Mapping[str, str]) -> Answer:
        stored = repository.pull_requests[int(number)]
        shown = [
            {
                "id": index,
                "user": self._user(who),
                "state": "REQUEST_CHANGES" if what == "DISMISSED" else what,
                "dismissed": what == "DISMISSED",
            }
            for index, (who, what) in enumerate(stored.reviews, start=1)
        ]
        return self._page(shown, query)

    def _ask(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        if "nobody" in body.get("reviewers", []):
            return Answer(status=404, body=self.error("user does not exist [uid: 0, name: nobody]"))
        named = (*stored.reviewers, *body.get("reviewers", []), *body.get("team_reviewers", []))
        stored.reviewers = list(dict.fromkeys(named))
        return Answer(status=201, body=[])

    def _create_label(self, body: Any) -> Answer:
        self.labels[body["name"]] = 100 + len(self.labels)
        return Answer(status=201, body=_labels({body["name"]: self.labels[body["name"]]})[0])

    def _add_labels(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests.get(int(number))
        if stored is None:
            return self._missing()
        names = {identity: name for name, identity in {**self.organization_labels, **self.labels}.items()}
        stored.labels += [names[each] for each in body["labels"] if names[each] not in stored.labels]
        stored.updated_s = self.tick()
        return Answer(status=200, body=self._labels_of(stored))

    def _remove_label(self, repository: StoredRepository, number: str, identity: str) -> Answer:
        stored = repository.pull_requests[int(number)]
        names = {found: name for name, found in {**self.organization_labels, **self.labels}.items()}
        if int(identity) not in names:
            return Answer(status=422, body=self.error("label does not exist"))
        stored.labels = [each for each in stored.labels if each != names[int(identity)]]
        stored.updated_s = self.tick()
        return Answer(status=204)

    def _issues(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in repository.issues.values() if query["labels"] in each.labels]
        wanted = [each for each in reversed(found) if query.get("state", "open") in ("all", each.state)]
        return self._page([self._issue_object(each) for each in wanted], query)

    def _open_issue(self, repository: StoredRepository, body: Any) -> Answer:
        names = {identity: name for name, identity in {**self.organization_labels, **self.labels}.items()}
        labels = [names[each] for each in body["labels"]]
        stored = self.store_issue(repository.full_name, body["title"], body["body"], labels)
        return Answer(status=201, body=self._issue_object(stored))

    def _edit_issue(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        if int(number) in repository.pull_requests:
            return self._assign(repository, repository.pull_requests[int(number)], body)
        stored = repository.issues[int(number)]
        texts = body.get("title", stored.title), body.get("body", stored.body)
        self.edit_issue(stored, *texts, closes=body.get("state") == "closed")
        return Answer(status=201, body=self._issue_object(stored))

    def _assign(self, repository: StoredRepository, stored: StoredPullRequest, body: Any) -> Answer:
        if "nobody" in body.get("assignees", []):
            return Answer(status=422, body=self.error("Assignee does not exist: [name: nobody]"))
        stored.assignees = list(body.get("assignees", stored.assignees))
        titles = {each["id"]: each["title"] for each in _milestones(repository)}
        stored.milestone = titles[body["milestone"]] if "milestone" in body else stored.milestone
        stored.updated_s = self.tick()
        return self._behind(repository, str(stored.number), 201)

    def _behind(self, repository: StoredRepository, number: str, status: int) -> Answer:
        """The issue behind a pull request."""
        stored = repository.pull_requests[int(number)]
        issue = StoredIssue(
            number=stored.number,
            title=stored.title,
            body=stored.body or "",
            labels=stored.labels,
            created_s=stored.created_s,
            state=stored.state,
        )
        found = {each["title"]: each for each in _milestones(repository)}
        told = {"assignees": [self._user(each) for each in stored.assignees], "milestone": found.get(stored.milestone)}
        shown = {**self._issue_object(issue), **told, "pull_request": {"merged": stored.merged_s is not None}}
        return Answer(status=status, body=shown)

    def _issue_object(self, stored: StoredIssue) -> Json:
        labels = _labels({name: self.labels.get(name, 1) for name in stored.labels})
        shown = {"number": stored.number, "title": stored.title, "body": stored.body, "state": stored.state}
        return {**shown, "user": self._user(stored.login), "labels": labels, "pull_request": None}

    def _list_comments(self, repository: StoredRepository, number: str) -> Answer:
        found = [key for key, each in sorted(repository.comments.items()) if each.number == int(number)]
        return Answer(status=200, body=[self._comment_object(repository, key) for key in found])

    def _comment(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        key = self.store_comment(repository, int(number), body["body"], self.login, OWN_ID)
        return Answer(status=201, body=self._comment_object(repository, key))

    def _edit_comment(self, repository: StoredRepository, key: str, body: Any) -> Answer:
        stored = repository.comments.get(int(key))
        if stored is None:
            return self._missing()
        stored.body, stored.updated_s = body["body"], self.tick()
        return Answer(status=200, body=self._comment_object(repository, int(key)))

    def _delete_comment(self, repository: StoredRepository, key: str) -> Answer:
        return self._missing() if repository.comments.pop(int(key), None) is None else Answer(status=204)

    def _comment_object(self, repository: StoredRepository, key: int) -> Json:
        stored = repository.comments[key]
        return {
            "id": key,
            "body": stored.body,
            "user": self._user("" if stored.user_id == OWN_ID else stored.login),
            "created_at": _timestamp(stored.created_s),
            "updated_at": _timestamp(stored.updated_s),
        }

    def _statuses(self, repository: StoredRepository, sha: str, query: Mapping[str, str]) -> Answer:
        others = enumerate(self.checks.get(sha, ()), start=1000)
        shown = [
            {"id": number, "status": state, "context": f"ci/{number}", "description": "", "creator": self._user("ci")}
            for number, state in others
        ]
        return self._page([*repository.statuses.get(sha, []), *shown], query, is_linked=True)

    def _set_status(self, repository: StoredRepository, sha: str, body: Any) -> Answer:
        listed = repository.statuses.setdefault(sha, [])
        told = {"status": body["state"], "context": body["context"], "description": body["description"]}
        shown = {"id": len(listed) + 1, **told, "creator": self._user("")}
        listed.insert(0, shown)
        return Answer(status=201, body=shown)

    def _refresh(self, repository: StoredRepository) -> None:
        """As on Gitea, a pull request closes by itself when its head branch is deleted."""
        branches = repository.branches()
        self.note_pushes(repository, branches)
        for stored in repository.pull_requests.values():
            if stored.state == "open" and stored.head_repository is None:
                if stored.head in branches:
                    stored.head_commit = branches[stored.head]
                else:
                    self.close_stored(stored)

    def _view(self, repository: StoredRepository, stored: StoredPullRequest) -> Json:
        here = {"id": repository.id, "full_name": repository.full_name}
        there = {"id": 1000, "full_name": stored.head_repository} if stored.head_repository else None
        is_here = stored.head_repository is None
        has_branch = not is_here or stored.head in repository.branches()
        head = {
            "label": stored.head,
            "ref": stored.head if has_branch and (is_here or there) else self.head_ref.format(number=stored.number),
            "sha": stored.head_commit,
            "repo_id": here["id"] if is_here else (1000 if there else -1),
            "repo": here if is_here else there,
        }
        base = {"label": stored.base, "ref": stored.base, "sha": MISSING_COMMIT, "repo_id": repository.id, "repo": here}
        is_mergeable = stored.mergeable_state != "dirty" and not stored.unknown_for and not _is_draft(stored)
        return {
            "id": 7000 + stored.number,
            "number": stored.number,
            "title": stored.title,
            "body": stored.body or "",
            "state": stored.state,
            "draft": _is_draft(stored),
            "labels": self._labels_of(stored),
            "user": self._user(stored.author),
            "mergeable": is_mergeable,
            "merged": stored.merged_s is not None,
            "merged_at": None if stored.merged_s is None else _timestamp(stored.merged_s),
            "merge_commit_sha": None if stored.merged_s is None else repository.branches()[stored.base],
            "base": base,
            "head": head,
            "html_url": f"{self.host}/{repository.full_name}/pulls/{stored.number}",
            "created_at": _timestamp(stored.created_s),
            "updated_at": _timestamp(stored.updated_s),
            "closed_at": None if stored.closed_s is None else _timestamp(stored.closed_s),
        }

    def _labels_of(self, stored: StoredPullRequest) -> list[Json]:
        known = {**self.organization_labels, **self.labels}
        return _labels({name: known.get(name, 1 + index) for index, name in enumerate(stored.labels)})


def _is_draft(stored: StoredPullRequest) -> bool:
    return stored.title.lower().startswith(DRAFTS)


def _milestones(repository: StoredRepository) -> list[Json]:
    named = enumerate(repository.milestones, start=41)
    return [{"id": identity, "title": title, "state": "open"} for identity, title in named]


def _labels(labels: Mapping[str, int]) -> list[Json]:
    return [{"id": identity, "name": name, "color": "ededed"} for name, identity in labels.items()]


def _timestamp(at_s: float) -> str:
    """A time as Gitea writes it: to the second, in the zone of its server."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@contextmanager
def serve_gitea() -> Iterator[GiteaServer]:
    """A running server; see `serve_forge`."""
    with serve_forge(GiteaServer(load_contract())) as state:
        yield state
