"""Requests as a fluid: how many are served inside their targets, and by how many replicas, at once for many settings.

What replicas make of them in a closed loop comes from their profile: `Batching`. Without a loop, in steps of several
minutes, `serve` takes from it how many of the minutes of a load keep their targets, with the usual batches; what
exceeds `FULL_BATCH` times the capacity waits. After waiting longer than `LONGEST_WAIT_S` none keeps its target; what
would wait longer than `LEAVES_S` leaves.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.records import dataclass
from reconciler.forecast.series import Bools, Floats, Integers
from reconciler.sizing.special import ndtr

FULL_BATCH, TARGET_STEP_S = 1.25, 60.0
"""What a full batch carries, of the capacity; and how long the means are that targets are of."""
LONGEST_WAIT_S, LEAVES_S = 1.0, 30.0
USUAL_TIME_S, USUAL_SHARE, USUAL_FULL = 10.0, 0.5, 5 / 3
"""Of a replica whose profile is not known (see `Batching`): with a full batch it carries `FULL_BATCH` times as much."""
LEAST_SHARE, LARGEST_SHARE = 0.02, 0.95
ALLOWED_DEVIATIONS = 2.326
"""Of a normal distribution 99 % lie below so many."""
MANY_OF, FEWEST_MANY = 0.25, 2.0
"""So many that go at once cost more than what may have to come back: few changes do so, and each moves much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """After how many steps a decision is what the cluster asks for, and after how many more a new replica serves."""

    sync: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of the requests of each model under each setting (settings x models).

    `replicas` is the mean number that is paid for, those that start among them; `requests` a second in the mean.
    """

    kept: Floats
    requests: Floats
    replicas: Floats

    @property
    def attainment(self) -> Floats:
        """The share of each setting's requests that keep their targets, over all models (settings,)."""
        every = self.requests.sum(axis=-1)
        kept = (self.kept * self.requests).sum(axis=-1)
        return np.asarray(np.divide(kept, every, out=np.ones(every.shape), where=every > 0))

    @property
    def cost(self) -> Floats:
        """The replicas of all models (settings,)."""
        return np.asarray(self.replicas.sum(axis=-1))


def serve(offered_per_s: Floats, replicas: Floats, capacity_per_s: Floats, delay: Delay, step_s: float) -> Served:
    """Serve a load by replicas that were decided.

    `offered_per_s` (models x steps) arrives, of `replicas` (settings x models x steps) each is decided at the beginning
    of its step, a replica of each model carries `capacity_per_s` (models,).
    """
    asked = _later(replicas, delay.sync)
    unknown = np.full((len(capacity_per_s), 1), np.nan)
    batching = Batching(capacity_per_s[:, np.newaxis], unknown, unknown, unknown, TARGET_STEP_S)
    most, kept = np.empty(asked.shape), np.empty(asked.shape)
    for row, own in enumerate(asked):  # a setting at a time: of all of a rehearsal each array has 17 MiB
        ready = own
        for ago in range(1, delay.start + 1):  # what started meanwhile does not serve yet
            ready = np.minimum(ready, _later(own, ago))
        carried = ready * capacity_per_s[:, np.newaxis]
        load = np.divide(offered_per_s, carried, out=np.full(carried.shape, np.inf), where=carried > 0)
        most[row], kept[row] = FULL_BATCH * carried, batching.kept_share(load, ready)
    kept[:, offered_per_s <= 0] = 1.0
    waiting = np.zeros(kept.shape[:2])
    for step in range(offered_per_s.shape[1]):
        rest = np.minimum(waiting + (offered_per_s[:, step] - most[..., step]) * step_s, LEAVES_S * most[..., step])
        waits = waiting > LONGEST_WAIT_S * most[..., step]
        waiting = np.maximum(rest, 0.0)
        waits |= waiting > LONGEST_WAIT_S * most[..., step]
        kept[..., step][waits] = 0.0
    requests = offered_per_s.mean(axis=1)
    kept *= offered_per_s
    share = np.divide(kept.mean(axis=2), requests, out=np.ones(kept.shape[:2]), where=requests > 0)
    return Served(kept=share, requests=np.broadcast_to(requests, share.shape), replicas=asked.mean(axis=2))


def _later(replicas: Floats, steps: int) -> Floats:
    """The same so many steps later; before the first one it was that already."""
    if not steps:
        return replicas
    first = np.repeat(replicas[..., :1], min(steps, replicas.shape[-1]), axis=-1)
    return np.asarray(np.concatenate((first, replicas[..., :-steps]), axis=-1))


def are_many(going: Floats, replicas: Floats) -> NDArray[np.bool_]:
    """Whether so many of some replicas are enough to go although some were added lately."""
    return np.asarray(going >= np.maximum(MANY_OF * replicas, FEWEST_MANY))


def follow(
    grow_per_s: Floats,
    keep_per_s: Floats,
    capacity_per_s: Floats,
    least: NDArray[np.float64] | float = 1.0,
    *,
    hold: int = 0,
) -> Floats:
    """Replicas decided one after the other (settings x models x decisions): as many as `grow_per_s` needs.

    Of those that are there only what `keep_per_s` does not need goes, both of shape (settings x models x decisions).
    For so many decisions after some were added as `hold` says only many go, by `are_many`.
    """
    capacity = capacity_per_s[:, np.newaxis]
    grow = np.maximum(np.ceil(grow_per_s / capacity - 1e-9), least)
    keep = np.maximum(np.ceil(keep_per_s / capacity - 1e-9), grow)
    decided = np.empty(grow.shape)
    held, held_until = keep[..., 0], np.zeros(grow.shape[:-1])
    for step in range(grow.shape[-1]):
        rest = np.minimum(held, keep[..., step])
        rest = np.where((step < held_until) & ~are_many(held - rest, held), held, rest)
        asked = np.maximum(grow[..., step], rest)
        held_until = np.where(asked > held, step + hold, held_until)
        decided[..., step] = held = asked
    return decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What became of a step in each replica, in the units of `Batching`: `held` runs and waits at its end.

    `running` ran in its mean, `answered` was answered and `left` left unanswered (None: nobody).
    """

    held: Floats
    running: Floats
    answered: Floats
    left: Floats | None


class Batching:
    """What replicas make of requests in steps of `step_s`, by variant; what runs is in units of what does at capacity.

    At capacity `requests` run, each for `requests / capacity_per_s` seconds, of which the part `share` grows with the
    batch: with x of them running a replica answers x / (1 - share + share x) of its capacity (Little's law), and tokens
    are as far apart as targets allow at x = 1. Above `full` requests wait. Numbers that are not finite are not known,
    and usual ones stand for them.

    Targets are of means: a step keeps them where tokens are in its mean as far apart as at x = 1 or closer (where only
    the largest batch bounds a replica, where nobody waits too long). Where only the mean of a load is known, that of
    what runs differs at random, by arrivals and by lengths. It is nearly normal: what runs beside the mean dies away in
    the time that the law gives, and is averaged over the step.
    """

    def __init__(
        self,
        capacity_per_s: Floats,
        requests: Floats,
        share: Floats,
        full: Floats,
        step_s: float,
    ) -> None:
        is_known = np.isfinite(requests) & (requests > 0)
        self.requests = np.where(is_known, requests, np.maximum(USUAL_TIME_S * capacity_per_s, 1.0))
        self.share = np.clip(np.where(is_known & np.isfinite(share), share, USUAL_SHARE), LEAST_SHARE, LARGEST_SHARE)
        self.full = np.maximum(np.where(is_known & np.isfinite(full), full, USUAL_FULL), 1.0)
        self.capacity_per_s = capacity_per_s
        time_s = self.requests / capacity_per_s
        self._pace, self._full_load = step_s / time_s, self.answered(self.full)
        self._of_batches = np.stack((self.share, self._pace, self.full, self._full_load))
        self._most = self._pace * self._full_load
        self._queue = LEAVES_S / step_s
        self._has_batches = bool((self.full > 1.0).all())
        self._limit = np.where(self.full > 1.0, 1.0, 1.0 + LONGEST_WAIT_S / step_s * self._most)
        fades = time_s / (1.0 - self.share) / step_s
        seen = 2.0 * fades * (1.0 + fades * np.expm1(-1.0 / fades))  # of the variance, what is left in means of steps
        self._deviation = np.sqrt(seen / ((1.0 - self.share) * self.requests))  # as much by arrivals as by lengths
        # the number that runs by this law has a negative binomial distribution, whose mean is this much more
        self._chance = self.share / (1.0 - self.share) / self.requests * (1.0 - seen)

    def answered(self, running: Floats) -> Floats:
        """What a replica answers with so many running, over its capacity."""
        most = np.minimum(running, self.full)
        return np.asarray(most / (1.0 - self.share + self.share * most))

    def settled(self, load: Floats) -> Floats:
        """What runs in a replica of a load (1 is its capacity) that does not change, as far as its batch goes."""
        held = load * (1.0 - self.share) / np.maximum(1.0 - load * self.share, 1e-9)
        return np.asarray(np.minimum(held, self.full))

    def after(self, held: Floats, come: Floats, replicas: Floats) -> Lived:
        """A step of each of so many replicas, in which `held` runs and waits at first and `come` comes evenly.

        The law is solved exactly. Who has waited too long leaves, so all who wait came lately. What the load within the
        step does at random adds to what runs in its mean.
        """
        load = come / self._pace
        begun = np.minimum(held, self.full), np.minimum(load, self._full_load)  # what is beyond these is over
        end, running = _follow_law(*begun, self._pace, self.share)
        over, left = np.flatnonzero((load > self._full_load) | (held > self.full)), None
        if over.size:
            columns = over % self.share.size
            behind, ran = self._with_full_batches(held.take(over), load.take(over), columns)
            longest = self.full[columns] + self._queue * np.maximum(come.take(over), self._most[columns])
            left = np.zeros(end.shape)
            np.put(running, over, ran)
            np.put(end, over, np.minimum(behind, longest))
            np.put(left, over, np.maximum(behind - longest, 0.0))
        answered = held + come - end if left is None else held + come - end - left
        running = np.minimum(running * (1.0 + self._chance / np.maximum(replicas, 1.0)), self.full)
        return Lived(held=end, running=running, answered=answered, left=left)

    def _with_full_batches(self, held: Floats, load: Floats, columns: Integers) -> tuple[Floats, Floats]:
        """What runs and waits at the end of a step and runs in its mean, of replicas whose batches are or get full.

        First those whose queue ends in the step, or not; then those that fill their batch in it, or not.
        """
        told = np.concatenate(((held, load), self._of_batches[:, columns]))
        grows = load > told[-1]
        end, running = np.empty(held.shape), np.empty(held.shape)
        drains, fills = np.flatnonzero(~grows), np.flatnonzero(grows)
        if drains.size:
            held, load, share, pace, full, most = told[:, drains]
            excess = load - most
            waits_for = np.maximum(held - full, 0.0) / np.maximum(-excess, 1e-12)
            rest = np.maximum(pace - waits_for, 1e-9)
            drained, ran = _follow_law(full, np.minimum(load, most), rest, share)
            stays = waits_for >= pace
            end[drains] = np.where(stays, held + excess * pace, drained)
            running[drains] = np.where(stays, full, (full * (pace - rest) + ran * rest) / pace)
        if fills.size:
            held, load, share, pace, full, most = told[:, fills]
            begun = np.minimum(held, full)
            made, took, sum_ = _fill(begun, load, share, full)
            end[fills] = np.maximum(held, full) + (load - most) * (pace - took)
            running[fills] = (sum_ + full * (pace - took)) / pace
            rest_of = np.flatnonzero(took > pace)
            if rest_of.size:
                law = (each[rest_of] for each in (begun, load, pace, share, made))
                end[fills[rest_of]], running[fills[rest_of]] = _find_law(*law)
        return end, running

    def spared(self, held: Floats, replicas: Floats, stay: Floats, ready: Floats) -> Floats:
        """How much less time than at capacity tokens take in replicas that go, in a step, for each that is `ready`.

        Of so many `replicas`, which hold so much together, the share `stay` remains: the others finish what they have.
        """
        found, place = np.zeros(held.shape), np.flatnonzero(stay < 1.0)
        columns, count, serve = place % self.share.size, replicas.take(place), ready.take(place)
        each, pace = held.take(place) / count, self._pace[columns]
        end, running = _follow_law(each, np.zeros(each.shape), pace, self.share[columns])
        of_all = count * (1.0 - stay.take(place)) * (each - end - running * pace)
        np.put(found, place, np.divide(of_all, serve, out=np.zeros(of_all.shape), where=serve > 0))
        return found

    def kept(self, lived: Lived, spared: Floats | float = 0.0) -> Bools:
        """Whether a step keeps its targets, which are of the mean of all tokens."""
        late = lived.running * self._pace - lived.answered - spared
        is_quick = ~(late > 1e-9)
        return is_quick if self._has_batches else np.where(self.full > 1.0, is_quick, lived.held <= self._limit + 1e-9)

    def kept_share(self, load: Floats, replicas: Floats) -> Floats:
        """Of steps in which each of so many replicas has this load in the mean, the share that keeps its targets."""
        above = (self._limit - self.settled(load)) / self._deviation
        return np.asarray(ndtr(above * np.sqrt(np.maximum(replicas, 1.0))))

    def allowed(self, replicas: Floats) -> Floats:
        """The load of each of so many replicas at which 99 of 100 steps keep their targets."""
        held = np.maximum(self._limit - ALLOWED_DEVIATIONS * self._deviation / np.sqrt(np.maximum(replicas, 1.0)), 0.1)
        return self.answered(held)


def _follow_law(begun: Floats, load: Floats, pace: Floats, share: Floats) -> tuple[Floats, Floats]:
    """What runs in a replica after a time, and in its mean, of a load below `1 / share` and batches without end.

    Of x' = load - x / (1 - share + share x), in times of a request at capacity, v = 1 + share x / (1 - share) says how
    far apart tokens are: (1 - share) v' = 1 / v - c, c = 1 - share load. So z = c v - 1 solves z e^z = y, of which y
    dies away evenly: one table of Lambert's function is the law of every profile.
    """
    own = 1.0 - share
    grows, time = share / own, pace / own
    closing = 1.0 - share * load
    apart = begun * grows
    apart += 1.0
    solved = closing * apart
    solved -= 1.0
    fading = closing * closing
    fading *= time
    with np.errstate(over="ignore", invalid="ignore"):
        np.exp(np.subtract(solved, fading, out=fading), out=fading)
        solved *= fading
        place = np.multiply(solved, math.e, out=fading)
        place += 1.0
        np.sqrt(np.maximum(place, 0.0, out=place), out=place)
        starts, slopes = _lambert_lines()
        line = (place * LINES_EACH).astype(np.intp)
        factor = slopes.take(line, mode="clip")
        factor *= place
        factor += starts.take(line, mode="clip")
        solved *= factor
    solved += 1.0
    inverse = np.divide(1.0, closing, out=closing)
    solved *= inverse
    end = solved - 1.0
    end /= grows
    running = solved - apart
    solved += apart
    running *= solved
    running *= -0.5
    running += time
    running *= inverse
    running /= time * grows
    running -= 1.0 / grows
    if place.max(initial=0.0) >= LAMBERT_TO:
        far = np.nonzero(~(place < LAMBERT_TO))
        there = (np.broadcast_to(each, end.shape)[far] for each in (begun, load, pace, share, np.inf))
        end[far], running[far] = _find_law(*there)
    return end, running


LAMBERT_TO, LINES_EACH = 16.0, 4096
"""So far the table reaches, and with so many lines for each 1: it is 3e-8 of the value off at most."""


@cache
def _lambert_lines() -> tuple[Floats, Floats]:
    """Lines for W(y) / y = e^-W, of Lambert's function, over the root of 1 + e y: where they start, their slopes."""
    values = np.linspace(-1.0, 3.4, 2**17)  # beyond W of the last place
    places = np.sqrt(np.maximum(1.0 + values * np.exp(values + 1.0), 0.0))
    nodes = np.linspace(0.0, LAMBERT_TO, round(LAMBERT_TO * LINES_EACH) + 1)
    found = np.interp(nodes, places, np.exp(-values))
    slopes = np.diff(found) * LINES_EACH
    return found[:-1] - slopes * nodes[:-1], slopes


def _find_law(begun: Floats, load: Floats, pace: Floats, share: Floats, most_made: Floats) -> tuple[Floats, Floats]:
    """The same of any load, step by step: what is to be found is how many tokens a request gets in the time.

    They are linear in what runs. `most_made` is a bound for loads without end.
    """
    own, closing = 1.0 - share, _apart_from_zero(1.0 - share * load)
    load = (1.0 - closing) / share
    goal = own * load / closing
    apart = begun - goal
    whole, bent = pace * closing * closing / own, share * closing * apart / own
    late, early = whole - bent, pace * closing / (own + share * begun)
    least = np.where(bent > 0, np.maximum(late, early), np.minimum(np.minimum(late, early), most_made))
    made = np.where(closing > 0, least, np.maximum(early, most_made))
    for number in range(8):  # Halley's method
        if number % 2 == 0:
            before = made
        fades = np.exp(-made)
        slope, wrong = 1.0 + bent * fades, made + bent * (1.0 - fades) - whole
        change = wrong / (slope + 0.5 * wrong * bent * fades / slope)
        made = made - change
        if number % 2 and (made == before).all():
            break  # further ones would repeat the last two, which may differ in the last digit
    end = goal + apart * (fades * (1.0 + change + 0.5 * change * change))
    return end, _summed(begun, end, load, share, closing, pace * load - (end - begun)) / pace


def _fill(begun: Floats, load: Floats, share: Floats, full: Floats) -> tuple[Floats, Floats, Floats]:
    """How much is made until the batch of a replica is full, in which time, and the sum of what runs until then."""
    own, closing = 1.0 - share, _apart_from_zero(1.0 - share * load)
    load = (1.0 - closing) / share
    goal = own * load / closing
    made = -np.log(np.maximum((full - goal) / (begun - goal), 1e-300))
    answered = (own * load * made / closing - (full - begun)) / closing
    return made, own * made / closing + share * answered, _summed(begun, full, load, share, closing, answered)


def _summed(begun: Floats, end: Floats, load: Floats, share: Floats, closing: Floats, answered: Floats) -> Floats:
    """What runs, summed over the time in which so much is answered."""
    own = 1.0 - share
    squared = (own * load * answered - 0.5 * (end - begun) * (end + begun)) / closing
    return np.asarray(own * answered + share * squared)


def _apart_from_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < 1e-4, 1e-4, values)
