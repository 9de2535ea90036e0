"""The page about serving workloads, compared with the registry."""

import re
from pathlib import Path

from reconciler.metrics.routers import ROUTERS
from reconciler.resources.charts import charts
from reconciler.resources.registry import KINDS

PAGE = Path(__file__).parents[2] / ".github" / "docs" / "workloads.md"
CHART_COLUMNS = ("chart", "replicas", "bounds", "it makes", "seen at", "tried on")
ROUTER_COLUMNS = ("counted by", "requests", "the model", "not counted yet")
COLUMNS = ("kind", "replicas", "one replica is", "accelerator", "bounds", "metrics", "tried on")


def table() -> str:
    rows = [
        (
            f"`{name}` ({', '.join(kind.versions)})",
            *(kind.serving.replicas, kind.serving.instance, kind.serving.accelerator),
            *(kind.serving.bounds, kind.serving.metrics, ", ".join(kind.serving.tried_on) or "its own tests"),
        )
        for name, kind in sorted(KINDS.items())
        if kind.serving is not None
    ]
    lines = [f"| {' | '.join(row)} |" for row in (COLUMNS, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(COLUMNS)}", *lines[1:]])


def chart_table() -> str:
    rows = [
        (
            f"`{name}`",
            "<br>".join(
                f"`{each.each}[].{each.replicas}`" if each.each else f"`{each.replicas}`" for each in chart.workloads
            ),
            "<br>".join(
                f"`{each.scaler.least}`, `{each.scaler.most}`" if each.scaler else "none" for each in chart.workloads
            ),
            "<br>".join(f"`{each.name}`" for each in chart.workloads),
            chart.seen,
            ", ".join(chart.tried_on),
        )
        for name, chart in sorted(charts().items())
    ]
    lines = [f"| {' | '.join(row)} |" for row in (CHART_COLUMNS, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(CHART_COLUMNS)}", *lines[1:]])


def router_table() -> str:
    rows = [
        (
            each.name,
            "<br>".join(f"`{metric}`" for metric in each.requests),
            ", else ".join(f"`{label}`" for label in reversed(each.models)),
            f"`{each.under_way}`" if each.under_way else "none",
        )
        for each in ROUTERS
    ]
    lines = [f"| {' | '.join(row)} |" for row in (ROUTER_COLUMNS, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(ROUTER_COLUMNS)}", *lines[1:]])


def test_the_table_of_routers_is_that_of_their_records() -> None:
    (found,) = re.findall(r"<!-- routers:.*?-->\n(.*?)\n<!-- end of routers -->", PAGE.read_text(), flags=re.DOTALL)
    assert found == router_table(), f"expected:\n{router_table()}"


def test_the_table_of_charts_is_that_of_their_files() -> None:
    (found,) = re.findall(r"<!-- charts:.*?-->\n(.*?)\n<!-- end of charts -->", PAGE.read_text(), flags=re.DOTALL)
    assert found == chart_table(), f"expected:\n{chart_table()}"


def test_the_table_of_kinds_is_that_of_the_registry() -> None:
    (found,) = re.findall(r"<!-- kinds:.*?-->\n(.*?)\n<!-- end of kinds -->", PAGE.read_text(), flags=re.DOTALL)
    assert found == table(), f"expected:\n{table()}"
