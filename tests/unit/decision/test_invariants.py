"""What holds of every plan."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.domain.answers import Absence
from reconciler.domain.plan import Outcome

RATES = st.floats(min_value=0.0, max_value=300.0)
COUNTS = st.integers(min_value=0, max_value=30)
ACCELERATORS = ("A100", "H100", "L4")
FLEET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def empty(fleet: Any) -> Any:
    """A maker of fresh copies of the empty fleet."""

    def copy() -> Any:
        return replace(
            fleet, resources=[], workloads=[], loads={}, observations={}, proposals=[], listed_classes=[], broken=[]
        )

    return copy


@st.composite
def shapes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A few variants of one model: where each stands, what it may run on, and its bounds."""
    size = draw(st.integers(min_value=1, max_value=3))
    variants = []
    for _ in range(size):
        names = draw(st.lists(st.sampled_from(ACCELERATORS), min_size=1, max_size=3, unique=True))
        least = draw(st.integers(min_value=0, max_value=3))
        variants.append(
            {
                "replicas": draw(COUNTS),
                "runs_on": draw(st.sampled_from(names)),
                "profiled": {name: draw(st.sampled_from((3, 5, 10))) for name in names},
                "min_replicas": least,
                "max_replicas": draw(st.sampled_from((None, least, least + 4))),
                "is_silent": draw(st.sampled_from((False, False, False, True))),
            }
        )
    return variants


def build(empty: Any, make: Any, shape: list[dict[str, Any]], rate: float) -> Any:
    fleet = empty()
    for name, each in zip("abc", shape, strict=False):
        fields = dict(each)
        profiled, is_silent = fields.pop("profiled"), fields.pop("is_silent")
        key = fleet.add(name, profiles=tuple(make.profile(*pair) for pair in profiled.items()), **fields)
        if is_silent:
            absence = make.no_answer(Absence.UNATTRIBUTED, "nobody knows")
            fleet.observations[key] = replace(fleet.observations[key], absence=absence)
    fleet.offer(rate)
    return fleet


@FLEET
@given(low=RATES, more=RATES, replicas=COUNTS, headroom=st.floats(min_value=0, max_value=2))
def test_more_load_never_means_fewer_replicas_of_a_single_variant(
    empty: Any, low: float, more: float, replicas: int, headroom: float
) -> None:
    fleet = empty()
    fleet.default(headroom=headroom)
    fleet.add(replicas=replicas)
    fleet.offer(low)
    before = fleet.decision().desired.replicas
    fleet.offer(low + more)
    assert fleet.decision().desired.replicas >= before


@FLEET
@given(shape=shapes(), rate=RATES)
def test_desired_replicas_are_within_the_bounds_and_silence_changes_nothing(
    empty: Any, make: Any, shape: list[dict[str, Any]], rate: float
) -> None:
    fleet = build(empty, make, shape, rate)
    for decision, each in zip(fleet.plan().decisions, shape, strict=True):
        if each["is_silent"]:
            assert decision.outcome is Outcome.HELD
        if decision.outcome is Outcome.HELD:
            assert decision.desired == decision.current
        else:
            most = each["max_replicas"]
            least = each["min_replicas"]
            assert decision.desired.replicas >= least
            assert most is None or decision.desired.replicas <= most


@FLEET
@given(shape=shapes(), rate=RATES)
def test_a_plan_merged_twice_has_nothing_more_to_change(
    empty: Any, make: Any, shape: list[dict[str, Any]], rate: float
) -> None:
    """What replaces another variant's replicas must serve before those go: that takes a second one."""
    fleet = build(empty, make, shape, rate)
    fleet.merge()
    fleet.merge()
    assert not fleet.plan().with_outcome(Outcome.CHANGE)


@FLEET
@given(shape=shapes(), rate=RATES)
def test_the_objective_inferno_comes_to_rest(empty: Any, make: Any, shape: list[dict[str, Any]], rate: float) -> None:
    """Its penalty grows with what is left: a variant may shrink first and move afterwards, but never come back."""
    fleet = build(empty, make, shape, rate)
    fleet.set(objective="inferno")
    for _ in range(len(ACCELERATORS) + 1):
        fleet.merge()
    assert not fleet.plan().with_outcome(Outcome.CHANGE)


@FLEET
@given(shape=shapes(), rate=st.floats(min_value=0.1, max_value=300.0))
def test_the_demand_is_covered_unless_a_reason_is_given(
    empty: Any, make: Any, shape: list[dict[str, Any]], rate: float
) -> None:
    fleet = build(empty, make, shape, rate)
    decisions = fleet.plan().decisions
    free = [each for each in decisions if each.outcome is not Outcome.HELD]
    carried = sum(each.capacity_after or 0.0 for each in decisions)
    words = " ".join(step.reason for each in decisions for step in each.steps)
    assert not free or carried >= rate * (1 - 1e-8) or "carries less than the demand" in words


@FLEET
@given(shape=shapes(), rate=st.floats(min_value=0.1, max_value=300.0))
def test_a_proposal_that_says_what_the_plan_says_changes_nothing(
    empty: Any, make: Any, shape: list[dict[str, Any]], rate: float
) -> None:
    fleet = build(empty, make, shape, rate)
    plan = fleet.plan()
    changes = [
        make.change(
            each.variant.name,
            f"{each.current.replicas} x {each.current.accelerator}",
            f"{each.desired.replicas} x {each.desired.accelerator}",
        )
        for each in plan.with_outcome(Outcome.CHANGE)
    ]
    fleet.propose(*changes)
    assert [group.fingerprint for group in fleet.plan().groups] == [group.fingerprint for group in plan.groups]
