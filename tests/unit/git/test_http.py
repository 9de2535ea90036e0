"""Against a real `git http-backend`, with faults."""

import logging
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, ReconcilerError, RivalRunError, TransientError
from reconciler.git.clone import Clone, clone_base
from reconciler.git.command import GitToken, open_remote
from reconciler.http.messages import TRAFFIC
from reconciler.http.redaction import secret_forms
from tests.servers.git_http import Fault, GitServer, serve_git
from tests.servers.git_workshop import MANIFEST, Workshop, run_git
from tests.servers.scripted import Respond, serve_script

CloneOverHttp = Callable[[str], Clone]


@pytest.fixture
def slow_limit_s() -> float:
    """Long enough for git to reach the server, short enough for a test."""
    return 0.5


@pytest.fixture
def elsewhere(workshop: Workshop) -> Iterator[GitServer]:
    """A second host that would accept any token."""
    with serve_git(workshop.remote) as running:
        yield running


def commit_on(clone: Clone, author: Identity, content: bytes) -> str:
    files = {"apps/llama.yaml": content}
    return clone.write_commit(parent=clone.commit, files=files, message="Scale", author=author, date_s=0)


def assert_hidden(text: str, credentials: GitToken) -> None:
    for form in secret_forms(*credentials.redactor.secrets):
        assert form not in text


def test_each_time_that_git_talks_to_a_host_is_counted(server: GitServer, clone_over_http: CloneOverHttp) -> None:
    host = server.url.split("/")[2]
    clone = clone_over_http("private")
    before = TRAFFIC.by_host()[host]
    assert before.requests >= 2
    assert before.failures == 0
    server.fault = Fault.FORBIDDEN
    with pytest.raises(ConfigurationError):
        clone.check_push("reconciler/doctor")
    after = TRAFFIC.by_host()[host]
    assert (after.requests, after.failures) == (before.requests + 1, 1)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://github.com/acme/fleet", "github.com"),
        ("ssh://git@example.com:2222/fleet", "example.com:2222"),
        ("git@github.com:acme/fleet.git", "github.com"),
    ],
)
def test_a_host_is_named_without_a_user(address: str, host: str) -> None:
    assert open_remote(address).host == host


def test_the_right_to_push_a_branch_is_checked_without_pushing(
    workshop: Workshop, server: GitServer, clone_over_http: CloneOverHttp
) -> None:
    clone = clone_over_http("private")
    clone.check_push("reconciler/doctor")
    assert workshop.head("reconciler/doctor") == ""
    server.fault, server.fault_on = Fault.FORBIDDEN, "git-receive-pack"
    with pytest.raises(ConfigurationError, match="forbids this"):
        clone.check_push("reconciler/doctor")


def test_a_clone_is_read_changed_and_pushed_over_http(
    workshop: Workshop, clone_over_http: CloneOverHttp, author: Identity
) -> None:
    clone = clone_over_http("private")
    assert clone.read_file_at(clone.commit, "apps/llama.yaml") == MANIFEST
    first, second = (commit_on(clone, author, content) for content in (b"1", b"2"))
    clone.push("reconciler/a", first, expected=None)
    clone.push("reconciler/a", second, expected=first)
    assert clone_over_http("later").fetch_branches(["reconciler/a"])["reconciler/a"].oid == second
    with pytest.raises(RivalRunError):
        clone.push("reconciler/a", first, expected=None)
    clone.delete_branch("reconciler/a", expected=second)
    assert workshop.head("reconciler/a") == ""


def test_a_large_push_arrives_in_pieces(workshop: Workshop, clone_over_http: CloneOverHttp, author: Identity) -> None:
    clone = clone_over_http("private")
    commit = commit_on(clone, author, os.urandom(2 << 20))  # above http.postBuffer git sends chunks
    clone.push("reconciler/a", commit, expected=None)
    assert workshop.head("reconciler/a") == commit


FAULTS = [
    (Fault.UNAUTHORIZED, ConfigurationError, "check that RECONCILER_FORGE_TOKEN is set"),
    (Fault.FORBIDDEN, ConfigurationError, "needs to read and write contents"),
    (Fault.NOT_FOUND, ConfigurationError, "no repository there"),
    (Fault.SERVER_ERROR, TransientError, "500"),
    (Fault.CUT, TransientError, "git ended with"),
]


@pytest.mark.parametrize(("fault", "kind", "advice"), FAULTS)
def test_a_fault_on_reading_is_recognised_by_the_servers_answer(
    server: GitServer,
    credentials: GitToken,
    tmp_path: Path,
    fault: Fault,
    kind: type[ReconcilerError],
    advice: str,
) -> None:
    server.fault = fault
    with pytest.raises(kind, match=advice) as raised:
        clone_base(server.url, base="main", credentials=credentials, directory=tmp_path / "private")
    assert_hidden(str(raised.value), credentials)


def test_a_fault_on_pushing_is_recognised_by_the_servers_answer(
    server: GitServer, credentials: GitToken, clone_over_http: CloneOverHttp, author: Identity
) -> None:
    clone = clone_over_http("private")
    commit = commit_on(clone, author, b"1")
    server.fault_on = "git-receive-pack"
    for fault, kind, advice in FAULTS:
        server.fault = fault
        with pytest.raises(kind, match=advice) as raised:
            clone.push("reconciler/a", commit, expected=None)
        assert_hidden(str(raised.value), credentials)


@pytest.mark.parametrize("token", [None, "ghp_WrongSecret0123456789"])
def test_a_missing_or_wrong_token_is_a_configuration_error(
    server: GitServer, tmp_path: Path, token: str | None
) -> None:
    credentials = GitToken(username="robot", token=token) if token else None
    with pytest.raises(ConfigurationError, match="valid credentials") as raised:
        clone_base(server.url, base="main", credentials=credentials, directory=tmp_path / "private")
    assert "WrongSecret" not in str(raised.value)


def test_an_answer_that_never_comes_is_transient_and_leaves_no_process(
    server: GitServer, credentials: GitToken, tmp_path: Path, slow_limit_s: float
) -> None:
    server.fault = Fault.HANG
    directory = tmp_path / "private"
    with pytest.raises(TransientError, match=r"no end after 0\.5 s"):
        clone_base(server.url, base="main", credentials=credentials, directory=directory, timeout_s=slow_limit_s)
    running = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    assert not any(server.url.encode() in command for command in running)


def test_a_run_whose_time_is_over_waits_for_no_git(
    server: GitServer, credentials: GitToken, tmp_path: Path, slow_limit_s: float
) -> None:
    server.fault = Fault.HANG
    run_ends_s = time.monotonic() + slow_limit_s
    for name in ("during", "after"):
        with pytest.raises(TransientError, match=r"no end after 0"):
            clone_base(
                server.url, base="main", credentials=credentials, directory=tmp_path / name, run_ends_s=run_ends_s
            )


def packet(content: bytes) -> bytes:
    return b"%04x%s" % (len(content) + 4, content)


START = packet(b"# service=git-upload-pack\n") + b"0000"
FIRST = packet(b"%040x refs/heads/main\0multi_ack\n" % 7)
SECOND_VERSION = START + b"".join(map(packet, (b"version 2\n", b"ls-refs\n", b"object-format=sha1\n"))) + b"0000"
BRANCHES = packet(b"%040x refs/heads/%s\n" % (7, b"a" * 900)) * 1000


def endless_branches(version: int) -> Respond:
    """A list of branches without an end, a thousandth of its size on the wire."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        is_first = "info/refs" in request.path
        request.send_response(200)
        kind = "advertisement" if is_first else "result"
        request.send_header("Content-Type", f"application/x-git-upload-pack-{kind}")
        request.send_header("Content-Encoding", "gzip")
        request.end_headers()
        compressor = zlib.compressobj(9, wbits=31)
        start = (SECOND_VERSION if version == 2 else START + FIRST) if is_first else b""
        request.wfile.write(compressor.compress(start))
        while version != 2 or not is_first:
            request.wfile.write(compressor.compress(BRANCHES))
        request.wfile.write(compressor.flush())
        request.close_connection = True

    return respond


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process maps as its data")
@pytest.mark.parametrize("version", [0, 2])
def test_a_list_of_branches_without_an_end_fills_no_memory(tmp_path: Path, version: int) -> None:
    with serve_script(endless_branches(version)) as bomb, pytest.raises(TransientError, match="Out of memory"):
        clone_base(f"{bomb.url}/fleet", base="main", credentials=None, directory=tmp_path / "private", timeout_s=20.0)


def test_headers_without_an_end_are_left(clone_over_http: CloneOverHttp, author: Identity, slow_limit_s: float) -> None:
    clone = clone_over_http("private")

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.wfile.write(b"X-A: 1\r\n")
            time.sleep(0.01)

    with serve_script(respond) as dripping:
        git = replace(clone.git, remote=open_remote(dripping.url), timeout_s=slow_limit_s)
        with pytest.raises(TransientError, match=r"no end after 0\.5 s"):
            replace(clone, git=git).push("reconciler/a", commit_on(clone, author, b"1"), expected=None)


def test_a_host_that_does_not_listen_is_transient(server: GitServer, tmp_path: Path) -> None:
    url = re.sub(r":\d+/", ":1/", server.url)
    with pytest.raises(TransientError):
        clone_base(url, base="main", credentials=None, directory=tmp_path / "private")


def test_a_redirect_is_refused_and_the_token_stays_home(
    server: GitServer, elsewhere: GitServer, credentials: GitToken, tmp_path: Path
) -> None:
    server.redirect_to = elsewhere.url
    with pytest.raises(ConfigurationError, match=r"final URL \(GitLab's ends with \.git\)"):
        clone_base(server.url, base="main", credentials=credentials, directory=tmp_path / "private")
    assert server.requests
    assert not any(request.authorization for request in elsewhere.requests)


def test_the_token_is_in_no_file_argument_log_or_error(
    server: GitServer,
    credentials: GitToken,
    clone_over_http: CloneOverHttp,
    author: Identity,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    journal = tmp_path / "arguments"
    spy_on_git(tmp_path / "bin", journal, monkeypatch)
    clone = clone_over_http("private")
    clone.push("reconciler/a", commit_on(clone, author, b"1"), expected=None)
    server.fault = Fault.SERVER_ERROR
    with pytest.raises(TransientError) as raised:
        clone.remote_branches("reconciler/")

    assert server.requests[-1].authorization == credentials.authorization.removeprefix("Authorization: ")
    arguments = journal.read_text()
    assert "fast-import" in arguments
    assert "push" in arguments
    assert_hidden(arguments + caplog.text + str(raised.value) + repr(raised.value) + repr(clone), credentials)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert_hidden(file.read_text("latin-1"), credentials)


def spy_on_git(folder: Path, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program named `git` first in PATH that writes down its arguments and then is git."""
    folder.mkdir()
    real = next(path for part in os.environ["PATH"].split(os.pathsep) if (path := Path(part, "git")).exists())
    (folder / "git").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{journal}"\nexec "{real}" "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_token_echoed_by_the_server_is_redacted(
    workshop: Workshop, clone_over_http: CloneOverHttp, credentials: GitToken, author: Identity
) -> None:
    clone = clone_over_http("private")
    hook = workshop.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho 'you are {credentials.token}, {credentials.authorization}' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(TransientError, match=r"you are \*\*\*") as raised:
        clone.push("reconciler/a", commit_on(clone, author, b"1"), expected=None)
    assert_hidden(str(raised.value), credentials)


def test_of_two_racing_pushes_exactly_one_wins(
    workshop: Workshop, clone_over_http: CloneOverHttp, author: Identity
) -> None:
    clones = [clone_over_http("one"), clone_over_http("two")]
    commits = [commit_on(clone, author, name) for clone, name in zip(clones, (b"1", b"2"), strict=True)]

    def push(number: int) -> bool:
        try:
            clones[number].push("reconciler/a", commits[number], expected=None)
        except TransientError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        won = list(pool.map(push, (0, 1)))
    assert sorted(won) == [False, True]
    assert workshop.head("reconciler/a") == commits[won.index(True)]
    assert run_git(workshop.remote, "fsck", "--connectivity-only", "--no-dangling") == ""
