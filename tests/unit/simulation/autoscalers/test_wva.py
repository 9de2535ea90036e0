"""WVA in a simulated fleet decides what its exact reproduction decides of the same readings."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role
from reconciler.simulation.autoscalers.port import Seen
from reconciler.simulation.autoscalers.wva import KV_LIMIT, PercentSaturation, TokenSaturation
from reconciler.sizing.saturation_readings import VariantFacts, layer_thresholds
from reconciler.upstream.wva_analyzers import Ballot, analyze_percent, percent_targets, signal_of
from reconciler.upstream.wva_limits import cost_aware

THRESHOLDS = layer_thresholds().thresholds
COUNTS, COSTS = st.integers(1, 5), st.sampled_from((5.0, 10.0, 15.0))


def key(index: int) -> ResourceKey:
    return ResourceKey(cluster="prod", namespace="chat", kind="VariantAutoscaling", name=f"v{index}")


def row(*values: float) -> np.ndarray:
    return np.array([values], dtype=np.float64)


def one_model(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


VARIANT = st.tuples(COSTS, COUNTS, COUNTS, st.integers(0, 6), st.integers(0, 20), st.integers(0, 7))


@settings(deadline=None, max_examples=300)
@given(st.lists(VARIANT, min_size=1, max_size=4))
def test_percentages_move_one_replica_as_the_reproduction_does(
    drawn: list[tuple[float, int, int, int, int, int]],
) -> None:
    costs = [each[0] for each in drawn]
    replicas = [each[1] for each in drawn]
    ready = [min(each[1], each[2]) for each in drawn]
    desired = [each[3] for each in drawn]
    kv_used, waiting = [each[4] / 20 for each in drawn], [float(each[5]) for each in drawn]
    facts = [
        VariantFacts(
            key=key(index),
            cost=cost,
            current_replicas=replicas[index],
            desired_replicas=desired[index],
            pending_replicas=replicas[index] - ready[index],
            min_replicas=1,
        )
        for index, cost in enumerate(costs)
    ]
    metrics = [
        ReplicaMetrics(
            variant=key(index), pod=f"p{index}-{pod}", kv_cache_usage=kv_used[index], num_waiting=waiting[index]
        )
        for index, count in enumerate(ready)
        for pod in range(count)
    ]
    reporting = {key(index): count for index, count in enumerate(ready)}
    exact = percent_targets(analyze_percent(metrics, THRESHOLDS), facts, reporting).replicas

    subject = PercentSaturation(model_of=one_model(len(drawn)), cost=np.array(costs), full=1.0, sync_s=15.0)
    subject._desired = row(*desired)
    found = subject.targets(row(*kv_used), row(*waiting), row(*replicas), row(*ready))
    assert found[0].tolist() == [float(exact[key(index)]) for index in range(len(drawn))]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.tuples(
            COSTS, COUNTS, COUNTS, st.sampled_from((0.0, 4000.0, 10_000.0, 15_000.0, 20_000.0)), st.integers(0, 2)
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 200_000),
)
def test_tokens_are_met_as_the_reproduction_meets_them(
    drawn: list[tuple[float, int, int, float, int]], demand: int
) -> None:
    ready = [min(each[1], each[2]) for each in drawn]
    held = [each[3] for each in drawn]
    facts = [
        VariantFacts(key=key(index), cost=cost, current_replicas=count, min_replicas=least, max_replicas=9)
        for index, (cost, count, _, _, least) in enumerate(drawn)
    ]
    signal = signal_of(
        demand=float(demand),
        supply=sum(count * each for count, each in zip(ready, held, strict=True)),
        anticipated=sum(each[1] * each[3] for each in drawn),
        scale_up=0.85,
        scale_down=0.70,
    )
    ballot = Ballot(
        analyzer="tokens",
        signals={Role.BOTH: signal},
        per_replica={key(index): each for index, each in enumerate(held) if each > 0},
    )
    exact = cost_aware(facts, [ballot])

    subject = TokenSaturation(
        model_of=one_model(len(drawn)),
        cost=np.array([each[0] for each in drawn]),
        full=1.0,
        least=np.array([float(each[4]) for each in drawn]),
        most=9.0,
        sync_s=15.0,
    )
    found = subject.targets(row(float(demand)), row(*held), row(*(each[1] for each in drawn)), row(*ready))
    expected = [float(facts[index].clamp(exact[key(index)])) for index in range(len(drawn))]
    assert found[0].tolist() == expected


@pytest.mark.parametrize(
    ("required", "spare", "variants", "expected"),
    [
        pytest.param(25_000, 0, [(5, 10_000, 1), (10, 15_000, 1)], [4, 1], id="O4"),
        pytest.param(0, 15_000, [(5, 10_000, 3), (15, 20_000, 2)], [2, 2], id="O6"),
        pytest.param(0, 30_000, [(15, 20_000, 1), (5, 10_000, 1)], [0, 1], id="O7"),
        pytest.param(0, 15_000, [(15, 20_000, 1), (5, 10_000, 1)], [1, 0], id="O8"),
        pytest.param(0, 50_000, [(15, 20_000, 2), (10, 15_000, 2), (5, 10_000, 2)], [0, 2, 1], id="O9"),
        pytest.param(0, 0, [(5, 10_000, 2)], [2], id="O21"),
        pytest.param(0, 30_000, [(5, 10_000, 3)], [1], id="O23"),
    ],
)
def test_tokens_follow_upstreams_published_rows(
    required: float, spare: float, variants: list[tuple[int, int, int]], expected: list[int]
) -> None:
    held, counts = row(*(each[1] for each in variants)), row(*(each[2] for each in variants))
    supply = float((held * counts).sum())
    demand = 0.85 * (required + supply) if required else 0.70 * (supply - spare)
    subject = TokenSaturation(
        model_of=one_model(len(variants)),
        cost=np.array([each[0] for each in variants]),
        full=1.0,
        least=0.0,
        sync_s=15.0,
    )
    found = subject.targets(row(demand if required or spare else 0.8 * supply), held, counts, counts)
    assert found[0].tolist() == expected


def test_a_capacity_is_what_was_used_while_requests_waited_and_its_mean_later() -> None:
    subject = TokenSaturation(model_of=one_model(1), cost=np.ones(1), full=1.0, sync_s=15.0)
    three = row(3.0)
    assert subject.capacities(row(0.5), row(0.0), three)[0, 0] == KV_LIMIT
    assert subject.capacities(row(0.5), row(6.0), three)[0, 0] == 0.5
    assert subject.capacities(row(0.6), row(2.0), three)[0, 0] == 0.5
    assert subject.capacities(row(0.7), row(5.0), three)[0, 0] == 0.7  # what is seen now, not the mean
    assert subject.capacities(row(0.6), row(2.0), three)[0, 0] == pytest.approx(0.6)  # three of each
    assert subject.capacities(row(0.7), row(5.0), row(0.0))[0, 0] == pytest.approx(0.6)  # stored while none serves
    for _ in range(4):
        subject.capacities(row(0.7), row(5.0), three)
    assert subject.capacities(row(0.1), row(0.0), three)[0, 0] == pytest.approx(0.7)  # the last ten


def seen(at_s: float, replicas: float, load: float, *, waiting: float = 0.0, answers: bool = True) -> Seen:
    return Seen(
        at_s=at_s,
        replicas=row(replicas),
        ready=row(replicas),
        load=row(load),
        running=row(load),
        waiting=row(waiting),
        in_flight=row(load + waiting),
        answers=answers,
    )


def test_both_follow_a_load_through_their_hpa_and_stay_while_nothing_answers() -> None:
    percent = PercentSaturation(model_of=one_model(1), cost=np.ones(1), full=1.25, sync_s=60.0)
    tokens = TokenSaturation(model_of=one_model(1), cost=np.ones(1), full=1.25, sync_s=60.0)
    assert percent.decide(seen(0.0, 4.0, 4.0))[0, 0] == 5.0  # one more a cycle
    assert tokens.decide(seen(0.0, 4.0, 6.0))[0, 0] == 6.0  # four full caches, at 0.85 of 0.8
    assert percent.decide(seen(60.0, 5.0, 9.0, answers=False))[0, 0] == 5.0
    assert tokens.decide(seen(60.0, 6.0, 9.0, answers=False))[0, 0] == 6.0


def test_an_hpa_swallows_one_replica_more_of_many() -> None:
    subject = PercentSaturation(model_of=one_model(1), cost=np.ones(1), full=1.25, sync_s=60.0)
    assert subject.decide(seen(0.0, 20.0, 20.0))[0, 0] == 20.0  # 21 is within the tolerance of 20


def test_models_are_decided_apart_and_settings_broadcast() -> None:
    limits = np.array([[0.5], [1.0]])
    subject = PercentSaturation(
        model_of=np.array([0, 0, 1]), cost=np.array([5.0, 10.0, 1.0]), full=1.0, kv_limit=limits, sync_s=60.0
    )
    counts = np.full((2, 3), 2.0)
    found = subject.targets(row(0.45, 0.45, 0.05), np.zeros((1, 3)), counts, counts)
    assert found.tolist() == [[3.0, 2.0, 1.0], [2.0, 1.0, 1.0]]
    assert math.isfinite(found.sum())
