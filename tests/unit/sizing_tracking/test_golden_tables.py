"""Every golden table against the rule of its generation (tests/testdata/kthena/README.md)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pytest

from reconciler.domain.metric_targets import Backend, Behavior, MetricTarget, Panic, Policy, Rate, RatioRange, Select
from reconciler.metrics.tracked_queries import percentile_since, references
from reconciler.sizing.arrays import Floats
from reconciler.sizing.tracking_loads import (
    KTHENA_V0,
    KTHENA_V0_CORRECTED,
    KTHENA_V1,
    Aims,
    Best,
    Extreme,
    LineWindow,
    PodHistory,
    RecordWindow,
    Target,
    TargetHistory,
    TickReadings,
    aggregate_external,
    distribute,
    recommend,
    scaling_order,
    stack_loads,
)
from reconciler.sizing.tracking_replay import (
    Past,
    RoleBounds,
    RoleCounts,
    UncorrectedReplicas,
    correct,
    repair_exactly,
    repair_upstream,
    replay,
    stack_behaviors,
    stack_course,
)

Row: TypeAlias = dict[str, str]
ReadGolden: TypeAlias = Callable[[str], list[Row]]

RULES = {
    "v1.0": KTHENA_V1,
    "v1.0+raw-history": replace(KTHENA_V1, groups_record_corrected=False),
    "v0.2-v0.4": KTHENA_V0,
    "registry-v0.1": KTHENA_V0_CORRECTED,
}


def units_of(row: Row) -> tuple[TickReadings, Aims]:
    """One column of readings: what reports a metric is summed in order, what does not is missing."""
    targets, ready = json.loads(row["targets_json"]), json.loads(row["ready_json"])
    external = json.loads(row["external_json"])
    total, reporting = [], []
    for metric in targets:
        amount, units = 0.0, 0
        for unit in ready:
            if metric in unit:
                amount, units = amount + unit[metric], units + 1
        total.append(external.get(metric, amount))
        reporting.append(units)

    def column(values: list[float]) -> Floats:
        return np.array(values, dtype=np.float64).reshape(len(targets), 1)

    missing = len(ready) - column([float(units) for units in reporting])
    readings = TickReadings(
        total=column(total),
        reporting=column([float(units) for units in reporting]),
        missing=missing,
        external=np.array([metric in external for metric in targets], dtype=np.bool_).reshape(len(targets), 1),
        partial=missing > 0,
        unready=np.array([float(row["unready"])]),
    )
    aims = Aims(
        per_replica=column(list(targets.values())),
        tolerance=np.array([float(row["tolerance"])]),
        minimum=np.array([int(row["min"])]),
        maximum=np.array([int(row["max"])]),
    )
    return readings, aims


def test_recommendations_agree(golden_rows: ReadGolden) -> None:
    wrong = []
    for row in golden_rows("recommend"):
        readings, aims = units_of(row)
        answer = recommend(readings, aims, np.array([int(row["current"])]), KTHENA_V1)
        got = "" if answer.skipped[0] else str(answer.replicas[0])
        if (got, str(int(answer.skipped[0]))) != (row["recommended"], row["skip"]):
            wrong.append((row["case"], got))
    assert wrong == []


def recorded(cell: str) -> Best:
    known = cell not in ("", "off")
    return Best(value=np.array([int(cell) if known else 0]), known=np.array([known]))


def drawn(cell: str, current: int, best: Callable[[int, int], int]) -> Best:
    value = best(int(cell), current) if cell not in ("", "off") else current
    return Best(value=np.array([value]), known=np.array([cell != "off"]))


def select_of(cell: str) -> Select:
    return Select(cell) if cell in ("Or", "And") else Select.NEITHER


def rate_of(row: Row, side: str) -> Rate:
    return Rate(
        instances=int(row[f"{side}_instances"]),
        percent=int(row[f"{side}_percent"]),
        period_s=int(row.get(f"{side}_period_ms", "1")) / 1000,
        stabilization_s=int(row.get(f"{side}_stab_ms", "1")) / 1000,
        select=select_of(row[f"{side}_select"]),
    )


def behavior_of(row: Row) -> Behavior:
    return Behavior(
        down=rate_of(row, "down"),
        up=rate_of(row, "up"),
        panic=Panic(
            percent=int(row["panic_percent"]),
            period_s=int(row.get("panic_period_ms", "1")) / 1000,
            threshold_percent=int(row.get("panic_threshold_percent", "200")),
            hold_s=int(row.get("panic_hold_ms", "1")) / 1000,
        ),
    )


def test_corrections_agree(golden_rows: ReadGolden) -> None:
    rows = golden_rows("correct_step")
    wrong = []
    for row in rows:
        current = int(row["current"])
        wish = UncorrectedReplicas(
            recommended=np.array([int(row["recommended"])]),
            current=np.array([current]),
            panic=np.array([row["is_panic"] == "1"]),
            minimum=np.array([int(row["min"])]),
            maximum=np.array([int(row["max"])]),
        )
        past = Past(
            max_recommendation=recorded(row["past_max_recommendation"]),
            min_recommendation=recorded(row["past_min_recommendation"]),
            down_corrected=drawn(row["past_max_corrected"], current, max),
            min_corrected_stable=drawn(row["past_min_corrected_stable"], current, min),
            min_corrected_panic=drawn(row["past_min_corrected_panic"], current, min),
        )
        got = correct(wish, stack_behaviors([behavior_of(row)]), past, panics_from_zero=True)
        if got.corrected[0] != int(row["corrected"]):
            wrong.append((row["case"], got))
    assert rows
    assert wrong == []


def answers_of_window(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """(answer, expected) of each question to one window."""
    kind, fresh_ms = rows[0]["kind"], int(rows[0]["fresh_ms"])
    extreme = Extreme.LARGEST if kind.endswith("max") else Extreme.SMALLEST
    record = RecordWindow(extreme, np.array([fresh_ms]), len(rows))
    line = LineWindow(extreme, np.array([fresh_ms]), len(rows))
    times_ms: list[int] = []
    names: list[str] = []
    for row in rows:
        now_ms, value = int(row["t_ms"]), np.array([int(row["value_in"])])
        if row["op"] == "append":
            record.append(now_ms, value, np.array([True]))
            line.append(now_ms, value, np.array([True]))
            times_ms.append(now_ms)
            names.append(row["value_in"])
        elif kind == "snap":
            found = references(
                np.array([*times_ms, now_ms]),
                np.ones((1, len(times_ms) + 1), dtype=np.bool_),
                fresh_ms=fresh_ms,
                expiry_ms=int(row["expire_ms"]),
            )[0, -1]
            yield (names[found] if found >= 0 else "none"), row["result"]
        else:
            best = line.best(now_ms, value) if kind.startswith("line") else record.best(now_ms)
            yield (str(best.value[0]) if best.known[0] else "none"), row["result"]


def test_windows_agree(golden_rows: ReadGolden) -> None:
    answered = [
        answer
        for _, rows in groupby(golden_rows("windows"), key=lambda row: row["case"])
        for answer in answers_of_window(list(rows))
    ]
    assert answered
    assert [pair for pair in answered if pair[0] != pair[1]] == []


def target_of(policy: Row, rows: list[Row], *, group: bool) -> Target:
    """A target whose backends each report one sum, which is what the original was given."""
    per_replica = json.loads(policy["targets_json"])
    params = json.loads(policy["params_json"]) if group else [[0, int(policy["min"]), int(policy["max"])]]

    def by_backend(row: Row, column: str) -> list[Any]:
        cell = json.loads(row[column])
        return (cell or [{}] * len(params)) if group else [cell]

    def series(column: str, metric: str) -> Floats:
        return np.array([[each.get(metric, np.nan) for each in by_backend(row, column)] for row in rows], np.float64)

    def numbers(column: str) -> Floats:
        return np.array([by_backend(row, column) for row in rows], np.float64)

    sums = {metric: series("ready_sum_json", metric) for metric in per_replica}
    return Target(
        name=policy["trace"],
        policy=Policy(
            metrics=tuple(MetricTarget(name=name, per_replica=value) for name, value in per_replica.items()),
            tolerance_percent=int(policy["tolerance_percent"]),
            behavior=behavior_of(policy),
        ),
        backends=tuple(
            Backend(name=str(index), cost=cost, min_replicas=least, max_replicas=most)
            for index, (cost, least, most) in enumerate(params)
        ),
        cost_expansion_percent=int(policy.get("cost_expansion_rate_percent", "200")),
        history=TargetHistory(
            replicas=numbers("current_json" if group else "current"),
            unready=numbers("unready_json" if group else "unready"),
            pods={
                name: PodHistory(total=total, reporting=np.where(np.isnan(total), 0.0, 1.0), missing=0 * total)
                for name, total in sums.items()
            },
            external={name: series("external_json", name) for name in per_replica},
        ),
    )


def ticks_of(target: Target, rows: list[Row], generation: str) -> Iterator[tuple[tuple[str, ...], Row]]:
    rule = RULES[generation]
    ticks_ms = np.array([int(row["t_ms"]) for row in rows])
    start = np.array([int(target.history.replicas[0].sum())])
    loop = replay(ticks_ms, stack_loads([target], len(rows), rule), stack_course([target], rule), start, rule)
    for tick, row in zip(loop, rows, strict=True):
        ends_ms = int(tick.panic_ends_ms[0])
        panic = (str(int(tick.panic[0])), str(max(ends_ms, -1)))
        if tick.skipped[0]:
            yield ("1", "", "", *panic), row
        else:
            yield ("0", str(tick.recommendation.replicas[0]), str(tick.correction.corrected[0]), *panic), row


@pytest.mark.parametrize("group", [False, True], ids=["homogeneous", "heterogeneous"])
def test_closed_loops_agree_at_every_step(golden_rows: ReadGolden, group: bool) -> None:
    name, total = ("heterogeneous", "_total") if group else ("homogeneous", "")
    policies = {row["trace"]: row for row in golden_rows(f"trace_{name}_policies")}
    traces = groupby(golden_rows(f"trace_{name}"), key=lambda row: (row["generation"], row["trace"]))
    wrong, steps = [], 0
    for (generation, trace), grouped in traces:
        rows = list(grouped)
        target = target_of(policies[trace], rows, group=group)
        order = scaling_order(target.backends, target.cost_expansion_percent)
        for got, row in ticks_of(target, rows, generation):
            steps += 1
            wanted = row[f"recommended{total}"] or ("" if row["skip"] == "1" else got[1])
            expected = (row["skip"], wanted, row[f"corrected{total}"], row["panic_after"], row["panic_ends_at_ms"])
            if got != expected:
                wrong.append((generation, trace, row["step"], got, expected))
            if group:
                assert list(distribute(target.backends, order, int(got[2]))) == json.loads(row["replicas_json"])
    assert steps >= 1_900
    assert wrong == []


def test_scaling_orders_and_their_splits_agree(golden_rows: ReadGolden) -> None:
    orders = {}
    for row in golden_rows("optimizer_order"):
        backends = tuple(
            Backend(name=str(index), cost=cost, min_replicas=least, max_replicas=most)
            for index, (cost, least, most) in enumerate(json.loads(row["params_json"]))
        )
        order = scaling_order(backends, int(row["cost_expansion_rate_percent"]))
        assert [[each.index, each.replicas, each.cost] for each in order] == json.loads(row["scaling_order_json"])
        assert sum(each.min_replicas for each in backends) == int(row["min_total"])
        assert sum(each.max_replicas for each in backends) == int(row["max_total"])
        orders[row["case"]] = backends, order
    for row in golden_rows("optimizer_distribute"):
        split = distribute(*orders[row["case"]], int(row["total_requested"]))
        assert list(split) == json.loads(row["replicas_per_param_json"]), row


def counts_of(row: Row, when: str, bounds: list[float]) -> Floats:
    buckets = json.loads(row[f"{when}_buckets_json"])
    assert not buckets or buckets[-1][1] == int(row[f"{when}_count"])
    counts = {float(bound): float(count) for bound, count in buckets} or dict.fromkeys(bounds, 0.0)
    return np.array([counts.get(bound, np.nan) for bound in bounds])


def test_histogram_quantiles_agree(golden_rows: ReadGolden) -> None:
    for row in golden_rows("histogram_quantile"):
        bounds = [float(bound) for bound, _ in json.loads(row["now_buckets_json"])]
        now, past = (counts_of(row, when, bounds) for when in ("now", "past"))
        got = float(percentile_since(np.array(bounds), now, past, int(row["percentile"])))
        expected = float("nan") if row["error"] else float(row["value"])
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), row


def test_role_ratios_agree(golden_rows: ReadGolden) -> None:
    for row in golden_rows("role_ratio"):
        bounds, counts, ratio = role_row(row)
        bound = row["has_constraint"] == "1"
        got = repair_upstream(*counts, bounds, ratio) if bound else bounds.clip(*counts)
        expected = (int(row["num_out"]), int(row["den_out"]), row["adjusted"] == "1", row["ratio_text"])
        text = ratio_text(got) if bound else ""
        assert (got.numerator, got.denominator, got.adjusted, text) == expected, row


def ratio_text(counts: RoleCounts) -> str:
    """The ratio in plain digits, empty without a denominator."""
    if counts.denominator == 0:
        return ""
    return format(Decimal(repr(counts.numerator / counts.denominator)), "f").removesuffix(".0")


def role_row(row: Row) -> tuple[RoleBounds, tuple[int, int], RatioRange]:
    bounds = RoleBounds(
        numerator=(int(row["num_min"]), int(row["num_max"])), denominator=(int(row["den_min"]), int(row["den_max"]))
    )
    ratio = RatioRange(minimum=float(row["min_ratio"] or 0), maximum=float(row["max_ratio"] or 1))
    return bounds, (int(row["num_in"]), int(row["den_in"])), ratio


def test_a_repaired_ratio_is_kept_wherever_whole_numbers_allow_it(golden_rows: ReadGolden) -> None:
    repaired = 0
    for row in golden_rows("role_ratio"):
        bounds, counts, ratio = role_row(row)
        got = repair_exactly(*counts, bounds, ratio)
        possible = any(
            ratio.minimum - 1e-12 <= n / d <= ratio.maximum + 1e-12
            for n in range(bounds.numerator[0], bounds.numerator[1] + 1)
            for d in range(max(bounds.denominator[0], 1), bounds.denominator[1] + 1)
            if n > 0
        )
        if got.numerator or got.denominator:
            assert (got.reason == "") == possible, row
        if possible and got.denominator:
            assert ratio.minimum - 1e-12 <= got.numerator / got.denominator <= ratio.maximum + 1e-12, row
            repaired += got.adjusted
    assert repaired > 50


def test_external_metrics_of_backends_agree(golden_rows: ReadGolden) -> None:
    for row in golden_rows("external_aggregate"):
        values, replicas = (np.array([json.loads(row[each])], np.float64) for each in ("values_json", "replicas_json"))
        got = float(aggregate_external(row["metric_name"], values, replicas)[0])
        assert got == pytest.approx(float(row["result"]), rel=1e-12), row
