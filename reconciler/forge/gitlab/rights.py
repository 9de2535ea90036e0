"""What a token may do in a GitLab project, and what the project's rules forbid: asked without changing anything."""

import logging
from collections.abc import Mapping
from fnmatch import fnmatchcase
from urllib.parse import quote

from reconciler.errors import ConfigurationError
from reconciler.forge.answers import find, flag_of, flag_or_none, list_of, number_of, number_or_none, text_of, time_of
from reconciler.forge.client import PAGE_SIZE
from reconciler.forge.gitlab.client import GitLabClient
from reconciler.forge.rights import Cures, Rights

logger = logging.getLogger(__name__)

REPORTER, DEVELOPER, MAINTAINER = 20, 30, 40
PUSH_RULES: Mapping[str, str] = {
    "commit_message_regex": "commit messages of a pattern",
    "commit_message_negative_regex": "no commit messages of a pattern",
    "author_email_regex": "commit authors of a pattern",
    "branch_name_regex": "branch names of a pattern",
    "member_check": "commits by users of this GitLab only",
    "commit_committer_check": "commits with a verified address of the token's user only: take git.author out",
    "commit_committer_name_check": "commits with the name of the token's user only: take git.author out",
    "reject_unsigned_commits": "signed commits only",
    "reject_non_dco_commits": "signed-off commits only: set git.signOff",
}
"""Push rules that a commit of ours may break, by their fields; the ones of a Premium project or its group."""
CURES = Cures(
    opening="give TOKEN the role Developer and the scopes api and write_repository (Settings, Access tokens)",
    labelling="give TOKEN the role Reporter",
    refusals="let our account push to such branches, by force too, and change the push rule (Settings, Repository)",
    expiry="rotate TOKEN (Settings, Access tokens): a new one is another user, to whom our branches are strange",
)


def read_rights(client: GitLabClient, path: str, *, base: str, head: str) -> Rights:
    """The rights in the project at `path`; much of it is told to maintainers alone, or in paid tiers."""
    project = client.get(path, action="ask what the token may do")
    level = _level(client, path, project)
    push_rule = _ask(client, f"{path}/push_rule")
    return Rights(
        may_open=None if level is None else level >= DEVELOPER,
        may_label=None if level is None else level >= REPORTER,
        may_merge=_may_merge(client, path, base, level),
        allows_auto_merge=True,
        drops_approvals=flag_of(_ask(client, f"{path}/approvals"), "reset_approvals_on_push"),
        refusals=(*_protections(client, path, head, level), *_broken_rules(push_rule)),
        expires_at_s=time_of(_ask(client, "/personal_access_tokens/self"), "expires_at"),
        cures=CURES,
    )


def _level(client: GitLabClient, path: str, project: object) -> int | None:
    """The highest access level of the token's user: of the project, of its groups, or by another group's invitation."""
    told = (number_or_none(project, "permissions", each, "access_level") for each in ("project_access", "group_access"))
    levels = [level for level in told if level is not None]
    if levels:
        return max(levels)
    user = _ask(client, "/user")
    if number_or_none(user, "id") is None:
        return None
    if flag_of(user, "is_admin"):
        return MAINTAINER
    return number_or_none(_ask(client, f"{path}/members/all/{number_of(user, 'id')}"), "access_level")


def _may_merge(client: GitLabClient, path: str, base: str, level: int | None) -> bool | None:
    if level is None or level < DEVELOPER:
        return None if level is None else False
    branch = _ask(client, f"{path}/repository/branches/{quote(base, safe='')}")
    is_protected = flag_or_none(branch, "protected")
    if is_protected is None or level >= MAINTAINER:
        return None if is_protected is None else True
    return not is_protected or flag_of(branch, "developers_can_merge")


def _protections(client: GitLabClient, path: str, head: str, level: int | None) -> list[str]:
    """Protected branches whose pattern covers our head branches: each push of ours but the first is a forced one."""
    found = []
    for protection in list_of(_ask(client, f"{path}/protected_branches", {"per_page": PAGE_SIZE})):
        name = text_of(protection, "name")
        if not fnmatchcase(head, name.replace("[", "[[]").replace("?", "[?]")):
            continue
        allowed = [number_or_none(each, "access_level") for each in list_of(find(protection, "push_access_levels"))]
        least = min((each for each in allowed if each), default=None)
        if least is None or (level is not None and level < least):
            found.append(f"{name} is protected, and the token may not push to it")
        elif not flag_of(protection, "allow_force_push"):
            found.append(f"{name} is protected: no forced pushes")
    return found


def _broken_rules(push_rule: object) -> list[str]:
    return [words for field, words in PUSH_RULES.items() if find(push_rule, field) not in (None, False, "")]


def _ask(client: GitLabClient, path: str, query: Mapping[str, int] | None = None) -> object:
    """What is told only to some tokens or in some tiers; None where it is not."""
    try:
        return client.get(path, action="ask for the project's rules", query=query)
    except ConfigurationError as error:
        logger.debug("not told: %s", error)
        return None
