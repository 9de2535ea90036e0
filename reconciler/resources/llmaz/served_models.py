"""Playgrounds and Services joined with their models and runtimes, and what is wrong between them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.manifests.wording import escape, join_words, quote, suggest
from reconciler.resources.kubernetes.engines import read_flags
from reconciler.resources.llmaz.backends import BackendConfig, BackendRuntime
from reconciler.resources.llmaz.models import FAMILY_LABEL, SKIP_LOADER, OpenModel, place_on, rank_flavors
from reconciler.resources.llmaz.servings import GlobalConfig, Serving, config_for, run_backend
from reconciler.resources.objects import Folded, of_kind, report_duplicate, split_duplicates
from reconciler.resources.variants import RankedFlavor

SCHEDULER = "inftyai-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Llmaz:
    """All that llmaz declares in the commit; Playgrounds stand before Services."""

    models: tuple[OpenModel, ...] = ()
    servings: tuple[Serving, ...] = ()
    runtimes: tuple[BackendRuntime, ...] = ()
    configs: tuple[GlobalConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A Playground or Service with its main model and everything that decides about it.

    `workload` is the scale target as llmaz makes it in the first of the `flavors`. `is_placed` says whether the pods
    run where a flavor's node selector wants them: None when Git does not say which scheduler is used. `hold` says why
    nothing can be decided about it.
    """

    serving: Serving
    workload: Workload
    model: OpenModel | None
    flavors: tuple[RankedFlavor, ...]
    is_placed: bool | None
    hold: Hold | None = None

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
        backend = serving.backend
        return self.runtimes.get((serving.key.cluster, backend.name)) if backend is not None else None

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
    model = shelf.find_model(serving)
    flavors = rank_flavors(serving.claim.flavor_names, model)
    workload = replace(
        workload,
        replicas=serving.replicas,
        becomes=replace(workload.key, kind="LeaderWorkerSet"),
    )
    if serving.backend is not None:
        workload = run_backend(workload, serving, shelf.find_runtime(serving))
    if model is not None:
        labels = {**workload.template_labels, FAMILY_LABEL: model.spec.family_name}
        workload = replace(workload, template_labels=labels)
    if flavors and flavors[0].flavor is not None:
        workload = place_on(workload, flavors[0].flavor, serving.pods)
    return ServedModel(
        serving=serving,
        workload=workload,
        model=model,
        flavors=flavors,
        is_placed=shelf.is_placed(serving.key.cluster),
        hold=_find_hold(serving, model, flavors, shelf),
    )


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

    The backend's is the one of the config that the claim's models call for, even if another config is named.
    """
    shelf = Shelf.of(llmaz, ())
    for serving in llmaz.servings:
        place = _find_trigger(serving, shelf.find_runtime(serving))
        if place is not None:
            yield ReplicaOwner(
                cluster=serving.key.cluster,
                namespace=serving.key.namespace,
                owner=f"the HorizontalPodAutoscaler that llmaz makes of scaleTrigger for {serving.key.name}",
                target_kind=serving.key.kind,
                target_name=serving.key.name,
                place=place,
            )


def _find_trigger(serving: Serving, runtime: BackendRuntime | None) -> Place | None:
    if serving.elastic is None:
        return None
    if serving.elastic.scale_trigger is not None:
        return serving.place_of("elasticConfig", "scaleTrigger")
    return runtime.place_of_trigger(config_for(serving.claim)) if runtime is not None else None


_UNLOADED = ("s3", "gcs")
_TENSOR_PARALLEL = ("tensor-parallel-size", "tp", "tp-size")
_UNMEASURED = {
    "tensorrt-llm": "serves no metrics without a configuration of its own",
    "ollama": "serves no metrics",
}


def find_traps(llmaz: Llmaz, broken: tuple[BrokenResource, ...]) -> Iterator[Finding]:
    """Everything that is valid by itself and does not do what it says."""
    shelf = Shelf.of(llmaz, broken)
    for serving in llmaz.servings:
        model = shelf.find_model(serving)
        if model is None:
            if shelf.find_broken(serving) is None:
                yield _report_absent(serving, shelf)
        else:
            yield from _check_flavors(serving, model)
            yield from _check_loader(serving, model)
        if serving.backend is not None:
            yield from _check_backend(serving, serving.backend, shelf)
    yield from _check_scheduler(llmaz, shelf)


def _report_absent(serving: Serving, shelf: Shelf) -> Finding:
    name = serving.claim.main.name
    hint = suggest(name, (each for cluster, each in shelf.models if cluster == serving.key.cluster))
    words = f"OpenModel {escape(name)} is not in Git"
    if hint:
        return Finding(place=serving.main_place, severity=Severity.ERROR, message=words + hint)
    return _warn(serving.main_place, f"{words}: nothing can be decided")


def _check_flavors(serving: Serving, model: OpenModel) -> Iterator[Finding]:
    ranked = rank_flavors(serving.claim.flavor_names, model)
    place = serving.flavors_place
    known = join_words([quote(flavor.name) for flavor in model.flavors]) or "none"
    for each in ranked:
        if each.flavor is None:
            message = f"OpenModel {escape(model.key.name)} has no flavor {quote(each.name)}, but {known}"
            yield _warn(place, f"{message}: llmaz takes it and gives its pods no accelerator")
    yield from _check_fallbacks([each for each in ranked if each.flavor is not None], place)


def _check_fallbacks(ranked: list[RankedFlavor], place: Place) -> Iterator[Finding]:
    """Flavors can stand in for each other only with as many devices and with nodes of their own."""
    flavors = [each.flavor for each in ranked if each.flavor is not None]
    if len(flavors) < 2:
        return
    if any(flavor.devices != flavors[0].devices for flavor in flavors):
        names = join_words([quote(flavor.name) for flavor in flavors], "and")
        message = f"flavors {names} differ in their devices: llmaz asks for those of the first wherever a pod runs"
        yield _warn(place, message)
    bare = [flavor for flavor in flavors if not flavor.node_selector]
    if bare and len(bare) < len(flavors):
        message = f"flavor {quote(bare[0].name)} has no nodeSelector: the scheduler then looks at no flavor at all"
        yield _warn(place, message)


def _check_loader(serving: Serving, model: OpenModel) -> Iterator[Finding]:
    if model.protocol in _UNLOADED and not serving.skips_loader:
        message = (
            f"the weights are at {model.protocol}://, which llmaz's loader cannot read: annotate {SKIP_LOADER} "
            '"true" and let the backend read them'
        )
        yield _warn(serving.claim_place, message)


def _check_backend(serving: Serving, backend: BackendConfig, shelf: Shelf) -> Iterator[Finding]:
    place, runtime = serving.backend_place, shelf.find_runtime(serving)
    config = runtime.find_config(backend.config_name or config_for(serving.claim)) if runtime is not None else None
    if runtime is not None and config is None and backend.config_name:
        known = join_words([quote(each.name) for each in runtime.spec.configs or ()]) or "none"
        message = f"BackendRuntime {escape(runtime.key.name)} has no config {quote(backend.config_name)}, but {known}"
        yield _warn(place, message)
    args = (*((config.args if config else None) or ()), *(backend.args or ()))
    flags = read_flags(args)
    if backend.name == "sglang" and "enable-metrics" not in flags:
        yield _warn(place, "sglang serves no metrics without --enable-metrics: add it to args, or its load is unknown")
    elif backend.name in _UNMEASURED:
        yield _warn(place, f"{backend.name} {_UNMEASURED[backend.name]}: its load is unknown")
    yield from _check_parallelism(serving, shelf.find_model(serving), flags, place)


def _check_parallelism(
    serving: Serving, model: OpenModel | None, flags: Mapping[str, str], place: Place
) -> Iterator[Finding]:
    """llmaz derives no argument from a flavor, so both must be written alike."""
    ranked = rank_flavors(serving.claim.flavor_names, model)
    devices = sum(ranked[0].flavor.devices.values()) if ranked and ranked[0].flavor else 0
    written = next((flags[name] for name in _TENSOR_PARALLEL if name in flags), "")
    if devices and written.isascii() and written.isdigit() and len(written) < 6 and int(written) > devices:
        message = f"{written} devices are asked for by the arguments, {devices} by flavor {quote(ranked[0].name)}"
        yield _warn(place, message)


def _check_scheduler(llmaz: Llmaz, shelf: Shelf) -> Iterator[Finding]:
    """Since v0.1.0 a flavor's node selector is for llmaz's own scheduler alone."""
    for cluster, config in shelf.configs.items():
        models = (shelf.find_model(each) for each in llmaz.servings if each.key.cluster == cluster)
        flavors = (flavor for model in models if model is not None for flavor in model.flavors)
        if config.scheduler_name != SCHEDULER and any(flavor.node_selector for flavor in flavors):
            scheduler = quote(config.scheduler_name) if config.scheduler_name else "the cluster's own"
            message = f"pods go to the scheduler {scheduler}, which does not know flavors: their nodes are not enforced"
            yield _warn(config.place, message)


def _warn(place: Place, message: str) -> Finding:
    return Finding(place=place, severity=Severity.WARNING, message=message)


def fold_llmaz(pieces: Sequence[object], broken: Sequence[BrokenResource]) -> Folded[Llmaz]:
    """Fold the pieces of all files; `broken` are the resources and scale targets that cannot be used already."""
    models, broken_models = split_duplicates(of_kind(pieces, OpenModel))
    runtimes, broken_runtimes = split_duplicates(of_kind(pieces, BackendRuntime))
    servings = sorted(of_kind(pieces, Serving), key=lambda serving: serving.key.kind)
    doubled, unusable = [*broken_models, *broken_runtimes], {each.key for each in broken}
    declared = Llmaz(
        models=tuple(models),
        servings=tuple(each for each in servings if each.key not in unusable),
        runtimes=tuple(runtimes),
        configs=tuple(of_kind(pieces, GlobalConfig)),
    )
    traps = find_traps(declared, (*broken, *doubled))
    return Folded(declared, tuple(doubled), (*map(report_duplicate, doubled), *traps))
