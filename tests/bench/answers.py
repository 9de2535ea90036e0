"""What Prometheus answers about the fleet, byte for byte as its API writes it."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.metrics.quantities import QUANTITIES, Name
from tests.bench.fleet import GPUS, NOW_S, Fleet, Gpu, Member

DEVICES_PER_NODE = 8

BOUNDS = ("1", "10", "100", "200", "500", "1000", "2000", "5000", "10000", "20000", "50000", "+Inf")
Row = tuple[dict[str, str], float]


def answers_to(fleet: Fleet, queries: Sequence[Query]) -> tuple[Answer, ...]:
    """An answer to every query, in their order."""
    return tuple(
        Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=_body(fleet, query))) for query in queries
    )


def series_in(answers: Sequence[Answer]) -> int:
    """How many series the answers hold together."""
    return sum(answer.body.read().count(b'"metric"') for answer in answers)


def _body(fleet: Fleet, query: Query) -> bytes:
    """The same value at every moment of a range, and of that what objects ask for, and what models had."""
    rows = (ROWS if query.step_s is None else ROWS_OVER_TIME).get(query.quantity)
    kind, key = ("vector", "value") if query.step_s is None else ("matrix", "values")
    result = [
        {"metric": labels, key: _values(query, repr(float(value)))}
        for labels, value in (rows(fleet.members) if rows else ())
    ]
    document = {"status": "success", "data": {"resultType": kind, "result": result}}
    return json.dumps(document, separators=(",", ":")).encode()


def _values(query: Query, text: str) -> list[object]:
    if query.step_s is None:
        return [NOW_S, text]
    count = int((query.end_s - query.start_s) / query.step_s) + 1
    return [[query.start_s + index * query.step_s, text] for index in range(count)]


def _per_pod(value_of: Callable[[Member], float]) -> Callable[[Sequence[Member]], Iterator[Row]]:
    def rows(members: Sequence[Member]) -> Iterator[Row]:
        for member in members:
            labels = {"namespace": member.namespace, "pod": member.pod, "model_name": member.model_id}
            yield labels, value_of(member)

    return rows


def _buckets(members: Sequence[Member]) -> Iterator[Row]:
    """Prompts of each model lie evenly up to twice their mean."""
    totals: dict[tuple[str, str], float] = {}
    for member in members:
        model = member.namespace, member.model_id
        totals[model] = totals.get(model, 0.0) + member.arrival_rate_per_s
    for (namespace, model_id), total in totals.items():
        for bound in BOUNDS:
            told = total * min(float(bound) / 2000, 1.0)
            yield {"namespace": namespace, "model_name": model_id, "le": bound}, told


def _pod_labels(members: Sequence[Member]) -> Iterator[Row]:
    for member in members:
        if member.has_pod_label:
            labels = {"namespace": member.namespace, "pod": member.pod, "label_llm_d_ai_variant": member.name}
            yield labels, 1.0


def _pod_owners(members: Sequence[Member]) -> Iterator[Row]:
    for member in members:
        yield {"namespace": member.namespace, "pod": member.pod, "owner_name": member.replicaset}, 1.0


def _replicaset_owners(members: Sequence[Member]) -> Iterator[Row]:
    for member in members:
        yield {"namespace": member.namespace, "replicaset": member.replicaset, "owner_name": member.name}, 1.0


def _deployments(members: Sequence[Member]) -> Iterator[Row]:
    for member in members:
        yield {"namespace": member.namespace, "deployment": member.name}, 1.0


def _placed(members: Sequence[Member]) -> Iterator[tuple[Member, str]]:
    """Each pod on a node of its accelerator, until that is full."""
    counted: dict[str, int] = {}
    for member in members:
        number = counted[member.gpu.name] = counted.get(member.gpu.name, -1) + 1
        yield member, _node(member.gpu, number // DEVICES_PER_NODE)


def _node(gpu: Gpu, number: int) -> str:
    return f"{gpu.name.lower()}-{number}"


def _nodes(members: Sequence[Member]) -> Iterator[Row]:
    """Three times as many devices as are in use."""
    in_use = Counter(member.gpu for member in members)
    for gpu in GPUS:
        for number in range(math.ceil(3 * in_use[gpu] / DEVICES_PER_NODE)):
            name = _node(gpu, number)
            yield {"fact": "offers", "node": name, "resource": "cpu"}, 64.0
            yield {"fact": "offers", "node": name, "resource": "nvidia_com_gpu"}, float(DEVICES_PER_NODE)
            yield {"fact": "labels", "node": name, "label_nvidia_com_gpu_product": gpu.product}, 1.0
            yield {"fact": "seen", "node": name}, NOW_S


def _requests(members: Sequence[Member]) -> Iterator[Row]:
    for member, node in _placed(members):
        labels = {"namespace": member.namespace, "pod": member.pod, "node": node, "resource": "nvidia_com_gpu"}
        yield labels, 1.0


def _running(member: Member) -> float:
    return min(round(member.arrival_rate_per_s * member.output_tokens * _itl_s(member)), member.gpu.max_batch_size)


def _itl_s(member: Member) -> float:
    return (member.gpu.alpha_ms + member.gpu.beta_ms * 8) / 1000


ROWS: Mapping[str, Callable[[Sequence[Member]], Iterator[Row]]] = {
    "running": _per_pod(_running),
    "most_running": _per_pod(_running),
    "changes": _per_pod(lambda _: 20.0),
    "waiting": _per_pod(lambda _: 0.0),
    "last_seen": _per_pod(lambda member: NOW_S - 5 - member.number % 10),
    "completions": _per_pod(lambda member: member.arrival_rate_per_s),
    "itl": _per_pod(_itl_s),
    "wait": _per_pod(lambda member: 0.001 * (1 + member.number % 7)),
    "ttft": _per_pod(lambda member: 0.08 + 0.001 * (member.number % 7)),
    "output_tokens": _per_pod(lambda member: member.output_tokens),
    "input_tokens": _per_pod(lambda member: 4 * member.output_tokens),
    "input_buckets": _buckets,
    "queue_growth": _per_pod(lambda _: 0.0),
    "pod_labels": _pod_labels,
    "pod_owner": _pod_owners,
    "replicaset_owner": _replicaset_owners,
    "nodes": _nodes,
    "device_requests": _requests,
}
"""Rows by quantity; a fleet without endpoint pickers has none that count arrivals."""


def _by_model(value_of: Callable[[Member], float]) -> Callable[[Sequence[Member]], Iterator[Row]]:
    """What the replicas of each model have together."""

    def rows(members: Sequence[Member]) -> Iterator[Row]:
        totals: dict[tuple[str, str], float] = {}
        for member in members:
            model = member.namespace, member.model_id
            totals[model] = totals.get(model, 0.0) + value_of(member)
        for (namespace, model_id), total in totals.items():
            yield {"namespace": namespace, "model_name": model_id}, total

    return rows


_FINISHED = _by_model(lambda member: member.arrival_rate_per_s)
_OUTPUTS = _by_model(lambda member: member.arrival_rate_per_s * member.output_tokens)
_INPUTS = _by_model(lambda member: 4 * member.arrival_rate_per_s * member.output_tokens)
ROWS_OVER_TIME = {
    "live_replicas": _deployments,
    "past_completions": _FINISHED,
    "past_queue_growth": _by_model(lambda _: 0.0),
    "past_output_tokens": _OUTPUTS,
    "past_input_tokens": _INPUTS,
    "usual_completions": _FINISHED,
    "usual_output_tokens": _OUTPUTS,
    "usual_input_tokens": _INPUTS,
}

UNSEEN = {"arrivals_endpoint_picker", Name.UNSCHEDULABLE, Name.QUOTAS}
"""What a fleet without endpoint pickers, pods that find no node and quotas says nothing about."""
ASKED = {*(quantity.name for quantity in QUANTITIES), Name.NODES, Name.DEVICE_REQUESTS}
FORGOTTEN = ASKED - ROWS.keys() - UNSEEN
"""Quantities that are asked for and that this fleet says nothing about; a test keeps it empty."""
