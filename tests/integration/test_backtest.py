"""A backtest from two weeks in a real Prometheus and a repository with a history, in two commands."""

import json
from pathlib import Path

import numpy as np
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
    history, midnight_s = written(offered), NOW_S - NOW_S % DAY_S
    times_s = np.arange(midnight_s - 2 * DAY_S, NOW_S + 1, 60.0)
    ran = [(at_s, offered.replicas[0] * (3 if at_s < midnight_s else 2)) for at_s in times_s]
    labels = {"namespace": "llm", "deployment": NAMES[0]}
    points = [(float(at_s), float(count)) for at_s, count in ran]
    history.series("gauge", "kube_deployment_spec_replicas", labels, points, "")
    with prometheus_over(history, tmp_path / "prometheus", days=15) as url:
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
    assert found["ran_from"] == f"the clusters for 1 of {len(NAMES)} variants, else Git's history"
    assert found["coverage"] is not None
    results = {each["name"]: each for each in found["policies"]}
    counted = 2 * sum(offered.replicas) + offered.replicas[0]  # an autoscaler had a half more of the first one
    assert results["what ran"]["cost"]["value"] == pytest.approx(24 * 6.88 * counted, rel=1e-4)
    assert results["as configured"]["attainment"]["value"] > 0.97
    assert results["clairvoyant, same delay"]["cost"]["value"] < results["as configured"]["cost"]["value"]
    assert found["saving"]["value"] > 0
