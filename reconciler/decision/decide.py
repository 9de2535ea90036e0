"""The pure heart: a snapshot in, a plan out. Same snapshot, same bytes."""

from collections.abc import Mapping

from reconciler.decision.assembly import assemble
from reconciler.decision.assessment import assess_variants
from reconciler.decision.context import DecisionContext
from reconciler.decision.engines.port import SizingInput
from reconciler.decision.engines.registry import size_models
from reconciler.decision.explanation.decisions import broken_decision, decision_for
from reconciler.decision.problem.devices import Devices
from reconciler.decision.problem.formulation import formulate
from reconciler.decision.problem.model_problem import load_variations
from reconciler.decision.projection import Projection
from reconciler.decision.staging.passes import stage
from reconciler.decision.staging.staged_plan import Situation
from reconciler.domain.holds import Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.optimizer import SOLVERS

SOLVER = "auto"


def decide(snapshot: Snapshot, refused: Mapping[ResourceKey, Hold] | None = None) -> Plan:
    """A decision for every variant of the snapshot.

    `refused` are changes that a draft could not write, with the reason: those variants stay as they are, so that
    the plan that is shown is the plan that is written. Reads no clock, no file and no network.
    """
    states = assess_variants(snapshot, refused or {})
    variations = load_variations((state.variant for state in states), snapshot)
    devices = Devices.of(snapshot)
    answers = size_models(SizingInput(snapshot=snapshot, devices=devices, variations=variations), states)
    models = {model: problem for answer in answers.values() for model, problem in answer.problems.items()}
    formulated = formulate(states, models, devices, snapshot.settings.objective)
    solution = SOLVERS[SOLVER].solve(formulated.problem)
    situation = Situation.of(snapshot, states, formulated)
    staged = stage(situation, solution)
    context = DecisionContext(
        situation=situation,
        answers=answers,
        variations=variations,
        solution=solution,
        staged=staged,
        before=Projection(formulated.needs, answers.values(), situation.current),
        after=Projection(formulated.needs, answers.values(), staged.allocations),
        shortfalls={shortfall.model: shortfall for shortfall in solution.shortfalls},
    )
    decisions = [decision_for(context, state) for state in states]
    unread = [broken_decision(context, broken) for broken in snapshot.broken]
    return assemble(context, [*decisions, *unread], solver=solution.solver or SOLVER)
