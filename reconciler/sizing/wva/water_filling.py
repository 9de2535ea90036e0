"""Whole devices by weight: floors first, no more than a cap, what one leaves goes to the others (wva.md 5.6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one claimant must have (`floor`), may have (`cap`) and how much its wish weighs; devices."""

    name: str
    weight: float
    cap: int
    floor: int = 0

    @property
    def room(self) -> int:
        """Devices it may have above its floor."""
        return max(self.cap - self.floor, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Devices of each claimant; `is_conflict` when the floors alone are more than there is."""

    devices: Mapping[str, int]
    is_conflict: bool = False


def divide(claims: Sequence[Claim], budget: int) -> Division:
    """Return floor + (budget - floors) * weight / weights of each claim, capped, in whole devices.

    Fractions go to the largest remainder, ties by name. Together never more than the budget, unless floors are.
    """
    floors = {claim.name: claim.floor for claim in claims}
    left = budget - sum(floors.values())
    if left <= 0:
        return Division(devices=floors, is_conflict=left < 0)
    extras = _fractions([claim for claim in claims if claim.weight > 0 and claim.room > 0], float(left))
    whole = {name: math.floor(extra + _TOLERANCE) for name, extra in extras.items()}
    undivided = round(sum(extras.values())) - sum(whole.values())
    room = {claim.name: claim.room for claim in claims}
    for name in sorted(extras, key=lambda each: (whole[each] - extras[each], each)):
        if undivided > 0 and whole[name] < room[name]:
            whole[name] += 1
            undivided -= 1
    return Division(devices={name: floor + whole.get(name, 0) for name, floor in floors.items()})


def _fractions(claims: Sequence[Claim], amount: float) -> dict[str, float]:
    """Shares by weight; whoever would get more than its room gets its room, and the rest share again."""
    shares: dict[str, float] = {}
    open_claims, left = list(claims), amount
    while open_claims and left > _TOLERANCE:
        weights = sum(claim.weight for claim in open_claims)
        full = [claim for claim in open_claims if left * claim.weight / weights >= claim.room - _TOLERANCE]
        if not full:
            return shares | {claim.name: left * claim.weight / weights for claim in open_claims}
        shares |= {claim.name: float(claim.room) for claim in full}
        left -= sum(claim.room for claim in full)
        open_claims = [claim for claim in open_claims if claim not in full]
    return shares
