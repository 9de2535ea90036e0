"""A rule whose numbers reach the fleet by pull request: decided at runs, merged later, synced after that."""

import numpy as np

from reconciler.domain.settings import Worth
from reconciler.forecast.series import Floats, Integers
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.simulation.draws import OfficeHours, Spread, random_generator

SHORT_NOW = 0.05
"""So far a load may exceed what is carried before that cannot wait."""
MOST_OF_SMALL = 0.05
"""Of a group's replicas no more must be missing, and no more than twice as many too many."""


def asked_by(worth: Worth, whole: Floats) -> tuple[Floats, Floats]:
    """More than how many replicas must be missing, and too many, of groups that have so many.

    A pull request of a small group takes a reviewer as long as another; but with no limit on what is asked of it, it
    could never change.
    """
    few = np.minimum(worth.replicas, MOST_OF_SMALL * whole)
    return np.maximum(worth.short * whole, few), np.maximum(worth.over * whole, 2 * few)


class ThroughGit:
    """One pull request a group: opened by the run that finds a difference, updated by later ones until it is merged.

    `group_of` (variants,) says which one holds a variant's number. How long people take is drawn for each group and
    run, the same for all settings; with `hours` they merge within those alone. With `worth` one opens only where that
    says so, or a variant is short at the load of now. `opened` counts pull requests by setting, from the first step on.
    """

    def __init__(
        self,
        rule: Autoscaler,
        *,
        run_s: float,
        step_s: float,
        merge: Spread,
        sync_s: float,
        group_of: Integers,
        seed: int,
        hours: OfficeHours | None = None,
        worth: Worth | None = None,
    ) -> None:
        self._rule, self._run_s, self._hours = rule, run_s, hours
        self._sync_steps, self._step_s = max(round(sync_s / step_s), 0), step_s
        self._group_of, self._merge, self._seed = group_of, merge, seed
        self._groups = int(group_of.max(initial=0)) + 1
        self._worth = worth
        self._member = group_of[:, None] == np.arange(self._groups)
        self._due_s: Floats | None = None
        self._git = self._wanted = np.empty(0)
        self._coming: list[Floats] = []
        self.opened = np.zeros(1)

    @property
    def reproduces(self) -> str:
        """The rule, and the way it takes."""
        return f"{self._rule.reproduces}, by pull request"

    def decide(self, seen: Seen) -> Floats:
        """As the port says."""
        if self._due_s is None:
            self._git = self._wanted = np.asarray(seen.replicas, dtype=np.float64)
            self._due_s = np.full((len(self._git), self._groups), np.inf)
            self._coming, self.opened = [self._git] * self._sync_steps, np.zeros(len(self._git))
        if seen.at_s % self._run_s < self._step_s:
            self._run(seen)
        is_merged = self._due_s <= seen.at_s
        if is_merged.any():
            self._git = np.where(is_merged[:, self._group_of], self._wanted, self._git)
            self._due_s = np.where(is_merged, np.inf, self._due_s)
        self._coming.append(self._git)
        return self._coming.pop(0)

    def _run(self, seen: Seen) -> None:
        """Decide, and open what differs; what does not any more is closed."""
        due_s = np.asarray(self._due_s)
        # what a rule decides by is what is written, as a controller that sets the count would see it
        self._wanted = self._rule.decide(
            Seen(
                at_s=seen.at_s,
                replicas=self._git,
                ready=seen.ready,
                load=seen.load,
                running=seen.running,
                waiting=seen.waiting,
                answers=seen.answers,
            )
        )
        more, whole = self._wanted - self._git, self._git @ self._member
        short, over = (np.maximum(each, 0.0) @ self._member for each in (more, -more))
        differs = (more != 0) @ self._member > 0
        if self._worth is not None:
            missing, spare = asked_by(self._worth, whole)
            is_short = (more != 0) & (seen.load > (1 + SHORT_NOW) * self._git)
            is_worth = (short > missing) | (over > spare) | (is_short @ self._member > 0)
            differs &= is_worth | ~np.isinf(due_s)
        draws = self._merge.draw(random_generator(self._seed, "merge", round(seen.at_s / self._run_s)), (self._groups,))
        at_s = seen.at_s + draws
        if self._hours is not None:
            at_s = self._hours.next_open(at_s)
        is_new = differs & np.isinf(due_s)
        self.opened = self.opened + is_new.sum(axis=1)
        self._due_s = np.where(differs, np.where(is_new, at_s, due_s), np.inf)
