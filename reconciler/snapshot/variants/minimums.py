"""The least that a policy may have of a backend: a person's number in Git is a bound, our last answer is none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.domain.declared.tracking import TrackedBackend, TrackedTarget
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange

_Merges = Sequence[Mapping[str, ProposedChange]]
"""What our merged pull requests changed, by resource; the newest comes first."""


def settle_minimums(targets: Iterable[TrackedTarget], proposals: Iterable[Proposal]) -> tuple[TrackedTarget, ...]:
    """The targets with minimums that a person wrote: where ours stands there now, the one that ours replaced."""
    merged = [each for each in proposals if each.state is ProposalState.MERGED]
    newest_first = sorted(merged, key=lambda each: (-(each.closed_at_s or 0.0), -each.number))
    merges = [{change.resource: change for change in each.changes} for each in newest_first]
    return tuple(_settle(target, merges) for target in targets)


def _settle(target: TrackedTarget, merges: _Merges) -> TrackedTarget:
    backends = tuple(_lower(each, merges) if each.counts_at_minimum else each for each in target.backends)
    return replace(target, backends=_raise(backends, target.least_replicas))


def _lower(scaled: TrackedBackend, merges: _Merges) -> TrackedBackend:
    """Back through our merges as long as each wrote the number that the next one found."""
    resource, number = str(scaled.scale_target), scaled.backend.min_replicas
    for changes in merges:
        change = changes.get(resource)
        if change is not None and change.replicas_after != number:
            break  # a person wrote another number after that
        if change is not None:
            number = change.replicas_before
    return _with_minimum(scaled, min(number, scaled.backend.max_replicas))


def _raise(backends: tuple[TrackedBackend, ...], least: int) -> tuple[TrackedBackend, ...]:
    """What all must have together goes to the first in the order of costs, as far as it may."""
    lacking = least - sum(each.backend.min_replicas for each in backends)
    if lacking <= 0:
        return backends
    cheapest = min(range(len(backends)), key=lambda index: (backends[index].backend.cost, index))
    raised = _with_minimum(backends[cheapest], backends[cheapest].backend.min_replicas + lacking)
    return (*backends[:cheapest], raised, *backends[cheapest + 1 :])


def _with_minimum(scaled: TrackedBackend, minimum: int) -> TrackedBackend:
    return replace(scaled, backend=replace(scaled.backend, min_replicas=minimum))
