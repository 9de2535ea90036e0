"""Upstream's published cases of the priority rescale, in devices."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import Role
from reconciler.sizing.saturation_readings import VariantFacts
from reconciler.upstream.wva_analyzers import Ballot
from reconciler.upstream.wva_limits import (
    Claim,
    DeviceBudget,
    ModelBallots,
    devices_wanted,
    divide,
    fill,
    reclaim,
    rescale,
    split_roles,
)

Variant = Callable[..., VariantFacts]
BallotOf = Callable[..., Ballot]
Key = Callable[..., ResourceKey]

DIVISIONS = [
    pytest.param({"a": (8, 8, 0), "b": (12, 4, 0)}, 8, {"a": 4, "b": 4}, False, id="R2"),
    pytest.param({"idle": (0, 1, 1), "busy": (8, 8, 0)}, 6, {"idle": 1, "busy": 5}, False, id="R5"),
    pytest.param({"a": (1, 9, 4), "b": (1, 9, 3)}, 6, {"a": 4, "b": 3}, True, id="R6"),
    pytest.param({"p": (3, 6, 1), "d": (1, 6, 1)}, 6, {"p": 4, "d": 2}, False, id="R13"),
    pytest.param({"p": (0, 2, 1), "d": (0, 2, 1)}, 2, {"p": 1, "d": 1}, False, id="R14"),
]


@pytest.mark.parametrize(("claims", "budget", "expected", "conflict"), DIVISIONS)
def test_devices_are_divided_as_upstream_does(
    claims: dict[str, tuple[float, int, int]], budget: int, expected: dict[str, int], conflict: bool
) -> None:
    division = divide(
        [Claim(name=name, weight=row[0], cap=row[1], floor=row[2]) for name, row in claims.items()], budget
    )

    assert (division.devices, division.is_conflict) == (expected, conflict)


def model_of(
    ballot: BallotOf, *variants: VariantFacts, demand: Any, priority: float = 1.0, per_replica: float = 1000.0
) -> ModelBallots:
    key = variants[0].key
    carried = {each.name: per_replica for each in variants}
    return ModelBallots(
        model=ModelKey(cluster="prod", namespace=key.namespace, model_id=key.name),
        variants=variants,
        ballots=(ballot(carried, demand=demand, namespace=key.namespace),),
        priority=priority,
    )


def test_r7_what_is_reclaimed_serves_nobody_in_the_same_run(variant: Variant, ballot: BallotOf, key: Key) -> None:
    held = model_of(ballot, variant("a", current_replicas=8), demand=8000.0)
    starved = model_of(ballot, variant("b", current_replicas=0), demand=8000.0, priority=3.0)

    assert rescale([held, starved], DeviceBudget({"A100": 0})).replicas == {key("a"): 2, key("b"): 0}


def test_r10_what_is_free_goes_by_priority(variant: Variant, ballot: BallotOf, key: Key) -> None:
    models = [
        model_of(ballot, variant("a", current_replicas=0), demand=4000.0, priority=2.0),
        model_of(ballot, variant("b", current_replicas=0), demand=4000.0, priority=4.0),
        model_of(ballot, variant("c", current_replicas=4), demand=4000.0),
    ]

    assert rescale(models, DeviceBudget({"A100": 1})).replicas == {key("b"): 1, key("a"): 0, key("c"): 1}


def test_r11_prefill_and_decode_keep_their_shares(variant: Variant, ballot: BallotOf, key: Key) -> None:
    pair = [variant("p", current_replicas=4, role=Role.PREFILL), variant("d", current_replicas=4, role=Role.DECODE)]
    equal = {Role.PREFILL: 4, Role.DECODE: 4}

    assert split_roles(2, wanted=equal, held=equal, floors=dict.fromkeys(equal, 0)) == dict.fromkeys(equal, 1)

    squeezed = model_of(ballot, *pair, demand={"prefill": 4000.0, "decode": 4000.0})
    greedy = model_of(ballot, variant("greedy", current_replicas=0), demand=8000.0, priority=3.0)
    assert rescale([squeezed, greedy], DeviceBudget({"A100": 0})).replicas == {
        key("p"): 1,
        key("d"): 1,
        key("greedy"): 0,
    }


def test_r13_r14_roles_are_split_above_their_floors() -> None:
    one_each, none = {Role.PREFILL: 1, Role.DECODE: 1}, {Role.PREFILL: 0, Role.DECODE: 0}

    weighted = split_roles(6, wanted={Role.PREFILL: 3, Role.DECODE: 1}, held=none, floors=one_each)

    assert weighted == {Role.PREFILL: 4, Role.DECODE: 2}
    assert split_roles(2, wanted=none, held=none, floors=one_each) == one_each


def test_r15_tokens_become_whole_devices(variant: Variant, ballot: BallotOf) -> None:
    assert devices_wanted(model_of(ballot, variant("v"), demand=8500.0)) == 9


def test_r16_only_whole_replicas_are_reclaimed(variant: Variant, key: Key) -> None:
    replicas = {key("a"): 4}

    reclaim([variant("a", current_replicas=4, devices_per_replica=2)], replicas, 8 - 3)

    assert replicas == {key("a"): 2}


@pytest.mark.parametrize(
    ("numbers", "free", "expected"),
    [
        pytest.param({"devices_per_replica": 2}, 3, 2, id="R17"),
        pytest.param({"max_replicas": 2}, 6, 2, id="R18"),
    ],
)
def test_only_whole_replicas_within_bounds_are_filled(
    variant: Variant, ballot: BallotOf, key: Key, numbers: dict[str, int], free: int, expected: int
) -> None:
    own = variant("b", **numbers)
    replicas = {key("b"): 1}

    fill([own], model_of(ballot, own, demand=9000.0), replicas, 6, DeviceBudget({"A100": free}))

    assert replicas == {key("b"): expected}


def test_r19_models_of_one_name_in_two_namespaces_are_two(variant: Variant, ballot: BallotOf, key: Key) -> None:
    models = [
        model_of(ballot, variant("llama", namespace="team", current_replicas=6), demand=8000.0),
        model_of(ballot, variant("llama", namespace="prod", current_replicas=0), demand=8000.0, priority=3.0),
    ]

    assert rescale(models, DeviceBudget({"A100": 2})).replicas == {key("llama", "team"): 2, key("llama", "prod"): 2}


def test_an_unlimited_or_uncontended_group_is_left_alone(variant: Variant, ballot: BallotOf) -> None:
    model = model_of(ballot, variant("a", current_replicas=2), demand=8000.0)

    assert rescale([model], DeviceBudget({"A100": -1})).models == frozenset()
    assert rescale([model], DeviceBudget({"A100": 6})).models == frozenset()


def test_a_model_on_two_types_is_left_alone(variant: Variant, ballot: BallotOf) -> None:
    model = model_of(ballot, variant("a"), variant("b", accelerator="H100"), demand=8000.0)

    assert rescale([model], DeviceBudget({"A100": 0, "H100": 0})).models == frozenset()
