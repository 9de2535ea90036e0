"""`metrics`: how much must be seen of a variant before it changes."""

from collections.abc import Callable, Iterator
from typing import Self

from pydantic import model_validator

from reconciler.domain.rules import MetricsRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Count, Duration, Percentage
from reconciler.policy.subjects import Forecast, Range, Subject, as_now

MINUTE_S, MS = 60.0, 1000.0


class MetricsSection(KindSection):
    """How much must be seen of a variant before it changes; what is missing or stale holds it without any rule."""

    min_reporting: Percentage | None = None
    """the share of its replicas that report, like 80%"""
    max_age: Duration | None = None
    """a duration like 1m: its newest sample is not older"""
    min_samples: Count | None = None
    """requests that its load was measured by"""
    min_coverage: Percentage | None = None
    """the share of the last payback in which its load is known, like 90%"""
    max_disagreement: Percentage | None = None
    """how far its latencies are at most from the forecast of its last merge, like 30%"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("expected minReporting, maxAge, minSamples, minCoverage or maxDisagreement")
        return self

    def asks(self) -> MetricsRule:
        return MetricsRule(
            reporting=self.min_reporting,
            age_s=self.max_age,
            requests=self.min_samples,
            coverage=self.min_coverage,
            disagreement=self.max_disagreement,
        )


def _limit(asks: MetricsRule, subject: Subject) -> Range | None:
    for lack in LACKS:
        words = next(lack(asks, subject), "")
        if words:
            return as_now(subject, words)
    return None


def _reporting(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    now, reporting = subject.current.replicas, subject.reporting
    if asks.reporting is not None and reporting is not None and reporting < asks.reporting * now - 1e-9:
        yield f"{reporting} of {now} replicas report, {asks.reporting * 100:g} % are to"


def _age(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    age_s = subject.evidence.age_s
    if asks.age_s is not None and age_s is not None and age_s > asks.age_s:
        yield f"its last sample is {age_s:.0f} s old, {asks.age_s:.0f} s are allowed"


def _samples(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    requests, minutes = subject.evidence.requests, subject.evidence.window_s / MINUTE_S
    if asks.requests is not None and requests is not None and requests < asks.requests:
        yield f"its load is that of {requests:.0f} requests in {minutes:g} minutes, {asks.requests} are to be seen"


def _coverage(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    known, minutes = subject.evidence.known, subject.evidence.past_s / MINUTE_S
    if asks.coverage is not None and known is not None and known < asks.coverage - 1e-9:
        told = f"of the last {minutes:g} minutes {known * 100:.0f} % are known"
        yield f"{told}, {asks.coverage * 100:g} % are to be"


def _disagreement(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    if asks.disagreement is not None:
        most = asks.disagreement
        wrong = (each for each in subject.evidence.forecasts if _off(each) > max(most, each.noise))
        for each in wrong:
            mean = f"its mean {each.name.upper() if each.name != 'wait' else 'wait'}"
            forecast = f"{each.measured_s * MS:.3g} ms, #{each.number} forecast {each.forecast_s * MS:.3g} ms"
            yield f"{mean} is {forecast}: {_off(each) * 100:.0f} % apart, {most * 100:g} % are allowed"


def _off(forecast: Forecast) -> float:
    return abs(forecast.measured_s / forecast.forecast_s - 1)


LACKS: tuple[Callable[[MetricsRule, Subject], Iterator[str]], ...] = (
    _reporting,
    _age,
    _samples,
    _coverage,
    _disagreement,
)


METRICS = RuleKind(name="metrics", asks=MetricsRule, section=MetricsSection, limit=_limit)
