"""What Gitea's REST API takes and answers, as far as we ask it, in the form of an OpenAPI description.

Gitea publishes a description of its own (Swagger 2), which calls no field required and none nullable. What stands here
is taken from its types and handlers, read in November 2026: modules/structs, routers/api/v1/repo (pull.go,
pull_review.go, issue_comment.go, issue_label.go, status.go, branch.go, compare.go) and services/convert in
go-gitea/gitea. `tests/integration/test_gitea_contract.py` holds its fields against a client that is generated from
that description (npm, `gitea-js`).
"""

import functools

from tests.servers.contract import (
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

COUNT: Json = {"type": "integer", "minimum": 0}
STATE = one_of("pending", "success", "error", "failure", "warning", "skipped")
USER = objects({"id": NUMBER, "login": TEXT, "full_name": TEXT, "email": TEXT})
PERMISSIONS = objects({"admin": FLAG, "push": FLAG, "pull": FLAG})
REPOSITORY = objects(
    {
        "id": NUMBER,
        "full_name": TEXT,
        "archived": FLAG,
        "permissions": PERMISSIONS,
        "has_pull_requests": FLAG,
        "allow_merge_commits": FLAG,
        "allow_squash_merge": FLAG,
        "allow_rebase": FLAG,
    }
)
LABEL = objects({"id": NUMBER, "name": TEXT, "color": TEXT})
SIDE = objects(
    {
        "label": TEXT,
        "ref": TEXT,
        "sha": TEXT,
        "repo_id": {"type": "integer"},
        "repo": or_null(objects({"id": NUMBER, "full_name": TEXT})),
    }
)
PULL_REQUEST = objects(
    {
        "id": NUMBER,
        "number": NUMBER,
        "title": TEXT,
        "body": TEXT,
        "state": one_of("open", "closed"),
        "draft": FLAG,
        "labels": many(LABEL),
        "user": USER,
        "mergeable": FLAG,
        "merged": FLAG,
        "merged_at": or_null(TIME),
        "merge_commit_sha": or_null(TEXT),
        "base": SIDE,
        "head": SIDE,
        "html_url": TEXT,
        "created_at": TIME,
        "updated_at": TIME,
        "closed_at": or_null(TIME),
    }
)
REVIEW = objects(
    {
        "id": NUMBER,
        "user": USER,
        "state": one_of("APPROVED", "PENDING", "COMMENT", "REQUEST_CHANGES", "REQUEST_REVIEW"),
        "dismissed": FLAG,
    }
)
MILESTONE = objects({"id": NUMBER, "title": TEXT, "state": one_of("open", "closed")})
ISSUE = objects(
    {
        "number": NUMBER,
        "title": TEXT,
        "body": TEXT,
        "state": one_of("open", "closed"),
        "user": USER,
        "labels": many(LABEL),
        "pull_request": or_null({"type": "object"}),
    },
    optional={"assignees": or_null(many(USER)), "milestone": or_null(MILESTONE)},
)
COMMENT = objects({"id": NUMBER, "body": TEXT, "user": USER, "created_at": TIME, "updated_at": TIME})
STATUS = objects({"id": NUMBER, "status": STATE, "context": TEXT, "description": TEXT, "creator": USER})
BRANCH = objects({"name": TEXT, "protected": FLAG, "user_can_push": FLAG, "user_can_merge": FLAG})
PROTECTION = objects(
    {"rule_name": TEXT, "enable_push": FLAG, "require_signed_commits": FLAG, "dismiss_stale_approvals": FLAG},
    optional={"block_on_outdated_branch": FLAG},
)
ACTIVITY = objects(
    {"id": NUMBER, "op_type": TEXT, "ref_name": TEXT, "content": TEXT, "act_user": USER, "created": TIME}
)
PAGE: Json = {"page": NUMBER, "limit": COUNT}
NOTHING = or_null({"type": "object"})
NEW_COMMENT: Json = {"type": "object", "required": ["body"], "properties": {"body": TEXT}}
TEXTS: Json = {"title": {"type": "string", "maxLength": 255}, "body": TEXT}

FIELDS = {
    "PullRequest": PULL_REQUEST,
    "Issue": ISSUE,
    "Milestone": MILESTONE,
    "PRBranchInfo": SIDE,
    "Repository": REPOSITORY,
    "User": USER,
    "Label": LABEL,
    "PullReview": REVIEW,
    "Comment": COMMENT,
    "CommitStatus": STATUS,
    "Branch": BRANCH,
    "BranchProtection": PROTECTION,
    "Activity": ACTIVITY,
}
"""By the names of Gitea's own types."""

PATHS: Json = {
    "/user": {"get": operation("user/get", USER)},
    "/orgs/{org}/labels": {"get": operation("org-labels/list", many(LABEL), query=PAGE)},
    "/repos/{owner}/{repo}": {"get": operation("repo/get", REPOSITORY)},
    "/repos/{owner}/{repo}/pulls": {
        "get": operation(
            "pulls/list",
            many(PULL_REQUEST),
            query={
                **PAGE,
                "state": one_of("open", "closed", "all"),
                "sort": one_of("oldest", "recentupdate", "leastupdate", "mostcomment", "leastcomment", "priority"),
                "base_branch": TEXT,
            },
        ),
        "post": operation(
            "pulls/create",
            PULL_REQUEST,
            body={
                "type": "object",
                "required": ["head", "base", "title"],
                "properties": {"head": TEXT, "base": TEXT, **TEXTS, "labels": NUMBERS},
            },
            status=201,
        ),
    },
    "/repos/{owner}/{repo}/pulls/{index}": {
        "get": operation("pulls/get", PULL_REQUEST),
        "patch": operation(
            "pulls/edit",
            PULL_REQUEST,
            body={"type": "object", "properties": {**TEXTS, "state": one_of("open", "closed"), "base": TEXT}},
            status=201,
        ),
    },
    "/repos/{owner}/{repo}/pulls/{index}/merge": {
        "post": operation(
            "pulls/merge",
            NOTHING,
            body={
                "type": "object",
                "required": ["Do"],
                "properties": {
                    "Do": one_of("merge", "rebase", "rebase-merge", "squash", "fast-forward-only", "manually-merged"),
                    "head_commit_id": TEXT,
                },
            },
        )
    },
    "/repos/{owner}/{repo}/pulls/{index}/reviews": {"get": operation("reviews/list", many(REVIEW), query=PAGE)},
    "/repos/{owner}/{repo}/pulls/{index}/requested_reviewers": {
        "post": operation(
            "reviews/request",
            many(REVIEW),
            body={"type": "object", "properties": {"reviewers": many(TEXT), "team_reviewers": many(TEXT)}},
            status=201,
        )
    },
    "/repos/{owner}/{repo}/issues": {
        "get": operation(
            "issues/list",
            many(ISSUE),
            query={**PAGE, "labels": TEXT, "type": one_of("issues", "pulls"), "state": one_of("open", "closed", "all")},
        ),
        "post": operation(
            "issues/create",
            ISSUE,
            body={"type": "object", "required": ["title"], "properties": {**TEXTS, "labels": NUMBERS}},
            status=201,
        ),
    },
    "/repos/{owner}/{repo}/milestones": {
        "get": operation("milestones/list", many(MILESTONE), query={**PAGE, "state": one_of("open", "closed", "all")})
    },
    "/repos/{owner}/{repo}/issues/{index}": {
        "get": operation("issues/get", ISSUE),
        "patch": operation(
            "issues/edit",
            ISSUE,
            body={
                "type": "object",
                "properties": {
                    **TEXTS,
                    "state": one_of("open", "closed"),
                    "assignees": many(TEXT),
                    "milestone": NUMBER,
                },
            },
            status=201,
        ),
    },
    "/repos/{owner}/{repo}/labels": {
        "get": operation("labels/list", many(LABEL), query=PAGE),
        "post": operation(
            "labels/create",
            LABEL,
            body={"type": "object", "required": ["name", "color"], "properties": {"name": TEXT, "color": TEXT}},
            status=201,
        ),
    },
    "/repos/{owner}/{repo}/issues/{index}/labels": {
        "post": operation("issues/add-labels", many(LABEL), body={"type": "object", "properties": {"labels": NUMBERS}})
    },
    "/repos/{owner}/{repo}/issues/{index}/labels/{id}": {
        "delete": operation("issues/remove-label", NOTHING, status=204)
    },
    "/repos/{owner}/{repo}/issues/{index}/comments": {
        "get": operation("comments/list", many(COMMENT), query=PAGE),  # not paged: what is asked beyond is ignored
        "post": operation("comments/create", COMMENT, body=NEW_COMMENT, status=201),
    },
    "/repos/{owner}/{repo}/issues/comments/{id}": {
        "patch": operation("comments/edit", COMMENT, body=NEW_COMMENT),
        "delete": operation("comments/delete", NOTHING, status=204),
    },
    "/repos/{owner}/{repo}/commits/{ref}/statuses": {
        "get": operation("statuses/list", many(STATUS), query={**PAGE, "sort": TEXT, "state": STATE})
    },
    "/repos/{owner}/{repo}/statuses/{sha}": {
        "post": operation(
            "statuses/create",
            STATUS,
            body={
                "type": "object",
                "properties": {"state": STATE, "context": TEXT, "description": TEXT, "target_url": TEXT},
            },
            status=201,
        )
    },
    "/repos/{owner}/{repo}/compare/{basehead}": {
        "get": operation("compare/get", objects({"total_commits": COUNT, "commits": many({"type": "object"})}))
    },
    "/repos/{owner}/{repo}/branches/{branch}": {"get": operation("branches/get", BRANCH)},
    "/repos/{owner}/{repo}/branch_protections": {"get": operation("branch-protections/list", many(PROTECTION))},
    "/repos/{owner}/{repo}/activities/feeds": {
        "get": operation("activities/list", many(ACTIVITY), query={**PAGE, "date": TEXT})
    },
}


@functools.cache
def load_contract() -> Contract:
    """The contract; built once in each process."""
    error: Json = {"type": "object", "required": ["message"], "properties": {"message": TEXT, "url": TEXT}}
    return Contract({"paths": PATHS, "components": {"parameters": {}, "schemas": {"basic-error": error}}})
