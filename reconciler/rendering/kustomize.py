"""The real Kustomize, started as a process: what it builds of a directory."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError, InputError
from reconciler.http.redaction import Redactor

TOOLS = (("kustomize", ("kustomize", "build")), ("kubectl", ("kubectl", "kustomize")))
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kustomize:
    """A tool on the PATH that renders kustomizations; it fetches what a remote base names."""

    name: str
    command: tuple[str, ...]

    def build(self, folder: Path, root: str) -> bytes:
        """The YAML of all objects of directory `root` below `folder`.

        Raises InputError when it does not build, ConfigurationError when the tool does not run or end in time.
        """
        try:
            done = _run([*self.command, str(folder / root)])
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(f"--prove: {self.name} did not render {root or '.'}: {error}") from error
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().replace(str(folder), "").splitlines()
            # a remote base may hold a password, and its server may say anything
            words = Redactor().show(lines[-1]) if lines else "no reason given"
            raise InputError(root or ".", 0, "", f"{self.name} does not render it: {words}")
        return done.stdout


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """The command run to its end; when it takes too long it is ended with all that it started, as it does git."""
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def find_kustomize() -> Kustomize:
    """The first tool that is installed; ConfigurationError when none is."""
    for name, command in TOOLS:
        if shutil.which(name):
            return Kustomize(name=name, command=command)
    raise ConfigurationError("--prove: expected kustomize or kubectl on the PATH, found neither")
