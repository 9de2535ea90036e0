"""`reconciler explain RESOURCE`: every value, query, figure and step behind one variant."""

from pathlib import Path

import click

from reconciler.cli.options import Common, path_option, with_common


@click.argument("resource", metavar="RESOURCE", help="[CLUSTER/]NAMESPACE/NAME, as all outputs print it.")
@path_option("--replay", help="Explain from a recording.")
@with_common(outputs=("text", "json", "html"))
def explain(common: Common, *, resource: str, replay: Path | None) -> int:
    """Explain one variant: every value, query, figure and step."""
    from reconciler.cli.console import painted, width, write, write_json
    from reconciler.cli.plan import prepare_plan
    from reconciler.cli.setting_rows import find_decision, setting_rows
    from reconciler.decision.explanation import asked_queries
    from reconciler.report.document import solver_json
    from reconciler.report.explain import Chain, explain_json, explain_text
    from reconciler.report.summary import fleet_lines, proof

    prepared = prepare_plan(common, replay=replay)
    decision = find_decision(prepared.plan, resource)
    variants = {variant.key: variant for variant in prepared.snapshot.variants}
    rows = tuple(setting_rows(variants[decision.variant], decision)) if decision.variant in variants else ()
    figures = prepared.plan.figures.get(decision.variant, ())
    groups = (group for group in prepared.plan.groups if decision in group.changes)
    put_back = next((group.put_back for group in groups), "")
    chain = Chain(figures=figures, queries=asked_queries(prepared.snapshot, decision, figures))
    if common.output == "json":
        write_json(explain_json(decision, rows, chain, solver=solver_json(prepared.plan), put_back=put_back))
    elif common.output == "html":
        from reconciler.rendering.renderer import Renderer
        from reconciler.report.plan_page import explain_page

        page = explain_page(prepared.plan, decision, rows, chain, put_back)
        write(Renderer().render("html/page.html.j2", page))
    else:
        fleet = (proof(prepared.plan), *fleet_lines(prepared.plan))
        label = decision.variant.label
        shown = tuple(filter(None, fleet))
        is_full = common.verbose > 0
        text = explain_text(
            decision, rows, chain, label=label, fleet=shown, put_back=put_back, width=width(), is_full=is_full
        )
        write(painted(common.color, text))
    return 0
