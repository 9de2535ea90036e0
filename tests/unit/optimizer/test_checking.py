"""The independent check finds every rule that a plan may break."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import (
    Bounds,
    Budget,
    Candidate,
    ChangeLimit,
    Pool,
    Problem,
    Ratio,
    Requirement,
    Segment,
)
from reconciler.optimizer.device_use import exceeded, violations

MODEL = ModelKey(cluster="prod", namespace="llm", model_id="llama")


def key(name: str) -> ResourceKey:
    return ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name=name)


def row(name: str, role: str) -> Requirement:
    carried = {key(name).on(on): 1.0 for on in ("H100", "L4")}
    return Requirement(
        model=replace(MODEL, role=role), unit="req/s", segments=(Segment(amount=4.0),), per_replica=carried
    )


PROBLEM = Problem(
    requirements=(row("decode", "decode"), row("prefill", "prefill")),
    candidates=tuple(
        Candidate(key=key(name).on("H100"), weight=2.0, cost_per_hour=2.0, devices={"H100": 2})
        for name in ("decode", "prefill")
    ),
    current={key(name): Allocation(accelerator="H100", replicas=2) for name in ("decode", "prefill")},
    current_weights={key(name): 2.0 for name in ("decode", "prefill")},
    bounds={key(name): Bounds(minimum=1, maximum=6) for name in ("decode", "prefill")},
    pools=(Pool(name="H100", devices=16),),
    budgets=(Budget(name="team", variants=frozenset({key("decode"), key("prefill")}), amount=14.0),),
    change_limits=(ChangeLimit(name="request", variants=frozenset({key("decode"), key("prefill")}), changes=2),),
    ratios=(Ratio(model=MODEL, over="prefill", under="decode", least=0.5, most=2.0),),
    current_devices={key(name): {"H100": 2} for name in ("decode", "prefill")},
)

Change = Callable[[Problem], Problem]


def plan(decode: int, prefill: int, on: str = "H100") -> Mapping[ResourceKey, Allocation]:
    return {
        key("decode"): Allocation(accelerator=on, replicas=decode),
        key("prefill"): Allocation(accelerator="H100", replicas=prefill),
    }


def test_a_plan_that_keeps_all_rules_has_no_violation() -> None:
    assert violations(PROBLEM, plan(3, 4)) == ()


@pytest.mark.parametrize(
    ("change", "found", "words"),
    [
        (lambda problem: problem, plan(0, 0), "llm/decode has 0 replicas, its bounds are 1 to 6"),
        (lambda problem: problem, plan(7, 7), "llm/decode has 7 replicas, its bounds are 1 to 6"),
        (lambda problem: problem, plan(2, 2, "L4"), "llm/decode runs on L4, which was not offered"),
        (
            lambda problem: replace(problem, pools=(Pool(name="H100", devices=13),)),
            plan(3, 4),
            "pool H100 has 13 devices, the plan takes 14",
        ),
        (lambda problem: problem, plan(4, 4), "budget team has 14, the plan spends 16"),
        (
            lambda problem: replace(problem, change_limits=(replace(problem.change_limits[0], changes=1),)),
            plan(3, 4),
            "request admits 1 changes, the plan makes 2",
        ),
        (lambda problem: problem, plan(3, 1), "prefill to decode of llama is 1 to 3"),
        (lambda problem: problem, plan(1, 3), "prefill to decode of llama is 3 to 1"),
    ],
)
def test_each_broken_rule_is_named(change: Change, found: Mapping[ResourceKey, Allocation], words: str) -> None:
    assert words in violations(change(PROBLEM), found)


def test_more_variants_than_may_serve_are_named() -> None:
    both = Requirement(
        model=MODEL,
        unit="req/s",
        segments=(Segment(amount=4.0),),
        per_replica={each.key: 1.0 for each in PROBLEM.candidates},
        active_limit=1,
    )
    idle = {name: Allocation(accelerator="H100", replicas=0) for name in PROBLEM.current}
    free = {name: Bounds(minimum=0) for name in PROBLEM.current}
    problem = replace(PROBLEM, requirements=(both,), ratios=(), current=idle, bounds=free)
    words = "llama is served by 2 variants, 1 may"
    assert words in violations(problem, plan(1, 1))
    assert words not in violations(problem, plan(2, 0))
    # What is pinned serves too.
    pinned = {key("prefill"): Allocation(accelerator="H100", replicas=1)}
    assert words in violations(replace(problem, pinned=pinned), {**plan(1, 1), **pinned})
    # Who serves already may go on.
    assert words not in violations(replace(problem, current=dict(plan(1, 1))), plan(1, 1))


def test_a_finished_answer_is_cut_and_never_exceeded() -> None:
    fixed = Requirement(model=MODEL, unit="replicas", segments=(), per_replica={}, fixed={key("decode"): 3})
    problem = replace(PROBLEM, requirements=(fixed,), ratios=())
    only = {key("decode"): Allocation(accelerator="H100", replicas=4)}
    assert "llm/decode has 4 replicas, its bounds are 1 to 3" in violations(problem, only)
    assert violations(problem, {key("decode"): Allocation(accelerator="H100", replicas=2)}) == ()


def test_no_answer_may_exceed_an_upper_bound_or_a_pool() -> None:
    assert exceeded(PROBLEM, plan(7, 1)) == ("llm/decode has 7 replicas, at most 6 may run",)
    assert exceeded(PROBLEM, plan(6, 3)) == ("pool H100 has 16 devices, the plan takes 18",)


def test_a_reproduction_may_go_below_a_bound() -> None:
    assert exceeded(PROBLEM, plan(0, 0)) == ()
    assert violations(PROBLEM, plan(6, 2)) != () == exceeded(PROBLEM, plan(6, 2))
