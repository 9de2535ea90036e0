"""Sources and credentials that git gets, and how it is run."""

import base64
import os
from pathlib import Path

import pytest

from reconciler.errors import ConfigurationError
from reconciler.git.command import GitToken, build_environment, open_remote, shorten
from reconciler.git.repository import open_directory
from reconciler.http.redaction import Redactor
from tests.servers.git_workshop import Workshop

CREDENTIALS = GitToken(username="robot", token="t0ken")


def settings_of(environment: dict[str, str]) -> list[tuple[str, str]]:
    numbers = range(int(environment["GIT_CONFIG_COUNT"]))
    return [(environment[f"GIT_CONFIG_KEY_{n}"], environment[f"GIT_CONFIG_VALUE_{n}"]) for n in numbers]


def test_without_git_the_error_says_to_install_it(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workshop.clone))
    with pytest.raises(ConfigurationError, match="install it"):
        open_directory(workshop.clone)


def test_git_variables_of_the_caller_do_not_reach_git(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_directory(workshop.clone)  # GitPython asks for git's version when it is first imported: not our command
    trace = tmp_path / "trace"
    for name, value in {
        "GIT_DIR": "/no/such",
        "GIT_INDEX_FILE": "/no/such",
        "GIT_OBJECT_DIRECTORY": "/no/such",
        "GIT_TRACE": str(trace),
        "GIT_CONFIG_PARAMETERS": "'core.bare'='maybe'",
        "GIT_NAMESPACE": "other",
    }.items():
        monkeypatch.setenv(name, value)
    assert open_directory(workshop.clone).list_files()
    assert not trace.exists()


def test_git_runs_alike_where_the_caller_has_no_git_variables(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    assert open_directory(workshop.clone).list_files()


def test_settings_of_the_machine_and_the_user_are_not_read(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[broken\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_directory(workshop.clone).list_files()


@pytest.mark.parametrize(
    ("source", "protocol", "headers"),
    [
        ("https://example.com:8443/a/b", "https", ["http.https://example.com:8443/.extraHeader"]),
        ("http://127.0.0.1:80/a", "http", ["http.http://127.0.0.1:80/.extraHeader"]),
        ("git@example.com:a/b", "ssh", []),
        ("/", "file", []),
    ],
)
def test_one_protocol_is_allowed_and_the_token_is_for_one_origin(
    source: str, protocol: str, headers: list[str]
) -> None:
    environment = build_environment(None, open_remote(source), CREDENTIALS)
    assert environment["GIT_ALLOW_PROTOCOL"] == protocol
    assert [key for key, value in settings_of(environment) if "Authorization" in value] == headers
    assert [name for name, value in environment.items() if "Authorization" in value] == (
        [f"GIT_CONFIG_VALUE_{len(settings_of(environment)) - 1}"] if headers else []
    )


def test_reading_a_directory_opens_no_connection() -> None:
    environment = build_environment(Path("/x"), None, None)
    assert environment["GIT_ALLOW_PROTOCOL"] == "none"
    assert dict(settings_of(environment))["core.hooksPath"] == os.devnull


def test_the_operators_certificate_authority_is_gits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ca.pem")
    assert build_environment(None, None, None)["GIT_SSL_CAINFO"] == "/etc/ca.pem"


@pytest.mark.parametrize(
    ("source", "protocol", "origin"),
    [
        ("https://github.com/acme/fleet.git", "https", "https://github.com"),
        ("https://git.example.com:8443/acme/fleet", "https", "https://git.example.com:8443"),
        ("http://127.0.0.1:8080/fleet.git", "http", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/fleet.git", "http", "http://[::1]:8080"),
        ("ssh://git@github.com:22/acme/fleet.git", "ssh", ""),
        ("git@github.com:acme/fleet.git", "ssh", ""),
    ],
)
def test_the_protocol_and_the_origin_of_credentials_come_from_the_url(source: str, protocol: str, origin: str) -> None:
    remote = open_remote(source)
    assert (remote.url, remote.protocol, remote.origin) == (source, protocol, origin)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("ext::sh -c id", "no such directory"),
        ("ext::sh://x", "found"),
        ("git://example.com/x", "found git://"),
        ("ftp://example.com/x", "found ftp://"),
        ("http://example.com/x", "use https://"),
        ("http://127.0.0.1.example.com/x", "use https://"),
        ("https:///x", "host"),
        ("https://-x/y", "host"),
        ("https://example.com:port/y", "[Pp]ort"),
        ("ssh://-oProxyCommand=id/x", "host"),
        ("ssh://-x@example.com/y", "user"),
        ("-oProxyCommand=id@x:y", "no such directory"),
        ("git@-x:y", "no such directory"),
        ("git@host:-y", "no such directory"),
        ("--upload-pack=id", "no such directory"),
        ("", "expected a URL"),
        ("https://example.com/a\nb", "expected a URL"),
        ("/no/such/place", "no such directory"),
        ("file:///no/such/place", "no such directory"),
        ("x" * 5000, "no such directory"),
        ("~nobody-of-this-name/x", "no such directory"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(source: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        open_remote(source)


@pytest.mark.parametrize(
    "source",
    ["https://bob:hunter2@example.com/x", "https://hunter2@example.com/x", "ssh://git:hunter2@example.com/x"],
)
def test_credentials_in_a_url_are_refused_without_being_repeated(source: str) -> None:
    with pytest.raises(ConfigurationError, match="RECONCILER_FORGE_TOKEN") as raised:
        open_remote(source)
    assert "hunter2" not in str(raised.value)


def test_a_directory_is_reached_as_a_file_only(tmp_path: Path) -> None:
    assert open_remote(str(tmp_path)).protocol == "file"
    assert open_remote(f"file://{tmp_path}").url == str(tmp_path.resolve())


GIT_TOKEN = GitToken(username="robot", token="s3cr+t/tok en")


def test_repr_shows_the_user_and_hides_the_token() -> None:
    assert "robot" in repr(GIT_TOKEN)
    assert "s3cr" not in repr(GIT_TOKEN)


def test_git_says_nothing_of_the_token_or_of_its_pair_with_the_user() -> None:
    pair = base64.b64encode(b"robot:s3cr+t/tok en").decode()
    assert shorten(f"remote: [{pair}]\r\n [s3cr+t/tok en]".encode(), GIT_TOKEN.redactor) == "remote: [***]; [***]"


def test_control_characters_of_a_server_do_not_reach_a_terminal() -> None:
    assert shorten(b"remote: \x1b[2Jgone\r\n\n\xe2\x80\xaefdp\n", Redactor()) == "remote:  [2Jgone; fdp"


@pytest.mark.parametrize(
    ("username", "token"), [("robot", ""), ("robot", "a\nb"), ("ro\r\nbot", "a"), ("ro:bot", "a"), ("robot", "a\x00")]
)
def test_credentials_that_would_break_the_header_are_refused(username: str, token: str) -> None:
    with pytest.raises(ConfigurationError):
        GitToken(username=username, token=token)
