"""Whatever goes wrong at whatever call of a run: the next run leaves what an undisturbed one does, on every forge.

The gate tries each write of an operation with two faults and each third read with one, others on each forge;
ATTACK_FAULTS=all tries all pairs.
"""

import errno
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import pytest

from tests.attack.faults.place import COUNTED, KILLS, OPERATIONS, PASSING, STEPS, Call, Fault, Operation, open_place
from tests.conftest import FAULTS, HELD
from tests.servers.answers import failing
from tests.servers.desk import open_desk
from tests.servers.fleet import make_template
from tests.servers.git_http import Fault as GitFault
from tests.servers.git_http import serve_git
from tests.servers.git_workshop import Workshop

ALL = os.environ.get("ATTACK_FAULTS") == "all"
HOSTED: list[tuple[str, str]] = [
    (name, kind)
    for name in COUNTED
    for kind in ("github", "gitlab", "gitea")
    if kind in OPERATIONS[name].forges and (ALL or name not in ("show again", "sign"))
]
Cell = tuple[int, Fault]
GIT = [
    (service, fault)
    for service in ("git-upload-pack", "git-receive-pack")
    for fault in GitFault
    if fault is not GitFault.HANG  # git waits for it as long as a run may take
]


def chosen(operation: Operation, calls: Sequence[Call], faults: Sequence[Fault], shift: int) -> list[Cell]:
    """Calls with faults: all pairs, or of these so many that a gate has time for."""
    spoiled = operation.spoiled(calls)
    if ALL:
        return [(call, fault) for call in spoiled for fault in faults]
    if faults == KILLS:
        return [(spoiled[shift % len(spoiled)], KILLS[shift % 2])]
    reads = [number for number in spoiled if not calls[number].changes][shift % 3 :: 3]
    numbers = sorted([number for number in spoiled if calls[number].changes] * 2 + reads)
    return [(number, faults[(index + shift) % len(faults)]) for index, number in enumerate(numbers)]


@dataclass(kw_only=True)
class Tally:
    """What was tried in an operation: all of it, whatever does not hold."""

    expected: Mapping[str, str]
    tried: int = 0
    broken: list[str] = field(default_factory=list)

    def look(self, what: str, found: Mapping[str, str]) -> None:
        """Compare what the next run left."""
        self.tried += 1
        if differs := differences(self.expected, found):
            self.broken.append("\n  ".join((what, *differs)))

    def close(self, record_property: Callable[[str, object], None], line: str) -> None:
        """Count for the tables, and fail where anything did not hold."""
        record_property(FAULTS, f"{line} | {self.tried - len(self.broken)} of {self.tried} held")
        record_property(HELD, [self.tried, self.tried - len(self.broken)])
        assert not self.broken, "\n".join(self.broken)


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """The lines that are otherwise than they should be."""
    before, after = (
        "\n".join(f"{name}: {each[name]}" for name in sorted(each)).splitlines() for each in (expected, found)
    )
    return [each for each in unified_diff(before, after, n=0, lineterm="") if each[:1] in "+-"]


@dataclass(kw_only=True)
class FullDisk:
    """A disk that has room for so many files of pull requests, and then for none."""

    before: int
    failed: bool = False

    def mkstemp(self, *arguments: Any, **named: Any) -> tuple[int, str]:
        """As of `tempfile`."""
        if Path(named.get("dir") or "").name == "pulls":
            self.before -= 1
            if self.before < 0:
                self.failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return mkstemp(*arguments, **named)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every place starts from."""
    return make_template(tmp_path_factory.mktemp("faulty"))


@pytest.mark.parametrize(("name", "kind"), HOSTED)
def test_a_forge_that_fails_is_healed_by_the_next_run(
    template: Workshop, tmp_path: Path, record_property: Callable[[str, object], None], name: str, kind: str
) -> None:
    with open_place(kind, open_desk(template, tmp_path), tmp_path) as place:
        place.prepare(name)
        expected, calls = place.undisturbed()
        shift = HOSTED.index((name, kind))
        of, tally = OPERATIONS[name], Tally(expected=expected)
        passing, kills = chosen(of, calls, PASSING, 5 * shift), chosen(of, calls, KILLS, shift)
        for call, fault in (*passing, *kills):
            place.go_back()
            if fault in KILLS:
                place.kill(fault, call)
            else:
                place.run(fault, call)
            tally.look(f"{fault} at {calls[call]}", place.heal())
        tried = [calls[number] for number in of.spoiled(calls)]
        asked = f"{len(tried)} calls, {sum(each.changes for each in tried)} writes"
        count = f"{len(passing)} faults, {len(kills)} of SIGKILL"
        tally.close(record_property, f"{name} | {kind} | {asked} | {count} of {len(tried) * len(Fault)}")


@pytest.mark.parametrize("name", STEPS)
def test_what_is_killed_or_fails_on_this_machine_is_healed_by_the_next_run(
    template: Workshop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    name: str,
) -> None:
    with open_place("local", open_desk(template, tmp_path), tmp_path) as place:
        place.prepare(name)
        tally = Tally(expected=place.undisturbed()[0])
        for step in STEPS[name]:
            place.go_back()
            place.kill(Fault.KILLED, step=step)
            tally.look(f"SIGKILL after {step}", place.heal())
        writes, disk = 0, FullDisk(before=0, failed=True)
        while disk.failed:
            place.go_back()
            disk = FullDisk(before=writes)
            with monkeypatch.context() as patch:
                patch.setattr(tempfile, "mkstemp", disk.mkstemp)
                place.run()
            left = place.heal()
            if disk.failed:
                tally.look(f"no room for file {writes}", left)
                writes += 1
        place.go_back()
        place.attempt(failing("no complete answer in time"))
        tally.look("Prometheus", place.heal())
        tried = f"full disk, Prometheus, {len(STEPS[name])} of SIGKILL"
        tally.close(record_property, f"{name} | local | {writes} files | {tried}")


@pytest.mark.parametrize("name", STEPS)
def test_a_git_server_that_fails_is_healed_by_the_next_run(
    template: Workshop, tmp_path: Path, record_property: Callable[[str, object], None], name: str
) -> None:
    desk = open_desk(template, tmp_path)
    with open_place("local", desk, tmp_path) as place, serve_git(desk.workshop.remote) as server:
        place.prepare(name)
        desk.url = server.url
        tally = Tally(expected=place.undisturbed()[0])
        faults = GIT if ALL else GIT[list(STEPS).index(name) :: len(STEPS)]
        for server.fault_on, fault in faults:
            place.go_back()
            server.fault = fault
            place.run()
            server.fault = None
            tally.look(f"{fault} of {server.fault_on}", place.heal())
        tally.close(record_property, f"{name} | git over HTTP | fetch, push | {len(faults)} faults")
