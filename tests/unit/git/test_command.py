import os
from pathlib import Path

import pytest

from reconciler.errors import ConfigurationError
from reconciler.git.command import GitToken, build_environment, open_remote
from reconciler.git.repository import open_directory
from tests.servers.git_workshop import Workshop

CREDENTIALS = GitToken(username="robot", token="t0ken")


def settings_of(environment: dict[str, str]) -> list[tuple[str, str]]:
    numbers = range(int(environment["GIT_CONFIG_COUNT"]))
    return [(environment[f"GIT_CONFIG_KEY_{n}"], environment[f"GIT_CONFIG_VALUE_{n}"]) for n in numbers]


def test_without_git_a_person_is_told_to_install_it(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_reading_a_directory_may_talk_to_nobody() -> None:
    environment = build_environment(Path("/x"), None, None)
    assert environment["GIT_ALLOW_PROTOCOL"] == "none"
    assert dict(settings_of(environment))["core.hooksPath"] == os.devnull


def test_the_operators_certificate_authority_is_gits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ca.pem")
    assert build_environment(None, None, None)["GIT_SSL_CAINFO"] == "/etc/ca.pem"
