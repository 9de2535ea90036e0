"""What the benchmark prints, keeps and writes into the documentation."""

import json
import re
from pathlib import Path

import pytest

from reconciler.domain.scalers import Signal
from tests.bench import pages, tuning
from tests.bench.__main__ import PARTS
from tests.bench.figures import Bench, Figure, keep, kept_before
from tests.bench.processes import ROOT, Spent, run_python


def figure(**more: object) -> Figure:
    return Figure(part="plan", name="a plan", processor_s=2.0, yardstick="libyaml", yardstick_s=0.5, **more)  # type: ignore[arg-type]


def planned(variants: int, processor_s: float) -> dict[str, object]:
    more = {"variants": variants, "changes": 1, "files": 2, "series": 3_000, "requests": 4}
    return {**figure(peak_mib=100.4, more=more).kept(), "processor_s": processor_s}


def test_a_line_tells_the_ratio_to_its_yardstick_and_to_the_other_commit() -> None:
    line = figure(base_s=4.0, peak_mib=100.4).line()

    assert line.split("  ")[0] == "plan"
    assert "2.00 s  100 MiB  4.0 x libyaml (0.500 s)  base 4.00 s: 0.50 of it" in line


def test_two_commits_are_measured_in_turn_and_the_first_turn_does_not_count(tmp_path: Path) -> None:
    seen: list[Path] = []

    def run(tree: Path) -> Spent:
        seen.append(tree)
        return Spent(wall_s=0.0, processor_s=float(len(seen)), peak_mib=1.0)

    ours, base = Bench(base=tmp_path).paired(run, repeats=3)

    assert seen == [ROOT, tmp_path] * 4
    assert (ours.processor_s, base and base.processor_s) == (5.0, 6.0)


def test_a_process_is_measured_with_its_children_and_not_with_what_started_it() -> None:
    held = bytearray(200 * 2**20)

    spent = run_python("timeit", "-n1", "-r1", "import subprocess; subprocess.run(['sh', '-c', 'exit 0'])")

    assert held
    assert spent.peak_mib < 100
    assert 0 < spent.processor_s < spent.wall_s + 1


def test_a_failing_command_says_its_last_words() -> None:
    with pytest.raises(RuntimeError, match="no_such_module"):
        run_python("no_such_module")


def test_pages_get_the_figures_between_their_comments() -> None:
    page = (
        "before\n<!-- measured: planning -->\nold\n<!-- end -->\nafter\n<!-- measured: start -->\nkept\n<!-- end -->\n"
    )

    written = pages.written(page, {"plan": {"figures": [planned(1_000, 1.234), figure().kept()]}})

    assert "| 1,000 | 1 | 2 | 3,000 | 4 | 1.2 s | 100 MiB | 4.0 |\n<!-- end -->\nafter" in written
    assert "old" not in written
    assert "kept" in written
    assert pages.written(written, {}) == written


def test_a_comparison_has_means_of_the_seeds_that_attain_as_much() -> None:
    seeds = [
        Figure(
            part="comparison", name="smooth", processor_s=1.0, more={"kept": 0.9 + seed / 100, "PRs/day": 30.0, **costs}
        )
        for seed, costs in enumerate(
            (
                {"ours": 1.2, "static peak": 2.0, "WVA on tokens": 1.5},
                {"ours": 1.0, "static peak": float("nan"), "WVA on tokens": 1.6},
                {"ours": 1.1, "static peak": float("nan"), "WVA on tokens": float("nan")},
            )
        )
    ]
    kept = {"comparison": {"figures": [each.kept() for each in seeds]}}
    page = "<!-- measured: comparison -->\n<!-- end -->\n<!-- measured: comparison-others -->\n<!-- end -->\n"

    written = pages.written(page, kept)

    assert "| smooth | 3 | 91.0 % (90.0-92.0) | 1.100 | - | - | - | - | - | - | 30 |" in written
    assert "| smooth | - | 1.550 (of 2) | - | - | - |" in written


def test_differences_from_requests_stand_with_two_standard_errors(tmp_path: Path) -> None:
    more = {"target": 0.6, "seeds": 60, "hours": 8.0, "cost, %": -1.25, "error of cost": 0.5}
    figures = [
        Figure(
            part="requests",
            name="running",
            processor_s=1.0,
            more={**more, "model": model, "kept, points": 0.3, "error of kept": 0.2},
        )
        for model in range(2)
    ]
    kept = keep(tmp_path / "bench.json", "requests", figures)

    written = pages.written("<!-- measured: requests -->\n<!-- end -->\n", kept)

    shown = "-1.2 % (± 1.0), +0.3 (± 0.4)"
    assert f"| running requests at 0.6 | {shown} | {shown} | 60 of 8 h |" in written
    assert [Figure.of(each) for each in kept_before(tmp_path / "bench.json")["requests"]["figures"]] == figures


def test_the_page_on_tuning_has_the_time_of_each_target_of_groups_that_are_swept_together() -> None:
    together = Figure(part="tuning", name="7 targets in three groups", processor_s=0.123, more={"targets": 7.0})
    alone = Figure(part="tuning", name="a setting", processor_s=4.5, more={"seeds": 1.0})

    written = pages.written(
        "<!-- measured: tuning -->\n<!-- end -->\n", {"tuning": {"figures": [together.kept(), alone.kept()]}}
    )

    assert "| 7 targets in three groups | 0.12 s |\n<!-- end -->" in written
    assert "a setting" not in written


def test_groups_that_are_swept_together_take_loads_and_metrics_in_turn() -> None:
    cases = tuning.cases_of(4, 3)

    assert [len(group.targets) for group, _ in cases] == [2, 1, 1]
    assert {len(group.days()) for group, _ in cases} == {14}
    signals = [group.targets[0].setting.metrics[0].signal for group, _ in cases]
    assert signals == [Signal.ARRIVALS, Signal.RUNNING, Signal.ARRIVALS]
    assert [goal.attainment for _, goal in cases] == [0.99, 0.99, 0.98]


def test_every_region_of_the_pages_has_something_that_writes_it() -> None:
    texts = [(ROOT / page).read_text() for page in pages.PAGES]
    named = [name for text in texts for name in re.findall(r"<!-- measured: ([a-z-]+) -->", text)]

    assert sorted(named) == sorted(pages.REGIONS)
    assert sum(text.count("<!-- end -->") for text in texts) == len(named)


def test_the_makefile_passes_each_option() -> None:
    recipe = (ROOT / "Makefile").read_text().split("\nbench:")[1].split("\n\n")[0]

    assert {"--part $(PART)", "--all", "--base $(BASE)", "--write"} <= set(re.findall(r"--\w+(?: \$\(\w+\))?", recipe))
    replayed = {"backtest", "comparison", "tuning"}
    assert set(PARTS) == {"plan", "sizing", "optimizer", "review", "start", "history"} | replayed


def test_a_kept_figure_is_json() -> None:
    assert json.loads(json.dumps(figure().kept()))["ratio"] == 4.0
