"""Workers of a backend: which pods a replica has, how their engine is started, and which types belong together."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from reconciler.domain.declared.kthena import Worker
from reconciler.domain.declared.places import FieldPath
from reconciler.domain.declared.workloads import LaunchSettings, PodPlace
from reconciler.domain.identity import Finding
from reconciler.manifests.wording import describe, join_words, quote
from reconciler.resources.kthena.model_fields import BackendFields, WorkerFields
from reconciler.resources.kubernetes.engines import read_launch
from reconciler.resources.kubernetes.pods import PodSpec, Resources, list_devices, read_affinity, read_terms
from reconciler.resources.kubernetes.quantities import read_quantity
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import is_templated

DEFAULT_TYPE = "server"
_SERVER = (DEFAULT_TYPE,)
_DISAGGREGATED = ("prefill", "decode")
_WORKER_TYPES: Mapping[str, tuple[str, ...]] = {
    "vLLM": _SERVER,
    "SGLang": _SERVER,
    "MindIE": _SERVER,
    "vLLMDisaggregated": _DISAGGREGATED,
    "MindIEDisaggregated": (*_DISAGGREGATED, "controller", "coordinator"),
}
_ENGINES = {"vLLM": "vllm", "vLLMDisaggregated": "vllm", "SGLang": "sglang"}
# Which worker tells how the engine holds its tokens, where several do.
_TELLING = ("server", "decode", "prefill")
_MAX_DEVICES = 10_000
_UNPLACEABLE = "its worker has no nodeSelector, which not every Kthena knows: write the one it runs on, or its affinity"


def read_worker(source: KubernetesObject, fields: WorkerFields, path: FieldPath) -> Worker:
    """One worker of a backend."""
    resources = fields.resources or Resources()
    return Worker(
        type=fields.type or DEFAULT_TYPE,
        place=source.locate(path),
        replicas=fields.replicas,
        pods=fields.pods,
        devices=dict(_devices(resources)),
        affinity=read_affinity(PodSpec(affinity=fields.affinity)),
        terms=read_terms(PodSpec(affinity=fields.affinity)),
        node_selector={key: value or "" for key, value in (fields.node_selector or {}).items()},
        config={name.lstrip("-").replace("_", "-"): _text(value) for name, value in (fields.config or {}).items()},
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _devices(resources: Resources) -> Iterator[tuple[str, int]]:
    for _, resource, quantity in list_devices(resources):
        count = _count(quantity)
        if count:
            yield resource, count


def _count(quantity: int | float | str | None) -> int | None:
    try:
        amount = read_quantity(quantity) if quantity is not None else -1.0
    except ValueError:
        return None
    return int(amount) if isfinite(amount) and amount.is_integer() and 0 <= amount <= _MAX_DEVICES else None


def find_templated_device(resources: Resources | None) -> tuple[str, str] | None:
    """Where a number of devices is filled in later."""
    found = (
        (where, name) for where, name, quantity in list_devices(resources or Resources()) if is_templated(quantity)
    )
    return next(found, None)


def check_workers(source: KubernetesObject, backend: BackendFields, path: FieldPath) -> Iterator[Finding]:
    """The types that the type of the backend wants, and whole devices."""
    types = [worker.type or DEFAULT_TYPE for worker in backend.workers]
    allowed = _WORKER_TYPES[backend.type]
    for index, name in enumerate(types):
        if name not in allowed:
            message = f"expected {join_words(allowed)} in a backend of type {backend.type}, got {quote(name)}"
            yield source.complain((*path, "workers", index, "type"), message)
    if allowed == _SERVER and len(types) != 1:
        message = f"expected exactly one worker in a backend of type {backend.type}, got {len(types)}"
        yield source.complain((*path, "workers"), message)
    for index, worker in enumerate(backend.workers):
        for where, resource, quantity in list_devices(worker.resources or Resources()):
            if _count(quantity) is None and not is_templated(quantity):
                words = f"{'found' if quantity is None else 'got'} {describe(quantity)}"
                field = (*path, "workers", index, "resources", where, resource)
                yield source.complain(field, f"expected a whole number of devices, {words}")


def add_devices(workers: Sequence[Worker]) -> dict[str, int]:
    """The devices of one replica of a backend, over all its pods."""
    total: Counter[str] = Counter()
    for worker in workers:
        total.update({resource: count * worker.num_pods for resource, count in worker.devices.items()})
    return {resource: count for resource, count in total.items() if count}


def find_resources(workers: Sequence[Worker], path: FieldPath) -> FieldPath | None:
    """The resources of the only worker that asks for devices, where one pod of it makes a replica."""
    asking = [index for index, worker in enumerate(workers) if worker.devices]
    is_one = len(asking) == 1 and workers[asking[0]].num_pods == 1
    return (*path, "workers", asking[0], "resources") if is_one else None


def place_workers(workers: Sequence[Worker], path: FieldPath) -> tuple[PodPlace, ...]:
    """The workers with devices, else the first; no reference of the API names `nodeSelector`, so one must be there."""
    asking = [index for index, worker in enumerate(workers) if worker.devices] or [0]
    return tuple(
        PodPlace(
            path=(*path, "workers", index),
            node_selector=workers[index].node_selector,
            affinity=workers[index].affinity,
            terms=workers[index].terms,
            unplaceable="" if workers[index].node_selector else _UNPLACEABLE,
        )
        for index in asking
    )


def read_engine_of(
    backend_type: str, workers: Sequence[Worker], env: Mapping[str, str]
) -> tuple[str, LaunchSettings | None]:
    """The engine of a backend, and how its telling worker starts it."""
    engine = _ENGINES.get(backend_type, "")
    config = _telling(workers).config
    words = [f"--{name}={value}" if value else f"--{name}" for name, value in config.items()]
    return engine, read_launch(engine, words, env)


def read_served_name(workers: Sequence[Worker]) -> tuple[str, ...]:
    """Under which names the engine serves its model, as far as its configuration says."""
    names = _telling(workers).config.get("served-model-name", "").split()
    return tuple(dict.fromkeys(name for name in names if "$" not in name))


def _telling(workers: Sequence[Worker]) -> Worker:
    ranked = sorted(workers, key=lambda worker: _TELLING.index(worker.type) if worker.type in _TELLING else 9)
    return ranked[0]
