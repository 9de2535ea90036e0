"""The one place that runs git, through GitPython's argument-list runner and nothing else of GitPython."""

import contextlib
import importlib
import logging
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.git.environment import build_environment, inherited_git_variables
from reconciler.git.remotes import GitToken, Remote
from reconciler.http.limits import Clock
from reconciler.http.redaction import MAX_SHOWN, UNPRINTABLE, Redactor
from reconciler.http.traffic import TRAFFIC

# git ends with 128 for everything, so the only facts are the HTTP status and the few fixed messages of its transports,
# which `LC_ALL=C` keeps in English. What is not recognised is transient: the next run tries again, the text is shown.
PERMANENT: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"returned error: 401|Authentication failed|could not read (?:Username|Password)|HTTP 401"),
        "the remote wants valid credentials: check that RECONCILER_FORGE_TOKEN is set, not expired, and for this host",
    ),
    (
        re.compile(r"returned error: 403|HTTP 403"),
        "the remote knows the token but forbids this: it needs to read and write contents of this repository",
    ),
    (
        re.compile(r"Permission denied \(|Host key verification failed"),
        "ssh was refused: check the key of this user and that known_hosts has the host (ssh never asks here)",
    ),
    (
        re.compile(r"returned error: 404|repository '[^']*' not found|does not appear to be a git repository"),
        "no repository there: check the URL, and that the token may see it",
    ),
    (
        re.compile(r"returned error: 30\d|HTTP 30\d|redirection from"),
        "the remote redirects elsewhere, where credentials never follow: name the final URL (GitLab's ends with .git)",
    ),
    (
        re.compile(r"not a git repository|detected dubious ownership"),
        "not a git repository that this user may write to: check the path and its owner",
    ),
    (
        re.compile(r"lazy fetching disabled|from promisor remote"),
        "this clone is incomplete (partial), and nothing is fetched for it: use a full clone or the remote's URL",
    ),
    (
        re.compile(r"SSL certificate problem|server certificate verification failed"),
        "the certificate is not trusted: set REQUESTS_CA_BUNDLE to your certificate authority's file",
    ),
)
if TYPE_CHECKING:
    from git.cmd import Git

logger = logging.getLogger(__name__)

TIMEOUT_S = 120.0
MIB_IN_KIB = 1024
REMOTE_MEMORY_KIB = {"ls-remote": 256 * MIB_IN_KIB, "push": 1024 * MIB_IN_KIB, "fetch": 4096 * MIB_IN_KIB}
"""What a command may hold of what a server sends, which git itself keeps in memory without a limit."""
REMOTE_S = {"ls-remote": 60.0, "push": 60.0}
"""Commands whose answer is small: a server that takes longer is dripping."""
LIMITED = 'ulimit -d "$0" 2>/dev/null; ulimit -f 4194304 2>/dev/null; exec "$@"'
"""The second is for files, in blocks of 512 bytes: 2 GiB of what a server sends."""
END_S = 5.0
MISSING = "git was not found or does not run: install it, or add its directory to PATH"


def explain_failure(action: str, status: int, stderr: bytes, redactor: Redactor) -> ReconcilerError:
    """The error to raise for a git command that ended with `status`; its text holds no secret."""
    text = shorten(stderr, redactor)
    for pattern, advice in PERMANENT:
        if pattern.search(text):
            return ConfigurationError(f"{action}: {advice} ({text})")
    return TransientError(f"{action}: git ended with {status}: {text or 'no message'}")


def shorten(output: bytes, redactor: Redactor) -> str:
    """The end of git's output on one line, redacted; what a server sends is hostile text."""
    text = redactor.hide(output.decode("utf-8", "replace"))
    lines = (UNPRINTABLE.sub(" ", line).strip() for line in text.splitlines())
    return "; ".join(filter(None, lines))[-MAX_SHOWN:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that ended by itself; the output is git's, byte for byte."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommand:
    """git for one repository and one remote.

    `directory` is the git directory (None: found from where the arguments say), `remote` the only place that may be
    talked to (None: no place at all), `timeout_s` the limit for each command, `run_ends_s` when the run has
    no more time, in monotonic seconds.
    """

    directory: Path | None = None
    remote: Remote | None = None
    credentials: GitToken | None = None
    timeout_s: float = TIMEOUT_S
    run_ends_s: float = math.inf

    @property
    def redactor(self) -> Redactor:
        """Takes secrets out of what git says."""
        return self.credentials.redactor if self.credentials else Redactor()

    def run_within(self, most_bytes: int, *arguments: str, action: str) -> bytes:
        """Run git on this machine and return what it printed; ConfigurationError when that is more than `most_bytes`.

        What a repository holds may be tiny and its listing without end.
        """
        environment = build_environment(self.directory, self.remote, self.credentials)
        interrupt = _start([*_command(environment), *arguments], environment)  # held: it ends git when nobody does
        process = _process_of(interrupt)
        timer = threading.Timer(self.timeout_s, _end_group, [process])
        timer.start()
        try:
            printed, said = _read_at_most(process, most_bytes)
        finally:
            timer.cancel()
            _end_group(process)
        if len(printed) > most_bytes:
            raise ConfigurationError(f"{action}: more than {most_bytes} bytes; this is no fleet repository")
        if process.returncode != 0:
            raise explain_failure(action, process.returncode, said, self.redactor)
        return printed

    def run(self, *arguments: str, action: str, stdin: bytes = b"") -> bytes:
        """Run git and return what it printed; `action` tells a person what was tried.

        Raises ConfigurationError or TransientError, see `failures`.
        """
        completed = self.attempt(*arguments, action=action, stdin=stdin)
        if completed.status != 0:
            raise explain_failure(action, completed.status, completed.stderr, self.redactor)
        return completed.stdout

    def attempt(self, *arguments: str, action: str, stdin: bytes = b"") -> Completed:
        """Run git and return also a failure; TransientError when it did not end in time."""
        is_ended_well = False
        try:
            completed = self._attempt(arguments, action, stdin)
            is_ended_well = completed.status == 0
        finally:
            if self.remote is not None and self.remote.host and arguments[0] in REMOTE_MEMORY_KIB:
                TRAFFIC.note(f"//{self.remote.host}", failed=not is_ended_well)
        return completed

    def _attempt(self, arguments: Sequence[str], action: str, stdin: bytes) -> Completed:
        environment = build_environment(self.directory, self.remote, self.credentials)
        logger.debug("git %s", arguments[0])
        limit_s = self._limit_s(arguments[0])
        interrupt = _start([*_limited(arguments[0]), *_command(environment), *arguments], environment)
        process = _process_of(interrupt)
        try:
            stdout, stderr = process.communicate(input=stdin, timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise TransientError(
                f"{action}: no end after {limit_s:.3g} s, git was stopped; the remote may be overloaded"
            ) from None
        finally:
            _end_group(process)
        return Completed(status=process.returncode, stdout=stdout, stderr=stderr)

    def _limit_s(self, command: str) -> float:
        left_s = max(0.0, self.run_ends_s - Clock().monotonic()) if command in REMOTE_MEMORY_KIB else math.inf
        return min(self.timeout_s, REMOTE_S.get(command, math.inf), left_s)


def _command(environment: Mapping[str, str]) -> list[str]:
    executable = shutil.which("git")
    if executable is None:
        raise ConfigurationError(MISSING)
    # GitPython lays variables over the process's own and cannot take any away.
    unset = [word for name in inherited_git_variables(environment) for word in ("-u", name)]
    return [*(["env", *unset] if unset else []), executable]


def _limited(command: str) -> list[str]:
    """What to put before a command that listens to a server: a shell that lets it have only so much memory."""
    kib = REMOTE_MEMORY_KIB.get(command)
    return [] if kib is None else ["/bin/sh", "-c", LIMITED, str(kib)]


def _start(command: list[str], environment: Mapping[str, str]) -> "Git.AutoInterrupt":
    return _runner(environment)(os.sep).execute(
        command,
        istream=subprocess.PIPE,
        as_process=True,
        env=environment,
        shell=False,
        start_new_session=True,  # one group: git's transports are children that must end with it
    )


def _runner(environment: Mapping[str, str]) -> "type[Git]":
    """GitPython's runner, whose first import tries git: in our environment, not in whatever the process was given."""
    if "git.cmd" not in sys.modules:
        before = dict(os.environ)
        for name in inherited_git_variables(environment):
            del os.environ[name]
        os.environ.update(environment)
        try:
            importlib.import_module("git.cmd")
        except ImportError as error:  # what GitPython raises when it finds no git that works
            raise ConfigurationError(MISSING) from error
        finally:
            os.environ.clear()
            os.environ.update(before)
    from git.cmd import Git

    return Git


def _process_of(interrupt: "Git.AutoInterrupt") -> "subprocess.Popen[bytes]":
    if interrupt.proc is None:
        raise TransientError("git ended before it began")
    return interrupt.proc


def _read_at_most(process: "subprocess.Popen[bytes]", most_bytes: int) -> tuple[bytes, bytes]:
    """What it prints, one byte over `most_bytes` where there is more, and what it says when it ends by itself."""
    if process.stdout is None or process.stderr is None:
        raise TransientError("git ended before it began")
    printed = process.stdout.read(most_bytes + 1)
    if len(printed) > most_bytes:
        return printed, b""
    said = process.stderr.read()
    process.wait()
    return printed, said


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=END_S)  # until the last child has let go of the pipes
