"""Every incident: what happened, what its series looked like, and what the program may make of it."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.incidents.answers import Spoil
from tests.incidents.lives import Life
from tests.incidents.stage import Stage

Play = Callable[[Stage], None]
"""Changes what the calm stage exports."""


def nothing(_stage: Stage) -> None:
    """A calm hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One row: `replicas` stand in Git, `after` are the numbers the truth allows (None: those in Git).

    `holds` are kinds of which one must be told, `told` words that must be; both empty where it is as any other day.
    `engine` is `queueing`, `saturation`, or `given` by `settings`, which are added to reconciler.yaml. `answers` is
    what comes of each answer of Prometheus on its way. A `life` takes the place of the stage. Where all is well nothing
    `may_hold`.
    """

    name: str
    happened: str
    play: Play = nothing
    engine: str = "queueing"
    replicas: int = 6
    after: tuple[int, ...] | None = None
    holds: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    has_gateway: bool = True
    has_kube_state_metrics: bool = True
    settings: str = ""
    answers: Spoil | None = None
    life: Life | None = None
    may_hold: bool = True

    @property
    def allowed(self) -> tuple[int, ...]:
        """The replicas that may be proposed, or kept."""
        return self.after or (self.replicas,)
