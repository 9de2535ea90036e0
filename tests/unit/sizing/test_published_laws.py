"""`prefill_decode` against the programs that published them (tests/testdata/inferno/README.md)."""

import csv
import re
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from reconciler.sizing.queueing_chain import QueueState, analyze
from reconciler.sizing.queueing_laws import ServiceCurves, Targets, decode_only, prefill_decode
from reconciler.sizing.queueing_rates import RateLimits, largest_rate, largest_throughput, rate_range
from tests.tools.decode_only_sizes import Profiles, max_batch, replicas_for

TESTDATA = Path(__file__).parents[2] / "testdata" / "inferno"
NO_TIME = "json: unsupported value: NaN"
# What the sample systems hold of the accelerators that run out.
CAPACITIES = {("large", "MI300X"): 144}

Column: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class Table:
    """One CSV file by column; empty cells are NaN, absent targets infinite."""

    def __init__(self, name: str) -> None:
        with (TESTDATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            self.rows = list(csv.DictReader(file))

    def numbers(self, column: str) -> Column:
        return np.array([float(row[column] or "nan") for row in self.rows])

    def seconds(self, column: str) -> Column:
        return self.numbers(column) / 1000

    def limit_s(self, column: str) -> Column:
        limit_s = self.seconds(column)
        return np.where(limit_s > 0, limit_s, np.inf)

    def says(self, column: str, text: str) -> Mask:
        return np.array([row[column] == text for row in self.rows])

    def mentions(self, column: str, *texts: str) -> Mask:
        return np.array([any(text in row[column] for text in texts) for row in self.rows])


def curves_of(table: Table) -> ServiceCurves:
    batch = table.numbers("max_batch")
    return _prefill_decode(table, batch, batch + table.numbers("max_queue"))


def _prefill_decode(table: Table, batch: Column, occupancy: Column | None = None) -> ServiceCurves:
    return prefill_decode(
        alpha_s=table.seconds("alpha_ms"),
        beta_s=table.seconds("beta_ms"),
        gamma_s=table.seconds("gamma_ms"),
        delta_s=table.seconds("delta_ms_per_token"),
        input_tokens=table.numbers("in_tokens"),
        output_tokens=table.numbers("out_tokens"),
        max_batch=batch,
        occupancy_limit=occupancy,
    )


def targets_of(table: Table, *, itl: bool = True, ttft: bool = True, throughput: bool = True) -> Targets:
    absent = np.full(len(table.rows), np.inf)
    return Targets(
        itl_s=table.limit_s("target_itl_ms") if itl else absent,
        wait_s=absent,
        tokens_per_s=table.numbers("target_tps") if throughput else np.zeros_like(absent),
        ttft_s=table.limit_s("target_ttft_ms") if ttft else None,
    )


def grows(curves: ServiceCurves) -> Mask:
    """Whether the ITL depends on the load at all: not in a batch of 1, nor where it stays at alpha."""
    lone_s, full_s = curves.latencies_at(1.0).itl_s, curves.latencies_at(curves.max_batch).itl_s
    return np.asarray(full_s > lone_s * (1 + 1e-9))


def decided(table: Table, curves: ServiceCurves) -> Mask:
    return np.asarray(grows(curves) | ~np.isfinite(table.limit_s("target_itl_ms")))


def rate_tolerance(itl_s: Column, curves: ServiceCurves) -> Column:
    """Next to a lone request's latency the curve is flat, and the original's float32 answer coarse."""
    return np.where(np.abs(itl_s / curves.latencies_at(1.0).itl_s - 1) <= 1e-3, 0.04, 2e-3)


def assert_latencies_agree(state: QueueState, itl_s: Column, ttft_s: Column, compared: Mask) -> None:
    assert compared.any()
    np.testing.assert_allclose(state.itl_s[compared], itl_s[compared], rtol=1e-5)
    first_token_s = state.ttft_s - state.wait_s
    wait_s = ttft_s - first_token_s
    allowed = np.maximum(np.maximum(0.02e-3, 3e-3 * wait_s), 1.2e-7 * state.response_s) + 1e-5 * first_token_s
    np.testing.assert_array_less(np.abs(state.wait_s - wait_s)[compared], allowed[compared])


def test_chain_and_latencies_agree() -> None:
    table = Table("v2_analyze")
    curves = curves_of(table)
    state = analyze(curves, table.numbers("rate_rps"))

    compared = table.says("error", "")
    assert_latencies_agree(state, table.seconds("itl_ms"), table.seconds("ttft_ms"), compared)
    for actual, column, tolerance in (
        (rate_range(curves)[1], "rate_max_rps", 1e-6),
        (state.throughput_per_s, "throughput_rps", 2e-6),
        (state.mean_in_service, "avg_in_service", 1e-5),
        (state.mean_in_service / curves.max_batch, "rho", 1e-5),
        (state.response_s * 1000, "resp_ms", 3e-5),
    ):
        np.testing.assert_allclose(actual[compared], table.numbers(column)[compared], rtol=tolerance, err_msg=column)
    prefill_s = state.ttft_s - state.wait_s
    expected_s = table.seconds("prefill_ms")
    np.testing.assert_allclose(prefill_s[compared], expected_s[compared], rtol=1e-5, atol=1e-9)
    wait_s, response_s = table.seconds("wait_ms"), table.seconds("resp_ms")
    allowed = np.maximum(np.maximum(0.02e-3, 3e-3 * wait_s), 1.2e-7 * response_s)
    np.testing.assert_array_less(np.abs(state.wait_s - wait_s)[compared], allowed[compared])


def test_rows_without_numbers_are_those_that_the_original_refuses() -> None:
    table = Table("v2_analyze")
    curves = curves_of(table)
    refused = table.mentions("error", "max allowed rate")

    assert (table.numbers("rate_rps") > rate_range(curves)[1])[refused].all()
    assert (table.numbers("rate_rps") <= rate_range(curves)[1])[table.says("error", "")].all()
    assert (refused | table.says("error", "") | table.says("error", NO_TIME)).all()


def test_attainable_targets_agree() -> None:
    table = Table("v2_size")
    curves = curves_of(table)
    limits = largest_rate(curves, targets_of(table))
    alone = largest_rate(curves, targets_of(table, itl=False))

    compared = decided(table, curves)
    assert (limits.feasible == table.says("error", ""))[compared].all()
    # The original looks at the TTFT first.
    assert (~alone.feasible == table.says("error", "ttft unattainable")).all()


def test_largest_rates_agree() -> None:
    table = Table("v2_size")
    curves = curves_of(table)
    compared = decided(table, curves) & table.says("error", "")

    assert compared.any()
    for column, targets in (
        ("rate_for_ttft_rps", targets_of(table, itl=False, throughput=False)),
        ("rate_for_itl_rps", targets_of(table, ttft=False, throughput=False)),
        ("rate_for_tps_rps", targets_of(table, itl=False, ttft=False)),
    ):
        error = np.abs(largest_rate(curves, targets).rate_per_s / table.numbers(column) - 1)
        assert (error <= rate_tolerance(targets.itl_s, curves))[compared].all(), column


def test_state_at_the_largest_rate_agrees() -> None:
    table = Table("v2_size")
    curves = curves_of(table)
    limits = largest_rate(curves, targets_of(table))
    state = analyze(curves, limits.rate_per_s)

    compared = decided(table, curves) & table.says("error", "")
    assert_latencies_agree(state, table.seconds("itl_ms"), table.seconds("ttft_ms"), compared)
    throughput_per_s = largest_throughput(curves, limits)[compared]
    expected = table.numbers("throughput_at_min_rate_rps")[compared]
    assert (np.abs(throughput_per_s / expected - 1) <= rate_tolerance(targets_of(table).itl_s, curves)[compared]).all()
    assert (np.abs(table.numbers("tps")[compared] / table.numbers("out_tokens")[compared] / expected - 1) < 1e-5).all()
    utilization = state.mean_in_service / curves.max_batch
    np.testing.assert_allclose(utilization[compared], table.numbers("rho")[compared], rtol=2e-3)


def solved(table: Table) -> tuple[ServiceCurves, RateLimits, NDArray[np.int64], QueueState]:
    """Curves, largest rates, replicas and the state under the demand spread evenly, all of `prefill_decode`."""
    profiles = Profiles(
        alpha_s=table.seconds("alpha_ms"),
        beta_s=table.seconds("beta_ms"),
        max_batch_size=table.numbers("profile_max_batch"),
        at_tokens=table.numbers("at_tokens"),
    )
    absent = np.full(len(table.rows), np.inf)
    curves = _prefill_decode(table, max_batch(profiles, table.numbers("out_tokens"), np.zeros_like(absent)))
    limits = largest_rate(
        curves,
        Targets(
            itl_s=table.limit_s("slo_itl_ms"),
            wait_s=absent,
            tokens_per_s=np.zeros_like(absent),
            ttft_s=table.limit_s("slo_ttft_ms"),
        ),
    )
    demand_per_s = table.numbers("arrival_rpm") / 60
    capacity_per_s = np.where(limits.feasible, largest_throughput(curves, limits), np.inf)
    replicas = replicas_for(demand_per_s, capacity_per_s, np.ones(len(table.rows), dtype=np.int64))
    return curves, limits, replicas, analyze(curves, demand_per_s / replicas)


def assert_sizes_agree(table: Table, compared: Mask, prefix: str = "") -> None:
    curves, _, replicas, state = solved(table)
    exact = compared & (curves.max_batch > 1) & (replicas <= 1000)
    assert exact.any()
    assert (curves.max_batch == table.numbers(f"{prefix}batch"))[compared].all()
    assert_latencies_agree(state, table.seconds(f"{prefix}itl_ms"), table.seconds(f"{prefix}ttft_ms"), exact)
    exact &= ~exhausted(table, prefix, replicas)
    assert (replicas == table.numbers(f"{prefix}replicas"))[exact].all()
    cents = table.numbers("unit_cost") * table.numbers("acc_count") * replicas
    assert (cents == table.numbers(f"{prefix}cost"))[exact].all()


def exhausted(table: Table, prefix: str, replicas: NDArray[np.int64]) -> Mask:
    """Whether the published system ran out of the accelerators and gave a last server what was left of them.

    Its latencies are those of the size it needed, so they are compared all the same.
    """
    if not prefix:
        return np.zeros(len(table.rows), dtype=np.bool_)
    units = table.numbers(f"{prefix}replicas") * table.numbers("acc_count") * table.numbers("multiplicity")
    used = np.array(
        [units[table.says("dataset", row["dataset"]) & table.says("type", row["type"])].sum() for row in table.rows]
    )
    capacity = np.array([CAPACITIES.get((row["dataset"], row["type"]), np.inf) for row in table.rows])
    return np.asarray((used == capacity) & (replicas > table.numbers(f"{prefix}replicas")))


def test_candidates_of_the_sample_systems_agree() -> None:
    table = Table("v2_sample_candidates")
    curves, limits, _, state = solved(table)
    feasible = table.says("feasible", "yes")

    compared = curves.max_batch > 1
    assert (limits.feasible == feasible)[compared].all()
    assert_sizes_agree(table, feasible)
    compared &= feasible
    utilization = (state.mean_in_service / curves.max_batch)[compared]
    np.testing.assert_allclose(utilization, table.numbers("rho")[compared], rtol=1e-5)
    error = np.abs(largest_throughput(curves, limits) * 60 / table.numbers("max_rpm_per_replica") - 1)
    assert (error <= rate_tolerance(table.limit_s("slo_itl_ms"), curves))[compared].all()


def test_published_solutions_are_reproduced() -> None:
    table = Table("v2_published_solutions")

    assert_sizes_agree(table, np.ones(len(table.rows), dtype=np.bool_), "exp_")


class Exchange:
    """A published question to the queue service and its answer; "same" repeats what the question before it said."""

    def __init__(self, row: dict[str, str], before: "Exchange | None") -> None:
        self.version, self.endpoint = row["model_version"], row["endpoint"]
        asked = _pairs(row["input"])
        self.asked: dict[str, float] = (
            {**before.asked, **asked} if before is not None and "same" in row["input"] else asked
        )
        self.answer = _pairs(row["expected_output"])


def _pairs(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"(\w+\*?)(?:\(\w+\))?=([\d.]+)", text)}


def exchanges(version: str) -> dict[str, Exchange]:
    found: dict[str, Exchange] = {}
    before = None
    for row in Table("published_queue_service").rows:
        before = Exchange(row, before)
        if before.version.startswith(version):
            found[before.endpoint] = before
    return found


def test_published_answers_of_the_first_queue_service_are_reproduced() -> None:
    asked = exchanges("v1")["target"].asked
    curves = decode_only(
        alpha_s=asked["alpha"] / 1000,
        beta_s=asked["beta"] / 1000,
        output_tokens=asked["avgNumTokens"],
        max_batch=asked["maxBatch"],
        occupancy_limit=asked["maxBatch"] + asked["maxQueue"],
    )
    answer = exchanges("v1")["solve"].answer
    state = analyze(curves, np.array([asked["RPM"] / 60]))
    assert state.throughput_per_s[0] * 60 == pytest.approx(answer["throughput_rpm"], rel=1e-6)
    assert state.response_s[0] == pytest.approx(answer["resp_s"], rel=1e-5)
    assert state.wait_s[0] == pytest.approx(answer["wait_s"], abs=2e-5)
    assert state.mean_in_service[0] == pytest.approx(answer["avgNumInServ"], rel=1e-5)
    assert state.itl_s[0] * 1000 == pytest.approx(answer["token_ms"], rel=1e-5)
    assert rate_range(curves)[1][0] * 60 == pytest.approx(answer["maxRPM"], rel=1e-6)

    answer = exchanges("v1")["target"].answer
    none, wait_s, itl_s = np.array([np.inf]), np.array([asked["targetWait"]]), np.array([asked["targetITL"] / 1000])
    by_wait = largest_rate(curves, Targets(itl_s=none, wait_s=wait_s, tokens_per_s=np.zeros(1)))
    by_itl = largest_rate(curves, Targets(itl_s=itl_s, wait_s=none, tokens_per_s=np.zeros(1)))
    assert by_wait.rate_per_s[0] * 60 == pytest.approx(answer["RPM_at_wait"], rel=2e-3)
    assert by_itl.rate_per_s[0] * 60 == pytest.approx(answer["RPM_at_ITL"], rel=2e-3)
    assert analyze(curves, by_itl.rate_per_s).wait_s[0] == pytest.approx(answer["wait_s"], rel=3e-3)
