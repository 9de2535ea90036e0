"""Forges whose API we do not speak: a branch is pushed, and a person opens its pull request by a link.

What was decided earlier stands in the commit of each branch (`marker.with_marker`), which git alone remembers.
"""

from collections.abc import Callable, Collection, Mapping
from urllib.parse import quote, unquote, urlencode

from reconciler.domain.settings import ForgeSettings, Identity
from reconciler.errors import ConfigurationError
from reconciler.forge.marker import BranchTip, pull_request_of_branch
from reconciler.forge.pull_requests import (
    NEUTRAL_IDENTITY,
    NO_ASSIGNMENT,
    Assignment,
    Comment,
    CommitStatus,
    ForgeToken,
    MergeAnswer,
    PullRequest,
    Rights,
    host_and_path,
    refuse_commits,
    waiting,
)


class Push:
    """Head branches alone, on Bitbucket Cloud, Azure DevOps or any other host; `Forge` describes the methods."""

    name = "push"
    body_limit = 58_000
    draws_mermaid = False
    writes_commits = False
    keeps_pull_requests = False

    def __init__(self, remote: str, read_tips: Callable[[str], Mapping[str, BranchTip]] = lambda _prefix: {}) -> None:
        self._remote = remote
        self._read_tips = read_tips

    def reading(self, read_tips: Callable[[str], Mapping[str, BranchTip]]) -> "Push":
        """The same, that knows the newest commits of branches with a prefix."""
        return Push(self._remote, read_tips)

    def opening_address(self, *, head: str, base: str) -> str:
        """See `Forge`; empty for a host that is not known."""
        host, path = host_and_path(self._remote)
        parts = [quote(unquote(each), safe="") for each in path.strip("/").removesuffix(".git").split("/")]
        if host == "bitbucket.org" and len(parts) == 2:
            query = urlencode({"source": head, "dest": base})
            return f"https://bitbucket.org/{'/'.join(parts)}/pull-requests/new?{query}"
        query = urlencode({"sourceRef": head, "targetRef": base})
        if host in ("ssh.dev.azure.com", "vs-ssh.visualstudio.com") and len(parts) == 4:
            _, organization, project, name = parts  # the first is v3
            return f"https://dev.azure.com/{organization}/{project}/_git/{name}/pullrequestcreate?{query}"
        if (host == "dev.azure.com" or host.endswith(".visualstudio.com")) and "_git" in parts:
            return f"https://{host}/{'/'.join(parts)}/pullrequestcreate?{query}"
        return ""

    def check_access(self) -> None:
        """See `Forge`: git reports whether a branch may be pushed."""

    def rights(self, *, base: str, head: str) -> Rights:
        """See `Forge`: nothing is shown."""
        del base, head
        return Rights(may_open=None, may_label=None, may_merge=None)

    def is_strict(self, base: str) -> bool:
        """See `Forge`: not shown."""
        del base
        return False

    def schedules(self) -> None:
        """See `Forge`: not shown."""

    def commit_address(self, commit: str) -> str:
        """See `Forge`: a commit message has no links."""
        del commit
        return ""

    def files_address(self, commit: str) -> str:
        """See `Forge`: a commit message has no links."""
        del commit
        return ""

    def author(self) -> Identity:
        """See `Forge`: whose credential it is is not shown."""
        return NEUTRAL_IDENTITY

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """See `Forge`: only branches are known."""
        del closed_since_s
        tips = self._read_tips(head_prefix)
        found = (
            pull_request_of_branch(
                name, tips[name], number=number, base=base, url=self.opening_address(head=name, base=base)
            )
            for number, name in enumerate(sorted(tips), start=1)
        )
        return tuple(each for each in found if each is not None)

    def create(
        self,
        *,
        head: str,
        base: str,
        title: str,
        body: str,
        draft: bool = False,
        labels: tuple[str, ...] = (),
        assignment: Assignment = NO_ASSIGNMENT,
    ) -> PullRequest | None:
        """See `Forge`: a person does."""
        del head, base, title, body, draft, labels, assignment
        raise _cannot("open pull requests")

    def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        close: bool = False,
        labels: tuple[str, ...] = (),
        unlabel: tuple[str, ...] = (),
        assignment: Assignment = NO_ASSIGNMENT,
    ) -> PullRequest:
        """See `Forge`: a person does."""
        del number, title, body, close, labels, unlabel, assignment
        raise _cannot("write to pull requests")

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`: no text of ours is there."""
        del number, body

    def note_merge(self, number: int) -> None:
        """See `Forge`: it notices that by itself."""
        del number

    def list_open(self, *, base: str) -> tuple[PullRequest, ...]:
        """See `Forge`."""
        del base
        raise _cannot("list pull requests")

    def head_ref(self, pull_request: PullRequest) -> str:
        """See `Forge`."""
        return f"refs/heads/{pull_request.head_branch}"

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """See `Forge`: not shown, so that nothing merges by itself."""
        del branch, commit, since_s
        return None

    def write_commit(
        self, branch: str, *, parent: str, files: Mapping[str, bytes], created: Collection[str], message: str
    ) -> None:
        """See `Forge`."""
        del branch, parent, files, created, message
        raise refuse_commits(self.name)

    def merge(self, wanted: PullRequest, *, method: str = "") -> MergeAnswer:
        """See `Forge`: a person does."""
        del wanted, method
        return waiting("a person merges it")

    def unschedule(self, number: int) -> None:
        """See `Forge`: nothing is ever scheduled."""
        del number

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See `Forge`."""
        del number
        raise _cannot("comment")

    def write_comment(self, number: int, body: str) -> None:
        """See `Forge`."""
        del number, body
        raise _cannot("comment")

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """See `Forge`."""
        del number, key, body
        raise _cannot("comment")

    def delete_comment(self, number: int, key: str) -> None:
        """See `Forge`."""
        del number, key
        raise _cannot("comment")

    def keep_issue(
        self, *, label: str, title: str, body: str, is_current: Callable[[str], bool], opens: bool = True
    ) -> None:
        """See `Forge`: no issues are known."""
        del label, title, body, is_current, opens

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """See `Forge`."""
        del commit, status
        raise _cannot("set statuses of commits")


def _cannot(what: str) -> ConfigurationError:
    return ConfigurationError(f"forge.kind push only pushes branches: it cannot {what} on this forge")


def open_forge(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Push:
    """The branches of a remote, whatever it is."""
    del settings, token, run_ends_s  # git has the credential
    return Push(remote)
