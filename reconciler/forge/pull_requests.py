"""Pull requests, reviews and rights, and the protocol of a forge."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from reconciler.domain.proposals import STOP_LABEL
from reconciler.domain.records import dataclass
from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError, RivalRunError

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")  # managed users of an enterprise have an underscore
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
GROUP_OR_PROJECT = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,254}")  # on GitLab a part `-` ends the names
MAX_GROUPS = 20
SCP_LIKE = re.compile(r"(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^:]+)")

SCHEMES = frozenset({"https", "http", "ssh"})
NEUTRAL_IDENTITY = Identity(name="Reconciler", email="reconciler@noreply.invalid")
"""The author of commits if no other is known. `.invalid` can never be an account."""


class MergeState(StrEnum):
    """MERGED is done; SCHEDULED: the forge does it once its rules are met; WAITING: not now; LEFT_TO_GIT: by a push."""

    MERGED = "merged"
    SCHEDULED = "scheduled"
    WAITING = "waiting"
    LEFT_TO_GIT = "left to git"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeAnswer:
    """The answer to a request to merge; `words` say what it waits for, `is_behind` that its branch must be rebuilt."""

    state: MergeState
    words: str = ""
    is_behind: bool = False


BEHIND = "its base has moved on, and accepts only branches that are up to date"


def waiting(words: str) -> MergeAnswer:
    """The answer that nothing was merged, and why."""
    return MergeAnswer(state=MergeState.WAITING, words=words, is_behind=words == BEHIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment under a pull request; `key` is the forge's own name for it."""

    key: str
    body: str


class Verdict(StrEnum):
    """The result of a commit status. NEUTRAL neither passes nor fails; a forge without it shows a success."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStatus:
    """One line on a commit, under the name `context`; a later one of that name replaces it."""

    verdict: Verdict
    words: str
    context: str = "reconciler/review"


def check_commit(commit: str) -> None:
    """ValueError for anything but a commit, as it becomes part of a path."""
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"expected a commit, found {commit[:80]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cures:
    """What to do on this forge about missing rights, each as the rest of a sentence.

    `TOKEN` is replaced by the words for our credential.
    """

    opening: str = "let TOKEN open pull requests"
    labelling: str = "let TOKEN label pull requests"
    merging: str = "let TOKEN merge pull requests"
    scheduling: str = "allow auto-merge"
    refusals: str = "let our account pass"
    protection: str = "protect such branches, and let only our account pass"
    signatures: str = "let our account pass"
    expiry: str = "renew TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Our rights on pull requests as the forge shows them; None is unknown.

    `refusals` are rules on our head branches, in the forge's words, that would reject our pushes; `drops_approvals`
    says that a push to a pull request revokes its approvals, `is_strict` is as in `Forge`, and `only_ours` says whether
    only we may push to our head branches. Our credential expires at `expires_at_s` (Unix seconds).
    """

    may_open: bool | None = True
    may_label: bool | None = True
    may_merge: bool | None = True
    allows_auto_merge: bool | None = None
    drops_approvals: bool = False
    is_strict: bool = False
    only_ours: bool | None = None
    needs_signatures: bool = False
    refusals: tuple[str, ...] = ()
    expires_at_s: float | None = None
    cures: Cures = field(default_factory=Cures, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSchedule:
    """A cron expression that starts the pipeline of a branch; `name` is its description."""

    name: str
    cron: str
    branch: str
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeToken:
    """A credential for an API, and in words its source; the repr does not show its text.

    `author` is who it acts as, where the forge does not say that of such a token.
    """

    text: str
    source: str = "the forge's token"
    author: Identity | None = None

    def __repr__(self) -> str:
        return f"ForgeToken(source={self.source!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryAddress:
    """A repository on a host, as in `https://HOST/OWNER/NAME.git`; `host` is in lower case and without a port.

    On GitLab `owner` is a group with its subgroups, `acme/platform`.
    """

    host: str
    owner: str
    name: str

    @property
    def full_name(self) -> str:
        """OWNER/NAME."""
        return f"{self.owner}/{self.name}"

    def __str__(self) -> str:
        return f"{self.host}/{self.full_name}"


def parse_remote(url: str) -> RepositoryAddress | None:
    """The address in an https, ssh or scp-like URL; None for anything else, such as a path without OWNER/NAME."""
    host, path = host_and_path(url)
    parts = path.strip("/").removesuffix(".git").split("/")
    if len(parts) != 2 or not HOST.fullmatch(host):
        return None
    owner, name = parts
    if not OWNER.fullmatch(owner) or not NAME.fullmatch(name) or name in {".", ".."}:
        return None
    return RepositoryAddress(host=host, owner=owner, name=name)


def parse_nested_remote(url: str, *, below: str = "") -> RepositoryAddress | None:
    """The same with nested groups, as on GitLab; `below` is the path of a forge that is not at its host's root.

    Only http URLs have that path, git over ssh does not.
    """
    host, path = host_and_path(url)
    if below and url.startswith(("https://", "http://")):
        if not path.startswith(f"{below}/"):
            return None
        path = path.removeprefix(below)
    parts = path.strip("/").removesuffix(".git").split("/")
    names = all(GROUP_OR_PROJECT.fullmatch(part) and part not in {".", ".."} for part in parts)
    if not 2 <= len(parts) <= MAX_GROUPS + 1 or not names or not HOST.fullmatch(host):
        return None
    return RepositoryAddress(host=host, owner="/".join(parts[:-1]), name=parts[-1])


def host_and_path(url: str) -> tuple[str, str]:
    """The host in lower case and the path of a remote's URL; empty for anything else."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            _ = parts.port  # urllib checks the port only when it is read
        except ValueError:
            return "", ""
        plain = parts.scheme in SCHEMES and not parts.query and not parts.fragment
        return (host.lower(), parts.path) if plain else ("", "")
    match = SCP_LIKE.fullmatch(url)
    return (match["host"].lower(), match["path"]) if match else ("", "")


class PullRequestState(StrEnum):
    """The state of a pull request; the forge does not say who closed it."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """One pull request as the forge shows it.

    `head_commit` is empty and `opened_at_s` None if the forge does not show them; `closed_at_s` (Unix seconds) is None
    while it is open. `is_from_fork`: `head_branch` is not in this repository, and may have any name. `is_scheduled`:
    our account asked the forge to merge it once the rules of its base are met; where another one did, it counts as
    `in_merge_queue`. `opened_by` is the other account that opened it, empty for ours. `merged_as` are the commits of
    its merge on the base, as far as the forge shows them.
    """

    number: int
    state: PullRequestState
    head_branch: str
    base_branch: str
    title: str
    body: str
    labels: tuple[str, ...] = ()
    head_commit: str = ""
    is_draft: bool = False
    is_from_fork: bool = False
    in_merge_queue: bool = False
    is_scheduled: bool = False
    closed_at_s: float | None = None
    opened_at_s: float | None = None
    opened_by: str = ""
    merged_as: tuple[str, ...] = ()
    url: str = ""
    is_asked: bool = True
    """False where reviewers or assignees could not be asked now, and the next run is to try it again."""

    @property
    def is_open(self) -> bool:
        """Whether it can still be merged."""
        return self.state is PullRequestState.OPEN


def ours_among(
    shown: Iterable[PullRequest], *, head_prefix: str, base: str, closed_since_s: float
) -> tuple[PullRequest, ...]:
    """Those that `Forge.list_pull_requests` returns; of two with one number the later one counts."""
    found = {
        each.number: each
        for each in shown
        if (each.base_branch == base or each.is_scheduled) and each.head_branch.startswith(head_prefix)
    }
    recent = (each for each in found.values() if each.is_open or (each.closed_at_s or 0.0) >= closed_since_s)
    return tuple(sorted(recent, key=lambda each: each.number))


def check_same(found: PullRequest, wanted: PullRequest) -> None:
    """Raise RivalRunError where a pull request that is to be merged is not what was looked at."""
    fields = {
        "pushed to it": (found.head_commit, wanted.head_commit),
        "changed its base": (found.base_branch, wanted.base_branch),
        "changed its text": ((found.title, found.body), (wanted.title, wanted.body)),
        f"labelled it {STOP_LABEL}": (STOP_LABEL in found.labels, False),
    }
    did = next((did for did, (now, then) in fields.items() if now != then), "")
    if did:
        raise RivalRunError(f"merge pull request {found.number}: somebody {did} meanwhile; left alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a pull request is given besides labels: accounts to review it (or `team:NAME`), assignees, a milestone."""

    reviewers: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    milestone: str = ""

    def __bool__(self) -> bool:
        """Whether there is anything to give."""
        return bool(self.reviewers or self.assignees or self.milestone)


NO_ASSIGNMENT = Assignment()


COMMITTERS = frozenset({"noreply@github.com", "noreply@gitlab.com"})
"""Addresses of forges as committers of what their APIs write."""


def refuse_commits(name: str) -> ConfigurationError:
    """The error of a forge that writes no commits."""
    return ConfigurationError(f"git.signing: {name} signs no commits of its API: set git.signing.method to ssh or gpg")


class Forge(Protocol):
    """A place with pull requests, found by name.

    Every method raises ConfigurationError when a person must change something, TransientError when the next run may
    succeed, RivalRunError when another run was faster.
    """

    name: str
    body_limit: int
    """Characters that fit into a body."""
    draws_mermaid: bool
    """Whether it draws charts that a body has as text; else people see characters."""
    keeps_pull_requests: bool
    """Whether we open pull requests there; else a person does, by `opening_address`, and git alone remembers ours."""
    writes_commits: bool
    """Whether its API writes commits, and signs them."""

    def opening_address(self, *, head: str, base: str) -> str:
        """The page where a person opens a pull request for a branch; empty where we do."""

    def check_access(self) -> None:
        """Raise what is wrong with the credential or the repository, before anything is pushed."""

    def rights(self, *, base: str, head: str) -> Rights:
        """Our rights on a pull request from a branch like `head` to `base`; asking changes nothing."""

    def is_strict(self, base: str) -> bool:
        """Whether it merges only branches that have the newest commit of `base`; False where it does not show that."""

    def schedules(self) -> tuple[PipelineSchedule, ...] | None:
        """When it starts pipelines by itself; None if files of the repository define that, or it is not shown."""

    def commit_address(self, commit: str) -> str:
        """The page of a commit; empty without one."""

    def files_address(self, commit: str) -> str:
        """The page of a commit's files, to be followed by a path and `#L12`; empty without one."""

    def author(self) -> Identity:
        """The identity behind the credential; a neutral one when the forge shows none."""

    def list_pull_requests(self, *, head_prefix: str, base: str, closed_since_s: float) -> tuple[PullRequest, ...]:
        """Those from branches of this repository under `head_prefix`, by number.

        All open ones, and the ones closed or merged at or after `closed_since_s` (Unix seconds); of those to another
        base than `base` the ones that are scheduled. A fork's branch of the same name is not ours.
        """

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
        """Open a pull request, or return the one that is open for `head` already, unchanged.

        None: `head` has nothing that `base` lacks. Labels and assignments that are refused are warnings.
        """

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
        """Update an open pull request, and return its new state.

        Only differences from the forge's present values are sent. `labels` are added and those in `unlabel` removed;
        reviewers are asked again, assignees added, and a milestone set where it has none. One that a person closed or
        merged in the meantime is not changed: a `withdrawn` in its marker would undo that decision.
        """

    def amend_merged(self, number: int, *, body: str) -> None:
        """Replace the text of a merged one, to report its outcome; does nothing if it is not merged."""

    def note_merge(self, number: int) -> None:
        """Record that git merged an open one; does nothing if the forge notices that by itself."""

    def list_open(self, *, base: str) -> tuple[PullRequest, ...]:
        """All open ones to `base`, by any author and from any repository, by number; merge queues are not read."""

    def head_ref(self, pull_request: PullRequest) -> str:
        """The ref under which git finds its head in this repository, that of a fork's too."""

    def pushed_s(self, branch: str, commit: str, *, since_s: float) -> float | None:
        """When our account pushed a commit to a branch, by the forge's clock; None where it shows no such push.

        Both times are Unix seconds; a push before `since_s` is not looked for.
        """

    def write_commit(
        self, branch: str, *, parent: str, files: Mapping[str, bytes], created: Collection[str], message: str
    ) -> None:
        """Commit files (path -> whole content) on a new branch from `parent`, by the API, so that it is signed.

        `created` are the paths that `parent` lacks. If the answer is lost, it may have been committed.
        """

    def merge(self, wanted: PullRequest, *, method: str = "") -> MergeAnswer:
        """Merge an open one whose newest commit, base, title and text are those of `wanted`, within its base's rules.

        `method` is merge, squash or rebase; empty is the first of these that the repository allows. If only rules of
        the base are not met, the merge is scheduled if the forge can do that. Nothing is merged with a check that
        failed or has not finished, with a review that requests changes, or as a draft. Repeating a merge or schedule
        changes nothing. Raises RivalRunError when one of these four is another.
        """

    def unschedule(self, number: int) -> None:
        """Cancel a scheduled merge; does nothing without one of ours."""

    def own_comments(self, number: int) -> tuple[Comment, ...]:
        """The comments on a pull request that were written with our credential, the oldest first."""

    def write_comment(self, number: int, body: str) -> None:
        """Add a comment. If the answer is lost, it may have been added, or twice."""

    def edit_comment(self, number: int, key: str, body: str) -> None:
        """Replace the text of a comment, if it still exists."""

    def delete_comment(self, number: int, key: str) -> None:
        """Delete a comment, if it still exists."""

    def keep_issue(
        self, *, label: str, title: str, body: str, is_current: Callable[[str], bool], opens: bool = True
    ) -> None:
        """Keep one issue of ours with `label` up to date; a forge without issues does nothing.

        It is opened where there is none (unless `opens` is false), and written unless `is_current` says so of its text.
        Of several the first one is kept and the others are closed. One that a person closed stays closed and as it is.
        """

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Show a status on a commit, also of a fork, unless it is shown already."""


class PlainForge:
    """What forges answer that show and start nothing by themselves: the methods of `Forge` that several need alike."""

    name: str
    draws_mermaid = False
    writes_commits = False

    def opening_address(self, *, head: str, base: str) -> str:
        """See `Forge`: we open them."""
        del head, base
        return ""

    def is_strict(self, base: str) -> bool:
        """See `Forge`: not shown."""
        del base
        return False

    def schedules(self) -> tuple[PipelineSchedule, ...] | None:
        """See `Forge`: files of the repository define that, or it is not shown."""
        return None

    def commit_address(self, commit: str) -> str:
        """See `Forge`: there are no pages."""
        del commit
        return ""

    def files_address(self, commit: str) -> str:
        """See `Forge`: there are no pages."""
        del commit
        return ""

    def author(self) -> Identity:
        """See `Forge`: whose credential it is is not shown."""
        return NEUTRAL_IDENTITY

    def note_merge(self, number: int) -> None:
        """See `Forge`: it notices that by itself."""
        del number

    def head_ref(self, pull_request: PullRequest) -> str:
        """See `Forge`: there are no forks."""
        return f"refs/heads/{pull_request.head_branch}"

    def write_commit(
        self, branch: str, *, parent: str, files: Mapping[str, bytes], created: Collection[str], message: str
    ) -> None:
        """See `Forge`: most forges sign no commits."""
        del branch, parent, files, created, message
        raise refuse_commits(self.name)

    def unschedule(self, number: int) -> None:
        """See `Forge`: nothing is ever scheduled."""
        del number

    def keep_issue(
        self, *, label: str, title: str, body: str, is_current: Callable[[str], bool], opens: bool = True
    ) -> None:
        """See `Forge`: no issues are known."""
        del label, title, body, is_current, opens
