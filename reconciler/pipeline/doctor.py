"""Doctor: checks everything that a run depends on: git, forge, settings, every Prometheus, every variant."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from reconciler.config.environment import Environment, Flags, SecretReader
from reconciler.decision.actuation import LOOK_BACK_S, ActuationDelays, office_hours, told_span
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.plan import Plan
from reconciler.domain.proposals import Proposal
from reconciler.domain.records import replace
from reconciler.domain.reports import Cause, Check, Level, warning, well
from reconciler.domain.rules import AutoMergeRule
from reconciler.domain.settings import ClusterSettings, Identity, Settings
from reconciler.domain.snapshot import Snapshot
from reconciler.errors import ConfigurationError, InputError, ReconcilerError
from reconciler.forge.marker import proposal_of
from reconciler.forge.pull_requests import Forge, PipelineSchedule, Rights, refuse_commits
from reconciler.git.clone import Clone
from reconciler.git.repository import Repository
from reconciler.http.messages import Clock
from reconciler.metrics.observed import read_observed
from reconciler.metrics.queries import names_in
from reconciler.metrics.survey import Survey, read_survey, survey_queries
from reconciler.pipeline.doctor_metrics import (
    Asked,
    ExaminedPlan,
    blinds,
    check_prometheus,
    check_variants,
    oldest_s,
    reporting,
)
from reconciler.pipeline.doctor_workloads import check_workloads
from reconciler.pipeline.files import Files
from reconciler.pipeline.observe import ObservedRun, ask_delays, observe
from reconciler.pipeline.prepare import prepare
from reconciler.pipeline.references import find_compared_statuses
from reconciler.pipeline.schedules import Schedule, find_pipeline_job, find_schedules, gap_s, with_interval
from reconciler.pipeline.session import Doors, Progress, Session, open_forge, open_session
from reconciler.report.formatting import duration
from reconciler.resources.registry import KINDS


def failed(subject: str, rule: str, words: str, cure: str = "", *, cause: Cause, place: Place | None = None) -> Check:
    """What keeps us from working."""
    return Check(level=Level.FAIL, subject=subject, rule=rule, words=words, cure=cure, place=place, cause=cause)


def failed_by(subject: str, rule: str, error: ReconcilerError, cure: str = "") -> Check:
    """A failed check from an error, whose message mostly says what to do."""
    return failed(subject, rule, str(error), cure, cause=_cause_of(error))


def _cause_of(error: ReconcilerError) -> Cause:
    if isinstance(error, ConfigurationError):
        return Cause.CONFIGURATION
    return Cause.INPUT if isinstance(error, InputError) else Cause.OUTSIDE


def check_delays(snapshot: Snapshot) -> Iterator[Check]:
    """How long changes take until they serve, the variants that take as long together."""
    delays, found = ActuationDelays(snapshot), dict[str, list[str]]()
    for variant in snapshot.variants:
        delay = delays.of(variant)
        parts = (f"{name} {part.words}, {part.source}" for name, part in delay.named_parts)
        words = f"a change serves after about {told_span(delay.median_s)}: {'; '.join(parts)}"
        found.setdefault(words, []).append(variant.key.label)
    for words, labels in found.items():
        others = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        yield well(SETTINGS, "actuation-delay", f"{labels[0]}{others}: {words}")
    interval = delays.run_interval
    yield well(SETTINGS, "actuation-delay", f"a run decides every {interval.words}, {interval.source}")


LEAST_MORE = 0.02
"""Of all replicas: less is not worth a word."""


def check_office_hours(snapshot: Snapshot) -> Iterator[Check]:
    """What it costs that people merge at their hours: what nights and weekends need is kept meanwhile."""
    found = office_hours(snapshot)
    if found is None or found.more < LEAST_MORE or snapshot.settings.pull_requests.auto_merge:
        return
    money = "" if found.cost_per_hour is None else f", {found.cost_per_hour:.2f} {snapshot.settings.currency}/h"
    words = (
        f"all {found.merges} merges of 30 days came on {found.words}: what the rest needs at most is kept in between, "
        f"on the load of two weeks {found.more:.0%} more replicas than if changes merged at any time{money}"
    )
    cure = "set pullRequests.autoMerge, rules say for what; or let an autoscaler act, with whenAutoscaled: tune"
    yield warning(SETTINGS, "office-hours", words, cure)


FORGE = "forge"
EXPIRES_SOON_S = 30 * 86_400.0
TOKEN = "the token of RECONCILER_FORGE_TOKEN"  # noqa: S105 - words, not a token


def check_forge(
    forge: Forge, *, base: str, prefix: str, merges: bool, now_s: float, signs: bool = False
) -> Iterator[Check]:
    """What a run needs of the forge; `prefix` begins the names of our head branches, `now_s` is Unix time.

    `merges`: something is to merge by itself; `signs`: our commits are signed.
    """
    try:
        forge.check_access()
        rights = forge.rights(base=base, head=f"{prefix}doctor")
        rights = replace(rights, needs_signatures=rights.needs_signatures and not signs)
    except ReconcilerError as error:
        yield failed_by(FORGE, "forge-access", error)
        return
    merging = _merging(rights, prefix) if merges else ()
    troubles = [*_missing(rights), *merging, *_rules(rights, base=base, prefix=prefix), *_expiry(rights, now_s)]
    yield from troubles
    if not troubles:
        yield well(FORGE, "forge-rights", f"{forge.name}, {_allowed(rights)}")


def _missing(rights: Rights) -> Iterator[Check]:
    if rights.may_open is False:
        yield failed(
            FORGE,
            "open-pull-requests",
            "no pull request may be opened",
            rights.cures.opening.replace("TOKEN", TOKEN),
            cause=Cause.CONFIGURATION,
        )
    if rights.may_label is False:
        yield warning(
            FORGE,
            "label-pull-requests",
            "pull requests may not be labelled",
            f"{rights.cures.labelling.replace('TOKEN', TOKEN)}, or take pullRequests.labels out of reconciler.yaml",
        )


def _merging(rights: Rights, prefix: str) -> Iterator[Check]:
    """What keeps from merging what is to merge by itself, and what makes it less safe."""
    if rights.may_merge is False:
        words = "rules let pull requests merge by themselves, which our credential may not do"
        yield warning(FORGE, "merge-pull-requests", words, rights.cures.merging.replace("TOKEN", TOKEN))
    elif rights.allows_auto_merge is False:
        words = "auto-merge is switched off: what waits for rules of the base is merged by a later run"
        yield warning(FORGE, "auto-merge", words, rights.cures.scheduling)
    if rights.only_ours is False:
        words = (
            f"others may push to {prefix}*, into pull requests that people and checks take for ours: each run finds "
            "that and writes the branch anew, but only the forge can refuse it at once"
        )
        yield warning(FORGE, "unprotected-branches", words, rights.cures.protection)


def _rules(rights: Rights, *, base: str, prefix: str) -> Iterator[Check]:
    if rights.refusals:
        yield warning(
            FORGE,
            "branch-rules",
            f"rules on branches {prefix}* would refuse what we push: {', '.join(rights.refusals)}",
            f"{rights.cures.refusals}, or set git.branchPrefix in reconciler.yaml to one that is left alone",
        )
    if rights.drops_approvals:
        yield warning(
            FORGE,
            "dropped-approvals",
            f"{base} drops approvals on every push",
            "lower pullRequests.limits.pushesPerHour in reconciler.yaml, merge soon after approving, or label what is "
            "approved stop-updating: nothing is pushed to it then",
        )
    if rights.is_strict:
        yield warning(
            FORGE,
            "strict-branches",
            f"{base} accepts only branches that are up to date: each commit on it has open pull requests pushed again",
            "merge through a merge queue or train, which needs no such rule; else checks begin anew with each push, "
            "and approvals where pushes drop them",
        )
    if rights.needs_signatures:
        yield warning(
            FORGE,
            "signed-commits",
            f"{base} takes signed commits only, and ours have no signature",
            f"set git.signing, or {rights.cures.signatures}",
        )


def check_signer(author: Identity, forge: Forge, *, is_by_forge: bool) -> Iterator[Check]:
    """Whether the account behind our commits can have a key (GitHub lets no bot register one), or the forge signs."""
    if is_by_forge and not forge.writes_commits:
        yield failed_by(FORGE, "signed-by-the-forge", refuse_commits(forge.name))
    elif BOT in author.email and not is_by_forge:
        yield warning(
            FORGE,
            "signed-by-a-bot",
            f"git.signing signs in the name of {author.name}, a bot, which has no keys: no signature is verified",
            "set git.author to an account of yours that has the public key; the App's own token may stay",
        )


BOT = "[bot]@"
"""In the address of a GitHub App, or of the token of a workflow."""


def _expiry(rights: Rights, now_s: float) -> Iterator[Check]:
    """An unattended job ends silently when its credential does."""
    if rights.expires_at_s is None or rights.expires_at_s - now_s > EXPIRES_SOON_S:
        return
    day = datetime.fromtimestamp(rights.expires_at_s, UTC).date()
    yield warning(FORGE, "credential-expires", f"{TOKEN} ends on {day}", rights.cures.expiry.replace("TOKEN", "it"))


def _allowed(rights: Rights) -> str:
    told = {"open": rights.may_open, "label": rights.may_label, "merge": rights.may_merge}
    may = " and ".join(filter(None, (", ".join(name for name, allowed in told.items() if allowed),)))
    unknown = ", ".join(name for name, allowed in told.items() if allowed is None)
    parts = [f"may {may} pull requests" if may else "", f"not known whether it may {unknown}" if unknown else ""]
    if rights.allows_auto_merge is not None:
        parts.append(f"auto-merge is {'allowed' if rights.allows_auto_merge else 'switched off'}")
    return ", ".join(filter(None, parts))


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
    try:
        repository.check_signing()
    except ReconcilerError as error:
        yield failed_by(GIT, "signing", error, "give another key, or take git.signing out of reconciler.yaml")


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
    repository: Repository, settings: Settings, pipelines: Iterable[PipelineSchedule] | None
) -> Iterator[Check]:
    """Whether what starts us does so as often as `runInterval` says; where it is not set, a schedule in Git says it.

    `pipelines` are what the forge starts by itself: they count where a job of its pipeline starts us; None: not known.
    """
    schedules = find_schedules(repository)
    run_interval_s = with_interval(settings, schedules).run_interval_s
    stated = duration(run_interval_s)
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
        yield from check_schedule(doors.repository, self._settings, self._pipelines())
        yield from self._observed(doors)

    def _forge(self, doors: Doors) -> Iterator[Check]:
        try:
            secrets = SecretReader(environment=self._environment)
            forge, author = open_forge(self._session.repository, self._settings, secrets, writes=True)
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
            signing, now_s = settings.git.signing, self._now()
            yield from check_forge(forge, base=base, prefix=prefix, merges=merges, now_s=now_s, signs=bool(signing))
            if signing is not None:
                yield from check_signer(author, forge, is_by_forge=signing.is_by_forge)

    def _pipelines(self) -> tuple[PipelineSchedule, ...] | None:
        try:
            return None if self._opened is None else self._opened.schedules()
        except ReconcilerError:  # its own checks report what keeps it from answering
            return None

    def _merged(self, doors: Doors, now_s: float) -> tuple[Proposal, ...]:
        """Our pull requests that were merged lately; none where the forge does not answer, which its checks tell."""
        if self._opened is None:
            return ()
        prefix, base = self._settings.git.branch_prefix, doors.repository.branch
        try:
            found = self._opened.list_pull_requests(head_prefix=prefix, base=base, closed_since_s=now_s - LOOK_BACK_S)
        except ReconcilerError:
            return ()
        return tuple(proposal_of(each, None, doors.author) for each in found if each.base_branch == base)

    def _with_merges(self, doors: Doors, snapshot: Snapshot) -> Snapshot:
        """The snapshot with our merges, and what became of them in the clusters."""
        merged, variants = self._merged(doors, snapshot.now_s), snapshot.variants
        answers = ask_delays(doors, self._settings, variants, merged, snapshot.now_s)
        seen = read_observed(variants, answers, snapshot.now_s, self._settings)
        observed = replace(snapshot.observed, merged=seen.merged, started=seen.started)
        return replace(snapshot, proposals=merged, observed=observed)

    def _paused(self) -> Iterator[Check]:
        if self._session.paused:
            cure = "take that away when it should propose again"
            yield warning(SETTINGS, "paused", f"paused by {self._session.paused}: a run writes nothing", cure)

    def _observed(self, doors: Doors) -> Iterator[Check]:
        now_s = self._now()
        try:
            plain = replace(doors, forge=None, needs_forge=False)
            observed = observe(plain, self._settings, now_s, self._session.repository)
        except ReconcilerError as error:  # several clusters behind one Prometheus without a label for each
            yield failed_by(self._settings.clusters[0].name, "prometheus", error)
            return
        prepared = prepare(observed.recording, doors.renderer, observed.declaration, observed.variants)
        yield from check_versions(observed.files)
        yield from check_findings(prepared.plan.findings)
        snapshot = self._with_merges(doors, prepared.snapshot)
        yield from check_delays(snapshot)
        yield from check_office_hours(snapshot)
        yield from check_findings(find_compared_statuses(observed.files.commit.fleet, self._settings))
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
        yield from check_workloads(prepared.snapshot, broken, doors.renderer)
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
