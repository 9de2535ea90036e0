"""A fleet on a forge that can be set back to any moment, with a fault at one outside call of a run.

with open_place("github", desk) as place:
    place.prepare("update")
    expected = place.undisturbed()
    place.run(Fault.LOST, call=3)
    assert place.heal() == expected
"""

import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from reconciler.domain.recording import Recording
from reconciler.domain.records import replace
from reconciler.errors import ReconcilerError
from reconciler.forge.hosted import LIMITS
from reconciler.forge.pull_requests import Forge
from reconciler.http.messages import Clock
from reconciler.pipeline import prepare as preparing
from reconciler.pipeline.recording import fingerprint
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Ask
from tests.servers.desk import BUSY, PEAK, QUIET, Desk
from tests.servers.fleet import SETTINGS
from tests.servers.forge_server import Answer, ForgeServer
from tests.servers.git_workshop import run_git
from tests.servers.halted_run import PROCESSES, halt_at
from tests.servers.hosted import NAME, open_hosted, reach

LOADS = {"busy": BUSY, "peak": PEAK, "quiet": QUIET}
RULES = """apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {name: up, scope: {direction: [up]}, autoMerge: {}}
"""
ASSIGNED = "reviewers: [alice], assignees: [alice], milestone: 2026-Q2"
ASKED = f"labels: [reconciler], {ASSIGNED}"
HOSTED = ("github", "gitlab", "gitea")
DASHBOARD = "/issues$"
SIGNED = "/(git/refs|repository/commits)$"
SIGNING = "git: {signing: {method: forge}}\n"
BLOCKED = {"github": "blocked", "gitlab": "not_approved"}
SHORT = 0.05
"""Seconds that a client waits for a server that does not answer."""
PATIENCE_S = 60.0
FINGERPRINT = re.compile("fingerprint `[0-9a-f]+`")


class Fault(StrEnum):
    """What goes wrong with a call, each time that the run tries it, unless it is `once`."""

    KILLED = "SIGKILL before it"
    KILLED_AFTER = "SIGKILL after it"
    TIME_OUT = "time-out"
    CUT = "cut"
    SERVER_ERROR = "5xx"
    TOO_MANY = "429"
    LIMITED = "403 limit"
    UNAUTHORIZED = "401"
    LOST = "answer lost"
    LOST_ONCE = "answer lost once"
    DUPLICATED = "duplicated"
    TRUNCATED = "truncated JSON"
    HTML = "wrong content type"


KILLS = (Fault.KILLED, Fault.KILLED_AFTER)
PASSING = tuple(each for each in Fault if each not in KILLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a run does: from the state that `before` leaves, at a load and so many minutes later."""

    before: str = ""
    load: str = "busy"
    minutes: float = 1.0
    merges: bool = False
    forges: tuple[str, ...] = (*HOSTED, "local")
    blocked: bool = False
    """Whether the forge waits for the rules of the base."""
    signs: bool = False
    """Whether the forge writes and signs our commits."""
    settings: str = ASKED
    """Of pull requests, where it begins with nothing."""
    first: str = ""
    """A pattern of the first call that is spoiled: other operations have the same ones before."""

    def spoiled(self, calls: "Sequence[Call]") -> range:
        """The numbers of its calls that are spoiled."""
        begin = next((number for number, call in enumerate(calls) if re.search(self.first, str(call))), len(calls))
        return range(begin, len(calls))


OPERATIONS: Mapping[str, Operation] = {
    "create": Operation(),
    "update": Operation(before="create", load="peak", minutes=20),
    "close": Operation(before="create", load="quiet", minutes=20),
    "propose": Operation(merges=True),
    "merge": Operation(before="propose", minutes=10, merges=True),
    "schedule": Operation(before="propose", minutes=10, merges=True, blocked=True, forges=("github", "gitlab")),
    "ask": Operation(settings=f"labels: [], {ASSIGNED}", first=r"^POST .*/(pulls|merge_requests)$", forges=HOSTED),
    "sign": Operation(signs=True, first=SIGNED, forges=("github", "gitlab")),
    "sign again": Operation(before="sign", load="peak", minutes=20, first=SIGNED, forges=("github", "gitlab")),
    "show": Operation(settings=f"{ASKED}, dashboard: true", first=DASHBOARD, forges=HOSTED),
    "show again": Operation(before="show", load="peak", minutes=20, first=DASHBOARD, forges=HOSTED),
    "withdraw": Operation(before="schedule", load="peak", minutes=22, merges=True, forges=("github", "gitlab")),
}
COUNTED = tuple(name for name in OPERATIONS if name != "propose")
STEPS: Mapping[str, tuple[str, ...]] = {
    "create": ("commit", "push", "create"),
    "update": ("commit", "push", "update"),
    "close": ("mark", "close", "delete"),
    "merge": ("merge", "note"),
}
"""Where a run is killed on the local forge, which has no calls: after a step of each operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request of a run, as the forge's server saw it."""

    method: str
    target: str
    content: bytes

    @property
    def changes(self) -> bool:
        """Whether it is a write: of GraphQL only a mutation is."""
        return b"mutation" in self.content if self.target.endswith("/graphql") else self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {urlsplit(self.target).path}"


@dataclass(kw_only=True)
class Wire:
    """Between a forge's server and its clients: it remembers the calls, and spoils the one with a number."""

    server: ForgeServer
    answer: Callable[..., Answer | None]
    calls: list[Call] = field(default_factory=list)
    fault: Fault | None = None
    at: int = -1
    victim: int = 0
    """The process that a SIGKILL is for."""
    is_known: threading.Event = field(default_factory=threading.Event)

    def carry(self, method: str, target: str, headers: Mapping[str, str], content: bytes) -> Answer | None:
        """What comes back for a request; None cuts the connection."""
        call = Call(method=method, target=target, content=content)
        self.calls.append(call)
        number = len(self.calls) - 1
        is_spoiled = number == self.at or (number > self.at >= 0 and call == self.calls[self.at])
        if self.fault is None or not is_spoiled or (self.fault is Fault.LOST_ONCE and number > self.at):
            return self.answer(method, target, headers, content)
        if self.fault in APPLIED:
            answer = self.answer(method, target, headers, content)
            if self.fault is Fault.DUPLICATED:
                return self.answer(method, target, headers, content)
            if self.fault is Fault.TRUNCATED and answer is not None and answer.status != 204:
                return Answer(status=answer.status, body=json.dumps(answer.body).encode()[:-1] or b"[")
        if self.fault in KILLS:
            self.is_known.wait(PATIENCE_S)
            os.kill(self.victim, signal.SIGKILL)
        if self.fault is Fault.TIME_OUT:
            time.sleep(4 * SHORT)
        return ANSWERS.get(self.fault)

    def clear(self) -> None:
        """No fault any more, and no call remembered."""
        self.calls, self.fault, self.at = [], None, -1


APPLIED = (Fault.KILLED_AFTER, Fault.LOST, Fault.LOST_ONCE, Fault.DUPLICATED, Fault.TRUNCATED)
"""The request takes effect first."""
LIMIT = {"Retry-After": "3600", "X-RateLimit-Remaining": "0", "RateLimit-Remaining": "0"}
ANSWERS = {
    Fault.SERVER_ERROR: Answer(status=502, body=b"<html>Bad Gateway</html>", headers={"Content-Type": "text/html"}),
    Fault.TOO_MANY: Answer(status=429, body={"message": "Too many requests"}, headers={"Retry-After": "3600"}),
    Fault.LIMITED: Answer(status=403, body={"message": "You have exceeded a rate limit"}, headers=LIMIT),
    Fault.UNAUTHORIZED: Answer(status=401, body={"message": "Bad credentials"}),
    Fault.HTML: Answer(status=200, body=b"<html>Please log in</html>", headers={"Content-Type": "text/html"}),
}


@cache
def _prepared() -> dict[tuple[str, str], Any]:
    return {}


def prepare_once(recording: Recording, *others: Any) -> Any:
    """What `prepare` returns, decided once for each recording: it is a pure function, and most of a run's time."""
    key = (fingerprint(recording), recording.commit)
    if key not in _prepared():
        _prepared()[key] = preparing.prepare(recording, *others)
    return _prepared()[key]


@dataclass(kw_only=True)
class Place:
    """A fleet on one kind of forge, and what was kept of it to go back to."""

    kind: str
    desk: Desk
    folder: Path
    forge: Forge
    impatient: Forge
    """The same, that waits for no answer longer than `SHORT`."""
    wire: Wire | None
    operation: Operation = field(default_factory=Operation)
    kept: Any = None

    @property
    def server(self) -> ForgeServer | None:
        """The server behind the forge."""
        return None if self.wire is None else self.wire.server

    def prepare(self, name: str) -> None:
        """Come to the moment before an operation, and keep it."""
        self.operation = OPERATIONS[name]
        self._come_to(name)
        if self.operation.blocked and self.server is not None:
            self.server.repositories[NAME].pull_requests[1].mergeable_state = BLOCKED[self.kind]
        self._keep()

    def undisturbed(self) -> tuple[dict[str, str], list[Call]]:
        """What the operation leaves, and its calls; a further run changes nothing by a single write."""
        result = self.run()
        assert isinstance(result, RunResult), result
        calls = [] if self.wire is None else self.wire.calls
        left = self.heal()
        assert left == self._left_by_another_run(), "a second run changed something"
        self.go_back()
        return left, calls

    def run(self, fault: Fault | None = None, call: int = -1) -> RunResult | ReconcilerError:
        """The operation's run, with a fault at a call; what it raises is returned."""
        if self.wire is not None:
            self.wire.clear()
            self.wire.fault, self.wire.at = fault, call
        return self.attempt(LOADS[self.operation.load], self.impatient if fault is Fault.TIME_OUT else self.forge)

    def attempt(self, ask: Ask, forge: Forge | None = None) -> RunResult | ReconcilerError:
        """The operation's run with other answers of Prometheus; what it raises is returned."""
        try:
            return self._run(ask, forge or self.forge)
        except ReconcilerError as error:
            return error

    def kill(self, fault: Fault, call: int = -1, step: str = "") -> None:
        """The same in a process that is ended by SIGKILL at a call, or after a step."""
        if self.wire is not None:
            self.wire.clear()
            self.wire.fault, self.wire.at = fault, call
            self.wire.is_known.clear()
        where = None if self.server is None else (self.server.url, self.server.token)
        desk = replace(self.desk, now_s=self.desk.now_s - 60.0, runs=1000)
        self._tell_time(desk.now_s)
        given = (self.kind, desk, self.operation.load, where, step)
        process = PROCESSES.Process(target=run_in_process, args=given)
        process.start()
        if self.wire is not None:
            self.wire.victim = process.pid or 0
            self.wire.is_known.set()
        process.join(PATIENCE_S)
        assert process.exitcode == -signal.SIGKILL, process.exitcode
        process.close()

    def heal(self) -> dict[str, str]:
        """One run without a fault, at the same time, and all that can be seen then."""
        if self.wire is not None:
            self.wire.clear()
        self._run(LOADS[self.operation.load], self.forge)
        return self.state()

    def go_back(self) -> None:
        """Everything is as it was before the operation."""
        now_s, state, labels, self.desk.runs, server_s = self.kept
        self.desk.now_s = now_s
        remote = self.desk.workshop.remote
        shutil.rmtree(remote)
        shutil.copytree(self.folder / "kept", remote)
        for each in self.folder.glob("clone-*"):
            shutil.rmtree(each)
        if self.server is not None:
            self.server.repositories, self.server.now_s = deepcopy(state), server_s
            if hasattr(self.server, "labels"):
                self.server.labels = dict(labels)

    def state(self) -> dict[str, str]:
        """All that counts: what people see of pull requests, what each branch holds and how the base came to be."""
        remote = self.desk.workshop.remote
        lines = run_git(remote, "for-each-ref", "--format=%(refname:short) %(tree)", "refs/heads/").splitlines()
        trees: dict[str, str] = dict(line.split(" ") for line in lines)
        return {**trees, "commits of main": run_git(remote, "rev-list", "--count", "main"), **self._pull_requests()}

    def _pull_requests(self) -> dict[str, str]:
        if self.server is None:
            shown = {each.number: each for each in self.desk.pull_requests()}
            fields = ("state", "head_branch", "title", "body", "labels")
            return _seen(shown, fields)
        repository = self.server.repositories[NAME]
        issues = [each for each in repository.issues.values() if each.state == "open"]  # a second one is closed
        told = {f"issue {number}": f"{each.title} {each.body} {each.labels}" for number, each in enumerate(issues)}
        assigned = ("labels", "reviewers", "assignees", "milestone")
        seen = ("state", "head", "base", "title", "body", *assigned, "told_by", "merged_by")
        return told | _seen(repository.pull_requests, seen)

    def _left_by_another_run(self) -> dict[str, str]:
        left = self.heal()
        written = [] if self.wire is None else [str(each) for each in self.wire.calls if each.changes]
        assert not written, written
        return left

    def _come_to(self, name: str) -> None:
        operation = OPERATIONS[name]
        if not operation.before:
            policies = "policies: [.reconciler/policies/]\n" if operation.merges else ""
            settings = SETTINGS.replace("{labels: [reconciler]}", f"{{{operation.settings}}}")
            signing = SIGNING if operation.signs else ""
            self.desk.write("reconciler.yaml", settings + policies + signing)
            self.desk.write(".reconciler/policies/rules.yaml", RULES)
        else:
            self._come_to(operation.before)
            self.operation = OPERATIONS[operation.before]
            if self.operation.blocked and self.server is not None:
                self.server.repositories[NAME].pull_requests[1].mergeable_state = BLOCKED[self.kind]
            self.run()
        self.operation = operation
        self.desk.now_s += operation.minutes * 60.0

    def _keep(self) -> None:
        shutil.rmtree(self.folder / "kept", ignore_errors=True)
        shutil.copytree(self.desk.workshop.remote, self.folder / "kept")
        state = None if self.server is None else deepcopy(self.server.repositories)
        labels = dict(getattr(self.server, "labels", {}))
        server_s = 0.0 if self.server is None else self.server.now_s
        self.kept = self.desk.now_s, state, labels, self.desk.runs, server_s

    def _run(self, ask: Ask, forge: Forge) -> RunResult:
        self.desk.now_s -= 60.0  # each run of a desk is a minute later
        self._tell_time(self.desk.now_s)
        return self.desk.run(ask, forge)

    def _tell_time(self, now_s: float) -> None:
        """The server's clock is not behind that of the run: it dates pushes."""
        if self.server is not None:
            self.server.now_s = max(self.server.now_s, now_s)


def _seen(pull_requests: Mapping[int, object], fields: Sequence[str]) -> dict[str, str]:
    """What people see; the fingerprint of what a run read is another for each run."""
    return {
        f"#{number} {name}": FINGERPRINT.sub("", str(getattr(each, name)))
        for number, each in pull_requests.items()
        for name in fields
    }


@contextmanager
def open_place(kind: str, desk: Desk, folder: Path) -> Iterator[Place]:
    """A fleet on this kind of forge, before anything ran."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setattr("reconciler.pipeline.run.prepare", prepare_once)
        patch.setattr(Clock, "sleep", lambda _clock, _seconds: None)
        if kind == "local":
            yield Place(
                kind=kind, desk=desk, folder=folder, forge=desk.dated_forge, impatient=desk.dated_forge, wire=None
            )
            return
        with open_hosted(kind, desk.workshop.remote, desk.now_s) as (forge, server):
            wire = Wire(server=server, answer=server.answer)
            patch.setattr(server, "answer", wire.carry)
            patch.setattr("reconciler.forge.hosted.LIMITS", replace(LIMITS, read_s=SHORT))
            impatient = reach(kind, server.url, server.token, desk.now_s)
            yield Place(kind=kind, desk=desk, folder=folder, forge=forge, impatient=impatient, wire=wire)


def run_in_process(kind: str, desk: Desk, load: str, where: tuple[str, str] | None, step: str) -> None:
    """The run of another process, which is to be killed."""
    os.environ["NO_PROXY"] = "127.0.0.1"
    if step:
        halt_at(step)
    desk.run(LOADS[load], desk.dated_forge if where is None else reach(kind, *where, desk.now_s))
