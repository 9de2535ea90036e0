"""Steady state of one replica at a given arrival rate."""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import CandidateRows, Floats
from reconciler.sizing.queueing.curves import ServiceCurves
from reconciler.sizing.queueing.head import QueueHead, QueueTail, solve_head, solve_tail

# Every mean has its limit of no load long before; a smaller rate would only underflow.
_SMALLEST_RATE_PER_S = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """Steady state of one replica per candidate, arrays of shape (candidates,).

    `response_s` = `service_s` + `wait_s` is what an admitted request sees; `throughput_per_s` is the arrival rate less
    what finds the system full (`p_full`); `busy_probability` is that of at least one request in the system. Latencies
    are means: `ttft_s` = `wait_s` + what the law reads as the first token's share of the service.
    """

    throughput_per_s: Floats
    mean_in_system: Floats
    mean_in_service: Floats
    response_s: Floats
    service_s: Floats
    wait_s: Floats
    itl_s: Floats
    ttft_s: Floats
    p_empty: Floats
    p_full: Floats
    busy_probability: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBalance(CandidateRows):
    """The chain put together: head and tail with the three sums that every mean is a quotient of.

    `total` is the weight of all states, `open` that of those which admit a request, `in_service` the weighted number
    in service. All terms are positive: nothing cancels, from no load to deep overload.
    """

    rate_per_s: Floats
    ratio: Floats
    head: QueueHead
    tail: QueueTail
    total: Floats
    open: Floats
    in_service: Floats

    @property
    def service_s(self) -> Floats:
        """Mean service time, by Little's law over those in service."""
        return self.in_service / (self.rate_per_s * self.open)

    @property
    def wait_s(self) -> Floats:
        """Mean wait, by Little's law over the queue."""
        return self.head.full * self.tail.queued / (self.rate_per_s * self.open)


def balance(curves: ServiceCurves, rate_per_s: Floats) -> QueueBalance:
    """Return the solved chain for positive arrival rates."""
    ratio = rate_per_s / curves.service_rate_per_s(curves.max_batch)
    head = solve_head(curves, rate_per_s)
    tail = solve_tail(ratio, curves.occupancy_limit - curves.max_batch)
    admitting = tail.scale * head.below + head.full * tail.room
    return QueueBalance(
        rate_per_s=rate_per_s,
        ratio=ratio,
        head=head,
        tail=tail,
        total=admitting + head.full * tail.top,
        open=admitting,
        in_service=tail.scale * head.mean + curves.max_batch * head.full * ratio * tail.room,
    )


def analyze(curves: ServiceCurves, arrival_rate_per_s: Floats) -> QueueState:
    """Return the steady state at each candidate's arrival rate (0 or more, of any size; shape (candidates,)).

    Exact for the birth-death chain with departure rate min(n, N) / service_s(min(n, N)) and at most
    `occupancy_limit` requests, overload included.
    """
    with np.errstate(under="ignore"):
        chain = balance(curves, np.maximum(arrival_rate_per_s, _SMALLEST_RATE_PER_S))
        service_s, wait_s = chain.service_s, chain.wait_s
        throughput_per_s = arrival_rate_per_s * (chain.open / chain.total)
        latencies = curves.reading.read(service_s)
        itl_s, first_token_s = latencies.itl_s, latencies.first_token_s
        if curves.prompts is not None:
            prompts = curves.prompts.at(arrival_rate_per_s)
            itl_s = np.fmin(prompts.itl_s, curves.latencies_at(curves.max_batch).itl_s)
            first_token_s = prompts.ttft_s
        p_empty = chain.head.empty * chain.tail.scale / chain.total
        return QueueState(
            throughput_per_s=throughput_per_s,
            mean_in_system=throughput_per_s * (service_s + wait_s),
            mean_in_service=throughput_per_s * service_s,
            response_s=service_s + wait_s,
            service_s=service_s,
            wait_s=wait_s,
            itl_s=itl_s,
            ttft_s=wait_s + first_token_s,
            p_empty=p_empty,
            p_full=chain.head.full * chain.tail.top / chain.total,
            busy_probability=1 - p_empty,
        )
