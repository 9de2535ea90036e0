"""How often `run` is started, as far as the repository says it: CronJobs and GitHub workflows that run us."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

from reconciler.domain.identity import Place
from reconciler.git.repository import EntryKind, Repository
from reconciler.manifests.documents import Document, parse_readable
from reconciler.pipeline.observe import is_manifest

OURS = "reconciler"
WORKFLOWS = ".github/workflows/"
MINUTE_S, HOUR_MIN, DAY_MIN, WEEK_DAYS = 60.0, 60, 1440, 7
LOOKED_AT_DAYS = 28
ON = "true"
"""The key `on`, as YAML reads it."""
MACROS = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0"}
_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A cron expression that starts us, and where it stands; `every_s` is its usual gap, None where it has none."""

    text: str
    place: Place
    every_s: float | None


def find_schedules(repository: Repository) -> tuple[Schedule, ...]:
    """Every schedule of the commit that starts `reconciler run`, in the order of files."""
    entries = [each for each in repository.list_files() if is_manifest(each.path) and each.kind is EntryKind.FILE]
    bodies = repository.read_files(each.oid for each in entries)
    return tuple(
        schedule
        for entry, (_, body) in zip(entries, bodies, strict=True)
        if OURS.encode() in body and (b"CronJob" in body or entry.path.startswith(WORKFLOWS))
        for schedule in _schedules_in(entry.path, body)
    )


def gap_s(cron: str) -> float | None:
    """The most frequent gap between two starts of a cron expression, in seconds; None for what is none, or monthly."""
    fields = MACROS.get(cron.strip(), cron).lower().split()
    if len(fields) != len(_FIELDS):
        return None
    try:
        minutes, hours, days, _, weekdays = (
            _values(text, *bounds) for text, bounds in zip(fields, _FIELDS, strict=True)
        )
    except ValueError:
        return None
    in_a_day = [hour * HOUR_MIN + minute for hour in sorted(hours) for minute in sorted(minutes)]
    on = [day for day in range(LOOKED_AT_DAYS) if _is_on(day, days, weekdays, fields)]
    starts = [day * DAY_MIN + minute for day in on for minute in in_a_day]
    gaps = Counter(later - earlier for earlier, later in pairwise(starts))
    return gaps.most_common(1)[0][0] * MINUTE_S if gaps else None


def _is_on(day: int, days: set[int], weekdays: set[int], fields: Sequence[str]) -> bool:
    """Of a month that begins on a Sunday; as in cron, one of two restricted days is enough."""
    by_month, by_week = day + 1 in days, bool({day % WEEK_DAYS, day % WEEK_DAYS or WEEK_DAYS} & weekdays)
    both_restricted = fields[2] != "*" and fields[4] != "*"
    return by_month or by_week if both_restricted else by_month and by_week


def _values(text: str, first: int, last: int) -> set[int]:
    """The values of one field, such as `*/10`, `8-18/2` or `mon,wed`; ValueError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        lower, _, upper = span.partition("-")
        low = first if span == "*" else int(_DAYS.get(lower, lower))
        high = last if span == "*" or (step and not upper) else int(_DAYS.get(upper or lower, upper or lower))
        found.update(range(max(low, first), min(high, last) + 1, int(step or 1)))
    return found


def _schedules_in(path: str, body: bytes) -> Iterator[Schedule]:
    documents, _ = parse_readable(path, body, kinds=None)
    for document in documents:
        if _is_mapping(document.value):
            found = _of_workflow if path.startswith(WORKFLOWS) else _of_cron_job
            yield from found(document, document.value)


def _of_cron_job(document: Document, value: Mapping[str, object]) -> Iterator[Schedule]:
    spec = value.get("spec")
    if value.get("kind") != "CronJob" or not _is_mapping(spec) or OURS not in _text(spec.get("jobTemplate")):
        return
    schedule = spec.get("schedule")
    if isinstance(schedule, str):
        yield _schedule(document, schedule, ("spec", "schedule"))


def _of_workflow(document: Document, value: Mapping[str, object]) -> Iterator[Schedule]:
    triggers = value.get(ON)
    listed = triggers.get("schedule") if _is_mapping(triggers) else None
    if not isinstance(listed, list) or not any(_starts_us(step) for step in _steps(value.get("jobs"))):
        return
    for index, entry in enumerate(listed):
        cron = entry.get("cron") if _is_mapping(entry) else None
        if isinstance(cron, str):
            yield _schedule(document, cron, (ON, "schedule", index, "cron"))


def _steps(jobs: object) -> Iterator[Mapping[str, object]]:
    for job in jobs.values() if _is_mapping(jobs) else ():
        steps = job.get("steps") if _is_mapping(job) else None
        yield from (step for step in (steps if isinstance(steps, list) else ()) if _is_mapping(step))


def _starts_us(step: Mapping[str, object]) -> bool:
    given = step.get("with")
    mode = given.get("mode") if _is_mapping(given) else None
    return f"{OURS} run" in str(step.get("run", "")) or (OURS in str(step.get("uses", "")) and mode == "run")


def _schedule(document: Document, text: str, field: tuple[str | int, ...]) -> Schedule:
    place = Place(path=document.path, line=document.line_of(field), field=".".join(map(str, field)))
    return Schedule(text=text, place=place, every_s=gap_s(text))


def _text(value: object) -> str:
    """Images, commands and arguments of a job, in one text."""
    if _is_mapping(value):
        return " ".join(map(_text, value.values()))
    return " ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)
