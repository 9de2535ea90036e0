"""How long, how much and how often: every bound of a door in one place, and the clock that it goes by."""

import math
import time
from dataclasses import dataclass

MIB = 1024 * 1024
RUN_S = 1800.0
"""How long a run waits for servers and remotes altogether: what is not done by then is left to the next run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one question, in seconds and bytes; `body_bytes` holds before and after decompression,
    `kept_bytes` for the answers that one client keeps, together.

    `total_s` holds for a question with its attempts, pauses and redirects, however slowly a server drips. A pause
    doubles from `backoff_s`; `retry_after_s` is the longest that a server may ask for. An answer that is no success is
    cut at `error_bytes`. `parallel` questions are asked at once. `run_ends_s` is when the run has no more time, on the
    clock's own seconds.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    total_s: float = 60.0
    body_bytes: int = 128 * MIB
    kept_bytes: int = 1024 * MIB
    error_bytes: int = 64 * 1024
    attempts: int = 4
    backoff_s: float = 0.5
    retry_after_s: float = 20.0
    redirects: int = 5
    parallel: int = 4
    run_ends_s: float = math.inf


class Clock:
    """Time as it passes on this machine; a test passes one of its own."""

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def now_s(self) -> float:
        """Unix seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
