"""A proposal is read from a pull request and the tip of its branch."""

from dataclasses import dataclass

import pytest

from reconciler.domain.proposals import ProposalState, ProposedChange
from reconciler.domain.settings import Identity
from reconciler.forge.marker import Marker, MarkerState, decision_of_commit, proposal_of, with_pushes, write_marker
from reconciler.forge.pull_requests import PullRequest, PullRequestState

OURS = Identity(name="Reconciler", email="reconciler@example.com")
ANN = Identity(name="Ann", email="ann@example.com")
DECISION = "a" * 64
MESSAGE = f"Scale llama in prod/llm\n\nBecause of load.\n\nReconciler-Decision: {DECISION}\n"
CHANGE = ProposedChange(
    resource="r", replicas_before=1, replicas_after=2, accelerator_before="H100", accelerator_after="H100"
)


@dataclass(frozen=True)
class Tip:
    oid: str = "b" * 40
    author: Identity = OURS
    committer: Identity = OURS
    message: str = MESSAGE
    committed_s: float = 1000.0
    is_signed: bool = False


def pull_request(
    state: PullRequestState = PullRequestState.OPEN, marker: MarkerState | None = MarkerState.OPEN
) -> PullRequest:
    text = "" if marker is None else write_marker(Marker(group="g", decision=DECISION, state=marker, changes=(CHANGE,)))
    return PullRequest(
        number=7,
        state=state,
        head_branch="reconciler/g",
        base_branch="main",
        title="A title",
        body=f"Words\n\n{text}",
        head_commit="c" * 40,
        closed_at_s=None if state is PullRequestState.OPEN else 5.0,
    )


def test_an_untouched_proposal_carries_its_decision_twice() -> None:
    proposal = proposal_of(pull_request(), Tip(), OURS)
    assert (proposal.group, proposal.number, proposal.head_branch) == ("g", 7, "reconciler/g")
    assert (proposal.decision, proposal.branch_decision, proposal.changes) == (DECISION, DECISION, (CHANGE,))
    assert (proposal.head_commit, proposal.touched_by, proposal.state) == ("b" * 40, "", ProposalState.OPEN)


@pytest.mark.parametrize(
    ("state", "marker", "expected"),
    [
        (PullRequestState.OPEN, MarkerState.OPEN, ProposalState.OPEN),
        (PullRequestState.OPEN, MarkerState.WITHDRAWN, ProposalState.OPEN),
        (PullRequestState.CLOSED, MarkerState.OPEN, ProposalState.CLOSED),
        (PullRequestState.CLOSED, MarkerState.WITHDRAWN, ProposalState.WITHDRAWN),
        (PullRequestState.CLOSED, None, ProposalState.CLOSED),
        (PullRequestState.MERGED, MarkerState.WITHDRAWN, ProposalState.MERGED),
        (PullRequestState.MERGED, None, ProposalState.MERGED),
    ],
)
def test_closed_counts_as_closed_by_a_person_unless_the_marker_says_withdrawn(
    state: PullRequestState, marker: MarkerState | None, expected: ProposalState
) -> None:
    assert proposal_of(pull_request(state, marker), None, OURS).state is expected


def test_without_a_branch_it_is_untouched_and_the_forge_names_the_commit() -> None:
    proposal = proposal_of(pull_request(), None, OURS)
    assert (proposal.branch_decision, proposal.touched_by, proposal.head_commit) == ("", "", "c" * 40)


@pytest.mark.parametrize(
    ("tip", "by"),
    [
        (Tip(author=ANN), "ann@example.com"),
        (Tip(committer=ANN), "ann@example.com"),
        (Tip(author=ANN, committer=ANN, message="Merge branch 'main' into reconciler/g"), "ann@example.com"),
        (Tip(message="A commit by our own hand"), "reconciler@example.com (without the trailer Reconciler-Decision)"),
        (Tip(author=Identity(name="", email="")), "an unknown author"),
    ],
)
def test_a_persons_commit_is_recognised(tip: Tip, by: str) -> None:
    assert proposal_of(pull_request(), tip, OURS).touched_by == by


def test_addresses_are_compared_without_case() -> None:
    tip = Tip(author=Identity(name="R", email="Reconciler@Example.com"))
    assert proposal_of(pull_request(), tip, OURS).touched_by == ""


@pytest.mark.parametrize(
    "message",
    [
        "",
        f"Reconciler-Decision: {DECISION}",
        f"Revert it\n\n> Reconciler-Decision: {DECISION}",
        f"Revert it\n\nReconciler-Decision: {DECISION}\n\nThis reverts a commit.",
        f"Subject\n\nReconciler-Decision: {DECISION[:-1]}",
        f"Subject\n\nReconciler-Decision: {DECISION.upper()}",
        f"Subject\n\nReconciler-Decision: {DECISION}\nReconciler-Decision: {'b' * 64}",
    ],
)
def test_only_one_trailer_in_the_last_paragraph_counts(message: str) -> None:
    assert decision_of_commit(message) == ""


def test_a_trailer_among_others_is_found_and_survives_carriage_returns() -> None:
    message = f"Subject\n\nBody\n\nReconciler-Decision: {DECISION}\nSigned-off-by: R <r@example.com>\n"
    assert decision_of_commit(message) == DECISION
    assert decision_of_commit(message.replace("\n", "\r\n")) == DECISION


def test_a_branch_keeps_the_times_of_earlier_pushes() -> None:
    signed = f"{MESSAGE}Signed-off-by: Ann <ann@example.com>\n"
    for message in (MESSAGE, signed):
        assert with_pushes(message, ()) == message
        assert proposal_of(pull_request(), Tip(message=message), OURS).pushes_s == (1000.0,)
        told = Tip(message=with_pushes(message, (900.7, 400.0, 900.7)))
        proposal = proposal_of(pull_request(), told, OURS)
        assert proposal.pushes_s == (400.0, 900.0, 900.0, 1000.0)
        assert (proposal.branch_decision, proposal.touched_by) == (DECISION, "")


def test_only_the_last_hundred_pushes_are_kept() -> None:
    proposal = proposal_of(pull_request(), Tip(message=with_pushes(MESSAGE, range(1, 500))), OURS)
    assert proposal.pushes_s == (*map(float, range(400, 500)), 1000.0)


@pytest.mark.parametrize(
    "line",
    [
        "Reconciler-Earlier-Pushes: -5",
        "Reconciler-Earlier-Pushes: 1e9",
        "Reconciler-Earlier-Pushes: 1,2",
        "Reconciler-Earlier-Pushes: 9999999999999",
        f"Reconciler-Earlier-Pushes: {' '.join(['1'] * 101)}",
        "Reconciler-Earlier-Pushes: \u0661",
        "reconciler-earlier-pushes: 5",
        " Reconciler-Earlier-Pushes: 5",
    ],
)
def test_an_invalid_line_of_pushes_is_ignored(line: str) -> None:
    assert proposal_of(pull_request(), Tip(message=f"{MESSAGE}{line}\n"), OURS).pushes_s == (1000.0,)


def test_another_commit_or_one_without_a_time_has_no_pushes() -> None:
    for tip in (None, Tip(message="Merge branch main"), Tip(committed_s=0.0)):
        assert proposal_of(pull_request(), tip, OURS).pushes_s == ()
