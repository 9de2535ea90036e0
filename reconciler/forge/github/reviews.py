"""Comments and commit statuses on GitHub, of which only those by our own credential are ever read."""

import contextlib
from collections.abc import Iterator

from reconciler.forge.answers import number_of, text_of
from reconciler.forge.failures import NotFoundError
from reconciler.forge.github.client import GitHubClient
from reconciler.forge.reviews import Comment, CommitStatus, Verdict, check_commit

WORDS_LIMIT = 140
"""Characters of a status."""
STATES = {Verdict.SUCCESS: "success", Verdict.FAILURE: "failure", Verdict.NEUTRAL: "success"}
WHO = "query { viewer { databaseId } }"
"""`GET /user` has no answer for an App or a workflow; this has one for every token."""


class GitHubReviews:
    """What reviews leave on one repository, whose REST path is `path`."""

    def __init__(self, client: GitHubClient, path: str) -> None:
        self._client = client
        self._path = path
        self._author = 0

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See `Reviews`."""
        found = {number_of(each, "id"): each for each in self._comments(number) if self._is_ours(each)}
        return tuple(Comment(key=str(key), body=text_of(found[key], "body")) for key in sorted(found))

    def write_comment(self, number: int, body: str) -> None:
        """See `Reviews`."""
        path = f"{self._path}/issues/{number}/comments"
        self._client.post(path, {"body": body}, action=f"comment on pull request {number}")

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Reviews`; GitHub numbers the comments of a whole repository."""
        del number
        with contextlib.suppress(NotFoundError):
            self._client.patch(f"{self._path}/issues/comments/{int(key)}", {"body": body}, action="edit a comment")

    def delete_comment(self, number: int, key: str) -> None:
        """See `Reviews`."""
        del number
        with contextlib.suppress(NotFoundError):
            self._client.delete(f"{self._path}/issues/comments/{int(key)}", action="delete a comment")

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """See `Reviews`; a commit status of GitHub knows no neutral."""
        check_commit(commit)
        words = status.words[:WORDS_LIMIT]
        wanted = {"state": STATES[status.verdict], "description": words, "context": status.context}
        for shown in self._statuses(commit):
            if text_of(shown, "context") == status.context:
                if all(text_of(shown, name) == text for name, text in wanted.items()) and self._is_by_us(shown):
                    return
                break
        self._client.post(f"{self._path}/statuses/{commit}", wanted, action=f"set the status of {commit[:7]}")

    def _comments(self, number: int) -> Iterator[object]:
        path, action = f"{self._path}/issues/{number}/comments", f"read the comments on pull request {number}"
        for page in self._client.pages(path, action=action, query={}):
            yield from page

    def _statuses(self, commit: str) -> Iterator[object]:
        """The newest first."""
        path, action = f"{self._path}/commits/{commit}/statuses", f"read the status of {commit[:7]}"
        for page in self._client.pages(path, action=action, query={}):
            yield from page

    def _is_ours(self, comment: object) -> bool:
        return number_of(comment, "user", "id") == self._own_id() if text_of(comment, "user", "login") else False

    def _is_by_us(self, status: object) -> bool:
        login = text_of(status, "creator", "login")
        return number_of(status, "creator", "id") == self._own_id() if login else False

    def _own_id(self) -> int:
        if not self._author:
            answer = self._client.ask_graphql(WHO, {}, action="ask whose token this is")
            self._author = number_of(answer, "viewer", "databaseId")
        return self._author
