"""What people see: text on stdout, logs and progress on stderr, colour only where it is welcome."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler.cli.options import Common

if TYPE_CHECKING:
    from reconciler.config.environment import Environment
    from reconciler.pipeline.doors import Progress

PIPE_WIDTH = 0


def reserve_stdout() -> None:
    """Keep stdout for data: what libraries print below Python goes to stderr.

    HiGHS has a line that it prints however silent it was told to be; in the middle of JSON it would break the reader.
    """
    try:
        stdout, stderr = sys.stdout.fileno(), sys.stderr.fileno()
        os.fstat(stderr)
        ours = os.dup(stdout)
        os.dup2(stderr, stdout)
    except (OSError, ValueError, AttributeError):
        return  # one of the two is closed, or is no file: there is nowhere else to print to
    buffering = 1 if os.isatty(ours) else -1
    sys.stdout = os.fdopen(ours, "w", buffering, encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def write(text: str) -> None:
    """Data to stdout, as it is; a reader that went away is no error."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def write_json(content: Mapping[str, object]) -> None:
    """JSON to stdout, in the order it was built."""
    write(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def complain(message: str) -> None:
    """An error for a person, on stderr; findings name their severity themselves."""
    sys.stderr.write(f"{message}\n" if ": error: " in message else f"error: {message}\n")


def note(message: str) -> None:
    """Something that a person asked to be told beside the data, on stderr."""
    sys.stderr.write(f"{message}\n")


def width() -> int:
    """Columns of the terminal; 0 (unlimited) when stdout is none."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    import shutil

    return shutil.get_terminal_size().columns


def is_colored(common: Common, environment: "Environment") -> bool:
    """Whether stdout gets colour: the flag, then NO_COLOR and FORCE_COLOR, then whether it is a terminal."""
    if common.color != "auto":
        return common.color == "always"
    asked = environment.wants_color
    return sys.stdout.isatty() if asked is None else asked


@contextmanager
def progress(common: Common) -> Iterator["Progress"]:
    """A progress bar on stderr where a person watches; nothing anywhere else."""
    if common.quiet or not sys.stderr.isatty():
        from reconciler.pipeline.doors import no_progress

        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _stepper(bars.add_task, bars.update)


def _stepper(add_task: Callable[..., object], update: Callable[..., None]) -> "Progress":
    tasks: dict[str, object] = {}

    def step(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = add_task(what, total=total)
        update(tasks[what], completed=done, total=total)

    return step
