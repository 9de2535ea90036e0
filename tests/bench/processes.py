"""Starts a Python module as people do, and says what that took."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A finished process: seconds on the clock and of the processor, the most memory it held, what it printed."""

    wall_s: float
    user_s: float
    peak_mib: float
    output: str = ""

    @classmethod
    def median_of(cls, runs: "Sequence[Spent]") -> "Spent":
        """The median of each number; the largest memory."""
        return cls(
            wall_s=statistics.median(run.wall_s for run in runs),
            user_s=statistics.median(run.user_s for run in runs),
            peak_mib=max(run.peak_mib for run in runs),
        )


def run_python(module: str, *arguments: str) -> Spent:
    """Run `python -m module` to its end; RuntimeError with its last words when it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=output, stderr=complaints)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            complaints.seek(0)
            raise RuntimeError(f"{module} left with {process.returncode}: {complaints.read()[-2000:].decode()}")
        output.seek(0)
        return Spent(wall_s=wall_s, user_s=usage.ru_utime, peak_mib=_mib(usage), output=output.read().decode())


def _mib(usage: resource.struct_rusage) -> float:
    """Linux counts in KiB, macOS in bytes."""
    return usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
