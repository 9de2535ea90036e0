"""What llmaz lets pass and nobody wants: claims, flavors, backends and scheduler beside each other, all as warnings."""

from collections.abc import Iterator, Mapping

from reconciler.domain.declared.llmaz import Llmaz, OpenModel, Playground, Serving
from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.manifests.wording import escape, join_words, quote, suggest
from reconciler.resources.kubernetes.command_lines import read_flags
from reconciler.resources.llmaz.fields import SKIP_LOADER
from reconciler.resources.llmaz.flavors import rank_flavors
from reconciler.resources.llmaz.launching import find_config
from reconciler.resources.llmaz.served_models import SCHEDULER, Shelf
from reconciler.resources.variants import RankedFlavor

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
        if isinstance(serving, Playground):
            yield from _check_backend(serving, shelf)
    yield from _check_scheduler(llmaz, shelf)


def _report_absent(serving: Serving, shelf: Shelf) -> Finding:
    ref = serving.claim.main
    hint = suggest(ref.name, (name for cluster, name in shelf.models if cluster == serving.key.cluster))
    words = f"OpenModel {escape(ref.name)} is not in Git"
    if hint:
        return Finding(place=ref.place, severity=Severity.ERROR, message=words + hint)
    return _warn(ref.place, f"{words}: nothing can be decided")


def _check_flavors(serving: Serving, model: OpenModel) -> Iterator[Finding]:
    ranked = rank_flavors(serving.claim, model)
    place = serving.claim.flavors_place or serving.claim.place
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
        yield _warn(serving.claim.place, message)


def _check_backend(playground: Playground, shelf: Shelf) -> Iterator[Finding]:
    backend, runtime = playground.backend, shelf.find_runtime(playground)
    place = backend.place or playground.claim.place
    config = find_config(runtime, playground.claim, backend.config_name) if runtime is not None else None
    if runtime is not None and config is None and backend.config_name:
        known = join_words([quote(each.name) for each in runtime.recommended]) or "none"
        message = f"BackendRuntime {escape(runtime.key.name)} has no config {quote(backend.config_name)}, but {known}"
        yield _warn(place, message)
    args = (*(config.args if config else ()), *backend.args)
    flags = read_flags(args)
    if backend.backend_name == "sglang" and "enable-metrics" not in flags:
        yield _warn(place, "sglang serves no metrics without --enable-metrics: add it to args, or its load is unknown")
    elif backend.backend_name in _UNMEASURED:
        yield _warn(place, f"{backend.backend_name} {_UNMEASURED[backend.backend_name]}: its load is unknown")
    yield from _check_parallelism(playground, shelf.find_model(playground), flags, place)


def _check_parallelism(
    playground: Playground, model: OpenModel | None, flags: Mapping[str, str], place: Place
) -> Iterator[Finding]:
    """llmaz derives no argument from a flavor, so both must be written alike."""
    ranked = rank_flavors(playground.claim, model)
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
