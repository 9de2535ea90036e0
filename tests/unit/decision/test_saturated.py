"""Variants of which it is not known how fast they are, sized by how full their replicas are."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import Source, SourceKind
from reconciler.domain.observed import UpstreamQueue
from reconciler.domain.plan import Evidence, Outcome
from reconciler.domain.settings import LimiterSettings, SaturationRules, ThresholdLayer
from reconciler.domain.snapshot import Form

SIZED: dict[str, Any] = {"total_kv_tokens": 12500.0, "input_tokens": 100.0, "output_tokens": 100.0}
"""Memory for 10,000 tokens at the threshold of 0.8."""


@pytest.fixture
def plain(fleet: Any) -> Any:
    """Resources that only name a target, without profile or class."""
    fleet.set(defaults={}, service_classes=())
    return fleet


def add(fleet: Any, name: str = "llama", **fields: Any) -> Any:
    key = fleet.add(name, form=Form.TARGET, **fields)
    fleet.resources[-1] = replace(fleet.resources[-1], profiles=())
    return key


def test_a_full_variant_grows_by_all_that_it_needs(plain: Any) -> None:
    add(plain, replicas=2)
    plain.fill(".95/20, .95/20", **SIZED)
    decision = plain.decision()
    assert decision.desired.replicas > 3
    assert (decision.engine, decision.unit) == ("saturation", "tokens")
    assert decision.capacity_after == decision.desired.replicas * 10_000


def test_the_load_of_the_model_need_not_be_known(plain: Any) -> None:
    add(plain, replicas=4)
    plain.lack(Absence.MISSING, "no series reports output tokens")
    plain.fill(".10/0, .10/0, .10/0, .10/0", **SIZED)
    assert plain.desired() == {"llama": "1 x H100"}


def test_an_accelerator_that_is_not_known_is_kept(plain: Any) -> None:
    add(plain, replicas=1, runs_on="")
    plain.fill(".95/0")
    decision = plain.decision()
    assert (decision.desired.accelerator, decision.desired.replicas) == ("", 2)


def test_replicas_that_say_nothing_keep_a_variant_from_shrinking(plain: Any) -> None:
    add(plain, replicas=4)
    plain.fill(".10/0, .10/0", **SIZED)
    decision = plain.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.UNCHANGED, 4)
    assert "2 of 4 replicas of llm/llama report nothing" in " ".join(step.reason for step in decision.steps)


def test_replicas_of_which_none_reports_are_held(plain: Any) -> None:
    add(plain, replicas=4)
    decision = plain.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == "no replica reports: it is unknown, not idle"


def test_metrics_that_must_not_be_trusted_hold(plain: Any) -> None:
    key = add(plain, replicas=4)
    plain.fill(".10/0, .10/0, .10/0, .10/0", **SIZED)
    plain.observations[key] = replace(
        plain.observations[key], absence=NoAnswer(absence=Absence.STALE, reason="metrics stale")
    )
    assert plain.decision().hold.words == "metrics stale"


def test_the_cheaper_variant_per_capacity_is_added(plain: Any) -> None:
    add(plain, "dear", replicas=1, runs_on="H100")
    add(plain, "cheap", replicas=1, runs_on="L4")
    plain.fill(".95/40", "dear", **SIZED)
    plain.fill(".95/40", "cheap", **SIZED)
    desired = plain.desired()
    assert desired["dear"] == "1 x H100"
    assert int(desired["cheap"].split()[0]) > 1


def test_relative_costs_rank_while_a_price_is_missing(plain: Any) -> None:
    plain.price(H100=None, L4=1.0)
    add(plain, "a", replicas=1, runs_on="H100", variant_cost=1.0)
    add(plain, "b", replicas=1, runs_on="L4", variant_cost=50.0)
    plain.fill(".95/40", "a", **SIZED)
    plain.fill(".95/40", "b", **SIZED)
    assert plain.desired()["b"] == "1 x L4"


def test_a_variant_at_zero_takes_the_spill_over_when_it_is_cheaper(plain: Any) -> None:
    add(plain, "dear", replicas=1, runs_on="H100")
    key = add(plain, "cheap", replicas=0, runs_on="L4", min_replicas=0)
    plain.fill(".95/40", "dear", **SIZED)
    plain.observed = replace(plain.observed, stored_kv_tokens={key: 12500.0})
    assert int(plain.desired()["cheap"].split()[0]) > 0


def test_a_model_at_zero_wakes_its_cheapest_variant(plain: Any) -> None:
    for name, runs_on in (("dear", "H100"), ("cheap", "L4")):
        add(plain, name, replicas=0, runs_on=runs_on, min_replicas=0)
    model = plain.variant("dear").model
    plain.observed = replace(plain.observed, queues={model: UpstreamQueue(num_waiting=3.0)})
    assert plain.desired() == {"dear": "0 x H100", "cheap": "1 x L4"}
    assert plain.decision("cheap").evidence is Evidence.PENDING


def test_a_model_at_zero_of_which_nobody_says_anything_stays(plain: Any) -> None:
    add(plain, replicas=0, min_replicas=0)
    assert plain.desired() == {"llama": "[0 x H100]"}


def test_pending_replicas_are_waited_for(plain: Any) -> None:
    key = add(plain, replicas=4)
    plain.fill(".70/0, .70/0", **SIZED)
    plain.observed = replace(plain.observed, ready={key: 2})
    decision = plain.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.UNCHANGED, 4)


def test_thresholds_of_a_config_map_count(plain: Any) -> None:
    add(plain, replicas=1)
    plain.fill(".50/0")
    assert plain.desired() == {"llama": "1 x H100"}
    source = Source(kind=SourceKind.CONFIG_MAP, detail="ConfigMap wva-saturation-scaling-config")
    layer = ThresholdLayer(source=source, kv_cache_usage=0.5, kv_spare=0.1)
    plain.saturation[plain.variant().model] = SaturationRules(layers=(layer,))
    assert plain.desired() == {"llama": "2 x H100"}


def test_a_variant_that_another_owns_serves_as_it_is(plain: Any) -> None:
    add(plain, "llama", replicas=1)
    add(plain, "other", replicas=3, annotations={"ignore": True})
    plain.fill(".10/0", "llama", **SIZED)
    plain.fill(".95/40, .95/40, .95/40", "other", **SIZED)
    desired = plain.desired()
    assert desired["other"] == "[3 x H100]"
    assert int(desired["llama"].split()[0]) > 1


@pytest.mark.parametrize(("engine", "replicas"), [("wva-v1", 3), ("wva-v2", 4)])
def test_upstream_is_reproduced_on_demand(plain: Any, engine: str, replicas: int) -> None:
    add(plain, replicas=2)
    plain.default(engine=engine)
    plain.fill(".95/20, .95/20", **SIZED)
    decision = plain.decision()
    assert decision.engine == engine
    assert decision.desired.replicas == replicas


@pytest.mark.parametrize("engine", ["saturation", "wva-v1", "wva-v2"])
@pytest.mark.parametrize(
    ("loads", "words"),
    [("-/0, -/0, -/0", "no replica reports its KV cache usage"), (".1/-, .1/-, .1/-", "waiting requests")],
)
def test_a_metric_that_no_replica_reports_is_a_hold(plain: Any, engine: str, loads: str, words: str) -> None:
    add(plain, replicas=3)
    plain.default(engine=engine)
    plain.fill(loads, **SIZED)
    decision = plain.decision()
    assert (decision.outcome, decision.desired.replicas) == (Outcome.HELD, 3)
    assert decision.hold.kind is HoldKind.METRICS_MISSING
    assert words in decision.hold.words


def test_a_full_queue_is_growth_though_nobody_reports_the_kv_cache(plain: Any) -> None:
    add(plain, replicas=2)
    plain.fill("-/90, -/90", **SIZED)
    decision = plain.decision()
    assert decision.outcome is Outcome.CHANGE
    assert decision.desired.replicas > 2


def limit_by(plain: Any, *limiters: LimiterSettings) -> None:
    model = plain.variants()[0].model
    plain.saturation[model] = SaturationRules(is_limited=True, limiters=limiters)


INVENTORY = LimiterSettings(name="", kind="gpu-inventory")


@pytest.mark.parametrize("limiters", [(), (INVENTORY,)])
@pytest.mark.parametrize(("engine", "offered", "replicas"), [("wva-v1", 2, 2), ("wva-v1", 3, 3), ("wva-v2", 3, 3)])
def test_upstream_is_limited_by_what_nodes_offer(
    plain: Any, limiters: tuple[LimiterSettings, ...], engine: str, offered: int, replicas: int
) -> None:
    add(plain, replicas=2)
    plain.default(engine=engine)
    plain.fill(".95/20, .95/20", **SIZED)
    limit_by(plain, *limiters)
    plain.stock(H100=offered)
    assert plain.decision().desired.replicas == replicas


def test_upstream_does_not_see_what_others_hold_and_its_answer_is_cut(plain: Any) -> None:
    add(plain, replicas=2)
    plain.default(engine="wva-v1")
    plain.fill(".95/20, .95/20", **SIZED)
    limit_by(plain)
    plain.stock(others=6, H100=8)
    assert plain.decision().desired.replicas == 2
    reason = "covers 2 of 3 replicas: us-east/H100 has no room for one more replica"
    assert [step.reason for step in plain.decision().steps if step.stage == "allocation"] == [reason]


def test_what_limited_upstream_is_named(plain: Any) -> None:
    add(plain, replicas=2)
    plain.default(engine="wva-v1")
    plain.fill(".95/20, .95/20", **SIZED)
    limit_by(plain)
    plain.stock(H100=2)
    reasons = " ".join(step.reason for step in plain.decision().steps)
    assert "limited by gpu-inventory[scope=cluster, type=H100]" in reasons


@pytest.mark.parametrize(("engine", "replicas"), [("wva-v1", 3), ("wva-v2", 4)])
def test_upstream_is_not_limited_by_what_nobody_knows(plain: Any, engine: str, replicas: int) -> None:
    add(plain, replicas=2)
    plain.default(engine=engine)
    plain.fill(".95/20, .95/20", **SIZED)
    limit_by(plain)
    for known in ({}, {"H100": None}, {"H100": None, "L4": 4}):
        plain.stock(**known)
        assert plain.decision().desired.replicas == replicas, known


def quota(scope: str = "cluster", **fields: Any) -> LimiterSettings:
    return LimiterSettings(name="", kind="quota", scope=scope, **fields)


@pytest.mark.parametrize("engine", ["wva-v1", "wva-v2"])
@pytest.mark.parametrize(
    ("limiters", "replicas"),
    [
        ([quota(quotas={"H100": 9}), quota(quotas={"H100": 3})], 3),
        ([quota(quotas={"H100": 3}), quota(quotas={"H100": 9})], 3),
        ([quota(quotas={"H100": 9}), quota("namespace", namespace_quotas={"llm": {"H100": 2}})], 2),
        ([quota("namespace", namespace_quotas={"llm": {"H100": 9}}), quota(quotas={"H100": 3})], 3),
        ([quota("namespace", namespace_quotas={}, excluded=frozenset({"llm"})), quota(quotas={"H100": 3})], 3),
        ([quota(quotas={"H100": -1}), quota(quotas={"H100": 2})], 2),
    ],
)
def test_all_quotas_compose(plain: Any, engine: str, limiters: list[LimiterSettings], replicas: int) -> None:
    add(plain, replicas=2)
    plain.default(engine=engine)
    plain.fill(".95/20, .95/20", **SIZED)
    limit_by(plain, *limiters)
    assert plain.decision().desired.replicas == replicas


@pytest.mark.parametrize("engine", ["wva-v1", "wva-v2"])
def test_a_quota_goes_before_the_inventory(plain: Any, engine: str) -> None:
    add(plain, replicas=2)
    plain.default(engine=engine)
    plain.fill(".95/20, .95/20", **SIZED)
    limit_by(plain, INVENTORY, LimiterSettings(name="", kind="quota", scope="cluster", quotas={"H100": 3}))
    plain.stock(H100=2)
    (step,) = [each for each in plain.decision().steps if each.stage == "allocation"]
    assert step.reason.startswith("covers 2 of 3 replicas: ")


@pytest.mark.parametrize("engine", ["wva-v1", "wva-v2"])
def test_accelerators_of_one_device_type_share_what_nodes_offer(plain: Any, make: Any, engine: str) -> None:
    double = make.accelerator("2xH100", 12.0, device="H100", devices=2, node_selector={"x": "2xH100"})
    plain.set(accelerators=(*plain.settings.accelerators, double))
    add(plain, "one", replicas=1)
    add(
        plain,
        "two",
        replicas=1,
        runs_on="",
        workload={"node_selector": {"x": "2xH100"}, "devices": {"nvidia.com/gpu": 2}},
    )
    plain.default(engine=engine)
    for name in ("one", "two"):
        plain.fill(".95/20", name, **SIZED)
    limit_by(plain)
    plain.stock(H100=4)
    desired = {name: int(words.split()[0]) for name, words in plain.desired().items()}
    assert desired["one"] + 2 * desired["two"] <= 4
    assert sum(desired.values()) > 2


def test_a_reproduction_moves_only_as_upstream_would(plain: Any) -> None:
    add(plain, replicas=4)
    plain.default(engine="wva-v1")
    plain.fill(".10/0, .10/0, .10/0, .10/0")
    assert plain.desired() == {"llama": "3 x H100"}


def test_prefill_and_decode_are_sized_each_for_itself(plain: Any) -> None:
    for name, role in (("p", "prefill"), ("d", "decode")):
        add(plain, name, replicas=2, workload={"template_labels": {"llm-d.ai/role": role}})
    plain.fill(".95/20, .95/20", "p", **SIZED)
    plain.fill(".40/0, .40/0", "d", **SIZED)
    desired = plain.desired()
    assert int(desired["p"].split()[0]) > 2
    assert desired["d"] in ("1 x H100", "2 x H100")


@pytest.mark.parametrize(
    ("loads", "evidence"),
    [(".80/2, .50/0", Evidence.SATURATION), (".80/-, -/-", Evidence.SATURATION), ("-/2, -/0", Evidence.QUEUE)],
)
def test_what_a_variant_is_sized_from_is_what_its_replicas_report(plain: Any, loads: str, evidence: Evidence) -> None:
    add(plain, replicas=2)
    plain.fill(loads)
    assert plain.decision().evidence is evidence
