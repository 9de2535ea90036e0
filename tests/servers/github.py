"""A GitHub with a memory: pull requests over real bare git repositories, with faults to switch on.

    with serve_github() as github:
        github.add_repository("acme/fleet", path_of_bare_repository)
        ... GitHubClient(github.url, github.token, ...)

It has exactly the endpoints that we use. Each request and answer is held against GitHub's own description where that
is on this machine (`github_contract`); what breaks it is raised when the server is left.
"""

import re
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import jwt

from tests.servers.contract import Contract
from tests.servers.forge_server import (
    MISSING_COMMIT,
    START_S,
    Answer,
    ForgeServer,
    StoredIssue,
    StoredPullRequest,
    StoredRepository,
    page_of,
    serve_forge,
)
from tests.servers.git_workshop import run_git
from tests.servers.github_contract import find_description, load_contract
from tests.servers.github_objects import (
    Json,
    PullRequestView,
    activity_object,
    app_object,
    comment_object,
    error_object,
    full_repository_object,
    installation_object,
    issue_object,
    label_object,
    milestone_object,
    public_user_object,
    pull_request_object,
    repository_object,
    review_object,
    rule_object,
    simple_pull_request_object,
    status_object,
    user_object,
    validation_error_object,
)

OWN_ID = 99
COMMENT_LIMIT = 65536
ROLES = ("admin", "maintain", "push", "triage", "pull")
"""Each may all that those after it may."""
LIMIT_HEADERS = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1790003600"}
VIEWER = "query { viewer { databaseId } }"
MERGE_METHODS = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}
QUEUE_FIELD = re.compile(r"(p\d+): pullRequest\(number: (\d+)\) \{ isInMergeQueue \}")


class GitHubServer(ForgeServer):
    """The state behind the server; `has_graphql` and `has_user` switch parts off."""

    kind = "github"
    creates = ("POST", r"/pulls$")
    lists = ("GET", r"/pulls$")
    updates = ("PATCH", r"/pulls/\d+$")
    head_ref = "refs/pull/{number}/head"
    merge_words = "Merge pull request #{number}"
    limit_headers = LIMIT_HEADERS
    unchecked = frozenset({"/graphql"})

    def __init__(self, contract: Contract | None) -> None:
        super().__init__(contract)
        self.token = "ghs_1234_eyJhbGciOi.JSUzI1NiJ9-canary_token"
        self.has_graphql = True
        self.app_key = ""
        self.asked_for: list[str] = []
        """The public key of an App, whose installation tokens are `token`."""

    @property
    def pages(self) -> str:
        """See `ForgeServer`."""
        return "https://github.com"

    def error(self, message: str) -> Json:
        """See `ForgeServer`."""
        return error_object(message)

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """See `ForgeServer`."""
        if self.app_key and (path == "/app" or path.endswith(("/installation", "/access_tokens"))):
            return self._app(method, path, headers, body)
        if (
            headers.get("Authorization") != f"token {self.token}"
            and headers.get("Authorization") != f"Bearer {self.token}"
        ):
            return Answer(status=401, body=error_object("Bad credentials"))
        if path == "/user" and method == "GET":
            return self._user()
        if path == f"/users/{quote('reconciler-app[bot]', safe='')}":
            shown = public_user_object(self.url, "reconciler-app[bot]", OWN_ID, "", START_S)
            return Answer(status=200, body={**shown, "type": "Bot"})
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
            ("GET", r"/rulesets/([0-9]+)", lambda number: self._ruleset(repository, int(number))),
            ("GET", "/activity", lambda: self._activity(repository, query)),
            ("POST", "/git/refs", lambda: self._create_ref(repository, body)),
            ("GET", "/pulls", lambda: self._list(repository, query)),
            ("POST", "/pulls", lambda: self._create(repository, body)),
            ("GET", r"/pulls/(\d+)", lambda number: self._one(repository, number)),
            ("PUT", r"/pulls/(\d+)/merge", lambda number: self._merge(repository, int(number), body)),
            ("GET", r"/pulls/(\d+)/reviews", lambda number: self._reviews(repository, int(number))),
            ("PATCH", r"/pulls/(\d+)", lambda number: self._edit(repository, number, body)),
            ("POST", r"/issues/(\d+)/labels", lambda number: self._add_labels(repository, number, body)),
            ("DELETE", r"/issues/(\d+)/labels/([^/]+)", lambda *named: self._remove_label(repository, *named)),
            ("POST", r"/pulls/(\d+)/requested_reviewers", lambda number: self._review(repository, number, body)),
            ("GET", "/issues", lambda: self._issues(repository, query)),
            ("POST", "/issues", lambda: self._open_issue(repository, body)),
            ("GET", r"/issues/(\d+)", lambda number: self._behind(repository, repository.pull_requests[int(number)])),
            ("PATCH", r"/issues/(\d+)", lambda number: self._edit_issue(repository, number, body)),
            ("GET", "/milestones", lambda: self._milestones(repository, query)),
            ("GET", r"/issues/(\d+)/comments", lambda number: self._list_comments(repository, number, query)),
            ("POST", r"/issues/(\d+)/comments", lambda number: self._comment(repository, number, body)),
            ("PATCH", r"/issues/comments/(\d+)", lambda key: self._edit_comment(repository, key, body)),
            ("DELETE", r"/issues/comments/(\d+)", lambda key: self._delete_comment(repository, key)),
            ("GET", r"/commits/([0-9a-f]+)/statuses", lambda sha: self._list_statuses(repository, sha, query)),
            ("POST", r"/statuses/([0-9a-f]+)", lambda sha: self._set_status(repository, sha, body)),
        ]

    def _user(self) -> Answer:
        if not self.has_user:
            return Answer(status=403, body=error_object("Resource not accessible by integration"))
        return Answer(status=200, body=public_user_object(self.url, self.login, OWN_ID, self.user_name, START_S))

    def _app(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> Answer:
        """What an App may ask with its proof, which GitHub checks as here."""
        proof = headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            claims = jwt.decode(proof, self.app_key, algorithms=["RS256"], options={"require": ["iss", "iat", "exp"]})
        except jwt.PyJWTError:
            return Answer(status=401, body=error_object("A JSON web token could not be decoded"))
        if claims["exp"] - time.time() > 600 or claims["iss"] != "12345":
            return Answer(status=401, body=error_object("'Expiration time' claim ('exp') is too far in the future"))
        if method == "GET" and path == "/app":
            return Answer(status=200, body=app_object(self.url, user_object(self.url, "acme", 7)))
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)/installation", path)
        if found and found[1].lower() not in self.repositories:
            return Answer(status=404, body=error_object("Not Found"))
        if method == "GET" and found:
            return Answer(status=200, body=installation_object(self.url, user_object(self.url, "acme", 7)))
        self.asked_for = body["repositories"]
        shown = {"token": self.token, "expires_at": "2026-11-20T15:05:00Z", "permissions": {}}
        return Answer(status=201, body=shown)

    def _graphql(self, body: Any) -> Answer:
        if not self.has_graphql:
            return Answer(status=404, body=error_object("Not Found"))
        if body["query"] == VIEWER:
            return Answer(status=200, body={"data": {"viewer": {"databaseId": OWN_ID}}})
        variables = body["variables"]
        if body["query"].startswith("mutation"):
            return self._mutate(body["query"], variables)
        repository = self.repositories[f"{variables['owner']}/{variables['name']}".lower()]
        asked = QUEUE_FIELD.findall(body["query"])
        queued = {
            alias: {"isInMergeQueue": repository.pull_requests[int(number)].in_merge_queue} for alias, number in asked
        }
        return Answer(status=200, body={"data": {"viewer": {"databaseId": OWN_ID}, "repository": queued}})

    def _create_ref(self, repository: StoredRepository, body: Any) -> Answer:
        name = body["ref"].removeprefix("refs/heads/")
        if name in repository.branches():
            return Answer(status=422, body={**error_object("Reference already exists"), "status": "422"})
        run_git(repository.directory, "update-ref", body["ref"], body["sha"])
        url = f"{self.url}/repos/{repository.full_name}/git"
        target = {"type": "commit", "sha": body["sha"], "url": f"{url}/commits/{body['sha']}"}
        shown = {"ref": body["ref"], "node_id": "REF_1", "url": f"{url}/{body['ref']}", "object": target}
        return Answer(status=201, body=shown)

    def _commit(self, asked: Any) -> Answer:
        """A commit on a branch that points to what is expected."""
        repository = self.repositories[asked["branch"]["repositoryNameWithOwner"].lower()]
        name, message = asked["branch"]["branchName"], asked["message"]
        if repository.branches().get(name) != asked["expectedHeadOid"]:
            return _refuse_mutation(f"Expected branch to point to {asked['expectedHeadOid']} but it did not.")
        files = {each["path"]: b64decode(each["contents"]) for each in asked["fileChanges"]["additions"]}
        words = f"{message['headline']}\n\n{message['body']}".strip()
        commit = self.commit_files(repository, name, files, words, "noreply@github.com")
        return Answer(status=200, body={"data": {"createCommitOnBranch": {"commit": {"oid": commit}}}})

    def _mutate(self, query: str, variables: Mapping[str, Any]) -> Answer:
        """A commit, or auto-merge on or off, refused as GitHub refuses it."""
        if "createCommitOnBranch" in query:
            return self._commit(variables["input"])
        full_name, number = variables["id"].removeprefix("PR_").rsplit("_", 1)
        repository = next(each for each in self.repositories.values() if full_name == str(each.id))
        self._refresh(repository)
        stored = repository.pull_requests[int(number)]
        if "disablePullRequestAutoMerge" in query:
            stored.told_by = ""
        elif not repository.allows_auto_merge:
            return _refuse_mutation("Auto merge is not allowed for this repository")
        elif stored.mergeable_state == "clean" and not repository.has_queue:
            return _refuse_mutation("Pull request Pull request is in clean status")
        elif variables["head"] != stored.head_commit:
            return _refuse_mutation("Head branch was modified. Review and try the merge again.")
        else:
            stored.told_by, stored.merged_by = self.login, variables["method"].lower()
        return Answer(status=200, body={"data": {"clientMutationId": None}})

    def _merge(self, repository: StoredRepository, number: int, body: Any) -> Answer:
        """Merge by a request: an administrator's goes around the rules, as on GitHub."""
        stored, branches = repository.pull_requests[number], repository.branches()
        if stored.state != "open":
            return Answer(status=405, body=error_object("Pull Request is not mergeable"))
        if body["sha"] != branches[stored.head]:
            return Answer(status=409, body=error_object("Head branch was modified. Review and try the merge again."))
        is_forbidden = stored.mergeable_state in ("blocked", "behind") and repository.role != "admin"
        if repository.has_queue or is_forbidden or stored.mergeable_state in ("dirty", "draft"):
            return Answer(status=405, body=error_object("Repository rule violations found"))
        if body["merge_method"] not in repository.methods:
            return Answer(status=405, body=error_object(f"{body['merge_method']} is not allowed on this repository"))
        stored.merged_by = body["merge_method"]
        commit = self.merge(repository.full_name, number)
        message = "Pull Request successfully merged"
        return Answer(status=200, body={"sha": commit, "merged": True, "message": message})

    def _reviews(self, repository: StoredRepository, number: int) -> Answer:
        stored = repository.pull_requests[number]
        here = enumerate(stored.reviews, start=1)
        objects = [review_object(self.url, repository.full_name, number, index, *each) for index, each in here]
        return Answer(status=200, body=objects)

    def _repository_answer(self, repository: StoredRepository) -> Answer:
        shown = self._repository(repository.renamed_to or repository.full_name)
        role = ROLES.index(repository.role) if repository.role else len(ROLES)
        told = {
            "archived": repository.archived,
            "permissions": {name: index >= role for index, name in enumerate(ROLES)},
            "allow_auto_merge": repository.allows_auto_merge,
            **{field: name in repository.methods for name, field in MERGE_METHODS.items()},
        }
        return Answer(status=200, body={**full_repository_object(shown), **told})

    def _activity(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in reversed(repository.pushes) if f"refs/heads/{each.branch}" == query["ref"]]
        shown = [activity_object(each, self._user_of(each.by), number) for number, each in enumerate(found, start=1)]
        return Answer(status=200, body=page_of(shown, query))

    def _user_of(self, login: str) -> Json:
        """An account by its name; empty is ours."""
        return user_object(self.url, login or self.login, 666 if login else OWN_ID)

    def _rules(self, repository: StoredRepository, branch: str) -> Answer:
        name = unquote(branch)
        types = [each for start, rules in repository.rules.items() if name.startswith(start) for each in rules]
        return Answer(status=200, body=[rule_object(each) for each in types])

    def _ruleset(self, repository: StoredRepository, number: int) -> Answer:
        told = {"id": number, "name": "rules", "target": "branch", "source": repository.full_name}
        told |= {"source_type": "Repository", "enforcement": "active", "rules": []}
        told["conditions"] = {"ref_name": {"include": ["refs/heads/reconciler/*"], "exclude": []}}
        return Answer(status=200, body={**told, "current_user_can_bypass": repository.may_bypass})

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
        stored = self.store(repository, head, base, body["title"], body.get("body"), draft=body.get("draft", False))
        stored.head_commit = branches[head]
        stored.hidden_lists = self.hide_new_for
        return Answer(status=201, body=pull_request_object(self.url, self._view(repository, stored)))

    def _one(self, repository: StoredRepository, number: str) -> Answer:
        stored = repository.pull_requests.get(int(number))
        if stored is None:
            return Answer(status=404, body=error_object("Not Found"))
        found = "draft" if stored.draft else stored.mergeable_state
        told = {"mergeable_state": "unknown" if stored.unknown_for else found}
        stored.unknown_for = max(stored.unknown_for - 1, 0)
        return Answer(status=200, body={**pull_request_object(self.url, self._view(repository, stored)), **told})

    def _edit(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        stored.title = body.get("title", stored.title)
        stored.body = body.get("body", stored.body)
        stored.updated_s = self.tick()
        if body.get("state") == "closed" and stored.state == "open":
            self.close_stored(stored)
        return self._one(repository, number)

    def _add_labels(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        stored.labels += [label for label in body["labels"] if label not in stored.labels]
        stored.updated_s = self.tick()
        return Answer(status=200, body=self._labels(repository, stored))

    def _remove_label(self, repository: StoredRepository, number: str, name: str) -> Answer:
        stored = repository.pull_requests[int(number)]
        if unquote(name) not in stored.labels:
            return Answer(status=404, body=error_object("Label does not exist"))
        stored.labels.remove(unquote(name))
        stored.updated_s = self.tick()
        return Answer(status=200, body=self._labels(repository, stored))

    def _review(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        stored = repository.pull_requests[int(number)]
        named = (*stored.reviewers, *body.get("reviewers", []), *body.get("team_reviewers", []))
        stored.reviewers = list(dict.fromkeys(named))
        view = replace(self._view(repository, stored))
        return Answer(status=201, body=simple_pull_request_object(self.url, view))

    def _issues(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        found = [each for each in repository.issues.values() if query["labels"] in each.labels]
        wanted = [each for each in reversed(found) if query.get("state", "open") in ("all", each.state)]
        return Answer(status=200, body=page_of([self._issue_object(repository, each) for each in wanted], query))

    def _open_issue(self, repository: StoredRepository, body: Any) -> Answer:
        labels = body["labels"] if repository.role in ("admin", "maintain", "push") else []
        stored = self.store_issue(repository.full_name, body["title"], body["body"], labels)
        return Answer(status=201, body=self._issue_object(repository, stored))

    def _edit_issue(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        if int(number) in repository.pull_requests:
            return self._assign(repository, repository.pull_requests[int(number)], body)
        stored = repository.issues[int(number)]
        texts = body.get("title", stored.title), body.get("body", stored.body)
        self.edit_issue(stored, *texts, closes=body.get("state") == "closed")
        return Answer(status=200, body=self._issue_object(repository, stored))

    def _assign(self, repository: StoredRepository, stored: StoredPullRequest, body: Any) -> Answer:
        """Who may not be assigned is passed over."""
        stored.assignees = [each for each in body.get("assignees", stored.assignees) if each != "nobody"]
        if "milestone" in body:
            stored.milestone = repository.milestones[body["milestone"] - 1]
        stored.updated_s = self.tick()
        return self._behind(repository, stored)

    def _behind(self, repository: StoredRepository, stored: StoredPullRequest) -> Answer:
        """The issue behind a pull request."""
        issue = StoredIssue(
            number=stored.number,
            title=stored.title,
            body=stored.body or "",
            labels=stored.labels,
            created_s=stored.created_s,
            login=stored.author,
            state=stored.state,
        )
        milestones = {each["title"]: each for each in self._listed_milestones(repository)}
        told = {
            "assignees": [user_object(self.url, login, 100 + number) for number, login in enumerate(stored.assignees)],
            "milestone": milestones.get(stored.milestone),
        }
        return Answer(status=200, body={**self._issue_object(repository, issue), **told})

    def _milestones(self, repository: StoredRepository, query: Mapping[str, str]) -> Answer:
        return Answer(status=200, body=page_of(self._listed_milestones(repository), query))

    def _listed_milestones(self, repository: StoredRepository) -> list[Json]:
        named, creator = enumerate(repository.milestones, start=1), self._user_of("ann")
        return [milestone_object(self.url, repository.full_name, title, number, creator) for number, title in named]

    def _issue_object(self, repository: StoredRepository, stored: StoredIssue) -> Json:
        labels = [
            label_object(self.url, repository.full_name, name, number) for number, name in enumerate(stored.labels, 1)
        ]
        return issue_object(self.url, repository.full_name, stored, labels, self._user_of(stored.login))

    def _list_comments(self, repository: StoredRepository, number: str, query: Mapping[str, str]) -> Answer:
        found = [key for key, each in sorted(repository.comments.items()) if each.number == int(number)]
        shown = page_of(found, query)
        return Answer(status=200, body=[self._comment_object(repository, key) for key in shown])

    def _comment(self, repository: StoredRepository, number: str, body: Any) -> Answer:
        if int(number) not in repository.pull_requests:
            return Answer(status=404, body=error_object("Not Found"))
        if len(body["body"]) > COMMENT_LIMIT:
            error = {"resource": "IssueComment", "field": "data", "code": "unprocessable"}
            return Answer(status=422, body=validation_error_object(error))
        key = self.store_comment(repository, int(number), body["body"], self.login, OWN_ID)
        return Answer(status=201, body=self._comment_object(repository, key))

    def _edit_comment(self, repository: StoredRepository, key: str, body: Any) -> Answer:
        stored = repository.comments.get(int(key))
        if stored is None:
            return Answer(status=404, body=error_object("Not Found"))
        stored.body, stored.updated_s = body["body"], self.tick()
        return Answer(status=200, body=self._comment_object(repository, int(key)))

    def _delete_comment(self, repository: StoredRepository, key: str) -> Answer:
        if repository.comments.pop(int(key), None) is None:
            return Answer(status=404, body=error_object("Not Found"))
        return Answer(status=204)

    def _comment_object(self, repository: StoredRepository, key: int) -> Json:
        stored = repository.comments[key]
        user = user_object(self.url, stored.login, stored.user_id)
        times = (stored.created_s, stored.updated_s)
        return comment_object(self.url, repository.full_name, stored.number, key, stored.body, user, times)

    def _list_statuses(self, repository: StoredRepository, sha: str, query: Mapping[str, str]) -> Answer:
        return Answer(status=200, body=page_of(repository.statuses.get(sha, []), query))

    def _set_status(self, repository: StoredRepository, sha: str, body: Any) -> Answer:
        shown = status_object(self.url, user_object(self.url, self.login, OWN_ID), body, self.tick())
        repository.statuses.setdefault(sha, []).insert(0, shown)
        return Answer(status=201, body=shown)

    def _refresh(self, repository: StoredRepository) -> None:
        """As on GitHub, a pull request closes by itself when its head branch is deleted."""
        branches = repository.branches()
        self.note_pushes(repository, branches)
        for stored in repository.pull_requests.values():
            if stored.state != "open" or stored.head_repository is not None:
                continue
            if stored.head in branches:
                stored.head_commit = branches[stored.head]
            else:
                self.close_stored(stored)

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
            user=self._user_of(stored.author),
            created_s=stored.created_s,
            updated_s=stored.updated_s,
            closed_s=stored.closed_s,
            merged_s=stored.merged_s,
            node_id=f"PR_{repository.id}_{stored.number}",
            told_by=self._user_of(stored.told_by.removeprefix(self.login)) if stored.told_by else None,
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
    """A running server; see `serve_forge`."""
    description = find_description()
    with serve_forge(GitHubServer(load_contract(description) if description else None)) as state:
        yield state


def _refuse_mutation(message: str) -> Answer:
    error = {"type": "UNPROCESSABLE", "path": ["enablePullRequestAutoMerge"], "message": message}
    return Answer(status=200, body={"data": {"enablePullRequestAutoMerge": None}, "errors": [error]})


def _refuse_create(message: str) -> Answer:
    error = {"resource": "PullRequest", "code": "custom", "message": message}
    return Answer(status=422, body=validation_error_object(error))
