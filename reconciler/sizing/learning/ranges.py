"""What a learned profile is valid for: what was seen, and a quarter around it."""

import numpy as np

from reconciler.domain.profiles import Learning
from reconciler.sizing.arrays import Floats

NEVER_SEEN = (0.0, 0.0)
# One percent at either end may be nonsense.
_ENDS = (0.01, 0.99)
_MARGIN = 0.25


def range_of(values: Floats) -> tuple[float, float]:
    """Return the smallest and largest of the values without a percent at either end; `NEVER_SEEN` when all are NaN."""
    known = values[np.isfinite(values)]
    if not known.size:
        return NEVER_SEEN
    low, high = np.quantile(known, _ENDS)
    return float(low), float(high)


def why_outside(learning: Learning, *, input_tokens: float | None, output_tokens: float | None) -> str:
    """Return why nothing was learned about requests of such mean lengths, empty when they are inside.

    Inside is what was seen and a quarter less or more. A length that is None, or 0 as without load, asks for nothing.
    """
    return "; ".join(
        why
        for why in (
            _why_outside("input tokens", learning.input_tokens, input_tokens),
            _why_outside("output tokens", learning.output_tokens, output_tokens),
        )
        if why
    )


def _why_outside(name: str, seen: tuple[float, float], tokens: float | None) -> str:
    if tokens is None or tokens == 0:
        return ""
    if seen == NEVER_SEEN:
        return f"{name} were not measured when the profile was learned, a request now has {tokens:.4g}"
    low, high = seen
    if low * (1 - _MARGIN) <= tokens <= high * (1 + _MARGIN):  # false for NaN, which is outside of everything
        return ""
    return f"{tokens:.4g} {name} are outside of the {low:.4g} to {high:.4g} that the profile was learned from"
