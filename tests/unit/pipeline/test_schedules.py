"""Crons that start us, found in CronJobs and workflows, and how often they do."""

from pathlib import Path

import pytest

from reconciler.git.repository import open_directory
from reconciler.pipeline.doctor import find_pipeline_job, find_schedules, gap_s
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
