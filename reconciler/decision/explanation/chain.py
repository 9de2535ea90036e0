"""The chain behind one decision: what was measured and how it was asked, thresholds, and every value in between."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.decision.assessment import live_figures
from reconciler.decision.context import DecisionContext
from reconciler.decision.problem.devices import pool_figures
from reconciler.decision.problem.load_variation import LoadVariation
from reconciler.decision.variant_states import VariantState
from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.loads import ArrivalSource, Load
from reconciler.domain.plan import Decision
from reconciler.domain.provenance import Figure
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import alternatives_in

_ARRIVALS = {
    ArrivalSource.CONFIGURED: (Name.ARRIVALS_CONFIGURED,),
    ArrivalSource.ENDPOINT_PICKER: (Name.ARRIVALS_ENDPOINT_PICKER,),
    ArrivalSource.REPLICAS: (Name.COMPLETIONS, Name.QUEUE_GROWTH),
}
_PAST_ARRIVALS = {
    ArrivalSource.CONFIGURED: (Name.PAST_CONFIGURED,),
    ArrivalSource.ENDPOINT_PICKER: (Name.PAST_ENDPOINT_PICKER,),
    ArrivalSource.REPLICAS: (Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH),
}


class FiguresOnDemand(Mapping[ResourceKey, tuple[Figure, ...]]):
    """Every figure behind each variant's decision, inputs first, put together when it is read."""

    def __init__(self, context: DecisionContext, states: Iterable[VariantState]) -> None:
        self._context = context
        self._states = {state.variant.key: state for state in states}

    def __getitem__(self, key: ResourceKey) -> tuple[Figure, ...]:
        state, snapshot = self._states[key], self._context.snapshot
        variant = state.variant
        return (
            *_load_figures(snapshot, variant, self._context.variations.get(variant.model)),
            *_observed_figures(snapshot, variant),
            *live_figures(snapshot, variant),
            *self._context.answers[state.engine].figures(variant),
            *pool_figures(snapshot, variant),
        )

    def __iter__(self) -> Iterator[ResourceKey]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)


def asked_queries(snapshot: Snapshot, decision: Decision, figures: tuple[Figure, ...]) -> Mapping[str, tuple[str, ...]]:
    """The PromQL of every quantity that the figures name, in the order they name them, by its alternatives.

    Of what was finished just those that told of the model.
    """
    asked = snapshot.observed.queries.get(decision.variant.cluster, {})
    names = dict.fromkeys(name for figure in figures for name in figure.queries)
    load = snapshot.observed.loads.get(decision.model)
    told = load.alternatives if isinstance(load, Load) else ()
    return {name: _narrowed(asked[name], told if name == Name.COMPLETIONS else ()) for name in names if name in asked}


def _narrowed(text: str, told: Iterable[str]) -> tuple[str, ...]:
    alternatives = tuple(alternatives_in(text))
    answered = tuple(query for number, query in alternatives if number in told)
    return answered or tuple(query for _, query in alternatives)


def _load_figures(snapshot: Snapshot, variant: Variant, variation: LoadVariation | None) -> Iterator[Figure]:
    load, subject = snapshot.observed.loads.get(variant.model), variant.model.model_id
    if not isinstance(load, Load):
        reason = "not asked for" if load is None else load.reason
        yield Figure(subject=subject, name="arrivals", value=None, unit="req/s", reason=reason)
        return
    yield Figure(
        subject=subject,
        name="arrivals",
        value=load.arrival_rate_per_s,
        unit="req/s",
        reason=str(load.arrivals_from),
        queries=tuple(map(str, _ARRIVALS[load.arrivals_from])),
    )
    if variation is not None:
        yield from _past_figures(variant, load, variation)
    lengths = (
        ("input tokens", load.input_tokens, Name.INPUT_TOKENS),
        ("output tokens", load.output_tokens, Name.OUTPUT_TOKENS),
    )
    for name, value, quantity in lengths:
        reason = "" if value is not None else "no series tells it"
        yield Figure(
            subject=subject, name=name, value=value, unit="tokens/request", reason=reason, queries=(str(quantity),)
        )

    if load.input_spread is not None:
        yield Figure(
            subject=subject,
            name="spread of input tokens",
            value=load.input_spread,
            unit="variance by squared mean",
            queries=(str(Name.INPUT_BUCKETS),),
        )


def _past_figures(variant: Variant, load: Load, variation: LoadVariation) -> Iterator[Figure]:
    names = _PAST_ARRIVALS[load.arrivals_from]
    for name, value in (
        ("peak of arrivals", variation.peak_per_s),
        ("mean of arrivals", variation.mean_per_s),
        ("standard deviation of arrivals", variation.deviation_per_s),
    ):
        reason = f"in the last {variation.payback_s / 60:g}m"
        yield Figure(
            subject=variant.model.model_id,
            name=name,
            value=value,
            unit="req/s",
            reason=reason,
            queries=tuple(map(str, names)),
        )


def _observed_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    observation, subject = snapshot.observed.observations.get(variant.key), variant.key.label
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
