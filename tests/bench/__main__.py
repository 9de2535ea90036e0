"""Measures everything, prints it as tables and keeps it as JSON: `python -m tests.bench [--sizes 100,1000]`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from tests.bench import (
    candidates,
    history,
    judging,
    learning,
    optimizer,
    replay,
    repository,
    reviewing,
    saturation,
    sizing,
    tracking,
    validating,
)
from tests.bench.processes import Spent, run_python
from tests.bench.replay import Replayed
from tests.bench.table import Cell, table

KEPT = Path("bench-results") / "bench.json"
HELP_RUNS = 7


def main() -> None:
    """Run all measurements; the fleets take some minutes."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--sizes", default=",".join(map(str, replay.SIZES)), help="variants of each fleet, and models at most"
    )
    parser.add_argument("--output", type=Path, default=KEPT, help=f"the JSON file (default: {KEPT})")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    # first: the peak of a new process is never below what this one holds when it starts it
    read = [*validating.measure(), *repository.measure()]
    optimized = optimizer.measure([case for case in optimizer.CASES if case.instance.models <= max(sizes)])
    fleets = replay.measure(sizes)
    sized = [*sizing.measure(), *candidates.measure()]
    queries = replay.queries_by_size()
    tracked = tracking.measure()
    learned = learning.measure()
    remembered = history.measure()
    saturated = saturation.measure()
    judged = judging.measure()
    ruled = judging.measure_plan()
    reviewed = reviewing.measure()
    help_s = Spent.median_of([run_python("reconciler", "--help") for _ in range(HELP_RUNS)])
    print("\n\n".join(_sections(sized, fleets, queries, help_s)))
    print(
        "\nAn hour of metric targets, replayed\n"
        + table(("", "targets", "ticks", "seconds"), [_of_rule(row) for row in tracked])
    )
    print("\nChanges judged by rules, five of them in CEL\n" + table(tuple(judged), [tuple(judged.values())]))
    print("\nA whole plan without rules and with them\n" + table(tuple(ruled), [tuple(ruled.values())]))
    print("\nA review beside a plan of the same fleet\n" + table(tuple(reviewed), [tuple(reviewed.values())]))
    print("\nProfiles learned from history\n" + table(tuple(learned), [tuple(learned.values())]))
    print("\nHistories of many models, read\n" + table(tuple(remembered), [tuple(remembered.values())]))
    print(
        "\nModels sized by saturation\n"
        + table(("", "models", "variants", "seconds"), [_of_engine(row) for row in saturated])
    )
    print(
        "\nA large repository, read and edited\n"
        + table(("", "documents or files", "seconds"), [_of_reading(row) for row in read])
    )
    print("\n" + "\n\n".join(optimizer.sections(optimized)))
    kept = {
        "repository": read,
        "optimizer": [asdict(each) for each in optimized],
        "sizing": sized,
        "saturation": saturated,
        "tracking": tracked,
        "learning": learned,
        "history": remembered,
        "judging": judged,
        "ruled_plan": ruled,
        "reviewing": reviewed,
        "replay": [asdict(fleet) for fleet in fleets],
        "queries_by_variants": queries,
        "help": asdict(help_s),
        "python": sys.version.split()[0],
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(kept, indent=1) + "\n")


def _sections(
    sized: Sequence[sizing.Row], fleets: Sequence[Replayed], queries: dict[int, int], help_s: Spent
) -> Iterator[str]:
    yield "Sizing\n" + table(
        ("", "candidates", "seconds", "candidates/s"),
        [(str(row["name"]), row["candidates"], row["duration_s"], row["candidates_per_s"]) for row in sized],
    )
    yield "plan --replay: seconds by act, and of the whole process (medians)\n" + _by_size(fleets)
    restless = fleets[:-1]  # the last is the calm one
    if len(restless) > 1:
        yield "Growth of the whole process, both in one sitting: 1 is proportional\n" + table(
            ("", "more variants", "more seconds", "per variant"),
            [_growth(small, large) for small, large in pairwise(restless)],
        )
    yield "Requests to Prometheus\n" + table(
        ("variants", "requests"), [(f"{size:,}", n) for size, n in queries.items()]
    )
    yield f"reconciler --help: {help_s.wall_s:.3f} s, {help_s.user_s:.3f} s of the processor"


def _by_size(fleets: Sequence[Replayed]) -> str:
    """A column for each fleet."""

    def row(name: str, number: Callable[[Replayed], Cell]) -> tuple[Cell, ...]:
        return name, *map(number, fleets)

    rows = [
        row("of which the plan changes", lambda fleet: fleet.changes),
        row("files in Git", lambda fleet: fleet.files),
        row("pods", lambda fleet: fleet.pods),
        row("series", lambda fleet: fleet.series),
        row("requests to Prometheus", lambda fleet: fleet.queries),
        *(row(act, _of_act(act)) for act in fleets[0].acts_s),
        row("whole process", lambda fleet: fleet.whole.wall_s),
        row("of the processor", lambda fleet: fleet.whole.user_s),
        row("of the processor, in yardsticks", lambda fleet: round(fleet.yardsticks, 1)),
        row("peak memory, MiB", lambda fleet: round(fleet.whole.peak_mib)),
    ]
    return table(("variants", *(f"{fleet.variants:,}" for fleet in fleets)), rows)


def _of_act(act: str) -> Callable[[Replayed], Cell]:
    return lambda fleet: fleet.acts_s[act]


def _of_rule(row: dict[str, str | int | float]) -> tuple[Cell, ...]:
    return row["name"], row["targets"], row["ticks"], row["duration_s"]


def _of_reading(row: dict[str, str | int | float]) -> tuple[Cell, ...]:
    memory = f", {row['peak_mib']:.0f} MiB" if "peak_mib" in row else ""
    seconds = float(row["duration_s"])
    return f"{row['name']}{memory}", row["number"], f"{seconds:.5f}" if seconds < 0.01 else seconds


def _of_engine(row: dict[str, str | int | float]) -> tuple[Cell, ...]:
    return row["name"], row["models"], row["variants"], row["duration_s"]


def _growth(small: Replayed, large: Replayed) -> tuple[Cell, ...]:
    variants, seconds = large.variants / small.variants, large.whole.wall_s / small.whole.wall_s
    return (
        f"{small.variants:,} to {large.variants:,}",
        f"{variants:g} x",
        f"{seconds:.1f} x",
        f"{seconds / variants:.2f}",
    )


if __name__ == "__main__":
    main()
