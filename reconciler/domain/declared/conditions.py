"""Conditions: what a controller last said of an object, as it stands in Git."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A Kubernetes condition as it stands in Git."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
