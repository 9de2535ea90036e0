"""GitHub's JSON objects in full: every field that its description requires, built once and with care."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.servers.forge_server import Push, StoredIssue

Json = dict[str, Any]

USER_LINKS = (
    "followers",
    "following",
    "gists",
    "starred",
    "subscriptions",
    "organizations",
    "repos",
    "events",
    "received_events",
)
REPOSITORY_LINKS = (
    "archive",
    "assignees",
    "blobs",
    "branches",
    "collaborators",
    "comments",
    "commits",
    "compare",
    "contents",
    "contributors",
    "deployments",
    "downloads",
    "events",
    "forks",
    "git_commits",
    "git_refs",
    "git_tags",
    "hooks",
    "issue_comment",
    "issue_events",
    "issues",
    "keys",
    "labels",
    "languages",
    "merges",
    "milestones",
    "notifications",
    "pulls",
    "releases",
    "stargazers",
    "statuses",
    "subscribers",
    "subscription",
    "tags",
    "teams",
    "trees",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestView:
    """What one pull request shows; `repository` and `head_repository` are objects (a deleted fork: None)."""

    number: int
    title: str
    body: str | None
    state: str
    draft: bool
    base: str
    base_commit: str
    head: str
    head_commit: str
    repository: Json
    head_repository: Json | None
    labels: Sequence[Json]
    reviewers: Sequence[Json]
    user: Json
    node_id: str
    told_by: Json | None
    created_s: float
    updated_s: float
    closed_s: float | None
    merged_s: float | None


def timestamp(seconds: float) -> str:
    """Unix seconds as GitHub writes them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def user_object(api: str, login: str, user_id: int) -> Json:
    """A `simple-user`."""
    url = f"{api}/users/{login}"
    return {
        "login": login,
        "id": user_id,
        "node_id": f"U_{user_id}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{user_id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"https://github.com/{login}",
        **{f"{name}_url": f"{url}/{name}" for name in USER_LINKS},
        "type": "User",
        "site_admin": False,
    }


def activity_object(push: Push, actor: Json, number: int) -> Json:
    """An `activity`: a push to a branch."""
    return {
        "id": number,
        "node_id": f"PSH_{number}",
        "before": "0" * 40,
        "after": push.commit,
        "ref": f"refs/heads/{push.branch}",
        "timestamp": timestamp(push.at_s),
        "activity_type": "force_push",
        "actor": actor,
    }


def rule_object(kind: str) -> Json:
    """A `repository-rule-detailed` of a ruleset of the repository."""
    parameters = {
        "dismiss_stale_reviews_on_push": True,
        "require_code_owner_review": False,
        "require_last_push_approval": False,
        "required_approving_review_count": 1,
        "required_review_thread_resolution": False,
    }
    checks = {
        "required_status_checks": [{"context": "build"}],
        "strict_required_status_checks_policy": True,
        "do_not_enforce_on_create": False,
    }
    of_kind = {"pull_request": parameters, "required_status_checks": checks}
    source = {"ruleset_source_type": "Repository", "ruleset_source": "acme/fleet", "ruleset_id": 42}
    return {"type": kind, **({"parameters": of_kind[kind]} if kind in of_kind else {}), **source}


def public_user_object(api: str, login: str, user_id: int, name: str, created_s: float) -> Json:
    """A `public-user`, as `GET /user` answers it."""
    return {
        **user_object(api, login, user_id),
        "user_view_type": "public",
        "name": name,
        "company": None,
        "blog": "",
        "location": None,
        "email": None,
        "notification_email": None,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": 1,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": timestamp(created_s),
        "updated_at": timestamp(created_s),
    }


def repository_object(api: str, full_name: str, repository_id: int, owner: Json, created_s: float) -> Json:
    """A `repository`, as it stands inside a pull request."""
    url = f"{api}/repos/{full_name}"
    html_url = f"https://github.com/{full_name}"
    name = full_name.partition("/")[2]
    return {
        "id": repository_id,
        "node_id": f"R_{repository_id}",
        "name": name,
        "full_name": full_name,
        "owner": owner,
        "private": False,
        "html_url": html_url,
        "description": None,
        "fork": False,
        "url": url,
        **{f"{link}_url": f"{url}/{link}" for link in REPOSITORY_LINKS},
        "git_url": f"git://github.com/{full_name}.git",
        "ssh_url": f"git@github.com:{full_name}.git",
        "clone_url": f"{html_url}.git",
        "svn_url": html_url,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "license": None,
        "size": 1,
        "default_branch": "main",
        "visibility": "public",
        "archived": False,
        "disabled": False,
        **dict.fromkeys(("has_issues", "has_projects", "has_downloads", "has_wiki"), True),
        **dict.fromkeys(("has_pages", "has_discussions", "allow_forking", "is_template"), False),
        **dict.fromkeys(("forks", "forks_count", "stargazers_count", "watchers", "watchers_count"), 0),
        **dict.fromkeys(("open_issues", "open_issues_count"), 0),
        "pushed_at": timestamp(created_s),
        "created_at": timestamp(created_s),
        "updated_at": timestamp(created_s),
    }


def full_repository_object(repository: Json) -> Json:
    """A `full-repository`, as `GET /repos/{owner}/{repo}` answers it."""
    permissions = {"admin": False, "maintain": False, "push": True, "triage": True, "pull": True}
    return {**repository, "network_count": 0, "subscribers_count": 0, "permissions": permissions}


def label_object(api: str, full_name: str, name: str, label_id: int) -> Json:
    """A `label`."""
    return {
        "id": label_id,
        "node_id": f"LA_{label_id}",
        "url": f"{api}/repos/{full_name}/labels/{label_id}",
        "name": name,
        "description": "",  # a list of pull requests allows no null here, a list of labels does
        "color": "ededed",
        "default": False,
    }


def simple_pull_request_object(api: str, view: PullRequestView) -> Json:
    """A `pull-request-simple`, as lists hold it."""
    full_name = view.repository["full_name"]
    url = f"{api}/repos/{full_name}/pulls/{view.number}"
    issue_url = f"{api}/repos/{full_name}/issues/{view.number}"
    html_url = f"https://github.com/{full_name}/pull/{view.number}"
    links = {
        "self": url,
        "html": html_url,
        "issue": issue_url,
        "comments": f"{issue_url}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{api}/repos/{full_name}/pulls/comments/1",
        "commits": f"{url}/commits",
        "statuses": f"{api}/repos/{full_name}/statuses/{view.head_commit}",
    }
    return {
        "id": 1_000_000 + view.number,
        "node_id": view.node_id,
        "number": view.number,
        "url": url,
        "html_url": html_url,
        "diff_url": f"{html_url}.diff",
        "patch_url": f"{html_url}.patch",
        **{f"{name}_url": links[name] for name in ("issue", "commits", "comments", "statuses")},
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "_links": {name: {"href": link} for name, link in links.items()},
        "state": view.state,
        "locked": False,
        "title": view.title,
        "body": view.body,
        "draft": view.draft,
        "user": view.user,
        "labels": list(view.labels),
        "requested_reviewers": list(view.reviewers),
        "requested_teams": [],
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "author_association": "MEMBER",
        "auto_merge": None if view.told_by is None else auto_merge_object(view.told_by),
        "merge_commit_sha": None,
        "head": _end(view.head, view.head_commit, view.head_repository, view.user),
        "base": _end(view.base, view.base_commit, view.repository, view.user),
        "created_at": timestamp(view.created_s),
        "updated_at": timestamp(view.updated_s),
        "closed_at": None if view.closed_s is None else timestamp(view.closed_s),
        "merged_at": None if view.merged_s is None else timestamp(view.merged_s),
    }


def auto_merge_object(told_by: Json) -> Json:
    """An `auto-merge`."""
    return {"enabled_by": told_by, "merge_method": "merge", "commit_title": "", "commit_message": ""}


def review_object(api: str, full_name: str, number: int, review_id: int, login: str, state: str) -> Json:
    """A `pull-request-review`."""
    url = f"{api}/repos/{full_name}/pulls/{number}"
    html_url = f"https://github.com/{full_name}/pull/{number}#pullrequestreview-{review_id}"
    return {
        "id": review_id,
        "node_id": f"PRR_{review_id}",
        "user": user_object(api, login, 200 + review_id),
        "body": "",
        "state": state,
        "html_url": html_url,
        "pull_request_url": url,
        "_links": {"html": {"href": html_url}, "pull_request": {"href": url}},
        "commit_id": "0" * 40,
        "author_association": "MEMBER",
    }


def pull_request_object(api: str, view: PullRequestView) -> Json:
    """A `pull-request`, as a single one is answered."""
    return {
        **simple_pull_request_object(api, view),
        "merged": view.merged_s is not None,
        "mergeable": None,
        "rebaseable": None,
        "mergeable_state": "unknown",
        "merged_by": view.user if view.merged_s is not None else None,
        "maintainer_can_modify": False,
        "comments": 0,
        "review_comments": 0,
        "commits": 1,
        "additions": 1,
        "deletions": 1,
        "changed_files": 1,
    }


def milestone_object(api: str, full_name: str, title: str, number: int, creator: Json) -> Json:
    """An open `milestone`."""
    url = f"{api}/repos/{full_name}/milestones/{number}"
    return {
        "id": 500 + number,
        "node_id": f"MI_{number}",
        "url": url,
        "html_url": f"https://github.com/{full_name}/milestone/{number}",
        "labels_url": f"{url}/labels",
        "number": number,
        "state": "open",
        "title": title,
        "description": None,
        "creator": creator,
        "open_issues": 0,
        "closed_issues": 0,
        "created_at": timestamp(0.0),
        "updated_at": timestamp(0.0),
        "closed_at": None,
        "due_on": None,
    }


def issue_object(api: str, full_name: str, issue: StoredIssue, labels: Sequence[Json], user: Json) -> Json:
    """An `issue`."""
    url = f"{api}/repos/{full_name}/issues/{issue.number}"
    return {
        "id": issue.number,
        "node_id": f"I_{issue.number}",
        "url": url,
        "repository_url": f"{api}/repos/{full_name}",
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": f"https://github.com/{full_name}/issues/{issue.number}",
        "number": issue.number,
        "state": issue.state,
        "title": issue.title,
        "body": issue.body,
        "user": user,
        "labels": list(labels),
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "locked": False,
        "comments": 0,
        "author_association": "NONE",
        "created_at": timestamp(issue.created_s),
        "updated_at": timestamp(issue.closed_s or issue.created_s),
        "closed_at": None if issue.closed_s is None else timestamp(issue.closed_s),
    }


def comment_object(
    api: str, full_name: str, number: int, key: int, body: str, user: Json, times_s: tuple[float, float]
) -> Json:
    """An `issue-comment`."""
    url = f"{api}/repos/{full_name}/issues/comments/{key}"
    return {
        "id": key,
        "node_id": f"IC_{key}",
        "url": url,
        "html_url": f"https://github.com/{full_name}/pull/{number}#issuecomment-{key}",
        "issue_url": f"{api}/repos/{full_name}/issues/{number}",
        "body": body,
        "user": user,
        "author_association": "NONE",
        "created_at": timestamp(times_s[0]),
        "updated_at": timestamp(times_s[1]),
    }


def status_object(api: str, creator: Json, form: Json, at_s: float) -> Json:
    """A `status` of a commit."""
    return {
        "url": f"{api}/statuses/1",
        "avatar_url": None,
        "id": 1,
        "node_id": "SC_1",
        "state": form["state"],
        "description": form.get("description"),
        "target_url": form.get("target_url"),
        "context": form.get("context", "default"),
        "created_at": timestamp(at_s),
        "updated_at": timestamp(at_s),
        "creator": creator,
    }


def error_object(message: str, *, anchor: str = "") -> Json:
    """A `basic-error`."""
    return {"message": message, "documentation_url": f"https://docs.github.com/rest{anchor}"}


def validation_error_object(*errors: Json) -> Json:
    """A `validation-error`."""
    return {**error_object("Validation Failed", anchor="/pulls/pulls"), "errors": list(errors)}


def _end(ref: str, commit: str, repository: Json | None, user: Json) -> Json:
    owner = repository["owner"] if repository else user
    return {"label": f"{owner['login']}:{ref}", "ref": ref, "sha": commit, "user": owner, "repo": repository}


def app_object(url: str, owner: Json) -> Json:
    """A GitHub App."""
    return {
        "id": 12345,
        "slug": "reconciler-app",
        "node_id": "A_1",
        "owner": owner,
        "name": "Reconciler App",
        "description": None,
        "external_url": "https://example.com",
        "html_url": f"{url}/apps/reconciler-app",
        "created_at": "2026-01-15T14:05:00Z",
        "updated_at": "2026-01-15T14:05:00Z",
        "permissions": {"contents": "write", "pull_requests": "write"},
        "events": [],
    }


def installation_object(url: str, account: Json) -> Json:
    """An App's installation in an account."""
    return {
        "id": 77,
        "account": account,
        "repository_selection": "selected",
        "access_tokens_url": f"{url}/app/installations/77/access_tokens",
        "repositories_url": f"{url}/installation/repositories",
        "html_url": f"{url}/settings/installations/77",
        "app_id": 12345,
        "app_slug": "reconciler-app",
        "target_id": 7,
        "target_type": "Organization",
        "permissions": {"contents": "write", "pull_requests": "write"},
        "events": [],
        "created_at": "2026-01-15T14:05:00Z",
        "updated_at": "2026-01-15T14:05:00Z",
        "single_file_name": None,
        "suspended_by": None,
        "suspended_at": None,
    }
