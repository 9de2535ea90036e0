"""Answers of metric targets by workload: whose rule, what it reads of a history, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.decision.engines import tracking
from reconciler.decision.engines import tracking as kthena
from reconciler.decision.engines.tracking import TrackedAnswer, track_targets
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    Backend,
    BackendHistory,
    Behavior,
    Generation,
    MetricTarget,
    Panic,
    PodTotals,
    Policy,
    Rate,
    RatioRange,
    RolePairing,
    TrackedBackend,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.domain.variant_settings import Engine
from reconciler.sizing.tracking_loads import KTHENA_V0, KTHENA_V0_CORRECTED, KTHENA_V1, TRACKING, TrackingRule

LOOPS = {engine.name: engine.rule_of for engine in (tracking.TRACKING, kthena.KTHENA_V0, kthena.KTHENA_V1)}
NAN = float("nan")
NOW_S = 1_790_000_000.0
TICKS = 61
G1, G2, G3, G4 = Generation
QUICK = Behavior(
    down=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=30.0),
    up=Rate(instances=2, percent=100, period_s=15.0, stabilization_s=0.0),
    panic=Panic(percent=200, period_s=5.0, threshold_percent=200, hold_s=30.0),
)
Values = float | Sequence[float]


def workload(name: str, **changes: Any) -> TrackedBackend:
    return TrackedBackend(
        backend=replace(Backend(name=name, min_replicas=1, max_replicas=20), **changes),
        scale_target=ResourceKey(cluster="prod", namespace="llm", kind="ModelServing", name=name),
    )


def target(name: str = "chat", *backends: TrackedBackend, generation: Generation = G4, **policy: Any) -> TrackedTarget:
    return TrackedTarget(
        key=ResourceKey(cluster="prod", namespace="llm", kind="AutoscalingPolicy", name=name),
        policy=Policy(metrics=(MetricTarget(name="m", per_replica=10.0),), **policy),
        backends=backends or (workload(name),),
        generation=generation,
    )


def series(values: Values, ticks: int = TICKS) -> tuple[float, ...]:
    return (float(values),) * ticks if isinstance(values, (int, float)) else tuple(map(float, values))


def seen(load: Values, *, replicas: Values = 5.0, unready: Values = 0.0, external: bool = False) -> BackendHistory:
    total = series(load)
    counts = series(replicas, len(total))
    reporting = tuple(0.0 if value != value else 1.0 for value in total)
    pods = {} if external else {"m": PodTotals(total=total, reporting=reporting, missing=series(0.0, len(total)))}
    return BackendHistory(
        replicas=counts,
        unready=series(unready, len(total)),
        pods=pods,
        external={"m": total} if external else {},
    )


def history(*backends: BackendHistory, **changes: Any) -> TrackedHistory:
    ticks = len(backends[0].replicas)
    whole = TrackedHistory(start_s=NOW_S - 15.0 * (ticks - 1), step_s=15.0, backends=backends)
    return replace(whole, **changes)


def decide(
    one: TrackedTarget, found: TrackedHistory | None, engine: Engine = Engine.TRACKING
) -> Mapping[str, TrackedAnswer]:
    histories = {} if found is None else {one.key: found}
    return {key.name: answer for key, answer in track_targets([one], histories, NOW_S, LOOPS[engine]).items()}


@pytest.mark.parametrize(
    ("engine", "generations", "rule"),
    [
        (Engine.TRACKING, (G1, G2, G3, G4), TRACKING),
        (Engine.KTHENA_V0, (G1, G2), KTHENA_V0_CORRECTED),
        (Engine.KTHENA_V0, (G3, G4), KTHENA_V0),
        (Engine.KTHENA_V1, (G1, G2, G3, G4), KTHENA_V1),
    ],
)
def test_an_engine_runs_the_loop_of_the_releases_that_read_a_policy(
    engine: Engine, generations: Sequence[Generation], rule: TrackingRule
) -> None:
    assert {LOOPS[engine](generation).name for generation in generations} == {rule.name}
    assert all(LOOPS[engine](generation) == rule for generation in generations)


def test_a_workload_gets_what_its_load_needs() -> None:
    answer = decide(target(), history(seen(70.0, replicas=5)))["chat"]
    assert (answer.replicas, answer.current, answer.rule) == (7, 5, "tracking")
    assert answer.target.kind == "AutoscalingPolicy"
    assert answer.reasons == ()


def test_a_groups_total_is_split_by_cost_and_said() -> None:
    dear, cheap = workload("h100", cost=100), workload("a100", cost=60, max_replicas=3)
    found = history(seen(40.0, replicas=1), seen(30.0, replicas=1))
    answers = decide(target("group", dear, cheap, behavior=QUICK), found)
    assert {name: answer.replicas for name, answer in answers.items()} == {"h100": 4, "a100": 3}
    assert answers["h100"].steps[-1].reason == ("of 7 for all backends, in the order of their costs; this one's is 100")


def test_all_targets_of_a_rule_are_replayed_on_one_clock() -> None:
    long, short = target("long"), target("short", behavior=QUICK)
    found = {long.key: history(seen(70.0)), short.key: history(seen([20.0] * 15, replicas=4))}
    answers = {
        key.name: answer for key, answer in track_targets([long, short], found, NOW_S, LOOPS[Engine.TRACKING]).items()
    }
    assert answers["long"].replicas == 7
    assert answers["short"].replicas == 2
    alone = track_targets([short], found, NOW_S, LOOPS[Engine.TRACKING])[short.backends[0].scale_target]
    assert alone.replicas == 2


def test_what_is_missing_is_said_with_its_cause() -> None:
    found = history(seen([20.0] * 60 + [NAN]), reasons=("no pod reports m: is that its name?",))
    answer = decide(target(), found)["chat"]
    assert answer.replicas is None
    assert answer.reasons == ("no metric could be read now: m", "no pod reports m: is that its name?")
    assert answer.steps[0].stage == "hold"


def test_a_metric_that_is_a_typo_shrinks_nothing() -> None:
    for engine in (Engine.TRACKING, Engine.KTHENA_V0, Engine.KTHENA_V1):
        for generation in Generation:
            answer = decide(target(generation=generation), history(seen([NAN] * TICKS, replicas=9)), engine)["chat"]
            assert answer.replicas is None


def test_without_a_history_everything_is_held() -> None:
    answer = decide(target(), None)["chat"]
    assert answer.replicas is None
    assert answer.reasons == ("how many replicas run was never recorded", "nothing was read for llm/chat")
    odd = history(seen(20.0), seen(20.0))
    assert decide(target(), odd)["chat"].replicas is None


def test_what_odd_readings_did_not_change_is_a_note() -> None:
    answer = decide(target(), history(seen(70.0), reasons=("m of pod a: 1 readings are negative",), notes=("n",)))[
        "chat"
    ]
    assert answer.replicas == 7
    assert answer.reasons == ()
    assert answer.notes[-2:] == ("m of pod a: 1 readings are negative", "n")


# -- what a rule reads -----------------------------------------------------------------------------------------------


def test_a_counter_is_a_rate_to_us_and_a_load_upstream() -> None:
    rate = PodTotals(total=series(60.0), reporting=series(1.0), missing=series(0.0))
    found = history(replace(seen(150.0), rates={"m": rate}))
    assert decide(target(), found)["chat"].replicas == 6
    theirs = decide(target(), found, Engine.KTHENA_V1)["chat"]
    assert theirs.replicas == 15
    assert theirs.notes == ("m only grows: kthena-v1 takes what it has counted so far as the load",)


@pytest.mark.parametrize(
    ("engine", "generation", "is_said"),
    [
        (Engine.TRACKING, G3, False),
        (Engine.KTHENA_V0, G3, True),
        (Engine.KTHENA_V0, G1, True),
        (Engine.KTHENA_V1, G4, False),
    ],
)
def test_label_sets_that_upstream_would_not_read_are_said(
    engine: Engine, generation: Generation, is_said: bool
) -> None:
    answer = decide(target(generation=generation), history(seen(70.0), label_sets={"m": 3}), engine)["chat"]
    words = "m has up to 3 label sets a pod: kthena-v0 reads the first of them"
    assert any(words in note for note in answer.notes) is is_said


def test_one_pod_that_is_not_ready_blinded_upstream_before_the_fourth_generation() -> None:
    found = history(seen(70.0, unready=[0.0] * 60 + [2.0]))
    assert decide(target(), found)["chat"].replicas == 7
    assert decide(target(generation=G3), found, Engine.KTHENA_V0)["chat"].replicas is None
    steady = history(seen(70.0, unready=2.0))
    assert decide(target(generation=G3), steady, Engine.KTHENA_V0)["chat"].replicas is None
    assert decide(target(), steady, Engine.KTHENA_V1)["chat"].replicas == 7


def test_an_idle_target_goes_to_zero_after_its_grace_period_alone() -> None:
    idle = target("chat", workload("chat", min_replicas=0, scale_to_zero_grace_s=300.0), behavior=QUICK)
    still = seen(0.0, replicas=1)
    assert decide(idle, history(still, activity=series(0.0)))["chat"].replicas == 0
    assert decide(idle, history(still, activity=series([0.0] * 55 + [0.2] + [0.0] * 5)))["chat"].replicas == 1
    assert decide(idle, history(still, activity=series([0.0] * 55 + [NAN] + [0.0] * 5)))["chat"].replicas == 1


def test_at_zero_only_a_metric_from_elsewhere_wakes_a_target() -> None:
    asleep = target("chat", workload("chat", min_replicas=0))
    held = decide(asleep, history(seen([NAN] * TICKS, replicas=0), reasons=("chat has no pods",)))["chat"]
    assert held.replicas is None
    assert held.reasons == (
        "at zero replicas no pod reports m: only a metric from elsewhere can wake it",
        "chat has no pods",
    )
    assert decide(asleep, history(seen([0.0] * 60 + [25.0], replicas=0, external=True)))["chat"].replicas == 3


# -- roles and rivals ------------------------------------------------------------------------------------------------


def role(name: str, pairing: RolePairing | None, **changes: Any) -> TrackedTarget:
    one = target("chat", workload("chat", **changes))
    scaled = replace(one.backends[0], scale_target=replace(one.backends[0].scale_target, part=name))
    return replace(one, key=replace(one.key, part=name), backends=(scaled,), pairing=pairing)


def paired(minimum: float = 0.25, maximum: float = 1.0) -> tuple[TrackedTarget, TrackedTarget]:
    keys = [replace(target().key, part=name) for name in ("prefill", "decode")]
    pairing = RolePairing(numerator=keys[0], denominator=keys[1], ratio=RatioRange(minimum=minimum, maximum=maximum))
    return role("prefill", pairing), role("decode", pairing)


def test_two_roles_keep_their_ratio_and_are_answered_by_role() -> None:
    prefill, decode = paired()
    found = {prefill.key: history(seen(70.0)), decode.key: history(seen(30.0, replicas=7))}
    answers = track_targets([decode, prefill], found, NOW_S, LOOPS[Engine.TRACKING])
    assert {key.part: answer.replicas for key, answer in answers.items()} == {"prefill": 7, "decode": 7}


def test_a_role_whose_partner_is_not_there_is_held() -> None:
    prefill, _ = paired()
    answers = track_targets([prefill], {prefill.key: history(seen(70.0))}, NOW_S, LOOPS[Engine.TRACKING])
    assert [answer.replicas for answer in answers.values()] == [None]
    assert "a ratio needs two different roles" in next(iter(answers.values())).reasons[0]


def test_a_fixed_role_needs_no_metric() -> None:
    prefill, decode = paired(0.0, 9.0)
    fixed = replace(role("decode", decode.pairing, min_replicas=3, max_replicas=3), policy=Policy(metrics=()))
    found = {prefill.key: history(seen(70.0)), fixed.key: history(replace(seen(0.0, replicas=4), pods={}))}
    answers = track_targets([prefill, fixed], found, NOW_S, LOOPS[Engine.TRACKING])
    assert {key.part: answer.replicas for key, answer in answers.items()} == {"prefill": 7, "decode": 3}


def test_what_two_policies_scale_is_held_with_all_that_hangs_on_it() -> None:
    group, rival = target("group", workload("chat"), workload("code")), target("rival", workload("chat"))
    found = {group.key: history(seen(70.0), seen(70.0)), rival.key: history(seen(70.0))}
    answers = track_targets([group, rival], found, NOW_S, LOOPS[Engine.TRACKING])
    assert [answer.replicas for answer in answers.values()] == [None, None]
    assert {answer.reasons for answer in answers.values()} == {
        ("llm/chat is scaled by several policies: llm/group, llm/rival; leave one of them",)
    }


# -- where it starts from --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", [G1, G2])
def test_the_first_generations_say_what_they_began_with(generation: Generation) -> None:
    falling = [150.0] * 20 + [25.0] * 41
    answer = decide(
        target(generation=generation, behavior=QUICK), history(seen(falling, replicas=2)), Engine.KTHENA_V0
    )["chat"]
    assert answer.depends_on_start
    assert "begun with the 2 replicas recorded first: the windows of kthena-v0 never forget them" in answer.notes
    assert answer.replicas == 15
    third = decide(target(generation=G3, behavior=QUICK), history(seen(falling, replicas=2)), Engine.KTHENA_V0)["chat"]
    assert (third.replicas, third.depends_on_start) == (3, False)


@pytest.mark.parametrize("engine", [Engine.KTHENA_V0, Engine.KTHENA_V1])
def test_groups_of_every_generation_say_what_they_began_with(engine: Engine) -> None:
    group = target("group", workload("a"), workload("b"), generation=G3, behavior=QUICK)
    found = history(seen(30.0, replicas=2), seen(30.0, replicas=3))
    for answer in decide(group, found, engine).values():
        assert f"begun with the 5 replicas recorded first: the windows of {engine} never forget them" in answer.notes
    assert not any("begun with" in note for note in decide(group, found)["a"].notes)


behaviors = st.sampled_from(
    [DEFAULT_BEHAVIOR, QUICK, replace(DEFAULT_BEHAVIOR, up=replace(DEFAULT_BEHAVIOR.up, period_s=15.0))]
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(min_value=12.0, max_value=190.0), min_size=6, max_size=6),
    st.sampled_from([(Engine.TRACKING, G1), (Engine.TRACKING, G4), (Engine.KTHENA_V0, G3), (Engine.KTHENA_V1, G4)]),
    behaviors,
    st.integers(1, 20),
    st.integers(1, 20),
)
def test_where_one_workload_starts_is_forgotten_after_the_warm_up(
    levels: list[float], reproduced: tuple[Engine, Generation], behavior: Behavior, one: int, other: int
) -> None:
    """Half an hour in steps of five minutes; without tolerance, which holds whatever count it has."""
    engine, generation = reproduced
    load = np.repeat(levels, 20).tolist()
    policies = [target(name, generation=generation, behavior=behavior, tolerance_percent=0) for name in ("a", "b")]
    starts = zip(policies, (one, other), strict=True)
    found = {policy.key: history(seen(load, replicas=[start] * 119 + [20])) for policy, start in starts}
    first, second = track_targets(policies, found, NOW_S, LOOPS[engine]).values()
    assert first.replicas == second.replicas
    assert not first.depends_on_start


# -- what explain prints ---------------------------------------------------------------------------------------------


def test_every_number_on_the_way_can_be_told() -> None:
    climbing = history(seen([20.0] * 58 + [150.0] * 3, replicas=2), queries={"m": "tracked_metric m"})
    answer = decide(target(), climbing)["chat"]
    figures = {figure.name: figure for figure in answer.figures}
    assert figures["m in total"].value == 150.0
    assert figures["m in total"].queries == ("tracked_metric m",)
    assert figures["m asks for"].value == 15
    assert figures["limit of the rate"].value == 6
    assert figures["desired"].value == answer.replicas == 6
    assert figures["replicas the replay began with"].value == 2
    assert figures["history without a gap"].value == 900.0
    assert {figure.subject for figure in answer.figures} == {"llm/chat"}
    assert [step.stage for step in answer.steps] == ["metrics", "rate"]


def test_a_number_that_is_not_known_has_a_reason() -> None:
    for found in (None, history(seen([NAN] * TICKS)), history(seen([20.0] * 60 + [NAN]))):
        for figure in decide(target(), found)["chat"].figures:
            assert figure.value is not None or figure.reason
