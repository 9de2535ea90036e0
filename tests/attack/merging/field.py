"""A fleet on a forge with a pull request that merges by itself, the hands of an attacker, and the books of merges."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.domain.proposals import Draft
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY, Forge, MergeAnswer, PullRequest
from reconciler.pipeline.draft import says_the_same
from reconciler.pipeline.publish import Operation, Published
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from tests.servers.desk import BUSY, Desk, open_desk
from tests.servers.fleet import SETTINGS
from tests.servers.forge_server import ForgeServer, StoredPullRequest
from tests.servers.git_workshop import run_git
from tests.servers.hosted import NAME, open_hosted

RULES = """apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {name: up, scope: {direction: [up]}, autoMerge: {}}
"""
MANIFEST, STATUS = "clusters/prod/chat/deployment.yaml", "clusters/prod/chat/variant.yaml"
GROUP = "reconciler/prod-chat"
BLOCKED = {"github": "blocked", "gitlab": "not_approved"}
MINUTE_S = 60.0

Change = tuple[str, str, bytes]
"""Mode, path and content of a file; of a gitlink the content is the commit."""


@dataclass(kw_only=True)
class Field:
    """Everything that an attack may touch. `drafts` are those of all runs, by head branch."""

    kind: str
    desk: Desk
    forge: Forge
    server: ForgeServer | None
    drafts: dict[str, list[Draft]] = field(default_factory=dict)
    start: str = ""
    """The commit of the base after which every commit must be one of our merges."""

    @property
    def remote(self) -> Path:
        """The repository."""
        return self.desk.workshop.remote

    @property
    def branch(self) -> str:
        """The head branch of the pull request that is attacked."""
        return next(each for each in self.desk.branches() if each.startswith(GROUP))

    @property
    def stored(self) -> StoredPullRequest:
        """The first pull request as the server remembers it."""
        assert self.server is not None
        return self.server.repositories[NAME].pull_requests[1]

    def state(self) -> tuple[object, ...]:
        """Everything that a run or the forge could change, but for times."""
        pulls = {} if self.server is None else self.server.repositories[NAME].pull_requests
        return (self.desk.state(), *(repr(replace(each, updated_s=0.0)) for each in pulls.values()))

    def git(self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None) -> str:
        """Git in the remote, as anybody who may write to it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}
        environment |= variables or {}
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=self.remote, env=environment, input=stdin, capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace").strip()

    def show(self, revision: str, path: str) -> bytes:
        """A file of a commit, to the byte."""
        command = ["git", "cat-file", "blob", f"{revision}:{path}"]
        return subprocess.run(command, cwd=self.remote, capture_output=True, check=True).stdout

    def run(self, ask: Ask = BUSY, *, minutes: float = 10.0) -> RunResult:
        """One run, so many minutes after the last; its drafts are remembered."""
        self.desk.now_s += minutes * MINUTE_S
        if self.server is not None:
            self.server.now_s = self.desk.now_s
        result = self.desk.run(ask, self.forge)
        for draft in result.drafts:
            self.drafts.setdefault(draft.change_set.head_branch, []).append(draft)
        return result

    def outcome(self, result: RunResult) -> Published:
        """What became of the pull request that is attacked."""
        found = (each for each in result.published if each.head_branch.startswith(GROUP))
        return next(found, Published(group="", operation=Operation.NONE, head_branch="", reason="nothing"))

    def schedule(self) -> None:
        """Have the forge told to merge once its rules are met, where it has rules."""
        if self.server is not None:
            self.stored.mergeable_state = BLOCKED[self.kind]
            assert self.outcome(self.run()).operation is Operation.SCHEDULED

    def before_merging(self, attack: Callable[[], object]) -> None:
        """Attack once, between the last look of a run and its merge."""
        merge, attacks = self.forge.merge, [attack]

        def attacked(wanted: PullRequest, *, method: str = "") -> MergeAnswer:
            if attacks:
                attacks.pop()()
            return merge(wanted, method=method)

        self.forge.merge = attacked  # type: ignore[method-assign]

    def meet_rules(self) -> None:
        """The rules of the base are met: the forge merges what it was told to."""
        if self.server is not None:
            for number, each in self.server.repositories[NAME].pull_requests.items():
                if each.state == "open":
                    self.server.meet_rules(NAME, number)

    def commit(self, changes: Sequence[Change], parents: Sequence[str] = (), *, onto: str = "") -> str:
        """A commit that is signed, dated and described as ours, with other files than the branch has.

        Its parents are those of the branch, if no others are given, its tree that of `onto`.
        """
        index = {"GIT_INDEX_FILE": str(self.remote / "index-of-an-attack")}
        self.git("read-tree", onto or self.branch, variables=index)
        lines = b""
        for mode, path, content in changes:
            oid = content.decode() if mode == "160000" else self.git("hash-object", "-w", "--stdin", stdin=content)
            lines += f"{mode} {oid}\t".encode() + os.fsencode(path) + b"\0"
        self.git("update-index", "-z", "--index-info", stdin=lines, variables=index)
        tree = self.git("write-tree", "--missing-ok", variables=index)
        date_s = self.git("show", "-s", "--format=%ct", self.branch)
        signed = {f"GIT_{role}_NAME": NEUTRAL_IDENTITY.name for role in ("AUTHOR", "COMMITTER")}
        signed |= {f"GIT_{role}_EMAIL": NEUTRAL_IDENTITY.email for role in ("AUTHOR", "COMMITTER")}
        signed |= {f"GIT_{role}_DATE": f"{date_s} +0000" for role in ("AUTHOR", "COMMITTER")}
        named = parents or self.git("show", "-s", "--format=%P", self.branch).split()
        message = self.git("show", "-s", "--format=%B", self.branch).encode()
        options = (word for each in named for word in ("-p", each))
        return self.git("commit-tree", tree, *options, stdin=message, variables=signed)

    def push(self, commit: str, branch: str = "") -> None:
        """Put a commit on a branch, by default on that of the pull request."""
        self.git("update-ref", f"refs/heads/{branch or self.branch}", commit)

    def faults(self) -> Iterator[str]:
        """What came onto a branch of the repository that no run had drafted."""
        for commit in self.git("rev-list", "--first-parent", "--reverse", f"{self.start}..main").split():
            before, after = f"{commit}^", commit
            changed = self.git("diff", "--raw", "-z", "--no-renames", "--no-abbrev", before, after).split("\0")
            found = {path: fields.split() for fields, path in zip(changed[::2], changed[1::2], strict=False)}
            drafts = (each for drafts in self.drafts.values() for each in drafts)
            if not any(self._is_drafted(after, found, each) for each in drafts):
                yield f"main has what no run drafted: {', '.join(found)}"
        if "release" in self.desk.branches() and self.git("rev-parse", "release") != self.start:
            yield "something was merged into release"
        pulls = {} if self.server is None else self.server.repositories[NAME].pull_requests
        for stored in pulls.values():
            if stored.merged_s is not None and "[skip ci]" in f"{stored.title}{stored.body}":
                yield "the words of somebody else were merged"

    def _is_drafted(self, after: str, changed: Mapping[str, list[str]], draft: Draft) -> bool:
        files = draft.change_set.files
        if not changed.keys() <= files.keys():
            return False
        for mode_before, mode, *_ in changed.values():
            if mode != ("100644" if mode_before == ":000000" else mode_before[1:]):
                return False
        missing = [path for path in files if path not in changed and files[path] != self.show(after, path)]
        return not missing and all(says_the_same(path, self.show(after, path), files[path]) for path in changed)


@contextmanager
def open_field(kind: str, desk: Desk) -> Iterator[Field]:
    """A pull request that a rule lets merge by itself, on this kind of forge; it is ten minutes old."""
    whole = SETTINGS + "policies: [.reconciler/policies/]\n"
    desk.write("reconciler.yaml", whole)
    desk.write(".reconciler/policies/rules.yaml", RULES)
    run_git(desk.workshop.remote, "update-ref", "refs/heads/release", "main")
    start = desk.branches()["main"]
    with ExitStack() as stack:
        forge, server = _forge_of(kind, desk, stack)
        made = Field(kind=kind, desk=desk, forge=forge, server=server, start=start)
        made.run()
        yield made


@contextmanager
def copy_field(begun: Field, folder: Path) -> Iterator[Field]:
    """A field of its own in `folder`, which stands where another was left; its server is a new one."""
    desk = open_desk(begun.desk.workshop, folder)
    desk.now_s, desk.dates = begun.desk.now_s, set(begun.desk.dates)
    drafts = {branch: list(each) for branch, each in begun.drafts.items()}
    with ExitStack() as stack:
        forge, server = _forge_of(begun.kind, desk, stack)
        if server is not None and begun.server is not None:
            stored = deepcopy(begun.server.repositories[NAME])
            server.repositories[NAME] = replace(stored, directory=desk.workshop.remote)
            server.now_s, server.pushed_by = begun.server.now_s, dict(begun.server.pushed_by)
        yield Field(kind=begun.kind, desk=desk, forge=forge, server=server, drafts=drafts, start=begun.start)


def _forge_of(kind: str, desk: Desk, stack: ExitStack) -> tuple[Forge, ForgeServer | None]:
    if kind == "local":
        return desk.forge, None
    return stack.enter_context(open_hosted(kind, desk.workshop.remote, desk.now_s))
