"""Upstream's published cases of what turns signals into replicas: cost-aware, fair share, limiter, quota, zero."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import Role
from reconciler.sizing.saturation import ZeroRule
from reconciler.sizing.saturation_readings import VariantFacts
from reconciler.upstream.wva import enforce
from reconciler.upstream.wva_analyzers import Ballot
from reconciler.upstream.wva_limits import (
    DeviceBudget,
    ModelBallots,
    Quota,
    WantedReplicas,
    cost_aware,
    fair_share,
    limit,
)

Variant = Callable[..., VariantFacts]
BallotOf = Callable[..., Ballot]
Key = Callable[..., ResourceKey]
Fleet = dict[str, tuple[Any, ...]]

CHEAP, MID, DEAR = (5, 10000), (10, 15000), (15, 20000)
PAIR = {"prefill": {"role": Role.PREFILL}, "decode": {"role": Role.DECODE}}


def of_role(role: str, cost: float, per_replica: float, current: int) -> tuple[Any, ...]:
    return cost, per_replica, current, PAIR[role]


COST_AWARE = [
    pytest.param({"required": 25000}, {"cheap": (*CHEAP, 1), "mid": (*MID, 1)}, [4, 1], id="O4"),
    pytest.param({"spare": 15000}, {"cheap": (*CHEAP, 3), "expensive": (*DEAR, 2)}, [2, 2], id="O6"),
    pytest.param({"spare": 30000}, {"expensive": (*DEAR, 1), "cheap": (*CHEAP, 1)}, [0, 1], id="O7"),
    pytest.param({"spare": 15000}, {"expensive": (*DEAR, 1), "cheap": (*CHEAP, 1)}, [1, 0], id="O8"),
    pytest.param({"spare": 50000}, {"exp": (*DEAR, 2), "mid": (*MID, 2), "cheap": (*CHEAP, 2)}, [0, 2, 1], id="O9"),
    pytest.param({"spare": 50000}, {"exp": (*DEAR, 3, {"min_replicas": 2}), "cheap": (*CHEAP, 3)}, [2, 0], id="O10"),
    pytest.param(
        {"spare": {"prefill": 10000, "decode": 20000}},
        {"p": of_role("prefill", *CHEAP, 3), "d": of_role("decode", *CHEAP, 3)},
        [2, 1],
        id="O13",
    ),
    pytest.param(
        {"spare": {"decode": 20000}},
        {"dec-exp": of_role("decode", 10, 10000, 1), "dec-cheap": of_role("decode", *CHEAP, 1)},
        [0, 1],
        id="O14",
    ),
    pytest.param(
        {"required": {"prefill": 20000, "decode": 20000}},
        {"p": of_role("prefill", *CHEAP, 1), "d": of_role("decode", *CHEAP, 1)},
        [3, 3],
        id="O16",
    ),
    pytest.param(
        {"required": {"prefill": 10000, "decode": 10000}},
        {
            "cheap-p": of_role("prefill", *CHEAP, 1),
            "exp-p": of_role("prefill", 15, 10000, 1),
            "cheap-d": of_role("decode", *CHEAP, 1),
            "exp-d": of_role("decode", 15, 10000, 1),
        },
        [2, 1, 2, 1],
        id="O17",
    ),
    pytest.param(
        {"spare": {"prefill": 20000, "decode": 10000}},
        {
            "cheap-p": of_role("prefill", *CHEAP, 2),
            "exp-p": of_role("prefill", 15, 10000, 2),
            "d": of_role("decode", *CHEAP, 3),
        },
        [2, 0, 2],
        id="O19",
    ),
    pytest.param({"required": 5000}, {"m1": (*CHEAP, 1)}, [2], id="O20-m1"),
    pytest.param({"spare": 10000}, {"m2": (10, 10000, 2)}, [1], id="O20-m2"),
    pytest.param({}, {"v": (10, 10000, 2)}, [2], id="O21"),
    pytest.param({"spare": 30000}, {"v": (10, 10000, 3)}, [1], id="O23"),
    pytest.param(
        {"required": 12000, "analyzer": "throughput"},
        {"revived": (10, 12000, 0), "cold": (5, None, 0)},
        [1, 0],
        id="O25",
    ),
]


def variants_of(variant: Variant, fleet: Fleet, **more: Any) -> tuple[VariantFacts, ...]:
    return tuple(
        variant(name, cost=float(row[0]), current_replicas=row[2], **{**more, **dict(*row[3:])})
        for name, row in fleet.items()
    )


def carried_by(fleet: Fleet) -> dict[str, float]:
    return {name: row[1] for name, row in fleet.items() if row[1] is not None}


@pytest.mark.parametrize(("said", "fleet", "expected"), COST_AWARE)
def test_the_cost_aware_rule_is_upstreams(
    variant: Variant, ballot: BallotOf, said: dict[str, Any], fleet: Fleet, expected: list[int]
) -> None:
    replicas = cost_aware(variants_of(variant, fleet), [ballot(carried_by(fleet), **said)])

    assert list(replicas.values()) == expected


def test_a_stale_analyzer_neither_asks_nor_vetoes(variant: Variant, ballot: BallotOf, key: Key) -> None:
    fleet: Fleet = {"v": (10, 10000, 3)}
    stale = ballot(carried_by(fleet), required=90000, is_live=False)

    assert cost_aware(variants_of(variant, fleet), [stale]) == {key("v"): 3}
    assert cost_aware(variants_of(variant, fleet), [stale, ballot(carried_by(fleet), spare=10000)]) == {key("v"): 2}


def test_every_live_analyzer_must_have_spare(variant: Variant, ballot: BallotOf, key: Key) -> None:
    fleet: Fleet = {"v": (10, 10000, 3)}
    votes = [ballot(carried_by(fleet), spare=20000), ballot({"v": 5.0}, spare=5.0, analyzer="throughput")]

    assert cost_aware(variants_of(variant, fleet), votes) == {key("v"): 2}


TWO = {"devices_per_replica": 2}
Model = tuple[dict[str, Any], Fleet]
LIMITED = [
    pytest.param([({"required": 50000}, {"v": (*CHEAP, 1)})], {"A100": 4}, [3], id="G2"),
    pytest.param(
        [({"required": 50000}, {"a": (5, 15000, 1)}), ({"required": 10000}, {"b": (5, 15000, 1)})],
        {"A100": 8},
        [4, 2],
        id="G3",
    ),
    pytest.param(
        [({"required": each}, {name: (5, 15000, 1)}) for name, each in (("a", 50000), ("b", 30000), ("c", 10000))],
        {"A100": 12},
        [4, 3, 2],
        id="G4",
    ),
    pytest.param(
        [({"required": 20000}, {"x": (*CHEAP, 1)}), ({"required": 20000}, {"y": (*CHEAP, 1)})],
        {"A100": 8},
        [3, 3],
        id="G5",
    ),
    pytest.param([({"required": 40000}, {"v": (*CHEAP, 1)})], {"A100": -1}, [5], id="G10-unlimited"),
    pytest.param([({"required": 40000}, {"v": (*CHEAP, 1)})], {"A100": 1000}, [5], id="G10-limit-1000"),
    pytest.param([({"spare": 15000}, {"cheap": (*CHEAP, 3), "exp": (*DEAR, 2)})], {"A100": 4}, [2, 2], id="G12"),
    pytest.param(
        [({"required": 10000}, {"up": (*CHEAP, 1)}), ({"spare": 10000}, {"down": (*CHEAP, 2)})],
        {"A100": 4},
        [2, 1],
        id="G13",
    ),
    pytest.param(
        [({"required": 10000}, {"cheap": (*CHEAP, 2, {"pending_replicas": 1}), "ready": (*DEAR, 1)})],
        {"A100": 10},
        [3, 1],
        id="G14",
    ),
    pytest.param([({"required": 10000}, {"v": (*CHEAP, 1, {"devices_per_replica": 0})})], {"A100": 2}, [2], id="G15"),
    pytest.param(
        [
            ({"required": 20000, "priority": 1.0}, {"low": (*CHEAP, 1)}),
            ({"required": 20000, "priority": 5.0}, {"high": (*CHEAP, 1)}),
        ],
        {"A100": 4},
        [1, 3],
        id="G16",
    ),
    pytest.param(
        [
            (
                {"required": {"prefill": 10000, "decode": 10000}},
                {"p": of_role("prefill", *CHEAP, 1), "d": of_role("decode", *CHEAP, 1)},
            )
        ],
        {"A100": 8},
        [2, 2],
        id="G19",
    ),
    pytest.param(
        [
            (
                {"required": {"prefill": 10000, "decode": 0}},
                {"p": of_role("prefill", *CHEAP, 1), "d": of_role("decode", *CHEAP, 3)},
            )
        ],
        {"A100": 8},
        [2, 3],
        id="G20",
    ),
    pytest.param(
        [
            (
                {"required": {"prefill": 10000, "decode": 10000}},
                {
                    "p": (*CHEAP, 1, {**PAIR["prefill"], "accelerator": "H100"}),
                    "d": of_role("decode", *CHEAP, 1),
                },
            )
        ],
        {"A100": 4, "H100": 0},
        [1, 1],
        id="G21",
    ),
]


def asked_of(variant: Variant, ballot: BallotOf, models: list[Model]) -> list[ModelBallots]:
    asked = []
    for index, (said, fleet) in enumerate(models):
        amounts = {name: value for name, value in said.items() if name not in ("priority", "namespace")}
        namespace = said.get("namespace", "chat")
        asked.append(
            ModelBallots(
                model=ModelKey(cluster="prod", namespace=namespace, model_id=f"m{index}"),
                variants=variants_of(variant, fleet, **{**TWO, "namespace": namespace}),
                ballots=(ballot(carried_by(fleet), **amounts, namespace=namespace),),
                priority=said.get("priority", 1.0),
            )
        )
    return asked


@pytest.mark.parametrize(("models", "devices", "expected"), LIMITED)
def test_the_fair_share_is_upstreams(
    variant: Variant, ballot: BallotOf, models: list[Model], devices: dict[str, int], expected: list[int]
) -> None:
    replicas = fair_share(asked_of(variant, ballot, models), DeviceBudget(devices))

    assert [replicas[each.key] for model in asked_of(variant, ballot, models) for each in model.variants] == expected


def test_g24_each_namespace_draws_from_its_own_pool(variant: Variant, ballot: BallotOf, key: Key) -> None:
    models: list[Model] = [
        ({"required": 50000, "namespace": "team-a"}, {"a": (*CHEAP, 1)}),
        ({"required": 50000, "namespace": "team-b"}, {"b": (*CHEAP, 1)}),
    ]
    budget = DeviceBudget({"A100": 100}, {"team-a": {"A100": 2}, "team-b": {"A100": 6}})

    assert fair_share(asked_of(variant, ballot, models), budget) == {key("a", "team-a"): 2, key("b", "team-b"): 4}


def test_two_roles_never_take_one_device_twice(variant: Variant, ballot: BallotOf) -> None:
    models: list[Model] = [
        (
            {"required": {"prefill": 40000, "decode": 40000}},
            {"p": of_role("prefill", *CHEAP, 1), "d": of_role("decode", *CHEAP, 1)},
        )
    ]

    assert list(fair_share(asked_of(variant, ballot, models), DeviceBudget({"A100": 8})).values()) == [3, 3]
    assert list(fair_share(asked_of(variant, ballot, models), DeviceBudget({"A100": 2})).values()) == [1, 1]


def test_l6_a_partial_grant_is_named(variant: Variant, key: Key) -> None:
    wish = WantedReplicas(variant=variant("v", **TWO), replicas=3)

    limited = limit([wish], Quota(cluster={"A100": 3}))

    assert limited.replicas == {key("v"): 2}
    assert limited.limited == {key("v"): "limited by quota[scope=cluster, type=A100]"}


def test_l7_with_equal_spare_the_cheaper_variant_is_served_first(variant: Variant, key: Key) -> None:
    wishes = [
        WantedReplicas(variant=variant("dear", cost=15.0), replicas=2),
        WantedReplicas(variant=variant("cheap", cost=5.0), replicas=2),
    ]

    assert limit(wishes, Quota(cluster={"A100": 1})).replicas == {key("dear"): 1, key("cheap"): 2}


def test_l8_the_maximum_caps_and_the_minimum_needs_no_device(variant: Variant, key: Key) -> None:
    wishes = [
        WantedReplicas(variant=variant("capped", max_replicas=3), replicas=10),
        WantedReplicas(variant=variant("floored", accelerator="H100", min_replicas=2), replicas=2),
    ]

    assert limit(wishes, Quota(cluster={"A100": -1})).replicas == {key("capped"): 3, key("floored"): 2}


def test_a_cut_grant_is_told_although_the_minimum_gives_what_was_wished_for(variant: Variant, key: Key) -> None:
    wish = WantedReplicas(variant=variant("v", min_replicas=3), replicas=3)

    limited = limit([wish], Quota(cluster={"A100": 1}))

    assert limited.replicas == {key("v"): 3}
    assert limited.limited == {key("v"): "limited by quota[scope=cluster, type=A100]"}


def test_every_quota_must_leave_what_is_granted_and_none_counts_what_another_denies(variant: Variant, key: Key) -> None:
    wishes = [
        WantedReplicas(variant=variant("dear", cost=15.0), replicas=4),
        WantedReplicas(variant=variant("cheap", cost=5.0), replicas=9),
    ]
    namespace = wishes[0].variant.key.namespace
    wide = Quota(cluster={"A100": 5})
    narrow = Quota(namespaces={namespace: {"A100": 3}})

    limited = limit(wishes, wide, narrow)

    assert limited.replicas == {key("dear"): 1, key("cheap"): 4}
    assert limited.limited[key("cheap")] == (
        "limited by quota[scope=cluster, type=A100]; "
        f"limited by quota[scope=namespace, namespace={namespace}, type=A100]"
    )
    assert wide.used == {("", "A100"): 3}
    assert narrow.used == {(namespace, "A100"): 3}


def test_a_namespaces_pool_lists_what_the_cluster_need_not() -> None:
    budget = DeviceBudget({"A100": 4}, {"team-a": {"A100": 2, "H100": 3}})

    assert [budget.free(kind, "team-a") for kind in ("A100", "H100", "L4")] == [2, 3, 0]
    assert [budget.free(kind, "team-b") for kind in ("A100", "H100")] == [4, 0]


QUOTAS = [
    pytest.param(
        Quota(cluster={"H100": 4}), [("a", "H100", 3), ("a", "H100", 5), ("a", "H100", 1)], [3, 1, 0], id="Q1"
    ),
    pytest.param(Quota(cluster={"H100": 4}), [("a", "B200", 1)], [0], id="Q2"),
    pytest.param(Quota(cluster={"H100": -1}), [("a", "H100", 999), ("a", "H100", 100)], [999, 100], id="Q3"),
    pytest.param(
        Quota(cluster={"H100": 8}, used={("", "H100"): 6}), [("a", "H100", 5), ("a", "H100", 1)], [2, 0], id="Q4"
    ),
    pytest.param(
        Quota(namespaces={"a": {"H100": 4}, "b": {"H100": 2}}),
        [("a", "H100", 3), ("b", "H100", 2), ("a", "H100", 5)],
        [3, 2, 1],
        id="Q5",
    ),
    pytest.param(Quota(cluster={"H100": 1}, excluded=frozenset("x")), [("x", "H100", 50)], [50], id="Q6"),
    pytest.param(Quota(namespaces={"default": {"H100": 2}}), [("z", "H100", 5), ("y", "H100", 5)], [2, 2], id="Q7"),
    pytest.param(Quota(namespaces={"a": {"H100": 2}}), [("b", "H100", 1)], [0], id="Q8"),
    pytest.param(Quota(namespaces={"a": {"H100": 4}}, used={("a", "H100"): 3}), [("a", "H100", 5)], [1], id="Q9"),
    pytest.param(Quota(cluster={"H100": 4}), [("a", "", 7)], [0], id="Q10"),
    pytest.param(Quota(namespaces={"team-a": {"H100": 0}}), [("team-a", "H100", 1)], [0], id="Q11"),
]


@pytest.mark.parametrize(("quota", "asks", "expected"), QUOTAS)
def test_quotas_grant_as_upstream_does(quota: Quota, asks: list[tuple[str, str, int]], expected: list[int]) -> None:
    grants = [quota.grant(*ask) for ask in asks]

    assert [grant.devices for grant in grants] == expected
    assert all(bool(grant.reason) == (grant.devices < ask[2]) for grant, ask in zip(grants, asks, strict=True))


def test_q6_an_excluded_namespace_leaves_no_trace() -> None:
    quota = Quota(cluster={"H100": 1}, excluded=frozenset({"x"}))

    quota.grant("x", "H100", 50)

    assert quota.used == {}


def test_q11_a_denial_names_its_namespace_and_type() -> None:
    denied = Quota(namespaces={"team-a": {"H100": 0}}).grant("team-a", "H100", 1)

    assert denied.reason == "limited by quota[scope=namespace, namespace=team-a, type=H100]"


ZERO = [
    pytest.param(ZeroRule(is_enabled=True, requests=0.0), [2, 1], [0, 0], id="Z1"),
    pytest.param(ZeroRule(is_enabled=True, requests=10.0), [2, 1], [2, 1], id="Z2"),
    pytest.param(ZeroRule(is_enabled=True, reason="the query failed"), [2, 1], [2, 1], id="Z3"),
    pytest.param(ZeroRule(), [0, 1], [0, 1], id="Z5"),
    pytest.param(ZeroRule(), [0, 0], [0, 1], id="keep-one-of-the-cheapest"),
    pytest.param(ZeroRule(is_enabled=True, requests=0.0, is_countable=False), [2, 1], [2, 1], id="another-engine"),
]


@pytest.mark.parametrize(("rule", "wanted", "expected"), ZERO)
def test_the_enforcer_is_upstreams(variant: Variant, rule: ZeroRule, wanted: list[int], expected: list[int]) -> None:
    variants = [variant("dear", cost=15.0), variant("cheap", cost=5.0)]
    replicas = {each.key: count for each, count in zip(variants, wanted, strict=True)}

    assert list(enforce(replicas, variants, rule).replicas.values()) == expected


def test_a_minimum_keeps_the_enforcer_away(variant: Variant, key: Key) -> None:
    rule = ZeroRule(is_enabled=True, requests=0.0)

    assert enforce({key("v"): 2}, [variant("v", min_replicas=1)], rule).replicas == {key("v"): 2}
