"""A fleet to decide about, declared piece by piece: resources, scale targets, load, settings, pull requests.

Service takes 10 ms a token whatever the batch, requests have 100 tokens: one replica with a batch of 10 carries 9.99
requests a second (the queue is sized to 0.999 of its full rate).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from reconciler.decision.decide import decide
from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.history import LoadHistory
from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import ModelKey, Place, ResourceKey, Source, Sourced, SourceKind
from reconciler.domain.inventory import Accelerator, DevicePool, Inventory, Measured
from reconciler.domain.observed import (
    ArrivalSource,
    LiveReplicas,
    Load,
    Observation,
    Observed,
    Performance,
    ReplicaMetrics,
)
from reconciler.domain.plan import Decision, Outcome, Plan
from reconciler.domain.profiles import Learning, PerformanceProfile, ServiceClass, SloTarget
from reconciler.domain.proposals import Part, Proposal, ProposalState, ProposedChange, head_branch
from reconciler.domain.recording import PaidPrices, WrittenCounts
from reconciler.domain.settings import ClusterSettings, ModelSettings, Override, SaturationRules, Setting, Settings
from reconciler.domain.snapshot import Form, Snapshot, StatusShape, Variant
from reconciler.domain.workloads import Annotation, PodPlace, ReplicaOwner, Workload
from reconciler.domain.written import DocumentRef
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import IgnoredNamespace, ListedClass, ListedCost, VariantResource
from reconciler.snapshot.variants import build_catalogs, declared_variants
from tests.histories import load_history

CLUSTER, NAMESPACE, MODEL = "us-east", "llm", "meta/llama-8b"
PRODUCT = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"
ITERATION_S = 0.01
OUTPUT_TOKENS = 100.0
NOW_S = 1_800_000_000.0
DAY_S = 86400.0


EVERYBODY = -1
"""As many replicas report as Git says that run."""


def key(name: str, kind: str = "VariantAutoscaling", namespace: str = NAMESPACE) -> ResourceKey:
    return ResourceKey(cluster=CLUSTER, namespace=namespace, kind=kind, name=name)


def place(path: str, line: int = 1) -> Place:
    return Place(path=path, line=line)


def accelerator(name: str, cost_per_hour: float | None = None, **fields: Any) -> Accelerator:
    """An accelerator whose nodes are labelled with its name."""
    values: dict[str, Any] = {"name": name, "device": name, "node_selector": {PRODUCT: name}}
    return Accelerator(**(values | {"cost_per_hour": cost_per_hour} | fields))


def profile(name: str, batch: int = 10, **fields: Any) -> PerformanceProfile:
    """A replica on `name` carries 0.999 * batch requests a second."""
    values: dict[str, Any] = {"alpha_s": ITERATION_S, "beta_s": 0.0, "max_batch_size": batch}
    return PerformanceProfile(accelerator=name, **(values | fields))


def learned(name: str, **ranges: Any) -> PerformanceProfile:
    """A profile that was learned, from requests of 10 to 1000 tokens."""
    values: dict[str, Any] = {"on": "2026-11-20", "samples": 900, "error": 0.04, "batch": (1.0, 10.0)}
    lengths = {"input_tokens": (10.0, 1000.0), "output_tokens": (10.0, 1000.0)}
    return profile(name, learning=Learning(**(values | lengths | ranges)))


def service_class(name: str = "standard", itl_s: float = 0.02, **fields: Any) -> ServiceClass:
    """Tokens 20 ms apart on average: any batch of this fleet attains it."""
    return ServiceClass(name=name, **({"itl": SloTarget(limit_s=itl_s)} | fields))


def load(arrival_rate_per_s: float, **fields: Any) -> Load:
    tokens = OUTPUT_TOKENS if arrival_rate_per_s else 0.0
    values: dict[str, Any] = {"output_tokens": tokens, "input_tokens": tokens, "window_s": 300.0}
    return Load(
        arrival_rate_per_s=arrival_rate_per_s, **(values | {"arrivals_from": ArrivalSource.ENDPOINT_PICKER} | fields)
    )


def no_answer(absence: Absence, reason: str) -> NoAnswer:
    return NoAnswer(absence=absence, reason=reason)


def notes(written: Mapping[str, Any], path: str) -> dict[str, Annotation]:
    return {name: Annotation(value=value, place=place(path, 9)) for name, value in written.items()}


@dataclass(slots=True, kw_only=True)
class Fleet:
    """One cluster; every piece may be replaced before `plan` is asked."""

    settings: Settings
    resources: list[VariantResource] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    owners: list[ReplicaOwner] = field(default_factory=list)
    listed_classes: list[ListedClass] = field(default_factory=list)
    listed_costs: list[ListedCost] = field(default_factory=list)
    ignored_namespaces: list[IgnoredNamespace] = field(default_factory=list)
    broken: list[BrokenResource] = field(default_factory=list)
    shared_paths: frozenset[str] = frozenset()
    loads: dict[ModelKey, Load | NoAnswer] = field(default_factory=dict)
    past: dict[ModelKey, LoadHistory] = field(default_factory=dict)
    observations: dict[ResourceKey, Observation] = field(default_factory=dict)
    replicas: dict[ResourceKey, tuple[ReplicaMetrics, ...]] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    saturation: dict[ModelKey, SaturationRules] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    priorities: dict[str, int] = field(default_factory=dict)
    proposals: list[Proposal] = field(default_factory=list)
    live: dict[ResourceKey, LiveReplicas | NoAnswer] = field(default_factory=dict)
    written: dict[ResourceKey, WrittenCounts] = field(default_factory=dict)
    paid: dict[ResourceKey, PaidPrices] = field(default_factory=dict)
    committed_s: float | None = NOW_S - DAY_S
    moved: frozenset[ResourceKey] | None = None
    now_s: float = NOW_S

    def add(
        self,
        name: str = "llama",
        *,
        replicas: int | None = 3,
        runs_on: str = "H100",
        profiles: tuple[PerformanceProfile, ...] = (),
        model_id: str = MODEL,
        namespace: str = NAMESPACE,
        annotations: Mapping[str, Any] | None = None,
        target_annotations: Mapping[str, Any] | None = None,
        workload: Mapping[str, Any] | None = None,
        has_workload: bool = True,
        **fields: Any,
    ) -> ResourceKey:
        """Declare a resource and its Deployment; it reports metrics."""
        path = f"apps/{namespace}/{name}.yaml"
        resource_key = key(name, namespace=namespace)
        values: dict[str, Any] = {
            "key": resource_key,
            "document": DocumentRef(path=path, document=0),
            "place": place(path, 3),
            "form": Form.PROFILE,
            "status_shape": StatusShape.FULL,
            "model_id": model_id,
            "target_kind": "Deployment",
            "target_name": name,
            "profiles": profiles or (profile("H100"),),
            "settings": notes(annotations or {}, path),
        }
        self.resources.append(VariantResource(**(values | fields)))
        if has_workload:
            self.workloads.append(
                _workload(name, namespace, path, replicas, runs_on, target_annotations or {}, workload or {})
            )
        self.observations[resource_key] = Observation(performance=Performance(itl_s=0.01), replicas_reporting=EVERYBODY)
        return resource_key

    def offer(
        self, arrival_rate_per_s: float, model_id: str = MODEL, namespace: str = NAMESPACE, **fields: Any
    ) -> None:
        """Requests that arrive for a model each second."""
        self.loads[ModelKey(cluster=CLUSTER, namespace=namespace, model_id=model_id)] = load(
            arrival_rate_per_s, **fields
        )

    def remember(self, *rates_per_s: float, model_id: str = MODEL, namespace: str = NAMESPACE) -> None:
        """What arrived for a model minute by minute until now."""
        model = ModelKey(cluster=CLUSTER, namespace=namespace, model_id=model_id)
        self.past[model] = load_history(rates_per_s, last_s=self.now_s)

    def fill(self, loads: str, name: str = "llama", **fields: Any) -> None:
        """What each replica of a variant reports: ".80/2, .50/-" is KV cache usage and waiting requests, - is none."""
        owner = key(name)
        self.replicas[owner] = tuple(
            ReplicaMetrics(pod=f"{name}-{index}", variant=owner, **(_replica(text) | fields))
            for index, text in enumerate(each.strip() for each in loads.split(",") if each.strip())
        )

    def watch(self, counts: Sequence[float], name: str = "llama") -> None:
        """What the scale target asked for in its cluster at the last moments, 15 s apart."""
        start_s = self.now_s - 15.0 * (len(counts) - 1)
        self.live[key(name)] = LiveReplicas(start_s=start_s, step_s=15.0, counts=np.array(counts, dtype=np.float64))

    def lack(self, absence: Absence, reason: str, model_id: str = MODEL) -> None:
        """The load of a model is not known."""
        self.loads[ModelKey(cluster=CLUSTER, namespace=NAMESPACE, model_id=model_id)] = no_answer(absence, reason)

    def set(self, **fields: Any) -> None:
        """Replace settings."""
        self.settings = replace(self.settings, **fields)

    def price(self, **prices: float | None) -> None:
        """Replace the catalog: names with prices, None is unknown."""
        self.set(accelerators=tuple(accelerator(name, cost) for name, cost in prices.items()))

    def default(self, **settings: Any) -> None:
        """Write variant settings under `defaults`; `headroom` means `sizing.headroom`."""
        self.set(defaults={**self.settings.defaults, **_settings(settings, 70)})

    def override(self, match: Mapping[str, str], line: int = 80, **settings: Any) -> None:
        """Append an override."""
        entry = Override(match=match, settings=_settings(settings, line), place=place("reconciler.yaml", line))
        self.set(overrides=(*self.settings.overrides, entry))

    def model(self, model_id: str = MODEL, profiles: tuple[PerformanceProfile, ...] = (), **settings: Any) -> None:
        """Write an entry of `models`."""
        entry = ModelSettings(model_id=model_id, profiles=profiles, settings=_settings(settings, 60))
        self.set(models=(*self.settings.models, entry))

    def propose(
        self,
        *changes: ProposedChange,
        group: str = f"{CLUSTER}/{NAMESPACE}",
        part: Part = Part.APPROVAL,
        **fields: Any,
    ) -> Proposal:
        """Add a pull request of ours."""
        values: dict[str, Any] = {
            "group": group,
            "number": 7,
            "state": ProposalState.OPEN,
            "head_branch": head_branch(self.settings.git.branch_prefix, group, part),
            "decision": "d" * 64,
            "changes": changes,
        }
        self.proposals.append(Proposal(**(values | fields)))
        return self.proposals[-1]

    def declaration(self) -> Declaration:
        return Declaration(
            variants=tuple(self.resources),
            workloads=tuple(self.workloads),
            owners=tuple(self.owners),
            classes={CLUSTER: tuple(self.listed_classes)},
            costs={CLUSTER: tuple(self.listed_costs)},
            ignored_namespaces=tuple(self.ignored_namespaces),
            broken=tuple(self.broken),
            shared_paths=self.shared_paths,
        )

    def prioritise(self, name: str, priority: int) -> None:
        """What the objectives of its pool say of a variant."""
        self.priorities[name] = priority

    def set_replicas(self, name: str, replicas: int) -> None:
        """What Git says of a workload."""
        position = next(index for index, each in enumerate(self.workloads) if each.key.name == name)
        self.workloads[position] = replace(self.workloads[position], replicas=replicas)

    def stock(self, *, others: int | None = 0, written: int | None = None, **devices: int | None) -> None:
        """What nodes offer of each device type, all alike; `others` hold some. None is not known, "for a reason".

        `written` is the number in the settings of each pool, if that says one.
        """
        reason = "for a reason"
        pools = (
            DevicePool(
                cluster=CLUSTER,
                device=name,
                configured=written,
                measured=Measured(devices=count, allocatable=count, reason=reason, taken=others),
            )
            for name, count in devices.items()
        )
        self.inventory = Inventory(pools={(CLUSTER, pool.device): pool for pool in pools})

    def variants(self) -> tuple[Variant, ...]:
        declaration = self.declaration()
        joined = declared_variants(self.settings, declaration)
        return tuple(self._prioritised(variant) for variant in joined)

    def _prioritised(self, variant: Variant) -> Variant:
        if variant.key.name not in self.priorities:
            return variant
        source = Source(kind=SourceKind.RESOURCE, place=place("apps/objectives.yaml", 7))
        return replace(variant, priority=Sourced(value=self.priorities[variant.key.name], source=source))

    def _reporting(self, resource_key: ResourceKey, observation: Any) -> Any:
        if not isinstance(observation, Observation) or observation.replicas_reporting != EVERYBODY:
            return observation
        counts = {each.key.name: each.replicas or 0 for each in self.workloads}
        return replace(observation, replicas_reporting=counts.get(resource_key.name, 0))

    def variant(self, name: str = "llama") -> Variant:
        """The one variant of that name."""
        (found,) = (variant for variant in self.variants() if variant.key.name == name)
        return found

    def snapshot(self) -> Snapshot:
        declaration = self.declaration()
        return Snapshot(
            now_s=self.now_s,
            repository="https://git.example.com/acme/fleet",
            branch="main",
            commit="3f9c2ab7",
            fingerprint="9b1e07",
            settings=self.settings,
            variants=self.variants(),
            broken=tuple(self.broken),
            observed=replace(
                self.observed,
                loads=self.loads,
                past=self.past,
                observations={key: self._reporting(key, each) for key, each in self.observations.items()},
                replicas=self.replicas,
                live=self.live,
            ),
            saturation=self.saturation,
            committed_s=self.committed_s,
            moved=self.moved,
            catalogs=build_catalogs(self.settings, declaration),
            inventory=self.inventory,
            proposals=tuple(self.proposals),
            written=self.written,
            paid=self.paid,
        )

    def plan(self, refused: Mapping[ResourceKey, str] | None = None) -> Plan:
        holds = {each: Hold(kind=HoldKind.NOT_WRITABLE, words=words) for each, words in (refused or {}).items()}
        return decide(self.snapshot(), holds)

    def decision(self, name: str = "llama", **refused: str) -> Decision:
        """The decision about the variant of that name."""
        plan = self.plan({key(each): reason for each, reason in refused.items()})
        (found,) = (decision for decision in plan.decisions if decision.variant.name == name)
        return found

    def desired(self) -> dict[str, str]:
        """`{"llama": "3 x H100"}`, with what is held in brackets."""
        return {each.variant.name: _words(each) for each in self.plan().decisions}

    def aim(self) -> dict[str, str]:
        """Where merging leads: what replaces another variant's replicas serves before those go."""
        self.merge()
        return self.desired()

    def merge(self) -> None:
        """Write the plan's changes into Git."""
        for change in self.plan().with_outcome(Outcome.CHANGE):
            position = next(index for index, each in enumerate(self.workloads) if each.key.name == change.variant.name)
            self.workloads[position] = replace(
                self.workloads[position],
                replicas=change.desired.replicas,
                node_selector={PRODUCT: change.desired.accelerator},
            )


def _workload(
    name: str,
    namespace: str,
    path: str,
    replicas: int | None,
    runs_on: str,
    annotations: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Workload:
    values: dict[str, Any] = {
        "key": key(name, "Deployment", namespace),
        "document": DocumentRef(path=path, document=1),
        "place": place(path, 20),
        "replicas": replicas,
        "node_selector": {PRODUCT: runs_on} if runs_on else {},
        "devices": {GPU: 1},
        "pods": (PodPlace(path=("spec", "template", "spec")),),
        "settings": notes(annotations, path),
    }
    return Workload(**(values | dict(fields)))


def _replica(text: str) -> dict[str, float | None]:
    usage, waiting = (None if part == "-" else float(part) for part in text.split("/"))
    return {"kv_cache_usage": usage, "num_waiting": waiting}


def _settings(settings: Mapping[str, Any], line: int) -> dict[str, Setting]:
    names = {"headroom": "sizing.headroom", "engine": "sizing.engine"}
    return {
        names.get(name, name): Setting(value=value, place=place("reconciler.yaml", line))
        for name, value in settings.items()
    }


def _words(decision: Decision) -> str:
    words = f"{decision.desired.replicas} x {decision.desired.accelerator}"
    return f"[{words}]" if decision.outcome is Outcome.HELD else words


@pytest.fixture
def fleet() -> Fleet:
    """A fleet without variants, priced, with one class for everybody and no headroom."""
    return new_fleet()


def new_fleet() -> Fleet:
    """The same, for tests that need several."""
    return Fleet(
        settings=Settings(
            clusters=(ClusterSettings(name=CLUSTER),),
            accelerators=(accelerator("H100", 6.0), accelerator("A100", 4.0), accelerator("L4", 1.0)),
            service_classes=(service_class(),),
            defaults={"serviceClass": Setting(value="standard"), "sizing.headroom": Setting(value=0.0)},
        )
    )


@dataclass(frozen=True, slots=True)
class Make:
    """The pieces that tests give to a fleet."""

    key = staticmethod(key)
    place = staticmethod(place)
    accelerator = staticmethod(accelerator)
    profile = staticmethod(profile)
    learned = staticmethod(learned)
    service_class = staticmethod(service_class)
    load = staticmethod(load)
    no_answer = staticmethod(no_answer)

    @staticmethod
    def change(name: str, before: str, after: str) -> ProposedChange:
        """A proposed change from "3 x H100" to "5 x H100"."""
        (replicas_before, _, accelerator_before), (replicas_after, _, accelerator_after) = before.split(), after.split()
        return ProposedChange(
            resource=str(key(name)),
            replicas_before=int(replicas_before),
            replicas_after=int(replicas_after),
            accelerator_before=accelerator_before,
            accelerator_after=accelerator_after,
        )


@pytest.fixture
def make() -> Make:
    """Makes accelerators, profiles, classes, loads and proposed changes."""
    return Make()
