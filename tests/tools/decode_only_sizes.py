"""From a demand to replicas, cost and expected latency, as published tables of the law `decode_only` tell them."""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing_chain import analyze
from reconciler.sizing.queueing_laws import Targets, decode_only
from reconciler.sizing.queueing_rates import largest_rate

# Rates are found to 1e-11: a need this little above a whole number of replicas is rounding, not demand.
_WHOLE = 1e-9
# The largest whole number that float64 counts exactly; no fleet comes near.
_MOST_REPLICAS = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """Measured speed of a model on an accelerator, arrays of shape (candidates,).

    Inter-token latency alpha_s + beta_s * n; `max_batch_size` was measured with requests of `at_tokens` tokens.
    """

    alpha_s: Floats
    beta_s: Floats
    max_batch_size: Floats
    at_tokens: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Requests per second of all replicas together and their mean output tokens; shape (candidates,)."""

    arrival_rate_per_s: Floats
    output_tokens: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a replica takes and costs, arrays of shape (candidates,).

    `max_batch_override` replaces the batch derived from the profile (0: none), `cost_per_hour` is that of one
    accelerator.
    """

    max_batch_override: Floats
    min_replicas: Integers
    accelerators_per_replica: Integers
    cost_per_hour: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Replicas that carry the demand inside its targets, arrays of shape (candidates,).

    Where `feasible` is false no number of replicas does, and all but `max_batch` is 0. `cost_per_hour` is that of all
    replicas; `itl_s`, `wait_s` and `busy_probability` are expected at the demand spread evenly. `capacity_per_s` is
    the largest rate of one replica inside its targets; without load targets are not looked at, and it is 0.
    """

    feasible: Bools
    max_batch: Integers
    replicas: Integers
    cost_per_hour: Floats
    itl_s: Floats
    wait_s: Floats
    busy_probability: Floats
    capacity_per_s: Floats


def size(profiles: Profiles, demand: Demand, targets: Targets, terms: Terms) -> Sizes:
    """Return replicas, cost and expected latency of each candidate under the law `decode_only`.

    A floor of tokens per second takes the place of the load. Without load the replicas are the fewest allowed, each
    ready for a lone request with the profile's whole batch. Negative demand, or a profile that takes no time, has no
    size.
    """
    sound = (demand.arrival_rate_per_s >= 0) & (demand.output_tokens >= 0) & (profiles.alpha_s + profiles.beta_s > 0)
    loaded = sound & (demand.arrival_rate_per_s > 0) & (demand.output_tokens > 0)
    # No load is a load of nothing: such candidates keep their place with one token, no rate and no targets.
    output_tokens = np.where(loaded, demand.output_tokens, 1.0)
    batch = max_batch(profiles, output_tokens, terms.max_batch_override)
    batch = np.where(loaded | (terms.max_batch_override > 0), batch, profiles.max_batch_size)
    curves = decode_only(
        alpha_s=np.where(sound, profiles.alpha_s, 1.0),
        beta_s=profiles.beta_s,
        output_tokens=output_tokens,
        max_batch=np.maximum(batch, 1.0),
    )
    limits = largest_rate(curves, _targets_where(loaded, targets))
    feasible = sound & limits.feasible
    total_per_s = np.where(targets.tokens_per_s > 0, targets.tokens_per_s / output_tokens, demand.arrival_rate_per_s)
    total_per_s = np.where(loaded & feasible, total_per_s, 0.0)
    replicas = replicas_for(total_per_s, np.where(feasible, limits.rate_per_s, 1.0), terms.min_replicas)
    state = analyze(curves, total_per_s / np.maximum(replicas, 1))
    return Sizes(
        feasible=feasible,
        max_batch=np.where(sound, batch, 0).astype(np.int64),
        replicas=np.where(feasible, replicas, 0),
        cost_per_hour=np.where(
            feasible, terms.cost_per_hour * np.maximum(terms.accelerators_per_replica, 1) * replicas, 0.0
        ),
        itl_s=np.where(feasible, state.itl_s, 0.0),
        wait_s=np.where(feasible, state.wait_s, 0.0),
        busy_probability=np.where(feasible, state.busy_probability, 0.0),
        capacity_per_s=np.where(loaded & feasible, limits.rate_per_s, 0.0),
    )


def max_batch(profiles: Profiles, output_tokens: Floats, override: Floats) -> Floats:
    """Return the batch that fits: the override, or the profile's, scaled to the length of the requests, 1 or more."""
    scaled = np.floor(profiles.max_batch_size * profiles.at_tokens / output_tokens)
    return np.where(override > 0, override, np.maximum(scaled, 1.0))


def replicas_for(total_per_s: Floats, capacity_per_s: Floats, min_replicas: Integers) -> Integers:
    """Return how many replicas of a positive capacity carry the total; 1e-9 above a whole number is that number."""
    need = np.ceil(total_per_s / capacity_per_s * (1 - _WHOLE))
    return np.maximum(np.minimum(need, _MOST_REPLICAS).astype(np.int64), min_replicas)


def _targets_where(asked: Bools, targets: Targets) -> Targets:
    return Targets(
        itl_s=np.where(asked, targets.itl_s, np.inf),
        wait_s=np.where(asked, targets.wait_s, np.inf),
        tokens_per_s=np.where(asked, targets.tokens_per_s, 0.0),
        ttft_s=None if targets.ttft_s is None else np.where(asked, targets.ttft_s, np.inf),
        itl_percentile=targets.itl_percentile,
        ttft_percentile=targets.ttft_percentile,
    )
