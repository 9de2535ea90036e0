"""The port of a kind of rule: its fields in a file, and what it says before and after the optimizer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from reconciler.domain.rules import Asks, Rule
from reconciler.policy.subjects import Change, Range, Spoken, Subject
from reconciler.resources.validation import Shape

Own = TypeVar("Own")


class KindSection(Shape):
    """What stands below the name of a kind in a policy file."""

    def asks(self) -> Asks:
        """The same as a rule asks it."""
        raise NotImplementedError


def leaves_all(asks: object, subject: Subject) -> Range | None:
    """What a kind says of numbers that asks for none."""
    del asks, subject
    return None


def says_nothing(asks: object, rule: Rule, change: Change) -> Spoken | None:
    """What a kind says of changes that the optimizer has heard already."""
    del asks, rule, change
    return None


def needs_no_past(asks: object, now_s: float) -> float | None:
    """What a kind says of the past that looks at now alone."""
    del asks, now_s
    return None


def takes_any(asks: object, accelerator: str, subject: Subject) -> str:
    """What a kind says of accelerators that minds none."""
    del asks, accelerator, subject
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKind(Generic[Own]):
    """A kind of rule by the key that names it in a file, and the type that holds what it asks.

    `limit` says before the optimizer how many replicas it leaves a variant, None for any number. `judge` says what it
    thinks of a change, None for nothing: of all changes of a finished plan that are in the rule's scope. `refuses` says
    before the optimizer why nothing may be added on an accelerator, empty where it may. `since` says how far back it
    wants to know what Git said (Unix seconds), None for not at all.
    """

    name: str
    asks: type[Own]
    section: type[KindSection]
    limit: Callable[[Own, Subject], Range | None] = leaves_all
    judge: Callable[[Own, Rule, Change], Spoken | None] = says_nothing
    refuses: Callable[[Own, str, Subject], str] = takes_any
    since: Callable[[Own, float], float | None] = needs_no_past
