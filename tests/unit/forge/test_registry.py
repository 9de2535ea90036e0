"""Which forge a remote belongs to, and that a token goes nowhere else."""

from pathlib import Path

import pytest

from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.github import api_url
from reconciler.forge.pull_requests import RepositoryAddress, parse_remote
from reconciler.forge.registry import ForgeToken, forge_for

TOKEN = ForgeToken(text="ghp_canary", source="environment variable GITHUB_TOKEN")


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
    assert forge_for("git@github.com:acme/fleet.git", ForgeSettings(), TOKEN).name == "github"


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_directory_is_local_and_needs_no_token(bare_repository: Path, prefix: str) -> None:
    forge = forge_for(f"{prefix}{bare_repository}", ForgeSettings(), None)
    assert forge.name == "local"
    forge.check_access()


def test_an_unknown_host_asks_for_forge_kind() -> None:
    with pytest.raises(ConfigurationError, match=r"git\.example\.com: .* set forge\.kind \(github, local\)"):
        forge_for("https://git.example.com/acme/fleet", ForgeSettings(), TOKEN)
    assert forge_for("https://git.example.com/acme/fleet", ForgeSettings(kind="github"), TOKEN).name == "github"


@pytest.mark.parametrize(
    ("remote", "settings", "token", "message"),
    [
        ("https://github.com/acme/fleet", ForgeSettings(), None, "RECONCILER_FORGE_TOKEN"),
        ("https://github.com/acme/fleet", ForgeSettings(), ForgeToken(text=" \n"), "GITHUB_TOKEN"),
        ("https://github.com/acme/fleet", ForgeSettings(kind="svn"), TOKEN, "expected one of github, local"),
        ("https://github.com/acme", ForgeSettings(kind="github"), TOKEN, "https://HOST/OWNER/NAME"),
        ("https://github.com/acme/fleet", ForgeSettings(kind="local"), TOKEN, "bare repository on this machine"),
        ("https://u:s3cret@example.com/a", ForgeSettings(), TOKEN, "forge.kind"),
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
    assert api_url("github.example.com") == "https://github.example.com/api/v3"


def test_a_token_shows_in_no_representation() -> None:
    assert "canary" not in repr(TOKEN)
