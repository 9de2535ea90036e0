"""How long, how much and how often: every bound of the client in one place."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one question, in seconds and bytes; `body_bytes` counts what comes out of decompression.

    `total_s` holds for a question with all its attempts, however slowly a server drips; `retry_after_s` is the longest
    that a server may ask us to wait.
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
