"""Everything that a run depends on, looked at in one go: git, forge, settings, every Prometheus, every variant."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from reconciler.config.environment import Environment, Flags, SecretReader
from reconciler.domain.plan import Plan
from reconciler.domain.reported.checkup import Cause, Check, warning
from reconciler.domain.rules import AutoMergeRule
from reconciler.domain.settings import ClusterSettings
from reconciler.domain.snapshot import Snapshot
from reconciler.errors import ReconcilerError
from reconciler.forge.pull_requests import Forge
from reconciler.forge.schedules import PipelineSchedule
from reconciler.http.limits import Clock
from reconciler.metrics.queries import names_in
from reconciler.metrics.survey import Survey, read_survey, survey_queries
from reconciler.pipeline.doctor.failures import failed, failed_by
from reconciler.pipeline.doctor.forge import FORGE, check_forge
from reconciler.pipeline.doctor.metrics import Asked, blinds, check_prometheus, oldest_s
from reconciler.pipeline.doctor.repository import (
    GIT,
    SETTINGS,
    check_findings,
    check_git,
    check_schedule,
    check_versions,
)
from reconciler.pipeline.doctor.variants import ExaminedPlan, check_variants, reporting
from reconciler.pipeline.observe import ObservedRun, observe
from reconciler.pipeline.run import prepare
from reconciler.pipeline.session import Doors, Progress, Session, open_forge, open_session


def examine(flags: Flags, environment: Environment, now: Callable[[], float], progress: Progress) -> Iterator[Check]:
    """Every check, in the order that things depend on each other; `now` tells the time in Unix seconds.

    A thing that fails is a check that says so, and whatever does not depend on it is looked at all the same.
    """
    try:
        with open_session(flags, environment, writes=True, with_forge=False, progress=progress) as session:
            yield from _Doctor(session, environment, now).examine()
    except ReconcilerError as error:
        yield failed_by(SETTINGS if ": error: " in str(error) else GIT, "base", error)


class _Doctor:
    """One visit: what one look found out is used by the next."""

    def __init__(self, session: Session, environment: Environment, now: Callable[[], float]) -> None:
        self._session = session
        self._environment = environment
        self._now = now
        self._settings = session.settings
        self._opened: Forge | None = None

    def examine(self) -> Iterator[Check]:
        """Every check but those that keep a session from being opened."""
        doors, prefix = self._session.doors, self._settings.git.branch_prefix
        yield from check_git(doors.repository, self._session.repository, prefix)
        yield from self._forge(doors)
        yield from self._paused()
        yield from check_findings(self._session.findings, SETTINGS)
        yield from check_schedule(doors.repository, self._session.run_interval_s, self._pipelines())
        yield from self._observed(doors)

    def _forge(self, doors: Doors) -> Iterator[Check]:
        try:
            secrets = SecretReader(environment=self._environment)
            forge, _ = open_forge(self._session.repository, self._settings, secrets, writes=True)
        except ReconcilerError as error:
            yield failed_by(FORGE, "forge-access", error)
            return
        self._opened = forge
        if forge is not None:
            prefix = self._settings.git.branch_prefix
            settings, base = self._settings, doors.repository.branch
            merges = settings.pull_requests.auto_merge
            if merges is None:
                merges = any(isinstance(rule.asks, AutoMergeRule) for rule in settings.rules)
            yield from check_forge(forge, base=base, prefix=prefix, merges=merges, now_s=self._now())

    def _pipelines(self) -> tuple[PipelineSchedule, ...] | None:
        try:
            return None if self._opened is None else self._opened.schedules()
        except ReconcilerError:  # what keeps it from answering is told by its own checks, or passes
            return None

    def _paused(self) -> Iterator[Check]:
        if self._session.paused:
            cure = "take that away when it should propose again"
            yield warning(SETTINGS, "paused", f"paused by {self._session.paused}: a run writes nothing", cure)

    def _observed(self, doors: Doors) -> Iterator[Check]:
        now_s = self._now()
        try:
            plain = replace(doors, forge=None, needs_forge=False)
            observed = observe(plain, self._settings, now_s, self._session.repository)
        except ReconcilerError as error:  # several clusters behind one Prometheus that nobody told apart
            yield failed_by(self._settings.clusters[0].name, "prometheus", error)
            return
        prepared = prepare(observed.recording, doors.renderer, observed.declaration)
        yield from check_versions(observed.files)
        yield from check_findings(prepared.plan.findings)
        broken = {words.partition(": ")[0] for words in (*prepared.plan.refusals, *prepared.plan.failures)}
        yield from _failures(prepared.plan)
        surveys: dict[str, Survey] = {}
        blind: set[str] = set()
        for cluster in self._settings.clusters:
            if cluster.name not in broken and cluster.prometheus is not None:
                asked = self._ask(doors, cluster, observed, prepared.snapshot)
                surveys[cluster.name] = asked.survey
                checks = tuple(check_prometheus(asked))
                blind |= {cluster.name for check in checks if blinds(check)}
                yield from checks
        yield from check_variants(
            ExaminedPlan(
                snapshot=prepared.snapshot,
                plan=prepared.plan,
                surveys=surveys,
                today=datetime.fromtimestamp(now_s, UTC).date(),
                broken=frozenset(broken),
                blind=frozenset(blind),
            )
        )

    def _ask(self, doors: Doors, cluster: ClusterSettings, observed: ObservedRun, snapshot: Snapshot) -> Asked:
        now_s, begun_s = self._now(), Clock().monotonic()
        time = self._session.ask_time(cluster)
        took_s = Clock().monotonic() - begun_s
        answers = tuple(each for each in observed.recording.answers if each.query.cluster == cluster.name)
        queries = survey_queries(cluster, now_s, oldest_s(answers, now_s))
        survey = read_survey(doors.ask(cluster, queries), names_in(self._settings, cluster.name))
        seen, variants = reporting(snapshot, cluster.name)
        return Asked(
            cluster=cluster,
            now_s=now_s,
            took_s=took_s,
            time=time,
            answers=answers,
            survey=survey,
            retention="" if survey.reaches_back else self._session.ask_retention(cluster),
            variants=variants,
            reporting=seen,
        )


def _failures(plan: Plan) -> Iterator[Check]:
    """Every Prometheus that cannot be asked, or did not answer."""
    for sentences, cause in ((plan.refusals, Cause.CONFIGURATION), (plan.failures, Cause.OUTSIDE)):
        for sentence in sentences:
            cluster, _, words = sentence.partition(": ")
            yield failed(cluster, "prometheus", words, cause=cause)
