"""The one place that runs git: sources and a closed environment; GitPython runs what talks to a server."""

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.http.messages import TRAFFIC, Clock, basic
from reconciler.http.redaction import MAX_SHOWN, UNPRINTABLE, Redactor, sends_in_the_clear

if TYPE_CHECKING:
    from git.cmd import Git

CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
SCP_LIKE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-:].*")

MAX_SHOWN_SOURCE = 200
SAFE_UPLOAD_PACK = "git -c safe.directory='*' upload-pack"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitToken:
    """User name and token of a remote; the token never shows in `repr`."""

    username: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.token:
            raise ConfigurationError("the git token is empty: set it, or leave its setting out")
        if CONTROL_CHARACTERS.search(self.username + self.token):
            raise ConfigurationError("the git token or its user name holds a line break or control character")
        if ":" in self.username:
            raise ConfigurationError("the user name of a git token cannot hold a colon")

    @property
    def authorization(self) -> str:
        """The HTTP header that carries them."""
        return f"Authorization: {basic(self.username, self.token)}"

    @property
    def redactor(self) -> Redactor:
        """Takes the token out of what git says, in every spelling."""
        return Redactor((self.token, f"{self.username}:{self.token}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A checked place of a repository.

    `url` is what git gets (a directory is an absolute path), `protocol` the only one git may speak while it talks to it
    (`https`, `http`, `ssh`, `file`), `origin` the `scheme://host[:port]` that credentials go to (empty without HTTP).
    """

    url: str
    protocol: str
    origin: str = ""

    def __str__(self) -> str:
        return Redactor().show(self.url)

    @property
    def host(self) -> str:
        """The host that is talked to, with its port where the address names one; empty for a directory."""
        if self.protocol == "file":
            return ""
        address = urlsplit(self.url).netloc if "://" in self.url else self.url.partition(":")[0]
        return address.rpartition("@")[2]

    @property
    def upload_pack(self) -> tuple[str, ...]:
        """Options for reading from this remote.

        A volume in a container often belongs to another user, which git refuses to read. Reading is safe here: nothing
        that the directory's own configuration names is run by upload-pack (its hook is read from protected
        configuration only, and lazy fetching is off). There is no such option for pushing: receive-pack runs hooks.
        """
        return (f"--upload-pack={SAFE_UPLOAD_PACK}",) if self.protocol == "file" else ()


def open_remote(source: str) -> Remote:
    """Check a URL or directory as a person wrote it; ConfigurationError says what is wrong with it."""
    if not source or CONTROL_CHARACTERS.search(source):
        raise ConfigurationError(f"repository {Redactor().show(source)!r}: expected a URL or a directory")
    if "://" in source:
        return _open_url(source)
    if SCP_LIKE.fullmatch(source):
        return Remote(url=source, protocol="ssh")
    return Remote(url=str(resolve_directory(source)), protocol="file")


def without_user(source: str) -> str:
    """A URL without the user name and password that a person's clone may have in it; anything else as it is."""
    scheme, separator, rest = source.partition("://")
    address, slash, path = rest.partition("/")
    return f"{scheme}{separator}{address.rpartition('@')[2]}{slash}{path}" if separator else source


def resolve_directory(source: str | Path) -> Path:
    """An existing directory as an absolute path without symbolic links; else ConfigurationError."""
    try:
        directory = Path(source).expanduser().resolve(strict=True)
        if directory.is_dir():
            return directory
    except (OSError, ValueError, RuntimeError):  # unreadable, too long, or the home directory of an unknown user
        pass
    raise ConfigurationError(
        f"repository {str(source)[:MAX_SHOWN_SOURCE]}: no such directory; expected a clone, a bare repository, "
        "or a URL with https:// or ssh://"
    )


def _open_url(url: str) -> Remote:
    shown = Redactor().show(url)
    try:
        parts = urlsplit(url)
        _ = parts.port  # urllib checks the port only when it is read
    except ValueError as error:
        raise ConfigurationError(f"repository {shown}: {error}") from None
    if parts.scheme == "file":
        return Remote(url=str(resolve_directory(unquote(parts.path))), protocol="file")
    if parts.scheme not in {"https", "http", "ssh"}:
        raise ConfigurationError(
            f"repository {shown}: expected https://, ssh://, user@host:path or a directory, found {parts.scheme}://"
        )
    if not HOST.fullmatch(parts.hostname or ""):
        raise ConfigurationError(f"repository {shown}: no valid host name")
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise ConfigurationError(
            f"repository {shown}: the URL holds credentials, which would end up in argument lists and logs; "
            "take them out and set RECONCILER_FORGE_TOKEN"
        )
    if (parts.username or "").startswith("-"):
        raise ConfigurationError(f"repository {shown}: no valid user name")
    if sends_in_the_clear(url):
        raise ConfigurationError(f"repository {shown}: http:// sends tokens unencrypted; use https://")
    origin = "" if parts.scheme == "ssh" else f"{parts.scheme}://{parts.netloc}"
    return Remote(url=url, protocol=parts.scheme, origin=origin)


# What git may see of the world: a closed environment and fixed settings.

SETTINGS = (
    # A directory of another user may name commands in its own configuration. These outrank it.
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("credential.helper", ""),
    ("protocol.ext.allow", "never"),
    # Another user's directory is readable: with the lines above and no work tree nothing of it is run.
    ("safe.directory", "*"),
    # A token must never follow a redirect; git would not send it, and an operator should name the real place.
    ("http.followRedirects", "false"),
    # A clone lives for one run: maintenance would outlive it.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("push.gpgSign", "false"),
)

VARIABLES: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    # Empty, not unset: then git asks neither core.askPass nor SSH_ASKPASS.
    "GIT_ASKPASS": "",
    # A shared connection would outlive git, hold its pipes open and look like a hang.
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oControlPath=none",
    "GIT_SSH_VARIANT": "ssh",
    # A replaced object would make us read something else than the commit that we name.
    "GIT_NO_REPLACE_OBJECTS": "1",
    # A partial clone would fetch what is missing, with commands from its own configuration.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    # curl would otherwise find other credentials in ~/.netrc; ssh takes its directory from the user database.
    "HOME": os.devnull,
    "LC_ALL": "C",
    "LANGUAGE": "C",
}


def build_environment(directory: Path | None, remote: Remote | None, credentials: GitToken | None) -> dict[str, str]:
    """The variables for one command, to be laid over the process's own.

    A token travels in `GIT_CONFIG_VALUE_n` only: never in an argument list or a file, and only to the remote's
    origin. Without `directory` git looks for the repository itself.
    """
    environment = dict(VARIABLES)
    environment["GIT_ALLOW_PROTOCOL"] = remote.protocol if remote else "none"
    if directory is not None:
        environment["GIT_DIR"] = str(directory)
    # Operators name their own certificate authority once, for all clients.
    if bundle := os.environ.get("REQUESTS_CA_BUNDLE"):
        environment["GIT_SSL_CAINFO"] = bundle
    settings = list(SETTINGS)
    if remote is not None and remote.protocol == "http":
        settings.append((f"http.{remote.origin}/.proxy", ""))  # loopback: a proxy would be another machine
    if remote is not None and remote.origin and credentials is not None:
        settings.append((f"http.{remote.origin}/.extraHeader", credentials.authorization))
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


def inherited_git_variables(kept: Iterable[str]) -> list[str]:
    """`GIT_*` variables of this process that git must not see (a hook or CI job sets GIT_DIR, GIT_TRACE and more)."""
    return sorted({name for name in os.environ if name.startswith("GIT_")} - set(kept))


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
        with _running(arguments, environment) as process:
            if process.stdout is None or process.stderr is None:
                raise TransientError("git ended before it began")
            timer = threading.Timer(self.timeout_s, _end_group, [process])
            timer.start()
            try:
                printed = process.stdout.read(most_bytes + 1)
                if len(printed) > most_bytes:
                    raise ConfigurationError(f"{action}: more than {most_bytes} bytes; this is no fleet repository")
                said = process.stderr.read()
                process.wait()
            finally:
                timer.cancel()
        if process.returncode != 0:
            raise explain_failure(action, process.returncode, said, self.redactor)
        return printed

    def run(self, *arguments: str, action: str, stdin: bytes = b"") -> bytes:
        """Run git and return what it printed; `action` says in errors what was tried.

        Raises ConfigurationError or TransientError, see `explain_failure`.
        """
        completed = self.attempt(*arguments, action=action, stdin=stdin)
        if completed.status != 0:
            raise explain_failure(action, completed.status, completed.stderr, self.redactor)
        return completed.stdout

    def attempt(
        self, *arguments: str, action: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> Completed:
        """Run git, with `variables` above its environment, and return also a failure.

        TransientError when it did not end in time.
        """
        is_ended_well = False
        try:
            completed = self._attempt(arguments, action, stdin, variables or {})
            is_ended_well = completed.status == 0
        finally:
            if self.remote is not None and self.remote.host and arguments[0] in REMOTE_MEMORY_KIB:
                TRAFFIC.note(f"//{self.remote.host}", failed=not is_ended_well)
        return completed

    def _attempt(self, arguments: Sequence[str], action: str, stdin: bytes, variables: Mapping[str, str]) -> Completed:
        environment = {**build_environment(self.directory, self.remote, self.credentials), **variables}
        logger.debug("git %s", arguments[0])
        is_remote = arguments[0] in REMOTE_MEMORY_KIB
        left_s = max(0.0, self.run_ends_s - Clock().monotonic()) if is_remote else math.inf
        limit_s = min(self.timeout_s, REMOTE_S.get(arguments[0], math.inf), left_s)
        with _running(arguments, environment) as process:
            try:
                stdout, stderr = process.communicate(input=stdin, timeout=limit_s)
            except subprocess.TimeoutExpired:
                raise TransientError(
                    f"{action}: no end after {limit_s:.3g} s, git was stopped; the remote may be overloaded"
                ) from None
        return Completed(status=process.returncode, stdout=stdout, stderr=stderr)


class _Interruptions(threading.local):
    """Whether a signal's handler has to wait with an exception, which would lose a process of this thread."""

    have_to_wait = False


INTERRUPTIONS = _Interruptions()


@contextlib.contextmanager
def _running(arguments: Sequence[str], environment: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """git, which has ended with all that it started and has no pipe open once this is left."""
    process = None
    INTERRUPTIONS.have_to_wait = True
    try:
        _held, process = _start(arguments, environment)
        INTERRUPTIONS.have_to_wait = False
        yield process
    finally:
        INTERRUPTIONS.have_to_wait = True
        try:
            if process is not None:
                _end_group(process)
                _close_pipes(process)
        finally:
            INTERRUPTIONS.have_to_wait = False


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> "tuple[object, subprocess.Popen[bytes]]":
    """A process in a group of its own, and what ends it when it is collected: hold it as long as git is to run.

    GitPython's runner holds what talks to a server. Importing it takes longer than reading a small repository does, so
    that what reads and writes on this machine is started without it.
    """
    executable = shutil.which("git")
    if executable is None:
        raise ConfigurationError(MISSING)
    unset = inherited_git_variables(environment)
    if arguments[0] not in REMOTE_MEMORY_KIB:
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        try:
            process = subprocess.Popen(
                [executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=os.sep,
                env={**kept, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigurationError(MISSING) from error
        return process, process
    # A shell limits the memory of what listens to a server. GitPython lays variables over the process's own and cannot
    # take any away.
    limited = ["/bin/sh", "-c", LIMITED, str(REMOTE_MEMORY_KIB[arguments[0]])]
    without = [word for name in unset for word in ("-u", name)]
    interrupt = _runner(environment)(os.sep).execute(
        [*limited, *(["env", *without] if without else []), executable, *arguments],
        istream=subprocess.PIPE,
        as_process=True,
        env=environment,
        shell=False,
        start_new_session=True,  # one group: git's transports are children that must end with it
    )
    if interrupt.proc is None:
        raise TransientError("git ended before it began")
    return interrupt, interrupt.proc


def _runner(environment: Mapping[str, str]) -> "type[Git]":
    """GitPython's runner, whose first import tries git: in our environment, not in the one of the process."""
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


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=END_S)  # until the last child has let go of the pipes


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):  # git has ended and reads no more input
                pipe.close()
