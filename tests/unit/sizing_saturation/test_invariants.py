"""What holds for every input, sensible or hostile."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.domain.identity import Source, SourceKind
from reconciler.domain.observed import ReplicaMetrics, Role, UpstreamQueue
from reconciler.domain.settings import AnalyzerSettings, ThresholdLayer
from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation import ZeroRule, size_saturation
from reconciler.sizing.saturation_readings import (
    MOST_REPLICAS,
    StoredCapacity,
    VariantFacts,
    WorkloadKey,
    layer_thresholds,
)
from reconciler.upstream.wva import UpstreamReadings, reproduce_percent, reproduce_tokens
from reconciler.upstream.wva_limits import Claim, DeviceBudget, Quota, cost_aware, divide
from reconciler.upstream.wva_throughput import ThroughputReadings, ThroughputSample, analyze_throughput

Variant = Callable[..., VariantFacts]
Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Readings = Callable[..., UpstreamReadings]
Key = Callable[..., Any]

# Half of the numbers are sensible: nothing but nonsense would be thrown out at the door.
HOSTILE = (
    st.sampled_from([0.5, 1.0, 16.0, 4000.0])
    | st.floats(0, 1)
    | st.none()
    | st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 1e308, 5e-324, 2.0**60])
    | st.floats()
)
COUNTS = st.integers(0, 4) | st.integers(0, 20) | st.sampled_from([0, 1, 2, 3, 7, -1, 10**30])
NAMES = ("a", "b", "c")
NUMBERS = HOSTILE.filter(lambda value: value is not None)
TIMES = st.sampled_from([0.0, 15.0, 30.0, 45.0, 60.0]) | st.floats()
WORKLOADS = st.builds(
    WorkloadKey, accelerator=st.just("A100"), devices=st.just(1), bucket=st.sampled_from(["short", "long"])
)
THRESHOLDS = ("kv_cache_usage", "num_waiting", "kv_spare", "waiting_spare", "scale_up", "scale_down", "priority")
LAYERS = st.builds(
    ThresholdLayer, source=st.just(Source(kind=SourceKind.CONFIG_MAP)), **dict.fromkeys(THRESHOLDS, HOSTILE)
)
ANALYZERS = st.builds(
    AnalyzerSettings,
    name=st.sampled_from(["saturation", "throughput", "", "oracle"]),
    is_enabled=st.booleans(),
    score=NUMBERS,
    scale_up=HOSTILE,
    scale_down=HOSTILE,
)
SAMPLED = (
    "kv_cache_usage",
    "itl_s",
    "tokens_per_s",
    "input_tokens",
    "output_tokens",
    "prefix_hit_rate",
    "kv_tokens",
)
FIELDS = (
    "kv_cache_usage",
    "num_waiting",
    "input_tokens",
    "output_tokens",
    "num_blocks",
    "block_tokens",
    "total_kv_tokens",
    "prefix_hit_rate",
)


@st.composite
def hostile_readings(draw: st.DrawFn, variant: Variant, readings: Readings, key: Key) -> UpstreamReadings:
    variants = [
        variant(
            name,
            role=draw(st.sampled_from(Role)),
            cost=draw(st.floats(0, 100) | st.floats()),
            current_replicas=draw(COUNTS),
            desired_replicas=draw(COUNTS),
            pending_replicas=draw(st.integers(0, 2) | COUNTS),
            min_replicas=draw(st.none() | st.integers(0, 2)),
            max_replicas=draw(st.none() | COUNTS),
            devices_per_replica=draw(st.integers(0, 8) | COUNTS),
            launch=draw(st.none() | st.builds(LaunchSettings, max_num_seqs=COUNTS, max_batched_tokens=COUNTS)),
            stored=draw(st.none() | st.builds(StoredCapacity, capacity_tokens=HOSTILE, total_kv_tokens=HOSTILE)),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), max_size=4))
    ]
    replicas = draw(
        st.lists(
            st.builds(
                ReplicaMetrics,
                pod=st.sampled_from(["p", "q", "r"]),
                variant=st.sampled_from([key(name) for name in NAMES]),
                **dict.fromkeys(FIELDS, HOSTILE),
            ),
            max_size=6,
        )
    )
    queue = draw(st.none() | st.builds(UpstreamQueue, num_waiting=HOSTILE, waiting_bytes=HOSTILE))
    rule = draw(st.builds(ZeroRule, is_enabled=st.booleans(), requests=HOSTILE))
    return readings(
        *variants,
        replicas=tuple(replicas),
        queue=queue,
        zero_rule=rule,
        history=draw(st.dictionaries(WORKLOADS, st.lists(NUMBERS, max_size=3).map(tuple), max_size=2)),
        layered=layer_thresholds(draw(st.lists(LAYERS, max_size=2))),
        analyzers=tuple(draw(st.lists(ANALYZERS, max_size=3))),
        throughput=draw(st.none() | hostile_throughput(key)),
    )


def hostile_throughput(key: Key) -> st.SearchStrategy[ThroughputReadings]:
    sample = st.builds(
        ThroughputSample,
        pod=st.sampled_from(["p", "q"]),
        variant=st.sampled_from([key(name) for name in NAMES]),
        at_s=TIMES,
        **dict.fromkeys(SAMPLED, HOSTILE),
    )
    return st.builds(
        ThroughputReadings,
        now_s=TIMES,
        samples=st.lists(sample, max_size=16).map(tuple),
        arrival_rate_per_s=HOSTILE,
        period_s=HOSTILE,
    )


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_comes_in_an_answer_comes_out(
    variant: Variant, readings: Readings, key: Key, data: st.DataObject
) -> None:
    hostile = data.draw(hostile_readings(variant, readings, key))

    answers = (
        size_saturation(hostile),
        *reproduce_percent([hostile], Quota(cluster={"A100": 4})),
        *reproduce_tokens([hostile]),
        *reproduce_tokens([hostile], DeviceBudget({"A100": 4}), rescales=True),
    )

    for answer in answers:
        assert answer.reasons
        assert all(answer.reasons.values())
        assert all(answer.held.values())
        for requirement in answer.requirements:
            assert math.isfinite(requirement.amount)
            assert requirement.amount >= 0
            assert all(math.isfinite(each) and each > 0 for each in requirement.per_replica.values())
            assert all(count >= 0 for count in (requirement.fixed or {}).values())
    current = {each.key: each.current_replicas for each in hostile.variants}
    assert all(current[key] == floor for key, floor in answers[0].floors.items())


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(COUNTS, min_size=2, max_size=2), NUMBERS, NUMBERS)
def test_whatever_is_sampled_the_vote_is_finite(
    variant: Variant, key: Key, data: st.DataObject, counts: list[int], scale_up: float, scale_down: float
) -> None:
    variants = [
        variant(name, current_replicas=count, role=data.draw(st.sampled_from(Role)))
        for name, count in zip(NAMES, counts, strict=False)
    ]

    analysis = analyze_throughput(
        variants, data.draw(hostile_throughput(key)), scale_up=scale_up, scale_down=scale_down
    )

    assert all(analysis.reasons)
    if analysis.ballot is not None:
        assert all(math.isfinite(rate) and rate > 0 for rate in analysis.ballot.per_replica.values())
        for signal in analysis.ballot.signals.values():
            assert min(signal.demand, signal.supply, signal.anticipated, signal.required, signal.spare) >= 0


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_the_order_of_the_input_does_not_matter(
    variant: Variant, readings: Readings, key: Key, data: st.DataObject
) -> None:
    hostile = data.draw(hostile_readings(variant, readings, key))
    shuffled = replace(
        hostile,
        variants=tuple(data.draw(st.permutations(hostile.variants))),
        replicas=tuple(data.draw(st.permutations(hostile.replicas))),
    )

    for sized in (size_saturation, lambda each: reproduce_percent([each]), lambda each: reproduce_tokens([each])):
        assert repr(sorted_parts(sized(hostile))) == repr(sorted_parts(sized(shuffled)))


def sorted_parts(answer: Any) -> Any:
    (answer,) = answer if isinstance(answer, tuple) else (answer,)
    parts = [(each.model, each.amount, sorted(each.per_replica.items())) for each in answer.requirements]
    fixed = [sorted(each.fixed.items()) for each in answer.requirements if each.fixed is not None]
    return parts, fixed, sorted(answer.floors.items()), sorted(answer.held), sorted(answer.reasons.items())


loads = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40)), min_size=1, max_size=6)
SIZED: dict[str, Any] = {"total_kv_tokens": 12500.0, "input_tokens": 100.0, "output_tokens": 100.0}


def written(pairs: list[tuple[float, int]]) -> str:
    return ",".join(f"{kv_used}/{waiting}" for kv_used, waiting in pairs)


@settings(deadline=None)
@given(loads, st.booleans(), st.data())
def test_losing_a_metric_never_lets_a_variant_shrink(
    variant: Variant,
    replicas: Replicas,
    readings: Readings,
    pairs: list[tuple[float, int]],
    in_tokens: bool,
    data: st.DataObject,
) -> None:
    own = variant("v", current_replicas=len(pairs))
    whole = replicas("v", written(pairs), **(SIZED if in_tokens else {}))
    lost = data.draw(st.integers(0, len(whole) - 1))
    name = data.draw(st.sampled_from(["kv_cache_usage", "num_waiting", "all"]))
    broken: dict[str, Any] = {name: data.draw(st.sampled_from([None, math.nan, -1.0, math.inf]))}
    rest = (*whole[:lost], *whole[lost + 1 :])
    partial = rest if name == "all" else (*rest, replace(whole[lost], **broken))

    answer = size_saturation(readings(own, replicas=partial))

    assert own.key in answer.held or answer.floors[own.key] == len(pairs)


@settings(deadline=None)
@given(loads, st.floats(0, 1), st.booleans())
def test_a_fuller_replica_never_asks_for_less(
    variant: Variant,
    replicas: Replicas,
    readings: Readings,
    pairs: list[tuple[float, int]],
    more: float,
    in_tokens: bool,
) -> None:
    # Without queues: a full one also shows how little a replica can work on.
    calm = [(kv_used, 0) for kv_used, _ in pairs]
    fuller = [(max(calm[0][0], more), 0), *calm[1:]]
    own = variant("v", current_replicas=len(pairs))

    def amount(of: list[tuple[float, int]]) -> float:
        reported = replicas("v", written(of), **(SIZED if in_tokens else {}))
        return size_saturation(readings(own, replicas=reported)).requirements[0].amount

    assert amount(fuller) >= amount(calm) - 1e-6


@settings(deadline=None)
@given(loads)
def test_the_first_analyzer_moves_one_replica_at_most(
    variant: Variant, replicas: Replicas, readings: Readings, pairs: list[tuple[float, int]]
) -> None:
    own = variant("v", current_replicas=len(pairs))

    (answer,) = reproduce_percent([readings(own, replicas=replicas("v", written(pairs)))])

    fixed = answer.requirements[0].fixed
    assert fixed is not None
    assert abs(fixed[own.key] - len(pairs)) <= 1
    assert fixed[own.key] >= 1


@settings(deadline=None)
@given(st.lists(loads, min_size=1, max_size=4), st.integers(0, 12), st.integers(1, 3), st.booleans())
def test_the_limited_modes_add_no_more_than_is_free(
    variant: Variant,
    readings: Readings,
    replicas: Replicas,
    fleets: list[list[tuple[float, int]]],
    free: int,
    devices: int,
    rescales: bool,
) -> None:
    models = []
    for index, pairs in enumerate(fleets):
        name = f"v{index}"
        own = variant(name, current_replicas=len(pairs), devices_per_replica=devices)
        models.append(readings(own, replicas=replicas(name, written(pairs), **SIZED)))
    models = [replace(each, model=replace(each.model, model_id=f"m{index}")) for index, each in enumerate(models)]

    answers = reproduce_tokens(models, DeviceBudget({"A100": free}), rescales=rescales)

    added = 0
    for model, answer in zip(models, answers, strict=True):
        for key, count in (answer.requirements[0].fixed or {}).items():
            current = next(each.current_replicas for each in model.variants if each.key == key)
            added += max(count - current, 0) * devices
    assert added <= free


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=6),
    st.integers(0, 60),
)
def test_a_division_gives_floors_and_no_more_than_there_is(rows: list[tuple[float, int, int]], budget: int) -> None:
    claims = [Claim(name=f"c{index}", weight=row[0], cap=row[1], floor=row[2]) for index, row in enumerate(rows)]

    division = divide(claims, budget)

    assert all(claim.floor <= division.devices[claim.name] <= max(claim.cap, claim.floor) for claim in claims)
    assert division.is_conflict == (sum(claim.floor for claim in claims) > budget)
    assert sum(division.devices.values()) <= max(budget, sum(claim.floor for claim in claims))


@given(
    st.lists(st.tuples(st.floats(1, 100), st.floats(1, 1e5), st.integers(0, 9)), min_size=1, max_size=5),
    st.floats(0, 1e6) | st.sampled_from([5e-324, 3e-313, 1e308]),
)
@example(rows=[(1.0, 1.0, 1)], amount=999999.5)
@example(rows=[(1.0, 1.0, 0)], amount=999999.5)
def test_what_lacks_is_covered_and_the_last_replica_stays(
    variant: Variant, ballot: Callable[..., Any], rows: list[tuple[float, float, int]], amount: float
) -> None:
    variants = [variant(f"v{index}", cost=row[0], current_replicas=row[2]) for index, row in enumerate(rows)]
    carried = {f"v{index}": row[1] for index, row in enumerate(rows)}

    grown = cost_aware(variants, [ballot(carried, required=amount)])
    shrunk = cost_aware(variants, [ballot(carried, spare=amount)])

    added = sum((grown[each.key] - each.current_replicas) * carried[each.name] for each in variants)
    # Where all have the largest count, and below what a float divides, nothing is promised but an answer.
    is_full = all(count == MOST_REPLICAS for count in grown.values())
    assert added >= amount * (1 - 1e-9) or is_full or amount < 1e-300
    assert (sum(shrunk.values()) > 0) == any(each.current_replicas for each in variants)
