"""Guard rails in whole decisions: what they cut, what they hold, and which change they leave to a person."""

import math
from typing import Any

import numpy as np
import pytest

from reconciler.decision.decide import find_stopping
from reconciler.domain.observed import LiveReplicas, Observation, Performance
from reconciler.domain.plan import Outcome, VerdictKind
from reconciler.domain.proposals import Promise, PromisedLatency, ProposalState
from reconciler.domain.recording import PaidPrices, WrittenCounts
from reconciler.policy.files import read_policy
from tests.unit.decision.conftest import key

HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
HOUR_S = 3600.0


@pytest.fixture
def ruled(fleet: Any) -> Any:
    """A fleet with a way to give it rules, one a text."""

    def rule(*rules: str) -> None:
        text = HEADER + "\n".join(f"  - {each}" for each in rules)
        fleet.set(rules=read_policy("p.yaml", text.encode()).rules)

    fleet.price(H100=6.0)
    return fleet, rule


def said(decision: Any) -> tuple[str, VerdictKind, str]:
    return f"{decision.current.replicas} -> {decision.desired.replicas}", decision.verdict.kind, decision.verdict.rule


ALLOW, HOLD, CLAMP = VerdictKind.ALLOW, VerdictKind.HOLD, VerdictKind.CLAMP
APPROVAL = VerdictKind.NEEDS_APPROVAL


@pytest.mark.parametrize(
    ("rule", "replicas", "load", "expected"),
    [
        # A replica carries 9.99 requests a second.
        ("{name: a, step: {down: 50%}}", 8, 10.0, ("8 -> 4", CLAMP, "a")),
        ("{name: a, step: {down: 50%}}", 7, 10.0, ("7 -> 4", CLAMP, "a")),
        ("{name: a, step: {down: 50%}}", 4, 10.0, ("4 -> 2", ALLOW, "")),
        ("{name: a, step: {down: 10%}}", 3, 5.0, ("3 -> 2", CLAMP, "a")),
        ("{name: a, step: {up: 2}}", 1, 55.0, ("1 -> 3", CLAMP, "a")),
        ("{name: a, step: {up: 200%}}", 2, 55.0, ("2 -> 6", ALLOW, "")),
        ("{name: a, step: {up: 0}}", 2, 55.0, ("2 -> 2", HOLD, "a")),
        ("{name: a, bounds: {maxReplicas: 4}}", 2, 55.0, ("2 -> 4", CLAMP, "a")),
        ("{name: a, bounds: {minReplicas: 3}}", 6, 10.0, ("6 -> 3", CLAMP, "a")),
        ("{name: a, bounds: {minReplicas: 5}}", 2, 10.0, ("2 -> 5", CLAMP, "a")),
        ("{name: a, scope: {direction: [down]}, bounds: {minReplicas: 5}}", 3, 10.0, ("3 -> 3", HOLD, "a")),
        ("{name: a, scope: {namespace: other}, step: {up: 1}}", 1, 55.0, ("1 -> 6", ALLOW, "")),
        ("{name: a, scope: {namespace: ll*}, step: {up: 1}}", 1, 55.0, ("1 -> 2", CLAMP, "a")),
        ("{name: a, approval: {upMoreThan: 100%}}", 1, 55.0, ("1 -> 6", APPROVAL, "a")),
        ("{name: a, approval: {upMoreThan: 100%}}", 3, 55.0, ("3 -> 6", ALLOW, "")),
        ("{name: a, approval: {costMoreThan: 18}}", 3, 55.0, ("3 -> 6", ALLOW, "")),
        ("{name: a, approval: {costMoreThan: 17.9}}", 3, 55.0, ("3 -> 6", APPROVAL, "a")),
        ("{name: a, approval: {costUpMoreThan: 99%}}", 3, 55.0, ("3 -> 6", APPROVAL, "a")),
        ("{name: a, approval: {costUpMoreThan: 0%}}", 8, 10.0, ("8 -> 2", ALLOW, "")),
        ("{name: a, approval: {downMoreThan: 5}}", 8, 10.0, ("8 -> 2", APPROVAL, "a")),
        ("{name: a, approval: {}}", 8, 10.0, ("8 -> 2", APPROVAL, "a")),
        ("{name: a, scope: {direction: [up]}, approval: {}}", 8, 10.0, ("8 -> 2", ALLOW, "")),
        ("{name: a, scope: {priority: {atLeast: 1}}, approval: {}}", 8, 10.0, ("8 -> 2", ALLOW, "")),
    ],
)
def test_a_rule_cuts_a_change_or_leaves_it_to_a_person(
    ruled: Any, rule: str, replicas: int, load: float, expected: tuple[str, VerdictKind, str]
) -> None:
    fleet, rules = ruled
    rules(rule)
    fleet.add(replicas=replicas)
    fleet.offer(load)
    assert said(fleet.decision()) == expected


def test_without_rules_a_person_merges_everything(ruled: Any) -> None:
    fleet, _ = ruled
    fleet.add(replicas=1)
    fleet.offer(55.0)
    assert fleet.decision().verdict.kind is APPROVAL


def test_every_rule_that_spoke_is_a_step_and_the_strictest_is_the_verdict(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: ask, approval: {}}", "{name: slow, step: {up: 1}}")
    fleet.add(replicas=1)
    fleet.offer(55.0)
    decision = fleet.decision()
    assert (decision.verdict.rule, decision.verdict.may_merge_itself) == ("slow", False)
    assert [step.reason for step in decision.steps if step.stage == "policy"] == [
        "clamp: rule slow (p.yaml:5): at most 1 up at once, 6 would be needed",
        "needs approval: rule ask (p.yaml:4): a person merges it",
    ]
    assert decision.verdict.reason == "at most 1 up at once, 6 would be needed (p.yaml:5)"


def test_bounds_are_reached_at_the_pace_of_steps(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: floor, bounds: {minReplicas: 8}}", "{name: slow, step: {up: 2}}")
    fleet.add(replicas=1)
    fleet.offer(10.0)
    assert fleet.decision().desired.replicas == 3


def test_rules_that_no_number_keeps_hold_the_variant_and_name_both(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: floor, bounds: {minReplicas: 8}}", "{name: cap, bounds: {maxReplicas: 2}}")
    fleet.add(replicas=4)
    fleet.offer(10.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == "rules floor (p.yaml:4) and cap (p.yaml:5) leave no number of replicas"


def test_a_rule_that_cannot_be_read_holds_its_scope_and_is_told(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: a, scope: {name: llama}, stepp: {}}")
    fleet.add(replicas=1)
    fleet.add("qwen", model_id="qwen", replicas=1)
    fleet.offer(55.0)
    fleet.offer(55.0, "qwen")
    held, free = fleet.decision(), fleet.decision("qwen")
    assert (held.outcome, free.outcome) == (Outcome.HELD, Outcome.CHANGE)
    assert held.hold.words.startswith("rule a (p.yaml:4) cannot be read: rules[0].stepp: unknown field, did you mean")
    assert [finding.message for finding in fleet.plan().findings] == ['unknown field, did you mean "step"?']


def test_a_first_change_needs_a_person_until_one_was_merged(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: first, approval: {firstChange: true}}")
    fleet.add(replicas=1)
    fleet.offer(55.0)
    assert fleet.decision().verdict.kind is APPROVAL
    merged = {"state": ProposalState.MERGED, "closed_at_s": fleet.now_s - HOUR_S}
    fleet.propose(make.change("llama", "3 x H100", "1 x H100"), **merged)
    assert fleet.decision().verdict.kind is ALLOW


def test_steps_of_an_hour_count_what_was_merged_in_it(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: slow, step: {up: 2, per: hour}}")
    fleet.add(replicas=2)
    fleet.offer(55.0)
    assert fleet.decision().desired.replicas == 4
    for age_s, admitted in ((HOUR_S / 2, 3), (2 * HOUR_S, 4)):
        fleet.proposals.clear()
        merged = {"state": ProposalState.MERGED, "closed_at_s": fleet.now_s - age_s}
        fleet.propose(make.change("llama", "1 x H100", "2 x H100"), **merged)
        assert fleet.decision().desired.replicas == admitted


def test_steps_do_not_count_a_move_to_another_accelerator(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    fleet.price(L4=1.0, H100=2.0)
    rules("{name: half, step: {down: 50%}}", "{name: moved, approval: {acceleratorChange: true}}")
    fleet.add(replicas=9, runs_on="L4", profiles=(make.profile("L4", 2), make.profile("H100", 20)))
    fleet.offer(15.0)
    decision = fleet.decision()
    assert (decision.desired.accelerator, decision.desired.replicas) == ("H100", 1)
    assert said(decision)[1:] == (APPROVAL, "moved")


def test_a_learned_profile_needs_a_person_until_it_is_old_enough(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: young, approval: {learnedWithin: 7d}}")
    day = "2027-01-14"  # now is the 15th
    fleet.add(replicas=1, profiles=(make.learned("H100", on=day),))
    fleet.offer(55.0)
    assert said(fleet.decision())[1:] == (APPROVAL, "young")
    fleet.now_s += 8 * 86400.0
    assert fleet.decision().verdict.kind is not APPROVAL


def test_a_share_of_a_pool_is_a_cap(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: share, bounds: {maxPoolShare: 50%}}")
    fleet.stock(H100=8)
    fleet.add(replicas=1, workload={"devices": {"nvidia.com/gpu": 1}})
    fleet.offer(60.0)
    assert said(fleet.decision()) == ("1 -> 4", CLAMP, "share")


def test_who_is_short_beside_a_variant_that_a_rule_stops_is_told_of_the_rule(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: cap, scope: {name: llama}, bounds: {maxReplicas: 3}}")
    fleet.add(replicas=1)
    fleet.add("other", replicas=1, max_replicas=2)
    fleet.offer(200.0)
    told = next(each for each in fleet.plan().decisions if each.variant.name == "other").steps
    assert "3 of llm/llama by rule cap" in " ".join(each.reason for each in told)
    assert "maxReplicas 3 of llm/llama" not in " ".join(each.reason for each in told)


def test_an_open_pull_request_that_a_newer_rule_stops_is_not_kept(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: cap, bounds: {maxReplicas: 3}}")
    fleet.add(replicas=1)
    fleet.offer(55.0)
    fleet.propose(make.change("llama", "1 x H100", "6 x H100"))
    assert fleet.decision().desired.replicas == 3


def merged_ago(fleet: Any, make: Any, age_s: float) -> None:
    fleet.proposals.clear()
    fields = {"state": ProposalState.MERGED, "closed_at_s": fleet.now_s - age_s}
    fleet.propose(make.change("llama", "1 x H100", "2 x H100"), **fields)


def test_after_a_merge_a_variant_settles_and_says_what_it_waits_for(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: settle, cooldown: {after: 30m}}")
    fleet.add(replicas=2)
    fleet.offer(55.0)
    merged_ago(fleet, make, 600.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.UNCHANGED
    assert decision.waiting.words == (
        "rule settle (p.yaml:4): its last change is to settle until 08:20 UTC, 6 would be needed"
    )
    assert said(decision) == ("2 -> 2", HOLD, "settle")
    merged_ago(fleet, make, 1800.0)
    assert said(fleet.decision()) == ("2 -> 6", ALLOW, "")


def test_who_has_what_it_needs_does_not_speak_of_a_cooldown(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: settle, cooldown: {after: 30m}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    merged_ago(fleet, make, 600.0)
    assert fleet.decision().waiting is None


# Now is 2027-01-15 08:00 UTC, a Friday.
@pytest.mark.parametrize(
    ("window", "is_frozen"),
    [
        ('{cron: "0 7 * * 5", for: 2h}', True),
        ('{cron: "0 7 * * 5", for: 1h}', False),
        ('{cron: "0 7 * * 4", for: 2h}', False),
        ('{cron: "0 9 * * 5", for: 1h, timeZone: Europe/Berlin}', True),
        ('{from: "2027-01-15", until: "2027-01-16"}', True),
        ('{from: "2027-01-16", until: "2027-01-17"}', False),
        ('{from: "2027-01-14", until: "2027-01-15"}', False),
    ],
)
def test_nothing_changes_in_a_freeze(ruled: Any, make: Any, window: str, is_frozen: bool) -> None:
    fleet, rules = ruled
    fleet.price(H100=6.0, L4=0.1)
    rules(f"{{name: weekend, freeze: {window}}}")
    fleet.add(replicas=9, profiles=(make.profile("H100"), make.profile("L4")))
    fleet.offer(55.0)
    decision = fleet.decision()
    assert (decision.outcome is Outcome.UNCHANGED) is is_frozen
    assert (decision.verdict.kind is VerdictKind.HOLD) is is_frozen
    assert (decision.waiting is not None and "rule weekend" in decision.waiting.words) is is_frozen


FROZEN = '{from: "2027-01-15", until: "2027-01-16"%s}'


@pytest.mark.parametrize(
    ("repairs", "expected"),
    [
        ("", ("2 -> 6", VerdictKind.NEEDS_APPROVAL, "weekend")),
        (", repairs: ask", ("2 -> 6", VerdictKind.NEEDS_APPROVAL, "weekend")),
        (", repairs: allow", ("2 -> 6", VerdictKind.ALLOW, "")),
        (", repairs: hold", ("2 -> 2", VerdictKind.HOLD, "weekend")),
    ],
)
def test_a_freeze_says_what_becomes_of_repairs(
    ruled: Any, repairs: str, expected: tuple[str, VerdictKind, str]
) -> None:
    fleet, rules = ruled
    rules(f"{{name: weekend, freeze: {FROZEN % repairs}}}")
    fleet.add(replicas=2)
    fleet.offer(55.0)
    assert said(fleet.decision()) == expected
    fleet.offer(12.0)  # carried: what is no repair waits
    fleet.default(headroom=2.0)
    decision = fleet.decision()
    assert said(decision) == ("2 -> 2", VerdictKind.HOLD, "weekend")
    assert decision.waiting.words == "rule weekend (p.yaml:4): frozen until 2027-01-16 00:00 (UTC), 4 would be needed"


def test_a_repair_in_a_freeze_only_adds_replicas(ruled: Any, make: Any) -> None:
    """The cheapest repair would move to the cheap accelerator, or let the other variant shrink."""
    fleet, rules = ruled
    fleet.price(H100=6.0, L4=0.1)
    rules(f"{{name: weekend, freeze: {FROZEN % ''}}}")
    fleet.add(replicas=2, profiles=(make.profile("H100"), make.profile("L4")))
    fleet.add("other", replicas=2, profiles=(make.profile("H100", 20),))
    fleet.offer(90.0)
    for decision in fleet.plan().decisions:
        assert decision.desired.accelerator == "H100"
        assert decision.desired.replicas >= 2


def test_a_freeze_of_what_goes_down_lets_the_rest_go_up(ruled: Any) -> None:
    fleet, rules = ruled
    rules('{name: weekend, scope: {direction: [down]}, freeze: {cron: "0 0 * * *", for: 24h}}')
    fleet.add(replicas=2)
    fleet.add("qwen", model_id="qwen", replicas=9)
    fleet.offer(55.0)
    fleet.offer(55.0, "qwen")
    assert fleet.desired() == {"llama": "6 x H100", "qwen": "9 x H100"}


def test_a_floor_counts_at_its_time(ruled: Any) -> None:
    fleet, rules = ruled
    rules('{name: early, schedule: {cron: "30 7 * * 5", for: 3h, minReplicas: 6}}')
    fleet.add(replicas=2)
    fleet.offer(10.0)
    assert said(fleet.decision()) == ("2 -> 6", CLAMP, "early")
    fleet.now_s += 3 * HOUR_S
    assert fleet.decision().desired.replicas == 2


@pytest.mark.parametrize(("load", "replicas"), [(40.0, 6), (55.0, 6), (35.0, 4), (75.0, 8)])
def test_small_changes_are_not_worth_it_unless_the_load_is_not_carried(ruled: Any, load: float, replicas: int) -> None:
    fleet, rules = ruled
    rules("{name: noise, deadband: {within: 1}}")
    fleet.add(replicas=6)
    fleet.offer(load + 4.0)
    desired = fleet.decision().desired.replicas
    assert desired == (replicas if replicas != 4 else 4)


def test_a_denied_accelerator_is_no_candidate_and_may_stay(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    fleet.price(H100=6.0, L4=0.1)
    rules("{name: no-l4, accelerators: {denied: [L*]}}")
    fleet.add(replicas=2, profiles=(make.profile("H100"), make.profile("L4")))
    fleet.offer(55.0)
    decision = fleet.decision()
    assert decision.desired.accelerator == "H100"
    assert "not L4: rule no-l4 (p.yaml:4): L4 is denied" in [step.reason for step in decision.steps]
    rules("{name: no-h100, accelerators: {allowed: [A100]}}")
    decision = fleet.decision()
    assert (decision.outcome, decision.verdict.kind) == (Outcome.HELD, VerdictKind.REFUSE)
    assert decision.hold.words == "rule no-h100 (p.yaml:4): H100 is not among the allowed"


def test_so_many_replicas_stay_ready(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: ready, availability: {minReady: 3}}")
    fleet.add(replicas=9)
    fleet.offer(10.0)
    assert said(fleet.decision()) == ("9 -> 3", CLAMP, "ready")


def test_one_variant_of_a_model_changes_at_a_time(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    fleet.price(H100=6.0, L4=0.1)
    rules("{name: canary, availability: {variantsAtOnce: 1}}")
    for name in ("a", "b", "c"):
        fleet.add(name, replicas=2, profiles=(make.profile("H100"), make.profile("L4")))
    fleet.offer(55.0)
    plan = fleet.plan()
    assert len(plan.with_outcome(Outcome.CHANGE)) == 1
    held = plan.with_outcome(Outcome.HELD)
    assert held
    assert all(each.hold.words.startswith("rule canary (p.yaml:4): at most 1 of the 3 variants") for each in held)


def test_a_budget_stops_what_is_asked_for_more_and_never_what_runs(ruled: Any) -> None:
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    fleet.add(replicas=6)
    fleet.offer(55.0)
    for amount, replicas in ((1, 6), (36, 6), (42, 7), (48, 8), (54, 9), (100, 9)):
        rules(f"{{name: money, budget: {{amount: {amount}, per: hour}}}}")
        decision = fleet.decision()
        assert decision.desired.replicas == replicas, amount
        told = decision.waiting.words if decision.waiting else decision.verdict.reason
        assert (f"the budget of {amount} an hour is used up" in told) is (replicas < 9)


def test_a_repair_beyond_a_budget_needs_a_person(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: money, budget: {amount: 12, per: hour}}")
    fleet.add(replicas=2)
    fleet.offer(55.0)
    assert said(fleet.decision()) == ("2 -> 6", APPROVAL, "money")
    fleet.offer(12.0)
    fleet.default(headroom=2.0)
    assert said(fleet.decision()) == ("2 -> 2", HOLD, "money")


def test_each_namespace_has_its_own_budget(ruled: Any) -> None:
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    rules("{name: money, budget: {amount: 24, per: hour, each: namespace}}")
    for namespace, replicas in (("llm", 3), ("batch", 4)):
        fleet.add(namespace, model_id=namespace, namespace=namespace, replicas=replicas)
        fleet.offer(29.0, namespace, namespace)
    assert fleet.desired() == {"llm": "4 x H100", "batch": "4 x H100"}


def written_ago(fleet: Any, *counts: tuple[float, int | None], is_whole: bool = False) -> None:
    """Have Git say of the variant how many replicas it had since how many hours ago."""
    told = tuple((fleet.now_s - hours * HOUR_S, count) for hours, count in counts)
    fleet.written[key("llama")] = WrittenCounts(variant=key("llama"), counts=told, is_whole=is_whole)


# Now is the 15th of January, 08:00: 344 of 744 hours are gone, 400 are left.
@pytest.mark.parametrize(
    ("amount", "counts", "replicas"),
    [
        (344 * 36 + 400 * 42 + 1, [(500, 6)], 7),
        (344 * 36 + 400 * 42 - 1, [(500, 6)], 6),
        # Until 100 hours ago it were three: 244 * 18 + 100 * 36 are spent.
        (244 * 18 + 100 * 36 + 400 * 54 + 1, [(500, 3), (100, 6)], 9),
        (244 * 18 + 100 * 36 + 400 * 54 - 1, [(500, 3), (100, 6)], 8),
    ],
)
def test_a_month_has_spent_what_git_tells(
    ruled: Any, amount: int, counts: list[tuple[int, int]], replicas: int
) -> None:
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    rules(f"{{name: money, budget: {{amount: {amount}, per: month}}}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    written_ago(fleet, *counts)
    assert fleet.decision().desired.replicas == replicas


@pytest.mark.parametrize(("spare", "replicas"), [(1, 9), (-1, 8)])
def test_a_month_is_priced_as_it_was_paid(ruled: Any, spare: int, replicas: int) -> None:
    """A replica cost 2 until 100 hours ago, and 6 since."""
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    rules(f"{{name: money, budget: {{amount: {244 * 12 + 100 * 36 + 400 * 54 + spare}, per: month}}}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    written_ago(fleet, (500, 6))
    prices = tuple((fleet.now_s - hours * HOUR_S, price) for hours, price in ((500, 2.0), (100, 6.0)))
    fleet.paid[key("llama")] = PaidPrices(variant=key("llama"), prices=prices)
    assert fleet.decision().desired.replicas == replicas


def test_prices_that_are_not_known_are_said(ruled: Any) -> None:
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    rules("{name: money, budget: {amount: 1, per: month}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    written_ago(fleet, (500, 6))
    fleet.paid[key("llama")] = PaidPrices(variant=key("llama"), prices=((fleet.now_s - 100 * HOUR_S, 6.0),))
    assert "prices before 2027-01-11 04:00 are not known" in str(fleet.decision().verdict)


def test_what_the_cluster_told_goes_before_what_git_said(ruled: Any) -> None:
    """An hour ago somebody had sixty replicas run beside Git for half an hour."""
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    rules(f"{{name: money, budget: {{amount: {344 * 36 + 400 * 42 + 1}, per: month}}}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    written_ago(fleet, (500, 6))
    assert fleet.decision().desired.replicas == 7
    fleet.live[key("llama")] = LiveReplicas(
        start_s=fleet.now_s - HOUR_S, step_s=HOUR_S / 2, counts=np.array([60.0, math.nan])
    )
    assert fleet.decision().desired.replicas == 6


def test_a_month_of_which_nobody_knows_holds_what_is_asked_for_more(ruled: Any) -> None:
    fleet, rules = ruled
    fleet.default(headroom=0.5)
    rules("{name: money, budget: {amount: 100000, per: month}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    told: tuple[tuple[tuple[float, int | None], ...], ...] = ((), ((100, 6),), ((500, 6), (200, None), (100, 6)))
    for counts in told:
        written_ago(fleet, *counts)
        decision = fleet.decision()
        assert decision.desired.replicas == 6
        assert decision.waiting.words == (
            "rule money (p.yaml:4): what is left of the budget of 100000 a month is not known: "
            "neither Git's history nor Prometheus says what ran of llm/llama since 2027-01-01, 9 would be needed"
        )
    fleet.offer(90.0)
    assert said(fleet.decision())[1:] == (APPROVAL, "money")
    written_ago(fleet, (100, 6), is_whole=True)
    assert fleet.decision().verdict.kind is ALLOW


@pytest.mark.parametrize(
    ("rule", "ago", "replicas"), [("cooldown: {after: 1h}", 2.0, 6), ("step: {up: 2, per: day}", 25.0, 4)]
)
def test_what_people_wrote_counts_as_what_we_merged(ruled: Any, rule: str, ago: float, replicas: int) -> None:
    fleet, rules = ruled
    rules(f"{{name: a, {rule}}}")
    fleet.add(replicas=2)
    fleet.offer(55.0)
    written_ago(fleet, (500, 1), (0.5, 2))
    assert fleet.decision().desired.replicas < replicas
    written_ago(fleet, (500, 1), (ago, 2))
    assert fleet.decision().desired.replicas == replicas
    written_ago(fleet, (0.5, 2), is_whole=True)
    assert fleet.decision().desired.replicas == replicas, "what is new was not changed"


def test_without_a_price_a_budget_holds_what_is_asked_for_more(ruled: Any) -> None:
    fleet, rules = ruled
    fleet.price(H100=None)
    fleet.default(headroom=0.5)
    rules("{name: money, budget: {amount: 1000, per: hour}}")
    fleet.add(replicas=6)
    fleet.offer(55.0)
    decision = fleet.decision()
    assert (decision.outcome, decision.verdict.kind) == (Outcome.HELD, VerdictKind.HOLD)
    assert "rule money" in decision.hold.words


def test_so_many_variants_change_at_once_repairs_first(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: few, changeLimit: {changes: 1}}")
    for name, replicas in (("a", 9), ("b", 1), ("c", 9)):
        fleet.add(name, model_id=name, replicas=replicas)
        fleet.offer(30.0, name)
    plan = fleet.plan()
    assert [each.variant.name for each in plan.with_outcome(Outcome.CHANGE)] == ["b"]


def test_little_evidence_holds_and_says_what_is_missing(ruled: Any, make: Any) -> None:
    """Of 55 requests a second for five minutes, seen 90 seconds ago; half of the last hour is known."""
    fleet, rules = ruled
    fleet.add(replicas=2)
    fleet.offer(55.0)
    fleet.remember(*(math.nan,) * 30, *(55.0,) * 30)
    performance = Performance(itl_s=0.045, wait_s=0.01)
    fleet.observations[key("llama")] = Observation(
        performance=performance, arrival_rate_per_s=55.0, replicas_reporting=2, age_s=90.0
    )
    latency = PromisedLatency(name="itl", statistic="mean", target_s=0.05, mean_s=0.03)
    promise = Promise(
        resource=str(key("llama")),
        unit="req/s",
        demand=60.0,
        output_tokens=100.0,
        input_tokens=100.0,
        latencies=(latency,),
    )
    merged = {"state": ProposalState.MERGED, "closed_at_s": fleet.now_s - 9 * HOUR_S, "number": 7}
    fleet.propose(make.change("llama", "1 x H100", "2 x H100"), promises=(promise,), **merged)
    for asked, enough, words in (
        ("maxAge: 1m", "maxAge: 2m", "its last sample is 90 s old, 60 s are allowed"),
        (
            "minSamples: 20000",
            "minSamples: 16000",
            "its load is that of 16500 requests in 5 minutes, 20000 are to be seen",
        ),
        ("minCoverage: 90%", "minCoverage: 50%", "of the last 60 minutes 50 % are known, 90 % are to be"),
        (
            "maxDisagreement: 30%",
            "maxDisagreement: 60%",
            "its mean ITL is 45 ms, #7 forecast 30 ms: 50 % apart, 30 % are allowed",
        ),
    ):
        rules(f"{{name: seen, metrics: {{{asked}}}}}")
        decision = fleet.decision()
        assert decision.outcome is Outcome.UNCHANGED, asked
        assert decision.waiting.words == f"rule seen (p.yaml:4): {words}, 6 would be needed"
        rules(f"{{name: seen, metrics: {{{enough}}}}}")
        assert fleet.decision().waiting is None, enough


# What shared limits keep back.


def test_a_limit_on_changes_names_the_savings_that_it_keeps_back(ruled: Any) -> None:
    fleet, rules = ruled
    rules("{name: few, changeLimit: {changes: 1}}")
    for name, replicas in (("a", 9), ("b", 1), ("c", 8)):
        fleet.add(name, model_id=name, replicas=replicas)
        fleet.offer(30.0, name)
    fleet.add("enough", model_id="enough", replicas=4)
    fleet.offer(30.0, "enough")
    decisions = {each.variant.name: each for each in fleet.plan().decisions}
    assert decisions["a"].waiting.words == (
        "rule few (p.yaml:4): at most 1 changes of a run, others are more urgent: 4 x H100 instead of 9 would save "
        "30 USD/h"
    )
    assert said(decisions["a"]) == ("9 -> 9", HOLD, "few")
    assert "would save 24 USD/h" in decisions["c"].waiting.words
    assert decisions["enough"].waiting is None
    assert said(decisions["enough"]) == ("4 -> 4", ALLOW, "")


def test_a_full_pool_names_itself(ruled: Any, make: Any) -> None:
    """Four would do on the cheap devices, of which there are three; of the others no tenth is there."""
    fleet, rules = ruled
    rules("{name: x, approval: {}}")
    fleet.price(H100=6.0, L4=0.1)
    fleet.stock(H100=9, L4=3)
    one = {"workload": {"devices": {"nvidia.com/gpu": 1}}}
    fleet.add("moves", model_id="a", replicas=4, profiles=(make.profile("H100"), make.profile("L4")), **one)
    fleet.offer(35.0, "a")
    fleet.add("grows", model_id="b", replicas=5, **one)
    fleet.offer(55.0, "b")
    decisions = {each.variant.name: each for each in fleet.plan().decisions}
    assert decisions["moves"].waiting.words == (
        "pool us-east/L4 has 3 devices: 4 x L4 instead of 4 x H100 would save 23.6 USD/h"
    )
    assert decisions["grows"].waiting.words == "pool us-east/H100 has 9 devices: 6 x H100 instead of 5 would be needed"
    assert said(decisions["grows"])[1:] == (ALLOW, "")
    fleet.stock(H100=10, L4=4)
    assert fleet.desired() == {"moves": "4 x L4", "grows": "6 x H100"}


def test_a_pool_with_room_for_some_names_itself(ruled: Any, make: Any) -> None:
    fleet, rules = ruled
    rules("{name: x, approval: {}}")
    fleet.price(H100=6.0, L4=0.1)
    fleet.stock(H100=20, L4=3)
    one = {"workload": {"devices": {"nvidia.com/gpu": 1}}}
    fleet.add("moves", model_id="a", replicas=4, profiles=(make.profile("H100"), make.profile("L4")), **one)
    fleet.offer(35.0, "a")
    assert fleet.decision("moves").waiting.words == (
        "pool us-east/L4 has 3 devices: 4 x L4 instead of 4 x H100 would save 23.6 USD/h"
    )


def test_the_rule_that_keeps_a_variant_silently_is_found(ruled: Any, make: Any) -> None:
    """A move that rules deny leaves nothing to say of replicas: only without the rule it would come."""
    fleet, rules = ruled
    fleet.price(H100=6.0, L4=0.1)
    rules("{name: ask, approval: {}}", "{name: no-l4, accelerators: {denied: [L4]}}")
    fleet.add(replicas=6, profiles=(make.profile("H100"), make.profile("L4")))
    fleet.offer(55.0)
    snapshot = fleet.snapshot()
    assert fleet.decision().outcome is Outcome.UNCHANGED
    found = dict(find_stopping(snapshot, snapshot.settings.rules, [key("llama")]))
    assert [rule.name for rule in found.values()] == ["no-l4"]
