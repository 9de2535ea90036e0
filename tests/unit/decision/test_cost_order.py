"""Relative costs that rank the variants of a model otherwise than their prices do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.snapshot import Variant
from reconciler.snapshot.variants import RULE, find_contradicted_costs

COSTS = st.none() | st.floats(min_value=0.0, max_value=100.0)


def find(variants: Sequence[Variant], places: Mapping[ResourceKey, Place] | None = None) -> list[Finding]:
    return list(find_contradicted_costs(variants, currency="USD", places=places or {}))


def add(fleet: Any, make: Any, name: str, runs_on: str, cost: float | None, **fields: Any) -> None:
    fleet.add(name, runs_on=runs_on, profiles=(make.profile(runs_on),), variant_cost=cost, **fields)


def test_a_cheaper_variant_that_is_ranked_as_dearer_is_named_with_both_numbers(fleet: Any, make: Any) -> None:
    add(fleet, make, "big", "H100", 5.0)
    add(fleet, make, "small", "L4", 8.0)
    place = Place(path="apps/llm/small.yaml", line=9, field="spec.variantCost")
    (finding,) = find(fleet.variants(), {make.key("small"): place})
    assert (finding.rule, finding.severity, finding.place) == (RULE, Severity.WARNING, place)
    assert finding.message == (
        "relative cost 8 ranks it above llm/big (5), but a replica costs 1.00 against 6.00 USD/h"
    )


def test_where_nobody_knows_the_line_the_resource_is_named(fleet: Any, make: Any) -> None:
    add(fleet, make, "big", "H100", 5.0)
    add(fleet, make, "small", "L4", 8.0)
    assert [finding.place for finding in find(fleet.variants())] == [fleet.variant("small").place]


@pytest.mark.parametrize("costs", [(6.0, 1.0), (5.0, 5.0), (None, 8.0), (5.0, None)])
def test_the_same_order_equal_or_missing_relative_costs_contradict_nothing(
    fleet: Any, make: Any, costs: tuple[float | None, float | None]
) -> None:
    add(fleet, make, "big", "H100", costs[0])
    add(fleet, make, "small", "L4", costs[1])
    assert find(fleet.variants()) == []


def test_without_a_price_there_is_nothing_to_compare(fleet: Any, make: Any) -> None:
    fleet.price(H100=None, L4=1.0)
    add(fleet, make, "big", "H100", 5.0)
    add(fleet, make, "small", "L4", 8.0)
    assert find(fleet.variants()) == []


def test_variants_of_different_models_are_never_compared(fleet: Any, make: Any) -> None:
    add(fleet, make, "big", "H100", 5.0)
    add(fleet, make, "small", "L4", 8.0, model_id="another/model")
    assert find(fleet.variants()) == []


def test_each_variant_is_named_once_beside_the_dearest_that_ranks_below_it(fleet: Any, make: Any) -> None:
    for name, runs_on, cost in (("a", "A100", 1.0), ("b", "H100", 2.0), ("c", "L4", 3.0), ("d", "A100", 4.0)):
        add(fleet, make, name, runs_on, cost)
    found = find(fleet.variants())
    assert [finding.place.path for finding in found] == ["apps/llm/c.yaml", "apps/llm/d.yaml"]
    assert all("llm/b (2)" in finding.message for finding in found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(pairs=st.lists(st.tuples(COSTS, COSTS), max_size=6))
def test_it_finds_just_the_variants_of_contradicting_pairs(
    fleet: Any, make: Any, pairs: list[tuple[float | None, float | None]]
) -> None:
    if not fleet.resources:
        add(fleet, make, "any", "H100", 1.0)
    any_variant = fleet.variant("any")
    variants = [
        replace(
            any_variant,
            key=make.key(str(number)),
            place=Place(path=str(number)),
            relative_cost=relative,
            current_cost_per_hour=per_hour,
        )
        for number, (relative, per_hour) in enumerate(pairs)
    ]
    known = [(number, pair[0], pair[1]) for number, pair in enumerate(pairs) if None not in pair]
    wrong = {number for number, a, x in known for _, b, y in known if a > b and x < y}  # type: ignore[operator]  # none is None
    found = find(variants)
    assert {int(finding.place.path) for finding in found} == wrong
    assert len(found) == len(wrong)
    assert find(variants[::-1]) == found


def test_a_relative_cost_is_told_as_such_with_the_line_that_makes_it_money(fleet: Any) -> None:
    fleet.set(accelerators=())
    for number in range(4):
        fleet.add(f"v{number}", variant_cost=10.0 + number)
    assert (
        "relative costs (llm/v0 10, llm/v1 11, llm/v2 12 and 1 more) rank variants of one model and are no money: "
        "accelerators: [{name: H100, costPerHour: ...}] in reconciler.yaml makes them money"
    ) in fleet.plan().assumptions


def test_a_relative_cost_beside_a_price_is_not_told(fleet: Any) -> None:
    fleet.add("a", variant_cost=10.0)
    assert not any("relative" in words for words in fleet.plan().assumptions)
