"""How counts and times are kept: replicas up to a billion, upstream's clock in whole milliseconds."""

import numpy as np

from reconciler.sizing.arrays import Floats, Integers

# Upstream's largest count: what an infinite need is cut to before bounds apply.
MOST_REPLICAS = 1_000_000_000
# Before every tick, without ever overflowing when a window length is added.
NEVER_MS = -(2**62)


def milliseconds(seconds: Floats | float) -> Integers:
    """Return finite times as whole milliseconds: windows end on equality, which binary fractions of a second miss."""
    return np.asarray(np.rint(np.asarray(seconds, dtype=np.float64) * 1000.0), dtype=np.int64)


def whole_replicas(need: Floats) -> Floats:
    """Return the need rounded up: NaN and less are 0, more than a billion is a billion; shape kept."""
    return np.clip(np.ceil(np.where(np.isnan(need), 0.0, need)), 0.0, float(MOST_REPLICAS))
