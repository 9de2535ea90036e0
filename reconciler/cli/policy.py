"""`reconciler policy ACTION ...`: a team's own cases, one verdict, and what rules would have stopped."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from reconciler.cli.options import Common, path_option, with_common

if TYPE_CHECKING:
    from reconciler.domain.plan import Decision
    from reconciler.domain.rules import Rule

CASES = Path(".reconciler/policy-tests.yaml")
IN_WORDS = frozenset({"cluster", "rule"})
"""What the text of a row says in its other fields."""


@click.argument(
    "action", metavar="test|explain|simulate", type=click.Choice(("test", "explain", "simulate")), help="The action."
)
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, help="FILE... of cases, a RESOURCE, or RECORDING...")
@path_option("--replay", help="Explain from a recording.")
@with_common(outputs=("text", "json"))
def policy(
    common: Common, *, action: Literal["test", "explain", "simulate"], arguments: tuple[str, ...], replay: Path | None
) -> int:
    """Test rules, explain one verdict, or try rules on recordings."""
    from reconciler.cli.console import Exit, write, write_json

    if replay is not None and action != "explain":
        raise click.BadParameter("only explain replays a recording", param_hint="--replay")
    if action == "test":
        rows = list(_tested(_rules(common), [Path(each) for each in arguments] or [CASES]))
    elif action == "explain":
        if len(arguments) != 1:
            raise click.BadParameter("expected one RESOURCE", param_hint="policy explain")
        # What rules say of one change, and who merges it.
        from reconciler.cli.plan import prepare_plan
        from reconciler.cli.setting_rows import find_decision

        plan = prepare_plan(common, replay=replay).plan
        decision = find_decision(plan, arguments[0])
        terms = next((group.merges for group in plan.groups if decision in group.changes), None)
        waits = "" if terms is None else f"merges by itself{f'; not yet: {terms.waits}' if terms.waits else ''}"
        rows = [{**_row(decision, decision.variant.label), "merges": waits}]
    else:
        if not arguments:
            raise click.BadParameter("expected at least one RECORDING", param_hint="policy simulate")
        rows = list(_simulated(_rules(common), [Path(each) for each in arguments]))
    if common.output == "json":
        write_json({"version": 1, "rows": rows})
    else:
        texts = ([value for name, value in row.items() if value and name not in IN_WORDS] for row in rows)
        write("\n".join(map("  ".join, texts)))
    return Exit.INPUT if any(row.get("outcome") == "FAIL" for row in rows) else Exit.FINISHED


def _rules(common: Common) -> "tuple[Rule, ...]":
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.session import open_session

    with open_session(common.flags, read_environment(), writes=False, with_forge=False) as session:
        return session.settings.rules


def _tested(rules: "Sequence[Rule]", files: Sequence[Path]) -> Iterator[dict[str, str]]:
    from reconciler.errors import ConfigurationError
    from reconciler.policy.cases import run_cases
    from reconciler.policy.judging import RuleBook

    book = RuleBook(rules)
    for file in files:
        try:
            outcomes, findings = run_cases(str(file), file.read_bytes(), book)
        except OSError as error:
            raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from None
        for finding in findings:
            yield {"outcome": "FAIL", "words": str(finding)}
        for each in outcomes:
            verdict = f"{each.verdict.kind}: {each.verdict.rule}" if each.verdict.rule else str(each.verdict.kind)
            words = f"{verdict}, {each.replicas} replicas"
            if each.fault:
                words = f"{each.fault} ({each.place}): {each.verdict.reason}"
            yield {"outcome": "FAIL" if each.fault else "ok", "name": each.name, "words": words}


def _simulated(rules: "tuple[Rule, ...]", recordings: Sequence[Path]) -> Iterator[dict[str, str]]:
    """The verdict of these rules on each change of a recording, next to the decision without any rule."""
    from reconciler.decision.decide import decide_under, find_stopping
    from reconciler.domain.plan import Outcome
    from reconciler.pipeline.prepare import prepare
    from reconciler.pipeline.recording import read_recording
    from reconciler.rendering.renderer import Renderer
    from reconciler.report.formatting import labels_of

    for path in recordings:
        snapshot = prepare(read_recording(path), Renderer()).snapshot
        free, ruled = (decide_under(snapshot, each) for each in ((), rules))
        labels = labels_of(ruled)
        changing = [key for key, each in ruled.items() if Outcome.CHANGE in (each.outcome, free[key].outcome)]
        silent = [key for key in changing if ruled[key].outcome is Outcome.UNCHANGED and not ruled[key].verdict.rule]
        stopped = dict(find_stopping(snapshot, rules, silent))
        for key in changing:
            before, row = free[key], _row(ruled[key], labels[key])
            wanted = f"{before.current.replicas} → {before.desired.replicas} {before.desired.accelerator}"
            if key in stopped:
                row |= {
                    "verdict": "hold",
                    "rule": stopped[key].name,
                    "words": f"without rule {stopped[key]} it changes",
                }
            yield {"recording": str(path), "without": wanted, **row}


def _row(decision: "Decision", label: str) -> dict[str, str]:
    verdict = decision.verdict
    waiting = "" if decision.waiting is None else decision.waiting.words
    said = "; ".join(step.reason for step in decision.steps if step.stage == "policy")
    return {
        "cluster": decision.variant.cluster,
        "variant": label,
        "change": f"{decision.current.replicas} → {decision.desired.replicas} {decision.desired.accelerator}",
        "verdict": str(verdict.kind),
        "rule": verdict.rule,
        "words": said or waiting or verdict.reason or str(decision.outcome),
    }
