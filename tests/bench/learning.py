"""How fast profiles are learned; `measure` is called by the benchmark runner and asserts nothing.

Pairs of model and accelerator, each with its own parameters and 2,000 samples: noise of ten percent, some
nonsense, a full batch at the peak.
"""

import math
import time

import numpy as np

from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning import Fit, fit_profile
from reconciler.sizing.learning_lines import Samples

PAIRS = 1_000
"""As many as a large fleet has; a fifth of them shows the time of one as well."""
SAMPLES = 2_000


def measure(pairs: int = PAIRS) -> dict[str, str | int | float]:
    """Return how long all pairs took, and how many were learned."""
    histories = [_history(pair) for pair in range(pairs)]
    started = time.process_time()
    fits = [fit_profile(history) for history in histories]
    duration_s = time.process_time() - started
    return {
        "name": "performance profiles",
        "pairs": pairs,
        "samples": SAMPLES,
        "learned": sum(isinstance(fit, Fit) for fit in fits),
        "duration_s": duration_s,
    }


def _history(pair: int) -> Samples:
    alpha_s, prompt = 0.005 + 0.04 * _spread(1, 2, pair), 100 + 400 * _spread(SAMPLES, 3, pair)
    beta_s, most = alpha_s * (0.005 + 0.03 * _spread(1, 5, pair)), 16 + 240 * _spread(1, 7, pair)
    wanted = 1.2 * most * (1 + np.sin(np.arange(SAMPLES) / 100 + pair)) / 2
    running = np.minimum(wanted, most)
    itl_s = (alpha_s + beta_s * running) * _noise(11, pair)
    wait_s = 0.1 * np.maximum(wanted - most, 0.0)
    ttft_s = (8 * alpha_s + beta_s / 32 * prompt * (running + 1) + wait_s) * _noise(13, pair)
    return Samples(
        itl_s=np.where(_spread(SAMPLES, 17, pair) < 0.05, 10 * itl_s, itl_s),
        ttft_s=ttft_s,
        wait_s=wait_s,
        num_running=running * _noise(19, pair),
        num_waiting=np.maximum(wanted - most, 0.0),
        input_tokens=prompt,
        output_tokens=np.full(SAMPLES, 200.0),
        kv_cache_usage=np.full(SAMPLES, np.nan),
        completions=np.full(SAMPLES, np.nan),
        prefix_hit_rate=np.full(SAMPLES, np.nan),
    )


def _noise(prime: int, pair: int) -> Floats:
    return 1 + 0.1 * math.sqrt(3) * (2 * _spread(SAMPLES, prime, pair) - 1)


def _spread(count: int, prime: int, pair: int) -> Floats:
    """Return numbers that fill [0, 1) evenly, others for each pair (Weyl's sequence)."""
    return np.arange(pair + 1, pair + 1 + count, dtype=np.float64) * math.sqrt(prime) % 1.0


if __name__ == "__main__":
    print(measure())
