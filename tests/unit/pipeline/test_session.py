"""Which doors a command opens, and with whose keys."""

import logging
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.errors import ConfigurationError
from reconciler.forge.local import Local
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY
from reconciler.git.clone import Clone
from reconciler.pipeline.run import plan
from reconciler.pipeline.session import Session, open_session
from tests.servers.answers import answering
from tests.servers.desk import QUIET, Desk
from tests.servers.fleet import SETTINGS
from tests.servers.git_workshop import run_git


def opened(flags: Flags, *, writes: bool, variables: Mapping[str, str] | None = None) -> Session:
    """The session as it was while it was open."""
    with open_session(flags, Environment(variables=variables or {}), writes=writes) as session:
        return session


def test_a_plan_reads_a_directory_as_it_lies_and_a_run_its_remote(desk: Desk) -> None:
    desk.workshop.write("README.md", b"not pushed\n")
    desk.workshop.git("commit", "-q", "-am", "Not pushed")
    flags = Flags(repo=str(desk.workshop.clone))
    reading, writing = opened(flags, writes=False), opened(flags, writes=True)
    assert reading.doors.repository.commit == desk.workshop.git("rev-parse", "HEAD")
    assert writing.doors.repository.commit == desk.workshop.head()
    assert isinstance(writing.doors.repository, Clone)
    assert reading.repository == writing.repository


def test_a_bare_directory_is_its_own_remote(desk: Desk) -> None:
    session = opened(Flags(repo=str(desk.workshop.remote)), writes=True)
    assert isinstance(session.doors.forge, Local)
    assert session.doors.author == NEUTRAL_IDENTITY
    assert session.repository == str(desk.workshop.remote)


def test_the_clone_is_gone_when_the_session_ends(desk: Desk) -> None:
    repository = opened(Flags(repo=str(desk.workshop.remote)), writes=True).doors.repository
    assert repository.git.directory
    assert not repository.git.directory.exists()


def test_the_base_branch_that_the_default_branch_names_is_read_instead(desk: Desk) -> None:
    named = SETTINGS.replace("defaults:", "git: {baseBranch: release}\ndefaults:")
    desk.write("reconciler.yaml", named)
    desk.workshop.write("reconciler.yaml", named.replace("costPerHour: 6.88", "costPerHour: 1.0").encode())
    release = desk.workshop.commit("Release", "release")
    session = opened(Flags(repo=str(desk.workshop.remote)), writes=True)
    assert (session.doors.repository.branch, session.doors.repository.commit) == ("release", release)
    assert session.settings.accelerators[0].cost_per_hour == 1.0
    named_by_flag = opened(Flags(repo=str(desk.workshop.remote), base="main"), writes=True)
    assert named_by_flag.doors.repository.branch == "main"


def test_a_base_branch_that_is_missing_is_named(desk: Desk) -> None:
    desk.configure("defaults:", "git: {baseBranch: release}\ndefaults:")
    with pytest.raises(ConfigurationError, match="release"):
        opened(Flags(repo=str(desk.workshop.remote)), writes=True)


def test_a_plan_does_without_a_forge_that_is_not_known(desk: Desk) -> None:
    desk.workshop.git("remote", "set-url", "origin", "https://git.example.com/acme/fleet.git")
    session = opened(Flags(repo=str(desk.workshop.clone)), writes=False)
    assert session.doors.forge is None
    assert not session.doors.needs_forge


def test_a_plan_warns_when_a_token_that_was_given_does_not_help(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("reconciler"), "propagate", True)
    desk.workshop.git("remote", "set-url", "origin", "https://git.example.com/acme/fleet.git")
    variables = {"RECONCILER_FORGE_TOKEN": "ghp_canary"}
    assert opened(Flags(repo=str(desk.workshop.clone)), writes=False, variables=variables).doors.forge is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "forge.kind" in caplog.text
    assert "ghp_canary" not in caplog.text


@pytest.mark.parametrize("content", [b"", b"a: [", b"kind: Configuration\n"])
def test_a_wrong_configuration_file_names_itself(desk: Desk, tmp_path: Path, content: bytes) -> None:
    own = tmp_path / "own.yaml"
    own.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"own\.yaml"):
        opened(Flags(repo=str(desk.workshop.remote), config_files=(own,)), writes=False)


def test_a_cluster_without_a_prometheus_is_not_asked(desk: Desk) -> None:
    session = opened(Flags(repo=str(desk.workshop.remote)), writes=False)
    assert session.settings.clusters[0].prometheus is None
    assert session.doors.ask(session.settings.clusters[0], ()) == ()


def test_a_directory_without_git_is_named(tmp_path: Path) -> None:
    (tmp_path / "not-git").mkdir()
    with pytest.raises(ConfigurationError, match="not-git"):
        opened(Flags(repo=str(tmp_path / "not-git")), writes=False)


def test_an_empty_repository_is_named(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", "empty.git")
    with pytest.raises(ConfigurationError, match="HEAD"):
        opened(Flags(repo=str(tmp_path / "empty.git")), writes=True)


def test_a_prometheus_without_answers_holds_everything(desk: Desk) -> None:
    prepared = desk.plan(answering())
    assert {each.outcome.value for each in prepared.plan.decisions} == {"held"}
    assert prepared.plan.failures == ()


def test_a_user_in_the_address_of_a_clone_is_in_no_name_of_the_repository(desk: Desk) -> None:
    desk.workshop.git("remote", "set-url", "origin", "https://ann:canary@github.com/acme/fleet.git")
    session = opened(Flags(repo=str(desk.workshop.clone)), writes=False)
    assert session.repository == "https://github.com/acme/fleet.git"
    path = desk.folder / "recording.zip"
    with open_session(Flags(repo=str(desk.workshop.clone)), Environment(variables={}), writes=False) as session:
        plan(
            replace(session.doors, ask=QUIET), session.settings, desk.now_s, repository=session.repository, record=path
        )
    with zipfile.ZipFile(path) as archive:
        assert not any(b"canary" in archive.read(name) for name in archive.namelist())


def test_commits_of_a_run_are_signed_with_the_key_that_the_configuration_names(desk: Desk) -> None:
    key = desk.folder / "bot"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signing = f"git: {{signing: {{method: ssh, key: {{file: {key}}}}}}}\n"
    desk.write("reconciler.yaml", SETTINGS + signing)
    variables = {"RECONCILER_SECRETS_DIR": str(desk.folder)}
    flags = Flags(repo=str(desk.workshop.remote))
    with open_session(flags, Environment(variables=variables), writes=True) as session:
        clone = session.doors.repository
        assert isinstance(clone, Clone)
        assert clone.signer is not None
        clone.check_signing()
        copy = Path(clone.signer.key)
        assert copy.exists()
    assert not copy.exists(), "it is gone with the session"
    key.write_text("no key")
    with pytest.raises(ConfigurationError, match=r"git\.signing\.key is no private key"):
        opened(flags, writes=True, variables=variables)
    assert opened(flags, writes=False, variables=variables).settings.git.signing, "a plan signs nothing"
