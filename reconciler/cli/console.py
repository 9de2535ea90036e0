"""The console: text on stdout, logs and progress on stderr, colour where it is wanted, and exit codes."""

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from msgspec import DecodeError
from msgspec.json import format as format_json

from reconciler.domain.identity import Finding, Severity
from reconciler.errors import ConfigurationError, InputError, ReconcilerError

if TYPE_CHECKING:
    from reconciler.config.environment import Environment
    from reconciler.domain.plan import Plan
    from reconciler.domain.reports import Check
    from reconciler.pipeline.session import Progress


class Exit(IntEnum):
    """The exit codes, as documented."""

    FINISHED = 0
    BUG = 1
    CHANGES = 2
    INPUT = 3
    TRANSIENT = 4
    CONFIGURATION = 5
    INTERRUPTED = 130
    TERMINATED = 143


def exit_for(error: ReconcilerError) -> Exit:
    """The code of an expected failure."""
    if isinstance(error, ConfigurationError):
        return Exit.CONFIGURATION
    return Exit.INPUT if isinstance(error, InputError) else Exit.TRANSIENT


def exit_of_findings(findings: Iterable[Finding], *, strict: bool = False) -> Exit:
    """INPUT when an error is among them, or with `strict` a warning."""
    worst = {finding.severity for finding in findings}
    fails = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return Exit.INPUT if worst & fails else Exit.FINISHED


def exit_of_checks(checks: "Iterable[Check]") -> Exit:
    """The code of the gravest failure; a warning fails nothing."""
    from reconciler.domain.reports import Cause, Level

    codes = {Cause.INPUT: Exit.INPUT, Cause.OUTSIDE: Exit.TRANSIENT, Cause.CONFIGURATION: Exit.CONFIGURATION}
    return max((codes[check.cause] for check in checks if check.level is Level.FAIL), default=Exit.FINISHED)


def exit_of_plan(plan: "Plan", *, detailed: bool = False, fails_when_held: bool = False) -> Exit:
    """The code of a finished plan; `detailed` tells changes apart, `fails_when_held` a plan that held everything."""
    codes = [exit_of_findings(plan.findings)]
    if plan.refusals:
        codes.append(Exit.CONFIGURATION)
    if plan.failures:
        codes.append(Exit.TRANSIENT)
    if fails_when_held and plan.is_all_held:
        codes.append(Exit.INPUT)
    if detailed and plan.proposes:
        codes.append(Exit.CHANGES)
    return max(codes)


ColorChoice = Literal["auto", "always", "never"]
PIPE_WIDTH = 0
RUN_ID_BYTES = 6
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_HEADINGS = (
    "VARIANT|Gets less than it needs|Held|Waiting|Failed|To fix"
    "|VALUE|QUERY|FIGURE|STEP|MODEL|Notes|Not learned|Not used"
)
_STYLES = (
    (re.compile(r"^\S.*$(?=\n {2,}\d* *(?:error|warning|note):)", re.MULTILINE), "bold"),
    (re.compile(rf"^({_HEADINGS}).*$|^ {{3}}VARIANT.*$", re.MULTILINE), "bold"),
    (re.compile(r"^ok(?= {4})", re.MULTILINE), "green"),
    (re.compile(r"^warn(?= {2})", re.MULTILINE), "yellow"),
    (re.compile(r"^FAIL(?= {2})", re.MULTILINE), "red"),
    (re.compile(r"▲"), "red"),
    (re.compile(r"▼"), "green"),
    (re.compile(r"⇄"), "cyan"),
    (re.compile(r"\berror:"), "red"),
    (re.compile(r"\bwarning:"), "yellow"),
    (re.compile(r"\bneeds approval\b"), "yellow"),
    (re.compile(r"\[[a-z0-9]+(?:-[a-z0-9]+)+\]$", re.MULTILINE), "dim"),
)
"""More replicas cost more, so they are red; the symbols say the same without it."""


_ARROW = re.compile(r"→([^\n→]*?)(  +(?=\S)|(?=\n|→|\Z))")
_IN_ASCII = str.maketrans(
    {"▲": "^", "▼": "v", "⇄": "~", "•": "*", "−": "-", "…": "~", "×": "x", "€": "EUR ", "£": "GBP "}
)


def reserve_stdout() -> None:
    """Keep stdout for data: what libraries print below Python goes to stderr.

    HiGHS prints one line even when its output is switched off; within JSON it would break the reader.
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
    """Write data to stdout, in ASCII where its encoding cannot represent a character."""
    sys.stdout.write(spelled(text if text.endswith("\n") else text + "\n", sys.stdout.encoding or "utf-8"))
    sys.stdout.flush()


def spelled(text: str, encoding: str) -> str:
    """`text` as a terminal of this encoding can show it, with its columns where they were."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = _ARROW.sub(_narrowed, text).translate(_IN_ASCII)
        return text.encode(encoding, "replace").decode(encoding)
    return text


def _narrowed(match: re.Match[str]) -> str:
    """An arrow of two characters takes one space of the next gap."""
    return f"->{match[1]}{match[2][1:]}"


def write_json(content: Mapping[str, object]) -> None:
    """JSON to stdout, in the order it was built; in ASCII where stdout is not UTF-8."""
    is_utf8 = (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
    sys.stdout.writelines(json_pieces(content, is_ascii=not is_utf8))
    sys.stdout.flush()


def json_pieces(content: Mapping[str, object], *, is_ascii: bool) -> Iterator[str]:
    """JSON with an indent of two, piece by piece: a member at a time, and of one that is an iterator each of its items.

    A large fleet's plan has never to be there as a whole, neither as a text nor as lists.
    """
    before = "{"
    for name, value in content.items():
        yield f"{before}\n  {json.dumps(name, ensure_ascii=is_ascii)}: "
        before = ","
        if isinstance(value, Iterator):
            start = "["
            for item in value:
                yield f"{start}\n    "
                yield _indented(item, "    ", is_ascii=is_ascii)
                start = ","
            yield "[]" if start == "[" else "\n  ]"
        else:
            yield _indented(value, "  ", is_ascii=is_ascii)
    yield "{}\n" if before == "{" else "\n}\n"


def _indented(value: object, margin: str, *, is_ascii: bool) -> str:
    """The text that the standard library makes with an indent, in a third of the time."""
    text = json.dumps(value, ensure_ascii=is_ascii, allow_nan=False)
    try:
        shown = format_json(text, indent=2)
    except (UnicodeEncodeError, DecodeError):  # half a pair of UTF-16: only an escape tells it, which msgspec refuses
        shown = json.dumps(value, indent=2, allow_nan=False)
    return shown.replace("\n", f"\n{margin}")


def complain(message: str) -> None:
    """An error for a person, on stderr; findings name their severity themselves."""
    sys.stderr.write(f"{message}\n" if ": error: " in message else f"error: {message}\n")


def note(message: str) -> None:
    """Print a message for a person on stderr."""
    sys.stderr.write(f"{message}\n")


def width() -> int:
    """Columns of the terminal; 0 (unlimited) when stdout is none."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    import shutil

    return shutil.get_terminal_size().columns


def is_colored(color: ColorChoice, environment: "Environment") -> bool:
    """Whether stdout gets colour: the flag, then NO_COLOR and FORCE_COLOR, then whether it is a terminal."""
    if color != "auto":
        return color == "always"
    wanted = environment.wants_color
    return sys.stdout.isatty() if wanted is None else wanted


def painted(color: ColorChoice, text: str) -> str:
    """The text with ANSI colours where they are welcome."""
    from reconciler.config.environment import read_environment

    if is_colored(color, read_environment()):
        for pattern, style in _STYLES:
            text = pattern.sub(f"\x1b[{_CODES[style]}m\\g<0>\x1b[0m", text)
    return text


@contextmanager
def progress(*, quiet: bool) -> Iterator["Progress"]:
    """A progress bar on stderr where a person watches; nothing anywhere else."""
    if quiet or not sys.stderr.isatty():
        from reconciler.pipeline.session import no_progress

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


def set_up_logging(*, quiet: bool, verbose: int, as_json: bool) -> None:
    """Logs to stderr; without flags only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(levelname)s %(message)s")
    handler.setFormatter(_JsonFormatter() if as_json else plain)
    root = logging.getLogger("reconciler")
    root.handlers = [handler]
    root.setLevel(logging.ERROR if quiet else LEVELS[min(verbose, 2)])


class _JsonFormatter(logging.Formatter):
    """One JSON object a line; no time, which the collector of a cluster's logs adds.

    `run` is the same in all lines of a command, and in those of no other: chance alone makes it.
    """

    def __init__(self) -> None:
        import secrets  # brings the hashes of OpenSSL: 5 ms

        super().__init__()
        self._run = secrets.token_hex(RUN_ID_BYTES)

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "level": record.levelname.lower(),
            "run": self._run,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
