"""Writes figures into the documentation, between comments that name what stands there: nobody copies a number."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench.processes import ROOT

PAGES = ("README.md", ".github/docs/performance.md", ".github/docs/rules/tuning.md")
_REGION = re.compile(r"(<!-- measured: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
Kept = Mapping[str, Any]
Numbers = Mapping[str, Any]


def write(kept: Kept) -> None:
    """Put the figures of a JSON file into the pages; what was not measured stays as it is."""
    for name in PAGES:
        page = ROOT / name
        page.write_text(written(page.read_text(), kept))


def written(text: str, kept: Kept) -> str:
    """A page with today's figures; KeyError for a region that nothing writes."""

    def region(match: re.Match[str]) -> str:
        made = REGIONS[match["name"]](kept)
        return f"{match[1]}{made}\n{match[3]}" if made else match[0]

    return _REGION.sub(region, text)


def _planning(kept: Kept) -> str:
    rows = [
        (
            f"{each['more']['variants']:,}",
            f"{each['more']['changes']:,}",
            f"{each['more']['files']:,}",
            f"{each['more']['series']:,}",
            each["more"]["requests"],
            *_costs(each),
            _ratio(each),
        )
        for each in _figures(kept, "plan")
        if "variants" in each["more"]
    ]
    headings = ("variants", "of which the plan changes", "files in Git", "series", "requests", "time", "peak memory")
    return _table((*headings, "yardsticks"), rows)


def _start(kept: Kept) -> str:
    return _table(
        ("command", "time", "peak memory", "yardsticks"),
        [(f"`{each['name']}`", *_costs(each), _ratio(each)) for each in _figures(kept, "start")],
    )


def _run(kept: Kept) -> str:
    rows = [
        (each["name"], *_costs(each), f"{each['more']['requests']}", f"{each['ratio']:.1f} times a replay")
        for each in _figures(kept, "plan")
        if "pull requests" in each["more"]
    ]
    return _table(("", "time", "peak memory", "requests", ""), rows)


_DIRECT = ", milp"


def _optimizer(kept: Kept) -> str:
    rows = []
    # Ours first; the general program, for comparison, last.
    for each in sorted(_figures(kept, "optimizer"), key=lambda each: each["name"].endswith(_DIRECT)):
        more = each["more"]
        usual = more.get("usual rule, %")
        seconds = f"{_number(each['processor_s'])} ({_number(more['slowest, s'])}) s"
        direct = f"{1 / each['ratio']:.0f} times" if each["ratio"] else ""
        memory = f"{each['peak_mib']:,.0f} MiB"
        rows.append(
            (
                each["name"].replace(_DIRECT, ", HiGHS"),
                seconds,
                f"{more['gap, %']:.3f} %",
                "" if usual is None else f"+{usual:.0f} %",
                memory,
                direct,
            )
        )
    return _table(("models", "time", "gap, worst", "usual rule, median", "peak memory", "HiGHS alone"), rows)


def _in_one_line(kept: Kept) -> str:
    planned = {each["more"]["variants"]: each for each in _figures(kept, "plan") if "variants" in each["more"]}
    if not planned:
        return ""
    words = [
        f"{size:,} variants in {_number(each['processor_s'])} s with {each['peak_mib']:.0f} MiB"
        for size, each in sorted(planned.items())
    ]
    return f"A plan of {', of '.join(words)}, on one processor."


_OURS = ("ours", "HPA on arrival rate", "HPA on running requests", "Kthena on arrival rate")
_BY_PULL_REQUEST = ("HPA's rule by pull request", "KEDA with a schedule", "static peak")
_OTHERS = ("WVA on percentages", "WVA on tokens", "Dynamo on throughput", "Dynamo on caches", "Dynamo on latencies")


def _comparison(kept: Kept) -> str:
    rows = []
    for load, seeds in _by_name(_figures(kept, "comparison")).items():
        inside = [100 * each["kept"] for each in seeds]
        shown = f"{_mean(inside):.1f} % ({min(inside):.1f}-{max(inside):.1f})"
        costs = [_cost(seeds, name) for name in (*_OURS, *_BY_PULL_REQUEST)]
        rows.append((load, len(seeds), shown, *costs, f"{_mean([each['PRs/day'] for each in seeds]):.0f}"))
    headings = ("load of ten models", "seeds", "inside targets", *_OURS, *_BY_PULL_REQUEST, "pull requests a day")
    return _table(headings, rows)


def _others(kept: Kept) -> str:
    by_load = _by_name(_figures(kept, "comparison"))
    rows = [(load, *(_cost(seeds, name) for name in _OTHERS)) for load, seeds in by_load.items()]
    return _table(("load", *_OTHERS), rows)


def _by_name(figures: Sequence[Numbers]) -> dict[str, list[Numbers]]:
    found: dict[str, list[Numbers]] = {}
    for each in figures:
        found.setdefault(each["name"], []).append(each["more"])
    return found


def _cost(seeds: Sequence[Numbers], policy: str) -> str:
    """The mean of the seeds that attain it, and how many do where that is not all; none where it is not most."""
    costs = [each[policy] for each in seeds if policy in each]
    if 2 * len(costs) <= len(seeds):
        return "-"
    return f"{_mean(costs):.3f}" + (f" (of {len(costs)})" if len(costs) < len(seeds) else "")


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _requests(kept: Kept) -> str:
    """A row for each target, and in it what each model differs by, with two standard errors."""
    by_target: dict[tuple[str, float], list[Numbers]] = {}
    for each in _figures(kept, "requests"):
        by_target.setdefault((each["name"], each["more"]["target"]), []).append(each["more"])
    rows = [
        (
            f"{'arrivals' if signal == 'load' else 'running requests'} at {target:g}",
            *(
                f"{each['cost, %']:+.1f} % (± {2 * each['error of cost']:.1f}), "
                f"{each['kept, points']:+.1f} (± {2 * each['error of kept']:.1f})"
                for each in models
            ),
            ", ".join(sorted({f"{each['seeds']:g} of {each['hours']:g} h" for each in models})),
        )
        for (signal, target), models in by_target.items()
    ]
    count = max(map(len, by_target.values()), default=0)
    return _table(("HPA on", *(f"model {number}" for number in range(count)), "seeds"), rows)


def _swept(kept: Kept) -> str:
    """Groups that are swept together: those figures of tuning that tell how many targets there are."""
    rows = [
        (each["name"], f"{_number(each['processor_s'])} s")
        for each in _figures(kept, "tuning")
        if "targets" in each["more"]
    ]
    return _table(("swept together", "processor time, each target"), rows)


REGIONS: Mapping[str, Callable[[Kept], str]] = {
    "planning": _planning,
    "start": _start,
    "run": _run,
    "optimizer": _optimizer,
    "comparison": _comparison,
    "comparison-others": _others,
    "requests": _requests,
    "tuning": _swept,
    "in-one-line": _in_one_line,
}


def _figures(kept: Kept, part: str) -> Sequence[Numbers]:
    found: Sequence[Numbers] = kept.get(part, {}).get("figures", ())
    return found


def _costs(figure: Numbers) -> tuple[str, str]:
    return f"{_number(figure['processor_s'])} s", f"{figure['peak_mib']:,.0f} MiB"


def _ratio(figure: Numbers) -> str:
    return "" if figure["ratio"] is None else f"{figure['ratio']:.1f}"


def _number(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 1 else f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown, numbers to the right; empty without rows."""
    if not rows:
        return ""
    ruler = ["---", *["--:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(map(str, each))} |".replace("|  |", "| |") for each in (headings, ruler, *rows))
