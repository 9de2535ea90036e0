"""Queue, rate search and sizes against the program that published the model (tests/testdata/inferno/README.md)."""

import csv
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from reconciler.domain.units import S_PER_MINUTE, cost_per_hour_from_cents, seconds_from_ms
from reconciler.sizing.queueing_chain import analyze
from reconciler.sizing.queueing_laws import Binding, ServiceCurves, Targets, decode_only, mean_limit_s
from reconciler.sizing.queueing_rates import RateLimits, largest_rate, rate_range
from tests.tools.decode_only_sizes import Demand, Profiles, Sizes, Terms, size

TESTDATA = Path(__file__).parents[2] / "testdata" / "inferno"

Column: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class Table:
    """One CSV file by column, in SI units."""

    def __init__(self, name: str, defaults: dict[str, float] | None = None) -> None:
        with (TESTDATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            self._rows = list(csv.DictReader(file))
        self._defaults = defaults or {}

    def __len__(self) -> int:
        return len(self._rows)

    def has(self, column: str) -> bool:
        return column in self._rows[0]

    def numbers(self, column: str) -> Column:
        """Numbers as written, the default where the table lacks the column, NaN where a cell is empty."""
        if not self.has(column):
            return np.full(len(self), self._defaults[column])
        return np.array([float(row[column] or "nan") for row in self._rows])

    def whole(self, column: str) -> NDArray[np.int64]:
        return self.numbers(column).astype(np.int64)

    def says_yes(self, column: str) -> Mask:
        return np.array([row[column] == "yes" for row in self._rows])

    def seconds(self, column: str) -> Column:
        return np.array([seconds_from_ms(value) for value in self.numbers(column)])

    def per_second(self, column: str) -> Column:
        return np.array([value / S_PER_MINUTE for value in self.numbers(column)])

    def cost_per_hour(self, column: str) -> Column:
        return np.array([cost_per_hour_from_cents(value) for value in self.numbers(column)])

    def itl_limit_s(self) -> Column:
        limit_s = self.seconds("slo_itl_ms")
        return np.where(limit_s > 0, limit_s, np.inf)

    def wait_limit_s(self) -> Column:
        """The targets are 95th percentiles."""
        target_s = self.seconds("slo_ttw_ms")
        return np.array([mean_limit_s(each, 95) if each > 0 else np.inf for each in target_s])

    def rate_tolerance(self) -> Column:
        """Next to a lone request's latency the curve is flat, and the original's float32 answer coarse."""
        lone_ms = self.numbers("alpha_ms") + self.numbers("beta_ms")
        return np.where(np.abs(self.numbers("slo_itl_ms") / lone_ms - 1) <= 1e-3, 0.04, 2e-3)


def curves_of(table: Table) -> ServiceCurves:
    return decode_only(
        alpha_s=table.seconds("alpha_ms"),
        beta_s=table.seconds("beta_ms"),
        output_tokens=table.numbers("avg_len_tokens"),
        max_batch=table.numbers("max_batch"),
        occupancy_limit=table.numbers("occupancy_limit"),
    )


def sizes_of(table: Table) -> Sizes:
    unit_cost = "unit_cost_cents_per_hr" if table.has("unit_cost_cents_per_hr") else "unit_cost"
    return size(
        Profiles(
            alpha_s=table.seconds("alpha_ms"),
            beta_s=table.seconds("beta_ms"),
            max_batch_size=table.numbers("profile_max_batch"),
            at_tokens=table.numbers("at_tokens"),
        ),
        Demand(arrival_rate_per_s=table.per_second("arrival_rpm"), output_tokens=table.numbers("avg_len_tokens")),
        Targets(itl_s=table.itl_limit_s(), wait_s=table.wait_limit_s(), tokens_per_s=table.numbers("slo_tps")),
        Terms(
            max_batch_override=table.numbers("server_max_batch_override"),
            min_replicas=table.whole("min_replicas"),
            accelerators_per_replica=table.whole("acc_count"),
            cost_per_hour=table.cost_per_hour(unit_cost),
        ),
    )


def assert_waits_agree(wait_s: Column, expected_s: Column, response_s: Column) -> None:
    allowed = np.maximum(np.maximum(0.02e-3, 3e-3 * expected_s), 1.2e-7 * response_s)
    np.testing.assert_array_less(np.abs(wait_s - expected_s), allowed)


def assert_sizes_agree(sizes: Sizes, table: Table, compared: Mask, prefix: str = "") -> None:
    assert (sizes.max_batch == table.numbers(f"{prefix}batch"))[compared].all()
    exact = compared & (sizes.max_batch > 1) & (sizes.replicas <= 1000)
    assert exact.any()
    assert (sizes.replicas == table.numbers(f"{prefix}replicas"))[exact].all()
    cost = table.cost_per_hour(f"{prefix}cost")
    np.testing.assert_allclose(sizes.cost_per_hour[exact], cost[exact], rtol=1e-6)
    itl_s, wait_s = table.seconds(f"{prefix}itl_ms")[exact], table.seconds(f"{prefix}wait_ms")[exact]
    np.testing.assert_allclose(sizes.itl_s[exact], itl_s, rtol=1e-5)
    response_s = wait_s + itl_s * table.numbers("avg_len_tokens")[exact]
    assert_waits_agree(sizes.wait_s[exact], wait_s, response_s)
    if table.has(f"{prefix}rho"):
        np.testing.assert_allclose(sizes.busy_probability[exact], table.numbers(f"{prefix}rho")[exact], atol=1e-5)


def assert_feasibility_agrees(sizes: Sizes, table: Table) -> None:
    """With a batch of 1 the original answers an ITL target by float noise."""
    decided = (sizes.max_batch > 1) | ~np.isfinite(table.itl_limit_s())
    assert (sizes.feasible == table.says_yes("feasible"))[decided].all()


def test_chain_agrees_in_every_column() -> None:
    table = Table("v1_queue_model")
    state = analyze(curves_of(table), table.per_second("arrival_rpm"))

    np.testing.assert_allclose(state.throughput_per_s, table.per_second("throughput_rpm"), rtol=2e-6)
    np.testing.assert_allclose(state.service_s, table.seconds("avg_service_ms"), rtol=1e-5)
    np.testing.assert_allclose(state.itl_s, table.seconds("avg_token_time_ms"), rtol=1e-5)
    np.testing.assert_allclose(state.mean_in_service, table.numbers("avg_in_service"), rtol=1e-5)
    np.testing.assert_allclose(state.busy_probability, table.numbers("rho_1_minus_p0"), atol=1e-5)
    np.testing.assert_allclose(state.p_empty, table.numbers("p0"), atol=1e-5)
    np.testing.assert_allclose(state.p_full, table.numbers("pK"), atol=1e-5)
    assert_waits_agree(state.wait_s, table.seconds("avg_wait_ms"), table.seconds("avg_resp_ms"))


def test_occupancy_agrees_within_the_rounding_of_the_rate() -> None:
    """Next to capacity the queue multiplies the rounding of the table's rates, which have four decimals."""
    table = Table("v1_queue_model")
    rate_per_s, rounding = table.per_second("arrival_rpm"), 0.5e-4 / 60
    least = analyze(curves_of(table), rate_per_s - rounding)
    most = analyze(curves_of(table), rate_per_s + rounding)

    for low, high, expected in (
        (least.mean_in_system, most.mean_in_system, table.numbers("avg_in_system")),
        (least.response_s, most.response_s, table.seconds("avg_resp_ms")),
    ):
        np.testing.assert_array_less(low * (1 - 3e-5), expected)
        np.testing.assert_array_less(expected, high * (1 + 3e-5))


def test_searched_range_agrees() -> None:
    table = Table("v1_rate_search")
    lowest, highest = rate_range(curves_of(table))

    # The smallest rates are written with ten decimals.
    np.testing.assert_allclose(lowest, table.per_second("rate_min_rpm"), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(highest, table.per_second("rate_max_rpm"), rtol=1e-6)


@pytest.mark.parametrize("target", ["itl", "ttw"])
def test_largest_rate_under_one_target_agrees(target: str) -> None:
    table = Table("v1_rate_search")
    absent = np.full(len(table), np.inf)
    targets = Targets(
        itl_s=table.itl_limit_s() if target == "itl" else absent,
        wait_s=table.wait_limit_s() if target == "ttw" else absent,
        tokens_per_s=np.zeros(len(table)),
    )
    limits = largest_rate(curves_of(table), targets)

    compared = table.numbers(f"slo_{target}_ms") > 0
    if target == "itl":
        compared &= table.numbers("max_batch") > 1
    assert (published_indicator(limits) == table.numbers(f"ind_{target}"))[compared].all()
    found = np.where(limits.feasible, limits.rate_per_s, table.per_second("rate_min_rpm"))
    error = np.abs(found / table.per_second(f"rate_star_{target}_rpm") - 1)
    assert (error <= table.rate_tolerance())[compared].all()


def published_indicator(limits: RateLimits) -> NDArray[np.int64]:
    """-1 is unattainable, 0 inside the range, 1 never binds."""
    return np.where(limits.feasible, np.where(limits.binding == Binding.CAPACITY, 1, 0), -1)


def test_single_allocations_agree() -> None:
    table = Table("v1_allocation")
    sizes = sizes_of(table)

    assert_feasibility_agrees(sizes, table)
    assert_sizes_agree(sizes, table, sizes.feasible & table.says_yes("feasible"))


def test_capacities_agree() -> None:
    table = Table("v1_allocation")
    sizes = sizes_of(table)

    # Without load the original's number has no meaning, and there is no capacity here.
    compared = (sizes.capacity_per_s > 0) & (sizes.max_batch > 1) & table.says_yes("feasible")
    error = np.abs(sizes.capacity_per_s / table.per_second("max_rpm_per_replica") - 1)
    assert compared.any()
    assert (error <= table.rate_tolerance())[compared].all()


def test_candidates_of_the_sample_systems_agree() -> None:
    table = Table("v1_sample_candidates", {"server_max_batch_override": 0, "min_replicas": 0})
    sizes = sizes_of(table)

    assert_feasibility_agrees(sizes, table)
    assert_sizes_agree(sizes, table, sizes.feasible & table.says_yes("feasible"))


def test_published_solutions_are_reproduced() -> None:
    table = Table("v1_published_solutions", {"server_max_batch_override": 0, "min_replicas": 0, "slo_tps": 0})
    sizes = sizes_of(table)

    assert sizes.feasible.all()
    assert_sizes_agree(sizes, table, sizes.feasible, "exp_")


def test_published_demo_is_reproduced() -> None:
    table = Table(
        "v1_published_demo",
        {
            "server_max_batch_override": 4,
            "profile_max_batch": 4,
            "at_tokens": 128,
            "min_replicas": 1,
            "acc_count": 1,
            "slo_tps": 0,
        },
    )
    sizes = sizes_of(table)

    assert sizes.feasible.all()
    assert_sizes_agree(sizes, table, sizes.feasible, "exp_")
