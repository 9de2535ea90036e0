"""Secrets: they are in nothing that people, git or the forge get to see, and go only where the operator said."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from reconciler.git.clone import Clone
from reconciler.http.redaction import secret_forms
from tests.servers.fleet import FULL_NAME, Fleet, Level
from tests.servers.git_http import Fault
from tests.servers.tampering import Tampering, tamper_with

pytestmark = pytest.mark.integration

PAGES = {"github": "pull", "gitlab": "-/merge_requests"}
PROMETHEUS_TOKEN = "prom-canary/token+0123456789=="


@pytest.fixture
def tampering(prometheus: str) -> Iterator[Tampering]:
    """A Prometheus that remembers what credentials it was shown."""
    with tamper_with(prometheus) as running:
        yield running


@pytest.fixture(params=["github", "gitlab"])
def fleet(
    request: pytest.FixtureRequest,
    make_fleet: Callable[..., Fleet],
    tampering: Tampering,
    monkeypatch: pytest.MonkeyPatch,
) -> Fleet:
    """A fleet whose operator named a Prometheus and gave a token for it."""
    fleet = make_fleet(request.param, prometheus=tampering.url)
    monkeypatch.setenv("RECONCILER_PROMETHEUS_TOKEN", PROMETHEUS_TOKEN)
    fleet.go_to(Level.BUSY)
    return fleet


def spellings(*tokens: str) -> list[bytes]:
    """Every way in which a token may be written."""
    return [form.encode() for token in tokens for form in secret_forms(token, f"x-access-token:{token}")]


def files_below(folder: Path) -> Iterable[bytes]:
    """The content of every file."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def assert_clean(contents: Iterable[bytes], tokens: Iterable[bytes]) -> None:
    """No content holds a token."""
    whole = b"\n".join(contents)
    assert [token for token in tokens if token in whole] == []


def test_a_canary_is_in_nothing_that_a_run_leaves(
    fleet: Fleet, tampering: Tampering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloned: list[bytes] = []
    original = Clone.push

    def push(self: Clone, branch: str, commit: str, *, expected: str | None) -> None:
        original(self, branch, commit, expected=expected)
        assert self.git.directory
        cloned.extend(files_below(self.git.directory))

    monkeypatch.setattr(Clone, "push", push)
    recording = tmp_path / "recording.zip"
    outcomes = [
        fleet.run("-vv", "--record", str(recording)),
        fleet.run("-vv", "--log-format", "json", "--output", "json"),
        fleet.invoke("plan", "-vv", "--output", "markdown"),
        fleet.invoke("explain", "-vv", "chat/llama"),
        fleet.invoke("validate", "-vv", str(fleet.workshop.clone)),
    ]
    assert [outcome.code for outcome in outcomes] == [0] * len(outcomes), outcomes
    assert set(tampering.authorizations) == {f"Bearer {PROMETHEUS_TOKEN}"}
    assert cloned
    tokens = spellings(fleet.token, PROMETHEUS_TOKEN)
    assert_clean([text.encode() for outcome in outcomes for text in (outcome.out, outcome.err)], tokens)
    assert_clean(cloned, tokens)
    assert_clean(files_below(fleet.workshop.remote), tokens)
    assert_clean([each.body.encode() for each in fleet.pull_requests()], tokens)
    with zipfile.ZipFile(recording) as archive:
        assert_clean([archive.read(name) for name in archive.namelist()], tokens)


def test_a_canary_that_a_forge_echoes_is_in_no_message(fleet: Fleet) -> None:
    assert fleet.forge
    body = {"message": f"no {fleet.token} please", "errors": [{"message": f"Bearer {fleet.token}"}]}
    fleet.forge.fail(*fleet.forge.creates, status=422, body=body, times=2)
    fleet.forge.violations.clear()
    outcome = fleet.run("-vv")
    assert outcome.code == 4
    assert_clean([outcome.out.encode(), outcome.err.encode()], spellings(fleet.token))
    fleet.forge.violations.clear()


def test_a_canary_is_in_no_message_of_a_refused_clone_or_push(fleet: Fleet) -> None:
    assert fleet.git
    for fault_on in ("git-receive-pack", ""):
        fleet.git.fault, fleet.git.fault_on = Fault.UNAUTHORIZED, fault_on
        outcome = fleet.run("-vv")
        assert outcome.code == 5
        assert_clean([outcome.out.encode(), outcome.err.encode()], spellings(fleet.token))


def test_a_canary_that_a_prometheus_echoes_is_in_no_message_and_no_recording(
    fleet: Fleet, tampering: Tampering, tmp_path: Path
) -> None:
    answer = {"status": "error", "errorType": "bad_data", "error": f"what is Bearer {PROMETHEUS_TOKEN}"}
    tampering.change = lambda _body: json.dumps(answer).encode()
    recording = tmp_path / "recording.zip"
    outcome = fleet.invoke("plan", "-vv", "--record", str(recording))
    assert outcome.code == 4
    assert_clean([outcome.out.encode(), outcome.err.encode()], spellings(PROMETHEUS_TOKEN))
    with zipfile.ZipFile(recording) as archive:
        assert_clean([archive.read(name) for name in archive.namelist()], spellings(PROMETHEUS_TOKEN))


def name_prometheus(fleet: Fleet, url: str, *, secret: str = "") -> None:
    """Let the repository itself say where Prometheus is, and with which secret to ask it."""
    connection = f'{{url: "{url}"{secret}}}'
    settings = fleet.read("reconciler.yaml").decode()
    fleet.write("reconciler.yaml", settings.replace("{name: prod, ", f"{{name: prod, prometheus: {connection}, "))
    fleet.prometheus = ""


def test_a_prometheus_that_only_the_repository_names_gets_no_secret(
    fleet: Fleet, tampering: Tampering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_PLANTED", "planted-canary")
    name_prometheus(fleet, tampering.url, secret=", bearerToken: {env: RECONCILER_PLANTED}")
    with fleet.writes() as writes:
        outcome = fleet.run()
    assert (outcome.code, writes) == (5, [])
    assert tampering.authorizations == []
    assert "reconciler.yaml:4" in outcome.err
    line = f"RECONCILER_TRUSTED_ORIGINS={fleet.environment['RECONCILER_TRUSTED_ORIGINS']},{tampering.url}"
    assert line in outcome.err
    assert "planted-canary" not in outcome.err

    monkeypatch.setenv(*line.split("=", 1))
    assert fleet.run().code == 0
    assert set(tampering.authorizations) == {"Bearer planted-canary"}


def test_the_operators_token_does_not_follow_the_repositorys_url(fleet: Fleet, tampering: Tampering) -> None:
    name_prometheus(fleet, tampering.url)
    outcome = fleet.run()
    assert outcome.code in (0, 5)
    assert not any(tampering.authorizations)


def test_a_forge_that_only_the_repository_names_gets_no_token(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fleet.forge
    monkeypatch.delenv("RECONCILER_TRUSTED_ORIGINS")
    with fleet.writes() as writes:
        outcome = fleet.run()
    assert (outcome.code, writes) == (5, [])
    assert fleet.forge.requests == []
    assert f"RECONCILER_TRUSTED_ORIGINS={fleet.forge.host}" in outcome.err


def test_an_operators_own_file_names_the_forge_and_needs_no_more_trust(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fleet.forge
    monkeypatch.delenv("RECONCILER_TRUSTED_ORIGINS")
    own = tmp_path / "operator.yaml"
    header = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
    own.write_text(f'{header}forge: {{kind: {fleet.forge.kind}, url: "{fleet.forge.url}"}}\n', encoding="utf-8")
    assert fleet.run("--config", str(own)).code == 0
    assert len(fleet.pull_requests()) == 2


def test_a_process_with_its_own_clock_does_what_a_user_sees(fleet: Fleet) -> None:
    """Nothing is replaced here: the installed command, the environment, the time of now."""
    command = [sys.executable, "-m", "reconciler", *fleet.command("run")]
    completed = subprocess.run(command, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert fleet.forge
    assert f"{fleet.forge.pages}/{FULL_NAME}/{PAGES[fleet.forge.kind]}/1" in completed.stdout
    assert len(fleet.pull_requests()) == 2
