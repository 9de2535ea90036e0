"""Random whole fleets under random rules: no plan breaks one, whatever the fleet; what rules say is counted anew."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.formulation import MIXED
from reconciler.domain.plan import Decision, Outcome, Plan, VerdictKind
from reconciler.domain.settings import PoolSettings
from reconciler.policy.files import read_policy
from tests.unit.decision.test_whole_fleets import Drawn, built, drawn, empty

__all__ = ["empty"]

FLEETS = int(os.environ.get("ATTACK_RULED_FLEETS", "300"))
BATCH = 50
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
NOISE = 1e-6

Judge = Callable[[Decision, Plan], bool]


def grows(each: Decision) -> bool:
    return each.desired.replicas > each.current.replicas


def cost(value: float | None) -> float:
    assert value is not None
    return value


def keeps_half(each: Decision, _: Plan) -> bool:
    return each.is_accelerator_change or each.desired.replicas >= each.current.replicas - max(
        each.current.replicas // 2, 1
    )


def adds_two(each: Decision, _: Plan) -> bool:
    return each.is_accelerator_change or each.desired.replicas <= each.current.replicas + 2


def at_most_four(each: Decision, _: Plan) -> bool:
    """No further above than now; a step may be the reason that it is above at all."""
    return each.desired.replicas <= max(4, each.current.replicas)


def at_least_two(each: Decision, _: Plan) -> bool:
    return each.desired.replicas >= min(2, each.current.replicas)


def never_to_zero(each: Decision, _: Plan) -> bool:
    return each.desired.replicas > 0 or each.current.replicas == 0


def nothing_on_l4(each: Decision, _: Plan) -> bool:
    return each.desired.accelerator != "L4" or not (each.is_accelerator_change or grows(each))


def nothing_in_group_0(each: Decision, _: Plan) -> bool:
    return each.group != "group-0"


def nothing_down(each: Decision, _: Plan) -> bool:
    return each.desired.replicas >= each.current.replicas


def within_forty(each: Decision, plan: Plan) -> bool:
    """Who costs more where all together cost too much repairs something, and a person decides."""
    if cost(each.cost_after_per_hour) <= cost(each.cost_before_per_hour) + NOISE:
        return True
    before = sum(cost(each.cost_before_per_hour) for each in plan.decisions)
    after = sum(cost(each.cost_after_per_hour) for each in plan.decisions)
    return after <= max(40.0, before) + NOISE or not each.verdict.may_merge_itself


def three_at_once(_: Decision, plan: Plan) -> bool:
    return len(plan.with_outcome(Outcome.CHANGE)) <= 3


def spot_share(decisions: Iterable[Decision], *, after: bool) -> float:
    """What is beyond half of the replicas on L4, which is spot in every fleet."""
    found = [each.desired if after else each.current for each in decisions]
    spot = sum(each.replicas for each in found if each.accelerator == "L4")
    return spot - sum(each.replicas for each in found) / 2


def half_on_spot_of_a_model(each: Decision, plan: Plan) -> bool:
    members = [other for other in plan.decisions if other.model == each.model]
    return spot_share(members, after=True) <= max(spot_share(members, after=False), 0) + NOISE


def half_on_spot_of_all(_: Decision, plan: Plan) -> bool:
    return spot_share(plan.decisions, after=True) <= max(spot_share(plan.decisions, after=False), 0) + NOISE


def one_of_a_model(each: Decision, plan: Plan) -> bool:
    return sum(other.model == each.model for other in plan.with_outcome(Outcome.CHANGE)) == 1


def asks_beyond_double(each: Decision, _: Plan) -> bool:
    return each.desired.replicas <= 2 * max(each.current.replicas, 1) or not each.verdict.may_merge_itself


def asks_for_moves(each: Decision, _: Plan) -> bool:
    return not (each.is_accelerator_change and each.desired.replicas) or not each.verdict.may_merge_itself


def changes_more_than_one(each: Decision, _: Plan) -> bool:
    return abs(each.desired.replicas - each.current.replicas) != 1 or each.is_accelerator_change


RULES: Mapping[str, Judge] = {
    "step: {down: 50%}": keeps_half,
    "step: {up: 2}": adds_two,
    "bounds: {maxReplicas: 4}": at_most_four,
    "bounds: {minReplicas: 2}": at_least_two,
    "scope: {direction: [toZero]}, bounds: {minReplicas: 1}": never_to_zero,
    "accelerators: {denied: [L4]}": nothing_on_l4,
    'scope: {direction: [down]}, freeze: {cron: "0 0 * * *", for: 24h}': nothing_down,
    "budget: {amount: 40, per: hour}": within_forty,
    "changeLimit: {changes: 3}": three_at_once,
    "spot: {maxShare: 50%}": half_on_spot_of_a_model,
    "spot: {maxShare: 50%, of: fleet}": half_on_spot_of_all,
    "availability: {variantsAtOnce: 1}": one_of_a_model,
    "approval: {upMoreThan: 100%}": asks_beyond_double,
    "approval: {acceleratorChange: true}": asks_for_moves,
    "deny: {when: 'change.added * change.added == 1 && !change.move'}": changes_more_than_one,
}


def chosen(seed: int) -> list[str]:
    draw = random.Random(f"rules/{seed}")  # noqa: S311 - the same in every run
    return draw.sample(sorted(RULES), draw.randint(1, 5))


def ruled(fleet: Any, rules: list[str]) -> Any:
    lines = [f"  - {{name: rule-{index}, {rule}}}" for index, rule in enumerate(rules)]
    (cluster,) = fleet.settings.clusters
    spot = replace(cluster, pools=(PoolSettings(name="l4", device="L4", devices=None, tier="spot"),))
    fleet.set(rules=read_policy("p.yaml", (HEADER + "\n".join(lines)).encode()).rules, clusters=(spot,))
    return fleet


@pytest.mark.parametrize("first", range(0, FLEETS, BATCH))
def test_no_plan_breaks_a_rule(empty: Any, make: Any, first: int) -> None:
    for seed in range(first, min(first + BATCH, FLEETS)):
        rules = chosen(seed)
        plan = ruled(built(empty, make, drawn(seed)), rules).plan()
        for each in plan.with_outcome(Outcome.CHANGE):
            assert each.verdict.kind not in (VerdictKind.REFUSE, VerdictKind.HOLD), seed
            for rule in rules:
                assert RULES[rule](each, plan), (seed, rule, each.variant.name, each.current, each.desired)


@pytest.mark.parametrize("first", range(0, FLEETS // 3, BATCH))
def test_rules_in_the_plan_cost_no_more_than_a_plan_cut_afterwards(
    empty: Any,
    make: Any,
    first: int,
) -> None:
    for seed in range(first, min(first + BATCH, FLEETS // 3)):
        fleet = alone(drawn(seed))
        free = built(empty, make, fleet).plan()
        cut = ruled(built(empty, make, fleet), ["step: {down: 50%}"]).plan()
        if free.with_outcome(Outcome.HELD) or cut.with_outcome(Outcome.HELD):
            continue
        clamped, active = 0.0, Counter[object]()
        for each in free.decisions:
            least = each.current.replicas - max(each.current.replicas // 2, 1)
            price = cost(each.cost_after_per_hour) / each.desired.replicas if each.desired.replicas else 0.0
            price = price or (cost(each.cost_before_per_hour) / max(each.current.replicas, 1))
            clamped += price * max(each.desired.replicas, least)
            active[each.model] += max(each.desired.replicas, least) > 0
        if max(active.values()) > MIXED:
            continue  # no plan: it would leave what was to go beside what was to take its place
        assert sum(cost(each.cost_after_per_hour) for each in cut.decisions) <= clamped * (1 + 1e-3) + NOISE, seed


def alone(fleet: Drawn) -> Drawn:
    """Only numbers are decided: nothing is open, starts, moves, or waits for devices or other pull requests."""
    fleet.proposed.clear()
    fleet.stock = {name: count + 1000 for name, count in fleet.stock.items()}
    for each in fleet.variants.values():
        each["is_unready"], each["group"] = False, "group-0"
        each["batches"] = {each["runs_on"]: each["batches"][each["runs_on"]]}
    return fleet
