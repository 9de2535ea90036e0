"""The chain behind one decision: what was measured and how it was asked, thresholds, and every value in between."""

from collections.abc import Iterator, Mapping

from reconciler.decision.drift import live_figures
from reconciler.decision.engines.answers import answer
from reconciler.decision.engines.saturated import answer_saturation
from reconciler.decision.problem.devices import pool_figures
from reconciler.decision.problem.load_variation import load_variation
from reconciler.decision.variant_states import variant_states
from reconciler.domain.engines import Engine
from reconciler.domain.loads import Load
from reconciler.domain.plan import Decision
from reconciler.domain.provenance import Figure
from reconciler.domain.replicas import ReplicaMetrics
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import PAYBACK_S
from reconciler.domain.variants import Variant
from reconciler.metrics import Name

_ARRIVALS = {
    "endpoint picker": (Name.ARRIVALS_ENDPOINT_PICKER,),
    "configured query arrivalRate": (Name.ARRIVALS_CONFIGURED,),
}
_PAST_ARRIVALS = {
    "endpoint picker": (Name.PAST_ENDPOINT_PICKER,),
    "configured query arrivalRate": (Name.PAST_CONFIGURED,),
}
_REPLICA_FIELDS = (
    ("KV cache usage", "kv_cache_usage", "fraction", (Name.KV_CACHE_USAGE,)),
    ("waiting", "num_waiting", "requests", (Name.NUM_WAITING,)),
    ("KV cache", "kv_tokens", "tokens", (Name.KV_TOKENS,)),
    ("prefix hits", "prefix_hit_rate", "fraction", (Name.PREFIX_HIT_RATE,)),
)


def chain_of(snapshot: Snapshot, decision: Decision) -> tuple[Figure, ...]:
    """Every figure behind a decision of `snapshot`, inputs first; empty for a resource that could not be read."""
    variant = next((each for each in snapshot.variants if each.key == decision.variant), None)
    if variant is None:
        return ()
    figures = [*_load_figures(snapshot, variant), *_observed_figures(snapshot, variant)]
    figures += live_figures(snapshot, variant)
    if decision.engine and Engine(decision.engine).is_saturation:
        figures += [*_replica_figures(snapshot, variant), *_model_figures(snapshot, variant)]
        figures += _answer_figures(snapshot, variant)
    if decision.engine and Engine(decision.engine).is_tracking:
        figures += _tracking_figures(snapshot, variant)
    figures += pool_figures(snapshot, variant)
    return tuple(figures)


def asked_queries(snapshot: Snapshot, decision: Decision, figures: tuple[Figure, ...]) -> Mapping[str, str]:
    """The PromQL of every quantity that the figures name, in the order they name them."""
    asked = snapshot.queries.get(decision.variant.cluster, {})
    names = dict.fromkeys(name for figure in figures for name in figure.queries)
    return {name: asked[name] for name in names if name in asked}


def _load_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    load, subject = snapshot.loads.get(variant.model), variant.model.model_id
    if not isinstance(load, Load):
        reason = "not asked for" if load is None else load.reason
        yield Figure(subject=subject, name="arrivals", value=None, unit="req/s", reason=reason)
        return
    yield Figure(
        subject=subject,
        name="arrivals",
        value=load.arrival_rate_per_s,
        unit="req/s",
        reason=load.arrivals_from,
        queries=tuple(map(str, _ARRIVALS.get(load.arrivals_from, (Name.COMPLETIONS, Name.QUEUE_GROWTH)))),
    )
    yield from _past_figures(snapshot, variant, load)
    lengths = (
        ("input tokens", load.input_tokens, Name.INPUT_TOKENS),
        ("output tokens", load.output_tokens, Name.OUTPUT_TOKENS),
    )
    for name, value, quantity in lengths:
        reason = "" if value is not None else "no series tells it"
        yield Figure(
            subject=subject, name=name, value=value, unit="tokens/request", reason=reason, queries=(str(quantity),)
        )


def _past_figures(snapshot: Snapshot, variant: Variant, load: Load) -> Iterator[Figure]:
    members = (each for each in snapshot.variants if each.model == variant.model)
    payback_s = max(each.settings[PAYBACK_S].value for each in members)
    variation = load_variation(snapshot.past.get(variant.model), snapshot.now_s, payback_s)
    if variation is None:
        return
    names = _PAST_ARRIVALS.get(load.arrivals_from, (Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH))
    for name, value in (
        ("peak of arrivals", variation.peak_per_s),
        ("mean of arrivals", variation.mean_per_s),
        ("standard deviation of arrivals", variation.deviation_per_s),
    ):
        reason = f"in the last {payback_s / 60:g}m"
        yield Figure(
            subject=variant.model.model_id,
            name=name,
            value=value,
            unit="req/s",
            reason=reason,
            queries=tuple(map(str, names)),
        )


def _observed_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    observation, subject = snapshot.observations.get(variant.key), variant.key.label
    if observation is None:
        return
    if observation.absence is not None:
        yield Figure(subject=subject, name="replicas", value=None, reason=observation.absence.reason)
        return
    seen = observation.performance
    values = (
        ("replicas reporting", observation.replicas_reporting, "replicas", Name.LAST_SEEN),
        ("running", observation.num_running, "requests", Name.RUNNING),
        ("waiting", observation.num_waiting, "requests", Name.WAITING),
        ("ITL", seen.itl_s, "s", Name.ITL),
        ("TTFT", seen.ttft_s, "s", Name.TTFT),
        ("wait", seen.wait_s, "s", Name.WAIT),
    )
    for name, value, unit, quantity in values:
        reason = "" if value is not None else "not measured"
        yield Figure(subject=subject, name=name, value=value, unit=unit, reason=reason, queries=(str(quantity),))


def _replica_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    for replica in snapshot.views.replicas.get(variant.key, ()):
        for name, attribute, unit, quantities in _REPLICA_FIELDS:
            value = getattr(replica, attribute)
            yield Figure(
                subject=replica.label,
                name=name,
                value=value,
                unit=unit,
                reason="" if value is not None else _why_unknown(replica, attribute),
                queries=tuple(map(str, quantities)),
            )


def _why_unknown(replica: ReplicaMetrics, attribute: str) -> str:
    fields = {"kv_tokens": ("total_kv_tokens", "num_blocks", "block_tokens")}.get(attribute, (attribute,))
    return next((replica.reasons[field] for field in fields if field in replica.reasons), "not measured")


def _model_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    views = snapshot.views
    queue = views.queues.get(variant.model)
    if queue is not None:
        yield Figure(
            subject=variant.model.model_id,
            name="waiting upstream",
            value=queue.num_waiting,
            unit="requests",
            reason=queue.reason,
            queries=(str(Name.FLOW_CONTROL_QUEUE_SIZE),),
        )
    ready, stored = views.ready.get(variant.key), views.stored_kv_tokens.get(variant.key)
    for name, value, unit, quantity in (
        ("ready", ready, "replicas", Name.READY_REPLICAS),
        ("KV cache when last seen", stored, "tokens", Name.STORED_KV_TOKENS),
    ):
        if value is not None:
            yield Figure(subject=variant.key.label, name=name, value=value, unit=unit, queries=(str(quantity),))


def _tracking_figures(snapshot: Snapshot, variant: Variant) -> tuple[Figure, ...]:
    tracked = answer(snapshot, variant_states(snapshot, {})).tracking.get(variant.key)
    return () if tracked is None else tracked.figures


def _answer_figures(snapshot: Snapshot, variant: Variant) -> tuple[Figure, ...]:
    """What the engine says of the model and of this variant; other variants' numbers stand in their own chain."""
    answers = answer_saturation(snapshot, variant_states(snapshot, {}))
    saturation = answers.get(variant.model)
    others = {each.key.label for each in snapshot.variants} - {variant.key.label}
    return () if saturation is None else tuple(each for each in saturation.figures if each.subject not in others)
