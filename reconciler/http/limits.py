"""How long, how much and how often: every bound of a door in one place, and the clock that it goes by."""

import time
from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one question, in seconds and bytes; `body_bytes` holds before and after decompression.

    `total_s` holds for a question with its attempts, pauses and redirects, however slowly a server drips. A pause
    doubles from `backoff_s`; `retry_after_s` is the longest that a server may ask for. An answer that is no success is
    cut at `error_bytes`. `parallel` questions are asked at once.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    total_s: float = 60.0
    body_bytes: int = 128 * MIB
    error_bytes: int = 64 * 1024
    attempts: int = 4
    backoff_s: float = 0.5
    retry_after_s: float = 20.0
    redirects: int = 5
    parallel: int = 4


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
