"""Histories as tests spell them, number by number, as the arrays that the product reads."""

from collections.abc import Mapping, Sequence

import numpy as np

from reconciler.domain.history import Floats, LoadHistory


def arrays(series: Mapping[str, Sequence[float] | Floats]) -> dict[str, Floats]:
    """The series of a trace."""
    return {name: np.array(values, dtype=np.float64) for name, values in series.items()}


def load_history(
    rates_per_s: Sequence[float],
    *,
    last_s: float,
    step_s: float = 60.0,
    window_s: float = 300.0,
    output_tokens: Sequence[float] = (),
    input_tokens: Sequence[float] = (),
) -> LoadHistory:
    """Rates whose last one is of `last_s`, Unix seconds, with lengths where there are any."""
    count = len(rates_per_s)
    return LoadHistory(
        times_s=last_s - step_s * (count - 1) + step_s * np.arange(count, dtype=np.float64),
        step_s=step_s,
        window_s=window_s,
        rates_per_s=np.array(rates_per_s, dtype=np.float64),
        output_tokens=np.array(output_tokens, dtype=np.float64),
        input_tokens=np.array(input_tokens, dtype=np.float64),
    )
