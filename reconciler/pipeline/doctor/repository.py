"""Checks of what Git holds: whether we may push, versions of APIs, what cannot be read, how often we are started."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.reported.checkup import Cause, Check, warning, well
from reconciler.errors import ReconcilerError
from reconciler.forge.schedules import PipelineSchedule
from reconciler.git.clone import Clone
from reconciler.git.repository import Repository
from reconciler.pipeline.doctor.failures import failed, failed_by
from reconciler.pipeline.doctor.schedules import Schedule, find_pipeline_job, find_schedules, gap_s
from reconciler.pipeline.observe import Files
from reconciler.report.formatting import duration
from reconciler.resources.registry import KINDS

GIT = "git"
SETTINGS = "settings"
GONE = {
    "autoscaling/v2beta1": ("autoscaling/v2", "1.25"),
    "autoscaling/v2beta2": ("autoscaling/v2", "1.26"),
    "extensions/v1beta1": ("apps/v1", "1.16"),
    "apps/v1beta1": ("apps/v1", "1.16"),
    "apps/v1beta2": ("apps/v1", "1.16"),
    "batch/v1beta1": ("batch/v1", "1.25"),
}
"""Versions that Kubernetes does not serve any more, what to write instead, and since which release."""


def check_git(repository: Repository, name: str, prefix: str) -> Iterator[Check]:
    """Whether the base was read and head branches may be pushed; nothing is pushed."""
    what = f"{name}, {repository.branch} at {repository.commit[:7]}"
    if not isinstance(repository, Clone):
        return
    try:
        repository.check_push(f"{prefix}doctor")
    except ReconcilerError as error:
        cure = f"let the credential write contents, and no rule keep it from creating {prefix}*"
        yield failed_by(GIT, "push", error, cure)
    else:
        yield well(GIT, "push", f"{what}, may push {prefix}*")


def check_versions(files: Files) -> Iterator[Check]:
    """Whether every object that matters is of a version that clusters serve."""
    seen: Counter[str] = Counter()
    for reading in files.commit.readings.values():
        for document in reading.documents:
            value = document.value
            kind, version = (value.get(key) for key in ("kind", "apiVersion")) if isinstance(value, dict) else ("", "")
            if not isinstance(kind, str) or not isinstance(version, str):
                continue
            seen[kind] += kind in KINDS
            if version in GONE and kind in KINDS:
                newer, release = GONE[version]
                place = Place(path=document.path, line=document.line_of(("apiVersion",)), field="apiVersion")
                words = f"{kind} of {version}, which Kubernetes {release} and later do not serve"
                yield warning(GIT, "api-version", words, f"write {newer}", place)
    counted = ", ".join(f"{number} {kind}" for kind, number in seen.most_common() if number)
    yield well(GIT, "api-version", f"{counted or 'no resources'}")


def check_findings(findings: Iterable[Finding], subject: str = GIT) -> Iterator[Check]:
    """What is wrong in files, as `validate` tells it; notes ask for nothing."""
    for finding in sorted(findings):
        words = ": ".join(filter(None, (finding.place.field, finding.message)))
        rule = finding.rule or "resource"
        if finding.severity is Severity.ERROR:
            yield failed(subject, rule, words, "mend the file", cause=Cause.INPUT, place=finding.place)
        elif finding.severity is Severity.WARNING:
            yield warning(subject, rule, words, "mend the file, or see what validate says of it", finding.place)


def check_schedule(
    repository: Repository, run_interval_s: float, pipelines: Iterable[PipelineSchedule] | None
) -> Iterator[Check]:
    """Whether what starts us does so as often as `runInterval` says.

    `pipelines` are what the forge starts by itself: they count where a job of its pipeline starts us; None: not told.
    """
    schedules, stated = find_schedules(repository), duration(run_interval_s)
    job = None if pipelines is None else find_pipeline_job(repository)
    if pipelines is not None and job is not None:
        of_base = [each for each in pipelines if each.branch == repository.branch]
        active = [each for each in of_base if each.is_active]
        schedules = (*schedules, *(Schedule(text=each.cron, place=job, every_s=gap_s(each.cron)) for each in active))
        if not schedules:
            yield _never_started(job, repository.branch, [each.name or each.cron for each in of_base])
            return
    for schedule in schedules:
        if schedule.every_s is None or schedule.every_s == run_interval_s:
            continue
        found = duration(schedule.every_s)
        words = f'cron "{schedule.text}" starts a run every {found}, and runInterval is {stated}'
        cure = f"set runInterval: {found} in reconciler.yaml, or another schedule here"
        yield warning(SETTINGS, "run-interval", words, cure, schedule.place)
    if not schedules:
        yield well(SETTINGS, "run-interval", f"runInterval {stated}; nothing in the repository says who starts a run")
    elif all(schedule.every_s in (None, run_interval_s) for schedule in schedules):
        crons = ", ".join(f'"{schedule.text}"' for schedule in schedules)
        yield well(SETTINGS, "run-interval", f"a run is started every {stated} (cron {crons})")


def _never_started(job: Place, branch: str, paused: Sequence[str]) -> Check:
    """A job that no pipeline schedule starts; those of the branch that are switched off could."""
    if paused:
        words = f"{job.field} is never started: pipeline schedule {paused[0]} is not active"
        return warning(SETTINGS, "run-interval", words, "activate it (Build, Pipeline schedules)", job)
    words = f"{job.field} is never started: no pipeline schedule of {branch}"
    return warning(SETTINGS, "run-interval", words, "make one (Build, Pipeline schedules): */10 * * * *", job)
