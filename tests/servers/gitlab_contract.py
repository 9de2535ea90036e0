"""What GitLab's REST API takes and answers, as far as we ask it, in the form of an OpenAPI description.

GitLab publishes a description of its own (`doc/api/openapi/openapi_v3.yaml` in gitlab-org/gitlab, 4 MB, in no package
of any registry); it calls no field required and none nullable, and a list of merge requests one of them. So what stands
here is taken from the API reference, read in November 2026 (docs.gitlab.com/api/, doc/api/ in gitlab-org/gitlab):
merge_requests.md, milestones.md, projects.md, users.md, repositories.md, branches.md, protected_branches.md,
project_push_rules.md,
merge_request_approvals.md, merge_trains.md, events.md, members.md, notes.md, commits.md, rest/_index.md (pages,
status codes); and for the refusals of a create from lib/api/helpers/merge_requests_helpers.rb (422: branches in
conflict, 409: it is open already, 400: anything else).
"""

import functools

from tests.servers.contract import (
    DAY,
    FLAG,
    NUMBER,
    NUMBERS,
    TEXT,
    TIME,
    Contract,
    Json,
    many,
    objects,
    one_of,
    operation,
    or_null,
)

LEVEL: Json = {"type": "integer", "enum": [0, 5, 10, 15, 20, 30, 40, 50, 60]}
USER = objects({"id": NUMBER, "username": TEXT, "name": TEXT, "state": TEXT, "web_url": TEXT})
OWN_USER = objects({"id": NUMBER, "username": TEXT, "name": TEXT, "email": TEXT, "commit_email": TEXT})
ACCESS = or_null(objects({"access_level": LEVEL}))
PROJECT = objects(
    {
        "id": NUMBER,
        "path_with_namespace": TEXT,
        "default_branch": or_null(TEXT),
        "web_url": TEXT,
        "archived": FLAG,
        "merge_requests_enabled": FLAG,
        "merge_requests_access_level": one_of("disabled", "private", "enabled"),
        "permissions": objects({"project_access": ACCESS, "group_access": ACCESS}),
        "merge_method": one_of("merge", "rebase_merge", "ff"),
        "squash_option": one_of("never", "always", "default_on", "default_off"),
    },
    optional={"merge_trains_enabled": FLAG},
)
ISSUE = objects(
    {
        "id": NUMBER,
        "iid": NUMBER,
        "title": TEXT,
        "description": or_null(TEXT),
        "state": one_of("opened", "closed"),
        "labels": many(TEXT),
        "author": USER,
    }
)
ISSUE_TEXTS: Json = {"description": TEXT, "labels": TEXT, "state_event": one_of("close", "reopen")}
MILESTONE = objects({"id": NUMBER, "iid": NUMBER, "title": TEXT, "state": one_of("active", "closed")})
MERGE_REQUEST = objects(
    {
        "id": NUMBER,
        "iid": NUMBER,
        "project_id": NUMBER,
        "title": {"type": "string", "maxLength": 255},
        "description": or_null({"type": "string", "maxLength": 1_048_576}),
        "state": one_of("opened", "closed", "locked", "merged"),
        "created_at": TIME,
        "updated_at": TIME,
        "merged_at": or_null(TIME),
        "closed_at": or_null(TIME),
        "source_branch": TEXT,
        "target_branch": TEXT,
        "source_project_id": or_null(NUMBER),
        "target_project_id": NUMBER,
        "labels": many(TEXT),
        "reviewers": many(USER),
        "assignees": many(USER),
        "milestone": or_null(MILESTONE),
        "draft": FLAG,
        "merge_when_pipeline_succeeds": FLAG,
        "detailed_merge_status": TEXT,
        "sha": or_null(TEXT),
        "web_url": TEXT,
        "author": USER,
        "merge_user": or_null(USER),
    },
    optional={
        "head_pipeline": or_null(objects({"id": NUMBER, "sha": TEXT, "status": TEXT})),
        "user": objects({"can_merge": FLAG}),
    },
)
ORDER: Json = {
    "type": "object",
    "properties": {"sha": TEXT, "squash": FLAG, "auto_merge": FLAG, "merge_when_pipeline_succeeds": FLAG},
}
COMMIT = objects({"id": TEXT, "short_id": TEXT, "message": TEXT, "parent_ids": many(TEXT)})
NEW_COMMIT: Json = {
    "type": "object",
    "required": ["branch", "commit_message", "actions"],
    "properties": {
        "branch": TEXT,
        "start_sha": TEXT,
        "commit_message": TEXT,
        "actions": many(
            {
                "type": "object",
                "required": ["action", "file_path"],
                "properties": {
                    "action": one_of("create", "delete", "move", "update", "chmod"),
                    "file_path": TEXT,
                    "content": TEXT,
                    "encoding": one_of("text", "base64"),
                },
            }
        ),
    },
}
BRANCH = objects(
    {
        "name": TEXT,
        "commit": COMMIT,
        "protected": FLAG,
        "developers_can_push": FLAG,
        "developers_can_merge": FLAG,
        "can_push": FLAG,
        "default": FLAG,
    }
)
EVENT = objects(
    {
        "id": NUMBER,
        "project_id": NUMBER,
        "action_name": TEXT,
        "author_id": NUMBER,
        "author_username": TEXT,
        "created_at": TIME,
        "push_data": objects(
            {
                "commit_count": {"type": "integer"},
                "action": one_of("created", "pushed", "removed"),
                "ref_type": one_of("branch", "tag"),
                "commit_from": or_null(TEXT),
                "commit_to": or_null(TEXT),
                "ref": or_null(TEXT),
            }
        ),
    }
)
NOTE = objects({"id": NUMBER, "body": TEXT, "author": USER, "created_at": TIME, "updated_at": TIME, "system": FLAG})
NEW_NOTE: Json = {
    "type": "object",
    "required": ["body"],
    "properties": {"body": {"type": "string", "minLength": 1, "maxLength": 1_000_000}},
}
STATUS_STATES = ("pending", "running", "success", "failed", "canceled", "skipped")
STATUS = objects(
    {
        "id": NUMBER,
        "sha": TEXT,
        "ref": or_null(TEXT),
        "status": one_of(*STATUS_STATES),
        "name": TEXT,
        "target_url": or_null(TEXT),
        "description": or_null(TEXT),
        "author": USER,
    }
)
NEW_STATUS: Json = {
    "type": "object",
    "required": ["state"],
    "properties": {
        "state": one_of(*STATUS_STATES),
        "ref": TEXT,
        "name": TEXT,
        "target_url": {"type": "string", "maxLength": 255},
        "description": {"type": "string", "maxLength": 255},
    },
}
LEVELS = many(objects({"access_level": or_null(LEVEL)}))
PROTECTION = objects(
    {"id": NUMBER, "name": TEXT, "push_access_levels": LEVELS, "merge_access_levels": LEVELS, "allow_force_push": FLAG}
)
PAGE: Json = {"page": NUMBER, "per_page": {"type": "integer", "minimum": 1, "maximum": 100}}
LIST_QUERY: Json = {
    **PAGE,
    "state": one_of("all", "opened", "closed", "locked", "merged"),
    "order_by": one_of("created_at", "updated_at", "title", "merged_at"),
    "sort": one_of("asc", "desc"),
    "source_branch": TEXT,
    "target_branch": TEXT,
    "updated_after": TIME,
}
TEXTS: Json = {
    "title": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": {"type": "string", "maxLength": 1_048_576},
    "labels": TEXT,
    "reviewer_ids": NUMBERS,
    "assignee_ids": NUMBERS,
    "milestone_id": NUMBER,
    "remove_source_branch": FLAG,
    "squash": FLAG,
}
NEW_MERGE_REQUEST: Json = {
    "type": "object",
    "required": ["source_branch", "target_branch", "title"],
    "properties": {"source_branch": TEXT, "target_branch": TEXT, **TEXTS},
}
CHANGED_MERGE_REQUEST: Json = {
    "type": "object",
    "properties": {
        **TEXTS,
        "target_branch": TEXT,
        "state_event": one_of("close", "reopen"),
        "add_labels": TEXT,
        "remove_labels": TEXT,
    },
}
ERROR: Json = {"type": "object", "minProperties": 1}
"""`message` (a text, a list of texts, or those by field) or `error` with `error_description`."""


PATHS: Json = {
    "/user": {"get": operation("user/get", OWN_USER)},
    "/personal_access_tokens/self": {
        "get": operation(
            "token/get", objects({"id": NUMBER, "name": TEXT, "scopes": many(TEXT), "expires_at": or_null(DAY)})
        )
    },
    "/events": {
        "get": operation(
            "events/list",
            many(EVENT),
            query={**PAGE, "action": TEXT, "target_type": TEXT, "before": DAY, "after": DAY, "sort": TEXT},
        )
    },
    "/users": {"get": operation("users/list", many(USER), query={**PAGE, "username": TEXT})},
    "/projects/{id}": {"get": operation("project/get", PROJECT)},
    "/projects/{id}/issues": {
        "get": operation(
            "issues/list",
            many(ISSUE),
            query={**PAGE, "labels": TEXT, "scope": one_of("created_by_me", "assigned_to_me", "all")},
        ),
        "post": operation("issues/create", ISSUE, body=objects({"title": TEXT}, optional=ISSUE_TEXTS), status=201),
    },
    "/projects/{id}/issues/{iid}": {
        "put": operation("issues/update", ISSUE, body={"type": "object", "properties": {"title": TEXT, **ISSUE_TEXTS}})
    },
    "/projects/{id}/milestones": {
        "get": operation(
            "milestones/list",
            many(MILESTONE),
            query={**PAGE, "state": one_of("active", "closed"), "include_ancestors": one_of("true", "false")},
        )
    },
    "/projects/{id}/merge_requests": {
        "get": operation("merge-requests/list", many(MERGE_REQUEST), query=LIST_QUERY),
        "post": operation("merge-requests/create", MERGE_REQUEST, body=NEW_MERGE_REQUEST, status=201),
    },
    "/projects/{id}/merge_requests/{iid}": {
        "get": operation("merge-requests/get", MERGE_REQUEST),
        "put": operation("merge-requests/update", MERGE_REQUEST, body=CHANGED_MERGE_REQUEST),
    },
    "/projects/{id}/merge_requests/{iid}/notes": {
        "get": operation(
            "notes/list",
            many(NOTE),
            query={**PAGE, "sort": one_of("asc", "desc"), "order_by": one_of("created_at", "updated_at")},
        ),
        "post": operation("notes/create", NOTE, body=NEW_NOTE, status=201),
    },
    "/projects/{id}/merge_requests/{iid}/notes/{note_id}": {
        "put": operation("notes/update", NOTE, body=NEW_NOTE),
        "delete": operation("notes/delete", or_null({"type": "object"}), status=204),
    },
    "/projects/{id}/repository/commits": {"post": operation("commits/create", COMMIT, body=NEW_COMMIT, status=201)},
    "/projects/{id}/repository/commits/{sha}/statuses": {
        "get": operation("statuses/list", many(STATUS), query={**PAGE, "name": TEXT})
    },
    "/projects/{id}/statuses/{sha}": {"post": operation("statuses/create", STATUS, body=NEW_STATUS, status=201)},
    "/projects/{id}/merge_requests/{iid}/merge": {
        "put": operation("merge-requests/merge", MERGE_REQUEST, body=ORDER),
    },
    "/projects/{id}/merge_requests/{iid}/cancel_merge_when_pipeline_succeeds": {
        "post": operation("merge-requests/cancel-auto-merge", MERGE_REQUEST, body={"type": "object"}, status=201),
    },
    "/projects/{id}/merge_requests/{iid}/reviewers": {
        "get": operation("merge-requests/reviewers", many(objects({"user": USER, "state": TEXT}))),
    },
    "/projects/{id}/merge_trains/merge_requests/{iid}": {
        "post": operation("merge-trains/add", many(objects({"id": NUMBER, "status": TEXT})), body=ORDER, status=201),
    },
    "/projects/{id}/repository/compare": {
        "get": operation(
            "repository/compare",
            objects({"commit": or_null(COMMIT), "commits": many(COMMIT), "compare_same_ref": FLAG}),
            query={"from": TEXT, "to": TEXT, "straight": one_of("true", "false")},
        )
    },
    "/projects/{id}/repository/branches/{branch}": {"get": operation("branches/get", BRANCH)},
    "/projects/{id}/protected_branches": {
        "get": operation("protected-branches/list", many(PROTECTION), query={**PAGE, "search": TEXT})
    },
    "/projects/{id}/pipeline_schedules": {
        "get": operation(
            "pipeline-schedules/list",
            many(
                objects(
                    {
                        "id": NUMBER,
                        "description": TEXT,
                        "ref": TEXT,
                        "cron": TEXT,
                        "cron_timezone": TEXT,
                        "next_run_at": or_null(TIME),
                        "active": FLAG,
                    }
                )
            ),
            query={**PAGE, "scope": one_of("active", "inactive")},
        )
    },
    "/projects/{id}/push_rule": {"get": operation("push-rule/get", or_null(objects({"id": NUMBER})))},
    "/projects/{id}/approvals": {"get": operation("approvals/get", objects({"reset_approvals_on_push": FLAG}))},
    "/projects/{id}/members/all/{user_id}": {
        "get": operation("members/get", objects({"id": NUMBER, "username": TEXT, "access_level": LEVEL}))
    },
}


@functools.cache
def load_contract() -> Contract:
    """The contract; built once in each process."""
    return Contract({"paths": PATHS, "components": {"parameters": {}, "schemas": {"basic-error": ERROR}}})
