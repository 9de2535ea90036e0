"""What a person closed returns only if a value leaves its band, direction or accelerator changes, or time passes."""

from typing import Any

import pytest

from reconciler.domain.proposals import ProposalState

DAY_S = 86400.0
CLOSED = "a person closed pull request #7 for this decision"


@pytest.fixture
def closed(fleet: Any, make: Any) -> Any:
    """Closes a pull request from 30 to 20 replicas, or another one, so many days ago."""

    def close(days_ago: float | None = 1.0, before: str = "30 x H100", after: str = "20 x H100") -> Any:
        closed_at_s = None if days_ago is None else fleet.now_s - days_ago * DAY_S
        fleet.propose(make.change("llama", before, after), state=ProposalState.CLOSED, closed_at_s=closed_at_s)
        return fleet

    return close


def blocked(fleet: Any) -> str:
    return str(fleet.plan().groups[0].blocked or "")


@pytest.mark.parametrize(
    ("arrivals", "desired", "returns"),
    [(199.0, 20, False), (179.0, 18, False), (219.0, 22, False), (169.0, 17, True), (229.0, 23, True)],
)
def test_a_value_returns_when_it_leaves_a_tenth_around_the_closed_one(
    closed: Any, arrivals: float, desired: int, returns: bool
) -> None:
    fleet = closed()
    fleet.add(replicas=30)
    fleet.offer(arrivals)
    assert fleet.decision().desired.replicas == desired
    assert blocked(fleet) == ("" if returns else CLOSED)


@pytest.mark.parametrize(
    ("arrivals", "returns"), [(39.0, False), (29.0, False), (49.0, False), (19.0, True), (59.0, True)]
)
def test_around_a_small_value_the_band_is_one_replica(closed: Any, arrivals: float, returns: bool) -> None:
    fleet = closed(before="9 x H100", after="4 x H100")
    fleet.add(replicas=9)
    fleet.offer(arrivals)
    assert blocked(fleet) == ("" if returns else CLOSED)


def test_another_direction_returns(closed: Any) -> None:
    fleet = closed()
    fleet.add(replicas=15)
    fleet.offer(199.0)
    assert blocked(fleet) == ""


def test_another_accelerator_returns(closed: Any, make: Any) -> None:
    fleet = closed()
    fleet.add(replicas=30, profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(199.0)
    assert fleet.desired() == {"llama": "20 x A100"}
    assert blocked(fleet) == ""


@pytest.mark.parametrize(("days_ago", "returns"), [(6.99, False), (7.0, True), (None, False)])
def test_after_a_week_it_returns(closed: Any, days_ago: float | None, returns: bool) -> None:
    fleet = closed(days_ago)
    fleet.add(replicas=30)
    fleet.offer(199.0)
    assert blocked(fleet) == ("" if returns else CLOSED)


def test_a_further_variant_makes_it_another_decision(closed: Any) -> None:
    fleet = closed()
    fleet.add(replicas=30)
    fleet.add("qwen", model_id="qwen", replicas=1)
    fleet.offer(199.0)
    fleet.offer(50.0, "qwen")
    assert blocked(fleet) == ""


def test_a_part_of_what_was_closed_stays_closed(fleet: Any, make: Any) -> None:
    changes = (make.change("llama", "30 x H100", "20 x H100"), make.change("qwen", "1 x H100", "6 x H100"))
    fleet.propose(*changes, state=ProposalState.CLOSED, closed_at_s=fleet.now_s - DAY_S)
    fleet.add(replicas=30)
    fleet.offer(199.0)
    assert blocked(fleet) == CLOSED


@pytest.mark.parametrize("state", [ProposalState.WITHDRAWN, ProposalState.MERGED])
def test_what_no_person_closed_returns(fleet: Any, make: Any, state: ProposalState) -> None:
    fleet.propose(make.change("llama", "30 x H100", "20 x H100"), state=state, closed_at_s=fleet.now_s - DAY_S)
    fleet.add(replicas=30)
    fleet.offer(199.0)
    assert blocked(fleet) == ""


def test_nothing_to_change_is_not_blocked(closed: Any) -> None:
    fleet = closed()
    fleet.add(replicas=20)
    fleet.offer(199.0)
    assert blocked(fleet) == ""


@pytest.mark.parametrize(("days_ago", "is_blocked"), [(None, False), (0.0, True), (6.9, True), (7.0, False)])
def test_what_a_person_reverted_after_its_merge_counts_from_then(
    fleet: Any, make: Any, days_ago: float | None, *, is_blocked: bool
) -> None:
    fleet.add(replicas=30)
    fleet.offer(199.0)
    reverted_at_s = None if days_ago is None else fleet.now_s - days_ago * DAY_S
    told = {"state": ProposalState.MERGED, "closed_at_s": fleet.now_s - 20 * DAY_S, "reverted_at_s": reverted_at_s}
    fleet.propose(make.change("llama", "30 x H100", "20 x H100"), **told)
    words = "a person reverted the merge of pull request #7 for this decision"
    assert blocked(fleet) == (words if is_blocked else "")
