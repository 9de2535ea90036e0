"""Labels and reviewers of a merge request: what is refused of them is a warning, the merge request stands."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from reconciler.errors import ReconcilerError
from reconciler.forge.answers import list_of, number_of
from reconciler.forge.gitlab.answers import pull_request_of, reviewers_of
from reconciler.forge.gitlab.client import GitLabClient
from reconciler.forge.pull_requests import PullRequest

logger = logging.getLogger(__name__)

TEAM = "team:"
SEPARATOR = ","
"""Stands between labels, and so in none."""


class LabelsAndReviewers:
    """Adds them to merge requests of the project at `path`; reviewers are users by name."""

    def __init__(self, client: GitLabClient, path: str) -> None:
        self._client = client
        self._path = path
        self._users: dict[str, int | None] = {}

    def form(self, labels: tuple[str, ...], reviewers: tuple[str, ...]) -> dict[str, object]:
        """The fields that a new merge request gets them by."""
        return _filled(labels=labels, reviewer_ids=self._user_ids(reviewers))

    def complete(
        self,
        shown: PullRequest,
        labels: tuple[str, ...],
        reviewers: tuple[str, ...],
        *,
        unlabel: tuple[str, ...] = (),
    ) -> PullRequest:
        """Add those that are not there, and take away the labels of `unlabel` that are.

        GitLab passes over what it does not take, and so do we with a warning.
        """
        gone = [label for label in unlabel if label in shown.labels]
        missing = [label for label in _fitting(labels) if label not in shown.labels]
        for label in set(labels) - set(_fitting(labels)):
            logger.warning("pull request %d stays without %s: GitLab's labels hold no comma", shown.number, label)
        path = f"{self._path}/merge_requests/{shown.number}"
        action = f"label pull request {shown.number} and ask for its reviews"
        try:
            asked = self._user_ids(reviewers)
            present = reviewers_of(self._client.get(path, action=action)) if asked else ()
            added = [each for each in asked if each not in present]
            form = _filled(add_labels=missing, remove_labels=gone, reviewer_ids=[*present, *added] if added else [])
            if not form:
                return shown
            completed = self._client.put(path, form, action=action)
            taken = pull_request_of(completed).labels
        except ReconcilerError as error:
            logger.warning("pull request %d stays without its labels or reviewers: %s", shown.number, error)
            return shown
        left = [label for label in missing if label not in taken]
        if left:
            logger.warning("pull request %d stays without %s: GitLab did not take it", shown.number, ", ".join(left))
        if not set(added) <= set(reviewers_of(completed)):
            logger.warning("pull request %d: GitLab did not ask all reviewers; Free asks one", shown.number)
        return replace(shown, labels=taken)

    def _user_ids(self, names: tuple[str, ...]) -> list[int]:
        """The numbers of users by name; who is not found, or a team, is a warning."""
        for name in names:
            if name not in self._users:
                self._users[name] = self._user_id(name)
        found = (self._users[name] for name in names)
        return [number for number in dict.fromkeys(found) if number is not None]

    def _user_id(self, name: str) -> int | None:
        if name.startswith(TEAM):
            logger.warning("%s: GitLab asks people for reviews, not groups: name them, or use approval rules", name)
            return None
        try:
            users = self._client.get("/users", action=f"look for the user {name}", query={"username": name})
            found = next((number_of(user, "id") for user in list_of(users)), None)
        except ReconcilerError as error:
            logger.warning("%s is not asked for reviews: %s", name, error)
            return None
        if found is None:
            logger.warning("%s: GitLab knows no such user, who is not asked for reviews", name)
        return found


def _fitting(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if SEPARATOR not in label]


def _filled(*, reviewer_ids: Sequence[int], **labels: Sequence[str]) -> dict[str, object]:
    """The fields of a form that hold anything; `labels` are those of one field."""
    joined = {field: SEPARATOR.join(_fitting(names)) for field, names in labels.items()}
    fields = {**joined, "reviewer_ids": list(reviewer_ids)}
    return {name: value for name, value in fields.items() if value}
