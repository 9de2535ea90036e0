"""The chain above the full batch: a geometric queue of ratio rate / mu(N), cut after a number of places."""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Floats, Integers

# Where places * |ln ratio| is smaller, the closed sums cancel and doubling replaces them.
_NEAR_ONE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTail:
    """Sums over the waiting places j of weights ratio^j, all multiplied by `scale`, which keeps overload finite.

    `scale` is 1, or ratio^-places above ratio 1; `top` is ratio^places, `room` the sum over j < places, `queued` the
    sum of j * ratio^j over 1..places.
    """

    scale: Floats
    top: Floats
    room: Floats
    queued: Floats


def solve_tail(ratio: Floats, places: Floats) -> QueueTail:
    """Return the sums for positive ratios and whole numbers of places, 0 or more."""
    closeness = places * np.log(ratio)
    near = np.abs(closeness) < _NEAR_ONE
    over = ratio > 1
    # In overload the sums run from the last place backwards, by the inverse ratio. Its distance from 1 is taken
    # from the ratio itself: 1 - 1/ratio would lose the digits that tell it from 1.
    power = np.exp(-np.abs(closeness))
    distance = np.where(near, 1.0, np.abs(1 - ratio))
    room = -np.expm1(-np.abs(closeness)) / distance
    queued = ratio * np.where(over, places - room, room - places * power) / distance
    tail = QueueTail(scale=np.where(over, power, 1.0), top=np.where(over, 1.0, power), room=room, queued=queued)
    if near.any():
        index = np.flatnonzero(near)
        _sum_by_doubling(tail, index, ratio[index], places[index].astype(np.int64))
    return tail


def _sum_by_doubling(tail: QueueTail, index: Integers, ratio: Floats, places: Integers) -> None:
    """Write the sums of the indexed candidates: positive terms only, one binary digit of `places` at a time."""
    power, room, queued = np.ones_like(ratio), np.zeros_like(ratio), np.zeros_like(ratio)
    for bit in reversed(range(int(places.max()).bit_length())):
        count = (places >> (bit + 1)).astype(np.float64)
        queued = queued + power * (queued + count * ratio * room)
        room = room + power * room
        power = power * power
        odd = (places >> bit) & 1 == 1
        room = np.where(odd, room + power, room)
        power = np.where(odd, power * ratio, power)
        queued = np.where(odd, queued + (2 * count + 1) * power, queued)
    tail.scale[index], tail.top[index] = 1.0, power
    tail.room[index], tail.queued[index] = room, queued
