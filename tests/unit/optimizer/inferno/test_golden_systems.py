"""Whole systems, decided by the original program (tests/testdata/inferno/README.md)."""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconciler.domain.requirements import SolveStatus
from reconciler.domain.units import S_PER_MINUTE, seconds_from_ms
from reconciler.optimizer.separable import transition_value
from reconciler.sizing.queueing_laws import Targets, mean_limit_s
from reconciler.upstream.inferno import (
    Grants,
    Offer,
    SaturationPolicy,
    Server,
    exact_optimum,
    priority_greedy,
    unlimited,
    weighted_greedy,
)
from tests.tools.decode_only_sizes import Demand, Profiles, Sizes, Terms, size

TESTDATA = Path(__file__).parents[3] / "testdata" / "inferno"
TABLES = ("v1_greedy_weighted", "v1_greedy_priority")
COUNTED_EXACTLY = 1000
"""Beyond this many replicas the original's float32 miscounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A row of a table: what was given, the original's candidates, and what it decided."""

    name: str
    options: Mapping[str, Any]
    given: Mapping[str, Any]
    candidates: Mapping[str, Mapping[str, Any]]
    solution: Mapping[str, Any]
    unallocated: tuple[str, ...]

    @property
    def capacities(self) -> dict[str, int]:
        return {entry["type"]: entry["count"] for entry in self.given["capacityData"]["count"]}

    @property
    def accelerators(self) -> dict[str, Any]:
        return {entry["name"]: entry for entry in self.given["acceleratorData"]["accelerators"]}

    @property
    def profiles(self) -> dict[tuple[str, str], Any]:
        return {(entry["name"], entry["acc"]): entry for entry in self.given["modelData"]["models"]}

    @property
    def records(self) -> list[Any]:
        return list(self.given["serverData"]["servers"])

    @property
    def priorities(self) -> dict[str, int]:
        return {entry["name"]: entry["priority"] for entry in self.given["serviceClassData"]["serviceClasses"]}

    def targets(self, service_class: str, model: str) -> Mapping[str, Any]:
        """The entry of a class for a model; the older shape repeats the class for each of its models."""
        for entry in self.given["serviceClassData"]["serviceClasses"]:
            for target in entry.get("modelTargets", [entry]):
                if (entry["name"], target["model"]) == (service_class, model):
                    return dict(target)
        raise LookupError(service_class, model)

    def units(self, model: str, accelerator: str) -> dict[str, int]:
        """What one replica takes, by type of device."""
        kind = self.accelerators[accelerator]
        return {kind["type"]: self.profiles[model, accelerator]["accCount"] * kind["multiplicity"]}


@cache
def systems(table: str) -> tuple[System, ...]:
    rows = (json.loads(line) for line in (TESTDATA / f"{table}.jsonl").read_text(encoding="utf-8").splitlines())
    return tuple(
        System(
            name=row["id"],
            options=row["optimizer"],
            given=row["system"],
            candidates=row["candidates"],
            solution=row["solution"],
            unallocated=tuple(row["unallocated"]),
        )
        for row in rows
        if not row["float32_sensitive"]
    )


def recorded(system: System) -> list[Server]:
    """The servers with the candidates that the original sized."""
    return [
        Server(
            name=record["name"],
            priority=system.priorities[record["class"]],
            offers=tuple(
                Offer(
                    accelerator=accelerator,
                    replicas=entry["numReplicas"],
                    units=system.units(record["model"], accelerator),
                    cost=entry["cost"],
                    value=entry["value"],
                )
                for accelerator, entry in system.candidates.get(record["name"], {}).items()
            ),
        )
        for record in system.records
    ]


def decide(system: System, servers: list[Server]) -> Grants:
    if system.options["unlimited"]:
        return unlimited(servers)
    if "saturationPolicy" not in system.options:
        return weighted_greedy(servers, system.capacities)
    return priority_greedy(
        servers,
        system.capacities,
        policy=SaturationPolicy(system.options["saturationPolicy"]),
        is_best_effort_delayed=system.options["delayedBestEffort"],
    )


def decisions(grants: Grants) -> dict[str, tuple[str, int]]:
    return {name: (grant.offer.accelerator, grant.replicas) for name, grant in grants.items()}


def decided(system: System) -> dict[str, tuple[str, int]]:
    return {name: (entry["accelerator"], entry["numReplicas"]) for name, entry in system.solution.items()}


@pytest.mark.parametrize("table", TABLES)
def test_every_server_gets_what_the_original_gave_it(table: str) -> None:
    for system in systems(table):
        grants = decide(system, recorded(system))
        assert decisions(grants) == decided(system), system.name
        for name, entry in system.solution.items():
            assert grants[name].cost == pytest.approx(entry["cost"], rel=1e-6), (system.name, name)
            assert grants[name].value == pytest.approx(entry["value"], rel=1e-6, abs=1e-4), (system.name, name)
        assert {record["name"] for record in system.records} - set(grants) == set(system.unallocated), system.name


def test_all_policies_are_in_the_tables() -> None:
    seen = Counter(
        (system.options["saturationPolicy"], system.options["delayedBestEffort"])
        for system in systems("v1_greedy_priority")
    )
    assert set(seen) == {(policy, is_delayed) for policy in SaturationPolicy for is_delayed in (False, True)}


Pair = tuple[Mapping[str, Any], str]
"""A server's record and an accelerator that it may run on."""


def pairs(system: System) -> list[Pair]:
    """Who keeps its accelerator may run on that alone, unless it has none yet."""
    return [
        (record, accelerator)
        for record in system.records
        for accelerator in system.accelerators
        if (record["model"], accelerator) in system.profiles
        and (not record["keepAccelerator"] or record["currentAlloc"].get("accelerator", accelerator) == accelerator)
    ]


def sizes_of(system: System, listed: list[Pair]) -> Sizes:
    """Our sizes of all pairs; costs stay in the cents of the tables."""
    profiles = [system.profiles[record["model"], accelerator] for record, accelerator in listed]
    loads = [record["currentAlloc"]["load"] for record, _ in listed]
    targets = [system.targets(record["class"], record["model"]) for record, _ in listed]
    return size(
        Profiles(
            alpha_s=np.array([seconds_from_ms(profile["alpha"]) for profile in profiles]),
            beta_s=np.array([seconds_from_ms(profile["beta"]) for profile in profiles]),
            max_batch_size=np.array([float(profile["maxBatchSize"]) for profile in profiles]),
            at_tokens=np.array([float(profile["atTokens"]) for profile in profiles]),
        ),
        Demand(
            arrival_rate_per_s=np.array([load["arrivalRate"] / S_PER_MINUTE for load in loads]),
            output_tokens=np.array([float(load["avgLength"]) for load in loads]),
        ),
        Targets(
            itl_s=np.array([seconds_from_ms(target["slo-itl"]) for target in targets]),
            wait_s=np.array([mean_limit_s(seconds_from_ms(target["slo-ttw"]), 95) for target in targets]),
            tokens_per_s=np.zeros(len(listed)),
        ),
        Terms(
            max_batch_override=np.array([float(record["maxBatchSize"]) for record, _ in listed]),
            min_replicas=np.array([record["minNumReplicas"] for record, _ in listed], dtype=np.int64),
            accelerators_per_replica=np.array([profile["accCount"] for profile in profiles], dtype=np.int64),
            cost_per_hour=np.array([system.accelerators[accelerator]["cost"] for _, accelerator in listed]),
        ),
    )


def sized(system: System, listed: list[Pair], sizes: Sizes) -> list[Server]:
    """The servers with candidates of our own sizing, valued against what they run on."""
    offers: dict[str, list[Offer]] = {record["name"]: [] for record in system.records}
    for index, (record, accelerator) in enumerate(listed):
        if sizes.feasible[index]:
            current, replicas, cost = record["currentAlloc"], int(sizes.replicas[index]), sizes.cost_per_hour[index]
            value = transition_value(
                current_accelerator=current.get("accelerator", ""),
                current_replicas=current.get("numReplicas", 0),
                current_cost_per_hour=current.get("cost", 0.0),
                accelerator=accelerator,
                replicas=replicas,
                cost_per_hour=float(cost),
            )
            units = system.units(record["model"], accelerator)
            offers[record["name"]].append(
                Offer(accelerator=accelerator, replicas=replicas, units=units, cost=float(cost), value=value)
            )
    return [
        Server(
            name=record["name"],
            priority=system.priorities[record["class"]],
            offers=tuple(offers[record["name"]]),
        )
        for record in system.records
    ]


def is_plain(sizes: Sizes) -> bool:
    """With a batch of 1 the original answers by float noise, with very many replicas it miscounts."""
    return bool((sizes.max_batch > 1).all() and (sizes.replicas <= COUNTED_EXACTLY).all())


@pytest.mark.parametrize("table", TABLES)
def test_from_the_system_alone_we_size_and_decide_as_the_original_did(table: str) -> None:
    compared = 0
    for system in systems(table):
        listed = pairs(system)
        sizes = sizes_of(system, listed)
        if is_plain(sizes):
            servers = sized(system, listed, sizes)
            ours = {server.name: {offer.accelerator: offer.replicas for offer in server.offers} for server in servers}
            theirs = {
                name: {accelerator: entry["numReplicas"] for accelerator, entry in offers.items()}
                for name, offers in system.candidates.items()
            }
            assert {name: offers for name, offers in ours.items() if offers} == theirs, system.name
            assert decisions(decide(system, servers)) == decided(system), system.name
            compared += 1
    assert compared >= 0.9 * len(systems(table))


def optima() -> Iterator[tuple[System, Mapping[str, str]]]:
    """The systems of which the exact optimum is known, by an independent programme."""
    by_name = {system.name: system for table in TABLES for system in systems(table)}
    with (TESTDATA / "exact_optimum_vs_greedy.csv").open(newline="", encoding="utf-8") as file:
        yield from ((by_name[row["scenario"]], row) for row in csv.DictReader(file) if row["scenario"] in by_name)


def taken(system: System, grants: Grants) -> Counter[str]:
    """Devices that the grants hold, by type, counted from the system and not from the offers."""
    models = {record["name"]: record["model"] for record in system.records}
    total: Counter[str] = Counter()
    for name, grant in grants.items():
        for kind, units in system.units(models[name], grant.offer.accelerator).items():
            total[kind] += units * grant.replicas
    return total


def test_the_exact_optimum_is_reached_and_proven() -> None:
    for system, row in optima():
        servers = recorded(system)
        optimum = exact_optimum(servers, system.capacities)
        assert "|".join(map(str, optimum.served)) == row["priority_levels"], system.name
        assert "|".join(map(str, optimum.served.values())) == row["exact_served_per_level"], system.name
        assert optimum.value == pytest.approx(float(row["exact_total_value"]), rel=1e-6, abs=1e-4), system.name
        assert optimum.status is SolveStatus.OPTIMAL
        assert optimum.served_bound == optimum.served
        assert optimum.value_bound == pytest.approx(optimum.value, rel=1e-6, abs=1e-6)
        for kind, units in taken(system, optimum.grants).items():
            assert units <= system.capacities.get(kind, 0), (system.name, kind)
        priorities = {server.name: server.priority for server in servers}
        served = Counter(priorities[name] for name in optimum.grants)
        assert [served[level] for level in optimum.served] == list(optimum.served.values()), system.name
