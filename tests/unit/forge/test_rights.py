"""What a token may do on GitHub, by the role it has and the rules of the repository."""

import pytest

from reconciler.forge.rights import Rights
from tests.unit.forge.conftest import FULL_NAME, GitHubStage


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("push", Rights(may_open=True, may_label=True, may_merge=True, allows_auto_merge=True)),
        ("triage", Rights(may_open=False, may_label=True, may_merge=False, allows_auto_merge=True)),
        ("pull", Rights(may_open=False, may_label=False, may_merge=False, allows_auto_merge=True)),
        ("", Rights(may_open=True, may_label=None, may_merge=None, allows_auto_merge=True)),
    ],
)
def test_rights_follow_the_role_and_are_not_told_where_there_is_none(
    github: GitHubStage, role: str, expected: Rights
) -> None:
    server, forge = github.server, github.open()
    server.repositories[FULL_NAME].role = role
    assert forge.rights(base="main", head="reconciler/x") == expected
    assert not server.repositories[FULL_NAME].pull_requests, "asking opens nothing"


def test_rules_of_the_base_and_of_our_branches_are_told_apart(github: GitHubStage) -> None:
    server, forge = github.server, github.open()
    server.repositories[FULL_NAME].rules = {"main": ["pull_request"], "reconciler/": ["creation"]}
    rights = forge.rights(base="main", head="reconciler/x")
    assert (rights.drops_approvals, rights.refusals) == (True, ("nobody may create such branches",))


def test_a_server_without_rules_has_none(github: GitHubStage) -> None:
    server, forge = github.server, github.open()
    server.fail("GET", "/rules/", status=404, times=2)
    assert forge.rights(base="main", head="reconciler/x").refusals == ()
