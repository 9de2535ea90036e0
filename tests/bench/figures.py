"""What is measured: a figure with its yardstick, and with the same figure of another commit where one is named."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.processes import ROOT, Spent, name_of

KEPT = Path("bench-results") / "bench.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Processor seconds of one act, and what they are compared with.

    `yardstick` names work that any program would have to do for the same input, measured at the same time: the ratio
    to it hardly depends on how fast the machine is just now. `base_s` is the act in the tree of another commit.
    """

    part: str
    name: str
    processor_s: float
    peak_mib: float | None = None
    yardstick: str = ""
    yardstick_s: float | None = None
    base_s: float | None = None
    more: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> "Figure":
        """The figure that was kept."""
        return cls(**{name: value for name, value in kept.items() if name != "ratio"})

    @property
    def ratio(self) -> float | None:
        """How many yardsticks it takes."""
        return self.processor_s / self.yardstick_s if self.yardstick_s else None

    def line(self) -> str:
        """The figure as it is printed."""
        words = [f"{self.part:9}  {self.name:44}  {_seconds(self.processor_s):>9}"]
        if self.peak_mib is not None:
            words.append(f"{self.peak_mib:,.0f} MiB")
        if self.ratio is not None:
            words.append(f"{self.ratio:.1f} x {self.yardstick} ({_seconds(self.yardstick_s or 0.0)})")
        if self.base_s is not None:
            words.append(f"base {_seconds(self.base_s)}: {self.processor_s / self.base_s:.2f} of it")
        words += [f"{name} {number:g}" for name, number in self.more.items()]
        return "  ".join(words)

    def kept(self) -> dict[str, object]:
        """The figure as the JSON file holds it."""
        more = {name: number for name, number in self.more.items() if math.isfinite(number)}
        return {**asdict(self), "more": more, "ratio": self.ratio}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How much is measured: `is_all` everything, `base` also the tree of another commit, turn by turn."""

    is_all: bool = False
    base: Path | None = None

    def paired(self, run: Callable[[Path], Spent], repeats: int) -> tuple[Spent, Spent | None]:
        """Medians of a process in this tree and in the base's, turn by turn; before several, each once for bytecode."""
        trees = [ROOT, *([] if self.base is None else [self.base])]
        warm_up = repeats > 1
        turns = [[run(tree) for tree in trees] for _ in range(repeats + warm_up)][warm_up:]
        ours, *theirs = (Spent.median_of(runs) for runs in zip(*turns, strict=True))
        return ours, theirs[0] if theirs else None


Part = Callable[[Bench], Iterator[Figure]]


def kept_before(path: Path) -> dict[str, Any]:
    """What the JSON file holds, by part."""
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def keep(path: Path, part: str, figures: Sequence[Figure], base: str = "") -> dict[str, Any]:
    """Write figures for those of a part that the JSON file holds; all that it holds then."""
    kept = kept_before(path)
    kept[part] = {
        "commit": name_of(),
        "base": name_of(base) if base else "",
        "python": sys.version.split()[0],
        "processors": os.cpu_count(),
        "figures": [each.kept() for each in figures],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")
    return kept


def seconds_of(act: Callable[[], object]) -> float:
    """Processor seconds of one act in this process."""
    started_s = time.process_time()
    act()
    return time.process_time() - started_s


def _seconds(seconds: float) -> str:
    if seconds < 0.001:
        return f"{1000 * seconds:.3f} ms"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds:.3f} s"
