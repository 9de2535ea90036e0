"""Merges by itself what needs no person: at the end of a run, and never what this run wrote."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.domain.plan import MergeTerms
from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.forge.marker import read_marker
from reconciler.forge.merging import MergeState
from reconciler.forge.pull_requests import Forge, PullRequest
from reconciler.git.clone import Clone
from reconciler.git.commits import CommitRecord
from reconciler.pipeline.drafting.sameness import says_the_same
from reconciler.pipeline.group_states import GroupState, Operation, Published
from reconciler.pipeline.observe import ForgeView
from reconciler.report.formatting import one_line

logger = logging.getLogger(__name__)

LEAST_AGE_S = 300.0
"""Checks need a while to begin, and people to look; a later run has then decided the same."""
OPERATIONS = {MergeState.SCHEDULED: Operation.SCHEDULED, MergeState.WAITING: Operation.WAITING}


def take_back(forge: Forge, view: ForgeView) -> None:
    """Keep the forge from merging what we told it to merge: whoever pauses us means that, too."""
    for each in view.pull_requests.values():
        if each.is_open and each.is_scheduled:
            try:
                forge.unschedule(each.number)
            except ReconcilerError as error:
                logger.warning("pull request %d may be merged by the forge although we pause: %s", each.number, error)


@dataclass(slots=True, kw_only=True)
class Merger:
    """Merges part by part; each merge counts against what is left of the hour, and one of a group is enough.

    `base` is what the run decided from, `clone` the same after merges of this run. `ordered` are merges of this run and
    those that the forge still has to do, by group.
    """

    forge: Forge
    base: Clone
    clone: Clone
    now_s: float
    method: str
    ordered: dict[str, int]

    def merge(self, state: GroupState, published: Published) -> Published:
        """What becomes of a part that this run wrote nothing to; a failure becomes its outcome."""
        pull_request, terms = state.pull_request, None if state.group is None else state.group.merges
        tip = state.tip
        if published.operation is not Operation.NONE or pull_request is None or terms is None or tip is None:
            return published
        waits = "" if pull_request.is_scheduled else self._why_wait(state, pull_request, terms, tip)
        if waits:
            return replace(published, operation=Operation.WAITING, reason=waits)
        try:
            return self._order(state, pull_request, tip, published)
        except (TransientError, ConfigurationError) as error:
            return replace(published, operation=Operation.FAILED, reason=str(error), error=error)

    def _why_wait(self, state: GroupState, pull_request: PullRequest, terms: MergeTerms, tip: CommitRecord) -> str:
        marker = read_marker(pull_request.body)
        if pull_request.head_commit not in ("", tip.oid) or marker is None or not marker.merges:
            return "the forge shows another state of it"
        if self.now_s - tip.committed_s < LEAST_AGE_S:
            return f"it was pushed less than {LEAST_AGE_S / 60:.0f} minutes ago"
        if state.name in self.ordered:
            return "another pull request of its group is being merged"
        if sum(self.ordered.values()) >= terms.left:
            return f"at most {terms.per_hour} of our pull requests are merged in an hour"
        if not terms.waits and not self._is_as_drafted(state, tip):
            return "it says something else than we would write: a person merges it"
        return terms.waits

    def _is_as_drafted(self, state: GroupState, tip: CommitRecord) -> bool:
        """Whether a merge brings what we would write now: anybody can commit in our name."""
        files = self.base.merged(tip.oid, parent=tip.parents[0]) if len(tip.parents) == 1 else None
        if files is None or state.draft is None:
            return False
        wanted = state.draft.change_set.files
        for path in files.keys() | wanted.keys():
            before = self.base.read_file_at(self.base.commit, path) or b""
            if not says_the_same(path, files.get(path, before), wanted.get(path, before)):
                return False
        return True

    def _order(
        self, state: GroupState, pull_request: PullRequest, tip: CommitRecord, published: Published
    ) -> Published:
        answer = self.forge.merge(pull_request.number, head_commit=tip.oid, method=self.method)
        if answer.state is MergeState.WAITING and pull_request.is_scheduled:
            self.forge.unschedule(pull_request.number)
        if answer.state is MergeState.LEFT_TO_GIT:
            self._merge_by_git(state, pull_request, tip)
        if answer.state is not MergeState.WAITING and not pull_request.is_scheduled:
            self.ordered[state.name] = self.ordered.get(state.name, 0) + 1
        operation = OPERATIONS.get(answer.state, Operation.MERGED)
        return replace(published, operation=operation, reason=answer.words)

    def _merge_by_git(self, state: GroupState, pull_request: PullRequest, tip: CommitRecord) -> None:
        title = one_line(pull_request.title)
        self.clone = self.clone.merge(
            state.branch,
            tip.oid,
            parent=tip.parents[0],
            message=f"Merge pull request #{pull_request.number} from {state.branch}\n\n{title}\n",
            author=state.ours,
            date_s=int(self.now_s),
        )
        self.forge.note_merge(pull_request.number)


def ordered_before(states: Iterable[GroupState]) -> dict[str, int]:
    """By group, how many pull requests the forge is told to merge and has not merged yet."""
    found: dict[str, int] = {}
    for state in states:
        if state.pull_request is not None and state.pull_request.is_scheduled:
            found[state.name] = found.get(state.name, 0) + 1
    return found
