"""Crons that start us, found in CronJobs and workflows, and how often they do."""

from pathlib import Path

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.settings import Settings
from reconciler.git.repository import open_directory
from reconciler.pipeline.schedules import Schedule, find_pipeline_job, find_schedules, gap_s, with_interval
from tests.servers.git_workshop import open_workshop

CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: %s}
spec:
  schedule: "%s"
  jobTemplate:
    spec: {template: {spec: {containers: [{name: x, image: "%s", args: [run]}]}}}
"""
WORKFLOW = """\
name: Reconcile
on:
  schedule:
    - cron: "5 * * * *"
jobs:
  reconcile:
    steps:
      - uses: actions/checkout@v5
      - %s
"""


@pytest.mark.parametrize(
    ("cron", "minutes"),
    [
        ("*/10 * * * *", 10),
        ("0,30 * * * *", 30),
        ("7 * * * *", 60),
        ("*/15 8-18 * * mon-fri", 15),
        ("0 */6 * * *", 360),
        ("5/20 * * * *", 20),
        ("0 3 * * *", 1440),
        ("0 3 * * 0", 7 * 1440),
        ("0 3 * * 7", 7 * 1440),
        ("@hourly", 60),
        ("@daily", 1440),
        ("0 0 1 * *", 31 * 1440),
        ("61 * * * *", None),
        ("* * *", None),
        ("x * * * *", None),
        ("*/0 * * * *", None),
    ],
)
def test_the_usual_gap_of_a_cron_expression(cron: str, minutes: int | None) -> None:
    assert gap_s(cron) == (None if minutes is None else minutes * 60.0)


def test_only_what_runs_us_counts(tmp_path: Path) -> None:
    workshop = open_workshop(tmp_path)
    for name, text in {
        "ops/ours.yaml": CRON_JOB % ("reconcile", "*/20 * * * *", "ghcr.io/acme/inference-reconciler:1"),
        "ops/backup.yaml": CRON_JOB % ("reconciler-backup", "0 0 * * *", "backup:1"),
        ".github/workflows/run.yml": WORKFLOW % "run: reconciler run --repo .",
        ".github/workflows/action.yml": WORKFLOW % "{uses: inference-reconciler/reconciler@v1, with: {mode: run}}",
        ".github/workflows/plan.yml": WORKFLOW % "{uses: inference-reconciler/reconciler@v1, with: {mode: plan}}",
        ".github/workflows/lint.yml": WORKFLOW % "run: make lint # not reconciler",
    }.items():
        workshop.write(name, text.encode())
    workshop.commit()
    found = find_schedules(open_directory(str(workshop.clone)))
    assert [(str(each.place), each.every_s) for each in found] == [
        (".github/workflows/action.yml:4", 3600.0),
        (".github/workflows/run.yml:4", 3600.0),
        ("ops/ours.yaml:5", 1200.0),
    ]


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [
        (".gitlab-ci.yml", "a: {script: [make]}\nours:\n  script: [reconciler run --repo x]\n", ".gitlab-ci.yml:2"),
        (".gitlab/reconciler.yml", "ours:\n  script: 'reconciler run'\n", ".gitlab/reconciler.yml:1"),
        (".gitlab-ci.yml", "# reconciler run\nours: {script: [reconciler validate]}\n", ""),
        ("ci/jobs.yml", "ours: {script: [reconciler run]}\n", ""),
        (".gitlab-ci.yml", "ours: [reconciler run\n", ""),
    ],
)
def test_a_job_of_a_pipeline_that_runs_us_is_found(tmp_path: Path, path: str, text: str, place: str) -> None:
    workshop = open_workshop(tmp_path)
    workshop.write(path, text.encode())
    workshop.commit()
    found = find_pipeline_job(open_directory(workshop.clone))
    assert ("" if found is None else f"{found.path}:{found.line}") == place
    assert found is None or found.field == "ours"


CRON = Schedule(text="*/20 * * * *", place=Place(path="ops/job.yaml", line=5), every_s=1200.0)
NOW_S = 1_800_000_000.0


def written(*moments_min: float) -> list[Proposal]:
    return [
        Proposal(
            group="llm",
            number=number,
            state=ProposalState.MERGED,
            head_branch="reconciler/llm",
            decision="",
            opened_at_s=NOW_S - at_min * 60,
            pushes_s=(NOW_S - at_min * 60 + 15,),
        )
        for number, at_min in enumerate(moments_min, start=1)
    ]


def test_what_is_set_counts_before_a_schedule_in_git() -> None:
    given = Settings(run_interval_s=300.0, run_interval_source="runInterval")
    assert with_interval(given, [CRON]) == given


def test_a_schedule_in_git_counts_before_what_is_measured() -> None:
    found = with_interval(Settings(), [CRON], written(*range(0, 600, 30)), NOW_S)
    assert found.run_interval_s == 1200.0
    assert found.run_interval_source == 'cron "*/20 * * * *" in ops/job.yaml:5'


def test_the_most_frequent_of_several_schedules_counts() -> None:
    hourly = Schedule(text="@hourly", place=CRON.place, every_s=3600.0)
    without = Schedule(text="x", place=CRON.place, every_s=None)
    assert with_interval(Settings(), [hourly, CRON, without]).run_interval_s == 1200.0


def test_a_run_once_a_week_forecasts_a_day() -> None:
    weekly = Schedule(text="@weekly", place=CRON.place, every_s=7 * 86_400.0)
    assert with_interval(Settings(), [weekly]).run_interval_s == 86_400.0


def test_runs_that_had_nothing_to_write_do_not_matter() -> None:
    """Every 15 minutes, and few of them wrote."""
    moments = (0, 15, 60, 105, 150, 240, 255, 420, 615, 720, 1005, 2010)
    found = with_interval(Settings(), [], written(*(each + 0.4 * (each % 4) for each in moments)), NOW_S)
    assert found.run_interval_s == 900.0
    assert found.run_interval_source.startswith("measured: 12 runs that wrote to Git in 7 days, every 15m")


def test_few_runs_and_runs_at_any_time_tell_no_interval() -> None:
    assert with_interval(Settings(), [], written(*range(0, 90, 10)), NOW_S) == Settings()
    at_any_time = [37.7 * number + 13.1 * (number * number % 17) for number in range(40)]
    assert with_interval(Settings(), [], written(*at_any_time), NOW_S) == Settings()


def test_what_was_written_long_ago_does_not_count() -> None:
    assert with_interval(Settings(), [], written(*range(20_000, 20_600, 10)), NOW_S) == Settings()
