"""What cannot be: a replica that says more than it can do, and counts of the same requests that differ."""

import math
from collections.abc import Iterator, Sequence
from statistics import median

from reconciler.domain.measured.answers import Absence, NoAnswer
from reconciler.metrics.quantities.quantity import WINDOW_S, Name
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.readings import MetricReadings, ReplicaSeries

FEW_REQUESTS = 32.0
"""So many at once are never held against a replica: scrapes may miss a short burst."""
BEYOND_OWN = 100.0
"""Times what a replica had in its batch at most, whatever a step of a batch makes of a request at once."""
BEYOND_PEERS = 4.0
"""Times what its peers need for theirs: whatever makes the two differ is the same for all of them."""
FEWEST_PEERS = 3
LONGER_THAN_PEERS = 30.0
FEWEST_FINISHED = 100.0
"""Requests whose mean length says something of a replica."""
LONGEST_QUEUE_S = 4 * 3600.0
SHORT_QUEUE = 1000.0
"""What may wait in a replica: four hours of what it finishes, or as many as these when it finishes little.

Clients of batches do wait for hours in an overload, and that is when replicas are needed most. Where peers say how much
waits in them, a replica is held against these as well: a balancer spreads what comes.
"""
NOISE = 5.0
"""Standard deviations of counts that are independent of each other."""
TOLERATED = 0.1
"""Of the larger of two counts: probes, retries and requests that are under way. Half of the built-in headroom."""


def why_implausible(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> NoAnswer | None:
    """Why what these replicas of one variant report cannot be, with both numbers; None when it can."""
    reasons = (
        *_beyond_batch(fresh, readings),
        *_beyond_queue(fresh, readings),
        *_beyond_peers(Name.OUTPUT_TOKENS, fresh, readings),
        *_beyond_peers(Name.INPUT_TOKENS, fresh, readings),
    )
    return NoAnswer(absence=Absence.CONTRADICTORY, reason=reasons[0]) if reasons else None


def is_beyond_noise(one_per_s: float, other_per_s: float) -> bool:
    """Whether two rates of the same requests, counted over one window, differ by more than chance and habit."""
    by_chance = NOISE * math.sqrt((one_per_s + other_per_s) / WINDOW_S)
    return abs(one_per_s - other_per_s) > by_chance + TOLERATED * max(one_per_s, other_per_s)


def _beyond_batch(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    """Little's law: what a replica finishes in a second, times how long each takes, is in its batch at once."""
    most = readings.of_pods(Name.MOST_RUNNING)
    at_once = {one: needed for one in fresh if one in most and (needed := _at_once(one, readings)) is not None}
    shares = {one: needed / max(most[one], 1.0) for one, needed in at_once.items() if is_usable(most[one])}
    busy = [share for share in shares.values() if share > 0]
    usual = max(median(busy), 1.0) if len(busy) >= FEWEST_PEERS else BEYOND_OWN
    for one, share in shares.items():
        if share > min(usual * BEYOND_PEERS, BEYOND_OWN) and at_once[one] > FEW_REQUESTS:
            finished, tokens = readings.of_pods(Name.COMPLETIONS)[one], readings.of_pods(Name.OUTPUT_TOKENS)[one]
            yield (
                f"pod {printable(one.pod)} says that it finishes {finished:.6g} req/s of {tokens:.6g} output tokens: "
                f"that takes {at_once[one]:.4g} requests at once, it has had at most {most[one]:.4g}"
            )


def _at_once(one: ReplicaSeries, readings: MetricReadings) -> float | None:
    told = [readings.of_pods(name).get(one) for name in (Name.COMPLETIONS, Name.OUTPUT_TOKENS, Name.ITL)]
    known = [value for value in told if value is not None and 0 <= value < math.inf]
    return math.prod(known) if len(known) == len(told) else None


def _beyond_queue(fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    finished, waiting = readings.of_pods(Name.COMPLETIONS), readings.of_pods(Name.WAITING)
    told = [waiting[one] for one in fresh if is_usable(waiting.get(one, math.nan))]
    usual = median(told) if len(told) >= FEWEST_PEERS else math.inf
    for one in fresh:
        rate, queue = finished.get(one, 0.0), waiting.get(one, 0.0)
        if usual < math.inf and queue > SHORT_QUEUE + LONGER_THAN_PEERS * usual:
            yield (
                f"pod {printable(one.pod)} says that {queue:.6g} requests wait in it, half of its peers say at most "
                f"{usual:.4g}"
            )
        if is_usable(rate) and queue > SHORT_QUEUE + LONGEST_QUEUE_S * rate:
            yield (
                f"pod {printable(one.pod)} says that {queue:.6g} requests wait in it while it finishes {rate:.4g} "
                f"req/s: nobody waits {queue / max(rate, 1 / WINDOW_S) / 60:.3g} min"
            )


def _beyond_peers(name: Name, fresh: Sequence[ReplicaSeries], readings: MetricReadings) -> Iterator[str]:
    """Mean lengths of many requests each, which a balancer spreads over replicas that are alike."""
    values, finished = readings.of_pods(name), readings.of_pods(Name.COMPLETIONS)
    busy = [one for one in fresh if finished.get(one, 0.0) * WINDOW_S >= FEWEST_FINISHED and values.get(one, 0.0) > 0]
    if len(busy) < FEWEST_PEERS:
        return
    usual = median(values[one] for one in busy)
    for one in busy:
        if values[one] > LONGER_THAN_PEERS * usual:
            yield (
                f"pod {printable(one.pod)} says that its requests have {values[one]:.4g} {name.replace('_', ' ')}, "
                f"half of its peers say at most {usual:.4g}"
            )
