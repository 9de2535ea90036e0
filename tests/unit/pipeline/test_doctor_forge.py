"""What the doctor says of a forge on which something is to merge by itself."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.domain.reports import Level
from reconciler.domain.settings import Identity
from reconciler.forge.pull_requests import Forge, Rights
from reconciler.pipeline.doctor import check_forge, check_signer


def of_kind(*, writes_commits: bool = False) -> Forge:
    """A forge whose API writes commits, or does not."""
    return cast(Forge, SimpleNamespace(name="gitea", writes_commits=writes_commits))


ALL = Rights(allows_auto_merge=True)


def checked(rights: Rights, *, merges: bool) -> list[tuple[Level, str]]:
    forge: Any = SimpleNamespace(name="github", check_access=lambda: None, rights=lambda **_: rights)
    found = check_forge(cast(Forge, forge), base="main", prefix="reconciler/", merges=merges, now_s=0.0)
    return [(each.level, each.rule) for each in found]


@pytest.mark.parametrize(
    ("rights", "merges", "rule"),
    [
        (ALL, True, "forge-rights"),
        (Rights(may_merge=False, allows_auto_merge=True), True, "merge-pull-requests"),
        (Rights(may_merge=False, allows_auto_merge=True), False, "forge-rights"),
        (Rights(allows_auto_merge=False), True, "auto-merge"),
        (Rights(allows_auto_merge=False), False, "forge-rights"),
        (Rights(allows_auto_merge=None), True, "forge-rights"),
        (Rights(only_ours=False), True, "unprotected-branches"),
        (Rights(only_ours=False), False, "forge-rights"),
        (Rights(only_ours=True), True, "forge-rights"),
        (Rights(is_strict=True), False, "strict-branches"),
    ],
)
def test_what_keeps_from_merging_is_told_where_something_is_to_merge(
    rights: Rights, rule: str, *, merges: bool
) -> None:
    level = Level.OK if rule == "forge-rights" else Level.WARN
    assert checked(rights, merges=merges) == [(level, rule)]


@pytest.mark.parametrize(
    ("email", "rules"),
    [
        ("41898282+github-actions[bot]@users.noreply.github.com", ["signed-by-a-bot"]),
        ("7+acme-reconciler[bot]@users.noreply.github.example.com", ["signed-by-a-bot"]),
        ("reconciler@example.com", []),
    ],
)
def test_signing_in_the_name_of_a_bot_is_told(email: str, rules: list[str]) -> None:
    bot = Identity(name="acme-reconciler[bot]", email=email)
    assert list(check_signer(bot, of_kind(writes_commits=True), is_by_forge=True)) == []
    (refused,) = check_signer(bot, of_kind(), is_by_forge=True)
    assert (refused.rule, "signs no commits of its API" in refused.words) == ("signed-by-the-forge", True)
    found = list(check_signer(bot, of_kind(), is_by_forge=False))
    assert [each.rule for each in found] == rules
    assert all(each.level is Level.WARN for each in found)
