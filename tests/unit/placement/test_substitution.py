"""What Flux fills in after a build, as far as its Kustomization says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from reconciler.placement.deployers import Deployer, substitute


@dataclass(frozen=True)
class Filling:
    """What of a deployer decides."""

    values: Mapping[str, str] = field(default_factory=dict)
    is_filled_elsewhere: bool = False


def filled(text: str, *, elsewhere: bool = False, **values: str) -> str | None:
    return substitute(text, cast(Deployer, Filling(values=values, is_filled_elsewhere=elsewhere)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${APP}", "llama"),
        ("${APP}-${TIER}", "llama-gold"),
        ("${APP:-x}", "llama"),
        ("${OTHER:=0}", "0"),
        ("${OTHER:-}", ""),
        ("${OTHER-7}", "7"),
        ("plain", "plain"),
        ("${OTHER}", None),
        ("${APP}-${OTHER}", None),
        ("${APP,,}", None),
        ("${APP:=${TIER}}", None),
        ("${1}", None),
    ],
)
def test_names_and_defaults_are_filled_in_and_nothing_is_guessed(text: str, expected: str | None) -> None:
    assert filled(text, APP="llama", TIER="gold") == expected


def test_a_default_is_unknown_where_values_come_from_objects() -> None:
    assert filled("${X:=0}", elsewhere=True) is None
    assert filled("${X:=0}", elsewhere=True, X="3") == "3", "what is written beside them wins"
