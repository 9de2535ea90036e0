"""Comments (notes) and commit statuses on GitLab, of which only those by our own credential are ever read."""

import contextlib
import logging

from reconciler.forge.answers import flag_of, number_of, number_or_none, text_of
from reconciler.forge.failures import NotFoundError
from reconciler.forge.gitlab.client import GitLabClient
from reconciler.forge.gitlab.texts import text_to_send
from reconciler.forge.reviews import Comment, CommitStatus, Verdict, check_commit

logger = logging.getLogger(__name__)

WORDS_LIMIT = 255
"""Characters of a status."""
STATES = {Verdict.SUCCESS: "success", Verdict.FAILURE: "failed", Verdict.NEUTRAL: "success"}


class GitLabReviews:
    """What reviews leave on the project at the REST path `path`."""

    def __init__(self, client: GitLabClient, path: str) -> None:
        self._client = client
        self._path = path
        self._author = 0

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See `Reviews`; what GitLab notes by itself in our name is no comment."""
        action, path = f"read the comments on pull request {number}", self._notes(number)
        query = {"sort": "asc", "order_by": "created_at"}
        notes = [note for page in self._client.pages(path, action=action, query=query) for note in page]
        found = {number_of(note, "id"): note for note in notes if self._is_ours(note, "author")}
        return tuple(
            Comment(key=str(key), body=text_of(found[key], "body"))
            for key in sorted(found)
            if not flag_of(found[key], "system")
        )

    def write_comment(self, number: int, body: str) -> None:
        """See `Reviews`."""
        form = {"body": text_to_send(body)}
        self._client.post(self._notes(number), form, action=f"comment on pull request {number}")

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Reviews`."""
        path = f"{self._notes(number)}/{int(key)}"
        with contextlib.suppress(NotFoundError):
            self._client.put(path, {"body": text_to_send(body)}, action="edit a comment")

    def delete_comment(self, number: int, key: str) -> None:
        """See `Reviews`."""
        with contextlib.suppress(NotFoundError):
            self._client.delete(f"{self._notes(number)}/{int(key)}", action="delete a comment")

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """See `Reviews`; a status of GitLab knows no neutral, and a commit that no branch holds may get none."""
        check_commit(commit)
        wanted = {"state": STATES[status.verdict], "description": status.words[:WORDS_LIMIT], "name": status.context}
        if self._is_shown(commit, wanted):
            return
        try:
            path = f"{self._path}/statuses/{commit}"
            self._client.post(path, wanted, action=f"set the status of {commit[:7]}")
        except NotFoundError as error:
            logger.warning("%s: a fork's commit has no status on GitLab", error)

    def _is_shown(self, commit: str, wanted: dict[str, str]) -> bool:
        """Whether the newest of its name says so already, and is ours."""
        path, action = f"{self._path}/repository/commits/{commit}/statuses", f"read the status of {commit[:7]}"
        query = {"name": wanted["name"]}
        found = [each for page in self._client.pages(path, action=action, query=query) for each in page]
        newest = max(found, key=lambda each: number_of(each, "id"), default=None)
        if newest is None or any(
            text_of(newest, {"state": "status"}.get(name, name)) != text for name, text in wanted.items()
        ):
            return False
        return self._is_ours(newest, "author")

    def _is_ours(self, answer: object, role: str) -> bool:
        return number_or_none(answer, role, "id") == self._own_id()

    def _own_id(self) -> int:
        if not self._author:
            self._author = number_of(self._client.get("/user", action="ask whose token this is"), "id")
        return self._author

    def _notes(self, number: int) -> str:
        return f"{self._path}/merge_requests/{number}/notes"
