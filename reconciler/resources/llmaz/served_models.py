"""Playgrounds and Services joined with the models, runtimes and settings that they mean: what a variant is made of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.declared.llmaz import (
    FAMILY_LABEL,
    BackendRuntime,
    GlobalConfig,
    Llmaz,
    OpenModel,
    Playground,
    Serving,
)
from reconciler.domain.declared.workloads import ReplicaOwner, Workload
from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Place, ResourceKey
from reconciler.manifests.wording import escape, join_words, quote
from reconciler.resources.llmaz.flavors import place_on, rank_flavors
from reconciler.resources.llmaz.launching import DEFAULT_CONFIG, SPECULATIVE_CONFIG, run_backend
from reconciler.resources.variants import RankedFlavor

SCHEDULER = "inftyai-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A Playground or Service with its main model and everything that decides about it.

    `workload` is the scale target as llmaz makes it in the first of the `flavors`. `is_placed` says whether the pods
    run where a flavor's node selector wants them: None when nothing in Git tells the scheduler. `hold` says why
    nothing can be decided about it.
    """

    serving: Serving
    workload: Workload
    model: OpenModel | None
    runtime: BackendRuntime | None
    flavors: tuple[RankedFlavor, ...]
    is_placed: bool | None
    hold: Hold | None = None

    @property
    def pods(self) -> int:
        """How many pods a replica has."""
        return _pods_of(self.serving)

    @property
    def model_name(self) -> str:
        """The name that the model is served and asked for under."""
        return self.serving.claim.main.name


@dataclass(frozen=True, slots=True)
class Shelf:
    """What claims are looked up in: of the whole cluster, by name."""

    models: Mapping[tuple[str, str], OpenModel]
    runtimes: Mapping[tuple[str, str], BackendRuntime]
    configs: Mapping[str, GlobalConfig]
    broken: Mapping[ResourceKey, BrokenResource]

    @classmethod
    def of(cls, llmaz: Llmaz, broken: tuple[BrokenResource, ...]) -> "Shelf":
        """Everything that the commit declares."""
        return cls(
            models={(model.key.cluster, model.key.name): model for model in llmaz.models},
            runtimes={(runtime.key.cluster, runtime.key.name): runtime for runtime in llmaz.runtimes},
            configs={config.cluster: config for config in llmaz.configs},
            broken={each.key: each for each in reversed(broken)},
        )

    def find_model(self, serving: Serving) -> OpenModel | None:
        """The main model of a claim."""
        return self.models.get((serving.key.cluster, serving.claim.main.name))

    def find_broken(self, serving: Serving) -> BrokenResource | None:
        """The main model, when it is in Git and cannot be used."""
        name = serving.claim.main.name
        return self.broken.get(replace(serving.key, namespace="", kind="OpenModel", name=name))

    def find_runtime(self, serving: Serving) -> BackendRuntime | None:
        """The backend of a Playground, when Git has it."""
        if not isinstance(serving, Playground):
            return None
        return self.runtimes.get((serving.key.cluster, serving.backend.backend_name))

    def is_placed(self, cluster: str) -> bool | None:
        """Whether pods go to the scheduler that knows flavors; None when nothing in Git says so."""
        config = self.configs.get(cluster)
        return None if config is None else config.scheduler_name == SCHEDULER


def join_served_models(
    llmaz: Llmaz, workloads: Iterable[Workload], broken: Sequence[BrokenResource]
) -> tuple[ServedModel, ...]:
    """Every Playground and Service whose scale target can be used, sorted by key."""
    shelf = Shelf.of(llmaz, tuple(broken))
    by_key = {workload.key: workload for workload in workloads}
    servings = sorted(llmaz.servings, key=lambda serving: serving.key)
    return tuple(_join(serving, by_key[serving.key], shelf) for serving in servings if serving.key in by_key)


def _join(serving: Serving, workload: Workload, shelf: Shelf) -> ServedModel:
    model, runtime = shelf.find_model(serving), shelf.find_runtime(serving)
    flavors = rank_flavors(serving.claim, model)
    return ServedModel(
        serving=serving,
        workload=_complete(serving, workload, model, runtime, flavors),
        model=model,
        runtime=runtime,
        flavors=flavors,
        is_placed=shelf.is_placed(serving.key.cluster),
        hold=_find_hold(serving, model, flavors, shelf),
    )


def _complete(
    serving: Serving,
    workload: Workload,
    model: OpenModel | None,
    runtime: BackendRuntime | None,
    flavors: tuple[RankedFlavor, ...],
) -> Workload:
    workload = replace(workload, replicas=serving.replicas, becomes=replace(workload.key, kind="LeaderWorkerSet"))
    if isinstance(serving, Playground):
        workload = run_backend(workload, serving.claim, serving.backend, runtime)
    if model is not None:
        labels = {**workload.template_labels, FAMILY_LABEL: model.family_name}
        workload = replace(workload, template_labels=labels)
    first = flavors[0].flavor if flavors else None
    if first is None:
        return workload
    return place_on(workload, first, _pods_of(serving))


def _pods_of(serving: Serving) -> int:
    return 1 if isinstance(serving, Playground) else serving.size


def _find_hold(
    serving: Serving, model: OpenModel | None, flavors: tuple[RankedFlavor, ...], shelf: Shelf
) -> Hold | None:
    name = escape(serving.claim.main.name)
    if model is None:
        broken = shelf.find_broken(serving)
        if broken is None:
            return Hold(kind=HoldKind.REFERENCE_MISSING, words=f"OpenModel {name} is not in Git")
        words = f"OpenModel {name} cannot be used ({broken.place})"
        return Hold(kind=HoldKind.REFERENCE_MISSING, words=words, place=broken.place)
    if flavors and flavors[0].flavor is None:
        known = join_words([quote(flavor.name) for flavor in model.flavors]) or "none"
        words = f"OpenModel {name} has no flavor {quote(flavors[0].name)}, but {known} ({model.place})"
        return Hold(kind=HoldKind.REFERENCE_MISSING, words=words, place=model.place)
    return None


def find_owners(llmaz: Llmaz) -> Iterator[ReplicaOwner]:
    """The HPAs that llmaz makes: where a Playground has an elasticConfig, and it or its backend has a trigger.

    The backend's is the one of the config that the claim's models call for, whatever config is named.
    """
    shelf = Shelf.of(llmaz, ())
    for playground in llmaz.playgrounds:
        place = _find_trigger(playground, shelf.find_runtime(playground))
        if place is not None:
            yield ReplicaOwner(
                cluster=playground.key.cluster,
                namespace=playground.key.namespace,
                owner=f"the HorizontalPodAutoscaler that llmaz makes of scaleTrigger for {playground.key.name}",
                target_kind=playground.key.kind,
                target_name=playground.key.name,
                place=place,
            )


def _find_trigger(playground: Playground, runtime: BackendRuntime | None) -> Place | None:
    if playground.elastic is None:
        return None
    if playground.elastic.trigger_place is not None:
        return playground.elastic.trigger_place
    name = SPECULATIVE_CONFIG if playground.claim.is_speculative else DEFAULT_CONFIG
    config = runtime.find_config(name) if runtime is not None else None
    return config.trigger_place if config is not None else None
