"""The numbers behind upstream's answers, as lines that `explain` prints."""

from collections.abc import Iterator

from reconciler.domain.provenance import Figure
from reconciler.domain.replicas import Role
from reconciler.sizing.wva.ballot import Ballot
from reconciler.sizing.wva.percent import PercentAnalysis


def percent_figures(analysis: PercentAnalysis, role: Role) -> Iterator[Figure]:
    """Yield what the analyzer `percent` saw of a role, and each variant's KV cache usage."""
    none_removed = "fewer than two replicas are not saturated"
    lines = (
        ("replicas reporting", analysis.num_reporting, "replicas"),
        ("replicas not saturated", analysis.num_open, "replicas"),
        ("spare KV cache", analysis.kv_spare, "fraction"),
        ("spare queue", analysis.waiting_spare, "requests"),
        ("spare KV cache after a removal", analysis.kv_spare_after_removal, "fraction"),
        ("spare queue after a removal", analysis.waiting_spare_after_removal, "requests"),
    )
    for name, value, unit in lines:
        yield Figure(subject=role, name=name, value=value, unit=unit, reason="" if value is not None else none_removed)
    for variant, usage in analysis.usage.items():
        yield Figure(subject=variant.label, name="mean KV cache usage", value=usage.mean, unit="fraction")
        yield Figure(subject=variant.label, name="largest KV cache usage", value=usage.largest, unit="fraction")


def ballot_figures(ballot: Ballot) -> Iterator[Figure]:
    """Yield what an analyzer says of each role; `tokens`, which always speaks, needs no name beside its numbers."""
    by = "" if ballot.analyzer == "tokens" else f" by {ballot.analyzer}"
    for role, signal in ballot.signals.items():
        for name in ("demand", "supply", "anticipated", "required", "spare"):
            yield Figure(subject=role, name=name + by, value=getattr(signal, name), unit=ballot.unit)
