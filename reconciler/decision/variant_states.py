"""Whether a variant may change, and whether what it carries is known: two questions, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.decision.drift import drifted
from reconciler.decision.engines.choosing import Choice, choose_engines, lacks_prompt
from reconciler.domain.answers import NoAnswer
from reconciler.domain.engines import Engine
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.loads import Load, Observation
from reconciler.domain.replicas import LiveReplicas
from reconciler.domain.service_classes import ServiceClass
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, IN_ORDER, KEEP
from reconciler.domain.variants import Variant
from reconciler.sizing.learning import Correction, correct


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantState:
    """A variant with its model's load and engine.

    `hold` says why it must stay as it is; `gap` why what its replicas carry is unknown; both empty: it is decided.
    `lacks_metrics` marks a hold that missing data caused, `is_stray` one of live replicas that stay away from Git: both
    may slow a change, never reverse it, for merging what is open may be what ends them. `partial` says in
    words that some replicas did not report the load they carry: then nothing of the model is scaled down.
    `replicas_reporting` is None where nobody counted them, `replicas_live` where nobody says what the cluster asks for.
    `correction` is what its replicas do over what their learned profile says; None where none was learned.
    """

    variant: Variant
    choice: Choice
    load: Load | None
    hold: str = ""
    gap: str = ""
    lacks_metrics: bool = False
    is_drifted: bool = False
    partial: str = ""
    replicas_reporting: int | None = None
    replicas_live: int | None = None
    correction: Correction | None = None

    @property
    def engine(self) -> Engine:
        """What sizes its model."""
        return self.choice.engine

    @property
    def reason(self) -> str:
        """The one line for a person; empty when the variant is decided."""
        return self.hold or self.gap

    @property
    def is_free(self) -> bool:
        """Whether the optimizer may choose for it."""
        return not self.reason

    @property
    def surplus_replicas(self) -> int:
        """Replicas that run beyond what Git says, as far as anybody knows."""
        running = max(self.replicas_reporting or 0, self.replicas_live or 0)
        return max(running - self.variant.current.replicas, 0)

    @property
    def is_sized(self) -> bool:
        """Whether its capacity can be computed by a queue, be it free or held."""
        is_loaded = self.load is not None and self.load.arrival_rate_per_s > 0
        return self.engine is Engine.QUEUEING and is_loaded and not self.gap


def variant_states(snapshot: Snapshot, refused: Mapping[ResourceKey, str]) -> tuple[VariantState, ...]:
    """The state of every variant; `refused` are changes that could not be written."""
    choices = choose_engines(snapshot.variants, snapshot.loads)
    alone = tuple(
        _state_of(snapshot, variant, choices[variant.model], refused.get(variant.key, ""))
        for variant in snapshot.variants
    )
    alone = _share_gaps(alone)
    blind = {state.variant.model: (state.variant, words) for state in reversed(alone) if (words := _blind(state))}
    return tuple(
        _beside(state, *blind[state.variant.model]) if state.variant.model in blind else state for state in alone
    )


def _share_gaps(states: tuple[VariantState, ...]) -> tuple[VariantState, ...]:
    """Where routes split what is counted as one, a replica that does not report is missing in every part."""
    gaps: dict[ModelKey, list[str]] = {}
    for state in states:
        if state.partial and state.variant.share is not None:
            gaps.setdefault(state.variant.model.whole, []).append(state.partial)
    return tuple(
        replace(each, partial="; ".join(gaps[each.variant.model.whole]))
        if each.variant.share is not None and each.variant.model.whole in gaps
        else each
        for each in states
    )


def is_counted(variant: Variant) -> bool:
    """Whether Git says how many replicas run; none and unknown are different."""
    return variant.workload is not None and variant.workload.replicas is not None


def beside_unknown(unknown: Variant, words: str) -> str:
    """Why a model's variants cannot be sized beside one whose capacity is unknown."""
    return f"shares its model's load with {unknown.key.label}, whose capacity is unknown: {words}"


def _state_of(snapshot: Snapshot, variant: Variant, choice: Choice, refused: str) -> VariantState:
    load = snapshot.loads.get(variant.model)
    observation = snapshot.observations.get(variant.key)
    known = load if isinstance(load, Load) else None
    absence = _absence(choice.engine, load, observation)
    away, live = drifted(snapshot, variant), snapshot.live.get(variant.key)
    newest = live.newest if isinstance(live, LiveReplicas) else None
    return VariantState(
        variant=variant,
        choice=choice,
        load=known,
        hold=variant.obstacle or refused or away or choice.conflict or absence or _unprofiled(variant),
        gap=_gap(variant, choice.engine, known),
        lacks_metrics=bool(absence) and not variant.obstacle,
        is_drifted=bool(away) and not variant.obstacle,
        partial=_partial(variant, known, observation) if choice.engine is Engine.QUEUEING else "",
        replicas_reporting=None if observation is None or observation.absence else observation.replicas_reporting,
        replicas_live=None if newest is None else int(newest),
        correction=_correction(snapshot, variant) if choice.engine is Engine.QUEUEING else None,
    )


def _correction(snapshot: Snapshot, variant: Variant) -> Correction | None:
    """A learned profile is held against what its replicas do now; one that somebody gave is taken at its word."""
    running = (option.profile for option in variant.options if option.accelerator == variant.current.accelerator)
    profile = next(running, None)
    if profile is None or profile.learning is None:
        return None
    return correct(snapshot.views.traces.get(variant.key, ()), profile)


def _absence(engine: Engine, load: Load | NoAnswer | None, observation: Observation | None) -> str:
    """What is missing of what the engine looks at: a queue needs the model's load, saturation the replicas' word.

    Metric targets have a history of their own.
    """
    if engine.is_tracking:
        return ""
    if engine is Engine.QUEUEING and isinstance(load, NoAnswer):
        return load.reason
    if observation is not None and observation.absence is not None:
        return observation.absence.reason
    return "no metrics were asked for" if (load if engine is Engine.QUEUEING else observation) is None else ""


def _partial(variant: Variant, load: Load | None, observation: Observation | None) -> str:
    """Replicas that start or are not scraped carry load that nobody counted."""
    if load is None or observation is None or not load.is_by_replicas:
        return ""
    reporting, expected = observation.replicas_reporting, variant.current.replicas
    return f"{reporting} of {expected} replicas of {variant.key.label} report" if reporting < expected else ""


def _blind(state: VariantState) -> str:
    """Why nobody knows what a held variant's replicas carry; empty when it is known, or none run."""
    variant = state.variant
    if not is_counted(variant):
        return state.reason
    if state.is_free or variant.current.replicas == 0 or state.engine is not Engine.QUEUEING:
        return ""
    if not state.gap and not any(option.accelerator == variant.current.accelerator for option in variant.options):
        return f"{variant.current.accelerator} has no profile"
    return state.gap


def _beside(state: VariantState, unknown: Variant, words: str) -> VariantState:
    """A variant whose model is also served by one of unknown capacity cannot be sized either."""
    if unknown.key == state.variant.key or state.reason:
        return state
    return replace(state, hold=beside_unknown(unknown, words))


def _gap(variant: Variant, engine: Engine, load: Load | None) -> str:
    if engine.is_tracking:
        return (
            "" if variant.tracked_by is not None else f"{engine} needs metric targets, and no policy gives any for it"
        )
    if engine is not Engine.QUEUEING:
        return ""
    if not variant.current.accelerator:
        return (
            "accelerator unknown: no node selector, affinity or label "
            "inference.optimization/acceleratorName says what it runs on"
        )
    if not variant.options:
        return _unprofiled(variant) or "queueing needs a profile: give one under models[].profiles, or learn it by fit"
    if variant.service_class is None:
        return "queueing needs a service class"
    return lacks_prompt(variant, load) or _unsupported_target(variant.service_class.value)


def _unprofiled(variant: Variant) -> str:
    """The only accelerator allowed cannot be sized, while the current one perhaps can."""
    allowed = variant.settings[ACCELERATOR]
    if allowed.value in (KEEP, CHOOSE, IN_ORDER, variant.current.accelerator):
        return ""
    others = [option for option in variant.options if option.accelerator != variant.current.accelerator]
    if others or any(not option.unwritable for option in variant.options):
        return ""
    return f"accelerator {allowed.value} ({allowed.source}) has no profile"


def _unsupported_target(service_class: ServiceClass) -> str:
    if service_class.itl is not None and service_class.itl.percentile is not None:
        return f"service class {service_class.name}: ITL {service_class.itl.statistic} is not available yet, only mean"
    return ""
