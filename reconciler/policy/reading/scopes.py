"""Which changes a rule is for, as a file says it."""

# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012

from typing import Literal

from reconciler.domain.rules import Direction, Scope
from reconciler.policy.reading.values import Glob, Priority
from reconciler.resources.validation import Shape


class PrioritySection(Shape):
    """Bounds of a priority."""

    at_least: Priority | None = None
    """the lowest priority"""
    at_most: Priority | None = None
    """the highest priority"""


class ScopeSection(Shape):
    """Which changes a rule is for: every key that is given must fit."""

    cluster: Glob | None = None
    """a glob on the cluster"""
    namespace: Glob | None = None
    """a glob on the namespace"""
    model: Glob | None = None
    """a glob on the model's id; ** crosses the / in it"""
    name: Glob | None = None
    """a glob on the name of the resource"""
    path: Glob | None = None
    """a glob on the file of the resource"""
    accelerator: Glob | None = None
    """a glob on the accelerator that it runs on now"""
    service_class: Glob | None = None
    """a glob on the name of the service class"""
    labels: dict[str, str] = {}
    """labels of the resource and their values"""
    priority: PrioritySection = PrioritySection()
    """{atLeast: 10}, {atMost: 0}"""
    direction: list[Literal["up", "down", "move", "toZero", "first"]] = []
    """a list of up, down, move, toZero, first: what the change does, any of them"""

    def read(self, *, with_directions: bool = True) -> Scope:
        """The same as a rule has it."""
        return Scope(
            cluster=self.cluster or "",
            namespace=self.namespace or "",
            model=self.model or "",
            name=self.name or "",
            path=self.path or "",
            accelerator=self.accelerator or "",
            service_class=self.service_class or "",
            labels=self.labels,
            priority_least=self.priority.at_least,
            priority_most=self.priority.at_most,
            directions=tuple(map(Direction, self.direction)) if with_directions else (),
        )
