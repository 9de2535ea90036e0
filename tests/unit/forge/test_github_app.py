"""Tokens that are made from the key of a GitHub App, by a server that checks the proof as GitHub does."""

import subprocess
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, SecretReader
from reconciler.domain.settings import ForgeSettings, Identity, Settings
from reconciler.errors import ConfigurationError
from reconciler.forge.github import GitHub
from reconciler.forge.github_app import make_token
from reconciler.pipeline.session import open_forge
from tests.unit.forge.conftest import FULL_NAME, ServedStage, listed

REMOTE = f"https://github.com/{FULL_NAME}.git"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A private key in the spelling that GitHub gives, and its public half."""
    folder = tmp_path_factory.mktemp("app")
    private, public = folder / "private.pem", folder / "public.pem"
    subprocess.run(["openssl", "genrsa", "-traditional", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return private.read_text(), public.read_text()


def made(github: ServedStage, key: str, *, remote: str = REMOTE, number: str = "12345") -> object:
    return make_token(remote, github.server.url, number, key, source="file /app.pem")


def test_a_token_is_for_one_repository_and_acts_as_the_apps_bot(github: ServedStage, keys: tuple[str, str]) -> None:
    private, github.server.app_key = keys
    token = make_token(REMOTE, github.server.url, "12345", private, source="file /app.pem")
    assert token.text == github.server.token
    assert token.author == Identity(name="reconciler-app[bot]", email="99+reconciler-app[bot]@users.noreply.github.com")
    assert github.server.asked_for == ["fleet"], "not for all that the App is installed in"
    assert "canary" not in repr(token)


@pytest.mark.parametrize("number", ["12346", "0"])
def test_a_proof_for_another_app_is_refused(github: ServedStage, keys: tuple[str, str], number: str) -> None:
    private, github.server.app_key = keys
    with pytest.raises(ConfigurationError, match="GitHub answered 401"):
        made(github, private, number=number)


def test_a_repository_without_the_app_is_named(github: ServedStage, keys: tuple[str, str]) -> None:
    private, github.server.app_key = keys
    with pytest.raises(ConfigurationError, match=r"look for the App at github\.com/acme/other: GitHub answered 404"):
        made(github, private, remote="https://github.com/acme/other")


@pytest.mark.parametrize(
    "key", ["canary", "-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----", "\x00"]
)
def test_what_is_no_key_is_refused_and_not_repeated(github: ServedStage, key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"file /app\.pem: expected the App's private key") as caught:
        made(github, key)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_public_key_is_refused(github: ServedStage, keys: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="expected the App's private key"):
        made(github, keys[1])


def test_a_run_opens_the_forge_with_the_app_of_the_environment(
    github: ServedStage, keys: tuple[str, str], tmp_path: Path
) -> None:
    private, github.server.app_key = keys
    (tmp_path / "app.pem").write_text(private)
    variables = {
        "RECONCILER_GITHUB_APP_ID": "12345",
        "RECONCILER_GITHUB_APP_KEY_FILE": str(tmp_path / "app.pem"),
        "RECONCILER_SECRETS_DIR": str(tmp_path),
    }
    settings = Settings(forge=ForgeSettings(kind="github", url=github.server.url))
    secrets = SecretReader(environment=Environment(variables=variables))
    forge, author = open_forge(REMOTE, settings, secrets, writes=True)
    assert isinstance(forge, GitHub)
    assert listed(forge) == ()
    assert author.name == "reconciler-app[bot]"
    local, _ = open_forge(str(github.repository), Settings(), secrets, writes=True)
    assert local is not None
    assert local.name == "local", "a directory needs no token"


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"RECONCILER_GITHUB_APP_ID": "1"}, "set it together with RECONCILER_GITHUB_APP_KEY_FILE"),
        ({"RECONCILER_GITHUB_APP_KEY_FILE": "/app.pem"}, "set it together with"),
        ({"RECONCILER_GITHUB_APP_ID": "a/canary", "RECONCILER_GITHUB_APP_KEY": "1"}, "expected the App's number"),
    ],
)
def test_half_an_app_is_an_error(variables: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as caught:
        _ = Environment(variables=variables).github_app
    assert "canary" not in str(caught.value), "swapped, the key would be in the log"
