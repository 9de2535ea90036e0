"""Shards by themselves: how they are written, what they divide, and who owns what."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.domain.shards import Shard, Share, shard_of


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_portions_add_up_to_the_whole_and_differ_by_one_at_most(whole: int, count: int) -> None:
    portions = [Shard(index=index, count=count).portion(whole) for index in range(count)]
    assert sum(portions) == whole
    assert max(portions) - min(portions) <= 1


@given(st.text(max_size=40), st.integers(1, 60))
def test_one_more_shard_takes_its_own_share_and_moves_nothing_else(identity: str, count: int) -> None:
    assert shard_of(identity, count + 1) in (shard_of(identity, count), count)


def test_what_has_many_names_is_spread_about_evenly() -> None:
    found = Counter(shard_of(f"cluster-{number}", 4) for number in range(4_000))
    assert all(900 < found[index] < 1_100 for index in range(4))


def test_an_index_counts_from_0_as_in_an_indexed_job() -> None:
    assert Shard.parse("0/4") == Shard(index=0, count=4)
    assert str(Shard.parse("3/4")) == "3/4"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4/4", "an index counts from 0: expected 0/4 to 3/4, got 4/4"),
        ("1", "expected INDEX/COUNT, as in 0/4 for the first of four, got '1'"),
        ("/4", "expected INDEX/COUNT"),
        ("-1/4", "expected INDEX/COUNT"),
        ("0/0", "expected INDEX/COUNT"),
        ("0/1001", "expected at most 1000 shards, got 1001"),
    ],
)
def test_anything_else_is_no_shard(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Shard.parse(text)


def _proposal(branch: str, *resources: str) -> Proposal:
    changes = tuple(
        ProposedChange(
            resource=each, replicas_before=1, replicas_after=2, accelerator_before="L4", accelerator_after="L4"
        )
        for each in resources
    )
    return Proposal(group="", number=1, state=ProposalState.OPEN, head_branch=branch, decision="abc", changes=changes)


@pytest.mark.parametrize(
    ("proposal", "owner"),
    [
        (_proposal("ours", "c/other/Deployment/a"), 2),  # the branch says it, whatever a body says
        (_proposal("gone", "c/team/Deployment/a"), 1),
        (_proposal("gone", "d/unknown/Deployment/a"), shard_of("d/unknown", 3)),
        (_proposal("gone"), shard_of("gone", 3)),
    ],
)
def test_a_pull_request_is_owned_by_exactly_one_shard(proposal: Proposal, owner: int) -> None:
    shares = (
        Share(shard=Shard(index=index, count=3), namespaces={("c", "team"): 1}, branches={"ours": 2})
        for index in range(3)
    )
    assert [index for index, share in enumerate(shares) if share.owns(proposal)] == [owner]
