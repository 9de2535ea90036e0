"""Measures speed part by part, prints each figure when it is known, and keeps all as JSON: `python -m tests.bench`.

`--part` chooses parts, `--all` measures large fleets and all instances of the optimizer too, `--base COMMIT` measures
whole commands of another commit in turn with this one's, `--write` puts the figures into the documentation.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc

from tests.bench import (
    backtesting,
    candidates,
    history,
    judging,
    learning,
    optimizer,
    pages,
    replay,
    repository,
    reviewing,
    saturation,
    sizing,
    start,
    steady,
    tracking,
    tuning,
    validating,
)
from tests.bench.figures import KEPT, Bench, Figure, Part, keep, kept_before, seconds_of
from tests.bench.processes import tree_of

BETAS = 40_000
BETA = f"betainc of {BETAS:,}"
DIRECT = "HiGHS asked directly"


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part; may be given again")
    parser.add_argument("--all", action="store_true", help="large fleets and all problems, too")
    parser.add_argument("--base", default="", metavar="COMMIT", help="measure this commit in turn with the work tree")
    parser.add_argument("--write", action="store_true", help="write the figures into the documentation")
    parser.add_argument("--output", type=Path, default=KEPT, help=f"the JSON file (default: {KEPT})")
    arguments = parser.parse_args()
    kept = kept_before(arguments.output)
    with tree_of(arguments.base) as base:
        bench = Bench(is_all=arguments.all, base=base)
        for part in arguments.part or PARTS:
            figures = []
            for figure in PARTS[part](bench):
                print(figure.line(), flush=True)
                figures.append(figure)
            # What was measured is kept, whatever stops the next part.
            kept = keep(arguments.output, part, figures, arguments.base)
    if arguments.write:
        pages.write(kept)


def _plan(bench: Bench) -> Iterator[Figure]:
    yield from replay.measure(bench)
    yield from steady.measure(bench)


def _sizing(bench: Bench) -> Iterator[Figure]:
    numbers = np.linspace(0.1, 0.9, BETAS)
    yardstick_s = min(seconds_of(lambda: betainc(100 * numbers, 300.0, numbers)) for _ in range(5))
    # Of the laws by batch size only the last row, a fleet of them, without --all.
    laws = (row for row in sizing.measure(sizing.BATCHES if bench.is_all else ()))
    learned = learning.measure(learning.PAIRS if bench.is_all else 200)
    for rows in (laws, candidates.measure(), saturation.measure(), tracking.measure(), [learned]):
        for row in rows:
            yield _figure("sizing", row, BETA, yardstick_s)


def _review(bench: Bench) -> Iterator[Figure]:
    reviewed = reviewing.measure()
    yield Figure(
        part="review",
        name=f"review of {reviewed['variants']:,} variants",
        processor_s=reviewed["review, s"],
        yardstick="a plan of the same fleet",
        yardstick_s=reviewed["plan, s"],
    )
    judged = judging.measure()
    yield Figure(part="review", name=f"rules judge {judged['changes']:,} changes", processor_s=judged["together, s"])
    ruled = judging.measure_plan(3_000, repeats=1) if bench.is_all else judging.measure_plan(1_000)
    yield Figure(
        part="review",
        name=f"plan of {ruled['variants']:,} variants with 20 rules",
        processor_s=ruled["with 20 rules, s"],
        yardstick="the plan without",
        yardstick_s=ruled["without rules, s"],
    )
    for row in validating.measure():
        yield _figure("review", row)
    read = repository.measure()
    bare_s = next(float(row["duration_s"]) for row in read if "libyaml reads all" in str(row["name"]))
    edited_s = next(float(row["duration_s"]) for row in read if "libyaml reads a file" in str(row["name"]))
    for row in read:
        if "yardstick" not in str(row["name"]):
            is_edit = "edit" in str(row["name"])
            yield _figure("review", row, "libyaml reading the same", edited_s if is_edit else bare_s)


def _optimizer(bench: Bench) -> Iterator[Figure]:
    cases = optimizer.CASES if bench.is_all else optimizer.FEW_CASES
    direct = {replace(each.instance, seed=0): each for each in cases if each.solver == optimizer.DIRECT}
    direct_s: dict[object, float] = {}
    for case in sorted(cases, key=lambda each: each.solver != optimizer.DIRECT):
        measured = optimizer.measure_case(case)
        middle = sorted(measured.solved, key=lambda each: each.solve_processor_s)[len(measured.solved) // 2]
        instance = replace(case.instance, seed=0)
        if case.solver == optimizer.DIRECT:
            direct_s[instance] = middle.solve_processor_s
        is_compared = case.solver != optimizer.DIRECT and instance in direct
        yield Figure(
            part="optimizer",
            name=measured.name,
            processor_s=middle.solve_processor_s,
            peak_mib=max(each.peak_mib for each in measured.solved),
            yardstick=DIRECT if is_compared else "",
            yardstick_s=direct_s[instance] if is_compared else None,
            more=optimizer.summary_of(measured),
        )


def _history(bench: Bench) -> Iterator[Figure]:
    row = history.measure(history.MODELS if bench.is_all else 1_000)
    seconds = float(row["duration_s"])
    yield Figure(
        part="history",
        name=f"14 days and a day of {row['models']:,} models",
        processor_s=seconds,
        peak_mib=float(row["peak_mib"]),
        yardstick="numpy reading the numbers",
        yardstick_s=seconds / float(row["yardsticks"]),
        more={"points": float(row["points"])},
    )


def _figure(part: str, row: Mapping[str, Any], yardstick: str = "", yardstick_s: float | None = None) -> Figure:
    """The figure of a row with a name, a number of things, and seconds."""
    number = next((row[key] for key in ("candidates", "models", "targets", "number", "pairs") if key in row), None)
    peak_mib = row.get("peak_mib", row.get("peak_memory_mib"))
    return Figure(
        part=part,
        name=str(row.get("name", "profiles learned")),
        processor_s=float(row["duration_s"]),
        peak_mib=None if peak_mib is None else float(peak_mib),
        yardstick=yardstick,
        yardstick_s=yardstick_s,
        more={} if number is None else {"of": float(number)},
    )


PARTS: Mapping[str, Part] = {
    "start": start.measure,
    "plan": _plan,
    "sizing": _sizing,
    "optimizer": _optimizer,
    "review": _review,
    "history": _history,
    "backtest": backtesting.measure,
    "comparison": backtesting.compared,
    "tuning": tuning.measure,
}


if __name__ == "__main__":
    main()
