"""What holds for every small system, against every answer that it has."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.requirements import SolveStatus
from reconciler.upstream.inferno import (
    Grants,
    Offer,
    SaturationPolicy,
    Server,
    ServerGrant,
    exact_optimum,
    priority_greedy,
    unlimited,
    weighted_greedy,
)

TYPES = ("A", "B")
Capacities = Mapping[str, int]


@st.composite
def offers(draw: st.DrawFn, accelerator: str) -> Offer:
    """Whole values make ties."""
    return Offer(
        accelerator=accelerator,
        replicas=draw(st.integers(0, 4)),
        units={draw(st.sampled_from(TYPES)): draw(st.integers(1, 3))},
        cost=float(draw(st.integers(0, 9))),
        value=float(draw(st.integers(-9, 9))),
    )


@st.composite
def servers(draw: st.DrawFn) -> tuple[Server, ...]:
    return tuple(
        Server(
            name=name,
            priority=draw(st.integers(1, 3)),
            offers=tuple(draw(offers(accelerator)) for accelerator in ("x", "y", "z")[: draw(st.integers(0, 3))]),
        )
        for name in ("a", "b", "c", "d")[: draw(st.integers(0, 4))]
    )


capacities = st.fixed_dictionaries({"A": st.integers(0, 9)}, optional={"B": st.integers(0, 9)})
policies = st.sampled_from(SaturationPolicy)


def left(grants: Grants, given_capacities: Capacities) -> Counter[str]:
    """What remains of each type."""
    rest = Counter({name: given_capacities.get(name, 0) for name in TYPES})
    for grant in grants.values():
        for name, units in grant.offer.units.items():
            rest[name] -= units * grant.replicas
    return rest


def rank(asking: tuple[Server, ...], grants: Grants) -> tuple[list[int], float]:
    """The smaller is better: fewer unserved from the highest priority on, then the value."""
    served = Counter(server.priority for server in asking if server.name in grants)
    return [-served[level] for level in (1, 2, 3)], sum(grant.value for grant in grants.values())


def all_answers(asking: tuple[Server, ...], given_capacities: Capacities) -> Iterator[Grants]:
    for chosen in itertools.product(*((None, *server.offers) for server in asking)):
        grants = {
            server.name: ServerGrant(offer=offer, replicas=offer.replicas)
            for server, offer in zip(asking, chosen, strict=True)
            if offer is not None
        }
        if min(left(grants, given_capacities).values()) >= 0:
            yield grants


@settings(deadline=None)
@given(servers(), capacities, policies, st.booleans())
def test_nothing_is_given_twice_and_who_gets_nothing_could_not_have_had_a_replica(
    asking: tuple[Server, ...], given_capacities: Capacities, policy: SaturationPolicy, is_delayed: bool
) -> None:
    grants = priority_greedy(asking, given_capacities, policy=policy, is_best_effort_delayed=is_delayed)
    rest = left(grants, given_capacities)
    assert min(rest.values()) >= 0
    for server in asking:
        grant = grants.get(server.name)
        assert grant is None or (grant.offer in server.offers and grant.replicas <= grant.offer.replicas)
        if grant is None and policy is not SaturationPolicy.NONE:
            assert not any(rest[name] >= units for offer in server.offers for name, units in offer.units.items())


@settings(deadline=None)
@given(servers(), capacities)
def test_weighted_nothing_is_given_twice_and_nobody_is_served_in_part(
    asking: tuple[Server, ...], given_capacities: Capacities
) -> None:
    grants = weighted_greedy(asking, given_capacities)
    assert min(left(grants, given_capacities).values()) >= 0
    assert all(grant.is_full for grant in grants.values())


@settings(deadline=None)
@given(servers(), capacities, policies, st.booleans())
def test_the_order_of_the_input_decides_nothing(
    asking: tuple[Server, ...], given_capacities: Capacities, policy: SaturationPolicy, is_delayed: bool
) -> None:
    turned = tuple(
        Server(name=server.name, priority=server.priority, offers=server.offers[::-1]) for server in asking[::-1]
    )
    ours, theirs = (
        (
            priority_greedy(each, given_capacities, policy=policy, is_best_effort_delayed=is_delayed),
            weighted_greedy(each, given_capacities),
            unlimited(each),
            exact_optimum(each, given_capacities),
        )
        for each in (asking, turned)
    )
    assert ours == theirs


@settings(deadline=None)
@given(servers(), policies, st.booleans())
def test_where_there_is_enough_all_modes_agree(
    asking: tuple[Server, ...], policy: SaturationPolicy, is_delayed: bool
) -> None:
    enough = dict.fromkeys(TYPES, 1000)
    best = unlimited(asking)
    assert weighted_greedy(asking, enough) == best
    assert priority_greedy(asking, enough, policy=policy, is_best_effort_delayed=is_delayed) == best
    assert exact_optimum(asking, enough).value == pytest.approx(sum(grant.value for grant in best.values()))


@settings(deadline=None)
@given(servers(), capacities)
def test_no_answer_is_better_than_the_exact_one(asking: tuple[Server, ...], given_capacities: Capacities) -> None:
    optimum = exact_optimum(asking, given_capacities)
    assert min(left(optimum.grants, given_capacities).values()) >= 0
    served, value = rank(asking, optimum.grants)
    best_served, best_value = min(rank(asking, each) for each in all_answers(asking, given_capacities))
    assert served == best_served
    assert value == pytest.approx(best_value, abs=1e-6)
    assert optimum.value == pytest.approx(value)
    assert (optimum.status, optimum.served_bound) == (SolveStatus.OPTIMAL, optimum.served)
    assert optimum.value_bound == pytest.approx(value, abs=1e-5)


@settings(deadline=None)
@given(servers(), capacities)
def test_the_exact_answer_is_never_worse_than_a_greedy_one(
    asking: tuple[Server, ...], given_capacities: Capacities
) -> None:
    served, value = rank(asking, exact_optimum(asking, given_capacities).grants)
    for grants in (priority_greedy(asking, given_capacities), weighted_greedy(asking, given_capacities)):
        assert (served, value - 1e-6) <= rank(asking, grants)
