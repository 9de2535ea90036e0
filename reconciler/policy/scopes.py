"""Whether a rule is for a variant, and for what is done to it."""

from dataclasses import replace

from reconciler.domain.globs import path_matches
from reconciler.domain.rules import Direction, Scope
from reconciler.policy.subjects import Change, Range, Subject


def covers(scope: Scope, subject: Subject) -> bool:
    """Whether a variant is in scope, whatever is done to it."""
    # Asked of every rule and variant: what is not given is not looked at.
    variant = subject.variant
    return (
        (not scope.cluster or path_matches(scope.cluster, variant.key.cluster))
        and (not scope.namespace or path_matches(scope.namespace, variant.key.namespace))
        and (not scope.model or path_matches(scope.model, variant.model.model_id))
        and (not scope.name or path_matches(scope.name, variant.key.name))
        and (not scope.path or path_matches(scope.path, variant.place.path))
        and (not scope.accelerator or path_matches(scope.accelerator, variant.current.accelerator))
        and (not scope.service_class or path_matches(scope.service_class, subject.class_name))
        and (scope.priority_least is None or subject.priority >= scope.priority_least)
        and (scope.priority_most is None or subject.priority <= scope.priority_most)
        and (not scope.labels or _fits_labels(scope, subject))
    )


def _fits_labels(scope: Scope, subject: Subject) -> bool:
    return all(subject.variant.labels.get(key) == value for key, value in scope.labels.items())


def fits(scope: Scope, change: Change) -> bool:
    """Whether a change of a variant in scope goes in a direction that is in scope."""
    return not scope.directions or any(each in change.directions for each in scope.directions)


def towards(scope: Scope, found: Range, subject: Subject) -> Range | None:
    """What is left of a range where only some directions are in scope; None for nothing.

    A first change is every change of who had none; a move is no matter of numbers.
    """
    directions = scope.directions
    if not directions or (Direction.FIRST in directions and not subject.merges):
        return found
    # What a rule says of going down makes nothing go up, and the other way round.
    now = subject.current.replicas
    least = min(found.least, now) if Direction.DOWN in directions else 0
    if Direction.TO_ZERO in directions:
        least = max(least, min(found.least, now, 1))
    most = max(found.most, now) if Direction.UP in directions and found.most is not None else None
    stays = found.stays and Direction.MOVE in directions
    if not least and most is None and not stays:
        return None
    return replace(found, least=least, most=most, stays=stays)
