"""The plan in a few sentences: totals, proof, shared limits, and models that get less than they need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.domain.canaries import CanaryStep
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Outcome, Plan, SloProjection
from reconciler.domain.priors import Trial
from reconciler.domain.records import dataclass
from reconciler.domain.requirements import ModelCoverage, Sensitivity, SolveStatus
from reconciler.domain.settings import AS_IS, TITLE_VARIABLE
from reconciler.manifests.wording import name_first
from reconciler.report.formatting import (
    COST_UNITS,
    OVER_CAPACITY,
    UNKNOWN,
    apart,
    cost,
    count,
    duration,
    model_name,
    money_change,
    one_line,
    percentage,
    quantity,
    round_money_change,
    short_labels_of,
)
from reconciler.report.rows import QUANTITIES, by_urgency, is_measured_late, lacks_now, measured, slo_name

# Shared limits, the savings of one more, and sensitivity.

WORTH_NAMING = 0.005
"""Below half a cent an hour a price is not worth a sentence."""

_NAMED = 3


UNMANAGED_NAMED = 3
"""Of workloads that serve models without being managed."""


def prices(plan: Plan) -> str:
    """`One more of us-east/H100 saves 1.90 USD/h.`; empty where nothing that is shared is full."""
    priced = ((each.price or 0.0, each.name) for each in plan.shared)
    dearest = sorted((-price, name) for price, name in priced if price >= WORTH_NAMING)[:_NAMED]
    return " ".join(f"One more of {name} saves {cost(-price)} {_unit(plan)}/h." for price, name in dearest)


def unmanaged_text(plan: Plan) -> str:
    """How many workloads serve models without being managed, which, and what to do."""
    if not plan.unmanaged:
        return ""
    total = len(plan.unmanaged)
    names = name_first([one_line(each.label) for each in plan.unmanaged[:UNMANAGED_NAMED]], total)
    what = "1 workload serves a model and is" if total == 1 else f"{total} workloads serve models and are"
    return f"{what} not managed ({names}): `reconciler init --adopt`."


def fleet_lines(plan: Plan) -> tuple[str, ...]:
    """What is shared and how much of it is taken, what the usual rule would cost, and what a surprise would do."""
    return (*_uses(plan), *_greedy(plan), *_surprises(plan))


def _unit(plan: Plan) -> str:
    known = None not in (plan.totals.cost_before_per_hour, plan.totals.cost_after_per_hour)
    return plan.currency if known and plan.objective == "cost" else COST_UNITS


def _uses(plan: Plan) -> Iterator[str]:
    for each in plan.shared:
        price = each.price or 0.0
        full = " (full)" if each.used >= each.limit else ""
        worth = f", one more saves {cost(price)} {_unit(plan)}/h" if price >= WORTH_NAMING else full
        yield f"{each.name}: {each.used:g} of {each.limit:g} taken{worth}"


def _greedy(plan: Plan) -> Iterator[str]:
    """The counterpart of the plan's own value: both count what starts cost."""
    if plan.greedy_value is not None:
        yield (
            f"Serving the most urgent first, each by its cheapest capacity, would come to {cost(plan.greedy_value)} "
            f"{_unit(plan)}/h with its starts, this plan to {cost(plan.value)}"
        )


def _surprises(plan: Plan) -> Iterator[str]:
    for each in plan.sensitivity:
        yield f"{_scenario(each)}: {_outcome(each)}"


def _scenario(each: Sensitivity) -> str:
    if each.capacity_factor != 1:
        return f"With {percentage(each.capacity_factor)} of the capacity"
    return f"At {each.demand_factor:g} times the demand"


def _outcome(each: Sensitivity) -> str:
    if each.worst is None:
        return "every model is still served"
    models = "1 model falls short" if each.short == 1 else f"{each.short} models fall short"
    return f"{models}, {each.worst.model_id} most: {percentage(each.worst_covered)} of it is carried"


# Models that get less than they need: need, given, unserved, and why.

WORTH_TELLING = 1e-3
"""Below a thousandth of its need a model lacks nothing that could be measured."""


def losers(plan: Plan, decisions: Iterable[Decision]) -> tuple[str, ...]:
    """One sentence for each model of `decisions` that gets less than it needs, the most urgent and the worst first.

    A model all of whose variants are held is listed with what is held.
    """
    decided = {each.model for each in decisions if each.outcome is not Outcome.HELD}
    short = [each for each in plan.coverages if each.model in decided and each.unserved > WORTH_TELLING * each.needed]
    short.sort(key=lambda each: (-each.priority, -each.unserved / each.needed, each.model))
    return tuple(_sentence(each) for each in short)


def _sentence(coverage: ModelCoverage) -> str:
    given, needed, unserved = (
        quantity(value, coverage.unit) for value in (coverage.given, coverage.needed, coverage.unserved)
    )
    return (
        f"{model_name(coverage.model)} gets {given} of the {needed} {coverage.unit} it needs, "
        f"{unserved} {coverage.unit} stay unserved{_why(coverage)}"
    )


def _why(coverage: ModelCoverage) -> str:
    if not coverage.competes_for:
        return ""
    full = f"{_listed(coverage.competes_for)} {'is' if len(coverage.competes_for) == 1 else 'are'} full"
    if coverage.decided_at is None:
        return f": {full}"
    first = f"priority {coverage.decided_at} goes first"
    if coverage.decided_at == coverage.priority:
        first = f"it shares priority {coverage.priority}"
    rivals = _listed([model_name(rival) for rival in coverage.rivals])
    return f": {full}, {first}" + (f" ({rivals})" if rivals else "")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, limit=60) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


# The sentences that must be enough to approve or reject.

NAME_LENGTH = 50
HOURS_A_MONTH = 730
SUBJECT_LENGTH = 50
NOTHING_PROVEN = 0.00005
"""Gaps below print as 0 %, and then the plan is simply the cheapest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A model that misses a target, with the projection that says so."""

    decision: Decision
    slo: SloProjection


def title(changes: Sequence[Decision], group: str, currency: str) -> str:
    """`Scale up llama-3.1-8b and 2 more: +$19.50/h in prod/llm`; no amount while a price is unknown or none is due."""
    place = one_line(group, limit=80)
    if not changes:
        return f"Change nothing in {place}"
    amount = cost_amount(changes, currency)
    return f"{_action(changes)}{f': {amount}' if amount else ''} in {place}"


def subject(changes: Sequence[Decision], group: str) -> str:
    """A commit's first line: the longest of a few ways to say it that keeps to 50 characters."""
    place = one_line(group, limit=SUBJECT_LENGTH)
    action, amount = _action(changes), count(len(changes), "variant")
    ways = (f"{action} in {place}", action, f"Scale {amount} in {place}")
    return next((way for way in ways if len(way) <= SUBJECT_LENGTH), f"Scale {amount}")


HEADER_LENGTH = 100
"""Of a title that a team has shaped, for commitlint refuses a longer one."""


def shaped(template: str, text: str, group: str, part: str) -> str:
    """A title as a team wants it, `chore(reconciler): scale up llama in prod/llm`; ours is cut to fit."""
    if template == AS_IS:
        return text
    values = {"group": one_line(group, limit=HEADER_LENGTH), "part": part, "title": "", "change": ""}
    room = max(HEADER_LENGTH - len(_filled(template, values)), SUBJECT_LENGTH)
    ours = one_line(text, limit=room)
    return _filled(template, values | {"title": ours, "change": ours[:1].lower() + ours[1:]})


def _filled(template: str, values: Mapping[str, str]) -> str:
    return TITLE_VARIABLE.sub(lambda match: values.get(match[1], ""), template)


def cost_amount(changes: Iterable[Decision], currency: str) -> str:
    """`+$19.50/h`, the sum over all changes; empty while one of them has no price or when they cancel out."""
    total = _hourly(changes)
    return f"{money_change(total, currency)}/h" if total else ""


def month_amount(changes: Iterable[Decision], currency: str) -> str:
    """`about +$7,000 a month`, to two digits: what an hour's sum comes to if nothing else changes; empty like it."""
    total = _hourly(changes)
    return f"about {round_money_change(HOURS_A_MONTH * total, currency)} a month" if total and currency else ""


def _hourly(changes: Iterable[Decision]) -> float:
    """What all changes cost more an hour; 0 while one of them has no price, or where no cent is left of it."""
    found = [_dearer(change) for change in changes]
    known = [each for each in found if each is not None]
    total = sum(known) if len(known) == len(found) else 0.0
    return total if round(total, 2) != 0 else 0.0


def _dearer(change: Decision) -> float | None:
    """What one change costs more an hour, of an autoscaler what its setting would have cost; None is not known."""
    if change.is_tuning:
        saved = None if change.tuning is None else change.tuning.saves_per_hour
        return None if saved is None else -saved
    before, after = change.cost_before_per_hour, change.cost_after_per_hour
    return None if before is None or after is None else after - before


def cost_unit(plan: Plan, changes: Iterable[Decision]) -> str:
    """`USD/h`, or `cost units/h` while a price is missing."""
    return f"{currency_of(plan, changes) or COST_UNITS}/h"


def currency_of(plan: Plan, changes: Iterable[Decision]) -> str:
    """The plan's currency; empty while any price is missing: one unit a fleet, and then it is not money."""
    rows = tuple(changes)
    is_priced = all(row.cost_before_per_hour is not None and row.cost_after_per_hour is not None for row in rows)
    totals = (plan.totals.cost_before_per_hour, plan.totals.cost_after_per_hour)
    return plan.currency if is_priced and None not in totals else ""


def counts(changes: Sequence[Decision], held: int) -> str:
    """`3 changes, 1 needs approval, 2 held`."""
    parts = [count(len(changes), "change"), _approvals(changes), f"{held} held" if held else ""]
    return ", ".join(part for part in parts if part)


def totals_text(plan: Plan) -> str:
    """`214.60 → 223.78 USD/h (+9.18)`, or that a price is missing."""
    before, after = plan.totals.cost_before_per_hour, plan.totals.cost_after_per_hour
    if before is None or after is None:
        return f"{cost(before)} → {cost(after)} {COST_UNITS}/h (a price is missing)"
    difference = money_change(after - before, "").partition(" ")[0]
    return f"{cost(before)} → {cost(after)} {plan.currency}/h ({difference})"


def consequence(changes: Sequence[Decision], decisions: Sequence[Decision]) -> str:
    """Which model misses its target now, or is forecast to without the changes; empty when none does.

    Demand and capacity are the whole model's, over those of `decisions` that serve it.
    """
    changes = [change for change in changes if not change.is_tuning]  # its lower bound carries what it ever did
    missed = misses_before(changes)
    if not missed:
        return _lacking(changes, decisions)
    first, more = missed[0], len(missed) - 1
    pronoun = "it" if len(changes) == 1 else "them"
    others = f", and so would {count(more, 'more model')}" if more else ""
    capacities = (each.capacity_before for each in _serving(first, decisions))
    missed_text = _miss_text(first, first.slo.before_s, decisions, capacities)
    now = _measured_miss(first)
    whose = f"{now}Unchanged, it" if now else f"Without {pronoun}, {_name(first)}"
    return f"{whose} would {missed_text}{others}."


def _lacking(changes: Sequence[Decision], decisions: Sequence[Decision]) -> str:
    """The consequence without a forecast miss: a measured miss, or more demand than capacity."""
    late = next((each for each in by_urgency(changes) if is_measured_late(each)), None)
    now = ""
    if late is not None:
        slos = (Miss(decision=late, slo=slo) for slo in late.slos)
        now = next((words for slo in slos if (words := _measured_miss(slo))), "")
    first = next((each for each in by_urgency(changes) if lacks_now(each)), None)
    if first is None:
        return now.strip()
    serving = [each for each in decisions if each.model == first.model]
    demand, capacity = _sum(each.demand for each in serving), _sum(each.capacity_before for each in serving)
    if demand is not None and capacity is not None and demand <= capacity:
        return now.strip()  # others of the model carry it
    beyond = (
        f"model demand {quantity(demand, first.unit)}, model capacity {quantity(capacity, first.unit)} {first.unit}"
    )
    whose = "Unchanged, it" if late is first else f"Without the change, {model_name(first.model)}"
    return f"{now}{whose} would get more than it carries: {beyond} expected."


def shortcoming(changes: Sequence[Decision], decisions: Sequence[Decision]) -> str:
    """Which model misses its target even with the changes; empty when none does. Numbers as in `consequence`."""
    missed = _missed((change for change in changes if not change.is_tuning), after=True)
    if not missed:
        return ""
    first, more = missed[0], len(missed) - 1
    others = f", and so would {count(more, 'more model')}" if more else ""
    capacities = (each.capacity_after for each in _serving(first, decisions))
    missed_text = _miss_text(first, first.slo.after_s, decisions, capacities)
    return f"{_name(first)} would still {missed_text}{others}."


def proof(plan: Plan, changes: Sequence[Decision] | None = None) -> str:
    """What the solver proved: `Proven within 0.04 % of the cheapest plan.`; empty when it had nothing to choose.

    It is said of `changes`, by default of all in the plan: settings of autoscalers are simulated, not solved.
    """
    if all(each.outcome is Outcome.HELD or each.current.scaling for each in plan.decisions):
        return ""
    told = plan.with_outcome(Outcome.CHANGE) if changes is None else changes
    best = "the cheapest plan" if plan.objective == "cost" else f"the best plan by objective {plan.objective}"
    if plan.trials:  # experiments stand beside what the solver chose
        best += " on tried accelerators"
    others = " for all but tuned autoscalers" if any(each.is_tuning for each in told) else ""
    if plan.shortage_gap is None:
        return _proven(plan, f"{best}{others}")
    near = f"within {percentage(plan.shortage_gap)} of " if plan.shortage_gap >= NOTHING_PROVEN else ""
    shortage = f"What stays unserved is {near}the least possible, by the share of its demand that each model lacks."
    return f"{_proven(plan, f'{best} that serves as much{others}')} {shortage}"


def _proven(plan: Plan, best: str) -> str:
    gap = percentage(plan.gap)
    if gap in (UNKNOWN, "") or not 0 <= plan.gap < 1e6:
        return f"How far this is from {best} is not known."
    if plan.solve_status is SolveStatus.OPTIMAL:
        return f"Proven to be {best}." if plan.gap < NOTHING_PROVEN else f"Proven within {gap} of {best}."
    return f"Found before the search ended: at most {gap} from {best}."


def misses_before(changes: Iterable[Decision]) -> tuple[Miss, ...]:
    """The models that miss a target as things stand, one miss a model, the most urgent first."""
    return _missed(changes, after=False)


def of_outcome(decisions: Iterable[Decision], outcome: Outcome) -> tuple[Decision, ...]:
    """Those decisions that came to `outcome`."""
    return tuple(decision for decision in decisions if decision.outcome is outcome)


def _missed(changes: Iterable[Decision], *, after: bool) -> tuple[Miss, ...]:
    found: dict[object, Miss] = {}
    for change in by_urgency(changes):
        for slo in change.slos:
            if (slo.is_met_after if after else slo.is_met_before) is False:
                found.setdefault(change.model, Miss(decision=change, slo=slo))
    return tuple(found.values())


def _serving(miss: Miss, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    return tuple(each for each in decisions if each.model == miss.decision.model)


def _miss_text(
    miss: Miss, value_s: float | None, decisions: Iterable[Decision], capacities: Iterable[float | None]
) -> str:
    target = f"miss its {slo_name(miss.slo)} target of {duration(miss.slo.target_s)}"
    value = apart(value_s, miss.slo.target_s)
    missed = f"exceed its capacity and {target}" if value == OVER_CAPACITY else f"{target}: {value} expected"
    demand, unit = _sum(each.demand for each in _serving(miss, decisions)), miss.decision.unit
    at = f"model demand {quantity(demand, unit)} {unit}, model capacity {quantity(_sum(capacities), unit)} {unit}"
    return f"{missed}{_measured_beside(miss)} ({at})"


def _measured_beside(miss: Miss) -> str:
    """The mean that is measured now, next to what is expected."""
    value_s = measured(miss.slo.name, miss.decision.observed)
    if value_s is None or value_s > miss.slo.target_s:
        return ""
    statistic = "" if miss.slo.statistic == "mean" else "mean "
    return f", {statistic}{apart(value_s, miss.slo.target_s)} measured now"


def _measured_miss(miss: Miss) -> str:
    """That the target is missed already: a mean above the limit of a mean, or of a percentile above it."""
    value_s = measured(miss.slo.name, miss.decision.observed)
    if value_s is None or value_s <= miss.slo.target_s:
        return ""
    name = QUANTITIES.get(miss.slo.name, miss.slo.name)
    value, limit = apart(value_s, miss.slo.target_s), duration(miss.slo.target_s)
    return f"{_name(miss)} misses its {name} target now: mean {value} measured, target {limit}. "


def _name(miss: Miss) -> str:
    """The model, with its lower bound where an autoscaler may run more replicas."""
    bound = " at the lower bound of its autoscaler" if miss.decision.bounds_of else ""
    return f"{model_name(miss.decision.model)}{bound}"


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _approvals(changes: Sequence[Decision]) -> str:
    waiting = sum(change.verdict.awaits_approval for change in changes)
    if waiting and waiting == len(changes):
        return "all need approval" if waiting > 1 else "needs approval"
    return f"{waiting} {'needs' if waiting == 1 else 'need'} approval" if waiting else ""


def _action(changes: Sequence[Decision]) -> str:
    ordered = by_urgency(changes)
    label = short_labels_of(change.variant for change in changes)[ordered[0].variant]
    name = one_line(label, limit=NAME_LENGTH)
    verbs = {_verb(change) for change in changes}
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    # Changes with another verb are only counted.
    others = more if len(verbs) == 1 else f", {count(len(changes) - 1, 'other change')}"
    if ordered[0].canary is not None:
        tried = one_line(ordered[0].canary.accelerator, limit=40)
        is_start = ordered[0].canary.step is CanaryStep.START
        return f"{f'Try {tried} with' if is_start else 'Take back'} {name}{others}"
    if ordered[0].is_tuning:
        return f"Tune the autoscaler of {name}{others}"
    if not ordered[0].is_accelerator_change:
        return f"{_verb(ordered[0])} {name}{others}"
    wanted = {change.desired.accelerator for change in (changes if len(verbs) == 1 else ordered[:1])}
    accelerator = one_line(wanted.pop(), limit=40) if len(wanted) == 1 else ""
    to = f" to {accelerator}" if accelerator else ""
    return f"Move {name}{others}{to}" if len(verbs) == 1 else f"Move {name}{to}{others}"


def _verb(change: Decision) -> str:
    if change.canary is not None:
        return "Try" if change.canary.step is CanaryStep.START else "Take back"
    if change.is_accelerator_change:
        return "Move"
    if change.is_tuning:
        return "Tune"
    return "Scale up" if change.desired.replicas > change.current.replicas else "Scale down"


LABELS_OF_KINDS = ("scale-up", "saving", "move", "canary")
"""What tells the kinds of changes of a pull request."""


def labels_for(changes: Sequence[Decision]) -> tuple[str, ...]:
    """The labels of a pull request: ours, and what kinds of changes are in it."""
    verbs = {_verb(change) for change in changes}
    saves = any(
        change.desired.replicas < change.current.replicas if dearer is None else dearer < 0
        for change, dearer in ((change, _dearer(change)) for change in changes)
    )
    is_canary = any(change.canary is not None for change in changes)
    kinds = zip(LABELS_OF_KINDS, ("Scale up" in verbs, saves, "Move" in verbs, is_canary), strict=True)
    return ("reconciler", *(name for name, applies in kinds if applies))


def put_back_lines(plan: Plan) -> Iterator[str]:
    """Each pull request that is postponed, by which limit, and until when."""
    for group in plan.groups:
        if group.put_back:
            yield one_line(f"{group.name} {group.part}: {group.put_back}")


# What an accelerator that a model never ran on would probably save.

STARTED_IN = 3
"""Sentences: what it is, what it costs, and what it would save."""


def experiment_lines(changes: Iterable[Decision], labels: Mapping[ResourceKey, str]) -> Iterator[str]:
    """What each canary that is started costs and would save, and why each other one is taken back."""
    for each in changes:
        if each.canary is not None:
            told = each.canary.words[: STARTED_IN if each.canary.step is CanaryStep.START else 1]
            yield f"{labels[each.variant]}: {' '.join(told)}"


SHOWN_TRIALS = 5


def trial_lines(plan: Plan) -> tuple[str, ...]:
    """One sentence for each trial that is worth its money, the largest sure saving first."""
    lines = [_trial(plan, each) for each in plan.trials[:SHOWN_TRIALS]]
    more = len(plan.trials) - len(lines)
    return (*lines, *([f"and {more} more, in -o json"] if more else []))


def _trial(plan: Plan, trial: Trial) -> str:
    least, _, most = trial.saves_per_hour
    obstacle = f", and none can be written here: {one_line(trial.obstacle)}" if trial.obstacle else ""
    return (
        f"{model_name(trial.model)} on {one_line(trial.accelerator)}: {trial.replicas} of it would probably do what "
        f"{cost(trial.planned_cost_per_hour)} buy, for {cost(least)} to {cost(most)} {_unit(plan)}/h less; "
        f"not proven: nothing moves before one replica has tried it{obstacle}"
    )
