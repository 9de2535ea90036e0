"""Whether a simulated autoscaler asks for what the real one asked for: rules/tuning.md#reproduction."""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.domain.scalers import AutoscalerSetting
from reconciler.forecast.series import Bools, Floats
from reconciler.simulation.autoscalers.port import Seen
from reconciler.tuning.groups import TargetHistory
from reconciler.tuning.trial import autoscaler_of, stacked, structure_of, synced

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


def reproduce(cases: Sequence[tuple[AutoscalerSetting, TargetHistory]]) -> list[Reproduction]:
    """Replay autoscalers on their recorded metrics, from their own numbers and not from those recorded.

    Each starts anew from the recorded number after every gap, and while that number is at one of its bounds. Those of
    one structure are replayed at once, where their histories have one grid.
    """
    alike: dict[Hashable, list[_Replayed]] = {}
    every = [_Replayed.of(setting, history) for setting, history in cases]
    for each in every:
        alike.setdefault(each.kind, []).append(each)
    simulated = {id(each): row for some in alike.values() for each, row in zip(some, _replay(some), strict=True)}
    return [each.compared(simulated[id(each)]) for each in every]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Replayed:
    """One autoscaler, at which moments what it asked for is known, and at which that was a bound."""

    setting: AutoscalerSetting
    history: TargetHistory
    known: Bools
    bounded: Bools

    @classmethod
    def of(cls, setting: AutoscalerSetting, history: TargetHistory) -> "_Replayed":
        """What is replayed of it."""
        if len(history.totals) != len(setting.metrics) or not 0 < len(setting.metrics) <= len(CHANNELS):
            words = f"{len(setting.metrics)} metrics with {len(history.totals)} histories cannot be replayed"
            raise ValueError(words)
        recorded, totals = history.desired, history.totals
        return cls(
            setting=synced(setting, history.step_s),
            history=history,
            known=np.isfinite(recorded) & np.isfinite(totals).any(axis=0) & (totals >= 0).all(axis=0),
            bounded=(recorded <= max(setting.least, 1)) | (recorded >= setting.most),
        )

    @property
    def kind(self) -> Hashable:
        """What it has in common with those that are replayed with it."""
        history = self.history
        return structure_of(self.setting), history.start_s, history.step_s, history.desired.size

    def compared(self, simulated: Floats) -> Reproduction:
        """Both series, and what speaks against the simulated one."""
        history, known, bounded = self.history, self.known, self.bounded
        recorded = history.desired
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


def _replay(cases: Sequence[_Replayed]) -> Floats:
    """What autoscalers ask for at each moment (autoscalers x moments); at an anchor each has the recorded number."""
    setting, first = stacked([each.setting for each in cases]), cases[0].history
    scaler = autoscaler_of(setting, CHANNELS[: len(setting.metrics)], first.step_s)
    histories = [each.history for each in cases]
    is_anchor = np.stack([~each.known | each.bounded for each in cases])
    asked = np.nan_to_num(np.stack([each.desired for each in histories]), nan=1.0)
    ready = np.stack([each.ready for each in histories])
    starting = np.maximum(asked - np.where(np.isfinite(ready), ready, asked), 0.0)
    totals = np.full((len(CHANNELS), *asked.shape), math.nan)
    totals[: len(setting.metrics)] = np.stack([each.totals for each in histories], axis=1)
    answers = np.asarray(np.isfinite(totals).any(axis=0))
    found = np.empty(asked.shape)
    current = asked[:, :1]
    for step in range(asked.shape[1]):
        now = slice(step, step + 1)
        current = scaler.decide(
            Seen(
                at_s=first.start_s + step * first.step_s,
                replicas=current,
                ready=np.maximum(current - starting[:, now], 1.0),
                answers=answers[:, now],
                **dict(zip(CHANNELS, totals[:, :, now], strict=True)),
            )
        )
        found[:, now] = current
        current = np.where(is_anchor[:, now], asked[:, now], current)
    return found
