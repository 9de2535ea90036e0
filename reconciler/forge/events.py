"""The change that a CI job was started for, from the event file of GitHub or the variables of GitLab."""

from collections.abc import Mapping
from pathlib import Path

from reconciler.domain.answers import parse_json
from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError
from reconciler.forge.hosted import number_of, text_of

EVENT_FILE = "GITHUB_EVENT_PATH"
MAX_EVENT_BYTES = 32 * 1024 * 1024
MAX_VALUES = 1_000_000
HEADS = "refs/heads/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The change that a job is about.

    `head_ref` is its ref in the repository itself, also for a fork. `number` is 0 without a pull request (in a merge
    queue), `base_branch` empty if only the head is known (in a job after another one).
    """

    head_commit: str
    base_branch: str = ""
    head_ref: str = ""
    number: int = 0
    is_from_fork: bool = False

    @property
    def only(self) -> str:
        """The head of the only pull requests to look at; empty for a job about the change itself."""
        return "" if self.base_branch else self.head_commit

    def base_in(self, *, is_directory: bool) -> str:
        """The branch that it would be merged into, in a checkout or in the remote."""
        return f"origin/{self.base_branch}" if is_directory and self.base_branch else self.base_branch

    def head_in(self, *, is_directory: bool) -> str:
        """The commit of a checkout, or the ref of a remote."""
        return self.head_commit if is_directory else self.head_ref


def find_event(variables: Mapping[str, str]) -> Event | None:
    """The change that this job is about; None without one, and outside of a job.

    Raises ConfigurationError for an event file that cannot be read.
    """
    if variables.get("CI_MERGE_REQUEST_IID"):
        return _of_gitlab(variables)
    path = variables.get(EVENT_FILE, "")
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            event = parse_json(file.read(MAX_EVENT_BYTES), most_values=MAX_VALUES)
    except OSError as error:
        raise ConfigurationError(f"{EVENT_FILE}: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"{EVENT_FILE}: {path} is not JSON") from None
    if text_of(event, "pull_request", "head", "sha"):
        number = number_of(event, "pull_request", "number")
        base = text_of(event, "pull_request", "base", "repo", "full_name")
        return Event(
            head_commit=text_of(event, "pull_request", "head", "sha"),
            base_branch=text_of(event, "pull_request", "base", "ref"),
            head_ref=f"refs/pull/{number}/head",
            number=number,
            is_from_fork=text_of(event, "pull_request", "head", "repo", "full_name") != base,
        )
    if text_of(event, "merge_group", "head_sha"):
        return Event(
            head_commit=text_of(event, "merge_group", "head_sha"),
            base_branch=text_of(event, "merge_group", "base_ref").removeprefix(HEADS),
            head_ref=text_of(event, "merge_group", "head_ref"),
        )
    commit = text_of(event, "workflow_run", "head_sha")
    return Event(head_commit=commit) if commit else None


def _of_gitlab(variables: Mapping[str, str]) -> Event:
    number = variables["CI_MERGE_REQUEST_IID"]
    if not number.isascii() or not number.isdigit():
        raise ConfigurationError(f"CI_MERGE_REQUEST_IID: expected a number, found {number[:20]!r}")
    get = variables.get
    return Event(
        # a pipeline of merged results has its own commit, and another variable for that of the branch
        head_commit=get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "") or get("CI_COMMIT_SHA", ""),
        base_branch=get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        head_ref=f"refs/merge-requests/{int(number)}/head",
        number=int(number),
        is_from_fork=get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID") != get("CI_MERGE_REQUEST_PROJECT_ID"),
    )
