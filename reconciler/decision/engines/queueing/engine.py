"""The engine `queueing`: replicas as queues, sized from a profile so that each keeps its service class."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from reconciler.decision.engines.port import (
    Admission,
    EngineQuestion,
    Lacks,
    Models,
    SizingEngine,
    SizingInput,
    has_learned,
)
from reconciler.decision.engines.queueing.answer import QueueAnswer
from reconciler.decision.engines.queueing.capacities import Capacities, SizingRow
from reconciler.decision.engines.queueing.contradictions import find_contradictions
from reconciler.decision.engines.queueing.requirements import QueueProblem
from reconciler.decision.engines.queueing.weighing import weigh_variations
from reconciler.decision.problem.load_variation import why_not_whole
from reconciler.decision.variant_states import VariantState, lacks_profile, load_partial
from reconciler.domain.holds import NOT_ASKED, Hold, HoldKind, hold_of
from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.answers import NoAnswer
from reconciler.domain.measured.loads import Load, Observation
from reconciler.domain.measured.replicas import is_usual_churn
from reconciler.domain.profiles import DECODE_ONLY
from reconciler.domain.saturation_rules import SaturationRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import HEADROOM, START_DELAY_S, SYNC_DELAY_S, Engine
from reconciler.metrics.quantities import LIVE_WINDOW_S
from reconciler.sizing.learning.correction import Correction, correct
from reconciler.sizing.learning.coverage import why_outside


class QueueingEngine(SizingEngine):
    """Sizes every option of every free variant, all at once."""

    name = Engine.QUEUEING
    needs_load = True
    remembers = True

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        obstacles = (words for member in members if (words := _against(member, load)))
        obstacle = next(obstacles, "") or _out_of_reach(members, load)
        return Admission(is_admitted=not obstacle, reason=obstacle or _profiled(members))

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        """A profile may turn out wrong, or not to reach the load: then saturation must answer in the same run."""
        return frozenset(EngineQuestion)

    def waits_for_replicas_s(self, variant: Variant) -> float:
        """As long as they may still be starting: how many are needed does not hang on how many report."""
        return variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value + LIVE_WINDOW_S

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        load, observation = snapshot.observed.loads.get(variant.model), snapshot.observed.observations.get(variant.key)
        known = load if isinstance(load, Load) else None
        return Lacks(
            metrics=_absence(load, observation),
            means=_missing_means(variant, known),
            replicas=_unreported(variant, known, observation),
        )

    def contradictions(self, snapshot: Snapshot, variants: Iterable[Variant]) -> Mapping[ResourceKey, Hold]:
        return find_contradictions(snapshot, variants)

    def forgets(self, snapshot: Snapshot, members: Sequence[Variant], payback_s: float) -> str:
        past = snapshot.observed.past.get(members[0].model)
        if isinstance(past, NoAnswer):
            return f"what arrived before is not known: {past.reason}"
        return "" if past is None else why_not_whole(past, snapshot.now_s, payback_s)

    def why_capacity_unknown(self, state: VariantState) -> str:
        variant = state.variant
        if state.gap is None and not any(
            option.accelerator == variant.current.accelerator for option in variant.options
        ):
            return f"{variant.current.accelerator} has no profile"
        return str(state.gap or "")

    def size(self, given: SizingInput, models: Models) -> QueueAnswer:
        states = [state for members in models.values() for state in members]
        corrections = {
            state.variant.key: correction
            for state in states
            if (correction := _correction(given.snapshot, state.variant)) is not None
        }
        capacities = Capacities([row for state in states for row in _rows(state, corrections.get(state.variant.key))])
        variations = weigh_variations(given, models, corrections, capacities)
        problems = {
            model: QueueProblem(
                model=model,
                members=members,
                capacities=capacities.of,
                devices=given.devices,
                variation=variations.get(model),
            ).problem(load)
            for model, members in models.items()
            if (load := members[0].load) is not None
        }
        return QueueAnswer(capacities=capacities, corrections=corrections, problems=problems)


def _rows(state: VariantState, correction: Correction | None) -> Iterable[SizingRow]:
    """The candidates to size: all options of a free variant, the current accelerator's of a held one.

    What is observed on the current accelerator corrects nothing on the others.
    """
    variant, load = state.variant, state.load
    if variant.service_class is None or load is None or not load.has_lengths or state.gap is not None:
        return
    for option in variant.options:
        is_current = option.accelerator == variant.current.accelerator
        if state.is_free or is_current:
            yield SizingRow(
                key=variant.key.on(option.accelerator),
                profile=option.profile,
                load=load,
                service_class=variant.service_class.value,
                correction=correction.factor if correction is not None and is_current else 1.0,
            )


def _correction(snapshot: Snapshot, variant: Variant) -> Correction | None:
    """A learned profile is held against what its replicas do now; one that somebody gave is taken at its word."""
    running = (option.profile for option in variant.options if option.accelerator == variant.current.accelerator)
    profile = next(running, None)
    if profile is None or profile.learning is None:
        return None
    return correct(snapshot.observed.traces.get(variant.key, ()), profile)


def _absence(load: Load | NoAnswer | None, observation: Observation | None) -> Hold | None:
    if isinstance(load, NoAnswer):
        return hold_of(load)
    if observation is not None and observation.absence is not None:
        return hold_of(observation.absence)
    return NOT_ASKED if load is None else None


def _unreported(variant: Variant, load: Load | None, observation: Observation | None) -> Hold | None:
    """Replicas that start or are not scraped carry load that nobody counted.

    Among many one always does: what a twentieth of them carries is within the headroom.
    """
    if load is None or observation is None or not load.is_by_replicas:
        return None
    reporting, expected = observation.replicas_reporting, variant.current.replicas
    words = f"{reporting} of {expected} replicas of {variant.key.label} report"
    return None if is_usual_churn(expected - reporting, expected) else load_partial(words)


def _missing_means(variant: Variant, load: Load | None) -> Hold | None:
    if not variant.current.accelerator:
        words = (
            "accelerator unknown: no node selector, affinity or label "
            "inference.optimization/acceleratorName says what it runs on"
        )
        return Hold(kind=HoldKind.ACCELERATOR_UNKNOWN, words=words)
    if not variant.options:
        words = "queueing needs a profile: give one under models[].profiles, or learn it by fit"
        return lacks_profile(variant) or Hold(kind=HoldKind.PROFILE_MISSING, words=words)
    if variant.service_class is None:
        return Hold(kind=HoldKind.SERVICE_CLASS_MISSING, words="queueing needs a service class")
    return _lacks_prompt(variant, load)


def _against(variant: Variant, load: Load | None) -> str:
    """Why a variant cannot be sized by a queue; empty when it can, or when somebody must first mend its class."""
    if variant.is_held_by(HoldKind.SERVICE_CLASS_MISSING):
        return ""
    if not variant.options:
        return f"{variant.key.label} has no profile, given or learned"
    if variant.service_class is None:
        return f"{variant.key.label} has no service class"
    if not variant.current.accelerator:
        return f"{variant.key.label} runs on an unknown accelerator"
    return _beyond_learned(variant, load)


def _beyond_learned(variant: Variant, load: Load | None) -> str:
    """What was learned says nothing of requests unlike those it was learned from."""
    if load is None or load.arrival_rate_per_s <= 0:
        return ""
    for option in variant.options:
        learning = option.profile.learning
        if learning is None:
            continue
        words = why_outside(learning, input_tokens=load.input_tokens, output_tokens=load.output_tokens)
        if words:
            return f"the learned profile of {variant.key.label} on {option.accelerator} does not reach: {words}"
    return ""


def _out_of_reach(members: Sequence[Variant], load: Load | None) -> str:
    """Why batches that were never seen would have to carry the load; empty where those that are sure can.

    Held against what runs now: where that carries the load inside what is sure, what is not seen is only not used.
    """
    if load is None or load.arrival_rate_per_s <= 0 or not has_learned(members):
        return ""
    rows = [row for member in members for row in _current_rows(member, load)]
    capacities = Capacities(rows).of
    carried = sum(
        capacities[key].rate_per_s * member.current.replicas
        for member in members
        if (key := member.key.on(member.current.accelerator)) in capacities
    )
    unsure = [capacity for capacity in capacities.values() if capacity.is_bound_by_reach]
    headroom = max(member.settings[HEADROOM].value for member in members)
    if not unsure or carried >= load.arrival_rate_per_s * (1 + headroom):
        return ""
    row = unsure[0].row
    return (
        f"the learned profile of {row.key.variant.label} on {row.key.accelerator} does not reach: it is sure up to a "
        f"batch of {row.profile.reach}, with which {carried:.4g} req/s are carried"
    )


def _current_rows(variant: Variant, load: Load) -> Iterable[SizingRow]:
    if variant.service_class is None or (_lacks_prompt(variant, load) is not None):
        return
    for option in variant.options:
        if option.accelerator == variant.current.accelerator:
            yield SizingRow(
                key=variant.key.on(variant.current.accelerator),
                profile=option.profile,
                load=load,
                service_class=variant.service_class.value,
            )


def _profiled(members: Iterable[Variant]) -> str:
    profiles = [option.profile for member in members for option in member.options]
    if not profiles:
        return "waits for its service class"
    learned = [profile for profile in profiles if profile.learning is not None]
    profile, word = (learned[0], "learned") if learned else (profiles[0], "given")
    return f"profile {word} at {profile.place}" if profile.place is not None else f"profile {word}"


def _lacks_prompt(variant: Variant, load: Load | None) -> Hold | None:
    """Why a law with prefill has no answer: the length of the prompts is not known."""
    if load is None or load.input_tokens is not None or not load.has_lengths:
        return None
    if all(option.profile.law == DECODE_ONLY for option in variant.options):
        return None
    words = "no series tells the input tokens of its requests, which a profile with prefill needs"
    return Hold(kind=HoldKind.PROMPTS_UNKNOWN, words=words)
