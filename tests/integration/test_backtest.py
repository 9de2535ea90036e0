"""A backtest from two weeks in a real Prometheus and a repository with a history, in two commands."""

import json
from pathlib import Path

import pytest

from reconciler.git.repository import create_bare
from tests.bench.loads import DAY_S
from tests.integration.test_forecasts import ANN, NAMES, NOW_S, PROFILE, SETTINGS, WORKLOAD, Clock, Offered, written
from tests.servers.fleet import run_here
from tests.servers.prometheus import ABSENT, prometheus_over

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]


def manifest(name: str, replicas: int) -> bytes:
    return WORKLOAD.replace("NAME", name).replace("REPLICAS", str(replicas)).encode()


def test_a_newcomer_learns_what_the_last_days_would_have_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = Offered.made()
    monkeypatch.setattr("reconciler.cli.backtest.time", Clock())
    files = {"reconciler.yaml": (SETTINGS + "".join(PROFILE.replace("NAME", name) for name in NAMES)).encode()}
    files |= {f"prod/{name}.yaml": manifest(name, 2 * most) for name, most in zip(NAMES, offered.replicas, strict=True)}
    repository = tmp_path / "fleet.git"
    create_bare(
        repository, branch="main", files=files, message="Run models", author=ANN, date_s=int(NOW_S - 10 * DAY_S)
    )
    recorded = tmp_path / "fleet.zip"
    (tmp_path / "prometheus").mkdir()
    with prometheus_over(written(offered), tmp_path / "prometheus", days=15) as url:
        asked = ["backtest", "--repo", str(repository), "--prometheus", url, "--days", "1", "--record", str(recorded)]
        asked += ["--keep", str(tmp_path / "days")]
        outcome = run_here(asked)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("On your last day: ")
    again = run_here(
        ["backtest", "--replay", str(recorded), "--days", "1", "--keep", str(tmp_path / "days"), "-o", "json"]
    )
    found = json.loads(again.out)
    assert found["sentence"] == outcome.out.splitlines()[0]
    assert found["models"] == len(NAMES)
    assert found["ran_from"] == "Git's history"
    assert found["coverage"] is not None
    results = {each["name"]: each for each in found["policies"]}
    assert results["what ran"]["cost"]["value"] == pytest.approx(24 * 6.88 * 2 * sum(offered.replicas), rel=1e-4)
    assert results["as configured"]["attainment"]["value"] > 0.97
    assert results["clairvoyant, same delay"]["cost"]["value"] < results["as configured"]["cost"]["value"]
    assert found["saving"]["value"] > 0
