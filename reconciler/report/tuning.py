"""Other settings of autoscalers, in words: what changes, what it would have done on the last days, what was tried."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import TuningEvidence
from reconciler.report.formatting import cost, count, one_line
from reconciler.report.rows import verdict_text

WORTH_NAMING = 0.005
"""Below half a cent an hour a saving is not worth a sentence."""
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One field: what holds before and after, be it a default.

    `metric` is the name of the one whose target it is; may be empty.
    """

    field: str
    metric: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRow:
    """One autoscaler with its fields, and why.

    `together` says of how many autoscalers the figures are, empty of one; `tried` were on the days `fitted`. `limit`
    says why more replicas at most would be needed than are allowed, `shortage` that all may take more devices than are
    there now; may be empty. `days` are the replicas of one day hour by hour, with the present setting and the new one;
    empty where that is not known. `bars` are the same in characters, the highest of which is `top`.
    """

    variant: str
    fields: tuple[SettingRow, ...]
    headline: str
    left_out: str
    together: str
    steps: tuple[str, ...]
    tried: tuple[str, ...]
    fitted: str
    limit: str
    shortage: str
    days: tuple[tuple[str, ...], ...]
    bars: tuple[str, ...]
    highest: str
    top: str


def tuning_rows(changes: Iterable[Decision], labels: Mapping[ResourceKey, str]) -> Iterator[TuningRow]:
    """A row for each change of a setting."""
    for change in changes:
        if not change.is_tuning:
            continue
        evidence = change.tuning
        days = () if evidence is None else tuple(day for day in evidence.day if day)
        most = max((max(day) for day in days), default=0.0)
        yield TuningRow(
            variant=labels[change.variant],
            fields=tuple(
                SettingRow(
                    field=each.field,
                    metric=one_line(each.metric),
                    before=one_line(each.displaced),
                    after=one_line(each.becomes),
                )
                for each in change.setting_changes
            ),
            headline="" if evidence is None else headline(evidence),
            left_out="" if evidence is None else _left_out(evidence),
            together=_together(evidence),
            steps=() if evidence is None else tuple(map(one_line, evidence.steps)),
            tried=() if evidence is None else tuple(map(one_line, evidence.tried)),
            fitted="" if evidence is None else count(round(evidence.days) - evidence.left_out, "day"),
            limit="" if evidence is None else one_line(evidence.limit),
            shortage="" if evidence is None else one_line(evidence.shortage),
            days=tuple(tuple(f"{value:.4g}" for value in day) for day in days),
            bars=tuple(
                "".join(BARS[min(len(BARS) - 1, int(value / (most or 1.0) * len(BARS)))] for value in day)
                for day in days
            ),
            highest=f"{1.1 * most:.4g}",
            top=f"{most:.4g}",
        )


def in_brief(row: TuningRow) -> TuningRow:
    """The same without its day and other settings: the fields, what they would have done, and what limits them."""
    return replace(row, days=(), bars=(), steps=(), tried=())


def tuning_lines(changes: Iterable[Decision], labels: Mapping[ResourceKey, str]) -> Iterator[str]:
    """`llm/phi: minimum 6 → 2, target of running 40 → 52; on your last 14 days: ...; needs approval`, one a change."""
    for change in changes:
        if change.is_tuning:
            fields = (f"{each.name} {each.displaced or 'unset'} → {each.becomes or 'unset'}"
                      for each in change.setting_changes)  # fmt: skip
            simulated = "" if change.tuning is None else headline(change.tuning)
            told = ", ".join(fields), simulated, verdict_text(change.verdict)
            yield f"{labels[change.variant]}: {'; '.join(filter(None, told))}"


def headline(evidence: TuningEvidence) -> str:
    """`on your last 14 days: -18 % cost, attainment 97.9 -> 99.2 %, starts 41 -> 30 a day`."""
    starts = " → ".join(f"{each:.3g}" for each in evidence.starts_per_day)
    return (
        f"on your last {evidence.days:.0f} days: {_signed(evidence.cost_change)} cost, attainment "
        f"{_attainment(evidence.attainment)}" + (f", starts {starts} a day" if starts else "")
    )


def _left_out(evidence: TuningEvidence) -> str:
    if not evidence.left_out:
        return ""
    days = count(evidence.left_out, "day")
    return (
        f"on the {days} it was not fitted on: {_signed(evidence.left_out_cost_change)} cost, attainment "
        f"{_attainment(evidence.left_out_attainment)}"
    )


def _together(evidence: TuningEvidence | None) -> str:
    if evidence is None or evidence.members < 2 or not evidence.left_out:
        return ""
    return f"All figures are of the {evidence.members} autoscalers together that get this setting"


def _signed(fraction: float) -> str:
    return f"{'−' if fraction < 0 else '+'}{100 * abs(fraction):.0f} %"


def _attainment(both: Iterable[float]) -> str:
    return " → ".join(f"{100 * each:.1f}" for each in both) + " %"


def tuning_total(decisions: Iterable[Decision], currency: str) -> str:
    """`Tuning these 7 would save 31.00 USD/h.`; empty without a change of a setting that saves."""
    tuned = [each for each in decisions if each.is_tuning]
    saved = [each.tuning.saves_per_hour for each in tuned if each.tuning is not None]
    known = [each for each in saved if each is not None]
    total = sum(known)
    if not tuned or len(known) < len(tuned) or total < WORTH_NAMING:
        return ""
    these = "this autoscaler" if len(tuned) == 1 else f"these {len(tuned)} autoscalers"
    return f"Tuning {these} would save {cost(total)} {currency}/h."
