"""`reconciler init`: the configuration as inferred, and the files that run the job."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import Common, flag, with_common

if TYPE_CHECKING:
    from reconciler.pipeline.init import InitResult


NAMED = 5


@flag("--adopt", help="Manage the workloads that serve models: add them to workloads.")
@flag("--github-action", help="Add a GitHub Actions workflow that runs the job.")
@flag("--gitlab-ci", help="Add a GitLab pipeline that runs the job.")
@flag("--cronjob", help="Add the manifests of a CronJob that runs the job.")
@flag("--argocd", help="With --cronjob: add an Argo CD Application for it.")
@flag("--flux", help="With --cronjob: add a Flux Kustomization for it.")
@click.option("--image", metavar="NAME@DIGEST", default="", help="The image of the job: a mirror, or one of your own.")
@click.option("--action", metavar="OWNER/REPO@SHA", default="", help="The GitHub Action: a mirror.")
@flag("--check", help="Write nothing; exit with 2 if a file would change.")
@with_common(outputs=("text",))
def init(
    common: Common,
    *,
    adopt: bool,
    github_action: bool,
    gitlab_ci: bool,
    cronjob: bool,
    argocd: bool,
    flux: bool,
    image: str,
    action: str,
    check: bool,
) -> int:
    """Write a reconciler.yaml, and files that run the job.

    What a person has changed is never overwritten.
    """
    from reconciler.cli.console import Exit, exit_of_plan, painted, progress, width, write
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.init import InitRequest, Wishes
    from reconciler.pipeline.init import init as init_now
    from reconciler.report.text import plan_text

    wishes = Wishes(
        github_action=github_action,
        gitlab_ci=gitlab_ci,
        cronjob=cronjob,
        argocd=argocd,
        flux=flux,
        adopt=adopt,
        image=image,
        action=action,
    )
    request = InitRequest(
        flags=common.flags, environment=read_environment(), wishes=wishes, now_s=time.time(), checks=check
    )
    with progress(quiet=common.quiet) as step:
        result = init_now(request, step)
    plan = result.prepared.plan
    if not common.quiet:
        write("\n".join(_lines(result, is_check=check)))
        if not check:
            write("\n" + painted(common.color, plan_text(plan, width=width())))
            write("\n".join(("", *_next_lines(result))))
    if check:
        return Exit.CHANGES if result.changes else Exit.FINISHED
    return exit_of_plan(plan) if result.is_measured else Exit.FINISHED


def _lines(result: "InitResult", *, is_check: bool) -> Iterator[str]:
    """What was found, and what becomes of each file."""
    from reconciler.pipeline.init import Fate
    from reconciler.report.formatting import one_line

    yield "Found"
    for name, words in _findings(result):
        yield f"   {name:<11} {words}"
    yield ""
    would = "would be " if is_check else ""
    for file, fate in result.files:
        words = "somebody changed it, so it is theirs" if fate is Fate.KEPT else file.reason
        reason = f": {words}" if words and fate is not Fate.UNCHANGED else ""
        yield f"{'' if fate in (Fate.KEPT, Fate.UNCHANGED) else would}{fate}: {file.path}{reason}"
    if not result.clusters and not result.adopted.entries:
        yield "kept: reconciler.yaml, which is there already"
    for entry in result.adopted.left:
        yield f"not managed: {entry.workload.kind} {one_line(entry.workload.label)}: {one_line(entry.obstacle)}"


def _findings(result: "InitResult") -> Iterator[tuple[str, str]]:
    from reconciler.report.formatting import count
    from reconciler.report.summary import unmanaged_text

    found, plan = result.found, result.prepared.plan
    for name, noun, each in (
        ("Argo CD", "Application", [f"{one.name} ({one.path})" for one in found.applications]),
        ("Argo CD", "ApplicationSet", list(found.application_sets)),
        ("Flux", "Kustomization", [f"{one.name} ({one.path})" for one in found.flux]),
        ("Kustomize", "kustomization", list(found.overlays)),
    ):
        if each:
            yield name, f"{count(len(each), noun)}: {_some(each)}"
    for cluster in result.clusters:
        yield "cluster", f"{cluster.name}: {cluster.reason}"
    models = {each.model for each in plan.decisions}
    yield "resources", f"{count(len(plan.decisions), 'variant')} of {count(len(models), 'model')}"
    adopted = result.adopted
    if adopted.entries or adopted.left:
        words = f"{len(adopted.entries)} managed from now on"
        yield "workloads", words + (f", {len(adopted.left)} left to you" if adopted.left else "")
    elif plan.unmanaged:
        yield "workloads", unmanaged_text(plan)
    yield "Prometheus", _measured(result)
    if result.address is not None:
        yield "", f"written as {result.address.url}: {result.address.reason}"


def _measured(result: "InitResult") -> str:
    if not result.is_measured:
        return "none was given (--prometheus URL): nothing can be measured"
    decisions = result.prepared.plan.decisions
    with_metrics = sum(each.metrics_available for each in decisions)
    answers = result.prepared.recording.answers
    answered = sum(each.reason == "" for each in answers)
    return f"{answered} of {len(answers)} questions answered; metrics of {with_metrics} of {len(decisions)} variants"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _next_lines(result: "InitResult") -> Iterator[str]:
    from reconciler.pipeline.init import PIPELINE, WORKFLOW
    from reconciler.report.fit import DEFAULT_PATH

    unfilled = result.address is not None and not result.address.is_found
    if unfilled:
        yield "First: fill in the address of Prometheus in reconciler.yaml (plans refuse it, or take --prometheus)"
    if not result.is_reached_from_outside and any(each.path in (WORKFLOW, PIPELINE) for each, _ in result.files):
        yield "Note: runners outside of the cluster do not reach its Prometheus: use --cronjob, or a runner inside"
    paths = " ".join(sorted({file.path.partition("/")[0] for file, _ in result.files}))
    if paths:
        yield f"Next: git add {paths} && git commit -m 'Run the reconciler' && git push"
    yield "Then: reconciler run, which reads what is pushed and proposes this as pull requests"
    if result.adopted.entries:
        yield f"After two days of load: reconciler fit --since 2d --write {DEFAULT_PATH}, to learn how fast they are"
