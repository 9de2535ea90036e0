"""Our own gauges, through a real Pushgateway and a file, and the alerts and the dashboard over them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.domain.reports import OwnGauge
from reconciler.domain.settings import Pushgateway
from reconciler.errors import ConfigurationError
from reconciler.prometheus.gauges import push_gauges
from reconciler.report.gauges import LAST_SUCCESS
from tests.integration.conftest import OpenFleet
from tests.servers.fleet import Fleet, Level
from tests.servers.prometheus import PROMTOOL
from tests.servers.pushgateway import ABSENT, serve_pushgateway, shown_by

pytestmark = pytest.mark.integration

MONITORING = Path(__file__).parents[2] / "templates" / "monitoring"
TESTDATA = Path(__file__).parents[1] / "testdata"


@pytest.fixture
def pushgateway() -> Iterator[str]:
    """An empty one."""
    if ABSENT:
        pytest.skip(ABSENT)
    with serve_pushgateway() as url:
        yield url


def told_of(text: str, metric: str) -> dict[str, float]:
    """Labels, but those of the grouping, and value of each series of a metric."""
    found = {}
    for line in text.splitlines():
        if match := re.fullmatch(rf"{metric}(?:\{{(.*)\}})? (\S+)", line):
            labels = re.sub(r'(instance|job|repository)="[^"]*",?', "", match[1] or "").rstrip(",")
            found[labels] = float(match[2])
    return found


def busy(make_fleet: OpenFleet, settings: str) -> Fleet:
    """A fleet in a busy hour."""
    fleet = make_fleet("github", settings=settings)
    fleet.go_to(Level.BUSY)
    return fleet


def test_upstreams_gauges_carry_the_base_branch_and_ours_what_is_proposed(
    make_fleet: OpenFleet, pushgateway: str
) -> None:
    fleet = busy(make_fleet, f'gauges: {{pushgateway: {{url: "{pushgateway}"}}}}\n')
    for _ in range(2):
        assert fleet.run().code == 0
        text = shown_by(pushgateway)
        llama = 'accelerator_type="H100",cluster="prod",namespace="chat",variant_name="llama"'
        assert told_of(text, "wva_desired_replicas")[_sorted(llama)] == 2.0
        assert told_of(text, "reconciler_proposed_replicas")[_sorted(llama)] == 4.0
        assert told_of(text, "reconciler_open_proposals") == {"": 2.0}
        assert told_of(text, "reconciler_last_run_exit_code") == {"": 0.0}
        assert told_of(text, LAST_SUCCESS)[""] == pytest.approx(fleet.now_s, abs=5.0)
    assert set(told_of(text, "reconciler_act_seconds")) == {
        f'act="{act}"' for act in ("observe", "decide", "draft", "publish")
    }
    assert fleet.forge
    host = fleet.forge.url.removeprefix("http://")
    assert told_of(text, "reconciler_requests")[f'host="{host}"'] > 0
    assert f'repository="{fleet.repo}"' in text
    assert fleet.token not in text


def test_a_run_that_fails_leaves_the_last_success(make_fleet: OpenFleet, pushgateway: str, tmp_path: Path) -> None:
    textfile = tmp_path / "reconciler.prom"
    settings = f'gauges: {{pushgateway: {{url: "{pushgateway}"}}, textfile: "{textfile}"}}\n'
    fleet = busy(make_fleet, settings)
    assert fleet.run().code == 0
    success = {place: told_of(text, LAST_SUCCESS) for place, text in _texts(pushgateway, textfile)}
    assert fleet.forge
    fleet.forge.fail("GET", "/pulls", status=503, times=99)
    assert fleet.run().code == 4
    for place, text in _texts(pushgateway, textfile):
        assert told_of(text, "reconciler_last_run_exit_code") == {"": 4.0}
        assert told_of(text, LAST_SUCCESS) == success[place]


def test_a_paused_run_says_so(make_fleet: OpenFleet, tmp_path: Path) -> None:
    textfile = tmp_path / "reconciler.prom"
    fleet = busy(make_fleet, f'gauges: {{textfile: "{textfile}"}}\npaused: true\n')
    assert fleet.run().code == 0
    assert told_of(textfile.read_text(), "reconciler_paused") == {"": 1.0}
    assert [path.name for path in tmp_path.glob("*.prom")] == ["reconciler.prom"]
    if PROMTOOL:
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=textfile.read_bytes(), capture_output=True)
        assert checked.returncode in (0, 3), checked.stderr  # 3: it would like other names


@pytest.mark.parametrize("gauges", ['{pushgateway: {url: "http://127.0.0.1:9"}}', '{textfile: "/nowhere/x.prom"}'])
def test_gauges_that_cannot_be_told_are_warned_of_and_fail_nothing(make_fleet: OpenFleet, gauges: str) -> None:
    outcome = busy(make_fleet, f"gauges: {gauges}\n").run()
    assert outcome.code == 0
    assert "WARNING gauges were not published: " in outcome.err


def test_without_the_setting_nothing_is_told(make_fleet: OpenFleet, pushgateway: str) -> None:
    assert busy(make_fleet, "").run().code == 0
    assert "reconciler_" not in shown_by(pushgateway)


def test_any_text_arrives_as_it_is(pushgateway: str) -> None:
    odd = 'a"b\\c\nd€'
    gauge = OwnGauge(name="reconciler_odd", words="Odd\ntext.", series=(({"x": odd}, 1.5),))
    grouping = {"repository": "a/b c%?#", "clusters": ""}
    push_gauges(Pushgateway(url=pushgateway), [gauge], grouping, lambda _: "", replaces=True)
    assert 'x="a\\"b\\\\c\\nd€"} 1.5' in shown_by(pushgateway)
    assert 'repository="a/b c%?#"' in shown_by(pushgateway)


def test_an_address_that_is_no_pushgateway_is_a_sentence(pushgateway: str) -> None:
    gauge = OwnGauge(name="reconciler_x", words="Any.", series=(({}, 1.0),))
    with pytest.raises(ConfigurationError, match=r"push gauges: http:.*/nowhere/.*: 404: .*address and credential"):
        push_gauges(Pushgateway(url=f"{pushgateway}/nowhere"), [gauge], {}, lambda _: "", replaces=True)


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    if not PROMTOOL:
        pytest.skip("needs Debian's prometheus with promtool")
    shutil.copy(MONITORING / "alerts.yaml", tmp_path)
    shutil.copy(TESTDATA / "alerts_test.yaml", tmp_path)
    for arguments in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run([PROMTOOL, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    alerts = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yaml").read_text())
    tested = (TESTDATA / "alerts_test.yaml").read_text()
    assert all(tested.count(f"alertname: {alert}") >= 3 for alert in alerts), "well, before, after"


def _texts(pushgateway: str, textfile: Path) -> list[tuple[str, str]]:
    return [("pushgateway", shown_by(pushgateway)), ("textfile", textfile.read_text())]


def _sorted(labels: str) -> str:
    return ",".join(sorted(labels.split(",")))
