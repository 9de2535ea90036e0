"""How long a request stays in service, as a function of the batch it runs in."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.int64]

# The queue of the published model holds up to ten batches, running ones included.
OCCUPANCY_PER_BATCH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCurves:
    """Service time `base_s + per_request_s * n` of a whole request in a batch of n, one element per candidate.

    `max_batch` (1 or more) requests run at once, `occupancy_limit` (at least `max_batch`) are in the system at most:
    whole numbers, kept as float64 because every formula needs them so. All arrays have shape (candidates,).
    """

    base_s: Floats
    per_request_s: Floats
    max_batch: Floats
    occupancy_limit: Floats
    output_tokens: Floats

    def service_s(self, batch: Floats | float) -> Floats:
        """Return the service time of a request that spends it in a batch of `batch`."""
        return self.base_s + self.per_request_s * batch

    def service_rate_per_s(self, batch: Floats | float) -> Floats:
        """Return how many requests complete per second while `batch` of them run."""
        return batch / self.service_s(batch)

    def itl_s(self, service_s: Floats) -> Floats:
        """Return the mean inter-token latency of requests whose mean service time is `service_s`."""
        return service_s / self.output_tokens

    def service_limit_s(self, itl_s: Floats) -> Floats:
        """Return the mean service time at which the inter-token latency is `itl_s`: the inverse of `itl_s`."""
        return itl_s * self.output_tokens

    def take(self, index: Integers | Bools) -> "ServiceCurves":
        """Return the curves of the candidates that `index` selects."""
        return ServiceCurves(
            base_s=self.base_s[index],
            per_request_s=self.per_request_s[index],
            max_batch=self.max_batch[index],
            occupancy_limit=self.occupancy_limit[index],
            output_tokens=self.output_tokens[index],
        )


def decode_only(
    *,
    alpha_s: ArrayLike,
    beta_s: ArrayLike,
    output_tokens: ArrayLike,
    max_batch: ArrayLike,
    occupancy_limit: ArrayLike | None = None,
) -> ServiceCurves:
    """Return the curves of the law `decode_only`: a request is `output_tokens` steps of alpha + beta * n seconds each.

    Arguments broadcast against each other; `occupancy_limit` defaults to ten times `max_batch` in all.
    """
    batch = np.asarray(max_batch, dtype=np.float64)
    limit = OCCUPANCY_PER_BATCH * batch if occupancy_limit is None else occupancy_limit
    alpha, beta, tokens, batch, limit = (
        np.ascontiguousarray(array)
        for array in np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in (alpha_s, beta_s, output_tokens)),
            np.atleast_1d(batch),
            np.atleast_1d(np.asarray(limit, dtype=np.float64)),
        )
    )
    return ServiceCurves(
        base_s=tokens * alpha,
        per_request_s=tokens * beta,
        max_batch=batch,
        occupancy_limit=limit,
        output_tokens=tokens,
    )
