"""The pods of metric targets: whose each is, and the percentiles of its histograms."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.history import Floats, Grid
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import Backend, LabelOperator, LabelRequirement, TrackedBackend
from reconciler.metrics.answers import Table
from reconciler.metrics.readings import ObjectName
from reconciler.metrics.tracked_queries import (
    Bucket,
    PodLabels,
    find_pods,
    is_selected,
    percentile_since,
    percentiles_of,
    recent_percentiles,
)

NAME, ENTRY, ROLE = (f"modelserving.volcano.sh/{each}" for each in ("name", "entry", "role"))
NO_LABELS = PodLabels(of_pod={}, exports=frozenset(), changed=frozenset())


def backend(
    name: str, kind: str = "ModelServing", *, role: str = "", labels: Mapping[str, str] | None = None
) -> TrackedBackend:
    return TrackedBackend(
        backend=Backend(name=name, min_replicas=1, max_replicas=9),
        scale_target=ResourceKey(cluster="prod", namespace="llm", kind=kind, name=name, part=role),
        pod_labels={NAME: name, ENTRY: "true"} if labels is None else labels,
    )


def exported(pods: Mapping[str, Mapping[str, str]]) -> PodLabels:
    return PodLabels(
        of_pod={ObjectName("llm", pod): labels for pod, labels in pods.items()},
        exports=frozenset(name for labels in pods.values() for name in labels),
        changed=frozenset(),
    )


def found(backends: list[TrackedBackend], pods: list[str], known: PodLabels = NO_LABELS) -> list[list[str]]:
    return [[pod.name for pod in each] for each in find_pods(backends, [ObjectName("llm", pod) for pod in pods], known)]


def labels(name: str, *, entry: bool = True) -> dict[str, str]:
    shown = {"label_modelserving_volcano_sh_name": name}
    return {**shown, "label_modelserving_volcano_sh_entry": "true"} if entry else shown


def test_labels_decide_and_not_the_name_of_a_pod() -> None:
    known = exported({"x": labels("chat"), "chat-0-server-0-0": labels("code"), "y": labels("chat", entry=False)})
    pods = ["x", "y", "chat-0-server-0-0"]
    assert found([backend("chat"), backend("code")], pods, known) == [["x"], ["chat-0-server-0-0"]]


@pytest.mark.parametrize(
    ("kind", "pod", "is_ours"),
    [
        ("Deployment", "chat-6d4b75cb6d-x7k2p", True),
        ("Deployment", "chat-eu-6d4b75cb6d-x7k2p", False),
        ("StatefulSet", "chat-12", True),
        ("LeaderWorkerSet", "chat-0-1", True),
        ("ModelServing", "chat-0-server-1-0", True),
        ("ModelServing", "chat-0-prefill-xl-1-0", True),
        ("ModelServing", "chat-0-server-1-2", False),  # a worker
        ("ModelInfer", "chat-3-leader-0-0", True),
        ("ModelServing", "chat", False),
        ("ModelServing", "chatter-0-server-0-0", False),
        ("Service", "chat-0", False),
    ],
)
def test_names_decide_where_no_pod_shows_the_labels(kind: str, pod: str, is_ours: bool) -> None:
    assert found([backend("chat", kind)], [pod]) == [[pod] if is_ours else []]


def test_the_longest_name_that_fits_wins() -> None:
    pods = ["chat-0-server-0-0", "chat-0-x-0-server-0-0"]
    assert found([backend("chat"), backend("chat-0-x")], pods) == [[pods[0]], [pods[1]]]


def test_roles_of_one_workload_have_their_own_pods() -> None:
    roles = [backend("chat", role=role) for role in ("prefill", "decode")]
    pods = ["chat-0-decode-0-0", "chat-0-prefill-0-0", "chat-0-prefill-1-0", "chat-0-prefiller-0-0"]
    assert found(roles, pods) == [pods[1:3], pods[:1]]


def test_another_namespace_is_another_workload() -> None:
    other = replace(backend("chat"), scale_target=replace(backend("chat").scale_target, namespace="other"))
    assert found([other], ["chat-0-server-0-0"]) == [[]]
    assert found([other], ["x"], exported({"x": labels("chat")})) == [[]]


def test_a_pod_whose_labels_changed_goes_by_its_name() -> None:
    known = replace(
        exported({"chat-0-server-0-0": labels("code")}), changed=frozenset({ObjectName("llm", "chat-0-server-0-0")})
    )
    assert found([backend("chat"), backend("code")], ["chat-0-server-0-0"], known) == [["chat-0-server-0-0"], []]


def test_two_policies_may_follow_the_same_pods() -> None:
    twice = [backend("chat"), backend("chat")]
    assert found(twice, ["chat-0-server-0-0"]) == [["chat-0-server-0-0"]] * 2


IN, NOT_IN, EXISTS, ABSENT = LabelOperator


@pytest.mark.parametrize(
    ("operator", "values", "verdicts"),
    [
        (IN, ("a", "b"), (True, False, False, None)),
        (NOT_IN, ("a", "b"), (False, True, True, True)),
        (EXISTS, (), (True, True, False, None)),
        (ABSENT, (), (False, False, True, True)),
    ],
)
def test_a_selector_means_what_it_means_in_kubernetes(
    operator: LabelOperator, values: tuple[str, ...], verdicts: tuple[bool | None, ...]
) -> None:
    """Of pods with the value a, the value z, without the label; and where no pod shows it."""
    known = exported({"with-a": {"label_tier": "a"}, "with-z": {"label_tier": "z"}, "without": {}})
    requirement = [LabelRequirement(key="tier", operator=operator, values=values)]
    got = [is_selected(requirement, ObjectName("llm", pod), known) for pod in ("with-a", "with-z", "without")]
    assert (*got, is_selected(requirement, ObjectName("llm", "any"), NO_LABELS)) == verdicts


def test_all_requirements_must_hold() -> None:
    known = exported({"x": {"label_tier": "a"}})
    tier = LabelRequirement(key="tier", operator=IN, values=("a",))
    unknown = LabelRequirement(key="zone", operator=EXISTS)
    other = LabelRequirement(key="tier", operator=IN, values=("b",))
    pod = ObjectName("llm", "x")
    assert is_selected([], pod, known) is True
    assert is_selected([tier, unknown], pod, known) is None
    assert is_selected([unknown, other], pod, known) is False


def test_a_name_longer_than_kubernetes_allows_matches_no_workload() -> None:
    pod = "chat-0-server-0" + "-0" * 50_000
    assert found([backend("chat")], [pod]) == [[]]


# -- percentiles of pods' histograms over time: references, resets, and buckets that make no sense

NAN = float("nan")
POD = ObjectName("llm", "chat-0")
TICKS = 30
GRID = Grid(start_s=0.0, step_s=15.0, count=TICKS)


def histogram(pod: ObjectName = POD, /, **bounds: Floats) -> dict[Bucket, Floats]:
    spelled = {name.removeprefix("le_").replace("_", "."): counts for name, counts in bounds.items()}
    return {Bucket(pod=pod, bound=bound.replace("Inf", "+Inf")): counts for bound, counts in spelled.items()}


def read(rows: dict[Bucket, Floats]) -> tuple[Floats, str]:
    table = percentiles_of(Table(rows=rows, oddities={}), GRID)
    return table.rows[POD], table.oddities.get(POD, "")


def growing(per_tick: float, *, since: int = 0) -> Floats:
    ticks = np.arange(TICKS, dtype=np.float64)
    return np.where(ticks >= since, per_tick * (ticks - since), NAN)


def test_a_steady_histogram_has_a_steady_percentile() -> None:
    """Nine in ten below one second, all below two: the 95th is half-way between them."""
    values, oddity = read(histogram(le_1=growing(9.0), le_2=growing(10.0), le_Inf=growing(10.0)))
    # five ticks lie between a look and its reference: of 50 observations the 48th is wanted, 45 are below 1 s
    assert values[-1] == pytest.approx(2 - (50 - 48) * (2 - 1) / (50 - 45))
    assert oddity == ""


def test_a_young_pod_is_measured_since_its_start() -> None:
    counts = {"le_1": growing(9.0, since=20), "le_2": growing(10.0, since=20), "le_Inf": growing(10.0, since=20)}
    values, _ = read(histogram(**counts))
    assert np.isnan(values[:20]).all()
    assert values[20] == 0.0
    assert values[22] == pytest.approx(2 - (20 - 19) * (2 - 1) / (20 - 18))


def test_the_reference_is_the_youngest_look_older_than_a_minute_and_younger_than_five() -> None:
    step = np.where(np.arange(TICKS) < 10, 0.0, 100.0)  # a burst at tick 10, and nothing since
    values, _ = read(histogram(le_1=step, le_Inf=step))
    assert values[9] == 0.0
    assert values[10] == pytest.approx(0.95)
    assert values[14] == pytest.approx(0.95)  # held against tick 9, 75 s ago
    assert values[15] == 0.0


def test_a_look_that_has_expired_is_no_reference() -> None:
    step = np.where(np.arange(TICKS) < 10, 50.0, 100.0)
    step[3:26] = NAN
    values, _ = read(histogram(le_1=step, le_Inf=step))
    assert values[26] == pytest.approx(0.95)  # since the start: the looks before the gap are older than five minutes
    assert np.isnan(values[3:26]).all()


def test_a_counter_that_began_anew_says_nothing_until_it_is_held_against_itself() -> None:
    counts = growing(10.0)
    counts[15:] = 10.0 * np.arange(TICKS - 15) + 5.0
    values, oddity = read(histogram(le_1=counts, le_Inf=counts))
    assert np.isfinite(values[:15]).all()
    assert np.isnan(values[15:20]).all()
    assert np.isfinite(values[20:]).all()
    assert oddity == "its counters were reset"


def test_a_reset_is_seen_although_the_count_has_passed_where_it_was() -> None:
    counts = growing(10.0)
    counts[15:] = 200.0 + 10.0 * np.arange(TICKS - 15)
    counts[15] = 1.0
    values, oddity = read(histogram(le_1=counts, le_Inf=counts))
    assert np.isnan(values[15:20]).all()
    assert oddity == "its counters were reset"


def test_bounds_that_change_begin_another_histogram() -> None:
    before, after = growing(10.0), growing(10.0, since=18)
    before[18:] = NAN
    everything = np.where(np.isnan(before), after, before)
    values, oddity = read(histogram(le_1=before, le_3=after, le_Inf=everything))
    assert np.isfinite(values).all()
    assert values[17] <= 1.0 < values[25]
    assert oddity == "the bounds of its buckets changed"


def test_a_histogram_without_an_infinite_bucket_has_no_percentile() -> None:
    values, oddity = read(histogram(le_1=growing(9.0), le_2=growing(10.0)))
    assert np.isnan(values).all()
    assert oddity == "its histogram has no bucket for +Inf"


def test_a_bound_that_is_no_number_is_left_out() -> None:
    rows = {**histogram(le_1=growing(9.0), le_Inf=growing(9.0)), Bucket(pod=POD, bound="x"): growing(99.0)}
    values, _ = read(rows)
    assert values[-1] == pytest.approx(1 - (45 - 43) / 45)
    nothing = percentiles_of(Table(rows={Bucket(pod=POD, bound="x"): growing(1.0)}, oddities={}), GRID)
    assert nothing.rows == {}


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=TICKS, max_size=TICKS),
    st.sampled_from([1, 50, 95, 100]),
)
def test_a_percentile_lies_in_the_bucket_that_holds_its_rank(observed: list[list[int]], percentile: int) -> None:
    bounds = np.array([0.5, 2.0, math.inf])
    counts = np.cumsum(np.cumsum(np.array(observed, dtype=np.float64), axis=0), axis=1)
    got = float(percentile_since(bounds, counts[-1], counts[-6], percentile))
    seen = np.array(observed[-5:]).sum(axis=0)
    if seen.sum() == 0:
        assert got == 0.0
        return
    rank = math.ceil(seen.sum() * percentile / 100)
    bucket = int(np.argmax(np.cumsum(seen) >= rank))
    assert (0.0, 0.5, 2.0)[bucket] <= got <= (0.5, 2.0, 4.0)[bucket]


readings = st.sampled_from([NAN, 0.0, 1.0, 5.0, -3.0, 1e308, 1e15, math.inf, 2.5])


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(readings, min_size=3, max_size=3), min_size=TICKS, max_size=TICKS))
def test_no_counts_raise_or_give_infinite_percentiles(counts: list[list[float]]) -> None:
    times_ms = 15_000 * np.arange(TICKS)
    values, _ = recent_percentiles(times_ms, np.array([0.5, 2.0, math.inf]), np.array([counts]))
    known = values[~np.isnan(values)]
    assert ((known >= 0) & (known <= 4.0)).all()


def test_two_pods_with_other_buckets_do_not_know_of_each_other() -> None:
    other = ObjectName("llm", "chat-1")
    rows = {
        **histogram(le_1=growing(9.0), le_Inf=growing(9.0)),
        **histogram(other, le_8=growing(9.0), le_Inf=growing(9.0)),
    }
    table = percentiles_of(Table(rows=rows, oddities={}), GRID)
    assert table.rows[other][-1] == pytest.approx(8 * table.rows[POD][-1])
    assert table.oddities == {}
