"""How often `run` is started: by CronJobs and GitHub workflows in the repository, by pipelines of a forge."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice, pairwise

from cronsim import CronSim, CronSimError

from reconciler.decision.actuation import measured_interval_s
from reconciler.domain.identity import Place
from reconciler.domain.proposals import Proposal
from reconciler.domain.recording import ManifestFile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import Settings
from reconciler.git.repository import EntryKind, Repository
from reconciler.manifests.documents import Document, mapping_of, parse_readable
from reconciler.pipeline.files import OURS, WORKFLOWS, is_manifest, may_start_us
from reconciler.report.formatting import duration

# On GitLab the repository has only the job, and the forge has the schedule of its pipeline.

RUN = f"{OURS} run"
PIPELINES = (".gitlab-ci.yml", ".gitlab/")
"""Files with GitLab's jobs: the one in the root, and those that it includes, as `init` writes them."""
LOOKED_AT = 200
"""Starts: enough that the pauses of nights and weekends are not the most frequent gap."""
ON = "true"
"""The key `on`, as YAML reads it."""
MACROS = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0"}
LONGEST_S = 86_400.0
"""Nobody forecasts further: who runs once a week forecasts a day."""
_FROM = datetime(2024, 1, 1, tzinfo=UTC)
"""Any day will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A cron expression that starts us, and its place; `every_s` is its usual gap, None if it has none."""

    text: str
    place: Place
    every_s: float | None


def find_schedules(repository: Repository) -> tuple[Schedule, ...]:
    """Every schedule of the commit that starts `reconciler run`, in the order of files."""
    entries = [each for each in repository.list_files() if is_manifest(each.path) and each.kind is EntryKind.FILE]
    bodies = repository.read_files(each.oid for each in entries)
    read = (ManifestFile(path=entry.path, body=body) for entry, (_, body) in zip(entries, bodies, strict=True))
    return schedules_in(each for each in read if may_start_us(each))


def schedules_in(files: Iterable[ManifestFile]) -> tuple[Schedule, ...]:
    """Every schedule that starts `reconciler run` in files that may hold one."""
    return tuple(schedule for each in files for schedule in _schedules_in(each.path, each.body))


def with_interval(
    settings: Settings, schedules: Iterable[Schedule], proposals: Iterable[Proposal] = (), now_s: float = 0.0
) -> Settings:
    """The settings with how often we are started: as set, else by schedules, else as our own pushes tell."""
    if settings.run_interval_source:
        return settings
    every = [(each.every_s, each) for each in schedules if each.every_s is not None]
    if every:
        interval_s, schedule = min(every, key=lambda each: each[0])
        interval_s = min(interval_s, LONGEST_S)
        source = f'cron "{schedule.text}" in {schedule.place}'
        return replace(settings, run_interval_s=interval_s, run_interval_source=source)
    measured = measured_interval_s(proposals, now_s)
    if measured is None:
        return settings
    interval_s, count = measured
    source = f"measured: {count} runs that wrote to Git in 7 days, every {duration(interval_s)} or a multiple of it"
    return replace(settings, run_interval_s=interval_s, run_interval_source=source)


def find_pipeline_job(repository: Repository) -> Place | None:
    """The job of a GitLab pipeline that starts `reconciler run`; None where no file of the commit has one."""
    entries = [
        each for each in repository.list_files() if each.path.startswith(PIPELINES) and each.kind is EntryKind.FILE
    ]
    bodies = repository.read_files(each.oid for each in entries)
    for entry, (_, body) in zip(entries, bodies, strict=True):
        documents, _ = parse_readable(entry.path, body, kinds=None) if RUN.encode() in body else ((), ())
        for document in documents:
            for name, job in mapping_of(document.value).items():
                if RUN in _text(job):
                    return Place(path=entry.path, line=document.line_of((name,)), field=str(name))
    return None


def gap_s(cron: str) -> float | None:
    """The most frequent gap between two starts of a cron expression, in seconds; None if it is not valid."""
    try:
        starts = [start.timestamp() for start in islice(CronSim(MACROS.get(cron.strip(), cron), _FROM), LOOKED_AT)]
    except CronSimError:
        return None
    gaps = Counter(later - earlier for earlier, later in pairwise(starts))
    return gaps.most_common(1)[0][0] if gaps else None


def _schedules_in(path: str, body: bytes) -> Iterator[Schedule]:
    documents, _ = parse_readable(path, body, kinds=None)
    for document in documents:
        found = _of_workflow if path.startswith(WORKFLOWS) else _of_cron_job
        yield from found(document, mapping_of(document.value))


def _of_cron_job(document: Document, value: Mapping[str, object]) -> Iterator[Schedule]:
    spec = mapping_of(value.get("spec"))
    if value.get("kind") != "CronJob" or OURS not in _text(spec.get("jobTemplate")):
        return
    schedule = spec.get("schedule")
    if isinstance(schedule, str):
        yield _schedule(document, schedule, ("spec", "schedule"))


def _of_workflow(document: Document, value: Mapping[str, object]) -> Iterator[Schedule]:
    listed = mapping_of(value.get(ON)).get("schedule")
    if not isinstance(listed, list) or not any(_starts_us(step) for step in _steps(value.get("jobs"))):
        return
    for index, entry in enumerate(listed):
        cron = mapping_of(entry).get("cron")
        if isinstance(cron, str):
            yield _schedule(document, cron, (ON, "schedule", index, "cron"))


def _steps(jobs: object) -> Iterator[Mapping[str, object]]:
    for job in mapping_of(jobs).values():
        steps = mapping_of(job).get("steps")
        yield from map(mapping_of, steps if isinstance(steps, list) else ())


def _starts_us(step: Mapping[str, object]) -> bool:
    mode = mapping_of(step.get("with")).get("mode")
    return RUN in str(step.get("run", "")) or (OURS in str(step.get("uses", "")) and mode == "run")


def _schedule(document: Document, text: str, field: tuple[str | int, ...]) -> Schedule:
    place = Place(path=document.path, line=document.line_of(field), field=".".join(map(str, field)))
    return Schedule(text=text, place=place, every_s=gap_s(text))


def _text(value: object) -> str:
    """Images, commands and arguments of a job, in one text."""
    if isinstance(value, Mapping):
        return " ".join(map(_text, value.values()))
    return " ".join(map(_text, value)) if isinstance(value, list) else str(value)
