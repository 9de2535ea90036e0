"""GitLab's JSON objects, with the fields that its API reference shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.servers.forge_server import Push

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequestView:
    """A merge request as it is shown; times are Unix seconds, `source_project_id` None is a deleted fork."""

    number: int
    title: str
    description: str | None
    state: str
    source_branch: str
    target_branch: str
    source_project_id: int | None
    project_id: int
    labels: Sequence[str]
    reviewers: Sequence[Json]
    assignees: Sequence[Json]
    milestone: Json | None
    author: Json
    sha: str
    told_by: Json | None
    """Who has GitLab merge it by itself."""
    merge_status: str
    created_s: float
    updated_s: float
    closed_s: float | None
    merged_s: float | None
    web_url: str


def timestamp(at_s: float) -> str:
    """A time as GitLab writes it."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def user_object(host: str, username: str, number: int, name: str) -> Json:
    """A user as others see one."""
    return {
        "id": number,
        "username": username,
        "name": name,
        "state": "active",
        "locked": False,
        "avatar_url": None,
        "web_url": f"{host}/{username}",
    }


def own_user_object(host: str, username: str, number: int, name: str, email: str) -> Json:
    """The token's own user; without a verified address `email` is empty."""
    shown = user_object(host, username, number, name)
    return {**shown, "email": email, "commit_email": email, "public_email": None, "bot": True, "is_admin": False}


def project_object(host: str, full_name: str, number: int, told: Json) -> Json:
    """A project; `told` are the fields that tests change."""
    owner, _, name = full_name.rpartition("/")
    return {
        "id": number,
        "name": name,
        "path": name,
        "path_with_namespace": full_name,
        "name_with_namespace": f"{owner} / {name}",
        "default_branch": "main",
        "visibility": "private",
        "web_url": f"{host}/{full_name}",
        "http_url_to_repo": f"{host}/{full_name}.git",
        "ssh_url_to_repo": f"git@gitlab.example.com:{full_name}.git",
        "only_allow_merge_if_pipeline_succeeds": False,
        "remove_source_branch_after_merge": True,
        "merge_method": "merge",
        **told,
    }


def merge_request_object(view: MergeRequestView) -> Json:
    """A merge request, alone or in a list."""
    is_draft = view.title.lower().startswith(("draft:", "[draft]", "(draft)"))
    return {
        "id": 1000 + view.number,
        "iid": view.number,
        "project_id": view.project_id,
        "title": view.title,
        "description": view.description,
        "state": view.state,
        "created_at": timestamp(view.created_s),
        "updated_at": timestamp(view.updated_s),
        "merged_at": None if view.merged_s is None else timestamp(view.merged_s),
        "closed_at": None if view.closed_s is None or view.merged_s is not None else timestamp(view.closed_s),
        "target_branch": view.target_branch,
        "source_branch": view.source_branch,
        "author": view.author,
        "assignees": list(view.assignees),
        "reviewers": list(view.reviewers),
        "source_project_id": view.source_project_id,
        "target_project_id": view.project_id,
        "labels": list(view.labels),
        "draft": is_draft,
        "work_in_progress": is_draft,
        "milestone": view.milestone,
        "merge_when_pipeline_succeeds": view.told_by is not None,
        "merge_user": view.told_by,
        "detailed_merge_status": view.merge_status,
        "has_conflicts": view.merge_status == "conflict",
        "sha": view.sha,
        "merge_commit_sha": None,
        "web_url": view.web_url,
    }


def branch_object(name: str, commit: Json, *, protected: bool, developers_may: bool, can_push: bool) -> Json:
    """A branch; `developers_may` push and merge."""
    return {
        "name": name,
        "commit": commit,
        "merged": False,
        "protected": protected,
        "developers_can_push": developers_may,
        "developers_can_merge": developers_may,
        "can_push": can_push,
        "default": name == "main",
        "web_url": f"https://gitlab.example.com/-/tree/{name}",
    }


def commit_object(oid: str) -> Json:
    """A commit, of which nobody reads more than that it is there."""
    return {"id": oid, "short_id": oid[:8], "title": "A commit", "message": "A commit", "parent_ids": []}


def event_object(push: Push, project_id: int, author: Json) -> Json:
    """A push to a branch, as an event of the one who pushed."""
    pushed = {"commit_count": 1, "action": "pushed", "ref_type": "branch", "ref": push.branch}
    return {
        "id": 1,
        "project_id": project_id,
        "action_name": "pushed to",
        "author_id": author["id"],
        "author_username": author["username"],
        "created_at": timestamp(push.at_s),
        "push_data": {**pushed, "commit_from": None, "commit_to": push.commit},
    }


def note_object(number: int, body: str, author: Json, created_s: float) -> Json:
    """A comment."""
    return {
        "id": number,
        "type": None,
        "body": body,
        "author": author,
        "created_at": timestamp(created_s),
        "updated_at": timestamp(created_s),
        "system": False,
        "noteable_type": "MergeRequest",
        "resolvable": False,
    }


def status_object(number: int, sha: str, state: str, name: str, description: str | None, author: Json) -> Json:
    """A status of a commit."""
    return {
        "id": number,
        "sha": sha,
        "ref": "main",
        "status": state,
        "name": name,
        "target_url": None,
        "description": description,
        "allow_failure": False,
        "author": author,
    }
