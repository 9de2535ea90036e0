"""What a token may do on GitHub, and what the rules of a repository forbid: asked without changing anything."""

import logging
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.answers import flag_of, flag_or_none, list_of, text_of
from reconciler.forge.failures import ForbiddenError
from reconciler.forge.github.client import GitHubClient
from reconciler.forge.github.failures import UnprocessableError
from reconciler.forge.rights import Cures, Rights

logger = logging.getLogger(__name__)

REFUSING: Mapping[str, str] = {
    "creation": "nobody may create such branches",
    "update": "nobody may push to such branches",
    "deletion": "nobody may delete such branches",
    "non_fast_forward": "no forced pushes",
    "pull_request": "changes only by pull request",
    "required_signatures": "signed commits only",
    "commit_message_pattern": "commit messages of a pattern",
    "commit_author_email_pattern": "commit authors of a pattern",
    "branch_name_pattern": "branch names of a pattern",
}
"""Rules that, on a head branch, keep us from creating, updating or deleting it."""
CURES = Cures(
    scheduling="allow auto-merge (Settings, General, Pull Requests)",
    opening='let TOKEN write "Pull requests"; for a workflow\'s token, set `permissions: pull-requests: write` and '
    "allow Actions to create pull requests (Settings, Actions, General)",
    labelling='let TOKEN write "Pull requests" and "Issues"',
    refusals="let our account bypass the ruleset (Settings, Rules)",
    signatures="merge by squash, which the forge signs, or let our account bypass the rule (Settings, Rules)",
)
DROPS_APPROVALS = "dismiss_stale_reviews_on_push"


def read_rights(client: GitHubClient, path: str, *, base: str, head: str) -> Rights:
    """The rights in the repository at `path`.

    A workflow's or App's token has no role, so what the repository says of one means nothing there.
    """
    repository = client.get(path, action="ask what the token may do")
    has_role = flag_of(repository, "permissions", "pull") or flag_of(repository, "permissions", "push")
    may_push = flag_of(repository, "permissions", "push") if has_role else None
    on_base = list(_rules(client, path, base))
    on_head = {text_of(rule, "type") for rule in _rules(client, path, head)}
    protection = _protection(client, path, base)
    return Rights(
        may_open=_may_open(client, path, base),
        may_label=None if may_push is None else may_push or flag_of(repository, "permissions", "triage"),
        may_merge=may_push,
        allows_auto_merge=flag_or_none(repository, "allow_auto_merge"),
        drops_approvals=any(flag_of(rule, "parameters", DROPS_APPROVALS) for rule in on_base)
        or flag_of(protection, "required_pull_request_reviews", "dismiss_stale_reviews"),
        needs_signatures=any(text_of(rule, "type") == "required_signatures" for rule in on_base)
        or flag_of(protection, "required_signatures", "enabled"),
        refusals=tuple(words for rule, words in REFUSING.items() if rule in on_head),
        cures=CURES,
    )


def _may_open(client: GitHubClient, path: str, base: str) -> bool:
    """Whether a pull request may be opened: one from a branch to itself is refused to all, but for another reason."""
    form = {"title": "May pull requests be opened?", "head": base, "base": base}
    try:
        client.post(f"{path}/pulls", form, action="ask whether pull requests may be opened")
    except UnprocessableError:
        return True
    except ForbiddenError as error:
        logger.debug("no pull request may be opened: %s", error)
        return False
    return True


def _rules(client: GitHubClient, path: str, branch: str) -> Iterator[object]:
    """The rules on a branch, which need not exist; none where GitHub knows of no rules."""
    try:
        yield from list_of(client.get(f"{path}/rules/branches/{quote(branch, safe='')}", action="ask for rules"))
    except ConfigurationError as error:
        logger.debug("no rules of %s are known: %s", branch, error)


def _protection(client: GitHubClient, path: str, branch: str) -> object:
    """The older kind of protection, which only an administrator's token may see."""
    try:
        return client.get(f"{path}/branches/{quote(branch, safe='')}/protection", action="ask for protections")
    except ReconcilerError as error:
        logger.debug("no protection of %s is known: %s", branch, error)
        return None
