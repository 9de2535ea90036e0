"""Backtest: read what is replayed, go through its days one by one, keep each that is finished, and compare."""

import csv
import gzip
import hashlib
import io
import json
import logging
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from reconciler import __version__
from reconciler.backtest.comparison import compare
from reconciler.backtest.replayed import ABLATIONS, read_replayed
from reconciler.domain.answers import AnswerStatus
from reconciler.domain.backtests import Backtest, BacktestDay, Course, Courses, Tally
from reconciler.domain.history import DemandHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.recording import Recording
from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError, TransientError
from reconciler.forecast.series import Floats
from reconciler.pipeline.backtest_days import Workers, replay_days
from reconciler.pipeline.recording import fingerprint
from reconciler.pipeline.session import Progress
from reconciler.report.backtest import day_json
from reconciler.report.formatting import one_line
from reconciler.simulation.draws import OfficeHours
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration

logger = logging.getLogger(__name__)

DAY_S = 86_400.0
UNIX_S = 1e9
"""From here up a file's times are Unix seconds; below, seconds since its own beginning."""
MOST_BYTES = 64 * 2**20
KEY_LENGTH = 12
SHOWN = 3
"""Of the models that cannot be replayed where none can."""
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRequest:
    """What to replay: at most so many days, and where to keep those that are finished (None: nowhere).

    `loads` is a file of loads to replay instead of the recorded ones. With `office_hours` people merge from 8 to 18
    UTC on working days alone. With `ablations` ours is replayed again with one thing changed at a time,
    with `faults` things go wrong.
    """

    days: int
    seed: int = 1
    loads: Path | None = None
    keep: Path | None = None
    office_hours: bool = False
    ablations: bool = False
    faults: bool = False
    workers: Workers = Workers()


def backtest(recording: Recording, request: BacktestRequest, progress: Progress) -> Backtest:
    """Replay the last days of a recording.

    Raises ConfigurationError where it holds nothing that can be replayed, TransientError where that is because
    Prometheus failed.
    """
    print_of = fingerprint(recording)
    declaration = read_declaration(
        recording.manifests, recording.withheld, recording.settings, recording.paths, recording.repository
    )
    snapshot = read_snapshot(recording, declaration, print_of)
    models = tuple(sorted({variant.model for variant in snapshot.variants}))
    loads = None if request.loads is None else read_loads(request.loads, models, recording.now_s)
    hours = OfficeHours() if request.office_hours else None
    replayed = read_replayed(snapshot, seed=request.seed, hours=hours, loads=loads, with_faults=request.faults)
    days = replayed.days(request.days)
    failed = _failed(recording)
    if failed and not (replayed.models and days):
        raise TransientError(f"backtest: nothing can be replayed: {failed}")
    if failed:
        logger.warning("%s; what they would have said is missing from the replay", failed)
    if not replayed.models:
        raise ConfigurationError(_why_nothing(replayed.left_out))
    if not days:
        raise ConfigurationError(
            "backtest: of no whole day (UTC) is half of the load known; wait until Prometheus holds one, or replay "
            "another load with --loads"
        )
    if request.keep is not None:
        _make(request.keep)
    key = _key(print_of, request)
    ablations = tuple(ABLATIONS) if request.ablations else ()
    files = {} if request.keep is None else {each: request.keep / f"day-{each / DAY_S:.0f}-{key}.json" for each in days}
    found = {day_s: day for day_s, file in files.items() if (day := _read_day(file)) is not None}
    left = [day_s for day_s in days if day_s not in found]
    progress("replay days", len(found), len(days))
    with closing(replay_days(replayed, left, request.seed, ablations, request.workers)) as finished:
        for day_s, day in finished:
            if day_s in files:
                _keep_day(files[day_s], day)
            found[day_s] = day
            progress("replay days", len(found), len(days))
    return compare([found[day_s] for day_s in days], replayed, replayed.left_out, print_of, request.seed)


def _failed(recording: Recording) -> str:
    """How many questions to Prometheus failed, and why the first did; empty where none failed."""
    reasons = [each.reason for each in recording.answers if each.status is AnswerStatus.FAILED]
    if not reasons:
        return ""
    return f"{len(reasons)} of {len(recording.answers)} questions to Prometheus failed: {one_line(reasons[0])}"


def _why_nothing(left_out: Mapping[ModelKey, str]) -> str:
    """Why no model can be replayed, and what to do about it."""
    if not left_out:
        return (
            "backtest: nothing in the repository is managed: `reconciler init --adopt` lets workloads that serve "
            "models be managed; commit what it writes"
        )
    found = list(left_out.items())
    words = "; ".join(f"{one_line(str(model), limit=70)}: {one_line(why)}" for model, why in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (
        f"backtest: no model can be replayed: {words}{more}. Models are replayed that have a latency target "
        "(serviceClasses) and a profile, given or learned by `reconciler fit`"
    )


def _key(print_of: str, request: BacktestRequest) -> str:
    """What makes a day another: the recording, the loads, the seed, the hours, the program."""
    loads = b"" if request.loads is None else _read(request.loads)
    parts = (
        print_of,
        hashlib.sha256(loads).hexdigest(),
        request.seed,
        request.office_hours,
        request.ablations,
        request.faults,
        __version__,
    )
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:KEY_LENGTH]


def _make(folder: Path) -> None:
    """Make the directory of finished days: better now than when the first of them is to be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"--keep {folder}: {error.strerror}: expected a directory to write to")


def _keep_day(file: Path, day: BacktestDay) -> None:
    """Write whole or not at all: a run that is killed leaves no half of a day, and another one may write the same."""
    unfinished = file.with_suffix(f".{os.getpid()}.part")
    try:
        unfinished.write_text(json.dumps(day_json(day), allow_nan=False), encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        raise _unwritable(file.parent, error) from error


def _read_day(file: Path) -> BacktestDay | None:
    """A day that was kept; None where there is none, or none that can be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return _day_of(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, msgspec.ValidationError) as error:
        logger.warning("%s is not a day that was kept, and is replayed again: %s", file, error)
        return None


def _day_of(content: Mapping[str, Any]) -> BacktestDay:
    tallies = {name: tuple(Tally(**each) for each in rows) for name, rows in content["tallies"].items()}
    courses = msgspec.convert(content["courses"], tuple[Course, ...])
    return BacktestDay(**{**content, "tallies": tallies, "courses": Courses.of(courses)})


def read_loads(file: Path, models: Sequence[ModelKey], now_s: float) -> DemandHistory:
    """Loads from a CSV file (or with gzip): a row a window, in the first column when it begins, then a column a model.

    Times ascend evenly, in Unix seconds or from the file's own beginning: then its last window ends at the last
    midnight (UTC). Values are mean requests a second, empty where they are not known. Columns are named
    `cluster/namespace/model`, as every output prints them. Raises ConfigurationError with line and reason.
    """
    body = _read(file)
    try:
        text = gzip.GzipFile(fileobj=io.BytesIO(body)).read(MOST_BYTES + 1) if body[:2] == GZIP else body
        if len(text) > MOST_BYTES:
            raise ConfigurationError(f"{file}: more than {MOST_BYTES // 2**20} MiB of loads")
        rows = csv.reader(io.StringIO(text.decode("utf-8")))
        names = next(rows, [])
        windows = [_numbers(file, line, row, len(names)) for line, row in enumerate(rows, start=2)]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{file}: expected a CSV file of loads: {error}") from error
    if len(windows) < 2 or len(names) < 2:
        raise ConfigurationError(f"{file}: expected a line of names and at least two windows below it")
    named = {str(model): model for model in models}
    chosen = [(column, named[name]) for column, name in enumerate(names) if name in named]
    if not chosen:
        raise ConfigurationError(
            f"{file}:1: no column is named after a model of the repository; known: {', '.join(sorted(named)[:5])}"
        )
    values = np.array(windows)
    times_s = values[:, 0]
    step_s = float(times_s[1] - times_s[0])
    if not step_s >= 60 or not np.allclose(np.diff(times_s), step_s):
        raise ConfigurationError(f"{file}: expected windows of one length, a minute or longer, in ascending order")
    first_s = float(times_s[0])
    if first_s < UNIX_S:
        first_s += math.floor(now_s / DAY_S) * DAY_S - (float(times_s[-1]) + step_s)
    return DemandHistory(
        models=tuple(model for _, model in chosen),
        start_s=first_s + step_s,
        step_s=step_s,
        per_s=values[:, [column for column, _ in chosen]].T.copy(),
    )


def _numbers(file: Path, line: int, row: Sequence[str], columns: int) -> Floats:
    """A row of the file as an array: all at once, as texts and Python's numbers, took 110 MiB more for 1,000 models."""
    if len(row) != columns:
        raise ConfigurationError(f"{file}:{line}: expected {columns} values, found {len(row)}")
    try:
        found = [float(cell) if cell.strip() else math.nan for cell in row]
    except ValueError as error:
        raise ConfigurationError(f"{file}:{line}: {error}") from error
    if any(math.isinf(each) or each < 0 for each in found) or math.isnan(found[0]):
        raise ConfigurationError(f"{file}:{line}: expected a time and rates of 0 or more")
    return np.array(found)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            body = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    if len(body) > MOST_BYTES:
        raise ConfigurationError(f"{file}: more than {MOST_BYTES // 2**20} MiB of loads")
    return body
