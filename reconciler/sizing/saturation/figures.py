"""The numbers behind an answer, as lines that `explain` prints."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.domain.provenance import Figure, Sourced
from reconciler.sizing.saturation.capacities import VariantTokens
from reconciler.sizing.saturation.thresholds import Thresholds

PERCENT_UNITS = {
    "kv_cache_usage": "fraction",
    "num_waiting": "requests",
    "kv_spare": "fraction",
    "waiting_spare": "requests",
}
TOKEN_UNITS = {
    "kv_cache_usage": "fraction",
    "num_waiting": "requests",
    "scale_up": "fraction",
    "scale_down": "fraction",
}


def capacity_figures(variants: Iterable[VariantTokens]) -> Iterator[Figure]:
    """Yield what a replica of each variant holds, and where that is known from."""
    for each in variants:
        yield Figure(
            subject=each.key.label,
            name="capacity of a replica",
            value=each.per_replica_tokens,
            unit="tokens",
            reason=each.origin if each.per_replica_tokens is not None else "no replica and no record says",
        )
        yield Figure(subject=each.key.label, name="demand", value=each.demand_tokens, unit="tokens")


def threshold_figures(thresholds: Thresholds, units: Mapping[str, str]) -> tuple[Figure, ...]:
    """Return the thresholds of these names, each with its unit and source."""
    return tuple(_threshold(name, unit, getattr(thresholds, name)) for name, unit in units.items())


def _threshold(name: str, unit: str, sourced: Sourced[float]) -> Figure:
    return Figure(subject="threshold", name=name, value=sourced.value, unit=unit, source=sourced.source)
