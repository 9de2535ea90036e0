"""How long a request stays in service, as a function of the batch it runs in."""

from dataclasses import dataclass

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing.prompts import PromptQueue
from reconciler.sizing.queueing.readings import Latencies, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCurves:
    """Service time `base_s + per_request_s * n` of a whole request in a batch of n, one element per candidate.

    `max_batch` (1 or more) requests run at once, `occupancy_limit` (at least `max_batch`) are in the system at most:
    whole numbers, kept as float64 because every formula needs them so. All arrays have shape (candidates,).
    `reading` is what the law makes of the means of a chain; `prompts` is the queue of prompts under a law that computes
    them one after the other.
    """

    base_s: Floats
    per_request_s: Floats
    max_batch: Floats
    occupancy_limit: Floats
    reading: Reading
    prompts: PromptQueue | None = None

    def service_s(self, batch: Floats | float) -> Floats:
        """Return the service time of a request that spends it in a batch of `batch`."""
        return self.base_s + self.per_request_s * batch

    def service_rate_per_s(self, batch: Floats | float) -> Floats:
        """Return how many requests complete per second while `batch` of them run."""
        return batch / self.service_s(batch)

    def latencies_at(self, batch: Floats | float) -> Latencies:
        """Return what a request sees that spends its service in a batch of `batch`."""
        return self.reading.read(self.service_s(batch))

    def take(self, index: Integers | Bools) -> "ServiceCurves":
        """Return the curves of the candidates that `index` selects."""
        return ServiceCurves(
            base_s=self.base_s[index],
            per_request_s=self.per_request_s[index],
            max_batch=self.max_batch[index],
            occupancy_limit=self.occupancy_limit[index],
            reading=self.reading.take(index),
            prompts=None if self.prompts is None else self.prompts.take(index),
        )
