"""Profiles that contradict what their replicas did: nothing is proposed on what they expect."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconciler.decision.engines.queueing.capacities import SizingRow, forecast
from reconciler.decision.law_targets import targets_under
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.measured.loads import Load
from reconciler.domain.profiles import DECODE_ONLY
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.units import ms_from_seconds
from reconciler.domain.variant_settings import START_DELAY_S, SYNC_DELAY_S
from reconciler.metrics.queries import HISTORY_S
from reconciler.sizing.learning.contradiction import (
    Contradiction,
    Forecast,
    Measure,
    Stretch,
    find_contradiction,
    loads_beside,
    stretches_of,
)
from reconciler.sizing.learning.correction import correct


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """What a replica did in a stretch, and the row that forecasts it."""

    stretch: Stretch
    row: SizingRow


def find_contradictions(snapshot: Snapshot, variants: Iterable[Variant]) -> dict[ResourceKey, Hold]:
    """Why the profile of what a variant runs on is not believed, all compared at once.

    After a commit, replicas may have run on what the variant ran on before: then what agrees with another accelerator
    that it may run on contradicts nothing.
    """
    variants = tuple(variants)
    holds = _holds([each for variant in variants for each in _compared(snapshot, variant)])
    found: dict[ResourceKey, Hold] = {}
    for variant in variants:
        own = {option.accelerator: holds.get(variant.key.on(option.accelerator)) for option in variant.options}
        others = [hold for accelerator, hold in own.items() if accelerator != variant.current.accelerator]
        hold = own.get(variant.current.accelerator)
        if hold is not None and (_is_settled(snapshot, variant) or None not in others):
            found[variant.key] = hold
    return found


def _is_settled(snapshot: Snapshot, variant: Variant) -> bool:
    """Whether what the newest commit says ran for all the time that is looked at."""
    if snapshot.committed_s is None:
        return False
    delay_s = variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value
    return snapshot.now_s - snapshot.committed_s > delay_s + HISTORY_S


def _holds(compared: Sequence[_Compared]) -> dict[CandidateKey, Hold]:
    """What is contradicted of all that is compared."""
    if not compared:
        return {}
    rows, rates = [each.row for each in compared], np.array([each.stretch.rate_per_s for each in compared])
    forecasts = [forecast(rows, each) for each in (rates, *loads_beside(rates))]
    members: dict[CandidateKey, list[int]] = {}
    for number, each in enumerate(compared):
        members.setdefault(each.row.key, []).append(number)
    holds = {
        key: _hold_of([compared[number] for number in numbers], [_part(each, numbers) for each in forecasts])
        for key, numbers in members.items()
    }
    return {key: hold for key, hold in holds.items() if hold is not None}


def _hold_of(compared: Sequence[_Compared], forecasts: Sequence[Forecast]) -> Hold | None:
    expected, fast, slow = forecasts
    row = compared[0].row
    targets = targets_under(row.profile.law, row.service_class)
    limits_first_token = bool(targets.waits or targets.ttft)
    stretches = [each.stretch for each in compared]
    found = find_contradiction(stretches, expected, fast, slow, limits_first_token=limits_first_token)
    if found is None:
        return None
    words = f"the profile of {row.key.accelerator} contradicts what replicas did: {_words(found)}"
    return Hold(kind=HoldKind.PROFILE_CONTRADICTED, words=words, place=row.profile.place)


def _compared(snapshot: Snapshot, variant: Variant) -> Iterator[_Compared]:
    load, traces = snapshot.observed.loads.get(variant.model), snapshot.observed.traces.get(variant.key, ())
    if variant.service_class is None or not isinstance(load, Load) or not traces:
        return
    known = [(each, beside) for each in stretches_of(traces) if (beside := _load_in(each, load)) is not None]
    for option in variant.options:
        profile, is_current = option.profile, option.accelerator == variant.current.accelerator
        factor = 1.0 if profile.learning is None else correct(traces, profile).factor
        for stretch, beside in known if is_current or not _is_settled(snapshot, variant) else ():
            if profile.law == DECODE_ONLY or beside.input_tokens is not None:
                row = SizingRow(
                    key=variant.key.on(option.accelerator),
                    profile=profile,
                    load=beside,
                    service_class=variant.service_class.value,
                    correction=factor,
                )
                yield _Compared(stretch=stretch, row=row)


def _load_in(stretch: Stretch, load: Load) -> Load | None:
    """The load of a replica in a stretch; lengths that were not measured then are those of now, None without any."""
    output = load.output_tokens if math.isnan(stretch.output_tokens) else stretch.output_tokens
    inputs = load.input_tokens if math.isnan(stretch.input_tokens) else stretch.input_tokens
    if not output > 0:
        return None
    return replace(load, arrival_rate_per_s=stretch.rate_per_s, output_tokens=output, input_tokens=inputs)


def _part(whole: Forecast, part: Sequence[int]) -> Forecast:
    return Forecast(**{name: getattr(whole, name)[list(part)] for name in Forecast.__slots__})


def _words(found: Contradiction) -> str:
    if found.measure is Measure.RATE:
        return f"at most {found.expected:.3g} req/s expected of a replica, {found.measured:.3g} measured"
    return f"{found.measure} {_time(found.expected)} expected, {_time(found.measured)} measured"


def _time(time_s: float) -> str:
    if math.isinf(time_s):
        return "without end"
    return f"{time_s:.4g} s" if time_s >= 1 else f"{ms_from_seconds(time_s):.3g} ms"
