"""Writes figures into the documentation, between comments that name what stands there: nobody copies a number."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench.processes import ROOT

PAGES = ("README.md", ".github/docs/performance.md")
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


REGIONS: Mapping[str, Callable[[Kept], str]] = {
    "planning": _planning,
    "start": _start,
    "run": _run,
    "optimizer": _optimizer,
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
