"""What a run tells Prometheus when it is over; a server that is away is warned of, and fails nothing."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reconciler import __version__
from reconciler.aftermerge import forecast_ratios, savings
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import LiveReplicas
from reconciler.domain.reports import OpenPullRequest, OwnGauge, RunOutcome
from reconciler.errors import ConfigurationError, ReconcilerError
from reconciler.forge.pull_requests import PullRequestState
from reconciler.http.messages import TRAFFIC, HostTraffic
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.run import RunResult
from reconciler.pipeline.session import Session
from reconciler.pipeline.work_tree import write_whole
from reconciler.prometheus.gauges import push_gauges, render_gauges
from reconciler.report.gauges import LAST_SUCCESS, gauges_of

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16 * 1024 * 1024
RECENT_S = 3600.0
"""Merges of so long are counted: more than a few are running away."""


def failed_outcome(session: Session, exit_code: int, now_s: float) -> RunOutcome:
    """What there is to tell of a run that ended before it had a result."""
    return RunOutcome(
        ended_s=now_s,
        exit_code=exit_code,
        run_interval_s=session.run_interval_s,
        version=__version__,
        is_paused=bool(session.paused),
        traffic=_counts(TRAFFIC.by_host()),
    )


def outcome_of(result: RunResult, exit_code: int, now_s: float) -> RunOutcome:
    """What the gauges show of a run with a result; `now_s` (Unix seconds) is when it ended."""
    snapshot = result.prepared.snapshot
    own = {each.number for each in snapshot.own_proposals}
    shown = (each for each in result.forge.pull_requests.values() if each.number in own)
    merged = (each for each in shown if each.state is PullRequestState.MERGED)
    return RunOutcome(
        ended_s=now_s,
        exit_code=exit_code,
        run_interval_s=snapshot.settings.run_interval_s,
        version=__version__,
        plan=result.prepared.plan,
        live=dict(_live(snapshot.observed.live)),
        bounded=frozenset(variant.key for variant in snapshot.variants if variant.is_autoscaled),
        is_paused=bool(result.paused),
        pull_requests=tuple(_open(result, now_s)),
        judged=result.judged,
        forecasts=tuple(forecast_ratios(snapshot, result.prepared.plan)),
        savings=savings(snapshot),
        merges=sum(each.closed_at_s is not None and each.closed_at_s >= now_s - RECENT_S for each in merged),
        acts=result.acts,
        traffic=_counts(TRAFFIC.by_host()),
    )


def tell_gauges(session: Session, outcome: RunOutcome) -> None:
    """Write and push the gauges as the settings say; a failed run keeps the time of the last success."""
    settings = session.gauges
    if settings is None:
        return
    gauges = gauges_of(outcome)
    try:
        if settings.textfile:
            write_gauges(Path(settings.textfile), gauges, kept=LAST_SUCCESS)
        if settings.pushgateway is not None:
            # Runs of other repositories, or of other clusters of this one, must not replace these gauges.
            chosen = [cluster.name for cluster in session.settings.clusters] if session.settings.other_clusters else []
            grouping = {"repository": session.repository, **({"clusters": ",".join(chosen)} if chosen else {})}
            grouping |= {} if session.settings.shard is None else {"shard": str(session.settings.shard)}
            push_gauges(settings.pushgateway, gauges, grouping, session.read_secret, replaces=outcome.is_success)
    except ReconcilerError as error:
        logger.warning("gauges were not published: %s", error)


def write_gauges(path: Path, gauges: Iterable[OwnGauge], *, kept: str = "") -> None:
    """Write the file whole or not at all; the old value of the metric `kept` stays if there is no new one.

    Raises ConfigurationError for a directory that is not there or not ours.
    """
    content = render_gauges(gauges)
    if kept and kept.encode() not in content:
        content += _lines_about(path, kept)
    try:
        write_whole(path, content)
    except OSError as error:
        raise ConfigurationError(f"gauges.textfile: {path} cannot be written: {error.strerror}") from None


def _lines_about(path: Path, metric: str) -> bytes:
    """The lines of a file about a metric; empty if the file cannot be read."""
    try:
        with path.open("rb") as file:
            written = file.read(MAX_FILE_BYTES)
    except OSError:
        return b""
    about = re.compile(rb"(?:# (?:HELP|TYPE) )?" + re.escape(metric.encode()) + rb"[ {]")
    return b"".join(line for line in written.splitlines(keepends=True) if about.match(line))


def _live(live: Mapping[ResourceKey, object]) -> Iterator[tuple[ResourceKey, float]]:
    for key, each in live.items():
        if isinstance(each, LiveReplicas) and each.newest is not None:
            yield key, each.newest


def _open(result: RunResult, now_s: float) -> Iterator[OpenPullRequest]:
    """Those that were open and were neither closed nor merged, and those that this run created."""
    gone = (Operation.CLOSED, Operation.MERGED)
    closed = {each.number for each in result.published if each.operation in gone}
    for proposal in result.prepared.snapshot.own_proposals:
        shown = result.forge.pull_requests.get(proposal.number)
        if proposal.decision and shown is not None and shown.is_open and proposal.number not in closed:
            tip = result.forge.tips.get(proposal.head_branch)
            pushed_s = tip.committed_s if tip is not None else None
            opened_s = pushed_s if shown.opened_at_s is None else shown.opened_at_s
            yield OpenPullRequest(group=proposal.group, number=proposal.number, opened_s=opened_s)
    for each in result.published:
        if each.operation is Operation.CREATED and each.number is not None:
            yield OpenPullRequest(group=each.group, number=each.number, opened_s=now_s)


def _counts(traffic: Mapping[str, HostTraffic]) -> Mapping[str, tuple[int, int]]:
    return {host: (each.requests, each.failures) for host, each in traffic.items()}
