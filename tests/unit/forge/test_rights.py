"""What a token may do, by the role it has and the rules of the repository: on GitHub, and on GitLab."""

from datetime import UTC, datetime

import pytest

from reconciler.forge.pull_requests import Rights
from tests.servers.gitlab import protection
from tests.unit.forge.conftest import FULL_NAME, ServedStage


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("push", Rights(may_open=True, may_label=True, may_merge=True, allows_auto_merge=True, only_ours=False)),
        ("triage", Rights(may_open=False, may_label=True, may_merge=False, allows_auto_merge=True, only_ours=False)),
        ("pull", Rights(may_open=False, may_label=False, may_merge=False, allows_auto_merge=True, only_ours=False)),
        ("", Rights(may_open=True, may_label=None, may_merge=None, allows_auto_merge=True, only_ours=False)),
    ],
)
def test_rights_follow_the_role_and_are_unknown_without_one(github: ServedStage, role: str, expected: Rights) -> None:
    server, forge = github.server, github.open()
    server.repositories[FULL_NAME].role = role
    assert forge.rights(base="main", head="reconciler/x") == expected
    assert not server.repositories[FULL_NAME].pull_requests, "asking opens nothing"


def test_rules_of_the_base_and_of_our_branches_are_distinguished(github: ServedStage) -> None:
    server, forge = github.server, github.open()
    server.repositories[FULL_NAME].rules = {"main": ["pull_request"], "reconciler/": ["creation"]}
    rights = forge.rights(base="main", head="reconciler/x")
    assert (rights.drops_approvals, rights.refusals) == (True, ("such branches may not be created",))


def test_a_server_without_rules_has_none(github: ServedStage) -> None:
    server, forge = github.server, github.open()
    server.fail("GET", "/rules/", status=404, times=2)
    assert forge.rights(base="main", head="reconciler/x").refusals == ()


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (40, Rights(may_open=True, may_label=True, may_merge=True, allows_auto_merge=True, only_ours=False)),
        (30, Rights(may_open=True, may_label=True, may_merge=False, allows_auto_merge=True)),
        (20, Rights(may_open=False, may_label=True, may_merge=False, allows_auto_merge=True)),
        (10, Rights(may_open=False, may_label=False, may_merge=False, allows_auto_merge=True)),
        (None, Rights(may_open=None, may_label=None, may_merge=None, allows_auto_merge=True)),
    ],
)
def test_rights_on_gitlab_follow_the_access_level(
    gitlab: ServedStage, level: int | None, expected: Rights, *, by_group: bool
) -> None:
    server, forge = gitlab.server, gitlab.open()
    server.access_level, server.group_access = level, by_group
    server.protections = [protection("main")]
    assert forge.rights(base="main", head="reconciler/x") == expected
    assert server.writes == [], "asking changes nothing"


def test_a_level_by_another_groups_invitation_is_found_among_the_members(gitlab: ServedStage) -> None:
    server, forge = gitlab.server, gitlab.open()
    server.project = {"permissions": {"project_access": None, "group_access": None}}
    assert forge.rights(base="main", head="reconciler/x").may_open
    assert [each.path.rpartition("/")[2] for each in server.requests if "/members/" in each.path] == ["99"]


@pytest.mark.parametrize(("merge", "may_merge"), [(30, True), (40, False)])
def test_who_may_merge_is_what_the_protection_of_the_base_says(
    gitlab: ServedStage, merge: int, *, may_merge: bool
) -> None:
    gitlab.server.protections = [protection("main", merge=merge)]
    assert gitlab.open().rights(base="main", head="reconciler/x").may_merge is may_merge


@pytest.mark.parametrize(
    ("shown", "refusals"),
    [
        (protection("main"), ()),
        (protection("release/*"), ()),
        (protection("reconciler/*", force=True), ()),
        (protection("reconciler/*"), ("reconciler/* is protected: no forced pushes",)),
        (protection("*", push=60), ("* is protected, and the token may not push to it",)),
        (protection("*", push=0), ("* is protected, and the token may not push to it",)),
        (protection("[r]econciler/?"), ()),
    ],
)
def test_protected_branches_that_cover_ours_are_reported(
    gitlab: ServedStage, shown: dict[str, object], refusals: tuple[str, ...]
) -> None:
    gitlab.server.access_level, gitlab.server.protections = 40, [shown]
    assert gitlab.open().rights(base="main", head="reconciler/x").refusals == refusals


def test_the_day_on_which_a_token_of_gitlab_expires_is_known(gitlab: ServedStage) -> None:
    assert gitlab.open().rights(base="main", head="reconciler/x").expires_at_s is None
    gitlab.server.expires_on = "2027-01-31"
    ends_at_s = gitlab.open().rights(base="main", head="reconciler/x").expires_at_s
    assert ends_at_s == datetime(2027, 1, 31, tzinfo=UTC).timestamp()


def test_push_rules_and_approvals_of_paid_tiers_are_reported(gitlab: ServedStage) -> None:
    gitlab.server.resets_approvals = True
    gitlab.server.push_rule = {
        "id": 1,
        "branch_name_regex": "^(feature|fix)/",
        "commit_message_regex": "",
        "member_check": False,
        "reject_unsigned_commits": True,
        "reject_non_dco_commits": True,
    }
    rights = gitlab.open().rights(base="main", head="reconciler/x")
    assert rights.drops_approvals
    assert rights.refusals == (
        "branch names of a pattern",
        "signed commits only",
        "signed-off commits only: set git.signOff",
    )


@pytest.mark.parametrize(
    ("bypass", "only_ours", "refusals"),
    [
        ("never", False, ("such branches may not be pushed to",)),
        ("pull_requests_only", False, ("such branches may not be pushed to",)),
        ("always", True, ()),
        ("exempt", True, ()),
    ],
)
def test_a_ruleset_that_lets_us_alone_pass_protects_our_branches(
    github: ServedStage, bypass: str, refusals: tuple[str, ...], *, only_ours: bool
) -> None:
    server, forge = github.server, github.open()
    repository = server.repositories[FULL_NAME]
    repository.rules, repository.may_bypass = {"reconciler/": ["update"]}, bypass
    rights = forge.rights(base="main", head="reconciler/x")
    assert (rights.only_ours, rights.refusals) == (only_ours, refusals)


def test_where_rulesets_are_not_shown_nothing_is_known(github: ServedStage) -> None:
    server, forge = github.server, github.open()
    server.fail("GET", "/rules/", status=403, times=2)
    assert forge.rights(base="main", head="reconciler/x").only_ours is None
    server.repositories[FULL_NAME].rules = {"reconciler/": ["update"]}
    server.fail("GET", "/rulesets/", status=404)
    assert forge.rights(base="main", head="reconciler/x").only_ours is False


@pytest.mark.parametrize(("push", "only_ours"), [(30, False), (40, True), (0, True)])
def test_a_protection_against_developers_protects_our_branches(
    gitlab: ServedStage, push: int, *, only_ours: bool
) -> None:
    server, forge = gitlab.server, gitlab.open()
    server.access_level = 40  # others do not see protections
    server.protections = [protection("reconciler/*", push=push, force=True)]
    assert forge.rights(base="main", head="reconciler/x").only_ours is only_ours
    server.protections = [*server.protections, protection("reconciler/x", push=30)]
    assert forge.rights(base="main", head="reconciler/x").only_ours is False


def test_a_branch_that_must_be_up_to_date_is_known(github: ServedStage, gitlab: ServedStage) -> None:
    hub, lab = github.open(), gitlab.open()
    assert not hub.is_strict("main")
    github.server.repositories[FULL_NAME].rules = {"main": ["required_status_checks"]}
    assert hub.is_strict("main")
    assert not hub.is_strict("other")
    assert hub.rights(base="main", head="reconciler/x").is_strict
    github.server.fail("GET", "/rules/", status=403, times=9)
    assert not hub.is_strict("main")
    assert not lab.is_strict("main")
    for method in ("ff", "rebase_merge"):
        gitlab.server.project["merge_method"] = method
        assert lab.is_strict("main")
        assert lab.rights(base="main", head="reconciler/x").is_strict
    gitlab.server.project["merge_trains_enabled"] = True
    assert not lab.is_strict("main")
