"""From a pull request and the tip of its head branch to the proposal that decide sees."""

import re
from collections.abc import Sequence
from typing import Protocol

from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.settings import Identity
from reconciler.forge.marker import Marker, MarkerState, body_digest, read_marker
from reconciler.forge.pull_requests import PullRequest, PullRequestState

TRAILER = "Reconciler-Decision"
TRAILER_LINE = re.compile(rf"{TRAILER}: ([0-9a-f]{{64}})")
PUSHES = "Reconciler-Earlier-Pushes"
"""A branch has one commit of ours, so it tells of those that it had in the hour before, in Unix seconds."""
MAX_PUSHES = 100
PUSHES_LINE = re.compile(rf"{PUSHES}: ([0-9]{{1,12}}(?: [0-9]{{1,12}}){{0,{MAX_PUSHES - 1}}})")
MAX_MESSAGE_LENGTH = 100_000


class BranchTip(Protocol):
    """The newest commit of a head branch, as git knows it."""

    @property
    def oid(self) -> str: ...

    @property
    def author(self) -> Identity: ...

    @property
    def committer(self) -> Identity: ...

    @property
    def message(self) -> str: ...

    @property
    def committed_s(self) -> float: ...


def proposal_of(pull_request: PullRequest, tip: BranchTip | None, ours: Identity) -> Proposal:
    """The proposal behind a pull request; `tip` is None when its head branch is gone.

    A person's commit on the branch is recognised by its author or committer, or by a missing trailer: the merge
    commit of the forge's own "update branch" button has none.
    """
    marker = read_marker(pull_request.body)
    decision = decision_of_commit(tip.message) if tip else ""
    return Proposal(
        group=marker.group if marker else "",
        number=pull_request.number,
        state=_state(pull_request, marker),
        head_branch=pull_request.head_branch,
        decision=marker.decision if marker else "",
        changes=marker.changes if marker else (),
        promises=marker.promises if marker else (),
        head_commit=tip.oid if tip else pull_request.head_commit,
        branch_decision=decision,
        touched_by=stranger_of(tip, ours) if tip else "",
        labels=pull_request.labels,
        in_merge_queue=pull_request.in_merge_queue,
        closed_at_s=pull_request.closed_at_s,
        opened_at_s=pull_request.opened_at_s,
        pushes_s=pushes_of(tip) if tip else (),
        title=pull_request.title,
        body_digest=body_digest(pull_request.body),
        url=pull_request.url,
    )


def decision_of_commit(message: str) -> str:
    """The decision fingerprint in a commit message's trailers; empty when there is none or more than one.

    Only the last paragraph holds trailers: a revert quotes the message that it reverts further up.
    """
    decisions = {match[1] for line in _trailers(message) if (match := TRAILER_LINE.fullmatch(line))}
    return decisions.pop() if len(decisions) == 1 else ""


def pushes_of(tip: BranchTip) -> tuple[float, ...]:
    """When a branch was pushed, as far as its newest commit tells: that one's time, and the earlier ones it names.

    Anybody may write such a commit: it can only make us push later.
    """
    if not decision_of_commit(tip.message) or tip.committed_s <= 0:
        return ()
    found = (match[1] for line in _trailers(tip.message) if (match := PUSHES_LINE.fullmatch(line)))
    return tuple(sorted((tip.committed_s, *(float(each) for line in found for each in line.split()))))


def with_pushes(message: str, pushes_s: Sequence[float]) -> str:
    """A commit message of ours that tells when its branch was pushed before; without any as it was."""
    if not pushes_s:
        return message
    times = " ".join(str(int(each)) for each in sorted(pushes_s)[-MAX_PUSHES:])
    return f"{message.rstrip()}\n{PUSHES}: {times}\n"


def stranger_of(tip: BranchTip, ours: Identity) -> str:
    """Who else the tip is by, as its author or committer or for want of our trailer; empty when it is ours."""
    for email in (tip.author.email, tip.committer.email):
        if email.lower() != ours.email.lower():
            return email or "an unknown author"
    return "" if decision_of_commit(tip.message) else f"{tip.author.email} (without the trailer {TRAILER})"


def _state(pull_request: PullRequest, marker: Marker | None) -> ProposalState:
    if pull_request.state is PullRequestState.OPEN:
        return ProposalState.OPEN
    if pull_request.state is PullRequestState.MERGED:
        return ProposalState.MERGED
    was_ours = marker is not None and marker.state is MarkerState.WITHDRAWN
    return ProposalState.WITHDRAWN if was_ours else ProposalState.CLOSED


def _trailers(message: str) -> list[str]:
    """The lines of a message's last paragraph; none where it is the only one."""
    paragraphs = message[-MAX_MESSAGE_LENGTH:].replace("\r\n", "\n").strip().split("\n\n")
    return [line.rstrip() for line in paragraphs[-1].split("\n")] if len(paragraphs) > 1 else []
