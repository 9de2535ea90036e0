"""The texts that propose a change set: commit message, title and body, with the marker by which it is known again."""

from reconciler.domain.plan import GroupPlan, Plan
from reconciler.domain.proposals import ChangeSet, Draft, Edited
from reconciler.forge.marker import Marker, write_marker
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import commit_view, pull_request_view, reductions


def write_texts(
    plan: Plan, edited: Edited, renderer: Renderer, *, body_limit: int, sign_off: str = ""
) -> tuple[Draft, ...]:
    """The drafts: each change set with its commit message, title and body of at most `body_limit` characters."""
    groups = {group.name: group for group in plan.groups}
    return tuple(
        _draft(plan, groups[change_set.group], change_set, renderer, body_limit, sign_off)
        for change_set in edited.change_sets
    )


def _draft(
    plan: Plan, group: GroupPlan, change_set: ChangeSet, renderer: Renderer, body_limit: int, sign_off: str
) -> Draft:
    marker = write_marker(Marker(group=group.name, decision=change_set.decision, changes=change_set.changes))
    view = pull_request_view(plan, group, marker=marker)
    body = renderer.render_within("pull_request/body.md.j2", reductions(view), limit=body_limit, marker=marker)
    return Draft(
        change_set=change_set,
        commit_message=renderer.render("commit/message.j2", commit_view(group, sign_off=sign_off)),
        title=renderer.render("pull_request/title.j2", view).strip(),
        body=body,
    )
