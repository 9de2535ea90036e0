"""Which forge a remote belongs to, and that a token goes nowhere else."""

from pathlib import Path

import pytest

from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.gitea import Gitea
from reconciler.forge.github import api_url
from reconciler.forge.gitlab import GitLab
from reconciler.forge.hosted import locate
from reconciler.forge.pull_requests import ForgeToken, RepositoryAddress, parse_nested_remote, parse_remote
from reconciler.forge.registry import FORGES, forge_for, kind_of, token_user

TOKEN = ForgeToken(text="ghp_canary", source="environment variable GITHUB_TOKEN")
KNOWN = ", ".join(sorted(FORGES))


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/fleet",
        "https://github.com/acme/fleet.git",
        "https://github.com/acme/fleet/",
        "https://GitHub.com:443/acme/fleet",
        "ssh://git@github.com/acme/fleet.git",
        "ssh://git@github.com:22/acme/fleet.git",
        "git@github.com:acme/fleet.git",
        "github.com:acme/fleet",
    ],
)
def test_every_spelling_of_a_remote_has_the_same_address(url: str) -> None:
    assert parse_remote(url) == RepositoryAddress(host="github.com", owner="acme", name="fleet")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/git/acme/fleet.git",
        "file:///srv/acme/fleet.git",
        "git://github.com/acme/fleet",
        "https://github.com/acme",
        "https://github.com/acme/fleet/tree/main",
        "https://github.com/acme/fleet?x=1",
        "https://github.com/acme/fleet#x",
        "https://github.com/acme/..",
        "https://github.com/../fleet",
        "https://github.com/ac%2Fme/fleet",
        "https://github.com/-acme/fleet",
        "https://git hub.com/acme/fleet",
        "https://github.com:port/acme/fleet",
        "https://[::1/acme/fleet",
        "https:///acme/fleet",
        "git@github.com:acme/fleet\n",
        "a:b:c/d",
    ],
)
def test_anything_else_has_none(url: str) -> None:
    assert parse_remote(url) is None


def test_github_is_recognised_by_its_host() -> None:
    for host in ("github.com", "acme.ghe.com"):
        assert forge_for(f"git@{host}:acme/fleet.git", ForgeSettings(), TOKEN).name == "github"
    assert kind_of("https://ghe.com.example.com/acme/fleet") == ""


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_directory_is_local_and_needs_no_token(bare_repository: Path, prefix: str) -> None:
    forge = forge_for(f"{prefix}{bare_repository}", ForgeSettings(), None)
    assert forge.name == "local"
    forge.check_access()


def test_an_unknown_host_asks_for_forge_kind() -> None:
    with pytest.raises(ConfigurationError, match=rf"git\.example\.com: .* set forge\.kind \({KNOWN}\)"):
        forge_for("https://git.example.com/acme/fleet", ForgeSettings(), TOKEN)
    assert forge_for("https://git.example.com/acme/fleet", ForgeSettings(kind="github"), TOKEN).name == "github"


BITBUCKET = "https://bitbucket.org/acme/fleet/pull-requests/new?source=reconciler%2Fa&dest=main"
ASKED = "pullrequestcreate?sourceRef=reconciler%2Fa&targetRef=main"
AZURE = f"https://dev.azure.com/acme/my%20serving/_git/fleet/{ASKED}"


@pytest.mark.parametrize(
    ("remote", "link"),
    [
        ("https://u@bitbucket.org/acme/fleet.git", BITBUCKET),
        ("git@bitbucket.org:acme/fleet.git", BITBUCKET),
        ("https://acme@dev.azure.com/acme/my%20serving/_git/fleet", AZURE),
        ("git@ssh.dev.azure.com:v3/acme/my%20serving/fleet", AZURE),
        (
            "https://acme.visualstudio.com/serving/_git/fleet",
            f"https://acme.visualstudio.com/serving/_git/fleet/{ASKED}",
        ),
    ],
)
def test_where_we_open_no_pull_request_a_link_does(remote: str, link: str) -> None:
    forge = forge_for(remote, ForgeSettings(), None)
    assert (forge.name, forge.keeps_pull_requests) == ("push", False)
    assert forge.opening_address(head="reconciler/a", base="main") == link


def test_any_host_takes_branches_without_a_link() -> None:
    forge = forge_for("https://git.example.com/acme/fleet", ForgeSettings(kind="push"), None)
    assert forge.opening_address(head="reconciler/a", base="main") == ""
    assert token_user("https://git.example.com/acme/fleet") == "x-access-token"
    assert token_user("https://bitbucket.org/acme/fleet") == "x-token-auth"


@pytest.mark.parametrize(
    ("remote", "settings", "token", "message"),
    [
        ("https://github.com/acme/fleet", ForgeSettings(), None, "RECONCILER_FORGE_TOKEN"),
        ("https://github.com/acme/fleet", ForgeSettings(), ForgeToken(text=" \n"), "GITHUB_TOKEN"),
        ("https://github.com/acme/fleet", ForgeSettings(kind="svn"), TOKEN, f"expected one of {KNOWN}, found 'svn'"),
        ("https://github.com/acme", ForgeSettings(kind="github"), TOKEN, "https://HOST/OWNER/NAME"),
        ("https://github.com/acme/fleet", ForgeSettings(kind="local"), TOKEN, "bare repository on this machine"),
        ("https://u:s3cret@example.com/a", ForgeSettings(), TOKEN, "forge.kind"),
        ("https://gitlab.com/acme/fleet", ForgeSettings(), None, "set RECONCILER_FORGE_TOKEN or GITLAB_TOKEN"),
        ("https://gitlab.com/fleet", ForgeSettings(), TOKEN, "https://HOST/GROUP/PROJECT"),
        ("https://gitlab.com/a/b", ForgeSettings(url="https://gitlab.com"), TOKEN, "ends with /api/v4, found https:"),
        ("https://gitlab.com/a/b", ForgeSettings(url="http://gitlab.com/api/v4"), TOKEN, "send the token unencrypted"),
        ("http://gitlab.com/a/b", ForgeSettings(), TOKEN, "send the token unencrypted"),
    ],
)
def test_what_does_not_fit_names_the_setting(
    remote: str, settings: ForgeSettings, token: ForgeToken | None, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        forge_for(remote, settings, token)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://github.example.com/api/v3",
        "ftp://github.example.com",
        "https://user:s3cret@github.example.com",
        "https://",
        "github.example.com",
        "https://github.example.com:port",
        "https://github.example.com/?a=b",
    ],
)
def test_a_token_is_not_sent_to_such_an_address(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"forge\.url") as caught:
        forge_for("https://github.com/acme/fleet", ForgeSettings(url=url), TOKEN)
    assert "s3cret" not in str(caught.value)


def test_the_api_address_follows_from_the_host() -> None:
    assert api_url("github.com") == "https://api.github.com"
    assert api_url("acme.ghe.com") == "https://api.acme.ghe.com"
    assert api_url("github.example.com") == "https://github.example.com/api/v3"


def test_a_token_shows_in_no_representation() -> None:
    assert "canary" not in repr(TOKEN)


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://gitlab.com/acme/fleet", "acme"),
        ("https://gitlab.com/acme/platform/ml.inference/fleet.git", "acme/platform/ml.inference"),
        ("git@gitlab.com:acme/platform/fleet.git", "acme/platform"),
        ("ssh://git@gitlab.com:2222/_acme/fleet.git/", "_acme"),
    ],
)
def test_on_gitlab_groups_hold_groups(url: str, owner: str) -> None:
    assert parse_nested_remote(url) == RepositoryAddress(host="gitlab.com", owner=owner, name="fleet")


@pytest.mark.parametrize(
    "url",
    [
        "https://gitlab.com/fleet",
        "https://gitlab.com/acme/fleet/-/tree/main",
        "https://gitlab.com/acme/../fleet",
        "https://gitlab.com/acme//fleet",
        "https://gitlab.com/ac%2Fme/fleet",
        "https://gitlab.com/acme/fleet?x=1",
        f"https://gitlab.com/{'a/' * 21}fleet",
        "/srv/git/acme/fleet.git",
    ],
)
def test_what_is_no_project_of_gitlab_has_no_address(url: str) -> None:
    assert parse_nested_remote(url) is None


def test_a_gitlab_below_a_path_has_projects_below_it() -> None:
    below = parse_nested_remote("https://example.com/git/acme/fleet.git", below="/git")
    assert below == RepositoryAddress(host="example.com", owner="acme", name="fleet")
    assert parse_nested_remote("git@example.com:acme/fleet.git", below="/git") == below
    assert parse_nested_remote("https://example.com/gitlab/fleet", below="/git") is None


@pytest.mark.parametrize(
    ("remote", "kind"),
    [
        ("https://gitlab.com/acme/platform/fleet", "gitlab"),
        ("git@gitlab.example.com:acme/fleet.git", "gitlab"),
        ("https://GitLab.example.com:8443/acme/fleet.git", "gitlab"),
        ("git@github.com:acme/fleet.git", "github"),
        ("https://mygitlab.example.com/acme/fleet", ""),
        ("https://codeberg.org/acme/fleet", "gitea"),
        ("git@forgejo.example.com:acme/fleet.git", "gitea"),
        ("https://gitea.example.com:3000/acme/fleet.git", "gitea"),
        ("https://notcodeberg.org/acme/fleet", ""),
        ("https://example.com/gitlab.com/fleet", ""),
    ],
)
def test_a_host_says_which_forge_it_is(remote: str, kind: str) -> None:
    assert kind_of(remote) == kind


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("https://gitlab.com/acme/fleet", "https://gitlab.com/api/v4"),
        ("https://gitlab.example.com:8443/acme/fleet.git", "https://gitlab.example.com:8443/api/v4"),
        ("git@gitlab.example.com:acme/fleet.git", "https://gitlab.example.com/api/v4"),
        ("ssh://git@gitlab.example.com:2222/acme/fleet.git", "https://gitlab.example.com/api/v4"),
    ],
)
def test_gitlabs_api_address_follows_from_the_remote(remote: str, url: str) -> None:
    assert locate(remote, "", "/api/v4", kind="gitlab", shape="GROUP/PROJECT", nests=True)[0] == url


def test_gitlab_opens_by_its_host_by_kind_and_by_url() -> None:
    token = ForgeToken(text="glpat-canary", source="environment variable GITLAB_TOKEN")
    own = ForgeSettings(kind="gitlab", url="https://example.com/git/api/v4")
    for remote, settings, page in (
        (
            "git@gitlab.com:acme/platform/fleet.git",
            ForgeSettings(),
            "https://gitlab.com/acme/platform/fleet/-/commit/1",
        ),
        ("https://git.acme.io/acme/fleet", ForgeSettings(kind="gitlab"), "https://git.acme.io/acme/fleet/-/commit/1"),
        ("https://example.com/git/acme/fleet", own, "https://example.com/git/acme/fleet/-/commit/1"),
    ):
        forge = forge_for(remote, settings, token)
        assert isinstance(forge, GitLab)
        assert forge.commit_address("1") == page


def test_gitea_opens_by_its_host_by_kind_and_below_a_path() -> None:
    token = ForgeToken(text="0a1b-canary", source="environment variable GITEA_TOKEN")
    below = ForgeSettings(kind="gitea", url="https://example.com/git/api/v1")
    for remote, settings, page in (
        ("git@codeberg.org:acme/fleet.git", ForgeSettings(), "https://codeberg.org/acme/fleet/commit/1"),
        ("https://git.acme.io:3000/a.b/c", ForgeSettings(kind="gitea"), "https://git.acme.io:3000/a.b/c/commit/1"),
        ("https://example.com/git/acme/fleet", below, "https://example.com/git/acme/fleet/commit/1"),
    ):
        forge = forge_for(remote, settings, token)
        assert isinstance(forge, Gitea)
        assert forge.commit_address("1") == page
    with pytest.raises(ConfigurationError, match=r"expected https://HOST/OWNER/NAME"):
        forge_for("https://gitea.com/acme/platform/fleet", ForgeSettings(), token)
    with pytest.raises(ConfigurationError, match=r"ends with /api/v1"):
        forge_for("https://gitea.com/acme/fleet", ForgeSettings(url="https://gitea.com"), token)
