"""What an engine was started with, as far as it limits what can be learned of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Requests that run at once at most, and tokens that an iteration computes at most; None is not known."""

    max_batch_size: int | None = None
    token_budget: int | None = None


UNKNOWN_LIMITS = EngineLimits()
