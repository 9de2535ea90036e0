"""Forges whose API we do not speak: a branch is pushed, and a person opens its pull request by a link.

What was decided earlier stands in the commit of each branch (`marker.with_marker`), which git alone remembers.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn
from urllib.parse import quote, unquote, urlencode

from reconciler.domain.settings import ForgeSettings
from reconciler.errors import ConfigurationError
from reconciler.forge.marker import BranchTip, pull_request_of_branch
from reconciler.forge.pull_requests import (
    ForgeToken,
    MergeAnswer,
    PlainForge,
    PullRequest,
    Rights,
    host_and_path,
    waiting,
)


def _refusing(what: str) -> Callable[..., NoReturn]:
    """A method that only a person can do the work of."""

    def refuse(*_given: object, **_named: object) -> NoReturn:
        raise ConfigurationError(f"forge.kind push only pushes branches: it cannot {what} on this forge")

    return refuse


class Push(PlainForge):
    """Head branches alone, on Bitbucket Cloud, Azure DevOps or any other host; `Forge` describes the methods."""

    name = "push"
    body_limit = 58_000
    keeps_pull_requests = False

    create = _refusing("open pull requests")
    update = _refusing("write to pull requests")
    list_open = _refusing("list pull requests")
    own_comments = write_comment = edit_comment = delete_comment = _refusing("comment")
    set_status = _refusing("set statuses of commits")

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

    def amend_merged(self, number: int, *, body: str) -> None:
        """See `Forge`: no text of ours is there."""
        del number, body

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """See `Forge`: not shown, so that nothing merges by itself."""
        del branch, commit, since_s
        return None

    def merge(self, wanted: PullRequest, *, method: str = "") -> MergeAnswer:
        """See `Forge`: a person does."""
        del wanted, method
        return waiting("a person merges it")


def open_forge(remote: str, settings: ForgeSettings, token: ForgeToken | None, run_ends_s: float) -> Push:
    """The branches of a remote, whatever it is."""
    del settings, token, run_ends_s  # git has the credential
    return Push(remote)
