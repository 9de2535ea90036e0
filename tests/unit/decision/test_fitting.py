"""Which variants are learned from together, and what is said where nothing can be learned."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.domain.identity import ModelKey, Place, ResourceKey
from reconciler.domain.inventory import Allocation, Catalog
from reconciler.domain.observed import Trace
from reconciler.domain.profiles import FittedModel, Learning, PerformanceProfile, UnusedVariant
from reconciler.domain.records import replace
from reconciler.domain.snapshot import Form, Option, StatusShape, Variant
from reconciler.domain.variant_settings import VariantSettings
from reconciler.domain.workloads import LaunchSettings, Workload
from reconciler.domain.written import DocumentRef
from reconciler.errors import ConfigurationError
from reconciler.snapshot.fitting import NOT_SEEN, UNKNOWN_ACCELERATOR, FitHistory, choose_variants, learn_profiles
from tests.histories import arrays

DAY = "2026-11-20"
ALPHA_S, BETA_S = 0.008, 0.0001
GIVEN = PerformanceProfile(accelerator="H100", alpha_s=0.007, beta_s=0.0001, max_batch_size=64)
CATALOGS = {name: Catalog() for name in ("us", "eu")}
Fitted = tuple[tuple[FittedModel, ...], tuple[UnusedVariant, ...]]


def variant(
    name: str,
    *,
    model: str = "meta/llama",
    accelerator: str = "H100",
    cluster: str = "us",
    devices: int = 1,
    profile: PerformanceProfile | None = None,
) -> Variant:
    """A variant of one replica; with a profile, that is its only option."""
    key = ResourceKey(cluster=cluster, namespace="llm", kind="VariantAutoscaling", name=name)
    document, place = DocumentRef(path="llm.yaml", document=0), Place(path="llm.yaml", line=1)
    option = profile and Option(
        profile=profile,
        accelerator=accelerator,
        accelerators_per_replica=devices,
        devices_per_replica=devices,
        resource="nvidia.com/gpu",
        cost_per_hour=None,
        cost_place=None,
    )
    return Variant(
        key=key,
        model=ModelKey(cluster=cluster, namespace="llm", model_id=model),
        form=Form.TARGET,
        status_shape=StatusShape.TARGET,
        document=document,
        place=place,
        workload=Workload(key=key, document=document, place=place, replicas=1, devices={"nvidia.com/gpu": devices}),
        current=Allocation(accelerator=accelerator, replicas=1),
        accelerator_source="",
        settings=VariantSettings(),
        service_class=None,
        options=(option,) if option else (),
        served_names=(model,),
        relative_cost=None,
        current_cost_per_hour=None,
    )


def trace(of: Variant, batches: Sequence[float], *, slower: float = 1.0) -> Trace:
    """What one replica reported that ran these batches."""
    itl_s = tuple(slower * (ALPHA_S + BETA_S * batch) for batch in batches)
    unknown = (math.nan,) * len(batches)
    series = {"running": tuple(batches), "itl": itl_s, "waiting": (0.0,) * len(batches), "ttft": unknown}
    return Trace(pod=f"{of.key.name}-0", variant=of.key, start_s=0.0, step_s=60.0, series=arrays(series))


LOW, HIGH = [float(1 + index % 8) for index in range(40)], [float(9 + index % 40) for index in range(80)]


def learn(variants: Sequence[Variant], *traces: Trace, **history: Any) -> Fitted:
    by_variant: dict[ResourceKey, tuple[Trace, ...]] = {}
    for each in traces:
        by_variant[each.variant] = (*by_variant.get(each.variant, ()), each)
    return learn_profiles(variants, CATALOGS, FitHistory(traces=by_variant, **history), DAY)


def test_replicas_of_all_clusters_and_namespaces_teach_one_profile() -> None:
    here, there = variant("a"), variant("b", cluster="eu")
    (model,), unused = learn([there, here], trace(here, HIGH), trace(there, LOW))
    assert unused == ()
    assert model.variants == (there.key, here.key)
    assert model.profile is not None
    assert model.profile.alpha_s == pytest.approx(ALPHA_S)
    assert model.profile.beta_s == pytest.approx(BETA_S)
    assert model.profile.learning is not None
    assert model.profile.learning.on == DAY
    assert model.samples == model.profile.learning.samples == len(LOW) + len(HIGH)


def test_each_accelerator_and_each_model_is_learned_by_itself() -> None:
    fleet = [variant("a"), variant("b", accelerator="A100"), variant("c", model="ibm/granite")]
    traces = [trace(each, LOW + HIGH, slower=slower) for each, slower in zip(fleet, (1.0, 2.0, 3.0), strict=True)]
    models, _ = learn(fleet, *traces)
    learned = {(each.model_id, each.accelerator): each.profile and each.profile.alpha_s for each in models}
    assert learned == {
        ("ibm/granite", "H100"): pytest.approx(3 * ALPHA_S),
        ("meta/llama", "A100"): pytest.approx(2 * ALPHA_S),
        ("meta/llama", "H100"): pytest.approx(ALPHA_S),
    }


def test_the_order_of_variants_makes_no_difference() -> None:
    fleet = [variant("a"), variant("b", cluster="eu"), variant("c", accelerator="")]
    traces = trace(fleet[0], LOW), trace(fleet[1], HIGH)
    assert learn(fleet, *traces) == learn(fleet[::-1], *traces[::-1])


@pytest.mark.parametrize("profile", [None, GIVEN])
def test_replicas_on_one_and_on_two_accelerators_are_not_mixed(profile: PerformanceProfile | None) -> None:
    one, two = variant("one", profile=profile), variant("two", devices=2, profile=profile)
    (model,), unused = learn([one, two], trace(one, LOW + HIGH), trace(two, LOW + HIGH, slower=0.5))
    assert model.profile is None
    assert "on 1 H100 (llm/one) and on 2 (llm/two)" in model.reason
    assert "2xH100" in model.reason
    assert unused == ()


def test_a_variant_on_an_unknown_accelerator_is_named_and_not_used() -> None:
    known, homeless = variant("a"), variant("b", accelerator="")
    (model,), unused = learn([known, homeless], trace(known, LOW + HIGH), trace(homeless, LOW, slower=9.0))
    assert model.variants == (known.key,)
    assert model.profile is not None
    assert unused == (UnusedVariant(variant=homeless.key, reason=UNKNOWN_ACCELERATOR),)


def test_a_variant_that_nothing_leads_to_is_named_beside_those_that_were_learned_from() -> None:
    seen, lost = variant("a"), variant("b")
    (model,), unused = learn([seen, lost], trace(seen, LOW + HIGH))
    assert model.profile is not None
    assert unused == (UnusedVariant(variant=lost.key, reason=NOT_SEEN),)


def test_a_model_that_nothing_leads_to_says_so_once() -> None:
    (model,), unused = learn([variant("a"), variant("b")])
    assert (model.profile, model.reason, unused) == (None, NOT_SEEN, ())


def test_a_failed_prometheus_costs_its_own_models_only() -> None:
    here, there = variant("a"), variant("b", cluster="eu")
    other = variant("c", model="ibm/granite")
    traces = trace(here, LOW + HIGH), trace(there, LOW), trace(other, LOW + HIGH)
    (granite, llama), unused = learn([here, there, other], *traces, failed={"eu": "500"})
    assert granite.profile is not None
    assert llama.profile is None
    assert llama.reason == "the Prometheus of eu failed"
    assert unused == ()


def test_a_cluster_without_a_prometheus_takes_nothing_from_the_others() -> None:
    here, there = variant("a"), variant("b", cluster="eu")
    (model,), unused = learn([here, there], trace(here, LOW + HIGH), unasked={"eu": "no Prometheus"})
    assert model.profile is not None
    assert unused == (UnusedVariant(variant=there.key, reason="no Prometheus"),)


def test_too_little_history_is_a_reason_with_its_samples_and_never_a_profile() -> None:
    only = variant("a")
    (model,), _ = learn([only], trace(only, LOW[:12]))
    assert model.profile is None
    assert model.samples == 12
    assert "at least 30" in model.reason


def test_a_given_profile_is_set_beside_and_a_learned_one_is_not() -> None:
    learning = Learning(on=DAY, samples=1, error=0.0, batch=(1, 2), input_tokens=(1, 2), output_tokens=(1, 2))
    learned = PerformanceProfile(accelerator="H100", alpha_s=1.0, beta_s=0.0, max_batch_size=1, learning=learning)
    fleet = [variant("a", profile=learned), variant("b", profile=GIVEN)]
    assert learn(fleet)[0][0].given == GIVEN
    assert learn(fleet[:1])[0][0].given is None


MODELS = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "ibm/granite")


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ((), MODELS),
        (("ibm/granite",), MODELS[2:]),
        (("meta-llama/*",), MODELS[:2]),
        (("*70B", "ibm/granite"), MODELS[1:]),
    ],
)
def test_models_are_chosen_by_id_or_glob(asked: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    fleet = [variant(f"v{number}", model=model) for number, model in enumerate(MODELS)]
    assert tuple(each.model.model_id for each in choose_variants(fleet, asked)) == chosen


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("llama-3.1-8b", "did you mean meta-llama/Llama-3.1-8B"),
        ("ibm/granit3", "did you mean ibm/granite"),
        ("qwen", "known: ibm/granite, meta-llama/Llama-3.1-70B"),
        ("*qwen*", "known: ibm/granite"),
    ],
)
def test_a_model_that_nothing_serves_leads_to_near_names(asked: str, hint: str) -> None:
    fleet = [variant(f"v{number}", model=model) for number, model in enumerate(MODELS)]
    with pytest.raises(ConfigurationError) as refused:
        choose_variants(fleet, ["ibm/granite", asked])
    assert str(refused.value).startswith(f"{asked}: no variant serves such a model; ")
    assert hint in str(refused.value)


def test_of_many_models_only_some_are_named() -> None:
    fleet = [variant(f"v{number}", model=f"org/m{number:02}") for number in range(14)]
    with pytest.raises(ConfigurationError, match="org/m09 and 4 more"):
        choose_variants(fleet, ["qwen"])


def test_engines_with_different_arguments_share_the_least_of_their_limits() -> None:
    """Nothing waited, so the profile holds no more requests than the smaller engine; one without arguments: none."""
    one, two, bare = variant("one"), variant("two"), variant("three")
    started = [
        replace(each, workload=replace(each.workload, launch=LaunchSettings(max_num_seqs=most)))
        for each, most in ((one, 96), (two, 64))
        if each.workload is not None
    ]
    (both,), _ = learn(started, trace(one, LOW + HIGH), trace(two, HIGH))
    (all_three,), _ = learn([*started, bare], trace(one, LOW + HIGH), trace(two, HIGH), trace(bare, LOW))
    assert both.profile is not None
    assert both.profile.max_batch_size == 64
    assert all_three.profile is not None
    assert all_three.profile.reach <= 48, "the largest batch that was seen"
