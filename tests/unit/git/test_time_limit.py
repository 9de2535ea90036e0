"""A time limit that is over while git is started or ended."""

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from reconciler.errors import TransientError
from reconciler.git import command
from reconciler.git.command import GitCommand
from reconciler.pipeline.review import OutOfTimeError, time_limit
from tests.servers.git_workshop import Workshop

Process = subprocess.Popen[bytes]
WAIT = ("-c", "alias.wait=!sleep 60", "wait")


@pytest.mark.parametrize("arguments", [WAIT, ("ls-remote", "origin")], ids=["here", "to a server"])
def test_no_process_is_lost_when_the_time_is_over_as_it_starts(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    git = GitCommand(directory=workshop.clone / ".git")
    git.attempt("ls-remote", "origin", action="try")  # GitPython asks for git's version when it is first imported
    start: Callable[..., None] = vars(subprocess.Popen)["_execute_child"]
    started: list[Process] = []

    def start_late(process: Process, *given: Any) -> None:
        start(process, *given)
        started.append(process)
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(subprocess.Popen, "_execute_child", start_late)
    with pytest.raises(OutOfTimeError), time_limit(60):
        run_and_wait(git, *arguments)
    assert_left_nothing(started)


def test_no_process_is_lost_when_the_time_is_over_as_it_is_ended(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, ended = command._end_group, []

    def end_late(process: Process) -> None:
        ended.append(process)
        signal.raise_signal(signal.SIGALRM)
        end(process)

    monkeypatch.setattr(command, "_end_group", end_late)
    with pytest.raises(OutOfTimeError), time_limit(60):
        run_and_wait(GitCommand(directory=workshop.clone / ".git", timeout_s=0.01), *WAIT)
    assert_left_nothing(ended)


def run_and_wait(git: GitCommand, *arguments: str) -> None:
    """Run git, then wait for the limit: what ends by itself may be quicker than it."""
    with suppress(TransientError):
        git.attempt(*arguments, action="try")
    signal.pause()


def assert_left_nothing(processes: list[Process]) -> None:
    """One process was started, which has ended, with all its pipes closed."""
    (process,) = processes
    assert process.returncode is not None
    assert all(pipe is not None and pipe.closed for pipe in (process.stdin, process.stdout, process.stderr))
