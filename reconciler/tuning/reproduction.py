"""Whether a simulated autoscaler asks for what the real one asked for: rules/tuning.md#reproduction."""

import math

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.domain.scalers import AutoscalerSetting
from reconciler.forecast.series import Bools, Floats
from reconciler.simulation.autoscalers.port import Seen
from reconciler.tuning.groups import TargetHistory
from reconciler.tuning.trial import autoscaler_of

ENOUGH = 0.9
"""Of the unbounded time, within `NEAR` replicas."""
NEAR = 1.0
CHANNELS = ("load", "running", "waiting", "in_flight")
"""As many metrics of one autoscaler can be replayed; which is which does not matter here."""
LEAST_UNBOUNDED_S = 12 * 3600.0
FEWEST_CHANGES = 10
"""Of the recorded number in the unbounded time: one that hardly ever moved shows no rule."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reproduction:
    """What came of a replay: both series on the grid of the history, NaN where they are not compared.

    `share` is that of the unbounded time in which they are within one replica, NaN without any such time; `reason` says
    why that is not enough, empty where it is.
    """

    share: float
    simulated: Floats
    recorded: Floats
    unbounded_s: float
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether the autoscaler is reproduced."""
        return not self.reason


def reproduce(setting: AutoscalerSetting, history: TargetHistory) -> Reproduction:
    """Replay an autoscaler on its recorded metrics, from its own numbers and not from those recorded.

    It starts anew from the recorded number after every gap, and while that number is at one of its bounds.
    """
    recorded = history.desired
    if len(history.totals) != len(setting.metrics) or not 0 < len(setting.metrics) <= len(CHANNELS):
        raise ValueError(f"{len(setting.metrics)} metrics with {len(history.totals)} histories cannot be replayed")
    known = np.isfinite(recorded) & np.isfinite(history.totals).any(axis=0) & (history.totals >= 0).all(axis=0)
    bounded = (recorded <= max(setting.least, 1)) | (recorded >= setting.most)
    simulated = _replay(setting, history, ~known | bounded)
    counted = known & ~bounded & np.isfinite(simulated)
    compared = np.where(counted, simulated, math.nan)
    unbounded_s = float(counted.sum() * history.step_s)
    near = np.abs(compared - recorded)[counted] <= NEAR
    share = float(near.mean()) if counted.any() else math.nan
    changes = int(np.count_nonzero(np.diff(recorded)[counted[1:] & counted[:-1]]))
    if unbounded_s < LEAST_UNBOUNDED_S:
        reason = f"it was between its bounds for {unbounded_s / 3600:.1f} h, of which 12 are needed"
    elif changes < FEWEST_CHANGES:
        reason = f"it changed its number {changes} times between its bounds, {FEWEST_CHANGES} are needed"
    elif share < ENOUGH:
        reason = f"the simulated number was within one replica of it in {share:.0%} of that time, 90% are needed"
    else:
        reason = ""
    return Reproduction(share=share, simulated=compared, recorded=recorded, unbounded_s=unbounded_s, reason=reason)


def _replay(setting: AutoscalerSetting, history: TargetHistory, is_anchor: Bools) -> Floats:
    """What the autoscaler asks for at each moment (moments,); at an anchor it has the recorded number."""
    scaler = autoscaler_of(setting, CHANNELS[: len(setting.metrics)], history.step_s)
    asked = np.nan_to_num(history.desired, nan=1.0)
    starting = np.maximum(asked - np.where(np.isfinite(history.ready), history.ready, asked), 0.0)
    totals = np.full((len(CHANNELS), asked.size), math.nan)
    totals[: len(history.totals)] = history.totals
    answers = np.asarray(np.isfinite(history.totals).any(axis=0))
    found = np.empty(asked.shape)
    current = asked[:1].reshape(1, 1)
    for step in range(asked.size):
        channels = dict(zip(CHANNELS, totals[:, step].reshape(-1, 1, 1), strict=True))
        current = scaler.decide(
            Seen(
                at_s=history.start_s + step * history.step_s,
                replicas=current,
                ready=np.maximum(current - starting[step], 1.0),
                answers=bool(answers[step]),
                **channels,
            )
        )
        found[step] = current[0, 0]
        if is_anchor[step]:
            current = asked[step : step + 1].reshape(1, 1)
    return found
