"""A command in a process of its own that ends, or waits, at a chosen step.

    start("push", ...)         SIGKILL right after the step took effect
    start("meet:FOLDER", ...)  before the first push, wait until two processes are there

Steps: commit, push, create, update, mark, close, merge, note, delete; of reviews comment, edit, tidy, status; `none`
runs through.
The processes are forked off one that has imported the program already, which takes longer than a run.
"""

import functools
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import reconciler.cli.review
import reconciler.cli.run
from reconciler.cli.main import invoke
from reconciler.forge.github import GitHub
from reconciler.forge.gitlab import GitLab
from reconciler.forge.local import Local
from reconciler.git.clone import Clone
from reconciler.http.messages import Clock

PATIENCE_S, END_S = 30.0, 120.0
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "reconciler.cli.output", "scipy.special"])


def kill_after(owner: type, method: str, applies: Callable[[dict[str, Any]], bool] = lambda _keywords: True) -> None:
    """Let a method do its work, and end the process before it returns."""
    original = getattr(owner, method)

    @functools.wraps(original)
    def fatal(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        if applies(keywords):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, fatal)


def meet_before_push(folder: Path) -> None:
    """Wait before the first push until another process is there too."""
    original = Clone.push

    def push(self: Clone, branch: str, commit: str, *, expected: str | None) -> None:
        (folder / str(os.getpid())).touch()
        deadline_s = time.monotonic() + PATIENCE_S
        while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.005)
        original(self, branch, commit, expected=expected)

    Clone.push = push  # type: ignore[method-assign]  # what this process is for


def halt_at(step: str) -> None:
    """Prepare the end, or the meeting."""
    if step.startswith("meet:"):
        meet_before_push(Path(step.removeprefix("meet:")))
        return
    methods = {"commit": "write_commit", "push": "push", "merge": "merge", "delete": "delete_branch"}
    if step in methods:
        kill_after(Clone, methods[step])
    told = {"comment": "write_comment", "edit": "edit_comment", "tidy": "delete_comment", "status": "set_status"}
    if step in told:
        for hosted in (GitHub, GitLab):
            kill_after(hosted, told[step])
    for forge in (GitHub, GitLab, Local):
        if step in ("create", "update"):
            kill_after(forge, step)
        elif step == "note":
            kill_after(forge, "note_merge")
        elif step == "mark":
            kill_after(forge, "update", lambda keywords: not keywords.get("close"))
        elif step == "close":
            kill_after(forge, "update", lambda keywords: bool(keywords.get("close")))


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedRun:
    """A command that was started; what it prints is in a file."""

    process: ForkServerProcess
    printed: Path

    def end(self) -> tuple[int, str]:
        """Wait for its exit code, negative for a signal, and all that it printed."""
        self.process.join(END_S)
        code = self.process.exitcode
        assert code is not None, self.printed.read_text()
        self.process.close()
        return code, self.printed.read_text()

    @property
    def peak_bytes(self) -> int:
        """The most memory that it ever had, once it has ended by itself."""
        return int(_peak_file(self.printed).read_text())


def _peak_file(printed: Path) -> Path:
    return printed.with_name(f"{printed.name}.peak")


def start(step: str, now_s: float, arguments: Sequence[str], folder: Path) -> HaltedRun:
    """Start a command line at the given time, in the environment of now; its file is in `folder`."""
    number, name = tempfile.mkstemp(dir=folder)
    os.close(number)
    process = PROCESSES.Process(target=_run, args=(step, now_s, list(arguments), name, dict(os.environ)))
    process.start()
    return HaltedRun(process=process, printed=Path(name))


def _run(step: str, now_s: float, arguments: Sequence[str], printed: str, environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with Path(printed).open("wb") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)
    halt_at(step)
    for module in (reconciler.cli.run, reconciler.cli.review):
        setattr(module, "time", SimpleNamespace(time=lambda: now_s))  # noqa: B010  # the fleet's time
    setattr(Clock, "sleep", lambda _clock, _seconds: None)  # noqa: B010  # no pause takes time
    code = invoke(arguments)
    _peak_file(Path(printed)).write_text(str(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
    sys.exit(code)
