"""A fleet on the local forge whose Prometheus is a function: runs and plans in a tenth of a second.

desk = open_desk(template, folder)
desk.run(BUSY)
assert desk.pull_requests()[0].is_open
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.config.environment import Environment, Flags
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import LoadedSettings, load_settings
from reconciler.domain.settings import Settings
from reconciler.domain.shards import Shard
from reconciler.forge.local import Local
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY, Forge, PullRequest
from reconciler.git.clone import Clone, clone_base
from reconciler.git.repository import Repository
from reconciler.http.messages import Clock
from reconciler.pipeline.prepare import Prepared
from reconciler.pipeline.run import RunResult, plan, run
from reconciler.pipeline.session import Ask, Doors
from reconciler.rendering.renderer import Renderer
from tests.servers.answers import Replica, answering
from tests.servers.fleet import SETTINGS
from tests.servers.git_workshop import Workshop, run_git
from tests.servers.speeds import GRANITE_A100, QWEN_L4

NOW_S = 1_790_000_000.0
RENDERER = Renderer()
GRANITE = Replica(
    namespace="code", pod="granite-5d4c8b7f9-bcdfg", model="ibm/granite-13b", per_s=1.0, speed=GRANITE_A100
)
QWEN = Replica(
    namespace="batch", pod="qwen-6c9d8b7f54-x2v4k", model="Qwen/Qwen2.5-7B-Instruct", per_s=1.0, speed=QWEN_L4
)


def llama(per_s: float) -> tuple[Replica, ...]:
    """The chat model's replicas, which finish `per_s` together."""
    pods = ("llama-5d4c8b7f9-bcdfg", "llama-5d4c8b7f9-hjklm")
    return tuple(Replica(namespace="chat", pod=pod, model="llama", per_s=per_s / 2) for pod in pods)


def at(per_s: float) -> Ask:
    """A Prometheus that sees `per_s` requests for the chat model, and two models that need no change."""
    return answering(*llama(per_s), GRANITE, QWEN)


QUIET, BUSY, PEAK = at(45.0), at(110.0), at(170.0)
BUSY_TWICE = answering(*llama(110.0), replace(GRANITE, per_s=12.0), QWEN)


@dataclass
class DeskClock(Clock):
    """The time of a desk's runs."""

    desk: "Desk"

    def now_s(self) -> float:
        """Unix seconds."""
        return self.desk.now_s


@dataclass(kw_only=True)
class Desk:
    """A fleet and the means to run on it."""

    folder: Path
    workshop: Workshop
    now_s: float = NOW_S
    runs: int = 0
    clusters: tuple[str, ...] = ()
    shard: Shard | None = None
    """Which part its runs decide."""
    prometheus: str = "http://127.0.0.1:9"
    """Of one cluster; empty where its configuration names them."""
    dates: set[float] = field(default_factory=set)
    variables: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    """Where it is cloned from, if not from the directory."""

    @property
    def forge(self) -> Local:
        """Its pull requests."""
        return Local(self.workshop.remote)

    @property
    def dated_forge(self) -> Local:
        """The same, that dates pull requests by the time of the desk's runs."""
        return Local(self.workshop.remote, DeskClock(self))

    def clone(self) -> Clone:
        """A fresh private clone."""
        self.runs += 1
        directory = self.folder / f"clone-{self.runs}"
        remote = self.url or str(self.workshop.remote)
        return clone_base(remote, base="main", credentials=None, directory=directory)

    def settings(self, repository: Repository) -> Settings:
        """The settings that the base commit holds."""
        return self.loaded(repository).settings

    def loaded(self, repository: Repository) -> LoadedSettings:
        """The same, with who pauses us."""
        return load_settings(
            repository_file=repository.read_file_at(repository.commit, REPOSITORY_FILE),
            read_repository_file=lambda path: repository.read_file_at(repository.commit, path),
            list_repository_folder=repository.files_below,
            operator_files=(),
            flags=Flags(prometheus=self.prometheus, clusters=self.clusters, shard=self.shard),
            environment=Environment(variables=self.variables),
        )

    def doors(self, ask: Ask, forge: Forge | None = None) -> Doors:
        """The doors of a run."""
        return Doors(
            repository=self.clone(),
            ask=ask,
            forge=self.forge if forge is None else forge,
            author=NEUTRAL_IDENTITY,
            renderer=RENDERER,
        )

    def run(self, ask: Ask, forge: Forge | None = None) -> RunResult:
        """One run, a minute after the last."""
        self.now_s += 60.0
        self.date_branches()
        doors = self.doors(ask, forge)
        loaded = self.loaded(doors.repository)
        result = run(doors, loaded.settings, self.now_s, repository="fleet", paused=loaded.paused)
        self.date_branches()
        return result

    def date_branches(self) -> None:
        """Give what was pushed since the last time a date of the desk: a file's is the machine's."""
        for path in (self.workshop.remote / "refs" / "heads").rglob("*"):
            if path.is_file() and path.stat().st_mtime not in self.dates:
                os.utime(path, (self.now_s, self.now_s))
        self.dates.add(self.now_s)

    def plan(self, ask: Ask, forge: Forge | None = None, record: Path | None = None) -> Prepared:
        """One plan."""
        doors = replace(self.doors(ask, forge), needs_forge=False)
        return plan(doors, self.settings(doors.repository), self.now_s, repository="fleet", record=record)

    def write(self, path: str, content: str | bytes) -> str:
        """Commit a file as a person."""
        self.workshop.write(path, content.encode() if isinstance(content, str) else content)
        return self.workshop.commit()

    def configure(self, old: str, new: str) -> None:
        """Change reconciler.yaml."""
        assert old in SETTINGS
        self.write("reconciler.yaml", SETTINGS.replace(old, new))

    def pull_requests(self) -> tuple[PullRequest, ...]:
        """All there are."""
        return self.forge.list_pull_requests(head_prefix="", base="main", closed_since_s=0.0)

    def branches(self) -> Mapping[str, str]:
        """Branch -> commit."""
        lines = run_git(self.workshop.remote, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/")
        pairs = (line.split() for line in lines.splitlines())
        return {name: commit for name, commit in pairs}  # noqa: C416  # a type checker sees no pairs in lists

    def state(self) -> tuple[object, ...]:
        """Everything a run could change."""
        folder = self.workshop.remote / "reconciler" / "pulls"
        files = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.glob("*")}
        return self.branches(), files


def open_desk(template: Workshop, folder: Path) -> Desk:
    """A fleet of its own in `folder`."""
    shutil.copytree(template.remote.parent, folder / "acme", symlinks=True)
    workshop = Workshop(remote=folder / "acme" / template.remote.name, clone=folder / "acme" / template.clone.name)
    return Desk(folder=folder, workshop=workshop)
