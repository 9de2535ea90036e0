"""What the base's history says of our branches: which were merged by git alone, and which begin at what is gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.forge.pull_requests import PullRequest
from reconciler.git.clone import Clone
from reconciler.git.commits import CommitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBranches:
    """Head branches that the base holds whole, and those that begin at no commit of it (it was pushed by force)."""

    merged: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()


def compare_with_base(clone: Clone, found: Iterable[PullRequest], tips: Mapping[str, CommitRecord]) -> ComparedBranches:
    """Look at the branches of open pull requests; history is asked for only where the base has moved on beneath one."""
    open_branches = {each.head_branch for each in found if each.is_open}
    moved = {name: tip for name, tip in tips.items() if name in open_branches and tip.parents != (clone.commit,)}
    if not moved:
        return ComparedBranches()
    begun = (clone.read_commit(oid) for tip in moved.values() for oid in tip.parents)
    clone.fetch_history(min(each.committed_s for each in (*begun, *moved.values())))
    return ComparedBranches(
        merged=frozenset(name for name, tip in moved.items() if clone.descends_from(tip.oid)),
        stale=frozenset(name for name, tip in moved.items() if not any(map(clone.descends_from, tip.parents))),
    )
