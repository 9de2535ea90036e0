"""Everything that one can write has its entry: settings, rules, template variables, gauges, holds and more.

Settings, commands, exit codes and environment are compared in `test_documentation.py`, rules in `test_readme.py`,
templates in `report/test_templates.py`, gauges in `report/test_gauges.py`, holds in `domain/test_holds.py`, kinds in
`test_workloads_page.py`. Here are the pages that lead to them, and what no other test compares.
"""

import re
from pathlib import Path

import pytest
import yaml

from reconciler.cli.main import invoke
from reconciler.domain.holds import HoldKind
from reconciler.metrics.engines import ENGINES
from reconciler.metrics.engines.serving_engine import ServingEngine
from reconciler.policy.files import read_policy
from reconciler.resources.annotations import PREFIX
from tests.servers.examples import FAMILIES, example_files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / ".github" / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
ENGINE_COLUMNS = ("engine", "scraped at", "requests", "tokens", "latencies", "KV cache")


def engine_table() -> str:
    """A row an engine, with the first name that is tried for each quantity."""
    lines = [f"| {' | '.join(ENGINE_COLUMNS)} |", "|---" * len(ENGINE_COLUMNS) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(_cells(engine))} |" for engine in ENGINES.values())])


def _cells(engine: ServingEngine) -> tuple[str, ...]:
    def named(*quantities: str) -> str:
        found = (next(iter(getattr(engine, each)), None) for each in quantities)
        names = (str(_metric(each)) for each in found if each is not None)
        return "<br>".join(f"`{name}`" for name in dict.fromkeys(names)) or "none"

    port = str(engine.port) if engine.port else "the container's port"
    place = f"{port}, `{engine.path}`" + (f", with `{engine.enabled_by}`" if engine.enabled_by else "")
    return (
        f"`{engine.name}`",
        place,
        named("finished", "running", "waiting"),
        named("input_tokens", "output_tokens"),
        named("itl", "ttft", "wait"),
        named("kv_cache_usage", "kv_tokens"),
    )


def _metric(source: object) -> str:
    """What the metric of a source is called; of a quotient, what is divided."""
    for field in ("metric", "numerator", "gauge", "used", "num_blocks"):
        inner = getattr(source, field, None)
        if inner is not None:
            return inner.removesuffix("_sum") if isinstance(inner, str) else _metric(inner)
    raise AssertionError(f"a source without a metric: {source}")


def test_the_table_of_engines_is_made_of_their_records() -> None:
    marked = r"<!-- engines:.*?-->\n(.*?)\n?<!-- end of engines -->"
    (found,) = re.findall(marked, PAGES["scraping.md"], flags=re.DOTALL)
    assert found == engine_table(), f"expected:\n{engine_table()}"


def test_every_metric_of_the_cluster_that_is_asked_for_is_told() -> None:
    asked = {
        name
        for path in (ROOT / "reconciler" / "metrics").glob("*.py")
        for name in re.findall(r"\bkube_[a-z_]+[a-z]\b", path.read_text())
    }
    assert len(asked) > 10
    assert asked <= set(re.findall(r"`(kube_[a-z_]+)`", PAGES["scraping.md"]))


def test_every_kind_of_hold_is_found_by_its_symptom() -> None:
    linked = set(re.findall(r"\(holds\.md#([a-z-]+)\)", PAGES["troubleshooting.md"]))
    assert {str(kind) for kind in HoldKind} <= linked, "name the symptom under which it is met"


def test_every_alert_has_something_to_do() -> None:
    alerts = yaml.safe_load((ROOT / "templates/monitoring/alerts.yaml").read_text())
    named = {rule["alert"] for group in alerts["groups"] for rule in group["rules"]}
    assert named == set(re.findall(r"`(Reconciler[A-Za-z]+)`", PAGES["operations.md"]))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_policies_that_a_page_shows_can_be_read(name: str) -> None:
    for example in re.findall(r"```yaml\n(apiVersion: [^\n]*\nkind: Policy\n.*?)```", PAGES[name], flags=re.DOTALL):
        assert not read_policy(name, example.encode()).findings, example


def test_the_cookbook_has_policies() -> None:
    assert PAGES["cookbook.md"].count("kind: Policy") == PAGES["cookbook.md"].count("\n## ") > 5


def test_files_that_a_start_page_shows_are_those_of_its_example() -> None:
    for family in FAMILIES:
        files = example_files(family)
        shown = re.findall(r'```yaml title="([^"]+)"\n(.*?)```', PAGES[f"start/{family}.md"], flags=re.DOTALL)
        assert shown, family
        for path, content in shown:
            expected = files[path].decode().replace("https://prometheus.example.com", "http://127.0.0.1:9090")
            assert content == expected, f"{family}: {path}"


def test_the_way_of_a_number_is_that_of_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invoke(["demo", "--quiet", "--directory", str(tmp_path)])
    invoke(["explain", "chat/llama-8b", "--replay", str(tmp_path / "recording.zip")])
    (shown,) = re.findall(r"```text\n(chat/llama-8b:.*?)```", PAGES["numbers.md"], flags=re.DOTALL)
    assert shown in capsys.readouterr().out


def test_annotations_that_pages_name_are_documented() -> None:
    known = set(re.findall(rf"\| `{re.escape(PREFIX)}([a-z-]+)`", PAGES["configuration.md"]))
    markers = {"replicas", "min-replicas", "max-replicas", "v1alpha1"}
    for name, page in PAGES.items():
        named = set(re.findall(rf"(?<!\w){re.escape(PREFIX)}([a-z0-9-]*[a-z0-9])", page))
        assert named <= known | markers, name
