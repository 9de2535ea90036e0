"""Starts a Python module as people do, in this tree or in that of another commit, and says what that took."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LAUNCHER = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
spent = process.returncode, time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss
with open(sys.argv[1], "w") as file:
    json.dump(spent, file)
"""
"""Starts a command from a process that holds nothing: the peak of a new one is never below what its parent holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A finished process with its children: seconds on the clock and of the processor, its peak memory, its output."""

    wall_s: float
    processor_s: float
    peak_mib: float
    output: str = ""

    @classmethod
    def median_of(cls, runs: "Sequence[Spent]") -> "Spent":
        """The median of each number; the largest memory; the output of the last."""
        return cls(
            wall_s=statistics.median(run.wall_s for run in runs),
            processor_s=statistics.median(run.processor_s for run in runs),
            peak_mib=max(run.peak_mib for run in runs),
            output=runs[-1].output,
        )


def run_python(
    module: str, *arguments: str, tree: Path = ROOT, directory: Path | None = None, accepted: Sequence[int] = (0,)
) -> Spent:
    """Run `python -m module` of a tree to its end; RuntimeError with its last words when it fails.

    Bytecode is written, as an installation has it.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
        tempfile.NamedTemporaryFile() as told,
    ):
        subprocess.run(
            [sys.executable, "-S", "-c", _LAUNCHER, told.name, sys.executable, "-m", module, *arguments],
            stdout=output,
            stderr=complaints,
            cwd=directory or tree,
            env={**kept, "PYTHONPATH": str(tree)},
            check=True,
        )
        code, wall_s, processor_s, peak = json.loads(told.read())
        if code not in accepted:
            complaints.seek(0)
            raise RuntimeError(f"{module} left with {code}: {complaints.read()[-2000:].decode()}")
        output.seek(0)
        peak_mib = peak / (2**20 if sys.platform == "darwin" else 2**10)  # Linux counts in KiB, macOS in bytes
        return Spent(wall_s=wall_s, processor_s=processor_s, peak_mib=peak_mib, output=output.read().decode())


@contextmanager
def tree_of(commit: str) -> Iterator[Path | None]:
    """A work tree of another commit, removed afterwards; None where none is named."""
    if not commit:
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "base"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def name_of(commit: str = "HEAD") -> str:
    """A commit's short name; empty outside of a repository."""
    return _git("rev-parse", "--short", commit, check=False).strip()


def _git(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
