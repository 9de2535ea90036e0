"""The sample repositories of `reconciler demo`, planned and proposed on this machine, without a network.

Manifests, git and pull requests are real; only Prometheus is played back, from a recording of a real one.
"""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from reconciler.config.environment import Environment, Flags
from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.plan import Outcome
from reconciler.domain.proposals import ProposalState
from reconciler.domain.recording import Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ClusterSettings, Identity
from reconciler.errors import ConfigurationError
from reconciler.forge.local import FOLDER
from reconciler.git.repository import create_bare, open_directory
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.recording import parse_recording
from reconciler.pipeline.run import RunResult, run
from reconciler.pipeline.session import Ask, Progress, no_progress, open_session
from reconciler.report.rows import by_urgency
from reconciler.report.text import plan_text

REPOSITORY, RECORDING, LOADS = "fleet.git", "recording.zip", "loads.csv.gz"
BRANCH = "main"
REPOSITORY_NAME = "demo/fleet"
AUTHOR = Identity(name="Platform Team", email="platform@example.com")
MESSAGE = "Run four models in production\n\nNine variants on H100, A100, L40S and L4."
COMMITTED_S = 1_768_467_600
"""2026-01-15 09:00 UTC, some hours before the recording: fixed, so that the commit is the same everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A finished demonstration: its directory, and what the run did."""

    directory: Path
    result: RunResult
    family: str = ""

    @property
    def repository(self) -> Path:
        """The bare repository that the pull requests are made in."""
        return self.directory / REPOSITORY

    @property
    def recording(self) -> Path:
        """What this run observed, to be replayed."""
        return self.directory / RECORDING

    def read_pull_request(self, number: int) -> str:
        """A pull request's file: front matter, then the body."""
        return (self.repository / FOLDER / f"{number}.md").read_text(encoding="utf-8")


def run_demo(directory: Path | None = None, progress: Progress = no_progress, family: str = "") -> Demo:
    """Plan and propose for a sample repository in `directory` (None: a new temporary one, which stays).

    A directory that holds the sample already is run again, with what was merged or closed meanwhile.
    Raises ConfigurationError when the directory holds anything else, and for an unknown family.
    """
    recording = read_demo_recording(family)
    directory = Path(tempfile.mkdtemp(prefix="reconciler-demo-")) if directory is None else directory.absolute()
    _prepare(directory, recording, family)
    flags = Flags(repo=str(directory / REPOSITORY))
    with open_session(flags, Environment(), writes=True, progress=progress) as session:
        result = run(
            replace(session.doors, ask=replayed(recording)),
            session.settings,
            recording.now_s,
            repository=REPOSITORY_NAME,
            record=directory / RECORDING,
        )
    if not family:
        (directory / LOADS).write_bytes((_data() / LOADS).read_bytes())
    return Demo(directory=directory, result=result, family=family)


def demo_text(demo: Demo, *, width: int = 0) -> str:
    """What the command prints: the plan, where it was proposed, a pull request, what to try and what is left behind.

    `width` is as for `plan_text`.
    """
    sections = (
        plan_text(demo.result.prepared.plan, width=width).rstrip(),
        "\n".join(_outcome_lines(demo)),
        _pull_request(demo),
        "\n   ".join(("Try", *_next_lines(demo))),
        f"This leaves {demo.directory} behind; to be rid of it: rm -r {shlex.quote(str(demo.directory))}",
    )
    return "\n\n".join(filter(None, sections)) + "\n"


def families() -> tuple[str, ...]:
    """The samples besides the usual one: what serves and scales models in each."""
    return tuple(sorted(entry.name for entry in _examples().iterdir() if entry.is_dir()))


def sample_files(family: str = "") -> Mapping[str, bytes]:
    """A sample repository: path -> content, sorted by path."""
    return dict(sorted(_read(_examples() / family if family else _data() / "repository", "")))


def read_demo_recording(family: str = "") -> Recording:
    """The recording of a sample that comes with the package; ConfigurationError for an unknown family."""
    if family and family not in families():
        raise ConfigurationError(f"--family {family}: expected one of {', '.join(families())}")
    return parse_recording((_examples() / f"{family}.zip" if family else _data() / RECORDING).read_bytes())


def create_sample(repository: Path, family: str = "") -> str:
    """Make the new directory `repository` a sample's bare repository, and return its one commit's id."""
    message = f"Run models of {family} in production" if family else MESSAGE
    return create_bare(
        repository, branch=BRANCH, files=sample_files(family), message=message, author=AUTHOR, date_s=COMMITTED_S
    )


def replayed(recording: Recording) -> Ask:
    """Answers each query as the recording answers its quantity; one it does not hold has failed, with that reason."""
    known = {_asked(answer.query): answer for answer in recording.answers}

    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        del cluster  # each query names it
        return tuple(_answer(known.get(_asked(query)), query) for query in queries)

    return ask


def _prepare(directory: Path, recording: Recording, family: str) -> None:
    """Make the sample in a new or empty directory; keep an earlier demo as it is, and touch nothing else."""
    repository = directory / REPOSITORY
    if not repository.exists():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ConfigurationError(f"{directory}: expected a new or empty directory, or that of an earlier demo")
        create_sample(repository, family)
        return
    try:
        open_directory(repository, base=recording.commit)
    except ConfigurationError as error:
        raise ConfigurationError(f"{repository}: not this version's demo: choose another directory") from error


def _asked(query: Query) -> tuple[object, ...]:
    """What a query is about, independent of its text and of when it runs: cluster, quantity, range and step."""
    return query.cluster, query.quantity, query.end_s - query.start_s, query.step_s


def _answer(known: Answer | None, query: Query) -> Answer:
    if known is not None:
        # The recorded text is kept, so that a new candidate metric does not make this another recording.
        return replace(known, query=replace(query, text=known.query.text))
    reason = f"the demo's recording holds no answer to this query for {query.quantity} of cluster {query.cluster}"
    return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=reason)


def _pull_request(demo: Demo) -> str:
    """The beginning of the first pull request, up to the first folded section."""
    numbers = [each.number for each in demo.result.published if each.number is not None]
    if not numbers:
        return ""
    text, _, rest = demo.read_pull_request(min(numbers)).partition("<details>")
    more = f"... and {len(rest.splitlines())} more lines"
    lines = [*text.rstrip().split("\n"), "", more]
    heading = f"Pull request #{min(numbers)}, in Markdown, begins:"
    return "\n".join((heading, *(f"   {line}".rstrip() for line in lines)))


def _outcome_lines(demo: Demo) -> Iterator[str]:
    """Where the repository is, and each pull request in it."""
    yield f"In {demo.repository}, a repository of its own; nothing left this machine:"
    titles = {draft.change_set.head_branch: draft.title for draft in demo.result.drafts}
    for each in demo.result.published:
        what = "open as it was" if each.operation is Operation.NONE else str(each.operation)
        if each.number is not None or each.reason:
            number = "" if each.number is None else f"pull request #{each.number} "
            yield f"   {number}{what}: {each.reason or titles.get(each.head_branch, each.group)}"


def _next_lines(demo: Demo) -> Iterator[str]:
    """Commands to go on with, from the demo's directory; about the most urgent change, if there is any."""
    chosen = f" --family {demo.family}" if demo.family else ""
    commands = [
        *_commands_about(demo),
        (f"{_program()} demo{chosen} --directory .", "again: nothing is written twice"),
    ]
    if not demo.family:
        replay = f"backtest --replay {RECORDING} --loads {LOADS} --days 1 -o html > backtest.html"
        commands.append((f"{_program()} {replay}", "what a day of such loads would have cost"))
    longest = max(len(command) for command, _ in commands)
    yield f"cd {shlex.quote(str(demo.directory))}"
    for command, words in commands:
        yield f"{command:<{longest}}   # {words}"


def _program() -> str:
    """How this program is called in a shell: `make demo` installs it where no PATH leads."""
    return "reconciler" if shutil.which("reconciler") else f"{shlex.quote(sys.executable)} -m reconciler"


def _commands_about(demo: Demo) -> Iterator[tuple[str, str]]:
    plan = demo.result.prepared.plan
    changes = by_urgency(plan.with_outcome(Outcome.CHANGE))
    if not changes:
        return
    change = changes[0]
    branch = next(group.head_branch for group in plan.groups if change in group.decisions)
    numbers = (each.number for each in demo.result.published if each.head_branch == branch)
    number = next(numbers, None)
    if number is not None:
        yield f"cat {REPOSITORY}/{FOLDER}/{number}.md", "the pull request"
        yield f"git -C {REPOSITORY} log -p {BRANCH}..{branch}", "what it changes"
        if not _was_merged(demo):
            yield f"git -C {REPOSITORY} fetch . {branch}:{BRANCH}", "merge it, then run again"
    yield f"{_program()} explain {change.variant.label} --replay {RECORDING}", "every value behind one variant"


def _was_merged(demo: Demo) -> bool:
    """Whether the base may have moved on: a second proposal is then no longer merged by moving the branch."""
    is_past = (each.operation in (Operation.CLOSED, Operation.LEFT) for each in demo.result.published)
    earlier = (each.state is not ProposalState.OPEN for each in demo.result.prepared.recording.proposals)
    return any(is_past) or any(earlier)


def _data() -> Traversable:
    return resources.files("reconciler.cli") / "demo_data"


def _examples() -> Traversable:
    """Those of the installed package, or of the checkout that it is imported from."""
    package = resources.files("reconciler")
    packaged = package / "_examples"
    return packaged if packaged.is_dir() else Path(str(package)).parent / "tests" / "testdata" / "examples"


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_bytes()
