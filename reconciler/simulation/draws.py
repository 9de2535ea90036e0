"""Everything that a simulation draws at random: one generator by seed and name, and delays as distributions."""

import math
import zlib

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.forecast.series import DAY_S, HOUR_S, WEEK_S, Floats

TENTH = 1.2815515655446004
"""Standard deviations beyond which a tenth of a normal distribution lies."""
MONDAY_S = 4 * DAY_S
"""The first Monday, Unix seconds, UTC."""


def random_generator(seed: int, *names: object) -> "np.random.Generator":  # noqa: TID251 - the one place that draws
    """A generator of its own for each purpose: a purpose more changes nothing that another one draws."""
    keys = [zlib.crc32(str(each).encode()) for each in names]
    return np.random.Generator(np.random.PCG64([seed, *keys]))  # noqa: TID251 - as above


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What chance makes of a load that is known in the mean, a second: requests that came, and the work they bring.

    Arrays of the shape of the load; work is in requests of the mean length. Numbers are drawn from a Poisson, lengths
    from an exponential distribution.
    """

    per_s: Floats
    work_per_s: Floats

    @classmethod
    def drawn(cls, generator: np.random.Generator, per_s: Floats, step_s: float) -> "Arrivals":  # noqa: TID251 - a type
        """Those of some mean rates in steps of `step_s`."""
        came = generator.poisson(per_s * step_s)
        return cls(per_s=came / step_s, work_per_s=generator.standard_gamma(came) / step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A time that differs, in seconds: a tenth is below `low_s` and a tenth above `high_s`, lognormal between them.

    So often as `late_share` says it takes `late_s` longer.
    """

    low_s: float
    median_s: float
    high_s: float
    late_share: float = 0.0
    late_s: float = 0.0

    @classmethod
    def always(cls, time_s: float) -> "Spread":
        """One that does not differ."""
        return cls(low_s=time_s, median_s=time_s, high_s=time_s)

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:  # noqa: TID251 - a type
        """So many times."""
        normal = generator.standard_normal(shape)
        late = np.where(generator.random(shape) < self.late_share, self.late_s, 0.0) if self.late_share else 0.0
        if self.median_s <= 0:
            return np.zeros(shape) + late
        low, high = (abs(math.log(max(each, 1.0) / self.median_s)) / TENTH for each in (self.low_s, self.high_s))
        return np.asarray(self.median_s * np.exp(normal * np.where(normal < 0, low, high)) + late)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeHours:
    """When people merge: from `start_h` to `end_h` of UTC on Monday to Friday."""

    start_h: float = 8.0
    end_h: float = 18.0

    def next_open(self, at_s: Floats) -> Floats:
        """The first moment in office hours that is not before each one (Unix seconds)."""
        opens = np.asarray(at_s, dtype=np.float64).copy()
        for _ in range(4):  # an evening, and two days of a weekend
            time_s = opens % DAY_S
            is_late = time_s >= self.end_h * HOUR_S
            midnight = opens - time_s + np.where(is_late, DAY_S, 0.0)
            opens = np.where(is_late | (time_s < self.start_h * HOUR_S), midnight + self.start_h * HOUR_S, opens)
            is_weekend = (opens - MONDAY_S) % WEEK_S >= 5 * DAY_S
            opens = np.where(is_weekend, opens - opens % DAY_S + DAY_S, opens)
        return np.maximum(opens, at_s)
