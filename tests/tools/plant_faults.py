"""Plants random faults in the code that decides, and runs the tests that cover each: what survives has no test.

    python -m tests.tools.plant_faults --count 300 --seed 1

The tests below `--tests` run once under `coverage` to learn which tests reach which line. Then each fault (another
operator, constant or order, an early return, a condition that always or never holds) is written into a copy of the
tree, and the tests that reach its line run there until one fails. Survivors are printed with their line: each is
equivalent, or a test is missing. Needs a POSIX system, for every fault is tried in a process forked off a warm one.
"""

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import coverage
import highspy  # noqa: F401 - loaded once, before processes are forked off this one
import numpy as np  # noqa: F401
import pydantic  # noqa: F401
import pytest
import scipy.optimize  # noqa: F401

ROOT = Path(__file__).parents[2]
PACKAGES = ("placement", "manifests", "decision", "policy", "optimizer", "sizing")
QUIET = ("-q", "-W", "ignore", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist")
MOST_TESTS = 60
"""Tests that are tried for one fault: the fastest of each file first."""

OPERATORS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: where it is, what it is, and the whole text of the file that holds it."""

    path: str
    line: int
    words: str
    text: str


def faults_in(path: Path) -> Iterator[tuple[int, str, Callable[[], str]]]:
    """Every fault that can be planted in a file: its line, words for it, and a function that makes the text."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    inside_functions = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    ]
    unique = {id(node): node for node in inside_functions if hasattr(node, "lineno")}
    for node in unique.values():
        for words, changed in _changes(node):
            yield node.lineno, words, lambda node=node, changed=changed: _replaced(source, node, changed)  # type: ignore[misc]


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node may become instead."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPERATORS:
            other = copy.deepcopy(node)
            other.ops = [OPERATORS[type(operator)]()]  # type: ignore[list-item]
            yield f"{type(operator).__name__} -> {type(other.ops[0]).__name__}", other
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in OPERATORS:
            changed = copy.deepcopy(node)
            changed.op = OPERATORS[type(operator)]()  # type: ignore[assignment]
            yield f"{type(operator).__name__} -> {type(changed.op).__name__}", changed
        case ast.UnaryOp(op=ast.Not()):
            yield "not x -> x", node.operand
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield f"{value} -> {value + 1}", ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            other_call = copy.deepcopy(node)
            other_call.func = ast.Name(NAMES[name])
            yield f"{name} -> {NAMES[name]}", other_call
        case ast.Call(func=ast.Name(id="sorted"), args=[first]):
            yield "sorted(x) -> list(x)[::-1]", ast.parse(f"list({ast.unparse(first)})[::-1]", mode="eval").body
        case ast.Call(func=ast.Name(id="reversed"), args=[first]):
            yield "reversed(x) -> x", first
        case ast.IfExp():
            yield "a if x else b -> a", node.body
        case ast.If() | ast.While():
            never = copy.deepcopy(node)
            never.test = ast.Constant(False)
            yield "condition never holds", never
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "returns None", ast.Return(ast.Constant(None))
        case ast.Continue():
            yield "continue -> break", ast.Break()
        case _:
            return


def _replaced(source: str, node: ast.AST, changed: ast.AST) -> str:
    """The source with one node written anew; positions are bytes of UTF-8."""
    lines = source.encode().splitlines(keepends=True)
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text = ast.unparse(ast.fix_missing_locations(changed))
    text = f"({text})" if isinstance(node, ast.expr) else text.replace("\n", "\n" + " " * node.col_offset)
    whole = source.encode()
    return (whole[:start] + text.encode() + whole[end:]).decode()


class _Contexts:
    """Tells coverage which test runs, and remembers how long each took."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measured.switch_context(item.nodeid)
        begun = time.perf_counter()
        yield
        self.seconds[item.nodeid] = time.perf_counter() - begun
        self.measured.switch_context("")


def reach(tests: Sequence[str]) -> dict[str, dict[int, list[str]]]:
    """The tests that reach each line of the packages, the fastest first."""
    sources = [f"reconciler.{package}" for package in PACKAGES]
    measured = coverage.Coverage(data_file=None, source_pkgs=sources, config_file=False, branch=False)
    contexts = _Contexts(measured)
    measured.start()
    try:
        pytest.main([*QUIET, *tests], plugins=[contexts])
    finally:
        measured.stop()
    data = measured.get_data()
    found: dict[str, dict[int, list[str]]] = {}
    for path in data.measured_files():
        name = str(Path(path).relative_to(ROOT))
        found[name] = {
            line: sorted(filter(None, names), key=lambda each: contexts.seconds.get(each, 1e9))
            for line, names in data.contexts_by_lineno(path).items()
        }
    return found


def drawn(count: int, seed: int) -> list[Fault]:
    """Faults drawn at random from all that can be planted in the packages."""
    every = [
        (str(path.relative_to(ROOT)), line, words, make)
        for package in PACKAGES
        for path in sorted((ROOT / "reconciler" / package).rglob("*.py"))
        for line, words, make in faults_in(path)
    ]
    draw = random.Random(seed)  # noqa: S311 - the same in every run
    picked = draw.sample(every, min(count, len(every)))
    return [Fault(path=path, line=line, words=words, text=make()) for path, line, words, make in picked]


def _spread(tests: Sequence[str]) -> list[str]:
    """At most MOST_TESTS tests: the fastest of each file, then the second of each, and so on."""
    by_file: dict[str, list[str]] = {}
    for each in tests:
        by_file.setdefault(each.partition("::")[0], []).append(each)
    rounds = zip_longest(*by_file.values())
    return [each for one_of_each in rounds for each in one_of_each if each is not None][:MOST_TESTS]


def survives(fault: Fault, tests: Sequence[str], tree: Path, limit_s: float) -> bool:
    """Whether every test passes with the fault in the copy `tree`; a run that takes too long counts as noticed."""
    file = tree / fault.path
    kept = file.read_bytes()
    file.write_text(fault.text, encoding="utf-8")
    try:
        child = os.fork()
        if not child:
            _run_tests(tests, tree)
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False
    finally:
        file.write_bytes(kept)


def _run_tests(tests: Sequence[str], tree: Path) -> None:
    """Run tests in this forked process and end it."""
    os.chdir(tree)
    os.setpgid(0, 0)
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path or ".").resolve() != ROOT)]
    sys.dont_write_bytecode = True
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        code = 1
        with contextlib.suppress(BaseException):
            code = int(pytest.main(["-x", *QUIET, f"--rootdir={tree}", *tests]))
        os._exit(code)


def main() -> None:
    """Plant, run, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for the tests of one fault")
    parser.add_argument("--map", type=Path, help="keep the tests that reach each line in this file, or read it")
    parser.add_argument("--tests", nargs="+", default=["tests/unit"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = given.map or Path(folder) / "map.json"
        if not kept.exists():
            child = os.fork()
            if not child:  # what runs under coverage loads the program, which this process must not
                kept.write_text(json.dumps(reach(given.tests)))
                os._exit(0)
            os.waitpid(child, 0)
        reached: dict[str, dict[str, list[str]]] = json.loads(kept.read_text())
    faults = drawn(given.count, given.seed)
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".tools", ".*_cache", "__pycache__"))
        for number, fault in enumerate(faults, 1):
            tests = reached.get(fault.path, {}).get(str(fault.line), [])
            survived = not tests or survives(fault, _spread(tests), tree, given.limit)
            if survived:
                survivors.append(fault)
                shown = (ROOT / fault.path).read_text(encoding="utf-8").splitlines()[fault.line - 1].strip()
                print(f"survived: {fault.path}:{fault.line}: {fault.words} ({len(tests)} tests): {shown}", flush=True)
            if number % 25 == 0:
                print(f"{number} faults, {len(survivors)} survived", flush=True)
    print(f"{len(faults)} faults, {len(survivors)} survived ({len(survivors) / len(faults):.1%})")


if __name__ == "__main__":
    main()
