"""Days of a backtest on real Dask workers: the same as here, also where one of them is killed."""

import os
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from reconciler.domain.backtests import BacktestDay
from reconciler.errors import ConfigurationError, TransientError
from reconciler.pipeline import backtest_days
from reconciler.pipeline.backtest_days import Workers, replay_days
from tests.unit.backtest.test_replay import replayed, rising

pytestmark = pytest.mark.integration


def test_days_are_the_same_on_four_workers_of_which_one_is_killed(tmp_path: Path) -> None:
    subject = replayed(rising, days=6)
    subject = replace(subject, way=replace(subject.way, run_s=7200.0))
    days = subject.days(5)
    here = dict(replay_days(subject, days, 1, (), Workers(), ()))
    with (
        LocalCluster(
            n_workers=4, threads_per_worker=1, dashboard_address=backtest_days.ANY_PORT, local_directory=str(tmp_path)
        ) as local,
        Client(local) as client,
    ):
        there: dict[float, BacktestDay] = {}
        for day_s, day in replay_days(subject, days, 1, (), Workers(scheduler=local.scheduler_address), ()):
            if not there:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            there[day_s] = day
            finished = {key for keys in client.has_what().values() for key in keys if key.startswith("_replay-")}
        assert len(finished) < len(days) - 1, "workers forget days that are here"
    assert there == here
    assert len(here) == 5


def test_a_scheduler_that_ends_is_named_and_finished_days_stay(tmp_path: Path) -> None:
    subject = replayed(rising, days=6)
    subject = replace(subject, way=replace(subject.way, run_s=7200.0))
    with LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=backtest_days.ANY_PORT, local_directory=str(tmp_path)
    ) as local:
        days = replay_days(subject, subject.days(5), 1, (), Workers(scheduler=local.scheduler_address), ())
        next(days)
        local.close()
        with pytest.raises(TransientError, match="the Dask scheduler ended"):
            list(days)


def test_workers_of_this_machine_keep_the_memory_that_each_step_frees(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in backtest_days.MEMORY:
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        client = backtest_days._connected(stack, Workers(count=1))
        for name, size in backtest_days.MEMORY.items():
            assert set(client.run(os.getenv, name).values()) == {str(size)}


def test_a_cluster_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtest_days, "CONNECTS_WITHIN_S", 0.5)
    subject = replayed(rising)
    with pytest.raises(ConfigurationError, match=r"--scheduler tcp://127\.0\.0\.1:9: no Dask cluster"):
        next(replay_days(subject, subject.days(1), 1, (), Workers(scheduler="tcp://127.0.0.1:9")))
