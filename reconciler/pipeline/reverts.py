"""Which of our merged pull requests a person took back, by what the base's commits say: that is a no like a closed one.

Git writes `This reverts commit <sha>`; where a forge's button made the commit it may name the pull request instead. Who
takes the revert back in turn has not said no. Whoever may write to the base may write such words: they can only make us
propose less.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.errors import ReconcilerError
from reconciler.forge.proposals import decision_of_commit
from reconciler.forge.pull_requests import PullRequest
from reconciler.git.clone import Clone
from reconciler.git.log import LoggedCommit, read_log
from reconciler.git.repository import Repository

logger = logging.getLogger(__name__)

MOST_COMMITS = 1000
"""Fetched by every run that has a merge to look after: of a base with more in a week the last ones must do."""

COMMIT = re.compile(r"^This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE)
NUMBER = re.compile(
    r"^(?:Reverts [^\s#]{0,200}#|This reverts merge request [^\s!]{0,200}!)([0-9]{1,9})\s*$", re.MULTILINE
)


def note_reverts(
    repository: Repository,
    proposals: Sequence[Proposal],
    shown: Mapping[int, PullRequest],
    *,
    since_s: float,
    listed_since_s: float,
    now_s: float,
) -> tuple[Proposal, ...]:
    """The proposals, those that were merged and then taken back since `since_s` with when that was (Unix seconds).

    `shown` are pull requests by number, those that were merged since `listed_since_s` among them. The base's history is
    fetched as far as reverts count, and as far as merges do where it takes anything back.
    """
    merged = [each for each in proposals if each.state is ProposalState.MERGED and each.decision]
    if not merged:
        return tuple(proposals)
    try:
        log = _read(repository, since_s)
        if any(_reverted_in(each) for each in log):
            log = _read(repository, listed_since_s)
    except ReconcilerError as error:
        logger.warning("Git's history is not known: what a person took back by hand may be proposed again: %s", error)
        return tuple(proposals)
    found: dict[int, float] = {}
    for number, at_s in _taken_back(log, [_Merged(each, shown.get(each.number)) for each in merged]):
        found[number] = max(min(at_s, now_s), found.get(number, since_s))
    return tuple(
        replace(each, reverted_at_s=found[each.number]) if found.get(each.number, since_s) > since_s else each
        for each in proposals
    )


def _read(repository: Repository, since_s: float) -> tuple[LoggedCommit, ...]:
    if isinstance(repository, Clone):
        repository.fetch_history(since_s, most=MOST_COMMITS)
    return read_log(repository, since_s)


def _reverted_in(commit: LoggedCommit) -> list[str]:
    return COMMIT.findall(commit.message) + NUMBER.findall(commit.message)


@dataclass(frozen=True, slots=True)
class _Merged:
    """A merged pull request, as decide sees it and as the forge shows it."""

    proposal: Proposal
    shown: PullRequest | None

    def is_commit(self, oid: str) -> bool:
        """Whether a commit is what was merged, or what the forge made of it."""
        known = {
            self.proposal.head_commit,
            *(() if self.shown is None else (self.shown.head_commit, *self.shown.merged_as)),
        }
        return oid in known

    def order(self, at_s: float) -> tuple[bool, int]:
        """The same may have been merged before and after a time: what was before it goes first, the newest of it."""
        closed_at_s = self.proposal.closed_at_s
        return closed_at_s is not None and closed_at_s <= at_s, self.proposal.number


def _taken_back(log: Sequence[LoggedCommit], merged: Sequence[_Merged]) -> Iterator[tuple[int, float]]:
    """By number, when a pull request was taken back."""
    commits, numbers = {each.oid: each for each in log}, {each.proposal.number for each in merged}
    undone: set[str] = set()
    for commit in log:
        if commit.oid in undone:
            continue
        yield from ((int(each), commit.at_s) for each in NUMBER.findall(commit.message) if int(each) in numbers)
        for text in COMMIT.findall(commit.message):
            for oid in _named(text, commits, merged):
                undone.add(oid)
                matching = [each for each in merged if each.is_commit(oid)] or _by_decision(oid, commits, merged)
                if matching:
                    yield max(matching, key=lambda each: each.order(commit.at_s)).proposal.number, commit.at_s


def _named(text: str, commits: Mapping[str, LoggedCommit], merged: Iterable[_Merged]) -> list[str]:
    """The commit that a text means, which may be only the beginning of its name."""
    known = {*commits, *(oid for each in merged if each.shown is not None for oid in each.shown.merged_as)}
    known |= {each.proposal.head_commit for each in merged}
    found = [text] if text in known else [oid for oid in known if oid.startswith(text)]
    return found if len(found) == 1 else []


def _by_decision(oid: str, commits: Mapping[str, LoggedCommit], merged: Iterable[_Merged]) -> list[_Merged]:
    """Those whose decision a commit bears, or the commit that it merged."""
    commit = commits.get(oid)
    if commit is None:
        return []
    found = [commit, *(commits[parent] for parent in commit.parents[1:] if parent in commits)]
    decisions = {decision_of_commit(each.message) for each in found}
    heads = {each.oid for each in found}
    return [each for each in merged if each.proposal.decision in decisions or any(map(each.is_commit, heads))]
