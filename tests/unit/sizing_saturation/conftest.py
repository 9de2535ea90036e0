"""Builders of small fleets, in the notation of the tables: replica = kv/queue, variant = name(cost, current)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Role
from reconciler.sizing.saturation_readings import VariantFacts
from reconciler.upstream.wva import UpstreamReadings
from reconciler.upstream.wva_analyzers import Ballot, Signal
from reconciler.upstream.wva_throughput import ThroughputSample


def key_of(name: str, namespace: str = "chat") -> ResourceKey:
    return ResourceKey(cluster="prod", namespace=namespace, kind="VariantAutoscaling", name=name)


def variant_of(name: str = "v", *, namespace: str = "chat", **numbers: Any) -> VariantFacts:
    values: dict[str, Any] = {"accelerator": "A100", "current_replicas": 1, **numbers}
    return VariantFacts(key=key_of(name, namespace), **values)


def replicas_of(variant: str, loads: str, **numbers: Any) -> tuple[ReplicaMetrics, ...]:
    """`.75/2, .5/-` is two replicas; `-` is not reported."""

    def number(text: str) -> float | None:
        return None if text == "-" else float(text)

    pairs = [load.strip().split("/") for load in loads.split(",") if load.strip()]
    return tuple(
        ReplicaMetrics(
            pod=f"{variant}-{index}",
            variant=key_of(variant),
            kv_cache_usage=number(kv_used),
            num_waiting=number(waiting),
            **numbers,
        )
        for index, (kv_used, waiting) in enumerate(pairs)
    )


def readings_of(*variants: VariantFacts, replicas: tuple[ReplicaMetrics, ...] = (), **more: Any) -> UpstreamReadings:
    namespace = variants[0].key.namespace if variants else "chat"
    model = ModelKey(cluster="prod", namespace=namespace, model_id="llama")
    values: dict[str, Any] = {"model": model, "variants": variants, "replicas": replicas, **more}
    return UpstreamReadings(**values)


def ballot_of(
    per_replica: dict[str, float],
    *,
    required: dict[str, float] | float = 0.0,
    spare: dict[str, float] | float = 0.0,
    demand: dict[str, float] | float = 0.0,
    namespace: str = "chat",
    **more: Any,
) -> Ballot:
    """A vote whose amounts are of the role `both`, or per role."""

    def by_role(amount: dict[str, float] | float) -> dict[str, float]:
        return amount if isinstance(amount, dict) else {"both": amount}

    amounts = by_role(required), by_role(spare), by_role(demand)
    roles = {role for amount in amounts if any(amount.values()) for role in amount} or {"both"}
    signals = {
        Role(role): Signal(
            demand=amounts[2].get(role, 0.0),
            supply=0.0,
            anticipated=0.0,
            required=amounts[0].get(role, 0.0),
            spare=amounts[1].get(role, 0.0),
        )
        for role in sorted(roles)
    }
    carried = {key_of(name, namespace): value for name, value in per_replica.items()}
    values: dict[str, Any] = {"analyzer": "tokens", "signals": signals, "per_replica": carried, **more}
    return Ballot(**values)


@pytest.fixture(scope="session")
def key() -> Callable[..., ResourceKey]:
    return key_of


@pytest.fixture(scope="session")
def variant() -> Callable[..., VariantFacts]:
    return variant_of


@pytest.fixture(scope="session")
def replicas() -> Callable[..., tuple[ReplicaMetrics, ...]]:
    return replicas_of


@pytest.fixture(scope="session")
def readings() -> Callable[..., UpstreamReadings]:
    return readings_of


@pytest.fixture(scope="session")
def ballot() -> Callable[..., Ballot]:
    return ballot_of


def samples_of(
    variant: str = "v", usages: Sequence[float] = (), *, pod: str = "v-0", start_s: float = 0.0, **numbers: Any
) -> tuple[ThroughputSample, ...]:
    """One sample every 15 s of a replica whose steps take 6 ms and 40 ms times its usage, and that decodes as fast."""
    values: dict[str, Any] = {
        "input_tokens": 100.0,
        "output_tokens": 100.0,
        "kv_tokens": 16000.0,
        "prefix_hit_rate": 0.0,
        **numbers,
    }
    return tuple(
        ThroughputSample(
            **{
                "pod": pod,
                "variant": key_of(variant),
                "at_s": start_s + 15.0 * index,
                "kv_cache_usage": usage,
                "itl_s": 0.006 + 0.04 * usage,
                "tokens_per_s": usage * 16000 / 150 / (0.006 + 0.04 * usage),
                **values,
            }
        )
        for index, usage in enumerate(usages)
    )


@pytest.fixture(scope="session")
def samples() -> Callable[..., tuple[ThroughputSample, ...]]:
    return samples_of
