"""Golden rows, and targets with one metric as tests need them."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from reconciler.domain.metric_targets import Backend, Behavior, MetricTarget, Panic, Policy, Rate
from reconciler.sizing.tracking_loads import PodHistory, Target, TargetHistory

Rows: TypeAlias = list[dict[str, str]]

# Nothing holds and nothing limits: the count is the recommendation.
FREE = Behavior(
    down=Rate(instances=0, percent=100, period_s=0.0, stabilization_s=0.0),
    up=Rate(instances=0, percent=100, period_s=0.0, stabilization_s=0.0),
    panic=Panic(percent=0, period_s=0.0, threshold_percent=200, hold_s=0.0),
)


@pytest.fixture(scope="session")
def golden_rows() -> Callable[[str], Rows]:
    def read(name: str) -> Rows:
        folder = Path(__file__).parents[2] / "testdata" / "kthena"
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    return read


@pytest.fixture(scope="session")
def free_behavior() -> Behavior:
    return FREE


@pytest.fixture(scope="session")
def make_target() -> Callable[..., Target]:
    """A target of one backend and one metric `m` at 10 a replica; `load` and `replicas` by tick, NaN for unknown."""

    def make(
        load: Sequence[float],
        *,
        replicas: Sequence[float] | float = 5,
        unready: float = 0,
        missing: float = 0,
        external: bool = False,
        minimum: int = 1,
        maximum: int = 20,
        tolerance_percent: int = 10,
        per_replica: float = 10.0,
        behavior: Behavior = FREE,
        grace_s: float | None = None,
        arrivals_per_s: Sequence[float] | None = None,
        name: str = "server",
    ) -> Target:
        total = np.array(load, dtype=np.float64).reshape(-1, 1)
        ones = np.ones_like(total)
        counts = np.broadcast_to(np.atleast_1d(np.array(replicas, dtype=np.float64)).reshape(-1, 1), total.shape)
        reporting = np.where(np.isnan(total), 0.0, np.maximum(np.nan_to_num(counts, nan=1.0) - missing, 0.0))
        pods = {} if external else {"m": PodHistory(total=total, reporting=reporting, missing=missing * ones)}
        return Target(
            name=name,
            policy=Policy(
                metrics=(MetricTarget(name="m", per_replica=per_replica),),
                tolerance_percent=tolerance_percent,
                behavior=behavior,
            ),
            backends=(Backend(name=name, min_replicas=minimum, max_replicas=maximum, scale_to_zero_grace_s=grace_s),),
            history=TargetHistory(
                replicas=np.array(counts),
                unready=unready * ones,
                pods=pods,
                external={"m": total} if external else {},
                arrivals_per_s=None if arrivals_per_s is None else np.array(arrivals_per_s, dtype=np.float64),
            ),
        )

    return make
